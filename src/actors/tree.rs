//! Root's children as one table, `children!`. From it come [`TREE`] and the [`Directory`] of their addresses, here, and the
//! start of each, in `wiring`: so this file knows no actor, and an actor may name an address without knowing the others.
//!
//! An entry names the actor, its address, where its arguments come from and its limits. A limit that is left out is
//! [`ChildSpec::DEFAULT`]'s; one that is given has its reason above it. The order is that of the start; a stop runs it
//! backwards, waiting for each. `PodManager` comes before most of those it learns from: what they tell first must find
//! it there.
//!
//! `Child` itself is in `messages`, because Root's messages name it; a child without an entry does not compile.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::Trace;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::eviction_manager::EvictionManagerMsg;
use crate::messages::images::image_gc::ImageGcMsg;
use crate::messages::images::image_manager::ImageManagerMsg;
use crate::messages::node::certificate_manager::CertificateManagerMsg;
use crate::messages::node::network_rules::NetworkRulesMsg;
use crate::messages::node::node_lease::NodeLeaseMsg;
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::node::shutdown_manager::ShutdownManagerMsg;
use crate::messages::object_cache::ObjectCacheMsg;
use crate::messages::plugins::claim_manager::ClaimManagerMsg;
use crate::messages::plugins::csi_manager::CsiManagerMsg;
use crate::messages::plugins::device_plugins::DevicePluginsMsg;
use crate::messages::plugins::plugin_watcher::PluginWatcherMsg;
use crate::messages::pods::local_objects::LocalObjectsMsg;
use crate::messages::pods::offline_pods::OfflinePodsMsg;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::pods::pod_source::{ApiSourceMsg, FileSourceMsg, HttpSourceMsg};
use crate::messages::pods::user_namespaces::UserNamespacesMsg;
use crate::messages::prober::ProberMsg;
use crate::messages::resources::allocation_manager::AllocationManagerMsg;
use crate::messages::resources::process_placement::ProcessPlacementMsg;
use crate::messages::resources::resource_manager::ResourceManagerMsg;
use crate::messages::root::{Child, RootMsg};
use crate::messages::runtime::container_gc::ContainerGcMsg;
use crate::messages::runtime::log_rotator::LogRotatorMsg;
use crate::messages::runtime::pleg::PlegMsg;
use crate::messages::runtime::runtime_monitor::RuntimeMonitorMsg;
use crate::messages::server::ServerMsg;
use crate::messages::stats_collector::StatsCollectorMsg;
use crate::messages::status::mirror_manager::MirrorManagerMsg;
use crate::messages::status::status_manager::StatusManagerMsg;
use crate::messages::volume_manager::{AttachedStep, VolumeManagerMsg};

/// The window of [`ChildSpec::failures_max`].
pub const FAILURE_WINDOW: Duration = Duration::from_secs(60);

/// How one of Root's children is looked after.
#[derive(Clone, Copy, Debug)]
pub struct ChildSpec {
    /// The child.
    pub child: Child,
    /// Messages that may wait.
    pub mailbox: usize,
    /// Failures within [`FAILURE_WINDOW`] before Root gives up and the process ends.
    pub failures_max: u32,
    /// How long its end may take.
    pub stop_limit: Duration,
    /// The children that tell it everything once more after a restart; it knows the rest from the runtime and the disk.
    pub learns_from: &'static [Child],
    /// Whether it can tell others everything once more.
    pub repeats: bool,
}

impl ChildSpec {
    /// Of a child that hears of the node as a whole, not of each pod. A stop waits for a turn that is open, and no turn lasts
    /// a second.
    const DEFAULT: Self = Self {
        child: Child::Server,
        mailbox: 64,
        failures_max: 5,
        stop_limit: Duration::from_secs(1),
        learns_from: &[],
        repeats: false,
    };
}

/// How long the whole tree may take to stop: every child its own limit.
pub const STOP_MAX: Duration = {
    let (mut sum, mut at) = (Duration::ZERO, 0);
    while at < TREE.len() {
        sum = sum.saturating_add(TREE[at].stop_limit);
        at += 1;
    }
    sum
};

/// The table: hands all entries to the macro `$make`. Actors and functions are named as `wiring` sees them.
macro_rules! children {
    ($make:ident) => {
        $make! {
            /// Certificates that the cluster signs for the agent.
            CertificateManager {
                actor: actors::node::certificate_manager::CertificateManager,
                address: certificate_manager: Address<CertificateManagerMsg>,
                args: node::certificate_manager_args,
                learns_from: [NodeStatus],
            }
            /// Kubernetes Events: aggregation, recent ones for whoever asks.
            EventRecorder {
                actor: actors::events::event_recorder::EventRecorder,
                address: event_recorder: Address<EventRecorderMsg>,
                args: events::event_recorder_args,
                // Each pod has several Events as it starts, and nobody repeats one that was refused.
                mailbox: 4096,
            }
            /// The newest status of every pod.
            StatusManager {
                actor: actors::status::status_manager::StatusManager,
                address: status_manager: Address<StatusManagerMsg>,
                args: status::status_manager_args,
                // Each worker tells its status with every change, and the API server shows each back.
                mailbox: 8192,
                learns_from: [PodManager, FileSource, HttpSource, ApiSource, AllocationManager],
            }
            /// Stand-ins of static pods in the API server.
            MirrorManager {
                actor: actors::status::mirror_manager::MirrorManager,
                address: mirror_manager: Address<MirrorManagerMsg>,
                args: status::mirror_manager_args,
                // The ends of calls, one for each mirror.
                mailbox: 256,
                learns_from: [PodManager, ApiSource],
            }
            /// The objects that pods refer to in the API server: ConfigMaps, Secrets, services.
            ObjectCache {
                actor: actors::objects::object_cache::ObjectCache,
                address: object_cache: Address<ObjectCacheMsg>,
                args: objects::object_cache_args,
                // Each pod asks for its objects and services as it starts, and each object has a watch.
                mailbox: 4096,
                learns_from: [PodManager, LocalObjects],
            }
            /// ConfigMaps and Secrets of a standalone node, from a folder.
            LocalObjects {
                actor: actors::objects::local_objects::LocalObjects,
                address: local_objects: Address<LocalObjectsMsg>,
                args: objects::local_objects_args,
                repeats: |_| LocalObjectsMsg::Repeat,
            }
            /// The Node object: registers it, keeps its status.
            NodeStatus {
                actor: actors::node::node_status::NodeStatus,
                address: node_status: Address<NodeStatusMsg>,
                args: node::node_status_args,
                // Operations and requests over HTTP ask for the Node.
                mailbox: 256,
                learns_from: [
                    EvictionManager, RuntimeMonitor, CsiManager, AllocationManager, VolumeManager, ShutdownManager
                ],
                repeats: |_| NodeStatusMsg::Repeat,
            }
            /// The node's heartbeat.
            NodeLease {
                actor: actors::node::node_lease::NodeLease,
                address: node_lease: Address<NodeLeaseMsg>,
                args: node::node_lease_args,
            }
            /// Which pods should be here; one worker each.
            PodManager {
                actor: actors::pods::pod_manager::PodManager,
                address: pod_manager: Address<PodManagerMsg>,
                args: pods::pod_manager_args,
                // Looks at each pod, news of each from the API server, and what each worker tells.
                mailbox: 8192,
                // Its end is that of every worker, too.
                stop_limit: Duration::from_secs(5),
                learns_from: [
                    NodeStatus, RuntimeMonitor, Pleg, FileSource, HttpSource, ApiSource, OfflinePods, AllocationManager,
                    EvictionManager, ShutdownManager
                ],
                repeats: |_| PodManagerMsg::Repeat,
            }
            /// The allocations of pods, on the disk.
            AllocationManager {
                actor: actors::resources::allocation_manager::AllocationManager,
                address: allocation_manager: Address<AllocationManagerMsg>,
                args: resources::allocation_manager_args,
                // Each worker asks for the pod's resources as the runtime had them, and says what it sends to the runtime.
                mailbox: 4096,
                learns_from: [DevicePlugins],
                repeats: |_| AllocationManagerMsg::Repeat,
            }
            /// Ranges of IDs of pods with user namespaces of their own.
            UserNamespaces {
                actor: actors::pods::user_namespaces::UserNamespaces,
                address: user_namespaces: Address<UserNamespacesMsg>,
                args: pods::user_namespaces_args,
                // Each container of such a pod asks as it starts.
                mailbox: 1024,
            }
            /// The pods of the API server, on the disk.
            OfflinePods {
                actor: actors::pods::offline_pods::OfflinePods,
                address: offline_pods: Address<OfflinePodsMsg>,
                args: pods::offline_pods_args,
                learns_from: [PodManager],
                repeats: |_| OfflinePodsMsg::Repeat,
            }
            /// Whether the runtime can be worked with.
            RuntimeMonitor {
                actor: actors::runtime::runtime_monitor::RuntimeMonitor,
                address: runtime_monitor: Address<RuntimeMonitorMsg>,
                args: runtime::runtime_monitor_args,
                learns_from: [Pleg],
                repeats: |_| RuntimeMonitorMsg::Repeat,
            }
            /// The cgroups above the pods'.
            ResourceManager {
                actor: actors::resources::resource_manager::ResourceManager,
                address: resource_manager: Address<ResourceManagerMsg>,
                args: resources::resource_manager_args,
                learns_from: [PodManager, NodeStatus],
            }
            /// Images: policy, back-off, queue, rate.
            ImageManager {
                actor: actors::images::image_manager::ImageManager,
                address: image_manager: Address<ImageManagerMsg>,
                args: images::image_manager_args,
                // Each container that starts asks for its image, and each request has steps that end.
                mailbox: 4096,
            }
            /// Volumes: mounted before a pod's containers, gone after them.
            VolumeManager {
                actor: actors::volumes::volume_manager::VolumeManager,
                address: volume_manager: Address<VolumeManagerMsg>,
                args: volumes::volume_manager_args,
                // Each pod asks for its volumes, and each volume has tasks that end.
                mailbox: 4096,
                repeats: |_| VolumeManagerMsg::Attached(AttachedStep::Repeat),
            }
            /// Plugins in their registry: who they are, and who uses them.
            PluginWatcher {
                actor: actors::plugins::plugin_watcher::PluginWatcher,
                address: plugin_watcher: Address<PluginWatcherMsg>,
                args: plugins::plugin_watcher_args,
                // Nobody repeats a verdict that was refused, and each plugin has one.
                mailbox: 1024,
                repeats: PluginWatcherMsg::Repeat,
            }
            /// Storage drivers: what the cluster knows of them, and what they have staged.
            CsiManager {
                actor: actors::plugins::csi_manager::CsiManager,
                address: csi_manager: Address<CsiManagerMsg>,
                args: plugins::csi_manager_args,
                // Each volume of a driver asks where it serves, as it is mounted and as it goes.
                mailbox: 1024,
                learns_from: [PluginWatcher],
                repeats: |_| CsiManagerMsg::Repeat,
            }
            /// Device plugins: their registration, their devices, the calls to them.
            DevicePlugins {
                actor: actors::plugins::device_plugins::DevicePlugins,
                address: device_plugins: Address<DevicePluginsMsg>,
                args: plugins::device_plugins_args,
                // Each container with devices asks as it is placed and as it starts.
                mailbox: 1024,
                learns_from: [PluginWatcher, AllocationManager],
                repeats: |_| DevicePluginsMsg::Repeat,
            }
            /// Claims of resources: prepared by drivers before a pod, released after it.
            ClaimManager {
                actor: actors::plugins::claim_manager::ClaimManager,
                address: claim_manager: Address<ClaimManagerMsg>,
                args: plugins::claim_manager_args,
                // Each pod with claims asks as it starts and as it ends, and each claim has steps that end.
                mailbox: 4096,
                learns_from: [PluginWatcher, PodManager],
            }
            /// Probes.
            Prober {
                actor: actors::probes::prober::Prober,
                address: prober: Address<ProberMsg>,
                args: probes::prober_args,
                // Each worker tells its pod's status with every change.
                mailbox: 4096,
                learns_from: [PodManager],
            }
            /// The runtime's truth, by event stream and relist.
            Pleg {
                actor: actors::runtime::pleg::Pleg,
                address: pleg: Address<PlegMsg>,
                args: runtime::pleg_args,
                // Each worker asks for looks at its pod, and the runtime tells every container's events.
                mailbox: 8192,
                repeats: |learner| match learner {
                    Child::LogRotator => PlegMsg::RepeatSeen,
                    _ => PlegMsg::Repeat,
                },
            }
            /// Dead containers and sandboxes.
            ContainerGc {
                actor: actors::runtime::container_gc::ContainerGc,
                address: container_gc: Address<ContainerGcMsg>,
                args: runtime::container_gc_args,
            }
            /// Images that nobody uses any more.
            ImageGc {
                actor: actors::images::image_gc::ImageGc,
                address: image_gc: Address<ImageGcMsg>,
                args: images::image_gc_args,
                // Each image that a pod is given is asked about here first.
                mailbox: 1024,
            }
            /// Keeps the node alive: has pods end when it runs short.
            EvictionManager {
                actor: actors::eviction::eviction_manager::EvictionManager,
                address: eviction_manager: Address<EvictionManagerMsg>,
                args: eviction::eviction_manager_args,
                repeats: |_| EvictionManagerMsg::Repeat,
            }
            /// Has pods end in their order when the machine goes down.
            ShutdownManager {
                actor: actors::node::shutdown_manager::ShutdownManager,
                address: shutdown_manager: Address<ShutdownManagerMsg>,
                args: node::shutdown_manager_args,
                // Nobody repeats that a pod is over, and a group may be all pods of the node.
                mailbox: 1024,
                repeats: |_| ShutdownManagerMsg::Repeat,
            }
            /// Logs of running containers, kept within their bound.
            LogRotator {
                actor: actors::runtime::log_rotator::LogRotator,
                address: log_rotator: Address<LogRotatorMsg>,
                args: runtime::log_rotator_args,
                // `Pleg` tells each look at a pod, of all pods at once after a relist.
                mailbox: 8192,
                learns_from: [Pleg],
            }
            /// Static pods from a folder.
            FileSource {
                actor: actors::sources::file::FileSource,
                address: file_source: Address<FileSourceMsg>,
                args: sources::file_source_args,
                repeats: |_| FileSourceMsg::Repeat,
            }
            /// Static pods from a URL.
            HttpSource {
                actor: actors::sources::http::HttpSource,
                address: http_source: Address<HttpSourceMsg>,
                args: sources::http_source_args,
                repeats: |_| HttpSourceMsg::Repeat,
            }
            /// Pods from the API server.
            ApiSource {
                actor: actors::sources::api::ApiSource,
                address: api_source: Address<ApiSourceMsg>,
                args: sources::api_source_args,
                // The API server tells each pod's changes one by one; where there is no room, all pods are listed again.
                mailbox: 8192,
                repeats: |_| ApiSourceMsg::Repeat,
            }
            /// Statistics, for whoever asks.
            StatsCollector {
                actor: actors::statistics::stats_collector::StatsCollector,
                address: stats_collector: Address<StatsCollectorMsg>,
                args: statistics::stats_collector_args,
                // Requests over HTTP come in any number, and wait for one look together.
                mailbox: 1024,
            }
            /// Packet filter rules that others expect of a node.
            NetworkRules {
                actor: actors::node::network_rules::NetworkRules,
                address: network_rules: Address<NetworkRulesMsg>,
                args: node::network_rules_args,
            }
            /// Cgroups of the agent itself and of the machine's daemons.
            ProcessPlacement {
                actor: actors::resources::process_placement::ProcessPlacement,
                address: process_placement: Address<ProcessPlacementMsg>,
                args: resources::process_placement_args,
            }
            /// Listening sockets.
            Server {
                actor: actors::server::Server,
                address: server: Address<ServerMsg>,
                args: server::server_args,
            }
        }
    };
}
pub(super) use children;

macro_rules! tree {
    ($(
        $(#[$doc:meta])+
        $child:ident {
            actor: $actor:ty,
            address: $address:ident: Address<$message:ty>,
            args: $args:path,
            $(mailbox: $mailbox:expr,)?
            $(failures_max: $failures_max:expr,)?
            $(stop_limit: $stop_limit:expr,)?
            $(learns_from: [$($teacher:ident),+],)?
            $(repeats: $repeats:expr,)?
        }
    )+) => {
        /// Root's children, in start order.
        pub const TREE: &[ChildSpec] = &[$(ChildSpec {
            $(mailbox: $mailbox,)?
            $(failures_max: $failures_max,)?
            $(stop_limit: $stop_limit,)?
            $(learns_from: &[$(Child::$teacher),+],)?
            $(repeats: {
                let _: fn(Child) -> $message = $repeats;
                true
            },)?
            child: Child::$child,
            ..ChildSpec::DEFAULT
        }),+];

        /// The addresses of Root's children. They outlive restarts, so they are handed out once.
        #[derive(Clone)]
        pub struct Directory {
            $($(#[$doc])+ pub $address: Address<$message>,)+
        }

        impl Directory {
            /// Empty addresses for all, named as in the tree.
            pub fn new(trace: &Arc<Trace>) -> Self {
                let mut specs = TREE.iter();
                $(
                    let $address = {
                        let spec = specs.next().expect("an entry for each address, in the same order");
                        let name: &'static str = spec.child.into();
                        Address::new(trace, name, name, "Root", spec.mailbox)
                    };
                )+
                Self { $($address),+ }
            }

            /// Whether the child has an incarnation now.
            pub fn is_up(&self, child: Child) -> bool {
                match child {
                    $(Child::$child => self.$address.is_up(),)+
                }
            }

            /// Marks the child's address as empty, until its next incarnation.
            pub(super) fn vacate(&self, child: Child, why: String, context: &Context<RootMsg>) {
                match child {
                    $(Child::$child => context.child_left(&self.$address, Some(why)),)+
                }
            }

            /// Has `teacher` tell everything once more that `learner` has to hear; nothing if it teaches nobody.
            pub(super) fn ask_to_repeat(&self, teacher: Child, learner: Child, context: &Context<RootMsg>) {
                match teacher {
                    $(Child::$child => {
                        $(
                            let repeats: fn(Child) -> $message = $repeats;
                            context.tell(&self.$address, repeats(learner));
                        )?
                    })+
                }
            }
        }
    };
}

children!(tree);

#[cfg(test)]
mod tests;
