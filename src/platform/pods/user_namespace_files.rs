//! The files that keep the ranges of IDs of pods: `userns` in each pod's directory (RES-63).

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rustix::fs::FileType;

use crate::logic::model::ids::PodUid;
use crate::logic::resources::user_namespaces::mapping_file::{BYTES_MAX, NAME};
use crate::platform::files::FileError;
use crate::platform::files::safe_path::{Directory, Mounts};
use crate::platform::host::blocking;

/// A file on its way to its place.
const NEW: &str = "userns.new";
/// The mode of the files: only the agent may read them.
const MODE: u32 = 0o600;
/// The mode of a pod's directory.
const POD_MODE: u32 = 0o750;

/// The files of pods; for one that cannot be read, why.
pub type Files = BTreeMap<PodUid, Result<Vec<u8>, FileError>>;

/// The files by pod. None of them is a link, and no link on the way is followed.
#[async_trait]
pub trait UserNamespaceFiles: Send + Sync {
    /// The files of all pods that have one; for one that cannot be read, why.
    async fn read_all(&self) -> Result<Files, FileError>;
    /// Writes a pod's file, whole or not at all. It is on the disk when this returns, in a directory that is made if need be.
    async fn write(&self, uid: &PodUid, content: Vec<u8>) -> Result<(), FileError>;
    /// Removes a pod's file; one that is not there is no error.
    async fn remove(&self, uid: &PodUid) -> Result<(), FileError>;
}

/// The real ones.
#[derive(Debug)]
pub struct LinuxUserNamespaceFiles {
    pods: PathBuf,
}

impl LinuxUserNamespaceFiles {
    /// Files below `<root_dir>/pods`.
    pub fn new(root_dir: &Path) -> Self {
        Self { pods: root_dir.join("pods") }
    }

    async fn run<T: Send + 'static>(
        &self,
        attempt: &'static str,
        uid: Option<&PodUid>,
        call: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FileError> {
        let pods = self.pods.clone();
        let path = uid.map_or_else(|| pods.clone(), |uid| pods.join(uid.as_str()).join(NAME));
        blocking::run(move || call(&pods)).await.map_err(|error| FileError::new(attempt, &path, error))
    }
}

#[async_trait]
impl UserNamespaceFiles for LinuxUserNamespaceFiles {
    async fn read_all(&self) -> Result<Files, FileError> {
        self.run("list directory", None, read_all).await
    }

    async fn write(&self, uid: &PodUid, content: Vec<u8>) -> Result<(), FileError> {
        let of = uid.clone();
        self.run("write file", Some(uid), move |pods| write(pods, &of, &content)).await
    }

    async fn remove(&self, uid: &PodUid) -> Result<(), FileError> {
        let of = uid.clone();
        self.run("remove file", Some(uid), move |pods| remove(pods, &of)).await
    }
}

fn read_all(pods: &Path) -> io::Result<Files> {
    let path = |name: &str| pods.join(name).join(NAME);
    let pods = match Directory::open(pods) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        opened => opened?,
    };
    let mut found = BTreeMap::new();
    for (name, _) in pods.names()?.into_iter().filter(|(_, kind)| *kind == FileType::Directory) {
        match read(&pods, &name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => {
                let read = read.map_err(|error| FileError::new("read file", &path(&name), error));
                found.insert(PodUid::from(name), read);
            }
        }
    }
    Ok(found)
}

fn read(pods: &Directory, pod: &str) -> io::Result<Vec<u8>> {
    let file = pods.read_regular(&[pod, NAME], Mounts::Refuse)?;
    let file = file.ok_or_else(|| io::Error::other("not a regular file"))?;
    let mut content = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut content)?;
    match u64::try_from(content.len()) {
        Ok(length) if length <= BYTES_MAX => Ok(content),
        _ => Err(io::Error::other("the read limit is reached")),
    }
}

fn write(pods: &Path, uid: &PodUid, content: &[u8]) -> io::Result<()> {
    let pods = match Directory::open(pods) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(pods)?;
            std::fs::set_permissions(pods, Permissions::from_mode(POD_MODE))?;
            Directory::open(pods)?
        }
        opened => opened?,
    };
    let pod = pods.make_directory(uid.as_str(), POD_MODE)?;
    // One left over by a run that was killed here is in the way of the exclusive creation.
    pod.remove_file(NEW)?;
    let mut file = pod.make_file(NEW, MODE)?;
    file.write_all(content)?;
    file.sync_all()?;
    rustix::fs::renameat(&pod, NEW, &pod, NAME)?;
    // The name, and the directory's own name: a range is nobody's whose file is lost with the power.
    synced(&pod)?;
    synced(&pods)
}

fn synced(directory: &Directory) -> io::Result<()> {
    Ok(rustix::fs::fsync(directory)?)
}

fn remove(pods: &Path, uid: &PodUid) -> io::Result<()> {
    let removed = Directory::open(pods)
        .and_then(|pods| pods.directory(&[uid.as_str()], Mounts::Refuse))
        .and_then(|pod| pod.remove_file(NAME));
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn uid(name: &str) -> PodUid {
        PodUid::from(name)
    }

    /// RES-63.
    #[tokio::test]
    async fn res_63_a_file_is_read_as_it_was_written_until_it_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = LinuxUserNamespaceFiles::new(folder.path());
        assert_eq!(files.read_all().await, Ok(BTreeMap::new()));
        assert_eq!(files.remove(&uid("a")).await, Ok(()));
        for content in ["one", "two"] {
            fs::create_dir_all(folder.path().join("pods/a")).expect("made");
            fs::write(folder.path().join("pods/a/userns.new"), "half").expect("written");
            files.write(&uid("a"), content.into()).await.expect("written");
            assert_eq!(files.read_all().await, Ok([(uid("a"), Ok(content.into()))].into()));
        }
        files.write(&uid("b"), "three".into()).await.expect("written");
        assert_eq!(files.read_all().await.expect("read").len(), 2);
        let mode = |path: &str| fs::metadata(folder.path().join(path)).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode("pods/b"), mode("pods/b/userns")), (0o750, 0o600));
        assert_eq!(fs::read_dir(folder.path().join("pods/b")).expect("there").count(), 1);
        files.remove(&uid("a")).await.expect("removed");
        assert_eq!(files.read_all().await, Ok([(uid("b"), Ok("three".into()))].into()));
    }

    #[tokio::test]
    async fn a_file_that_is_none_is_told_of_its_pod_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let pods = folder.path().join("pods");
        for pod in ["directory", "fine", "large", "link", "none"] {
            fs::create_dir_all(pods.join(pod)).expect("made");
        }
        fs::write(pods.join("a file"), "no pod").expect("written");
        fs::create_dir(pods.join("directory/userns")).expect("made");
        fs::write(pods.join("fine/userns"), "{}").expect("written");
        fs::write(pods.join("large/userns"), vec![b' '; (64 << 10) + 1]).expect("written");
        symlink("../fine/userns", pods.join("link/userns")).expect("linked");
        symlink("fine", pods.join("linked")).expect("linked");
        let found = LinuxUserNamespaceFiles::new(folder.path()).read_all().await.expect("read");
        let names: Vec<_> = found.iter().map(|(uid, read)| (uid.as_str(), read.is_ok())).collect();
        assert_eq!(names, [("directory", false), ("fine", true), ("large", false), ("link", false)]);
    }

    #[tokio::test]
    async fn what_is_written_replaces_a_link_and_follows_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let (pod, other) = (folder.path().join("pods/a"), folder.path().join("other"));
        fs::create_dir_all(&pod).expect("made");
        fs::write(&other, "other").expect("written");
        symlink(&other, pod.join("userns")).expect("linked");
        symlink(&other, pod.join("userns.new")).expect("linked");
        let files = LinuxUserNamespaceFiles::new(folder.path());
        files.write(&uid("a"), "mine".into()).await.expect("written");
        assert_eq!(fs::read_to_string(&other).expect("there"), "other");
        assert_eq!(fs::read_to_string(pod.join("userns")).expect("there"), "mine");
        assert!(files.write(&uid("../a"), "mine".into()).await.is_err());
    }
}
