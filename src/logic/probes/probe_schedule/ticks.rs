//! When rounds of a probe are held: every period from an origin on, which a trigger moves.

use std::time::Duration;

/// See the module. Times are uptimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    period: Duration,
    /// The time from which ticks are counted.
    origin: Duration,
    /// The next round.
    next: Duration,
}

impl Ticks {
    /// With the first round then.
    pub(super) fn new(period: Duration, first: Duration) -> Self {
        debug_assert!(!period.is_zero(), "without a period each moment would be a tick");
        Self { period, origin: first, next: first }
    }

    /// The next round's moment, which may have passed.
    pub(super) fn next(&self) -> Duration {
        self.next
    }

    /// The next round is then, and ticks are counted from there on.
    pub(super) fn restart(&mut self, at: Duration) {
        (self.origin, self.next) = (at, at);
    }

    /// The same, unless the next round is sooner.
    pub(super) fn hasten(&mut self, at: Duration) {
        if at < self.next {
            self.restart(at);
        }
    }

    /// A round is held: the next one is at the first tick after `now`. Those that passed during a long round are dropped,
    /// but for the newest: it leaves the next round in the past, so that it begins at once.
    pub(super) fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.origin).as_nanos() / self.period.as_nanos() + 1;
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        self.next = self.origin.saturating_add(self.period.saturating_mul(passed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn ticks_are_counted_from_the_origin() {
        let mut ticks = Ticks::new(seconds(10), seconds(3));
        for (now, next) in [(3, 13), (4, 13), (13, 23), (39, 43), (43, 53)] {
            ticks.advance(seconds(now));
            assert_eq!(ticks.next(), seconds(next), "at {now}");
        }
        ticks.hasten(seconds(54));
        assert_eq!(ticks.next(), seconds(53), "later is no haste");
        ticks.hasten(seconds(50));
        ticks.advance(seconds(50));
        assert_eq!(ticks.next(), seconds(60), "from there on");
        ticks.restart(seconds(99));
        assert_eq!(ticks.next(), seconds(99));
    }
}
