//! Lines of the log, as klog writes them: text with quoted keys and values, or one JSON object a line.
//!
//! Parsers of existing log pipelines read them. So field `error` is written as `err`, and a source file stands where Go's
//! would. Keeps nothing between lines.

use std::fmt::{Debug, Write};

use jiff::tz::TimeZone;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::log_filter::verbosity_of;
use crate::logic::model::time::Moment;
use crate::platform::host::clock::{Clock, SystemClock};

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::telemetry) enum Format {
    /// klog's.
    Text,
    /// zap's, as upstream sets it up.
    Json,
}

/// Takes a line with its newline; whether it is an error's.
type Sink = Box<dyn Fn(&[u8], bool) + Send + Sync>;

/// See the module.
pub(in crate::telemetry) struct LogLayer {
    format: Format,
    clock: SystemClock,
    zone: TimeZone,
    process: u32,
    sink: Sink,
}

impl LogLayer {
    pub(in crate::telemetry) fn new(format: Format, sink: Sink) -> Self {
        Self { format, clock: SystemClock::start(), zone: TimeZone::system(), process: std::process::id(), sink }
    }

    fn line(&self, metadata: &Metadata<'_>, fields: Fields, now: Moment) -> String {
        match self.format {
            Format::Text => self.text(metadata, &fields, now),
            Format::Json => json(metadata, fields, now),
        }
    }

    fn text(&self, metadata: &Metadata<'_>, fields: &Fields, now: Moment) -> String {
        let letter = match *metadata.level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        let instant = jiff::Timestamp::from_nanosecond(now.0.into()).unwrap_or_default();
        let time = self.zone.to_datetime(instant);
        let mut line = format!(
            "{letter}{:02}{:02} {:02}:{:02}:{:02}.{:06} {:>7} {}] {}",
            time.month(),
            time.day(),
            time.hour(),
            time.minute(),
            time.second(),
            time.subsec_nanosecond() / 1000,
            self.process,
            place(metadata),
            quoted(&fields.message),
        );
        for (key, value) in &fields.rest {
            line.push(' ');
            line.push_str(key);
            line.push('=');
            match value {
                Value::String(text) if text.contains('\n') => push_block(&mut line, text),
                Value::String(text) => line.push_str(&quoted(text)),
                other => line.push_str(&other.to_string()),
            }
        }
        line.push('\n');
        line
    }
}

/// klog's form of values with line breaks: each line behind a tab, so that none can pose as a line of the log.
fn push_block(line: &mut String, text: &str) {
    line.push_str("<\n");
    for part in text.lines() {
        line.push('\t');
        line.extend(part.chars().filter(|character| *character == '\t' || !character.is_control()));
        line.push('\n');
    }
    line.push_str(" >");
}

fn json(metadata: &Metadata<'_>, fields: Fields, now: Moment) -> String {
    let mut pairs = vec![
        ("ts".to_owned(), Value::from(now.0 as f64 / 1e6)),
        ("caller".to_owned(), Value::from(caller(metadata))),
        ("msg".to_owned(), Value::from(fields.message)),
    ];
    if *metadata.level() != Level::ERROR {
        pairs.push(("v".to_owned(), Value::from(verbosity_of(metadata.target(), *metadata.level()))));
    }
    for (key, value) in fields.rest {
        // A name that is taken already would make two readers see two different lines.
        if pairs.iter().all(|(taken, _)| *taken != key) {
            pairs.push((key, value));
        }
    }
    let pairs: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{}:{value}", Value::from(key))).collect();
    format!("{{{}}}\n", pairs.join(","))
}

/// The file's name, and the line; with its folder where that is what tells it from others, as klog's header may have.
fn place(metadata: &Metadata<'_>) -> String {
    let caller = caller(metadata);
    let short = caller.rsplit('/').next().unwrap_or(&caller);
    if short.starts_with("mod.rs:") { caller } else { short.to_owned() }
}

/// The file with its folder, and the line.
fn caller(metadata: &Metadata<'_>) -> String {
    let file = metadata.file().unwrap_or("?");
    let start = file.rmatch_indices('/').nth(1).map_or(0, |(slash, _)| slash + 1);
    format!("{}:{}", &file[start..], metadata.line().unwrap_or_default())
}

/// A string as Go's `strconv.Quote` writes it.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            other if other.is_control() => {
                let code = u32::from(other);
                // Writing to a string cannot fail.
                let _ = if code < 0x80 { write!(out, "\\x{code:02x}") } else { write!(out, "\\u{code:04x}") };
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// The parts of an event.
#[derive(Default)]
struct Fields {
    message: String,
    rest: Vec<(String, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            ("error", value) => self.rest.push(("err".to_owned(), value)),
            (name, value) => self.rest.push((name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::from(value));
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::from(value));
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::from(value));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::from(value));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::from(value));
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, Value::from(format!("{value:?}")));
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = self.line(event.metadata(), fields, self.clock.now());
        (self.sink)(line.as_bytes(), *event.metadata().level() == Level::ERROR);
    }
}

#[cfg(test)]
mod tests;
