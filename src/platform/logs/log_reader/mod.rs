//! Logs of containers, as readers of them: opened inside the log directories alone, read over rotated and compressed
//! files, and followed.

mod files;
mod linux;
mod reading;
mod watch;

use std::io;

use async_trait::async_trait;
use bytes::Bytes;

pub use linux::LinuxLogReader;

use crate::logic::logs::container_log::printer::{PrintOptions, UnknownFormat};

/// Which log, and what of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogWanted {
    /// The path that the runtime names, absolute.
    pub path: String,
    /// The container's ID, as the runtime knows it.
    pub container: String,
    /// The part to print.
    pub print: PrintOptions,
    /// So many of the last lines.
    pub tail_lines: Option<u64>,
    /// Whether what is written later counts.
    pub follow: bool,
}

/// Why a log cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum LogReadError {
    /// It is not where logs are, is no regular file, is a link, or cannot be opened.
    #[error("failed to open log file {path:?}: {problem}")]
    Open {
        /// The path that the runtime named.
        path: String,
        /// The kernel's error.
        problem: io::Error,
    },
    /// It was opened, and cannot be read.
    #[error("failed to read log file {path:?}: {problem}")]
    Read {
        /// The path that the runtime named.
        path: String,
        /// The error of the kernel, or of the decompressor.
        problem: io::Error,
    },
    /// It is no log.
    #[error(transparent)]
    Format(#[from] UnknownFormat),
}

/// The result of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// More for the reader; never empty, at most some hundred KiB.
    Shown(Bytes),
    /// All that is there was read. If it is followed, there may be more after [`OpenLog::changed`].
    AtEnd,
    /// The reader has all that it wanted.
    Done,
}

/// The fate of a log that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It may hold more.
    Written,
    /// Its writer has closed it: the container may have ended.
    Closed,
}

/// Room for one more reader; given back when it is dropped.
pub type Admission = tokio::sync::OwnedSemaphorePermit;

/// See the module.
#[async_trait]
pub trait LogReader: Send + Sync {
    /// Room for one more reader; `None` when there are as many as may be at once ([`READERS_MAX`]).
    fn admit(&self) -> Option<Admission>;
    /// Opens a log, with those of its rotated files that what is wanted reaches back to. Dropping the future, or the log,
    /// ends all work on it.
    async fn open(&self, wanted: LogWanted) -> Result<Box<dyn OpenLog>, LogReadError>;
}

/// A log that is being read.
#[async_trait]
pub trait OpenLog: Send {
    /// The next part, in the order of writing.
    async fn read(&mut self) -> Result<Part, LogReadError>;
    /// Waits until there may be more. No change since the first call is missed; before it, no change is reported.
    async fn changed(&mut self) -> Change;
    /// Begins to hear of changes: from now on none is missed.
    fn listen(&mut self);
}

/// Readers at once, with those that follow (SEC-14). Each holds a few files and, while it reads, two blocks.
pub const READERS_MAX: usize = 512;
