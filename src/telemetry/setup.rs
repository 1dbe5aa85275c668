//! Sets up the log and the export of spans, once, at the start.

use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use super::logs::log_filter::LogFilter;
use super::logs::log_layer::{Format, LogLayer};
use super::logs::log_writer::write_line;
use super::spans::traces::{self, TURN_TARGET, TracingError};
use crate::config::{Logging, Tracing};

/// How long the last spans may take to be sent.
const FLUSH_LIMIT: Duration = Duration::from_secs(3);

/// The log's filter, for a change at run time.
static FILTER: OnceLock<LogFilter> = OnceLock::new();

/// Why telemetry cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// Spans cannot be exported.
    #[error(transparent)]
    Tracing(#[from] TracingError),
    /// Somebody else set up the log.
    #[error("the log is set up already")]
    Twice,
}

/// Sends the spans that still wait when it is dropped. Drop it last, outside asynchronous code.
#[must_use = "dropping it ends the export of spans"]
#[derive(Debug, Default)]
pub struct Guard {
    provider: Option<SdkTracerProvider>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(provider) = self.provider.take()
            && let Err(error) = provider.shutdown_with_timeout(FLUSH_LIMIT)
        {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// Sets up the log as `logging` says; with `tracing`, exports spans named after `node_name`. Lines are written as they
/// come, each in one write, so `flushFrequency` and `infoBufferSize` have nothing to do.
///
/// With `tracing`, call it inside the tokio runtime that will send the spans. Without it spans are never made; with a
/// sampling rate of zero, those of requests alone, for callers who sample.
///
/// # Errors
/// See [`TelemetryError`].
pub fn init(logging: &Logging, tracing: Option<&Tracing>, node_name: &str) -> Result<Guard, TelemetryError> {
    let filter = FILTER.get_or_init(|| LogFilter::new(logging.verbosity, &logging.vmodule)).clone();
    let log = tracing_subscriber::registry().with(log_layer(logging).with_filter(filter));
    let guard = match tracing {
        None => {
            tracing::subscriber::set_global_default(log).map_err(|_| TelemetryError::Twice)?;
            Guard::default()
        }
        Some(config) => {
            let provider = traces::provider(config, node_name)?;
            let spans = span_layer(&provider, traces::begins_traces(config));
            traces::export_calls(&provider);
            tracing::subscriber::set_global_default(log.with(spans)).map_err(|_| TelemetryError::Twice)?;
            Guard { provider: Some(provider) }
        }
    };
    log_panics();
    Ok(guard)
}

/// Changes the log's verbosity, as `PUT /debug/flags/v` does. Nothing happens before [`init`].
pub fn set_verbosity(verbosity: u32) {
    if let Some(filter) = FILTER.get() {
        filter.set_verbosity(verbosity);
    }
}

fn log_layer(logging: &Logging) -> LogLayer {
    let json = logging.format == "json";
    let (format, options) =
        if json { (Format::Json, &logging.options.json) } else { (Format::Text, &logging.options.text) };
    let split = options.split_stream;
    LogLayer::new(format, Box::new(move |line, is_error| write_line(line, split && !is_error)))
}

/// Hands the spans of turns and operations to the exporter, and nothing else; those of requests alone unless traces
/// begin here.
pub(super) fn span_layer<S>(provider: &SdkTracerProvider, begins: bool) -> impl tracing_subscriber::Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_opentelemetry::layer()
        .with_tracer(traces::tracer(provider))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_filter(filter_fn(move |metadata| {
            metadata.is_span() && metadata.target() == TURN_TARGET && (begins || metadata.name() == traces::REQUEST)
        }))
}

/// Panics go to the log as one line, whoever catches them.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let words = panic.payload_as_str().unwrap_or("panic without words");
        tracing::error!(target: "podwright::panic", place, error = words, "panic");
    }));
}
