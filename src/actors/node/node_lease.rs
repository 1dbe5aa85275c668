//! `NodeLease`: keeps the node's Lease renewed; without it the cluster takes the node for dead.
//!
//! Parent: Root. Restarted: after a failure; the API server gives the Lease back. Has nothing to do where no API server
//! is named. Stops late, so that the Lease holds while pods are still looked after.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;

use crate::actors::kit::desk::{Desk, OperationId};
use crate::actors::kit::role::Role;
use crate::actors::settings::Agent;
use crate::logic::node::node_lease::{Action, Input, LeaseKeeper, NAMESPACE};
use crate::messages::node_lease::NodeLeaseMsg;
use crate::platform::cluster::kube_api::{ApiError, ApiServer, Lane, Place};

/// See the module.
pub struct NodeLease {
    agent: Arc<Agent>,
    keeper: LeaseKeeper,
    /// Set where an API server is named.
    api: Option<ApiServer>,
    rest: Option<OperationId>,
}

impl Role for NodeLease {
    const KIND: &'static str = "NodeLease";
    type Msg = NodeLeaseMsg;
    type Args = Arc<Agent>;

    fn begin(agent: Arc<Agent>, desk: &mut Desk<NodeLeaseMsg>) -> Self {
        let settings = &agent.settings;
        let keeper = LeaseKeeper::new(&settings.node_name, settings.node.lease_seconds);
        let limit = settings.node.heartbeat_limit();
        let api = agent.adapters.api.as_ref().map(|api| api.on(Lane::Heartbeat).within(limit));
        let mut lease = Self { agent, keeper, api, rest: None };
        if lease.api.is_some() {
            lease.step(Input::Due, desk);
        }
        lease
    }

    fn receive(&mut self, message: NodeLeaseMsg, desk: &mut Desk<NodeLeaseMsg>) {
        match message {
            NodeLeaseMsg::RenewDue => {
                self.rest = None;
                self.step(Input::Due, desk);
            }
            NodeLeaseMsg::PauseOver => self.step(Input::PauseOver, desk),
            NodeLeaseMsg::Answered(outcome) => self.step(outcome.map_or(Input::Failed, |input| *input), desk),
            NodeLeaseMsg::NodeRegistered => {
                // The first try may have come too early to find the Node.
                if self.keeper.is_idle() && !self.keeper.holds() {
                    self.step(Input::Due, desk);
                }
            }
        }
    }
}

impl NodeLease {
    fn step(&mut self, input: Input, desk: &mut Desk<NodeLeaseMsg>) {
        for action in self.keeper.step(input, desk.now()) {
            self.perform(action, desk);
        }
    }

    fn perform(&mut self, action: Action, desk: &mut Desk<NodeLeaseMsg>) {
        let Some(api) = self.api.clone() else { return };
        let node = self.agent.settings.node_name.clone();
        let at = Place::namespace(NAMESPACE);
        match action {
            Action::ReadOwner => self.ask("read node", desk, async move {
                let read = api.get::<Node>(&Place::Cluster, &node).await;
                let read = read.inspect_err(|error| tracing::error!(%error, "Failed to get node for its lease"));
                Input::Owner(read.ok().and_then(|node| node.metadata.uid))
            }),
            Action::Read => self.ask("read lease", desk, async move {
                match api.get::<Lease>(&at, &node).await {
                    Ok(lease) => Input::Found(Box::new(lease)),
                    Err(error) if error.is_not_found() => Input::Missing,
                    Err(error) => failed("Failed to ensure lease exists, will retry", &error),
                }
            }),
            Action::Create(lease) => self.ask("create lease", desk, async move {
                match api.create(&at, &*lease).await {
                    Ok(lease) => Input::Stored(Box::new(lease)),
                    Err(error) => failed("Failed to ensure lease exists, will retry", &error),
                }
            }),
            Action::Replace(lease) => self.ask("renew lease", desk, async move {
                match api.replace(&at, &*lease, None).await {
                    Ok(lease) => Input::Stored(Box::new(lease)),
                    Err(error) if error.is_conflict() => Input::Conflict,
                    Err(error) => failed("Failed to update lease", &error),
                }
            }),
            Action::CloseConnections => (self.agent.adapters.doubt_connections)(),
            Action::Pause(pause) => {
                desk.after(pause, NodeLeaseMsg::PauseOver);
            }
            Action::Rest => self.rest(desk),
        }
    }

    fn ask(
        &self,
        name: &'static str,
        desk: &mut Desk<NodeLeaseMsg>,
        work: impl Future<Output = Input> + Send + 'static,
    ) {
        let work = async move { Box::new(work.await) };
        desk.start(name, self.agent.settings.node_name.clone(), work, NodeLeaseMsg::Answered);
    }

    fn rest(&mut self, desk: &mut Desk<NodeLeaseMsg>) {
        if let Some(timer) = self.rest.take() {
            desk.cancel(timer);
        }
        let rest: Duration = self.keeper.rest(self.agent.adapters.chance.next());
        self.rest = Some(desk.after(rest, NodeLeaseMsg::RenewDue));
    }
}

fn failed(what: &str, error: &ApiError) -> Input {
    tracing::error!(%error, "{what}");
    Input::Failed
}
