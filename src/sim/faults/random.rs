//! Chance from a seed. Each component splits its own stream off, so that one more draw in one changes no other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A stream of numbers (SplitMix64). Shared by reference; the order of draws is the order of events, which is fixed.
#[derive(Debug)]
pub struct Random {
    state: AtomicU64,
}

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(mix(seed ^ 0x5851_f42d_4c95_7f2d)) }
    }

    /// The stream of a seed and a name, such as a component's.
    pub fn named(seed: u64, name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self::new(seed ^ hash)
    }

    /// Any number.
    pub fn number(&self) -> u64 {
        mix(self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
    }

    /// In 0..1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn unit(&self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// In 0..`bound`; 0 for a bound of 0.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.number() % bound }
    }

    /// True in this share of cases. A share of zero draws nothing.
    pub fn chance(&self, share: f64) -> bool {
        share > 0.0 && self.unit() < share
    }

    /// Whole milliseconds, `from` at least and `to` at most.
    pub fn between(&self, from: Duration, to: Duration) -> Duration {
        let span = u64::try_from(to.saturating_sub(from).as_millis()).unwrap_or(u64::MAX);
        from + Duration::from_millis(self.below(span.saturating_add(1)))
    }
}

fn mix(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_name() {
        let draw = |seed, name| {
            let random = Random::named(seed, name);
            (0..8).map(|_| random.number()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, "disk"), draw(7, "disk"));
        assert_ne!(draw(7, "disk"), draw(7, "runtime"));
        assert_ne!(draw(7, "disk"), draw(8, "disk"));
    }

    #[test]
    fn shares_and_bounds_hold() {
        let random = Random::new(1);
        let hits = (0..10_000).filter(|_| random.chance(0.25)).count();
        assert!((2_200..2_800).contains(&hits), "{hits}");
        assert!((0..1_000).all(|_| random.below(7) < 7));
        let (from, to) = (Duration::from_millis(3), Duration::from_millis(9));
        assert!((0..1_000).map(|_| random.between(from, to)).all(|wait| wait >= from && wait <= to));
        assert!(!random.chance(0.0));
    }
}
