//! The roster's orders, as `PodManager` carries them out.

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_roster::Order;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::pods::pod_worker::PodWorkerMsg;

impl PodManager {
    /// Does what is to be done about all pods.
    pub(super) fn carry_out(&mut self, context: &mut Context<PodManagerMsg>) {
        self.refill_starts(context);
        let listed = self.can_judge().then_some(self.held.listed());
        self.roster.set_open(self.admissions.waiting());
        let orders = self.roster.orders(listed);
        self.carry_out_orders(orders, context);
    }

    /// Does what is to be done about one pod, and about those that it may have held up.
    pub(super) fn carry_out_for(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        self.refill_starts(context);
        let listed = self.can_judge().then_some(self.held.listed());
        self.roster.set_open(self.admissions.waiting());
        let orders = self.roster.orders_for(uid, listed);
        self.carry_out_orders(orders, context);
    }

    /// Starts more of the pods that are held up because too many began at once.
    pub(super) fn start_more(&mut self, context: &mut Context<PodManagerMsg>) {
        self.refill_starts(context);
        let listed = self.can_judge().then_some(self.held.listed());
        self.roster.set_open(self.admissions.waiting());
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
                    let pod = self.args.adapters.pod_ends.recall(&uid, pod);
                    if !self.workers.tell(&uid, PodWorkerMsg::SpecChanged(pod), context) {
                        self.roster.spec_refused(&uid);
                    }
                }
                Order::Terminate { uid, grace } => {
                    self.args.adapters.pod_ends.begin(&uid, self.roster.life_of_worker(&uid));
                    // First its pod, whose grace period counts: an end that came before it would not wait.
                    let comes_too_early = self.roster.owes_spec(&uid);
                    if comes_too_early || !self.workers.tell(&uid, PodWorkerMsg::Terminate { grace }, context) {
                        self.roster.end_refused(&uid);
                    }
                }
                Order::Release(uid) => self.release_absent(uid, context),
            }
        }
        self.tell_heard_all(context);
        self.start_more_later(context);
    }
}
