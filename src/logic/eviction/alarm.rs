//! From where on the kernel is to wake the agent, so that memory need not be polled (EVI-34, PAIN-27).

use super::signal::{MemoryUse, Observations, Signal};
use super::threshold::Threshold;

/// A control group whose memory is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedGroup {
    /// Its path below the root of the hierarchy.
    pub path: String,
    /// Its use now, in bytes, page cache included.
    pub usage: u64,
    /// The use from which on its threshold may be met, in bytes.
    pub level: u64,
}

/// The levels of the groups that have a threshold which is not met yet; of several thresholds the one that is met first.
/// Page cache that can be given back raises use and not need, so a wake is a reason to look, not to evict. Upstream's
/// formula is the same: capacity less the threshold, plus inactive files.
pub fn levels(thresholds: &[Threshold], observed: &Observations, uses: &[MemoryUse]) -> Vec<WatchedGroup> {
    let level = |memory: &MemoryUse| {
        let seen = observed.get(&memory.signal)?;
        let of_signal = thresholds.iter().filter(|threshold| threshold.signal == memory.signal);
        let keep = of_signal.filter_map(|threshold| u64::try_from(threshold.quantity(seen).value()).ok());
        let to_lose = keep.filter_map(|keep| seen.available.checked_sub(keep)).min()?;
        let level = memory.usage.saturating_add(to_lose);
        Some(WatchedGroup { path: memory.path.clone(), usage: memory.usage, level })
    };
    uses.iter().filter_map(level).collect()
}

/// Whether use can come to every level. Page cache that fills the memory keeps it from one: use grows no more, and the kernel
/// never tells.
pub fn can_be_reached(groups: &[WatchedGroup], observed: &Observations) -> bool {
    let capacity = observed.get(&Signal::MemoryAvailable).map_or(u64::MAX, |seen| seen.capacity);
    groups.iter().all(|group| group.level < capacity)
}

/// Whether levels have moved so far that the kernel must get the new ones: by a sixteenth of what is left to them.
pub fn have_moved(told: &[WatchedGroup], now: &[WatchedGroup]) -> bool {
    let is_near = |(told, now): (&WatchedGroup, &WatchedGroup)| {
        told.path == now.path && told.level.abs_diff(now.level) <= now.level.saturating_sub(now.usage) / 16
    };
    told.len() != now.len() || !told.iter().zip(now).all(is_near)
}

#[cfg(test)]
mod tests {
    use super::super::signal::Signal;
    use super::super::testing::{observed, threshold};
    use super::*;

    fn of_root(usage: u64) -> MemoryUse {
        MemoryUse { signal: Signal::MemoryAvailable, path: "/".to_owned(), usage }
    }

    fn group(usage: u64, level: u64) -> WatchedGroup {
        WatchedGroup { path: "/".to_owned(), usage, level }
    }

    /// EVI-34.
    #[test]
    fn evi_34_the_level_is_where_the_first_threshold_is_met() {
        let thresholds = [threshold(Signal::MemoryAvailable, 100), threshold(Signal::MemoryAvailable, 300)];
        // 200 of what is used is page cache: 1000 in all, 600 left.
        let found = levels(&thresholds, &observed(&[(Signal::MemoryAvailable, 600)]), &[of_root(600)]);
        assert_eq!(found, [group(600, 900)]);
        let found = levels(&thresholds, &observed(&[(Signal::MemoryAvailable, 200)]), &[of_root(900)]);
        assert_eq!(found, [group(900, 1000)], "the one of 300 is met already");
        assert_eq!(levels(&thresholds, &observed(&[(Signal::MemoryAvailable, 50)]), &[of_root(1000)]), []);
        let other = [threshold(Signal::PidAvailable, 100)];
        assert_eq!(levels(&other, &observed(&[(Signal::MemoryAvailable, 600)]), &[of_root(600)]), []);
        assert_eq!(levels(&thresholds, &observed(&[]), &[of_root(600)]), []);
    }

    /// EVI-34: of a machine whose page cache fills it.
    #[test]
    fn evi_34_a_level_beyond_all_memory_is_never_reached() {
        let observed = observed(&[(Signal::MemoryAvailable, 600)]);
        let capacity = observed[&Signal::MemoryAvailable].capacity;
        assert!(can_be_reached(&[group(600, capacity - 1)], &observed) && can_be_reached(&[], &observed));
        assert!(!can_be_reached(&[group(1, 2), group(600, capacity)], &observed));
    }

    #[test]
    fn the_kernel_is_told_anew_when_a_level_moves_far() {
        let told = [group(600, 900)];
        assert!(!have_moved(&told, &[group(580, 900)]));
        assert!(!have_moved(&told, &[group(600, 915)]));
        assert!(have_moved(&told, &[group(600, 940)]));
        assert!(have_moved(&told, &[]) && have_moved(&[], &told));
    }
}
