//! Answers of the runtime about itself, sandboxes, containers and images, checked for what the protocol makes mandatory.

use super::signals::signal_name;
use super::{invalid, moment, require, required_message};
use crate::cri::types as own;
use crate::cri::{CriResult, wire};

/// The version of the agent's side that `Version` is asked for, and that the answer must repeat.
pub(in crate::cri) const API_VERSION: &str = "0.1.0";

/// Answer of `Version`: all four fields, and the version asked for (CRI-01).
pub(in crate::cri) fn version(call: &'static str, answer: wire::VersionResponse) -> CriResult<own::RuntimeVersion> {
    let fields = [
        ("version", &answer.version),
        ("runtime_name", &answer.runtime_name),
        ("runtime_api_version", &answer.runtime_api_version),
        ("runtime_version", &answer.runtime_version),
    ];
    let missing: Vec<_> = fields.into_iter().filter(|(_, text)| text.is_empty()).map(|(field, _)| field).collect();
    if !missing.is_empty() {
        return invalid(call, format!("not set: {}", missing.join(", ")));
    }
    if answer.version != API_VERSION {
        return invalid(call, format!("version is {:?}, not {API_VERSION:?}: not supported", answer.version));
    }
    Ok(own::RuntimeVersion {
        runtime_name: answer.runtime_name,
        runtime_version: answer.runtime_version,
        runtime_api_version: answer.runtime_api_version,
    })
}

/// Answer of `Status`: at least two conditions; handlers sorted by name.
pub(in crate::cri) fn runtime_status(
    call: &'static str,
    answer: wire::StatusResponse,
) -> CriResult<own::RuntimeStatus> {
    let conditions = answer.status.unwrap_or_default().conditions;
    if conditions.len() < 2 {
        return invalid(call, "status.conditions lacks RuntimeReady or NetworkReady");
    }
    let condition = |condition: wire::RuntimeCondition| own::RuntimeCondition {
        kind: condition.r#type,
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
    };
    let handler = |handler: wire::RuntimeHandler| {
        let features = handler.features.unwrap_or_default();
        own::RuntimeHandler {
            name: handler.name,
            recursive_read_only_mounts: features.recursive_read_only_mounts,
            user_namespaces: features.user_namespaces,
        }
    };
    let features = answer.features.unwrap_or_default();
    let mut handlers: Vec<_> = answer.runtime_handlers.into_iter().map(handler).collect();
    handlers.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(own::RuntimeStatus {
        conditions: conditions.into_iter().map(condition).collect(),
        handlers,
        features: own::RuntimeFeatures {
            supplemental_groups_policy: features.supplemental_groups_policy,
            user_namespaces_host_network: features.user_namespaces_host_network,
        },
    })
}

/// Answer of `RuntimeConfig`: the cgroup driver, where the runtime tells Linux' part.
pub(in crate::cri) fn cgroup_driver(
    call: &'static str,
    answer: wire::RuntimeConfigResponse,
) -> CriResult<Option<own::CgroupDriver>> {
    let Some(linux) = answer.linux else { return Ok(None) };
    match wire::CgroupDriver::try_from(linux.cgroup_driver) {
        Ok(wire::CgroupDriver::Systemd) => Ok(Some(own::CgroupDriver::Systemd)),
        Ok(wire::CgroupDriver::Cgroupfs) => Ok(Some(own::CgroupDriver::Cgroupfs)),
        Err(_) => invalid(call, format!("linux.cgroup_driver {} is not known", linux.cgroup_driver)),
    }
}

fn sandbox_state(number: i32) -> own::SandboxState {
    match wire::PodSandboxState::try_from(number) {
        Ok(wire::PodSandboxState::SandboxReady) => own::SandboxState::Ready,
        Ok(wire::PodSandboxState::SandboxNotready) | Err(_) => own::SandboxState::NotReady,
    }
}

pub(super) fn sandbox_metadata(metadata: wire::PodSandboxMetadata) -> own::PodSandboxMetadata {
    own::PodSandboxMetadata {
        name: metadata.name,
        uid: metadata.uid,
        namespace: metadata.namespace,
        attempt: metadata.attempt,
    }
}

pub(super) fn container_metadata(metadata: wire::ContainerMetadata) -> own::ContainerMetadata {
    own::ContainerMetadata { name: metadata.name, attempt: metadata.attempt }
}

/// A line of `ListPodSandbox`.
pub(in crate::cri) fn pod_sandbox(sandbox: wire::PodSandbox) -> own::PodSandbox {
    own::PodSandbox {
        id: sandbox.id.into(),
        metadata: sandbox_metadata(sandbox.metadata.unwrap_or_default()),
        state: sandbox_state(sandbox.state),
        created_at: moment(sandbox.created_at),
        labels: sandbox.labels,
        annotations: sandbox.annotations,
        runtime_handler: sandbox.runtime_handler,
    }
}

/// Answer of `PodSandboxStatus`.
pub(in crate::cri) fn pod_sandbox_status(
    call: &'static str,
    answer: wire::PodSandboxStatusResponse,
) -> CriResult<own::PodSandboxStatus> {
    let status = required_message(call, "status", answer.status)?;
    require(call, "status.id", !status.id.is_empty())?;
    let metadata = required_message(call, "status.metadata", status.metadata)?;
    require(call, "status.metadata.name", !metadata.name.is_empty())?;
    require(call, "status.metadata.namespace", !metadata.namespace.is_empty())?;
    require(call, "status.metadata.uid", !metadata.uid.is_empty())?;
    require(call, "status.created_at", status.created_at != 0)?;
    let lacks_address = status.network.as_ref().is_some_and(|network| network.ip.is_empty());
    let network = status.network.unwrap_or_default();
    let additional = network.additional_ips.into_iter().map(|address| address.ip);
    let options = status.linux.and_then(|linux| linux.namespaces).and_then(|namespaces| namespaces.options);
    Ok(own::PodSandboxStatus {
        id: status.id.into(),
        metadata: sandbox_metadata(metadata),
        state: sandbox_state(status.state),
        created_at: moment(status.created_at),
        ips: std::iter::once(network.ip).chain(additional).filter(|ip| !ip.is_empty()).collect(),
        lacks_address,
        network_mode: namespace_mode(options.unwrap_or_default().network),
        labels: status.labels,
        annotations: status.annotations,
        runtime_handler: status.runtime_handler,
    })
}

fn namespace_mode(number: i32) -> own::NamespaceMode {
    match wire::NamespaceMode::try_from(number) {
        Ok(wire::NamespaceMode::Container) => own::NamespaceMode::Container,
        Ok(wire::NamespaceMode::Node) => own::NamespaceMode::Node,
        Ok(wire::NamespaceMode::Target) => own::NamespaceMode::Target,
        Ok(wire::NamespaceMode::Pod) | Err(_) => own::NamespaceMode::Pod,
    }
}

fn container_state(number: i32) -> own::ContainerState {
    match wire::ContainerState::try_from(number) {
        Ok(wire::ContainerState::ContainerCreated) => own::ContainerState::Created,
        Ok(wire::ContainerState::ContainerRunning) => own::ContainerState::Running,
        Ok(wire::ContainerState::ContainerExited) => own::ContainerState::Exited,
        Ok(wire::ContainerState::ContainerUnknown) | Err(_) => own::ContainerState::Unknown,
    }
}

/// A line of `ListContainers`.
pub(in crate::cri) fn container(container: wire::Container) -> own::Container {
    let wire::ImageSpec { image, runtime_handler: image_handler, .. } = container.image.unwrap_or_default();
    own::Container {
        id: container.id.into(),
        sandbox_id: container.pod_sandbox_id.into(),
        metadata: container_metadata(container.metadata.unwrap_or_default()),
        image,
        image_handler,
        image_ref: container.image_ref,
        image_id: container.image_id,
        state: container_state(container.state),
        created_at: moment(container.created_at),
        labels: container.labels,
        annotations: container.annotations,
    }
}

/// Answer of `ContainerStatus`.
pub(in crate::cri) fn container_status(
    call: &'static str,
    answer: wire::ContainerStatusResponse,
) -> CriResult<own::ContainerStatus> {
    let status = required_message(call, "status", answer.status)?;
    require(call, "status.id", !status.id.is_empty())?;
    let metadata = required_message(call, "status.metadata", status.metadata)?;
    require(call, "status.metadata.name", !metadata.name.is_empty())?;
    require(call, "status.created_at", status.created_at != 0)?;
    let image = status.image.unwrap_or_default().image;
    require(call, "status.image.image", !image.is_empty())?;
    require(call, "status.image_ref", !status.image_ref.is_empty())?;
    Ok(own::ContainerStatus {
        id: status.id.into(),
        metadata: container_metadata(metadata),
        state: container_state(status.state),
        created_at: moment(status.created_at),
        started_at: moment(status.started_at),
        finished_at: moment(status.finished_at),
        exit_code: status.exit_code,
        image,
        image_ref: status.image_ref,
        image_id: status.image_id,
        reason: status.reason,
        message: status.message,
        labels: status.labels,
        annotations: status.annotations,
        mounts: status.mounts.into_iter().map(mount).collect(),
        log_path: status.log_path,
        resources: status.resources.and_then(|resources| resources.linux).map(resources),
        user: status.user.and_then(|user| user.linux).map(|user| own::LinuxContainerUser {
            uid: user.uid,
            gid: user.gid,
            supplemental_groups: user.supplemental_groups,
        }),
        stop_signal: signal_name(status.stop_signal),
    })
}

fn mount(mount: wire::Mount) -> own::Mount {
    let propagation = match wire::MountPropagation::try_from(mount.propagation) {
        Ok(wire::MountPropagation::PropagationHostToContainer) => own::MountPropagation::HostToContainer,
        Ok(wire::MountPropagation::PropagationBidirectional) => own::MountPropagation::Bidirectional,
        Ok(wire::MountPropagation::PropagationPrivate) | Err(_) => own::MountPropagation::Private,
    };
    own::Mount {
        container_path: mount.container_path,
        host_path: mount.host_path,
        readonly: mount.readonly,
        selinux_relabel: mount.selinux_relabel,
        propagation,
        uid_mappings: id_mappings(mount.uid_mappings),
        gid_mappings: id_mappings(mount.gid_mappings),
        recursive_read_only: mount.recursive_read_only,
        image: mount.image.map(image_spec),
        image_sub_path: mount.image_sub_path,
    }
}

fn id_mappings(mappings: Vec<wire::IdMapping>) -> Vec<own::IdMapping> {
    let one = |mapping: wire::IdMapping| own::IdMapping {
        host_id: mapping.host_id,
        container_id: mapping.container_id,
        length: mapping.length,
    };
    mappings.into_iter().map(one).collect()
}

fn image_spec(image: wire::ImageSpec) -> own::ImageSpec {
    own::ImageSpec {
        image: image.image,
        annotations: image.annotations,
        user_specified_image: image.user_specified_image,
        runtime_handler: image.runtime_handler,
        image_ref: image.image_ref,
    }
}

fn resources(resources: wire::LinuxContainerResources) -> own::LinuxContainerResources {
    own::LinuxContainerResources {
        cpu_period: resources.cpu_period,
        cpu_quota: resources.cpu_quota,
        cpu_shares: resources.cpu_shares,
        memory_limit_in_bytes: resources.memory_limit_in_bytes,
        oom_score_adj: resources.oom_score_adj,
        cpuset_cpus: resources.cpuset_cpus,
        cpuset_mems: resources.cpuset_mems,
        hugepage_limits: resources.hugepage_limits.into_iter().map(|limit| (limit.page_size, limit.limit)).collect(),
        unified: resources.unified,
        memory_swap_limit_in_bytes: resources.memory_swap_limit_in_bytes,
    }
}

/// One event of `GetContainerEvents`. A kind that is newer than this agent counts as a creation: a reason to look.
pub(in crate::cri) fn container_event(event: wire::ContainerEventResponse) -> own::ContainerEvent {
    let kind = match wire::ContainerEventType::try_from(event.container_event_type) {
        Ok(wire::ContainerEventType::ContainerStartedEvent) => own::ContainerEventKind::Started,
        Ok(wire::ContainerEventType::ContainerStoppedEvent) => own::ContainerEventKind::Stopped,
        Ok(wire::ContainerEventType::ContainerDeletedEvent) => own::ContainerEventKind::Deleted,
        Ok(wire::ContainerEventType::ContainerCreatedEvent) | Err(_) => own::ContainerEventKind::Created,
    };
    let metadata = event.pod_sandbox_status.and_then(|status| status.metadata);
    own::ContainerEvent {
        container_id: event.container_id.into(),
        kind,
        created_at: moment(event.created_at),
        pod_uid: metadata.map(|metadata| metadata.uid).filter(|uid| !uid.is_empty()),
    }
}

/// A line of `ListImages`.
pub(in crate::cri) fn image(image: wire::Image) -> own::Image {
    let spec = image.spec.unwrap_or_default();
    own::Image {
        id: image.id,
        repo_tags: image.repo_tags,
        repo_digests: image.repo_digests,
        size: image.size,
        uid: image.uid.map(|uid| uid.value),
        username: image.username,
        annotations: spec.annotations,
        runtime_handler: spec.runtime_handler,
        pinned: image.pinned,
    }
}

/// Answer of `ImageStatus`: without an image, or with one that has an ID and a size.
pub(in crate::cri) fn image_status(
    call: &'static str,
    answer: wire::ImageStatusResponse,
) -> CriResult<Option<own::Image>> {
    let Some(found) = answer.image else { return Ok(None) };
    require(call, "image.id", !found.id.is_empty())?;
    require(call, "image.size", found.size != 0)?;
    Ok(Some(image(found)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn any_resources()(
            numbers in any::<[i64; 6]>(),
            cpus in ".*",
            mems in ".*",
            hugepages in proptest::collection::vec((".*", any::<u64>()), 0..3),
            unified in proptest::collection::btree_map(".*", ".*", 0..3),
        ) -> own::LinuxContainerResources {
            own::LinuxContainerResources {
                cpu_period: numbers[0],
                cpu_quota: numbers[1],
                cpu_shares: numbers[2],
                memory_limit_in_bytes: numbers[3],
                oom_score_adj: numbers[4],
                memory_swap_limit_in_bytes: numbers[5],
                cpuset_cpus: cpus,
                cpuset_mems: mems,
                hugepage_limits: hugepages,
                unified,
            }
        }
    }

    prop_compose! {
        fn any_mount()(
            texts in any::<[String; 5]>(),
            flags in any::<[bool; 3]>(),
            ids in proptest::collection::vec(any::<[u32; 3]>(), 0..3),
            annotations in proptest::collection::btree_map(".*", ".*", 0..3),
            propagation in proptest::sample::select(vec![
                own::MountPropagation::Private,
                own::MountPropagation::HostToContainer,
                own::MountPropagation::Bidirectional,
            ]),
            with_image in any::<bool>(),
        ) -> own::Mount {
            let [container_path, host_path, image_sub_path, image, image_ref] = texts;
            let [readonly, selinux_relabel, recursive_read_only] = flags;
            let uid_mappings: Vec<_> = ids
                .iter()
                .map(|[host_id, container_id, length]| own::IdMapping {
                    host_id: *host_id,
                    container_id: *container_id,
                    length: *length,
                })
                .collect();
            let gid_mappings = uid_mappings.iter().rev().copied().collect();
            let image = own::ImageSpec { image, annotations, image_ref, ..Default::default() };
            own::Mount {
                container_path,
                host_path,
                readonly,
                selinux_relabel,
                propagation,
                uid_mappings,
                gid_mappings,
                recursive_read_only,
                image: with_image.then_some(image),
                image_sub_path,
            }
        }
    }

    proptest! {
        #[test]
        fn resources_survive_the_wire(told in any_resources()) {
            prop_assert_eq!(resources(wire::LinuxContainerResources::from(&told)), told);
        }

        #[test]
        fn mounts_survive_the_wire(told in any_mount()) {
            prop_assert_eq!(mount(wire::Mount::from(&told)), told);
        }

        /// An answer with any numbers and gaps is taken, or refused by name.
        #[test]
        fn any_container_status_is_taken_or_refused(
            numbers in any::<[i32; 4]>(),
            times in any::<[i64; 3]>(),
            there in any::<[bool; 5]>(),
            text in ".?",
        ) {
            let status = wire::ContainerStatus {
                id: text.clone(),
                metadata: there[0].then(|| wire::ContainerMetadata { name: text.clone(), attempt: 0 }),
                state: numbers[0],
                created_at: times[0],
                started_at: times[1],
                finished_at: times[2],
                exit_code: numbers[1],
                image: there[1].then(|| wire::ImageSpec { image: text.clone(), ..Default::default() }),
                image_ref: text.clone(),
                mounts: vec![wire::Mount { propagation: numbers[2], ..Default::default() }],
                resources: there[2].then(Default::default),
                user: there[3].then(Default::default),
                stop_signal: numbers[3],
                ..Default::default()
            };
            let answer = wire::ContainerStatusResponse { status: there[4].then_some(status), ..Default::default() };
            let whole = there[0] && there[1] && there[4] && !text.is_empty() && times[0] != 0;
            match container_status("ContainerStatus", answer) {
                Ok(_) => prop_assert!(whole),
                Err(error) => {
                    prop_assert!(!whole);
                    let refused = matches!(error, crate::cri::CriError::InvalidAnswer { .. });
                    prop_assert!(refused, "{:?}", error);
                }
            }
        }
    }
}
