//! The folder of `--local-objects`: ConfigMaps and Secrets of a standalone node.
//!
//! Owned by `LocalObjects`. Keeps the path only. Its files decide about the content of containers, and may be secret: so the
//! folder and its files must be root's, nobody else may write them, and links are not followed.

use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::FileType;

use super::manifests::{Changes, LinuxManifestFolder, ManifestFolder};
use crate::logic::objects::local_objects::Readers;
use crate::platform::files::safe_path::{Directory, Mounts};
use crate::platform::host::blocking;

/// The most bytes of a file: ten objects of the largest size, as text.
pub const OBJECT_FILE_BYTES_MAX: usize = 16 << 20;
/// The most files that are read.
pub const OBJECT_FILES_MAX: usize = 1000;
/// The most bytes of all files.
pub const OBJECT_FOLDER_BYTES_MAX: usize = 64 << 20;

/// Others than the owner may write it.
const WRITABLE: u32 = 0o022;
/// Others than the owner may read or write it.
const OPEN: u32 = 0o077;

/// A file's bytes, which may be secret: without `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretBytes(pub Arc<[u8]>);

impl fmt::Debug for SecretBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.0.len())
    }
}

/// One file of the folder.
#[derive(Clone, Debug)]
pub struct ObjectFile {
    /// Its path, as the log names it.
    pub path: PathBuf,
    /// Its content, and who may read it; or why it is not read.
    pub content: Result<(SecretBytes, Readers), ObjectFileError>,
}

/// Why a file is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectFileError {
    /// It is a link, a folder, a device.
    #[error("is no regular file (links are not followed)")]
    NoFile,
    /// It is somebody else's.
    #[error("is owned by user {0}, not by root")]
    Owner(u32),
    /// Others may write it.
    #[error("may be written by others than its owner (mode {0:04o})")]
    Writable(u32),
    /// It is over the bound.
    #[error("is larger than {OBJECT_FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// The folder is over a bound.
    #[error("is left out: the folder has more than {OBJECT_FILES_MAX} files, or {OBJECT_FOLDER_BYTES_MAX} bytes")]
    FolderTooLarge,
    /// The kernel's error.
    #[error("{0}")]
    Kernel(String),
}

/// Why the folder could not be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read {path}: {problem}", path = path.display())]
pub struct FolderError {
    /// The folder.
    pub path: PathBuf,
    /// The problem.
    pub problem: String,
}

/// The folder of local objects.
#[async_trait]
pub trait LocalObjectFolder: Send + Sync {
    /// Reads all files, in the order of their names; none when the folder is missing.
    async fn scan(&self) -> Result<Vec<ObjectFile>, FolderError>;
    /// Watches for changes. An error says what cannot be watched.
    async fn watch(&self) -> Result<Changes, FolderError>;
}

/// [`LocalObjectFolder`] on a real file system.
#[derive(Clone, Debug)]
pub struct LinuxLocalObjectFolder {
    path: PathBuf,
    /// The owner that files must have: root.
    owner: u32,
    watched: LinuxManifestFolder,
}

impl LinuxLocalObjectFolder {
    /// This folder, or what will be one.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), owner: 0, watched: LinuxManifestFolder::new(path) }
    }
}

#[async_trait]
impl LocalObjectFolder for LinuxLocalObjectFolder {
    async fn scan(&self) -> Result<Vec<ObjectFile>, FolderError> {
        let (path, owner) = (self.path.clone(), self.owner);
        blocking::run(move || {
            scan(&path, owner).map_err(|error| FolderError { path: path.clone(), problem: error.to_string() })
        })
        .await
    }

    async fn watch(&self) -> Result<Changes, FolderError> {
        self.watched.watch().await.map_err(|error| FolderError { path: error.path, problem: error.problem })
    }
}

fn scan(path: &Path, owner: u32) -> io::Result<Vec<ObjectFile>> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Ok(found) if found.is_symlink() => return Err(io::Error::other("is a link, which is not followed")),
        _ => {}
    }
    let folder = Directory::open(path)?;
    let found = rustix::fs::fstat(folder.as_fd())?;
    if let Err(error) = check(found.st_uid, found.st_mode, owner) {
        return Err(io::Error::other(error.to_string()));
    }
    let (mut files, mut bytes) = (vec![], 0);
    for (name, kind) in folder.names()? {
        if name.starts_with('.') || kind == FileType::Directory {
            continue;
        }
        let mut content = if files.len() < OBJECT_FILES_MAX {
            read(&folder, &name, owner)
        } else {
            Err(ObjectFileError::FolderTooLarge)
        };
        bytes += content.as_ref().map_or(0, |(content, _)| content.0.len());
        if bytes > OBJECT_FOLDER_BYTES_MAX {
            content = Err(ObjectFileError::FolderTooLarge);
        }
        files.push(ObjectFile { path: path.join(name), content });
    }
    Ok(files)
}

fn read(folder: &Directory, name: &str, owner: u32) -> Result<(SecretBytes, Readers), ObjectFileError> {
    let kernel = |error: io::Error| match error.raw_os_error() {
        Some(code) if code == libc::ELOOP => ObjectFileError::NoFile,
        _ => ObjectFileError::Kernel(error.to_string()),
    };
    let file = folder.read_regular(&[name], Mounts::Cross).map_err(kernel)?.ok_or(ObjectFileError::NoFile)?;
    let found = file.metadata().map_err(kernel)?;
    check(found.uid(), found.mode(), owner)?;
    let mut content = Vec::new();
    file.take(OBJECT_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut content).map_err(kernel)?;
    if content.len() > OBJECT_FILE_BYTES_MAX {
        return Err(ObjectFileError::TooLarge);
    }
    let readers = if found.mode() & OPEN == 0 { Readers::Owner } else { Readers::Others };
    Ok((SecretBytes(content.into()), readers))
}

fn check(uid: u32, mode: u32, owner: u32) -> Result<(), ObjectFileError> {
    if uid != owner {
        return Err(ObjectFileError::Owner(uid));
    }
    if mode & WRITABLE != 0 {
        return Err(ObjectFileError::Writable(mode & 0o7777));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn give_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    }

    fn folder() -> (tempfile::TempDir, LinuxLocalObjectFolder) {
        let folder = tempfile::tempdir().expect("a folder");
        give_mode(folder.path(), 0o700);
        let owner = fs::metadata(folder.path()).expect("there").uid();
        let objects = LinuxLocalObjectFolder { owner, ..LinuxLocalObjectFolder::new(folder.path()) };
        (folder, objects)
    }

    fn scanned(objects: &LinuxLocalObjectFolder) -> Result<Vec<ObjectFile>, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(objects.scan()).map_err(|error| error.to_string())
    }

    #[test]
    fn files_are_read_that_nobody_else_may_write() {
        let (folder, objects) = folder();
        for (name, mode) in [("a", 0o600), ("b", 0o644), ("c", 0o660), ("d", 0o602), (".hidden", 0o600)] {
            let path = folder.path().join(name);
            fs::write(&path, name).expect("written");
            give_mode(&path, mode);
        }
        symlink(folder.path().join("a"), folder.path().join("e")).expect("linked");
        fs::create_dir(folder.path().join("f")).expect("made");
        let found = scanned(&objects).expect("scanned").into_iter().map(|file| {
            let name = file.path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, file.content.map(|(content, readers)| (content.0.to_vec(), readers)))
        });
        let expected = [
            ("a".to_owned(), Ok((b"a".to_vec(), Readers::Owner))),
            ("b".to_owned(), Ok((b"b".to_vec(), Readers::Others))),
            ("c".to_owned(), Err(ObjectFileError::Writable(0o660))),
            ("d".to_owned(), Err(ObjectFileError::Writable(0o602))),
            ("e".to_owned(), Err(ObjectFileError::NoFile)),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_folder_of_others_is_refused_and_a_missing_one_is_empty() {
        let (folder, objects) = folder();
        give_mode(folder.path(), 0o770);
        let refused = scanned(&objects).map(|files| files.len()).expect_err("open to its group");
        assert!(refused.ends_with("may be written by others than its owner (mode 0770)"), "{refused}");
        give_mode(folder.path(), 0o700);
        let other = LinuxLocalObjectFolder { owner: objects.owner + 1, ..objects.clone() };
        assert!(scanned(&other).is_err_and(|error| error.contains("not by root")));
        let link = folder.path().join("link");
        symlink(folder.path(), &link).expect("linked");
        assert!(scanned(&LinuxLocalObjectFolder { path: link, ..objects.clone() }).is_err());
        let missing = LinuxLocalObjectFolder { path: folder.path().join("none"), ..objects };
        assert_eq!(scanned(&missing).map(|files| files.len()), Ok(0));
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let (folder, objects) = folder();
        let path = folder.path().join("a");
        fs::File::create(&path).and_then(|file| file.set_len(OBJECT_FILE_BYTES_MAX as u64 + 1)).expect("made");
        give_mode(&path, 0o600);
        let found = scanned(&objects).expect("scanned");
        assert_eq!(found[0].content, Err(ObjectFileError::TooLarge));
    }

    #[test]
    fn bytes_are_not_printed() {
        assert_eq!(format!("{:?}", SecretBytes(b"hunter2".as_slice().into())), "7 bytes");
    }
}
