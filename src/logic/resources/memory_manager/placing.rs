//! Which NUMA nodes can give memory, and which of them are taken (RES-32).
//!
//! Pure. A node that gave memory by itself never joins a group, and nodes of a group give memory only together. That is
//! upstream's rule of single and cross NUMA allocations.

use super::requests::Amounts;
use super::state::{MachineState, MemoryTable, NodeState, mask};
use crate::logic::resources::MEMORY;
use crate::logic::resources::topology::hints::{Hint, Hints, NumaMask};

/// Why no nodes can be chosen; the texts are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacingError {
    /// Nobody named nodes, and none have enough.
    #[error("[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")]
    NoDefault,
    /// Nobody named nodes, and the ones that have enough are more than should be needed.
    #[error("[memorymanager] failed to find the default preferred hint")]
    NoPreferredDefault,
    /// The named nodes have not enough, nor has any larger group with them.
    #[error("[memorymanager] failed to find NUMA nodes to extend the current topology hint")]
    NoExtension,
    /// The larger group has more nodes than should be needed.
    #[error("[memorymanager] failed to find the extended preferred hint")]
    NoPreferredExtension,
    /// The nodes give memory alone or in other groups already.
    #[error("[memorymanager] preferred hint violates NUMA node allocation")]
    Violation,
}

/// The facts by which nodes are found.
pub(super) struct Placing<'a> {
    pub(super) machine: &'a MachineState,
    /// The wanted bytes by kind.
    pub(super) wanted: &'a Amounts,
    /// Memory of the pod's ended init containers on these nodes, which the container may take over.
    pub(super) reusable: &'a dyn Fn(NumaMask, &str) -> u64,
}

impl Placing<'_> {
    /// A hint for each set of nodes that can give everything now; preferred are sets of the fewest nodes that could
    /// give it on an empty machine. No hint at all where no set can, as upstream.
    pub(super) fn hints(&self) -> Hints {
        let hints = self.candidates();
        match hints.is_empty() {
            true => Hints::new(),
            false => self.wanted.keys().map(|kind| (kind.clone(), Some(hints.clone()))).collect(),
        }
    }

    /// The nodes to take, given those that the topology manager chose.
    ///
    /// # Errors
    /// [`PlacingError`], when no nodes can be taken.
    pub(super) fn choose(&self, affinity: &Hint) -> Result<NumaMask, PlacingError> {
        let mut best = affinity.clone();
        let named = match best.nodes {
            Some(nodes) => nodes,
            None => {
                let default = narrowest(self.memory_candidates().into_iter()).ok_or(PlacingError::NoDefault)?;
                if best.preferred && !default.preferred {
                    return Err(PlacingError::NoPreferredDefault);
                }
                let nodes = default.nodes.unwrap_or_default();
                best = default;
                nodes
            }
        };
        let mut nodes = named;
        if !self.satisfies(named) {
            let larger = self.memory_candidates().into_iter();
            let larger = larger.filter(|hint| hint.nodes.is_some_and(|nodes| named.is_within(nodes)));
            let extended = narrowest(larger).ok_or(PlacingError::NoExtension)?;
            if best.preferred && !extended.preferred {
                return Err(PlacingError::NoPreferredExtension);
            }
            nodes = extended.nodes.unwrap_or_default();
        }
        if self.violates(nodes) { Err(PlacingError::Violation) } else { Ok(nodes) }
    }

    /// As upstream, which takes the hints of plain memory for all kinds.
    fn memory_candidates(&self) -> Vec<Hint> {
        if self.wanted.contains_key(MEMORY) { self.candidates() } else { Vec::new() }
    }

    fn candidates(&self) -> Vec<Hint> {
        if self.wanted.is_empty() {
            return Vec::new();
        }
        let nodes: Vec<u8> = self.machine.keys().filter_map(|cell| u8::try_from(*cell).ok()).collect();
        let mut fewest = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let mut found = Vec::new();
        for_each_set(&nodes, &mut |nodes| {
            let has = |of: fn(&MemoryTable) -> u64, spare: &dyn Fn(&str) -> u64| {
                self.wanted.iter().all(|(kind, bytes)| self.sum(nodes, kind, of).saturating_add(spare(kind)) >= *bytes)
            };
            if !has(|table| table.allocatable, &|_| 0) {
                return;
            }
            fewest = fewest.min(nodes.count());
            if self.is_open(nodes) && has(|table| table.free, &|kind| (self.reusable)(nodes, kind)) {
                found.push(nodes);
            }
        });
        let hint = |nodes: NumaMask| Hint { nodes: Some(nodes), preferred: nodes.count() == fewest };
        found.into_iter().map(hint).collect()
    }

    fn satisfies(&self, nodes: NumaMask) -> bool {
        self.wanted.iter().all(|(kind, bytes)| self.sum(nodes, kind, |table| table.free) >= *bytes)
    }

    fn sum(&self, nodes: NumaMask, kind: &str, of: fn(&MemoryTable) -> u64) -> u64 {
        let tables = self.states(nodes).filter_map(|state| state.memory_map.get(kind));
        tables.fold(0, |sum, table| sum.saturating_add(of(table)))
    }

    fn states(&self, nodes: NumaMask) -> impl Iterator<Item = &NodeState> {
        nodes.iter().filter_map(|node| self.machine.get(&i64::from(node)))
    }

    /// Whether the rule of groups lets these nodes give memory together.
    fn is_open(&self, nodes: NumaMask) -> bool {
        match nodes.count() {
            1 => self.states(nodes).all(|state| state.cells.len() <= 1),
            _ => !self.violates(nodes),
        }
    }

    /// The same, but a single node is never refused; upstream's `isAffinityViolatingNUMAAllocations`.
    fn violates(&self, nodes: NumaMask) -> bool {
        let is_apart =
            |state: &NodeState| state.number_of_assignments > 0 && (state.cells.len() == 1 || !same(state, nodes));
        nodes.count() > 1 && self.states(nodes).any(is_apart)
    }
}

fn same(state: &NodeState, nodes: NumaMask) -> bool {
    usize::try_from(nodes.count()) == Ok(state.cells.len()) && mask(&state.cells) == nodes
}

/// The preferred ones first, then the narrowest; upstream's `findBestHint`.
fn narrowest(hints: impl Iterator<Item = Hint>) -> Option<Hint> {
    hints.min_by_key(|hint| {
        let nodes = hint.nodes.unwrap_or_default();
        (!hint.preferred, nodes.count(), nodes.bits())
    })
}

/// Visits every set of these nodes, small sets first, in upstream's order.
fn for_each_set(nodes: &[u8], visit: &mut impl FnMut(NumaMask)) {
    for size in 1..=nodes.len() {
        combine(nodes, size, NumaMask::default(), visit);
    }
}

fn combine(nodes: &[u8], size: usize, chosen: NumaMask, visit: &mut impl FnMut(NumaMask)) {
    if size == 0 {
        return visit(chosen);
    }
    for (place, node) in nodes.iter().enumerate().take(nodes.len().saturating_sub(size - 1)) {
        combine(&nodes[place + 1..], size - 1, chosen.or(NumaMask::of([*node])), visit);
    }
}
