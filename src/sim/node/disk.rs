//! Pods' files, in memory, with a disk that is full now and then.

pub mod logs;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::busy::Busy;
use super::disk::logs::Writing;
use super::outlet::Outlet;
use crate::actors::kit::trace::lock;
use crate::logic::logs::log_path::{
    container_id_of_log_link, pod_log_directory_name, pod_uid_of_log_directory, restart_count,
};
use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::model::time::Moment;
use crate::logic::pods::offline_pods::Needed;
use crate::logic::volumes::csi::names::DevicePlace;
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::logic::volumes::order::VolumePlace;
use crate::platform::cluster::offline_store::{Content, OfflineStore, is_needed};
use crate::platform::files::FileError;
use crate::platform::files::checkpoints::Checkpoints;
use crate::platform::logs::log_reader::{Admission, LogReadError, LogReader, LogWanted, OpenLog};
use crate::platform::logs::node_logs::{JournalOutput, NodeLog, NodeLogs};
use crate::platform::pods::pod_files::{ContainerFiles, MadeContainerFiles, PodFiles, PodPlace};
use crate::platform::pods::probe_store::{FILE_NAME, KeptBytes, ProbeStore};
use crate::platform::pods::user_namespace_files::{Files, UserNamespaceFiles};
use crate::sim::faults::Fault;

/// Where pods' logs are.
pub const POD_LOGS: &str = "/var/log/pods";
/// How long logs of a pod may stay after it was written to last, if nothing goes wrong: a minute until they may go, one until
/// somebody looks, and the time that the pod's end takes.
pub const LOGS_KEPT_MAX: Duration = Duration::from_secs(180);
/// Where pods' directories are.
const PODS: &str = "/var/lib/kubelet/pods";

/// See the module.
#[derive(Debug, Default)]
pub struct Disk {
    /// Pods' directories: the files in each.
    pub pods: BTreeMap<PodUid, BTreeSet<String>>,
    /// Ranges of IDs of pods, as their files say them.
    pub user_namespaces: BTreeMap<PodUid, Vec<u8>>,
    /// Directories of pods' logs: the log files in each, as `container/N.log`.
    pub logs: BTreeMap<String, BTreeSet<String>>,
    /// Volumes.
    pub volumes: BTreeSet<VolumePlace>,
    /// Volumes of drivers.
    pub csi: CsiFiles,
    /// The volumes that the cluster attached to the node, and that are mounted there.
    pub attached: BTreeSet<String>,
    /// The call about volumes that never ends, such as `set up data`.
    pub dead: Option<String>,
    /// Calls that wait for that, and since when.
    pub hanging: BTreeMap<String, Moment>,
    /// The things that cannot be removed or unmounted; nothing where they could.
    pub(in crate::sim) busy: BTreeMap<String, Option<Busy>>,
    /// By directory of logs, when it was written to last.
    pub(super) written: BTreeMap<String, Moment>,
    /// Volumes whose mounts went with the machine's power; their directories stay.
    pub(super) unmounted: BTreeSet<VolumePlace>,
    /// Links to logs.
    pub links: BTreeMap<String, String>,
    /// The memory of probes.
    pub probe_results: Vec<u8>,
    /// The writers of logs, and how much there is.
    pub writing: Writing,
    /// Records of the offline store, by name.
    pub offline: BTreeMap<String, Vec<u8>>,
    /// How often some of them went because no pod needed them.
    pub offline_generation: u64,
    /// Checkpoints of the agent, by name.
    pub checkpoints: BTreeMap<String, Vec<u8>>,
    /// The node's resolver configuration.
    pub resolv_conf: ResolvConf,
}

/// Directories of drivers' volumes, and the files that name them.
#[derive(Debug, Default)]
pub struct CsiFiles {
    /// Of the node as a whole; nothing in a directory without its file.
    pub devices: BTreeMap<DevicePlace, Option<VolumeData>>,
    /// Of pods.
    pub pods: BTreeMap<VolumePlace, VolumeData>,
    /// The devices that are mapped for pods.
    pub mapped: BTreeSet<VolumePlace>,
}

/// A file that is there from the beginning; `None` when it is not any more.
#[derive(Debug)]
pub struct ResolvConf(pub Option<String>);

impl Default for ResolvConf {
    fn default() -> Self {
        Self(Some("nameserver 10.0.0.53\nsearch example.com\n".to_owned()))
    }
}

impl Disk {
    /// The machine lost its power: every mount is gone.
    pub(in crate::sim) fn lose_mounts(&mut self) {
        self.unmounted.clone_from(&self.volumes);
        self.csi.mapped.clear();
    }

    /// The runtime opens a log, given its absolute path.
    pub fn write_log(&mut self, path: &str) {
        if let Some((directory, file)) = log_place(path) {
            self.logs.entry(directory.to_owned()).or_default().insert(file.to_owned());
        }
    }

    /// A container wrote to its log, given its absolute path.
    pub(super) fn note_written(&mut self, path: &str, now: Moment) {
        if let Some((directory, _)) = log_place(path) {
            self.written.insert(directory.to_owned(), now);
        }
    }

    /// When a directory of logs was written to last.
    pub(super) fn written_at(&self, directory: &str) -> Moment {
        self.written.get(directory).copied().unwrap_or_default()
    }

    /// Forgets what was in logs of pods that are gone.
    pub(in crate::sim) fn forget_logs(&mut self) {
        let Self { logs, writing, written, busy, .. } = self;
        written.retain(|directory, _| logs.contains_key(directory));
        busy.clear();
        writing.keep_only(|file| log_place(file).is_some_and(|(directory, _)| logs.contains_key(directory)));
    }

    /// UIDs of which anything is left, with what it is. Logs that were written to lately may be there.
    pub fn remains(&self, now: Moment) -> Vec<(PodUid, &'static str)> {
        let old = self.logs.keys().filter(|name| now.since(self.written_at(name)) > LOGS_KEPT_MAX);
        let logs = old.map(|name| (pod_uid_of_log_directory(name), "log directory"));
        let volumes = self.volumes.iter().map(|place| (place.uid.clone(), "volume"));
        self.pods.keys().map(|uid| (uid.clone(), "directory")).chain(logs).chain(volumes).collect()
    }
}

pub(super) fn log_place(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix(POD_LOGS)?.strip_prefix('/')?.split_once('/')
}

fn directory_name(pod: &PodPlace) -> String {
    pod_log_directory_name(&pod.full_name.namespace, &pod.full_name.name, pod.uid.as_str())
}

impl Outlet {
    /// Does something with the disk, or fails as disks do.
    pub(super) async fn file<T: Send>(
        &self,
        attempt: &'static str,
        path: &str,
        work: impl FnOnce(&mut Disk) -> T + Send,
    ) -> Result<T, FileError> {
        let node = self.begin_file().await;
        let writes = !matches!(attempt.split(' ').next(), Some("read" | "open" | "look" | "list" | "remove"));
        if node.faults.strikes(Fault::Disk, 0.1) || (writes && lock(&node.beside).refuses_writes) {
            node.story.tell("fault", format!("cannot {attempt} {path}"));
            let problem = "No space left on device (os error 28)".to_owned();
            return Err(FileError { attempt, path: path.to_owned(), problem });
        }
        let done = work(&mut lock(&node.disk));
        self.end_file().await;
        Ok(done)
    }
}

impl Outlet {
    /// The content of the disk after these bytes were written to a state file, and whether the writer may think that all
    /// are: now and then only the first of them are, or one is another.
    pub(super) fn torn(&self, file: &str, mut bytes: Vec<u8>) -> (Vec<u8>, Result<(), FileError>) {
        let node = self.node();
        if bytes.is_empty() || !node.faults.strikes(Fault::TornWrites, 0.2) {
            return (bytes, Ok(()));
        }
        let place = usize::try_from(node.faults.dice().below(bytes.len() as u64)).unwrap_or_default();
        if node.faults.dice().chance(0.5) {
            bytes.truncate(place);
        } else {
            bytes[place] ^= 0x55;
        }
        node.story.tell("fault", format!("{file} is not written as it was meant"));
        let is_told = node.faults.dice().chance(0.5);
        let problem = "No space left on device (os error 28)".to_owned();
        let error = FileError { attempt: "write", path: file.to_owned(), problem };
        (bytes, if is_told { Err(error) } else { Ok(()) })
    }

    async fn make_pod_file(&self, pod: &PodPlace, attempt: &'static str, file: String) -> Result<String, FileError> {
        let uid = pod.uid.clone();
        let path = format!("{PODS}/{uid}/{file}");
        self.file(attempt, &path, |disk| disk.pods.entry(uid).or_default().insert(file)).await?;
        Ok(path)
    }

    /// The memory of probes, as it is on the disk when the agent starts.
    pub fn probe_store(&self) -> ProbeStore {
        let bytes = lock(&self.node().disk).probe_results.clone();
        ProbeStore::new(&bytes, Arc::new(self.clone()))
    }
}

#[async_trait]
impl KeptBytes for Outlet {
    async fn keep(&self, bytes: Vec<u8>) -> Result<(), FileError> {
        let (bytes, torn) = self.torn(FILE_NAME, bytes);
        self.file("write file", FILE_NAME, |disk| disk.probe_results = bytes).await.and(torn)
    }
}

#[async_trait]
impl PodFiles for Outlet {
    async fn make_pod_directories(&self, pod: &PodPlace) -> Result<(), FileError> {
        let (uid, logs) = (pod.uid.clone(), directory_name(pod));
        self.file("make directory", uid.as_str(), |disk| {
            disk.pods.entry(uid.clone()).or_default();
            disk.logs.entry(logs).or_default();
        })
        .await
    }

    async fn make_container_files(
        &self,
        pod: &PodPlace,
        files: ContainerFiles,
    ) -> Result<MadeContainerFiles, FileError> {
        let (name, prefix) = (directory_name(pod), format!("{}/", files.container));
        let restart_count = self
            .file("make log directory", &name.clone(), |disk| {
                let logs = disk.logs.entry(name).or_default().iter();
                restart_count(files.restart_count, logs.filter_map(|file| file.strip_prefix(&prefix)))
            })
            .await?;
        let termination_log = if files.termination_log {
            let file = format!("containers/{}/{restart_count:08x}", files.container);
            Some(self.make_pod_file(pod, "make termination log", file).await)
        } else {
            None
        };
        let etc_hosts = if files.etc_hosts.is_some() {
            Some(self.make_pod_file(pod, "write file", "etc-hosts".to_owned()).await?)
        } else {
            None
        };
        Ok(MadeContainerFiles { restart_count, termination_log, etc_hosts })
    }

    async fn node_hosts(&self) -> Result<Vec<u8>, FileError> {
        self.file("read file", "/etc/hosts", |_| b"127.0.0.1 localhost\n".to_vec()).await
    }

    async fn node_resolv_conf(&self, path: &str) -> Result<String, FileError> {
        let text = self.file("open", path, |disk| disk.resolv_conf.0.clone()).await?;
        let problem = "No such file or directory (os error 2)".to_owned();
        text.ok_or_else(|| FileError { attempt: "open", path: path.to_owned(), problem })
    }

    async fn read_termination_log(&self, _: &PodUid, path: &str, _: usize) -> Result<String, FileError> {
        self.file("read termination log", path, |_| String::new()).await
    }

    async fn log_tail(&self, path: &str, _: usize, _: usize) -> Result<String, FileError> {
        self.file("read log", path, |_| "the last line\n".to_owned()).await
    }

    async fn link_log(&self, link: &str, log_path: &str) -> Result<(), FileError> {
        let (link, path) = (link.to_owned(), log_path.to_owned());
        self.file("make link", log_path, |disk| {
            let is_there = log_place(&path)
                .is_some_and(|(directory, file)| disk.logs.get(directory).is_some_and(|files| files.contains(file)));
            if is_there {
                disk.links.insert(link, path);
            }
        })
        .await
    }

    async fn linked_containers(&self, pod: &PodPlace, container: &str) -> Result<BTreeSet<ContainerId>, FileError> {
        let logs = format!("{POD_LOGS}/{}/{container}/", directory_name(pod));
        self.file("look at links", &logs, |disk| {
            let own = disk.links.iter().filter(|(_, path)| path.starts_with(&logs));
            own.filter_map(|(link, _)| container_id_of_log_link(link)).map(ContainerId::from).collect()
        })
        .await
    }

    async fn remove_container_log(&self, link: &str, log_path: &str) -> Result<(), FileError> {
        let (link, path) = (link.to_owned(), log_path.to_owned());
        self.file("remove log", log_path, |disk| {
            disk.links.remove(&link);
            if let Some((directory, file)) = log_place(&path)
                && let Some(files) = disk.logs.get_mut(directory)
            {
                files.remove(file);
            }
        })
        .await
    }

    async fn remove_dead_links(&self, live: &BTreeSet<ContainerId>) -> Result<usize, FileError> {
        self.file("remove dead links", POD_LOGS, |disk| {
            let before = disk.links.len();
            let logs = &disk.logs;
            disk.links.retain(|link, path| {
                let there = log_place(path)
                    .is_some_and(|(directory, file)| logs.get(directory).is_some_and(|files| files.contains(file)));
                there || live.iter().any(|id| link.contains(id.as_str()))
            });
            before - disk.links.len()
        })
        .await
    }

    async fn remove_pod(&self, uid: &PodUid) -> Result<(), FileError> {
        self.removal(uid.as_str()).await?;
        let gone = uid.clone();
        self.file("remove directory", uid.as_str(), |disk| {
            disk.user_namespaces.remove(&gone);
            disk.pods.remove(&gone);
        })
        .await?;
        self.node().invariants.users_taken(&lock(&self.node().containers), uid);
        self.node().invariants.pod_removed(uid);
        Ok(())
    }

    async fn known_pods(&self) -> Result<Vec<PodUid>, FileError> {
        self.file("list directory", PODS, |disk| disk.pods.keys().cloned().collect()).await
    }

    async fn known_log_directories(&self) -> Result<Vec<(String, PodUid)>, FileError> {
        self.file("list directory", POD_LOGS, |disk| {
            disk.logs.keys().map(|name| (name.clone(), pod_uid_of_log_directory(name))).collect()
        })
        .await
    }

    async fn log_directory_written(&self, name: &str) -> Result<Option<Moment>, FileError> {
        self.file("look at logs", name, |disk| disk.logs.contains_key(name).then(|| disk.written_at(name))).await
    }

    async fn remove_log_directory(&self, name: &str) -> Result<(), FileError> {
        self.removal(name).await?;
        self.file("remove directory", name, |disk| {
            disk.logs.remove(name);
            disk.links.retain(|_, path| log_place(path).is_none_or(|(directory, _)| directory != name));
        })
        .await
    }
}

#[async_trait]
impl UserNamespaceFiles for Outlet {
    async fn read_all(&self) -> Result<Files, FileError> {
        let read = |disk: &mut Disk| disk.user_namespaces.clone().into_iter().map(|(uid, bytes)| (uid, Ok(bytes)));
        self.file("read files", PODS, |disk| read(disk).collect()).await
    }

    async fn write(&self, uid: &PodUid, content: Vec<u8>) -> Result<(), FileError> {
        let call = self.begin_call().await;
        let path = format!("{PODS}/{uid}/userns");
        let written = self.file("write file", &path, |disk| {
            disk.pods.entry(uid.clone()).or_default();
            disk.user_namespaces.insert(uid.clone(), content);
        });
        let written = written.await;
        self.end_call(call).await;
        written
    }

    async fn remove(&self, uid: &PodUid) -> Result<(), FileError> {
        let path = format!("{PODS}/{uid}/userns");
        let call = self.begin_call().await;
        self.file("remove file", &path, |disk| drop(disk.user_namespaces.remove(uid))).await?;
        self.end_call(call).await;
        self.node().invariants.users_taken(&lock(&self.node().containers), uid);
        Ok(())
    }
}

#[async_trait]
impl Checkpoints for Outlet {
    async fn read(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        self.file("read", name, |disk| disk.checkpoints.get(name).cloned()).await
    }

    async fn write(&self, name: &'static str, bytes: Vec<u8>) -> Result<(), FileError> {
        let (bytes, torn) = self.torn(name, bytes);
        self.file("write", name, |disk| drop(disk.checkpoints.insert(name.to_owned(), bytes))).await.and(torn)
    }

    async fn set_aside(&self, name: &'static str) -> Result<(), FileError> {
        let renamed = self.file("rename", name, |disk| {
            let bytes = disk.checkpoints.remove(name);
            disk.checkpoints.extend(bytes.map(|bytes| (format!("{name}.corrupt"), bytes)));
        });
        renamed.await
    }
}

#[async_trait]
impl OfflineStore for Outlet {
    async fn keep(&self, name: &str, content: Content) -> io::Result<()> {
        let content = content();
        // Records are sealed: of one that is not what was kept nothing can be read.
        let (now, torn) = self.torn(name, content.clone());
        let content = if now == content { content } else { vec![] };
        let kept = self.file("write", name, |disk| drop(disk.offline.insert(name.to_owned(), content))).await;
        kept.map_err(io::Error::other).and_then(|()| torn.map_err(io::Error::other))
    }

    async fn renew(&self, name: &str) -> io::Result<bool> {
        self.file("mark", name, |disk| disk.offline.contains_key(name)).await.map_err(io::Error::other)
    }

    async fn recall(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let record = self.file("read", name, |disk| disk.offline.get(name).cloned()).await.map_err(io::Error::other)?;
        match record {
            Some(record) if record.is_empty() => Err(io::Error::other("not what was kept")),
            record => Ok(record),
        }
    }

    async fn forget(&self, name: &str) -> io::Result<()> {
        self.file("remove", name, |disk| drop(disk.offline.remove(name))).await.map_err(io::Error::other)
    }

    async fn keep_needed(&self, needed: &Needed) -> io::Result<usize> {
        let removed = self.file("remove", "records that no pod needs", |disk| {
            let before = disk.offline.len();
            disk.offline.retain(|name, _| is_needed(name, needed));
            let removed = before - disk.offline.len();
            disk.offline_generation += u64::from(removed > 0);
            removed
        });
        removed.await.map_err(io::Error::other)
    }

    fn generation(&self) -> u64 {
        lock(&self.node().disk).offline_generation
    }
}

/// Nobody reads a simulated log.
#[async_trait]
impl LogReader for Outlet {
    fn admit(&self) -> Option<Admission> {
        None
    }

    async fn open(&self, wanted: LogWanted) -> Result<Box<dyn OpenLog>, LogReadError> {
        Err(LogReadError::Open { path: wanted.path, problem: std::io::ErrorKind::NotFound.into() })
    }
}

/// A simulated node keeps no logs of its own.
#[async_trait]
impl NodeLogs for Outlet {
    fn admit(&self) -> Option<Admission> {
        None
    }

    async fn open(&self, _: &str) -> std::io::Result<NodeLog> {
        Err(std::io::ErrorKind::NotFound.into())
    }

    async fn units(&self) -> std::io::Result<String> {
        Ok(String::new())
    }

    fn journal(&self, _: &[String]) -> std::io::Result<JournalOutput> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}
