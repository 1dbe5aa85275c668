//! Fields of JSON objects that allow no unknown ones, as in configurations of credential programs.

use serde_json::Value;

/// Refuses a value that is no object, or has a field that is not `known`.
pub(super) fn known_fields(value: &Value, known: &[&str]) -> Result<(), String> {
    let object = value.as_object().ok_or("it is not an object")?;
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(unknown) => Err(format!("strict decoding error: unknown field {unknown:?}")),
        None => Ok(()),
    }
}

/// The texts of a list; none where the field is absent.
pub(super) fn texts(value: &Value, field: &str) -> Result<Vec<String>, String> {
    let list = match value.get(field) {
        None | Some(Value::Null) => return Ok(vec![]),
        Some(list) => list.as_array().ok_or_else(|| format!("providers.{field}: is not a list"))?,
    };
    let text = |one: &Value| one.as_str().map(str::to_owned);
    list.iter().map(text).collect::<Option<_>>().ok_or_else(|| format!("providers.{field}: holds what is no text"))
}
