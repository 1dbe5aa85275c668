//! To the pod sources, `FileSource`, `HttpSource` and `ApiSource`.

use k8s_openapi::api::core::v1::Pod;

use crate::messages::{Ended, Lost, describe};
use crate::platform::pods::manifests::{FetchError, Fetched, Folder, FolderChange, ScanError};

/// Where a pod is wanted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// The static pod path.
    File,
    /// The static pod URL.
    Http,
    /// The API server.
    Api,
}

impl SourceKind {
    /// As the annotation `kubernetes.io/config.source` says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Api => "api",
        }
    }
}

/// To `FileSource`.
#[derive(Debug, strum::IntoStaticStr)]
pub enum FileSourceMsg {
    /// From itself: time to read the folder.
    ScanDue,
    /// From its own watch: the kernel saw a change in the folder.
    Changed(FolderChange),
    /// From its own watch: it ended, and why.
    WatchEnded(Result<String, Lost>),
    /// From itself: time to watch again.
    WatchDue,
    /// From itself: the folder was read.
    Scanned(Ended<Folder, ScanError>),
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
    FetchEnded(Ended<Fetched, FetchError>),
    /// From Root: `PodManager` was started again; tell it everything once more.
    Repeat,
}

describe!(HttpSourceMsg);

/// More came from the API server at once than the mailbox holds: something was lost.
#[derive(Clone, Copy, Debug)]
pub struct Overrun;

/// To `ApiSource`.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ApiSourceMsg {
    /// From its own watch: these are all pods of this node.
    Listed(Vec<Pod>),
    /// From its own watch: this pod is new, or changed.
    Applied(Box<Pod>),
    /// From its own watch: this pod is gone.
    Deleted(Box<Pod>),
    /// From its own watch: the API server cannot be heard at present, and why.
    Trouble(String),
    /// From itself: the watch ended.
    FollowEnded(Result<Overrun, Lost>),
    /// From itself: time to watch again.
    FollowDue,
    /// From itself: somebody had no room for the news; tell everything once more.
    RetellDue,
    /// From Root: someone who learns from here was started again; tell everything once more.
    Repeat,
}

describe!(ApiSourceMsg);
