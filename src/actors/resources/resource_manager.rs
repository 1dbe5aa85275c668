//! `ResourceManager`: the cgroups above the pods' own: all pods', and the tiers of burstable and best-effort pods.
//!
//! Parent: Root. Restarted: after a failure; `PodManager` tells it the pods again, the cgroups themselves are on the node. A
//! tier that cannot be made at the start ends the agent, as upstream's container manager does. A reserved cgroup that cannot
//! be limited ends it too. Limits of all pods that cannot be set do not: pods that use more may have to end first. The
//! node's Events tell of them, each minute until they are in force.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::single_flight::SingleFlight;
use crate::logic::events::reasons::EventReason;
use crate::logic::resources::cgroup_name::{CgroupName, CgroupTree};
use crate::logic::resources::node_cgroups::{NodeCgroups, ReservedCgroup};
use crate::logic::resources::{
    CgroupSettings, QosClass, ResourceOptions, TierSums, best_effort_tier_settings, burstable_tier_settings,
    reserved_tier_settings,
};
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::resources::resource_manager::{ReservedSet, ResourceManagerMsg, Tiers, TiersMade};
use crate::platform::cgroup::{CgroupError, CgroupManager};
use crate::platform::host::blocking;
use crate::platform::observer::{Observation, Observer};

/// Wait between refreshes (upstream's QoS cgroup manager).
const REFRESH_PERIOD: Duration = Duration::from_secs(60);
/// Upstream's text of the Event.
const ENFORCED: &str = "Updated Node Allocatable limit across pods";

/// The actor's arguments.
pub struct Args {
    /// The node's name, for its Events.
    pub node_name: String,
    /// Where the agent's cgroups are.
    pub tree: CgroupTree,
    /// The limits of all pods together and of the host's daemons.
    pub node: NodeCgroups,
    /// How resources become figures.
    pub options: ResourceOptions,
    /// Cgroups.
    pub cgroups: Arc<dyn CgroupManager>,
    /// Counts what is kept of memory.
    pub observer: Arc<dyn Observer>,
    /// Hears the node's Events.
    pub event_recorder: Address<EventRecorderMsg>,
}

/// See the module.
pub struct ResourceManager {
    args: Arc<Args>,
    /// The same limits, on the machine as it is now.
    node: Arc<NodeCgroups>,
    active: TierSums,
    /// The settings of the tiers, once they are made.
    tiers: Option<Box<Tiers>>,
    made_once: bool,
    enforcement: Enforcement,
    making: SingleFlight<()>,
}

/// Whether the limits of all pods were ever in force.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enforcement {
    NotTried,
    Failed,
    Done,
}

impl Actor for ResourceManager {
    const KIND: &'static str = "ResourceManager";
    type Msg = ResourceManagerMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<ResourceManagerMsg>) -> Self {
        let mut manager = Self {
            node: Arc::new(args.node.clone()),
            args: Arc::new(args),
            active: TierSums::default(),
            tiers: None,
            made_once: false,
            enforcement: Enforcement::NotTried,
            making: SingleFlight::default(),
        };
        manager.refresh(context);
        context.repair_after(REFRESH_PERIOD, ResourceManagerMsg::RefreshDue);
        manager
    }

    fn receive(&mut self, message: ResourceManagerMsg, context: &mut Context<ResourceManagerMsg>) {
        match message {
            ResourceManagerMsg::ActivePods(active) => {
                self.active = active;
                // Most pods change nothing of the tiers. Changes by somebody else are mended by and by.
                if self.making.is_under_way() || self.tiers.as_deref() != Some(&self.wanted()) {
                    self.refresh(context);
                }
            }
            ResourceManagerMsg::MachineChanged(size) => {
                self.node = Arc::new(self.args.node.resized(&size));
                self.refresh(context);
            }
            ResourceManagerMsg::RefreshDue => {
                self.refresh(context);
                context.repair_after(REFRESH_PERIOD, ResourceManagerMsg::RefreshDue);
            }
            ResourceManagerMsg::TiersMade(outcome) => {
                let (_, wanted) = self.making.end();
                self.tiers = None;
                match outcome.into_result() {
                    Ok(TiersMade { tiers, unlimited, reserved }) => {
                        if let Some((hard, soft)) = tiers.kept {
                            self.args.observer.observe(Observation::MemoryKept { hard, soft });
                        }
                        self.tiers = Some(tiers);
                        self.enforced(unlimited, context);
                        self.reserved(reserved, context);
                    }
                    Err(problem) if self.made_once => tracing::warn!(problem, "cgroups of pods not set"),
                    Err(problem) => fail(problem, context),
                }
                if wanted.is_some() {
                    self.refresh(context);
                }
            }
        }
    }
}

impl ResourceManager {
    fn wanted(&self) -> Tiers {
        tiers(&self.node, &self.args.options, &self.active)
    }

    fn refresh(&mut self, context: &mut Context<ResourceManagerMsg>) {
        // Without cgroups per class only a root of the pods' own is limited.
        if !self.args.tree.per_qos() && *self.args.tree.pods() == CgroupName::root() {
            return;
        }
        if self.making.want(()).is_none() {
            return;
        }
        let (args, wanted) = (Arc::clone(&self.args), Box::new(self.wanted()));
        let node = Arc::clone(&self.node);
        let is_first = !self.made_once;
        let work = blocking::run(move || {
            let unlimited = set_tiers(&args, &wanted).map_err(|error| error.to_string())?;
            let unlimited = unlimited.as_ref().map(CgroupError::to_string);
            let reserved = if is_first { set_reserved(&args, &node) } else { vec![] };
            Ok(TiersMade { tiers: wanted, unlimited, reserved })
        });
        context.start("set tier cgroups", "kubepods", work, |outcome| ResourceManagerMsg::TiersMade(outcome.into()));
    }

    /// Upstream's Events of the reserved cgroups. One that cannot be limited ends the agent.
    fn reserved(&mut self, all: Vec<ReservedSet>, context: &mut Context<ResourceManagerMsg>) {
        let (node, to) = (EventSubject::node(&self.args.node_name), &self.args.event_recorder);
        for one in all {
            match one {
                ReservedSet::Enforced(text) if context.address().record().restarts() == 0 => {
                    context.tell(to, node.normal(EventReason::NodeAllocatableEnforced, text));
                }
                ReservedSet::Enforced(_) => {}
                ReservedSet::Failed(problem) => {
                    let event = node.warning(EventReason::FailedNodeAllocatableEnforcement, problem.clone());
                    context.tell(to, event);
                    return fail(problem, context);
                }
            }
        }
        self.made_once = true;
    }

    /// Upstream's Events: each failure until the first success, and that. A new incarnation does not repeat it.
    fn enforced(&mut self, unlimited: Option<String>, context: &Context<ResourceManagerMsg>) {
        let (node, to) = (EventSubject::node(&self.args.node_name), &self.args.event_recorder);
        match (unlimited, self.enforcement) {
            (None, Enforcement::Done) => {}
            (None, before) => {
                self.enforcement = Enforcement::Done;
                if before == Enforcement::Failed || context.address().record().restarts() == 0 {
                    context.tell(to, node.normal(EventReason::NodeAllocatableEnforced, ENFORCED));
                }
            }
            (Some(problem), Enforcement::Done) => tracing::warn!(problem, "limits of all pods not set again"),
            (Some(problem), _) => {
                self.enforcement = Enforcement::Failed;
                let cgroup = self.args.tree.pods().quoted();
                let text = format!("Failed to update Node Allocatable Limits {cgroup}: {problem}");
                context.tell(to, node.warning(EventReason::FailedNodeAllocatableEnforcement, text));
            }
        }
    }
}

/// As upstream: the agent does not run without its cgroups.
fn fail(problem: String, context: &mut Context<ResourceManagerMsg>) {
    tracing::error!(problem, "Failed to start ContainerManager");
    context.escalate(problem);
}

fn tiers(node: &NodeCgroups, options: &ResourceOptions, active: &TierSums) -> Tiers {
    let mut all = node.of_pods();
    let reserved = reserved_tier_settings(active, options);
    let kept = options.memory_qos.map(|qos| match qos.reserves {
        true => (active.guaranteed_memory, active.burstable_memory),
        false => (0, 0),
    });
    let [above, below] = reserved.unwrap_or_default();
    all.unified.extend(above);
    let (mut burstable, mut best_effort) = (burstable_tier_settings(active), best_effort_tier_settings());
    burstable.unified.extend(below);
    if let Some([of_burstable, of_best_effort]) = node.tier_memory(active) {
        burstable.memory_limit = Some(of_burstable);
        best_effort.memory_limit = Some(of_best_effort);
    }
    Tiers { all, best_effort, burstable, kept }
}

/// Makes and sets all; why the limits of all pods are not in force, if that is all that failed.
fn set_tiers(args: &Args, tiers: &Tiers) -> Result<Option<CgroupError>, CgroupError> {
    let (tree, cgroups) = (&args.tree, &args.cgroups);
    if !tree.per_qos() {
        return Ok(cgroups.update(tree.pods(), &tiers.all).err());
    }
    let unlimited = if cgroups.exists(tree.pods()) {
        cgroups.update(tree.pods(), &tiers.all).err()
    } else {
        cgroups.create(tree.pods(), &tiers.all)?;
        None
    };
    let set = |name: &CgroupName, settings: &CgroupSettings| {
        if !cgroups.exists(name) {
            return cgroups.create(name, settings);
        }
        let first = cgroups.update(name, settings);
        // As upstream: what is in use above the limit is not reclaimed at once. It may at least not grow.
        let used = match (&first, settings.memory_limit) {
            (Err(_), Some(limit)) => {
                cgroups.memory_usage(name).ok().and_then(|used| i64::try_from(used).ok()).filter(|used| *used > limit)
            }
            _ => None,
        };
        match used {
            Some(used) => cgroups.update(name, &CgroupSettings { memory_limit: Some(used), ..settings.clone() }),
            None => first,
        }
    };
    set(&tree.tier(QosClass::BestEffort), &tiers.best_effort)?;
    set(&tree.tier(QosClass::Burstable), &tiers.burstable)?;
    Ok(unlimited)
}

/// Limits the reserved cgroups, up to the first that cannot be limited. They are the host's: none is made.
fn set_reserved(args: &Args, node: &NodeCgroups) -> Vec<ReservedSet> {
    let mut done = vec![];
    for reserved in &node.reserved {
        match set_one_reserved(args, node, reserved) {
            Ok(()) => done.push(ReservedSet::Enforced(reserved.enforced())),
            Err(error) => {
                done.push(ReservedSet::Failed(reserved.failed(&error)));
                break;
            }
        }
    }
    done
}

fn set_one_reserved(args: &Args, node: &NodeCgroups, reserved: &ReservedCgroup) -> Result<(), CgroupError> {
    let name = CgroupName::from_setting(&reserved.cgroup, args.cgroups.driver())?;
    let settings = reserved.settings(&name, node.cpus.as_deref(), &args.options)?;
    args.cgroups.validate(&name)?;
    args.cgroups.update(&name, &settings)
}

#[cfg(test)]
mod tests;
