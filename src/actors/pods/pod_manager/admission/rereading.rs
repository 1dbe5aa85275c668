//! `PodManager`'s second look at the Node: a pod that only the Node's labels keep from here may know newer labels than the
//! agent. The agent refuses it for good only by what the API server says then (POD-31).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::actors::kit::context::Context;
use crate::actors::pods::pod_manager::PodManager;
use crate::logic::model::ids::PodUid;
use crate::logic::node::known_node::is_older;
use crate::messages::Ended;
use crate::messages::pods::pod_manager::{AdmissionMsg, PodManagerMsg};
use crate::platform::cluster::kube_api::Place;

impl PodManager {
    /// Whether what is known of the Node may keep the pod from here. Without an API server nobody knows more.
    pub(in super::super) fn may_go_by_node(&self, uid: &PodUid) -> bool {
        self.args.adapters.api.is_none() || self.node.is_none() || self.reread.is_done(uid)
    }

    /// Reads the Node for these pods; one call at a time.
    pub(in super::super) fn reread_node(&mut self, pods: Vec<PodUid>, context: &mut Context<PodManagerMsg>) {
        if !self.reread.ask(pods) {
            return;
        }
        let Some(api) = self.args.adapters.api.clone() else { return };
        self.reread.begin();
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
        self.reread.end(|uid| self.sources.pod(uid).is_some());
        self.judge_again(context);
        self.reread_node(vec![], context);
    }
}
