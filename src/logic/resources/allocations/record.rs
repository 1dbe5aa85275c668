//! Why a pod was given its CPUs and memory, or was refused, for people (`podwright explain`).

use std::collections::BTreeMap;
use std::fmt;

use crate::logic::model::time::Moment;
use crate::logic::resources::cpu_manager::take::Taken;
use crate::logic::resources::device_manager::calls::Need;
use crate::logic::resources::memory_manager::MemoryExplanation;
use crate::logic::resources::topology::admission::Refusal;
use crate::logic::resources::topology::explanation::Explanation;

/// The decisions of one admission. `Display` prints a line for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementRecord {
    /// Which NUMA nodes were chosen, and why not others.
    pub topology: Vec<Explanation>,
    /// The CPUs of each container, and as which parts of the machine they were taken; the empty name is the pod as a whole.
    pub cpus: BTreeMap<String, Taken>,
    /// The state of each NUMA node's memory before, by container.
    pub memory: BTreeMap<String, MemoryExplanation>,
    /// The devices of each container and resource.
    pub devices: BTreeMap<Need, Vec<String>>,
    /// Devices that the pod owns and that are unhealthy now, and since when.
    pub unhealthy: BTreeMap<Need, Vec<(String, Moment)>>,
    /// Why the pod was refused; nothing was given then.
    pub refusal: Option<Refusal>,
}

impl PlacementRecord {
    /// Whether there is nothing to say: the pod asked for no hardware of its own.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A line for each decision.
    pub fn lines(&self) -> Vec<String> {
        let named = |container: &str| match container {
            "" => "the pod".to_owned(),
            name => format!("container {name}"),
        };
        let mut lines: Vec<String> = self.topology.iter().map(ToString::to_string).collect();
        for (container, taken) in &self.cpus {
            lines.push(format!("{}: CPUs {} ({taken})", named(container), taken.cpus));
        }
        for (container, memory) in &self.memory {
            lines.push(format!("{}: memory: {memory}", named(container)));
        }
        for (Need { container, resource }, ids) in &self.devices {
            lines.push(format!("{}: {resource}: {}", named(container), ids.join(", ")));
        }
        for (Need { container, resource }, devices) in &self.unhealthy {
            let line = |(id, since): &(String, Moment)| {
                format!("{}: {resource}: {id} is unhealthy since {}", named(container), since.to_timestamp())
            };
            lines.extend(devices.iter().map(line));
        }
        lines.extend(self.refusal.as_ref().map(|refusal| format!("refused: {refusal}")));
        lines
    }
}

impl fmt::Display for PlacementRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}
