//! Metrics of pods that the node ends for its own sake: preemptions and evictions (EVI-35, EVI-36).

use prometheus::{HistogramVec, IntCounterVec, Registry};

use crate::platform::observer::Observation;
use crate::telemetry::registry::register::{DEFAULT_BOUNDS, Registrar, observe};

/// See the module.
pub(super) struct SacrificeMetrics {
    preempted: IntCounterVec,
    evicted: IntCounterVec,
    eviction_stats_age: HistogramVec,
}

impl SacrificeMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        Self {
            preempted: registrar.counters(
                "kubelet_preemptions",
                "[ALPHA] Cumulative number of pod preemptions by preemption resource",
                &["preemption_signal"],
            ),
            evicted: registrar.counters(
                "kubelet_evictions",
                "[ALPHA] Cumulative number of pod evictions by eviction signal",
                &["eviction_signal"],
            ),
            eviction_stats_age: registrar.histograms(
                "kubelet_eviction_stats_age_seconds",
                "[ALPHA] Time between when stats are collected, and when pod is evicted based on those stats by eviction \
                 signal",
                &DEFAULT_BOUNDS,
                &["eviction_signal"],
            ),
        }
    }

    /// Counts what is about such pods; whether it was.
    pub(super) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::PodPreempted { resource } => self.preempted.with_label_values(&[resource]).inc(),
            Observation::PodEvicted { signal } => self.evicted.with_label_values(&[signal]).inc(),
            Observation::EvictionStatsUsed { signal, age } => observe(&self.eviction_stats_age, signal, *age),
            _ => return false,
        }
        true
    }
}
