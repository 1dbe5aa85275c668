//! Metrics of how long pods take to start, as seen from here and as the cluster sees it. Keeps which pods are starting.

use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use prometheus::{Gauge, Histogram, HistogramVec, Registry};

use crate::actors::kit::trace::lock;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::logic::status::pod_startup::{PodStartup, StartupTracker};
use crate::platform::observer::Observation;
use crate::telemetry::registry::register::Registrar;

/// Upper bounds of how long pods take to start, in seconds: half a second to an hour.
const START_BOUNDS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0,
    600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
/// See the module.
pub(super) struct StartMetrics {
    start: Histogram,
    start_total: HistogramVec,
    start_sli: HistogramVec,
    first_network: Gauge,
    startups: Mutex<Startups>,
}

#[derive(Default)]
struct Startups {
    tracker: StartupTracker,
    network_seen: bool,
}

impl StartMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        Self {
            start: registrar.histogram(
                "kubelet_pod_start_duration_seconds",
                "[ALPHA] Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
                &START_BOUNDS,
            ),
            start_total: registrar.histograms(
                "kubelet_pod_start_total_duration_seconds",
                "[ALPHA] Duration in seconds to start a pod since creation, including time to pull images and run init \
                 containers, measured from pod creation timestamp to when all its containers are reported as started \
                 and observed via watch",
                &START_BOUNDS,
                &[],
            ),
            start_sli: registrar.histograms(
                "kubelet_pod_start_sli_duration_seconds",
                "[ALPHA] Duration in seconds to start a pod, excluding time to pull images and run init containers, \
                 measured from pod creation timestamp to when all its containers are reported as started and observed \
                 via watch",
                &START_BOUNDS,
                &[],
            ),
            first_network: registrar.gauge(
                "kubelet_first_network_pod_start_sli_duration_seconds",
                "[INTERNAL] Duration in seconds to start the first network pod, excluding time to pull images and run \
                 init containers, measured from pod creation timestamp to when all its containers are reported as \
                 started and observed via watch",
            ),
            startups: Mutex::default(),
        }
    }

    /// Counts what is about starts; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::PodRuns { after } => self.start.observe(after.as_secs_f64()),
            Observation::PodShown { pod, at } => self.pod_seen(pod, *at),
            Observation::PodGone(uid) => lock(&self.startups).tracker.gone(uid),
            _ => return false,
        }
        true
    }

    /// An image was pulled for the pod; that time is not its start's.
    pub(in crate::telemetry) fn pulled(&self, uid: &PodUid, began: Moment, took: Duration) {
        lock(&self.startups).tracker.pulled(uid, began, began.plus(took));
    }

    fn pod_seen(&self, pod: &Pod, at: Moment) {
        let mut startups = lock(&self.startups);
        let Some(startup) = startups.tracker.pod_seen(pod, at) else { return };
        log(pod, &startup);
        self.start_total.with_label_values::<&str>(&[]).observe(startup.total.as_secs_f64());
        if startup.is_stateful {
            return;
        }
        let own = startup.own().as_secs_f64();
        self.start_sli.with_label_values::<&str>(&[]).observe(own);
        if startup.has_network && !std::mem::replace(&mut startups.network_seen, true) {
            self.first_network.set(own);
        }
    }
}

/// Upstream's line, which scalability tests read.
fn log(pod: &Pod, startup: &PodStartup) {
    let (name, namespace) = (pod.metadata.name.as_deref(), pod.metadata.namespace.as_deref());
    tracing::info!(
        pod = format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default()),
        podStartSLOduration = startup.own().as_secs_f64(),
        podStartE2EDuration = startup.total.as_secs_f64(),
        totalImagesPullingTime = startup.pulls.as_secs_f64(),
        totalInitContainerRuntime = startup.init_containers.as_secs_f64(),
        isStatefulPod = startup.is_stateful,
        "Observed pod startup duration"
    );
}
