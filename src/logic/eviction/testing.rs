//! Thresholds, observations, pods and statistics for tests of this domain.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use serde_json::json;

use super::signal::{Observation, Observations, Signal};
use super::threshold::Threshold;
use crate::logic::model::time::Moment;
use crate::logic::resources::portion::Portion;
use crate::logic::statistics::summary::{
    ContainerStats, FsStats, MemoryStats, PodReference, PodStats, ProcessStats, VolumeStats,
};

/// A hard threshold of so much.
pub(super) fn threshold(signal: Signal, amount: u64) -> Threshold {
    let value = Portion::Amount(signal.resource().quantity(amount));
    Threshold { signal, value, grace: Duration::ZERO, reclaim_min: None }
}

/// So much is left of each, of 1000.
pub(super) fn observed(left: &[(Signal, u64)]) -> Observations {
    left.iter().map(|(signal, available)| (*signal, observation(*available))).collect()
}

/// So much is left of 1000.
pub(super) fn observation(available: u64) -> Observation {
    Observation { available, capacity: 1000, at: Moment(1) }
}

/// A pod of this name and UID with this priority and specification.
pub(super) fn pod(name: &str, priority: i32, mut spec: serde_json::Value) -> Pod {
    spec["priority"] = json!(priority);
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c"}]);
    }
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec}))
        .expect("a pod")
}

/// A pod whose one container asks for so much of a resource.
pub(super) fn asking(name: &str, priority: i32, resource: &str, amount: &str) -> Pod {
    pod(name, priority, json!({"containers": [{"name": "c", "resources": {"requests": {resource: amount}}}]}))
}

/// The pod of a runtime class that takes so much for itself.
pub(super) fn with_overhead(mut pod: Pod, resource: &str, amount: &str) -> Pod {
    let overhead = [(resource.to_owned(), ApiQuantity(amount.to_owned()))];
    pod.spec.get_or_insert_default().overhead = Some(overhead.into());
    pod
}

/// Statistics of the pod of this name, without figures.
pub(super) fn stats(name: &str) -> PodStats {
    PodStats {
        pod_ref: PodReference { name: name.into(), namespace: "ns".into(), uid: name.into() },
        ..PodStats::default()
    }
}

/// Statistics of a pod that uses so much memory.
pub(super) fn using_memory(name: &str, bytes: u64) -> PodStats {
    PodStats { memory: Some(memory(bytes)), ..stats(name) }
}

/// Statistics of a pod with so many processes.
pub(super) fn with_processes(name: &str, process_count: u64) -> PodStats {
    PodStats { process_stats: Some(ProcessStats { process_count }), ..stats(name) }
}

/// A working set.
pub(super) fn memory(bytes: u64) -> MemoryStats {
    MemoryStats { working_set_bytes: Some(bytes), ..MemoryStats::default() }
}

/// Space that somebody uses.
pub(super) fn space(bytes: u64, inodes: u64) -> FsStats {
    FsStats { used_bytes: Some(bytes), inodes_used: Some(inodes), ..FsStats::default() }
}

/// A container with files in its writable layer and its logs.
pub(super) fn container(name: &str, rootfs: FsStats, logs: FsStats) -> ContainerStats {
    ContainerStats { name: name.into(), rootfs: Some(rootfs), logs: Some(logs), ..ContainerStats::default() }
}

/// A volume with files.
pub(super) fn volume(name: &str, space: FsStats) -> VolumeStats {
    VolumeStats { name: name.into(), space, ..VolumeStats::default() }
}
