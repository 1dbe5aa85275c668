//! Situations that people know, with answers that follow from the rules.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::resources::topology::hints::Hint;

fn on(change: impl FnOnce(&mut StaticOptions)) -> StaticOptions {
    let mut options = StaticOptions::default();
    change(&mut options);
    options
}

fn given(manager: &mut CpuManager, text: &str) -> Vec<String> {
    admit(manager, text, None).expect("room")
}

/// RES-23.
#[test]
fn res_23_the_policy_none_pins_nothing() {
    let mut manager = CpuManager::new(CpuPolicy::None { gates: GATES }, CpuState::default()).expect("no checks");
    assert_eq!(given(&mut manager, "a c:main=2"), [""]);
    assert!(manager.hints(&pod("a c:main=2"), container(&pod("a c:main=2"), "main")).is_empty());
    assert_eq!(manager.affinity(&"a".into(), "main"), CpuSet::default());
    assert_eq!(manager.allocatable(), CpuSet::default());
    assert_eq!(manager.checkpoint(), br#"{"policyName":"none","defaultCpuSet":"","checksum":1353318690}"#);
    assert_eq!(manager.figures(), CpuFigures::default());
}

/// RES-24, RES-25.
#[test]
fn res_24_res_25_whole_requests_of_guaranteed_pods_leave_the_shared_cpus() {
    let mut manager = manager(SINGLE_SOCKET, &settings(StaticOptions::default(), 1, ""));
    // Core 0 is broken up by the reserved CPU 0; the next whole core is 1.
    assert_eq!(given(&mut manager, "own c:main=2"), ["1,5"]);
    for shared in ["burst c:main=2~", "half c:main=1500m", "half2 c:main=500m"] {
        assert_eq!(given(&mut manager, shared), [""], "{shared}");
    }
    assert_eq!(manager.affinity(&"half".into(), "main"), set("0,2-4,6-7"));
    // A single CPU comes from the core that is broken up already.
    assert_eq!(given(&mut manager, "one c:main=1"), ["4"]);
    assert_eq!(manager.state().shared, set("0,2-3,6-7"));
    assert_eq!(manager.allocatable(), set("1-7"));
    let refusal = admit(&mut manager, "many c:main=5", None).expect_err("four are free");
    assert_eq!(refusal.reason(), AdmissionReason::UnexpectedAdmissionError);
    let text = "Allocate failed due to not enough cpus available to satisfy request: requested=5, available=4, which is \
                unexpected";
    assert_eq!(refusal.to_string(), text);
    assert!(manager.remove_container(&"own".into(), "main"));
    assert!(!manager.remove_container(&"own".into(), "main"));
    assert_eq!(manager.state().shared, set("0-3,5-7"));
}

/// RES-24.
#[test]
fn res_24_the_cpus_of_an_init_container_are_used_again_and_those_of_a_sidecar_are_not() {
    let mut manager = manager(SINGLE_SOCKET, &settings(StaticOptions::default(), 1, ""));
    // The init container's four go to the sidecar and the others in part; the sidecar keeps its own.
    assert_eq!(given(&mut manager, "p i:init=4 s:side=2 c:main=2"), ["1-2,5-6", "1,5", "2,6"]);
    assert_eq!(manager.state().shared, set("0,3-4,7"));
    // Once the init container is gone, what the others have stays theirs.
    assert!(manager.remove_container(&"p".into(), "init"));
    assert_eq!(manager.state().shared, set("0,3-4,7"));
}

/// RES-24.
#[test]
fn res_24_pods_that_are_gone_give_their_cpus_back() {
    let mut manager = manager(SINGLE_SOCKET, &settings(StaticOptions::default(), 1, ""));
    given(&mut manager, "a c:main=2 c:other=1");
    given(&mut manager, "b c:main=2");
    let active = BTreeMap::from([("a".into(), BTreeSet::from(["main".to_owned()]))]);
    assert!(manager.remove_stale(&active));
    assert_eq!(manager.state().shared, set("0,2-4,6-7"));
    assert!(!manager.remove_stale(&active));
}

/// RES-24.
#[test]
fn res_24_cpus_near_the_hint_come_first() {
    let mut manager = manager(DUAL_SOCKET, &settings(StaticOptions::default(), 1, ""));
    assert_eq!(admit(&mut manager, "a c:main=2", mask(&[1])), Ok(vec!["1,7".to_owned()]));
    // Four are left there; the fifth comes from elsewhere.
    assert_eq!(admit(&mut manager, "b c:main=5", mask(&[1])), Ok(vec!["3,5-6,9,11".to_owned()]));
}

/// RES-26.
#[test]
fn res_26_reserved_cpus_are_chosen_or_counted_and_must_agree() {
    let reserved = |spec, reserved, cpus| {
        let policy = StaticPolicy::new(machine(spec), &settings(StaticOptions::default(), reserved, cpus));
        policy.map(|policy| policy.reserved().to_string()).map_err(|error| error.to_string())
    };
    assert_eq!(reserved(SINGLE_SOCKET, 2, ""), Ok("0,4".to_owned()));
    assert_eq!(reserved(DUAL_SOCKET, 2, "5,7"), Ok("5,7".to_owned()));
    let nothing =
        "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero";
    assert_eq!(reserved(SINGLE_SOCKET, 0, ""), Err(nothing.to_owned()));
    let prefix = "new static policy error: [cpumanager] unable to";
    let other = format!("{prefix} reserve the required amount of CPUs (size of 5,7 did not equal 3)");
    assert_eq!(reserved(DUAL_SOCKET, 3, "5,7"), Err(other));
    let few = format!("{prefix} reserve the required amount of CPUs (size of  did not equal 9)");
    assert_eq!(reserved(SINGLE_SOCKET, 9, ""), Err(few));
    let unknown = format!("{prefix} build the reserved physical CPUs from the reserved set: unknown CPU ID: 8");
    assert_eq!(reserved(SINGLE_SOCKET, 2, "0,8"), Err(unknown));
    // A part of a CPU is rounded up.
    let settings = StaticSettings { reserved: Quantity::from_milli(1100), ..settings(StaticOptions::default(), 0, "") };
    let policy = StaticPolicy::new(machine(SINGLE_SOCKET), &settings).expect("good");
    assert_eq!(policy.reserved(), &set("0,4"));
}

/// RES-26, RES-27.
#[test]
fn res_26_strictly_reserved_cpus_are_not_even_shared() {
    let manager = manager(SINGLE_SOCKET, &settings(on(|options| options.strict_reservation = true), 2, ""));
    assert_eq!(manager.state().shared, set("1-3,5-7"));
    assert_eq!(manager.affinity(&"any".into(), "main"), set("1-3,5-7"));
}

/// RES-27.
#[test]
fn res_27_aligning_by_socket_needs_a_machine_that_has_it() {
    let error = |spec, single_numa_node| {
        let settings = settings(on(|options| options.align_by_socket = true), 1, "");
        let error = StaticPolicy::new(machine(spec), &StaticSettings { single_numa_node, ..settings }).err();
        error.map(|error| error.to_string())
    };
    assert_eq!(error(EPYC, false), None);
    let prefix = "new static policy error: ";
    let single =
        "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option";
    assert_eq!(error(EPYC, true), Some(format!("{prefix}{single}")));
    let sockets =
        "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA";
    assert_eq!(error("4.0.1.3.2i", false), Some(format!("{prefix}{sockets}")));
}

/// RES-28.
#[test]
fn res_28_a_request_that_splits_a_core_is_refused() {
    let whole_cores = on(|options| options.full_pcpus_only = true);
    let mut manager = manager(SINGLE_SOCKET, &settings(whole_cores, 1, ""));
    let refusal = admit(&mut manager, "odd c:main=3", None).expect_err("no whole cores");
    assert_eq!(refusal.reason(), AdmissionReason::SmtAlignmentError);
    assert_eq!(refusal.to_string(), "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2");
    // CPU 4 is free, and its core has a reserved CPU.
    let refusal = admit(&mut manager, "many c:main=8", None).expect_err("three cores");
    let text = "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 6, requested CPUs = 8, CPUs \
                per core = 2";
    assert_eq!(refusal.to_string(), text);
    assert_eq!(given(&mut manager, "all c:main=6"), ["1-3,5-7"]);
    // Asked again, as after a restart of the agent: who has CPUs keeps them.
    assert_eq!(given(&mut manager, "all c:main=6"), ["1-3,5-7"]);
    let counts = manager.figures().counts;
    assert_eq!((counts.pinning_requests, counts.pinning_errors), (4, 2));
    assert_eq!((counts.aligned_cores, counts.misaligned_cores, counts.node_exclusive), (2, 2, 1));
}

/// RES-30.
#[test]
fn res_30_a_state_that_does_not_fit_is_refused() {
    let start = |options, shared: &str, own: &str| {
        let policy = StaticPolicy::new(machine(SINGLE_SOCKET), &settings(options, 2, "0-1")).expect("good");
        let mut state = CpuState { shared: set(shared), ..CpuState::default() };
        if !own.is_empty() {
            state.assign(&"p".into(), "c", set(own));
        }
        let manager = CpuManager::new(CpuPolicy::Static(policy), state);
        manager.map(|manager| manager.state().shared.to_string()).map_err(|error| error.to_string())
    };
    let (loose, strict) = (StaticOptions::default(), on(|options| options.strict_reservation = true));
    for (options, shared, own, expected) in [
        (loose, "", "", Ok("0-7")),
        (strict, "", "", Ok("2-7")),
        (loose, "0-5", "6-7", Ok("0-5")),
        (strict, "2-5", "6-7", Ok("2-5")),
        (loose, "", "1", Err("default cpuset cannot be empty")),
        (strict, "", "2-7", Ok("")),
        (strict, "", "2-6", Err("current set of available CPUs \"2-7\" doesn't match with CPUs in state \"2-6\"")),
        (loose, "1-7", "0", Err("not all reserved cpus: \"0-1\" are present in defaultCpuSet: \"1-7\"")),
        (strict, "1-7", "", Err("some of strictly reserved cpus: \"1\" are present in defaultCpuSet: \"1-7\"")),
        (loose, "0-6", "6-7", Err("pod: p, container: c cpuset: \"6-7\" overlaps with default cpuset \"0-6\"")),
        (loose, "0-6", "", Err("current set of available CPUs \"0-7\" doesn't match with CPUs in state \"0-6\"")),
        (loose, "0-7", "8", Err("current set of available CPUs \"0-7\" doesn't match with CPUs in state \"0-8\"")),
        (strict, "2-6", "", Err("current set of available CPUs \"2-7\" doesn't match with CPUs in state \"2-6\"")),
    ] {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(start(options, shared, own), expected, "{shared:?} {own:?}");
    }
}

/// RES-31.
#[test]
fn res_31_containers_with_cpus_of_their_own_are_known() {
    let mut manager = manager(SINGLE_SOCKET, &settings(StaticOptions::default(), 1, ""));
    let text = "p c:own=2 c:part=500m";
    given(&mut manager, text);
    let (pod, other) = (pod(text), pod("q c:main=500m"));
    assert_eq!(manager.isolation(&pod, container(&pod, "own")), Isolation::Container);
    assert_eq!(manager.isolation(&pod, container(&pod, "part")), Isolation::Host);
    assert!(manager.has_exclusive_cpus(&pod, container(&pod, "own")));
    assert!(manager.pod_has_exclusive_cpus(&pod) && !manager.pod_has_exclusive_cpus(&other));
}

/// RES-24: pods with resources of their own (gate `PodLevelResourceManagers`).
#[test]
fn res_24_a_pods_own_cpus_are_shared_out_among_its_containers() {
    let gates = PodLevelGates { managers: true, ..GATES };
    let with_gate = StaticSettings { gates, ..settings(StaticOptions::default(), 1, "") };
    let mut managed = manager(SINGLE_SOCKET, &with_gate);
    let whole = pod("p P=6 i:init=4 s:side=2 c:main=2 c:helper=100m");
    managed.allocate_pod(&whole, None).expect("room").expect("CPUs");
    let uid = "p".into();
    let cpus = |manager: &CpuManager, name: &str| manager.exclusive_cpus(&uid, name).to_string();
    assert_eq!(["init", "side", "main", "helper"].map(|name| cpus(&managed, name)), ["1-2,5-6", "1,5", "2,6", "3,7"]);
    assert_eq!(managed.isolation(&whole, container(&whole, "main")), Isolation::Container);
    assert_eq!(managed.isolation(&whole, container(&whole, "helper")), Isolation::Pod);
    assert!(!managed.pod_has_exclusive_cpus(&whole));
    // Asked again, as after a restart of the agent.
    let before = managed.state().clone();
    assert_eq!(managed.allocate_pod(&whole, None), Ok(None));
    assert_eq!(managed.state(), &before);
    let hint = Hint { nodes: mask(&[0]), preferred: true };
    assert_eq!(managed.pod_hints(&whole)["cpu"], Some(vec![hint]));
    // The CPUs come back with the last container.
    for name in ["init", "side", "main"] {
        managed.remove_container(&uid, name);
        assert_eq!(managed.state().shared, set("0,4"), "{name}");
    }
    managed.remove_container(&uid, "helper");
    assert_eq!((managed.state().shared.clone(), managed.state().pods.len()), (set("0-7"), 0));

    let empty = pod("q P=4 c:main=4 c:helper=100m");
    let refusal = managed.allocate_pod(&empty, None).expect_err("nothing to share");
    assert_eq!(refusal.reason(), AdmissionReason::EmptyPodSharedPoolError);
    assert_eq!(refusal, Refusal::EmptyPool(EmptyPool::App));
    assert_eq!(managed.pod_hints(&empty)["cpu"], Some(vec![]));
    let no_init = pod("q P=4 s:side=4 i:init=100m c:main=4");
    let refusal = managed.allocate_pod(&no_init, None).expect_err("nothing to share");
    assert_eq!(refusal.to_string(), "pod rejected, pod has shared init containers but no cpus available for them");

    // Without the gate such pods share.
    let mut plain = manager(SINGLE_SOCKET, &settings(StaticOptions::default(), 1, ""));
    assert_eq!(plain.allocate(&whole, container(&whole, "main"), None), Ok(None));
    assert!(plain.hints(&whole, container(&whole, "main")).is_empty() && plain.pod_hints(&whole).is_empty());
}

/// RES-24: a resize under the gate `InPlacePodVerticalScalingExclusiveCPUs` changes no CPUs in 1.36.
#[test]
fn res_24_a_resized_container_keeps_its_cpus_and_has_no_hint() {
    let mut manager = manager(SINGLE_SOCKET, &settings(StaticOptions::default(), 1, ""));
    assert_eq!(given(&mut manager, "p c:main=2"), ["1,5"]);
    let resized = pod("p c:main=4");
    assert_eq!(manager.hints(&resized, container(&resized, "main"))["cpu"], Some(vec![]));
    assert_eq!(given(&mut manager, "p c:main=4"), ["1,5"]);
}

/// Issue 31: the machines by name. The numbers follow from the rules in `take`.
#[test]
fn cpus_are_found_on_machines_of_every_kind() {
    let first = |spec, options, text| {
        let mut manager = manager(spec, &settings(options, 2, ""));
        given(&mut manager, text).remove(0)
    };
    let plain = StaticOptions::default();
    // Cores 1 to 4 of the node that has a core reserved; the second threads are 128 further on.
    assert_eq!(first(EPYC, plain, "p c:main=8"), "1-4,129-132");
    // The other cache of the node, where caches count.
    assert_eq!(first(EPYC, on(|options| options.prefer_uncore = true), "p c:main=16"), "8-15,136-143");
    assert_eq!(first(XEON, plain, "p c:main=4"), "4,8,44,48");
    assert_eq!(first(LAPTOP, plain, "p c:main=4"), "2-5");
    assert_eq!(first(ARM64, plain, "p c:main=3"), "2-4");
    assert_eq!(first(ARM64, on(|options| options.prefer_uncore = true), "p c:main=4"), "4-7");
    // Even shares of two nodes where one is too small: a node has every fourth CPU.
    let shared = set(&first(XEON, on(|options| options.distribute_across_numa = true), "p c:main=22"));
    let of_node = |node| shared.iter().filter(|cpu| cpu % 4 == node).count();
    assert_eq!([0, 1, 2, 3].map(of_node), [0, 11, 11, 0]);
}

/// Issue 31: an allocation on 512 CPUs is a matter of microseconds; here unoptimised, with room for a busy machine.
#[test]
fn many_allocations_on_a_large_machine_end_soon() {
    let mut manager = manager(LARGE, &settings(on(|options| options.prefer_uncore = true), 4, ""));
    let pods: Vec<_> = (0..60).map(|at| format!("p{at} c:main={}", at % 9 + 1)).collect();
    for text in &pods {
        let pod = pod(text);
        let hints = manager.hints(&pod, container(&pod, "main"));
        assert!(hints["cpu"].as_ref().is_some_and(|hints| hints.len() > 100), "{hints:?}");
        given(&mut manager, text);
    }
    assert_eq!(manager.figures().exclusive_cpus, (0..60).map(|at| at % 9 + 1).sum::<u64>());
}
