//! Which image may be pulled when: back-off, rate, and how many at once (CRI-22).
//!
//! Owned by `ImageManager`. Pulls are numbered by their requests; a queue keeps their order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::backoff::{Backoff, BackoffPolicy, Wait};
use super::time::Moment;

/// How pulls are limited.
#[derive(Clone, Copy, Debug)]
pub struct PullLimits {
    /// At once; `None` for no limit.
    pub parallel_max: Option<usize>,
    /// Pulls a second (`registryPullQPS`); `None` for no limit.
    pub rate: Option<u32>,
    /// Pulls at once after a pause (`registryBurst`).
    pub burst: u32,
}

/// Whether a pull may join the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was queued.
    Queued,
    /// It failed before, and must wait; with the reason and message of that failure.
    BackingOff(Wait, Option<(String, String)>),
    /// Too many pulls of late: upstream's `pull QPS exceeded`.
    RateExceeded,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct PullQueue {
    limits: PullLimits,
    tokens: f64,
    filled_at: Duration,
    back_off: Backoff,
    failures: BTreeMap<String, (String, String)>,
    queue: VecDeque<u64>,
    running: BTreeSet<u64>,
}

impl PullQueue {
    /// An empty queue, with all of the burst to use.
    pub fn new(limits: PullLimits) -> Self {
        Self {
            limits,
            tokens: f64::from(limits.burst),
            filled_at: Duration::ZERO,
            back_off: Backoff::new(BackoffPolicy::IMAGE_PULL),
            failures: BTreeMap::new(),
            queue: VecDeque::new(),
            running: BTreeSet::new(),
        }
    }

    /// Whether a pull of `key` has to wait, and the reason and message of what failed before.
    pub fn back_off(&self, key: &str, now: Moment) -> Option<(Wait, Option<(String, String)>)> {
        self.back_off.wait(key, now).map(|wait| (wait, self.failures.get(key).cloned()))
    }

    /// How many pulls are under way.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Request `number` wants to pull; `key` names pod and image.
    pub fn want(&mut self, number: u64, key: &str, now: Moment, uptime: Duration) -> Verdict {
        if let Some((wait, why)) = self.back_off(key, now) {
            return Verdict::BackingOff(wait, why);
        }
        if !self.take_token(uptime) {
            return Verdict::RateExceeded;
        }
        self.queue.push_back(number);
        Verdict::Queued
    }

    /// The next pull to start, if one may.
    pub fn take_next(&mut self) -> Option<u64> {
        if self.limits.parallel_max.is_some_and(|max| self.running.len() >= max) {
            return None;
        }
        let number = self.queue.pop_front()?;
        self.running.insert(number);
        Some(number)
    }

    /// How many wait before `number`; `None` when it does not wait.
    pub fn ahead_of(&self, number: u64) -> Option<usize> {
        self.queue.iter().position(|queued| *queued == number)
    }

    /// A pull ended well, or nobody wants it any more.
    pub fn done(&mut self, number: u64, key: &str) {
        self.running.remove(&number);
        self.queue.retain(|queued| *queued != number);
        self.failures.remove(key);
    }

    /// A pull failed: begins its back-off.
    pub fn failed(&mut self, number: u64, key: &str, failure: (String, String), now: Moment) {
        self.running.remove(&number);
        self.back_off.fail(key, now);
        self.failures.insert(key.to_owned(), failure);
    }

    /// Ends the back-off of `key`; the next failure begins with the first wait.
    pub fn forgive(&mut self, key: &str) {
        self.back_off.reset(key);
        self.failures.remove(key);
    }

    /// Forgets failures that are too old to matter.
    pub fn collect_garbage(&mut self, now: Moment) {
        self.back_off.collect_garbage(now);
        let back_off = &self.back_off;
        self.failures.retain(|key, _| back_off.wait(key, now).is_some());
    }

    fn take_token(&mut self, uptime: Duration) -> bool {
        let Some(rate) = self.limits.rate else { return true };
        let gained = uptime.saturating_sub(self.filled_at).as_secs_f64() * f64::from(rate);
        self.tokens = (self.tokens + gained).min(f64::from(self.limits.burst.max(1)));
        self.filled_at = uptime;
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(parallel_max: Option<usize>, rate: Option<u32>, burst: u32) -> PullQueue {
        PullQueue::new(PullLimits { parallel_max, rate, burst })
    }

    fn want(queue: &mut PullQueue, number: u64, key: &str, seconds: u64) -> Verdict {
        let uptime = Duration::from_secs(seconds);
        queue.want(number, key, Moment::EPOCH.plus(uptime), uptime)
    }

    #[test]
    fn serial_pulls_run_one_at_a_time_in_order() {
        let mut queue = queue(Some(1), None, 1);
        for number in 1..=3 {
            assert_eq!(want(&mut queue, number, &number.to_string(), 0), Verdict::Queued);
        }
        assert_eq!((queue.take_next(), queue.take_next()), (Some(1), None));
        assert_eq!(queue.ahead_of(3), Some(1));
        queue.done(1, "1");
        assert_eq!((queue.take_next(), queue.take_next()), (Some(2), None));
    }

    /// CRI-22.
    #[test]
    fn the_rate_refuses_what_the_burst_does_not_cover() {
        let mut queue = queue(None, Some(5), 2);
        let verdicts: Vec<_> = (0..3).map(|number| want(&mut queue, number, "k", 0)).collect();
        assert_eq!(verdicts, [Verdict::Queued, Verdict::Queued, Verdict::RateExceeded]);
        assert_eq!(want(&mut queue, 4, "k", 1), Verdict::Queued);
    }

    #[test]
    fn a_failed_pull_waits_and_says_why() {
        let mut queue = queue(Some(1), None, 1);
        want(&mut queue, 1, "k", 0);
        queue.take_next();
        queue.failed(1, "k", ("ErrImagePull".to_owned(), "gone".to_owned()), Moment::EPOCH);
        let Verdict::BackingOff(wait, why) = want(&mut queue, 2, "k", 5) else { panic!("no wait") };
        assert_eq!(wait.period, Duration::from_secs(10));
        assert_eq!(why, Some(("ErrImagePull".to_owned(), "gone".to_owned())));
        assert_eq!(want(&mut queue, 3, "k", 11), Verdict::Queued);
        assert_eq!(want(&mut queue, 4, "other", 5), Verdict::Queued);
        queue.failed(3, "k", ("ErrImagePull".to_owned(), "gone".to_owned()), Moment::EPOCH);
        queue.forgive("k");
        assert_eq!(want(&mut queue, 5, "k", 5), Verdict::Queued);
    }
}
