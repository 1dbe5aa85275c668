//! Tests of which pods have a worker, and what each one hears.

use super::*;

mod changes;
mod deletion;
mod names;
mod properties;
mod repeats;
mod sources;

/// A runtime that holds nothing.
const NOTHING: &BTreeMap<PodUid, FullName> = &BTreeMap::new();

/// The runtime's pods: UID and name.
fn held(pods: &[(&str, &str)]) -> BTreeMap<PodUid, FullName> {
    pods.iter().map(|(uid, name)| (PodUid::from(*uid), FullName::new(name, "default"))).collect()
}

fn tell(uid: &str, pod: &Arc<Pod>) -> Order {
    Order::TellSpec { uid: uid.into(), pod: Arc::clone(pod) }
}

fn end(uid: &str, grace: Option<u64>) -> Order {
    Order::Terminate { uid: uid.into(), grace: grace.map(Duration::from_secs) }
}

fn start(uid: &str, name: &str) -> Order {
    Order::Start { uid: uid.into(), full_name: FullName::new(name, "default") }
}

fn pod(name: &str, image: &str) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    pod.metadata.labels = Some([("image".to_owned(), image.to_owned())].into());
    pod.metadata.annotations = Some([(CONFIG_SOURCE_ANNOTATION.to_owned(), "file".to_owned())].into());
    Arc::new(pod)
}

fn set(pods: &[(&str, &Arc<Pod>)]) -> BTreeMap<PodUid, Arc<Pod>> {
    pods.iter().map(|(uid, pod)| (PodUid::from(*uid), Arc::clone(pod))).collect()
}

fn started(orders: &[Order]) -> Vec<&str> {
    let start = |order: &Order| matches!(order, Order::Start { .. });
    orders
        .iter()
        .filter(|order| start(order))
        .map(|order| match order {
            Order::Start { uid, .. } => uid.as_str(),
            _ => unreachable!("filtered"),
        })
        .collect()
}

/// PAIN-10.
#[test]
fn what_is_remembered_is_started_and_ends_nothing_until_the_api_server_is_heard() {
    let known = BTreeMap::from([(PodUid::from("newer"), FullName::new("newer", "default"))]);
    let mut roster = PodRoster::new(["file", API_SOURCE]);
    roster.set("file", BTreeMap::new());
    roster.remember(set(&[("1", &pod("web", "a")), ("2", &pod("gone", "a"))]));
    let orders = roster.orders(Some(&known));
    assert_eq!(started(&orders), ["1", "2"]);
    assert!(!orders.iter().any(|order| matches!(order, Order::Terminate { .. })), "{orders:?}");
    assert_eq!(roster.orders(Some(&known)), [], "once");
    roster.set(API_SOURCE, set(&[("1", &pod("web", "a"))]));
    let ended: Vec<_> = roster.orders(Some(&known)).into_iter().map(|order| format!("{order:?}")).collect();
    assert!(ended.iter().any(|order| order.contains("Terminate") && order.contains("uid: 2,")), "{ended:?}");
    assert!(ended.iter().any(|order| order.contains("Terminate") && order.contains("newer")), "{ended:?}");
    assert!(!ended.iter().any(|order| order.contains("uid: 1,")), "{ended:?}");
    roster.remember(set(&[("3", &pod("late", "a"))]));
    assert!(roster.wanted(&PodUid::from("3")).is_none(), "the API server has spoken");
}

/// POD-09: nothing between the sets tells that the pod was not wanted in between; its life does. A source that knows of
/// no lives, such as a source that was started again, ends none.
#[test]
fn a_pod_of_another_life_ends_and_is_started_anew() {
    let mut roster = PodRoster::new(["file"]);
    let uid = PodUid::from("u1");
    let lives = |life: u64| BTreeMap::from([(uid.clone(), Stamp(life))]);
    roster.set("file", set(&[("u1", &pod("web", "a"))]));
    assert_eq!(started(&roster.orders(Some(&BTreeMap::new()))), ["u1"]);
    for life in [7, 9] {
        roster.set_lives("file", lives(life));
        let orders = roster.orders(Some(&BTreeMap::new()));
        assert_eq!(orders, [Order::Terminate { uid: uid.clone(), grace: None }]);
        assert_eq!(roster.orders(Some(&BTreeMap::new())), [], "once");
        roster.finished(&uid);
        assert_eq!(started(&roster.orders(Some(&BTreeMap::new()))), ["u1"]);
        assert_eq!(roster.orders(Some(&BTreeMap::new())), [], "it is of this life");
        roster.set_lives("file", BTreeMap::new());
        assert_eq!(roster.orders(Some(&BTreeMap::new())), []);
    }
}

/// POD-07: what an actor that fell knew of a pod's end is not what ended the pod that is wanted now.
#[test]
fn what_is_left_of_a_former_life_ends_first() {
    let uid = PodUid::from("u1");
    let held: BTreeMap<_, _> = [(uid.clone(), FullName::new("web", "default"))].into();
    let life = |since: Option<u64>, is_ending| Some(WorkerLife { since: since.map(Stamp), is_ending });
    // The life that the predecessor's worker looked after, the wanted one, what the runtime holds, and whether that ends.
    let cases = [
        (life(None, false), Some(7), &held, true),
        (life(Some(7), false), Some(7), &held, false),
        (life(Some(7), false), Some(9), &held, true),
        (life(None, false), Some(7), &BTreeMap::new(), false),
        (life(Some(7), false), None, &held, false),
        (life(None, true), None, &held, true),
        (life(None, true), None, &BTreeMap::new(), false),
        (None, Some(7), &held, false),
    ];
    for (before, wanted, runtime, ends) in cases {
        let inherited = before.map(|life| (uid.clone(), life)).into_iter().collect();
        let mut roster = PodRoster::new(["file"]).with_inherited(inherited);
        roster.set("file", set(&[("u1", &pod("web", "a"))]));
        roster.set_lives("file", wanted.map(|life| (uid.clone(), Stamp(life))).into_iter().collect());
        let orders = roster.orders(Some(runtime));
        assert_eq!(started(&orders), ["u1"]);
        let end = Order::Terminate { uid: uid.clone(), grace: None };
        assert_eq!(orders.contains(&end), ends, "{before:?}, then {wanted:?}");
        assert_eq!(roster.orders(Some(runtime)), [], "once");
        if ends {
            roster.finished(&uid);
            assert_eq!(started(&roster.orders(Some(runtime))), ["u1"]);
            assert_eq!(roster.orders(Some(runtime)), [], "it is of the wanted life");
        }
    }
}

/// POD-04.
#[test]
fn a_wanted_pod_is_started_once_and_told_only_changes() {
    let mut roster = PodRoster::new(["file"]);
    let web = pod("web", "a");
    roster.set("file", set(&[("u1", &web)]));
    assert_eq!(started(&roster.orders(Some(&BTreeMap::new()))), ["u1"]);
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![]);
    let newer = pod("web", "b");
    roster.set("file", set(&[("u1", &newer)]));
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![Order::TellSpec { uid: "u1".into(), pod: newer }]);
}

/// VOL-05.
#[test]
fn nothing_ends_before_all_sources_were_heard() {
    let mut roster = PodRoster::new(["file", "http"]);
    let runtime: BTreeMap<_, _> = [(PodUid::from("old"), FullName::new("old", "default"))].into();
    roster.set("file", BTreeMap::new());
    assert_eq!(roster.orders(Some(&runtime)), vec![]);
    roster.set("http", BTreeMap::new());
    let orders = roster.orders(Some(&runtime));
    assert_eq!(started(&orders), ["old"]);
    assert_eq!(orders[1], Order::Terminate { uid: "old".into(), grace: Some(ORPHAN_GRACE) });
    assert_eq!(roster.orders(Some(&runtime)), vec![]);
}

#[test]
fn a_pod_of_a_name_in_use_waits_for_the_other_to_finish() {
    let mut roster = PodRoster::new(["file"]);
    let (first, second) = (pod("web", "a"), pod("web", "b"));
    roster.set("file", set(&[("u1", &first)]));
    roster.orders(Some(&BTreeMap::new()));
    roster.set("file", set(&[("u2", &second)]));
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![Order::Terminate { uid: "u1".into(), grace: None }]);
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![]);
    roster.finished(&"u1".into());
    assert_eq!(started(&roster.orders(Some(&BTreeMap::new()))), ["u2"]);
}

#[test]
fn a_pod_wanted_again_while_it_ends_ends_first() {
    let mut roster = PodRoster::new(["file"]);
    let web = pod("web", "a");
    roster.set("file", set(&[("u1", &web)]));
    roster.orders(Some(&BTreeMap::new()));
    roster.set("file", BTreeMap::new());
    assert_eq!(roster.orders(Some(&BTreeMap::new())).len(), 1);
    roster.set("file", set(&[("u1", &web)]));
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![]);
    roster.finished(&"u1".into());
    assert_eq!(started(&roster.orders(Some(&BTreeMap::new()))), ["u1"]);
}

/// POD-09, POD-14: what is left of a pod keeps nobody from its name; under its own UID it comes back once all of it is gone.
#[test]
fn a_pod_that_is_over_holds_up_nobody_of_its_name() {
    let mut roster = PodRoster::new(["file"]);
    let (first, second) = (pod("web", "a"), pod("web", "b"));
    let runtime: BTreeMap<_, _> = [(PodUid::from("u1"), FullName::new("web", "default"))].into();
    roster.set("file", set(&[("u1", &first)]));
    roster.orders(Some(&runtime));
    roster.set("file", set(&[("u2", &second)]));
    roster.orders(Some(&runtime));
    assert_eq!(roster.ending_statics(&runtime).len(), 1);
    assert!(roster.over(&"u1".into()) && !roster.over(&"u1".into()), "news once");
    assert!(roster.is_left_over(&"u1".into()));
    assert!(roster.ending_statics(&runtime).is_empty());
    assert_eq!(started(&roster.orders(Some(&runtime))), ["u2"], "although the runtime holds the other still");
    assert!(roster.known().contains(&PodUid::from("u1")), "its worker removes what is left: nobody else does");
    roster.set("file", set(&[("u1", &first)]));
    let orders = roster.orders(Some(&runtime));
    assert_eq!(orders, vec![Order::Terminate { uid: "u2".into(), grace: None }]);
    roster.over(&"u2".into());
    assert_eq!(roster.orders(Some(&runtime)), vec![]);
    roster.finished(&"u1".into());
    assert_eq!(started(&roster.orders(Some(&BTreeMap::new()))), ["u1"]);
    // A worker that failed meanwhile gets its end again, and is over for everybody else as before.
    roster.finished(&"u2".into());
    roster.set("file", BTreeMap::new());
    roster.orders(Some(&runtime));
    roster.over(&"u1".into());
    roster.forget_told(&"u1".into());
    assert!(roster.is_left_over(&"u1".into()));
    assert_eq!(roster.orders(Some(&runtime)).len(), 2);
}

#[test]
fn a_worker_started_anew_is_told_again_and_an_ending_pod_keeps_its_grace_period() {
    let mut roster = PodRoster::new(["file"]);
    let web = pod("web", "a");
    roster.set("file", set(&[("u1", &web)]));
    roster.orders(Some(&BTreeMap::new()));
    roster.forget_told(&"u1".into());
    let told = Order::TellSpec { uid: "u1".into(), pod: Arc::clone(&web) };
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![told.clone()]);
    roster.set("file", BTreeMap::new());
    roster.orders(Some(&BTreeMap::new()));
    // Wanted again meanwhile: it still ends first.
    roster.set("file", set(&[("u1", &web)]));
    roster.forget_told(&"u1".into());
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![told, Order::Terminate { uid: "u1".into(), grace: None }]);
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![]);
}

#[test]
fn what_a_worker_had_no_room_for_is_an_order_again_and_nothing_else_is() {
    let mut roster = PodRoster::new(["file"]);
    let (web, uid) = (pod("web", "a"), PodUid::from("u1"));
    roster.set("file", set(&[("u1", &web)]));
    roster.orders(Some(&BTreeMap::new()));
    let told = Order::TellSpec { uid: uid.clone(), pod: Arc::clone(&web) };
    let end = Order::Terminate { uid: uid.clone(), grace: None };
    roster.spec_refused(&uid);
    assert!(roster.owes_spec(&uid));
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![told.clone()]);
    assert!(!roster.owes_spec(&uid));
    roster.set("file", BTreeMap::new());
    roster.spec_refused(&uid);
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![told, end.clone()]);
    roster.end_refused(&uid);
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![end]);
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![]);
}

#[test]
fn a_pod_whose_name_the_runtime_still_holds_waits_for_the_orphan() {
    let mut roster = PodRoster::new(["file"]);
    let web = pod("web", "b");
    roster.set("file", set(&[("new", &web)]));
    assert_eq!(roster.orders(None), vec![], "nobody starts before the runtime was listed");
    let runtime: BTreeMap<_, _> = [(PodUid::from("old"), FullName::new("web", "default"))].into();
    assert_eq!(started(&roster.orders(Some(&runtime))), ["old"]);
    roster.finished(&"old".into());
    assert_eq!(started(&roster.orders(Some(&BTreeMap::new()))), ["new"]);
}

/// POD-04: a pod whose status alone changed goes out as before, so that it is kept once.
#[test]
fn what_says_nothing_new_is_told_as_before() {
    let with = |status: serde_json::Value| {
        let mut pod = Pod::clone(&pod("web", "a"));
        pod.status = Some(serde_json::from_value(status).expect("a status"));
        Arc::new(pod)
    };
    let (new, running) = (pod("web", "a"), with(serde_json::json!({"phase": "Running"})));
    assert!(!is_news(&new, &running), "its status alone");
    let taken = serde_json::json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}, "image": "", "imageID": "",
        "ready": true, "restartCount": 0}]);
    assert!(is_news(&new, &with(serde_json::json!({"phase": "Running", "containerStatuses": taken}))), "what it takes");
    assert!(is_news(&new, &with(serde_json::json!({"phase": "Succeeded"}))), "there is room again");
    assert!(is_news(&new, &pod("web", "b")), "it is to be another");
}

/// POD-04: news of one pod lead to the same state as the complete set: both lead to the same orders.
#[test]
fn news_of_one_pod_lead_to_what_the_complete_set_leads_to() {
    let (runtime, web, db) = (BTreeMap::new(), api_pod("web", None), api_pod("db", None));
    let heard = || {
        let mut roster = PodRoster::new(["api", "file"]);
        roster.set("file", BTreeMap::new());
        roster.set("api", set(&[("u1", &web)]));
        roster.orders(Some(&runtime));
        roster
    };
    for (uid, pod, whole) in [
        ("u2", Some(&db), set(&[("u1", &web), ("u2", &db)])),
        ("u1", Some(&api_pod("web", Some(30))), set(&[("u1", &api_pod("web", Some(30)))])),
        ("u1", None, BTreeMap::new()),
        ("u1", Some(&web), set(&[("u1", &web)])),
    ] {
        let (mut one, mut all) = (heard(), heard());
        one.set_pod("api", &uid.into(), pod.cloned());
        all.set("api", whole);
        assert_eq!(one.orders_for(&uid.into(), Some(&runtime)), all.orders(Some(&runtime)), "{uid} {pod:?}");
    }
    let mut unheard = PodRoster::new(["api"]);
    unheard.set_pod("api", &"u1".into(), Some(Arc::clone(&web)));
    assert_eq!(unheard.orders_for(&"u1".into(), Some(&runtime)), vec![], "the complete set is still to come");
}

/// A thousand pods at once are no turn of a thousand starts.
#[test]
fn one_pass_starts_a_bounded_number_of_workers_and_the_next_ones_the_rest() {
    let mut roster = PodRoster::new(["api"]);
    let pods =
        (0..STARTS_MAX * 2 + 1).map(|number| (format!("u{number}").into(), api_pod(&format!("p{number}"), None)));
    roster.set("api", pods.collect());
    let runtime = BTreeMap::new();
    let started = |orders: &[Order]| orders.iter().filter(|order| matches!(order, Order::Start { .. })).count();
    let mut counts = vec![started(&roster.orders(Some(&runtime)))];
    while roster.is_unfinished() {
        assert!(counts.len() < 3, "a refill lets no more start: {counts:?}");
        assert_eq!(roster.orders_held_up(Some(&runtime)), [], "not before the refill");
        roster.refill();
        counts.push(started(&roster.orders_held_up(Some(&runtime))));
    }
    assert_eq!(counts, [STARTS_MAX, STARTS_MAX, 1]);
}

fn api_pod(name: &str, deleted_within: Option<i64>) -> Arc<Pod> {
    let mut pod = Pod::clone(&pod(name, "a"));
    pod.metadata.annotations = Some([(CONFIG_SOURCE_ANNOTATION.to_owned(), API_SOURCE.to_owned())].into());
    if let Some(grace) = deleted_within {
        let epoch = jiff::Timestamp::UNIX_EPOCH;
        pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(epoch));
        pod.metadata.deletion_grace_period_seconds = Some(grace);
    }
    Arc::new(pod)
}

fn graces(orders: &[Order]) -> Vec<Option<u64>> {
    let grace = |order: &Order| match order {
        Order::Terminate { grace, .. } => Some(grace.map(|grace| grace.as_secs())),
        _ => None,
    };
    orders.iter().filter_map(grace).collect()
}

#[test]
fn a_deletion_ends_a_pod_once_and_a_later_one_may_shorten_its_time() {
    let mut roster = PodRoster::new(["api"]);
    roster.set("api", set(&[("u1", &api_pod("web", None))]));
    roster.orders(Some(&BTreeMap::new()));
    roster.set("api", set(&[("u1", &api_pod("web", Some(30)))]));
    assert_eq!(graces(&roster.orders(Some(&BTreeMap::new()))), [Some(30)]);
    roster.set("api", set(&[("u1", &api_pod("web", Some(60)))]));
    assert_eq!(graces(&roster.orders(Some(&BTreeMap::new()))), []);
    roster.set("api", set(&[("u1", &api_pod("web", Some(5)))]));
    assert_eq!(graces(&roster.orders(Some(&BTreeMap::new()))), [Some(5)]);
    roster.finished(&"u1".into());
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![], "it does not come back while the API shows it");
    assert_eq!(roster.ended().len(), 1);
    roster.set("api", BTreeMap::new());
    assert!(roster.ended().is_empty());
}

#[test]
fn a_pod_that_is_over_and_is_not_here_never_comes() {
    let mut roster = PodRoster::new(["api"]);
    roster.set("api", set(&[("u1", &api_pod("web", Some(30)))]));
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![Order::Release("u1".into())]);
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![]);
    assert!(roster.ended().is_empty(), "volumes of it may be there still");
    assert!(roster.released(&"u1".into()));
    assert_eq!(roster.ended().len(), 1);
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![]);
    assert!(!roster.released(&"u1".into()), "once");
    // The runtime shows it after all, before it is released: then it is ended as any other.
    let shown: BTreeMap<_, _> = [(PodUid::from("u2"), FullName::new("late", "default"))].into();
    roster.set("api", set(&[("u2", &api_pod("late", Some(30)))]));
    assert_eq!(roster.orders(Some(&BTreeMap::new())), vec![Order::Release("u2".into())]);
    assert_eq!(started(&roster.orders(Some(&shown))), ["u2"]);
    assert!(!roster.released(&"u2".into()));
    assert!(roster.ended().is_empty());
    // One that the API server has no more is nobody's matter here.
    roster.set("api", set(&[("u3", &api_pod("gone", Some(30)))]));
    roster.orders(Some(&BTreeMap::new()));
    roster.set("api", BTreeMap::new());
    assert!(!roster.released(&"u3".into()));
    // One that the runtime holds ends, as its worker had it last.
    let mut roster = PodRoster::new(["api"]);
    roster.set("api", set(&[("u1", &api_pod("web", Some(30)))]));
    let runtime: BTreeMap<_, _> = [(PodUid::from("u1"), FullName::new("web", "default"))].into();
    let orders = roster.orders(Some(&runtime));
    assert_eq!((started(&orders), graces(&orders)), (vec!["u1"], vec![Some(30)]));
}

/// POD-07: a phase that is an end goes out once, whoever set it; any other is the agent's own.
#[test]
fn the_end_of_a_pod_that_the_api_shows_is_told_once() {
    let in_phase = |phase: &str| {
        let mut pod = Pod::clone(&api_pod("web", None));
        pod.status.get_or_insert_default().phase = Some(phase.to_owned());
        Arc::new(pod)
    };
    let mut roster = PodRoster::new(["api"]);
    let mut told = |pod: &Arc<Pod>| {
        roster.set("api", set(&[("u1", pod)]));
        roster.orders(Some(&BTreeMap::new()))
    };
    assert_eq!(started(&told(&api_pod("web", None))), ["u1"]);
    assert_eq!(told(&in_phase("Running")), []);
    let failed = in_phase("Failed");
    assert_eq!(told(&failed), [Order::TellEnd { uid: "u1".into(), pod: Arc::clone(&failed) }]);
    assert_eq!(told(&failed), []);
    // One that changed besides goes out as it is.
    let mut changed = Pod::clone(&failed);
    changed.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    let changed = Arc::new(changed);
    assert_eq!(told(&changed), [Order::TellSpec { uid: "u1".into(), pod: Arc::clone(&changed) }]);
}

#[test]
fn pods_of_the_api_of_one_name_do_not_wait_for_each_other() {
    let mut roster = PodRoster::new(["api"]);
    roster.set("api", set(&[("u1", &api_pod("web", None))]));
    roster.orders(Some(&BTreeMap::new()));
    roster.set("api", set(&[("u2", &api_pod("web", None))]));
    let orders = roster.orders(Some(&BTreeMap::new()));
    assert_eq!((started(&orders), graces(&orders)), (vec!["u2"], vec![None]));
}

/// POD-33.
#[test]
fn a_pod_that_is_held_starts_once_it_is_let_go() {
    let runtime = BTreeMap::from([(PodUid::from("orphan"), FullName::new("orphan", "default"))]);
    for (uid, other) in [("web", "orphan"), ("orphan", "web")] {
        let mut roster = PodRoster::new(["file"]);
        roster.set("file", set(&[("web", &pod("web", "a"))]));
        roster.hold(Some(PodUid::from(uid)));
        assert_eq!(started(&roster.orders(Some(&runtime))), [other]);
        roster.hold(None);
        assert_eq!(started(&roster.orders(Some(&runtime))), [uid]);
    }
}

#[test]
fn a_pod_that_is_not_decided_yet_is_no_orphan() {
    let mut roster = PodRoster::new([API_SOURCE]);
    roster.set(API_SOURCE, BTreeMap::new());
    let runtime = BTreeMap::from([(PodUid::from("1"), FullName::new("web", "default"))]);
    roster.set_open([PodUid::from("1")].into());
    assert_eq!(roster.orders(Some(&runtime)), []);
    assert_eq!(roster.orders_for(&PodUid::from("1"), Some(&runtime)), []);
    roster.set_open(BTreeSet::new());
    assert_eq!(started(&roster.orders(Some(&runtime))), ["1"], "nobody wants it: a worker ends it");
}
