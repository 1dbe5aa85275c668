//! Telemetry: names and exports the log, metrics and spans.

mod log_writer;
pub mod metrics;

pub use log_writer::{LogProgress, log_progress};
pub use metrics::Metrics;
