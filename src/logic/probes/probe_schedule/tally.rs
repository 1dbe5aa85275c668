//! Counts of a container's rounds: equal results in a row, and commands in a row that ran out of time.

use std::time::Duration;

use super::{ProbeTiming, TIMEOUT_WAIT_MAX};

/// Equal results in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// The newest result.
    pub(super) last: Option<bool>,
    /// How often in a row it was seen.
    pub(super) run: u32,
}

impl Tally {
    /// One more result; how often in a row it was seen by now.
    pub(super) fn count(&mut self, result: bool) -> u32 {
        self.run = if self.last == Some(result) { self.run.saturating_add(1) } else { 1 };
        self.last = Some(result);
        self.run
    }

    /// The run is over: the next result begins a new one.
    pub(super) fn end_run(&mut self) {
        self.run = 0;
    }
}

/// Commands in a row that ran out of time, and the wait that follows: what they began may run on in the container, and is
/// not to pile up (SEC-47).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Timeouts {
    in_a_row: u32,
    /// No round before this uptime.
    put_off_until: Duration,
}

impl Timeouts {
    /// A command ended, in time or not.
    pub(super) fn note(&mut self, timed_out: bool) {
        self.in_a_row = if timed_out { self.in_a_row.saturating_add(1) } else { 0 };
    }

    /// Their number, and the wait before the next round, where there were more in a row than a failure takes: the period,
    /// doubled with each further one.
    pub(super) fn wait(&self, timing: &ProbeTiming) -> Option<(u32, Duration)> {
        let beyond = self.in_a_row.checked_sub(timing.failure_threshold).filter(|beyond| *beyond > 0)?;
        let wait = timing.period.saturating_mul(2_u32.saturating_pow(beyond));
        Some((self.in_a_row, wait.min(TIMEOUT_WAIT_MAX.max(timing.period))))
    }

    /// No round is held before then.
    pub(super) fn put_off(&mut self, until: Duration) {
        self.put_off_until = until;
    }

    /// Whether a round may be held at the uptime `now`.
    pub(super) fn lets(&self, now: Duration) -> bool {
        now >= self.put_off_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_of_equal_results() {
        let mut tally = Tally::default();
        for (result, run) in [(true, 1), (true, 2), (false, 1), (false, 2), (false, 3), (true, 1)] {
            assert_eq!(tally.count(result), run, "{result}");
        }
        tally.end_run();
        assert_eq!((tally.count(true), tally.last), (1, Some(true)));
    }

    /// SEC-47.
    #[test]
    fn the_wait_doubles_beyond_the_threshold_up_to_its_bound() {
        let seconds = Duration::from_secs;
        let timing = |period, failure_threshold| ProbeTiming {
            period: seconds(period),
            initial_delay: Duration::ZERO,
            success_threshold: 1,
            failure_threshold,
            timeout: seconds(1),
        };
        let mut timeouts = Timeouts::default();
        for wait in [None, None, None, Some((4, 20)), Some((5, 40)), Some((6, 60)), Some((7, 60))] {
            timeouts.note(true);
            let wait = wait.map(|(times, wait)| (times, seconds(wait)));
            assert_eq!(timeouts.wait(&timing(10, 3)), wait);
        }
        assert_eq!(timeouts.wait(&timing(300, 3)), Some((7, seconds(300))), "never less than the period");
        timeouts.put_off(seconds(9));
        assert!(!timeouts.lets(seconds(8)) && timeouts.lets(seconds(9)));
        timeouts.note(false);
        assert_eq!(timeouts.wait(&timing(10, 3)), None);
    }
}
