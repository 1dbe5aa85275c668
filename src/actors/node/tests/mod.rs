//! `NodeStatus`, `NodeLease` and `EventRecorder` with a played API server and runtime, under paused time.

mod certificates;
mod crashes;
mod events;
mod events_live;
mod host;
mod lease;
mod older_node;
mod runtime;
mod server;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use self::runtime::PlayedRuntime;
pub(in crate::actors) use self::server::PlayedServer;
use crate::actors::agent::{
    Adapters, Agent, ClusterAdapters, LogAdapters, NodeAdapters, PluginAdapters, PodAdapters, SourceAdapters,
};
use crate::actors::kit::trace::{Cause, Faults, Trace};
use crate::actors::objects::object_cache::ApiObjects;
use crate::actors::settings::{NodeSettings, Settings};
use crate::actors::tree::Directory;
use crate::actors::wiring::start_alone;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::{Moment, Stamp};
use crate::logic::network::node_addresses::AddressSettings;
use crate::logic::node::node_object::NodeIdentity;
use crate::logic::node::node_status::{CapacitySettings, StatusSettings};
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::root::Child;
use crate::platform::cluster::kube_api::ApiServer;
use crate::platform::files::checkpoints::FileCheckpoints;
use crate::platform::host::chance::Chance;
use crate::platform::host::clock::Clock;
use crate::platform::host::kernel_log::NoKernelLog;
use crate::platform::host::node_facts::FixedNodeFacts;
use crate::platform::images::LinuxImageHost;
use crate::platform::logs::container_logs::LinuxContainerLogs;
use crate::platform::logs::log_reader::LinuxLogReader;
use crate::platform::logs::node_logs::LinuxNodeLogs;
use crate::platform::network::network_probe::HostProber;
use crate::platform::network::tls::Offer;
use crate::platform::observer::Unobserved;
use crate::platform::pods::pod_files::LinuxPodFiles;
use crate::platform::pods::user_namespace_files::LinuxUserNamespaceFiles;
use crate::platform::statistics::FixedStatistics;
use crate::platform::volumes::LinuxVolumeHost;
use crate::server::tests::{CalmCgroups, NoServiceManager};

const NODE: &str = "node-1";
/// The wall clock when a test begins: 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600;

struct PausedClock {
    started: tokio::time::Instant,
    stamps: AtomicU64,
}

impl Clock for PausedClock {
    fn now(&self) -> Moment {
        Moment(BEGINNING * 1_000_000_000).plus(self.uptime())
    }
    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
    fn stamp(&self) -> Stamp {
        Stamp(self.stamps.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

/// Always in the middle.
struct NoChance;

impl Chance for NoChance {
    fn next(&self) -> f64 {
        0.5
    }
}

/// An agent with a played runtime under paused time, and an API server. None of its actors is started.
pub(crate) struct PlayedAgent {
    pub(crate) agent: Arc<Agent>,
    runtime: Arc<PlayedRuntime>,
    doubts: Arc<AtomicU64>,
    folder: tempfile::TempDir,
}

impl PlayedAgent {
    pub(in crate::actors) fn runtime(&self) -> &PlayedRuntime {
        &self.runtime
    }

    /// The agent's root directory.
    pub(in crate::actors) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

impl PlayedAgent {
    /// The node's Events so far, the oldest first, each once: reason and text.
    pub(in crate::actors) async fn node_events(&self) -> Vec<String> {
        let node = PodUid::from(&*self.agent.settings.node_name);
        let question = |reply| EventRecorderMsg::OfPod(node, reply);
        let recorder = &self.agent.directory.event_recorder;
        let events = recorder.ask(Cause::outside("test"), Duration::from_secs(1), question).await.expect("answered");
        events.iter().map(|counted| format!("{}: {}", counted.event.reason, counted.event.message)).collect()
    }
}

/// See [`PlayedAgent`].
pub(crate) fn played_agent(api: ApiServer, adjust: impl FnOnce(&mut Settings, &mut Adapters)) -> PlayedAgent {
    played_agent_with(api, paused_clock(), None, adjust)
}

pub(in crate::actors) fn paused_clock() -> Arc<dyn Clock> {
    #[expect(clippy::disallowed_methods, reason = "the tests' own clock, of paused time")]
    let started = tokio::time::Instant::now();
    Arc::new(PausedClock { started, stamps: AtomicU64::new(0) })
}

/// The same, by another clock and with faults.
pub(in crate::actors) fn played_agent_with(
    api: ApiServer,
    clock: Arc<dyn Clock>,
    faults: Option<Arc<dyn Faults>>,
    adjust: impl FnOnce(&mut Settings, &mut Adapters),
) -> PlayedAgent {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = crate::server::tests::settings(&folder.path().display().to_string());
    let trace = Trace::with_faults(clock, faults);
    let directory = Directory::new(&trace);
    let (runtime, doubts) = (Arc::new(PlayedRuntime::default()), Arc::new(AtomicU64::new(0)));
    let doubted = Arc::clone(&doubts);
    let mut adapters = Adapters {
        runtime: runtime.clone(),
        images: runtime.clone(),
        image_host: Arc::new(LinuxImageHost::new(folder.path(), folder.path())),
        checkpoints: Arc::new(FileCheckpoints::new(folder.path())),
        cgroups: Arc::new(CalmCgroups),
        chance: Arc::new(NoChance),
        service_manager: Arc::new(NoServiceManager),
        observer: Arc::new(Unobserved),
        pods: PodAdapters {
            files: Arc::new(LinuxPodFiles::new(folder.path(), folder.path().join("logs"), None)),
            user_namespaces: Arc::new(LinuxUserNamespaceFiles::new(folder.path())),
            volumes: Arc::new(LinuxVolumeHost::new(folder.path(), Arc::clone(trace.clock()))),
            prober: Arc::new(HostProber::new(Offer::from_environment())),
            ends: Arc::default(),
            probe_store: Default::default(),
        },
        plugins: PluginAdapters::none(),
        logs: LogAdapters {
            containers: Arc::new(LinuxContainerLogs::new(folder.path().join("logs"))),
            reader: Arc::new(LinuxLogReader::new(folder.path().join("logs"))),
            node: Arc::new(LinuxNodeLogs::new("/nowhere".into(), "/bin/false".into())),
        },
        cluster: ClusterAdapters {
            objects: Arc::new(ApiObjects::new(api.clone(), directory.object_cache.clone())),
            offline: None,
            api: Some(api),
            certificates: Default::default(),
            doubt_connections: Arc::new(move || {
                doubted.fetch_add(1, Ordering::SeqCst);
            }),
        },
        sources: SourceAdapters { folder: None, url: None, objects: None },
        node: NodeAdapters {
            kernel_log: Arc::new(NoKernelLog),
            statistics: Arc::new(FixedStatistics::new(Arc::clone(trace.clock()))),
            facts: Arc::new(FixedNodeFacts::of_a_small_node()),
            network_rules: Arc::new(crate::platform::network::network_rules::NoNetworkRules),
            placement: Arc::new(crate::platform::cgroup::process_placement::NoPlacement),
            logind: Arc::new(crate::platform::host::logind::NoLogind),
        },
    };
    adjust(&mut settings, &mut adapters);
    let agent = Arc::new(Agent { settings, adapters, directory, trace, listeners: vec![] });
    PlayedAgent { agent, runtime, doubts, folder }
}

/// The agent of this node over a played API server that keeps its Node.
pub(in crate::actors) fn node_agent_with(
    server: &PlayedServer,
    clock: Arc<dyn Clock>,
    adjust: impl FnOnce(&mut Settings, &mut Adapters),
) -> PlayedAgent {
    played_agent_with(server.api(), clock, None, |settings, adapters| {
        settings.node_name = NODE.to_owned();
        settings.node = node_settings();
        adjust(settings, adapters);
    })
}

/// The agent's actors that have to do with the Node object, and what they are played.
struct Played {
    agent: Arc<Agent>,
    server: PlayedServer,
    runtime: Arc<PlayedRuntime>,
    doubts: Arc<AtomicU64>,
    _folder: tempfile::TempDir,
}

impl Played {
    fn new(server: PlayedServer, adjust: impl FnOnce(&mut NodeSettings)) -> Self {
        Self::with(server, None, adjust)
    }

    fn with(server: PlayedServer, faults: Option<Arc<dyn Faults>>, adjust: impl FnOnce(&mut NodeSettings)) -> Self {
        Self::set_up(server.api(), paused_clock(), server, faults, adjust)
    }

    /// Over an API server that may be another one than the played.
    fn over(
        api: ApiServer,
        clock: Arc<dyn Clock>,
        server: PlayedServer,
        adjust: impl FnOnce(&mut NodeSettings),
    ) -> Self {
        Self::set_up(api, clock, server, None, adjust)
    }

    fn set_up(
        api: ApiServer,
        clock: Arc<dyn Clock>,
        server: PlayedServer,
        faults: Option<Arc<dyn Faults>>,
        adjust: impl FnOnce(&mut NodeSettings),
    ) -> Self {
        let played = played_agent_with(api, clock, faults, |settings, _| {
            settings.node_name = NODE.to_owned();
            settings.node = node_settings();
            adjust(&mut settings.node);
        });
        let PlayedAgent { agent, runtime, doubts, folder } = played;
        Self { agent, server, runtime, doubts, _folder: folder }
    }

    /// Starts everybody who has to do with the Node object, in the order of the tree.
    fn start(&self) {
        let agent = &self.agent;
        start_alone(Child::EventRecorder, agent);
        start_alone(Child::NodeStatus, agent);
        start_alone(Child::NodeLease, agent);
        start_alone(Child::PodManager, agent);
        start_alone(Child::RuntimeMonitor, agent);
    }

    /// The reasons of the node's Events so far, the oldest first, each once.
    async fn events(&self) -> Vec<String> {
        let question = |reply| EventRecorderMsg::OfPod(PodUid::from(NODE), reply);
        let recorder = &self.agent.directory.event_recorder;
        let events = recorder.ask(Cause::outside("test"), Duration::from_secs(1), question).await.expect("answered");
        assert!(events.iter().all(|counted| counted.event.is_about_node()));
        events.iter().map(|counted| counted.event.reason.to_string()).collect()
    }
}

fn node_settings() -> NodeSettings {
    NodeSettings {
        identity: NodeIdentity { name: NODE.to_owned(), architecture: "amd64".to_owned(), ..NodeIdentity::default() },
        status: StatusSettings {
            addresses: AddressSettings { hostname: NODE.to_owned(), ..AddressSettings::default() },
            capacity: CapacitySettings { max_pods: 110, local_storage: true, ..CapacitySettings::default() },
            runtime_name: "containerd".to_owned(),
            kubelet_version: "v1.36.0".to_owned(),
            architecture: "amd64".to_owned(),
            port: 10250,
            images_max: 50,
            declared_features: Some(vec![]),
        },
        ..NodeSettings::default()
    }
}

/// Lets virtual time pass.
pub(in crate::actors) async fn seconds(number: f64) {
    tokio::time::sleep(Duration::from_secs_f64(number)).await;
}
