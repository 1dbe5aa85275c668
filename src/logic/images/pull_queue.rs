//! Which image may be pulled when: back-off, rate, and how many at once (CRI-22).
//!
//! Owned by `ImageManager`. Pulls are numbered by their requests; a queue keeps their order. A pull is charged to the rate
//! when it begins, as upstream: one that waits for its turn costs the registry nothing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::logic::model::backoff::{Backoff, BackoffPolicy, Wait};
use crate::logic::model::ids::PodUid;
use crate::logic::model::start_reason::StartReason;
use crate::logic::model::time::Steady;

/// How pulls are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    BackingOff(Wait, Option<(StartReason, String)>),
}

/// The next turn in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This pull begins.
    Pull(u64),
    /// This one may not: too many began of late. It waits no more, and has failed with upstream's `pull QPS exceeded`.
    RateExceeded(u64),
}

#[derive(Clone, Debug)]
struct Queued {
    number: u64,
    pod: PodUid,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct PullQueue {
    limits: PullLimits,
    tokens: f64,
    filled_at: Duration,
    back_off: Backoff,
    failures: BTreeMap<String, (StartReason, String)>,
    queue: VecDeque<Queued>,
    /// By number, whose each is.
    running: BTreeMap<u64, PodUid>,
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
            running: BTreeMap::new(),
        }
    }

    /// Other limits from now on. Pulls under way go on, and a larger burst fills up at its rate.
    pub fn follow(&mut self, limits: PullLimits) {
        self.limits = limits;
    }

    /// Whether a pull of `key` has to wait, and the reason and message of what failed before.
    pub fn back_off(&self, key: &str, now: Steady) -> Option<(Wait, Option<(StartReason, String)>)> {
        self.back_off.wait(key, now).map(|wait| (wait, self.failures.get(key).cloned()))
    }

    /// How many pulls are under way.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Request `number` of this pod wants to pull; `key` names pod and image.
    pub fn want(&mut self, number: u64, pod: &PodUid, key: &str, now: Steady) -> Verdict {
        if let Some((wait, why)) = self.back_off(key, now) {
            return Verdict::BackingOff(wait, why);
        }
        self.queue.push_back(Queued { number, pod: pod.clone() });
        Verdict::Queued
    }

    /// The next image, if there is one: the first in the queue begins, once there is a place and the rate allows it.
    ///
    /// A pull beyond the rate is refused, but for a pod that has another pull under way: upstream asks for a pod's
    /// images one after the other and would not have come to this one yet.
    pub fn take_next(&mut self, uptime: Duration) -> Option<Turn> {
        if self.queue.is_empty() || self.limits.parallel_max.is_some_and(|max| self.running.len() >= max) {
            return None;
        }
        if self.take_token(uptime) {
            let Queued { number, pod } = self.queue.pop_front()?;
            self.running.insert(number, pod);
            return Some(Turn::Pull(number));
        }
        let place = self.queue.iter().position(|queued| self.running.values().all(|pod| *pod != queued.pod))?;
        self.queue.remove(place).map(|queued| Turn::RateExceeded(queued.number))
    }

    /// The pull whose turn it was is not made after all: what it took of the rate is given back.
    pub fn withdraw(&mut self, number: u64) {
        if self.running.remove(&number).is_some() {
            self.tokens += 1.0; // Never above the burst, which is seen to when the next is taken.
        }
    }

    /// How many wait before `number`; `None` when it does not wait.
    pub fn ahead_of(&self, number: u64) -> Option<usize> {
        self.queue.iter().position(|queued| queued.number == number)
    }

    /// A pull ended well, or nobody wants it any more.
    pub fn done(&mut self, number: u64, key: &str) {
        self.running.remove(&number);
        self.queue.retain(|queued| queued.number != number);
        self.failures.remove(key);
    }

    /// A pull failed: begins its back-off.
    pub fn failed(&mut self, number: u64, key: &str, failure: (StartReason, String), now: Steady) {
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
    pub fn collect_garbage(&mut self, now: Steady) {
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
    use proptest::prelude::*;

    use super::*;

    fn queue(parallel_max: Option<usize>, rate: Option<u32>, burst: u32) -> PullQueue {
        PullQueue::new(PullLimits { parallel_max, rate, burst })
    }

    fn uid(pod: u64) -> PodUid {
        PodUid::from(format!("pod-{pod}"))
    }

    fn want(queue: &mut PullQueue, number: u64, key: &str, seconds: u64) -> Verdict {
        queue.want(number, &uid(number), key, Steady(0).plus(Duration::from_secs(seconds)))
    }

    /// All turns there are at this time.
    fn turns(queue: &mut PullQueue, seconds: f64) -> Vec<Turn> {
        std::iter::from_fn(|| queue.take_next(Duration::from_secs_f64(seconds))).collect()
    }

    fn pulls(numbers: impl IntoIterator<Item = u64>) -> Vec<Turn> {
        numbers.into_iter().map(Turn::Pull).collect()
    }

    fn refusals(numbers: impl IntoIterator<Item = u64>) -> Vec<Turn> {
        numbers.into_iter().map(Turn::RateExceeded).collect()
    }

    #[test]
    fn serial_pulls_run_one_at_a_time_in_order() {
        let mut queue = queue(Some(1), None, 1);
        for number in 1..=3 {
            assert_eq!(want(&mut queue, number, &number.to_string(), 0), Verdict::Queued);
        }
        assert_eq!(turns(&mut queue, 0.0), pulls([1]));
        assert_eq!(queue.ahead_of(3), Some(1));
        queue.done(1, "1");
        assert_eq!(turns(&mut queue, 0.0), pulls([2]));
    }

    /// CRI-22.
    #[test]
    fn the_rate_refuses_what_the_burst_does_not_cover() {
        let mut queue = queue(None, Some(5), 10);
        for number in 1..=15 {
            assert_eq!(want(&mut queue, number, &number.to_string(), 0), Verdict::Queued);
        }
        assert_eq!(turns(&mut queue, 0.0), [pulls(1..=10), refusals(11..=15)].concat());
        want(&mut queue, 16, "16", 1);
        want(&mut queue, 17, "17", 1);
        assert_eq!(turns(&mut queue, 0.2), [pulls([16]), refusals([17])].concat(), "one more in a fifth of a second");
    }

    /// CRI-22: a pull is charged to the rate when it begins, not while it waits for the one before it.
    #[test]
    fn pulls_that_wait_for_each_other_are_within_the_rate() {
        let mut queue = queue(Some(1), Some(5), 10);
        for number in 1..=15 {
            want(&mut queue, number, &number.to_string(), 0);
        }
        for number in 1..=15 {
            assert_eq!(turns(&mut queue, number as f64), pulls([number]));
            queue.done(number, &number.to_string());
        }
        // And those that are over in no time are not.
        for number in 21..=35 {
            want(&mut queue, number, &number.to_string(), 100);
        }
        for number in 21..=30 {
            assert_eq!(turns(&mut queue, 100.0), pulls([number]));
            queue.done(number, &number.to_string());
        }
        assert_eq!(turns(&mut queue, 100.0), refusals(31..=35));
    }

    /// CRI-22: that a pod's images are asked for side by side is no reason to refuse some of them.
    #[test]
    fn images_of_one_pod_wait_for_the_rate_behind_its_own_pulls() {
        let mut queue = queue(None, Some(5), 10);
        for number in 1..=15 {
            queue.want(number, &uid(0), &number.to_string(), Steady(0));
        }
        want(&mut queue, 16, "16", 0);
        assert_eq!(turns(&mut queue, 0.0), [pulls(1..=10), refusals([16])].concat());
        queue.done(1, "1");
        assert_eq!(turns(&mut queue, 0.5), pulls([11, 12]));
        for number in 2..=12 {
            queue.done(number, &number.to_string());
        }
        assert_eq!(turns(&mut queue, 0.5), refusals([13, 14, 15]), "none of its pulls is under way");
    }

    #[test]
    fn a_turn_that_nobody_wants_any_more_costs_nothing_of_the_rate() {
        let mut queue = queue(None, Some(5), 1);
        for number in 1..=3 {
            want(&mut queue, number, "k", 0);
        }
        assert_eq!(queue.take_next(Duration::ZERO), Some(Turn::Pull(1)));
        queue.withdraw(1);
        queue.withdraw(1);
        assert_eq!(turns(&mut queue, 0.0), [pulls([2]), refusals([3])].concat());
    }

    #[test]
    fn a_failed_pull_waits_and_says_why() {
        let mut queue = queue(Some(1), None, 1);
        want(&mut queue, 1, "k", 0);
        turns(&mut queue, 0.0);
        queue.failed(1, "k", (StartReason::ErrImagePull, "gone".to_owned()), Steady(0));
        let Verdict::BackingOff(wait, why) = want(&mut queue, 2, "k", 5) else { panic!("no wait") };
        assert_eq!(wait.period, Duration::from_secs(10));
        assert_eq!(why, Some((StartReason::ErrImagePull, "gone".to_owned())));
        assert_eq!(want(&mut queue, 3, "k", 11), Verdict::Queued);
        assert_eq!(want(&mut queue, 4, "other", 5), Verdict::Queued);
        queue.failed(3, "k", (StartReason::ErrImagePull, "gone".to_owned()), Steady(0));
        queue.forgive("k");
        assert_eq!(want(&mut queue, 5, "k", 5), Verdict::Queued);
    }

    proptest! {
        /// CRI-22, for any order of requests and ends: no more pulls begin in any time than burst and rate allow, no more
        /// are under way than may be, and everybody has one turn.
        #[test]
        fn the_rate_and_the_places_are_kept_and_everybody_has_a_turn(
            parallel_max in prop::option::of(1_usize..4),
            (rate, burst) in (1_u32..6, 1_u32..6),
            steps in prop::collection::vec((0_u8..3, 0_u64..4, 0_u64..400), 1..120),
        ) {
            let mut queue = queue(parallel_max, Some(rate), burst);
            let (mut asked, mut had, mut begun) = (0, 0, vec![]);
            let mut under_way = VecDeque::new();
            let mut uptime = Duration::ZERO;
            let mut step = |queue: &mut PullQueue, under_way: &mut VecDeque<u64>, uptime: Duration| {
                while let Some(turn) = queue.take_next(uptime) {
                    had += 1;
                    if let Turn::Pull(number) = turn {
                        under_way.push_back(number);
                        begun.push(uptime);
                    }
                }
                prop_assert!(under_way.len() <= parallel_max.unwrap_or(usize::MAX));
                for (place, from) in begun.iter().enumerate() {
                    let within = (uptime - *from).as_secs_f64() * f64::from(rate) + f64::from(burst);
                    prop_assert!((begun.len() - place) as f64 <= within + 1e-6);
                }
                Ok(())
            };
            for (kind, pod, millis) in steps {
                uptime += Duration::from_millis(millis);
                match (kind, under_way.pop_front()) {
                    (0, Some(number)) => queue.done(number, ""),
                    (_, other) => {
                        other.into_iter().for_each(|number| under_way.push_front(number));
                        asked += 1;
                        queue.want(asked, &uid(pod), &asked.to_string(), Steady(0));
                    }
                }
                step(&mut queue, &mut under_way, uptime)?;
            }
            while let Some(number) = under_way.pop_front() {
                queue.done(number, "");
                step(&mut queue, &mut under_way, uptime)?;
            }
            prop_assert_eq!(had, asked);
        }
    }
}
