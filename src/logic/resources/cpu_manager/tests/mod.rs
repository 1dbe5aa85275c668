//! Tests of the whole manager, on machines that are data.

mod properties;
mod situations;
mod upstream;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::options::StaticOptions;
use super::*;
use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::resources::testing;
use crate::logic::resources::topology::hints::NumaMask;

/// Two sockets of 64 cores: four NUMA nodes each, every eight cores with a cache of their own (EPYC with NPS4).
const EPYC: &str = "2.4.2.8.2f";
/// Four sockets of ten cores, a NUMA node each.
const XEON: &str = "4.1.1.10.2i";
/// Four cores with two threads, side by side in the list.
const LAPTOP: &str = "1.1.1.4.2a";
/// Sixteen cores without threads, four to a cache.
const ARM64: &str = "1.1.4.4.1f";
/// Upstream's `topoSingleSocketHT`.
const SINGLE_SOCKET: &str = "1.1.1.4.2f";
/// Upstream's `topoDualSocketHT`.
const DUAL_SOCKET: &str = "2.1.1.3.2i";
/// Upstream's largest kind: 512 CPUs on eight NUMA nodes.
const LARGE: &str = "2.4.4.8.2f";

/// A machine of `sockets.nodes per socket.caches per node.cores per cache.threads per core`, and how the CPUs are
/// numbered: `f`: the second threads after all first ones; `a`: the threads of a core side by side; `i`: as `f`, with the
/// cores of the sockets in turn. No nodes per socket: two sockets to a node.
fn machine(spec: &str) -> Arc<CpuTopology> {
    let (dimensions, layout) = spec.split_at(spec.len() - 1);
    let dimensions: Vec<u32> = dimensions.split('.').map(|number| number.parse().expect("a number")).collect();
    let [sockets, nodes, uncores, cores, threads] = dimensions[..] else { panic!("five dimensions: {spec}") };
    let of_socket = nodes.max(1) * uncores * cores;
    let all = sockets * of_socket;
    let number = |place: u32, thread: u32| match layout {
        "f" => thread * all + place,
        "a" => place * threads + thread,
        _ => thread * all + place % of_socket * sockets + place / of_socket,
    };
    let places = (0..all).flat_map(|place| (0..threads).map(move |thread| (place, thread)));
    let cpus = places.map(|(place, thread)| {
        let socket = place / of_socket;
        let node = if nodes == 0 { socket / 2 } else { place / (uncores * cores) };
        CpuInfo {
            cpu: number(place, thread),
            core: (0..threads).map(|thread| number(place, thread)).min().expect("a thread"),
            socket,
            node: u8::try_from(node).expect("few nodes"),
            uncore: place / cores,
        }
    });
    Arc::new(CpuTopology::new(cpus).expect("a machine"))
}

fn set(text: &str) -> CpuSet {
    CpuSet::parse(text).expect("a set")
}

fn mask(nodes: &[u8]) -> Option<NumaMask> {
    Some(NumaMask::of(nodes.iter().copied()))
}

const GATES: PodLevelGates = PodLevelGates { resources: true, managers: false };

fn settings(options: StaticOptions, reserved: i64, reserved_cpus: &str) -> StaticSettings {
    StaticSettings {
        options,
        reserved: Quantity::from_units(reserved, Format::DecimalSi),
        reserved_cpus: set(reserved_cpus),
        single_numa_node: false,
        gates: GATES,
    }
}

fn manager(machine_spec: &str, settings: &StaticSettings) -> CpuManager {
    let policy = StaticPolicy::new(machine(machine_spec), settings).expect("settings that fit");
    CpuManager::new(CpuPolicy::Static(policy), CpuState::default()).expect("a new state")
}

/// A pod from `uid i:init=1 s:sidecar=1 c:app=2`: kind, name and CPUs of each container, init containers and sidecars in
/// their order. Everything asks for as much as its limit, apart from CPUs with `~`. `P=4`: CPUs of the whole pod.
fn pod(text: &str) -> Pod {
    let mut words = text.split(' ');
    let uid = words.next().expect("a UID");
    let (mut containers, mut init_containers, mut whole) = (vec![], vec![], None);
    for word in words {
        let (name, cpus) = word.split_once('=').expect("name=CPUs");
        let memory = if cpus.ends_with('~') { "2Gi" } else { "1Gi" };
        let cpus = cpus.trim_end_matches('~');
        let (requests, limits) = (format!("cpu={cpus},memory=1Gi"), format!("cpu={cpus},memory={memory}"));
        match name.split_once(':') {
            None => whole = Some(requests),
            Some(("c", name)) => containers.push(testing::container(name, &requests, &limits)),
            Some(("s", name)) => init_containers.push(testing::sidecar(name, &requests, &limits)),
            Some((_, name)) => init_containers.push(testing::container(name, &requests, &limits)),
        }
    }
    let mut pod = testing::pod(containers, init_containers);
    if let Some(whole) = whole {
        pod = testing::with_pod_level(pod, &whole, &whole);
    }
    pod.metadata.uid = Some(uid.to_owned());
    pod
}

fn container<'a>(pod: &'a Pod, name: &str) -> &'a Container {
    let spec = pod.spec.as_ref().expect("a spec");
    let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
    all.find(|container| container.name == name).expect("a container of that name")
}

/// Allocates for every container of a pod, as admission does; what each of them has afterwards.
fn admit(manager: &mut CpuManager, text: &str, affinity: Option<NumaMask>) -> Result<Vec<String>, Refusal> {
    let pod = pod(text);
    let spec = pod.spec.as_ref().expect("a spec");
    let names: Vec<_> = spec.init_containers.iter().flatten().chain(&spec.containers).map(|one| &one.name).collect();
    let uid = pod.metadata.uid.as_deref().expect("a UID").into();
    for name in &names {
        manager.allocate(&pod, container(&pod, name), affinity)?;
    }
    Ok(names.iter().map(|name| manager.exclusive_cpus(&uid, name).to_string()).collect())
}
