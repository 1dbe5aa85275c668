//! Telemetry: names and exports the log, the metrics and the spans. The only place that imports OpenTelemetry.
//!
//! * [`init`] sets up the log (klog's text, or JSON) and, where configured, the export of spans over OTLP.
//! * [`Metrics`] is what `/metrics` says; [`Metrics::runtime`] counts calls to the runtime.
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
mod certificate_metrics;
mod families;
mod http_metrics;
mod log_filter;
mod log_layer;
mod log_writer;
mod metrics;
mod probe_metrics;
mod process;
mod relist_metrics;
mod runtime_metrics;
mod setup;
mod startup_metrics;
mod traces;

pub use log_writer::{LogProgress, log_progress};
pub use metrics::Metrics;
pub use runtime_metrics::RuntimeMetrics;
pub use setup::{Guard, TelemetryError, init, set_verbosity};
