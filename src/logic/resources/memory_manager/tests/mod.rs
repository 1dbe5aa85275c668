//! Tests of the memory manager, and how they make machines and pods.

mod files;
mod properties;
mod situations;
mod upstream;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::logic::resources::testing::{container, pod, sidecar, with_pod_level};
use crate::logic::resources::topology::admission::{AllocationFailure, Provider};
use crate::logic::resources::topology::hints::{Hint, Hints, NumaMask};

const GIB: u64 = 1 << 30;
const NO_GATES: Gates = Gates { pod_level_resources: true, pod_level_managers: false };
const ALL_GATES: Gates = Gates { pod_level_resources: true, pod_level_managers: true };

/// A machine whose nodes have these many GiB.
fn machine(gibibytes: &[u64]) -> Machine {
    let node = |gibibytes: &u64| NodeMemory { total: gibibytes * GIB, huge_pages: BTreeMap::new() };
    Machine { nodes: (0_u8..).zip(gibibytes.iter().map(node)).collect() }
}

/// A manager that keeps one GiB of node 0 for the system.
fn manager(gibibytes: &[u64], gates: Gates) -> MemoryManager {
    let reserved = Reserved::from([(0, BTreeMap::from([("memory".to_owned(), GIB)]))]);
    MemoryManager::new(MemoryPolicy::Static, gates, &machine(gibibytes), &reserved)
}

/// A Guaranteed pod of containers with this much memory each: `app 1Gi`, `init 2Gi`, `sidecar 1Gi`.
fn guaranteed(uid: &str, containers: &[&str]) -> Pod {
    let (mut apps, mut inits) = (vec![], vec![]);
    for (number, text) in containers.iter().enumerate() {
        let (kind, memory) = text.split_once(' ').expect("a kind and an amount");
        let (name, amounts) = (format!("c{number}"), format!("cpu=1,memory={memory}"));
        match kind {
            "init" => inits.push(container(&name, &amounts, &amounts)),
            "sidecar" => inits.push(sidecar(&name, &amounts, &amounts)),
            _ => apps.push(container(&name, &amounts, &amounts)),
        }
    }
    named(pod(apps, inits), uid)
}

fn named(mut pod: Pod, uid: &str) -> Pod {
    pod.metadata.uid = Some(uid.to_owned());
    pod
}

fn any(preferred: bool) -> Hint {
    Hint { nodes: None, preferred }
}

fn on(nodes: &[u8], preferred: bool) -> Hint {
    Hint { nodes: Some(NumaMask::of(nodes.iter().copied())), preferred }
}

/// Gives all containers of a pod their memory.
fn give(manager: &mut MemoryManager, pod: &Pod, affinity: &Hint) -> Result<(), AllocationFailure> {
    let containers: Vec<_> = super::manager::containers(pod).cloned().collect();
    containers.iter().try_for_each(|container| manager.allocate(pod, container, affinity))
}

/// The message of a failure.
fn message(failure: AllocationFailure) -> String {
    match failure {
        AllocationFailure::Unexpected(message) | AllocationFailure::Reasoned { message, .. } => message,
    }
}
