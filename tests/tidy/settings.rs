//! The table of settings, `tests/settings.txt`: each flag, field and gate is there once, and what it says is so.

use std::collections::{BTreeMap, BTreeSet};

use podwright::config::acted::{IGNORED_FIELDS, IGNORED_FLAGS, IGNORED_GATES};
use podwright::config::flags::table::{FLAGS, Target};
use podwright::config::{FeatureGates, reload};

use crate::settle;
use crate::source::{Source, identifiers, sources, top};

/// The table, from the top of the repository.
const TABLE: &str = "tests/settings.txt";
/// The page that says what becomes of ignored settings.
const PAGE: &str = "docs/differences.md";
/// Where settings are turned into what the agent does; beyond these folders nobody knows their names.
const READERS: &[&str] = &["src/launch", "src/config", "src/telemetry"];
/// Files among them that name settings without acting on them.
const LISTS: &[&str] =
    &["src/config/acted.rs", "src/config/fields.rs", "src/config/flags/table.rs", "src/config/gates/table.rs"];

/// A line of the table.
struct Line {
    number: usize,
    kind: String,
    name: String,
    status: String,
    reason: String,
}

fn lines() -> Vec<Line> {
    let text = std::fs::read_to_string(top().join(TABLE)).expect("the table is there");
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|(index, line)| read(index + 1, line)).collect()
}

fn read(number: usize, line: &str) -> Line {
    let (head, reason) = line.split_once('#').unwrap_or((line, ""));
    let mut words = head.split_whitespace().map(str::to_owned);
    let mut word = || words.next().unwrap_or_default();
    let (kind, name, status) = (word(), word(), word());
    Line { number, kind, name: name.trim_start_matches("--").to_owned(), status, reason: reason.trim().to_owned() }
}

/// All settings that there are, each as its kind and name.
fn all() -> BTreeSet<(String, String)> {
    let flags = FLAGS.iter().filter(|flag| matches!(flag.target, Target::Own(_))).map(|flag| ("flag", flag.name));
    let fields = reload::RELOADED.iter().chain(reload::AT_RESTART).map(|field| ("field", *field));
    let gates = FeatureGates::default();
    let gates = gates.all().filter(|(gate, _)| !gate.locked).map(|(gate, _)| ("gate", gate.name));
    let known = flags.chain(fields).chain(gates.collect::<Vec<_>>());
    known.map(|(kind, name)| (kind.to_owned(), name.to_owned())).collect()
}

/// The settings that the agent warns of.
fn warned_of() -> BTreeSet<(String, String)> {
    let flags = IGNORED_FLAGS.iter().map(|name| ("flag", *name));
    let fields = IGNORED_FIELDS.iter().map(|(name, _)| ("field", *name));
    let gates = IGNORED_GATES.iter().map(|(name, _)| ("gate", *name));
    flags.chain(fields).chain(gates).map(|(kind, name)| (kind.to_owned(), name.to_owned())).collect()
}

#[test]
fn every_setting_is_in_the_table_once() {
    let (known, mut found, mut complaints) = (all(), BTreeMap::new(), vec![]);
    for line in lines() {
        let (at, setting) = (format!("{TABLE}:{}", line.number), (line.kind, line.name));
        if !known.contains(&setting) {
            complaints.push(format!("{at}: there is no {} {} that may be set", setting.0, setting.1));
        }
        if let Some(earlier) = found.insert(setting.clone(), at.clone()) {
            complaints.push(format!("{at}: {} {} is at {earlier} already", setting.0, setting.1));
        }
        if !["acted", "none", "ignored"].contains(&line.status.as_str()) {
            complaints.push(format!("{at}: {:?} is no status", line.status));
        }
        if line.status != "acted" && line.reason.is_empty() {
            complaints.push(format!("{at}: nothing says why {} changes nothing", setting.1));
        }
    }
    let missing = known.iter().filter(|setting| !found.contains_key(*setting));
    complaints.extend(missing.map(|(kind, name)| format!("{TABLE}: the {kind} {name} is missing")));
    settle("no setting without a decision", complaints);
}

#[test]
fn an_ignored_setting_is_warned_of_and_on_the_page_of_differences() {
    let page = std::fs::read_to_string(top().join(PAGE)).expect("the page is there");
    let (warned, mut complaints, mut ignored) = (warned_of(), vec![], BTreeSet::new());
    for line in lines().into_iter().filter(|line| line.status == "ignored") {
        let dashes = if line.kind == "flag" { "--" } else { "" };
        let leaf = line.name.rsplit('.').next().unwrap_or_default();
        if !page.contains(&format!("`{dashes}{}`", line.name)) && !page.contains(&format!("`{leaf}`")) {
            complaints.push(format!("{PAGE}: says nothing of `{dashes}{}` ({TABLE}:{})", line.name, line.number));
        }
        ignored.insert((line.kind, line.name));
    }
    let silent = ignored.difference(&warned);
    complaints.extend(silent.map(|(kind, name)| format!("src/config/acted.rs: no warning about the {kind} {name}")));
    let loud = warned.difference(&ignored);
    complaints.extend(loud.map(|(kind, name)| format!("{TABLE}: the {kind} {name} is warned of, so it is ignored")));
    settle("an ignored setting is told", complaints);
}

/// The code that turns settings into what the agent does.
fn readers() -> Vec<Source> {
    let all = READERS.iter().flat_map(|folder| sources(folder));
    all.filter(|source| !LISTS.contains(&source.path.as_str()) && !source.path.contains("/tests")).collect()
}

/// Names that the code asks for: of gates the strings, of fields and flags what follows a dot, without its underscores.
struct Asked {
    gates: BTreeSet<String>,
    fields: BTreeSet<String>,
}

impl Asked {
    fn by(readers: &[Source]) -> Self {
        let (mut gates, mut fields) = (BTreeSet::new(), BTreeSet::new());
        for source in readers {
            for (number, line) in source.product_lines() {
                let strings = source.lines[number - 1].split('"').skip(1).step_by(2);
                gates.extend(strings.filter(|text| text.chars().all(char::is_alphanumeric)).map(str::to_owned));
                let dotted = line.split('.').skip(1).filter_map(|rest| identifiers(rest).next());
                let is_text = source.path.ends_with("flags/mod.rs") || source.path.ends_with("review/reload.rs");
                fields.extend(dotted.filter(|_| !is_text).map(|name| name.replace('_', "").to_lowercase()));
            }
        }
        Self { gates, fields }
    }

    fn knows(&self, line: &Line) -> bool {
        let leaf = line.name.rsplit('.').next().unwrap_or_default().replace('-', "").to_lowercase();
        if line.kind == "gate" { self.gates.contains(&line.name) } else { self.fields.contains(&leaf) }
    }
}

/// Flags whose field of `Flags` has another name.
const RENAMED: &[(&str, &str)] = &[
    ("experimental-allocatable-ignore-eviction", "allocatable-ignores-eviction"),
    ("minimum-container-ttl-duration", "minimum-container-ttl"),
];
/// Fields that no reader names: the decoder works them into the others (`decode::complete_eviction`).
const WORKED_IN: &[&str] = &["mergeDefaultEvictionSettings"];

#[test]
fn something_asks_for_an_acted_setting_and_nothing_for_one_without_effect() {
    let asked = Asked::by(&readers());
    assert!(asked.gates.len() > 40 && asked.fields.len() > 200, "the readers are read");
    let mut complaints = vec![];
    for mut line in lines() {
        let renamed = RENAMED.iter().find(|(flag, _)| *flag == line.name);
        line.name = renamed.map_or(line.name, |(_, name)| (*name).to_owned());
        let worked_in = WORKED_IN.contains(&line.name.as_str());
        match line.status.as_str() {
            "acted" if !asked.knows(&line) && !worked_in => {
                complaints.push(format!("{TABLE}:{}: nothing asks for the {} {}", line.number, line.kind, line.name));
            }
            // A field that is checked is asked for as well, so this holds for gates alone.
            "none" | "ignored" if line.kind == "gate" && asked.knows(&line) => {
                complaints.push(format!("{TABLE}:{}: something asks for the gate {}", line.number, line.name));
            }
            _ => {}
        }
    }
    settle("a setting does what the table says", complaints);
}
