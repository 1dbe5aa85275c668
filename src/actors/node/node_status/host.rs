//! The host's side of `NodeStatus`, besides the Node: its addresses, for its pods (NODE-20), and faults of its resolver
//! configuration.
//!
//! The newest Node says which addresses the host has. While there is none, and always without an API server, the host
//! itself is asked, whenever somebody uses them: a host that gets its address after the agent started is then found to
//! have it, and one at rest is asked once a minute.

use std::sync::Arc;
use std::time::Duration;

use super::NodeStatus;
use super::machine_size::MachineTrack;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::single_flight::SingleFlight;
use crate::logic::events::reasons::EventReason;
use crate::logic::network::dns::resolv_conf_problem;
use crate::logic::network::host_ips::HostIps;
use crate::logic::network::node_addresses::AddressFacts;
use crate::logic::resources::node_cgroups::MachineNow;
use crate::messages::event_recorder::EventSubject;
use crate::messages::node::node_status::{NodeFinding, NodeStatusMsg};
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::{Ended, Lost};

/// Wait before a host without an address is asked again.
const HOST_RETRY: Duration = Duration::from_secs(5);

/// The host's addresses, as far as they are known.
#[derive(Default)]
pub(super) struct Host {
    /// As the host itself said last.
    own: Option<HostIps>,
    /// The last addresses and size that `PodManager` got, and had room for.
    told: Option<(HostIps, Option<Arc<MachineNow>>)>,
    reads: SingleFlight<()>,
    /// It will be asked again.
    retry: Option<OperationId>,
    /// The size of the machine.
    pub(super) machine: MachineTrack,
}

impl Host {
    /// The receiver has forgotten the news.
    pub(super) fn forget_told(&mut self) {
        self.told = None;
    }
}

impl NodeStatus {
    /// Asks the host, unless a Node says it all.
    pub(super) fn read_host(&mut self, context: &mut Context<NodeStatusMsg>) {
        if self.node.newest().is_some() || self.host.reads.want(()).is_none() {
            return;
        }
        let facts = Arc::clone(&self.args.facts);
        let settings = self.args.settings.status.addresses.clone();
        let work = async move { facts.addresses(&settings).await };
        context.start("read addresses", "the host", work, |facts| NodeStatusMsg::Found(NodeFinding::HostRead(facts)));
    }

    pub(super) fn host_read(&mut self, facts: Result<AddressFacts, Lost>, context: &mut Context<NodeStatusMsg>) {
        let (_, wanted) = self.host.reads.end();
        match facts {
            Ok(facts) => self.host.own = Some(HostIps::own(&self.args.settings.status.addresses, &facts)),
            Err(loss) => tracing::error!(error = %loss, "the host's addresses cannot be read"),
        }
        self.tell_host(context);
        if let Some(before) = self.host.retry.take() {
            context.cancel(before);
        }
        let known = self.host.own.as_ref().is_some_and(|own| own.problem().is_none());
        if wanted.is_some() {
            self.read_host(context);
        } else if !known && self.node.newest().is_none() {
            self.host.retry = Some(context.after(HOST_RETRY, NodeStatusMsg::HostDue));
        }
    }

    /// Tells `PodManager` the host's addresses when they changed. A change that it has no room for comes again with the
    /// next word.
    pub(super) fn tell_host(&mut self, context: &Context<NodeStatusMsg>) {
        let newest = self.node.newest().map(|node| HostIps::of(&node)).or_else(|| self.host.own.clone());
        // A changed size goes out also before the addresses are known.
        let newest = newest.or_else(|| self.host.machine.now().map(|_| HostIps::default()));
        let newest = newest.map(|ips| (ips, self.host.machine.now()));
        let Some((host, machine)) = newest.filter(|newest| self.host.told.as_ref() != Some(newest)) else { return };
        let changed = PodManagerMsg::HostChanged { ips: host.clone(), machine: machine.clone() };
        if context.try_tell(&self.args.to.pod_manager, changed) {
            if let Some(problem) = host.problem() {
                tracing::warn!(problem, "pods are not told which addresses their host has");
            }
            self.host.told = Some((host, machine));
        }
    }

    /// Once an agent, as upstream; each pod's sandbox reads the file anew.
    pub(super) fn check_resolv_conf(&self, context: &mut Context<NodeStatusMsg>) {
        let Some(path) = self.args.dns.resolv_conf.clone() else { return };
        if context.address().record().restarts() == 0 {
            let files = Arc::clone(&self.args.files);
            let about = path.clone();
            let work = async move { files.node_resolv_conf(&path).await.map_err(|error| error.to_string()) };
            let ended = |read: Result<_, Lost>| NodeStatusMsg::Found(NodeFinding::ResolvConfRead(read.into()));
            context.start("read resolv.conf", about, work, ended);
        }
    }

    pub(super) fn resolv_conf_read(&self, read: Ended<String>, context: &Context<NodeStatusMsg>) {
        let dns = &self.args.dns;
        let path = dns.resolv_conf.as_deref().unwrap_or_default();
        let problem = match read.into_result() {
            Ok(text) => resolv_conf_problem(path, &text, &dns.cluster_domain),
            Err(error) => Some(error),
        };
        if let Some(problem) = problem {
            let node = EventSubject::node(&self.args.node_name);
            context.tell(&self.args.to.event_recorder, node.warning(EventReason::CheckLimitsForResolvConf, problem));
        }
    }
}
