//! The size of the machine while the agent runs: CPUs and memory can be added and taken away (KEP-3953, which upstream 1.36
//! does not have).
//!
//! By default the size is the one that the agent started with, as upstream's. With `--follow-machine-size` the Node shows
//! each size that is found, a look every `nodeStatusUpdateFrequency`, and those hear of it who compute with it.

use std::sync::Arc;

use super::NodeStatus;
use crate::actors::kit::context::Context;
use crate::logic::events::reasons::EventReason;
use crate::logic::node::node_status::{self, HostFacts};
use crate::logic::resources::node_cgroups::{MachineNow, MachineSize};
use crate::messages::Lost;
use crate::messages::event_recorder::EventSubject;
use crate::messages::node::node_status::{NodeFinding, NodeStatusMsg, NodeWait};
use crate::messages::resources::resource_manager::ResourceManagerMsg;

/// The knowledge of the size.
#[derive(Default)]
pub(super) struct MachineTrack {
    /// The size that the agent goes by.
    size: Option<MachineSize>,
    /// With what pods may use of it; `None` until it changed.
    now: Option<Arc<MachineNow>>,
    /// The last size that `ResourceManager` got, and had room for.
    told: Option<Arc<MachineNow>>,
}

impl MachineTrack {
    /// The size as it became while the agent ran; `None` while it is the one of the start.
    pub(super) fn now(&self) -> Option<Arc<MachineNow>> {
        self.now.clone()
    }

    /// The receiver has forgotten the news.
    pub(super) fn forget_told(&mut self) {
        self.told = None;
    }
}

impl NodeStatus {
    /// Takes the machine's size off the facts; they have the size afterwards that the agent goes by.
    pub(super) fn take_size(&mut self, facts: &mut HostFacts, context: &Context<NodeStatusMsg>) {
        let Ok(machine) = &mut facts.machine else { return };
        let (found, settings) = (machine.size(), &self.args.settings);
        let known =
            self.host.machine.size.get_or_insert_with(|| settings.size.clone().unwrap_or_else(|| found.clone()));
        if !settings.follows_size {
            machine.set_size(known.clone());
            return;
        }
        if *known != found {
            let text = format!("the machine has {found} now, it had {known}");
            tracing::info!(%found, before = %known, "the size of the machine changed");
            let node = EventSubject::node(&self.args.node_name);
            context.tell(&self.args.to.event_recorder, node.normal(EventReason::MachineSizeChanged, text));
            *known = found.clone();
            let allocatable = node_status::allocatable(&settings.status.capacity, machine, facts.storage_bytes);
            self.host.machine.now = Some(Arc::new(MachineNow { size: found, allocatable }));
        }
        self.tell_size(context);
        self.tell_host(context);
    }

    /// Tells `ResourceManager` the size when it changed. A size that it has no room for comes again with the next look.
    pub(super) fn tell_size(&mut self, context: &Context<NodeStatusMsg>) {
        let Some(now) = self.host.machine.now().filter(|now| self.host.machine.told.as_ref() != Some(now)) else {
            return;
        };
        let changed = ResourceManagerMsg::MachineChanged(now.size.clone());
        if context.try_tell(&self.args.to.resource_manager, changed) {
            self.host.machine.told = Some(now);
        }
    }

    /// Looks at the machine where no status is made that would say its size.
    pub(super) fn look_at_size(&mut self, context: &mut Context<NodeStatusMsg>) {
        if !self.args.settings.follows_size {
            return;
        }
        let (facts, addresses) = (Arc::clone(&self.args.facts), self.args.settings.status.addresses.clone());
        let work = async move { Box::new(facts.read(&addresses).await) };
        context.start("read size", "the machine", work, |facts| NodeStatusMsg::Found(NodeFinding::SizeRead(facts)));
    }

    pub(super) fn size_read(&mut self, facts: Result<Box<HostFacts>, Lost>, context: &mut Context<NodeStatusMsg>) {
        match facts {
            Ok(mut facts) => self.take_size(&mut facts, context),
            Err(loss) => tracing::error!(error = %loss, "the size of the machine cannot be read"),
        }
        context.after(self.args.settings.update_period, NodeStatusMsg::Due(NodeWait::SizeDue));
    }
}
