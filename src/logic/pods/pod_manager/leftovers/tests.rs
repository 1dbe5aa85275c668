//! Tests of the pass over leftovers: the pods that it looks at, the logs that stay, and the figures of it.

use proptest::prelude::*;

use super::*;

fn found(uids: &[&str]) -> Found {
    let leftovers = uids.iter().map(|uid| ((*uid).into(), Leftovers { has_directory: true, ..Default::default() }));
    Found { leftovers: leftovers.collect(), disk_is_full: false }
}

#[test]
fn a_pod_that_is_known_by_now_is_left_alone() {
    let mut sweep = Sweep::default();
    assert!(!sweep.was_begun() && sweep.begin() && !sweep.begin() && sweep.was_begun());
    sweep.take_found(found(&["a", "b", "c"]), Moment::EPOCH, Duration::ZERO);
    let known = [PodUid::from("b")].into();
    let all = std::iter::from_fn(|| sweep.next(&known)).take(4);
    let gone: Vec<String> = all.map(|(uid, _)| uid.to_string()).collect();
    assert_eq!(gone, ["a", "c"]);
    assert!(sweep.begin(), "the pass has ended");
}

#[test]
fn what_stays_for_the_same_reason_is_told_quietly() {
    let (mut sweep, uid) = (Sweep::default(), PodUid::from("a"));
    let busy = |why: &str| Swept { directory: Some(Err(why.to_owned())), ..Swept::default() };
    for (why, level) in [("busy", LogLevel::Normal), ("busy", LogLevel::Debug), ("gone", LogLevel::Normal)] {
        assert!(sweep.begin());
        assert_eq!(sweep.note(&uid, busy(why)), Some(Stays { error: why.to_owned(), level }));
        assert_eq!(sweep.figures(), Figures { removed: 0, directories: 1, failed: 1 });
        assert!(sweep.next(&BTreeSet::new()).is_none());
    }
}

/// A pass that has found these leftovers of one pod, at this uptime.
fn pass(sweep: &mut Sweep, left: Leftovers, disk_is_full: bool, uptime: u64) -> Option<Leftovers> {
    assert!(sweep.begin(), "the pass before has ended");
    let found = Found { leftovers: [("u".into(), left)].into(), disk_is_full };
    sweep.take_found(found, NOW, Duration::from_secs(uptime));
    let next = sweep.next(&BTreeSet::new());
    if next.is_some() {
        assert!(sweep.next(&BTreeSet::new()).is_none(), "there is one pod");
    }
    next.map(|(uid, left)| {
        assert_eq!(uid.as_str(), "u");
        left
    })
}

const NOW: Moment = Moment(1_000_000_000_000);

/// Leftovers of a pod: a directory, logs that were written to so many seconds ago, a cgroup.
fn left(directory: bool, logs: Option<i64>, cgroup: bool) -> Leftovers {
    Leftovers {
        has_directory: directory,
        logs: logs.iter().map(|_| "default_web_u".to_owned()).collect(),
        written: logs.map(|seconds| Moment(NOW.0 - seconds * 1_000_000_000)),
        cgroups: vec![CgroupName::from_cgroupfs_path("/kubepods/podu").expect("a name"); usize::from(cgroup)],
    }
}

/// POD-33: somebody ships logs, and reads the last lines after the pod has ended.
#[test]
fn fresh_logs_stay_and_nothing_else_waits_for_them() {
    // Leftovers, whether the disk is full, and the ones of them that go: a directory, logs, a cgroup.
    for (found, full, goes) in [
        (left(true, None, false), false, Some((true, 0, 0))),
        (left(false, None, true), false, Some((false, 0, 1))),
        (left(false, Some(3600), false), false, Some((false, 1, 0))),
        (left(false, Some(60), false), false, Some((false, 1, 0))),
        (left(false, Some(59), false), false, None),
        (left(false, Some(59), false), true, Some((false, 1, 0))),
        (left(true, Some(10), true), false, Some((true, 0, 1))),
        (left(true, Some(10), false), false, Some((true, 0, 0))),
        (left(false, Some(10), true), false, Some((false, 0, 1))),
        (left(true, Some(3600), true), false, Some((true, 1, 1))),
        (left(false, None, false), false, None),
        (Leftovers { written: None, ..left(false, Some(0), false) }, false, None),
    ] {
        let told = format!("{found:?}, full: {full}");
        let gone = pass(&mut Sweep::default(), found, full, 1000);
        assert_eq!(gone.map(|left| (left.has_directory, left.logs.len(), left.cgroups.len())), goes, "{told}");
    }
}

/// POD-33: the agent saw the end itself, so the age on the disk does not count, in this pass and in later ones.
#[test]
fn logs_of_a_pod_that_ended_here_stay_for_a_minute_over_several_passes() {
    let (mut sweep, uid) = (Sweep::default(), PodUid::from("u"));
    sweep.note_end(&uid, Duration::from_secs(100));
    for (uptime, goes) in [(100, false), (159, false), (160, true), (161, true)] {
        assert_eq!(pass(&mut sweep, left(false, Some(3600), false), false, uptime).is_some(), goes, "at {uptime} s");
        assert!(sweep.logs().knows(&uid), "at {uptime} s its logs were found");
    }
    assert!(pass(&mut sweep, Leftovers::default(), false, 162).is_none());
    assert!(sweep.logs().knows(&uid), "it was found, though nothing of it is to go");
    assert!(sweep.begin());
    sweep.take_found(Found::default(), NOW, Duration::from_secs(162));
    assert!(!sweep.logs().knows(&uid), "nothing of it is left");
}

/// The agent began just now: the first pass finds logs of which only the disk knows how old they are.
#[test]
fn logs_from_before_the_start_keep_the_rest_of_their_minute() {
    let mut sweep = Sweep::default();
    for (uptime, written, goes) in [(5, 45, false), (19, 0, false), (20, 0, true)] {
        let gone = pass(&mut sweep, left(false, Some(written), false), false, uptime);
        assert_eq!(gone.is_some(), goes, "at {uptime} s: what the first pass found counts");
    }
}

#[test]
fn a_pod_that_comes_back_during_the_pass_is_left_alone_from_then_on() {
    let mut sweep = Sweep::default();
    assert!(sweep.begin());
    sweep.take_found(found(&["a", "b", "c", "d"]), Moment::EPOCH, Duration::ZERO);
    let next = |sweep: &mut Sweep, known: &[&str]| {
        let known = known.iter().map(|uid| PodUid::from(*uid)).collect();
        sweep.next(&known).map(|(uid, _)| uid.to_string())
    };
    assert_eq!(next(&mut sweep, &["d"]).as_deref(), Some("a"), "the last one is for later");
    assert!(!sweep.begin(), "the pass goes on, and keeps its pods");
    assert_eq!(next(&mut sweep, &["b"]).as_deref(), Some("c"), "b came back");
    assert_eq!(next(&mut sweep, &["d"]).as_deref(), None, "d came back, too");
    assert!(sweep.begin(), "the pass has ended");
    assert_eq!(next(&mut sweep, &[]), None, "a new pass has found nothing yet");
}

/// The search may fail as a whole: then there is nothing to remove, and a later pass tries again.
#[test]
fn a_pass_that_finds_nothing_ends_at_once() {
    let mut sweep = Sweep::default();
    assert!(sweep.begin());
    sweep.take_found(Found::default(), Moment::EPOCH, Duration::ZERO);
    assert!(sweep.next(&BTreeSet::new()).is_none());
    assert_eq!((sweep.figures(), sweep.was_begun()), (Figures::default(), true));
    assert!(sweep.begin());
}

/// VOL-15.
#[test]
fn a_pass_counts_the_things_that_went_and_the_directories_that_stay() {
    let error = |why: &str| Some(Err(why.to_owned()));
    let mut sweep = Sweep::default();
    assert!(sweep.begin());
    let mut sum = Figures::default();
    // How many things went, the directory, the logs; directories, failed ones, and the reason that the log has.
    for (removed, directory, logs, directories, failed, why) in [
        (3, Some(Ok(())), None, 1, 0, None),
        (1, None, None, 0, 0, None),
        (0, error("volume in use"), None, 1, 1, Some("volume in use")),
        (2, Some(Ok(())), Some("no permission"), 1, 0, Some("no permission")),
        (0, None, Some("read-only"), 0, 0, Some("read-only")),
        (0, error("busy"), Some("read-only"), 1, 1, Some("busy")),
    ] {
        let swept = Swept { removed, directory, logs: logs.map(str::to_owned) };
        let told = format!("{swept:?}");
        let stays = sweep.note(&"u".into(), swept);
        assert_eq!(stays.map(|stays| stays.error).as_deref(), why, "{told}");
        sum.removed += removed;
        sum.directories += directories;
        sum.failed += failed;
        assert_eq!(sweep.figures(), sum, "{told}");
    }
    assert!(sweep.next(&BTreeSet::new()).is_none() && sweep.begin());
    assert_eq!(sweep.figures(), Figures::default(), "the next pass counts anew");
}

/// PAIN-14: each pod has its own reason, and the pass before is the one that counts.
#[test]
fn a_reason_is_in_the_log_again_after_a_pass_without_it() {
    let mut sweep = Sweep::default();
    let logs = |why: &str| Swept { logs: Some(why.to_owned()), ..Swept::default() };
    for (number, (a, b)) in [
        (Some(LogLevel::Normal), Some(LogLevel::Normal)),
        (Some(LogLevel::Debug), None),
        (Some(LogLevel::Debug), Some(LogLevel::Normal)),
        (None, Some(LogLevel::Debug)),
        (Some(LogLevel::Normal), Some(LogLevel::Debug)),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(sweep.begin());
        for (uid, level) in [("a", a), ("b", b)] {
            let swept = if level.is_some() { logs("busy") } else { Swept { removed: 1, ..Swept::default() } };
            let stays = sweep.note(&uid.into(), swept).map(|stays| stays.level);
            assert_eq!(stays, level, "pod {uid} in pass {number}");
        }
        assert!(sweep.next(&BTreeSet::new()).is_none());
    }
}

proptest! {
    /// POD-33, VOL-15: who is known changes between any two pods.
    #[test]
    fn a_pass_gives_each_pod_once_unless_it_is_known_by_then(
        found_ones in prop::collection::btree_set("[a-h]", 0..8),
        known in prop::collection::vec(prop::collection::btree_set("[a-h]", 0..4), 1..10),
    ) {
        let mut sweep = Sweep::default();
        prop_assert!(sweep.begin());
        let uids: Vec<&str> = found_ones.iter().map(String::as_str).collect();
        sweep.take_found(found(&uids), Moment::EPOCH, Duration::ZERO);
        let (mut seen, mut skipped) = (BTreeSet::new(), BTreeSet::new());
        for names in known.iter().cycle() {
            let known: BTreeSet<PodUid> = names.iter().map(|name| PodUid::from(&**name)).collect();
            skipped.extend(known.iter().map(ToString::to_string));
            let Some((uid, left)) = sweep.next(&known) else { break };
            prop_assert!(!known.contains(&uid) && left.has_directory);
            prop_assert!(seen.insert(uid.to_string()), "{} twice", uid);
        }
        prop_assert!(seen.is_subset(&found_ones));
        prop_assert!(found_ones.difference(&seen).all(|uid| skipped.contains(uid)), "{:?} of {:?}", seen, found_ones);
    }
}
