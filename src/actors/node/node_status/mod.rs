//! `NodeStatus`: registers the node and keeps the status of its Node object.
//!
//! Parent: Root. Restarted: after a failure; the API server gives the Node back, `RuntimeMonitor` tells again, the host
//! is read anew. Where no API server is named it only tells pods their host's addresses. One thing is under way at a time:
//! a registration or an update, each a chain of operations (`Work`); what comes in meanwhile counts for the next one.

mod calls;
mod host;
mod update;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::settings::NodeSettings;
use crate::cri::{ImageService, RuntimeService};
use crate::logic::events::reasons::EventReason;
use crate::logic::model::time::Moment;
use crate::logic::network::dns::DnsSettings;
use crate::logic::node::node_registration::{self as registration, Registration};
use crate::logic::node::node_startup::NodeStartup;
use crate::logic::node::node_status::{
    HostFacts, NodeEvent, ReportSchedule, RuntimeAnswers, Told, has_changed, is_ready,
};
use crate::logic::node::node_status::{pod_cidrs, schedulable_event};
use crate::logic::resources::CgroupVersion;
use crate::messages::certificate_manager::CertificateManagerMsg;
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::node_lease::NodeLeaseMsg;
use crate::messages::node_status::{NodeNews, NodeStatusMsg};
use crate::messages::pod_manager::PodManagerMsg;
use crate::messages::runtime_monitor::RuntimeMonitorMsg;
use crate::platform::cluster::kube_api::{ApiServer, Lane};
use crate::platform::host::chance::Chance;
use crate::platform::host::node_facts::NodeFacts;
use crate::platform::pods::pod_files::PodFiles;

/// How often the runtime is looked at until the node is ready for the first time (NODE-31).
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// How long that goes on.
const LOOK_MAX: Duration = Duration::from_secs(120);
/// What is said of a host whose swap may hold what volumes in memory keep (SEC-06), as upstream says it.
const MEMORY_ON_DISK: &str = "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, \
                              etc.) might be swapped to disk and should no longer be considered secure.";
/// What is said of a host with control groups of the first generation, as upstream says it.
const CGROUP_V1_DEPRECATED: &str = "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future \
    release. Please migrate to cgroup v2. More information at \
    https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1";
/// How long the first word about the runtime is waited for: a node that was ready does not become unready only because
/// its agent was started again (PAIN-16).
const PATIENCE: Duration = Duration::from_secs(10);
/// Each wait between updates is longer by up to so much of itself.
const JITTER: f64 = 0.04;
/// Tries of one update; the first one begins with the Node at hand, the others read it (NODE-30).
const TRIES_MAX: u32 = 5;

/// What the actor needs.
pub struct Args {
    /// The node's name.
    pub node_name: String,
    /// What the configuration says about the Node object.
    pub settings: NodeSettings,
    /// Where the node's resolver configuration is, and what it should say.
    pub dns: DnsSettings,
    /// When the agent started.
    pub agent_started: Moment,
    /// Which generation of control groups the host runs.
    pub cgroup_version: CgroupVersion,
    /// The API server, where one is named.
    pub api: Option<ApiServer>,
    /// Has connections closed that may be dead without having ended.
    pub doubt_connections: Arc<dyn Fn() + Send + Sync>,
    /// Says what the host is.
    pub facts: Arc<dyn NodeFacts>,
    /// Reads the node's resolver configuration.
    pub files: Arc<dyn PodFiles>,
    /// The runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// The runtime's images.
    pub images: Arc<dyn ImageService>,
    /// Spreads updates.
    pub chance: Arc<dyn Chance>,
    /// Who hears of the node.
    pub to: Listeners,
}

/// Those that `NodeStatus` tells.
pub struct Listeners {
    /// Hears of the Node and the host's addresses.
    pub pod_manager: Address<PodManagerMsg>,
    /// Hears of the node's addresses.
    pub certificate_manager: Address<CertificateManagerMsg>,
    /// Hears that the node is registered.
    pub node_lease: Address<NodeLeaseMsg>,
    /// Looks at the runtime before its time.
    pub runtime_monitor: Address<RuntimeMonitorMsg>,
    /// Records the node's Events.
    pub event_recorder: Address<EventRecorderMsg>,
}

/// What is under way.
enum Work {
    /// Nothing; a timer runs.
    Idle,
    /// Host and runtime are asked, for whatever is next.
    Gathering,
    /// The Node is created, read or reconciled.
    Registering { initial: Box<Node>, events: Vec<NodeEvent>, existing: Option<Box<Node>>, facts: Facts },
    /// The Node is read for another try.
    Reading { tried: u32, facts: Facts },
    /// The status was sent.
    Patching { tried: u32, events: Vec<NodeEvent>, facts: Facts },
}

/// What the host and the runtime said, for one update.
struct Facts {
    host: HostFacts,
    runtime: RuntimeAnswers,
}

/// See the module.
pub struct NodeStatus {
    args: Args,
    /// The API server by its general way, and by the one for heartbeats; set where one is named.
    api: Option<(ApiServer, ApiServer)>,
    told: Told,
    devices_lost: bool,
    registration: Registration,
    report: ReportSchedule,
    /// The newest Node that the API server gave.
    node: Option<Arc<Node>>,
    /// The Node to register with, as it was made last.
    initial: Option<Arc<Node>>,
    /// What `PodManager` was told last.
    known: Option<Arc<Node>>,
    /// The addresses that `CertificateManager` was told last.
    addresses: Vec<(String, String)>,
    host: host::Host,
    unschedulable: bool,
    /// The pod CIDRs that the runtime knows.
    cidrs: Option<String>,
    telling_cidrs: bool,
    answers: Option<(Duration, RuntimeAnswers)>,
    work: Work,
    /// Something changed that is to be reported at once, while something else was under way.
    again: bool,
    timer: Option<OperationId>,
    /// When this incarnation began, as an uptime.
    began: Duration,
    /// Whether the node is looked at more often, because it has not been ready yet.
    eager: bool,
    startup: NodeStartup,
}

impl Actor for NodeStatus {
    const KIND: &'static str = "NodeStatus";
    type Msg = NodeStatusMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<NodeStatusMsg>) -> Self {
        let settings = &args.settings;
        let api = args.api.as_ref();
        let api = api.map(|api| (api.clone(), api.on(Lane::Heartbeat).within(settings.heartbeat_limit())));
        let (registration, first) = if settings.register {
            Registration::begin(settings.read_on_exists_only)
        } else {
            (Registration::not_wanted(), registration::Action::Done)
        };
        let mut status = Self {
            api,
            told: Told::default(),
            devices_lost: false,
            registration,
            report: ReportSchedule::new(settings.report_period),
            node: None,
            initial: None,
            known: None,
            addresses: vec![],
            host: host::Host::default(),
            unschedulable: false,
            cidrs: None,
            telling_cidrs: false,
            answers: None,
            work: Work::Idle,
            again: false,
            timer: None,
            began: context.clock().uptime(),
            eager: true,
            startup: NodeStartup::new(settings.booted, args.agent_started),
            args,
        };
        status.check_resolv_conf(context);
        status.tell_cidrs(context);
        if status.api.is_some() {
            status.cry(context);
            status.watch(context);
            context.after(LOOK_PERIOD, NodeStatusMsg::LookDue);
            status.register(first, context);
        }
        status
    }

    fn receive(&mut self, message: NodeStatusMsg, context: &mut Context<NodeStatusMsg>) {
        if self.api.is_none() {
            return self.receive_alone(message, context);
        }
        match message {
            NodeStatusMsg::RegisterDue | NodeStatusMsg::UpdateDue => self.begin_work(context),
            NodeStatusMsg::LookDue => self.look(context),
            NodeStatusMsg::HostDue => self.read_host(context),
            NodeStatusMsg::HostRead(facts) => self.host_read(facts, context),
            NodeStatusMsg::ResolvConfRead(read) => self.resolv_conf_read(read, context),
            NodeStatusMsg::Gathered(outcome) => self.gathered(outcome, context),
            NodeStatusMsg::Created(answer) => self.created(calls::flat(answer), context),
            NodeStatusMsg::Fetched(answer) => self.fetched(calls::flat(answer), context),
            NodeStatusMsg::Patched(answer) => self.patched(calls::flat(answer), context),
            NodeStatusMsg::Watched { node, is_listed } => self.watched(node, is_listed, context),
            NodeStatusMsg::WatchEnded(why) => self.watch_ended(why, context),
            NodeStatusMsg::WatchDue => self.watch(context),
            NodeStatusMsg::CidrsTold(cidrs, outcome) => self.cidrs_told(cidrs, outcome),
            NodeStatusMsg::News(news) => self.hear(news, context),
            NodeStatusMsg::Repeat => {
                self.known = None;
                self.addresses.clear();
                self.host.forget_told();
                self.tell_known(context);
                self.tell_host(context);
            }
            NodeStatusMsg::Startup(_) | NodeStatusMsg::Node(_) => self.answer(message),
        }
    }
}

impl NodeStatus {
    /// A standalone agent has no Node object: pods are told their host's addresses, and the runtime the pods' range, again
    /// when it comes back.
    fn receive_alone(&mut self, message: NodeStatusMsg, context: &mut Context<NodeStatusMsg>) {
        match message {
            NodeStatusMsg::HostDue => self.read_host(context),
            NodeStatusMsg::HostRead(facts) => self.host_read(facts, context),
            NodeStatusMsg::ResolvConfRead(read) => self.resolv_conf_read(read, context),
            NodeStatusMsg::Repeat => {
                self.host.forget_told();
                self.tell_host(context);
            }
            NodeStatusMsg::CidrsTold(cidrs, outcome) => self.cidrs_told(cidrs, outcome),
            NodeStatusMsg::News(NodeNews::Health(health)) if health.runtime_problem.is_none() => {
                self.tell_cidrs(context)
            }
            other => self.answer(other),
        }
    }

    fn answer(&self, question: NodeStatusMsg) {
        // The asker may have left.
        match question {
            NodeStatusMsg::Startup(reply) => drop(reply.send(self.startup.durations())),
            NodeStatusMsg::Node(reply) => drop(reply.send(self.newest())),
            _ => {}
        }
    }

    /// Upstream's first words.
    fn cry(&self, context: &Context<NodeStatusMsg>) {
        if context.address().record().restarts() == 0 {
            let (node, to) = (EventSubject::node(&self.args.node_name), &self.args.to.event_recorder);
            context.tell(to, node.normal(EventReason::Starting, "Starting kubelet."));
            if self.args.cgroup_version == CgroupVersion::V1 {
                context.tell(to, node.warning(EventReason::CgroupV1, CGROUP_V1_DEPRECATED));
            }
            if self.args.settings.memory_may_be_swapped {
                context.tell(to, node.warning(EventReason::PossibleMemoryBackedVolumesOnDisk, MEMORY_ON_DISK));
            }
        }
    }

    /// The newest Node; the one to register with before there is another.
    fn newest(&self) -> Option<Arc<Node>> {
        self.node.clone().or_else(|| self.initial.clone())
    }

    fn hear(&mut self, news: NodeNews, context: &mut Context<NodeStatusMsg>) {
        let (ready, shutdown) = (self.has_no_problem(), self.told.shutdown_problem.is_some());
        match news {
            NodeNews::Health(health) => self.told.health = Some(health),
            NodeNews::Runtime(runtime) => self.told.runtime = Some(runtime),
            NodeNews::Pressure(pressure) => self.told.pressure = pressure,
            NodeNews::Devices { offered, lost } => {
                self.told.devices = offered;
                self.devices_lost = lost;
            }
            NodeNews::VolumesInUse(volumes) => self.told.volumes_in_use = Some(volumes),
            NodeNews::StorageProblem(problem) => self.told.storage_problem = problem,
            NodeNews::ShutdownProblem(problem) => self.told.shutdown_problem = problem,
            NodeNews::Unenforced(unenforced) => self.told.unenforced = unenforced,
        }
        // Good news and a shutdown are reported at once, everything else with the next update: what was only a moment's
        // trouble need not become the cluster's.
        let became_ready = !ready && self.has_no_problem();
        let registering = matches!(self.work, Work::Idle) && !self.registration.is_done();
        if !registering && (became_ready || shutdown != self.told.shutdown_problem.is_some()) {
            self.update_now(context);
        }
    }

    fn has_no_problem(&self) -> bool {
        let told = &self.told;
        let healthy = told
            .health
            .as_ref()
            .is_some_and(|health| health.runtime_problem.is_none() && health.network_problem.is_none());
        healthy && told.storage_problem.is_none() && told.shutdown_problem.is_none()
    }

    /// The node has not been ready since the agent started: the runtime is looked at ten times a second, for a while.
    fn look(&mut self, context: &mut Context<NodeStatusMsg>) {
        if self.node.as_ref().is_some_and(|node| is_ready(node.status.as_ref())) && self.has_no_problem() {
            self.eager = false;
        } else if self.uptime(context) >= LOOK_MAX {
            self.eager = false;
            tracing::error!("Node not becoming ready in time after startup");
        }
        if self.eager {
            if !self.has_no_problem() {
                context.tell(&self.args.to.runtime_monitor, RuntimeMonitorMsg::LookNow);
            }
            context.after(LOOK_PERIOD, NodeStatusMsg::LookDue);
        }
    }

    /// How long this incarnation has been there.
    fn uptime(&self, context: &Context<NodeStatusMsg>) -> Duration {
        context.clock().uptime().saturating_sub(self.began)
    }

    fn update_now(&mut self, context: &mut Context<NodeStatusMsg>) {
        match self.work {
            Work::Idle => self.wait(Duration::ZERO, NodeStatusMsg::UpdateDue, context),
            _ => self.again = true,
        }
    }

    /// Waits for what is next; only one thing is.
    fn wait(&mut self, wait: Duration, message: NodeStatusMsg, context: &mut Context<NodeStatusMsg>) {
        if let Some(timer) = self.timer.take() {
            context.cancel(timer);
        }
        self.timer = Some(context.after(wait, message));
    }

    /// The wait is over: asks host and runtime, unless nobody has said yet how the runtime is.
    fn begin_work(&mut self, context: &mut Context<NodeStatusMsg>) {
        self.timer = None;
        if !matches!(self.work, Work::Idle) {
            return;
        }
        let next = || if self.registration.is_done() { NodeStatusMsg::UpdateDue } else { NodeStatusMsg::RegisterDue };
        if self.told.health.is_none() && self.uptime(context) < PATIENCE {
            let next = next();
            return self.wait(LOOK_PERIOD, next, context);
        }
        self.gather(context);
    }

    /// An update ended, well or not.
    fn rest(&mut self, context: &mut Context<NodeStatusMsg>) {
        self.work = Work::Idle;
        self.tell_cidrs(context);
        let period = self.args.settings.update_period.mul_f64(1.0 + JITTER * self.args.chance.next());
        let wait = if self.again { Duration::ZERO } else { period };
        self.wait(wait, NodeStatusMsg::UpdateDue, context);
    }

    /// Takes a Node of a watch's event, or of an answer, unless a newer one is known.
    fn adopt(&mut self, node: Node, context: &mut Context<NodeStatusMsg>) {
        if self.node.as_ref().is_none_or(|known| !is_older(&node, known)) {
            self.take(node, context); // Else the watch lags behind what was written since.
        }
    }

    /// Takes the API server's newest Node, and does what follows from it.
    fn take(&mut self, node: Node, context: &mut Context<NodeStatusMsg>) {
        self.record(schedulable_event(self.unschedulable, &node), context);
        self.unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        if is_ready(node.status.as_ref()) {
            self.startup.ready(context.now());
        }
        self.node = Some(Arc::new(node));
        self.tell_cidrs(context);
        self.tell_known(context);
    }

    /// The API server no longer has the Node. What is known of it stays, as of one that is being deleted: it owns nothing any
    /// more, so no mirror is made for it (POD-06).
    fn mark_gone(&mut self, context: &Context<NodeStatusMsg>) {
        let Some(node) = self.node.as_mut().filter(|node| node.metadata.deletion_timestamp.is_none()) else { return };
        Arc::make_mut(node).metadata.deletion_timestamp = Some(Time(context.now().to_timestamp()));
        self.tell_known(context);
    }

    fn record(&self, events: impl IntoIterator<Item = NodeEvent>, context: &Context<NodeStatusMsg>) {
        let subject = EventSubject::node(&self.args.node_name);
        for event in events {
            let event = match event.warning {
                true => subject.warning(event.reason, event.message),
                false => subject.normal(event.reason, event.message),
            };
            context.tell(&self.args.to.event_recorder, event);
        }
    }

    /// Tells `PodManager` the newest Node, heartbeats aside, and the host's addresses, and `CertificateManager` those too.
    /// What one of them has no room for comes again with the next word.
    fn tell_known(&mut self, context: &Context<NodeStatusMsg>) {
        let Some(newest) = self.newest() else { return };
        self.tell_host(context);
        let addresses = newest.status.as_ref().and_then(|status| status.addresses.as_ref()).into_iter().flatten();
        let addresses: Vec<_> = addresses.map(|one| (one.type_.clone(), one.address.clone())).collect();
        if self.addresses != addresses {
            let changed = CertificateManagerMsg::AddressesChanged(addresses.clone());
            if context.try_tell(&self.args.to.certificate_manager, changed) {
                self.addresses = addresses;
            }
        }
        if self.known.as_ref().is_none_or(|known| differs(known, &newest)) {
            let changed = PodManagerMsg::NodeChanged(Arc::clone(&newest));
            if context.try_tell(&self.args.to.pod_manager, changed) {
                self.known = Some(newest);
            }
        }
    }

    /// The Node's, or those of the configuration as long as it has none (NODE-58).
    fn tell_cidrs(&mut self, context: &mut Context<NodeStatusMsg>) {
        let of_node = self.node.as_ref().and_then(|node| pod_cidrs(node));
        let configured = Some(&self.args.settings.pod_cidr).filter(|cidr| !cidr.is_empty());
        let Some(cidrs) = of_node.or_else(|| configured.cloned()) else { return };
        if self.telling_cidrs || self.cidrs.as_ref() == Some(&cidrs) {
            return;
        }
        self.telling_cidrs = true;
        let (runtime, told) = (Arc::clone(&self.args.runtime), cidrs.clone());
        let work = async move { runtime.update_runtime_config(&told).await };
        context.start("tell pod CIDRs", cidrs.clone(), work, move |outcome| NodeStatusMsg::CidrsTold(cidrs, outcome));
    }

    /// What the runtime did not take is told again after the next update.
    fn cidrs_told(&mut self, cidrs: String, outcome: Result<crate::cri::CriResult<()>, crate::messages::Panicked>) {
        self.telling_cidrs = false;
        match outcome.map_err(|panicked| panicked.to_string()).and_then(|told| told.map_err(|error| error.to_string()))
        {
            Ok(()) => {
                tracing::info!(cidrs, "Updating Pod CIDR");
                self.cidrs = Some(cidrs);
            }
            Err(error) => tracing::error!(cidrs, error, "failed to update pod CIDR"),
        }
    }

    fn registered(&self, context: &Context<NodeStatusMsg>) {
        tracing::info!(node = self.args.node_name, "Successfully registered node");
        context.tell(&self.args.to.node_lease, NodeLeaseMsg::NodeRegistered);
    }
}

/// Whether one Node is an earlier state of the same object than another. Versions of one resource can be compared as
/// numbers (KEP-5504); those that are none say nothing.
pub(in crate::actors) fn is_older(node: &Node, known: &Node) -> bool {
    let version = |node: &Node| node.metadata.resource_version.as_deref().and_then(|text| text.parse::<u128>().ok());
    let same = node.metadata.uid == known.metadata.uid;
    same && version(node).zip(version(known)).is_some_and(|(node, known)| node < known)
}

/// Whether two Nodes differ in what others go by.
fn differs(one: &Node, other: &Node) -> bool {
    let metadata = |node: &Node| {
        let metadata = &node.metadata;
        let leaves = metadata.deletion_timestamp.is_some();
        (metadata.labels.clone(), metadata.annotations.clone(), metadata.uid.clone(), leaves)
    };
    let status = |node: &Node| node.status.clone().unwrap_or_default();
    metadata(one) != metadata(other) || one.spec != other.spec || has_changed(&status(one), &status(other))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(uid: &str, version: &str) -> Node {
        let metadata = json!({ "name": "n", "uid": uid, "resourceVersion": version });
        serde_json::from_value(json!({ "metadata": metadata })).expect("a Node")
    }

    #[test]
    fn what_was_written_counts_over_what_is_heard_later_of_before() {
        for (one, other, older) in [
            (node("a", "9"), node("a", "10"), true),
            (node("a", "10"), node("a", "10"), false),
            (node("a", "11"), node("a", "10"), false),
            (node("b", "9"), node("a", "10"), false),
            (node("a", "x"), node("a", "10"), false),
        ] {
            assert_eq!(is_older(&one, &other), older, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_heartbeat_is_no_news_and_a_label_is() {
        let beating = |time: &str, label: &str| -> Node {
            serde_json::from_value(json!({
                "metadata": { "labels": { "zone": label }, "resourceVersion": time },
                "status": { "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": time }] },
            }))
            .expect("a Node")
        };
        let before = beating("2026-01-01T00:00:00Z", "a");
        assert!(!differs(&before, &beating("2026-01-01T00:05:00Z", "a")));
        assert!(differs(&before, &beating("2026-01-01T00:00:00Z", "b")));
    }

    /// POD-06, SEC-50.
    #[test]
    fn a_node_that_is_being_deleted_is_news() {
        let here = node("a", "1");
        let mut leaving = here.clone();
        leaving.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert!(differs(&here, &leaving));
        assert!(!differs(&leaving, &leaving.clone()));
    }
}
