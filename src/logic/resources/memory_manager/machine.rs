//! The memory that the machine's NUMA nodes have when nobody holds any.
//!
//! Pure. The caller reads it from `/sys/devices/system/node`, as upstream's cAdvisor does.

use std::collections::BTreeMap;

use super::state::{MachineState, MemoryTable, NodeState};
use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::resources::{HUGEPAGES_PREFIX, MEMORY};

/// The memory of one NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// All memory of the node in bytes, huge pages too.
    pub total: u64,
    /// How many huge pages there are, by size in KiB.
    pub huge_pages: BTreeMap<u64, u64>,
}

/// The memory of the machine by NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// By number of the node.
    pub nodes: BTreeMap<u8, NodeMemory>,
}

/// Bytes kept for the system by NUMA node and kind.
pub type Reserved = BTreeMap<u8, BTreeMap<String, u64>>;

impl Machine {
    /// The state in which nobody holds anything; upstream's `getDefaultMachineState`.
    ///
    /// Where more is reserved than there is, upstream's numbers wrap around and promise endless memory. Here nothing
    /// is left.
    pub(super) fn unused(&self, reserved: &Reserved) -> MachineState {
        let node = |(number, memory): (&u8, &NodeMemory)| {
            let reserved = |kind: &str| reserved.get(number).and_then(|kinds| kinds.get(kind)).copied().unwrap_or(0);
            let table = |kind: &str, total: u64, usable: u64| {
                let system_reserved = reserved(kind);
                let allocatable = usable.saturating_sub(system_reserved);
                MemoryTable { total, system_reserved, allocatable, reserved: 0, free: allocatable }
            };
            let mut memory_map = BTreeMap::new();
            let mut huge = 0_u64;
            for (kibibytes, pages) in &memory.huge_pages {
                let kind = huge_pages_name(*kibibytes);
                let total = pages.saturating_mul(*kibibytes).saturating_mul(1024);
                memory_map.insert(kind.clone(), table(&kind, total, total));
                huge = huge.saturating_add(total);
            }
            memory_map.insert(MEMORY.to_owned(), table(MEMORY, memory.total, memory.total.saturating_sub(huge)));
            let cell = i64::from(*number);
            (cell, NodeState { number_of_assignments: 0, memory_map, cells: vec![cell] })
        };
        self.nodes.iter().map(node).collect()
    }
}

/// The resource of huge pages of this size: `hugepages-2Mi`.
fn huge_pages_name(kibibytes: u64) -> String {
    let bytes = i64::try_from(kibibytes.saturating_mul(1024)).unwrap_or(i64::MAX);
    format!("{HUGEPAGES_PREFIX}{}", Quantity::from_units(bytes, Format::BinarySi))
}
