//! Where a pod worker's jobs work: whose pod, with which adapters, and how its Events name it.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{Container, Pod};

use super::stop_memory::StopMemory;
use crate::actors::kit::trace::{Cause, lock};
use crate::actors::pods::pod_worker::tools::WorkerTools;
use crate::logic::events::field_path::of_container;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::quantity::Quantity;
use crate::logic::model::runtime_pod::RuntimeSandbox;
use crate::logic::network::dns::NodeDns;
use crate::logic::network::host_ips::HostIps;
use crate::logic::pods::pod_containers::ContainerKind;
use crate::logic::pods::pod_containers::find_container;
use crate::logic::resources::node_cgroups::MachineNow;
use crate::logic::resources::user_namespaces::handlers::Handlers;
use crate::logic::resources::{MEMORY, MemoryQos, NodeMemory, ResourceOptions};
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::platform::pods::pod_files::PodPlace;

/// The node's facts about names that the pod's newest sandbox was made with. Lost with the worker.
#[derive(Debug, Default)]
pub struct SandboxDns(Mutex<Option<NodeDns>>);

impl SandboxDns {
    pub(super) fn get(&self) -> Option<NodeDns> {
        lock(&self.0).clone()
    }

    pub(super) fn set(&self, dns: NodeDns) {
        *lock(&self.0) = Some(dns);
    }
}

/// Where jobs work: whose pod, with which adapters.
#[derive(Clone)]
pub struct JobSite {
    /// The tools of all workers.
    pub tools: Arc<WorkerTools>,
    /// The name of the actor.
    pub uid: PodUid,
    /// The pod's name and namespace.
    pub full_name: FullName,
    /// The host's addresses.
    pub host: HostIps,
    /// The machine, once it is of another size than at the start.
    pub machine: Option<Arc<MachineNow>>,
    /// Whether the runtime's handlers can do user namespaces.
    pub user_namespaces: Arc<Handlers>,
    /// Stops that are under way or were tried.
    pub stops: Arc<StopMemory>,
    /// The node's facts about names, as the newest sandbox has them.
    pub sandbox_dns: Arc<SandboxDns>,
}

impl JobSite {
    /// The pod's place on the disk.
    pub(super) fn place(&self) -> PodPlace {
        PodPlace { uid: self.uid.clone(), full_name: self.full_name.clone() }
    }

    /// The node's memory as it is now.
    pub(super) fn node_memory(&self) -> NodeMemory {
        let now = self.machine.as_ref().map(|machine| NodeMemory { capacity_bytes: machine.size.memory_bytes });
        now.unwrap_or(self.tools.settings.resources.node_memory)
    }

    /// How resources become figures on the machine as it is now.
    pub(super) fn options(&self) -> ResourceOptions {
        let options = self.tools.settings.resources.options;
        let Some(machine) = &self.machine else { return options };
        let allocatable = machine.allocatable.get(MEMORY).map(Quantity::value);
        ResourceOptions {
            limited_swap: options.limited_swap.map(|_| machine.size.swap_bytes),
            memory_qos: options
                .memory_qos
                .map(|qos| MemoryQos { allocatable_bytes: allocatable.unwrap_or(qos.allocatable_bytes), ..qos }),
            ..options
        }
    }

    pub(super) fn tell(&self, cause: &Cause, event: EventRecorderMsg) {
        // An Event that finds no room is lost, as Events may be.
        let _ = self.tools.to.event_recorder.tell(cause.clone(), event);
    }

    pub(in super::super) fn subject(&self, field_path: String) -> EventSubject {
        EventSubject { uid: self.uid.clone(), full_name: self.full_name.clone(), field_path }
    }

    /// Where a hook's request goes that names no host: to the pod, on the node's network to the node.
    pub(in super::super) fn address_of(&self, sandbox: &RuntimeSandbox) -> Option<String> {
        let host = self.host.primary().filter(|_| sandbox.host_network);
        sandbox.ips.first().cloned().or_else(|| host.map(|ip| ip.to_string()))
    }

    /// The container's place in the pod, for Events.
    pub(in super::super) fn path_of(&self, pod: Option<&Pod>, container: &str) -> String {
        let found = pod.and_then(|pod| find_container(pod, container));
        field_path(found.map_or(ContainerKind::Regular, |(kind, _)| kind), container)
    }
}

/// The container of this name, and its list.
pub(super) fn find<'a>(pod: &'a Pod, name: &str) -> (Cow<'a, Container>, ContainerKind) {
    let (kind, container) = find_container(pod, name).expect("planned from this pod");
    (container, kind)
}

/// The place of a container in its pod, for Events.
pub(super) fn field_path(kind: ContainerKind, name: &str) -> String {
    let list = match kind {
        ContainerKind::Init => "initContainers",
        ContainerKind::Regular => "containers",
        ContainerKind::Ephemeral => "ephemeralContainers",
    };
    of_container(list, name)
}
