//! The operations of `NodeStatus`: what is asked of the host, the runtime and the API server, and how it comes back.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use super::NodeStatus;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::Cause;
use crate::cri::{Image, ImageService, RuntimeService};
use crate::logic::node::node_status::{ImageFact, RuntimeAnswers};
use crate::messages::Lost;
use crate::messages::node::node_status::{
    Gathered, NodeAnswer, NodeAnswered, NodeFinding, NodeStatusMsg, NodeWait, NodeWatch,
};
use crate::platform::cluster::kube_api::reflector::{Followed, follow};
use crate::platform::cluster::kube_api::{ApiError, PatchKind, Place, Selector};

/// How long what the runtime says of itself and its images holds (upstream's image cache).
const ANSWERS_MAX_AGE: Duration = Duration::from_secs(30);
/// How long the runtime may take: a hung one must not hold up the node's heartbeat.
const ANSWERS_LIMIT: Duration = Duration::from_secs(5);
/// Wait before a watch that was lost begins again.
const WATCH_RETRY: Duration = Duration::from_secs(1);

/// A call's end, with a panic told as the server's silence.
pub(super) fn flat(answer: NodeAnswer) -> Result<Box<Node>, ApiError> {
    match answer {
        NodeAnswer::Done(node) => Ok(node),
        NodeAnswer::Failed(error) => Err(error),
        NodeAnswer::Lost(loss) => Err(ApiError::Transport(loss.to_string())),
    }
}

/// The message that a call's end is.
fn answered(
    which: fn(NodeAnswer) -> NodeAnswered,
) -> impl FnOnce(Result<Result<Box<Node>, ApiError>, Lost>) -> NodeStatusMsg {
    move |outcome| NodeStatusMsg::Answered(which(outcome.into()))
}

impl NodeStatus {
    /// Asks the host, and the runtime where its last answer is old.
    pub(super) fn gather(&mut self, context: &mut Context<NodeStatusMsg>) {
        self.work = super::Work::Gathering;
        let args = &self.args;
        let facts = Arc::clone(&args.facts);
        let addresses = self.args.settings.status.addresses.clone();
        let now = context.clock().uptime();
        let fresh = self
            .answers
            .as_ref()
            .and_then(|(asked, _)| *asked)
            .is_some_and(|asked| now.saturating_sub(asked) < ANSWERS_MAX_AGE);
        let asked = (!fresh).then(|| (Arc::clone(&args.runtime), Arc::clone(&args.images)));
        let work = async move {
            let runtime = async move {
                let (runtime, images) = asked?;
                let answers = tokio::time::timeout(ANSWERS_LIMIT, ask_runtime(&*runtime, &*images)).await;
                answers.inspect_err(|_| tracing::warn!(limit = ?ANSWERS_LIMIT, "runtime silent")).ok()
            };
            let (host, runtime) = futures_util::future::join(facts.read(&addresses), runtime).await;
            Box::new(Gathered { host, runtime })
        };
        context.start("read facts", "the node", work, |outcome| NodeStatusMsg::Found(NodeFinding::Gathered(outcome)));
    }

    pub(super) fn create(&self, node: Node, context: &mut Context<NodeStatusMsg>) {
        let Some((api, _)) = self.api.clone() else { return };
        let work = async move { api.create(&Place::Cluster, &node).await.map(Box::new) };
        context.start("create node", self.args.node_name.clone(), work, answered(NodeAnswered::Created));
    }

    pub(super) fn fetch(&self, context: &mut Context<NodeStatusMsg>) {
        let Some((_, api)) = self.api.clone() else { return };
        let name = self.args.node_name.clone();
        let work = async move { api.get(&Place::Cluster, &name).await.map(Box::new) };
        context.start("read node", self.args.node_name.clone(), work, answered(NodeAnswered::Fetched));
    }

    pub(super) fn patch(&self, body: Value, context: &mut Context<NodeStatusMsg>) {
        let Some((_, api)) = self.api.clone() else { return };
        let name = self.args.node_name.clone();
        let work = async move {
            let patched = api.patch(&Place::Cluster, &name, Some("status"), PatchKind::Strategic, &body).await;
            patched.map(Box::new)
        };
        context.start("patch node status", self.args.node_name.clone(), work, answered(NodeAnswered::Patched));
    }

    /// Follows the node's own object: labels, taints and pod CIDRs are set by others. Ends by a panic alone.
    pub(super) fn watch(&self, context: &mut Context<NodeStatusMsg>) {
        let Some((api, _)) = self.api.clone() else { return };
        let (me, name) = (context.address().clone(), self.args.node_name.clone());
        let (chance, selector) = (Arc::clone(&self.args.chance), Selector::name(&name));
        let work = async move {
            let chance = move || chance.next();
            let mut is_listed = false;
            let tell = |followed| is_listed = tell(&me, followed, is_listed);
            match follow::<Node>(&api, &Place::Cluster, &selector, chance, tell).await {}
        };
        context.start("watch node", name, work, |why| NodeStatusMsg::Watch(NodeWatch::WatchEnded(why)));
    }

    pub(super) fn watch_ended(&mut self, why: Result<Infallible, Lost>, context: &mut Context<NodeStatusMsg>) {
        match why {
            Ok(never) => match never {},
            Err(loss) => tracing::error!(error = %loss, "watch of the node ended"),
        }
        context.after(WATCH_RETRY, NodeStatusMsg::Due(NodeWait::WatchDue));
    }

    pub(super) fn watched(&mut self, node: Option<Box<Node>>, is_listed: bool, context: &mut Context<NodeStatusMsg>) {
        match node {
            Some(node) if is_listed => self.take(*node, context),
            Some(node) => self.adopt(*node, context),
            None if self.node.stored().is_none() => {} // It is not registered yet.
            // It is not made anew while the agent runs: somebody wanted it gone.
            None => {
                tracing::warn!(node = self.args.node_name, "the API server has no such node");
                self.mark_gone(context);
            }
        }
    }
}

/// The operation hears of changes from outside. A change that finds no room is in the next one, or was written by the
/// agent itself. A list may say that versions went back, and so may a change after a list that found no room: gives
/// whether one is owed.
fn tell(me: &Address<NodeStatusMsg>, followed: Followed<Node>, is_owed: bool) -> bool {
    let is_listed = is_owed || matches!(followed, Followed::Reset(_));
    let node = match followed {
        Followed::Reset(nodes) => nodes.into_iter().next(),
        Followed::Applied(node) => Some(node),
        Followed::Deleted(_) => None,
        Followed::Trouble(error) => {
            tracing::debug!(%error, "the node cannot be followed at present");
            return is_owed;
        }
    };
    let told = NodeStatusMsg::Watch(NodeWatch::Watched { node: node.map(Box::new), is_listed });
    me.tell(Cause::outside("API server"), told).is_err() && is_listed
}

async fn ask_runtime(runtime: &dyn RuntimeService, images: &dyn ImageService) -> RuntimeAnswers {
    let (version, images) = futures_util::future::join(runtime.version(), images.list_images(None)).await;
    let version = version.inspect_err(|error| tracing::error!(%error, "error getting runtime version"));
    RuntimeAnswers {
        version: version.ok().map(|version| version.runtime_version),
        images: images.map(|images| images.into_iter().map(image).collect()).map_err(|error| error.to_string()),
    }
}

fn image(image: Image) -> ImageFact {
    ImageFact {
        id: image.id,
        digests: image.repo_digests,
        tags: image.repo_tags,
        size_bytes: i64::try_from(image.size).unwrap_or(i64::MAX),
    }
}
