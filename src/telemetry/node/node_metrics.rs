//! Metrics of the node itself that are counted as it happens: cgroups, and what its runtime lacks.

use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec, Registry};

use crate::logic::model::time::Moment;
use crate::logic::node::shutdown::times::ShutdownTimes;
use crate::platform::observer::Observation;
use crate::telemetry::registry::register::{DEFAULT_BOUNDS, Registrar};

/// See the module.
pub(in crate::telemetry) struct NodeMetrics {
    cgroups: HistogramVec,
    losing_support: IntGaugeVec,
    /// Without labels; absent until the gate `MemoryQoS` has something kept.
    memory_kept: [IntGaugeVec; 2],
    /// Begin and end of the last shutdown, without labels; absent unless they are kept.
    shutdown: [IntGaugeVec; 2],
    reloads: IntCounterVec,
    /// Without labels; absent before the first reload that was accepted.
    reloaded: IntGaugeVec,
}

impl NodeMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        Self {
            cgroups: registrar.histograms(
                "kubelet_cgroup_manager_duration_seconds",
                "[ALPHA] Duration in seconds for cgroup manager operations. Broken down by method.",
                &DEFAULT_BOUNDS,
                &["operation_type"],
            ),
            losing_support: registrar.whole_gauges(
                "kubelet_cri_losing_support",
                "[ALPHA] the Kubernetes version that the currently running CRI implementation will lose support on if \
                 not upgraded.",
                &["version"],
            ),
            memory_kept: [
                registrar.whole_gauges(
                    "kubelet_memory_qos_node_memory_min_bytes",
                    "[ALPHA] Total cgroup v2 memory.min in bytes for Guaranteed pods. This memory is hard-reserved and \
                     never reclaimed by the kernel.",
                    &[],
                ),
                registrar.whole_gauges(
                    "kubelet_memory_qos_node_memory_low_bytes",
                    "[ALPHA] Total cgroup v2 memory.low in bytes for Burstable pods. This memory is soft-reserved and \
                     may be reclaimed under extreme pressure.",
                    &[],
                ),
            ],
            shutdown: ["start", "end"].map(|what| {
                registrar.whole_gauges(
                    &format!("kubelet_graceful_shutdown_{what}_time_seconds"),
                    &format!("[ALPHA] Last graceful shutdown {what} time since unix epoch in seconds"),
                    &[],
                )
            }),
            reloads: registrar.counters(
                "podwright_config_reloads_total",
                "Times that the configuration was read again while the agent ran, by result (success, failure).",
                &["result"],
            ),
            reloaded: registrar.whole_gauges(
                "podwright_config_last_reload_success_timestamp_seconds",
                "When the configuration was last read again and accepted, in seconds since the Unix epoch.",
                &[],
            ),
        }
    }

    /// The runtime lacks what it will need from this release on.
    pub(in crate::telemetry) fn loses_support(&self, version: &str) {
        self.losing_support.with_label_values(&[version]).set(1);
    }

    /// Counts what is about the node; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::CgroupDone { operation, took } => {
                self.cgroups.with_label_values(&[operation]).observe(took.as_secs_f64());
            }
            Observation::MemoryKept { hard, soft } => {
                for (gauge, bytes) in self.memory_kept.iter().zip([hard, soft]) {
                    gauge.with_label_values::<&str>(&[]).set(*bytes);
                }
            }
            Observation::NodeShutdown(ShutdownTimes { began, ended }) => {
                for (gauge, at) in self.shutdown.iter().zip([began, ended]) {
                    gauge.with_label_values::<&str>(&[]).set(at.map_or(0, seconds));
                }
            }
            Observation::ConfigReloaded { accepted, at } => {
                self.reloads.with_label_values(&[if *accepted { "success" } else { "failure" }]).inc();
                if *accepted {
                    self.reloaded.with_label_values::<&str>(&[]).set(seconds(*at));
                }
            }
            _ => return false,
        }
        true
    }
}

/// Whole seconds since the Unix epoch.
fn seconds(Moment(nanos): Moment) -> i64 {
    nanos.div_euclid(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reloads_are_counted_by_their_result() {
        let registry = Registry::new();
        let metrics = NodeMetrics::new(&registry);
        let reload = |accepted, at| metrics.observe(&Observation::ConfigReloaded { accepted, at: Moment(at) });
        assert!(reload(false, 1_000_000_000) && reload(true, 2_500_000_000) && reload(false, 3_000_000_000));
        let count = |result| metrics.reloads.with_label_values(&[result]).get();
        assert_eq!((count("success"), count("failure")), (1, 2));
        assert_eq!(metrics.reloaded.with_label_values::<&str>(&[]).get(), 2, "the last one that was accepted");
    }

    /// OBS-09.
    #[test]
    fn obs_09_a_shutdown_is_told_in_whole_seconds() {
        let registry = Registry::new();
        let metrics = NodeMetrics::new(&registry);
        assert!(registry.gather().is_empty(), "nothing before somebody keeps them");
        let told = |began: Option<i64>, ended: Option<i64>| {
            let times = ShutdownTimes { began: began.map(Moment), ended: ended.map(Moment) };
            assert!(metrics.observe(&Observation::NodeShutdown(times)));
            let of = |what: &str| {
                let name = format!("kubelet_graceful_shutdown_{what}_time_seconds");
                let families = registry.gather();
                let family = families.iter().find(|family| family.name() == name).expect("it is there");
                family.get_metric()[0].get_gauge().get_value()
            };
            (of("start"), of("end"))
        };
        assert_eq!(told(None, None), (0.0, 0.0));
        assert_eq!(told(Some(7_900_000_000), None), (7.0, 0.0));
        assert_eq!(told(Some(7_900_000_000), Some(9_000_000_000)), (7.0, 9.0));
    }
}
