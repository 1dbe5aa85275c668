//! The timer of a pod worker: one for everything that may be due.

use std::time::Duration;

use crate::actors::kit::context::{Context, OperationId};
use crate::messages::pods::pod_worker::PodWorkerMsg;

/// See the module.
#[derive(Default)]
pub(super) struct Alarm {
    /// The timer, and the uptime that it is set to: no later than `due`.
    set: Option<(Duration, OperationId)>,
    /// The uptime of what is due next.
    due: Duration,
    /// When the next periodic sync is due, by uptime: a sync alone moves it, whatever else happens meanwhile.
    sync_due: Option<Duration>,
}

impl Alarm {
    /// The timer has run out. Says whether something is due; if not, its cause is gone by now, and the timer is set anew.
    pub(super) fn rings(&mut self, context: &mut Context<PodWorkerMsg>) -> bool {
        self.set = None;
        let is_due = self.due <= context.clock().uptime();
        if !is_due {
            self.set_timer(context);
        }
        is_due
    }

    /// The pod was synced: the next periodic sync is a period away.
    pub(super) fn note_sync(&mut self) {
        self.sync_due = None;
    }

    /// The wait until the next periodic sync, which `period` draws when it is not set yet.
    pub(super) fn until_sync(&mut self, uptime: Duration, period: impl FnOnce() -> Duration) -> Duration {
        self.sync_due.get_or_insert_with(|| uptime + period()).saturating_sub(uptime)
    }

    /// Something is due after this wait.
    pub(super) fn set(&mut self, wait: Duration, context: &mut Context<PodWorkerMsg>) {
        self.due = context.clock().uptime() + wait;
        self.set_timer(context);
    }

    /// A timer that is set already and comes too early stays: to set it anew in each turn would cost more than the turn that
    /// it wakes in vain.
    fn set_timer(&mut self, context: &mut Context<PodWorkerMsg>) {
        match self.set {
            Some((set, _)) if set <= self.due => return,
            Some((_, timer)) => context.cancel(timer),
            None => {}
        }
        let wait = self.due.saturating_sub(context.clock().uptime());
        self.set = Some((self.due, context.after(wait, PodWorkerMsg::RetryDue)));
    }
}
