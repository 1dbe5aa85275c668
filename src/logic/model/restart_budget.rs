//! How often a child may fail before its supervisor gives up, and how long it waits before each restart.
//!
//! Time here is uptime, which never jumps: a clock that was set must not use up or refill a budget.

use std::collections::VecDeque;
use std::time::Duration;

/// The allowance of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BudgetPolicy {
    /// So many failures within `window` are borne; the next one escalates. `None`: it never escalates, it only waits
    /// longer, which is what a pod's worker gets: a bad pod costs that pod.
    pub failures_max: Option<u32>,
    /// How far back failures count.
    pub window: Duration,
    /// The wait after a first failure.
    pub delay_initial: Duration,
    /// The longest wait.
    pub delay_max: Duration,
}

impl BudgetPolicy {
    /// For an actor of which there is one: back at once, then each time later; after `failures_max` within `window`
    /// its parent gives up.
    pub fn permanent(failures_max: u32, window: Duration) -> Self {
        Self {
            failures_max: Some(failures_max),
            window,
            delay_initial: Duration::from_millis(20),
            delay_max: Duration::from_secs(5),
        }
    }

    /// For a pod's worker: never given up, back later each time.
    pub fn pod_worker() -> Self {
        Self {
            failures_max: None,
            window: Duration::from_secs(600),
            delay_initial: Duration::from_millis(50),
            delay_max: Duration::from_secs(60),
        }
    }
}

/// The supervisor's answer to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Starts the child again after this long.
    RestartAfter(Duration),
    /// Fails itself: restarting the child does not help.
    Escalate,
}

/// One child's failures.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RestartBudget {
    policy: BudgetPolicy,
    /// When it failed, oldest first, within the window.
    failures: VecDeque<Duration>,
}

impl RestartBudget {
    /// How many failures are remembered at most: their number decides no more than the wait then, which 2^31 would
    /// have taken past every maximum long before.
    const REMEMBERED_MAX: usize = 64;

    /// A child that never failed.
    pub fn new(policy: BudgetPolicy) -> Self {
        Self { policy, failures: VecDeque::new() }
    }

    /// The child failed at `now`, which is an uptime and not before the last one told.
    pub fn record_failure(&mut self, now: Duration) -> Verdict {
        self.forget(now);
        self.failures.push_back(now);
        let count = u32::try_from(self.failures.len()).unwrap_or(u32::MAX);
        if self.policy.failures_max.is_some_and(|most| count > most) {
            return Verdict::Escalate;
        }
        let doublings = (count - 1).min(31);
        let delay = self.policy.delay_initial.saturating_mul(1 << doublings);
        Verdict::RestartAfter(delay.min(self.policy.delay_max))
    }

    /// How many failures count at `now`; at most 64 are remembered where none escalates.
    pub fn failures(&self, now: Duration) -> usize {
        self.failures.iter().filter(|failed| self.counts(**failed, now)).count()
    }

    fn counts(&self, failed: Duration, now: Duration) -> bool {
        now.saturating_sub(failed) < self.policy.window
    }

    fn forget(&mut self, now: Duration) {
        let most = self.policy.failures_max.map_or(Self::REMEMBERED_MAX, |most| most as usize + 1);
        while let Some(oldest) = self.failures.front().copied() {
            if self.counts(oldest, now) && self.failures.len() < most {
                break;
            }
            self.failures.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(failures_max: Option<u32>) -> BudgetPolicy {
        BudgetPolicy {
            failures_max,
            window: Duration::from_secs(60),
            delay_initial: Duration::from_millis(100),
            delay_max: Duration::from_secs(5),
        }
    }

    #[test]
    fn failures_close_together_wait_longer_and_then_escalate() {
        let mut budget = RestartBudget::new(policy(Some(3)));
        let verdicts: Vec<Verdict> = (0..4).map(|second| budget.record_failure(Duration::from_secs(second))).collect();
        let after = |milliseconds| Verdict::RestartAfter(Duration::from_millis(milliseconds));
        assert_eq!(verdicts, [after(100), after(200), after(400), Verdict::Escalate]);
    }

    #[test]
    fn old_failures_are_forgotten() {
        let mut budget = RestartBudget::new(policy(Some(1)));
        assert_ne!(budget.record_failure(Duration::from_secs(0)), Verdict::Escalate);
        assert_ne!(budget.record_failure(Duration::from_secs(60)), Verdict::Escalate);
        assert_eq!(budget.record_failure(Duration::from_secs(61)), Verdict::Escalate);
        assert_eq!(budget.failures(Duration::from_secs(61)), 2);
        assert_eq!(budget.failures(Duration::from_secs(500)), 0);
    }

    #[test]
    fn a_budget_of_nothing_escalates_at_once() {
        assert_eq!(RestartBudget::new(policy(Some(0))).record_failure(Duration::ZERO), Verdict::Escalate);
    }

    proptest! {
        #[test]
        fn a_budget_without_a_maximum_only_waits_and_never_too_long(gaps in prop::collection::vec(0_u64..90_000, 1..300)) {
            let mut budget = RestartBudget::new(policy(None));
            let mut now = Duration::ZERO;
            for gap in gaps {
                now += Duration::from_millis(gap);
                let Verdict::RestartAfter(delay) = budget.record_failure(now) else {
                    return Err(TestCaseError::fail("escalated"));
                };
                prop_assert!(delay >= Duration::from_millis(100) && delay <= Duration::from_secs(5));
                prop_assert!(budget.failures.len() <= RestartBudget::REMEMBERED_MAX);
            }
        }

        #[test]
        fn it_escalates_exactly_when_the_window_holds_more_than_the_maximum(
            most in 0_u32..8,
            gaps in prop::collection::vec(0_u64..30_000, 1..60),
        ) {
            let mut budget = RestartBudget::new(policy(Some(most)));
            let mut times: Vec<Duration> = Vec::new();
            let mut now = Duration::ZERO;
            for gap in gaps {
                now += Duration::from_millis(gap);
                times.push(now);
                let within = times.iter().filter(|time| now - **time < Duration::from_secs(60)).count();
                prop_assert_eq!(budget.record_failure(now) == Verdict::Escalate, within > most as usize);
            }
        }
    }
}
