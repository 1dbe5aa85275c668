//! A report as the API has it: the Event object, and the change of one that is there. Plain computation.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use super::Report;

/// The component that reports, as upstream names itself in Events.
const COMPONENT: &str = "kubelet";
/// Where Events are of objects that are in no namespace.
const NO_NAMESPACE: &str = "default";

impl Report {
    /// The namespace of the Event object: that of the object it is about.
    pub fn namespace(&self) -> &str {
        let own = &self.event.full_name.namespace;
        if own.is_empty() { NO_NAMESPACE } else { own }
    }

    /// The Event object, as the node of this name reports it.
    pub fn object(&self, node_name: &str) -> Event {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let event = &self.event;
        Event {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace().to_owned()),
                annotations: (!event.annotations.is_empty()).then(|| event.annotations.clone()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some(event.kind().to_owned()),
                name: Some(event.full_name.name.to_string()),
                namespace: some(&event.full_name.namespace),
                uid: some(event.uid.as_str()),
                field_path: some(&event.field_path),
                resource_version: None,
            },
            reason: Some(event.reason.to_string()),
            message: Some(event.message.clone()),
            source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: Some(node_name.to_owned()) }),
            first_timestamp: Some(Time(self.first.to_timestamp())),
            last_timestamp: Some(Time(self.last.to_timestamp())),
            count: Some(self.count),
            type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
            reporting_component: Some(COMPONENT.to_owned()),
            reporting_instance: Some(node_name.to_owned()),
            ..Event::default()
        }
    }

    /// The changes in the Event object when it is seen once more; a strategic merge patch.
    pub fn patch(&self) -> Value {
        let mut patch = json!({ "count": self.count, "lastTimestamp": Time(self.last.to_timestamp()) });
        if !self.event.message.is_empty() {
            patch["message"] = self.event.message.clone().into();
        }
        patch
    }
}
