//! The table of Root's children.

use std::collections::BTreeSet;

use super::*;

/// A child that learns from one that cannot repeat would stay ignorant after a restart.
#[test]
fn children_learn_from_those_that_can_repeat_and_nobody_repeats_for_nothing() {
    let teachers: BTreeSet<Child> = TREE.iter().flat_map(|spec| spec.learns_from).copied().collect();
    let repeaters: BTreeSet<Child> = TREE.iter().filter(|spec| spec.repeats).map(|spec| spec.child).collect();
    assert_eq!(teachers, repeaters);
}

/// The addresses are made by the order of the table: each has the name and the bound of its own entry.
#[test]
fn each_address_is_named_and_bounded_as_its_entry_says() {
    let trace = Trace::new(Arc::new(crate::platform::host::clock::SystemClock::start()));
    let directory = Directory::new(&trace);
    let of_address = (&directory.pod_manager, &directory.server);
    let entry = |child| TREE.iter().find(|spec| spec.child == child).expect("in the table").mailbox;
    assert_eq!(&*of_address.0.record().name, "PodManager");
    assert_eq!(&*of_address.1.record().name, "Server");
    let capacities = [of_address.0.record().capacity, of_address.1.record().capacity];
    assert_eq!(capacities, [entry(Child::PodManager), entry(Child::Server)]);
}
