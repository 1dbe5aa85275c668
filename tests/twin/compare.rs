//! Compares the facts of both sides: every leaf, each difference with its path.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The fields by which the items of a list are told apart.
const KEYS: [&str; 6] = ["name", "type", "container_path", "key", "mountPath", "ip"];
/// The order of a list whose items have keys.
const ORDER: &str = "(order)";
/// A value that one side does not have.
const ABSENT: &str = "(absent)";

/// The mark of what happened so seldom that it says nothing.
pub const FEW: &str = "few";
/// The end of keys of durations: ours may be twice as long as theirs, and a second more.
const SECONDS: &str = " (seconds)";

/// One leaf that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The steps to the leaf, parted by `/`.
    pub path: String,
    /// The value on our node.
    pub ours: String,
    /// The value on upstream's node.
    pub theirs: String,
}

/// All differences, in the order of paths.
pub fn differences(ours: &Value, theirs: &Value) -> Vec<Difference> {
    let mut found = vec![];
    compare(&keyed(ours), &keyed(theirs), "", &mut found);
    found
}

fn compare(ours: &Value, theirs: &Value, path: &str, found: &mut Vec<Difference>) {
    if is_few(ours) || is_few(theirs) || is_in_time(path, ours, theirs) {
        return;
    }
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}/{key}") };
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            let is_order_of_different = ours.contains_key(ORDER) && !same_keys(ours, theirs);
            for key in keys {
                // Which items there are is told by the items.
                if key == ORDER && is_order_of_different {
                    continue;
                }
                compare_field(ours.get(key), theirs.get(key), &below(key), found);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if is_of_objects(ours) || is_of_objects(theirs) => {
            // How often a call is made is told by the order of calls; here are those that both made.
            for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                compare(ours, theirs, &below(&at.to_string()), found);
            }
            if path.contains("/calls/") {
                return;
            }
            let longer = ours.len().max(theirs.len());
            for at in ours.len().min(theirs.len())..longer {
                compare_field(ours.get(at), theirs.get(at), &below(&at.to_string()), found);
            }
        }
        _ if ours != theirs => {
            found.push(Difference { path: path.to_owned(), ours: shown(ours), theirs: shown(theirs) });
        }
        _ => {}
    }
}

fn compare_field(ours: Option<&Value>, theirs: Option<&Value>, path: &str, found: &mut Vec<Difference>) {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => compare(ours, theirs, path, found),
        (ours, theirs) if ours.is_some_and(is_few) || theirs.is_some_and(is_few) => {}
        // A container that ends at once may end before it is probed.
        _ if path.ends_with("/calls/ExecSync") => {}
        (ours, theirs) => {
            let word = |value: Option<&Value>| value.map_or_else(|| ABSENT.to_owned(), shown);
            found.push(Difference { path: path.to_owned(), ours: word(ours), theirs: word(theirs) });
        }
    }
}

fn is_few(value: &Value) -> bool {
    value[FEW] == true
}

fn is_in_time(path: &str, ours: &Value, theirs: &Value) -> bool {
    let times = path.ends_with(SECONDS).then(|| Some((ours.as_f64()?, theirs.as_f64()?))).flatten();
    times.is_some_and(|(ours, theirs)| ours <= 2.0 * theirs + 1.0)
}

fn same_keys(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> bool {
    ours.keys().eq(theirs.keys())
}

fn is_of_objects(items: &[Value]) -> bool {
    items.iter().any(Value::is_object)
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The same value with lists of named items as objects, so that a path names the item and not its place.
fn keyed(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(key, item)| (key.clone(), keyed(item))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => {
            let Some(keys) = KEYS.iter().find_map(|key| keys_by(items, key)) else {
                return items.iter().map(keyed).collect();
            };
            let mut fields: Map<_, _> = keys.iter().cloned().zip(items.iter().map(keyed)).collect();
            fields.insert(ORDER.to_owned(), keys.join(", ").into());
            fields.into()
        }
        other => other.clone(),
    }
}

/// The keys of all items, if each has one of its own.
fn keys_by(items: &[Value], key: &str) -> Option<Vec<String>> {
    let keys: Option<Vec<String>> = items.iter().map(|item| item[key].as_str().map(str::to_owned)).collect();
    let keys = keys.filter(|keys| !keys.is_empty())?;
    let unique: BTreeSet<&String> = keys.iter().collect();
    (unique.len() == keys.len()).then_some(keys)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(ours: Value, theirs: Value) -> Vec<String> {
        let told = |one: Difference| format!("{}: {} | {}", one.path, one.ours, one.theirs);
        differences(&ours, &theirs).into_iter().map(told).collect()
    }

    #[test]
    fn leaves_that_differ_are_told() {
        let found =
            told(json!({ "a": 1, "b": { "c": [1, 2], "d": "x" } }), json!({ "a": 1, "b": { "c": [1], "d": null } }));
        assert_eq!(found, ["b/c: [1,2] | [1]", "b/d: x | null"]);
        assert_eq!(told(json!({ "a": 1 }), json!({})), ["a: 1 | (absent)"]);
    }

    #[test]
    fn what_happened_seldom_says_nothing() {
        let (few, many) = (json!({ "e": { "few": true, "m": "a" } }), json!({ "e": { "m": "b" } }));
        assert_eq!(told(few.clone(), many.clone()), [""; 0]);
        assert_eq!(told(few, json!({})), [""; 0]);
        assert_eq!(told(many, json!({})), ["e: {\"m\":\"b\"} | (absent)"]);
    }

    #[test]
    fn ours_may_take_twice_as_long_and_a_second() {
        let times = |seconds: f64| json!({ "gone (seconds)": seconds });
        assert_eq!(told(times(5.0), times(2.0)), [""; 0]);
        assert_eq!(told(times(0.1), times(60.0)), [""; 0]);
        assert_eq!(told(times(5.1), times(2.0)), ["gone (seconds): 5.1 | 2.0"]);
    }

    #[test]
    fn named_items_are_compared_by_name() {
        let ours = json!([{ "name": "a", "v": 1 }, { "name": "b", "v": 2 }]);
        let theirs = json!([{ "name": "b", "v": 3 }, { "name": "a", "v": 1 }]);
        assert_eq!(told(ours.clone(), theirs), ["(order): a, b | b, a", "b/v: 2 | 3"]);
        assert_eq!(told(ours, json!([{ "name": "a", "v": 1 }])), ["b: {\"name\":\"b\",\"v\":2} | (absent)"]);
    }
}
