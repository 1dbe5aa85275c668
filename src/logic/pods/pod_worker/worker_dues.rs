//! When a pod's worker looks at its pod again although nothing happens.

use std::time::Duration;

/// Wait before the worker sends a status again that there was no room for.
const RETELL: Duration = Duration::from_secs(1);

/// The dues that may come next, as waits from now.
#[derive(Clone, Copy, Debug)]
pub struct WorkerDues {
    /// The periodic sync (POD-11).
    pub sync: Duration,
    /// Someone had no room for the newest status, or for another word.
    pub is_refused: bool,
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
        let sync = if self.is_refused { RETELL.min(self.sync) } else { self.sync };
        // A millisecond later, because a moment that is dated in whole milliseconds may be a little later than it says.
        let due = self.retry.into_iter().chain(self.deadline).min().map(|due| due + Duration::from_millis(1));
        due.into_iter().chain(self.hung_calls).fold(sync, Duration::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_due_counts() {
        let ms = Duration::from_millis;
        let sync = WorkerDues { sync: ms(60_000), is_refused: false, retry: None, deadline: None, hung_calls: None };
        for (dues, next) in [
            (sync, 60_000),
            (WorkerDues { is_refused: true, ..sync }, 1_000),
            (WorkerDues { is_refused: true, sync: ms(10), ..sync }, 10),
            (WorkerDues { retry: Some(ms(500)), deadline: Some(ms(700)), ..sync }, 501),
            (WorkerDues { retry: Some(ms(500)), deadline: Some(ms(200)), ..sync }, 201),
            (WorkerDues { retry: Some(ms(90_000)), ..sync }, 60_000),
            (WorkerDues { retry: Some(ms(40_000)), hung_calls: Some(ms(31_000)), ..sync }, 31_000),
        ] {
            assert_eq!(dues.next(), ms(next), "{dues:?}");
        }
    }
}
