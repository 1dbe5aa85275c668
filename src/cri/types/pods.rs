//! Pod sandboxes: as asked for, listed and shown.

use super::{Labels, LinuxContainerResources, LinuxSandboxSecurityContext, NamespaceMode, SandboxState};
use crate::logic::model::ids::SandboxId;
use crate::logic::model::time::Moment;

/// The configuration of a sandbox.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PodSandboxConfig {
    /// The identity of the sandbox.
    pub metadata: PodSandboxMetadata,
    /// Empty on the host's network.
    pub hostname: String,
    /// Absolute directory of the pod's logs.
    pub log_directory: String,
    /// `resolv.conf` of the sandbox; `None` leaves the runtime's.
    pub dns: Option<DnsConfig>,
    /// Ports of all ordinary containers.
    pub port_mappings: Vec<PortMapping>,
    /// For lookups.
    pub labels: Labels,
    /// For the runtime's plugins.
    pub annotations: Labels,
    /// Linux' part.
    pub linux: LinuxPodSandboxConfig,
}

/// Name, namespace, UID and attempt of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodSandboxMetadata {
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// Counts re-creations, from 0.
    pub attempt: u32,
}

/// The name resolution of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DnsConfig {
    /// Addresses of name servers.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// `name:value` or `name`.
    pub options: Vec<String>,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port of a container, and of the host where given.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PortMapping {
    /// Transport.
    pub protocol: Protocol,
    /// Inside.
    pub container_port: i32,
    /// On the host; 0 for none.
    pub host_port: i32,
    /// The host's address; empty for all.
    pub host_ip: String,
}

/// Linux' part of a sandbox's configuration.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LinuxPodSandboxConfig {
    /// Cgroup below which the runtime puts the pod's containers.
    pub cgroup_parent: String,
    /// Users, namespaces, profiles.
    pub security_context: LinuxSandboxSecurityContext,
    /// Kernel parameters of the pod.
    pub sysctls: Labels,
    /// The pod's overhead.
    pub overhead: LinuxContainerResources,
    /// The pod's own sums.
    pub resources: LinuxContainerResources,
}

/// A line of `ListPodSandbox`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSandbox {
    /// ID.
    pub id: SandboxId,
    /// The identity of the sandbox.
    pub metadata: PodSandboxMetadata,
    /// State.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Moment,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Its handler.
    pub runtime_handler: String,
}

/// Which sandboxes to list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodSandboxFilter {
    /// Only this one.
    pub id: Option<SandboxId>,
    /// Only in this state.
    pub state: Option<SandboxState>,
    /// Only with these labels.
    pub label_selector: Labels,
}

/// Answer of `PodSandboxStatus`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSandboxStatus {
    /// ID.
    pub id: SandboxId,
    /// The identity of the sandbox.
    pub metadata: PodSandboxMetadata,
    /// State.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Moment,
    /// Addresses: the primary one, then the others; empty on the host's network.
    pub ips: Vec<String>,
    /// Whether the runtime told of the network, and no primary address.
    pub lacks_address: bool,
    /// The owner of its network namespace.
    pub network_mode: NamespaceMode,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Its handler.
    pub runtime_handler: String,
}
