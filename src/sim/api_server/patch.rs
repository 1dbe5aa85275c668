//! The three kinds of patches, as the API server applies them to an object. Pure.
//!
//! A strategic merge patch merges some lists by a key of their items; which, is part of each type. Here the names of the
//! fields are enough to tell.

use std::fmt;

use serde_json::{Map, Value};

/// Lists that are merged, and by which key.
const MERGED: [(&str, &str); 11] = [
    ("conditions", "type"),
    ("addresses", "type"),
    ("podIPs", "ip"),
    ("hostIPs", "ip"),
    ("resourceClaimStatuses", "name"),
    ("ownerReferences", "uid"),
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("imagePullSecrets", "name"),
];

/// Why a patch does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Applies the patch of this content type.
///
/// # Errors
/// When it is of no known kind, or does not fit the object.
pub fn apply(object: &mut Value, content_type: &str, patch: &Value) -> Result<(), Wrong> {
    match content_type {
        "application/strategic-merge-patch+json" => strategic(object, patch),
        "application/merge-patch+json" => merge(object, patch),
        "application/json-patch+json" => {
            let operations = patch.as_array().ok_or_else(|| Wrong("a JSON patch is a list".to_owned()))?;
            return operations.iter().try_for_each(|operation| one_operation(object, operation));
        }
        other => return Err(Wrong(format!("the body of the request was in an unknown format - {other:?}"))),
    }
    Ok(())
}

/// RFC 7386.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *object = patch.clone();
        return;
    };
    let fields = fields_of(object);
    for (field, change) in changes {
        if change.is_null() {
            fields.remove(field);
        } else {
            merge(fields.entry(field.clone()).or_insert(Value::Null), change);
        }
    }
}

fn fields_of(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    object.as_object_mut().expect("made one")
}

fn strategic(object: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *object = patch.clone();
        return;
    };
    let fields = fields_of(object);
    if changes.get("$patch").is_some_and(|directive| directive == "replace") {
        *fields = changes.iter().filter(|(field, _)| *field != "$patch").map(|(k, v)| (k.clone(), v.clone())).collect();
        return;
    }
    for (field, change) in changes.iter().filter(|(field, _)| !field.starts_with('$')) {
        match (change, MERGED.iter().find(|(list, _)| list == field)) {
            (Value::Null, _) => drop(fields.remove(field)),
            (Value::Array(items), Some((_, key))) => {
                merge_list(fields.entry(field.clone()).or_insert_with(|| Value::Array(vec![])), items, key);
            }
            (Value::Array(_), None) => drop(fields.insert(field.clone(), change.clone())),
            _ => strategic(fields.entry(field.clone()).or_insert(Value::Null), change),
        }
    }
    for (directive, named) in changes {
        let Some((kind, list)) = directive.split_once('/') else { continue };
        let (Some(Value::Array(items)), Some(named)) = (fields.get_mut(list), named.as_array()) else { continue };
        match (kind, MERGED.iter().find(|(merged, _)| *merged == list)) {
            ("$setElementOrder", Some((_, key))) => reorder(items, named, |item| &item[*key]),
            ("$deleteFromPrimitiveList", _) => items.retain(|item| !named.contains(item)),
            _ => {}
        }
    }
}

fn merge_list(list: &mut Value, changes: &[Value], key: &str) {
    if !list.is_array() {
        *list = Value::Array(vec![]);
    }
    let items = list.as_array_mut().expect("made one");
    if changes.iter().any(|change| change["$patch"] == "replace") {
        *items = changes.iter().filter(|change| change.get("$patch").is_none()).cloned().collect();
        return;
    }
    for change in changes {
        let place = items.iter().position(|item| item[key] == change[key]);
        match (place, change["$patch"] == "delete") {
            (Some(place), true) => drop(items.remove(place)),
            (None, true) => {}
            (Some(place), false) => strategic(&mut items[place], change),
            (None, false) => {
                let mut new = Value::Object(Map::new());
                strategic(&mut new, change);
                items.push(new);
            }
        }
    }
}

/// Puts items in the order named; those that are not named keep their places behind.
fn reorder(items: &mut [Value], named: &[Value], key: impl Fn(&Value) -> &Value) {
    let rank = |item: &Value| named.iter().position(|one| key(one) == key(item)).unwrap_or(named.len());
    items.sort_by_key(rank);
}

fn one_operation(object: &mut Value, operation: &Value) -> Result<(), Wrong> {
    let text = |field: &str| operation[field].as_str().unwrap_or_default();
    let (verb, path) = (text("op"), text("path"));
    let missing = || Wrong(format!("{verb} operation does not apply: doc is missing path: {path}: missing value"));
    let (parent, last) = path.rsplit_once('/').ok_or_else(missing)?;
    let last = last.replace("~1", "/").replace("~0", "~");
    if verb == "test" {
        return if object.pointer(path) == Some(&operation["value"]) { Ok(()) } else { Err(missing()) };
    }
    match (object.pointer_mut(parent).ok_or_else(missing)?, verb) {
        (Value::Object(fields), "add") => drop(fields.insert(last, operation["value"].clone())),
        (Value::Object(fields), "replace") => *fields.get_mut(&last).ok_or_else(missing)? = operation["value"].clone(),
        (Value::Object(fields), "remove") => drop(fields.remove(&last).ok_or_else(missing)?),
        (Value::Array(items), "add") if last == "-" => items.push(operation["value"].clone()),
        (Value::Array(items), verb) => {
            let place: usize = last.parse().map_err(|_| missing())?;
            match verb {
                "add" if place <= items.len() => items.insert(place, operation["value"].clone()),
                "replace" if place < items.len() => items[place] = operation["value"].clone(),
                "remove" if place < items.len() => drop(items.remove(place)),
                _ => return Err(missing()),
            }
        }
        _ => return Err(missing()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(kind: &str, object: Value, patch: Value) -> Value {
        let mut object = object;
        apply(&mut object, &format!("application/{kind}-patch+json"), &patch).expect("it applies");
        object
    }

    #[test]
    fn conditions_are_merged_by_their_type_and_other_lists_replaced() {
        let before = json!({ "status": {
            "conditions": [{ "type": "Ready", "status": "False", "reason": "x" }, { "type": "Other", "status": "True" }],
            "containerStatuses": [{ "name": "a" }, { "name": "b" }],
        }});
        let patch = json!({ "status": {
            "conditions": [{ "type": "Ready", "status": "True", "reason": null }, { "type": "New", "status": "True" },
                           { "$patch": "delete", "type": "Other" }],
            "$setElementOrder/conditions": [{ "type": "New" }, { "type": "Ready" }],
            "containerStatuses": [{ "name": "b" }],
        }});
        let after = json!({ "status": {
            "conditions": [{ "type": "New", "status": "True" }, { "type": "Ready", "status": "True" }],
            "containerStatuses": [{ "name": "b" }],
        }});
        assert_eq!(applied("strategic-merge", before, patch), after);
    }

    #[test]
    fn nothing_takes_a_field_away() {
        for kind in ["strategic-merge", "merge"] {
            let after = applied(kind, json!({ "a": { "b": 1, "c": 2 } }), json!({ "a": { "b": null, "d": [1] } }));
            assert_eq!(after, json!({ "a": { "c": 2, "d": [1] } }), "{kind}");
        }
    }

    #[test]
    fn operations_come_one_after_another() {
        let patch = json!([
            { "op": "test", "path": "/a/0", "value": 1 }, { "op": "add", "path": "/a/-", "value": 3 },
            { "op": "remove", "path": "/a/0" }, { "op": "replace", "path": "/b~1c", "value": 9 },
        ]);
        assert_eq!(applied("json", json!({ "a": [1, 2], "b/c": 0 }), patch), json!({ "a": [2, 3], "b/c": 9 }));
        let wrong = json!([{ "op": "remove", "path": "/x" }]);
        assert!(apply(&mut json!({}), "application/json-patch+json", &wrong).is_err());
    }
}
