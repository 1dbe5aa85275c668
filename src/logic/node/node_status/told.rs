//! Facts of the node's status that other actors know, and those among them that are reported at once.
//!
//! Pure; owned by `NodeStatus`, which is told each part whole, whenever it changes.

use super::{DeviceResources, RuntimeFact};
use crate::logic::model::pressure::Pressure;
use crate::logic::model::runtime_health::RuntimeHealth;

/// Something that the Node's status shows and that another actor knows.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeNews {
    /// Whether the runtime can be used; from `RuntimeMonitor`.
    Health(RuntimeHealth),
    /// The abilities of the runtime; from `RuntimeMonitor`.
    Runtime(RuntimeFact),
    /// Which resources run short; from the eviction manager.
    Pressure(Pressure),
    /// The resources of device plugins; from `DevicePlugins`.
    Devices(DeviceResources),
    /// Attachable volumes in use, sorted; from the volume manager, once it knows.
    VolumesInUse(Vec<String>),
    /// Why volumes cannot be used yet; from whoever registers storage drivers.
    StorageProblem(Option<String>),
    /// Set while the machine is being shut down; from the shutdown manager. Reported at once.
    ShutdownProblem(Option<String>),
    /// The settings that the host cannot enforce; from the resource manager.
    Unenforced(Option<String>),
    /// Paths whose file systems do not answer; from the eviction manager.
    SilentDisks(Vec<String>),
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Told {
    /// Whether the runtime can be used; `None` before anybody said so.
    pub health: Option<RuntimeHealth>,
    /// The abilities of the runtime; `None` leaves those in the Node.
    pub runtime: Option<RuntimeFact>,
    /// Which resources run short.
    pub pressure: Pressure,
    /// The resources that device plugins offer.
    pub devices: DeviceResources,
    /// Whether there was no directory of device plugins when the agent started: what an earlier Node says of devices does
    /// not hold.
    pub devices_lost: bool,
    /// Attachable volumes in use, sorted; `None` until that is known, which leaves what the Node says (NODE-24).
    pub volumes_in_use: Option<Vec<String>>,
    /// Why volumes cannot be used yet.
    pub storage_problem: Option<String>,
    /// Set while the machine is being shut down.
    pub shutdown_problem: Option<String>,
    /// The settings that the host cannot enforce.
    pub unenforced: Option<String>,
    /// Paths whose file systems do not answer.
    pub silent_disks: Vec<String>,
}

impl Told {
    /// Takes the news; whether it is reported at once. Good news, a shutdown and volumes in use are, everything else is reported with the
    /// next update: what was only a moment's trouble need not become the cluster's.
    pub fn hear(&mut self, news: NodeNews) -> bool {
        let (was_ready, was_ending) = (self.has_no_problem(), self.shutdown_problem.is_some());
        let is_awaited = self.is_awaited(&news);
        match news {
            NodeNews::Health(health) => self.health = Some(health),
            NodeNews::Runtime(runtime) => self.runtime = Some(runtime),
            NodeNews::Pressure(pressure) => self.pressure = pressure,
            NodeNews::Devices(offered) => self.devices = offered,
            NodeNews::VolumesInUse(volumes) => self.volumes_in_use = Some(volumes),
            NodeNews::StorageProblem(problem) => self.storage_problem = problem,
            NodeNews::ShutdownProblem(problem) => self.shutdown_problem = problem,
            NodeNews::Unenforced(unenforced) => self.unenforced = unenforced,
            NodeNews::SilentDisks(silent) => self.silent_disks = silent,
        }
        (!was_ready && self.has_no_problem()) || was_ending != self.shutdown_problem.is_some() || is_awaited
    }

    /// Whether a pod waits until the Node says it: a volume is mounted once it is known to be in use (VOL-09).
    fn is_awaited(&self, news: &NodeNews) -> bool {
        let NodeNews::VolumesInUse(volumes) = news else { return false };
        let known = self.volumes_in_use.as_deref().unwrap_or_default();
        self.volumes_in_use.is_some() && volumes.iter().any(|volume| !known.contains(volume))
    }

    /// Whether nothing that is known keeps the node from being ready.
    pub fn has_no_problem(&self) -> bool {
        let is_well = |health: &RuntimeHealth| health.runtime_problem.is_none() && health.network_problem.is_none();
        self.health.as_ref().is_some_and(is_well) && self.storage_problem.is_none() && self.shutdown_problem.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(runtime_problem: Option<&str>) -> NodeNews {
        let runtime_problem = runtime_problem.map(str::to_owned);
        NodeNews::Health(RuntimeHealth { runtime_problem, ..RuntimeHealth::default() })
    }

    /// NODE-31: good news and a shutdown; VOL-09: a volume that a pod waits for.
    #[test]
    fn only_good_news_and_a_shutdown_are_reported_at_once() {
        let problem = || Some("not yet".to_owned());
        let mut told = Told::default();
        for (news, at_once) in [
            (health(Some("down")), false),
            (NodeNews::StorageProblem(problem()), false),
            (health(None), false),
            (NodeNews::StorageProblem(None), true),
            (health(None), false),
            (NodeNews::Pressure(Pressure { memory: true, ..Pressure::default() }), false),
            (health(Some("down")), false),
            (NodeNews::ShutdownProblem(problem()), true),
            (NodeNews::ShutdownProblem(problem()), false),
            (health(None), false),
            (NodeNews::ShutdownProblem(None), true),
            (NodeNews::VolumesInUse(vec![]), false),
            (NodeNews::VolumesInUse(vec!["v".to_owned()]), true),
            (NodeNews::VolumesInUse(vec!["v".to_owned()]), false),
        ] {
            assert_eq!(told.hear(news.clone()), at_once, "{news:?}");
        }
    }
}
