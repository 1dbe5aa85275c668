//! How pods end for `PodManager`: over, then gone; and pods of the API that are over and that the runtime does not hold.
//!
//! A pod that is over may go from the API, and another may take its name. Its worker stays until nothing is left of it, and
//! so whoever looks for leftovers of unknown pods lets it be.

use std::sync::Arc;

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::model::log_level::LogLevel;
use crate::logic::pods::pod_lifecycle::CleanUpFailure;
use crate::logic::pods::pod_resize::Trigger;
use crate::logic::pods::pod_roster::{full_name, is_static};
use crate::messages::Ended;
use crate::messages::pods::pod_manager::{HousekeepingMsg, PodManagerMsg};
use crate::messages::status::status_manager::{PodNews, StatusManagerMsg};

impl PodManager {
    /// A pod is over, whatever is left of it.
    pub(super) fn take_over(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        let may_be_static = self.roster.told(uid).is_none_or(is_static);
        if !self.roster.over(uid) {
            return; // Said before.
        }
        self.sweep.note_end(uid, context.clock().uptime());
        self.recount(uid);
        self.make_room(uid, context);
        self.tell_stopped(uid, context);
        self.judge_refused(context);
        self.judge_waiting(context);
        self.carry_out_for(uid, context);
        self.tell_active(context);
        if may_be_static {
            self.tell_statics(context); // Its name may be free for the mirror of another.
        }
        self.resize(Trigger::PodTerminated, context);
    }

    pub(super) fn take_finished(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        self.take_over(uid, context); // That word may have been lost.
        self.retire(uid, context);
    }

    /// Has volumes and cgroup of such a pod released; the API server may not let it go before.
    pub(super) fn release_absent(&mut self, uid: PodUid, context: &mut Context<PodManagerMsg>) {
        let pod = self.sources.api_pod(&uid).cloned().filter(|_| !self.workers.has(&uid));
        let Some(pod) = pod else {
            self.releases.forget(&uid);
            return self.note_first_problem(context);
        };
        if !self.releases.begin(&uid) {
            return;
        }
        let (sweeper, of, cause) = (Arc::clone(&self.args.sweeper), uid.clone(), context.cause());
        let work = async move { sweeper.release(&of, &pod, cause).await };
        context.start("release", uid.to_string(), work, |outcome| {
            PodManagerMsg::Housekeeping(HousekeepingMsg::Released(uid, outcome.into()))
        });
    }

    pub(super) fn take_released(
        &mut self,
        uid: PodUid,
        outcome: Ended<(), CleanUpFailure>,
        context: &mut Context<PodManagerMsg>,
    ) {
        match outcome {
            Ended::Done(()) => {
                self.releases.succeed(&uid);
                self.roster.released(&uid);
                self.recount(&uid);
                self.tell_active(context);
                // The runtime may have shown it after all: then its worker sees to its end.
                if !self.workers.has(&uid) {
                    context.tell(&self.args.to.status_manager, StatusManagerMsg::Pods(PodNews::NeverHere(uid)));
                }
            }
            Ended::Failed(failure) => self.note_unreleased(uid, failure, context),
            Ended::Lost(loss) => self.note_unreleased(uid, loss.to_string().into(), context),
        }
        self.note_first_problem(context);
    }

    /// Shows which pod stays in the API, and why.
    fn note_first_problem(&self, context: &Context<PodManagerMsg>) {
        let first = self.releases.first_problem();
        let note = first.map(|(uid, why)| format!("{} stays in the API: {why}", self.name_of(uid)));
        context.address().record().set_note(note);
    }

    /// A release that hangs is asked after, not begun again.
    fn note_unreleased(&mut self, uid: PodUid, failure: CleanUpFailure, context: &mut Context<PodManagerMsg>) {
        let pod = self.name_of(&uid);
        let (wait, why) = (failure.wait(), failure.message);
        match self.releases.fail(&uid, why.clone()) {
            LogLevel::Debug => tracing::debug!(pod, why, "the pod's volumes or its cgroup stay still"),
            _ => tracing::warn!(pod, why, "the pod's volumes or its cgroup cannot be released yet"),
        }
        let wait = wait.mul_f64(1.0 + self.args.adapters.chance.next() / 2.0);
        context.after(wait, PodManagerMsg::Housekeeping(HousekeepingMsg::ReleaseDue(uid)));
    }

    fn name_of(&self, uid: &PodUid) -> String {
        let pod = self.sources.api_pod(uid);
        pod.map_or_else(|| uid.to_string(), |pod| full_name(pod).to_string())
    }
}
