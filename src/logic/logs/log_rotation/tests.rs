//! Names, numbers and times of log rotation.

use jiff::civil::date;
use proptest::prelude::*;

use super::*;
use crate::logic::model::ids::FullName;
use crate::logic::model::runtime_pod::{ContainerState, RuntimeContainer};
use crate::logic::model::time::{Moment, Stamp};

/// All containers here are from before.
const BEGAN: Moment = Moment(1);

const POLICY: RotationPolicy =
    RotationPolicy { bytes_max: 10 << 20, files_max: 5, workers: 1, interval: Duration::from_secs(10) };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pod(running: &[&str]) -> RuntimePod {
    let container = |id: &&str| RuntimeContainer {
        log_path: format!("/logs/{id}/0.log"),
        ..RuntimeContainer::sample(id, id, ContainerState::Running)
    };
    let mut pod = RuntimePod::empty("u".into(), FullName::new("p", "default"), Stamp(1));
    pod.containers = running.iter().map(container).collect();
    pod
}

/// One container whose log was looked at, at time 0, and found empty.
fn resting() -> (LogRotation, ContainerId) {
    let mut rotation = LogRotation::new(POLICY);
    let id = ContainerId::from("c");
    let path = "/logs/c/0.log".to_owned();
    let orders = [LogOrder::Look(id.clone(), path.clone()), LogOrder::Compress(id.clone(), path)];
    assert_eq!(rotation.observed(&pod(&["c"]), BEGAN), orders);
    assert_eq!(rotation.compressed(&id), []);
    assert_eq!(rotation.looked(&id, &LogLook::There(0, true), Duration::ZERO), []);
    (rotation, id)
}

#[test]
fn a_log_that_nobody_writes_to_is_left_alone() {
    let (mut rotation, _) = resting();
    assert_eq!(rotation.next_due(), None);
    assert_eq!(rotation.due(seconds(3600)), []);
    assert_eq!(rotation.observed(&pod(&["c"]), BEGAN), [], "seen again, it is the same");
}

#[test]
fn a_log_that_is_written_to_is_looked_at_before_it_can_be_too_large() {
    let (mut rotation, id) = resting();
    rotation.written("/logs/c/0.log", Duration::from_millis(1));
    let first = rotation.next_due().expect("it grows");
    assert!(first < seconds(1), "{first:?}");
    assert_eq!(rotation.due(first).len(), 1);
    assert_eq!(rotation.due(first), [], "once");
    // Fast enough for 5 MiB within that time: the rest is watched closely.
    assert_eq!(rotation.looked(&id, &LogLook::There(5 << 20, true), first), []);
    rotation.written("/logs/c/0.log", first);
    let second = rotation.next_due().expect("it grows");
    assert!(second - first < first);
    rotation.due(second);
    let orders = rotation.looked(&id, &LogLook::There(POLICY.bytes_max, true), second);
    assert_eq!(orders, [LogOrder::Rotate(id, "/logs/c/0.log".to_owned())]);
}

/// The kernel tells a write once: it may do so before the look that asked for it has come back.
#[test]
fn a_write_that_is_told_while_a_look_is_under_way_is_not_forgotten() {
    let (mut rotation, id) = resting();
    rotation.written("/logs/c/0.log", seconds(1));
    let first = rotation.next_due().expect("it grows");
    assert_eq!(rotation.due(first).len(), 1);
    rotation.written("/logs/c/0.log", first);
    assert_eq!(rotation.looked(&id, &LogLook::There(1000, true), first), []);
    let second = rotation.next_due().expect("it was written to");
    assert!(first < second && second < first + seconds(1), "{second:?}");
    // The look after it asks anew, and nobody writes any more.
    assert_eq!(rotation.due(second).len(), 1);
    assert_eq!(rotation.looked(&id, &LogLook::There(1000, true), second), []);
    assert_eq!(rotation.next_due(), None);
}

#[test]
fn what_was_rotated_is_compressed_by_as_many_as_may() {
    let mut rotation = LogRotation::new(POLICY);
    let orders = rotation.observed(&pod(&["a", "b"]), BEGAN);
    let compressing = |orders: &[LogOrder]| {
        let names = orders.iter().filter_map(|order| match order {
            LogOrder::Compress(id, _) => Some(id.to_string()),
            _ => None,
        });
        names.collect::<Vec<_>>()
    };
    assert_eq!(compressing(&orders), ["a"]);
    assert_eq!(compressing(&rotation.compressed(&"a".into())), ["b"]);
    assert_eq!(compressing(&rotation.rotated(&"a".into(), true, seconds(1))), Vec::<String>::new());
    assert_eq!(compressing(&rotation.compressed(&"b".into())), ["a"]);
    // It was rotated while it was compressed: what that left plain is not left so until the next rotation, which may never come.
    assert_eq!(compressing(&rotation.rotated(&"a".into(), true, seconds(2))), Vec::<String>::new());
    assert_eq!(compressing(&rotation.rotated(&"a".into(), true, seconds(3))), Vec::<String>::new());
    assert_eq!(compressing(&rotation.compressed(&"a".into())), ["a"]);
    assert_eq!(compressing(&rotation.compressed(&"a".into())), Vec::<String>::new());
}

#[test]
fn what_fails_is_tried_again_after_the_interval() {
    let (mut rotation, id) = resting();
    assert_eq!(rotation.rotated(&id, false, seconds(5)), []);
    assert_eq!(rotation.next_due(), Some(seconds(15)));
    rotation.due(seconds(15));
    assert_eq!(rotation.looked(&id, &LogLook::Failed("no".into()), seconds(15)), []);
    assert_eq!(rotation.next_due(), Some(seconds(25)));
}

#[test]
fn a_missing_log_is_opened_anew_until_it_is_there() {
    let (mut rotation, id) = resting();
    let mut now = seconds(1);
    for round in 0..20 {
        assert_eq!(rotation.looked(&id, &LogLook::Missing, now), [LogOrder::Reopen(id.clone())], "{round}");
        let looks = rotation.reopened(&id, round == 0, now);
        assert_eq!(looks.len(), usize::from(round == 0), "looked at once it was opened");
        if round > 0 {
            assert_eq!(rotation.next_due(), Some(now + seconds(10)), "{round}");
            now += seconds(10);
            assert_eq!(rotation.due(now).len(), 1, "{round}");
        }
    }
    assert_eq!(rotation.looked(&id, &LogLook::There(7, true), now), []);
    assert_eq!(rotation.next_due(), None, "and then all is well");
}

#[test]
fn a_log_that_cannot_be_watched_is_looked_at_now_and_then() {
    let (mut rotation, id) = resting();
    assert_eq!(rotation.looked(&id, &LogLook::There(7, false), seconds(1)), []);
    assert_eq!(rotation.next_due(), Some(seconds(2)));
}

#[test]
fn a_container_of_this_agents_own_time_has_nothing_to_compress_yet() {
    let mut rotation = LogRotation::new(POLICY);
    let orders = rotation.observed(&pod(&["c"]), Moment::EPOCH);
    assert_eq!(orders, [LogOrder::Look("c".into(), "/logs/c/0.log".to_owned())]);
}

#[test]
fn a_container_that_ended_is_forgotten() {
    let (mut rotation, _) = resting();
    assert_eq!(rotation.observed(&pod(&["d"]), BEGAN).len(), 2);
    assert_eq!(rotation.len(), 1);
    assert_eq!(rotation.observed(&pod(&[]), BEGAN), []);
    assert!(rotation.is_empty());
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const ALL: [&str; 8] = [
    "0.log",
    "0.log.20260101-000001.gz",
    "0.log.20260101-000002",
    "0.log.20260101-000002.gz",
    "0.log.20260101-000003",
    "0.log.20260101-000004",
    "0.log.20260101-000005.tmp",
    "1.log.20260101-000006",
];

#[test]
fn the_oldest_go_and_the_new_name_is_later_than_all() {
    let now = date(2026, 1, 1).at(0, 0, 9, 5);
    let planned = plan("0.log", &names(&ALL), 5, now);
    assert_eq!(planned.remove, names(&[ALL[1]]));
    assert_eq!(planned.rotated, "0.log.20260101-000009");
    let planned = plan("0.log", &names(&ALL), 2, date(2026, 1, 1).at(0, 0, 4, 0));
    assert_eq!(planned.remove, names(&[ALL[1], ALL[3], ALL[4], ALL[5]]));
    assert_eq!(planned.rotated, "0.log.20260101-000005", "two within a second");
    assert_eq!(plan("0.log", &names(&["0.log"]), 5, now).remove, names(&[]));
}

#[test]
fn leftovers_go_and_all_but_the_newest_are_compressed() {
    assert_eq!(leftovers("0.log", &names(&ALL)), names(&[ALL[2], ALL[6]]));
    assert_eq!(to_compress("0.log", &names(&ALL)), names(&[ALL[4]]));
    assert_eq!(compressed_names("a"), ("a.gz".into(), "a.tmp".into()));
}

proptest! {
    /// However often a log is rotated, with the clock set at will, no name is used twice and the number of files holds.
    #[test]
    fn files_are_bounded_and_never_overwritten(
        files_max in 2_usize..6, times in proptest::collection::vec(0_i64..20, 1..30), compressed: bool,
        nanos in 0_i32..1_000_000_000,
    ) {
        let mut all = names(&["0.log"]);
        for time in times {
            let now = date(2026, 3, 29).at(1, 59, 50, nanos).checked_add(time.seconds()).unwrap();
            let planned = plan("0.log", &all, files_max, now);
            all.retain(|name| !planned.remove.contains(name));
            prop_assert!(!all.contains(&planned.rotated));
            all.push(planned.rotated);
            if compressed {
                for name in to_compress("0.log", &all) {
                    all.retain(|one| *one != name);
                    all.push(compressed_names(&name).0);
                }
            }
            prop_assert!(all.len() <= files_max);
        }
    }
}
