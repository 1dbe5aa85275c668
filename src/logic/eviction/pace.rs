//! When to look again: soon while something that has a threshold runs short quickly, or could before the next look;
//! seldom otherwise.

use std::time::Duration;

use super::signal::{Observations, Resource};
use super::threshold::Threshold;

/// The longest wait: upstream's wait between two looks.
pub const PACE_MAX: Duration = Duration::from_secs(10);
/// The shortest wait: what a look costs must not matter to a node that is short of everything.
pub const PACE_MIN: Duration = Duration::from_millis(250);

/// The shortest wait while nothing changes, however little is left.
const PACE_ABRUPT: Duration = Duration::from_secs(1);

/// How much of a resource a second may go from one moment to the next: bytes of memory and of a fast disk, files, processes.
/// `kernel_tells`: memory needs no looks of its own.
fn abrupt_rate(resource: Resource, kernel_tells: bool) -> Option<u64> {
    match resource {
        Resource::Memory => (!kernel_tells).then_some(1 << 30),
        Resource::EphemeralStorage => Some(1 << 30),
        Resource::Inodes => Some(20_000),
        Resource::Pids => Some(10_000),
    }
}

/// The wait before the next look. At the rate of the last two looks, `elapsed` apart, half of the time until the first
/// threshold is met, within [`PACE_MIN`] and [`PACE_MAX`]. Where little is left, what could go at once is reckoned with,
/// too; of memory only where the kernel does not tell.
pub fn next_look(
    thresholds: &[Threshold],
    [before, now]: [&Observations; 2],
    elapsed: Duration,
    kernel_tells: bool,
) -> Duration {
    let time_left = |threshold: &Threshold| {
        let (before, now) = (before.get(&threshold.signal)?, now.get(&threshold.signal)?);
        let left = now.available.checked_sub(u64::try_from(threshold.quantity(now).value()).ok()?)?;
        let lost = before.available.checked_sub(now.available).filter(|lost| *lost > 0)?;
        let nanos = elapsed.as_nanos().saturating_mul(u128::from(left)) / u128::from(lost);
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    };
    let soonest = thresholds.iter().filter_map(time_left).min();
    let by_trend = soonest.map_or(PACE_MAX, |soonest| (soonest / 2).clamp(PACE_MIN, PACE_MAX));
    let at_worst = |threshold: &Threshold| {
        let (now, rate) = (now.get(&threshold.signal)?, abrupt_rate(threshold.signal.resource(), kernel_tells)?);
        let left = now.available.checked_sub(u64::try_from(threshold.quantity(now).value()).ok()?)?;
        Some(Duration::from_secs(left / rate))
    };
    let worst = thresholds.iter().filter_map(at_worst).min().unwrap_or(PACE_MAX);
    by_trend.min(worst.max(PACE_ABRUPT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::eviction::signal::Signal;
    use crate::logic::eviction::testing::{observed, threshold};

    #[test]
    fn the_next_look_comes_before_the_threshold_is_met() {
        let thresholds = [threshold(Signal::MemoryAvailable, 100), threshold(Signal::AllocatableMemoryAvailable, 10)];
        let next = |before: [(Signal, u64); 2], now: [(Signal, u64); 2], secs| {
            next_look(&thresholds, [&observed(&before), &observed(&now)], Duration::from_secs(secs), true)
        };
        let at = |node, pods| [(Signal::MemoryAvailable, node), (Signal::AllocatableMemoryAvailable, pods)];
        assert_eq!(next(at(500, 50), at(500, 50), 10), PACE_MAX, "nothing changes");
        assert_eq!(next(at(400, 50), at(500, 60), 10), PACE_MAX, "there is more than before");
        assert_eq!(next(at(500, 50), at(300, 50), 10), Duration::from_secs(5), "met in 10 s at this rate");
        assert_eq!(next(at(500, 50), at(300, 11), 10), PACE_MIN, "of the pods' own there is little left");
        assert_eq!(next(at(5000, 50), at(4999, 50), 10), PACE_MAX, "met in days");
        assert_eq!(next_look(&thresholds, [&Observations::new(), &observed(&at(1, 1))], PACE_MAX, true), PACE_MAX);
    }

    /// PAIN-27, EVI-34: memory is looked at like a disk where the kernel has no level to tell.
    #[test]
    fn pain_27_memory_is_looked_at_where_the_kernel_does_not_tell() {
        let thresholds = [threshold(Signal::MemoryAvailable, 100)];
        let now = observed(&[(Signal::MemoryAvailable, 3 << 30)]);
        let next = |kernel_tells| next_look(&thresholds, [&now, &now], PACE_MAX, kernel_tells);
        assert_eq!((next(true), next(false)), (PACE_MAX, Duration::from_secs(2)));
    }

    /// PAIN-27: a disk that could be full before the next look is looked at more often, changed or not.
    #[test]
    fn pain_27_where_little_is_left_looks_are_frequent() {
        let thresholds = [threshold(Signal::NodeFsAvailable, 100), threshold(Signal::PidAvailable, 10)];
        for (bytes, pids, seconds) in [
            (100 << 30, 1 << 22, 10),
            (3 << 30, 1 << 22, 2),
            (200 << 20, 1 << 22, 1),
            (50, 1 << 22, 10),
            (100 << 30, 32_768, 3),
        ] {
            let now = observed(&[(Signal::NodeFsAvailable, bytes), (Signal::PidAvailable, pids)]);
            let expected = Duration::from_secs(seconds);
            assert_eq!(next_look(&thresholds, [&now, &now], PACE_MAX, true), expected, "{bytes} {pids}");
            assert_eq!(
                next_look(&thresholds, [&Observations::new(), &now], Duration::ZERO, true),
                expected,
                "{bytes} {pids}"
            );
        }
    }
}
