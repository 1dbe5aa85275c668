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

/// Files of pods below the root directory and the pod logs directory. Nothing a container can write is followed: paths
/// are opened beneath their directory, links refused.
#[async_trait]
pub trait PodFiles: Send + Sync {
    /// Makes `pods/<uid>` and its `volumes`, `plugins`, `containers` (0750), and the directory of the pod's logs (0755,
    /// also if the runtime made it for fewer).
    async fn make_pod_directories(&self, pod: &PodPlace) -> Result<(), FileError>;
    /// Writes `pods/<uid>/etc-hosts` (0644) and gives its absolute path.
    async fn write_etc_hosts(&self, pod: &PodPlace, content: &[u8]) -> Result<String, FileError>;
    /// The node's own `/etc/hosts`, at most 1 MiB.
    async fn node_hosts(&self) -> Result<Vec<u8>, FileError>;
    /// The node's resolver configuration, of at most 1 MiB.
    async fn node_resolv_conf(&self, path: &str) -> Result<String, FileError>;
    /// Makes an empty `pods/<uid>/containers/<container>/<8 hex digits>` (0666) and gives its absolute path. The name
    /// is made from `restart_count` and the UID, so that it is the same in every replay.
    async fn make_termination_log(
        &self,
        pod: &PodPlace,
        container: &str,
        restart_count: u32,
    ) -> Result<String, FileError>;
    /// The last `bytes_max` bytes of a termination log, given its absolute path; empty when it is not a regular file
    /// below `pods/<uid>`.
    async fn read_termination_log(&self, uid: &PodUid, path: &str, bytes_max: usize) -> Result<String, FileError>;
    /// Makes the container's log directory (0755) and says the highest restart count of the logs that it holds.
    async fn make_log_directory(&self, pod: &PodPlace, container: &str) -> Result<Option<u32>, FileError>;
    /// The end of a container's log: at most `lines_max` lines and `bytes_max` bytes, without CRI's line prefixes.
    async fn log_tail(&self, path: &str, lines_max: usize, bytes_max: usize) -> Result<String, FileError>;
    /// Links `/var/log/containers/<link>` to the log file, if the log exists and links are wanted.
    async fn link_log(&self, link: &str, log_path: &str) -> Result<(), FileError>;
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
