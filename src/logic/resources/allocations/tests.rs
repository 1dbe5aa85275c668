//! The managers together, on a machine of two NUMA nodes with four CPUs and 8 GiB each.

mod admission;
mod files;
mod keeping;
mod properties;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::ids::PodUid;
use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::resources::MEMORY;
use crate::logic::resources::cpu_manager::options::StaticOptions;
use crate::logic::resources::cpu_manager::{
    CpuInfo, CpuPolicy, CpuSet, CpuTopology, PodLevelGates, StaticPolicy, StaticSettings,
};
use crate::logic::resources::device_manager::Inquiry;
use crate::logic::resources::device_manager::devices::{
    Device, DeviceGrant, Health, Inventory, PluginOptions, ResourceDevices, Session,
};
use crate::logic::resources::memory_manager::{Gates, Machine, MemoryManager, MemoryPolicy, NodeMemory, Reserved};
use crate::logic::resources::testing;
use crate::logic::resources::topology::admission::TopologyManager;
use crate::logic::resources::topology::machine::NumaNodes;
use crate::logic::resources::topology::policy::{Options, Policy, PolicyKind, Scope};

const GIB: u64 = 1 << 30;
const GPU: &str = "vendor.com/gpu";

/// CPU 0 and 1 GiB of node 0 are kept for the host.
pub(crate) fn managers(kind: PolicyKind) -> ResourceManagers {
    let parts = (aligning(kind, Scope::Container), static_cpus(kind, 8), static_memory());
    ResourceManagers::new(parts.0, parts.1, parts.2, true).expect("CPUs are shared")
}

fn aligning(kind: PolicyKind, scope: Scope) -> TopologyManager {
    let nodes = NumaNodes::new([(0, vec![10, 20]), (1, vec![20, 10])]);
    let policy = Policy::new(kind, Options::default(), nodes).expect("few nodes");
    TopologyManager { policy, scope, pod_level: false }
}

/// Four CPUs a node, of which one is kept for the host.
fn static_cpus(kind: PolicyKind, count: u32) -> CpuPolicy {
    let cpu = |cpu: u32| {
        let node = u8::try_from(cpu / 4).expect("two nodes");
        CpuInfo { cpu, core: cpu, socket: u32::from(node), node, uncore: u32::from(node) }
    };
    let settings = StaticSettings {
        options: StaticOptions::default(),
        reserved: Quantity::from_units(1, Format::DecimalSi),
        reserved_cpus: CpuSet::default(),
        single_numa_node: kind == PolicyKind::SingleNumaNode,
        gates: PodLevelGates { resources: true, managers: false },
    };
    let topology = Arc::new(CpuTopology::new((0..count).map(cpu)).expect("CPUs"));
    CpuPolicy::Static(StaticPolicy::new(topology, &settings).expect("fits"))
}

fn no_cpus() -> CpuPolicy {
    CpuPolicy::None { gates: PodLevelGates { resources: true, managers: false } }
}

/// 8 GiB a node, of which one of node 0 is kept for the host.
fn static_memory() -> MemoryManager {
    memory(MemoryPolicy::Static)
}

fn memory(policy: MemoryPolicy) -> MemoryManager {
    let machine = Machine {
        nodes: (0..2).map(|node| (node, NodeMemory { total: 8 * GIB, huge_pages: BTreeMap::new() })).collect(),
    };
    let kept = Reserved::from([(0, BTreeMap::from([(MEMORY.to_owned(), GIB)]))]);
    let gates = Gates { pod_level_resources: true, pod_level_managers: false };
    MemoryManager::new(policy, gates, &machine, &kept)
}

/// GPUs from texts like `g0@1!`: the name, the NUMA node, `!` for an unhealthy one.
fn gpus(texts: &[&str]) -> ResourceDevices {
    let device = |text: &&str| {
        let health = if text.ends_with('!') { Health::Unhealthy } else { Health::Healthy };
        let (id, node) = text.trim_end_matches('!').split_once('@').unwrap_or((text, ""));
        (id.to_owned(), Device { health, nodes: node.parse().into_iter().collect() })
    };
    let options = PluginOptions::default();
    ResourceDevices { devices: texts.iter().map(device).collect(), options, session: Session::Live }
}

fn inventory(texts: &[&str]) -> Arc<Inventory> {
    Arc::new([(GPU.to_owned(), gpus(texts))].into())
}

/// A pod of one container with these requests and limits, `cpu=2,memory=1Gi` say.
fn pod_of(uid: &str, amounts: &str) -> Pod {
    let mut pod = testing::pod(vec![testing::container("main", amounts, amounts)], vec![]);
    pod.metadata.uid = Some(uid.to_owned());
    pod
}

/// Admits a pod whose plugins give all at once.
fn admit(managers: &mut ResourceManagers, pod: &Pod) -> Placement {
    let placement = managers.admit(pod, Inquiry::default());
    if let Placement::Call { taken, .. } = &placement {
        let uid = uid(pod);
        taken.iter().for_each(|(need, _)| managers.grant(&uid, need, DeviceGrant::default()));
    }
    placement
}

fn uid(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().expect("a UID"))
}

/// A Guaranteed pod of this UID with one container.
pub(crate) fn owner(uid: &str, cpu: &str, memory: &str) -> Pod {
    pod_of(uid, &format!("cpu={cpu},memory={memory}"))
}

fn path(name: &str) -> String {
    format!("/var/lib/kubelet/{name}")
}

/// RES-24, RES-31, RES-32, RES-35, RES-53.
#[test]
fn a_pod_is_given_cpus_and_memory_of_one_node() {
    let mut managers = managers(PolicyKind::Restricted);
    let pod = owner("a", "4", "2Gi");
    assert_eq!(managers.place(&pod), Ok(()));
    let pinning = managers.pinning_of(&pod);
    let main = ContainerPinning { cpus: "4-7".to_owned(), mems: "1".to_owned(), no_quota: true, ..Default::default() };
    assert_eq!((pinning.of("main"), pinning.no_quota), (main, true), "node 0 has three CPUs to give");
    let other = owner("b", "500m", "1Gi");
    assert_eq!(managers.place(&other), Ok(()));
    let shared = managers.pinning_of(&other).of("main");
    assert_eq!((shared.cpus.as_str(), shared.no_quota), ("0-3", false));
    let allocations = managers.allocations();
    let owned = allocations.of(&PodUid::from("a"), "main").expect("it owns some");
    assert_eq!((owned.cpu_ids.as_slice(), owned.memory[0].bytes), ([4, 5, 6, 7].as_slice(), 2 * GIB));
    assert_eq!(allocations.allocatable.cpu_ids, (1..8).collect::<Vec<_>>());
    let lines = managers.record(&PodUid::from("a")).expect("remembered").lines();
    assert!(lines.iter().any(|line| line.starts_with("container main: CPUs 4-7 (")), "{lines:?}");
    assert!(lines[0].starts_with("container main: NUMA nodes 1 (preferred); not 0: "), "{lines:?}");
    let figures = managers.figures();
    assert_eq!((figures.cpus.exclusive_cpus, figures.topology.requests), (4, 2));
    assert_eq!(figures.memory.pinning_requests, 2);
}

/// RES-37: refused as a whole, and remembered for people until a hundred others were refused.
#[test]
fn a_refused_pod_is_given_nothing_and_is_remembered() {
    let mut managers = managers(PolicyKind::SingleNumaNode);
    let before = managers.files();
    let refusal = managers.place(&owner("wide", "5", "1Gi")).expect_err("no node has five CPUs");
    assert_eq!(refusal.reason(), AdmissionReason::TopologyAffinityError);
    assert_eq!(managers.files(), before);
    managers.keep_only(&BTreeSet::new());
    let lines = managers.record(&PodUid::from("wide")).expect("remembered").lines();
    let last = lines.last().expect("a line");
    assert_eq!(last, "refused: Resources cannot be allocated with Topology locality");
    for number in 0..100 {
        let _ = managers.place(&owner(&format!("wide-{number}"), "5", "1Gi"));
    }
    managers.keep_only(&BTreeSet::new());
    assert_eq!(managers.record(&PodUid::from("wide")), None);
}

/// RES-67: pods that are gone give all back, and only they.
#[test]
fn pods_that_hold_nothing_any_more_give_it_back() {
    let mut managers = managers(PolicyKind::None);
    let unused = managers.files();
    for (uid, cpu) in [("a", "2"), ("b", "2")] {
        managers.place(&owner(uid, cpu, "1Gi")).expect("given");
    }
    let both = managers.files();
    let all: BTreeSet<PodUid> = ["a", "b"].map(PodUid::from).into();
    assert!(!managers.keep_only(&all));
    assert_eq!(managers.files(), both);
    assert!(managers.keep_only(&[PodUid::from("b")].into()));
    assert_eq!(managers.pinning_of(&owner("a", "2", "1Gi")).of("main").mems, "");
    assert!(managers.record(&PodUid::from("a")).is_none() && managers.record(&PodUid::from("b")).is_some());
    managers.keep_only(&BTreeSet::new());
    assert_eq!(managers.files(), unused);
}

/// RES-29, RES-34: the next agent goes on from the files.
#[test]
fn the_next_agent_goes_on_from_the_files() {
    let mut managers = managers(PolicyKind::BestEffort);
    let pod = owner("a", "2", "1Gi");
    managers.place(&pod).expect("given");
    let next = self::managers(PolicyKind::BestEffort).restored(&managers.files(), path).expect("restored");
    assert!(next.has_state_of(&managers));
    assert_eq!(next.pinning_of(&pod), managers.pinning_of(&pod));
    let mut again = next.clone();
    assert_eq!(again.place(&pod), Ok(()), "it has it already");
    assert!(again.has_state_of(&next));
}

/// RES-30, RES-34: each file that cannot be gone on from is named, in upstream's words.
#[test]
fn files_of_another_kind_are_refused_by_name() {
    let managers = managers(PolicyKind::None);
    let mut of_none = ResourceManagers::default().files();
    let refused = |files: &StateFiles| managers.restored(files, path).expect_err("refused").to_string();
    assert_eq!(
        refused(&of_none),
        "start cpu manager error: could not restore state from checkpoint: configured policy \"static\" differs from state \
         checkpoint policy \"none\", please drain this node and delete the CPU manager checkpoint file \
         \"/var/lib/kubelet/cpu_manager_state\" before restarting Kubelet"
    );
    of_none.cpus = None;
    let text = refused(&of_none);
    assert!(text.starts_with("start memory manager error: could not restore state from checkpoint: "), "{text}");
    assert!(text.contains("/var/lib/kubelet/memory_manager_state"), "{text}");
    let mut cut = managers.files();
    cut.cpus = cut.cpus.map(|bytes| bytes[..bytes.len() / 2].to_vec());
    assert!(refused(&cut).contains("unexpected end of JSON input"), "{}", refused(&cut));
    assert!(managers.restored(&StateFiles::default(), path).is_ok(), "there may be none yet");
}

#[test]
fn the_policies_none_give_nothing_and_say_so_in_their_files() {
    let mut managers = ResourceManagers::default();
    assert!(managers.is_idle());
    managers.place(&owner("a", "2", "1Gi")).expect("takes all");
    assert_eq!(managers.pinning_of(&owner("a", "2", "1Gi")).of("main"), ContainerPinning::default());
    assert_eq!(managers.allocations(), Allocations::default());
    let StateFiles { cpus, memory, devices } = managers.files();
    assert_eq!(devices, None, "there is no plugin");
    let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.expect("a file")).expect("text");
    assert_eq!(text(cpus), r#"{"policyName":"none","defaultCpuSet":"","checksum":1353318690}"#);
    assert_eq!(text(memory), r#"{"policyName":"None","machineState":{},"checksum":4236770233}"#);
}
