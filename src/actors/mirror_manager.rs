//! `MirrorManager`: keeps a mirror of each static pod in the API server.
//!
//! Parent: Root. Restarted: after a failure; `PodManager` and `ApiSource` tell it everything again. Nothing to do without
//! an API server: then nobody tells it of mirrors.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::desk::{Desk, OperationId};
use super::role::Role;
use super::settings::Agent;
use crate::logic::mirror_pods::{MirrorPods, Order};
use crate::logic::status_sync::MIRROR_ANNOTATION;
use crate::messages::mirror_manager::MirrorManagerMsg;
use crate::platform::kube_api::{ApiError, ApiServer, Place};

/// See the module.
pub struct MirrorManager {
    agent: Arc<Agent>,
    mirrors: MirrorPods,
    wake: Option<OperationId>,
}

impl Role for MirrorManager {
    const KIND: &'static str = "MirrorManager";
    type Msg = MirrorManagerMsg;
    type Args = Arc<Agent>;

    fn begin(agent: Arc<Agent>, _: &mut Desk<MirrorManagerMsg>) -> Self {
        Self { agent, mirrors: MirrorPods::default(), wake: None }
    }

    fn receive(&mut self, message: MirrorManagerMsg, desk: &mut Desk<MirrorManagerMsg>) {
        match message {
            MirrorManagerMsg::Statics(pods, ending) => self.mirrors.set_statics(pods, ending),
            MirrorManagerMsg::Mirrors(pods) => self.mirrors.set_mirrors(pods),
            MirrorManagerMsg::NodeChanged(node) => self.mirrors.set_node(&node),
            MirrorManagerMsg::Answered(name, outcome) => {
                let outcome = outcome.unwrap_or_else(|panicked| Err(panicked.to_string()));
                if let Err(why) = &outcome {
                    tracing::warn!(pod = %name, why, "mirror pod cannot be made or deleted yet");
                }
                let jitter = self.agent.adapters.chance.next();
                self.mirrors.answered(&name, outcome.is_ok(), desk.clock().uptime(), jitter);
            }
            MirrorManagerMsg::RetryDue => self.wake = None,
        }
        self.carry_out(desk);
    }
}

impl MirrorManager {
    fn carry_out(&mut self, desk: &mut Desk<MirrorManagerMsg>) {
        let Some(api) = self.agent.adapters.api.clone() else { return };
        let now = desk.clock().uptime();
        let (orders, wake) = self.mirrors.orders(now);
        for order in orders {
            let (name, api) = (order.full_name(), api.clone());
            let (title, about) =
                (if matches!(order, Order::Create(_)) { "create mirror" } else { "delete mirror" }, name.to_string());
            desk.start(title, about, send(api, order), move |outcome| MirrorManagerMsg::Answered(name, outcome));
        }
        if let Some(timer) = self.wake.take() {
            desk.cancel(timer);
        }
        self.wake = wake.map(|due| desk.after(due.saturating_sub(now), MirrorManagerMsg::RetryDue));
    }
}

async fn send(api: ApiServer, order: Order) -> Result<(), String> {
    let at = Place::namespace(&*order.full_name().namespace);
    let told = |error: ApiError| error.to_string();
    match order {
        Order::Delete { full_name, uid } => match api.delete::<Pod>(&at, &full_name.name, Some(0), Some(&uid)).await {
            // Another one of its name has taken its place, or nobody has: this one is gone.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            other => other.map_err(told),
        },
        Order::Create(mirror) => match api.create::<Pod>(&at, &mirror).await {
            Err(error) if error.is_already_exists() => {
                let name = mirror.metadata.name.as_deref().unwrap_or_default();
                let there: Pod = api.get(&at, name).await.map_err(told)?;
                let hash =
                    |pod: &Pod| pod.metadata.annotations.as_ref().and_then(|all| all.get(MIRROR_ANNOTATION).cloned());
                // One that is for another version of the pod is shown by the watch, and goes then.
                if hash(&there) == hash(&mirror) { Ok(()) } else { Err(error.to_string()) }
            }
            other => other.map(drop).map_err(told),
        },
    }
}
