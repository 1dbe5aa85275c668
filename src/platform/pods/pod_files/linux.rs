//! Files of pods on a Linux file system.
//!
//! Owned by whoever starts pods' containers. Keeps the folders' paths, and which of the calls that may hang are under way:
//! each operation opens its folder anew and goes down by descriptors ([`crate::platform::files::safe_path`]), so that no link a
//! container made is followed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::{AtFlags, FileType};

use super::log_lines;
use super::{ContainerFiles, MadeContainerFiles, PodFiles, PodPlace};
use crate::logic::logs::log_path::{container_id_of_log_link, restart_count};
use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::model::time::Moment;
use crate::platform::files::FileError;
use crate::platform::files::safe_path::{Directory, Mounts, segment};
use crate::platform::host::blocking;
use crate::platform::host::clock::SystemClock;
use crate::platform::volumes::{DEADLINE, Patient};

/// The most that is read of the node's `/etc/hosts`.
const NODE_HOSTS_BYTES_MAX: u64 = 1024 * 1024;
/// The most that the node's resolver configuration may have.
const RESOLV_CONF_BYTES_MAX: u64 = 1024 * 1024;

/// [`PodFiles`] on a real file system. Clones share the paths, and the calls that may hang.
#[derive(Clone)]
pub struct LinuxPodFiles {
    folders: Arc<Folders>,
    patient: Patient,
}

#[derive(Debug)]
struct Folders {
    pods: PathBuf,
    pod_logs: PathBuf,
    links: Option<PathBuf>,
    node_hosts: PathBuf,
}

impl LinuxPodFiles {
    /// Files below `<root_dir>/pods` and `pod_logs_dir`, all absolute; links to logs in `link_dir` (upstream's
    /// `/var/log/containers`) if they are wanted. The folders are made when first needed.
    pub fn new(root_dir: &Path, pod_logs_dir: PathBuf, link_dir: Option<PathBuf>) -> Self {
        let pods = root_dir.join("pods");
        let node_hosts = PathBuf::from("/etc/hosts");
        let folders = Arc::new(Folders { pods, pod_logs: pod_logs_dir, links: link_dir, node_hosts });
        Self { folders, patient: Patient::new(Arc::new(SystemClock::start())) }
    }

    /// The same, with another file for the node's `/etc/hosts`.
    #[must_use]
    pub fn with_node_hosts(self, node_hosts: PathBuf) -> Self {
        let folders = &self.folders;
        let (pods, pod_logs, links) = (folders.pods.clone(), folders.pod_logs.clone(), folders.links.clone());
        Self { folders: Arc::new(Folders { pods, pod_logs, links, node_hosts }), ..self }
    }

    async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Folders) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let folders = Arc::clone(&self.folders);
        blocking::run(move || call(&folders)).await
    }
}

#[async_trait]
impl PodFiles for LinuxPodFiles {
    async fn make_pod_directories(&self, pod: &PodPlace) -> Result<(), FileError> {
        let pod = pod.clone();
        self.run(move |folders| folders.make_pod_directories(&pod)).await
    }

    async fn make_container_files(
        &self,
        pod: &PodPlace,
        files: ContainerFiles,
    ) -> Result<MadeContainerFiles, FileError> {
        let pod = pod.clone();
        self.run(move |folders| folders.make_container_files(&pod, &files)).await
    }

    async fn node_hosts(&self) -> Result<Vec<u8>, FileError> {
        self.run(Folders::read_node_hosts).await
    }

    async fn node_resolv_conf(&self, path: &str) -> Result<String, FileError> {
        let path = PathBuf::from(path);
        blocking::run(move || read_resolv_conf(&path)).await
    }

    async fn read_termination_log(&self, uid: &PodUid, path: &str, bytes_max: usize) -> Result<String, FileError> {
        let (uid, path, folders) = (uid.clone(), PathBuf::from(path), Arc::clone(&self.folders));
        let key = path.display().to_string();
        // The file may be on a volume, whose server need not answer.
        let call = {
            let path = path.clone();
            move || Ok(folders.read_termination_log(&uid, &path, bytes_max))
        };
        match tokio::time::timeout(DEADLINE, self.patient.run(key, "message", call)).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => Err(failure("read termination log", &path, &io::Error::other(error.to_string()))),
            Err(_) => Err(failure("read termination log", &path, &io::ErrorKind::TimedOut.into())),
        }
    }

    async fn log_tail(&self, path: &str, lines_max: usize, bytes_max: usize) -> Result<String, FileError> {
        let path = PathBuf::from(path);
        self.run(move |folders| folders.log_tail(&path, lines_max, bytes_max)).await
    }

    async fn link_log(&self, link: &str, log_path: &str) -> Result<(), FileError> {
        let (link, log_path) = (link.to_owned(), PathBuf::from(log_path));
        self.run(move |folders| folders.link_log(&link, &log_path)).await
    }

    async fn linked_containers(&self, pod: &PodPlace, container: &str) -> Result<BTreeSet<ContainerId>, FileError> {
        let logs = self.folders.pod_logs.join(log_directory_name(pod)).join(container);
        self.run(move |folders| folders.linked_containers(&logs)).await
    }

    async fn remove_container_log(&self, link: &str, log_path: &str) -> Result<(), FileError> {
        let (link, log_path) = (link.to_owned(), PathBuf::from(log_path));
        self.run(move |folders| folders.remove_container_log(&link, &log_path)).await
    }

    async fn remove_dead_links(&self, live: &BTreeSet<ContainerId>) -> Result<usize, FileError> {
        let live = live.clone();
        self.run(move |folders| folders.remove_dead_links(&live)).await
    }

    async fn remove_pod(&self, uid: &PodUid) -> Result<(), FileError> {
        let uid = uid.clone();
        self.run(move |folders| remove_below(&folders.pods, uid.as_str())).await
    }

    async fn known_pods(&self) -> Result<Vec<PodUid>, FileError> {
        self.run(Folders::known_pods).await
    }

    async fn known_log_directories(&self) -> Result<Vec<(String, PodUid)>, FileError> {
        self.run(Folders::known_log_directories).await
    }

    async fn log_directory_written(&self, name: &str) -> Result<Option<Moment>, FileError> {
        let name = name.to_owned();
        self.run(move |folders| folders.log_directory_written(&name)).await
    }

    async fn remove_log_directory(&self, name: &str) -> Result<(), FileError> {
        let name = name.to_owned();
        self.run(move |folders| folders.remove_log_directory(&name)).await
    }
}

impl Folders {
    fn make_pod_directories(&self, pod: &PodPlace) -> Result<(), FileError> {
        let path = self.pods.join(pod.uid.as_str());
        let failed = |error| failure("make directory", &path, &error);
        let directory = self.made_pod(&pod.uid).map_err(failed)?;
        for name in ["volumes", "plugins", "containers"] {
            directory.make_directory(name, 0o750).map_err(failed)?;
        }
        let made = self.made_log(pod).and_then(|logs| logs.give_mode(0o755));
        made.map_err(|error| failure("make directory", &self.pod_logs, &error))
    }

    fn make_container_files(&self, pod: &PodPlace, files: &ContainerFiles) -> Result<MadeContainerFiles, FileError> {
        let restart_count = self.make_log_directory(pod, &files.container, files.restart_count)?;
        Ok(MadeContainerFiles {
            restart_count,
            termination_log: files
                .termination_log
                .then(|| self.make_termination_log(pod, &files.container, restart_count)),
            etc_hosts: files.etc_hosts.as_ref().map(|content| self.write_etc_hosts(pod, content)).transpose()?,
        })
    }

    fn write_etc_hosts(&self, pod: &PodPlace, content: &[u8]) -> Result<String, FileError> {
        let path = self.pods.join(pod.uid.as_str()).join("etc-hosts");
        let write = || -> io::Result<()> {
            let directory = self.made_pod(&pod.uid)?;
            // Running containers have the old file mounted: it is written in place, so that they see the new content.
            let mut file = match directory.make_file("etc-hosts", 0o644) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => directory.write_regular("etc-hosts")?,
                other => other?,
            };
            file.set_len(0)?;
            file.write_all(content)?;
            file.set_permissions(std::fs::Permissions::from_mode(0o644))
        };
        write().map_err(|error| failure("write file", &path, &error))?;
        utf8_path(&path)
    }

    fn read_node_hosts(&self) -> Result<Vec<u8>, FileError> {
        let read = || -> io::Result<Vec<u8>> {
            let mut content = Vec::new();
            File::open(&self.node_hosts)?.take(NODE_HOSTS_BYTES_MAX).read_to_end(&mut content)?;
            Ok(content)
        };
        read().map_err(|error| failure("read file", &self.node_hosts, &error))
    }

    fn make_termination_log(&self, pod: &PodPlace, container: &str, restart_count: u32) -> Result<String, FileError> {
        let name = termination_log_name(&pod.uid, restart_count);
        let path = self.pods.join(pod.uid.as_str()).join("containers").join(container).join(&name);
        let make = || -> io::Result<()> {
            let containers = self.made_pod(&pod.uid)?.make_directory("containers", 0o750)?;
            let directory = containers.make_directory(container, 0o750)?;
            // One left by a start that came to nothing is not reused: a container may hold it.
            directory.remove_file(&name)?;
            directory.make_file(&name, 0o666).map(drop)
        };
        make().map_err(|error| failure("make termination log", &path, &error))?;
        utf8_path(&path)
    }

    fn read_termination_log(&self, uid: &PodUid, path: &Path, bytes_max: usize) -> Result<String, FileError> {
        let failed = |error| failure("read termination log", path, &error);
        let pod = self.pods.join(segment(uid.as_str()).map_err(failed)?);
        let Some(segments) = segments_below(&pod, path) else { return Ok(String::new()) };
        let file = Directory::open(&self.pods)
            .and_then(|pods| pods.directory(&[uid.as_str()], Mounts::Cross))
            .and_then(|directory| directory.read_regular(&segments, Mounts::Cross));
        match file {
            Ok(Some(mut file)) => read_last(&mut file, bytes_max).map(lossy).map_err(failed),
            Ok(None) => Ok(String::new()),
            // A link, or gone, or a part of the path is no directory: there is no such regular file.
            Err(error) if is_absent(&error) => Ok(String::new()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Gives the container's restart count, which its earlier logs decide where the runtime knows none.
    fn make_log_directory(&self, pod: &PodPlace, container: &str, known: u32) -> Result<u32, FileError> {
        let path = self.pod_logs.join(log_directory_name(pod)).join(container);
        let look = || -> io::Result<u32> {
            let directory = self.made_log(pod)?.make_directory(container, 0o755)?;
            let names = directory.names()?;
            let files = names.iter().filter(|(_, kind)| *kind != FileType::Directory);
            Ok(restart_count(known, files.map(|(name, _)| name.as_str())))
        };
        look().map_err(|error| failure("make log directory", &path, &error))
    }

    fn log_tail(&self, path: &Path, lines_max: usize, bytes_max: usize) -> Result<String, FileError> {
        let failed = |error| failure("read log", path, &error);
        let (folder, segments) = self.log_segments(path)?;
        match folder.read_regular(&segments, Mounts::Cross).map_err(failed)? {
            Some(mut file) => log_lines::tail(&mut file, lines_max, bytes_max).map(lossy).map_err(failed),
            None => Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))),
        }
    }

    fn link_log(&self, link: &str, log_path: &Path) -> Result<(), FileError> {
        let Some(links) = &self.links else { return Ok(()) };
        let (folder, segments) = self.log_segments(log_path)?;
        match folder.read_regular(&segments, Mounts::Cross) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(failure("look at log", log_path, &error)),
        }
        let make = || folder_made(links, 0o755)?.link(link, log_path);
        make().map_err(|error| failure("make link", &links.join(link), &error))
    }

    /// The IDs in the names of links to logs in this directory.
    fn linked_containers(&self, logs: &Path) -> Result<BTreeSet<ContainerId>, FileError> {
        let Some(links) = &self.links else { return Ok(BTreeSet::new()) };
        let look = || -> io::Result<BTreeSet<ContainerId>> {
            let folder = Directory::open(links)?;
            let mut found = BTreeSet::new();
            for (name, kind) in folder.names()? {
                let target = if kind == FileType::Symlink { folder.link_target(&name)? } else { None };
                let id = target.filter(|target| target.starts_with(logs)).and(container_id_of_log_link(&name));
                found.extend(id.map(ContainerId::from));
            }
            Ok(found)
        };
        match look() {
            Err(error) if is_absent(&error) => Ok(BTreeSet::new()),
            outcome => outcome.map_err(|error| failure("look at links", links, &error)),
        }
    }

    fn remove_container_log(&self, link: &str, log_path: &Path) -> Result<(), FileError> {
        if let Some(links) = &self.links {
            let remove = || -> io::Result<()> {
                let folder = Directory::open(links)?;
                if folder.kind(link)? == Some(FileType::Symlink) {
                    folder.remove_file(link)?;
                }
                Ok(())
            };
            remove().or_else(absent_is_well).map_err(|error| failure("remove link", &links.join(link), &error))?;
        }
        let remove = |folder: Directory, segments: &[&str]| -> io::Result<()> {
            let Some((base, parents)) = segments.split_last() else { return Ok(()) };
            let directory = if parents.is_empty() { folder } else { folder.directory(parents, Mounts::Refuse)? };
            for (name, kind) in directory.names()? {
                let rotated = name.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
                if rotated && kind != FileType::Directory {
                    directory.remove_file(&name)?;
                }
            }
            Ok(())
        };
        let Some(segments) = segments_below(&self.pod_logs, log_path) else {
            tracing::warn!(log = %log_path.display(), "a container's log outside the pod logs directory is left alone");
            return Ok(());
        };
        let removed = Directory::open(&self.pod_logs).and_then(|folder| remove(folder, &segments));
        removed.or_else(absent_is_well).map_err(|error| failure("remove log", log_path, &error))
    }

    fn remove_dead_links(&self, live: &BTreeSet<ContainerId>) -> Result<usize, FileError> {
        let Some(links) = &self.links else { return Ok(0) };
        let failed = |error: io::Error| failure("remove dead links", links, &error);
        let folder = match Directory::open(links) {
            Err(error) if is_absent(&error) => return Ok(0),
            other => other.map_err(failed)?,
        };
        let mut removed = 0;
        for (name, kind) in folder.names().map_err(failed)? {
            let of_live = || {
                let id = name.strip_suffix(".log").and_then(|name| name.rsplit_once('-')).map(|(_, id)| id);
                id.is_some_and(|id| live.contains(&ContainerId::from(id)))
            };
            if kind == FileType::Symlink && !of_live() && self.is_dead_link(&folder, &name).map_err(failed)? {
                removed += usize::from(folder.remove_file(&name).map_err(failed)?);
            }
        }
        Ok(removed)
    }

    /// Whether the link leads to a log of ours that is not there.
    fn is_dead_link(&self, folder: &Directory, name: &str) -> io::Result<bool> {
        let Some(target) = folder.link_target(name)? else { return Ok(false) };
        let Some(segments) = segments_below(&self.pod_logs, &target) else { return Ok(false) };
        let found = Directory::open(&self.pod_logs).and_then(|logs| logs.read_regular(&segments, Mounts::Cross));
        match found {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(_) => Ok(false), // A file that cannot be looked at may be there.
        }
    }

    fn remove_log_directory(&self, name: &str) -> Result<(), FileError> {
        if let Some(links) = &self.links {
            let remove = || -> io::Result<()> {
                let (folder, logs) = (Directory::open(links)?, self.pod_logs.join(segment(name)?));
                for (link, kind) in folder.names()? {
                    let target = if kind == FileType::Symlink { folder.link_target(&link)? } else { None };
                    if target.is_some_and(|target| target.starts_with(&logs)) {
                        folder.remove_file(&link)?;
                    }
                }
                Ok(())
            };
            remove().or_else(absent_is_well).map_err(|error| failure("remove links to logs", links, &error))?;
        }
        remove_below(&self.pod_logs, name)
    }

    fn log_directory_written(&self, name: &str) -> Result<Option<Moment>, FileError> {
        let look = || -> io::Result<Moment> {
            let directory = Directory::open(&self.pod_logs)?.directory(&[name], Mounts::Refuse)?;
            let mut last = changed(&directory, ".")?;
            for (container, kind) in directory.names()? {
                last = last.max(changed(&directory, &container)?);
                if kind == FileType::Directory {
                    let logs = directory.directory(&[&container], Mounts::Refuse)?;
                    for (log, _) in logs.names()? {
                        last = last.max(changed(&logs, &log)?);
                    }
                }
            }
            Ok(last)
        };
        match look() {
            Ok(last) => Ok(Some(last)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failure("look at logs", &self.pod_logs.join(name), &error)),
        }
    }

    fn known_pods(&self) -> Result<Vec<PodUid>, FileError> {
        Ok(directories_of(&self.pods)?.into_iter().map(PodUid::from).collect())
    }

    fn known_log_directories(&self) -> Result<Vec<(String, PodUid)>, FileError> {
        let names = directories_of(&self.pod_logs)?.into_iter();
        Ok(names.map(|name| (PodUid::from(name.rsplit('_').next().unwrap_or_default()), name)).map(swap).collect())
    }

    fn made_pod(&self, uid: &PodUid) -> io::Result<Directory> {
        folder_made(&self.pods, 0o750)?.make_directory(uid.as_str(), 0o750)
    }

    fn made_log(&self, pod: &PodPlace) -> io::Result<Directory> {
        segment(&pod.full_name.namespace)?;
        segment(&pod.full_name.name)?;
        segment(pod.uid.as_str())?;
        folder_made(&self.pod_logs, 0o750)?.make_directory(&log_directory_name(pod), 0o755)
    }

    /// A log's place below the pod logs directory. Another place is refused: the runtime names it, but a pod that may
    /// write there must not have the agent read the host's files for it.
    fn log_segments<'a>(&self, path: &'a Path) -> Result<(Directory, Vec<&'a str>), FileError> {
        let outside = || failure("open log", path, &io::Error::other("is not below the pod logs directory"));
        let segments = segments_below(&self.pod_logs, path).ok_or_else(outside)?;
        let folder = Directory::open(&self.pod_logs).map_err(|error| failure("open log", path, &error))?;
        Ok((folder, segments))
    }
}

/// One that is longer than it may be is not read in part: whoever was named in the rest would be missing.
fn read_resolv_conf(path: &Path) -> Result<String, FileError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::open(path)?.take(RESOLV_CONF_BYTES_MAX + 1).read_to_end(&mut content)?;
        let fits = u64::try_from(content.len()).is_ok_and(|length| length <= RESOLV_CONF_BYTES_MAX);
        if fits { Ok(content) } else { Err(io::Error::other("the read limit is reached")) }
    };
    read().map(lossy).map_err(|error| failure("open", path, &error))
}

fn swap<A, B>((left, right): (A, B)) -> (B, A) {
    (right, left)
}

fn failure(attempt: &'static str, path: &Path, error: &io::Error) -> FileError {
    FileError::new(attempt, path, error)
}

fn utf8_path(path: &Path) -> Result<String, FileError> {
    let not_text = || failure("name", path, &io::Error::new(io::ErrorKind::InvalidInput, "not UTF-8"));
    path.to_str().map(str::to_owned).ok_or_else(not_text)
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Whether there is just no such regular file: nothing, a link, or a path through something that is no directory.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ELOOP | libc::ENOTDIR))
}

fn absent_is_well(error: io::Error) -> io::Result<()> {
    if is_absent(&error) { Ok(()) } else { Err(error) }
}

/// Opens one of the agent's own folders, making it first when it is not there.
fn folder_made(path: &Path, mode: u32) -> io::Result<Directory> {
    match Directory::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    std::fs::create_dir_all(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Directory::open(path)
}

fn remove_below(folder: &Path, name: &str) -> Result<(), FileError> {
    match Directory::open(folder).and_then(|directory| directory.remove_tree(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failure("remove directory", &folder.join(name), &error))
        }
        _ => Ok(()),
    }
}

/// When a file changed last; no link is followed.
fn changed(directory: &Directory, name: &str) -> io::Result<Moment> {
    let told = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let nanoseconds = told.st_mtime.saturating_mul(1_000_000_000);
    Ok(Moment(nanoseconds.saturating_add(i64::try_from(told.st_mtime_nsec).unwrap_or_default())))
}

fn directories_of(folder: &Path) -> Result<Vec<String>, FileError> {
    let names = match Directory::open(folder).and_then(|directory| directory.names()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| failure("list directory", folder, &error))?,
    };
    Ok(names.into_iter().filter(|(_, kind)| *kind == FileType::Directory).map(|(name, _)| name).collect())
}

/// Splits a path below `folder` into its segments; `None` when it is elsewhere or has segments other than names.
fn segments_below<'a>(folder: &Path, path: &'a Path) -> Option<Vec<&'a str>> {
    let below = path.strip_prefix(folder).ok()?;
    let names = below.components().map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    names.collect::<Option<Vec<_>>>().filter(|names| !names.is_empty())
}

/// The name of a pod's folder in the pod logs directory: `<namespace>_<name>_<uid>`.
fn log_directory_name(pod: &PodPlace) -> String {
    format!("{}_{}_{}", pod.full_name.namespace, pod.full_name.name, pod.uid)
}

/// Eight hexadecimal digits that differ between the starts of a container: FNV-1a of the UID and the restart count.
fn termination_log_name(uid: &PodUid, restart_count: u32) -> String {
    let bytes = uid.as_str().bytes().chain(restart_count.to_be_bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

fn read_last(file: &mut File, bytes_max: usize) -> io::Result<Vec<u8>> {
    let wanted = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(wanted)))?;
    let mut bytes = Vec::new();
    file.take(wanted).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
