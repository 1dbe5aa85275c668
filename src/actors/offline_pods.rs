//! `OfflinePods`: keeps the pods of the API server on the disk, and has them started after a boot without it (PAIN-10).
//!
//! Parent: Root. Restarted: after a failure; the disk has what was kept, `PodManager` tells what is to be kept. Nothing to
//! do without `--offline-store`. What was kept is wanted only until the API server is heard; it ends nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::desk::Desk;
use super::role::Role;
use super::settings::Agent;
use crate::logic::ids::PodUid;
use crate::logic::offline_pods::{is_outdated, worth_keeping};
use crate::logic::pod_roster::differs;
use crate::messages::offline_pods::OfflinePodsMsg;
use crate::messages::pod_manager::PodManagerMsg;
use crate::platform::offline_store::{OfflineStore, PODS_RECORD};

/// See the module.
pub struct OfflinePods {
    agent: Arc<Agent>,
    /// The API server was heard: what it said last year is no news any more.
    heard: bool,
    /// What was read from the disk, once it was.
    recalled: Option<BTreeMap<PodUid, Arc<Pod>>>,
    recalling: bool,
    /// What is on the disk, or is being written.
    kept: Option<BTreeMap<PodUid, Arc<Pod>>>,
    keeping: bool,
    /// The newest set, which came while an older one was being written.
    next: Option<BTreeMap<PodUid, Arc<Pod>>>,
}

impl Role for OfflinePods {
    const KIND: &'static str = "OfflinePods";
    type Msg = OfflinePodsMsg;
    type Args = Arc<Agent>;

    fn begin(agent: Arc<Agent>, _: &mut Desk<OfflinePodsMsg>) -> Self {
        Self { agent, heard: false, recalled: None, recalling: false, kept: None, keeping: false, next: None }
    }

    fn receive(&mut self, message: OfflinePodsMsg, desk: &mut Desk<OfflinePodsMsg>) {
        let Some(store) = self.agent.adapters.offline.clone() else { return };
        match message {
            OfflinePodsMsg::ApiSilent => {
                if !self.heard && self.recalled.is_none() && !std::mem::replace(&mut self.recalling, true) {
                    desk.start("recall pods", PODS_RECORD, recall(store), OfflinePodsMsg::Recalled);
                }
            }
            OfflinePodsMsg::Recalled(outcome) => {
                self.recalling = false;
                match outcome.unwrap_or_else(|panicked| Err(panicked.to_string())) {
                    Ok(pods) => self.take_recalled(pods, desk),
                    Err(why) => tracing::error!(why, "pods of the offline store cannot be read"),
                }
            }
            OfflinePodsMsg::Admitted(pods) => {
                (self.heard, self.recalled) = (true, None);
                self.next = Some(worth_keeping(&pods));
                self.keep(store, desk);
            }
            OfflinePodsMsg::Kept(outcome) => {
                self.keeping = false;
                if let Err(why) = outcome.unwrap_or_else(|panicked| Err(panicked.to_string())) {
                    tracing::warn!(why, "pods are not kept in the offline store");
                    self.kept = None; // The next change is written whatever it is.
                }
                self.keep(store, desk);
            }
            OfflinePodsMsg::Repeat => self.tell(desk),
        }
    }
}

impl OfflinePods {
    fn take_recalled(&mut self, pods: Vec<Pod>, desk: &Desk<OfflinePodsMsg>) {
        if self.heard {
            return;
        }
        let uid = |pod: &Pod| PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default());
        let pods: BTreeMap<PodUid, Arc<Pod>> = pods.into_iter().map(|pod| (uid(&pod), Arc::new(pod))).collect();
        tracing::info!(pods = pods.len(), "the API server cannot be heard, the pods that it wanted last are wanted");
        self.recalled = Some(pods);
        self.tell(desk);
    }

    fn tell(&self, desk: &Desk<OfflinePodsMsg>) {
        if let Some(pods) = self.recalled.clone() {
            desk.tell(&self.agent.directory.pod_manager, PodManagerMsg::Recalled(pods));
        }
    }

    fn keep(&mut self, store: Arc<dyn OfflineStore>, desk: &mut Desk<OfflinePodsMsg>) {
        if self.keeping {
            return;
        }
        let Some(pods) = self.next.take() else { return };
        if self.kept.as_ref().is_some_and(|kept| !is_outdated(kept, &pods, differs)) {
            return;
        }
        self.keeping = true;
        self.kept = Some(pods.clone());
        desk.start("keep pods", PODS_RECORD, keep(store, pods), OfflinePodsMsg::Kept);
    }
}

async fn recall(store: Arc<dyn OfflineStore>) -> Result<Vec<Pod>, String> {
    let content = store.recall(PODS_RECORD).await.map_err(|error| error.to_string())?;
    // A store in which nothing was kept yet has no pods.
    content.map_or(Ok(vec![]), |content| serde_json::from_slice(&content).map_err(|error| error.to_string()))
}

async fn keep(store: Arc<dyn OfflineStore>, pods: BTreeMap<PodUid, Arc<Pod>>) -> Result<(), String> {
    let bare = |pod: &Arc<Pod>| {
        let mut pod = Pod::clone(pod);
        pod.metadata.managed_fields = None; // Large, and nobody's business here.
        pod
    };
    let pods: Vec<Pod> = pods.values().map(bare).collect();
    let content = serde_json::to_vec(&pods).expect("invariant: API objects have text keys alone");
    store.keep(PODS_RECORD, content).await.map_err(|error| error.to_string())
}
