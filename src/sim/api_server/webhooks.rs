//! Admission webhooks: what they make of an object that a node sends, before it is written.

use serde_json::{Value, json};

/// Notes on the object which version of the store it met, so that each writing makes news; adds a condition to a pod's
/// status, and to a mirror that is made a container that its static pod does not have.
pub(super) fn mutate(object: &mut Value, plural: &str, is_new: bool, version: u64) {
    object["metadata"]["annotations"]["webhook.example.com/version"] = version.to_string().into();
    if plural != "pods" {
        return;
    }
    object["metadata"]["labels"]["webhook.example.com/seen"] = "yes".into();
    if is_new && let Some(containers) = object["spec"]["containers"].as_array_mut() {
        containers.push(json!({ "name": "injected", "image": "proxy:1" }));
    }
    if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
        let kind = "example.com/Seen";
        if conditions.iter().all(|one| one["type"] != kind) {
            conditions.push(json!({ "type": kind, "status": "True" }));
        }
    }
}
