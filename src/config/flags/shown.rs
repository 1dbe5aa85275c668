//! The flags as `/flagz` and `/debug/pprof/cmdline` show them. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::dump::SECRET;
use super::parse::Parsed;
use super::table::{self, FLAGS, Flag, Target};
use crate::config::decode;

/// Every flag with what the command line says, else with its default; files of the configuration do not count here, as
/// upstream has it.
pub fn logged_values(parsed: &Parsed) -> BTreeMap<String, String> {
    let defaults = Value::Object(decode::to_json(&decode::legacy_defaults()));
    let value = |flag: &Flag| match (parsed.values.get(flag.name), flag.target) {
        _ if SECRET.contains(&flag.name) => "CLASSIFIED".to_owned(),
        (Some(value), _) => text(value),
        (None, Target::Own(default)) => default.to_owned(),
        (None, Target::Configuration(pointer)) => defaults.pointer(pointer).map_or_else(String::new, text),
    };
    FLAGS.iter().map(|flag| (flag.name.to_owned(), value(flag))).collect()
}

/// The words of a command line, the program's first. The values of flags whose values may be secret are masked.
pub fn command_line(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_secret_value = false;
    let shown = |word: String| {
        if std::mem::take(&mut is_secret_value) {
            return "<masked>".to_owned();
        }
        let Some(long) = word.strip_prefix("--") else { return word };
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        if !table::find(name).is_some_and(|flag| SECRET.contains(&flag.name)) {
            return word;
        }
        is_secret_value = value.is_none();
        if value.is_none() { word } else { format!("--{name}=<masked>") }
    };
    words.map(shown).collect()
}

/// As pflag prints values: lists in brackets, maps as pairs.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        Value::Object(pairs) => {
            pairs.iter().map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>().join(",")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::flags::parse::parse;

    #[test]
    fn the_words_of_a_command_line_are_shown_without_secrets() {
        let words = ["podwright", "--v=4", "--manifest-url-header=Authorization:secret", "--root-dir", "/r"];
        let more = ["--manifest_url_header", "Authorization:secret", "--storage-driver-password", "secret", "--v", "2"];
        let shown = command_line(words.iter().chain(&more).map(|word| (*word).to_owned()));
        let expected = ["podwright", "--v=4", "--manifest-url-header=<masked>", "--root-dir", "/r"];
        let masked = ["--manifest_url_header", "<masked>", "--storage-driver-password", "<masked>", "--v", "2"];
        assert_eq!(shown, [&expected[..], &masked].concat());
    }

    #[test]
    fn what_the_command_line_says_is_shown_and_secrets_are_not() {
        let arguments = [
            "--v=4",
            "--manifest-url-header=Authorization:secret",
            "--node-labels=a=b,c=d",
            "--storage-driver-password=x",
        ];
        let parsed = parse(&arguments.map(str::to_owned)).expect("valid");
        let shown = logged_values(&parsed);
        assert_eq!(shown["v"], "4");
        assert_eq!(shown["node-labels"], "a=b,c=d");
        assert_eq!(shown["manifest-url-header"], "CLASSIFIED");
        assert_eq!(shown["storage-driver-password"], "CLASSIFIED");
        // The defaults of flags are those without a file.
        assert_eq!((shown["anonymous-auth"].as_str(), shown["authorization-mode"].as_str()), ("true", "AlwaysAllow"));
        assert_eq!(shown.len(), FLAGS.len());
    }
}
