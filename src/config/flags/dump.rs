//! The log's lines about the flags at the start, at verbosity 1 (OBS-34): every flag with the value that counts.

use serde_json::Value;

use super::parse::Parsed;
use super::table::{FLAGS, Flag, Target};
use crate::config::Config;

/// Flags whose values may be secret; nothing shows them.
pub(super) const SECRET: [&str; 2] = ["manifest-url-header", "storage-driver-password"];

/// `FLAG: --name="value"` for each flag, in order of names. A value that the configuration has comes from there, even
/// if a flag set it.
pub fn lines(parsed: &Parsed, config: &Config) -> Vec<String> {
    let config = serde_json::to_value(config).unwrap_or_default();
    let mut lines: Vec<String> = FLAGS.iter().map(|flag| line(flag, parsed, &config)).collect();
    lines.sort_unstable();
    lines
}

fn line(flag: &Flag, parsed: &Parsed, config: &Value) -> String {
    let value = match flag.target {
        Target::Configuration(pointer) => text(config.pointer(pointer).unwrap_or(&Value::Null)),
        Target::Own(default) => parsed.values.get(flag.name).map_or_else(|| default.to_owned(), text),
    };
    let value = if SECRET.contains(&flag.name) && !value.is_empty() { "<masked>".to_owned() } else { value };
    format!("FLAG: --{}={value:?}", flag.name)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;
    use crate::config::flags::apply;

    /// OBS-34.
    #[test]
    fn every_flag_is_told_and_secrets_are_not() {
        let args = ["--root-dir=/x", "--read-only-port=10255", "--manifest-url-header=Authorization:marked-secret"];
        let parsed = parse(&args.map(str::to_owned)).expect("flags");
        let lines = lines(&parsed, &apply(&Config::default(), &parsed));
        assert_eq!(lines.len(), FLAGS.len());
        for wanted in ["FLAG: --root-dir=\"/x\"", "FLAG: --read-only-port=\"10255\"", "FLAG: --hostname-override=\"\""]
        {
            assert!(lines.iter().any(|line| line == wanted), "{wanted} in {lines:#?}");
        }
        assert!(!lines.concat().contains("marked-secret"), "{lines:#?}");
    }
}
