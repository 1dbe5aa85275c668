//! `kubelet_pod_resources_endpoint_*` and `kubelet_pod_watch_events_dropped_total`: what the gRPC sockets were asked.

use prometheus::{IntCounter, IntCounterVec, Registry};

use crate::platform::observer::Observation;
use crate::telemetry::registry::register::Registrar;

const LABELS: [&str; 1] = ["server_api_version"];

/// A call of PodResources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodResourcesCall {
    /// All pods.
    List,
    /// One pod.
    Get,
    /// The amount that may be given.
    GetAllocatable,
}

/// See the module.
pub struct RpcMetrics {
    total: IntCounterVec,
    calls: [Counted; 3],
    watch_events_dropped: IntCounter,
}

/// Calls of one kind.
struct Counted {
    asked: IntCounterVec,
    failed: IntCounterVec,
}

impl RpcMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        let counted = |suffix: &str, method: &str| {
            Counted {
            asked: registrar.counters(
                &format!("kubelet_pod_resources_endpoint_requests_{suffix}"),
                &format!(
                    "[ALPHA] Number of requests to the PodResource {method} endpoint. Broken down by server api version."
                ),
                &LABELS,
            ),
            failed: registrar.counters(
                &format!("kubelet_pod_resources_endpoint_errors_{suffix}"),
                &format!(
                    "[ALPHA] Number of requests to the PodResource {method} endpoint which returned error. Broken down \
                     by server api version."
                ),
                &LABELS,
            ),
        }
        };
        Self {
            total: registrar.counters(
                "kubelet_pod_resources_endpoint_requests_total",
                "[ALPHA] Cumulative number of requests to the PodResource endpoint. Broken down by server api version.",
                &LABELS,
            ),
            calls: [
                counted("list", "List"),
                counted("get", "Get"),
                counted("get_allocatable", "GetAllocatableResources"),
            ],
            watch_events_dropped: registrar.counter(
                "kubelet_pod_watch_events_dropped_total",
                "[ALPHA] Cumulative number of pod watch events dropped.",
            ),
        }
    }

    /// Counts a call by its API version. Upstream counts those of `v1alpha1` in the total alone.
    pub fn asked(&self, call: PodResourcesCall, version: &'static str) {
        self.total.with_label_values(&[version]).inc();
        if version == "v1" {
            self.counted(call).asked.with_label_values(&[version]).inc();
        }
    }

    /// Counts a call of `v1` that was answered with an error.
    pub fn failed(&self, call: PodResourcesCall) {
        self.counted(call).failed.with_label_values(&["v1"]).inc();
    }

    /// Counts what is about watches of pods; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        let is_dropped = matches!(what, Observation::WatchEventDropped);
        self.watch_events_dropped.inc_by(is_dropped.into());
        is_dropped
    }

    fn counted(&self, call: PodResourcesCall) -> &Counted {
        let [list, get, get_allocatable] = &self.calls;
        match call {
            PodResourcesCall::List => list,
            PodResourcesCall::Get => get,
            PodResourcesCall::GetAllocatable => get_allocatable,
        }
    }
}
