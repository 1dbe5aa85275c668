//! A container: `ContainerConfig` (CRI-08, CRI-11, CRI-13).

use k8s_openapi::api::core::v1::{Container, Pod};

use super::facts::ContainerFacts;
use super::labels::{container_annotations, container_labels};
use super::security::container_security_context;
use super::{MappingError, PodNames, is_host_network, segment};
use crate::cri::types::{ContainerConfig, ContainerMetadata, ImageSpec, Mount, UserNamespace};
use crate::logic::environment::{Environment, container_environment};
use crate::logic::formats::expansion::TooLong;
use crate::logic::formats::go_text::clean_absolute;
use crate::logic::logs::log_path::container_log_path;

/// The hosts file's place in every container.
const ETC_HOSTS: &str = "/etc/hosts";

/// Whether the container gets the pod's hosts file: it has no mount of its own there, and the pod's addresses are known
/// or are the node's. The caller writes the file anew before each start of such a container.
pub fn needs_hosts_file(pod: &Pod, container: &Container, pod_ips: &[String]) -> bool {
    let own = container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == ETC_HOSTS);
    !own && (!pod_ips.is_empty() || is_host_network(pod))
}

/// The configuration of `container`.
///
/// # Errors
/// Each error's text is the message of `CreateContainerConfigError`.
pub fn container_config(
    pod: &Pod,
    container: &Container,
    facts: &ContainerFacts,
) -> Result<ContainerConfig, MappingError> {
    let names = PodNames::of(pod)?;
    segment("container name", Some(&container.name))?;
    let environment = environment(pod, container, facts)?;
    let security_context = container_security_context(pod, &names, container, facts)?;
    let user_namespace = security_context.namespace_options.userns.clone().unwrap_or_default();
    Ok(ContainerConfig {
        metadata: ContainerMetadata { name: container.name.clone(), attempt: facts.restart_count },
        image: ImageSpec {
            image: facts.image_ref.clone(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..ImageSpec::default()
        },
        command: expanded("command", container, container.command.as_deref(), &environment)?,
        args: expanded("args", container, container.args.as_deref(), &environment)?,
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: environment.into_variables(),
        mounts: mounts(pod, container, facts, &user_namespace)?,
        devices: facts.devices.devices.clone(),
        cdi_devices: facts.devices.cdi_devices.clone(),
        labels: container_labels(container, &names),
        annotations: container_annotations(pod, container, facts.restart_count, &facts.devices.annotations),
        log_path: container_log_path(&container.name, facts.restart_count),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        // Upstream's gate ContainerStopSignals is off.
        stop_signal: None,
        resources: facts.resources.clone(),
        security_context,
    })
}

/// Device plugins' variables first, so that the container's own replace them.
fn environment(pod: &Pod, container: &Container, facts: &ContainerFacts) -> Result<Environment, MappingError> {
    let own = container_environment(pod, container, &facts.environment)?;
    let mut all = Environment::default();
    for (name, value) in &facts.devices.variables {
        all.set(name, value.clone().into_bytes());
    }
    for (name, value) in own.into_variables() {
        all.set(&name, value);
    }
    Ok(all)
}

/// Words of a command, each expanded from the finished environment.
fn expanded(
    field: &'static str,
    container: &Container,
    words: Option<&[String]>,
    environment: &Environment,
) -> Result<Vec<String>, MappingError> {
    let not_text = |_| MappingError::NotText { field, container: container.name.clone() };
    let too_long = |TooLong| MappingError::TooLong { field, container: container.name.clone() };
    let words = environment.expand(words.unwrap_or_default()).map_err(too_long)?;
    words.into_iter().map(|word| String::from_utf8(word).map_err(not_text)).collect()
}

/// Mounts in upstream's order: devices', volumes, `/etc/hosts`, the termination message's file.
fn mounts(
    pod: &Pod,
    container: &Container,
    facts: &ContainerFacts,
    user_namespace: &UserNamespace,
) -> Result<Vec<Mount>, MappingError> {
    let wanted = container.volume_mounts.as_deref().unwrap_or_default();
    if let Some(missing) = wanted.get(facts.volume_mounts.len()) {
        return Err(MappingError::VolumeMissing { volume: missing.name.clone(), container: container.name.clone() });
    }
    let mut mounts = [facts.devices.mounts.as_slice(), &facts.volume_mounts].concat();
    let file = |host_path: &str, container_path: String| Mount {
        host_path: host_path.to_owned(),
        container_path,
        selinux_relabel: facts.selinux_enabled,
        ..Mount::default()
    };
    if let Some(path) = &facts.etc_hosts_path
        && needs_hosts_file(pod, container, &facts.environment.addresses.pod_ips)
    {
        mounts.push(file(path, ETC_HOSTS.to_owned()));
    }
    let message_path = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
    if let (Some(inside), Some(outside)) = (message_path, &facts.termination_log_path) {
        mounts.push(file(outside, clean_absolute(inside)));
    }
    for mount in &mut mounts {
        mount.uid_mappings.clone_from(&user_namespace.uids);
        mount.gid_mappings.clone_from(&user_namespace.gids);
    }
    Ok(mounts)
}
