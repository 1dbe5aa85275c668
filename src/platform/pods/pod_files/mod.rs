//! The agent's own files of a pod: directories, `/etc/hosts`, termination logs, log links.

mod linux;
mod log_lines;

use std::collections::BTreeSet;

use async_trait::async_trait;

pub use linux::LinuxPodFiles;

use crate::logic::model::ids::{ContainerId, FullName, PodUid};
use crate::logic::model::time::Moment;
use crate::platform::files::FileError;

/// A pod, as its directories name it. All parts were checked as path segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPlace {
    /// UID: the name below `<root-dir>/pods`.
    pub uid: PodUid,
    /// Name and namespace: with the UID, the name below the pod logs directory.
    pub full_name: FullName,
}

/// The files of a container that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerFiles {
    /// Its name.
    pub container: String,
    /// Its restart count, as the runtime's containers say; at 0 its logs are asked, which may know of more (CRI-16).
    pub restart_count: u32,
    /// Whether it may leave a message.
    pub termination_log: bool,
    /// The content of the pod's hosts file, where the container is to have it.
    pub etc_hosts: Option<Vec<u8>>,
}

/// [`ContainerFiles`] that were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeContainerFiles {
    /// The restart count that names the container's log.
    pub restart_count: u32,
    /// The absolute path of the termination log, where one was wanted; a container can do without.
    pub termination_log: Option<Result<String, FileError>>,
    /// The absolute path of the pod's hosts file, where it was wanted.
    pub etc_hosts: Option<String>,
}

/// Files of pods below the root directory and the pod logs directory. Nothing a container can write is followed: paths
/// are opened beneath their directory, links refused.
#[async_trait]
pub trait PodFiles: Send + Sync {
    /// Makes `pods/<uid>` and its `volumes`, `plugins`, `containers` (0750), and the directory of the pod's logs (0755,
    /// also if the runtime made it for fewer).
    async fn make_pod_directories(&self, pod: &PodPlace) -> Result<(), FileError>;
    /// Makes the container's log directory (0755), an empty `pods/<uid>/containers/<container>/<8 hex digits>` (0666) for
    /// its message, and `pods/<uid>/etc-hosts` (0644). The digits are made from the restart count and the UID, so that they
    /// are the same in every replay. All in one call: each one waits for a thread.
    async fn make_container_files(
        &self,
        pod: &PodPlace,
        files: ContainerFiles,
    ) -> Result<MadeContainerFiles, FileError>;
    /// The node's own `/etc/hosts`, at most 1 MiB.
    async fn node_hosts(&self) -> Result<Vec<u8>, FileError>;
    /// The node's resolver configuration, of at most 1 MiB.
    async fn node_resolv_conf(&self, path: &str) -> Result<String, FileError>;
    /// The last `bytes_max` bytes of a termination log, given its absolute path; empty when it is not a regular file
    /// below `pods/<uid>`.
    async fn read_termination_log(&self, uid: &PodUid, path: &str, bytes_max: usize) -> Result<String, FileError>;
    /// The end of a container's log: at most `lines_max` lines and `bytes_max` bytes, without CRI's line prefixes.
    async fn log_tail(&self, path: &str, lines_max: usize, bytes_max: usize) -> Result<String, FileError>;
    /// Links `/var/log/containers/<link>` to the log file, if the log exists and links are wanted.
    async fn link_log(&self, link: &str, log_path: &str) -> Result<(), FileError>;
    /// The IDs in the names of the links to the logs of one container of the pod.
    async fn linked_containers(&self, pod: &PodPlace, container: &str) -> Result<BTreeSet<ContainerId>, FileError>;
    /// Removes a container's log files and its link.
    async fn remove_container_log(&self, link: &str, log_path: &str) -> Result<(), FileError>;
    /// Removes links to logs that are not there any more, unless they are of these containers; how many. Links that lead
    /// elsewhere than below the pod logs directory are somebody else's.
    async fn remove_dead_links(&self, live: &BTreeSet<ContainerId>) -> Result<usize, FileError>;
    /// Removes the pod's directory. Never crosses into another file system; a mount inside is an error that names it.
    async fn remove_pod(&self, uid: &PodUid) -> Result<(), FileError>;
    /// UIDs that have a directory below `pods`.
    async fn known_pods(&self) -> Result<Vec<PodUid>, FileError>;
    /// Directories of pods' logs, by name, and the UID that each name ends with.
    async fn known_log_directories(&self) -> Result<Vec<(String, PodUid)>, FileError>;
    /// When a directory of a pod's logs, or a log in it, changed last; `None` when it is not there.
    async fn log_directory_written(&self, name: &str) -> Result<Option<Moment>, FileError>;
    /// Removes one directory of a pod's logs, and the links to logs in it.
    async fn remove_log_directory(&self, name: &str) -> Result<(), FileError>;
}
