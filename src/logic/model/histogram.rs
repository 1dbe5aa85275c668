//! Durations counted by length, for figures that actors and adapters keep and a scrape reads.
//!
//! Telemetry's own counts are the `prometheus` crate's histograms, which only telemetry knows.

use std::time::Duration;

/// Counts of durations up to each of `N` bounds, and their sum. The bounds are in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram<const N: usize> {
    bounds: &'static [Duration; N],
    /// Durations of each bucket alone.
    counts: [u64; N],
    /// All durations, those beyond the last bound too.
    count: u64,
    sum: Duration,
}

impl<const N: usize> Histogram<N> {
    /// An empty one.
    pub const fn new(bounds: &'static [Duration; N]) -> Self {
        Self { bounds, counts: [0; N], count: 0, sum: Duration::ZERO }
    }

    /// Counts one more.
    pub fn add(&mut self, duration: Duration) {
        if let Some(bucket) = self.bounds.iter().position(|bound| duration <= *bound) {
            self.counts[bucket] += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    /// Each bound, and how many durations are no longer than that.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let mut total = 0;
        self.bounds.iter().zip(self.counts).map(move |(bound, count)| {
            total += count;
            (*bound, total)
        })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How long all are together.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

/// Bounds of so many milliseconds each.
pub const fn milliseconds<const N: usize>(lengths: [u64; N]) -> [Duration; N] {
    let mut bounds = [Duration::ZERO; N];
    let mut at = 0;
    while at < N {
        bounds[at] = Duration::from_millis(lengths[at]);
        at += 1;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    static BOUNDS: [Duration; 2] = [Duration::from_micros(10), Duration::from_secs(1)];

    #[test]
    fn a_duration_counts_up_to_every_bound_that_it_does_not_exceed() {
        let mut histogram = Histogram::new(&BOUNDS);
        for nanos in [10_000, 10_001, 1_000_000_000, 1_000_000_001] {
            histogram.add(Duration::from_nanos(nanos));
        }
        assert!(histogram.cumulative().eq([(BOUNDS[0], 1), (BOUNDS[1], 3)]));
        assert_eq!((histogram.count(), histogram.sum()), (4, Duration::from_nanos(2_000_020_002)));
    }
}
