//! The supervision of workers, as far as it needs the rest of `PodManager`: which worker begins with what, and what follows
//! from its end.

use std::sync::Arc;

use ractor::ActorId;

use super::PodManager;
use super::workers::Slot;
use crate::actors::kit::actor::{Actor, ChildEnd};
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::pods::pod_worker::{PodWorker, ShownStage, WorkerArgs};
use crate::actors::sources::first_seen;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::time::Stamp;
use crate::logic::pods::pod_roster::is_static;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::pods::pod_manager::{PodManagerMsg, WorkersMsg};
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::prober::ProberMsg;
use crate::messages::status::status_manager::{PodNews, StatusManagerMsg};
use crate::platform::observer::Observation;

/// Messages that may wait for one worker.
const WORKER_CAPACITY: usize = 256;

impl PodManager {
    pub(super) fn receive_workers(&mut self, message: WorkersMsg, context: &mut Context<PodManagerMsg>) {
        match message {
            WorkersMsg::RestartDue(uid) => self.restart(&uid, context),
            WorkersMsg::RetellDue => self.retell(context),
            WorkersMsg::StartMore => {
                self.workers.start_more_now();
                self.start_more(context);
            }
        }
    }

    pub(super) fn worker_ended(&mut self, who: ActorId, end: ChildEnd, context: &mut Context<PodManagerMsg>) {
        let uptime = context.clock().uptime();
        let Some((uid, slot, delay)) = self.workers.note_failure(who, uptime) else { return };
        let why = match end {
            ChildEnd::Failed(why) => why,
            ChildEnd::Stopped => "ended although it was not told to".to_owned(),
        };
        context.child_left(slot.address(), Some(why.clone()));
        self.args.trace.count_restart(PodWorker::KIND);
        tracing::error!(pod = %slot.full_name(), %uid, error = why, restart_in = ?delay, "pod worker failed");
        context.after(delay, PodManagerMsg::Workers(WorkersMsg::RestartDue(uid.clone())));
    }

    pub(super) fn start_worker(&mut self, uid: PodUid, full_name: FullName, context: &mut Context<PodManagerMsg>) {
        debug_assert!(!self.workers.has(&uid), "a pod has one worker");
        let name = format!("{}/{}/{}/{}", PodWorker::KIND, full_name.namespace, full_name.name, uid);
        let address = Address::new(&self.args.trace, &name, PodWorker::KIND, Self::KIND, WORKER_CAPACITY);
        let (born, came_back) = self.workers.born(&uid, self.held.relisted());
        self.args.adapters.pod_ends.begin(&uid, self.roster.life_of_worker(&uid));
        self.count_start(&uid, came_back, context);
        let stage = Arc::<ShownStage>::default();
        let args = self.worker_args(&uid, &full_name, born, &stage);
        let cell = context.spawn_child::<PodWorker>(&address, args);
        self.workers.insert(uid.clone(), Slot::new(address, full_name.clone(), cell, stage));
        self.resizes.tell_later(&uid);
        self.recount(&uid);
        self.ask_host(context);
        self.workers.tell(&uid, PodWorkerMsg::HealthChanged(self.workers.health().clone()), context);
        // Without a look the first relist will tell, or the look at the pod that it led to.
        if let Some(seen) = self.held.look_for_worker(&uid, &full_name) {
            self.workers.tell(&uid, PodWorkerMsg::Observed(seen), context);
        }
    }

    fn count_start(&self, uid: &PodUid, came_back: bool, context: &Context<PodManagerMsg>) {
        let Some(pod) = self.roster.wanted(uid) else { return self.args.observe(Observation::OrphanFound) };
        if came_back {
            self.args.observe(Observation::PodCameBack { is_static: is_static(pod) });
        }
        let containers = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
        let waited = first_seen(pod).map(|seen| context.now().since(seen));
        self.args.observe(Observation::PodTaken { containers, waited });
    }

    fn worker_args(&self, uid: &PodUid, full_name: &FullName, born: Stamp, stage: &Arc<ShownStage>) -> WorkerArgs {
        let (tools, stage) = (Arc::clone(&self.args.worker_tools), Arc::clone(stage));
        WorkerArgs {
            tools,
            uid: uid.clone(),
            full_name: full_name.clone(),
            born,
            stage,
            host: self.workers.host().clone(),
            machine: self.workers.machine().cloned(),
        }
    }

    /// The new incarnation trusts no observation from before its birth: a call of the old one may have been under way.
    fn restart(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        let Some(slot) = self.workers.get(uid) else { return };
        if !slot.is_down() {
            return;
        }
        let (address, stage) = (slot.address().clone(), Arc::clone(slot.shown_stage()));
        let args = self.worker_args(uid, &slot.full_name().clone(), context.clock().stamp(), &stage);
        let cell = context.spawn_child::<PodWorker>(&address, args);
        self.workers.get_mut(uid).expect("found above").begin_again(cell);
        self.resizes.tell_later(uid);
        self.workers.tell(uid, PodWorkerMsg::HealthChanged(self.workers.health().clone()), context);
        self.roster.forget_told(uid);
        self.carry_out_for(uid, context);
        self.tell_graces(context);
        self.tell_resizes(context);
    }

    fn tell_graces(&mut self, context: &mut Context<PodManagerMsg>) {
        let roster = &self.roster;
        self.workers.tell_graces(|uid| roster.owes_spec(uid), context);
    }

    /// Tells workers again what they had no room for. Those that have none yet are owed it still.
    fn retell(&mut self, context: &mut Context<PodManagerMsg>) {
        if self.workers.tell_owed(context) {
            self.carry_out(context); // The roster gives them again, or newer ones.
            self.tell_graces(context);
        }
        self.tell_resizes(context);
        self.tell_heard_all(context);
        self.workers.rest();
    }

    /// Nothing is left of the pod: its worker goes.
    pub(super) fn retire(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        let Some(slot) = self.workers.remove(uid) else { return };
        slot.stop();
        context.child_left(slot.address(), None);
        self.args.trace.forget(&slot.address().record().name);
        self.roster.finished(uid);
        self.args.adapters.pod_ends.forget(uid);
        self.workers.note_retired(uid, context.clock().stamp(), context.clock().uptime());
        self.held.forget(uid);
        let to = &self.args.to;
        context.tell(&to.status_manager, StatusManagerMsg::Pods(PodNews::PodForgotten(uid.clone())));
        context.tell(&to.event_recorder, EventRecorderMsg::PodForgotten(uid.clone()));
        context.tell(&to.prober, ProberMsg::PodGone(uid.clone()));
        self.recount(uid);
        self.carry_out_for(uid, context);
        self.tell_active(context);
    }

    /// As many workers more may begin as may at once, if the ones before began long enough ago.
    pub(super) fn refill_starts(&mut self, context: &Context<PodManagerMsg>) {
        if self.workers.may_refill(context.clock().uptime()) {
            self.roster.refill();
        }
    }

    /// Has the pods start that are held up because too many began at once.
    pub(super) fn start_more_later(&mut self, context: &mut Context<PodManagerMsg>) {
        if self.roster.is_unfinished() {
            self.workers.start_more_later(context);
        }
    }

    /// Has workers told again soon, and others that had no room.
    pub(super) fn arm_retell(&mut self, context: &mut Context<PodManagerMsg>) {
        self.workers.arm_retell(context);
    }
}
