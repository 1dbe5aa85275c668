//! The patch of a pod's status, and whether the API server took it over (POD-34; upstream's `PatchPodStatus`). Pure; keeps
//! nothing.
//!
//! A strategic merge patch keeps every field that it does not name, at every depth: a field that goes is named as null.

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Map, Value, json};

/// Lists that a strategic merge patch merges, and by which key. All other lists are replaced.
const MERGED_LISTS: [(&str, &str); 4] =
    [("conditions", "type"), ("podIPs", "ip"), ("hostIPs", "ip"), ("resourceClaimStatuses", "name")];
/// The beginning of a field that only says in which order a merged list is.
const ORDER: &str = "$setElementOrder/";
/// The field of an item that says what becomes of the item.
const DIRECTIVE: &str = "$patch";

type Fields = Map<String, Value>;

/// The strategic merge patch that turns one status into the other; `None` where nothing differs. With the UID as a
/// precondition: it cannot meet another pod of the same name.
pub fn patch(from: &PodStatus, to: &PodStatus, uid: &str) -> Option<Value> {
    if from == to {
        return None; // As after each echo of the agent's own patches: then no tree is made.
    }
    let changes = changes(&fields_of(from), &fields_of(to));
    (!changes.is_empty()).then(|| json!({"metadata": {"uid": uid}, "status": changes}))
}

/// The path of the first field that a status has otherwise than the patch says: the API server answered the patch and did
/// not take that field over. `None` where the status has all of the patch.
pub fn not_taken(patch: &Value, status: &PodStatus) -> Option<String> {
    let changes = patch["status"].as_object()?;
    lacks(changes, &fields_of(status), "status")
}

fn fields_of(status: &PodStatus) -> Fields {
    match serde_json::to_value(status) {
        // A list of nothing is no list, and an API server cannot merge one.
        Ok(Value::Object(mut fields)) => {
            fields.retain(|_, value| value.as_array().is_none_or(|items| !items.is_empty()));
            fields
        }
        _ => unreachable!("a status is an object"),
    }
}

/// The key by which the list of this name is merged.
pub(super) fn merge_key(field: &str) -> Option<&'static str> {
    MERGED_LISTS.iter().find(|(list, _)| *list == field).map(|(_, key)| *key)
}

fn changes(from: &Fields, to: &Fields) -> Fields {
    let mut changes = Fields::new();
    for (field, after) in to {
        let before = from.get(field);
        if before == Some(after) {
            continue;
        }
        let change = match (before, after, merge_key(field)) {
            (_, Value::Array(items), Some(key)) => {
                changes.insert(format!("{ORDER}{field}"), items.iter().map(|item| json!({key: item[key]})).collect());
                list_changes(before.and_then(Value::as_array).map_or(&[], Vec::as_slice), items, key)
            }
            (Some(Value::Object(before)), Value::Object(after), _) => self::changes(before, after).into(),
            _ => after.clone(),
        };
        changes.insert(field.clone(), change);
    }
    changes.extend(from.keys().filter(|field| !to.contains_key(*field)).map(|field| (field.clone(), Value::Null)));
    changes
}

/// The items of a merged list that are new or changed, and the names of those that go.
fn list_changes(before: &[Value], after: &[Value], key: &str) -> Value {
    let mut items = Vec::new();
    for item in after {
        match (find(before, item, key), item) {
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                let mut change = changes(old, new);
                change.insert(key.to_owned(), item[key].clone());
                items.push(change.into());
            }
            _ => items.push(item.clone()),
        }
    }
    let gone = before.iter().filter(|item| find(after, item, key).is_none());
    items.extend(gone.map(|item| json!({DIRECTIVE: "delete", key: item[key]})));
    Value::Array(items)
}

fn find<'a>(list: &'a [Value], item: &Value, key: &str) -> Option<&'a Value> {
    list.iter().find(|other| other[key] == item[key])
}

fn lacks(changes: &Fields, has: &Fields, path: &str) -> Option<String> {
    let named = changes.iter().filter(|(field, _)| !field.starts_with(ORDER));
    named.into_iter().find_map(|(field, change)| {
        let (path, has) = (format!("{path}.{field}"), has.get(field));
        match (change, has, merge_key(field)) {
            (Value::Null, has, _) => has.is_some().then_some(path),
            (Value::Array(items), has, Some(key)) => {
                let list = has.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                items.iter().find_map(|item| item_lacks(item, list, key, &path))
            }
            (Value::Object(change), Some(Value::Object(has)), _) => lacks(change, has, &path),
            (change, has, _) => (has != Some(change)).then_some(path),
        }
    })
}

fn item_lacks(change: &Value, list: &[Value], key: &str, path: &str) -> Option<String> {
    let path = format!("{path}[{}]", change[key].as_str().unwrap_or_default());
    let has = find(list, change, key);
    if change.get(DIRECTIVE).is_some() {
        return has.is_some().then_some(path);
    }
    match (change, has) {
        (Value::Object(change), Some(Value::Object(has))) => lacks(change, has, &path),
        _ => Some(path),
    }
}
