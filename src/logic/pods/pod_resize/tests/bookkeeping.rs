//! `PodManager`'s books of allocations: what is in force, what is being kept, and what waits.

use super::*;

fn cpu(pod: &Arc<Pod>) -> ResourceRequirements {
    pod.spec.as_ref().expect("a spec").containers[0].resources.clone().expect("resources")
}

fn asking(amount: &str) -> Arc<Pod> {
    Arc::new(pod(&format!("cpu={amount}"), ""))
}

fn waits(reason: PendingReason, message: &str, generation: i64, since: i64) -> PendingResize {
    PendingResize { reason, message: message.to_owned(), generation: Some(generation), since: at(since) }
}

/// Books of one pod that was admitted with one CPU, which was kept.
fn books() -> (PodUid, Allocations) {
    let (uid, mut books) = (uid("p"), Allocations::default());
    books.admit(&uid, &asking("1"), &GATES);
    let kept = books.to_keep();
    assert_eq!(books.kept(&kept), []);
    (uid, books)
}

#[test]
fn a_resize_is_in_force_for_others_once_it_was_kept() {
    let (uid, mut all) = books();
    let (old, new) = (asking("1"), asking("2"));
    assert!(all.to_keep().is_empty() && all.is_asked(&uid, &new, &GATES));
    all.accept(&uid, &new, &GATES, Trigger::PodUpdated);
    assert_eq!(cpu(&all.in_force(&uid, &new, &GATES)), cpu(&old));
    assert_eq!(cpu(&all.counted(&uid, &new, &GATES)), cpu(&new));
    all.not_kept();
    assert_eq!(cpu(&all.counted(&uid, &new, &GATES)), cpu(&old));
    all.accept(&uid, &new, &GATES, Trigger::PodUpdated);
    let kept = all.to_keep();
    assert_eq!(all.kept(&kept), [(uid.clone(), None)]);
    assert_eq!(cpu(&all.in_force(&uid, &new, &GATES)), cpu(&new));
    assert!(!all.is_asked(&uid, &new, &GATES) && all.to_keep().is_empty());
    all.retain(&BTreeSet::new());
    assert_eq!(cpu(&all.in_force(&uid, &old, &GATES)), cpu(&old), "nothing is known of it any more");
}

/// After a restart a pod has what it had, whatever its spec asks for by now.
#[test]
fn earlier_allocations_outlive_a_restart() {
    let uid = uid("p");
    let earlier = BTreeMap::from([(uid.clone(), given_to(&[("a", requirements("cpu=1", ""))], None))]);
    let mut all = Allocations::default();
    assert!(!all.is_recalled());
    assert!(all.recall(&earlier) && all.is_recalled());
    assert!(!all.recall(&BTreeMap::new()), "the first word counts");
    let new = asking("2");
    assert!(!all.admit(&uid, &new, &GATES), "it had something before");
    assert_eq!(cpu(&all.in_force(&uid, &new, &GATES)), cpu(&asking("1")));
    assert!(all.is_asked(&uid, &new, &GATES));
    assert!(all.to_keep().is_empty(), "the disk has that");
}

#[test]
fn an_admission_is_kept_until_the_disk_has_it() {
    let (uid, mut all) = (uid("p"), Allocations::default());
    assert!(all.admit(&uid, &asking("1"), &GATES));
    let first = all.to_keep();
    assert_eq!(first.keys().collect::<Vec<_>>(), [&uid]);
    all.not_kept();
    assert_eq!(all.to_keep(), first, "it is tried again");
    assert!(!all.admit(&uid, &asking("2"), &GATES));
    assert_eq!(all.to_keep(), first, "a second admission gives nothing more");
    assert_eq!(all.kept(&first), [], "that was no resize");
    assert!(all.to_keep().is_empty());
}

/// The wish may change while the disk writes. The older one, once written, is in force for nobody.
#[test]
fn a_wish_that_changed_meanwhile_is_kept_once_more() {
    let (uid, mut all) = books();
    all.accept(&uid, &asking("2"), &GATES, Trigger::PodUpdated);
    let first = all.to_keep();
    all.accept(&uid, &asking("3"), &GATES, Trigger::PodUpdated);
    assert_eq!(all.kept(&first), []);
    assert_eq!(cpu(&all.in_force(&uid, &asking("3"), &GATES)), cpu(&asking("1")));
    assert_eq!(cpu(&all.counted(&uid, &asking("3"), &GATES)), cpu(&asking("3")));
    let second = all.to_keep();
    assert_eq!(all.kept(&second), [(uid.clone(), None)]);
    assert_eq!(cpu(&all.in_force(&uid, &asking("3"), &GATES)), cpu(&asking("3")));
}

/// The disk took an older wish and refused the present one: neither may come back with a restart.
#[test]
fn a_wish_that_only_the_disk_has_is_written_over() {
    let (uid, mut all) = books();
    all.accept(&uid, &asking("2"), &GATES, Trigger::PodUpdated);
    let first = all.to_keep();
    all.accept(&uid, &asking("3"), &GATES, Trigger::PodUpdated);
    all.kept(&first);
    all.not_kept();
    let again = all.to_keep();
    assert_eq!(again.get(&uid), Some(&allocation_of(&asking("1"), &GATES)));
    assert_eq!(all.kept(&again), [], "that is no resize");
    assert!(all.to_keep().is_empty());
}

#[test]
fn a_resize_taken_back_before_it_was_kept_needs_no_work() {
    let (uid, mut all) = books();
    all.accept(&uid, &asking("2"), &GATES, Trigger::PodUpdated);
    assert!(all.is_asked(&uid, &asking("1"), &GATES), "it is being given two");
    all.accept(&uid, &asking("1"), &GATES, Trigger::PodUpdated);
    let kept = all.to_keep();
    assert_eq!(all.kept(&kept), [(uid.clone(), None)]);
    assert!(!all.is_asked(&uid, &asking("1"), &GATES) && all.to_keep().is_empty());
}

/// Whether the pod asks for something else, by what it was given and which part of it counts.
#[test]
fn a_wish_is_another_amount_of_what_was_given() {
    let (uid, all) = books();
    let by_init = |inits: Vec<Container>| with_inits(pod("cpu=1", ""), inits);
    let off = ResizeGates { by_pod: false, init_containers: false, ..GATES };
    for (now, gates, asked) in [
        (pod("cpu=1", ""), GATES, false),
        (pod("cpu=1000m", ""), GATES, false),
        (pod("cpu=2", ""), GATES, true),
        (pod("cpu=500m", ""), GATES, true),
        (pod("cpu=1", "cpu=1"), GATES, true),
        (pod("", ""), GATES, true),
        // Of a container that it had not, nothing was given that could be another.
        (by_init(vec![sidecar("s", "cpu=1", "")]), GATES, false),
        (with_own(pod("cpu=1", ""), "cpu=2", ""), GATES, true),
        (with_own(pod("cpu=1", ""), "cpu=2", ""), off, false),
        (Pod::default(), GATES, false),
    ] {
        assert_eq!(all.is_asked(&uid, &now, &gates), asked, "{:?}", now.spec);
    }
    assert!(!all.is_asked(&super::uid("stranger"), &pod("cpu=2", ""), &GATES));
    let mut bare = pod("", "");
    spec(&mut bare).containers[0].resources = None;
    assert!(all.is_asked(&uid, &bare, &GATES), "it asks for nothing any more");
}

#[test]
fn init_containers_ask_behind_their_gate() {
    let (uid, mut all) = (uid("p"), Allocations::default());
    let of = |init: &str, side: &str| with_inits(pod("", ""), vec![container("i", init, ""), sidecar("s", side, "")]);
    all.admit(&uid, &of("cpu=1", "cpu=1"), &GATES);
    let off = ResizeGates { init_containers: false, ..GATES };
    for (now, with, without) in
        [(of("cpu=1", "cpu=1"), false, false), (of("cpu=2", "cpu=1"), true, false), (of("cpu=1", "cpu=2"), true, true)]
    {
        assert_eq!((all.is_asked(&uid, &now, &GATES), all.is_asked(&uid, &now, &off)), (with, without), "{now:?}");
    }
}

#[test]
fn a_generation_is_judged_once_it_has_its_share_or_waits() {
    let (uid, mut all) = books();
    let (same, more) = (asking("1"), asking("2"));
    assert!(all.is_judged(&uid, &same, &GATES), "it asks for nothing");
    assert!(!all.is_judged(&uid, &more, &GATES));
    all.wait(&uid, waits(PendingReason::Deferred, "full", 2, 1), None);
    assert!(!all.is_judged(&uid, &more, &GATES), "an earlier generation waits");
    all.wait(&uid, waits(PendingReason::Deferred, "full", 3, 1), None);
    assert!(all.is_judged(&uid, &more, &GATES));
    all.accept(&uid, &more, &GATES, Trigger::PodsRemoved);
    assert!(!all.is_judged(&uid, &more, &GATES), "it is not kept yet");
    assert!(all.is_accepted(&uid, &more, &GATES) && !all.is_accepted(&uid, &same, &GATES));
    let kept = all.to_keep();
    all.kept(&kept);
    assert!(all.is_judged(&uid, &more, &GATES) && !all.is_accepted(&uid, &more, &GATES));
}

/// The metric counts what let a deferred resize through; one that never waited, or was infeasible, is no such.
#[test]
fn a_resize_that_had_waited_says_what_let_it_through() {
    for (waited, expected) in [
        (None, None),
        (Some(PendingReason::Infeasible), None),
        (Some(PendingReason::Deferred), Some(Trigger::PodTerminated)),
    ] {
        let (uid, mut all) = books();
        if let Some(reason) = waited {
            all.wait(&uid, waits(reason, "full", 3, 1), None);
        }
        all.accept(&uid, &asking("2"), &GATES, Trigger::PodTerminated);
        let kept = all.to_keep();
        assert_eq!(all.kept(&kept), [(uid.clone(), expected)], "{waited:?}");
        assert_eq!(all.waiting(&uid), None);
    }
}

#[test]
fn a_resize_that_waits_is_news_when_its_reason_or_generation_is_another() {
    use PendingReason::{Deferred, Infeasible};
    let (uid, mut all) = (uid("p"), Allocations::default());
    for (now, shown, news, since) in [
        (waits(Deferred, "full", 2, 5), Some(waits(Deferred, "full", 2, 1)), false, 1),
        (waits(Deferred, "fuller", 2, 6), None, false, 1),
        (waits(Deferred, "fuller", 3, 7), None, true, 1),
        (waits(Infeasible, "never", 3, 8), None, true, 8),
        (waits(Infeasible, "not ever", 3, 9), Some(waits(Infeasible, "never", 1, 2)), false, 8),
        (waits(Deferred, "full", 3, 10), Some(waits(Deferred, "full", 3, 2)), true, 10),
    ] {
        assert_eq!(all.wait(&uid, now.clone(), shown), news, "{now:?}");
        let waiting = all.waiting(&uid).expect("it waits");
        assert_eq!((&waiting.message, waiting.since), (&now.message, at(since)), "{now:?}");
    }
    all.changed(&uid, Some(4));
    assert!(all.waiting(&uid).is_some(), "its generation tells whether that is news");
    assert_eq!(all.all_waiting().len(), 1);
    assert!(all.settle(&uid) && !all.settle(&uid));
    assert!(all.all_waiting().is_empty());
}

/// A static pod has no generation that could be another: its change alone is the news.
#[test]
fn a_static_pod_is_judged_anew_after_each_change() {
    let (uid, mut all) = (uid("p"), Allocations::default());
    let never = PendingResize { generation: None, ..waits(PendingReason::Infeasible, "never", 0, 9) };
    assert!(all.wait(&uid, never.clone(), None));
    assert!(!all.wait(&uid, never.clone(), None));
    all.changed(&uid, None);
    assert_eq!(all.waiting(&uid), None);
    assert!(all.wait(&uid, never, None));
}

#[test]
fn nothing_is_kept_of_pods_that_are_gone() {
    let (uid, mut all) = books();
    let other = super::uid("q");
    all.admit(&other, &asking("1"), &GATES);
    all.accept(&uid, &asking("2"), &GATES, Trigger::PodUpdated);
    let kept = all.to_keep();
    assert_eq!(kept.len(), 2);
    all.wait(&other, waits(PendingReason::Deferred, "full", 3, 1), None);
    all.retain(&BTreeSet::from([uid.clone()]));
    assert_eq!((all.to_keep().len(), all.waiting(&other)), (1, None));
    all.retain(&BTreeSet::new());
    assert!(all.to_keep().is_empty());
    assert_eq!(all.kept(&kept), [], "the disk was slow");
    assert!(!all.is_asked(&uid, &asking("3"), &GATES), "nothing is known of it");
}
