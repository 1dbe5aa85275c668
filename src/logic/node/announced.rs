//! The last news of the Node that other actors took, so that they hear changes alone.
//!
//! Pure; owned by `NodeStatus`. News that a receiver had no room for is not noted, and is news again with the next change.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::node_status::has_changed;

/// An address of the node, with its type.
pub type NodeAddress = (String, String);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Announced {
    node: Option<Arc<Node>>,
    addresses: Vec<NodeAddress>,
}

impl Announced {
    /// The receiver has forgotten the Node.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether this Node differs from the one that was sent, heartbeats aside.
    pub fn is_news(&self, node: &Node) -> bool {
        self.node.as_ref().is_none_or(|known| differs(known, node))
    }

    /// The Node was sent.
    pub fn note(&mut self, node: Arc<Node>) {
        self.node = Some(node);
    }

    /// The addresses of this Node, where they differ from those that were sent.
    pub fn new_addresses(&self, node: &Node) -> Option<Vec<NodeAddress>> {
        let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        let addresses: Vec<_> = addresses.map(|one| (one.type_.clone(), one.address.clone())).collect();
        (self.addresses != addresses).then_some(addresses)
    }

    /// The addresses were sent.
    pub fn note_addresses(&mut self, addresses: Vec<NodeAddress>) {
        self.addresses = addresses;
    }
}

/// Whether two Nodes differ in what others go by.
fn differs(one: &Node, other: &Node) -> bool {
    let metadata = |node: &Node| {
        let metadata = &node.metadata;
        let leaves = metadata.deletion_timestamp.is_some();
        (metadata.labels.clone(), metadata.annotations.clone(), metadata.uid.clone(), leaves)
    };
    let status = |node: &Node| node.status.clone().unwrap_or_default();
    metadata(one) != metadata(other) || one.spec != other.spec || has_changed(&status(one), &status(other))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn node(label: &str, time: &str, address: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": { "labels": { "zone": label }, "resourceVersion": time },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": address }],
                "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": time }],
            },
        }))
        .expect("a Node")
    }

    #[test]
    fn a_heartbeat_is_no_news_and_a_label_is() {
        let (before, mut announced) = (node("a", "2026-01-01T00:00:00Z", "10.0.0.1"), Announced::default());
        assert!(announced.is_news(&before), "nothing was told yet");
        announced.note(Arc::new(before.clone()));
        for (other, is_news) in [
            (node("a", "2026-01-01T00:05:00Z", "10.0.0.1"), false),
            (node("b", "2026-01-01T00:00:00Z", "10.0.0.1"), true),
            (node("a", "2026-01-01T00:00:00Z", "10.0.0.2"), true),
        ] {
            assert_eq!(announced.is_news(&other), is_news, "{other:?}");
        }
        announced.forget();
        assert!(announced.is_news(&before));
    }

    /// POD-06, SEC-50.
    #[test]
    fn a_node_that_is_being_deleted_is_news() {
        let (here, mut announced) = (node("a", "2026-01-01T00:00:00Z", "10.0.0.1"), Announced::default());
        let mut leaving = here.clone();
        leaving.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        announced.note(Arc::new(here));
        assert!(announced.is_news(&leaving));
        announced.note(Arc::new(leaving.clone()));
        assert!(!announced.is_news(&leaving));
    }

    #[test]
    fn addresses_are_news_until_they_were_told() {
        let mut announced = Announced::default();
        assert_eq!(announced.new_addresses(&Node::default()), None, "none are those that were told");
        let node = node("a", "2026-01-01T00:00:00Z", "10.0.0.1");
        let addresses = vec![("InternalIP".to_owned(), "10.0.0.1".to_owned())];
        assert_eq!(announced.new_addresses(&node).as_ref(), Some(&addresses));
        announced.note_addresses(addresses.clone());
        assert_eq!(announced.new_addresses(&node), None);
        announced.forget();
        assert_eq!(announced.new_addresses(&node), Some(addresses));
    }
}
