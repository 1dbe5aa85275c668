//! `PodManager`: which pods should be here; one `PodWorker` for each, looked after here.
//!
//! Parent: Root. Restarted: after a failure; its workers end with it, the sources and `Pleg` tell it all again. A
//! worker that fails is started again, each time a little later, and costs nobody else anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use ractor::{ActorCell, ActorId};

use super::pod_worker::{PodWorker, ShownStage, WorkerArgs};
use crate::actors::agent::Agent;
use crate::actors::kit::actor::{Actor, ChildEnd};
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::trace::lock;
use crate::actors::sources::first_seen;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::restart_budget::{BudgetPolicy, RestartBudget, Verdict};
use crate::logic::model::runtime_health::{self, RuntimeHealth};
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::Stamp;
use crate::logic::network::host_ips::HostIps;
use crate::logic::pods::pod_admission::{Admissions, Room};
use crate::logic::pods::pod_resize::{Allocations, PendingResize, Trigger};
use crate::logic::pods::pod_roster::{Order, PodRoster, is_static};
use crate::logic::resources::{TierShares, TierSums};
use crate::messages::container_gc::ContainerGcMsg;
use crate::messages::mirror_manager::MirrorManagerMsg;
use crate::messages::pleg::PlegMsg;
use crate::messages::pod_manager::PodManagerMsg;
use crate::messages::pod_source::SourceKind;
use crate::messages::pod_worker::PodWorkerMsg;
use crate::messages::prober::ProberMsg;
use crate::messages::status_manager::StatusManagerMsg;
use crate::platform::observer::Occurrence;

mod admission;
mod census;
mod ends;
mod host;
pub(in crate::actors) mod housekeeping;
mod rereading;
mod resizes;
mod telling;

use housekeeping::Sweep;
use telling::{Owed, RETELL};

/// Messages that may wait for one worker.
const WORKER_CAPACITY: usize = 256;
/// Wait between passes over what nobody knows on the disk and among the cgroups (POD-33; upstream passes every 2 s, here
/// pods clean up after themselves and the pass only finds what a crash left).
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(60);

/// Wait from the first of as many workers as may be started at once to the next such ones: 500 pods in a second, which no
/// runtime starts as fast.
const STARTS_PERIOD: Duration = Duration::from_millis(40);

/// How long the end of a pod's worker is remembered: longer than a look at the pod from before it can take.
const RETIRED_KEPT: Duration = Duration::from_secs(600);

struct Slot {
    address: Address<PodWorkerMsg>,
    full_name: FullName,
    cell: Option<ActorCell>,
    budget: RestartBudget,
    owed: Owed,
    /// What it was told last about a resize that waits; `None` when nothing.
    resize_told: Option<Option<PendingResize>>,
    stage: Arc<ShownStage>,
}

/// See the module.
pub struct PodManager {
    agent: Arc<Agent>,
    roster: PodRoster,
    slots: BTreeMap<PodUid, Slot>,
    runtime: BTreeMap<PodUid, Arc<RuntimePod>>,
    relisted: Option<Stamp>,
    /// When this incarnation began.
    born: Stamp,
    /// Whose pods the runtime holds. Of those not in `runtime` nothing more is known until they were looked at.
    listed: BTreeMap<PodUid, FullName>,
    health: RuntimeHealth,
    /// The host's addresses.
    host: HostIps,
    /// The newest Node object; `None` until it is told, and always without an API server.
    node: Option<Arc<Node>>,
    rereading: rereading::Rereading,
    /// What the API server wants; `None` until it was heard.
    api_pods: Option<BTreeMap<PodUid, Arc<Pod>>>,
    /// What it wanted when it was last heard, until that is in force.
    recalled: Option<BTreeMap<PodUid, Arc<Pod>>>,
    admissions: Admissions,
    /// What the sources of static pods want, and what was decided about it.
    statics: BTreeMap<SourceKind, BTreeMap<PodUid, Arc<Pod>>>,
    static_admissions: BTreeMap<SourceKind, Admissions>,
    /// What pods were given, and which resizes wait.
    allocations: Allocations,
    /// What was given is being kept on the disk.
    keeping: bool,
    /// Resizes were looked at since all sources were heard.
    resizes_seen: bool,
    resize_timer: Option<OperationId>,
    /// The pass over what is left of pods that nobody knows.
    sweep: Sweep,
    /// Releases of pods that the runtime does not hold.
    releases: ends::Releases,
    /// Pods whose worker ended: when, by order and by uptime. A pod that comes back trusts no look from before.
    retired: BTreeMap<PodUid, (Stamp, Duration)>,
    /// `StatusManager` knows that all was heard.
    heard_all_told: bool,
    /// What admitted pods take of the node.
    room: Room,
    /// What the pods that count take of the tiers' cgroups.
    active: TierShares,
    /// What `ResourceManager` was told of that.
    active_told: Option<TierSums>,
    /// Pods that ask for other resources than they were given.
    asking: BTreeSet<PodUid>,
    /// Pods whose workers are to hear about a resize.
    resize_due: BTreeSet<PodUid>,
    /// The uptime from which on the newest workers were started, as many as may at once.
    starts_from: Duration,
    /// A timer runs, after which more pods are to start.
    starting_more: bool,
    /// A timer runs.
    retelling: bool,
    /// The wait of the next such timer.
    retell_wait: Duration,
}

impl Actor for PodManager {
    const KIND: &'static str = "PodManager";
    type Msg = PodManagerMsg;
    type Args = Arc<Agent>;

    fn begin(agent: Arc<Agent>, context: &mut Context<PodManagerMsg>) -> Self {
        let file = agent.adapters.folder.is_some().then_some(SourceKind::File.as_str());
        let http = agent.adapters.url.is_some().then_some(SourceKind::Http.as_str());
        let api = agent.adapters.api.is_some().then_some(SourceKind::Api.as_str());
        context.after(HOUSEKEEPING_PERIOD, PodManagerMsg::HousekeepingDue);
        let manager = Self {
            agent,
            roster: PodRoster::new(file.into_iter().chain(http).chain(api)),
            slots: BTreeMap::new(),
            runtime: BTreeMap::new(),
            relisted: None,
            born: context.clock().stamp(),
            listed: BTreeMap::new(),
            health: runtime_health::not_yet_known(),
            host: HostIps::default(),
            node: None,
            rereading: rereading::Rereading::default(),
            api_pods: None,
            recalled: None,
            admissions: Admissions::default(),
            statics: BTreeMap::new(),
            static_admissions: BTreeMap::new(),
            allocations: Allocations::default(),
            keeping: false,
            resizes_seen: false,
            resize_timer: None,
            sweep: Sweep::default(),
            releases: ends::Releases::default(),
            retired: BTreeMap::new(),
            heard_all_told: false,
            room: Room::default(),
            active: TierShares::default(),
            active_told: None,
            asking: BTreeSet::new(),
            resize_due: BTreeSet::new(),
            starts_from: context.clock().uptime(),
            starting_more: false,
            retelling: false,
            retell_wait: RETELL,
        };
        manager.ask_host(context);
        manager
    }

    fn receive(&mut self, message: PodManagerMsg, context: &mut Context<PodManagerMsg>) {
        match message {
            PodManagerMsg::SourceSet { source: SourceKind::Api, pods, .. } => self.take_api(pods, context),
            PodManagerMsg::SourcePod { uid, pod, .. } => self.take_api_pod(&uid, pod, context),
            PodManagerMsg::StartMore => self.start_more(context),
            PodManagerMsg::SourceSet { source, pods, lives } => {
                self.begin_lives(source, lives);
                self.take_statics(source, pods, context);
                self.carry_out(context);
                self.tell_known(context);
                self.tell_resizes(context);
                self.see_resizes(context);
            }
            PodManagerMsg::Recalled(pods) => {
                self.recalled = Some(pods);
                self.remember(context);
            }
            PodManagerMsg::Observed(pod) => self.observe(pod, context),
            PodManagerMsg::Relisted { taken, pods } => self.take_relist(taken, pods, context),
            PodManagerMsg::HealthChanged(health) => {
                let able = self.health.groups_policy != health.groups_policy;
                self.health = health.clone();
                self.tell_all(&|| PodWorkerMsg::HealthChanged(health.clone()), context);
                if able {
                    self.judge_again(context);
                }
            }
            PodManagerMsg::NodeChanged(node) => {
                context.tell(&self.agent.directory.mirror_manager, MirrorManagerMsg::NodeChanged(Arc::clone(&node)));
                self.node = Some(node);
                self.judge_refused(context);
                self.admit(context);
                self.carry_out(context);
                self.tell_known(context);
                self.see_resizes(context);
            }
            PodManagerMsg::HostChanged(host) => self.take_host(host, context),
            PodManagerMsg::PodOver(uid) => self.take_over(&uid, context),
            PodManagerMsg::WorkerFinished(uid) => self.take_finished(&uid, context),
            PodManagerMsg::ReleaseDue(uid) => self.release_absent(uid, context),
            PodManagerMsg::Released(uid, outcome) => self.take_released(uid, outcome, context),
            PodManagerMsg::Allocated(given) => self.take_allocated(&given, context),
            PodManagerMsg::AllocationsKept(outcome) => self.take_kept(outcome, context),
            PodManagerMsg::ResizeRetryDue => {
                self.resize_timer = None;
                self.resize(Trigger::PeriodicRetry, context);
                self.keep_allocations(context);
            }
            PodManagerMsg::Demanded { pod, demand, reply } => {
                let mut slots = self.slots.iter().filter(|(uid, _)| !self.roster.is_left_over(uid));
                match slots.rfind(|(_, slot)| slot.full_name == pod).map(|(_, slot)| slot) {
                    // The newest of its name answers; one without room does not, and then nobody does.
                    Some(slot) => drop(context.try_tell(&slot.address, PodWorkerMsg::Demanded { demand, reply })),
                    None => drop(reply.send(None)),
                }
            }
            PodManagerMsg::GraceExceeded(uid) => self.tell_grace_exceeded(&uid, context),
            PodManagerMsg::NodeReread(outcome) => self.node_reread(outcome, context),
            PodManagerMsg::RestartDue(uid) => self.restart(&uid, context),
            PodManagerMsg::RetellDue => self.retell(context),
            PodManagerMsg::HousekeepingDue => self.keep_house(context),
            PodManagerMsg::LookAgainDue => self.see_all(context),
            PodManagerMsg::RecountDue => self.count_all(context),
            PodManagerMsg::LeftoversFound(outcome) => self.take_leftovers(outcome, context),
            PodManagerMsg::LeftoversRemoved(uid, outcome) => self.take_swept(uid, outcome, context),
            PodManagerMsg::Known(reply) => drop(reply.send(self.known_to_collector())),
            PodManagerMsg::Count(reply) => drop(reply.send(self.census())), // The asker may have left.
            PodManagerMsg::Repeat => {
                self.repeat_preempted(context);
                self.tell_all(&|| PodWorkerMsg::Repeat, context);
                self.repeat_api(context);
                self.heard_all_told = false;
                self.active_told = None;
                self.tell_known(context);
                self.tell_heard_all(context);
            }
        }
    }

    fn child_ended(&mut self, who: ActorId, end: ChildEnd, context: &mut Context<PodManagerMsg>) {
        let found = self.slots.iter_mut().find(|(_, slot)| slot.cell.as_ref().is_some_and(|cell| cell.get_id() == who));
        let Some((uid, slot)) = found else { return }; // Retired, or an old incarnation.
        let why = match end {
            ChildEnd::Failed(why) => why,
            ChildEnd::Stopped => "ended although it was not told to".to_owned(),
        };
        slot.cell = None;
        context.child_left(&slot.address, Some(why.clone()));
        self.agent.trace.count_restart(PodWorker::KIND);
        let verdict = slot.budget.record_failure(context.clock().uptime());
        let Verdict::RestartAfter(delay) = verdict else { unreachable!("a worker's budget never escalates") };
        tracing::error!(pod = %slot.full_name, %uid, error = why, restart_in = ?delay, "pod worker failed");
        context.after(delay, PodManagerMsg::RestartDue(uid.clone()));
    }
}

impl PodManager {
    /// The API server told what it wants.
    fn take_api(&mut self, pods: BTreeMap<PodUid, Arc<Pod>>, context: &mut Context<PodManagerMsg>) {
        let before = self.api_pods.replace(pods.clone()).unwrap_or_default();
        let trigger = self.note_changes(&before, &pods, context);
        self.admit(context);
        if let Some(trigger) = trigger {
            self.resize(trigger, context);
            self.judge_refused(context);
        }
        self.carry_out(context);
        self.tell_known(context);
        self.tell_resizes(context);
        self.see_resizes(context);
    }

    /// The API server told of one pod: what it is to be by now, or that it is wanted no more. No other is looked at.
    fn take_api_pod(&mut self, uid: &PodUid, pod: Option<Arc<Pod>>, context: &mut Context<PodManagerMsg>) {
        let Some(pods) = &mut self.api_pods else { return }; // The complete set is still to come, with this pod.
        let before = match &pod {
            Some(pod) => pods.insert(uid.clone(), Arc::clone(pod)),
            None => pods.remove(uid),
        };
        let trigger = self.note_change(uid, before.as_ref(), pod.as_ref(), context);
        self.admit_one(uid, context);
        if let Some(trigger) = trigger {
            self.resize(trigger, context);
            self.judge_refused(context);
        }
        self.carry_out_for(uid, context);
        self.tell_active(context);
        self.tell_resizes(context);
    }

    /// Does what is to be done about all pods.
    fn carry_out(&mut self, context: &mut Context<PodManagerMsg>) {
        self.refill_starts(context);
        let listed = self.can_judge().then_some(&self.listed);
        let orders = self.roster.orders(listed);
        self.carry_out_orders(orders, context);
    }

    /// Does what is to be done about one pod, and about those that it may have held up.
    fn carry_out_for(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        self.refill_starts(context);
        let listed = self.can_judge().then_some(&self.listed);
        let orders = self.roster.orders_for(uid, listed);
        self.carry_out_orders(orders, context);
    }

    fn start_more(&mut self, context: &mut Context<PodManagerMsg>) {
        self.starting_more = false;
        self.refill_starts(context);
        let listed = self.can_judge().then_some(&self.listed);
        let orders = self.roster.orders_held_up(listed);
        self.carry_out_orders(orders, context);
        self.tell_active(context);
        self.tell_resizes(context);
    }

    fn carry_out_orders(&mut self, orders: Vec<Order>, context: &mut Context<PodManagerMsg>) {
        for order in orders {
            match order {
                Order::Start { uid, full_name } => self.start_worker(uid, full_name, context),
                // A pod whose worker has ended it was told as ended by the agent.
                Order::TellEnd { uid, .. } if self.has_ended(&uid) => {}
                Order::TellEnd { uid, pod } | Order::TellSpec { uid, pod } => {
                    let pod = lock(&self.agent.adapters.pod_ends).recall(&uid, pod);
                    if !self.tell_worker(&uid, PodWorkerMsg::SpecChanged(pod), context) {
                        self.roster.spec_refused(&uid);
                    }
                }
                Order::Terminate { uid, grace } => {
                    // First its pod, whose grace period counts: an end that came before it would not wait.
                    let comes_too_early = self.roster.owes_spec(&uid);
                    if comes_too_early || !self.tell_worker(&uid, PodWorkerMsg::Terminate { grace }, context) {
                        self.roster.end_refused(&uid);
                    }
                }
                Order::Release(uid) => self.release_absent(uid, context),
            }
        }
        self.tell_heard_all(context);
        if self.roster.is_unfinished() && !std::mem::replace(&mut self.starting_more, true) {
            let next = (self.starts_from + STARTS_PERIOD).saturating_sub(context.clock().uptime());
            context.after(next, PodManagerMsg::StartMore);
        }
    }

    fn refill_starts(&mut self, context: &Context<PodManagerMsg>) {
        let uptime = context.clock().uptime();
        if uptime >= self.starts_from + STARTS_PERIOD {
            self.starts_from = uptime;
            self.roster.refill();
        }
    }

    /// The pods that are wanted or still going, for who removes what nobody knows; `None` before all sources were heard.
    fn known_to_collector(&self) -> Option<BTreeSet<PodUid>> {
        self.roster.all_heard().then(|| self.roster.known())
    }

    /// Tells once more of pods that have no worker to do so.
    fn repeat_api(&self, context: &Context<PodManagerMsg>) {
        for uid in self.roster.ended() {
            context.tell(&self.agent.directory.status_manager, StatusManagerMsg::NeverHere(uid.clone()));
        }
        for (uid, pod) in self.api_pods.iter().flatten().chain(self.statics.values().flatten()) {
            self.tell_rejected(uid, pod, context);
        }
        if self.roster.all_heard() {
            self.tell_offline(context);
        }
        if let Some(node) = &self.node {
            context.tell(&self.agent.directory.mirror_manager, MirrorManagerMsg::NodeChanged(Arc::clone(node)));
        }
    }

    fn start_worker(&mut self, uid: PodUid, full_name: FullName, context: &mut Context<PodManagerMsg>) {
        let name = format!("{}/{}/{}/{}", PodWorker::KIND, full_name.namespace, full_name.name, uid);
        let address = Address::new(&self.agent.trace, &name, PodWorker::KIND, Self::KIND, WORKER_CAPACITY);
        let budget = RestartBudget::new(BudgetPolicy::pod_worker());
        // Workers of a failed predecessor may have had calls under way when the looks were taken that come in now.
        let mut born = self.relisted.unwrap_or_default().max(self.born);
        let retired = self.retired.remove(&uid);
        if let Some((ended, _)) = retired {
            born = born.max(ended); // Wanted again: a look may still be on its way that shows what was removed since.
        }
        lock(&self.agent.adapters.pod_ends).begin(&uid, self.roster.life(&uid));
        self.count_start(&uid, retired.is_some(), context);
        let stage = Arc::<ShownStage>::default();
        let args = self.worker_args(&uid, &full_name, born, &stage);
        let cell = context.spawn_child::<PodWorker>(&address, args);
        let slot = Slot {
            address,
            full_name: full_name.clone(),
            cell: Some(cell),
            budget,
            owed: Owed::default(),
            resize_told: None,
            stage,
        };
        self.slots.insert(uid.clone(), slot);
        self.resize_due.insert(uid.clone());
        self.recount(&uid);
        self.ask_host(context);
        self.tell_worker(&uid, PodWorkerMsg::HealthChanged(self.health.clone()), context);
        let seen = match (self.runtime.get(&uid), self.relisted) {
            (Some(seen), _) => Some(Arc::clone(seen)),
            (None, Some(taken)) if !self.listed.contains_key(&uid) => {
                Some(Arc::new(RuntimePod::empty(uid.clone(), full_name, taken)))
            }
            _ => None, // The first relist will tell, or the look at the pod that it led to.
        };
        if let Some(seen) = seen {
            self.tell_worker(&uid, PodWorkerMsg::Observed(seen), context);
        }
    }

    fn count_start(&self, uid: &PodUid, came_back: bool, context: &Context<PodManagerMsg>) {
        let Some(pod) = self.roster.wanted(uid) else { return self.agent.happened(Occurrence::OrphanFound) };
        if came_back {
            self.agent.happened(Occurrence::PodCameBack { is_static: is_static(pod) });
        }
        let containers = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
        let waited = first_seen(pod).map(|seen| context.now().since(seen));
        self.agent.happened(Occurrence::PodTaken { containers, waited });
    }

    fn worker_args(&self, uid: &PodUid, full_name: &FullName, born: Stamp, stage: &Arc<ShownStage>) -> WorkerArgs {
        let (agent, stage) = (Arc::clone(&self.agent), Arc::clone(stage));
        WorkerArgs { agent, uid: uid.clone(), full_name: full_name.clone(), born, stage, host: self.host.clone() }
    }

    /// The new incarnation trusts no observation from before its birth: a call of the old one may have been under way.
    fn restart(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        let Some(slot) = self.slots.get(uid) else { return };
        if slot.cell.is_some() {
            return;
        }
        let args = self.worker_args(uid, &slot.full_name, context.clock().stamp(), &slot.stage);
        let slot = self.slots.get_mut(uid).expect("found above");
        slot.cell = Some(context.spawn_child::<PodWorker>(&slot.address, args));
        slot.owed = Owed::default(); // It is told all anew.
        slot.resize_told = None;
        self.resize_due.insert(uid.clone());
        self.tell_worker(uid, PodWorkerMsg::HealthChanged(self.health.clone()), context);
        self.roster.forget_told(uid);
        self.carry_out_for(uid, context);
        self.tell_resizes(context);
    }

    fn observe(&mut self, pod: Arc<RuntimePod>, context: &mut Context<PodManagerMsg>) {
        let uid = pod.uid.clone();
        if pod.is_empty() {
            self.runtime.remove(&uid);
            self.listed.remove(&uid);
        } else {
            self.listed.insert(uid.clone(), pod.full_name.clone());
            self.runtime.insert(uid.clone(), Arc::clone(&pod));
        }
        self.recount(&uid);
        if self.slots.contains_key(&uid) {
            if crate::actors::runtime::container_gc::has_surplus(
                &pod,
                self.agent.settings.runtime.garbage.per_container,
            ) {
                context.tell(&self.agent.directory.container_gc, ContainerGcMsg::Surplus(Arc::clone(&pod)));
            }
            self.tell_worker(&uid, PodWorkerMsg::Observed(pod), context);
        } else {
            self.carry_out_for(&uid, context);
        }
    }

    fn take_relist(&mut self, taken: Stamp, pods: BTreeMap<PodUid, FullName>, context: &mut Context<PodManagerMsg>) {
        // Of what vanished while `Pleg` began anew nobody else would say so.
        for uid in self.runtime.keys().filter(|uid| !pods.contains_key(uid)) {
            context.tell(&self.agent.directory.pleg, PlegMsg::Inspect(uid.clone()));
        }
        self.listed = pods;
        let first = self.relisted.replace(taken).is_none();
        if first {
            self.judge_again(context);
        }
        self.carry_out(context);
        if first {
            self.tell_statics(context);
            self.clean_leftovers(context);
            self.see_resizes(context);
        }
    }

    fn tell_known(&mut self, context: &mut Context<PodManagerMsg>) {
        self.recount_all();
        self.tell_active(context);
        self.tell_statics(context);
        if self.roster.all_heard() && !self.sweep.was_begun() && self.can_judge() {
            self.clean_leftovers(context);
        }
    }

    /// Tells which static pods there are, for their mirrors: one that was refused says there why (POD-31). Not before it is
    /// known what the runtime holds: a former pod of a name may still have to end.
    fn tell_statics(&self, context: &Context<PodManagerMsg>) {
        if self.roster.statics_heard() && self.relisted.is_some() && self.agent.adapters.api.is_some() {
            let statics = self.statics.values().flat_map(BTreeMap::values).cloned().collect();
            let statics = MirrorManagerMsg::Statics(statics, self.roster.ending_statics(&self.listed));
            context.tell(&self.agent.directory.mirror_manager, statics);
        }
    }

    /// Has what is kept of pods forgotten that went while this actor itself was restarted: nobody else would say so.
    fn tell_gone(&self, context: &Context<PodManagerMsg>) {
        let known = self.roster.known();
        let names = self.slots.values().map(|slot| slot.address.record().name.clone()).collect();
        self.agent.trace.keep_only(PodWorker::KIND, &names);
        let to = &self.agent.directory;
        let statics = self.statics.values().flat_map(BTreeMap::keys);
        let shown = known.iter().chain(self.api_pods.iter().flat_map(BTreeMap::keys)).chain(statics).cloned().collect();
        let ended = self.roster.ended().clone();
        context.tell(&to.status_manager, StatusManagerMsg::Known { pods: Arc::new(shown), ended });
        context.tell(&to.prober, ProberMsg::Known(Arc::new(known)));
    }
}
