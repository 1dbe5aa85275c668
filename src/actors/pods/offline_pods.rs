//! `OfflinePods`: keeps the pods of the API server on the disk, and has them started after a boot without it (PAIN-10).
//!
//! Parent: Root. Restarted: after a failure; the disk has what was kept, `PodManager` tells what is to be kept. Nothing to
//! do without `--offline-store`. The kept pods are wanted only until the API server is heard; they end nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::single_flight::SingleFlight;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::offline_pods::{is_outdated, is_worth_keeping, needed, worth_keeping};
use crate::logic::pods::pod_roster::differs;
use crate::messages::pods::offline_pods::OfflinePodsMsg;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::platform::cluster::offline_store::{OfflineStore, PODS_RECORD};

/// When what no pod needs is looked for once more.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// When pods that could not be written are written again.
const KEEP_AGAIN: Duration = Duration::from_secs(10);

/// The actor's arguments.
pub struct Args {
    /// Where pods are kept; nowhere unless that is asked for.
    pub store: Option<Arc<dyn OfflineStore>>,
    /// Hears of the pods that were kept.
    pub pod_manager: Address<PodManagerMsg>,
}

/// See the module.
pub struct OfflinePods {
    args: Args,
    /// The API server was heard: what it said last year is no news any more.
    heard: bool,
    /// The pods that were read from the disk, once they were.
    recalled: Option<BTreeMap<PodUid, Arc<Pod>>>,
    recalls: SingleFlight<()>,
    /// All pods that the API server has here.
    pods: BTreeMap<PodUid, Arc<Pod>>,
    /// The pods that are on the disk, or are being written; none after a write that failed.
    kept: Option<BTreeMap<PodUid, Arc<Pod>>>,
    writes: SingleFlight<()>,
    /// The timer of the next try then.
    again: Option<OperationId>,
    /// Objects that no pod needs are removed.
    forgetting: SingleFlight<()>,
    /// The timer of the next look.
    look: Option<OperationId>,
}

impl Actor for OfflinePods {
    const KIND: &'static str = "OfflinePods";
    type Msg = OfflinePodsMsg;
    type Args = Args;

    fn begin(args: Args, _: &mut Context<OfflinePodsMsg>) -> Self {
        Self {
            args,
            heard: false,
            recalled: None,
            recalls: SingleFlight::default(),
            pods: BTreeMap::new(),
            kept: None,
            writes: SingleFlight::default(),
            again: None,
            forgetting: SingleFlight::default(),
            look: None,
        }
    }

    fn receive(&mut self, message: OfflinePodsMsg, context: &mut Context<OfflinePodsMsg>) {
        let Some(store) = self.args.store.clone() else { return };
        match message {
            OfflinePodsMsg::ApiSilent => self.recall(store, context),
            OfflinePodsMsg::Recalled(outcome) => {
                let (_, wanted) = self.recalls.end();
                match outcome.into_result() {
                    Ok(pods) => self.take_recalled(pods, context),
                    Err(why) => tracing::error!(why, "pods of the offline store cannot be read"),
                }
                if wanted.is_some() {
                    self.recall(store, context);
                }
            }
            OfflinePodsMsg::Admitted(pods) => self.take_all(store, pods, context),
            OfflinePodsMsg::Forgotten(outcome) => {
                let (_, wanted) = self.forgetting.end();
                match outcome.into_result() {
                    Ok(0) => {}
                    Ok(count) => {
                        tracing::debug!(count, "what no pod needs any more is gone from the offline store")
                    }
                    Err(why) => {
                        tracing::warn!(why, "what no pod needs any more cannot be removed from the offline store yet");
                        self.look_later(context);
                    }
                }
                if wanted.is_some() {
                    self.forget(store, context);
                }
            }
            OfflinePodsMsg::ForgetDue => {
                self.look = None;
                self.forget(store, context);
            }
            OfflinePodsMsg::PodAdmitted(uid, pod) => self.take_pod(store, uid, pod, context),
            OfflinePodsMsg::Kept(outcome) => {
                let (_, wanted) = self.writes.end();
                if let Err(why) = outcome.into_result() {
                    tracing::warn!(why, "pods are not kept in the offline store");
                    self.kept = None;
                    self.again.get_or_insert_with(|| context.after(KEEP_AGAIN, OfflinePodsMsg::KeepDue));
                }
                if wanted.is_some() {
                    self.keep(store, context);
                }
            }
            OfflinePodsMsg::KeepDue => {
                self.again = None;
                if self.kept.is_none() {
                    self.keep(store, context);
                }
            }
            OfflinePodsMsg::Repeat => self.tell(context),
        }
    }
}

impl OfflinePods {
    fn recall(&mut self, store: Arc<dyn OfflineStore>, context: &mut Context<OfflinePodsMsg>) {
        if !self.heard && self.recalled.is_none() && self.recalls.want(()).is_some() {
            let work = recall(store);
            context.start("recall pods", PODS_RECORD, work, |outcome| OfflinePodsMsg::Recalled(outcome.into()));
        }
    }

    fn take_recalled(&mut self, pods: Vec<Pod>, context: &Context<OfflinePodsMsg>) {
        if self.heard {
            return;
        }
        let uid = |pod: &Pod| PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default());
        let pods: BTreeMap<PodUid, Arc<Pod>> = pods.into_iter().map(|pod| (uid(&pod), Arc::new(pod))).collect();
        tracing::info!(pods = pods.len(), "the API server cannot be heard, the pods that it wanted last are wanted");
        self.recalled = Some(pods);
        self.tell(context);
    }

    /// These are all pods of the API server that are admitted.
    fn take_all(
        &mut self,
        store: Arc<dyn OfflineStore>,
        pods: BTreeMap<PodUid, Arc<Pod>>,
        context: &mut Context<OfflinePodsMsg>,
    ) {
        let is_first = !std::mem::replace(&mut self.heard, true);
        self.recalled = None;
        let have_gone = is_first || self.pods.keys().any(|uid| !pods.contains_key(uid));
        self.pods = pods;
        let is_kept = |kept: &BTreeMap<_, _>| !is_outdated(kept, &worth_keeping(&self.pods), differs);
        if !self.kept.as_ref().is_some_and(is_kept) {
            self.keep(Arc::clone(&store), context);
        }
        if have_gone {
            self.forget(store, context);
            self.look_later(context);
        }
    }

    /// One pod is as the message has it, or is wanted no more. Before the complete set nothing can be kept.
    fn take_pod(
        &mut self,
        store: Arc<dyn OfflineStore>,
        uid: PodUid,
        pod: Option<Arc<Pod>>,
        context: &mut Context<OfflinePodsMsg>,
    ) {
        if !self.heard {
            return;
        }
        let has_gone = match &pod {
            Some(pod) => {
                self.pods.insert(uid.clone(), Arc::clone(pod));
                false
            }
            None => self.pods.remove(&uid).is_some(),
        };
        if has_gone {
            self.forget(Arc::clone(&store), context);
            self.look_later(context);
        }
        let now = pod.filter(|pod| is_worth_keeping(pod));
        let is_kept = |kept: &BTreeMap<_, _>| is_same(kept.get(&uid), now.as_ref());
        if !self.kept.as_ref().is_some_and(is_kept) {
            self.keep(store, context);
        }
    }

    fn tell(&self, context: &Context<OfflinePodsMsg>) {
        if let Some(pods) = self.recalled.clone() {
            context.tell(&self.args.pod_manager, PodManagerMsg::Recalled(pods));
        }
    }

    /// Has Secrets and tokens forgotten that no pod needs: of pods that are gone for good.
    fn forget(&mut self, store: Arc<dyn OfflineStore>, context: &mut Context<OfflinePodsMsg>) {
        if self.forgetting.want(()).is_none() {
            return;
        }
        let needed = needed(&self.pods);
        let work = async move { store.keep_needed(&needed).await.map_err(|error| error.to_string()) };
        context.start("forget", "what no pod needs", work, |outcome| OfflinePodsMsg::Forgotten(outcome.into()));
    }

    /// A pod that still ends may have had something read, and kept, since.
    fn look_later(&mut self, context: &mut Context<OfflinePodsMsg>) {
        if self.look.is_none() {
            self.look = Some(context.after(LOOK_AGAIN, OfflinePodsMsg::ForgetDue));
        }
    }

    /// Writes the pods that are worth it. Many that change meanwhile cost one more write.
    fn keep(&mut self, store: Arc<dyn OfflineStore>, context: &mut Context<OfflinePodsMsg>) {
        if self.writes.want(()).is_none() {
            return;
        }
        let pods = worth_keeping(&self.pods);
        self.kept = Some(pods.clone());
        context.start("keep pods", PODS_RECORD, keep(store, pods), |outcome| OfflinePodsMsg::Kept(outcome.into()));
    }
}

/// Whether there is nothing new to be kept of a pod.
fn is_same(kept: Option<&Arc<Pod>>, now: Option<&Arc<Pod>>) -> bool {
    match (kept, now) {
        (Some(kept), Some(now)) => Arc::ptr_eq(kept, now) || !differs(kept, now),
        (kept, now) => kept.is_none() && now.is_none(),
    }
}

async fn recall(store: Arc<dyn OfflineStore>) -> Result<Vec<Pod>, String> {
    let content = store.recall(PODS_RECORD).await.map_err(|error| error.to_string())?;
    // A store in which nothing was kept yet has no pods.
    content.map_or(Ok(vec![]), |content| serde_json::from_slice(&content).map_err(|error| error.to_string()))
}

async fn keep(store: Arc<dyn OfflineStore>, pods: BTreeMap<PodUid, Arc<Pod>>) -> Result<(), String> {
    let content = move || {
        let bare = |pod: &Arc<Pod>| {
            let mut pod = Pod::clone(pod);
            pod.metadata.managed_fields = None; // Large, and nobody's business here.
            pod
        };
        let pods: Vec<Pod> = pods.values().map(bare).collect();
        serde_json::to_vec(&pods).expect("invariant: API objects have text keys alone")
    };
    store.keep(PODS_RECORD, Box::new(content)).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::actors::kit::trace::{Cause, lock};
    use crate::actors::node::tests::played_agent;
    use crate::actors::played_api::ObjectServer;
    use crate::actors::wiring::start_alone;
    use crate::logic::pods::offline_pods::Needed;
    use crate::messages::root::Child;
    use crate::platform::cluster::offline_store::{Content, DiskStore};

    fn pods(secrets: &[(&str, &str)]) -> BTreeMap<PodUid, Arc<Pod>> {
        let pod = |secret: &str| {
            let volume = serde_json::json!({ "name": "v", "secret": { "secretName": secret } });
            let pod = serde_json::json!({
                "metadata": { "namespace": "ns" },
                "spec": { "containers": [], "volumes": [volume] },
            });
            Arc::new(serde_json::from_value::<Pod>(pod).expect("a pod"))
        };
        secrets.iter().map(|(uid, secret)| (PodUid::from(*uid), pod(secret))).collect()
    }

    /// PAIN-10: Secrets go with the last pod that uses them, also of pods that went while the agent was away.
    #[tokio::test(start_paused = true)]
    async fn secrets_are_forgotten_with_the_last_pod_that_uses_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let store: Arc<dyn OfflineStore> = Arc::new(DiskStore::open(folder.path(), None).expect("a store"));
        let given = Arc::clone(&store);
        let played =
            played_agent(ObjectServer::default().api(), move |_, adapters| adapters.cluster.offline = Some(given));
        let to = &played.agent.directory.offline_pods;
        start_alone(Child::OfflinePods, &played.agent);
        let left = async |pods: &[(&str, &str)]| {
            to.tell(Cause::outside("test"), OfflinePodsMsg::Admitted(self::pods(pods))).expect("has room");
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut left = vec![];
            for secret in ["old", "shared", "late"] {
                let there = store.recall(&format!("secret/ns/{secret}")).await.expect("read").is_some();
                left.extend(there.then_some(secret));
            }
            left
        };
        for secret in ["old", "shared", "late"] {
            store.keep(&format!("secret/ns/{secret}"), Box::new(|| b"hunter2".to_vec())).await.expect("kept");
        }
        // Nobody uses `old`: its pod went before this agent began.
        assert_eq!(left(&[("1", "shared"), ("2", "shared"), ("3", "late")]).await, ["shared", "late"]);
        assert_eq!(left(&[("2", "shared"), ("3", "late")]).await, ["shared", "late"]);
        assert_eq!(left(&[("3", "late")]).await, ["late"]);
        assert_eq!(left(&[]).await, [""; 0]);
        // One that still ends may have its own read once more: it is looked for again.
        store.keep("secret/ns/late", Box::new(|| b"hunter2".to_vec())).await.expect("kept");
        tokio::time::sleep(LOOK_AGAIN).await;
        assert_eq!(left(&[]).await, [""; 0]);
    }

    /// A disk that cannot be written for a while.
    struct FailingStore {
        failures: AtomicU32,
        kept: Mutex<Vec<u8>>,
    }

    #[async_trait::async_trait]
    impl OfflineStore for FailingStore {
        async fn keep(&self, _: &str, content: Content) -> io::Result<()> {
            let less = |left: u32| left.checked_sub(1);
            if self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
                return Err(io::Error::other("no space left on device"));
            }
            *lock(&self.kept) = content();
            Ok(())
        }
        async fn renew(&self, _: &str) -> io::Result<bool> {
            Ok(false)
        }
        async fn recall(&self, _: &str) -> io::Result<Option<Vec<u8>>> {
            Ok(None)
        }
        async fn forget(&self, _: &str) -> io::Result<()> {
            Ok(())
        }
        async fn keep_needed(&self, _: &Needed) -> io::Result<usize> {
            Ok(0)
        }
        fn generation(&self) -> u64 {
            0
        }
    }

    /// PAIN-10: pods that a full disk refused are written when it has room, though nothing else changes meanwhile.
    #[tokio::test(start_paused = true)]
    async fn pods_that_could_not_be_kept_are_kept_later() {
        let store = Arc::new(FailingStore { failures: AtomicU32::new(2), kept: Mutex::default() });
        let given: Arc<dyn OfflineStore> = Arc::clone(&store) as _;
        let played =
            played_agent(ObjectServer::default().api(), move |_, adapters| adapters.cluster.offline = Some(given));
        start_alone(Child::OfflinePods, &played.agent);
        let to = &played.agent.directory.offline_pods;
        to.tell(Cause::outside("test"), OfflinePodsMsg::Admitted(pods(&[("1", "s")]))).expect("has room");
        tokio::time::sleep(KEEP_AGAIN).await;
        assert!(lock(&store.kept).is_empty(), "refused twice");
        tokio::time::sleep(KEEP_AGAIN + Duration::from_secs(1)).await;
        let kept: Vec<Pod> = serde_json::from_slice(&lock(&store.kept)).expect("pods");
        assert_eq!(kept.len(), 1);
    }

    /// PAIN-10: news on a full disk add no further tries to those that time brings.
    #[tokio::test(start_paused = true)]
    async fn one_try_at_a_time_waits_for_a_full_disk() {
        let (many, news) = (100, 5);
        let store = Arc::new(FailingStore { failures: AtomicU32::new(many), kept: Mutex::default() });
        let given: Arc<dyn OfflineStore> = Arc::clone(&store) as _;
        let played =
            played_agent(ObjectServer::default().api(), move |_, adapters| adapters.cluster.offline = Some(given));
        start_alone(Child::OfflinePods, &played.agent);
        let to = &played.agent.directory.offline_pods;
        for _ in 0..news {
            to.tell(Cause::outside("test"), OfflinePodsMsg::Admitted(pods(&[("1", "s")]))).expect("has room");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(2 * KEEP_AGAIN).await;
        assert_eq!(many - store.failures.load(Ordering::Relaxed), news + 2);
    }
}
