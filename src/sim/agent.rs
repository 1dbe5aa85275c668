//! One incarnation of the agent on the simulated node: the actors' own tree, started as `main` starts it.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorCell;

use super::api_server::link::Link;
use super::clock::AgentClock;
use super::faults::crashes::Crashes;
use super::node::Node;
use super::node::disk::POD_LOGS;
use super::node::outlet::{Life, Outlet};
use crate::actors::agent::{
    Adapters, Agent, ClusterAdapters, LogAdapters, NodeAdapters, PluginAdapters, PodAdapters, SourceAdapters,
};
use crate::actors::kit::address::Address;
use crate::actors::kit::trace::{self, Trace};
use crate::actors::objects::object_cache::{ApiObjects, CachedLocalObjects};
use crate::actors::settings::{
    LogSettings, NetworkSettings, NodeSettings, PodSettings, ResourceSettings, RuntimeSettings, SecuritySettings,
    ServingSettings, Settings, SourceSettings, StatisticsSettings,
};
use crate::actors::tree::Directory;
use crate::actors::wiring;
use crate::logic::eviction::EvictionSettings;
use crate::logic::images::ImageSettings;
use crate::logic::images::exempt::ExemptImages;
use crate::logic::images::image_garbage::ImageGcPolicy;
use crate::logic::images::image_records::VerificationPolicy;
use crate::logic::images::pull_queue::PullLimits;
use crate::logic::logs::log_rotation::RotationPolicy;
use crate::logic::manifest::references::References;
use crate::logic::model::time::Moment;
use crate::logic::network::dns::DnsSettings;
use crate::logic::objects::object_cache::ChangeDetection;
use crate::logic::plugins::claims::ClaimGates;
use crate::logic::pods::pod_admission::SysctlAllowList;
use crate::logic::pods::pod_resize::ResizeGates;
use crate::logic::resources::node_cgroups::NodeCgroups;
use crate::logic::resources::node_cgroups::process_placement::PlacementSettings;
use crate::logic::resources::{NodeMemory, ResourceList, ResourceOptions};
use crate::messages::root::RootMsg;
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::cluster::objects::Standalone;
use crate::platform::cluster::offline_store::{OfflineStore, RememberedObjects};
use crate::platform::host::kernel_log::NoKernelLog;
use crate::platform::host::node_facts::FixedNodeFacts;
use crate::platform::observer::{Observation, Observer};
use crate::sim::node::NODE_NAME;
use crate::sim::node::cgroups::cgroup_tree;
use crate::sim::node::machines::Machine;
use crate::sim::node::plugins::calls::PluginOutlet;

/// See the module.
pub struct Incarnation {
    /// All that actors are given.
    pub agent: Arc<Agent>,
    /// Root.
    pub root: Address<RootMsg>,
    /// Root's end is the agent's.
    pub cell: ActorCell,
    /// The process.
    pub life: Arc<Life>,
}

/// Things that a node may have beside its runtime.
#[derive(Clone, Copy, Debug)]
pub struct Equipment {
    /// The machine, where one is named.
    pub machine: Option<Machine>,
    /// An offline store.
    pub offline: bool,
    /// Drivers.
    pub plugins: bool,
}

/// Counts evictions alone.
struct EvictionCounter(Arc<Node>);

impl Observer for EvictionCounter {
    fn observe(&self, what: Observation<'_>) {
        if let Observation::PodEvicted { signal } = what {
            trace::lock(&self.0.evicted).push(signal);
        }
    }
}

/// Upstream's defaults, on a node of one.
pub fn settings(started: Moment) -> Settings {
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    Settings {
        node_name: NODE_NAME.to_owned(),
        agent_started: started,
        watchdog_period: None,
        node: node_settings(address),
        pods: PodSettings::default(),
        security: SecuritySettings {
            seccomp_root: "/var/lib/kubelet/seccomp".to_owned(),
            sysctls: SysctlAllowList::new("6.1.0", &[]).expect("no patterns, no bad ones"),
            ..SecuritySettings::default()
        },
        sources: SourceSettings::default(),
        change_detection: ChangeDetection::default(),
        runtime: RuntimeSettings::default(),
        images: ImageSettings {
            pulls: PullLimits { parallel_max: None, rate: None, burst: 10 },
            credential_providers: Arc::new([]),
            verification: VerificationPolicy::NeverPreloaded,
            gc: ImageGcPolicy { high_percent: 85, low_percent: 80, age_min: Duration::from_secs(120), age_max: None },
            gc_exempt: ExemptImages::default(),
            by_handler: false,
        },
        resources: resource_settings(),
        network: NetworkSettings {
            dns: DnsSettings {
                resolv_conf: Some("/etc/resolv.conf".to_owned()),
                cluster_dns: vec![],
                cluster_domain: "cluster.local".to_owned(),
                node_ips: vec![address],
                ignores_hostname_override: false,
            },
            rules: true,
        },
        logs: LogSettings {
            folder: POD_LOGS.to_owned(),
            rotation: Some(RotationPolicy {
                bytes_max: 10 << 20,
                files_max: 5,
                workers: 1,
                interval: Duration::from_secs(10),
            }),
        },
        statistics: StatisticsSettings {
            pressure: true,
            volume_period: Some(Duration::from_secs(60)),
            volume_health: false,
            from_runtime: false,
        },
        serving: ServingSettings::default(),
    }
}

fn resource_settings() -> ResourceSettings {
    ResourceSettings {
        cgroup_tree: cgroup_tree(),
        node_cgroups: NodeCgroups::default(),
        allocatable: ResourceList::new(),
        options: ResourceOptions::default(),
        resize: ResizeGates::default(),
        node_memory: NodeMemory { capacity_bytes: 8 << 30 },
        hugepage_sizes: vec![],
        placement: PlacementSettings { oom_score_adj: -999, ..PlacementSettings::default() },
        eviction: EvictionSettings::default(),
        managers: Arc::default(),
        cpu_reconcile_period: Duration::from_secs(10),
        device_plugin_wait: Duration::ZERO,
        shows_device_health: true,
        claim_gates: ClaimGates::default(),
    }
}

/// The host that the agent finds. A machine that is named gives hardware away.
fn facts(machine: Option<Machine>, settings: &mut Settings) -> FixedNodeFacts {
    let facts = FixedNodeFacts::of_a_small_node();
    let Some(machine) = machine else { return facts };
    settings.resources.managers = Arc::new(machine.managers());
    facts.with_topology(machine.topology())
}

fn node_settings(address: std::net::IpAddr) -> NodeSettings {
    let mut settings = NodeSettings::default();
    settings.identity.name = NODE_NAME.to_owned();
    settings.identity.architecture = "amd64".to_owned();
    settings.status.addresses.hostname = NODE_NAME.to_owned();
    settings.status.addresses.node_ips = vec![address];
    // More than upstream's 110: crowds are simulated, too.
    settings.status.capacity.max_pods = 2000;
    settings.status.capacity.local_storage = true;
    settings.status.runtime_name = "containerd".to_owned();
    settings.status.kubelet_version = "v1.36.0".to_owned();
    settings.status.architecture = "amd64".to_owned();
    settings.status.port = 10250;
    settings.status.images_max = 50;
    settings
}

/// The API server's part, where there is one.
fn cluster(
    api: Option<ApiServer>,
    offline: Option<Arc<dyn OfflineStore>>,
    is_local: bool,
    directory: &Directory,
    trace: &Arc<Trace>,
) -> ClusterAdapters {
    let objects = api.as_ref().map(|api| Arc::new(ApiObjects::new(api.clone(), directory.object_cache.clone())));
    ClusterAdapters {
        objects: match (objects, offline.clone()) {
            (Some(objects), None) => objects,
            (Some(objects), Some(store)) => Arc::new(RememberedObjects::new(objects, store, Arc::clone(trace.clock()))),
            (None, _) if is_local => Arc::new(CachedLocalObjects(directory.object_cache.clone())),
            (None, _) => Arc::new(Standalone),
        },
        offline,
        api,
        certificates: Default::default(),
        doubt_connections: Arc::new(|| {}),
    }
}

/// The ways to the node's drivers.
fn plugins(outlet: &Arc<Outlet>) -> PluginAdapters {
    let drivers = Arc::new(PluginOutlet::new(outlet));
    PluginAdapters {
        registry: drivers.clone(),
        registration: drivers.clone(),
        csi: drivers.clone(),
        dra: drivers.clone(),
        volumes: drivers.clone(),
        device_socket: drivers.clone(),
        devices: drivers,
        device_files: outlet.clone(),
    }
}

impl Incarnation {
    /// Starts the agent.
    pub fn start(
        node: &Arc<Node>,
        crashes: &Arc<Crashes>,
        seed: u64,
        adjust: &dyn Fn(&mut Settings),
        link: Option<&Arc<Link>>,
        Equipment { machine, offline, plugins: has_plugins }: Equipment,
    ) -> Self {
        let life = Arc::new(Life::default());
        let outlet = Arc::new(Outlet::new(Arc::clone(node), Arc::clone(&life), seed));
        let clock = AgentClock::start(&node.time);
        let faults: Arc<dyn trace::Faults> = Arc::<Crashes>::clone(crashes);
        let trace = Trace::with_faults(clock, Some(faults));
        let mut settings = settings(node.time.now());
        node.set_machine(facts(machine, &mut settings));
        adjust(&mut settings);
        let directory = Directory::new(&trace);
        let store: Option<Arc<dyn OfflineStore>> = offline.then(|| outlet.clone() as _);
        let is_local = settings.sources.references == References::Local;
        let cluster = cluster(link.map(|link| link.client(&outlet)), store, is_local, &directory, &trace);
        let adapters = Adapters {
            runtime: outlet.clone(),
            images: outlet.clone(),
            image_host: outlet.clone(),
            checkpoints: outlet.clone(),
            cgroups: outlet.clone(),
            chance: outlet.clone(),
            service_manager: outlet.clone(),
            observer: Arc::new(EvictionCounter(Arc::clone(node))),
            pods: PodAdapters {
                files: outlet.clone(),
                user_namespaces: outlet.clone(),
                volumes: outlet.clone(),
                prober: outlet.clone(),
                ends: Arc::default(),
                probe_store: Arc::new(outlet.probe_store().beginning(settings.pods.status_gates.restart_shows)),
            },
            plugins: if has_plugins { plugins(&outlet) } else { PluginAdapters::none() },
            logs: LogAdapters { containers: outlet.clone(), reader: outlet.clone(), node: outlet.clone() },
            cluster,
            sources: SourceAdapters {
                folder: Some(outlet.clone()),
                url: None,
                objects: is_local.then(|| outlet.clone() as _),
            },
            node: NodeAdapters {
                kernel_log: Arc::new(NoKernelLog),
                statistics: outlet.clone(),
                network_rules: outlet.clone(),
                placement: outlet.clone(),
                facts: outlet.clone(),
                logind: outlet.clone(),
            },
        };
        let agent = Arc::new(Agent { settings, adapters, directory, trace, listeners: vec![] });
        let (root, cell) = wiring::start(Arc::clone(&agent));
        Self { agent, root, cell, life }
    }
}
