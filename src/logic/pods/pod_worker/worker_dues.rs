//! When a pod's worker looks at its pod again although nothing happens.

use std::time::Duration;

/// The longest wait before the worker says a word again that there was no room for.
const RETELL: Duration = Duration::from_secs(1);

/// The wait before a word is said again, at a `place` in 0..1 between a tenth of the longest and the longest. Workers that one
/// full mailbox refused together would else come together again, and be refused again.
pub fn retell_after(place: f64) -> Duration {
    RETELL.mul_f64(0.1 + 0.9 * place)
}

/// The dues that may come next, as waits from now.
#[derive(Clone, Copy, Debug)]
pub struct WorkerDues {
    /// The periodic sync (POD-11).
    pub sync: Duration,
    /// The next try to tell the newest status, or another word, that somebody had no room for.
    pub retell: Option<Duration>,
    /// A wait of the pod's life.
    pub retry: Option<Duration>,
    /// The end of the pod's time.
    pub deadline: Option<Duration>,
    /// The next look for calls that hang, while there is anything to wait for.
    pub hung_calls: Option<Duration>,
}

impl WorkerDues {
    /// The wait until the first of them.
    pub fn next(self) -> Duration {
        // A millisecond later, because a moment that is dated in whole milliseconds may be a little later than it says.
        let due = self.retry.into_iter().chain(self.deadline).min().map(|due| due + Duration::from_millis(1));
        due.into_iter().chain(self.retell).chain(self.hung_calls).fold(self.sync, Duration::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_due_counts() {
        let ms = Duration::from_millis;
        let sync = WorkerDues { sync: ms(60_000), retell: None, retry: None, deadline: None, hung_calls: None };
        for (dues, next) in [
            (sync, 60_000),
            (WorkerDues { retell: Some(ms(1_000)), ..sync }, 1_000),
            (WorkerDues { retell: Some(ms(1_000)), sync: ms(10), ..sync }, 10),
            (WorkerDues { retry: Some(ms(500)), deadline: Some(ms(700)), ..sync }, 501),
            (WorkerDues { retry: Some(ms(500)), deadline: Some(ms(200)), ..sync }, 201),
            (WorkerDues { retry: Some(ms(90_000)), ..sync }, 60_000),
            (WorkerDues { retry: Some(ms(40_000)), hung_calls: Some(ms(31_000)), ..sync }, 31_000),
        ] {
            assert_eq!(dues.next(), ms(next), "{dues:?}");
        }
    }
}
