//! The workers of pods, as `PodManager` looks after them: starting, telling, telling again, starting again, retiring.
//!
//! A worker that fails is started again, each time a little later, and costs nobody else anything. A worker whose mailbox is
//! full gets its news again soon; the news are a state, so only the newest of each kind is kept for that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorCell, ActorId, RpcReplyPort};

use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::pods::pod_worker::ShownStage;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::restart_budget::{BudgetPolicy, RestartBudget, Verdict};
use crate::logic::model::runtime_health::{self, RuntimeHealth};
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::Stamp;
use crate::logic::network::host_ips::HostIps;
use crate::logic::pods::pod_lifecycle::{Demand, Stage};
use crate::logic::pods::pod_resize::PendingResize;
use crate::logic::resources::node_cgroups::MachineNow;
use crate::messages::pods::pod_manager::{PodManagerMsg, WorkersMsg};
use crate::messages::pods::pod_worker::PodWorkerMsg;

/// How long the end of a pod's worker is remembered: longer than a look at the pod from before it can take.
const RETIRED_KEPT: Duration = Duration::from_secs(600);
/// Wait from the first of as many workers as may be started at once to the next such ones: 500 pods in a second, which no
/// runtime starts as fast.
const STARTS_PERIOD: Duration = Duration::from_millis(40);
/// Wait before a worker whose mailbox was full gets its news again; doubled as long as one is full, up to [`RETELL_MAX`].
const RETELL: Duration = Duration::from_millis(100);
/// The longest such wait.
const RETELL_MAX: Duration = Duration::from_secs(1);

/// Messages that a worker's full mailbox refused. Which orders those were, the roster knows.
#[derive(Default)]
struct Owed {
    orders: bool,
    /// The shorter time for the pod's end, which the roster does not know.
    grace: bool,
    health: bool,
    host: bool,
    repeat: bool,
    observed: Option<Arc<RuntimePod>>,
}

impl Owed {
    /// The news that is owed when there is no room for this message.
    fn of(message: &PodWorkerMsg) -> Self {
        match message {
            PodWorkerMsg::SpecChanged(_) | PodWorkerMsg::Terminate { .. } => Self { orders: true, ..Self::default() },
            PodWorkerMsg::HealthChanged(_) => Self { health: true, ..Self::default() },
            PodWorkerMsg::HostChanged { .. } => Self { host: true, ..Self::default() },
            PodWorkerMsg::Repeat => Self { repeat: true, ..Self::default() },
            PodWorkerMsg::Observed(seen) => Self { observed: Some(Arc::clone(seen)), ..Self::default() },
            PodWorkerMsg::Probed { .. }
            | PodWorkerMsg::VolumesChanged
            // The worker follows its devices with each sync, and hears of all of them then.
            | PodWorkerMsg::DevicesToldOf(_)
            | PodWorkerMsg::Demanded { .. }
            // The last one that was sent is remembered, and compared.
            | PodWorkerMsg::ResizeJudged(_)
            | PodWorkerMsg::Recalled(_)
            | PodWorkerMsg::JobEnded(_)
            | PodWorkerMsg::RetryDue => Self::default(),
        }
    }

    fn add(&mut self, refused: Self) {
        self.orders |= refused.orders;
        self.grace |= refused.grace;
        self.health |= refused.health;
        self.host |= refused.host;
        self.repeat |= refused.repeat;
        let newer = |seen: &Arc<RuntimePod>| self.observed.as_ref().is_none_or(|known| known.taken <= seen.taken);
        if let Some(seen) = refused.observed.filter(newer) {
            self.observed = Some(seen);
        }
    }

    fn is_nothing(&self) -> bool {
        !self.orders && !self.grace && !self.health && !self.host && !self.repeat && self.observed.is_none()
    }
}

/// One worker.
pub(super) struct Slot {
    address: Address<PodWorkerMsg>,
    full_name: FullName,
    cell: Option<ActorCell>,
    budget: RestartBudget,
    owed: Owed,
    /// The most time that the node leaves the pod for its end, once it has ordered that.
    grace_max: Option<Duration>,
    /// The resize that it last heard of as waiting; `None` when it heard nothing of resizes.
    resize_told: Option<Option<PendingResize>>,
    stage: Arc<ShownStage>,
}

impl Slot {
    /// A worker that has just begun and knows nothing.
    pub(super) fn new(
        address: Address<PodWorkerMsg>,
        full_name: FullName,
        cell: ActorCell,
        stage: Arc<ShownStage>,
    ) -> Self {
        let budget = RestartBudget::new(BudgetPolicy::pod_worker());
        let (owed, grace_max, resize_told) = (Owed::default(), None, None);
        Self { address, full_name, cell: Some(cell), budget, owed, grace_max, resize_told, stage }
    }

    /// How the worker is reached.
    pub(super) fn address(&self) -> &Address<PodWorkerMsg> {
        &self.address
    }

    /// Whether the worker has failed and waits to be started again.
    pub(super) fn is_down(&self) -> bool {
        self.cell.is_none()
    }

    /// The worker was started again: it gets everything anew.
    pub(super) fn begin_again(&mut self, cell: ActorCell) {
        debug_assert!(self.is_down(), "a pod has one worker");
        let owed = Owed { grace: self.grace_max.is_some(), ..Owed::default() };
        (self.cell, self.owed, self.resize_told) = (Some(cell), owed, None);
    }

    /// Where the worker shows how far the pod is.
    pub(super) fn shown_stage(&self) -> &Arc<ShownStage> {
        &self.stage
    }

    /// Ends the worker, if it runs.
    pub(super) fn stop(&self) {
        if let Some(cell) = &self.cell {
            cell.stop(None);
        }
    }

    /// The pod's name and namespace.
    pub(super) fn full_name(&self) -> &FullName {
        &self.full_name
    }

    /// How far the pod is.
    pub(super) fn stage(&self) -> Stage {
        self.stage.get()
    }

    /// The resize that the worker last heard of as waiting.
    pub(super) fn resize_told(&self) -> Option<&Option<PendingResize>> {
        self.resize_told.as_ref()
    }

    /// The worker heard this of the pod's resize.
    pub(super) fn note_resize_told(&mut self, waiting: Option<PendingResize>) {
        self.resize_told = Some(waiting);
    }

    /// Tells the worker; says whether there was room, and remembers what there was none for. A worker that is down gets
    /// everything when it is started again.
    fn tell(&mut self, message: PodWorkerMsg, context: &Context<PodManagerMsg>) -> bool {
        let refused = Owed::of(&message);
        let has_room = context.try_tell(&self.address, message);
        if !has_room {
            self.owed.add(refused);
        }
        has_room
    }
}

/// When workers that had no room get their news again.
struct Retell {
    is_armed: bool,
    /// The wait of the next timer.
    wait: Duration,
}

/// How many workers may begin in a time.
struct StartPace {
    /// The uptime from which on the newest workers were started, as many as may at once.
    from: Duration,
    /// A timer runs, after which more pods are to start.
    is_armed: bool,
}

/// See the module.
pub(super) struct Workers {
    slots: BTreeMap<PodUid, Slot>,
    /// Pods whose worker ended: when, by order and by uptime. A pod that comes back trusts no look from before.
    retired: BTreeMap<PodUid, (Stamp, Duration)>,
    /// When this incarnation began.
    born: Stamp,
    /// Whether the runtime can be worked with, as workers know it.
    health: RuntimeHealth,
    /// The host's addresses, as workers know them.
    host: HostIps,
    /// The machine, once it is of another size than at the start.
    machine: Option<Arc<MachineNow>>,
    retell: Retell,
    pace: StartPace,
}

impl Workers {
    pub(super) fn new(born: Stamp, uptime: Duration) -> Self {
        Self {
            slots: BTreeMap::new(),
            retired: BTreeMap::new(),
            born,
            health: runtime_health::not_yet_known(),
            host: HostIps::default(),
            machine: None,
            retell: Retell { is_armed: false, wait: RETELL },
            pace: StartPace { from: uptime, is_armed: false },
        }
    }

    /// Whether the pod has a worker.
    pub(super) fn has(&self, uid: &PodUid) -> bool {
        self.slots.contains_key(uid)
    }

    /// The pod's worker.
    pub(super) fn get(&self, uid: &PodUid) -> Option<&Slot> {
        self.slots.get(uid)
    }

    /// The same, to note the news that it got.
    pub(super) fn get_mut(&mut self, uid: &PodUid) -> Option<&mut Slot> {
        self.slots.get_mut(uid)
    }

    /// All workers.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&PodUid, &Slot)> {
        self.slots.iter()
    }

    /// A worker has begun.
    pub(super) fn insert(&mut self, uid: PodUid, slot: Slot) {
        self.slots.insert(uid, slot);
    }

    /// The pod's worker is to go.
    pub(super) fn remove(&mut self, uid: &PodUid) -> Option<Slot> {
        self.slots.remove(uid)
    }

    /// The pod's worker has ended for good at this time.
    pub(super) fn note_retired(&mut self, uid: &PodUid, ended: Stamp, uptime: Duration) {
        self.retired.insert(uid.clone(), (ended, uptime));
    }

    /// A child has ended by itself: the worker it was, and the wait before it may start again. `None` for one that was
    /// retired, or an old incarnation.
    pub(super) fn note_failure(&mut self, who: ActorId, uptime: Duration) -> Option<(&PodUid, &Slot, Duration)> {
        let is_it = |slot: &Slot| slot.cell.as_ref().is_some_and(|cell| cell.get_id() == who);
        let (uid, slot) = self.slots.iter_mut().find(|(_, slot)| is_it(slot))?;
        slot.cell = None;
        let verdict = slot.budget.record_failure(uptime);
        let Verdict::RestartAfter(delay) = verdict else { unreachable!("a worker's budget never escalates") };
        Some((uid, slot, delay))
    }

    /// The names by which the trace knows the workers.
    pub(super) fn trace_names(&self) -> BTreeSet<Arc<str>> {
        self.slots.values().map(|slot| slot.address.record().name.clone()).collect()
    }

    /// Whether the runtime can be worked with.
    pub(super) fn health(&self) -> &RuntimeHealth {
        &self.health
    }

    /// The host's addresses.
    pub(super) fn host(&self) -> &HostIps {
        &self.host
    }

    /// The machine, once it is of another size than at the start.
    pub(super) fn machine(&self) -> Option<&Arc<MachineNow>> {
        self.machine.as_ref()
    }

    /// Forgets ends of workers that no look can be older than.
    pub(super) fn forget_retired(&mut self, uptime: Duration) {
        self.retired.retain(|_, (_, at)| uptime.saturating_sub(*at) < RETIRED_KEPT);
    }

    /// Whether as many workers may begin as may at once: the ones before began long enough ago.
    pub(super) fn may_refill(&mut self, uptime: Duration) -> bool {
        let is_due = uptime >= self.pace.from + STARTS_PERIOD;
        if is_due {
            self.pace.from = uptime;
        }
        is_due
    }

    /// Sets the timer after which more workers may begin, if none is set.
    pub(super) fn start_more_later(&mut self, context: &mut Context<PodManagerMsg>) {
        if !std::mem::replace(&mut self.pace.is_armed, true) {
            let next = (self.pace.from + STARTS_PERIOD).saturating_sub(context.clock().uptime());
            context.after(next, PodManagerMsg::Workers(WorkersMsg::StartMore));
        }
    }

    /// That timer has run out.
    pub(super) fn start_more_now(&mut self) {
        self.pace.is_armed = false;
    }

    /// Observations of the pod from before this do not count for a worker that begins. Workers of a failed predecessor may
    /// have had calls under way when the looks were taken that come in now. For a pod that is wanted again a look may still
    /// be on its way that shows what was removed since; says whether it is one.
    pub(super) fn born(&mut self, uid: &PodUid, relisted: Option<Stamp>) -> (Stamp, bool) {
        let born = relisted.unwrap_or_default().max(self.born);
        match self.retired.remove(uid) {
            Some((ended, _)) => (born.max(ended), true),
            None => (born, false),
        }
    }

    pub(super) fn arm_retell(&mut self, context: &mut Context<PodManagerMsg>) {
        if !std::mem::replace(&mut self.retell.is_armed, true) {
            context.after(self.retell.wait, PodManagerMsg::Workers(WorkersMsg::RetellDue));
            self.retell.wait = (self.retell.wait * 2).min(RETELL_MAX);
        }
    }

    /// Tells one worker; says whether there was room, or there is no worker. If there was none, it gets the news again soon.
    pub(super) fn tell(&mut self, uid: &PodUid, message: PodWorkerMsg, context: &mut Context<PodManagerMsg>) -> bool {
        let has_room = self.slots.get_mut(uid).is_none_or(|slot| slot.tell(message, context));
        if !has_room {
            self.arm_retell(context);
        }
        has_room
    }

    /// Tells all workers.
    pub(super) fn tell_all(&mut self, message: &dyn Fn() -> PodWorkerMsg, context: &mut Context<PodManagerMsg>) {
        let refused = self.slots.values_mut().filter_map(|slot| (!slot.tell(message(), context)).then_some(())).count();
        if refused > 0 {
            self.arm_retell(context);
        }
    }

    /// Takes the runtime's health; says whether it can do other things now.
    pub(super) fn take_health(&mut self, health: RuntimeHealth, context: &mut Context<PodManagerMsg>) -> bool {
        let abilities = |health: &RuntimeHealth| (health.groups_policy, health.host_network_users);
        let is_able = abilities(&self.health) != abilities(&health);
        self.health = health.clone();
        self.tell_all(&|| PodWorkerMsg::HealthChanged(health.clone()), context);
        is_able
    }

    /// Takes the host's addresses. They hear of them only when they changed; a worker that is started, or started again, has
    /// them from its beginning.
    pub(super) fn take_host(
        &mut self,
        ips: HostIps,
        machine: Option<Arc<MachineNow>>,
        context: &mut Context<PodManagerMsg>,
    ) {
        if (&self.host, &self.machine) != (&ips, &machine) {
            (self.host, self.machine) = (ips.clone(), machine.clone());
            let changed = || PodWorkerMsg::HostChanged { ips: ips.clone(), machine: machine.clone() };
            self.tell_all(&changed, context);
        }
    }

    /// Leaves the worker's pod no more than this time for its end, by an order of the node's own that the roster does not know.
    pub(super) fn shorten(&mut self, uid: &PodUid, grace: Duration, context: &mut Context<PodManagerMsg>) {
        let Some(slot) = self.slots.get_mut(uid) else { return };
        slot.grace_max = slot.grace_max.into_iter().chain([grace]).min();
        slot.owed.grace = !slot.tell(PodWorkerMsg::Terminate { grace: slot.grace_max }, context);
        if slot.owed.grace {
            self.arm_retell(context);
        }
    }

    /// Tells workers again what they had no room for, except orders; says whether orders are owed, too. Then
    /// [`Self::tell_graces`] comes after the orders.
    pub(super) fn tell_owed(&mut self, context: &mut Context<PodManagerMsg>) -> bool {
        self.retell.is_armed = false;
        let (mut orders, mut refused) = (false, false);
        for slot in self.slots.values_mut().filter(|slot| !slot.owed.is_nothing()) {
            let owed = std::mem::take(&mut slot.owed);
            (slot.owed.grace, orders) = (owed.grace, orders || owed.orders || owed.grace);
            let messages = [
                owed.health.then(|| PodWorkerMsg::HealthChanged(self.health.clone())),
                owed.host.then(|| PodWorkerMsg::HostChanged { ips: self.host.clone(), machine: self.machine.clone() }),
                owed.repeat.then_some(PodWorkerMsg::Repeat),
                owed.observed.map(PodWorkerMsg::Observed),
            ];
            for message in messages.into_iter().flatten() {
                refused |= !slot.tell(message, context);
            }
        }
        if refused {
            self.arm_retell(context);
        }
        orders
    }

    /// Tells workers again how much less time their pods have for their end, but for those that have yet to get their pod:
    /// an end that came before it would not wait.
    pub(super) fn tell_graces(&mut self, owes_spec: impl Fn(&PodUid) -> bool, context: &mut Context<PodManagerMsg>) {
        for (uid, slot) in self.slots.iter_mut().filter(|(_, slot)| slot.owed.grace) {
            let end = PodWorkerMsg::Terminate { grace: slot.grace_max };
            slot.owed.grace = owes_spec(uid) || !slot.tell(end, context);
        }
        if self.slots.values().any(|slot| slot.owed.grace) {
            self.arm_retell(context);
        }
    }

    /// All that was owed has been sent: the next wait is short again.
    pub(super) fn rest(&mut self) {
        if !self.retell.is_armed {
            self.retell.wait = RETELL;
        }
    }

    /// Passes a question on to the worker; an asker of a worker without room gets no answer.
    pub(super) fn demand(
        slot: &Slot,
        demand: Demand,
        reply: RpcReplyPort<Option<Result<Vec<String>, String>>>,
        context: &Context<PodManagerMsg>,
    ) {
        let _ = context.try_tell(&slot.address, PodWorkerMsg::Demanded { demand, reply });
    }
}
