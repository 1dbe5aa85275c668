//! A bound on calls by rate and burst: a bucket that fills with time (RES-54; upstream's limiter of its gRPC servers).
//!
//! Owned by the endpoint. A token is kept as billionths, so that no call is lost to rounding.

use std::time::Duration;

/// One token.
const TOKEN: u128 = 1_000_000_000;

/// See the module.
#[derive(Clone, Debug)]
pub struct CallRate {
    per_second: u32,
    burst: u32,
    tokens: u128,
    filled: Duration,
}

impl CallRate {
    /// So many calls a second, and `burst` at once after a pause.
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second, burst, tokens: u128::from(burst) * TOKEN, filled: Duration::ZERO }
    }

    /// Whether a call may be answered at this uptime.
    pub fn take(&mut self, uptime: Duration) -> bool {
        let gained = uptime.saturating_sub(self.filled).as_nanos() * u128::from(self.per_second);
        self.tokens = (self.tokens + gained).min(u128::from(self.burst) * TOKEN);
        self.filled = self.filled.max(uptime);
        let is_covered = self.tokens >= TOKEN;
        if is_covered {
            self.tokens -= TOKEN;
        }
        is_covered
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_is_covered_and_then_the_rate_counts() {
        let mut rate = CallRate::new(100, 10);
        let at = Duration::from_millis;
        assert_eq!((0..20).filter(|_| rate.take(at(5))).count(), 10);
        assert!(!rate.take(at(14)), "a token takes ten milliseconds");
        assert!(rate.take(at(15)));
        assert!(!rate.take(at(15)));
        assert_eq!((0..20).filter(|_| rate.take(at(60_000))).count(), 10, "a pause saves up no more than the burst");
    }

    proptest! {
        /// RES-54: in no span of time more calls are answered than burst and rate cover.
        #[test]
        fn no_span_has_more_calls_than_it_covers(steps in proptest::collection::vec(0_u64..40, 1..200)) {
            let (mut rate, mut now, mut taken) = (CallRate::new(100, 10), Duration::from_secs(1), vec![]);
            for step in steps {
                now += Duration::from_millis(step);
                if rate.take(now) {
                    taken.push(now);
                }
            }
            for (first, from) in taken.iter().enumerate() {
                for (last, to) in taken.iter().enumerate().skip(first) {
                    let covered = 10.0 + (*to - *from).as_secs_f64() * 100.0;
                    prop_assert!((last - first + 1) as f64 <= covered + 1e-6);
                }
            }
        }
    }
}
