//! `PodManager`: which pods should be here; one `PodWorker` for each, looked after here.
//!
//! Parent: Root. Restarted: after a failure; its workers end with it, the sources and `Pleg` tell it all again.
//!
//! Its parts each keep their own state: [`Workers`], [`Resizes`], and in `logic::pods` the sources' pods, the pods that the
//! runtime holds, admissions, shares of the node, leftovers. They are parts of one actor and not actors of their own,
//! because each decision about a pod compares several of them: between two mailboxes, a pod could be judged by a sum that
//! an end or a resize has changed already.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use ractor::{ActorId, RpcReplyPort};

use crate::actors::kit::actor::{Actor, ChildEnd};
use crate::actors::kit::context::Context;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::pods::pod_admission::NodeTrouble;
use crate::logic::pods::pod_admission::by_source::SourceAdmissions;
use crate::logic::pods::pod_lifecycle::Demand;
use crate::logic::pods::pod_manager::held_pods::{HeldPods, Relist};
use crate::logic::pods::pod_manager::leftovers::Sweep;
use crate::logic::pods::pod_manager::pod_shares::PodShares;
use crate::logic::pods::pod_manager::pod_sources::PodSources;
use crate::logic::pods::pod_manager::releases::Releases;
use crate::logic::pods::pod_roster::PodRoster;
use crate::logic::resources::TierSums;
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::pods::pod_manager::{PodManagerMsg, PodQuestion};
use crate::messages::pods::pod_source::SourceKind;
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::runtime::container_gc::ContainerGcMsg;
use crate::messages::runtime::pleg::PlegMsg;
use crate::messages::status::mirror_manager::MirrorManagerMsg;

mod admission;
pub mod args;
mod census;
mod ends;
mod eviction;
mod housekeeping;
mod orders;
mod reports;
mod resizes;
mod resizing;
mod shutdown;
mod sources;
mod supervision;
pub mod sweeper;
mod workers;

use admission::NodeReread;
pub use args::Args;
use resizes::Resizes;
use workers::Workers;

/// See the module.
pub struct PodManager {
    args: Args,
    roster: PodRoster,
    workers: Workers,
    sources: PodSources,
    held: HeldPods,
    /// The newest Node object; `None` until it is known, and always without an API server.
    node: Option<Arc<Node>>,
    reread: NodeReread,
    admissions: SourceAdmissions,
    resizes: Resizes,
    shares: PodShares,
    /// The sums that `ResourceManager` got last.
    active_told: Option<TierSums>,
    sweep: Sweep,
    releases: Releases,
    /// `StatusManager` knows that all was heard.
    heard_all_told: bool,
    /// The trouble of the node itself.
    trouble: NodeTrouble,
}

impl Actor for PodManager {
    const KIND: &'static str = "PodManager";
    type Msg = PodManagerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<PodManagerMsg>) -> Self {
        Self::arm_housekeeping(context);
        let manager = Self {
            roster: PodRoster::new(args.settings.sources.iter().copied())
                .with_inherited(args.adapters.pod_ends.lives()),
            admissions: SourceAdmissions::new(args.settings.owns_hardware),
            args,
            workers: Workers::new(context.clock().stamp(), context.clock().uptime()),
            sources: PodSources::default(),
            held: HeldPods::default(),
            node: None,
            reread: NodeReread::default(),
            resizes: Resizes::default(),
            shares: PodShares::default(),
            active_told: None,
            sweep: Sweep::default(),
            releases: Releases::default(),
            heard_all_told: false,
            trouble: NodeTrouble::default(),
        };
        manager.ask_host(context);
        manager
    }

    fn receive(&mut self, message: PodManagerMsg, context: &mut Context<PodManagerMsg>) {
        match message {
            PodManagerMsg::SourceSet { source: SourceKind::Api, pods, .. } => self.take_api(pods, context),
            PodManagerMsg::SourceSet { source, pods, lives } => {
                self.take_source(source.as_str(), pods, lives, context);
            }
            PodManagerMsg::SourcePod { uid, pod, .. } => self.take_api_pod(&uid, pod, context),
            PodManagerMsg::Recalled(pods) => {
                self.sources.recall(pods);
                self.remember(context);
            }
            PodManagerMsg::Observed(pod) => self.observe(pod, context),
            PodManagerMsg::Relisted { taken, pods, running } => {
                let relist = self.held.take_relist(taken, pods, running);
                self.take_relist(relist, context);
            }
            PodManagerMsg::HealthChanged(health) => {
                if self.workers.take_health(health, context) {
                    self.judge_again(context);
                }
            }
            PodManagerMsg::NodeChanged(node) => self.take_node(node, context),
            PodManagerMsg::HostChanged { ips, machine } => self.workers.take_host(ips, machine, context),
            PodManagerMsg::PodOver(uid) => self.take_over(&uid, context),
            PodManagerMsg::WorkerFinished(uid) => self.take_finished(&uid, context),
            PodManagerMsg::Demanded { pod, demand, reply } => self.pass_on(&pod, demand, reply, context),
            PodManagerMsg::Allocated(given) => self.take_allocated(&given, context),
            PodManagerMsg::Workers(message) => self.receive_workers(message, context),
            PodManagerMsg::Admission(message) => self.receive_admission(message, context),
            PodManagerMsg::Resizes(message) => self.receive_resizes(message, context),
            PodManagerMsg::Housekeeping(message) => self.receive_housekeeping(message, context),
            PodManagerMsg::Eviction(message) => self.receive_eviction(message, context),
            PodManagerMsg::Shutdown(message) => self.receive_shutdown(message, context),
            // The asker may have left.
            PodManagerMsg::Question(PodQuestion::Known(reply)) => drop(reply.send(self.known_to_collector())),
            PodManagerMsg::Question(PodQuestion::Count(reply)) => drop(reply.send(self.census())),
            PodManagerMsg::Repeat => self.repeat(context),
        }
    }

    fn child_ended(&mut self, who: ActorId, end: ChildEnd, context: &mut Context<PodManagerMsg>) {
        self.worker_ended(who, end, context);
    }
}

impl PodManager {
    /// Whether pods can be judged: it is known what runs here, and what earlier runs of the agent gave.
    fn can_judge(&self) -> bool {
        self.held.relisted().is_some() && self.resizes.is_recalled()
    }

    fn take_node(&mut self, node: Arc<Node>, context: &mut Context<PodManagerMsg>) {
        context.tell(&self.args.to.mirror_manager, MirrorManagerMsg::NodeChanged(Arc::clone(&node)));
        self.node = Some(node);
        self.judge_refused(context);
        self.admit(context);
        self.carry_out(context);
        self.tell_known(context);
        self.see_resizes(context);
    }

    /// Has the host's addresses looked at: at the beginning, for a pod that begins, and with the housekeeping, as long as no
    /// Node says them.
    fn ask_host(&self, context: &Context<PodManagerMsg>) {
        if self.node.is_none() {
            context.tell(&self.args.to.node_status, NodeStatusMsg::HostDue);
        }
    }

    /// Passes a question of someone on this machine on to the newest worker of this name.
    fn pass_on(
        &self,
        pod: &FullName,
        demand: Demand,
        reply: RpcReplyPort<Option<Result<Vec<String>, String>>>,
        context: &Context<PodManagerMsg>,
    ) {
        let mut workers = self.workers.iter().filter(|(uid, _)| !self.roster.is_left_over(uid));
        match workers.rfind(|(_, slot)| slot.full_name() == pod).map(|(_, slot)| slot) {
            Some(slot) => Workers::demand(slot, demand, reply, context),
            None => drop(reply.send(None)),
        }
    }

    fn observe(&mut self, pod: Arc<RuntimePod>, context: &mut Context<PodManagerMsg>) {
        let uid = pod.uid.clone();
        self.held.take_look(&pod);
        self.recount(&uid);
        if self.workers.has(&uid) {
            if crate::logic::pods::container_garbage::has_surplus(&pod, self.args.settings.dead_per_container) {
                context.tell(&self.args.to.container_gc, ContainerGcMsg::Surplus(Arc::clone(&pod)));
            }
            self.workers.tell(&uid, PodWorkerMsg::Observed(pod), context);
        } else {
            self.carry_out_for(&uid, context);
        }
    }

    fn take_relist(&mut self, relist: Relist, context: &mut Context<PodManagerMsg>) {
        // Of pods that vanished while `Pleg` began anew nobody else would say so.
        for uid in relist.vanished {
            context.tell(&self.args.to.pleg, PlegMsg::Inspect(uid));
        }
        if relist.is_first {
            self.judge_again(context);
        }
        self.carry_out(context);
        if relist.is_first {
            self.tell_statics(context);
            self.clean_leftovers(context);
            self.see_resizes(context);
        }
    }

    /// The pods that are wanted or still going, for who removes what nobody knows; `None` before all sources were heard.
    fn known_to_collector(&self) -> Option<BTreeSet<PodUid>> {
        self.roster.all_heard().then(|| self.roster.known())
    }
}
