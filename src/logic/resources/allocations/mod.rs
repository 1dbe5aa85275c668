//! Hardware that containers own: given when their pod is admitted, kept on the disk, taken back when the pod is over.
//!
//! Pure. `AllocationManager` owns the [`ResourceManagers`]: the managers of CPUs, memory and devices, and the topology manager that
//! aligns what they give. The rest of the folder is what others see of them: the PodResources API, the runtime, people.

mod held;
mod managers;
mod pinning;
mod placing;
mod record;
#[cfg(test)]
pub(crate) mod tests;

pub use held::{Allocation, Allocations, DeviceEntry, MemoryBlock};
pub use managers::{ManagerFigures, ResourceManagers, RestoreError, StateFiles, TopologyCounts};
pub use pinning::{ContainerPinning, PodPinning};
pub use placing::{Holding, Placement};
pub use record::PlacementRecord;
