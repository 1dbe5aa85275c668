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

mod logs;
mod metrics;
mod node;
mod pods;
mod registry;
mod runtime;
mod serving;
mod setup;
mod sources;
mod spans;

pub use logs::log_writer::{LogProgress, log_progress};
pub use metrics::Metrics;
#[cfg(all(test, feature = "profiling"))]
pub(crate) use node::cpu_profile::SAMPLED_BY_ONE;
#[cfg(feature = "profiling")]
pub use node::cpu_profile::Sampler;
pub use registry::exposition::Exposition;
pub use runtime::observed_cgroups::ObservedCgroups;
pub use runtime::runtime_metrics::RuntimeMetrics;
pub use serving::http_metrics::{HttpMetrics, InFlight, Port};
pub use serving::rpc_metrics::{PodResourcesCall, RpcMetrics};
pub use setup::{Guard, TelemetryError, init, set_verbosity};
pub use sources::Sources;
pub use spans::request_spans::{TraceOrigin, request_answered, request_span};
