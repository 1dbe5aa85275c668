//! How the kernel wakes `EvictionManager` when memory may run short.

use std::sync::Arc;

use super::{EvictionManager, Stage};
use crate::actors::kit::context::Context;
use crate::logic::eviction::alarm::{WatchedGroup, have_moved};
use crate::logic::eviction::pace::PACE_MIN;
use crate::messages::Ended;
use crate::messages::eviction_manager::EvictionManagerMsg;
use crate::platform::statistics::AlarmError;

impl EvictionManager {
    /// Has the kernel told from which levels on it is to wake this actor, where they have moved.
    pub(super) fn watch_memory(&mut self, levels: Vec<WatchedGroup>, context: &mut Context<EvictionManagerMsg>) {
        match &self.alarm {
            Some((_, told)) if !have_moved(told, &levels) => return,
            Some((operation, _)) => context.cancel(*operation),
            None => {}
        }
        self.alarm = (!levels.is_empty()).then(|| {
            let (statistics, watched) = (Arc::clone(&self.args.statistics), levels.clone());
            let work = async move { statistics.memory_runs_short(watched).await };
            let operation = context.start("watch memory", "what is left", work, |outcome| {
                EvictionManagerMsg::MemoryRanShort(outcome.into())
            });
            (operation, levels)
        });
    }

    /// The kernel says that memory may run short. It may say so again and again while nothing is wrong, such as while much
    /// is read from files.
    pub(super) fn take_alarm(&mut self, outcome: Ended<(), AlarmError>, context: &mut Context<EvictionManagerMsg>) {
        if let Err(error) = outcome.into_result() {
            // The looks go on; the alarm is asked for again when its levels have moved, which may be at each look.
            if !std::mem::replace(&mut self.is_deaf, true) {
                tracing::warn!(error, "memory is looked at now and then, not when it runs short");
                // The wait was reckoned with the kernel's word.
                match self.stage {
                    Stage::Waiting => self.look(context),
                    _ => self.rang = true,
                }
            }
            return;
        }
        (self.alarm, self.is_deaf) = (None, false);
        self.rang = !matches!(self.stage, Stage::Waiting);
        if !self.rang {
            let uptime = context.clock().uptime();
            let since = self.last.as_ref().map_or(PACE_MIN, |(_, at)| uptime.saturating_sub(*at));
            match PACE_MIN.checked_sub(since).filter(|left| !left.is_zero()) {
                Some(left) => self.wait(left, context),
                None => self.look(context),
            }
        }
    }
}
