//! How large the machine is, as far as cgroups and scores follow it.

use std::collections::BTreeMap;
use std::fmt;

use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::resources::{CPU, MEMORY, ResourceList, hugepage_capacity};

/// See the module. CPUs and memory can be added to a running machine, and taken away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSize {
    /// CPUs that are online.
    pub cpus: i64,
    /// The same by their numbers, as the kernel lists them: `0-3,8`.
    pub cpu_list: String,
    /// All memory, in bytes.
    pub memory_bytes: i64,
    /// All swap, in bytes.
    pub swap_bytes: i64,
    /// How many huge pages there are, by their size in bytes.
    pub hugepages: BTreeMap<u64, u64>,
}

/// The machine as it became while the agent ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineNow {
    /// Its size.
    pub size: MachineSize,
    /// The amounts that pods may use of it, as a Node would say it.
    pub allocatable: ResourceList,
}

impl fmt::Display for MachineSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = Quantity::from_units(self.memory_bytes, Format::BinarySi);
        write!(f, "{} CPUs ({}) and {memory} of memory", self.cpus, self.cpu_list)
    }
}

impl MachineSize {
    /// CPU, memory and huge pages as amounts.
    pub fn capacity(&self) -> ResourceList {
        let mut capacity = ResourceList::from([
            (CPU.to_owned(), Quantity::from_units(self.cpus, Format::DecimalSi)),
            (MEMORY.to_owned(), Quantity::from_units(self.memory_bytes, Format::BinarySi)),
        ]);
        capacity.extend(self.hugepages.iter().map(|(size, count)| hugepage_capacity(*size, *count)));
        capacity
    }
}
