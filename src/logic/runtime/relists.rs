//! When all pods of the runtime are listed, and what is wrong when the last list is too old (CRI-28, NODE-38).
//!
//! Pure; owned by `Pleg`, which has one relist under way at a time. Ages are counted from the beginning of a relist, so that
//! a call that hangs is not waited for. Times are uptimes.

use std::time::Duration;

use crate::logic::model::runtime_health::{FIRST_RELIST_MAX, RELIST_AGE_MAX, relist_problem};
use crate::logic::model::time::Stamp;

/// From the end of one relist to the next, without an event stream (CRI-28).
pub const RELIST_PERIOD: Duration = Duration::from_secs(1);
/// The same with an event stream: the relist only proves the stream right.
pub const RELIST_PERIOD_EVENTED: Duration = Duration::from_secs(60);
/// How often the log repeats the age of the last relist, once it is a fault.
pub const OVERDUE_RETOLD: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Clone, Debug)]
pub struct Relists {
    /// When the observer was made.
    born: Duration,
    /// When the newest relist began, and the one before it.
    began: Duration,
    before: Option<Duration>,
    /// When the newest relist that listed the pods began, and why there was none since.
    last_good: Option<Duration>,
    why_none: Option<String>,
    /// Lists that were asked for earlier count no more.
    counts_from: Stamp,
}

/// A relist that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How long it took.
    pub took: Duration,
    /// From the beginning of the one before to its own; `None` of the first.
    pub interval: Option<Duration>,
}

impl Relists {
    /// None yet, at this uptime.
    pub fn new(now: Duration) -> Self {
        Self {
            born: now,
            began: Duration::ZERO,
            before: None,
            last_good: None,
            why_none: None,
            counts_from: Stamp::default(),
        }
    }

    /// A relist begins.
    pub fn begin(&mut self, now: Duration) {
        self.began = now;
    }

    /// The relist under way ended, well or not.
    pub fn end(&mut self, now: Duration) -> Ended {
        let before = self.before.replace(self.began);
        Ended { took: now.saturating_sub(self.began), interval: before.map(|before| self.began.saturating_sub(before)) }
    }

    /// The relist that ended listed the pods, as they were then; whether that counts.
    pub fn listed(&mut self, taken: Stamp) -> bool {
        (self.last_good, self.why_none) = (Some(self.began), None);
        taken >= self.counts_from
    }

    /// The relist that ended listed nothing, and why; whether that is news.
    pub fn failed(&mut self, why: String) -> bool {
        let is_news = self.why_none.as_ref() != Some(&why);
        self.why_none = Some(why);
        is_news
    }

    /// Only lists that are asked for from now on count: whoever wants to hear all again must not hear of an earlier time.
    pub fn count_from(&mut self, now: Stamp) {
        self.counts_from = now;
    }

    /// The wait, from the beginning of the newest relist, until the last good one is too old; once it is, until the log
    /// repeats that.
    pub fn overdue_in(&self) -> Duration {
        self.overdue_at().checked_sub(self.began).unwrap_or(OVERDUE_RETOLD)
    }

    /// When the last relist is, or was, too long ago.
    fn overdue_at(&self) -> Duration {
        self.last_good.map_or(self.born + FIRST_RELIST_MAX, |last| last + RELIST_AGE_MAX)
    }

    /// The problem by now. `hung` tells of a call that is open, and is asked where no relist has failed since.
    pub fn problem(&self, now: Duration, hung: impl FnOnce() -> Option<String>) -> Option<String> {
        let why = self.why_none.clone().or_else(hung).unwrap_or_else(|| "no answer".to_owned());
        let age = self.last_good.map(|last| now.saturating_sub(last));
        (now >= self.overdue_at()).then(|| relist_problem(age, &why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    /// One that begins and ends at these uptimes.
    fn relisted(relists: &mut Relists, began: u64, ended: u64) -> Ended {
        relists.begin(seconds(began));
        relists.end(seconds(ended))
    }

    /// CRI-28.
    #[test]
    fn an_interval_is_from_beginning_to_beginning() {
        let mut relists = Relists::new(seconds(0));
        assert_eq!(relisted(&mut relists, 1, 4), Ended { took: seconds(3), interval: None });
        assert_eq!(relisted(&mut relists, 5, 7), Ended { took: seconds(2), interval: Some(seconds(4)) });
    }

    /// The log names an outage of the runtime once, and again where its cause is another.
    #[test]
    fn a_failure_is_news_once() {
        let mut relists = Relists::new(seconds(0));
        let mut failed = |second, why: &str| {
            relisted(&mut relists, second, second);
            relists.failed(why.to_owned())
        };
        assert_eq!([failed(1, "away"), failed(2, "away"), failed(3, "starting")], [true, false, true]);
        relisted(&mut relists, 4, 4);
        relists.listed(Stamp(1));
        relisted(&mut relists, 5, 5);
        assert!(relists.failed("starting".to_owned()), "a good list came in between");
    }

    /// NODE-38.
    #[test]
    fn a_list_is_too_old_by_its_beginning() {
        let at = |relists: &Relists, now: u64| relists.problem(seconds(now), || Some("a call hangs".to_owned()));
        let mut relists = Relists::new(seconds(100));
        assert_eq!((at(&relists, 109), relists.overdue_in()), (None, seconds(110)));
        let never = "PLEG is not healthy: pleg has yet to be successful: ".to_owned();
        assert_eq!(at(&relists, 110), Some(never.clone() + "a call hangs"));
        relisted(&mut relists, 110, 111);
        relists.failed("no such socket".to_owned());
        assert_eq!((at(&relists, 112), relists.overdue_in()), (Some(never + "no such socket"), seconds(0)));
        relisted(&mut relists, 112, 150);
        assert!(relists.listed(Stamp(1)));
        assert_eq!((at(&relists, 291), relists.overdue_in()), (None, seconds(180)));
        let old = "PLEG is not healthy: pleg was last seen active 3m0s ago; threshold is 3m0s: a call hangs";
        assert_eq!(at(&relists, 292).as_deref(), Some(old), "180 s after its beginning");
        relists.begin(seconds(300));
        assert_eq!(relists.overdue_in(), OVERDUE_RETOLD, "it was told when it was due");
    }

    #[test]
    fn a_list_from_before_a_repetition_does_not_count() {
        let mut relists = Relists::new(seconds(0));
        relists.count_from(Stamp(5));
        for (taken, counts) in [(4, false), (5, true), (6, true)] {
            relisted(&mut relists, 1, 2);
            assert_eq!(relists.listed(Stamp(taken)), counts, "{taken}");
        }
    }
}
