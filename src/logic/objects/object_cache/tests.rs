//! Tables and a property of the object cache.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(ObjectKind::ConfigMap, "ns", name)
}

fn object(version: u64, immutable: bool) -> Object {
    let metadata = json!({ "name": "cm", "namespace": "ns", "resourceVersion": version.to_string() });
    let object = json!({ "metadata": metadata, "immutable": immutable });
    Object::ConfigMap(Arc::new(serde_json::from_value(object).unwrap()))
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn cache(detection: ChangeDetection) -> ObjectCache {
    ObjectCache::new(detection, at(60))
}

fn changed(pod: &str, names: &[&str]) -> Input {
    Input::PodChanged(PodUid::from(pod), names.iter().map(|name| key(name)).collect())
}

fn read(answer: Answer) -> Input {
    Input::Read(ReadFor { key: key("cm"), question: None }, answer, TTL)
}

fn heard(object: Option<Object>) -> Input {
    Input::Heard(key("cm"), Heard::Is(object))
}

fn words_of(order: &Order) -> String {
    match order {
        Order::Watch(key) => format!("watch {}", key.name),
        Order::Unwatch(key) => format!("unwatch {}", key.name),
        Order::Read { read, cached } => {
            format!("read {}{}", read.key.name, if *cached { " from cache" } else { "" })
        }
        Order::Wait(question) => format!("{question} waits"),
        Order::Answer(question, Ok(object)) => format!("{question} is {}", object.version().unwrap_or_default()),
        Order::Answer(question, Err(error)) => format!("{question}: {error}"),
        Order::Changed(pods) => {
            format!("changed for {}", pods.iter().map(PodUid::as_str).collect::<Vec<_>>().join(" "))
        }
    }
}

/// Plays these at these seconds; says what was ordered at each.
fn play(cache: &mut ObjectCache, script: Vec<(u64, Input, &[&str])>) {
    for (index, (seconds, input, expected)) in script.into_iter().enumerate() {
        let text = format!("{index}: {input:?}");
        let orders: Vec<String> = cache.step(input, at(seconds)).iter().map(words_of).collect();
        assert_eq!(orders, expected, "{text}");
    }
}

#[test]
fn an_object_is_watched_from_its_first_use_until_no_pod_refers_to_it() {
    let mut cache = cache(ChangeDetection::Watch);
    play(
        &mut cache,
        vec![
            (0, changed("a", &["cm"]), &[]),
            (0, Input::Asked(1, key("cm")), &["watch cm", "1 waits"]),
            (0, Input::Asked(2, key("cm")), &["2 waits"]),
            (0, heard(None), &["1: configmap \"cm\" not found", "2: configmap \"cm\" not found"]),
            (1, Input::Asked(3, key("cm")), &["3: configmap \"cm\" not found"]),
            (1, heard(Some(object(7, false))), &["changed for a"]),
            (1, heard(Some(object(7, false))), &[]),
            (2, Input::Asked(4, key("cm")), &["4 is 7"]),
            (2, changed("b", &["cm", "other"]), &[]),
            (3, Input::PodGone("a".into()), &[]),
            (3, heard(Some(object(8, false))), &["changed for b"]),
            (3, Input::Asked(5, key("cm")), &["5 is 8"]),
            (4, changed("b", &["other"]), &["unwatch cm"]),
            (4, Input::Asked(6, key("cm")), &["6: object \"ns\"/\"cm\" not registered"]),
            (4, heard(Some(object(9, false))), &[]),
            (5, Input::PodGone("b".into()), &[]),
        ],
    );
    assert_eq!((cache.watches(), cache.objects().count()), (0, 0));
}

#[test]
fn who_waits_too_long_is_told_why_nothing_was_heard() {
    let forbidden = || Heard::Trouble(ObjectError::Forbidden("configmaps \"cm\" is forbidden".into()));
    let plain = "object \"ns\"/\"cm\": failed to sync configmap cache: timed out waiting for the condition";
    play(
        &mut cache(ChangeDetection::Watch),
        vec![
            (0, changed("a", &["cm"]), &[]),
            (0, Input::Asked(1, key("cm")), &["watch cm", "1 waits"]),
            (2, Input::TooLate(1), &[&format!("1: {plain}")]),
            (2, Input::TooLate(1), &[]),
            (3, Input::Heard(key("cm"), forbidden()), &[]),
            (3, Input::Asked(2, key("cm")), &["2 waits"]),
            (5, Input::TooLate(2), &[&format!("2: {plain}: configmaps \"cm\" is forbidden")]),
            (6, Input::Asked(3, key("cm")), &["3 waits"]),
            (6, heard(Some(object(1, false))), &["3 is 1", "changed for a"]),
            (6, heard(Some(object(1, false))), &[]),
            (7, Input::Heard(key("cm"), forbidden()), &[]),
            (7, Input::Asked(4, key("cm")), &["4 is 1"]),
            (8, Input::PodGone("a".into()), &["unwatch cm"]),
        ],
    );
}

#[test]
fn who_waits_for_an_object_of_a_pod_that_goes_is_told() {
    play(
        &mut cache(ChangeDetection::Watch),
        vec![
            (0, changed("a", &["cm"]), &[]),
            (0, Input::Asked(1, key("cm")), &["watch cm", "1 waits"]),
            (1, Input::PodGone("a".into()), &["unwatch cm", "1: object \"ns\"/\"cm\" not registered"]),
        ],
    );
}

#[test]
fn an_immutable_object_is_not_watched_any_more() {
    play(
        &mut cache(ChangeDetection::Watch),
        vec![
            (0, changed("a", &["cm"]), &[]),
            (0, Input::Asked(1, key("cm")), &["watch cm", "1 waits"]),
            (0, heard(Some(object(7, true))), &["1 is 7", "unwatch cm"]),
            (9, Input::Asked(2, key("cm")), &["2 is 7"]),
            (9, Input::SweepDue, &[]),
            (9, Input::PodGone("a".into()), &[]),
        ],
    );
}

#[test]
fn a_watch_that_nobody_asks_about_ends_and_begins_again() {
    play(
        &mut cache(ChangeDetection::Watch),
        vec![
            (0, changed("a", &["cm"]), &[]),
            (0, Input::Asked(1, key("cm")), &["watch cm", "1 waits"]),
            (400, Input::SweepDue, &[]),
            (400, heard(Some(object(7, false))), &["1 is 7"]),
            (410, Input::Asked(2, key("cm")), &["2 is 7"]),
            (700, Input::SweepDue, &[]),
            (711, Input::SweepDue, &["unwatch cm"]),
            (720, Input::Asked(3, key("cm")), &["watch cm", "3 waits"]),
        ],
    );
}

/// The sources of a pod's variables are still known when its container starts again while the API server is away.
#[test]
fn what_was_heard_before_a_rest_stands_while_nothing_newer_is_heard() {
    let trouble = |error| Input::Heard(key("cm"), Heard::Trouble(error));
    let away = || trouble(ObjectError::Unavailable("no route to host".into()));
    let never =
        "object \"ns\"/\"cm\": failed to sync configmap cache: timed out waiting for the condition: no longer yours";
    let mut cache = cache(ChangeDetection::Watch);
    play(
        &mut cache,
        vec![
            (0, changed("a", &["cm"]), &[]),
            (0, Input::Asked(1, key("cm")), &["watch cm", "1 waits"]),
            (0, heard(Some(object(7, false))), &["1 is 7"]),
            (400, Input::SweepDue, &["unwatch cm"]),
            (500, Input::Asked(2, key("cm")), &["watch cm", "2 waits"]),
            (502, Input::TooLate(2), &["2 is 7"]),
            (503, away(), &[]),
            (504, Input::Asked(3, key("cm")), &["3 is 7"]),
            // Another rest without a word takes nothing away.
            (900, Input::SweepDue, &["unwatch cm"]),
            (910, Input::Asked(4, key("cm")), &["watch cm", "4 waits"]),
            (911, away(), &[]),
            (912, Input::TooLate(4), &["4 is 7"]),
            (920, heard(Some(object(8, false))), &["changed for a"]),
            (920, Input::Asked(5, key("cm")), &["5 is 8"]),
        ],
    );
    play(
        &mut cache,
        vec![
            (1400, Input::SweepDue, &["unwatch cm"]),
            (1500, Input::Asked(6, key("cm")), &["watch cm", "6 waits"]),
            (1501, trouble(ObjectError::Forbidden("no longer yours".into())), &[]),
            (1502, Input::TooLate(6), &[&format!("6: {never}")]),
            (1503, heard(None), &["changed for a"]),
            (1504, Input::Asked(7, key("cm")), &["7: configmap \"cm\" not found"]),
        ],
    );
}

#[test]
fn a_read_object_is_read_again_when_it_is_old_or_a_pod_is_new() {
    let missing = || ObjectError::NotFound("configmaps \"cm\" not found".into());
    let trouble = || ObjectError::Unavailable("no route to host".into());
    play(
        &mut cache(ChangeDetection::Cache),
        vec![
            (0, changed("a", &["cm"]), &[]),
            (0, Input::Asked(1, key("cm")), &["read cm"]),
            (0, Input::Asked(2, key("cm")), &[]),
            (1, read(Ok(object(7, false))), &["1 is 7", "2 is 7"]),
            (60, Input::Asked(3, key("cm")), &["3 is 7"]),
            (61, Input::Asked(4, key("cm")), &["read cm from cache"]),
            // The server's cache may be behind.
            (61, read(Ok(object(6, false))), &["4 is 7"]),
            (62, changed("b", &["cm"]), &[]),
            (62, Input::Asked(5, key("cm")), &["read cm"]),
            (62, changed("c", &["cm"]), &[]),
            (62, read(Ok(object(8, false))), &["read cm"]),
            (63, read(Ok(object(9, false))), &["5 is 9"]),
            (130, Input::Asked(6, key("cm")), &["read cm from cache"]),
            (130, read(Err(trouble())), &["6 is 9"]),
            // Trouble makes nothing fresh.
            (131, Input::Asked(10, key("cm")), &["read cm from cache"]),
            (131, read(Ok(object(9, false))), &["10 is 9"]),
            (200, Input::Asked(7, key("cm")), &["read cm from cache"]),
            (200, read(Err(missing())), &["7: configmaps \"cm\" not found"]),
            (201, Input::Asked(8, key("cm")), &["read cm"]),
            (201, read(Err(trouble())), &["8: no route to host"]),
            (202, Input::Asked(11, key("cm")), &["read cm"]),
            (202, read(Ok(object(9, false))), &["11 is 9"]),
            // A new pod does not get content that is older than itself.
            (203, changed("d", &["cm"]), &[]),
            (203, Input::Asked(12, key("cm")), &["read cm"]),
            (203, read(Err(trouble())), &["12: no route to host"]),
        ],
    );
}

#[test]
fn each_question_is_a_read_of_its_own_where_nothing_is_kept() {
    let own = |question| ReadFor { key: key("cm"), question: Some(question) };
    play(
        &mut cache(ChangeDetection::Get),
        vec![
            (0, Input::Asked(1, key("cm")), &["read cm"]),
            (0, Input::Asked(2, key("cm")), &["read cm"]),
            (1, Input::Read(own(2), Ok(object(2, false)), TTL), &["2 is 2"]),
            (1, Input::Read(own(1), Ok(object(1, false)), TTL), &["1 is 1"]),
        ],
    );
}

/// PAIN-03: a store that was restored from a copy gives versions once more, and lower ones.
#[test]
fn a_version_that_was_given_before_may_be_of_another_state() {
    let other = |version: u64| {
        let object =
            json!({ "metadata": { "name": "cm", "resourceVersion": version.to_string() }, "data": { "a": "b" } });
        Object::ConfigMap(Arc::new(serde_json::from_value(object).unwrap()))
    };
    play(
        &mut cache(ChangeDetection::Watch),
        vec![
            (0, changed("a", &["cm"]), &[]),
            (0, Input::Asked(1, key("cm")), &["watch cm", "1 waits"]),
            (0, heard(Some(object(7, false))), &["1 is 7"]),
            (1, heard(Some(other(7))), &["changed for a"]),
            (1, heard(Some(other(3))), &["changed for a"]),
            (2, Input::Asked(2, key("cm")), &["2 is 3"]),
        ],
    );
    play(
        &mut cache(ChangeDetection::Cache),
        vec![
            (0, changed("a", &["cm"]), &[]),
            (0, Input::Asked(1, key("cm")), &["read cm"]),
            (0, read(Ok(object(7, false))), &["1 is 7"]),
            (61, Input::Asked(2, key("cm")), &["read cm from cache"]),
            (61, read(Ok(other(3))), &["2 is 7"]),
            // The cache may have been behind, or the store restored: the store itself knows.
            (62, Input::Asked(3, key("cm")), &["read cm"]),
            (62, read(Ok(other(3))), &["3 is 3"]),
            (63, Input::Asked(4, key("cm")), &["4 is 3"]),
        ],
    );
}

/// CVE-2020-8566, SEC-40: no Secret is in a line of the log, whatever kind of volume it is for.
#[test]
fn cve_2020_8566_a_secret_is_not_printed() {
    let secret = json!({ "metadata": { "name": "s" }, "stringData": { "password": "hunter2" } });
    let shown = format!("{:?}", Object::Secret(Arc::new(serde_json::from_value(secret).unwrap())));
    assert_eq!(shown, "secret s");
}

#[test]
fn strategies_have_the_words_of_the_configuration() {
    for (word, expected) in
        [("Watch", ChangeDetection::Watch), ("Cache", ChangeDetection::Cache), ("Get", ChangeDetection::Get)]
    {
        assert_eq!(ChangeDetection::from_config(word), expected);
    }
}

#[derive(Clone, Debug)]
enum Move {
    Changed(u8, BTreeSet<u8>),
    Gone(u8),
    Asked(u8),
    Late(u64),
    Heard(u8, bool, bool),
    Read(u8, bool),
    Sweep,
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        (0..3_u8, proptest::collection::btree_set(0..3_u8, 0..3)).prop_map(|(pod, names)| Move::Changed(pod, names)),
        (0..3_u8).prop_map(Move::Gone),
        (0..3_u8).prop_map(Move::Asked),
        (0..20_u64).prop_map(Move::Late),
        (0..3_u8, any::<bool>(), any::<bool>()).prop_map(|(name, there, last)| Move::Heard(name, there, last)),
        (0..3_u8, any::<bool>()).prop_map(|(name, there)| Move::Read(name, there)),
        Just(Move::Sweep),
    ]
}

proptest! {
    #[test]
    fn only_what_a_pod_refers_to_is_watched_and_every_question_ends(
        moves in proptest::collection::vec(a_move(), 1..60), reads in any::<bool>(),
    ) {
        let mut cache = cache(if reads { ChangeDetection::Cache } else { ChangeDetection::Watch });
        let (mut watched, mut open) = (BTreeSet::new(), BTreeSet::new());
        let mut asked = 0;
        let name = |number: u8| key(&number.to_string());
        let all: Vec<Move> = moves.into_iter().chain((0..3).map(Move::Gone)).collect();
        for (second, step) in all.into_iter().enumerate() {
            let input = match step {
                Move::Changed(pod, names) => {
                    let names = names.into_iter().map(name).collect();
                    Input::PodChanged(PodUid::from(pod.to_string().as_str()), names)
                }
                Move::Gone(pod) => Input::PodGone(PodUid::from(pod.to_string().as_str())),
                Move::Asked(of) => {
                    asked += 1;
                    open.insert(asked);
                    Input::Asked(asked, name(of))
                }
                Move::Late(question) => Input::TooLate(question),
                Move::Heard(of, there, last) => Input::Heard(name(of), Heard::Is(there.then(|| object(1, last)))),
                Move::Read(of, there) => {
                    let missing = || ObjectError::NotFound(String::new());
                    let answer = there.then(|| object(1, false)).ok_or_else(missing);
                    Input::Read(ReadFor { key: name(of), question: None }, answer, TTL)
                }
                Move::Sweep => Input::SweepDue,
            };
            for order in cache.step(input, at(second as u64 * 100)) {
                match order {
                    Order::Watch(key) => prop_assert!(watched.insert(key), "watched twice"),
                    Order::Unwatch(key) => prop_assert!(watched.remove(&key), "not watched"),
                    Order::Answer(question, _) => prop_assert!(open.remove(&question), "answered twice"),
                    Order::Changed(pods) => prop_assert!(!pods.is_empty()),
                    Order::Wait(question) => prop_assert!(open.contains(&question)),
                    Order::Read { .. } => prop_assert!(reads),
                }
            }
            prop_assert_eq!(cache.watches(), watched.len());
        }
        prop_assert!(watched.is_empty(), "no pod is left");
        prop_assert!(open.is_empty(), "no pod is left, so nobody waits: {open:?}");
    }
}
