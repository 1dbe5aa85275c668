//! Whether the runtime's event stream is open, and when it is opened again (CRI-28).
//!
//! Pure; owned by `Pleg`. A stream that ends is opened again soon, and slowly once it failed too often in a row. One that
//! was open for a while is proved good: its end is a first failure again. So is an outage of the whole runtime: with the first
//! relist after it the stream is opened at once.

use std::time::Duration;

/// A stream that was open for longer is proved good.
const PROVED_AFTER: Duration = Duration::from_secs(30);
/// Wait before the event stream is opened again.
const RETRY: Duration = Duration::from_secs(1);
/// Failures in a row before relists alone are relied upon, until the next slow attempt.
const FAILURES_MAX: u32 = 5;
/// Wait before a stream that failed too often, or is not offered, is tried again.
const RETRY_SLOW: Duration = Duration::from_secs(300);

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EventStream {
    state: State,
    failures: u32,
    /// The newest relist failed.
    is_outage: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum State {
    #[default]
    Off,
    Opening,
    /// Since this uptime.
    Open(Duration),
}

/// A stream that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Whether it had been open.
    pub was_open: bool,
    /// The failure's number in its row.
    pub failures: u32,
    /// The wait before the next attempt.
    pub retry_after: Duration,
}

impl EventStream {
    /// Whether events arrive.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// An attempt begins.
    pub fn opening(&mut self) {
        debug_assert_eq!(self.state, State::Off, "a second stream would tell each event twice");
        self.state = State::Opening;
    }

    /// The runtime took it.
    pub fn opened(&mut self, now: Duration) {
        debug_assert_eq!(self.state, State::Opening, "a stream opens after an attempt, and once");
        self.state = State::Open(now);
    }

    /// A relist ended, well or not; whether the stream is to be opened at once, since the runtime is back from an outage.
    /// The runtime may be a newer one, which offers a stream that its predecessor refused.
    pub fn relisted(&mut self, is_good: bool) -> bool {
        let was_outage = std::mem::replace(&mut self.is_outage, !is_good);
        let is_back = was_outage && is_good;
        if is_back {
            self.failures = 0;
        }
        is_back && self.state == State::Off
    }

    /// It ended. A runtime that does not offer one is not asked again soon.
    pub fn lost(&mut self, is_offered: bool, now: Duration) -> Lost {
        let before = std::mem::replace(&mut self.state, State::Off);
        debug_assert_ne!(before, State::Off, "a stream ends that never began");
        if matches!(before, State::Open(since) if now.saturating_sub(since) > PROVED_AFTER) {
            self.failures = 0;
        }
        self.failures += 1;
        let is_slow = !is_offered || self.failures >= FAILURES_MAX;
        Lost {
            was_open: matches!(before, State::Open(_)),
            failures: self.failures,
            retry_after: if is_slow { RETRY_SLOW } else { RETRY },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    /// An attempt that is taken, and a stream that lasts so long; `None` of one that is never taken.
    fn after(stream: &mut EventStream, lasts: Option<u64>, is_offered: bool) -> Lost {
        stream.opening();
        if lasts.is_some() {
            stream.opened(seconds(100));
        }
        assert_eq!(stream.is_open(), lasts.is_some());
        let lost = stream.lost(is_offered, seconds(100 + lasts.unwrap_or(0)));
        assert!(!stream.is_open());
        lost
    }

    /// CRI-28.
    #[test]
    fn a_stream_that_fails_too_often_is_opened_slowly() {
        let mut stream = EventStream::default();
        for (lasts, failures, retry_after) in [
            (None, 1, RETRY),
            (Some(30), 2, RETRY),
            (None, 3, RETRY),
            (Some(0), 4, RETRY),
            (None, 5, RETRY_SLOW),
            (None, 6, RETRY_SLOW),
            (Some(31), 1, RETRY),
            (None, 2, RETRY),
        ] {
            let lost = after(&mut stream, lasts, true);
            assert_eq!(lost, Lost { was_open: lasts.is_some(), failures, retry_after }, "{lasts:?} {failures}");
        }
    }

    /// CRI-29: an outage of the runtime costs no five minutes of relists.
    #[test]
    fn a_runtime_that_is_back_is_asked_at_once() {
        let mut stream = EventStream::default();
        assert!(!stream.relisted(true), "there was no outage");
        for _ in 0..7 {
            after(&mut stream, None, true);
            assert!(!stream.relisted(false));
        }
        assert!(stream.relisted(true));
        assert!(!stream.relisted(true), "once for each outage");
        assert_eq!(after(&mut stream, None, true), Lost { was_open: false, failures: 1, retry_after: RETRY });
        // An attempt under way is the one that is wanted.
        stream.opening();
        assert!(!stream.relisted(false) && !stream.relisted(true));
    }

    #[test]
    fn a_stream_that_is_not_offered_is_not_asked_for_again_soon() {
        let lost = after(&mut EventStream::default(), None, false);
        assert_eq!(lost, Lost { was_open: false, failures: 1, retry_after: RETRY_SLOW });
    }
}
