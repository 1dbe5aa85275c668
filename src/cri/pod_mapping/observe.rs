//! From the runtime's answers to a pod as decisions see it (CRI-14): labels tell whose a sandbox or container is,
//! annotations tell hash and restart count; what is missing counts as nothing.

use std::collections::BTreeMap;

use super::labels;
use crate::cri::types::{
    Container, ContainerStatus, Labels, LinuxContainerResources, Mount, NamespaceMode, PodSandbox, PodSandboxStatus,
};
use crate::logic::formats::go_text::clean_absolute;
use crate::logic::model::ids::{FullName, PodUid, SandboxId};
use crate::logic::model::runtime_pod::{
    ContainerProcess, Generation, RuntimeContainer, RuntimePod, RuntimeResources, RuntimeSandbox,
};
use crate::logic::model::time::Stamp;
use crate::logic::resources::{quota_to_milli_cpu, shares_to_milli_cpu};

/// The pod of a sandbox or container, as its labels tell; `None` when it is none of a pod's.
pub fn pod_identity(labels: &Labels) -> Option<(PodUid, FullName)> {
    let text = |key: &str| labels.get(key).map(String::as_str).filter(|text| !text.is_empty());
    let uid = text(labels::POD_UID)?;
    Some((PodUid::from(uid), FullName::new(text(labels::POD_NAME)?, text(labels::POD_NAMESPACE)?)))
}

/// One container, with `sandbox_id` from the listing, because a status does not tell it. The termination message of the
/// container's own file is the caller's to add. Only `stop_signals` (the feature `ContainerStopSignals`) brings the stop
/// signal.
pub fn runtime_container(status: &ContainerStatus, sandbox_id: &SandboxId, stop_signals: bool) -> RuntimeContainer {
    let user = status.user.as_ref().map(|user| (user.uid, user.gid, user.supplemental_groups.clone()));
    RuntimeContainer {
        id: status.id.clone(),
        sandbox_id: sandbox_id.clone(),
        name: status.metadata.name.clone(),
        restart_count: restart_count(&status.annotations),
        hash: hash(&status.annotations),
        process: ContainerProcess {
            image: status.image.clone(),
            image_ref: status.image_ref.clone(),
            user,
            stop_signal: status.stop_signal.clone().filter(|_| stop_signals),
            image_mounts: image_mounts(&status.mounts),
        },
        state: status.state,
        created_at: status.created_at,
        started_at: status.started_at,
        finished_at: status.finished_at,
        exit_code: status.exit_code,
        reason: status.reason.clone(),
        message: status.message.clone(),
        log_path: status.log_path.clone(),
        resources: status.resources.as_ref().and_then(runtime_resources),
    }
}

/// The references of images that are mounted, by path.
fn image_mounts(mounts: &[Mount]) -> BTreeMap<String, String> {
    let image = |mount: &Mount| {
        let image = mount.image.as_ref().filter(|image| !image.image.is_empty())?;
        Some((clean_absolute(&mount.container_path), image.image.clone()))
    };
    mounts.iter().filter_map(image).collect()
}

/// The runtime's CPU and memory; nothing where it says neither (upstream's `toKubeContainerResources`).
fn runtime_resources(told: &LinuxContainerResources) -> Option<RuntimeResources> {
    let positive = |value: i64| (value > 0).then_some(value);
    let resources = RuntimeResources {
        cpu_request: positive(shares_to_milli_cpu(told.cpu_shares)),
        cpu_limit: positive(quota_to_milli_cpu(told.cpu_quota, told.cpu_period)),
        memory_limit: positive(told.memory_limit_in_bytes),
    };
    (resources != RuntimeResources::default()).then_some(resources)
}

/// Where on the host the container's termination message is: behind the mount at the path of its annotation, which the
/// mount has in cleaned form. The path comes from the runtime: the caller checks that it is one of the agent's own files.
pub fn termination_message_file(status: &ContainerStatus) -> Option<&str> {
    let inside = status.annotations.get(labels::TERMINATION_MESSAGE_PATH).filter(|path| !path.is_empty())?;
    let inside = clean_absolute(inside);
    status.mounts.iter().find(|mount| mount.container_path == inside).map(|mount| mount.host_path.as_str())
}

/// One sandbox.
pub fn runtime_sandbox(status: &PodSandboxStatus) -> RuntimeSandbox {
    let host_network = status.network_mode == NamespaceMode::Node;
    RuntimeSandbox {
        id: status.id.clone(),
        attempt: status.metadata.attempt,
        state: status.state,
        created_at: status.created_at,
        host_network,
        ips: if host_network { Vec::new() } else { valid_ips(&status.ips) },
        lacks_address: status.lacks_address,
    }
}

/// A pod of these parts, newest first.
pub fn runtime_pod(
    uid: PodUid,
    full_name: FullName,
    sandboxes: Vec<RuntimeSandbox>,
    containers: Vec<RuntimeContainer>,
    taken: Stamp,
) -> RuntimePod {
    let mut pod = RuntimePod { uid, full_name, sandboxes, containers, taken };
    pod.put_newest_first();
    pod
}

/// Where a listed container stands among the instances of its name.
pub fn generation(container: &Container) -> Generation<'_> {
    Generation::new(restart_count(&container.annotations), container.created_at, container.id.as_str())
}

/// Where a listed sandbox stands among those of its pod.
pub fn sandbox_generation(sandbox: &PodSandbox) -> Generation<'_> {
    Generation::new(sandbox.metadata.attempt, sandbox.created_at, sandbox.id.as_str())
}

/// The count of a container's starts before this one. It comes from outside and ends in the API, which has no number
/// below zero.
fn restart_count(annotations: &Labels) -> u32 {
    annotations.get(labels::RESTART_COUNT).and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// The hash as this agent writes it: lower hex without leading zeros, so that equal numbers are equal texts.
fn hash(annotations: &Labels) -> String {
    let number = annotations.get(labels::CONTAINER_HASH).and_then(|hash| u64::from_str_radix(hash, 16).ok());
    number.map(|number| format!("{number:x}")).unwrap_or_default()
}

/// As upstream: one address that cannot be read makes the whole list worthless.
fn valid_ips(ips: &[String]) -> Vec<String> {
    let told = ips.iter().filter(|ip| !ip.is_empty()).cloned().collect::<Vec<_>>();
    if told.iter().all(|ip| ip.parse::<std::net::IpAddr>().is_ok()) { told } else { Vec::new() }
}
