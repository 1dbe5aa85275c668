//! The agent's configuration, its actors and its log as a bundle may have them. Pure.

use serde_json::Value;

use super::known::{CUT, Known, without_credentials};

/// Parts of names of settings whose values are secret.
const SECRET_NAMES: &[&str] = &["token", "password", "secret", "header", "credential"];

/// Keys of log lines whose values are names and numbers.
const PLAIN_KEYS: &[&str] = &[
    "pod",
    "podUID",
    "uid",
    "id",
    "container",
    "node",
    "actor",
    "file",
    "path",
    "volume",
    "driver",
    "resource",
    "record",
    "kind",
    "name",
    "image",
    "endpoint",
    "device",
    "csr",
    "claim",
    "method",
    "object",
    "plugin",
    "protocol",
    "family",
    "limit",
    "group",
    "failures",
    "level",
    "purpose",
    "removed",
    "kept",
    "count",
    "signal",
    "turn",
    "reason",
    "ts",
    "caller",
    "msg",
    "v",
    "logger",
];
/// Keys of log lines whose values are sentences of the agent or the runtime.
const TOLD_KEYS: &[&str] = &["err", "error", "why", "problem"];

/// Cuts the settings that hold secrets, and credentials in URLs, in place.
pub(super) fn cut_configuration(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = name.to_lowercase();
                let is_secret = SECRET_NAMES.iter().any(|word| name.contains(word));
                match field {
                    Value::String(text) if is_secret && !text.is_empty() && !text.starts_with('/') => {
                        *field = CUT.into()
                    }
                    Value::Object(inner) if name.contains("header") && !inner.is_empty() => *field = CUT.into(),
                    other => cut_configuration(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(cut_configuration),
        Value::String(text) => *text = without_credentials(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Flags as `/flagz` prints them, a line each.
pub(super) fn cut_flags(text: &str) -> String {
    let line = |line: &str| {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let is_secret = ["token", "password", "header"].iter().any(|word| name.contains(word)) && !value.is_empty();
        let value = if is_secret { CUT.to_owned() } else { without_credentials(value) };
        if line.contains('=') { format!("{name}={value}\n") } else { format!("{line}\n") }
    };
    text.lines().map(line).collect()
}

/// Cuts sentences about actors and their work, in place.
pub(super) fn cut_actors(value: &mut Value, known: &Known) {
    for actor in value["actors"].as_array_mut().into_iter().flatten() {
        for name in ["note", "last_failure"] {
            if let Some(text) = actor[name].as_str() {
                actor[name] = known.redacted_wait(text).into();
            }
        }
        for operation in actor["operations"].as_array_mut().into_iter().flatten() {
            if let Some(text) = operation["about"].as_str() {
                operation["about"] = known.redacted(text).into();
            }
        }
    }
}

/// Lines of the agent's log. A line in no known form is cut whole: nobody knows who wrote it.
pub(super) fn cut_log(text: &str, known: &Known) -> String {
    let line = |line: &str| {
        let cut = if line.starts_with('{') { json_line(line, known) } else { klog_line(line, known) };
        cut.unwrap_or_else(|| format!("(a line of {} bytes, cut)", line.len())) + "\n"
    };
    text.lines().map(line).collect()
}

/// The value of a key in a line about `message`.
fn value(key: &str, text: &str, message: &str, known: &Known) -> String {
    let of_hook = message.to_lowercase().contains("hook");
    match key {
        _ if PLAIN_KEYS.contains(&key) => known_or_plain(text, known),
        _ if TOLD_KEYS.contains(&key) && !of_hook => known.redacted_wait(text),
        _ => CUT.to_owned(),
    }
}

/// A name: kept, also where nothing is known, but for a value that is known.
fn known_or_plain(text: &str, known: &Known) -> String {
    match known {
        Known::Values(_) => known.redacted(text),
        Known::Nothing => without_credentials(text),
    }
}

fn json_line(line: &str, known: &Known) -> Option<String> {
    let Value::Object(mut fields) = serde_json::from_str(line).ok()? else { return None };
    let message = fields.get("msg").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (key, field) in &mut fields {
        *field = match &*field {
            Value::String(text) => value(key, text, &message, known).into(),
            Value::Number(_) | Value::Bool(_) | Value::Null => continue,
            Value::Array(_) | Value::Object(_) => CUT.into(),
        };
    }
    serde_json::to_string(&fields).ok()
}

/// `I1126 23:15:01.123456 1234 file.rs:12] "message" key="value" key=value`
fn klog_line(line: &str, known: &Known) -> Option<String> {
    let (head, rest) = line.split_once("] ")?;
    let is_head = head.len() < 120
        && head.starts_with(['I', 'W', 'E', 'F'])
        && head.bytes().skip(1).take(4).all(|byte| byte.is_ascii_digit())
        && head.split_whitespace().count() == 4;
    if !is_head {
        return None;
    }
    let (message, mut rest) = quoted(rest)?;
    // The message of a line of JSON is looked through as well.
    let mut out = format!("{head}] {}", known_or_plain(message, known));
    while !rest.is_empty() {
        let (key, after) = rest.trim_start().split_once('=')?;
        if key.is_empty() || key.contains(char::is_whitespace) || key.contains('"') {
            return None;
        }
        let (text, left) = match after.starts_with('"') {
            true => quoted(after)?,
            false => after.split_at(after.find(' ').unwrap_or(after.len())),
        };
        out.push_str(&format!(" {key}={}", value(key, text, message, known)));
        rest = left;
    }
    Some(out)
}

/// A text in quotes, with them, and the rest behind it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some((&text[..at + 2], &inner[at + 1..])),
            _ => {}
        }
    }
    None
}
