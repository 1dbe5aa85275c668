//! `MirrorManager`: keeps a mirror of each static pod in the API server.
//!
//! Parent: Root. Restarted: after a failure; `PodManager` and `ApiSource` tell it everything again. Nothing to do without
//! an API server: then nobody tells it of mirrors.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::{Context, OperationId};
use crate::logic::model::ids::FullName;
use crate::logic::pods::pod_roster::full_name;
use crate::logic::status::mirror_pods::{MirrorPods, Order, Outcome};
use crate::logic::status::status_sync::is_mirror;
use crate::messages::status::mirror_manager::MirrorManagerMsg;
use crate::platform::cluster::kube_api::{ApiError, ApiServer, Place};
use crate::platform::host::chance::Chance;

/// The actor's arguments.
pub struct Args {
    /// The API server, where one is named.
    pub api: Option<ApiServer>,
    /// Spreads retries.
    pub chance: Arc<dyn Chance>,
}

/// See the module.
pub struct MirrorManager {
    args: Args,
    mirrors: MirrorPods,
    wake: Option<OperationId>,
}

impl Actor for MirrorManager {
    const KIND: &'static str = "MirrorManager";
    type Msg = MirrorManagerMsg;
    type Args = Args;

    fn begin(args: Args, _: &mut Context<MirrorManagerMsg>) -> Self {
        Self { args, mirrors: MirrorPods::default(), wake: None }
    }

    fn receive(&mut self, message: MirrorManagerMsg, context: &mut Context<MirrorManagerMsg>) {
        match message {
            MirrorManagerMsg::Statics(pods, ending) => self.mirrors.set_statics(pods, ending),
            MirrorManagerMsg::Mirrors { mirrors, are_listed } => self.mirrors.set_mirrors(mirrors, are_listed),
            MirrorManagerMsg::NodeChanged(node) => self.mirrors.set_node(&node),
            MirrorManagerMsg::Answered(name, outcome) => {
                let outcome = outcome.unwrap_or_else(|loss| {
                    tracing::error!(pod = %name, %loss, "mirror pod was not made or deleted");
                    Outcome::Refused
                });
                let jitter = self.args.chance.next();
                self.mirrors.answered(&name, outcome, context.clock().uptime(), jitter);
            }
            MirrorManagerMsg::RetryDue => self.wake = None,
        }
        self.carry_out(context);
    }
}

impl MirrorManager {
    fn carry_out(&mut self, context: &mut Context<MirrorManagerMsg>) {
        let Some(api) = self.args.api.clone() else { return };
        let now = context.clock().uptime();
        let (orders, wake) = self.mirrors.orders(now);
        for order in orders {
            let (name, api) = (order.full_name(), api.clone());
            let (title, about) =
                (if matches!(order, Order::Create(_)) { "create mirror" } else { "delete mirror" }, name.to_string());
            context.start(title, about, send(api, order), move |outcome| MirrorManagerMsg::Answered(name, outcome));
        }
        if let Some(timer) = self.wake.take() {
            context.cancel(timer);
        }
        self.wake = wake.map(|due| context.after(due.saturating_sub(now), MirrorManagerMsg::RetryDue));
    }
}

async fn send(api: ApiServer, order: Order) -> Outcome {
    let at = Place::namespace(&*order.full_name().namespace);
    match order {
        Order::Delete { full_name, uid } => match api.delete::<Pod>(&at, &full_name.name, Some(0), Some(&uid)).await {
            Ok(()) => Outcome::Deleted,
            // Another one of its name has taken its place, or nobody has. The watch says so if that is true.
            Err(error) if error.is_not_found() || error.is_conflict() => {
                tracing::info!(pod = %full_name, %error, "the API server denies a mirror pod that is to be deleted");
                Outcome::Denied
            }
            Err(error) => failed(&full_name, &error),
        },
        Order::Create(mirror) => match api.create::<Pod>(&at, &mirror).await {
            Ok(made) => Outcome::Made(Arc::new(made)),
            Err(error) if error.is_already_exists() => there(&api, &at, &mirror, &error).await,
            Err(error) => failed(&full_name(&mirror), &error),
        },
    }
}

/// There is a pod of the mirror's name. A mirror of another version, or one that is being deleted, is known by that, and goes
/// next; a pod that somebody else made is left alone.
async fn there(api: &ApiServer, at: &Place, mirror: &Pod, refusal: &ApiError) -> Outcome {
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    match api.get::<Pod>(at, mirror.metadata.name.as_deref().unwrap_or_default()).await {
        Ok(there) if is_mirror(&there) && node(&there) == node(mirror) => Outcome::Made(Arc::new(there)),
        Ok(_) => failed(&full_name(mirror), refusal),
        Err(error) => failed(&full_name(mirror), &error),
    }
}

fn failed(name: &FullName, error: &ApiError) -> Outcome {
    tracing::warn!(pod = %name, %error, "mirror pod cannot be made or deleted yet");
    if error.is_unreachable() { Outcome::Away } else { Outcome::Refused }
}
