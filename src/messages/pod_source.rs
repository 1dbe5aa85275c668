//! To the pod sources, `FileSource` and `HttpSource`.

use super::describe;
use crate::actors::desk::Panicked;
use crate::platform::manifests::{FetchError, Fetched, Folder, ScanError};

/// Where a pod is wanted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// The static pod path.
    File,
    /// The static pod URL.
    Http,
}

impl SourceKind {
    /// As the annotation `kubernetes.io/config.source` says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
        }
    }
}

/// To `FileSource`.
#[derive(Debug, strum::IntoStaticStr)]
pub enum FileSourceMsg {
    /// From itself: time to read the folder.
    ScanDue,
    /// From its own watch: the kernel saw a change in the folder.
    Changed,
    /// From its own watch: it ended, and why.
    WatchEnded(Result<String, Panicked>),
    /// From itself: time to watch again.
    WatchDue,
    /// From itself: the folder was read.
    Scanned(Result<Result<Folder, ScanError>, Panicked>),
    /// From Root: `PodManager` was started again; tell it everything once more.
    Repeat,
}

describe!(FileSourceMsg);

/// To `HttpSource`.
#[derive(Debug, strum::IntoStaticStr)]
pub enum HttpSourceMsg {
    /// From itself: time to ask.
    FetchDue,
    /// From itself: the URL was asked.
    FetchEnded(Result<Result<Fetched, FetchError>, Panicked>),
    /// From Root: `PodManager` was started again; tell it everything once more.
    Repeat,
}

describe!(HttpSourceMsg);
