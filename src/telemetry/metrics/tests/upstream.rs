//! The agent's metrics against a scrape of upstream's kubelet.

use super::{live_through, node};
use crate::testing::upstream_metrics::differences;

/// Metrics that need pods, claims, certificates or plugins; tests beside them hold their names, types and labels.
const ELSEWHERE: &[&str] = &[
    "apiserver_client_certificate_expiration_seconds",
    "kubelet_container_log_filesystem_used_bytes",
    "kubelet_container_requested_resizes_total",
    "kubelet_imagemanager_ondisk_pulledrecords",
    "kubelet_imagemanager_ondisk_pullintents",
    "kubelet_pod_resize_duration_milliseconds",
    "kubelet_volume_stats_available_bytes",
    "kubelet_volume_stats_capacity_bytes",
    "kubelet_volume_stats_inodes",
    "kubelet_volume_stats_inodes_free",
    "kubelet_volume_stats_inodes_used",
    "kubelet_volume_stats_used_bytes",
    "plugin_manager_total_plugins",
    "prober_probe_duration_seconds",
    "prober_probe_total",
    "volume_manager_total_volumes",
];

/// OBS-02, OBS-03: each metric that upstream's kubelet has is here, or on the page of differences.
#[tokio::test]
async fn a_scrape_of_upstream_has_nothing_that_is_missing_here_in_silence() {
    let node = node().await;
    live_through(&node);
    let (metrics, sources) = (&node.metrics, &node.backend.sources);
    for (endpoint, text) in [
        ("/metrics", metrics.all(sources).await.text()),
        ("/metrics/probes", metrics.probes(sources).await.text()),
        ("/metrics/slis", metrics.slis().text()),
    ] {
        assert_eq!(differences(endpoint, &text, ELSEWHERE), [""; 0], "{endpoint}");
    }
}

/// A name that is in the list above and nowhere else would be missing in silence.
#[test]
fn a_metric_that_is_tested_elsewhere_is_made_somewhere() {
    let made = [
        include_str!("../../node/certificate_metrics.rs"),
        include_str!("../../node/plugin_metrics.rs"),
        include_str!("../../node/statistics_metrics.rs"),
        include_str!("../../pods/pod_gauges.rs"),
        include_str!("../../pods/probe_metrics.rs"),
        include_str!("../../pods/resize_metrics.rs"),
    ];
    for name in ELSEWHERE {
        assert!(made.iter().any(|text| text.contains(&format!("\"{name}\""))), "{name}");
    }
}
