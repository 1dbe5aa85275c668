//! A pod's sandbox: `PodSandboxConfig` (CRI-06, CRI-07).

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod};

use super::labels::sandbox_labels;
use super::security::{namespace_options, selinux_options, supplemental_groups_policy};
use super::{MappingError, PodNames, is_host_network};
use crate::cri::types::{
    DnsConfig, Labels, LinuxContainerResources, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, PodSandboxConfig,
    PodSandboxMetadata, PortMapping, Protocol, SecurityProfile, UserNamespace,
};
use crate::logic::logs::log_path::pod_log_directory;
use crate::logic::network::dns::{DnsWarning, NodeDns, pod_dns};
use crate::logic::network::hostname::{Naming, PodHostname};
use crate::logic::pods::pod_admission::dotted;

/// The facts, besides the pod, that a sandbox' configuration needs.
#[derive(Clone, Debug, Default)]
pub struct SandboxFacts {
    /// Counts re-creations, from 0.
    pub attempt: u32,
    /// Directory of all pods' logs (upstream's default: `/var/log/pods`).
    pub pod_logs: String,
    /// The pod's cgroup, in the form of the cgroup driver.
    pub cgroup_parent: String,
    /// The node's facts about names.
    pub dns: NodeDns,
    /// The pod's sums without overhead.
    pub resources: LinuxContainerResources,
    /// The pod's overhead.
    pub overhead: LinuxContainerResources,
    /// Mappings of the pod's user namespace, for `hostUsers: false`.
    pub user_namespace: Option<UserNamespace>,
    /// Groups from annotations of the pod's persistent volumes.
    pub volume_groups: Vec<i64>,
}

/// The configuration of `pod`'s sandbox, and the Warning events to record with it.
///
/// # Errors
/// When the pod's names or security context cannot be put to the runtime.
pub fn sandbox_config(pod: &Pod, facts: &SandboxFacts) -> Result<(PodSandboxConfig, Vec<DnsWarning>), MappingError> {
    let names = PodNames::of(pod)?;
    let (resolver, warnings) = pod_dns(pod, &facts.dns);
    let config = PodSandboxConfig {
        metadata: PodSandboxMetadata {
            name: names.name.to_owned(),
            uid: names.uid.to_owned(),
            namespace: names.namespace.to_owned(),
            attempt: facts.attempt,
        },
        hostname: kernel_hostname(pod, &names, facts.dns.naming())?,
        log_directory: pod_log_directory(&facts.pod_logs, names.namespace, names.name, names.uid),
        dns: Some(DnsConfig { servers: resolver.servers, searches: resolver.searches, options: resolver.options }),
        port_mappings: pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(port_mappings).collect(),
        labels: sandbox_labels(pod, &names),
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        linux: LinuxPodSandboxConfig {
            cgroup_parent: facts.cgroup_parent.clone(),
            security_context: security_context(pod, facts)?,
            sysctls: sysctls(pod),
            overhead: facts.overhead.clone(),
            resources: facts.resources.clone(),
        },
    };
    Ok((config, warnings))
}

/// Empty on the node's network: the sandbox then shares the node's name.
fn kernel_hostname(pod: &Pod, names: &PodNames<'_>, naming: Naming<'_>) -> Result<String, MappingError> {
    let Some(spec) = pod.spec.as_ref().filter(|_| !is_host_network(pod)) else { return Ok(String::new()) };
    let hostname = PodHostname::of(names.name, names.namespace, spec, naming)?;
    Ok(hostname.for_kernel(spec.set_hostname_as_fqdn.unwrap_or(false))?)
}

/// A container's ports, those without a host port too. A name used twice counts once; ports without a name are told
/// apart by family, protocol, address and numbers.
fn port_mappings(container: &Container) -> Vec<PortMapping> {
    let mut seen = BTreeSet::new();
    let ports = container.ports.iter().flatten();
    ports
        .filter(|port| seen.insert(port_key(port)))
        .map(|port| PortMapping {
            protocol: match port.protocol.as_deref() {
                Some("UDP") => Protocol::Udp,
                Some("SCTP") => Protocol::Sctp,
                _ => Protocol::Tcp,
            },
            container_port: port.container_port,
            host_port: port.host_port.unwrap_or(0),
            host_ip: port.host_ip.clone().unwrap_or_default(),
        })
        .collect()
}

fn port_key(port: &ContainerPort) -> String {
    if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let address = port.host_ip.as_deref().unwrap_or_default();
    let family = match address {
        "" => "any",
        _ if address.parse::<Ipv6Addr>().is_ok() => "v6",
        _ => "v4",
    };
    let protocol = port.protocol.as_deref().unwrap_or_default();
    format!("{family}-{protocol}-{address}:{}:{}", port.container_port, port.host_port.unwrap_or(0))
}

/// Kernel parameters by their dotted names.
fn sysctls(pod: &Pod) -> Labels {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let sysctls = context.iter().flat_map(|context| context.sysctls.iter().flatten());
    sysctls.map(|sysctl| (dotted(&sysctl.name), sysctl.value.clone())).collect()
}

/// The sandbox always has the runtime's seccomp profile, whatever the pod says, so that the pod's own may be narrow.
fn security_context(pod: &Pod, facts: &SandboxFacts) -> Result<LinuxSandboxSecurityContext, MappingError> {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let fs_group = context.and_then(|context| context.fs_group);
    let own_groups = context.and_then(|context| context.supplemental_groups.clone()).unwrap_or_default();
    let volume_groups = if context.is_some() { facts.volume_groups.clone() } else { Vec::new() };
    Ok(LinuxSandboxSecurityContext {
        namespace_options: namespace_options(pod, facts.user_namespace.as_ref())?,
        selinux_options: context.and_then(|context| context.se_linux_options.as_ref()).map(selinux_options),
        run_as_user: context.and_then(|context| context.run_as_user),
        run_as_group: context.and_then(|context| context.run_as_group),
        readonly_rootfs: false,
        supplemental_groups: fs_group.into_iter().chain(volume_groups).chain(own_groups).collect(),
        supplemental_groups_policy: supplemental_groups_policy(pod)?,
        privileged: has_privileged_container(pod),
        seccomp: Some(SecurityProfile::RuntimeDefault),
        apparmor: None,
    })
}

/// Whether any container of any kind is privileged.
fn has_privileged_container(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| &container.security_context);
    let others = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut contexts = others.map(|container| &container.security_context).chain(ephemeral);
    contexts.any(|context| context.as_ref().and_then(|context| context.privileged).unwrap_or(false))
}
