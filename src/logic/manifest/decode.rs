//! From the bytes of a manifest to typed pods: size, text, syntax, kind, types. Nothing is defaulted or judged here.
//!
//! Owned by [`super`]. As upstream, YAML is read by way of JSON. Of several documents the first counts, and a field that the
//! API does not have is ignored; both give warnings, since either is most often a mistake.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::{ManifestError, tree};
use crate::logic::formats::yaml::{self, Duplicates};

/// The largest manifest that is read, in bytes: upstream's 10 MiB.
pub const MANIFEST_SIZE_MAX: usize = 10 << 20;

/// The most values of a JSON document; YAML has the same bound in its own reader.
const JSON_VALUES_MAX: usize = 250_000;

/// A pod as it was written, before any default.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The pod.
    pub pod: Pod,
    /// Ignored parts, each a sentence for the log.
    pub warnings: Vec<String>,
}

/// Decodes one pod, YAML or JSON, as a manifest file holds it.
///
/// # Errors
/// When `text` is longer than `limit` bytes, is no text, no document, not a v1 Pod, or has a value of the wrong type.
pub fn decode_pod(text: &[u8], limit: usize) -> Result<Decoded, ManifestError> {
    let (document, warnings) = parse(text, limit)?;
    match kind_of(&document)? {
        "Pod" => pod_of(&document, "", warnings),
        kind => Err(ManifestError::Kind { kind: kind.to_owned() }),
    }
}

/// Decodes one pod or a `PodList`, as the HTTP source may answer.
///
/// # Errors
/// As [`decode_pod`]; one wrong item refuses the list, as upstream.
pub fn decode_pods(text: &[u8], limit: usize) -> Result<Vec<Decoded>, ManifestError> {
    let (document, warnings) = parse(text, limit)?;
    match kind_of(&document)? {
        "Pod" => Ok(vec![pod_of(&document, "", warnings)?]),
        "PodList" => items_of(&document, warnings),
        kind => Err(ManifestError::Kind { kind: kind.to_owned() }),
    }
}

fn parse(text: &[u8], limit: usize) -> Result<(Value, Vec<String>), ManifestError> {
    if text.len() > limit {
        return Err(ManifestError::TooLarge { limit });
    }
    if let Some(at) = text.iter().position(|byte| *byte == 0) {
        return Err(ManifestError::NotText { why: "it has a NUL byte", line: line_at(text, at) });
    }
    let text = std::str::from_utf8(text)
        .map_err(|error| ManifestError::NotText { why: "it is not UTF-8", line: line_at(text, error.valid_up_to()) })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (document, warnings) = if text.trim_start().starts_with('{') {
        (parse_json(text)?, Vec::new())
    } else {
        let (first, more_follow) = first_document(text);
        let warning = more_follow.then(|| "only the first of the manifest's documents is used".to_owned());
        (parse_yaml(first)?, warning.into_iter().collect())
    };
    if document.is_null() {
        return Err(ManifestError::Empty);
    }
    Ok((document, warnings))
}

/// Upstream takes a text that begins with a brace for JSON, too; only if it is not, it may still be YAML's flow style.
fn parse_json(text: &str) -> Result<Value, ManifestError> {
    if values_at_most(text) > JSON_VALUES_MAX {
        let message = format!("has more than {JSON_VALUES_MAX} values");
        return Err(ManifestError::Syntax { line: None, message });
    }
    serde_json::from_str(text).or_else(|error| {
        let syntax = |_| ManifestError::Syntax { line: Some(error.line()), message: error.to_string() };
        yaml::to_json(text, Duplicates::LastWins).map_err(syntax)
    })
}

/// A bound on the values of a JSON text, known before anything is built of it: each but the first in its list or
/// object needs a comma, and each list or object a bracket.
fn values_at_most(text: &str) -> usize {
    let (mut count, mut in_text, mut escaped) = (1, false, false);
    for byte in text.bytes() {
        match (in_text, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'[' | b'{' | b',') => count += 1,
            _ => {}
        }
    }
    count
}

fn parse_yaml(text: &str) -> Result<Value, ManifestError> {
    yaml::to_json(text, Duplicates::LastWins)
        .map_err(|error| ManifestError::Syntax { line: error.line, message: error.message })
}

fn line_at(text: &[u8], at: usize) -> usize {
    text.iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// The text of the first document, and whether another follows. As upstream,
/// what comes after the first is not even read.
///
/// No line inside of a document, not even of a text over several lines, can begin with a marker.
fn first_document(text: &str) -> (&str, bool) {
    let is_marker = |line: &str, marker: &str| {
        line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    };
    let is_blank = |line: &str| line.trim().is_empty() || line.starts_with(['#', '%']);
    let (mut begun, mut end, mut at) = (false, None, 0);
    for line in text.split_inclusive('\n') {
        let ends = begun && (is_marker(line, "---") || is_marker(line, "..."));
        match end {
            None if ends => end = Some(at),
            // A marker before any text opens the first document.
            None => begun = begun || !is_blank(line),
            Some(end) if !ends && !is_blank(line) => return (&text[..end], true),
            Some(_) => {}
        }
        at += line.len();
    }
    (&text[..end.unwrap_or(text.len())], false)
}

/// The kind of a v1 object.
fn kind_of(document: &Value) -> Result<&str, ManifestError> {
    let text = |field: &'static str| match document.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.as_str()),
        None | Some(Value::Null | Value::String(_)) => Err(ManifestError::KindMissing { field }),
        Some(_) => Err(ManifestError::Field { path: field.to_owned(), message: "must be a string".to_owned() }),
    };
    if !document.is_object() {
        return Err(ManifestError::NotAnObject);
    }
    // Upstream looks for the kind first.
    let kind = text("kind").map_err(|error| match error {
        ManifestError::KindMissing { .. } => ManifestError::KindMissing { field: "Kind" },
        other => other,
    })?;
    match text("apiVersion")? {
        "v1" => Ok(kind),
        version => Err(ManifestError::Version { kind: kind.to_owned(), version: version.to_owned() }),
    }
}

fn pod_of(document: &Value, place: &str, mut warnings: Vec<String>) -> Result<Decoded, ManifestError> {
    let (pod, unknown) = tree::read::<Pod>(document)
        .map_err(|error| ManifestError::Field { path: join(place, &error.path), message: error.message })?;
    warnings.extend(unknown.paths.iter().map(|path| format!("unknown field {:?}", join(place, path))));
    if unknown.more > 0 {
        warnings.push(format!("{} more unknown fields", unknown.more));
    }
    Ok(Decoded { pod, warnings })
}

fn items_of(document: &Value, warnings: Vec<String>) -> Result<Vec<Decoded>, ManifestError> {
    let items = match document.get("items") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(items)) => items,
        Some(_) => {
            let message = "cannot unmarshal into a field of type list".to_owned();
            return Err(ManifestError::Field { path: "items".to_owned(), message });
        }
    };
    let mut pods = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let carried = if index == 0 { warnings.clone() } else { Vec::new() };
        pods.push(pod_of(item, &format!("items[{index}]"), carried)?);
    }
    Ok(pods)
}

fn join(place: &str, path: &str) -> String {
    match (place, path) {
        ("", path) => path.to_owned(),
        (place, "") => place.to_owned(),
        (place, path) => format!("{place}.{path}"),
    }
}
