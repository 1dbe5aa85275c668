//! Whether a status says anything new, heartbeats aside (NODE-29).
//!
//! Pure; keeps nothing.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::logic::model::quantity::Quantity;

/// Whether two statuses differ in more than `lastHeartbeatTime`, the order of conditions, and the notation of amounts.
/// Nothing and an empty list are the same, as for upstream.
pub fn has_changed(before: &NodeStatus, after: &NodeStatus) -> bool {
    conditions(before) != conditions(after) || rest(before) != rest(after)
}

fn conditions(status: &NodeStatus) -> Vec<NodeCondition> {
    let mut conditions = status.conditions.clone().unwrap_or_default();
    for condition in &mut conditions {
        condition.last_heartbeat_time = None;
    }
    conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
    conditions
}

fn rest(status: &NodeStatus) -> NodeStatus {
    let mut rest = NodeStatus { conditions: None, ..status.clone() };
    drop_empty(&mut rest.addresses);
    drop_empty(&mut rest.declared_features);
    drop_empty(&mut rest.images);
    drop_empty(&mut rest.runtime_handlers);
    drop_empty(&mut rest.volumes_attached);
    drop_empty(&mut rest.volumes_in_use);
    for image in rest.images.iter_mut().flatten() {
        drop_empty(&mut image.names);
        image.size_bytes = image.size_bytes.filter(|bytes| *bytes != 0);
    }
    for handler in rest.runtime_handlers.iter_mut().flatten() {
        handler.name = handler.name.take().filter(|name| !name.is_empty());
    }
    rest.capacity = canonical(rest.capacity);
    rest.allocatable = canonical(rest.allocatable);
    rest
}

fn drop_empty<T>(list: &mut Option<Vec<T>>) {
    if list.as_ref().is_some_and(Vec::is_empty) {
        *list = None;
    }
}

fn canonical(list: Option<BTreeMap<String, ApiQuantity>>) -> Option<BTreeMap<String, ApiQuantity>> {
    let amount = |text: ApiQuantity| match Quantity::parse(&text.0) {
        // A sum is in the notation of its first part, so every amount is compared in decimal notation.
        Ok(amount) => ApiQuantity(Quantity::from_milli(1).plus(amount).to_string()),
        Err(_) => text,
    };
    let list = list.filter(|list| !list.is_empty())?;
    Some(list.into_iter().map(|(name, text)| (name, amount(text))).collect())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeAddress;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::logic::model::time::Moment;

    fn time(seconds: i64) -> Option<Time> {
        Some(Time(Moment(seconds * 1_000_000_000).to_timestamp()))
    }

    fn condition(kind: &str, status: &str, heartbeat: i64, transition: i64) -> NodeCondition {
        NodeCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            last_heartbeat_time: time(heartbeat),
            last_transition_time: time(transition),
            ..NodeCondition::default()
        }
    }

    fn status(conditions: Vec<NodeCondition>, cpu: &str) -> NodeStatus {
        let capacity = [("cpu".to_owned(), ApiQuantity(cpu.to_owned()))].into();
        NodeStatus { conditions: Some(conditions), capacity: Some(capacity), ..NodeStatus::default() }
    }

    /// NODE-29.
    #[test]
    fn heartbeats_order_notation_and_emptiness_are_no_change() {
        let (one, other) = (condition("A", "True", 1, 1), condition("B", "False", 1, 1));
        let before = status(vec![one.clone(), other.clone()], "4");
        for (after, changed) in [
            (before.clone(), false),
            (status(vec![condition("A", "True", 9, 1), other.clone()], "4"), false),
            (status(vec![other.clone(), one.clone()], "4000m"), false),
            (NodeStatus { images: Some(vec![]), ..before.clone() }, false),
            (status(vec![condition("A", "True", 1, 2), other.clone()], "4"), true),
            (status(vec![condition("A", "False", 1, 1), other.clone()], "4"), true),
            (status(vec![one.clone()], "4"), true),
            (status(vec![one, other], "5"), true),
            (NodeStatus { addresses: Some(vec![NodeAddress::default()]), ..before.clone() }, true),
            (NodeStatus { volumes_in_use: Some(vec!["v".to_owned()]), ..before.clone() }, true),
        ] {
            assert_eq!(has_changed(&before, &after), changed, "{after:?}");
            assert_eq!(has_changed(&after, &before), changed, "{after:?}");
        }
    }

    #[test]
    fn amounts_that_differ_a_little_differ() {
        for (one, other, changed) in
            [("1Ki", "1024", false), ("0", "0Gi", false), ("1", "1001m", true), ("8Gi", "8589934593", true)]
        {
            assert_eq!(has_changed(&status(vec![], one), &status(vec![], other)), changed, "{one} {other}");
        }
    }
}
