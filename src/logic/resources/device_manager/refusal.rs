//! Why devices cannot be given, in upstream's words.

use crate::logic::formats::go_text::quoted;
use crate::logic::model::ids::PodUid;

/// See the module. The pod fails with `Allocate failed due to` this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceRefusal {
    /// The container has devices already, and another number of them.
    #[error(
        "pod {} container {} changed request for resource {} from {had} to {wants}",
        quoted(pod.as_str()),
        quoted(container),
        quoted(resource)
    )]
    Changed {
        /// The pod.
        pod: PodUid,
        /// The container's name.
        container: String,
        /// As `vendor.com/gpu`.
        resource: String,
        /// How many it has.
        had: usize,
        /// How many it asks for.
        wants: usize,
    },
    /// No plugin of the resource is known.
    #[error("cannot allocate unregistered device {0}")]
    Unregistered(String),
    /// No device of the resource may be given.
    #[error("no healthy devices present; cannot allocate unhealthy devices {0}")]
    NoneHealthy(String),
    /// A device that the container has may not be given any more.
    #[error("previously allocated devices are no longer healthy; cannot allocate unhealthy devices {0}")]
    NoLongerHealthy(String),
    /// Too few are free.
    #[error("requested number of devices unavailable for {resource}. Requested: {requested}, Available: {available}")]
    TooFew {
        /// As `vendor.com/gpu`.
        resource: String,
        /// How many are missing yet.
        requested: usize,
        /// How many are free.
        available: usize,
    },
    /// The plugin did not say which devices it prefers.
    #[error("device plugin GetPreferredAllocation rpc failed with err: {0}")]
    NotPreferred(String),
    /// The plugin did not give the devices.
    #[error("{0}")]
    NotAllocated(String),
}

impl DeviceRefusal {
    /// The resource whose plugin may only be late: it comes some time after the boot of the node.
    pub fn late_resource(&self) -> Option<&str> {
        match self {
            Self::Unregistered(resource) | Self::NoneHealthy(resource) => Some(resource),
            Self::Changed { .. }
            | Self::NoLongerHealthy(_)
            | Self::TooFew { .. }
            | Self::NotPreferred(_)
            | Self::NotAllocated(_) => None,
        }
    }
}
