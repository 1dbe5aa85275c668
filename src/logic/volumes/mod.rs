//! A pod's volumes, their content, and where containers see them.
//!
//! Pure. `plan` says which volumes a pod uses and of which kind; `order` is an order to the host about one; `content` computes
//! files; `claim` resolves claims; `csi` computes what drivers are asked; `expansion` decides about a volume that has grown;
//! `scsi` names disks of storage networks; `container_mounts` says what a container gets. Nothing here keeps state: that is
//! `logic::volumes::volume_states`, which also has the news of long work (`slow_walk`).
//!
//! May import `formats`, `model`, `resources`, `objects`, `environment`, `plugins` and `events`.

pub mod claim;
pub mod container_mounts;
pub mod content;
pub mod csi;
pub mod expansion;
pub mod mounting;
pub mod order;
pub mod plan;
pub mod scsi;
pub mod steps;
pub mod volume_states;
