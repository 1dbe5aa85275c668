//! User namespaces of pods: each pod with `hostUsers: false` has a range of the host's IDs of its own (RES-63, SEC-26).
//!
//! [`space`] is the part of the host's IDs that pods may have, [`mapping_file`] the file that keeps a pod's range,
//! [`assignments`] who has which range. [`handlers`] says whether the runtime can do it.

pub mod assignments;
pub mod handlers;
pub mod mapping_file;
pub mod space;

use k8s_openapi::api::core::v1::Pod;

/// Whether the pod has a user namespace of its own.
pub fn has_own_users(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.host_users == Some(false))
}

/// A range of the host's user IDs, and the same of its group IDs. Inside the pod it begins with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The first on the host.
    pub first: u32,
    /// How many.
    pub length: u32,
}

impl IdRange {
    /// The first ID behind it.
    fn end(self) -> u64 {
        u64::from(self.first) + u64::from(self.length)
    }

    /// Whether some ID is in both.
    pub fn overlaps(self, other: Self) -> bool {
        u64::from(self.first) < other.end() && u64::from(other.first) < self.end()
    }
}
