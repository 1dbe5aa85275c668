//! Metrics of what is tried for pods: sandboxes, containers, hooks.

use prometheus::{HistogramVec, IntCounter, IntCounterVec, Registry};

use crate::logic::status::pod_status::EndedContainer;
use crate::platform::observer::Observation;
use crate::telemetry::registry::register::observe;
use crate::telemetry::registry::register::{DEFAULT_BOUNDS, Registrar};

/// See the module.
pub(super) struct AttemptMetrics {
    sandboxes: Tries,
    own_users: Tries,
    sandbox_runs: HistogramVec,
    sandbox_errors: IntCounterVec,
    containers: IntCounterVec,
    container_errors: IntCounterVec,
    containers_ended: IntCounterVec,
    sleeps_cut: IntCounter,
    fallbacks: IntCounter,
}

/// How often something was begun, and how often that failed.
struct Tries {
    begun: IntCounter,
    failed: IntCounter,
}

impl AttemptMetrics {
    pub(in crate::telemetry) fn new(registry: &Registry) -> Self {
        let registrar = Registrar(registry);
        let tries = |what: &str, begun: &str, failed: &str| Tries {
            begun: registrar.counter(&format!("kubelet_started_{what}_total"), begun),
            failed: registrar.counter(&format!("kubelet_started_{what}_errors_total"), failed),
        };
        Self {
            sandboxes: tries(
                "pods",
                "[ALPHA] Cumulative number of pods started",
                "[ALPHA] Cumulative number of errors when starting pods",
            ),
            own_users: tries(
                "user_namespaced_pods",
                "[ALPHA] Cumulative number of pods with user namespaces started. This metric will only be collected on \
                 Linux.",
                "[ALPHA] Cumulative number of errors when starting pods with user namespaces. This metric will only be \
                 collected on Linux.",
            ),
            sandbox_runs: registrar.histograms(
                "kubelet_run_podsandbox_duration_seconds",
                "[ALPHA] Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.",
                &DEFAULT_BOUNDS,
                &["runtime_handler"],
            ),
            sandbox_errors: registrar.counters(
                "kubelet_run_podsandbox_errors_total",
                "[ALPHA] Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.",
                &["runtime_handler"],
            ),
            containers: registrar.counters(
                "kubelet_started_containers_total",
                "[ALPHA] Cumulative number of containers started",
                &["container_type"],
            ),
            container_errors: registrar.counters(
                "kubelet_started_containers_errors_total",
                "[ALPHA] Cumulative number of errors when starting containers",
                &["container_type", "code"],
            ),
            containers_ended: registrar.counters(
                "kubelet_terminated_containers_total",
                "[ALPHA] Cumulative number of container terminations.",
                &["container_type", "exit_code", "reason"],
            ),
            sleeps_cut: registrar.counter(
                "kubelet_sleep_action_terminated_early_total",
                "[ALPHA] The number of times lifecycle sleep handler got terminated before it finishes",
            ),
            fallbacks: registrar.counter(
                "kubelet_lifecycle_handler_http_fallbacks_total",
                "[ALPHA] The number of times lifecycle handlers successfully fell back to http from https.",
            ),
        }
    }

    /// Counts what is about attempts; whether it was.
    pub(in crate::telemetry) fn observe(&self, what: &Observation<'_>) -> bool {
        match what {
            Observation::SandboxBegun { own_users } => {
                self.sandboxes.begun.inc();
                self.own_users.begun.inc_by((*own_users).into());
            }
            Observation::SandboxFailed { own_users } => {
                self.sandboxes.failed.inc();
                self.own_users.failed.inc_by((*own_users).into());
            }
            Observation::OwnUsersFailed => self.own_users.failed.inc(),
            Observation::SandboxRun { handler, took, failed } => {
                observe(&self.sandbox_runs, handler, *took);
                if *failed {
                    self.sandbox_errors.with_label_values(&[handler]).inc();
                }
            }
            Observation::ContainerTried { container_type, error } => {
                self.containers.with_label_values(&[container_type]).inc();
                if let Some(error) = error {
                    self.container_errors.with_label_values(&[container_type, error]).inc();
                }
            }
            Observation::ContainerEnded(EndedContainer { container_type, exit_code, reason }) => {
                let labels = [container_type, &*exit_code.to_string(), reason];
                self.containers_ended.with_label_values(&labels).inc();
            }
            Observation::SleepCutShort => self.sleeps_cut.inc(),
            Observation::HookFellBack => self.fallbacks.inc(),
            _ => return false,
        }
        true
    }
}
