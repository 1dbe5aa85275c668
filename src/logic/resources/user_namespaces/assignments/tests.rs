//! Ranges of pods over files that fit, do not fit, or are lost.

use proptest::prelude::*;

use super::super::mapping_file::print;
use super::*;

const UNIT: u32 = 65_536;

/// Slots of one unit each, behind the host's own.
fn space(slots: u32) -> IdSpace {
    IdSpace::new(IdRange { first: UNIT, length: slots * UNIT }, UNIT, 1).expect("suits")
}

fn uid(name: &str) -> PodUid {
    PodUid::from(name)
}

fn range(slot: u32) -> IdRange {
    IdRange { first: (slot + 1) * UNIT, length: UNIT }
}

fn with_files(slots: u32, files: &[(&str, Vec<u8>)]) -> Assignments {
    let files = files.iter().map(|(pod, bytes)| (uid(pod), Ok(bytes.clone())));
    Assignments::of(space(slots), files.collect())
}

fn given(all: &mut Assignments, pod: &str, chance: f64) -> IdRange {
    let Wanted::Write(range) = all.want(&uid(pod), chance) else { panic!("{pod} has one, or gets none") };
    all.written(&uid(pod), true);
    range
}

/// RES-63.
#[test]
fn res_63_a_pod_keeps_the_range_that_chance_gave_it() {
    let mut all = with_files(4, &[]);
    assert_eq!(given(&mut all, "a", 0.5), range(2));
    assert_eq!(given(&mut all, "b", 0.5), range(3), "the next free one");
    assert_eq!(given(&mut all, "c", 0.99), range(0), "beyond the last one it goes on with the first");
    assert_eq!(all.want(&uid("a"), 0.0), Wanted::Ready(range(2)));
    assert_eq!(given(&mut all, "d", 0.0), range(1));
    assert_eq!(all.want(&uid("e"), 0.0), Wanted::Refused(AssignmentError::Full));
    let told = AssignmentError::Full.to_string();
    assert_eq!(told, "create user namespace: could not find an empty slot to allocate a user namespace");
}

/// RES-63: the range is another pod's when the file is gone, not before.
#[test]
fn res_63_a_range_is_free_when_its_file_is_gone() {
    let mut all = with_files(1, &[]);
    given(&mut all, "a", 0.0);
    assert_eq!(all.release(&uid("a")), Released::Remove);
    assert_eq!(all.release(&uid("a")), Released::Wait);
    assert_eq!(all.want(&uid("b"), 0.0), Wanted::Refused(AssignmentError::Full));
    assert_eq!(all.want(&uid("a"), 0.0), Wanted::Wait, "it may get another one, once this is gone");
    all.removed(&uid("a"), false);
    assert_eq!(all.want(&uid("b"), 0.0), Wanted::Refused(AssignmentError::Full));
    assert_eq!(all.release(&uid("a")), Released::Remove);
    all.removed(&uid("a"), true);
    assert_eq!(all.release(&uid("a")), Released::Nothing);
    assert_eq!(given(&mut all, "b", 0.0), range(0));
}

/// The file may be there although the write failed: after a restart it would count.
#[test]
fn a_range_whose_file_was_not_written_stays_the_pods() {
    let mut all = with_files(2, &[]);
    assert_eq!(all.want(&uid("a"), 0.0), Wanted::Write(range(0)));
    assert_eq!(all.want(&uid("a"), 0.9), Wanted::Wait);
    assert_eq!(all.release(&uid("a")), Released::Wait);
    all.written(&uid("a"), false);
    assert_eq!(given(&mut all, "b", 0.0), range(1));
    assert_eq!(all.want(&uid("a"), 0.9), Wanted::Write(range(0)));
    all.written(&uid("a"), true);
    assert_eq!(all.want(&uid("a"), 0.9), Wanted::Ready(range(0)));
    assert_eq!(all.unknown(&[uid("b")].into()), [uid("a")]);
}

/// RES-63: upstream ends with such a file; here its pod waits, and the range is nobody else's.
#[test]
fn res_63_a_file_that_does_not_fit_keeps_its_range_from_others() {
    let of = |first: u32, length: u32| print(IdRange { first, length });
    let files = [
        ("a", of(UNIT, UNIT)),
        ("b", of(UNIT, UNIT)),
        ("empty", vec![]),
        ("high", of(9 * UNIT, UNIT)),
        ("long", of(2 * UNIT, 2 * UNIT)),
        ("odd", of(4 * UNIT + 1, UNIT)),
    ];
    let mut all = with_files(6, &files);
    assert_eq!(all.want(&uid("a"), 0.0), Wanted::Ready(range(0)));
    for (pod, problem) in [
        ("b", "user namespace: range picked for pod \"b\" already taken"),
        ("high", "user namespace: id 589824 is out of range"),
        ("long", "user namespace: wrong user namespace length 131072"),
        ("odd", "user namespace: wrong user namespace offset specified 262145"),
    ] {
        let Wanted::Refused(error) = all.want(&uid(pod), 0.0) else { panic!("{pod}") };
        assert_eq!(error.to_string(), problem);
    }
    assert_eq!(all.problems().count(), 4);
    // 1 and 2 are those of `long`, 3 and 4 have some of `odd`.
    assert_eq!(given(&mut all, "empty", 0.0), range(5));
    assert_eq!(all.want(&uid("c"), 0.0), Wanted::Refused(AssignmentError::Full));
    assert_eq!(all.release(&uid("b")), Released::Remove);
    all.removed(&uid("b"), true);
    assert_eq!(all.want(&uid("a"), 0.0), Wanted::Ready(range(0)), "it was never b's");
    assert_eq!(all.release(&uid("long")), Released::Remove);
    assert_eq!((all.release(&uid("long")), all.want(&uid("long"), 0.0)), (Released::Wait, Wanted::Wait));
    all.removed(&uid("long"), true);
    assert_eq!(given(&mut all, "c", 0.0), range(1));
}

/// While nobody knows which range a pod has, every new one could be that.
#[test]
fn a_file_that_says_nothing_holds_back_new_ranges() {
    let mut all = with_files(4, &[("a", print(range(1))), ("lost", b"{".to_vec())]);
    assert_eq!(all.want(&uid("a"), 0.0), Wanted::Ready(range(1)));
    let Wanted::Refused(error) = all.want(&uid("b"), 0.0) else { panic!("given") };
    let told = error.to_string();
    let expected =
        "create user namespace: the IDs of pod \"lost\" are not known: invalid user namespace mappings file: ";
    assert!(told.starts_with(expected), "{told}");
    assert_eq!(all.unknown(&[uid("a")].into()), [uid("lost")]);
    assert_eq!(all.release(&uid("lost")), Released::Remove);
    all.removed(&uid("lost"), true);
    assert_eq!(given(&mut all, "b", 0.0), range(0));
}

#[derive(Clone, Debug)]
enum Step {
    Want(usize, f64),
    Written(usize, bool),
    Release(usize),
    Removed(usize, bool),
    /// The agent ends, and goes on from the disk.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let pod = 0..6_usize;
    prop_oneof![
        (pod.clone(), 0.0..1.0).prop_map(|(pod, chance)| Step::Want(pod, chance)),
        (pod.clone(), any::<bool>()).prop_map(|(pod, well)| Step::Written(pod, well)),
        pod.clone().prop_map(Step::Release),
        (pod, any::<bool>()).prop_map(|(pod, well)| Step::Removed(pod, well)),
        Just(Step::Restart),
    ]
}

proptest! {
    /// SEC-26: whatever fails and whenever the agent ends, no two pods have a common ID. None has another range than before
    /// until its file is gone. A write that failed has put the file there, and a removal that failed has removed it.
    #[test]
    fn sec_26_no_two_pods_have_a_common_id(steps in proptest::collection::vec(step(), 1..60)) {
        let mut disk: BTreeMap<PodUid, Vec<u8>> = BTreeMap::new();
        let mut ready: BTreeMap<PodUid, IdRange> = BTreeMap::new();
        let mut all = with_files(4, &[]);
        for step in steps {
            match step {
                Step::Want(pod, chance) => {
                    let pod = uid(&pod.to_string());
                    match all.want(&pod, chance) {
                        Wanted::Ready(range) => {
                            prop_assert!(ready.get(&pod).is_none_or(|before| *before == range));
                            ready.insert(pod, range);
                        }
                        Wanted::Write(range) => drop(disk.insert(pod, print(range))),
                        Wanted::Wait | Wanted::Refused(AssignmentError::Full) => {}
                        Wanted::Refused(other) => prop_assert!(false, "{}", other),
                    }
                }
                Step::Written(pod, well) => all.written(&uid(&pod.to_string()), well),
                Step::Release(pod) => {
                    let pod = uid(&pod.to_string());
                    if all.release(&pod) == Released::Remove {
                        ready.remove(&pod);
                        disk.remove(&pod);
                    }
                }
                Step::Removed(pod, well) => all.removed(&uid(&pod.to_string()), well),
                Step::Restart => {
                    let files = disk.iter().map(|(uid, bytes)| (uid.clone(), Ok(bytes.clone())));
                    all = Assignments::of(space(4), files.collect());
                    prop_assert_eq!(all.problems().count(), 0);
                }
            }
            let ranges: Vec<IdRange> = ready.values().copied().collect();
            for (index, range) in ranges.iter().enumerate() {
                prop_assert!(ranges[index + 1..].iter().all(|other| !other.overlaps(*range)));
            }
        }
    }
}
