//! Prometheus' text form 0.0.4, written family by family, with the time of each measurement.

use std::fmt::Write;

use crate::logic::model::time::Moment;

/// The kind of a family's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// Grows, until what it counts is made anew.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// A value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number, written with all its digits.
    Whole(u64),
    /// Any number.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// Nanoseconds as seconds.
pub fn seconds(nanoseconds: u64) -> Value {
    Value::Real(nanoseconds as f64 / 1e9)
}

/// Families being written, one after the other.
#[derive(Debug, Default)]
pub struct Exposition<'a> {
    text: String,
    name: &'a str,
    help: &'a str,
    kind: Option<Kind>,
}

impl<'a> Exposition<'a> {
    /// Begins a family; one without samples leaves nothing behind. The help text is written as it is.
    pub fn family(&mut self, name: &'a str, help: &'a str, kind: Kind) {
        (self.name, self.help, self.kind) = (name, help, Some(kind));
    }

    /// One more sample of the family: its labels as [`labels`] made them, labels of its own, its value, and when it was
    /// measured, if the source says so.
    pub fn sample(&mut self, labels: &str, more: &[(&str, &str)], value: impl Into<Value>, at: Option<Moment>) {
        self.stamped(labels, more, value.into(), &at.map(stamp).unwrap_or_default());
    }

    /// [`Self::sample`] with the time as [`stamp`] wrote it.
    pub fn stamped(&mut self, labels: &str, more: &[(&str, &str)], value: Value, stamp: &str) {
        if let Some(kind) = self.kind.take() {
            let kind: &'static str = kind.into();
            let (name, help) = (self.name, self.help);
            // Writing to a text does not fail.
            let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        }
        self.text.push_str(self.name);
        if !labels.is_empty() || !more.is_empty() {
            self.text.push('{');
            self.text.push_str(labels);
            for (index, (name, value)) in more.iter().enumerate() {
                if index > 0 || !labels.is_empty() {
                    self.text.push(',');
                }
                label(&mut self.text, name, value);
            }
            self.text.push('}');
        }
        let _ = match value {
            Value::Whole(value) => write!(self.text, " {value}"),
            Value::Real(value) => write!(self.text, " {value}"),
        };
        self.text.push_str(stamp);
        self.text.push('\n');
    }

    /// The text so far.
    pub fn into_text(self) -> String {
        self.text
    }
}

/// When something was measured, in the form that [`Exposition::stamped`] takes: milliseconds behind a blank.
pub fn stamp(at: Moment) -> String {
    format!(" {}", at.0.div_euclid(1_000_000))
}

/// Labels in the form that [`Exposition::sample`] takes.
pub fn labels(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (index, (name, value)) in pairs.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        label(&mut text, name, value);
    }
    text
}

fn label(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push_str("=\"");
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_head_once_and_none_without_samples() {
        let mut exposition = Exposition::default();
        exposition.family("nothing_total", "No samples.", Kind::Counter);
        exposition.family("some_bytes", "Two samples.", Kind::Gauge);
        exposition.sample("", &[], 5, None);
        let base = labels(&[("a", "x"), ("b", "q\"\\\n")]);
        exposition.sample(&base, &[("c", "y")], 1.5, Some(Moment(1_700_000_000_123_456_789)));
        assert_eq!(
            exposition.into_text(),
            "# HELP some_bytes Two samples.\n# TYPE some_bytes gauge\nsome_bytes 5\n\
             some_bytes{a=\"x\",b=\"q\\\"\\\\\\n\",c=\"y\"} 1.5 1700000000123\n"
        );
    }

    #[test]
    fn large_numbers_keep_their_digits() {
        let mut exposition = Exposition::default();
        exposition.family("n", "n", Kind::Gauge);
        exposition.sample("", &[], u64::MAX, None);
        exposition.sample("", &[], seconds(1_500_000_001), None);
        assert!(exposition.into_text().ends_with("\nn 18446744073709551615\nn 1.500000001\n"));
    }
}
