//! Devices of device plugins: which there are, and which containers own them (RES-39 to RES-46); upstream's device manager.
//!
//! Pure. [`devices`] is what plugins say, [`calls`] what they are asked for. [`DeviceManager`] decides; `AllocationManager` owns
//! it within the managers of `logic::resources::allocations`.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::logic::model::ids::PodUid;

mod books;
pub mod calls;
pub mod checkpoint;
mod choice;
pub mod devices;
mod grant_bytes;
mod grants;
mod hints;
pub mod late;
mod manager;
mod provider;
mod refusal;
#[cfg(test)]
mod tests;

pub use books::{Books, Owned, PodBook};
pub use grants::Conflict;
pub use manager::{ContainerDevices, DeviceManager, Inquiry, Opinion, Question};
pub use provider::DeviceHealth;
pub(in crate::logic::resources) use provider::Places;
pub use refusal::DeviceRefusal;

fn uid_of(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}

/// The containers that can own devices: all but ephemeral ones.
fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}
