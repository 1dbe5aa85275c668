//! The meaning of the fields table: type checks in Go's words, defaults, and printed values.
//!
//! Pure: from JSON to JSON. It keeps nothing. Upstream gets the same from Go's decoder, its generated defaults and
//! struct tags; one table for all three keeps them from drifting apart.

use super::duration::GoDuration;
use super::fields::CONFIGURATION;
use super::fields::kinds::{Field, Kind, Printed};
use super::gates::FeatureGates;
use super::quantity_text::QuantityText;
use crate::logic::formats::yaml::places::below;
use serde_json::{Map, Value};

/// The faults that the table finds in a document.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Fields that are not in the table.
    pub unknown: Vec<Unknown>,
    /// Values of a wrong type, in the order of the table's keys.
    pub wrong: Vec<WrongType>,
}

/// A field that is not in the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unknown {
    /// Its JSON pointer.
    pub pointer: String,
    /// Its path as upstream prints it (`authentication.foo`).
    pub path: String,
}

/// A value of a wrong type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongType {
    /// Its JSON pointer.
    pub pointer: String,
    /// The words of Go's decoder.
    pub text: String,
}

/// Checks a document against the table: the known fields, without nulls, in canonical form.
///
/// Unknown fields go to `unknown` as paths (`authentication.foo`). A wrong type is an error in the words of Go's decoder;
/// the error names the first one found.
pub fn check(document: &Map<String, Value>, unknown: &mut Vec<String>) -> Result<Map<String, Value>, String> {
    let (checked, found) = survey(document);
    if let Some(first) = found.wrong.into_iter().next() {
        return Err(first.text);
    }
    unknown.extend(found.unknown.into_iter().map(|unknown| unknown.path));
    Ok(checked)
}

/// As [`check`], but goes on: the fields that are right, and everything that is not.
pub fn survey(document: &Map<String, Value>) -> (Map<String, Value>, Findings) {
    let is_type_meta = |key: &str| key == "apiVersion" || key == "kind";
    let body: Map<String, Value> = document
        .iter()
        .filter(|(key, _)| !is_type_meta(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let mut found = Findings::default();
    let checked = check_object(&Place::root(), CONFIGURATION, &body, &mut found);
    (checked, found)
}

/// Where in the document a check is, for error texts.
struct Place {
    /// The innermost Go struct's name.
    structure: &'static str,
    /// Keys joined by dots, without list positions: for type errors.
    keys: String,
    /// Keys with list positions: for unknown fields.
    path: String,
    /// The JSON pointer.
    pointer: String,
}

impl Place {
    fn root() -> Self {
        Self { structure: "KubeletConfiguration", keys: String::new(), path: String::new(), pointer: String::new() }
    }

    fn field(&self, key: &str) -> Self {
        let join = |before: &str| if before.is_empty() { key.to_owned() } else { format!("{before}.{key}") };
        let pointer = below(&self.pointer, key);
        Self { structure: self.structure, keys: join(&self.keys), path: join(&self.path), pointer }
    }

    /// An entry of a list or map; Go's errors name the field that holds it.
    fn entry(&self, key: &str) -> Self {
        let pointer = below(&self.pointer, key);
        Self { structure: self.structure, keys: self.keys.clone(), path: self.path.clone(), pointer }
    }

    fn inside(&self, go_type: &'static str, index: Option<usize>) -> Self {
        let structure = go_type.rsplit('.').next().unwrap_or(go_type);
        let path = index.map_or_else(|| self.path.clone(), |index| format!("{}[{index}]", self.path));
        Self { structure, keys: self.keys.clone(), path, pointer: self.pointer.clone() }
    }

    fn mismatch(&self, found: &str, go_type: &str) -> WrongType {
        self.wrong(format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {go_type}",
            self.structure, self.keys
        ))
    }

    fn wrong(&self, text: String) -> WrongType {
        WrongType { pointer: self.pointer.clone(), text }
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
    found: &mut Findings,
) -> Map<String, Value> {
    let mut checked = Map::new();
    for (key, value) in object {
        let place = place.field(key);
        match fields.iter().find(|field| field.key == key) {
            None => found.unknown.push(Unknown { pointer: place.pointer, path: place.path }),
            // As Go's decoder, which leaves a field alone at null.
            Some(_) if value.is_null() => {}
            Some(field) => {
                let value = check_value(&place, field.kind, value, found);
                checked.extend(value.map(|value| (key.clone(), value)));
            }
        }
    }
    checked
}

fn check_value(place: &Place, kind: Kind, value: &Value, found: &mut Findings) -> Option<Value> {
    match kind {
        Kind::TextList => check_list(place, "[]string", value, Kind::Text("string"), found),
        Kind::Int32List => check_list(place, "[]int32", value, Kind::Int32, found),
        Kind::TextMap => check_map(place, "map[string]string", value, Kind::Text("string"), found),
        Kind::BoolMap => check_map(place, "map[string]bool", value, Kind::Bool, found),
        Kind::HeaderMap => check_map(place, "map[string][]string", value, Kind::TextList, found),
        Kind::QuantityMap => check_map(place, "v1.ResourceList", value, Kind::Quantity, found),
        Kind::Object(go_type, fields) => match value.as_object() {
            Some(object) => Some(Value::Object(check_object(&place.inside(go_type, None), fields, object, found))),
            None => note(found, Err(place.mismatch(describe(value), go_type))),
        },
        Kind::ObjectList(go_type, fields) => check_objects(place, go_type, fields, value, found),
        _ => note(found, check_scalar(place, kind, value)),
    }
}

/// The value, or `None` once its fault is among the findings.
fn note(found: &mut Findings, checked: Result<Value, WrongType>) -> Option<Value> {
    checked.map_err(|wrong| found.wrong.push(wrong)).ok()
}

fn check_scalar(place: &Place, kind: Kind, value: &Value) -> Result<Value, WrongType> {
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
        Kind::DurationOrNumber if value.is_i64() => {
            Ok(GoDuration(value.as_i64().unwrap_or_default()).to_string().into())
        }
        Kind::Duration | Kind::DurationOrNumber => match value.as_str() {
            Some(text) => match GoDuration::parse(text) {
                Ok(duration) => Ok(duration.to_string().into()),
                Err(error) => Err(place.wrong(error)),
            },
            None => Err(place.mismatch(describe(value), "string")),
        },
        Kind::Quantity => check_quantity(place, value),
        _ => Err(place.mismatch(describe(value), "string")),
    }
}

/// Go prints no fraction of a whole number.
fn as_go_prints(float: &Value) -> Value {
    let whole = float.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < f64::from(i32::MAX));
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and in the range of an int32")]
    whole.map_or_else(|| float.clone(), |whole| Value::from(whole as i64))
}

fn check_integer(place: &Place, value: &Value, go_type: &str, min: i64, max: i64) -> Result<Value, WrongType> {
    match value {
        Value::Number(number) => match number.as_i64().filter(|integer| (min..=max).contains(integer)) {
            Some(integer) => Ok(integer.into()),
            None => Err(place.mismatch(&format!("number {number}"), go_type)),
        },
        other => Err(place.mismatch(describe(other), go_type)),
    }
}

fn check_quantity(place: &Place, value: &Value) -> Result<Value, WrongType> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return Err(place.mismatch(describe(other), "resource.Quantity")),
    };
    QuantityText::parse(&text).map_err(|error| place.wrong(error))?;
    Ok(text.into())
}

fn check_list(place: &Place, go_type: &str, value: &Value, item: Kind, found: &mut Findings) -> Option<Value> {
    let Some(items) = value.as_array() else {
        return note(found, Err(place.mismatch(describe(value), go_type)));
    };
    let items = items.iter().enumerate();
    Some(items.filter_map(|(index, value)| check_value(&place.entry(&index.to_string()), item, value, found)).collect())
}

fn check_map(place: &Place, go_type: &str, value: &Value, item: Kind, found: &mut Findings) -> Option<Value> {
    let Some(entries) = value.as_object() else {
        return note(found, Err(place.mismatch(describe(value), go_type)));
    };
    let checked = entries
        .iter()
        .filter_map(|(key, value)| Some((key.clone(), check_value(&place.entry(key), item, value, found)?)));
    Some(Value::Object(checked.collect()))
}

fn check_objects(
    place: &Place,
    go_type: &'static str,
    fields: &[Field],
    value: &Value,
    found: &mut Findings,
) -> Option<Value> {
    let Some(items) = value.as_array() else {
        return note(found, Err(place.mismatch(describe(value), &format!("[]{go_type}"))));
    };
    let mut checked = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let place = place.entry(&index.to_string());
        match item.as_object() {
            Some(object) => {
                let inside = place.inside(go_type, Some(index));
                checked.push(Value::Object(check_object(&inside, fields, object, found)));
            }
            None => found.wrong.push(place.mismatch(describe(item), go_type)),
        }
    }
    Some(Value::Array(checked))
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
            (Kind::Float, float) => *float = as_go_prints(float),
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
