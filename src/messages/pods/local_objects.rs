//! To `LocalObjects`.

use crate::messages::{Ended, Lost, describe};
use crate::platform::pods::local_objects::{FolderError, ObjectFile};
use crate::platform::pods::manifests::FolderChange;

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum LocalObjectsMsg {
    /// From itself: time to read the folder.
    ScanDue,
    /// From its own watch: the kernel saw a change in the folder.
    Changed(FolderChange),
    /// From its own watch: it ended, and why.
    WatchEnded(Result<String, Lost>),
    /// From itself: time to watch again.
    WatchDue,
    /// From itself: the folder was read.
    Scanned(Ended<Vec<ObjectFile>, FolderError>),
    /// From Root: `ObjectCache` was started again; tell it everything once more.
    Repeat,
}

describe!(LocalObjectsMsg);
