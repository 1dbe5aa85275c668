//! Volumes on the node: directories, memory file systems, files written all at once, bind mounts, parts of volumes.
//!
//! The trait and what it reports; [`linux`] carries it out. All below a volume may be a container's work: it is
//! reached by descriptors, links are not followed, and no mount that was not made here is ever removed or emptied.

mod atomic_writer;
pub mod csi;
mod in_use;
pub mod kinds;
mod layout;
mod level;
mod linux;
mod locks;
mod mounts;
mod ownership;
mod patient;
mod programs;
mod progress;
mod sub_path;
mod tear_down;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

pub use linux::LinuxVolumeHost;
pub use mounts::knows_noswap;
pub(in crate::platform) use patient::{DEADLINE, Patient};
pub use progress::{Doing, Progress, Walk};

use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::logic::volumes::order::{SetUp, SubPathOrder, VolumePlace};

/// Why something could not be done for a volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// An earlier call for the same volume has not ended: it hangs, most likely in a file system that does not answer.
    #[error("an earlier call for this volume has not ended yet: {0}")]
    Busy(String),
    /// A text that users know, as it is.
    #[error("{0}")]
    Refused(String),
    /// The path of a local volume is not there, or nothing that could be mounted (upstream's step `NewMounter`).
    #[error("{0}")]
    Source(String),
    /// Upstream's text for a second pod.
    #[error("volume uses the ReadWriteOncePod access mode and is already in use by another pod")]
    InUse,
    /// The disk behind a volume could not be attached (upstream's step `WaitForAttach`).
    #[error("{0}")]
    Attach(String),
    /// The device behind a volume could not be mounted (upstream's step `MountDevice`).
    #[error("{0}")]
    Device(String),
    /// The same of a device that has another file system than the volume names.
    #[error("{0}")]
    OtherFileSystem(String),
    /// It is mounted with another label (upstream's text).
    #[error(
        "waiting for unmount of volume {0:?}, because it is already mounted to a different pod with a different SELinux label"
    )]
    OtherLabel(String),
    /// The kernel said no.
    #[error("{attempt} {path}: {problem}")]
    Failed {
        /// The attempt, such as `mount tmpfs on`.
        attempt: &'static str,
        /// On what.
        path: String,
        /// The kernel's error.
        problem: String,
    },
}

impl VolumeError {
    fn failed(attempt: &'static str, path: &std::path::Path, problem: impl std::fmt::Display) -> Self {
        Self::Failed { attempt, path: path.display().to_string(), problem: problem.to_string() }
    }
}

/// The node's work for volumes. Each call is whole: done again it finds what is done, and a hung one costs only the
/// volume that it is about.
#[async_trait]
pub trait VolumeHost: Send + Sync {
    /// The volume's path, as containers are given it.
    fn path_of(&self, place: &VolumePlace) -> String;
    /// Where the device of a place is mapped to: for the node as a whole, and for the pod (the folder of its link).
    fn map_paths(&self, place: &VolumePlace) -> [String; 2];
    /// Has the volume there. `place` is `None` for what has no directory of its own. Gives a warning for the pod's author,
    /// if there is something to be warned of. `progress` tells how far it is.
    async fn set_up_watched(
        &self,
        uid: &PodUid,
        place: Option<&VolumePlace>,
        order: SetUp,
        progress: Arc<Progress>,
    ) -> Result<Option<String>, VolumeError>;
    /// The same, for whoever does not look how far it is.
    async fn set_up(
        &self,
        uid: &PodUid,
        place: Option<&VolumePlace>,
        order: SetUp,
    ) -> Result<Option<String>, VolumeError> {
        self.set_up_watched(uid, place, order, Arc::default()).await
    }
    /// Makes the file system of a local volume, whose path is `source`, as large as its device; a directory stays as it is.
    async fn grow(&self, place: &VolumePlace, source: &str) -> Result<(), VolumeError> {
        Err(VolumeError::Refused(format!("the volume {place} on {source} cannot be grown here")))
    }
    /// Unmounts parts of the volume, then the volume, then removes its directory: with what is in it if that is the
    /// agent's or the pod's own, else only if it is empty.
    async fn tear_down(&self, place: &VolumePlace) -> Result<(), VolumeError>;
    /// Mounts a part of a volume where a container is to find it; gives that path. The part is made when it is missing,
    /// with the mode of the volume's root. The error's text is for the pod's author: it tells nothing of the host.
    async fn prepare_sub_path(&self, order: SubPathOrder) -> Result<String, VolumeError>;
    /// A regular file of the volume that is mounted at `volume`, by its path below it, links refused; `None` when there is
    /// none. Nothing is read of a file that has more than `bytes_max` bytes.
    async fn read_file(&self, volume: &str, path: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, VolumeError> {
        let _ = (path, bytes_max);
        Err(VolumeError::Refused(format!("files of volume {volume} cannot be read here")))
    }
    /// The volumes of a pod that are on the disk, sorted. Looks at names alone, so that a dead mount holds nobody up.
    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<VolumePlace>, VolumeError>;
    /// Removes what is left of the pod's volumes once none is there: parts of volumes that have no directory of their
    /// own, and markers. Fails when something is still mounted.
    async fn release(&self, uid: &PodUid) -> Result<(), VolumeError>;
    /// The names, as the Node's status has them, of the volumes that the cluster attached to this node. They are mounted
    /// here, whoever mounted them.
    async fn attached(&self) -> Result<BTreeSet<String>, VolumeError> {
        Ok(BTreeSet::new())
    }
    /// Calls that have taken longer than they should: on what, and since when.
    fn hanging(&self) -> Vec<(String, Moment)>;
}
