//! Which NUMA nodes give Guaranteed containers their memory; upstream's memory manager (KEP-1769).
//!
//! Pure; owned by whoever admits pods, which writes [`MemoryManager::to_file`] to the disk before a container is made.

mod checkpoint;
mod dump;
mod explanation;
mod machine;
mod manager;
mod placing;
mod pod_level;
mod requests;
mod reservation;
mod state;
#[cfg(test)]
mod tests;
mod validation;

pub use checkpoint::{FileError, RestoreError, STATE_FILE};
pub use explanation::{MemoryExplanation, NodeObstacle};
pub use machine::{Machine, NodeMemory, Reserved};
pub use manager::{MemoryError, MemoryFigures, MemoryManager, MemoryPolicy, UnknownPolicy};
pub use placing::PlacingError;
pub use requests::{Amounts, Gates, NoWholeBytes};
pub use reservation::{Reservation, ReservationError, reserved};
pub use state::{Assignments, Block, MachineState, MemoryTable, NodeState, PodEntry, State};
pub use validation::StateError;
