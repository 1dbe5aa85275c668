//! The host's addresses on their way from `NodeStatus` to the workers of pods.

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::logic::network::host_ips::HostIps;
use crate::messages::node_status::NodeStatusMsg;
use crate::messages::pod_manager::PodManagerMsg;
use crate::messages::pod_worker::PodWorkerMsg;

impl PodManager {
    /// Told only when they changed; a worker that is started, or started again, has them from its beginning.
    pub(super) fn take_host(&mut self, host: HostIps, context: &mut Context<PodManagerMsg>) {
        if self.host != host {
            self.host = host.clone();
            self.tell_all(&|| PodWorkerMsg::HostChanged(host.clone()), context);
        }
    }

    /// Has them looked at: at the beginning, for a pod that begins, and with the housekeeping, as long as no Node says them.
    pub(super) fn ask_host(&self, context: &Context<PodManagerMsg>) {
        if self.node.is_none() {
            context.tell(&self.agent.directory.node_status, NodeStatusMsg::HostDue);
        }
    }
}
