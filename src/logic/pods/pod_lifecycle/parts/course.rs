//! How far a pod has come, whether anybody wants it, and how long its containers may take to end.

use std::time::Duration;

/// Grace of pods that nobody wants: no more than the runtime needs (POD-10).
pub const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// How long a pod that is to end waits for the runtime to answer about a container that is being started.
const STARTS_MAX: Duration = Duration::from_secs(10);

/// How far a pod has come. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// To be run, or kept running.
    Syncing,
    /// Its containers end.
    Terminating,
    /// Nothing of it runs, and never will again.
    Terminated,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Course {
    stage: Stage,
    removed: bool,
    grace: Option<Duration>,
    /// Until when starts of containers that were under way at the end's beginning may go on, in uptime.
    starts_until: Duration,
}

impl Default for Course {
    fn default() -> Self {
        Self { stage: Stage::Syncing, removed: false, grace: None, starts_until: Duration::ZERO }
    }
}

impl Course {
    /// How far the pod has come.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Takes the pod further.
    pub fn enter(&mut self, stage: Stage) {
        debug_assert!(stage >= self.stage, "a pod's stage never goes back, here from {:?} to {stage:?}", self.stage);
        self.stage = stage;
    }

    /// Lets starts of containers go on for a while, from this uptime on.
    pub fn let_starts_end(&mut self, uptime: Duration) {
        self.starts_until = uptime + STARTS_MAX;
    }

    /// Until when they may, in uptime.
    pub fn starts_until(&self) -> Duration {
        self.starts_until
    }

    /// Nobody wants the pod any more.
    pub fn remove(&mut self) {
        self.removed = true;
    }

    /// Whether nobody wants the pod any more.
    pub fn is_removed(&self) -> bool {
        self.removed
    }

    /// The grace period in force; `None` while the pod is not to end.
    pub fn grace(&self) -> Option<Duration> {
        self.grace
    }

    /// The grace period of the stop that is to begin now.
    pub fn grace_or_least(&self) -> Duration {
        self.grace.unwrap_or(ORPHAN_GRACE)
    }

    /// Takes a grace period, a second at least. One in force may shrink but not grow (POD-08). Says whether it is news.
    pub fn shorten(&mut self, wanted: Duration) -> bool {
        let wanted = wanted.max(Duration::from_secs(1));
        let is_shorter = self.grace.is_none_or(|current| wanted < current);
        if is_shorter {
            self.grace = Some(wanted);
        }
        is_shorter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// POD-08.
    #[test]
    fn a_grace_period_shrinks_and_never_grows() {
        let mut course = Course::default();
        for (wanted, is_news, in_force) in
            [(30, true, 30), (60, false, 30), (30, false, 30), (5, true, 5), (0, true, 1)]
        {
            assert_eq!(course.shorten(Duration::from_secs(wanted)), is_news, "{wanted} s");
            assert_eq!(course.grace(), Some(Duration::from_secs(in_force)), "after {wanted} s");
        }
    }

    #[test]
    #[should_panic(expected = "never goes back")]
    fn a_stage_that_goes_back_is_a_fault() {
        let mut course = Course::default();
        course.enter(Stage::Terminated);
        course.enter(Stage::Terminating);
    }
}
