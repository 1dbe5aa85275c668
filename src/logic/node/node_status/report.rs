//! When a status that says nothing new is reported all the same (NODE-29).
//!
//! Pure; owned by `NodeStatus`. Keeps when the last report went out. Times are uptimes, so that a clock that is set
//! moves nothing.

use std::time::Duration;

/// See the module.
#[derive(Clone, Debug)]
pub struct ReportSchedule {
    period: Duration,
    last: Option<Duration>,
    /// The first wait after a change is spread over half a period before and after. So nodes that changed together do not
    /// report together for ever.
    wait: Duration,
}

impl ReportSchedule {
    /// A report every `period` (`nodeStatusReportFrequency`); the first one is due at once.
    pub fn new(period: Duration) -> Self {
        Self { period, last: None, wait: period }
    }

    /// A report every `period` from now on.
    pub fn follow(&mut self, period: Duration) {
        (self.period, self.wait) = (period, self.wait.min(period));
    }

    /// Whether a report is due although nothing changed.
    pub fn is_due(&self, uptime: Duration) -> bool {
        self.last.is_none_or(|last| uptime.saturating_sub(last) >= self.wait)
    }

    /// A report is about to be sent, because something `changed` or because one was due. `chance` is in 0..1.
    pub fn sending(&mut self, changed: bool, chance: f64) {
        let spread = changed || self.last.is_none();
        self.wait = if spread { self.period.mul_f64(0.5 + chance.clamp(0.0, 1.0)) } else { self.period };
    }

    /// A report arrived.
    pub fn arrived(&mut self, uptime: Duration) {
        self.last = Some(uptime);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(300);

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    /// NODE-29.
    #[test]
    fn the_first_report_is_due_at_once_and_the_next_ones_by_period() {
        let mut schedule = ReportSchedule::new(PERIOD);
        assert!(schedule.is_due(Duration::ZERO));
        schedule.sending(false, 0.0);
        assert!(schedule.is_due(seconds(1)), "one that did not arrive is still due");
        schedule.arrived(seconds(1));
        assert!(!schedule.is_due(seconds(150)) && schedule.is_due(seconds(151)), "half a period after the first");
        schedule.sending(false, 0.9);
        schedule.arrived(seconds(151));
        assert!(!schedule.is_due(seconds(450)) && schedule.is_due(seconds(451)), "then whole ones");
        schedule.sending(true, 1.0);
        schedule.arrived(seconds(460));
        assert!(!schedule.is_due(seconds(909)) && schedule.is_due(seconds(910)), "a change spreads again");
    }

    proptest! {
        #[test]
        fn the_wait_is_between_half_a_period_and_one_and_a_half(changed in any::<bool>(), chance in 0.0..1.0_f64) {
            let mut schedule = ReportSchedule::new(PERIOD);
            schedule.sending(changed, chance);
            schedule.arrived(Duration::ZERO);
            prop_assert!(!schedule.is_due(seconds(149)));
            prop_assert!(schedule.is_due(seconds(450)));
        }
    }
}
