//! Graceful shutdown of the node: which pods end when the machine goes down, in which order, and how long that may take
//! (NODE-42 to NODE-48; upstream's `pkg/kubelet/nodeshutdown`).
//!
//! [`groups`] orders the pods, [`sequence`] ends them group by group, [`times`] is the file that says when.
//!
//! Pure; owned by `ShutdownManager`.

pub mod groups;
pub mod sequence;
pub mod times;

use std::time::Duration;

/// The problem in the condition `Ready` of the Node while the machine goes down.
pub const NODE_PROBLEM: &str = "node is shutting down";

/// The part of a shutdown that belongs to pods of some priority and above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownPeriod {
    /// The least priority.
    pub priority: i32,
    /// How long these pods may take.
    pub period: Duration,
}

/// The configuration of graceful shutdown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownSettings {
    /// The node's name, for its Events.
    pub node_name: String,
    /// The periods, that of the lowest priority first. Without any the agent does nothing about a shutdown.
    pub periods: Vec<ShutdownPeriod>,
    /// Gate `GracefulNodeShutdownBasedOnPodPriority`: a file and metrics say when a shutdown began and ended.
    pub keeps_times: bool,
}

impl ShutdownSettings {
    /// Whether the agent does anything about a shutdown.
    pub fn is_on(&self) -> bool {
        !self.periods.is_empty()
    }

    /// How long all pods together may take.
    pub fn total(&self) -> Duration {
        self.periods.iter().map(|one| one.period).sum()
    }
}

/// The periods of a configuration that names only a total and the part of critical pods in it (upstream's `migrateConfig`).
/// None where there is no total, or where the part is more than the total. Fractions of a second count for nothing.
pub fn two_periods(total: Duration, critical: Duration) -> Vec<ShutdownPeriod> {
    let Some(others) = total.checked_sub(critical).filter(|_| !total.is_zero()) else { return vec![] };
    let whole = |period: Duration| Duration::from_secs(period.as_secs());
    let critical_priority = crate::logic::resources::SYSTEM_CRITICAL_PRIORITY;
    vec![
        ShutdownPeriod { priority: 0, period: whole(others) },
        ShutdownPeriod { priority: critical_priority, period: whole(critical) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NODE-42.
    #[test]
    fn a_total_and_a_part_are_two_periods() {
        let seconds = |total, critical| {
            let periods = two_periods(Duration::from_secs(total), Duration::from_secs(critical));
            periods.iter().map(|one| (one.priority, one.period.as_secs())).collect::<Vec<_>>()
        };
        assert_eq!(seconds(30, 10), [(0, 20), (2_000_000_000, 10)]);
        assert_eq!(seconds(30, 0), [(0, 30), (2_000_000_000, 0)]);
        assert_eq!(seconds(10, 10), [(0, 0), (2_000_000_000, 10)]);
        assert_eq!((seconds(0, 0), seconds(0, 5), seconds(5, 10)), (vec![], vec![], vec![]));
        let settings = ShutdownSettings {
            periods: two_periods(Duration::from_millis(30_900), Duration::from_secs(10)),
            ..ShutdownSettings::default()
        };
        assert_eq!((settings.is_on(), settings.total()), (true, Duration::from_secs(30)));
        assert!(!ShutdownSettings::default().is_on());
    }
}
