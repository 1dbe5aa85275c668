//! Documents to configuration: the main file, drop-ins merged into it, defaults, and the way back to JSON.
//!
//! Pure: bytes in, values out; `files` reads and names the paths. It keeps nothing. Upstream:
//! `pkg/kubelet/kubeletconfig/util/codec/codec.go` and the merge in `cmd/kubelet/app/server.go`.

use super::gates::FeatureGates;
use super::schema;
use super::types::Config;
use crate::logic::formats::yaml::{self, Duplicates};
use serde_json::{Map, Value, json};

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";
const SCHEME: &str = "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme/scheme.go:33";

/// A decoded main file.
#[derive(Debug)]
pub struct MainFile {
    /// The configuration, with every default.
    pub config: Config,
    /// Faults that were forgiven, for the log.
    pub warnings: Vec<String>,
}

/// Decodes the file of `--config`. `gates` are those of the command line; they matter to two defaults.
///
/// Unknown fields and repeated keys are forgiven with a warning, as upstream does for v1beta1.
pub fn main_file(bytes: &[u8], gates: &FeatureGates) -> Result<MainFile, String> {
    let text = as_text(bytes).map_err(|error| format!("failed to decode: {error}"))?;
    let (value, repeated) = read(text).map_err(|error| format!("failed to decode: {error}"))?;
    let document = type_checked(&value, text).map_err(|error| format!("failed to decode: {error}"))?;
    let mut unknown = Vec::new();
    let mut fields = schema::check(document, &mut unknown).map_err(|error| format!("failed to decode: {error}"))?;
    let strict: Vec<String> =
        repeated.into_iter().chain(unknown.iter().map(|path| format!("unknown field {path:?}"))).collect();
    let warnings = if strict.is_empty() {
        Vec::new()
    } else {
        let strict = strict.join(", ");
        vec![format!("Using lenient decoding as strict decoding failed err=\"strict decoding error: {strict}\"")]
    };
    schema::apply_defaults(&mut fields, gates);
    complete_eviction(&mut fields);
    Ok(MainFile { config: from_json(fields), warnings })
}

/// The hard eviction thresholds of a node whose configuration file names none.
const EVICTION_HARD: [(&str, &str); 5] = [
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
];

/// Upstream does this while it loads the main file and nowhere else: no file, no thresholds.
pub(super) fn complete_eviction(fields: &mut Map<String, Value>) {
    let merge = fields.get("mergeDefaultEvictionSettings") == Some(&Value::Bool(true));
    let absent = !fields.contains_key("evictionHard");
    let thresholds = fields.entry("evictionHard").or_insert_with(|| json!({}));
    if let (Some(thresholds), true) = (thresholds.as_object_mut(), absent || merge) {
        for (signal, threshold) in EVICTION_HARD {
            thresholds.entry(signal).or_insert_with(|| threshold.into());
        }
    }
}

/// The configuration when there is no `--config`: the defaults, opened up as before configuration files existed.
pub fn legacy_defaults() -> Config {
    let mut config = defaults(&FeatureGates::default());
    config.authentication.anonymous.enabled = true;
    config.authentication.webhook.enabled = false;
    config.authorization.mode = "AlwaysAllow".into();
    config.read_only_port = 10_255;
    config
}

/// The defaults of a file that sets nothing, without its eviction thresholds.
pub fn defaults(gates: &FeatureGates) -> Config {
    let mut fields = Map::new();
    schema::apply_defaults(&mut fields, gates);
    from_json(fields)
}

/// Decodes one drop-in to the patch that it is. The error is what upstream says after the file's path.
pub fn drop_in(bytes: &[u8]) -> Result<Value, String> {
    let text = as_text(bytes)?;
    let (value, repeated) = read(text)?;
    if let Some(repeated) = repeated {
        return Err(format!("strict decoding error: {repeated}"));
    }
    let (kind, api_version) = type_meta(&value)?;
    if kind.is_empty() {
        return Err(missing("Kind", text));
    }
    if api_version.is_empty() {
        return Err(missing("apiVersion", text));
    }
    if (api_version, kind) != (API_VERSION, KIND) {
        return Err(format!("unknown apiVersion/kind: {api_version}, Kind={kind}"));
    }
    Ok(value)
}

/// Merges drop-ins into a configuration, in order; then defaults what they took away.
///
/// Values that once followed other fields are plain values of `base` by now and no longer follow.
pub fn merge(base: &Config, drop_ins: &[Value], gates: &FeatureGates) -> Result<Config, String> {
    let mut merged = Value::Object(printed(base));
    for patch in drop_ins {
        merge_patch(&mut merged, patch);
    }
    let decode = |merged: Value| {
        let document = merged.as_object().cloned().unwrap_or_default();
        // Unknown fields of drop-ins are dropped without a word, as upstream does.
        schema::check(&document, &mut Vec::new())
    };
    let mut fields = decode(merged)
        .map_err(|error| format!("failed to unmarshal merged JSON into kubelet configuration: {error}"))?;
    schema::apply_defaults(&mut fields, gates);
    Ok(from_json(fields))
}

/// JSON merge patch, RFC 7386: maps merge, `null` removes, anything else replaces.
pub fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge_patch(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// The configuration as upstream prints it, without kind and version.
pub fn printed(config: &Config) -> Map<String, Value> {
    let mut fields = to_json(config);
    schema::printed(&mut fields);
    fields
}

/// The configuration with every field, zero or not.
pub fn to_json(config: &Config) -> Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("invariant: the configuration is a struct of plain data"),
    }
}

/// The way back from [`to_json`]; absent fields are zero.
pub fn from_json(fields: Map<String, Value>) -> Config {
    serde_json::from_value(Value::Object(fields)).expect("invariant: the fields were checked against the table")
}

pub(super) fn as_text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())
}

/// The document, and what strict decoding has against it already.
fn read(text: &str) -> Result<(Value, Option<String>), String> {
    match yaml::to_json(text, Duplicates::Refuse) {
        Ok(value) => Ok((value, None)),
        // Only a repeated key makes the two ways of reading differ.
        Err(strict) => match yaml::to_json(text, Duplicates::LastWins) {
            Ok(value) => {
                let line = strict.line.map_or_else(String::new, |line| format!("line {line}: "));
                Ok((value, Some(format!("yaml: unmarshal errors:\n  {line}{}", strict.message))))
            }
            Err(error) => Err(format!("error converting YAML to JSON: {error}")),
        },
    }
}

fn type_meta(value: &Value) -> Result<(&str, &str), String> {
    let found = match value {
        Value::Object(_) | Value::Null => None,
        Value::String(_) => Some("string"),
        Value::Number(_) => Some("number"),
        Value::Bool(_) => Some("bool"),
        Value::Array(_) => Some("array"),
    };
    if let Some(found) = found {
        return Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct \
             {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        ));
    }
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    Ok((text("kind"), text("apiVersion")))
}

pub(super) fn type_checked<'a>(value: &'a Value, text: &str) -> Result<&'a Map<String, Value>, String> {
    let (kind, api_version) = type_meta(value)?;
    if kind.is_empty() {
        return Err(missing("Kind", text));
    }
    if api_version.is_empty() {
        return Err(missing("apiVersion", text));
    }
    if (api_version, kind) != (API_VERSION, KIND) {
        return Err(format!("no kind {kind:?} is registered for version {api_version:?} in scheme {SCHEME:?}"));
    }
    value.as_object().ok_or_else(|| missing("Kind", text))
}

fn missing(what: &str, text: &str) -> String {
    // Upstream shows the whole file here. Headers may carry credentials, and logs travel far.
    let shown = if text.contains("staticPodURLHeader") { "<masked>" } else { text };
    format!("Object '{what}' is missing in '{shown}'")
}

/// The configuration of a file that sets nothing.
pub fn file_defaults() -> Config {
    let mut fields = Map::new();
    schema::apply_defaults(&mut fields, &FeatureGates::default());
    complete_eviction(&mut fields);
    from_json(fields)
}
