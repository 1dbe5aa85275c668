//! The managers as others see them: the runtime, the PodResources API, metrics and people.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::*;
use crate::logic::model::time::Moment;
use crate::logic::resources::cpu_manager::take::{Level, Taken};
use crate::logic::resources::device_manager::calls::Need;
use crate::logic::resources::device_manager::devices::DeviceNode;
use crate::logic::resources::topology::admission::Refusal;

fn container(name: &str, amounts: &str) -> Container {
    testing::container(name, amounts, amounts)
}

fn named(name: &str, mut pod: Pod) -> Pod {
    pod.metadata.uid = Some(name.to_owned());
    pod
}

/// RES-31: whole CPUs of a Guaranteed pod have no quota, if the gate is on. One such container lifts the pod's as well.
#[test]
fn the_quota_is_lifted_from_containers_with_cpus_of_their_own() {
    let whole = "cpu=2,memory=1Gi";
    let parts = "cpu=1500m,memory=1Gi";
    // containers, and whether each, and the pod, have no quota where the gate is on
    let cases = [
        (vec![whole], vec![true], true),
        (vec![parts], vec![false], false),
        (vec![whole, parts], vec![true, false], true),
        (vec!["cpu=2"], vec![false], false),
    ];
    for (amounts, each, pod_too) in cases {
        for gate in [true, false] {
            let aligning = aligning(PolicyKind::None, Scope::Container);
            let policy = static_cpus(PolicyKind::None, 8);
            let mut managers = ResourceManagers::new(aligning, policy, static_memory(), gate).expect("CPUs");
            let containers: Vec<_> =
                amounts.iter().enumerate().map(|(at, amounts)| container(&format!("c{at}"), amounts)).collect();
            let pod = named("a", testing::pod(containers, vec![]));
            managers.place(&pod).expect("given");
            let pinning = managers.pinning_of(&pod);
            let found: Vec<bool> = (0..each.len()).map(|at| pinning.of(&format!("c{at}")).no_quota).collect();
            let expected: Vec<bool> = each.iter().map(|one| *one && gate).collect();
            assert_eq!((found, pinning.no_quota), (expected, pod_too && gate), "{amounts:?} {gate}");
        }
    }
}

/// RES-24, RES-25, RES-32: init containers have a place too, and leave it to later ones; ephemeral ones own nothing.
#[test]
fn each_container_of_a_pod_has_its_place() {
    let inits = vec![container("init", "cpu=3,memory=2Gi")];
    let mut pod = named("a", testing::pod(vec![container("main", "cpu=2,memory=1Gi")], inits));
    let debug = k8s_openapi::api::core::v1::EphemeralContainer { name: "debug".to_owned(), ..Default::default() };
    pod.spec.as_mut().expect("a spec").ephemeral_containers = Some(vec![debug]);
    let mut managers = managers(PolicyKind::BestEffort);
    managers.place(&pod).expect("given");
    let pinning = managers.pinning_of(&pod);
    assert_eq!(pinning.containers.keys().collect::<Vec<_>>(), ["init", "main"]);
    assert_eq!((pinning.of("init").cpus.as_str(), pinning.of("init").mems.as_str()), ("1-3", "0"));
    assert_eq!((pinning.of("main").cpus.as_str(), pinning.of("main").mems.as_str()), ("1-2", "0"));
    assert_eq!(pinning.of("debug"), ContainerPinning::default(), "it is restricted to nothing");
    let shared = managers.pinning_of(&pod_of("b", "cpu=1"));
    assert_eq!((shared.of("main").cpus.as_str(), shared.of("main").mems.as_str()), ("0,4-7", ""));
    assert_eq!(managers.pinning_of(&Pod::default()), PodPinning::default());
}

/// RES-32: memory of an init container is free once a later container starts. A sidecar keeps its own.
#[test]
fn a_container_that_starts_frees_memory_of_init_containers_before_it() {
    let sidecar = testing::sidecar("side", "cpu=500m,memory=1Gi", "cpu=500m,memory=1Gi");
    let inits = vec![container("first", "cpu=500m,memory=1Gi"), sidecar, container("last", "cpu=500m,memory=1Gi")];
    let pod = named("a", testing::pod(vec![container("main", "cpu=500m,memory=1Gi")], inits));
    let cases = [
        ("first", vec!["first", "last", "main", "side"]),
        ("side", vec!["last", "main", "side"]),
        ("last", vec!["last", "main", "side"]),
        ("main", vec!["main", "side"]),
    ];
    for (starts, expected) in cases {
        let mut managers = managers(PolicyKind::None);
        managers.place(&pod).expect("given");
        managers.container_starts(&pod, starts);
        let holders: Vec<String> = managers.allocations().containers[&uid(&pod)].keys().cloned().collect();
        assert_eq!(holders, expected, "{starts} starts");
    }
}

/// RES-41: the grant of a plugin goes to its own container.
#[test]
fn things_that_come_with_devices_are_for_one_container() {
    let wants = format!("{GPU}=1");
    let pod = named("a", testing::pod(vec![container("one", &wants), container("two", &wants)], vec![]));
    let mut managers = managers(PolicyKind::None);
    managers.set_inventory(inventory(&["g0", "g1"]));
    let Placement::Call { taken, .. } = managers.admit(&pod, Inquiry::default()) else { panic!("both are free") };
    for (need, ids) in taken {
        let node = |id: &String| DeviceNode {
            container_path: "/dev/gpu".to_owned(),
            host_path: format!("/dev/{id}"),
            permissions: "rw".to_owned(),
        };
        let grant = DeviceGrant { devices: ids.iter().map(node).collect(), ..DeviceGrant::default() };
        managers.grant(&uid(&pod), &need, grant);
    }
    let pinning = managers.pinning_of(&pod);
    let path = |name: &str| pinning.of(name).devices.grant.devices[0].host_path.clone();
    assert_eq!((path("one"), path("two")), ("/dev/g0".to_owned(), "/dev/g1".to_owned()));
    assert_eq!(managers.device_conflicts(&uid(&pod)), [], "each container has a /dev/gpu of its own");
    assert_eq!(managers.device_conflicts(&PodUid::from("b")), []);
    let unknown = named("b", testing::pod(vec![container("one", &wants)], vec![]));
    assert_eq!(managers.pinning_of(&unknown).of("one").lacks.as_deref(), Some(GPU), "it was not admitted");
}

/// RES-41: plugins that contradict each other about any container of the pod are named, those of other pods are not.
#[test]
fn contradictions_of_plugins_are_named_for_each_container() {
    let nic = "z.io/nic";
    let wants = format!("{GPU}=1,{nic}=1");
    let pod = named("a", testing::pod(vec![container("one", &wants), container("two", &wants)], vec![]));
    let mut managers = managers(PolicyKind::None);
    let both = [(GPU.to_owned(), gpus(&["g0", "g1"])), (nic.to_owned(), gpus(&["n0", "n1"]))];
    managers.set_inventory(Arc::new(both.into()));
    let Placement::Call { taken, .. } = managers.admit(&pod, Inquiry::default()) else { panic!("all are free") };
    for (need, ids) in taken {
        let envs = BTreeMap::from([("SHARED".to_owned(), ids[0].clone())]);
        managers.grant(&uid(&pod), &need, DeviceGrant { envs, ..DeviceGrant::default() });
    }
    let conflicts = managers.device_conflicts(&uid(&pod));
    let sides: Vec<_> = conflicts.iter().map(|one| (one.kept.as_str(), one.dropped.as_str())).collect();
    assert_eq!(sides, [("g0", "n0"), ("g1", "n1")]);
}

/// RES-53: the PodResources API names what containers own alone, and what all of them may own.
#[test]
fn the_api_names_what_is_owned_and_what_may_be() {
    let mut managers = managers(PolicyKind::Restricted);
    managers.set_inventory(inventory(&["g0@0", "g1@1!"]));
    let inits = vec![container("init", "cpu=1,memory=1Gi")];
    let pod = named("a", testing::pod(vec![container("main", "cpu=500m,memory=2Gi")], inits));
    managers.place(&pod).expect("given");
    let found = managers.allocations();
    let block = |bytes, node| MemoryBlock { memory_type: MEMORY.to_owned(), bytes, nodes: vec![node] };
    assert_eq!(found.of(&uid(&pod), "init").expect("owns a CPU").cpu_ids, [1]);
    let main = Allocation { memory: vec![block(2 * GIB, 0)], ..Allocation::default() };
    assert_eq!(found.of(&uid(&pod), "main"), Some(&main), "it shares its CPUs");
    assert_eq!((found.of(&uid(&pod), "other"), found.of(&PodUid::from("b"), "main")), (None, None));
    let entry = DeviceEntry { resource: GPU.to_owned(), id: "g0".to_owned(), node: Some(0) };
    let all = Allocation {
        cpu_ids: (1..8).collect(),
        memory: vec![block(7 * GIB, 0), block(8 * GIB, 1)],
        devices: vec![entry],
    };
    assert_eq!(found.allocatable, all, "free or taken, but healthy");
}

/// Nobody is asked where no policy gives anything.
#[test]
fn managers_are_idle_only_without_any_policy() {
    let cases = [
        (no_cpus(), MemoryPolicy::None, true),
        (no_cpus(), MemoryPolicy::Static, false),
        (static_cpus(PolicyKind::None, 8), MemoryPolicy::None, false),
        (static_cpus(PolicyKind::None, 8), MemoryPolicy::Static, false),
    ];
    for (cpus, policy, expected) in cases {
        let aligning = aligning(PolicyKind::None, Scope::Container);
        let managers = ResourceManagers::new(aligning, cpus.clone(), memory(policy), true).expect("CPUs");
        assert_eq!(managers.is_idle(), expected, "{cpus:?} {policy:?}");
    }
}

/// OBS-07: upstream's bounds, from 50 microseconds on, each twice the one before.
#[test]
fn lengths_of_admissions_are_counted_by_upstreams_bounds() {
    let mut managers = managers(PolicyKind::None);
    let lengths = [50, 51, 100, 819_200, 819_201].map(Duration::from_micros);
    lengths.into_iter().for_each(|took| managers.note_length(took));
    let lengths = managers.figures().topology.lengths;
    let counted: Vec<(u128, u64)> = lengths.cumulative().map(|(bound, count)| (bound.as_micros(), count)).collect();
    assert_eq!((counted[0], counted[1], counted[2]), ((50, 1), (100, 3), (200, 3)));
    assert_eq!((counted.len(), counted[13], counted[14], lengths.count()), (15, (409_600, 3), (819_200, 4), 5));
}

/// OBS-07: figures of memory are the sum over all admissions.
#[test]
fn figures_of_memory_add_up() {
    let mut managers = managers(PolicyKind::None);
    for (name, memory) in [("a", "1Gi"), ("b", "2Gi"), ("huge", "20Gi")] {
        let _ = managers.place(&owner(name, "1", memory));
    }
    let figures = managers.figures();
    assert_eq!((figures.memory.pinning_requests, figures.memory.pinning_errors), (3, 1));
    assert_eq!((figures.memory.allocations_of_node, figures.cpus.exclusive_cpus), (2, 2));
}

/// `podwright explain`: a line for each decision, in the order in which they are made.
#[test]
fn a_record_is_printed_line_by_line() {
    let cpus = |text: &str| CpuSet::parse(text).expect("CPUs");
    let taken = Taken { cpus: cpus("2-3"), steps: vec![(Level::Core(2), cpus("2")), (Level::Single, cpus("3"))] };
    let need = |container: &str| Need { container: container.to_owned(), resource: GPU.to_owned() };
    let mut managers = managers(PolicyKind::SingleNumaNode);
    managers.place(&owner("a", "2", "1Gi")).expect("given");
    let PlacementRecord { topology, memory, .. } = managers.record(&PodUid::from("a")).cloned().expect("remembered");
    let record = PlacementRecord {
        topology,
        cpus: [(String::new(), taken.clone()), ("main".to_owned(), taken)].into(),
        memory,
        devices: [(need("main"), vec!["g0".to_owned(), "g1".to_owned()])].into(),
        unhealthy: [(need("main"), vec![("g1".to_owned(), Moment::EPOCH)])].into(),
        refusal: Some(Refusal::Unaligned),
    };
    let expected = [
        "container main: NUMA nodes 0 (preferred); not 1: able, but ranked behind",
        "the pod: CPUs 2-3 (core 2: 2; single CPUs: 3)",
        "container main: CPUs 2-3 (core 2: 2; single CPUs: 3)",
        "container main: memory: wants 1073741824 bytes of memory; node 0 has enough; node 1 has enough",
        "container main: vendor.com/gpu: g0, g1",
        "container main: vendor.com/gpu: g1 is unhealthy since 1970-01-01T00:00:00Z",
        "refused: Resources cannot be allocated with Topology locality",
    ];
    assert_eq!(record.lines(), expected);
    assert_eq!(record.to_string(), expected.join("\n"));
    assert!(!record.is_empty() && PlacementRecord::default().is_empty());
    assert_eq!(PlacementRecord::default().to_string(), "");
    let refused = PlacementRecord { refusal: Some(Refusal::Unaligned), ..PlacementRecord::default() };
    assert!(!refused.is_empty(), "a refusal alone is worth a line");
}

/// A pod without containers, as a broken static pod may be.
#[test]
fn a_pod_without_containers_is_given_nothing() {
    let mut managers = managers(PolicyKind::Restricted);
    let before = managers.clone();
    let empty = named("a", Pod { spec: Some(PodSpec::default()), ..Pod::default() });
    assert_eq!(admit(&mut managers, &empty), Placement::Given);
    assert!(managers.has_state_of(&before));
    assert_eq!(managers.pinning_of(&empty), PodPinning::default());
    assert_eq!(managers.device_resources(&empty), BTreeSet::new());
}
