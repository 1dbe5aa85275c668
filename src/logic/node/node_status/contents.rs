//! The rest of the status: what the node is made of, its images, and what its runtime can do (NODE-21 to NODE-28).
//!
//! Pure; keeps nothing.

use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, NodeDaemonEndpoints, NodeFeatures, NodeRuntimeHandler, NodeRuntimeHandlerFeatures,
    NodeStatus, NodeSwapStatus, NodeSystemInfo,
};

use super::{Machine, NodeEvent, StatusSettings, runtime_version as version_text};
use crate::logic::events::reasons::EventReason;
use crate::logic::node::node_object::OPERATING_SYSTEM;

/// The most names of one image in the status.
const NAMES_PER_IMAGE_MAX: usize = 5;

/// Features that a node declares by name when their gates are on (KEP-5328), sorted.
pub const DECLARED_FEATURES: &[&str] = &[
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
    USER_NAMESPACES_HOST_NETWORK,
];
/// The one of them that the runtime must be able to do, too.
const USER_NAMESPACES_HOST_NETWORK: &str = "UserNamespacesHostNetworkSupport";

/// Kernel and operating system.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Versions {
    /// The kernel's version.
    pub kernel: String,
    /// The operating system's name for itself.
    pub os_image: String,
}

/// An image of the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImageFact {
    /// The runtime's ID of it.
    pub id: String,
    /// Names with a digest.
    pub digests: Vec<String>,
    /// Names with a tag.
    pub tags: Vec<String>,
    /// Its size, in bytes.
    pub size_bytes: i64,
}

/// A runtime handler (RuntimeClass) and what it can do.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HandlerFact {
    /// Empty for the default one.
    pub name: String,
    /// Read-only mounts that hold for the mounts below, too.
    pub recursive_read_only_mounts: bool,
    /// User namespaces.
    pub user_namespaces: bool,
}

/// The abilities of the runtime, by its own word.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeFact {
    /// Its handlers, in any order.
    pub handlers: Vec<HandlerFact>,
    /// Whether it knows `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
    /// Whether it can do user namespaces on the host's network.
    pub user_namespaces_host_network: bool,
}

/// Sets what the machine is; gives the Event of a machine that was started anew since (NODE-63).
pub(super) fn set_machine(status: &mut NodeStatus, machine: &Machine, node: &str) -> Option<NodeEvent> {
    let info = status.node_info.get_or_insert_default();
    info.machine_id.clone_from(&machine.machine_id);
    info.system_uuid.clone_from(&machine.system_uuid);
    if machine.swap_bytes != 0 {
        info.swap = Some(NodeSwapStatus { capacity: Some(machine.swap_bytes) });
    }
    let rebooted = !info.boot_id.is_empty() && info.boot_id != machine.boot_id;
    info.boot_id.clone_from(&machine.boot_id);
    rebooted.then(|| NodeEvent {
        warning: true,
        reason: EventReason::Rebooted,
        message: format!("Node {node} has been rebooted, boot id: {}", machine.boot_id),
    })
}

/// Sets the versions of everything; `runtime_version` is `None` where the runtime did not tell. One that is no version
/// is `Unknown`, as upstream.
pub(super) fn set_versions(
    info: &mut NodeSystemInfo,
    settings: &StatusSettings,
    versions: &Versions,
    runtime_version: Option<&str>,
) {
    info.kernel_version.clone_from(&versions.kernel);
    info.os_image.clone_from(&versions.os_image);
    let runtime_version = runtime_version.and_then(version_text::normal);
    let runtime_version = runtime_version.as_deref().unwrap_or("Unknown");
    info.container_runtime_version = format!("{}://{runtime_version}", settings.runtime_name);
    info.kubelet_version.clone_from(&settings.kubelet_version);
    info.kube_proxy_version = String::new();
}

/// Sets what holds as long as the agent runs: its port, operating system and architecture.
pub(super) fn set_constants(status: &mut NodeStatus, settings: &StatusSettings) {
    let endpoint = DaemonEndpoint { port: settings.port };
    status.daemon_endpoints = Some(NodeDaemonEndpoints { kubelet_endpoint: Some(endpoint) });
    let info = status.node_info.get_or_insert_default();
    info.operating_system = OPERATING_SYSTEM.to_owned();
    info.architecture.clone_from(&settings.architecture);
}

/// The largest images first, so many of them at most (-1: all), five names each.
pub(super) fn images(mut all: Vec<ImageFact>, images_max: i32) -> Vec<ContainerImage> {
    all.sort_by(|one, other| (other.size_bytes, &other.id).cmp(&(one.size_bytes, &one.id)));
    let max = usize::try_from(images_max).unwrap_or(usize::MAX);
    let told = |image: ImageFact| ContainerImage {
        names: Some(image.digests.into_iter().chain(image.tags).take(NAMES_PER_IMAGE_MAX).collect()),
        size_bytes: Some(image.size_bytes),
    };
    all.into_iter().take(max).map(told).collect()
}

/// Sets handlers, sorted by name, and features.
pub(super) fn set_runtime(status: &mut NodeStatus, runtime: &RuntimeFact) {
    let mut handlers = runtime.handlers.clone();
    handlers.sort_by(|one, other| one.name.cmp(&other.name));
    let told = |handler: HandlerFact| NodeRuntimeHandler {
        // The API leaves an empty name out.
        name: (!handler.name.is_empty()).then_some(handler.name),
        features: Some(NodeRuntimeHandlerFeatures {
            recursive_read_only_mounts: Some(handler.recursive_read_only_mounts),
            user_namespaces: Some(handler.user_namespaces),
        }),
    };
    status.runtime_handlers = Some(handlers.into_iter().map(told).collect());
    let policy = Some(runtime.supplemental_groups_policy);
    status.features = Some(NodeFeatures { supplemental_groups_policy: policy });
}

/// The features that the node declares: those of `enabled`, unless the runtime would have to help and cannot.
pub(super) fn declared(enabled: &[String], runtime: Option<&RuntimeFact>) -> Vec<String> {
    let helped = runtime.is_some_and(|runtime| runtime.user_namespaces_host_network);
    let mut names: Vec<String> =
        enabled.iter().filter(|name| *name != USER_NAMESPACES_HOST_NETWORK || helped).cloned().collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, size_bytes: i64, digests: usize, tags: usize) -> ImageFact {
        ImageFact {
            id: id.to_owned(),
            digests: (0..digests).map(|number| format!("{id}@{number}")).collect(),
            tags: (0..tags).map(|number| format!("{id}:{number}")).collect(),
            size_bytes,
        }
    }

    /// NODE-23.
    #[test]
    fn images_are_told_largest_first_and_capped() {
        let all = vec![image("a", 5, 1, 1), image("b", 9, 4, 3), image("c", 5, 0, 0)];
        for (max, expected) in [(-1, vec![9, 5, 5]), (2, vec![9, 5]), (0, vec![])] {
            let sizes: Vec<i64> = images(all.clone(), max).into_iter().filter_map(|one| one.size_bytes).collect();
            assert_eq!(sizes, expected, "{max}");
        }
        let told = images(all, -1);
        let names: Vec<_> = told.into_iter().map(|one| one.names.unwrap_or_default()).collect();
        assert_eq!(names[0], ["b@0", "b@1", "b@2", "b@3", "b:0"]);
        assert_eq!((&names[1], &names[2]), (&vec![], &vec!["a@0".to_owned(), "a:0".to_owned()]), "ties by ID");
    }

    /// NODE-25, NODE-26.
    #[test]
    fn handlers_are_sorted_and_the_default_has_no_name() {
        let handler = |name: &str| HandlerFact { name: name.to_owned(), ..HandlerFact::default() };
        let runtime = RuntimeFact {
            handlers: vec![handler("runc"), handler(""), handler("gvisor")],
            supplemental_groups_policy: true,
            ..RuntimeFact::default()
        };
        let mut status = NodeStatus::default();
        set_runtime(&mut status, &runtime);
        let names: Vec<_> = status.runtime_handlers.iter().flatten().map(|one| one.name.as_deref()).collect();
        assert_eq!(names, [None, Some("gvisor"), Some("runc")]);
        assert_eq!(status.features.and_then(|features| features.supplemental_groups_policy), Some(true));
    }

    /// NODE-22, NODE-63.
    #[test]
    fn a_reboot_is_an_event_once() {
        let machine = |boot: &str| Machine { boot_id: boot.to_owned(), swap_bytes: 7, ..Machine::default() };
        let mut status = NodeStatus::default();
        assert_eq!(set_machine(&mut status, &machine("one"), "n"), None, "nothing was known before");
        assert_eq!(set_machine(&mut status, &machine("one"), "n"), None);
        let event = set_machine(&mut status, &machine("two"), "n").expect("another boot");
        assert_eq!((event.warning, event.reason), (true, EventReason::Rebooted));
        assert_eq!(event.message, "Node n has been rebooted, boot id: two");
        assert_eq!(set_machine(&mut status, &machine("two"), "n"), None);
        let swap = status.node_info.and_then(|info| info.swap).and_then(|swap| swap.capacity);
        assert_eq!(swap, Some(7));
    }

    /// NODE-27.
    #[test]
    fn a_feature_that_needs_the_runtime_waits_for_it() {
        let enabled: Vec<String> = DECLARED_FEATURES.iter().rev().map(|name| (*name).to_owned()).collect();
        assert_eq!(declared(&enabled, None).len(), 4);
        let able = RuntimeFact { user_namespaces_host_network: true, ..RuntimeFact::default() };
        assert_eq!(declared(&enabled, Some(&able)), DECLARED_FEATURES);
        assert_eq!(declared(&[], Some(&able)), [""; 0]);
    }
}
