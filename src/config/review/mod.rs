//! Every fault of a command line and of its files at once, each with its place: for `podwright check-config`.
//!
//! Reads as [`super::load`] reads, and finds what makes that refuse; it goes on where the agent stops. Keeps nothing.
//!
//! * `documents` reads the files, `origins` remembers which of them set which value.
//! * `causes` finds the values that a broken rule is about.
//! * `named_files` looks at the files that the configuration names.
//! * [`reload`] compares what was read with what runs.

mod causes;
mod documents;
mod named_files;
mod origins;
pub mod reload;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

use super::flags::parse::{self, Parsed};
use super::flags::{self, Flags, table};
use super::validate::Host;
use super::{Config, FeatureGates, acted, labels, late, validate};
use causes::Subject;
use documents::Documents;

/// The faults of a command line and its files.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Report {
    /// The faults that keep the agent from starting.
    pub errors: Vec<Finding>,
    /// The faults that do not.
    pub warnings: Vec<Finding>,
}

/// One fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The values that it is about; empty when it is about none that was set.
    pub places: Vec<Place>,
    /// The fault in words: the agent's where the agent has some.
    pub message: String,
}

/// Where a value was set.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// In a file.
    File {
        /// The file's path.
        file: String,
        /// The line from one, where the fault has one.
        line: Option<usize>,
    },
    /// On the command line.
    Flag {
        /// The flag as it is given, with its dashes.
        flag: String,
    },
}

impl Place {
    fn flag(name: &str) -> Self {
        Self::Flag { flag: format!("--{name}") }
    }

    fn file(path: &str, line: Option<usize>) -> Self {
        Self::File { file: path.to_owned(), line }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line: Some(line) } => write!(formatter, "{file}:{line}"),
            Self::File { file, line: None } => formatter.write_str(file),
            Self::Flag { flag } => formatter.write_str(flag),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, place) in self.places.iter().enumerate() {
            write!(formatter, "{}{place}", if index == 0 { "" } else { ", " })?;
        }
        write!(formatter, "{}{}", if self.places.is_empty() { "" } else { ": " }, self.message)
    }
}

impl Report {
    fn error(&mut self, places: Vec<Place>, message: String) {
        self.errors.push(Finding { places, message });
    }

    fn warn(&mut self, places: Vec<Place>, message: String) {
        self.warnings.push(Finding { places, message });
    }
}

/// Goes over the arguments after the program's name, and the files they name.
pub fn review(args: &[String], host: Host) -> Report {
    let mut report = Report::default();
    let (parsed, unreadable) = parse::parse_each(args);
    for (flag, message) in unreadable {
        report.error(vec![Place::Flag { flag }], message);
    }
    if let Some(word) = parsed.positional.first() {
        report.error(vec![], format!("unknown command {word}{}", flags::suggest::command(word)));
    }
    let given = Flags::from_parsed(&parsed);
    let gates = review_flags(&parsed, &given, &mut report);
    let documents = Documents::load(&given, &gates, &mut report);
    if documents.unreadable {
        return report; // Rules about values that nobody knows would only mislead.
    }
    let subject = Subject { parsed: &parsed, base: &documents.config, origins: &documents.origins };
    let refused = |given: &Flags, config: &Config| problems(given, &gates, config, host);
    report.errors.extend(subject.findings(&refused, &report.errors));
    let advice = |given: &Flags, config: &Config| advice(given, &gates, config);
    report.warnings.extend(subject.findings(&advice, &report.warnings));
    let config = flags::apply(&documents.config, &parsed);
    let origins = documents.origins.with_flags(&parsed);
    named_files::look(&given, &config, &origins, &mut report);
    report
}

/// The flags by themselves; gives the gates that they set.
fn review_flags(parsed: &Parsed, given: &Flags, report: &mut Report) -> FeatureGates {
    for name in parsed.values.keys() {
        if let Some(deprecated) = table::find(name).and_then(|flag| flag.deprecated) {
            report.warn(vec![Place::flag(name)], format!("Flag --{name} has been deprecated, {deprecated}"));
        }
        if acted::is_ignored(name) {
            report.warn(vec![Place::flag(name)], acted::flag_warning(name));
        }
    }
    let checks = [
        ("node-labels", labels::check_node_labels(&given.node_labels)),
        ("image-gc-exempt", flags::exempt_images(given).map(|_| ())),
    ];
    for (flag, checked) in checks {
        if let Err(message) = checked {
            report.error(vec![Place::flag(flag)], message);
        }
    }
    let set = flags::apply(&Config::default(), parsed).feature_gates;
    FeatureGates::default().with(&set).unwrap_or_else(|errors| {
        errors.into_iter().for_each(|message| report.error(vec![Place::flag("feature-gates")], message));
        FeatureGates::default().with_lenient(parsed.values.get("feature-gates"))
    })
}

/// Everything that makes [`super::load`] refuse these settings, each text once, in its order.
fn problems(given: &Flags, flag_gates: &FeatureGates, config: &Config, host: Host) -> Vec<String> {
    let mut all = Vec::new();
    let gates = effective(flag_gates, config, &mut all);
    all.extend(validate::logging::errors(&config.logging, &gates));
    all.extend(validate::validate(config, &gates, host));
    all.extend(late::problems(given, config));
    all.extend(super::insecure_defaults(given, config).err());
    once(all)
}

/// Everything that the agent warns of when it runs with these settings.
fn advice(given: &Flags, flag_gates: &FeatureGates, config: &Config) -> Vec<String> {
    let gates = effective(flag_gates, config, &mut Vec::new());
    let mut all = gates.notices();
    all.extend(super::insecure_defaults(given, config).ok().flatten());
    all.extend(late::warnings(config));
    all.extend(acted::fields(config).into_iter().map(acted::field_warning));
    all.extend(acted::gate_warnings(&gates));
    once(all)
}

fn effective(flag_gates: &FeatureGates, config: &Config, errors: &mut Vec<String>) -> FeatureGates {
    flag_gates.with(&config.feature_gates).unwrap_or_else(|wrong| {
        errors.extend(wrong);
        flag_gates.with_lenient(serde_json::to_value(&config.feature_gates).ok().as_ref())
    })
}

fn once(all: Vec<String>) -> Vec<String> {
    let mut seen = Vec::new();
    for text in all {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen
}
