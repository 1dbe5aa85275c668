//! Properties of the memory manager after any pods came and went (RES-32, RES-67).

use proptest::prelude::*;

use super::*;
use crate::logic::resources::topology::admission::TopologyManager;
use crate::logic::resources::topology::machine::NumaNodes;
use crate::logic::resources::topology::policy::{Options, Policy, PolicyKind, Scope};

/// A pod comes or goes.
#[derive(Clone, Debug)]
enum Event {
    Comes(Vec<(u8, u64)>),
    Goes(usize),
    ContainerStarts(usize, usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let comes = prop::collection::vec((0_u8..4, 1_u64..40), 1..4).prop_map(Event::Comes);
    let goes = (0_usize..12).prop_map(Event::Goes);
    let starts = (0_usize..12, 0_usize..4).prop_map(|(pod, container)| Event::ContainerStarts(pod, container));
    prop::collection::vec(prop_oneof![3 => comes, 1 => goes, 1 => starts], 1..24)
}

fn managers() -> impl Strategy<Value = (Vec<u64>, PolicyKind, Scope)> {
    let kinds = [PolicyKind::None, PolicyKind::BestEffort, PolicyKind::Restricted, PolicyKind::SingleNumaNode].to_vec();
    let scopes = [Scope::Container, Scope::Pod].to_vec();
    (prop::collection::vec(2_u64..8, 1..=8), prop::sample::select(kinds), prop::sample::select(scopes))
}

fn topology(nodes: usize, kind: PolicyKind, scope: Scope) -> TopologyManager {
    let nodes = NumaNodes::new((0_u8..).zip(vec![vec![10; nodes]; nodes]));
    let policy = Policy::new(kind, Options::default(), nodes).expect("few nodes");
    TopologyManager { policy, scope, pod_level: false }
}

/// Units are 256 MiB.
fn pod_of(number: usize, containers: &[(u8, u64)]) -> Pod {
    let text = |(kind, units): &(u8, u64)| {
        let kind = ["init", "sidecar", "app", "app"][usize::from(*kind)];
        format!("{kind} {}Mi", units * 256)
    };
    let texts: Vec<String> = containers.iter().map(text).chain(["app 256Mi".to_owned()]).collect();
    guaranteed(&format!("p{number}"), &texts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Plays the events; the states after each and how each pod was answered.
fn play(gibibytes: &[u64], kind: PolicyKind, scope: Scope, events: &[Event]) -> (Vec<State>, Vec<bool>) {
    let mut manager = manager(gibibytes, NO_GATES);
    let topology = topology(gibibytes.len(), kind, scope);
    let (mut states, mut answers) = (vec![manager.state().clone()], vec![]);
    let mut pods: Vec<Pod> = vec![];
    let mut active: Vec<Pod> = vec![];
    for event in events {
        match event {
            Event::Comes(containers) => {
                let pod = pod_of(pods.len(), containers);
                let admission = topology.admit(&mut [&mut manager], &pod);
                answers.push(admission.result.is_ok());
                if admission.result.is_ok() {
                    active.push(pod.clone());
                } else {
                    assert_eq!(Some(manager.state()), states.last(), "a refused pod keeps nothing");
                }
                pods.push(pod);
            }
            Event::Goes(place) if !active.is_empty() => {
                active.remove(place % active.len());
                manager.remove_stale(&active);
            }
            Event::ContainerStarts(place, container) if !active.is_empty() => {
                let pod = active[place % active.len()].clone();
                manager.container_starts(&pod, &format!("c{container}"));
            }
            Event::Goes(_) | Event::ContainerStarts(..) => {}
        }
        states.push(manager.state().clone());
    }
    (states, answers)
}

/// No memory is given twice, none that is reserved, and the sums are the machine.
fn check(unused: &State, state: &State) -> Result<(), TestCaseError> {
    let mut held: BTreeMap<Vec<i64>, u64> = BTreeMap::new();
    for block in state.assignments.values().flat_map(BTreeMap::values).flatten() {
        *held.entry(block.numa_affinity.clone()).or_default() += block.size;
    }
    for (cell, node) in &state.machine {
        let (table, fresh) = (node.memory_map["memory"], unused.machine[cell].memory_map["memory"]);
        prop_assert_eq!(table.free + table.reserved, table.allocatable);
        prop_assert_eq!(table.allocatable + table.system_reserved, table.total);
        prop_assert_eq!(table.allocatable, fresh.allocatable);
        prop_assert!(node.cells.contains(cell));
        if node.number_of_assignments == 0 {
            prop_assert_eq!(node.cells.len(), 1);
            prop_assert_eq!(table.reserved, 0);
        }
    }
    for (nodes, size) in &held {
        let reserved: u64 = nodes.iter().map(|cell| state.machine[cell].memory_map["memory"].reserved).sum();
        prop_assert_eq!(reserved, *size, "nodes {:?} hold what their containers hold", nodes);
        prop_assert!(nodes.iter().all(|cell| &state.machine[cell].cells == nodes));
    }
    Ok(())
}

proptest! {
    /// RES-32.
    #[test]
    fn no_memory_is_given_twice_and_none_that_is_reserved(
        (gibibytes, kind, scope) in managers(),
        events in events(),
    ) {
        let (states, answers) = play(&gibibytes, kind, scope, &events);
        for state in &states {
            check(&states[0], state)?;
        }
        prop_assert_eq!(play(&gibibytes, kind, scope, &events), (states, answers));
    }

    #[test]
    fn a_file_gives_back_what_was_written(
        (gibibytes, kind, scope) in managers(),
        events in events(),
        gates in prop_oneof![Just(NO_GATES), Just(ALL_GATES)],
    ) {
        let (states, _) = play(&gibibytes, kind, scope, &events);
        let mut written = manager(&gibibytes, gates);
        written.state = states.last().expect("the first at least").clone();
        let mut read = manager(&gibibytes, gates);
        prop_assert_eq!(read.restore(written.to_file().as_bytes(), ""), Ok(()));
        prop_assert_eq!(read.state(), written.state());
    }

    /// Under single-numa-node on an empty machine: exactly the pods that one node can hold.
    #[test]
    fn a_single_node_is_refused_exactly_when_none_can_hold_the_pod(
        gibibytes in prop::collection::vec(2_u64..8, 2..=8),
        units in 1_u64..40,
    ) {
        let mut manager = manager(&gibibytes, NO_GATES);
        let pod = guaranteed("p", &[&format!("app {}Mi", units * 256)]);
        let largest = manager.allocatable().iter().map(|block| block.size).max().expect("nodes");
        let admission = topology(gibibytes.len(), PolicyKind::SingleNumaNode, Scope::Pod).admit(&mut [&mut manager], &pod);
        prop_assert_eq!(admission.result.is_ok(), (units * 256) << 20 <= largest);
        if admission.result.is_ok() {
            prop_assert_eq!(manager.nodes_of("p", "c0").map(NumaMask::count), Some(1));
        }
    }
}
