//! Tests of the trace's forms.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::actors::kit::trace::Cause;
use crate::logic::model::time::Moment;

fn turn(
    id: u64,
    actor: &str,
    message: &'static str,
    pod: Option<&str>,
    cause: Option<u64>,
    origin: &'static str,
) -> Turn {
    Turn {
        id: Stamp(id),
        actor: Arc::from(actor),
        message,
        pod: pod.map(Into::into),
        cause: Cause { turn: cause.map(Stamp), origin },
        began_at: Moment(i64::try_from(id).expect("small") * 1_000_000_000),
        began: Duration::from_secs(id),
        waited: Duration::from_millis(5),
        took: Duration::from_micros(50),
        ending: Ending::Done,
    }
}

/// A pod that appears in a file, another beside it, and a sandbox that is run.
fn tale() -> Vec<Turn> {
    vec![
        turn(1, "FileSource", "LookDue", None, None, "file change"),
        turn(2, "PodManager", "SourceSet", None, Some(1), "turn"),
        turn(3, "PodWorker/shop/web/u1", "SpecChanged", None, Some(2), "turn"),
        turn(4, "PodWorker/shop/other/u2", "SpecChanged", None, Some(2), "turn"),
        turn(5, "PodWorker/shop/web/u1", "JobEnded", None, Some(3), "run sandbox"),
        turn(6, "StatusManager", "StatusChanged", Some("u1"), Some(5), "turn"),
        turn(7, "Prober", "Woken", None, Some(6), "timer"),
        turn(8, "Pleg", "RelistDue", None, None, "timer"),
    ]
}

fn ids(turns: &[Turn]) -> Vec<u64> {
    turns.iter().map(|turn| turn.id.0).collect()
}

#[test]
fn a_pods_story_has_its_causes_and_its_direct_effects() {
    let wanted = Wanted { pods: Some(["u1".to_owned()].into()), ..Wanted::default() };
    assert_eq!(ids(&select(tale(), &wanted)), [1, 2, 3, 5, 6, 7]);
}

#[test]
fn an_actor_is_named_by_kind_or_in_full() {
    let of = |actor: &str| Wanted { actor: Some(actor.to_owned()), ..Wanted::default() };
    assert_eq!(ids(&select(tale(), &of("PodWorker"))), [3, 4, 5]);
    assert_eq!(ids(&select(tale(), &of("PodWorker/shop/other/u2"))), [4]);
    assert_eq!(ids(&select(tale(), &Wanted { from: Duration::from_secs(7), ..Wanted::default() })), [7, 8]);
}

#[test]
fn the_story_is_a_tree_with_relative_times() {
    let wanted = Wanted { pods: Some(["u1".to_owned()].into()), ..Wanted::default() };
    let expected = "\
6 turns, times after 1970-01-01T00:00:01Z
    +0.000s  FileSource LookDue  <- file change  (50us, waited 5.0ms)
    +1.000s    PodManager SourceSet  (50us, waited 5.0ms)
    +2.000s      PodWorker/shop/web/u1 SpecChanged  (50us, waited 5.0ms)
    +4.000s        PodWorker/shop/web/u1 JobEnded  <- run sandbox  (50us, waited 5.0ms)
    +5.000s          StatusManager StatusChanged  (50us, waited 5.0ms)
    +6.000s            Prober Woken  <- timer  (50us, waited 5.0ms)
";
    assert_eq!(story(&select(tale(), &wanted)), expected);
}

#[test]
fn every_slice_has_a_named_thread_and_every_arrow_two_ends() {
    let trace = chrome(&tale());
    let events = trace["traceEvents"].as_array().expect("a list");
    let of = |ph: &str| events.iter().filter(|event| event["ph"] == ph).collect::<Vec<_>>();
    let named: BTreeSet<u64> = of("M").iter().filter_map(|event| event["tid"].as_u64()).collect();
    assert_eq!(of("X").len(), 8);
    assert!(of("X").iter().all(|event| event["tid"].as_u64().is_some_and(|thread| named.contains(&thread))));
    let ends = |ph: &str| of(ph).iter().filter_map(|event| event["id"].as_u64()).collect::<Vec<_>>();
    assert_eq!(ends("s"), [2, 3, 4, 5, 6, 7]);
    assert_eq!(ends("s"), ends("f"));
    assert_eq!((ends("b"), ends("e")), (vec![5], vec![5]), "an operation between two turns of one actor");
    let slice = |id: u64| of("X").into_iter().find(|event| event["args"]["turn"] == id).cloned().expect("a slice");
    for (start, finish) in of("s").iter().zip(of("f")) {
        let effect = slice(finish["id"].as_u64().expect("an id"));
        assert_eq!((&finish["ts"], &finish["tid"]), (&effect["ts"], &effect["tid"]));
        let cause = slice(effect["args"]["cause_turn"].as_u64().expect("a cause"));
        assert_eq!((&start["ts"], &start["tid"]), (&cause["ts"], &cause["tid"]));
    }
}

#[test]
fn spans_of_time_have_one_unit() {
    let millis = |text: &str| parse_since(text).map(|since| since.as_millis());
    assert_eq!(
        [millis("10"), millis("10s"), millis("250ms"), millis("2m"), millis("1h")].map(Option::unwrap_or_default),
        [10_000, 10_000, 250, 120_000, 3_600_000]
    );
    assert_eq!(["", "s", "-1s", "1d", "1m30s", "99999999999999999h"].map(millis), [None; 6]);
}

proptest! {
    /// However causes point, the page has each turn exactly once.
    #[test]
    fn the_story_tells_every_turn_once(causes in prop::collection::vec(prop::option::of(0u64..40), 1..40)) {
        let turns: Vec<Turn> = causes.iter().zip(0..).map(|(cause, id)| {
            turn(id, "Actor", "Message", None, cause.filter(|cause| *cause < id), "turn")
        }).collect();
        prop_assert_eq!(story(&turns).lines().count(), turns.len() + 1);
    }

    #[test]
    fn no_span_of_time_is_a_panic(text: String) {
        let _ = parse_since(&text);
    }
}
