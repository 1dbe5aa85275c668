//! `NodeLease`: keeps the node's Lease renewed; without it the cluster takes the node for dead.
//!
//! Parent: Root. Restarted: after a failure; the API server gives the Lease back. Has nothing to do where no API server
//! is named. Stops late, so that the Lease holds while pods are still looked after.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::{Context, OperationId};
use crate::logic::node::node_lease::{Action, Input, LeaseKeeper, NAMESPACE};
use crate::messages::node::node_lease::NodeLeaseMsg;
use crate::platform::cluster::kube_api::{ApiError, ApiServer, Lane, Place};
use crate::platform::host::chance::Chance;

/// The actor's arguments.
pub struct Args {
    /// The node's name, which is the Lease's too.
    pub node_name: String,
    /// `nodeLeaseDurationSeconds`.
    pub lease_seconds: i32,
    /// How long a call may take: a later heartbeat is no sign of life.
    pub heartbeat_limit: Duration,
    /// The API server, where one is named.
    pub api: Option<ApiServer>,
    /// Has connections closed that may be dead without having ended.
    pub doubt_connections: Arc<dyn Fn() + Send + Sync>,
    /// Spreads renewals.
    pub chance: Arc<dyn Chance>,
}

/// See the module.
pub struct NodeLease {
    args: Args,
    keeper: LeaseKeeper,
    /// The API server by its way for heartbeats; set where one is named.
    api: Option<ApiServer>,
    rest: Option<OperationId>,
}

impl Actor for NodeLease {
    const KIND: &'static str = "NodeLease";
    type Msg = NodeLeaseMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<NodeLeaseMsg>) -> Self {
        let keeper = LeaseKeeper::new(&args.node_name, args.lease_seconds);
        let api = args.api.as_ref().map(|api| api.on(Lane::Heartbeat).within(args.heartbeat_limit));
        let mut lease = Self { args, keeper, api, rest: None };
        if lease.api.is_some() {
            lease.step(Input::Due, context);
        }
        lease
    }

    fn receive(&mut self, message: NodeLeaseMsg, context: &mut Context<NodeLeaseMsg>) {
        match message {
            NodeLeaseMsg::RenewDue => {
                self.rest = None;
                self.step(Input::Due, context);
            }
            NodeLeaseMsg::PauseOver => self.step(Input::PauseOver, context),
            NodeLeaseMsg::Answered(outcome) => self.step(outcome.map_or(Input::Failed, |input| *input), context),
            NodeLeaseMsg::LimitChanged(limit) => {
                self.api = self.args.api.as_ref().map(|api| api.on(Lane::Heartbeat).within(limit));
            }
            NodeLeaseMsg::NodeRegistered => self.step(Input::NodeRegistered, context),
        }
    }
}

impl NodeLease {
    fn step(&mut self, input: Input, context: &mut Context<NodeLeaseMsg>) {
        for action in self.keeper.step(input, context.now()) {
            self.perform(action, context);
        }
    }

    fn perform(&mut self, action: Action, context: &mut Context<NodeLeaseMsg>) {
        let Some(api) = self.api.clone() else { return };
        let node = self.args.node_name.clone();
        let at = Place::namespace(NAMESPACE);
        match action {
            Action::ReadOwner => self.ask("read node", context, async move {
                let read = api.get::<Node>(&Place::Cluster, &node).await;
                let read = read.inspect_err(|error| tracing::error!(%error, "Failed to get node for its lease"));
                Input::Owner(read.ok().and_then(|node| node.metadata.uid))
            }),
            Action::Read => self.ask("read lease", context, async move {
                match api.get::<Lease>(&at, &node).await {
                    Ok(lease) => Input::Found(Box::new(lease)),
                    Err(error) if error.is_not_found() => Input::Missing,
                    Err(error) => failed("Failed to ensure lease exists, will retry", &error),
                }
            }),
            Action::Create(lease) => self.ask("create lease", context, async move {
                match api.create(&at, &*lease).await {
                    Ok(lease) => Input::Stored(Box::new(lease)),
                    Err(error) => failed("Failed to ensure lease exists, will retry", &error),
                }
            }),
            Action::Replace(lease) => self.ask("renew lease", context, async move {
                match api.replace(&at, &*lease, None).await {
                    Ok(lease) => Input::Stored(Box::new(lease)),
                    Err(error) if error.is_conflict() => Input::Conflict,
                    Err(error) => failed("Failed to update lease", &error),
                }
            }),
            Action::CloseConnections => (self.args.doubt_connections)(),
            Action::Pause(pause) => {
                context.after(pause, NodeLeaseMsg::PauseOver);
            }
            Action::Rest => self.rest(context),
        }
    }

    fn ask(
        &self,
        name: &'static str,
        context: &mut Context<NodeLeaseMsg>,
        work: impl Future<Output = Input> + Send + 'static,
    ) {
        let work = async move { Box::new(work.await) };
        context.start(name, self.args.node_name.clone(), work, NodeLeaseMsg::Answered);
    }

    fn rest(&mut self, context: &mut Context<NodeLeaseMsg>) {
        if let Some(timer) = self.rest.take() {
            context.cancel(timer);
        }
        let rest: Duration = self.keeper.rest(self.args.chance.next());
        self.rest = Some(context.after(rest, NodeLeaseMsg::RenewDue));
    }
}

fn failed(what: &str, error: &ApiError) -> Input {
    tracing::error!(%error, "{what}");
    Input::Failed
}
