//! The meaning of the fields table: type checks in Go's words, defaults, and printed values.
//!
//! Pure: from JSON to JSON. It keeps nothing. Upstream gets the same from Go's decoder, its generated defaults and
//! struct tags; one table for all three keeps them from drifting apart.

use super::duration::GoDuration;
use super::fields::CONFIGURATION;
use super::fields::kinds::{Field, Kind, Printed};
use super::gates::FeatureGates;
use super::quantity_text::QuantityText;
use serde_json::{Map, Value};

/// Checks a document against the table: the known fields, without nulls, in canonical form.
///
/// Unknown fields go to `unknown` as paths (`authentication.foo`). A wrong type is an error in the words of Go's decoder;
/// the error names the first one found.
pub fn check(document: &Map<String, Value>, unknown: &mut Vec<String>) -> Result<Map<String, Value>, String> {
    let is_type_meta = |key: &str| key == "apiVersion" || key == "kind";
    let body: Map<String, Value> = document
        .iter()
        .filter(|(key, _)| !is_type_meta(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    check_object(&Place::root(), CONFIGURATION, &body, unknown)
}

/// Where in the document a check is, for error texts.
struct Place {
    /// The innermost Go struct's name.
    structure: &'static str,
    /// Keys joined by dots, without list positions: for type errors.
    keys: String,
    /// Keys with list positions: for unknown fields.
    path: String,
}

impl Place {
    fn root() -> Self {
        Self { structure: "KubeletConfiguration", keys: String::new(), path: String::new() }
    }

    fn field(&self, key: &str) -> Self {
        let join = |before: &str| if before.is_empty() { key.to_owned() } else { format!("{before}.{key}") };
        Self { structure: self.structure, keys: join(&self.keys), path: join(&self.path) }
    }

    fn inside(&self, go_type: &'static str, index: Option<usize>) -> Self {
        let structure = go_type.rsplit('.').next().unwrap_or(go_type);
        let path = index.map_or_else(|| self.path.clone(), |index| format!("{}[{index}]", self.path));
        Self { structure, keys: self.keys.clone(), path }
    }

    fn mismatch(&self, found: &str, go_type: &str) -> String {
        format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {go_type}",
            self.structure, self.keys
        )
    }
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_object(
    place: &Place,
    fields: &[Field],
    object: &Map<String, Value>,
    unknown: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let mut checked = Map::new();
    for (key, value) in object {
        let place = place.field(key);
        match fields.iter().find(|field| field.key == key) {
            None => unknown.push(place.path),
            // As Go's decoder, which leaves a field alone at null.
            Some(_) if value.is_null() => {}
            Some(field) => {
                checked.insert(key.clone(), check_value(&place, field.kind, value, unknown)?);
            }
        }
    }
    Ok(checked)
}

fn check_value(place: &Place, kind: Kind, value: &Value, unknown: &mut Vec<String>) -> Result<Value, String> {
    match kind {
        Kind::Bool if value.is_boolean() => Ok(value.clone()),
        Kind::Bool => Err(place.mismatch(describe(value), "bool")),
        Kind::Int32 => check_integer(place, value, "int32", i64::from(i32::MIN), i64::from(i32::MAX)),
        Kind::Int64 => check_integer(place, value, "int64", i64::MIN, i64::MAX),
        Kind::Unsigned => check_integer(place, value, "v1.VerbosityLevel", 0, i64::from(u32::MAX)),
        Kind::Float if value.is_number() => Ok(value.clone()),
        Kind::Float => Err(place.mismatch(describe(value), "float64")),
        Kind::Text(_) | Kind::Time if value.is_string() => Ok(value.clone()),
        Kind::Text(go_type) => Err(place.mismatch(describe(value), go_type)),
        Kind::Time => Err(place.mismatch(describe(value), "string")),
        Kind::DurationOrNumber if value.is_i64() => {
            Ok(GoDuration(value.as_i64().unwrap_or_default()).to_string().into())
        }
        Kind::Duration | Kind::DurationOrNumber => match value.as_str() {
            Some(text) => Ok(GoDuration::parse(text)?.to_string().into()),
            None => Err(place.mismatch(describe(value), "string")),
        },
        Kind::Quantity => check_quantity(place, value),
        Kind::TextList => {
            check_list(place, "[]string", value, |item| check_value(place, Kind::Text("string"), item, &mut Vec::new()))
        }
        Kind::Int32List => {
            check_list(place, "[]int32", value, |item| check_value(place, Kind::Int32, item, &mut Vec::new()))
        }
        Kind::TextMap => check_map(place, "map[string]string", value, |item| {
            check_value(place, Kind::Text("string"), item, &mut Vec::new())
        }),
        Kind::BoolMap => {
            check_map(place, "map[string]bool", value, |item| check_value(place, Kind::Bool, item, &mut Vec::new()))
        }
        Kind::HeaderMap => check_map(place, "map[string][]string", value, |item| {
            check_value(place, Kind::TextList, item, &mut Vec::new())
        }),
        Kind::QuantityMap => check_map(place, "v1.ResourceList", value, |item| check_quantity(place, item)),
        Kind::Object(go_type, fields) => match value.as_object() {
            Some(object) => check_object(&place.inside(go_type, None), fields, object, unknown).map(Value::Object),
            None => Err(place.mismatch(describe(value), go_type)),
        },
        Kind::ObjectList(go_type, fields) => {
            let mut index = 0;
            check_list(place, &format!("[]{go_type}"), value, |item| {
                let inside = place.inside(go_type, Some(index));
                index += 1;
                match item.as_object() {
                    Some(object) => check_object(&inside, fields, object, unknown).map(Value::Object),
                    None => Err(place.mismatch(describe(item), go_type)),
                }
            })
        }
    }
}

fn check_integer(place: &Place, value: &Value, go_type: &str, min: i64, max: i64) -> Result<Value, String> {
    match value {
        Value::Number(number) => match number.as_i64().filter(|integer| (min..=max).contains(integer)) {
            Some(integer) => Ok(integer.into()),
            None => Err(place.mismatch(&format!("number {number}"), go_type)),
        },
        other => Err(place.mismatch(describe(other), go_type)),
    }
}

fn check_quantity(place: &Place, value: &Value) -> Result<Value, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return Err(place.mismatch(describe(other), "resource.Quantity")),
    };
    QuantityText::parse(&text)?;
    Ok(text.into())
}

fn check_list(
    place: &Place,
    go_type: &str,
    value: &Value,
    mut item: impl FnMut(&Value) -> Result<Value, String>,
) -> Result<Value, String> {
    match value.as_array() {
        Some(items) => items.iter().map(&mut item).collect::<Result<Vec<_>, _>>().map(Value::Array),
        None => Err(place.mismatch(describe(value), go_type)),
    }
}

fn check_map(
    place: &Place,
    go_type: &str,
    value: &Value,
    mut item: impl FnMut(&Value) -> Result<Value, String>,
) -> Result<Value, String> {
    match value.as_object() {
        Some(entries) => {
            let entries = entries.iter().map(|(key, entry)| Ok((key.clone(), item(entry)?)));
            entries.collect::<Result<Map<_, _>, String>>().map(Value::Object)
        }
        None => Err(place.mismatch(describe(value), go_type)),
    }
}

/// Completes a checked document with every default.
///
/// `gates` are those of the command line; the document's own `featureGates` count over them, as upstream has it. Some
/// defaults depend on other fields of the same document; after this they no longer do.
pub fn apply_defaults(document: &mut Map<String, Value>, gates: &FeatureGates) {
    let gates = gates.with_lenient(document.get("featureGates"));
    let pulls = document.get("maxParallelImagePulls").and_then(Value::as_i64);
    if !document.contains_key("serializeImagePulls") {
        document.insert("serializeImagePulls".into(), (pulls.unwrap_or(1) < 2).into());
    }
    let (update, report) = ("nodeStatusUpdateFrequency", "nodeStatusReportFrequency");
    if is_unset(document.get(report), Kind::Duration)
        && let Some(frequency) = document.get(update).cloned()
        && !is_unset(Some(&frequency), Kind::Duration)
    {
        document.insert(report.into(), frequency);
    }
    if document.get("podPidsLimit").and_then(Value::as_i64).is_some_and(|limit| limit < 0) {
        document.insert("podPidsLimit".into(), (-1).into());
    }
    fill(document, CONFIGURATION, &|key| match key {
        "maxContainerRestartPeriod" => gates.enabled("KubeletCrashLoopBackOffMax"),
        "imagePullCredentialsVerificationPolicy" => gates.enabled("KubeletEnsureSecretPulledImages"),
        _ => true,
    });
}

fn fill(object: &mut Map<String, Value>, fields: &[Field], wanted: &dyn Fn(&str) -> bool) {
    for field in fields {
        if let Kind::Object(_, inner) = field.kind {
            // A pointer to a struct stays nil; a struct is always there.
            if field.printed != Printed::UnlessNull && !object.contains_key(field.key) {
                object.insert(field.key.into(), Value::Object(Map::new()));
            }
            if let Some(Value::Object(inside)) = object.get_mut(field.key) {
                fill(inside, inner, wanted);
            }
            continue;
        }
        let unset = match field.printed {
            Printed::UnlessNull => !object.contains_key(field.key),
            Printed::UnlessZero | Printed::Always => is_unset(object.get(field.key), field.kind),
        };
        if unset && !field.default.is_empty() && wanted(field.key) {
            let default = serde_json::from_str(field.default).expect("invariant: defaults of the table are JSON");
            object.insert(field.key.into(), default);
        }
    }
}

/// Whether Go would find the zero value in a field; an empty list or map is a value.
fn is_unset(value: Option<&Value>, kind: Kind) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(_) | Value::Object(_)) => false,
        Some(value) => is_zero(value, kind),
    }
}

fn is_zero(value: &Value, kind: Kind) -> bool {
    match (kind, value) {
        (Kind::Duration | Kind::DurationOrNumber, Value::String(text)) => {
            GoDuration::parse(text) == Ok(GoDuration::ZERO)
        }
        (_, Value::Null) => true,
        (_, Value::Bool(flag)) => !flag,
        (_, Value::Number(number)) => number.as_f64() == Some(0.0),
        (_, Value::String(text)) => text.is_empty(),
        (_, Value::Array(items)) => items.is_empty(),
        (_, Value::Object(entries)) => entries.is_empty(),
    }
}

/// Leaves of a complete configuration what upstream prints of it.
pub fn printed(document: &mut Map<String, Value>) {
    prune(document, CONFIGURATION);
}

fn prune(object: &mut Map<String, Value>, fields: &[Field]) {
    for field in fields {
        let Some(value) = object.get_mut(field.key) else { continue };
        match (field.kind, &mut *value) {
            (Kind::Object(_, inner), Value::Object(inside)) => prune(inside, inner),
            (Kind::ObjectList(_, inner), Value::Array(items)) => {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| prune(item, inner));
            }
            _ => {}
        }
        // Go's omitempty never drops a struct, and a duration is one.
        let is_struct = matches!(field.kind, Kind::Object(..) | Kind::Duration | Kind::DurationOrNumber);
        let dropped = match field.printed {
            Printed::Always => false,
            Printed::UnlessNull => value.is_null(),
            Printed::UnlessZero => value.is_null() || (!is_struct && is_zero(value, field.kind)),
        };
        if dropped {
            object.remove(field.key);
        }
    }
}
