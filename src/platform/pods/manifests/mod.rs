//! Where static pods are read from: a folder or file, and a URL.

mod folder;
mod url;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::Stream;

pub use self::url::HttpManifestUrl;
pub use folder::LinuxManifestFolder;

use crate::platform::network::http_exchange::{ExchangeError, TargetError};

/// The most bytes of a manifest (POD-01, POD-02).
pub const MANIFEST_BYTES_MAX: usize = 10 * 1024 * 1024;

/// One file of the folder.
#[derive(Clone, Debug)]
pub struct ManifestFile {
    /// Its path, as the pod's UID and the log name it.
    pub path: PathBuf,
    /// Its content; or why it could not be read, such as being over [`MANIFEST_BYTES_MAX`].
    pub content: Result<Arc<[u8]>, ReadError>,
}

/// Why a file of the folder has no content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is no regular file any more.
    #[error("is no regular file")]
    NoFile,
    /// It is over the bound.
    #[error("is larger than {MANIFEST_BYTES_MAX} bytes")]
    TooLarge,
    /// The kernel's error.
    #[error("{0}")]
    Kernel(String),
}

impl From<std::io::Error> for ReadError {
    fn from(error: std::io::Error) -> Self {
        Self::Kernel(error.to_string())
    }
}

/// The folder's files, by name; empty when the path does not exist.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    /// Regular files, after links, whose names do not begin with a dot.
    pub files: Vec<ManifestFile>,
    /// Whether the path is missing.
    pub missing: bool,
    /// Whether the path is no folder, but the one file.
    pub is_one_file: bool,
}

/// Why the folder could not be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read static pod path {path}: {problem}", path = path.display())]
pub struct ScanError {
    /// The static pod path.
    pub path: PathBuf,
    /// The problem.
    pub problem: String,
}

/// A hint that something in the folder changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderChange {
    /// Files were moved or removed, and nothing else: what is there is whole. Else there may be more to come.
    pub is_whole: bool,
    /// Files that were removed or moved away, also those that are there again.
    pub removed: BTreeSet<PathBuf>,
}

impl FolderChange {
    /// Files are being made or written.
    pub fn growing() -> Self {
        Self::default()
    }
}

/// Hints about the folder; ends when the watch breaks.
pub type Changes = Pin<Box<dyn Stream<Item = FolderChange> + Send>>;

/// A static pod path.
#[async_trait]
pub trait ManifestFolder: Send + Sync {
    /// Reads all files.
    async fn scan(&self) -> Result<Folder, ScanError>;
    /// Watches for changes: created, written, moved, removed, or their rights changed. An error says what cannot be watched.
    async fn watch(&self) -> Result<Changes, ScanError>;
}

/// A body, as the static pod URL gave it.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// At most [`MANIFEST_BYTES_MAX`] bytes.
    pub body: Arc<[u8]>,
}

/// Why the URL gave no body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read static pod URL {url}: {problem}")]
pub struct FetchError {
    /// The URL.
    pub url: String,
    /// The problem.
    pub problem: FetchProblem,
}

/// A fault of the URL or of its answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchProblem {
    /// The text is no URL.
    #[error(transparent)]
    Url(::url::ParseError),
    /// The URL leads nowhere.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// There was no answer.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The answer is no success.
    #[error("{0}")]
    Status(hyper::StatusCode),
    /// The answer's status is none.
    #[error("{0}")]
    StrangeStatus(u16),
    /// The body is over the bound.
    #[error("the body is larger than {MANIFEST_BYTES_MAX} bytes")]
    TooLarge,
}

/// A static pod URL.
#[async_trait]
pub trait ManifestUrl: Send + Sync {
    /// Asks once, within 10 s.
    async fn fetch(&self) -> Result<Fetched, FetchError>;
}
