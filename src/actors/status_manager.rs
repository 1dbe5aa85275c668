//! `StatusManager`: the newest status of every pod, and the manifests that give none, for whoever asks.
//!
//! Parent: Root. Restarted: after a failure; the pods' workers and the sources tell it everything again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::desk::Desk;
use super::role::Role;
use super::settings::Agent;
use crate::logic::ids::PodUid;
use crate::messages::pod_source::SourceKind;
use crate::messages::status_manager::{PodView, RefusedManifest, StatusManagerMsg};

/// See the module.
pub struct StatusManager {
    pods: BTreeMap<PodUid, PodView>,
    refused: BTreeMap<SourceKind, Vec<RefusedManifest>>,
}

impl Role for StatusManager {
    const KIND: &'static str = "StatusManager";
    type Msg = StatusManagerMsg;
    type Args = Arc<Agent>;

    fn begin(_: Arc<Agent>, _: &mut Desk<StatusManagerMsg>) -> Self {
        Self { pods: BTreeMap::new(), refused: BTreeMap::new() }
    }

    fn receive(&mut self, message: StatusManagerMsg, _: &mut Desk<StatusManagerMsg>) {
        match message {
            StatusManagerMsg::StatusChanged(view) => {
                self.pods.insert(view.uid.clone(), view);
            }
            StatusManagerMsg::PodForgotten(uid) => {
                self.pods.remove(&uid);
            }
            StatusManagerMsg::Refused(source, manifests) => {
                self.refused.insert(source, manifests);
            }
            StatusManagerMsg::Known(known) => self.pods.retain(|uid, _| known.contains(uid)),
            StatusManagerMsg::List(reply) => {
                if reply.is_closed() {
                    return;
                }
                let mut views: Vec<PodView> = self.pods.values().cloned().collect();
                views.sort_by(|one, other| place(one).cmp(&place(other)));
                let _ = reply.send(views); // The asker may have left.
            }
            StatusManagerMsg::Refusals(reply) => {
                let of = |(source, manifests): (&SourceKind, &Vec<RefusedManifest>)| {
                    manifests.iter().map(|manifest| (*source, manifest.clone())).collect::<Vec<_>>()
                };
                let _ = reply.send(self.refused.iter().flat_map(of).collect()); // The asker may have left.
            }
        }
    }
}

fn place(view: &PodView) -> (Option<&str>, Option<&str>, &PodUid) {
    (view.pod.metadata.namespace.as_deref(), view.pod.metadata.name.as_deref(), &view.uid)
}
