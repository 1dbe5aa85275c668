//! `PodManager`'s second look at the Node: a pod that only the Node's labels keep from here may know newer ones than were
//! heard, and is refused for good only by what the API server says then (POD-31).

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::actors::node::node_status::is_older;
use crate::logic::model::ids::PodUid;
use crate::messages::Panicked;
use crate::messages::pod_manager::PodManagerMsg;
use crate::platform::cluster::kube_api::Place;

/// For whom the Node is read once more.
#[derive(Default)]
pub(super) struct Rereading {
    /// They wait until it can be.
    asked: BTreeSet<PodUid>,
    /// It is being read for these.
    under_way: BTreeSet<PodUid>,
    /// It was, or could not be.
    done: BTreeSet<PodUid>,
}

impl PodManager {
    /// Whether what is known of the Node may keep the pod from here. Without an API server nobody knows more.
    pub(super) fn may_go_by_node(&self, uid: &PodUid) -> bool {
        self.agent.adapters.api.is_none() || self.node.is_none() || self.rereading.done.contains(uid)
    }

    /// Reads the Node for these pods; one call at a time.
    pub(super) fn reread_node(&mut self, pods: Vec<PodUid>, context: &mut Context<PodManagerMsg>) {
        let rereading = &mut self.rereading;
        rereading.asked.extend(pods.into_iter().filter(|uid| !rereading.under_way.contains(uid)));
        if rereading.asked.is_empty() || !rereading.under_way.is_empty() {
            return;
        }
        let Some(api) = self.agent.adapters.api.clone() else { return };
        rereading.under_way = std::mem::take(&mut rereading.asked);
        let name = self.agent.settings.node_name.clone();
        let about = name.clone();
        let work = async move {
            api.get::<Node>(&Place::Cluster, &name).await.map(Box::new).map_err(|error| error.to_string())
        };
        context.start("read node", about, work, PodManagerMsg::NodeReread);
    }

    /// The Node was read. Where it could not be, what is known of it has to do, as upstream.
    pub(super) fn node_reread(
        &mut self,
        outcome: Result<Result<Box<Node>, String>, Panicked>,
        context: &mut Context<PodManagerMsg>,
    ) {
        match outcome.unwrap_or_else(|panicked| Err(panicked.to_string())) {
            // The watch may have told a newer one since.
            Ok(node) if self.node.as_ref().is_some_and(|known| is_older(&node, known)) => {}
            Ok(node) => self.node = Some(Arc::from(node)),
            Err(why) => tracing::warn!(why, "the Node cannot be read once more for a pod that it keeps away"),
        }
        let mut done = std::mem::take(&mut self.rereading.done);
        done.append(&mut self.rereading.under_way);
        let known = |uid: &PodUid| {
            let mut all = self.api_pods.iter().chain(self.statics.values());
            all.any(|pods| pods.contains_key(uid))
        };
        done.retain(known);
        self.rereading.done = done;
        self.judge_again(context);
        self.reread_node(vec![], context);
    }
}
