//! The folders that the agent watches: the static pod path, and that of `--local-objects`. Files in memory, and watches whose
//! hints may be lost.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::stream;
use tokio::sync::mpsc;

use super::outlet::Outlet;
use crate::actors::kit::trace::lock;
use crate::logic::objects::local_objects::Readers;
use crate::platform::pods::local_objects::{FolderError, LocalObjectFolder, ObjectFile, SecretBytes};
use crate::platform::pods::manifests::{Changes, Folder, FolderChange, ManifestFile, ManifestFolder, ScanError};
use crate::sim::faults::{Fault, Faults};
use crate::sim::pods::FOLDER;

/// The folder of local objects.
pub const OBJECTS_FOLDER: &str = "/etc/podwright/objects";
const BROKEN: &str = "Input/output error (os error 5)";

/// See the module.
#[derive(Debug, Default)]
pub struct WatchedFolder {
    files: Mutex<BTreeMap<PathBuf, Arc<[u8]>>>,
    watchers: Mutex<Vec<mpsc::UnboundedSender<FolderChange>>>,
}

impl WatchedFolder {
    /// Writes a file.
    pub fn write(&self, path: PathBuf, content: &[u8], faults: &Faults) {
        lock(&self.files).insert(path, content.into());
        self.hint(FolderChange::growing(), faults);
    }

    /// Removes a file.
    pub fn remove(&self, path: PathBuf, faults: &Faults) {
        lock(&self.files).remove(&path);
        self.hint(FolderChange { is_whole: true, removed: [path].into() }, faults);
    }

    fn hint(&self, change: FolderChange, faults: &Faults) {
        if faults.strikes(Fault::Watches, 0.3) {
            return;
        }
        if faults.strikes(Fault::Watches, 0.1) {
            lock(&self.watchers).clear();
        }
        lock(&self.watchers).retain(|watcher| watcher.send(change.clone()).is_ok());
    }

    fn files(&self) -> BTreeMap<PathBuf, Arc<[u8]>> {
        lock(&self.files).clone()
    }

    fn changes(&self) -> Changes {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        lock(&self.watchers).push(sender);
        Box::pin(stream::poll_fn(move |context| receiver.poll_recv(context)))
    }
}

#[async_trait]
impl ManifestFolder for Outlet {
    async fn scan(&self) -> Result<Folder, ScanError> {
        let node = self.begin_file().await;
        if node.faults.strikes(Fault::Watches, 0.1) {
            return Err(ScanError { path: FOLDER.into(), problem: BROKEN.to_owned() });
        }
        node.invariants.manifests_read();
        let files = node.manifests.files().into_iter();
        let files = files.map(|(path, content)| ManifestFile { path, content: Ok(content) }).collect();
        self.end_file().await;
        Ok(Folder { files, ..Folder::default() })
    }

    async fn watch(&self) -> Result<Changes, ScanError> {
        let node = self.begin_file().await;
        Ok(node.manifests.changes())
    }
}

#[async_trait]
impl LocalObjectFolder for Outlet {
    async fn scan(&self) -> Result<Vec<ObjectFile>, FolderError> {
        let node = self.begin_file().await;
        if node.faults.strikes(Fault::Watches, 0.1) {
            return Err(FolderError { path: OBJECTS_FOLDER.into(), problem: BROKEN.to_owned() });
        }
        let files = node.objects.files().into_iter();
        let read = |content| Ok((SecretBytes(content), Readers::Owner));
        let files = files.map(|(path, content)| ObjectFile { path, content: read(content) }).collect();
        self.end_file().await;
        Ok(files)
    }

    async fn watch(&self) -> Result<Changes, FolderError> {
        let node = self.begin_file().await;
        Ok(node.objects.changes())
    }
}
