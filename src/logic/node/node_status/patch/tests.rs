//! Cases of patches, and a server that applies them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeAddress, NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use proptest::prelude::*;

use super::*;

fn node(value: Value) -> Node {
    serde_json::from_value(value).expect("a Node")
}

#[test]
fn a_heartbeat_is_a_small_patch() {
    let with_time = |time: &str| {
        node(json!({ "status": { "conditions": [
            { "type": "NetworkUnavailable", "status": "False" },
            { "type": "Ready", "status": "True", "lastHeartbeatTime": time },
        ]}}))
    };
    let patch = status_patch(&with_time("2026-01-01T00:00:00Z"), &with_time("2026-01-01T00:05:00Z"));
    let expected = json!({ "status": {
        "$setElementOrder/conditions": [{ "type": "NetworkUnavailable" }, { "type": "Ready" }],
        "conditions": [{ "type": "Ready", "lastHeartbeatTime": "2026-01-01T00:05:00Z" }],
    }});
    assert_eq!(patch, expected);
}

/// NODE-32.
#[test]
fn addresses_are_replaced_as_a_whole() {
    let before = node(json!({ "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }] }}));
    let after = node(json!({ "status": { "addresses": [
        { "type": "InternalIP", "address": "10.0.0.2" },
        { "type": "InternalIP", "address": "fd00::2" },
    ]}}));
    let expected = json!({ "status": { "addresses": [
        { "type": "InternalIP", "address": "10.0.0.2" },
        { "type": "InternalIP", "address": "fd00::2" },
        { "$patch": "replace" },
    ]}});
    assert_eq!(status_patch(&before, &after), expected);
    assert_eq!(status_patch(&before, &before), json!({}));
}

/// NODE-32.
#[test]
fn the_specification_never_takes_part_and_metadata_does() {
    let before = node(json!({
        "metadata": { "labels": { "a": "1" }, "annotations": { "old.example/x": "1" } },
        "spec": { "podCIDR": "10.1.0.0/24" },
    }));
    let after = node(json!({
        "metadata": { "labels": { "a": "1", "kubernetes.io/os": "linux" } },
        "spec": { "unschedulable": true },
    }));
    let expected = json!({ "metadata": { "annotations": null, "labels": { "kubernetes.io/os": "linux" } }});
    assert_eq!(status_patch(&before, &after), expected);
}

#[test]
fn resources_that_go_are_removed_by_name() {
    let before = node(json!({ "status": { "capacity": { "cpu": "4", "hugepages-64Ki": "0" } }}));
    let after = node(json!({ "status": { "capacity": { "cpu": "8" } }}));
    let expected = json!({ "status": { "capacity": { "cpu": "8", "hugepages-64Ki": null } }});
    assert_eq!(status_patch(&before, &after), expected);
}

#[test]
fn a_condition_that_goes_is_deleted_by_type() {
    let before = node(json!({ "status": { "conditions": [{ "type": "A", "status": "True" }] }}));
    let after = node(json!({ "status": { "conditions": [{ "type": "B", "status": "True" }] }}));
    let expected = json!({ "status": {
        "$setElementOrder/conditions": [{ "type": "B" }],
        "conditions": [{ "type": "B", "status": "True" }, { "$patch": "delete", "type": "A" }],
    }});
    assert_eq!(status_patch(&before, &after), expected);
}

/// Applies a patch as the API server does: maps merged, null removes, conditions by type, other lists replaced.
pub(crate) fn apply(target: &mut Value, patch: &Value) {
    let (Value::Object(target), Value::Object(patch)) = (target, patch) else { panic!("both are objects") };
    for (key, change) in patch {
        if let Some(list) = key.strip_prefix("$setElementOrder/") {
            let known: Vec<Value> = target.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
            let changes = patch.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
            let sorted = change.as_array().expect("an order").iter().map(|place| {
                let mut element = known.iter().find(|one| one["type"] == place["type"]).cloned().unwrap_or(json!({}));
                if let Some(change) = changes.iter().find(|one| one["type"] == place["type"]) {
                    apply(&mut element, change);
                }
                element
            });
            let sorted = sorted.collect();
            target.insert(list.to_owned(), sorted);
        } else if patch.contains_key(&format!("$setElementOrder/{key}")) {
            continue;
        } else if change.is_null() {
            target.remove(key);
        } else if let (Value::Object(_), Some(Value::Object(_))) = (change, target.get(key)) {
            apply(target.get_mut(key).expect("just seen"), change);
        } else {
            let mut change = change.clone();
            if let Value::Array(elements) = &mut change {
                elements.retain(|element| element.get("$patch").is_none());
            }
            target.insert(key.clone(), change);
        }
    }
}

fn a_node() -> impl Strategy<Value = Node> {
    let conditions = proptest::collection::btree_map("[A-E]", ("True|False", 0_i64..3), 1..5);
    let addresses = proptest::collection::vec(("InternalIP|Hostname", "[a-c]"), 1..4);
    let capacity = proptest::collection::btree_map("cpu|memory|x.y/[a-c]", "[0-9]", 1..5);
    let labels = proptest::collection::btree_map("k/[a-c]", "[a-c]", 1..4);
    (conditions, addresses, capacity, labels).prop_map(|(conditions, addresses, capacity, labels)| {
        let conditions = conditions.into_iter().map(|(kind, (status, message))| NodeCondition {
            type_: kind,
            status,
            message: (message > 0).then(|| message.to_string()),
            ..NodeCondition::default()
        });
        let addresses = addresses.into_iter().map(|(type_, address)| NodeAddress { type_, address });
        let amounts: BTreeMap<_, _> = capacity.into_iter().map(|(name, text)| (name, ApiQuantity(text))).collect();
        let status = NodeStatus {
            conditions: Some(conditions.collect()),
            addresses: Some(addresses.collect()),
            capacity: Some(amounts),
            ..NodeStatus::default()
        };
        let mut node = Node { status: Some(status), ..Node::default() };
        node.metadata.labels = Some(labels);
        node
    })
}

proptest! {
    #[test]
    fn a_patched_node_is_the_wanted_one(before in a_node(), after in a_node()) {
        let patch = status_patch(&before, &after);
        let mut patched = to_value(&before);
        apply(&mut patched, &patch);
        prop_assert_eq!(patched, to_value(&after), "{}", patch);
    }

    #[test]
    fn equal_nodes_need_no_patch(one in a_node()) {
        prop_assert_eq!(status_patch(&one, &one), json!({}));
    }
}
