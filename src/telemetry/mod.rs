//! Telemetry: names and exports the log, the metrics and the spans. The only place that imports OpenTelemetry.
//!
//! * [`init`] sets up the log (klog's text, or JSON) and, where configured, the export of spans over OTLP.
//! * [`Metrics`] is what `/metrics` says; [`Metrics::runtime`] counts calls to the runtime, [`Metrics::http`] requests to
//!   the agent's ports, and as an observer ([`crate::platform::observer`]) it counts all else that happens.
//! * [`request_span`] is the span of a request to one of the ports.
//!
//! ```no_run
//! use podwright::cri::grpc::GrpcRuntime;
//! # fn wire(invocation: &podwright::config::Invocation) -> Result<(), Box<dyn std::error::Error>> {
//! let config = &invocation.config;
//! // Inside the tokio runtime; the guard is dropped last, because it sends what is still to be sent.
//! let _telemetry = podwright::telemetry::init(&config.logging, config.tracing.as_ref(), "node-1")?;
//! let metrics = std::sync::Arc::new(podwright::telemetry::Metrics::new(invocation.gates.clone()));
//! let timeout = std::time::Duration::from_secs(120);
//! let runtime = GrpcRuntime::connect(&config.container_runtime_endpoint, config.image_endpoint(), timeout, metrics.runtime())?;
//! # Ok(())
//! # }
//! ```

mod actor_metrics;
mod attempt_metrics;
mod auth_metrics;
mod certificate_metrics;
mod client_metrics;
#[cfg(any(test, feature = "profiling"))]
mod cpu_profile;
mod exposition;
mod families;
mod http_metrics;
mod image_metrics;
mod log_filter;
mod log_layer;
mod log_writer;
mod metrics;
mod node_metrics;
mod observed_cgroups;
mod pod_gauges;
mod pod_metrics;
mod probe_metrics;
mod process;
mod register;
mod relist_metrics;
mod request_spans;
mod resize_metrics;
mod runtime_metrics;
mod setup;
mod sli_metrics;
mod sources;
mod start_metrics;
mod startup_metrics;
mod statistics_metrics;
mod traces;
mod volume_metrics;

#[cfg(test)]
pub(crate) use cpu_profile::SAMPLED_BY_ONE;
#[cfg(feature = "profiling")]
pub use cpu_profile::Sampler;
pub use exposition::Exposition;
pub use http_metrics::{HttpMetrics, InFlight, Port};
pub use log_writer::{LogProgress, log_progress};
pub use metrics::Metrics;
pub use observed_cgroups::ObservedCgroups;
pub use request_spans::{TraceOrigin, request_answered, request_span};
pub use runtime_metrics::RuntimeMetrics;
pub use setup::{Guard, TelemetryError, init, set_verbosity};
pub use sources::Sources;
