//! Situations of upstream's `policy_static_test.go`, with expected values by its rules (RES-32, RES-67).

use super::*;
use crate::logic::model::admission_reason::AdmissionReason;

/// The rest of plain memory on each node, in MiB.
fn free(manager: &MemoryManager) -> Vec<u64> {
    manager.state().machine.values().map(|node| node.memory_map["memory"].free >> 20).collect()
}

fn cells(manager: &MemoryManager) -> Vec<Vec<i64>> {
    manager.state().machine.values().map(|node| node.cells.clone()).collect()
}

fn hints_of(manager: &MemoryManager, pod: &Pod) -> Vec<(String, bool)> {
    let container = manager::containers(pod).next().expect("a container").clone();
    let list = manager.hints(pod, &container).remove("memory").flatten().unwrap_or_default();
    list.iter().map(|hint| (hint.nodes.expect("named nodes").to_string(), hint.preferred)).collect()
}

/// RES-32. (pod, hints): the fewest nodes that could ever do are preferred, and no hint has too little.
#[test]
fn hints_name_every_set_of_nodes_that_has_enough() {
    let manager = manager(&[4, 2], NO_GATES);
    let cases: [(&str, &[(&str, bool)]); 5] = [
        ("app 1Gi", &[("0", true), ("1", true), ("0-1", false)]),
        ("app 3Gi", &[("0", true), ("0-1", false)]),
        ("app 4Gi", &[("0-1", true)]),
        ("app 5Gi", &[("0-1", true)]),
        ("app 6Gi", &[]),
    ];
    for (container, expected) in cases {
        let found = hints_of(&manager, &guaranteed("p", &[container]));
        let expected: Vec<(String, bool)> =
            expected.iter().map(|(nodes, preferred)| ((*nodes).to_owned(), *preferred)).collect();
        assert_eq!(found, expected, "{container}");
    }
}

/// Others are given nothing and hint nothing; nor does the policy `None`.
#[test]
fn only_guaranteed_pods_are_given_memory() {
    let burstable = named(pod(vec![container("a", "memory=1Gi", "memory=2Gi")], vec![]), "b");
    let own = named(with_pod_level(guaranteed("g", &["app 1Gi"]), "cpu=2,memory=2Gi", "cpu=2,memory=2Gi"), "g");
    for pod in [burstable, own] {
        let mut manager = manager(&[4, 4], NO_GATES);
        assert_eq!(hints_of(&manager, &pod), []);
        assert_eq!(manager.pod_hints(&pod), Hints::new());
        assert_eq!(give(&mut manager, &pod, &any(false)), Ok(()));
        assert_eq!(manager.state().assignments, Assignments::new());
        assert_eq!(manager.take_figures(), MemoryFigures::default());
    }
    let mut none = MemoryManager::new(MemoryPolicy::None, NO_GATES, &machine(&[4]), &Reserved::new());
    let pod = guaranteed("g", &["app 1Gi"]);
    assert_eq!((hints_of(&none, &pod), none.allocatable()), (vec![], vec![]));
    assert_eq!(give(&mut none, &pod, &on(&[0], true)), Ok(()));
    assert_eq!(none.nodes_of("g", "c0"), None);
}

/// First pods with their nodes, the affinity of the last one of 1 GiB, and the nodes that it gets or upstream's error.
type Case<'a> = (&'a [(&'a str, &'a [u8])], Hint, Result<&'a str, &'a str>);

/// RES-32.
#[test]
fn a_node_gives_memory_alone_or_in_one_group() {
    let no_extension = Err("[memorymanager] failed to find NUMA nodes to extend the current topology hint");
    let violation = Err("[memorymanager] preferred hint violates NUMA node allocation");
    let cases: [Case<'_>; 8] = [
        (&[], any(true), Ok("0")),
        (&[], on(&[1], true), Ok("1")),
        (&[], on(&[0, 1], false), Ok("0-1")),
        // Node 0 is taken alone, so it joins no group.
        (&[("app 1Gi", &[0])], on(&[0, 1], false), violation),
        (&[("app 1Gi", &[0])], any(false), Ok("0")),
        // Nodes 0 and 1 are a group: others get both, or other nodes.
        (&[("app 4Gi", &[0, 1])], any(true), Ok("2")),
        (&[("app 4Gi", &[0, 1])], on(&[1, 2], false), violation),
        // A named node is extended to one that has enough, never to another.
        (&[("app 3Gi", &[0]), ("app 4Gi", &[1, 2])], on(&[0], true), no_extension),
    ];
    for (first, affinity, expected) in cases {
        let mut manager = manager(&[4, 4, 4], NO_GATES);
        for (number, (container, nodes)) in first.iter().enumerate() {
            give(&mut manager, &guaranteed(&format!("first{number}"), &[container]), &on(nodes, true)).expect("room");
        }
        let given = give(&mut manager, &guaranteed("p", &["app 1Gi"]), &affinity).map_err(message);
        let nodes = manager.nodes_of("p", "c0").map(|nodes| nodes.to_string());
        assert_eq!(
            given.map(|()| nodes.unwrap_or_default()),
            expected.map(str::to_owned).map_err(str::to_owned),
            "{first:?} {affinity:?}"
        );
    }
}

/// RES-67. A group takes memory from its first node, then from the next; nodes are alone again once nobody holds any.
#[test]
fn a_group_is_filled_in_order_and_ends_with_its_last_container() {
    let mut manager = manager(&[4, 4], NO_GATES);
    let (one, two) = (guaranteed("one", &["app 5Gi"]), guaranteed("two", &["app 1Gi"]));
    give(&mut manager, &one, &any(true)).expect("has room");
    assert_eq!((free(&manager), cells(&manager)), (vec![0, 2048], vec![vec![0, 1], vec![0, 1]]));
    give(&mut manager, &two, &any(false)).expect("has room");
    assert_eq!(free(&manager), [0, 1024]);
    manager.remove_container("one", "c0");
    assert_eq!((free(&manager), cells(&manager)), (vec![3072, 3072], vec![vec![0, 1], vec![0, 1]]));
    manager.remove_stale(&[]);
    assert_eq!((free(&manager), cells(&manager)), (vec![3072, 4096], vec![vec![0], vec![1]]));
    assert_eq!(manager.state().assignments, Assignments::new());
}

/// RES-32. Init containers run one after the other, so the next container takes over; sidecars keep what they have.
#[test]
fn memory_of_init_containers_is_reused_and_that_of_sidecars_is_not() {
    let cases: [(&[&str], u64, &[u64]); 5] = [
        (&["init 2Gi", "app 1Gi"], 2048, &[1024, 1024]),
        (&["init 1Gi", "app 2Gi"], 2048, &[0, 2048]),
        (&["init 1Gi", "init 2Gi", "app 1Gi"], 2048, &[0, 1024, 1024]),
        (&["sidecar 1Gi", "app 1Gi"], 2048, &[1024, 1024]),
        (&["init 2Gi", "sidecar 1Gi", "app 1Gi"], 2048, &[0, 1024, 1024]),
    ];
    for (containers, held, blocks) in cases {
        let mut manager = manager(&[8], NO_GATES);
        let pod = guaranteed("p", containers);
        give(&mut manager, &pod, &on(&[0], true)).expect("has room");
        assert_eq!(free(&manager), [7 * 1024 - held], "{containers:?}");
        let size = |(number, _)| manager.state().blocks("p", &format!("c{number}")).expect("given")[0].size >> 20;
        assert_eq!(containers.iter().enumerate().map(size).collect::<Vec<_>>(), blocks, "{containers:?}");
        // When the last container starts, what is left to ended init containers is free.
        manager.container_starts(&pod, &format!("c{}", containers.len() - 1));
        let kept = manager.state().assignments["p"].len();
        assert_eq!(kept, containers.iter().filter(|text| !text.starts_with("init")).count(), "{containers:?}");
    }
}

/// Each size of huge pages lies on the same nodes as the plain memory.
#[test]
fn huge_pages_are_given_with_the_memory() {
    let node = |pages: u64| NodeMemory { total: 4 * GIB, huge_pages: [(2048, pages)].into() };
    let machine = Machine { nodes: [(0, node(0)), (1, node(512))].into() };
    let reserved = Reserved::from([(0, BTreeMap::from([("memory".to_owned(), GIB)]))]);
    let mut manager = MemoryManager::new(MemoryPolicy::Static, NO_GATES, &machine, &reserved);
    let amounts = "cpu=1,memory=1Gi,hugepages-2Mi=512Mi";
    let pod = named(pod(vec![container("a", amounts, amounts)], vec![]), "p");
    assert_eq!(hints_of(&manager, &pod), [("1".to_owned(), true), ("0-1".to_owned(), false)]);
    give(&mut manager, &pod, &any(true)).expect("has room");
    let blocks = manager.state().blocks("p", "a").expect("given");
    let kinds: Vec<(&str, &[i64], u64)> =
        blocks.iter().map(|block| (block.kind.as_str(), block.numa_affinity.as_slice(), block.size >> 20)).collect();
    assert_eq!(kinds, [("hugepages-2Mi", &[1_i64][..], 512), ("memory", &[1][..], 1024)]);
    // Plain memory is without the gigabyte of huge pages.
    assert_eq!(free(&manager), [3072, 2048]);
    assert_eq!(manager.state().machine[&1].number_of_assignments, 2);
}

/// After a restart a pod is hinted what it holds, and is not given it again.
#[test]
fn a_pod_that_holds_its_memory_is_given_no_more() {
    let mut manager = manager(&[4, 4], NO_GATES);
    let pod = guaranteed("p", &["app 1Gi"]);
    give(&mut manager, &pod, &on(&[1], true)).expect("has room");
    let before = manager.state().clone();
    assert_eq!(hints_of(&manager, &pod), [("1".to_owned(), true)]);
    give(&mut manager, &pod, &on(&[0], true)).expect("has it");
    assert_eq!(manager.state(), &before);
    // A changed request is no hint, as upstream.
    assert_eq!(hints_of(&manager, &guaranteed("p", &["app 2Gi"])), []);
}

/// `PodLevelResourceManagers`: containers whose requests are their limits get a part, the others share the rest.
#[test]
fn a_pod_with_its_own_resources_shares_them_out() {
    let own = |containers: Pod| named(with_pod_level(containers, "cpu=4,memory=3Gi", "cpu=4,memory=3Gi"), "p");
    let mixed = own(pod(
        vec![container("a", "cpu=1,memory=1Gi", "cpu=1,memory=1Gi"), container("b", "", "")],
        vec![container("i", "", ""), sidecar("s", "cpu=1,memory=512Mi", "cpu=1,memory=512Mi")],
    ));
    let mut manager = manager(&[4, 4], ALL_GATES);
    assert_eq!(manager.pod_hints(&mixed)["memory"].as_ref().map(Vec::len), Some(3));
    manager.allocate_pod(&mixed, &on(&[1], true)).expect("has room");
    assert_eq!(free(&manager), [3072, 1024]);
    let size = |name: &str| manager.state().blocks("p", name).expect("given")[0].size >> 20;
    assert_eq!([size("i"), size("s"), size("a"), size("b")], [3072, 512, 1024, 1536]);
    let figures = manager.take_figures();
    assert_eq!((figures.pod_exclusive, figures.pod_shared, figures.allocations_of_pod), (2, 2, 4));
    // Not a second time, and back with the last container alone.
    manager.allocate_pod(&mixed, &on(&[0], true)).expect("has it");
    assert_eq!(free(&manager), [3072, 1024]);
    for name in ["i", "s", "a"] {
        manager.remove_container("p", name);
        assert_eq!(free(&manager), [3072, 1024]);
    }
    manager.remove_container("p", "b");
    assert_eq!(free(&manager), [3072, 4096]);

    let greedy = own(pod(vec![container("a", "cpu=1,memory=3Gi", "cpu=1,memory=3Gi"), container("b", "", "")], vec![]));
    assert_eq!(manager.pod_hints(&greedy), Hints::from([("memory".to_owned(), Some(vec![]))]));
    let expected = AllocationFailure::Reasoned {
        reason: AdmissionReason::EmptyPodSharedPoolError,
        message: "pod rejected, sum of exclusive container memory requests equals pod budget, leaving no memory for \
                  shared containers"
            .to_owned(),
    };
    assert_eq!(manager.allocate_pod(&greedy, &any(false)), Err(expected));
}

/// Counted as upstream: every container that asks, and every one that is refused.
#[test]
fn figures_count_requests_errors_and_allocations() {
    let mut manager = manager(&[4], NO_GATES);
    give(&mut manager, &guaranteed("p", &["init 1Gi", "app 1Gi"]), &any(false)).expect("has room");
    give(&mut manager, &guaranteed("q", &["app 9Gi"]), &any(false)).expect_err("too much");
    let expected = MemoryFigures {
        pinning_requests: 3,
        pinning_errors: 1,
        allocations_of_node: 2,
        errors_of_node: 1,
        node_exclusive: 2,
        ..MemoryFigures::default()
    };
    assert_eq!(manager.take_figures(), expected);
    assert_eq!(manager.take_figures(), MemoryFigures::default());
}

#[test]
fn an_explanation_says_what_each_node_lacks() {
    let mut manager = manager(&[4, 4, 4, 1], NO_GATES);
    give(&mut manager, &guaranteed("a", &["app 2Gi"]), &on(&[0], true)).expect("has room");
    give(&mut manager, &guaranteed("b", &["app 5Gi"]), &on(&[1, 2], true)).expect("has room");
    let pod = guaranteed("c", &["app 2Gi"]);
    let explain = |manager: &MemoryManager, pod: &Pod| {
        let container = manager::containers(pod).next().expect("one").clone();
        manager.explain(pod, &container).map(|explanation| explanation.to_string())
    };
    assert_eq!(
        explain(&manager, &pod).as_deref(),
        Some(
            "wants 2147483648 bytes of memory; node 0 has 1073741824 bytes of memory left; node 1 gives memory only \
             together with the others of nodes 1-2; node 2 gives memory only together with the others of nodes 1-2; \
             node 3 never has more than 1073741824 bytes of memory"
        )
    );
    let held = explain(&manager, &guaranteed("a", &["app 2Gi"])).expect("is managed");
    assert!(held.starts_with("wants 2147483648 bytes of memory; holds them on nodes 0; "), "{held}");
    assert_eq!(explain(&manager, &named(super::pod(vec![container("a", "", "")], vec![]), "e")), None);
}

#[test]
fn policies_are_known_by_upstreams_names() {
    for policy in [MemoryPolicy::None, MemoryPolicy::Static] {
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    let error = |name: &str| name.parse::<MemoryPolicy>().expect_err("no policy").to_string();
    assert_eq!(error("static"), "unknown policy: \"static\"");
    assert_eq!(error("BestEffort"), "policy \"BestEffort\" is not available for platform \"linux\"");
}
