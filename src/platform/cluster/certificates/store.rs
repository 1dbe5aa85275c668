//! Where the node's certificates are kept: a file for each, and a link to the one in use. Owned by whoever rotates them;
//! keeps nothing in memory.
//!
//! Names, modes and the order of steps are upstream's, so that either agent goes on with what the other left.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::error::PairFileError;
use crate::logic::model::time::Moment;
use crate::platform::cluster::key_pair::Pair;
use crate::platform::files::directories::make_certificate_folder;
use crate::platform::files::small_file::{read, words};

/// The certificates of one purpose in one folder.
#[derive(Clone, Debug)]
pub struct FileStore {
    prefix: String,
    folder: PathBuf,
    /// A certificate and a key of the administrator's, used as long as nothing newer was stored.
    given: Option<(PathBuf, PathBuf)>,
}

/// An error of the files, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

impl FileStore {
    /// The store of `prefix` (`kubelet-client`, `kubelet-server`) in the certificate folder. Finishes an exchange that a
    /// crash interrupted between its two steps.
    ///
    /// # Errors
    /// When what is there cannot be looked at, or is no link where one should be.
    pub fn open(prefix: &str, folder: &Path, given: Option<(PathBuf, PathBuf)>) -> Result<Self, StoreError> {
        let store = Self { prefix: prefix.to_owned(), folder: folder.to_owned(), given };
        let (current, updated) = (store.current_path(), store.file("updated"));
        if !current.exists() && store.link_at(&updated)? {
            fs::rename(&updated, &current).map_err(|error| {
                StoreError(format!("unable to rename {updated:?} to {current:?}: {}", words(&error)))
            })?;
        }
        Ok(store)
    }

    /// The link to the certificate in use: `kubelet-client-current.pem`.
    pub fn current_path(&self) -> PathBuf {
        self.file("current")
    }

    /// The certificate in use: what the link leads to, else the administrator's, else an old pair of `.crt` and `.key`;
    /// `None` if there is none of them.
    ///
    /// # Errors
    /// When one is there and cannot be used.
    pub fn current(&self) -> Result<Option<Pair>, StoreError> {
        let current = self.current_path();
        if exists(&current)? {
            return load(&current, &current).map(Some);
        }
        let old = |suffix: &str| self.folder.join(format!("{}.{suffix}", self.prefix));
        for (chain, key) in self.given.iter().cloned().chain([(old("crt"), old("key"))]) {
            if exists(&chain)? && exists(&key)? {
                return load(&chain, &key).map(Some);
            }
        }
        Ok(None)
    }

    /// Keeps a certificate with its key (both PEM) in a file named after `now`, mode 0600, and makes it the one in use.
    ///
    /// # Errors
    /// When the two do not belong together, or cannot be written; then the one in use stays.
    pub fn update(&self, chain: &[u8], key: &[u8], now: Moment) -> Result<Pair, StoreError> {
        Pair::parse(chain, key).map_err(|error| StoreError(format!("invalid certificate data: {error}")))?;
        let stamp = now.to_timestamp().strftime("%Y-%m-%d-%H-%M-%S").to_string();
        let path = self.file(&stamp);
        let wrong = |what: &str, error: &io::Error| StoreError(format!("{what}: {}", words(error)));
        make_certificate_folder(&self.folder).map_err(|error| {
            wrong(&format!("could not create directory {:?} to store certificates", self.folder), &error)
        })?;
        write(&path, chain, key).map_err(|error| wrong(&format!("could not open {path:?}"), &error))?;
        let pair = load(&path, &path)?;
        self.switch(&path)?;
        Ok(pair)
    }

    fn switch(&self, path: &Path) -> Result<(), StoreError> {
        let (current, updated) = (self.current_path(), self.file("updated"));
        self.link_at(&current)?;
        if self.link_at(&updated)? {
            let wrong = |error: io::Error| StoreError(format!("unable to remove {updated:?}: {}", words(&error)));
            fs::remove_file(&updated).map_err(wrong)?;
        }
        let target = std::path::absolute(path).map_err(|error| StoreError(words(&error)))?;
        symlink(&target, &updated).map_err(|error| {
            StoreError(format!("unable to create a symlink from {updated:?} to {target:?}: {}", words(&error)))
        })?;
        // Over the old link: at no time is there none.
        fs::rename(&updated, &current)
            .map_err(|error| StoreError(format!("unable to rename {updated:?} to {current:?}: {}", words(&error))))
    }

    /// Whether there is a link; anything else in its place is somebody's file, and left alone.
    fn link_at(&self, path: &Path) -> Result<bool, StoreError> {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => Ok(true),
            Ok(_) => Err(StoreError(format!("expected {path:?} to be a symlink but it is a file"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError(format!("lstat {}: {}", path.display(), words(&error)))),
        }
    }

    fn file(&self, which: &str) -> PathBuf {
        self.folder.join(format!("{}-{which}.pem", self.prefix))
    }
}

fn exists(path: &Path) -> Result<bool, StoreError> {
    match fs::metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError(format!("stat {}: {}", path.display(), words(&error)))),
    }
}

fn load(chain: &Path, key: &Path) -> Result<Pair, StoreError> {
    let open = |path: &Path| read(path).map_err(|error| PairFileError::open(path, &error));
    let pair = open(chain).and_then(|chain| Ok(Pair::parse(&chain, &open(key)?)?));
    pair.map_err(|error| StoreError(format!("could not convert data from {chain:?} into cert/key pair: {error}")))
}

fn write(path: &Path, chain: &[u8], key: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    // One of this second may be there already, with another mode.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    for part in [chain, key] {
        file.write_all(part)?;
        if !part.ends_with(b"\n") {
            file.write_all(b"\n")?;
        }
    }
    file.sync_all()
}
