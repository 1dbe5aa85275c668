//! `PodManager`'s second look at the Node: a pod that only the Node's labels keep from here may know newer labels than the
//! agent. The agent refuses it for good only by what the API server says then (POD-31).

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::actors::kit::context::Context;
use crate::actors::kit::single_flight::SingleFlight;
use crate::actors::pods::pod_manager::PodManager;
use crate::logic::model::ids::PodUid;
use crate::logic::node::known_node::is_older;
use crate::messages::Ended;
use crate::messages::pods::pod_manager::{AdmissionMsg, PodManagerMsg};
use crate::platform::cluster::kube_api::Place;

/// The pods for which the Node is read once more.
#[derive(Default)]
pub(in super::super) struct NodeReread {
    reads: SingleFlight<BTreeSet<PodUid>>,
    /// It was read for these, or could not be.
    done: BTreeSet<PodUid>,
}

impl NodeReread {
    fn is_done(&self, uid: &PodUid) -> bool {
        self.done.contains(uid)
    }

    /// The Node is to be read for these pods, too. Says whether to read it now. The call under way does for its own pods.
    fn ask(&mut self, mut pods: BTreeSet<PodUid>) -> bool {
        if let Some(under_way) = self.reads.current() {
            pods.retain(|uid| !under_way.contains(uid));
        }
        !pods.is_empty() && self.reads.want(pods).is_some()
    }

    /// The Node was read, or could not be. Of pods that are not `known` any more nothing is kept. Returns the pods that came
    /// meanwhile.
    fn end(&mut self, known: impl Fn(&PodUid) -> bool) -> BTreeSet<PodUid> {
        let (read, next) = self.reads.end();
        self.done.extend(read.unwrap_or_default());
        self.done.retain(known);
        next.unwrap_or_default()
    }
}

impl PodManager {
    /// Whether what is known of the Node may keep the pod from here. Without an API server nobody knows more.
    pub(in super::super) fn may_go_by_node(&self, uid: &PodUid) -> bool {
        self.args.adapters.api.is_none() || self.node.is_none() || self.reread.is_done(uid)
    }

    /// Reads the Node for these pods; one call at a time.
    pub(in super::super) fn reread_node(&mut self, pods: BTreeSet<PodUid>, context: &mut Context<PodManagerMsg>) {
        let Some(api) = self.args.adapters.api.clone() else { return };
        if !self.reread.ask(pods) {
            return;
        }
        let name = self.args.settings.node_name.clone();
        let about = name.clone();
        let work = async move {
            api.get::<Node>(&Place::Cluster, &name).await.map(Box::new).map_err(|error| error.to_string())
        };
        context.start("read node", about, work, |outcome| {
            PodManagerMsg::Admission(AdmissionMsg::NodeReread(outcome.into()))
        });
    }

    /// The Node was read. Where it could not be, what is known of it has to do, as upstream.
    pub(in super::super) fn node_reread(&mut self, read: Ended<Box<Node>>, context: &mut Context<PodManagerMsg>) {
        match read.into_result() {
            // The watch may have told a newer one since.
            Ok(node) if self.node.as_ref().is_some_and(|known| is_older(&node, known)) => {}
            Ok(node) => self.node = Some(Arc::from(node)),
            Err(why) => {
                tracing::warn!(why, "the Node cannot be read once more for a pod that it keeps away");
            }
        }
        let next = self.reread.end(|uid| self.sources.pod(uid).is_some());
        self.judge_again(context);
        self.reread_node(next, context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<const N: usize>(pods: [&str; N]) -> BTreeSet<PodUid> {
        pods.map(PodUid::from).into()
    }

    #[test]
    fn pods_that_come_during_a_call_wait_for_the_next() {
        let mut reread = NodeReread::default();
        assert!(!reread.ask(set([])) && reread.ask(set(["a"])));
        assert!(!reread.ask(set(["a", "b"])), "a call is under way");
        assert_eq!(reread.end(|_| true), set(["b"]), "the call did for the other");
        assert!(reread.is_done(&PodUid::from("a")) && !reread.is_done(&PodUid::from("b")));
        assert!(reread.ask(set(["b"])));
        assert_eq!(reread.end(|uid| *uid == PodUid::from("b")), set([]));
        assert!(!reread.is_done(&PodUid::from("a")), "nobody wants it any more");
    }
}
