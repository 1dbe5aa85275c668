//! [`ImageHost`] on Linux. Keeps paths, and how many pulls of each image are under way.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use nix::sys::statvfs::statvfs;

use super::records::Records;
use super::{ImageHost, ProviderError, plugins};
use crate::logic::images::credential_plugins::Provider;
use crate::logic::images::credential_tokens::AccountToken;
use crate::logic::images::image_credentials::{ConfigForm, Keyring};
use crate::logic::images::image_garbage::DiskUse;
use crate::logic::images::image_records::{Evidence, PullIntent, RecordedAccess};
use crate::logic::model::time::Moment;
use crate::platform::files::FileError;
use crate::platform::host::blocking;
use crate::platform::network::tls;

/// The largest file with credentials.
const CREDENTIALS_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// See the module. Clones share what is under way.
#[derive(Clone)]
pub struct LinuxImageHost {
    root_dir: Arc<PathBuf>,
    plugin_dir: Arc<PathBuf>,
    records: Arc<Records>,
}

impl LinuxImageHost {
    /// Records and credentials below `root_dir`; programs in `plugin_dir`.
    pub fn new(root_dir: &Path, plugin_dir: &Path) -> Self {
        let records = Records::new(&root_dir.join("image_manager"));
        Self {
            root_dir: Arc::new(root_dir.to_owned()),
            plugin_dir: Arc::new(plugin_dir.to_owned()),
            records: Arc::new(records),
        }
    }

    async fn with_records<T: Send + 'static>(&self, call: impl FnOnce(&Records) -> T + Send + 'static) -> T {
        let records = Arc::clone(&self.records);
        blocking::run(move || call(&records)).await
    }
}

#[async_trait]
impl ImageHost for LinuxImageHost {
    async fn disk_use(&self, path: &str) -> Result<DiskUse, FileError> {
        let path = path.to_owned();
        let look = move || {
            let failed = |error: nix::errno::Errno| {
                FileError::new("look at file system", Path::new(&path), std::io::Error::from(error))
            };
            let found = statvfs(path.as_str()).map_err(failed)?;
            let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
            Ok(DiskUse { capacity: bytes(found.blocks()), available: bytes(found.blocks_available()) })
        };
        blocking::run(look).await
    }

    async fn node_credentials(&self) -> Keyring {
        let root_dir = Arc::clone(&self.root_dir);
        blocking::run(move || node_credentials(&root_dir, &home())).await
    }

    async fn ask_provider(
        &self,
        provider: &Provider,
        repository: &str,
        token: Option<&AccountToken>,
    ) -> Result<Vec<u8>, ProviderError> {
        plugins::run(&self.plugin_dir, provider, repository, provider.request(repository, token)).await
    }

    fn hash(&self, text: &str) -> String {
        tls::sha256_hex(text.as_bytes())
    }

    async fn evidence(&self, image: &str, image_ref: &str) -> Evidence {
        let (image, image_ref) = (image.to_owned(), image_ref.to_owned());
        self.with_records(move |records| records.evidence(&image, &image_ref)).await
    }

    async fn begin_pull(&self, image: &str) -> Result<(), FileError> {
        let image = image.to_owned();
        self.with_records(move |records| records.begin(&image)).await
    }

    async fn end_pull(&self, image: &str) -> Result<(), FileError> {
        let image = image.to_owned();
        self.with_records(move |records| records.end(&image)).await
    }

    async fn record_pulled(
        &self,
        image: &str,
        image_ref: &str,
        access: Option<&RecordedAccess>,
        now: Moment,
    ) -> Result<(), FileError> {
        let (image, image_ref, access) = (image.to_owned(), image_ref.to_owned(), access.cloned());
        self.with_records(move |records| records.pulled(&image, &image_ref, access.as_ref(), now)).await
    }

    async fn interrupted_pulls(&self) -> Vec<PullIntent> {
        self.with_records(Records::interrupted).await
    }

    async fn prune_records(&self, images: &BTreeSet<String>, began: Moment) -> usize {
        let images = images.clone();
        self.with_records(move |records| records.prune(&images, began)).await
    }

    async fn count_records(&self) -> (usize, usize) {
        self.with_records(|records| records.count()).await
    }
}

fn home() -> PathBuf {
    PathBuf::from(std::env::var_os("HOME").unwrap_or_default())
}

/// The first file that can be read, the newer form before the older. It may be in the root directory, the working directory,
/// the user's home or `/`.
fn node_credentials(root_dir: &Path, home: &Path) -> Keyring {
    let here = Path::new("");
    let newer = [root_dir, here, &home.join(".docker"), Path::new("/.docker")];
    let older = [root_dir, here, home, Path::new("/")];
    let places = newer.map(|place| (place.join("config.json"), ConfigForm::Json)).into_iter();
    let places = places.chain(older.map(|place| (place.join(".dockercfg"), ConfigForm::Old)));
    for (path, form) in places {
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                tracing::error!(path = %path.display(), %error, "file of credentials is left out");
                continue;
            }
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "file of credentials cannot be read");
                continue;
            }
        };
        let mut keyring = Keyring::default();
        if keyring.add_file(&bytes, form) {
            return keyring;
        }
        tracing::warn!(path = %path.display(), "file of credentials is not of its form, and is left out");
    }
    Keyring::default()
}

/// A whole file with credentials; a part of one would be another file.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    std::fs::File::open(path)?.take(CREDENTIALS_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > CREDENTIALS_BYTES_MAX {
        let why = format!("{} is larger than {CREDENTIALS_BYTES_MAX} bytes", path.display());
        return Err(std::io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
