//! The topology and memory managers against machines: the error names all that is wrong together.

use std::collections::BTreeMap;

use super::super::FeatureGates;
use super::super::validate::managers::{Found, Managers, managers};
use super::super::validate::{Host, validate};
use super::decoded;
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::memory_manager::{Machine, NodeMemory};
use crate::logic::resources::topology::machine::NumaNodes;

/// Nodes of 4 GiB each, with a kube reservation of 1 GiB.
fn found(nodes: u8) -> Found {
    let memory = || NodeMemory { total: 4 << 30, huge_pages: BTreeMap::new() };
    let kube = BTreeMap::from([("memory".to_owned(), Quantity::parse("1Gi").expect("a quantity"))]);
    Found {
        numa: NumaNodes::new((0..nodes).map(|node| (node, vec![]))),
        memory: Machine { nodes: (0..nodes).map(|node| (node, memory())).collect() },
        memory_bytes: i64::from(nodes) << 32,
        reserved: [kube, BTreeMap::new()],
    }
}

fn start(fields: &str, nodes: u8) -> Result<Managers, Vec<String>> {
    managers(&decoded(fields), &FeatureGates::default(), &found(nodes))
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// RES-33: kube, system and the hard threshold, 100Mi by default, are what the NUMA nodes keep together.
#[test]
fn reserved_memory_adds_up_to_what_the_node_keeps() {
    let static_policy = "memoryManagerPolicy: Static\nreservedMemory:\n";
    let right = format!(
        "{static_policy}- {{numaNode: 0, limits: {{memory: 1Gi}}}}\n- {{numaNode: 1, limits: {{memory: 100Mi}}}}"
    );
    let memory = start(&right, 2).expect("adds up").memory;
    let allocatable: Vec<u64> = memory.allocatable().iter().map(|block| block.size >> 20).collect();
    assert_eq!(allocatable, [3072, 3996]);
    let of_a_share = format!(
        "evictionHard: {{memory.available: 10%}}\n{static_policy}- {{numaNode: 0, limits: {{memory: \"1932735296\"}}}}"
    );
    assert_eq!(start(&of_a_share, 2).map(|managers| managers.memory.allocatable().len()), Ok(2));
    assert!(start("", 2).expect("nothing is asked for").memory.allocatable().is_empty());
}

/// RES-33, RES-38: upstream tells the first of these alone.
#[test]
fn what_does_not_fit_the_machine_is_told_together() {
    let fields = "memoryManagerPolicy: Static\ntopologyManagerPolicy: restricted\nreservedMemory:\n\
                  - {numaNode: 9, limits: {memory: 1Gi}}\n- {numaNode: 0, limits: {memory: 1Gi}}";
    assert_eq!(
        start(fields, 9).expect_err("much is wrong"),
        [
            "unsupported on machines with more than 8 NUMA Nodes",
            "the reserved memory configuration references a NUMA node 9 that does not exist on this machine",
            "the total amount \"1Gi\" of type \"memory\" is not equal to the value \"1124Mi\" determined by Node \
             Allocatable feature",
        ]
    );
    let closest =
        "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {prefer-closest-numa-nodes: \"true\"}";
    assert_eq!(
        start(closest, 2).expect_err("no distances"),
        ["cannot discover NUMA topology: error getting NUMA distances from cadvisor"]
    );
    let more = "topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: \"9\"}";
    assert!(start(more, 9).is_ok());
}

/// RES-38: the error names options with all else that no machine makes right.
#[test]
fn wrong_topology_options_are_told_with_the_rest() {
    let errors = |fields: &str| validate(&decoded(fields), &FeatureGates::default(), Host { cgroup_v1: false });
    let options = "topologyManagerPolicyOptions: {fancy: \"1\", max-allowable-numa-nodes: \"7\"}";
    assert_eq!(
        errors(&format!("maxPods: -1\ntopologyManagerPolicy: best-effort\n{options}")),
        [
            "invalid configuration: maxPods (--max-pods) -1 must not be a negative number",
            "unknown Topology Manager Policy option: \"fancy\"",
            "the minimum value of \"max-allowable-numa-nodes\" should not be less than 8",
        ]
    );
    assert_eq!(errors(&format!("topologyManagerPolicy: none\n{options}")), Vec::<String>::new());
}
