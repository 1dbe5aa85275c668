//! `Root`: starts the tree, looks after its first level, ends it in order.
//!
//! Parent: none. A failure beyond a child's budget ends Root as failed, and the process with it: the service manager
//! starts it anew, and running containers are adopted. Keeps nothing but who its children are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorCell, ActorId, RpcReplyPort};
use strum::IntoEnumIterator;

use super::settings::Agent;
use super::{ChildSpec, FAILURE_WINDOW, TREE};
use crate::actors::kit::actor::{Actor, ChildEnd, spawn};
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::logic::model::restart_budget::{BudgetPolicy, RestartBudget, Verdict};
use crate::messages::allocation_manager::AllocationManagerMsg;
use crate::messages::node_status::NodeStatusMsg;
use crate::messages::offline_pods::OfflinePodsMsg;
use crate::messages::pleg::PlegMsg;
use crate::messages::pod_manager::PodManagerMsg;
use crate::messages::pod_source::{ApiSourceMsg, FileSourceMsg, HttpSourceMsg};
use crate::messages::root::Child;
use crate::messages::root::RootMsg;
use crate::messages::runtime_monitor::RuntimeMonitorMsg;

/// A turn open for longer is a fault: it is logged, and the watchdog is not fed.
pub const STUCK_AFTER: Duration = Duration::from_secs(10);
/// How often stuck turns are looked for where nobody watches.
const WATCH_PERIOD: Duration = Duration::from_secs(10);

/// How often memory that was freed goes back to the kernel.
const RELEASE_PERIOD: Duration = Duration::from_secs(30);

struct Slot {
    spec: &'static ChildSpec,
    cell: Option<ActorCell>,
    budget: RestartBudget,
}

/// See the module.
pub struct Root {
    agent: Arc<Agent>,
    children: BTreeMap<Child, Slot>,
    stopping: Option<RpcReplyPort<()>>,
    /// When memory was last given back, by uptime; first as soon as the start is over.
    released: Option<Duration>,
}

/// Starts the tree; gives Root's address and its cell, whose end is the agent's.
pub fn start(agent: Arc<Agent>) -> (Address<RootMsg>, ActorCell) {
    let address = Address::new(&agent.trace, "Root", Root::KIND, "", 64);
    let cell = spawn::<Root>(&address, agent, None);
    (address, cell)
}

impl Actor for Root {
    const KIND: &'static str = "Root";
    type Msg = RootMsg;
    type Args = Arc<Agent>;

    fn begin(agent: Arc<Agent>, context: &mut Context<RootMsg>) -> Self {
        let mut root = Self { agent, children: BTreeMap::new(), stopping: None, released: None };
        for spec in TREE {
            let policy = BudgetPolicy::permanent(spec.failures_max, FAILURE_WINDOW);
            let slot = Slot { spec, cell: None, budget: RestartBudget::new(policy) };
            root.children.insert(spec.child, slot);
            root.start_child(spec.child, context);
        }
        context.after(root.watch_period(), RootMsg::WatchDue);
        root
    }

    fn receive(&mut self, message: RootMsg, context: &mut Context<RootMsg>) {
        match message {
            RootMsg::Restart(child) => {
                if self.stopping.is_none() {
                    self.start_child(child, context);
                    self.ask_to_repeat(child, context);
                }
            }
            RootMsg::Shutdown(reply) => self.shut_down(reply, context),
            RootMsg::AllStopped(_) => {
                if let Some(reply) = self.stopping.take() {
                    let _ = reply.send(()); // The asker may have left.
                }
                context.stop();
            }
            RootMsg::WatchDue => {
                self.watch();
                self.release_memory(context.clock().uptime());
                context.after(self.watch_period(), RootMsg::WatchDue);
            }
        }
    }

    fn child_ended(&mut self, who: ActorId, end: ChildEnd, context: &mut Context<RootMsg>) {
        let found = self.children.iter().find(|(_, slot)| slot.cell.as_ref().is_some_and(|cell| cell.get_id() == who));
        let Some(child) = found.map(|(child, _)| *child) else { return }; // An old incarnation.
        let name: &'static str = child.into();
        let why = match end {
            ChildEnd::Failed(why) => why,
            ChildEnd::Stopped if self.stopping.is_some() => return,
            ChildEnd::Stopped => "ended although it was not told to".to_owned(),
        };
        self.vacate(child, &why, context);
        let uptime = context.clock().uptime();
        let slot = self.children.get_mut(&child).expect("found above");
        slot.cell = None;
        match slot.budget.record_failure(uptime) {
            Verdict::RestartAfter(delay) => {
                tracing::error!(actor = name, error = why, restart_in = ?delay, "actor failed");
                context.after(delay, RootMsg::Restart(child));
            }
            Verdict::Escalate => {
                tracing::error!(actor = name, error = why, "actor failed too often, the agent gives up");
                context.escalate(format!("{name} failed too often: {why}"));
            }
        }
    }
}

impl Root {
    fn start_child(&mut self, child: Child, context: &mut Context<RootMsg>) {
        let (agent, to) = (&self.agent, &self.agent.directory);
        macro_rules! spawn {
            ($actor:path, $address:ident) => {
                context.spawn_child::<$actor>(&to.$address, Arc::clone(agent))
            };
        }
        let cell = match child {
            Child::CertificateManager => {
                spawn!(crate::actors::node::certificate_manager::CertificateManager, certificate_manager)
            }
            Child::EventRecorder => spawn!(crate::actors::events::event_recorder::EventRecorder, event_recorder),
            Child::StatusManager => spawn!(crate::actors::status::status_manager::StatusManager, status_manager),
            Child::ObjectCache => spawn!(crate::actors::objects::object_cache::ObjectCache, object_cache),
            Child::NodeStatus => spawn!(crate::actors::node::node_status::NodeStatus, node_status),
            Child::NodeLease => spawn!(crate::actors::node::node_lease::NodeLease, node_lease),
            Child::RuntimeMonitor => spawn!(crate::actors::runtime::runtime_monitor::RuntimeMonitor, runtime_monitor),
            Child::ResourceManager => {
                spawn!(crate::actors::resources::resource_manager::ResourceManager, resource_manager)
            }
            Child::ImageManager => spawn!(crate::actors::images::image_manager::ImageManager, image_manager),
            Child::VolumeManager => spawn!(crate::actors::volumes::volume_manager::VolumeManager, volume_manager),
            Child::Prober => spawn!(crate::actors::probes::prober::Prober, prober),
            Child::Pleg => spawn!(crate::actors::runtime::pleg::Pleg, pleg),
            Child::PodManager => spawn!(crate::actors::pods::pod_manager::PodManager, pod_manager),
            Child::ContainerGc => spawn!(crate::actors::runtime::container_gc::ContainerGc, container_gc),
            Child::ImageGc => spawn!(crate::actors::images::image_gc::ImageGc, image_gc),
            Child::LogRotator => spawn!(crate::actors::runtime::log_rotator::LogRotator, log_rotator),
            Child::FileSource => spawn!(crate::actors::sources::file::FileSource, file_source),
            Child::HttpSource => spawn!(crate::actors::sources::http::HttpSource, http_source),
            Child::ApiSource => spawn!(crate::actors::sources::api::ApiSource, api_source),
            Child::MirrorManager => spawn!(crate::actors::status::mirror_manager::MirrorManager, mirror_manager),
            Child::OfflinePods => spawn!(crate::actors::pods::offline_pods::OfflinePods, offline_pods),
            Child::AllocationManager => {
                spawn!(crate::actors::resources::allocation_manager::AllocationManager, allocation_manager)
            }
            Child::StatsCollector => {
                spawn!(crate::actors::statistics::stats_collector::StatsCollector, stats_collector)
            }
            Child::NetworkRules => spawn!(crate::actors::node::network_rules::NetworkRules, network_rules),
            Child::ProcessPlacement => {
                spawn!(crate::actors::resources::process_placement::ProcessPlacement, process_placement)
            }
            Child::Server => spawn!(super::server::Server, server),
        };
        self.children.get_mut(&child).expect("every child has a slot").cell = Some(cell);
    }

    fn vacate(&self, child: Child, why: &str, context: &Context<RootMsg>) {
        let to = &self.agent.directory;
        let why = Some(why.to_owned());
        self.agent.trace.count_restart(child.into());
        match child {
            Child::CertificateManager => context.child_left(&to.certificate_manager, why),
            Child::EventRecorder => context.child_left(&to.event_recorder, why),
            Child::StatusManager => context.child_left(&to.status_manager, why),
            Child::ObjectCache => context.child_left(&to.object_cache, why),
            Child::NodeStatus => context.child_left(&to.node_status, why),
            Child::NodeLease => context.child_left(&to.node_lease, why),
            Child::RuntimeMonitor => context.child_left(&to.runtime_monitor, why),
            Child::ResourceManager => context.child_left(&to.resource_manager, why),
            Child::ImageManager => context.child_left(&to.image_manager, why),
            Child::VolumeManager => context.child_left(&to.volume_manager, why),
            Child::Prober => context.child_left(&to.prober, why),
            Child::Pleg => context.child_left(&to.pleg, why),
            Child::PodManager => context.child_left(&to.pod_manager, why),
            Child::ContainerGc => context.child_left(&to.container_gc, why),
            Child::ImageGc => context.child_left(&to.image_gc, why),
            Child::LogRotator => context.child_left(&to.log_rotator, why),
            Child::FileSource => context.child_left(&to.file_source, why),
            Child::HttpSource => context.child_left(&to.http_source, why),
            Child::ApiSource => context.child_left(&to.api_source, why),
            Child::MirrorManager => context.child_left(&to.mirror_manager, why),
            Child::OfflinePods => context.child_left(&to.offline_pods, why),
            Child::AllocationManager => context.child_left(&to.allocation_manager, why),
            Child::StatsCollector => context.child_left(&to.stats_collector, why),
            Child::NetworkRules => context.child_left(&to.network_rules, why),
            Child::ProcessPlacement => context.child_left(&to.process_placement, why),
            Child::Server => context.child_left(&to.server, why),
        }
    }

    /// Has everything told again that the child knew only from others.
    fn ask_to_repeat(&self, child: Child, context: &Context<RootMsg>) {
        let to = &self.agent.directory;
        for teacher in self.children[&child].spec.learns_from {
            match teacher {
                Child::NodeStatus => context.tell(&to.node_status, NodeStatusMsg::Repeat),
                Child::RuntimeMonitor => context.tell(&to.runtime_monitor, RuntimeMonitorMsg::Repeat),
                Child::Pleg if child == Child::LogRotator => context.tell(&to.pleg, PlegMsg::RepeatSeen),
                Child::Pleg => context.tell(&to.pleg, PlegMsg::Repeat),
                Child::FileSource => context.tell(&to.file_source, FileSourceMsg::Repeat),
                Child::HttpSource => context.tell(&to.http_source, HttpSourceMsg::Repeat),
                Child::ApiSource => context.tell(&to.api_source, ApiSourceMsg::Repeat),
                Child::OfflinePods => context.tell(&to.offline_pods, OfflinePodsMsg::Repeat),
                Child::AllocationManager => context.tell(&to.allocation_manager, AllocationManagerMsg::Repeat),
                Child::PodManager => context.tell(&to.pod_manager, PodManagerMsg::Repeat),
                other => unreachable!("{other:?} teaches nobody"),
            }
        }
    }

    fn shut_down(&mut self, reply: RpcReplyPort<()>, context: &mut Context<RootMsg>) {
        self.stopping = Some(reply);
        let mut order: Vec<(ActorCell, Duration)> = vec![];
        for spec in TREE.iter().rev() {
            if let Some(cell) = self.children[&spec.child].cell.clone() {
                order.push((cell, spec.shutdown));
            }
        }
        let work = async move {
            for (cell, limit) in order {
                cell.stop(None);
                if cell.wait(Some(ractor::concurrency::Duration::from(limit))).await.is_err() {
                    cell.kill();
                }
            }
        };
        context.start("stop the tree", "all actors", work, RootMsg::AllStopped);
    }

    fn watch_period(&self) -> Duration {
        self.agent.settings.watchdog_period.unwrap_or(WATCH_PERIOD)
    }

    fn release_memory(&mut self, uptime: Duration) {
        if self.released.is_none_or(|last| uptime.saturating_sub(last) >= RELEASE_PERIOD) {
            self.released = Some(uptime);
            self.agent.adapters.service_manager.release_free_memory();
        }
    }

    fn watch(&self) {
        if self.agent.trace.stuck(STUCK_AFTER).is_none() {
            self.agent.adapters.service_manager.feed_watchdog();
        }
    }
}

/// Whether the table names every child once, for tidy's sake.
pub fn table_is_whole() -> bool {
    Child::iter().all(|child| TREE.iter().filter(|spec| spec.child == child).count() == 1)
}
