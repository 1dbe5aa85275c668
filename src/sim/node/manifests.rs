//! The static pod path: files in memory, a watch whose hints may be lost.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::stream;
use tokio::sync::mpsc;

use super::outlet::Outlet;
use crate::actors::kit::trace::lock;
use crate::platform::pods::manifests::{Changes, Folder, FolderChange, ManifestFile, ManifestFolder, ScanError};
use crate::sim::faults::{Fault, Faults};
use crate::sim::pods::{FOLDER, manifest_path};

/// See the module.
#[derive(Debug, Default)]
pub struct Manifests {
    files: Mutex<BTreeMap<PathBuf, Arc<[u8]>>>,
    watchers: Mutex<Vec<mpsc::UnboundedSender<FolderChange>>>,
}

impl Manifests {
    /// Writes a manifest.
    pub fn write(&self, name: &str, content: &[u8], faults: &Faults) {
        lock(&self.files).insert(manifest_path(name).into(), content.into());
        self.hint(FolderChange::growing(), faults);
    }

    /// Writes into a manifest what is none.
    pub fn spoil(&self, name: &str, faults: &Faults) {
        self.write(name, b"{", faults);
    }

    /// Removes a manifest.
    pub fn remove(&self, name: &str, faults: &Faults) {
        let path = PathBuf::from(manifest_path(name));
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
}

#[async_trait]
impl ManifestFolder for Outlet {
    async fn scan(&self) -> Result<Folder, ScanError> {
        let Some(node) = self.touch() else { return std::future::pending().await };
        if node.faults.strikes(Fault::Watches, 0.1) {
            return Err(ScanError { path: FOLDER.into(), problem: "Input/output error (os error 5)".to_owned() });
        }
        node.invariants.manifests_read();
        let files = lock(&node.manifests.files);
        let files =
            files.iter().map(|(path, content)| ManifestFile { path: path.clone(), content: Ok(Arc::clone(content)) });
        Ok(Folder { files: files.collect(), ..Folder::default() })
    }

    async fn watch(&self) -> Result<Changes, ScanError> {
        let Some(node) = self.touch() else { return std::future::pending().await };
        let (sender, mut receiver) = mpsc::unbounded_channel();
        lock(&node.manifests.watchers).push(sender);
        Ok(Box::pin(stream::poll_fn(move |context| receiver.poll_recv(context))))
    }
}
