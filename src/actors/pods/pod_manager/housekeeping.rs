//! The pass over what a crash left of pods that nobody knows: directories with their volumes, logs, cgroups (POD-33, VOL-15).
//!
//! A pass may take long, and who is known changes meanwhile: a static pod whose manifest comes back has the UID that it
//! had. So this actor is asked about each pod right before what is left of it goes, and none gets a worker while it goes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::model::log_level::LogLevel;
use crate::logic::pods::pod_manager::leftovers::{Figures, Found, Stays, Swept};
use crate::messages::Lost;
use crate::messages::pods::pod_manager::{HousekeepingMsg, PodManagerMsg};
use crate::platform::observer::Observation;

/// Wait between passes over what nobody knows on the disk and among the cgroups (POD-33; upstream passes every 2 s, here
/// pods clean up after themselves and the pass only finds what a crash left).
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(60);

impl PodManager {
    /// Sets the timer of the next pass.
    pub(super) fn arm_housekeeping(context: &mut Context<PodManagerMsg>) {
        context.after(HOUSEKEEPING_PERIOD, PodManagerMsg::Housekeeping(HousekeepingMsg::HousekeepingDue));
    }

    pub(super) fn receive_housekeeping(&mut self, message: HousekeepingMsg, context: &mut Context<PodManagerMsg>) {
        match message {
            HousekeepingMsg::HousekeepingDue => self.keep_house(context),
            HousekeepingMsg::LookAgainDue => self.see_all(context),
            HousekeepingMsg::RecountDue => self.count_all(context),
            HousekeepingMsg::LeftoversFound(outcome) => self.take_leftovers(outcome, context),
            HousekeepingMsg::LeftoversRemoved(uid, outcome) => self.take_swept(&uid, outcome, context),
            HousekeepingMsg::ReleaseDue(uid) => self.release_absent(uid, context),
            HousekeepingMsg::Released(uid, outcome) => self.take_released(uid, outcome, context),
        }
    }

    /// The pods that are wanted, judged or not, have a worker, or are held by the runtime.
    fn known(&self) -> BTreeSet<PodUid> {
        let mut known = self.roster.known();
        known.extend(self.held.listed().keys().cloned());
        known.extend(self.sources.all().map(|(uid, _)| uid.clone()));
        known
    }

    fn keep_house(&mut self, context: &mut Context<PodManagerMsg>) {
        self.workers.forget_retired(context.clock().uptime());
        self.ask_host(context);
        Self::arm_housekeeping(context);
        if !self.clean_leftovers(context) {
            self.look_again(context);
        }
    }

    /// Looks at all pods once more, for what news have missed; in turns of its own: with a thousand of them one would take
    /// long.
    fn look_again(&mut self, context: &mut Context<PodManagerMsg>) {
        if context.until_repair(HOUSEKEEPING_PERIOD) > HOUSEKEEPING_PERIOD {
            return;
        }
        context.after(Duration::ZERO, PodManagerMsg::Housekeeping(HousekeepingMsg::LookAgainDue));
    }

    fn see_all(&mut self, context: &mut Context<PodManagerMsg>) {
        // Nobody says of a static pod that it has ended.
        self.judge_refused(context);
        self.carry_out(context);
        context.after(Duration::ZERO, PodManagerMsg::Housekeeping(HousekeepingMsg::RecountDue));
    }

    fn count_all(&mut self, context: &mut Context<PodManagerMsg>) {
        self.recount_all();
        self.tell_active(context);
        self.tell_statics(context);
        self.tell_undecided(context);
    }

    /// Begins a pass, unless one is under way; says whether it did.
    pub(super) fn clean_leftovers(&mut self, context: &mut Context<PodManagerMsg>) -> bool {
        if !self.roster.all_heard() || !self.can_judge() || !self.sweep.begin() {
            return false;
        }
        let known = Arc::new(self.known());
        self.tell_gone(context);
        self.args.adapters.pod_ends.keep_only(&known);
        self.forget_allocations(&known, context);
        let (sweeper, logs) = (Arc::clone(&self.args.sweeper), self.sweep.logs().clone());
        let work = async move { sweeper.find(&known, &logs).await };
        context.start("housekeeping", "unknown pods", work, |outcome| {
            PodManagerMsg::Housekeeping(HousekeepingMsg::LeftoversFound(outcome))
        });
        true
    }

    fn take_leftovers(&mut self, found: Result<Found, Lost>, context: &mut Context<PodManagerMsg>) {
        let found = found.unwrap_or_else(|loss| {
            tracing::error!(error = %loss, "housekeeping failed");
            Found::default()
        });
        self.sweep.take_found(found, context.now(), context.clock().uptime());
        self.sweep_next(context);
        self.look_again(context);
    }

    fn take_swept(&mut self, uid: &PodUid, outcome: Result<Swept, Lost>, context: &mut Context<PodManagerMsg>) {
        match outcome.map(|swept| self.sweep.note(uid, swept)) {
            Ok(None) => {}
            Ok(Some(Stays { error, level: LogLevel::Debug })) => {
                tracing::debug!(pod = %uid, error, "what is left of an unknown pod stays still");
            }
            Ok(Some(Stays { error, .. })) => tracing::warn!(pod = %uid, error, "what is left of an unknown pod stays"),
            Err(loss) => tracing::error!(pod = %uid, error = %loss, "housekeeping failed"),
        }
        self.roster.hold(None);
        self.carry_out(context);
        self.sweep_next(context);
    }

    /// Has what is left of the next pod removed that nobody knows by now, too.
    fn sweep_next(&mut self, context: &mut Context<PodManagerMsg>) {
        let Some((uid, left)) = self.sweep.next(&self.known()) else {
            let Figures { removed, directories, failed } = self.sweep.figures();
            self.args.observe(Observation::OrphansSwept { found: directories, failed });
            if removed > 0 {
                tracing::info!(count = removed, "leftovers of unknown pods removed");
            }
            return;
        };
        self.roster.hold(Some(uid.clone()));
        let (sweeper, of) = (Arc::clone(&self.args.sweeper), uid.clone());
        let work = async move { sweeper.remove(&of, left).await };
        context.start("housekeeping", uid.to_string(), work, |outcome| {
            PodManagerMsg::Housekeeping(HousekeepingMsg::LeftoversRemoved(uid, outcome))
        });
    }
}
