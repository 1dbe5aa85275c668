//! `NodeStatus`: registers the node and keeps the status of its Node object.
//!
//! Parent: Root. Restarted: after a failure; the API server gives the Node back, `RuntimeMonitor` tells again, the host
//! is read anew. Where no API server is named it only tells pods their host's addresses. One thing is under way at a time:
//! a registration or an update, each a chain of operations (`Work`); what comes in meanwhile counts for the next one.

mod calls;
mod host;
mod machine_size;
mod update;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::settings::NodeSettings;
use crate::cri::{CriError, ImageService, RuntimeService};
use crate::logic::events::reasons::EventReason;
use crate::logic::model::time::Moment;
use crate::logic::network::dns::DnsSettings;
use crate::logic::node::announced::Announced;
use crate::logic::node::known_node::KnownNode;
use crate::logic::node::node_registration::{self as registration, Registration};
use crate::logic::node::node_startup::NodeStartup;
use crate::logic::node::node_status::{HostFacts, NodeEvent, ReportSchedule, RuntimeAnswers, Told, is_ready};
use crate::logic::node::pod_ranges::PodRanges;
use crate::logic::resources::CgroupVersion;
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::node::certificate_manager::CertificateManagerMsg;
use crate::messages::node::node_lease::NodeLeaseMsg;
use crate::messages::node::node_status::{NodeAnswered, NodeFinding, NodeNews, NodeStatusMsg, NodeWait, NodeWatch};
use crate::messages::plugins::csi_manager::CsiManagerMsg;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::resources::resource_manager::ResourceManagerMsg;
use crate::messages::runtime::runtime_monitor::RuntimeMonitorMsg;
use crate::messages::{Ended, Lost};
use crate::platform::cluster::kube_api::{ApiServer, Lane};
use crate::platform::host::chance::Chance;
use crate::platform::host::node_facts::NodeFacts;
use crate::platform::pods::pod_files::PodFiles;

/// How often the runtime is looked at until the node is ready for the first time (NODE-31).
const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// How long that goes on.
const LOOK_MAX: Duration = Duration::from_secs(120);
/// Upstream's message about a host whose swap may hold the content of volumes in memory (SEC-06).
const MEMORY_ON_DISK: &str = "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, \
                              etc.) might be swapped to disk and should no longer be considered secure.";
/// Upstream's message about a host with control groups of the first generation.
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

/// The actor's arguments.
pub struct Args {
    /// The node's name.
    pub node_name: String,
    /// The configuration of the Node object.
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
    /// The receivers of news of the node.
    pub to: Listeners,
}

/// Those that `NodeStatus` tells.
pub struct Listeners {
    /// Hears of the Node and the host's addresses.
    pub pod_manager: Address<PodManagerMsg>,
    /// Hears of the node's addresses.
    pub certificate_manager: Address<CertificateManagerMsg>,
    /// Hears that the API server has the Node.
    pub node_lease: Address<NodeLeaseMsg>,
    /// Looks at the runtime before its time.
    pub runtime_monitor: Address<RuntimeMonitorMsg>,
    /// Hears how large the machine is.
    pub resource_manager: Address<ResourceManagerMsg>,
    /// Hears the same: the CSINode belongs to the Node.
    pub csi_manager: Address<CsiManagerMsg>,
    /// Records the node's Events.
    pub event_recorder: Address<EventRecorderMsg>,
}

/// The work under way.
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

/// The facts of the host and the runtime, for one update.
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
    registration: Registration,
    report: ReportSchedule,
    node: KnownNode,
    announced: Announced,
    host: host::Host,
    ranges: PodRanges,
    /// The last answers of the runtime, and when it gave all of them, as an uptime.
    answers: Option<(Option<Duration>, RuntimeAnswers)>,
    work: Work,
    /// Something changed that is to be reported at once, while something else was under way.
    again: bool,
    timer: Option<OperationId>,
    /// When this incarnation began, as an uptime.
    began: Duration,
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
        // Once an agent: an actor that begins anew must not forget what somebody has set since.
        let devices_lost = settings.devices_lost && context.address().record().restarts() == 0;
        let mut status = Self {
            api,
            told: Told { devices_lost, ..Told::default() },
            registration,
            report: ReportSchedule::new(settings.report_period),
            node: KnownNode::default(),
            announced: Announced::default(),
            host: host::Host::default(),
            ranges: PodRanges::new(&settings.pod_cidr),
            answers: None,
            work: Work::Idle,
            again: false,
            timer: None,
            began: context.clock().uptime(),
            startup: NodeStartup::new(settings.booted, args.agent_started),
            args,
        };
        status.check_resolv_conf(context);
        status.tell_cidrs(context);
        if status.api.is_some() {
            status.cry(context);
            status.watch(context);
            context.after(LOOK_PERIOD, NodeStatusMsg::Due(NodeWait::LookDue));
            status.register(first, context);
        } else {
            status.look_at_size(context);
        }
        status
    }

    fn receive(&mut self, message: NodeStatusMsg, context: &mut Context<NodeStatusMsg>) {
        if self.api.is_none() {
            return self.receive_alone(message, context);
        }
        match message {
            NodeStatusMsg::Due(wait) => self.waited(wait, context),
            NodeStatusMsg::HostDue => self.read_host(context),
            NodeStatusMsg::Found(finding) => self.found(finding, context),
            NodeStatusMsg::Answered(answered) => self.answered(answered, context),
            NodeStatusMsg::Watch(NodeWatch::Watched { node, is_listed }) => self.watched(node, is_listed, context),
            NodeStatusMsg::Watch(NodeWatch::WatchEnded(why)) => self.watch_ended(why, context),
            NodeStatusMsg::PeriodsChanged { update, report } => self.follow(update, report, context),
            NodeStatusMsg::News(news) => self.hear(news, context),
            NodeStatusMsg::Repeat => {
                self.announced.forget();
                self.host.forget_told();
                self.host.machine.forget_told();
                self.tell_known(context);
                self.tell_host(context);
                self.tell_size(context);
            }
            NodeStatusMsg::Startup(_) | NodeStatusMsg::Node(_) => self.answer(message),
        }
    }
}

impl NodeStatus {
    /// A standalone agent has no Node object: pods get their host's addresses, and the runtime the pods' range, again when
    /// it comes back.
    fn receive_alone(&mut self, message: NodeStatusMsg, context: &mut Context<NodeStatusMsg>) {
        match message {
            NodeStatusMsg::HostDue => self.read_host(context),
            NodeStatusMsg::Found(finding) => self.found(finding, context),
            NodeStatusMsg::Repeat => {
                self.host.forget_told();
                self.host.machine.forget_told();
                self.tell_host(context);
                self.tell_size(context);
            }
            NodeStatusMsg::Due(NodeWait::SizeDue) => self.look_at_size(context),
            NodeStatusMsg::PeriodsChanged { update, report } => self.follow(update, report, context),
            NodeStatusMsg::News(NodeNews::Health(health)) if health.runtime_problem.is_none() => {
                self.tell_cidrs(context)
            }
            other => self.answer(other),
        }
    }

    /// Other periods hold from now on; a wait for the next update begins anew with its new length.
    fn follow(&mut self, update: Duration, report: Duration, context: &mut Context<NodeStatusMsg>) {
        (self.args.settings.update_period, self.args.settings.report_period) = (update, report);
        self.report.follow(report);
        let limit = self.args.settings.heartbeat_limit();
        self.api = self.args.api.as_ref().map(|api| (api.clone(), api.on(Lane::Heartbeat).within(limit)));
        if self.api.is_some() && matches!(self.work, Work::Idle) && self.registration.is_done() {
            self.rest(context);
        }
    }

    fn waited(&mut self, wait: NodeWait, context: &mut Context<NodeStatusMsg>) {
        match wait {
            NodeWait::RegisterDue | NodeWait::UpdateDue => self.begin_work(context),
            NodeWait::LookDue => self.look(context),
            NodeWait::WatchDue => self.watch(context),
            NodeWait::SizeDue => self.look_at_size(context),
        }
    }

    fn found(&mut self, finding: NodeFinding, context: &mut Context<NodeStatusMsg>) {
        match finding {
            NodeFinding::HostRead(facts) => self.host_read(facts, context),
            NodeFinding::ResolvConfRead(read) => self.resolv_conf_read(read, context),
            NodeFinding::Gathered(outcome) => self.gathered(outcome, context),
            NodeFinding::SizeRead(facts) => self.size_read(facts, context),
            NodeFinding::CidrsTold(cidrs, outcome) => self.cidrs_told(cidrs, outcome),
        }
    }

    fn answered(&mut self, answered: NodeAnswered, context: &mut Context<NodeStatusMsg>) {
        match answered {
            NodeAnswered::Created(answer) => self.created(calls::flat(answer), context),
            NodeAnswered::Fetched(answer) => self.fetched(calls::flat(answer), context),
            NodeAnswered::Patched(answer) => self.patched(calls::flat(answer), context),
        }
    }

    fn answer(&self, question: NodeStatusMsg) {
        // The asker may have left.
        match question {
            NodeStatusMsg::Startup(reply) => drop(reply.send(self.startup.durations())),
            NodeStatusMsg::Node(reply) => drop(reply.send(self.node.newest())),
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

    fn hear(&mut self, news: NodeNews, context: &mut Context<NodeStatusMsg>) {
        let is_urgent = self.told.hear(news);
        let registering = matches!(self.work, Work::Idle) && !self.registration.is_done();
        if is_urgent && !registering {
            self.update_now(context);
        }
    }

    /// The node has not been ready since the agent started: the runtime is looked at ten times a second, for a while.
    fn look(&mut self, context: &mut Context<NodeStatusMsg>) {
        let has_no_problem = self.told.has_no_problem();
        if has_no_problem && self.node.stored().is_some_and(|node| is_ready(node.status.as_ref())) {
            return;
        }
        if self.uptime(context) >= LOOK_MAX {
            tracing::error!("Node not becoming ready in time after startup");
            return;
        }
        if !has_no_problem {
            context.tell(&self.args.to.runtime_monitor, RuntimeMonitorMsg::LookNow);
        }
        context.after(LOOK_PERIOD, NodeStatusMsg::Due(NodeWait::LookDue));
    }

    /// How long this incarnation has been there.
    fn uptime(&self, context: &Context<NodeStatusMsg>) -> Duration {
        context.clock().uptime().saturating_sub(self.began)
    }

    fn update_now(&mut self, context: &mut Context<NodeStatusMsg>) {
        match self.work {
            Work::Idle => self.wait(Duration::ZERO, NodeWait::UpdateDue, context),
            _ => self.again = true,
        }
    }

    /// Waits for what is next; only one thing is.
    fn wait(&mut self, wait: Duration, next: NodeWait, context: &mut Context<NodeStatusMsg>) {
        if let Some(timer) = self.timer.take() {
            context.cancel(timer);
        }
        self.timer = Some(context.after(wait, NodeStatusMsg::Due(next)));
    }

    /// The wait is over: asks host and runtime, unless nobody has said yet how the runtime is.
    fn begin_work(&mut self, context: &mut Context<NodeStatusMsg>) {
        self.timer = None;
        if !matches!(self.work, Work::Idle) {
            return;
        }
        if self.told.health.is_none() && self.uptime(context) < PATIENCE {
            let next = if self.registration.is_done() { NodeWait::UpdateDue } else { NodeWait::RegisterDue };
            return self.wait(LOOK_PERIOD, next, context);
        }
        if self.is_early(context) {
            return self.wait(LOOK_PERIOD, NodeWait::UpdateDue, context);
        }
        self.gather(context);
    }

    /// Whether a node that was ready would become unready for what is over in a moment: the cluster has yet to hear of its
    /// drivers.
    fn is_early(&self, context: &Context<NodeStatusMsg>) -> bool {
        let was_ready = self.node.stored().is_some_and(|node| is_ready(node.status.as_ref()));
        let is_awaited = self.told.storage_problem.is_some() && was_ready && self.registration.is_done();
        is_awaited && self.uptime(context) < PATIENCE
    }

    /// An update ended, well or not.
    fn rest(&mut self, context: &mut Context<NodeStatusMsg>) {
        self.work = Work::Idle;
        self.tell_cidrs(context);
        let period = self.args.settings.update_period.mul_f64(1.0 + JITTER * self.args.chance.next());
        let wait = if self.again { Duration::ZERO } else { period };
        self.wait(wait, NodeWait::UpdateDue, context);
    }

    /// Takes a Node of a watch's event, or of an answer, unless a newer one is known.
    fn adopt(&mut self, node: Node, context: &mut Context<NodeStatusMsg>) {
        if self.node.is_news(&node) {
            self.take(node, context); // Else the watch lags behind what was written since.
        }
    }

    /// Takes the API server's newest Node, and does what follows from it.
    fn take(&mut self, node: Node, context: &mut Context<NodeStatusMsg>) {
        let (is_ready, is_another) = (is_ready(node.status.as_ref()), self.node.is_another(&node));
        let event = self.node.take(node);
        if is_another {
            context.tell(&self.args.to.node_lease, NodeLeaseMsg::NodeRegistered);
            context.tell(&self.args.to.csi_manager, CsiManagerMsg::NodeRegistered);
            // Somebody else may have made it: it gets its status at once, and not a period later.
            if self.registration.is_done() {
                self.update_now(context);
            }
        }
        self.record(event, context);
        if is_ready {
            self.startup.ready(context.now());
        }
        self.tell_cidrs(context);
        self.tell_known(context);
    }

    /// The API server no longer has the Node.
    fn mark_gone(&mut self, context: &Context<NodeStatusMsg>) {
        if self.node.mark_gone(context.now()) {
            self.tell_known(context);
        }
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
    /// News that one of them has no room for comes again with the next word.
    fn tell_known(&mut self, context: &Context<NodeStatusMsg>) {
        let Some(newest) = self.node.newest() else { return };
        self.tell_host(context);
        if let Some(addresses) = self.announced.new_addresses(&newest) {
            let changed = CertificateManagerMsg::AddressesChanged(addresses.clone());
            if context.try_tell(&self.args.to.certificate_manager, changed) {
                self.announced.note_addresses(addresses);
            }
        }
        if self.announced.is_news(&newest) {
            let changed = PodManagerMsg::NodeChanged(Arc::clone(&newest));
            if context.try_tell(&self.args.to.pod_manager, changed) {
                self.announced.note(newest);
            }
        }
    }

    /// The Node's, or those of the configuration as long as it has none (NODE-58).
    fn tell_cidrs(&mut self, context: &mut Context<NodeStatusMsg>) {
        let Some(cidrs) = self.ranges.to_be_told(self.node.stored().map(|node| &**node)) else { return };
        let (runtime, told) = (Arc::clone(&self.args.runtime), cidrs.clone());
        let work = async move { runtime.update_runtime_config(&told).await };
        let about = cidrs.clone();
        let ended = move |outcome: Result<_, Lost>| NodeStatusMsg::Found(NodeFinding::CidrsTold(cidrs, outcome.into()));
        context.start("tell pod CIDRs", about, work, ended);
    }

    /// Ranges that the runtime did not take go to it again after the next update.
    fn cidrs_told(&mut self, cidrs: String, outcome: Ended<(), CriError>) {
        let outcome = outcome.into_result();
        match &outcome {
            Ok(()) => tracing::info!(cidrs, "Updating Pod CIDR"),
            Err(error) => tracing::error!(cidrs, error, "failed to update pod CIDR"),
        }
        self.ranges.told(cidrs, outcome.is_ok());
    }
}
