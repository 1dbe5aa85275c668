//! How many streams there may be at once, and how often a container may be attached to.
//!
//! Attaching is bounded in rate because containerd before 1.7.29 and 2.0.7 never frees what an attach took (CVE-2025-64329).
//! A loop of them would eat the runtime's memory.

use std::collections::BTreeMap;
use std::time::Duration;

/// The most there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Streams of the node.
    pub node_max: usize,
    /// Streams of one container; of a port forward, of one pod.
    pub container_max: usize,
    /// Attaches to one container in a burst.
    pub attach_burst: u32,
    /// After which time there may be one more.
    pub attach_period: Duration,
}

impl Default for StreamLimits {
    /// Far above what people and their tools do.
    fn default() -> Self {
        Self { node_max: 1000, container_max: 200, attach_burst: 60, attach_period: Duration::from_secs(2) }
    }
}

/// Why one more was refused, for whom asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMany {
    /// On the node.
    #[error("too many streams are open on this node ({0})")]
    OnNode(usize),
    /// Of one container or pod.
    #[error("too many streams are open to this container or pod ({0})")]
    OfTarget(usize),
    /// Attaches to one container.
    #[error("this container is attached to too often")]
    Attaches,
}

/// The streams that are open, by what they lead to.
#[derive(Debug, Default)]
pub struct OpenStreams {
    total: usize,
    targets: BTreeMap<String, usize>,
    attaches: BTreeMap<String, Attaches>,
}

/// The rest of one container's burst.
#[derive(Debug)]
struct Attaches {
    used: u32,
    counted: Duration,
}

impl OpenStreams {
    /// Lets one more begin, at the uptime `now`; its end goes to [`OpenStreams::release`].
    ///
    /// # Errors
    /// There are too many.
    pub fn admit(
        &mut self,
        limits: &StreamLimits,
        target: &str,
        is_attach: bool,
        now: Duration,
    ) -> Result<(), TooMany> {
        if self.total >= limits.node_max {
            return Err(TooMany::OnNode(self.total));
        }
        let of_target = self.targets.get(target).copied().unwrap_or(0);
        if of_target >= limits.container_max {
            return Err(TooMany::OfTarget(of_target));
        }
        if is_attach {
            self.count_attach(limits, target, now)?;
        }
        self.total += 1;
        self.targets.insert(target.to_owned(), of_target + 1);
        Ok(())
    }

    /// One ended.
    pub fn release(&mut self, target: &str) {
        self.total = self.total.saturating_sub(1);
        if let Some(count) = self.targets.get_mut(target) {
            *count -= 1;
            if *count == 0 {
                self.targets.remove(target);
            }
        }
    }

    /// How many are open.
    pub fn total(&self) -> usize {
        self.total
    }

    fn count_attach(&mut self, limits: &StreamLimits, target: &str, now: Duration) -> Result<(), TooMany> {
        // Forgets containers whose burst is whole again, so that the map is bounded by the rate.
        self.attaches.retain(|_, attaches| {
            attaches.regain(limits, now);
            attaches.used > 0
        });
        let attaches = self.attaches.entry(target.to_owned()).or_insert(Attaches { used: 0, counted: now });
        if attaches.used >= limits.attach_burst {
            return Err(TooMany::Attaches);
        }
        attaches.used += 1;
        Ok(())
    }
}

impl Attaches {
    fn regain(&mut self, limits: &StreamLimits, now: Duration) {
        let period = limits.attach_period.max(Duration::from_millis(1));
        let periods = now.saturating_sub(self.counted).as_millis() / period.as_millis();
        let regained = u32::try_from(periods).unwrap_or(u32::MAX);
        if regained >= self.used {
            (self.used, self.counted) = (0, now);
        } else {
            self.used -= regained;
            self.counted += period * regained;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StreamLimits =
        StreamLimits { node_max: 5, container_max: 3, attach_burst: 2, attach_period: Duration::from_secs(10) };

    #[test]
    fn the_node_and_each_container_have_their_bound() {
        let mut open = OpenStreams::default();
        let exec = |open: &mut OpenStreams, target: &str| open.admit(&LIMITS, target, false, Duration::ZERO);
        for _ in 0..3 {
            assert_eq!(exec(&mut open, "a"), Ok(()));
        }
        assert_eq!(exec(&mut open, "a"), Err(TooMany::OfTarget(3)));
        assert_eq!((exec(&mut open, "b"), exec(&mut open, "b")), (Ok(()), Ok(())));
        assert_eq!(exec(&mut open, "c"), Err(TooMany::OnNode(5)));
        open.release("a");
        assert_eq!(exec(&mut open, "c"), Ok(()));
        assert_eq!(open.total(), 5);
    }

    /// CVE-2025-64329: a loop of attaches is slowed down, and only for its own container.
    #[test]
    fn attaches_have_a_rate() {
        let mut open = OpenStreams::default();
        let mut attach = |target: &str, seconds: u64| {
            let admitted = open.admit(&LIMITS, target, true, Duration::from_secs(seconds));
            if admitted.is_ok() {
                open.release(target);
            }
            admitted
        };
        assert_eq!((attach("a", 0), attach("a", 1)), (Ok(()), Ok(())));
        assert_eq!(attach("a", 9), Err(TooMany::Attaches));
        assert_eq!(attach("b", 9), Ok(()));
        assert_eq!((attach("a", 10), attach("a", 11)), (Ok(()), Err(TooMany::Attaches)));
        assert_eq!((attach("a", 40), attach("a", 40), attach("a", 40)), (Ok(()), Ok(()), Err(TooMany::Attaches)));
    }

    proptest::proptest! {
        #[test]
        fn what_was_released_leaves_nothing(targets in proptest::collection::vec(0_u8..4, 0..40)) {
            let (mut open, mut admitted) = (OpenStreams::default(), vec![]);
            for target in targets {
                let target = target.to_string();
                if open.admit(&LIMITS, &target, false, Duration::ZERO).is_ok() {
                    admitted.push(target);
                }
                proptest::prop_assert!(open.total() <= LIMITS.node_max);
            }
            for target in &admitted {
                open.release(target);
            }
            proptest::prop_assert_eq!(open.total(), 0);
            proptest::prop_assert!(open.targets.is_empty());
        }
    }
}
