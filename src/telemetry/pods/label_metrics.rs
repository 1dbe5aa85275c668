//! Metrics of SELinux labels of volumes (VOL-31, VOL-52). Upstream has them as gauges that only grow.

use prometheus::{IntGaugeVec, Registry};

use crate::platform::observer::{LabelNews, Observation};
use crate::telemetry::registry::register::Registrar;

/// Problems that pods wait for, and those that they would wait for if volumes of every access mode were mounted with a
/// label.
struct Problems {
    refused: IntGaugeVec,
    passed: IntGaugeVec,
}

/// See the module.
pub(in crate::telemetry) struct LabelMetrics {
    admitted: IntGaugeVec,
    no_label: Problems,
    several_in_pod: Problems,
    other_pod: Problems,
}

impl LabelMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        let by_mode = ["access_mode"];
        let by_plugin = ["volume_plugin", "access_mode"];
        Self {
            admitted: registrar.whole_gauges(
                "volume_manager_selinux_volumes_admitted_total",
                "[ALPHA] Volumes whose SELinux label was known, and that can be mounted with it",
                &by_plugin,
            ),
            no_label: Problems {
                refused: registrar.whole_gauges(
                    "volume_manager_selinux_container_errors_total",
                    "[ALPHA] Volumes that were not mounted because a container's SELinux options make no label",
                    &by_mode,
                ),
                passed: registrar.whole_gauges(
                    "volume_manager_selinux_container_warnings_total",
                    "[ALPHA] Volumes that were mounted although a container's SELinux options make no label",
                    &by_mode,
                ),
            },
            several_in_pod: Problems {
                refused: registrar.whole_gauges(
                    "volume_manager_selinux_pod_context_mismatch_errors_total",
                    "[ALPHA] Volumes that were not mounted because containers of a pod differ in their SELinux label",
                    &by_mode,
                ),
                passed: registrar.whole_gauges(
                    "volume_manager_selinux_pod_context_mismatch_warnings_total",
                    "[ALPHA] Volumes that were mounted although containers of a pod differ in their SELinux label",
                    &by_mode,
                ),
            },
            other_pod: Problems {
                refused: registrar.whole_gauges(
                    "volume_manager_selinux_volume_context_mismatch_errors_total",
                    "[ALPHA] Volumes that were not mounted because another pod has them with another SELinux label",
                    &by_plugin,
                ),
                passed: registrar.whole_gauges(
                    "volume_manager_selinux_volume_context_mismatch_warnings_total",
                    "[ALPHA] Volumes that were mounted although another pod has them with another SELinux label",
                    &by_plugin,
                ),
            },
        }
    }

    /// Counts what is about labels; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        let Observation::Labelled { news, refused, access_mode, plugin } = what else { return false };
        let of = |problems: &Problems, labels: &[&str]| {
            let family = if *refused { &problems.refused } else { &problems.passed };
            family.with_label_values(labels).inc();
        };
        match news {
            LabelNews::Admitted => self.admitted.with_label_values(&[plugin, access_mode]).inc(),
            LabelNews::NoLabel => of(&self.no_label, &[access_mode]),
            LabelNews::SeveralInPod => of(&self.several_in_pod, &[access_mode]),
            LabelNews::OtherPod => of(&self.other_pod, &[plugin, access_mode]),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VOL-31, VOL-52.
    #[test]
    fn vol_31_waits_and_warnings_are_told_apart() {
        let registry = Registry::new();
        let metrics = LabelMetrics::new(&registry);
        for (news, refused) in [
            (LabelNews::Admitted, false),
            (LabelNews::NoLabel, true),
            (LabelNews::SeveralInPod, false),
            (LabelNews::OtherPod, true),
            (LabelNews::OtherPod, true),
        ] {
            metrics.observe(&Observation::Labelled { news, refused, access_mode: "RWOP", plugin: "kubernetes.io/fc" });
        }
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).expect("families");
        let told: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let name = |rest: &str| format!("volume_manager_selinux_{rest}");
        let expected = [
            name("container_errors_total{access_mode=\"RWOP\"} 1"),
            name("pod_context_mismatch_warnings_total{access_mode=\"RWOP\"} 1"),
            name("volume_context_mismatch_errors_total{access_mode=\"RWOP\",volume_plugin=\"kubernetes.io/fc\"} 2"),
            name("volumes_admitted_total{access_mode=\"RWOP\",volume_plugin=\"kubernetes.io/fc\"} 1"),
        ];
        assert_eq!(told, expected);
    }
}
