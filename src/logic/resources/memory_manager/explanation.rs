//! Which NUMA nodes could give a container its memory and why not others, for people.
//!
//! Pure. `podwright explain` prints it; nothing reads the text back.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::manager::MemoryManager;
use super::requests::Amounts;
use super::state::{NodeState, mask};
use crate::logic::resources::topology::hints::NumaMask;

/// Why one node does not give a container its memory by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeObstacle {
    /// It could.
    Nothing,
    /// It never has as much.
    TooSmall {
        /// Of which kind.
        kind: String,
        /// The bytes of it that containers may hold.
        allocatable: u64,
    },
    /// It gives memory only together with others.
    Grouped(NumaMask),
    /// Others hold too much of it.
    Occupied {
        /// Of which kind.
        kind: String,
        /// The bytes that are left.
        free: u64,
    },
}

/// Which nodes could give a container its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryExplanation {
    /// The container's request, in bytes by kind.
    pub wanted: Amounts,
    /// Its earlier allocation, where it has one.
    pub held: Option<NumaMask>,
    /// Each node by itself.
    pub nodes: BTreeMap<u8, NodeObstacle>,
}

impl MemoryManager {
    /// Looks at every node for this container, as the machine is now; of use before it is given anything, or when it
    /// was refused. `None`: this manager gives the container nothing.
    pub fn explain(&self, pod: &Pod, container: &Container) -> Option<MemoryExplanation> {
        let wanted = self.gates.of_container(pod, container).ok().filter(|wanted| !wanted.is_empty())?;
        if self.gates.passes_by(pod) || self.state.machine.is_empty() {
            return None;
        }
        let held = self.nodes_of(pod.metadata.uid.as_deref().unwrap_or_default(), &container.name);
        let node = |(cell, state): (&i64, &NodeState)| Some((u8::try_from(*cell).ok()?, obstacle(state, &wanted)));
        let nodes = self.state.machine.iter().filter_map(node).collect();
        Some(MemoryExplanation { wanted, held, nodes })
    }
}

fn obstacle(state: &NodeState, wanted: &Amounts) -> NodeObstacle {
    let table = |kind: &str| state.memory_map.get(kind).copied().unwrap_or_default();
    if let Some((kind, _)) = wanted.iter().find(|(kind, bytes)| table(kind).allocatable < **bytes) {
        return NodeObstacle::TooSmall { kind: kind.clone(), allocatable: table(kind).allocatable };
    }
    if state.cells.len() > 1 {
        return NodeObstacle::Grouped(mask(&state.cells));
    }
    match wanted.iter().find(|(kind, bytes)| table(kind).free < **bytes) {
        Some((kind, _)) => NodeObstacle::Occupied { kind: kind.clone(), free: table(kind).free },
        None => NodeObstacle::Nothing,
    }
}

impl fmt::Display for NodeObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("has enough"),
            Self::TooSmall { kind, allocatable } => write!(f, "never has more than {allocatable} bytes of {kind}"),
            Self::Grouped(nodes) => write!(f, "gives memory only together with the others of nodes {nodes}"),
            Self::Occupied { kind, free } => write!(f, "has {free} bytes of {kind} left"),
        }
    }
}

impl fmt::Display for MemoryExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted: Vec<String> = self.wanted.iter().map(|(kind, bytes)| format!("{bytes} bytes of {kind}")).collect();
        write!(f, "wants {}", wanted.join(" and "))?;
        if let Some(nodes) = self.held {
            write!(f, "; holds them on nodes {nodes}")?;
        }
        for (node, obstacle) in &self.nodes {
            write!(f, "; node {node} {obstacle}")?;
        }
        Ok(())
    }
}
