//! Metrics of images: pulls, checks, removals, volumes that are images, programs that give credentials.

use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Registry};

use crate::platform::observer::Observation;
use crate::telemetry::registry::register::{DEFAULT_BOUNDS, Registrar};

/// Upper bounds of how long pulls take, in seconds.
const PULL_BOUNDS: [f64; 18] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0,
    3600.0,
];
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Sizes from which on an image counts as of the next class.
const SIZES: [(u64, &str); 12] = [
    (0, "0-10MB"),
    (10 * MIB, "10MB-100MB"),
    (100 * MIB, "100MB-500MB"),
    (500 * MIB, "500MB-1GB"),
    (GIB, "1GB-5GB"),
    (5 * GIB, "5GB-10GB"),
    (10 * GIB, "10GB-20GB"),
    (20 * GIB, "20GB-30GB"),
    (30 * GIB, "30GB-40GB"),
    (40 * GIB, "40GB-60GB"),
    (60 * GIB, "60GB-100GB"),
    (100 * GIB, "GT100GB"),
];

/// See the module.
pub(in crate::telemetry) struct ImageMetrics {
    pulls: HistogramVec,
    removed: IntCounterVec,
    ensured: IntCounterVec,
    checks: IntCounterVec,
    volumes_asked: IntCounter,
    volumes_there: IntCounter,
    volumes_failed: IntCounter,
    providers: HistogramVec,
    provider_errors: IntCounterVec,
    provider_config: IntGaugeVec,
}

impl ImageMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        Self {
            pulls: registrar.histograms(
                "kubelet_image_pull_duration_seconds",
                "[ALPHA] Duration in seconds to pull an image.",
                &PULL_BOUNDS,
                &["image_size_in_bytes"],
            ),
            removed: registrar.counters(
                "kubelet_image_garbage_collected_total",
                "[ALPHA] Total number of images garbage collected by the kubelet, whether through disk usage or image \
                 age.",
                &["reason"],
            ),
            ensured: registrar.counters(
                "kubelet_image_manager_ensure_image_requests_total",
                "[ALPHA] Number of ensure-image requests processed by the kubelet.",
                &["pull_policy", "present_locally", "pull_required"],
            ),
            checks: registrar.counters(
                "kubelet_imagemanager_image_mustpull_checks_total",
                "[ALPHA] Counter for how many times kubelet checked whether credentials need to be re-verified to access \
                 an image",
                &["result"],
            ),
            volumes_asked: registrar
                .counter("kubelet_image_volume_requested_total", "[BETA] Number of requested image volumes."),
            volumes_there: registrar.counter(
                "kubelet_image_volume_mounted_succeed_total",
                "[BETA] Number of successful image volume mounts.",
            ),
            volumes_failed: registrar
                .counter("kubelet_image_volume_mounted_errors_total", "[BETA] Number of failed image volume mounts."),
            providers: registrar.histograms(
                "kubelet_credential_provider_plugin_duration",
                "[ALPHA] Duration of execution in seconds for credential provider plugin",
                &DEFAULT_BOUNDS,
                &["plugin_name"],
            ),
            provider_errors: registrar.counters(
                "kubelet_credential_provider_plugin_errors_total",
                "[ALPHA] Number of errors from credential provider plugin",
                &["plugin_name"],
            ),
            provider_config: registrar.whole_gauges(
                "kubelet_credential_provider_config_info",
                "[ALPHA] Information about the last applied credential provider configuration with hash as label",
                &["hash"],
            ),
        }
    }

    /// The configuration of programs that give credentials has this hash.
    pub(in crate::telemetry) fn providers_configured(&self, hash: &str) {
        self.provider_config.with_label_values(&[hash]).set(1);
    }

    /// Counts what is about images; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::ImagePulled { bytes, took, .. } => {
                self.pulls.with_label_values(&[size_class(*bytes)]).observe(took.as_secs_f64());
            }
            Observation::ImageRemoved { reason } => self.removed.with_label_values(&[reason]).inc(),
            Observation::ImageEnsured { policy, present, pull_required } => {
                self.ensured.with_label_values(&[policy, known(*present), known(*pull_required)]).inc();
            }
            Observation::ImageChecked { result } => self.checks.with_label_values(&[result]).inc(),
            Observation::ImageVolumes { asked, failed } => {
                self.volumes_asked.inc_by(*asked as u64);
                self.volumes_there.inc_by(asked.saturating_sub(*failed) as u64);
                self.volumes_failed.inc_by(*failed as u64);
            }
            Observation::ProviderAsked { name, took, failed } => {
                self.providers.with_label_values(&[name]).observe(took.as_secs_f64());
                if *failed {
                    self.provider_errors.with_label_values(&[name]).inc();
                }
            }
            _ => return false,
        }
        true
    }
}

/// The class of an image's size, in bytes; zero is a size that nobody knows.
fn size_class(bytes: u64) -> &'static str {
    if bytes == 0 {
        return "N/A";
    }
    SIZES.iter().rev().find(|(from, _)| bytes >= *from).map_or("N/A", |(_, class)| class)
}

fn known(answer: Option<bool>) -> &'static str {
    match answer {
        Some(true) => "true",
        Some(false) => "false",
        None => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_upstreams_size_classes() {
        for (bytes, class) in [
            (0, "N/A"),
            (1, "0-10MB"),
            (10 * MIB - 1, "0-10MB"),
            (10 * MIB, "10MB-100MB"),
            (500 * MIB, "500MB-1GB"),
            (GIB, "1GB-5GB"),
            (59 * GIB, "40GB-60GB"),
            (u64::MAX, "GT100GB"),
        ] {
            assert_eq!(size_class(bytes), class, "{bytes}");
        }
    }
}
