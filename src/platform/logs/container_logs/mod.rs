//! Logs of containers, as the one sees them who keeps them small: sizes, first writes, renaming, compression.

mod linux;

use async_trait::async_trait;

pub use linux::LinuxContainerLogs;

use crate::logic::logs::log_rotation::LogLook;
use crate::logic::model::time::Moment;
use crate::platform::files::FileError;

/// Files below the pod logs directory. Paths are those that the runtime names; one that is elsewhere is refused, and no
/// link below that directory is followed.
#[async_trait]
pub trait ContainerLogs: Send + Sync {
    /// Looks at logs, in this order. The next write to each is told by [`Self::written`], once, where the kernel has
    /// room for another watch.
    async fn look(&self, paths: &[String]) -> Vec<LogLook>;
    /// Waits until some of the logs that were looked at were written to, moved or removed since; which.
    async fn written(&self) -> Vec<String>;
    /// Removes the oldest rotated files, so that there is room for one more of `files_max`, and gives the log its
    /// rotated name, which is answered: an absolute path.
    async fn begin_rotation(&self, path: &str, files_max: usize, now: Moment) -> Result<String, FileError>;
    /// Gives a rotated log its name back, unless there is a new one.
    async fn undo_rotation(&self, path: &str, rotated: &str) -> Result<(), FileError>;
    /// Removes what earlier work on this log left half done, then compresses all that was rotated before the newest; how
    /// many files.
    async fn compress(&self, path: &str) -> Result<usize, FileError>;
}
