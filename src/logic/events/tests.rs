//! Events that reach the API server: cases and properties.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::outbox::{Action, Outbox, Outcome, PAUSE, RETRY_PERIOD, TRIES_MAX, WAITING_MAX};
use super::*;

/// 2026-01-01T00:00:00Z.
const BEGINNING: Moment = Moment(1_767_225_600_000_000_000);

fn event(pod: &str, reason: EventReason, message: &str) -> PodEvent {
    PodEvent {
        uid: PodUid::from(format!("uid-{pod}")),
        full_name: FullName::new(pod, "shop"),
        field_path: "spec.containers{web}".to_owned(),
        warning: true,
        reason,
        message: message.to_owned(),
        is_claim: false,
        annotations: BTreeMap::new(),
    }
}

/// A correlator and its clock.
#[derive(Default)]
struct Bench {
    correlator: EventCorrelator,
    uptime: Duration,
}

impl Bench {
    fn see(&mut self, event: PodEvent) -> Option<Report> {
        self.correlator.correlate(event, BEGINNING.plus(self.uptime), self.uptime)
    }

    fn later(&mut self, seconds: u64) {
        self.uptime += Duration::from_secs(seconds);
    }
}

fn object(report: &Report) -> Value {
    serde_json::to_value(report.object("node-1")).expect("an object")
}

/// POD-37, PRB-24, OBS-26.
#[test]
fn an_event_of_a_container_is_an_object_as_upstream_writes_it() {
    let report = Bench::default()
        .see(event("web", EventReason::BackOff, "Back-off restarting failed container"))
        .expect("passes");
    assert_eq!(
        object(&report),
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": "web.18867251edfa0000", "namespace": "shop" },
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": "shop", "uid": "uid-web",
                "fieldPath": "spec.containers{web}",
            },
            "reason": "BackOff",
            "message": "Back-off restarting failed container",
            "source": { "component": "kubelet", "host": "node-1" },
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "count": 1,
            "type": "Warning",
            "reportingComponent": "kubelet",
            "reportingInstance": "node-1",
        })
    );
}

/// OBS-26.
#[test]
fn an_event_of_the_node_is_in_the_default_namespace() {
    let starting = PodEvent {
        uid: PodUid::from("node-1"),
        full_name: FullName::new("node-1", ""),
        field_path: String::new(),
        warning: false,
        reason: EventReason::Starting,
        message: "Starting kubelet.".to_owned(),
        is_claim: false,
        annotations: BTreeMap::new(),
    };
    let object = object(&Bench::default().see(starting).expect("passes"));
    assert_eq!(object["metadata"]["namespace"], "default");
    assert_eq!(
        object["involvedObject"],
        json!({ "apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "node-1" })
    );
    assert_eq!(object["type"], "Normal");
}

#[test]
fn an_event_of_a_volume_is_in_the_default_namespace_and_names_its_kind() {
    let of_volume = PodEvent {
        uid: PodUid::from("u-7"),
        full_name: FullName::new("pv-1", ""),
        ..event("web", EventReason::Killing, "y")
    };
    let object = object(&Bench::default().see(of_volume).expect("passes"));
    assert_eq!(object["metadata"]["namespace"], "default");
    assert_eq!(object["involvedObject"]["kind"], "PersistentVolume");
}

/// VOL-46.
#[test]
fn an_event_of_a_claim_is_in_its_namespace_and_names_its_kind() {
    let of_claim = PodEvent { is_claim: true, ..event("data", EventReason::FileSystemResizeSuccessful, "y") };
    let object = object(&Bench::default().see(of_claim).expect("passes"));
    assert_eq!(object["metadata"]["namespace"], "shop");
    assert_eq!(object["involvedObject"]["kind"], "PersistentVolumeClaim");
}

#[test]
fn an_equal_event_is_the_same_object_with_a_higher_count() {
    let mut bench = Bench::default();
    let first = bench.see(event("web", EventReason::BackOff, "again")).expect("passes");
    bench.later(70);
    let second = bench.see(event("web", EventReason::BackOff, "again")).expect("passes");
    assert_eq!((&second.name, second.count, second.first), (&first.name, 2, first.first));
    assert_eq!(second.patch(), json!({ "count": 2, "lastTimestamp": "2026-01-01T00:01:10Z", "message": "again" }));
}

#[test]
fn what_is_not_equal_is_an_object_of_its_own() {
    let base = event("web", EventReason::BackOff, "again");
    let others = [
        event("shop", EventReason::BackOff, "again"),
        event("web", EventReason::Failed, "again"),
        event("web", EventReason::BackOff, "once more"),
        PodEvent { warning: false, ..base.clone() },
        PodEvent { field_path: "spec.containers{db}".to_owned(), ..base.clone() },
        PodEvent { uid: PodUid::from("uid-new"), ..base.clone() },
        PodEvent { full_name: FullName::new("web", "other"), ..base.clone() },
    ];
    for other in others {
        let mut bench = Bench::default();
        let first = bench.see(base.clone()).expect("passes");
        let second = bench.see(other.clone()).expect("passes");
        // All of this happens within one nanosecond.
        assert_eq!(second.count, 1, "{other:?}");
        assert_ne!(second.name, first.name, "{other:?}");
    }
}

/// OBS-27.
#[test]
fn the_tenth_similar_event_becomes_one_that_stands_for_them() {
    let mut bench = Bench::default();
    for number in 1..=9 {
        let report = bench.see(event("web", EventReason::Failed, &format!("no {number}"))).expect("passes");
        assert_eq!((report.count, report.event.message), (1, format!("no {number}")));
    }
    let tenth = bench.see(event("web", EventReason::Failed, "no 10")).expect("passes");
    assert_eq!((tenth.count, &*tenth.event.message), (1, "(combined from similar events): no 10"));
    let eleventh = bench.see(event("web", EventReason::Failed, "no 11")).expect("passes");
    assert_eq!((eleventh.count, &*eleventh.event.message), (2, "(combined from similar events): no 11"));
    assert_eq!(eleventh.name, tenth.name);
    let known = bench.see(event("web", EventReason::Failed, "no 3")).expect("passes");
    assert_eq!((known.count, &*known.event.message), (2, "no 3"), "the first ones keep their own");
    let other = bench.see(event("web", EventReason::BackOff, "no 12")).expect("passes");
    assert_eq!((other.count, &*other.event.message), (1, "no 12"), "another reason is another group");
}

#[test]
fn similar_events_are_forgotten_after_ten_minutes_of_silence() {
    for (silence, combined) in [(600, true), (601, false)] {
        let mut bench = Bench::default();
        for number in 1..=9 {
            bench.see(event("web", EventReason::Failed, &format!("no {number}")));
        }
        bench.later(silence);
        let report = bench.see(event("web", EventReason::Failed, "no 10")).expect("passes");
        assert_eq!(report.event.message.starts_with(COMBINED), combined, "after {silence} s");
    }
}

/// SEC-48, OBS-27.
#[test]
fn the_budget_of_an_object_is_25_and_then_one_in_five_minutes() {
    let mut bench = Bench::default();
    let pass =
        |bench: &mut Bench| bench.see(event("web", EventReason::Unhealthy, "probe failed")).map(|report| report.count);
    for count in 1..=25 {
        assert_eq!(pass(&mut bench), Some(count));
    }
    assert_eq!(pass(&mut bench), None);
    bench.later(299);
    assert_eq!(pass(&mut bench), None);
    bench.later(1);
    assert_eq!(pass(&mut bench), Some(28), "what was held back is told in the count");
    assert_eq!(pass(&mut bench), None);
    let mut normal = event("web", EventReason::Pulled, "there");
    normal.warning = false;
    assert!(bench.see(normal).is_some(), "each type has a budget of its own");
    assert!(bench.see(event("db", EventReason::Unhealthy, "probe failed")).is_some(), "and so has each object");
}

#[test]
fn a_name_without_room_is_a_uuid() {
    let long = "a".repeat(250);
    let mut bench = Bench::default();
    let first = bench.see(event(&long, EventReason::Pulled, "there")).expect("passes").name;
    let second = bench.see(event(&long, EventReason::Started, "there")).expect("passes").name;
    let groups: Vec<usize> = first.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
    assert_eq!(&first[14..15], "4");
    assert!(subdomain_problems(&first).is_empty());
    assert_ne!(first, second);
}

#[test]
fn a_message_is_cut_at_a_letter() {
    for message in ["x".repeat(MESSAGE_BYTES_MAX), "y".repeat(1025)] {
        let report = Bench::default().see(event("web", EventReason::Failed, &message)).expect("passes");
        assert_eq!(report.event.message, message, "not one byte is lost");
    }
    let report =
        Bench::default().see(event("web", EventReason::Failed, &"ä".repeat(MESSAGE_BYTES_MAX))).expect("passes");
    let text = report.event.message;
    assert!(text.len() <= MESSAGE_BYTES_MAX && text.ends_with("ä..."), "{} bytes", text.len());
}

fn report(number: usize) -> Report {
    Report {
        event: event("web", EventReason::Pulled, &number.to_string()),
        name: format!("web.{number}"),
        count: 1,
        first: BEGINNING,
        last: BEGINNING,
    }
}

fn creates(number: usize) -> Action {
    Action::Create(Box::new(report(number)))
}

/// The orders for the first report, after its pause.
fn first(outbox: &mut Outbox, report: Report) -> Vec<Action> {
    assert_eq!(outbox.add(report), [Action::Wait(PAUSE)]);
    outbox.wait_over()
}

#[test]
fn reports_go_one_at_a_time_and_in_order() {
    let mut outbox = Outbox::default();
    assert_eq!(outbox.add(report(1)), [Action::Wait(PAUSE)]);
    assert_eq!(outbox.add(report(2)), [], "one pause serves all");
    assert_eq!(outbox.wait_over(), [creates(1)]);
    assert_eq!(outbox.add(report(3)), []);
    assert_eq!(outbox.wait_over(), [], "nothing waits but for an answer");
    assert_eq!(outbox.ended(Outcome::Stored, 0.5), [creates(2)]);
    assert_eq!(outbox.ended(Outcome::Rejected, 0.5), [creates(3)], "what is refused is not tried again");
    assert_eq!(outbox.ended(Outcome::Stored, 0.5), []);
    assert_eq!(first(&mut outbox, report(4)), [creates(4)]);
}

#[test]
fn who_leaves_waits_for_no_pause_and_for_no_server_that_does_not_answer() {
    let mut outbox = Outbox::default();
    assert_eq!((outbox.hurry(), outbox.is_at_rest()), (vec![], true), "nothing waits");
    assert_eq!(outbox.add(report(1)), [Action::Wait(PAUSE)]);
    assert_eq!(outbox.add(report(2)), []);
    assert!(!outbox.is_at_rest());
    assert_eq!(outbox.hurry(), [creates(1)]);
    assert_eq!(outbox.wait_over(), [], "the pause that comes to its end begins nothing");
    assert_eq!(outbox.ended(Outcome::Stored, 0.5), [creates(2)]);
    assert!(!outbox.is_at_rest());
    assert_eq!(outbox.ended(Outcome::Failed, 1.0), [Action::Wait(RETRY_PERIOD)]);
    assert_eq!((outbox.hurry(), outbox.is_at_rest()), (vec![], true), "the next try is seconds away");
}

#[test]
fn an_event_that_is_gone_is_made_anew() {
    let mut outbox = Outbox::default();
    let again = Report { count: 7, ..report(1) };
    assert_eq!(first(&mut outbox, again.clone()), [Action::Patch(Box::new(again.clone()))]);
    assert_eq!(outbox.ended(Outcome::Missing, 0.5), [Action::Create(Box::new(again))]);
    assert_eq!(outbox.ended(Outcome::Missing, 0.5), [], "its namespace is gone, too");
    assert_eq!(first(&mut outbox, report(2)), [creates(2)]);
}

#[test]
fn what_nobody_answers_is_tried_twelve_times() {
    let mut outbox = Outbox::default();
    first(&mut outbox, report(1));
    outbox.add(report(2));
    let mut waits = vec![];
    loop {
        let actions = outbox.ended(Outcome::Failed, 0.25);
        let [Action::Wait(wait)] = actions[..] else {
            let lost = Action::Lost { report: Box::new(report(1)), tries: TRIES_MAX };
            assert_eq!(actions, [lost, creates(2)]);
            break;
        };
        waits.push(wait);
        assert_eq!(outbox.add(report(2)), [], "nobody overtakes");
        assert_eq!(outbox.wait_over(), [creates(1)]);
    }
    assert_eq!(waits.len(), 11);
    assert_eq!(waits[0], RETRY_PERIOD.mul_f64(0.25), "only the first wait is by chance");
    assert!(waits[1..].iter().all(|wait| *wait == RETRY_PERIOD));
    assert_eq!(outbox.lost(), 1);
}

#[test]
fn the_oldest_is_lost_when_too_many_wait() {
    let mut outbox = Outbox::default();
    first(&mut outbox, report(0));
    for number in 1..=WAITING_MAX {
        assert_eq!(outbox.add(report(number)), []);
    }
    let lost = Action::Lost { report: Box::new(report(1)), tries: 0 };
    assert_eq!(outbox.add(report(WAITING_MAX + 1)), [lost]);
    assert_eq!(outbox.ended(Outcome::Stored, 0.5), [creates(2)]);
    assert_eq!(outbox.lost(), 1);
}

#[test]
fn what_still_waits_is_brought_up_to_date() {
    let mut outbox = Outbox::default();
    first(&mut outbox, report(0));
    outbox.add(report(1));
    outbox.add(report(2));
    let newer = Report { count: 3, ..report(1) };
    assert_eq!(outbox.add(newer.clone()), []);
    assert_eq!(outbox.ended(Outcome::Stored, 0.5), [Action::Create(Box::new(newer))], "nobody made it yet");
    assert_eq!(outbox.ended(Outcome::Stored, 0.5), [creates(2)]);
    assert_eq!(outbox.ended(Outcome::Stored, 0.5), []);
}

/// One event: which pod, whether a warning, which reason, which message, and how long after the one before, in seconds.
fn history() -> impl Strategy<Value = Vec<(u8, bool, bool, u8, u64)>> {
    let wait = prop_oneof![4 => Just(0_u64), 2 => 1..60_u64, 1 => 250..700_u64];
    prop::collection::vec((0..2_u8, any::<bool>(), any::<bool>(), 0..16_u8, wait), 1..250)
}

proptest! {
    #[test]
    fn no_object_says_more_than_its_budget_and_counts_only_grow(history in history()) {
        let mut bench = Bench::default();
        let mut passed: BTreeMap<(u8, bool), Vec<Duration>> = BTreeMap::new();
        let mut counts: BTreeMap<String, (i32, Report)> = BTreeMap::new();
        let mut told = 0;
        for (pod, warning, reason, message, wait) in history {
            bench.later(wait);
            let reason = if reason { EventReason::Failed } else { EventReason::Unhealthy };
            let happened = PodEvent { warning, ..event(&format!("pod-{pod}"), reason, &message.to_string()) };
            let Some(report) = bench.see(happened.clone()) else { continue };
            told += 1;
            let times = passed.entry((pod, warning)).or_default();
            times.push(bench.uptime);
            for (from, began) in times.iter().enumerate() {
                let allowed = 25.0 + (bench.uptime - *began).as_secs_f64() / 300.0;
                prop_assert!((times.len() - from) as f64 <= allowed, "{} since {began:?}", times.len() - from);
            }
            prop_assert!(report.event.message.ends_with(&happened.message));
            prop_assert!(report.first <= report.last);
            if let Some((count, before)) = counts.get(&report.name) {
                prop_assert!(report.count > *count);
                prop_assert_eq!(report.first, before.first);
                prop_assert_eq!(&report.event.uid, &before.event.uid);
                prop_assert_eq!(&report.event.reason, &before.event.reason);
            }
            counts.insert(report.name.clone(), (report.count, report));
        }
        prop_assert!(counts.len() <= told);
        for pod in 0..2 {
            for reason in [EventReason::Failed, EventReason::Unhealthy] {
                for warning in [false, true] {
                    let own = counts.values().map(|(_, report)| &report.event).filter(|event| {
                        (&event.reason, event.warning) == (&reason, warning)
                            && *event.full_name.name == *format!("pod-{pod}") && event.message.starts_with(COMBINED)
                    });
                    prop_assert!(own.count() <= 1, "similar ones are combined in one object");
                }
            }
        }
    }

    #[test]
    fn an_outbox_has_one_call_or_wait_open_while_anything_waits(
        steps in prop::collection::vec((0..6_u8, 0..5_usize), 1..120),
    ) {
        let mut outbox = Outbox::default();
        let (mut calls, mut waits) = (0_usize, 0_usize);
        let mut begun: Vec<String> = vec![];
        for (step, number) in steps {
            let actions = match step {
                0..=1 => outbox.add(Report { count: i32::from(step) + 1, ..report(number) }),
                2 if waits == 1 => { waits -= 1; outbox.wait_over() }
                2 => { prop_assert_eq!(outbox.wait_over(), vec![]); continue }
                _ if calls == 0 => { prop_assert_eq!(outbox.ended(Outcome::Stored, 0.5), vec![]); continue }
                3 => { calls -= 1; outbox.ended(Outcome::Failed, 0.5) }
                4 => { calls -= 1; outbox.ended(Outcome::Missing, 0.5) }
                _ => { calls -= 1; outbox.ended(Outcome::Stored, 0.5) }
            };
            for action in actions {
                match action {
                    Action::Create(report) | Action::Patch(report) => { calls += 1; begun.push(report.name.clone()) }
                    Action::Wait(_) => waits += 1,
                    Action::Lost { .. } => {}
                }
            }
            prop_assert!(calls + waits <= 1);
        }
        // All the rest goes out when the server answers.
        while calls + waits == 1 {
            let actions = if waits == 1 { outbox.wait_over() } else { outbox.ended(Outcome::Stored, 0.5) };
            (calls, waits) = (0, 0);
            calls += actions.len();
        }
        prop_assert_eq!(first(&mut outbox, report(9)), vec![creates(9)], "nothing waits any more");
        prop_assert!(!begun.contains(&"web.9".to_owned()));
    }
}
