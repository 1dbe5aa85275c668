//! The newest Node object that is known, and which one that is.
//!
//! Pure; owned by `NodeStatus`. The API server's Node counts; while there is none, the one to register with does.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::node_status::{NodeEvent, schedulable_event};
use crate::logic::model::time::Moment;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct KnownNode {
    /// The newest that the API server gave.
    stored: Option<Arc<Node>>,
    /// The one to register with, as it was made last.
    initial: Option<Arc<Node>>,
}

impl KnownNode {
    /// The Node to register with was made.
    pub fn prepare(&mut self, initial: Node) {
        self.initial = Some(Arc::new(initial));
    }

    /// The API server's newest Node.
    pub fn stored(&self) -> Option<&Arc<Node>> {
        self.stored.as_ref()
    }

    /// The newest Node; the one to register with before there is another.
    pub fn newest(&self) -> Option<Arc<Node>> {
        self.stored.clone().or_else(|| self.initial.clone())
    }

    /// Whether a Node of a watch's event, or of an answer, is no earlier state than the known one.
    pub fn is_news(&self, node: &Node) -> bool {
        self.stored.as_ref().is_none_or(|known| !is_older(node, known))
    }

    /// Whether the API server has a Node for the first time, or another one than before.
    pub fn is_another(&self, node: &Node) -> bool {
        self.stored.as_ref().is_none_or(|known| known.metadata.uid != node.metadata.uid)
    }

    /// Takes the API server's newest Node; gives the Event that is due when pods may be scheduled to it now, or no more.
    pub fn take(&mut self, node: Node) -> Option<NodeEvent> {
        let before = self.stored.as_ref().and_then(|known| known.spec.as_ref()?.unschedulable);
        let event = schedulable_event(before.unwrap_or(false), &node);
        self.stored = Some(Arc::new(node));
        event
    }

    /// The API server no longer has the Node; whether that is news. Facts of it stay, as of one that is being
    /// deleted: it owns nothing any more, so no mirror is made for it (POD-06).
    pub fn mark_gone(&mut self, now: Moment) -> bool {
        let here = self.stored.as_mut().filter(|node| node.metadata.deletion_timestamp.is_none());
        let Some(node) = here else { return false };
        Arc::make_mut(node).metadata.deletion_timestamp = Some(Time(now.to_timestamp()));
        true
    }
}

/// Whether one Node is an earlier state of the same object than another. Versions of one resource can be compared as
/// numbers (KEP-5504); those that are none say nothing.
pub fn is_older(node: &Node, known: &Node) -> bool {
    let version = |node: &Node| node.metadata.resource_version.as_deref().and_then(|text| text.parse::<u128>().ok());
    let same = node.metadata.uid == known.metadata.uid;
    same && version(node).zip(version(known)).is_some_and(|(node, known)| node < known)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::logic::events::reasons::EventReason;

    fn node(uid: &str, version: &str) -> Node {
        let metadata = json!({ "name": "n", "uid": uid, "resourceVersion": version });
        serde_json::from_value(json!({ "metadata": metadata })).expect("a Node")
    }

    #[test]
    fn what_was_written_counts_over_what_is_heard_later_of_before() {
        for (one, other, older) in [
            (node("a", "9"), node("a", "10"), true),
            (node("a", "10"), node("a", "10"), false),
            (node("a", "11"), node("a", "10"), false),
            (node("b", "9"), node("a", "10"), false),
            (node("a", "x"), node("a", "10"), false),
        ] {
            assert_eq!(is_older(&one, &other), older, "{one:?} {other:?}");
            let mut known = KnownNode::default();
            known.take(other);
            assert_eq!(known.is_news(&one), !older, "{one:?}");
        }
    }

    #[test]
    fn the_node_to_register_with_counts_until_there_is_another() {
        let mut known = KnownNode::default();
        assert!(known.newest().is_none() && known.is_news(&node("a", "1")));
        known.prepare(node("", ""));
        assert_eq!(known.newest().as_deref(), Some(&node("", "")));
        assert!(known.stored().is_none() && !known.mark_gone(Moment::EPOCH), "it was never there");
        assert!(known.is_another(&node("a", "1")));
        known.take(node("a", "1"));
        assert!(!known.is_another(&node("a", "2")) && known.is_another(&node("b", "3")));
        known.prepare(node("", ""));
        assert_eq!(known.newest().as_deref(), Some(&node("a", "1")));
    }

    /// POD-06, SEC-50.
    #[test]
    fn a_node_that_is_gone_stays_known_as_one_that_leaves() {
        let mut known = KnownNode::default();
        known.take(node("a", "1"));
        assert!(known.mark_gone(Moment::EPOCH));
        assert!(!known.mark_gone(Moment::EPOCH), "that is no news");
        assert!(known.newest().is_some_and(|node| node.metadata.deletion_timestamp.is_some()));
    }

    #[test]
    fn a_change_of_scheduling_is_an_event_once() {
        let of = |unschedulable: Option<bool>| -> Node {
            serde_json::from_value(json!({ "metadata": { "name": "n" }, "spec": { "unschedulable": unschedulable } }))
                .expect("a Node")
        };
        let mut known = KnownNode::default();
        for (unschedulable, reason) in [
            (None, None),
            (Some(true), Some(EventReason::NodeNotSchedulable)),
            (Some(true), None),
            (Some(false), Some(EventReason::NodeSchedulable)),
            (None, None),
        ] {
            assert_eq!(known.take(of(unschedulable)).map(|event| event.reason), reason, "{unschedulable:?}");
        }
    }
}
