//! The usage text, from the table of flags. Pure; keeps nothing.

use super::suggest::COMMANDS;
use super::table::{FLAGS, Flag, SHORTHANDS, Target};
use crate::config::{decode, gates};
use serde_json::Value;
use std::fmt::Write as _;

/// The text of `--help` on standard output.
pub fn usage() -> String {
    let mut text = String::from(
        "The node agent: runs the pods that the API server, files and URLs ask for on this node, and keeps them healthy.\n\
         It takes the flags and the configuration file of the Kubernetes 1.36 kubelet. With a command it looks into the\n\
         agent that runs on this machine.\n\n\
         Usage:\n  podwright [flags]\n  podwright <command> [options]\n\nCommands:\n",
    );
    for (name, does) in COMMANDS {
        let _ = writeln!(text, "  {name:<16}{does}");
    }
    text.push_str("\n`podwright <command> --help` lists a command's options.\n");
    for (title, flags) in groups() {
        let _ = write!(text, "\n{title}:\n");
        flags.iter().for_each(|flag| describe(&mut text, flag));
    }
    text.push_str("\nFeature gates:\n");
    for line in gates::known_features() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// A flag as people read about it.
pub struct Described {
    /// The row of the table.
    pub flag: &'static Flag,
    /// Its letter, where it has one.
    pub letter: Option<char>,
    /// Its default as text; empty for none and for zero values.
    pub default: String,
}

/// All flags in the order of the usage text, below the titles of their groups.
pub fn groups() -> Vec<(&'static str, Vec<Described>)> {
    // Title, whether its flags are deprecated, whether they are fields of the configuration.
    let groups = [
        ("Node flags", false, false),
        ("Configuration flags", false, true),
        ("Deprecated: set these in the file of --config", true, true),
        ("Deprecated: to be removed", true, false),
    ];
    let defaults = Value::Object(decode::to_json(&decode::legacy_defaults()));
    let described = |flag: &'static Flag| Described {
        flag,
        letter: SHORTHANDS.iter().find(|(_, name)| *name == flag.name).map(|(letter, _)| *letter),
        default: match flag.target {
            Target::Own(default) => default.to_owned(),
            Target::Configuration(pointer) => defaults.pointer(pointer).map_or_else(String::new, default_text),
        },
    };
    let of_group = |deprecated: bool, configured: bool| {
        let belongs = move |flag: &&Flag| {
            flag.deprecated.is_some() == deprecated && matches!(flag.target, Target::Configuration(_)) == configured
        };
        FLAGS.iter().filter(belongs).map(described).collect()
    };
    groups.into_iter().map(|(title, deprecated, configured)| (title, of_group(deprecated, configured))).collect()
}

fn describe(text: &mut String, Described { flag, letter, default }: &Described) {
    let letter = letter.map_or_else(|| "    ".into(), |letter| format!("-{letter}, "));
    let value = flag.syntax.usage_name();
    let value = if value.is_empty() { String::new() } else { format!(" {value}") };
    let _ = write!(text, "  {letter}--{}{value}\n          {}", flag.name, flag.help);
    let _ = if default.is_empty() { writeln!(text) } else { writeln!(text, " (default {default})") };
}

/// A default as text; nothing for zero values, as pflag does.
fn default_text(value: &Value) -> String {
    match value {
        Value::Bool(true) => "true".into(),
        Value::Number(number) if number.as_f64() != Some(0.0) => number.to_string(),
        Value::String(text) if text != "0s" => text.clone(),
        Value::Array(items) if !items.is_empty() => {
            format!("[{}]", items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","))
        }
        _ => String::new(),
    }
}
