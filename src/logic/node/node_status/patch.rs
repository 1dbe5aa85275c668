//! The body of the PATCH on a Node's `status` subresource: a strategic merge patch from one Node to another (NODE-32).
//!
//! Pure; keeps nothing. The specification never takes part.

use k8s_openapi::api::core::v1::Node;
use serde_json::{Map, Value, json};

/// The lists of a Node that the server merges element by element, with the field that tells elements apart. Addresses
/// are declared to be one, too, but their type does not tell them apart: they are replaced as a whole.
const MERGED_LISTS: &[(&str, &str)] = &[("/status/conditions", "type")];
const ADDRESSES: &str = "/status/addresses";
const DIRECTIVE: &str = "$patch";

/// The patch that turns `before` into `after`; an empty object when they agree outside the specification.
pub fn status_patch(before: &Node, after: &Node) -> Value {
    let (mut before, mut after) = (to_value(before), to_value(after));
    for value in [&mut before, &mut after] {
        if let Value::Object(fields) = value {
            fields.remove("spec");
        }
    }
    difference("", &before, &after).unwrap_or_else(|| json!({}))
}

fn to_value(node: &Node) -> Value {
    serde_json::to_value(node).expect("invariant: a Node has text keys and finite numbers")
}

/// `None` when there is nothing to patch. `path` as in a JSON pointer; keys with slashes need no escape, since no list
/// lies below one.
fn difference(path: &str, before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => Some(Value::Object(objects(path, before, after))),
        (_, Value::Array(after)) if path == ADDRESSES => {
            let replace = json!({ DIRECTIVE: "replace" });
            Some(after.iter().cloned().chain([replace]).collect())
        }
        _ => Some(after.clone()),
    }
}

fn objects(path: &str, before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, value) in after {
        let path = format!("{path}/{key}");
        let known = before.get(key).unwrap_or(&Value::Null);
        let merged = MERGED_LISTS.iter().find(|(list, _)| *list == path);
        match (merged, value) {
            (Some((_, identity)), Value::Array(elements)) if known != value => {
                let known = known.as_array().map(Vec::as_slice).unwrap_or_default();
                merge_list(key, identity, known, elements, &mut patch);
            }
            _ => {
                if let Some(change) = difference(&path, known, value) {
                    patch.insert(key.clone(), change);
                }
            }
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch
}

/// Changed and new elements, those to delete, and the order of all, as upstream's library writes it.
fn merge_list(key: &str, identity: &str, before: &[Value], after: &[Value], patch: &mut Map<String, Value>) {
    let same = |one: &Value, other: &Value| one.get(identity) == other.get(identity);
    let mut changes: Vec<Value> = vec![];
    for element in after {
        match before.iter().find(|known| same(known, element)) {
            None => changes.push(element.clone()),
            Some(Value::Object(known)) if known != element.as_object().unwrap_or(known) => {
                let mut change = objects("", known, element.as_object().unwrap_or(known));
                change.insert(identity.to_owned(), element[identity].clone());
                changes.push(Value::Object(change));
            }
            Some(_) => {}
        }
    }
    for gone in before.iter().filter(|known| !after.iter().any(|element| same(known, element))) {
        changes.push(json!({ DIRECTIVE: "delete", identity: gone[identity] }));
    }
    let order: Vec<Value> = after.iter().map(|element| json!({ identity: element[identity] })).collect();
    patch.insert(format!("$setElementOrder/{key}"), Value::Array(order));
    if !changes.is_empty() {
        patch.insert(key.to_owned(), Value::Array(changes));
    }
}

#[cfg(test)]
pub(super) mod tests;
