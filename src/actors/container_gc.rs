//! `ContainerGc`: removes dead containers and sandboxes that nobody reads any more.
//!
//! Parent: Root. Restarted: after a failure; `PodManager` tells it again which pods are known. Until it was told, nothing
//! of unknown pods is removed. It asks `Pleg`, not the runtime, what there is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::desk::Desk;
use super::ledger::Cause;
use super::pod_worker::jobs::remove_container;
use super::role::Role;
use super::settings::Agent;
use crate::cri::CriResult;
use crate::logic::container_garbage::{Garbage, GarbagePolicy, collect};
use crate::logic::ids::PodUid;
use crate::logic::runtime_pod::RuntimePod;
use crate::messages::container_gc::ContainerGcMsg;
use crate::messages::pleg::PlegMsg;

/// Wait between passes (CRI-20).
pub const PASS_PERIOD: Duration = Duration::from_secs(60);
/// Patience with `Pleg`.
const ASK_LIMIT: Duration = Duration::from_secs(10);

/// See the module.
pub struct ContainerGc {
    agent: Arc<Agent>,
    known: Option<Arc<BTreeSet<PodUid>>>,
    busy: bool,
    again: bool,
}

/// Whether the pod has more dead instances of a container than are kept.
pub fn has_surplus(pod: &RuntimePod, per_container: i32) -> bool {
    let policy = GarbagePolicy { per_container, total: -1, age_min: Duration::ZERO };
    let garbage = collect(
        [pod],
        &[pod.uid.clone()].into(),
        policy,
        pod.containers.first().map_or_else(Default::default, |newest| newest.created_at),
    );
    !garbage.containers.is_empty()
}

impl Role for ContainerGc {
    const KIND: &'static str = "ContainerGc";
    type Msg = ContainerGcMsg;
    type Args = Arc<Agent>;

    fn begin(agent: Arc<Agent>, desk: &mut Desk<ContainerGcMsg>) -> Self {
        desk.after(PASS_PERIOD, ContainerGcMsg::PassDue);
        Self { agent, known: None, busy: false, again: false }
    }

    fn receive(&mut self, message: ContainerGcMsg, desk: &mut Desk<ContainerGcMsg>) {
        match message {
            ContainerGcMsg::Known(known) => self.known = Some(known),
            ContainerGcMsg::PassDue => {
                self.pass(None, desk);
                desk.after(PASS_PERIOD, ContainerGcMsg::PassDue);
            }
            ContainerGcMsg::Surplus(pod) => self.pass(Some(pod), desk),
            ContainerGcMsg::PassEnded(outcome) => {
                self.busy = false;
                if std::mem::take(&mut self.again) {
                    self.pass(None, desk);
                }
                match outcome {
                    Ok(Ok((0, 0))) => {}
                    Ok(Ok((containers, sandboxes))) => tracing::debug!(containers, sandboxes, "garbage removed"),
                    Ok(Err(error)) => tracing::warn!(%error, "garbage stays"),
                    Err(panicked) => tracing::error!(error = %panicked, "garbage stays"),
                }
            }
        }
    }
}

impl ContainerGc {
    /// One pass over all pods, or over one. What comes while one runs is looked at once more after it.
    fn pass(&mut self, only: Option<Arc<RuntimePod>>, desk: &mut Desk<ContainerGcMsg>) {
        let Some(known) = self.known.clone() else { return };
        if std::mem::replace(&mut self.busy, true) {
            self.again = true;
            return;
        }
        let (agent, cause, now) = (Arc::clone(&self.agent), desk.cause(), desk.now());
        let settings = &self.agent.settings;
        let policy = GarbagePolicy {
            per_container: settings.dead_per_container,
            total: settings.dead_total,
            age_min: settings.dead_age_min,
        };
        let work = async move {
            let pods = match only {
                Some(pod) => vec![pod],
                None => everything(&agent, cause).await,
            };
            let garbage = collect(pods.iter().map(|pod| &**pod), &known, policy, now);
            remove(&agent, &pods, garbage).await
        };
        desk.start("collect garbage", "dead containers", work, ContainerGcMsg::PassEnded);
    }
}

async fn everything(agent: &Agent, cause: Cause) -> Vec<Arc<RuntimePod>> {
    agent.directory.pleg.ask(cause, ASK_LIMIT, PlegMsg::Pods).await.unwrap_or_default()
}

async fn remove(agent: &Agent, pods: &[Arc<RuntimePod>], garbage: Garbage) -> CriResult<(usize, usize)> {
    let (mut containers, mut sandboxes) = (0, 0);
    for (uid, id) in &garbage.containers {
        let pod = pods.iter().find(|pod| pod.uid == *uid).map(|pod| &**pod);
        match remove_container(agent, pod, id).await {
            Ok(()) => containers += 1,
            Err(error) => tracing::warn!(pod = %uid, container = %id, error, "dead container stays"),
        }
    }
    for (_, id) in &garbage.sandboxes {
        agent.adapters.runtime.stop_pod_sandbox(id).await?;
        agent.adapters.runtime.remove_pod_sandbox(id).await?;
        sandboxes += 1;
    }
    let touched: BTreeSet<PodUid> = garbage
        .containers
        .iter()
        .map(|(uid, _)| uid)
        .chain(garbage.sandboxes.iter().map(|(uid, _)| uid))
        .cloned()
        .collect();
    for uid in touched {
        // What was removed is seen at once, not at the next relist.
        let _ = agent.directory.pleg.tell(Cause::outside("garbage"), PlegMsg::Inspect(uid));
    }
    Ok((containers, sandboxes))
}
