//! The part of a look that asks disks, each of which may not answer: it costs its own figures and nobody else's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join4};

use super::{Inner, LinuxStatistics, LookOrder, disks, metered};
use crate::logic::logs::log_path::pod_log_directory_name;
use crate::logic::statistics::figures::{FileSystem, Usage};
use crate::logic::statistics::sample::{DiskSample, PodSample, RawSample, RuntimeDisk};
use crate::platform::statistics::RuntimeDiskAt;

/// How long a file system, which may be at the other end of a network, is waited for.
pub(super) const FILE_SYSTEM_MAX: Duration = Duration::from_secs(2);
/// How long the log files of all pods are waited for.
const FILES_MAX: Duration = Duration::from_secs(5);

/// A file system that does not answer in time; with the path that was asked about.
struct Silent(String);

/// The file system that a path is on.
type Asked = Result<Option<FileSystem>, Silent>;

/// The files of a pod whose folders are read at each look, by their names alone.
struct PodFiles {
    log_directory: String,
    uid: String,
    containers: Vec<String>,
}

/// Their space: of the pod's logs, of each container's, of the hosts file.
struct PodSpace {
    logs: Option<Usage>,
    containers: Vec<Option<Usage>>,
    hosts_file: Option<Usage>,
}

impl PodFiles {
    fn of(pod: &PodSample) -> Self {
        Self {
            log_directory: pod_log_directory_name(&pod.namespace, &pod.name, pod.uid.as_str()),
            uid: pod.uid.to_string(),
            containers: pod.containers.iter().map(|container| container.name.clone()).collect(),
        }
    }
}

impl LinuxStatistics {
    /// Runs a call that may hang, on a thread of its own. `None` when it does not end in time, or an earlier one hangs.
    pub(super) async fn in_time<T: Send + 'static>(
        &self,
        limit: Duration,
        key: String,
        doing: &'static str,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let call = self.patient.run(key, doing, move || Ok(call()));
        tokio::time::timeout(limit, call).await.ok()?.ok()
    }

    /// Adds what disks say: file systems, and the files of pods.
    pub(super) async fn add_disks(&self, sample: &mut RawSample, order: LookOrder) {
        let (disks, files) = join(self.disks(order.images, order.containers), self.files(&sample.pods)).await;
        let (disks, mut silent) = disks;
        sample.disks = Some(disks);
        match files {
            Ok((spaces, cpu)) => {
                sample.cpu_ns = sample.cpu_ns.saturating_add(u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX));
                for (pod, space) in sample.pods.iter_mut().zip(spaces) {
                    (pod.logs, pod.hosts_file) = (space.logs, space.hosts_file);
                    pod.containers.iter_mut().zip(space.containers).for_each(|(one, logs)| one.logs = logs);
                }
            }
            Err(Silent(path)) => silent.push(path),
        }
        silent.sort_unstable();
        silent.dedup();
        sample.silent = silent;
    }

    /// All file systems, and those that did not answer.
    async fn disks(
        &self,
        images: Option<RuntimeDiskAt>,
        containers: Option<RuntimeDiskAt>,
    ) -> (DiskSample, Vec<String>) {
        let places = &self.inner.places;
        let (node, logs) = (self.disk(places.root_dir.clone()), self.disk(places.pod_logs.clone()));
        let (images, containers) = (self.runtime_disk(images), self.runtime_disk(containers));
        let (node, logs, images, containers) = join4(node, logs, images, containers).await;
        let mut silent = vec![];
        let mut heard = |asked: Asked| match asked {
            Ok(file_system) => file_system,
            Err(Silent(path)) => {
                silent.push(path);
                None
            }
        };
        let (node, logs) = (heard(node).unwrap_or_default(), heard(logs));
        let mut told = |disk: Option<(RuntimeDisk, Asked)>| {
            disk.map(|(told, asked)| RuntimeDisk { file_system: heard(asked), ..told })
        };
        let (images, containers) = (told(images), told(containers));
        (DiskSample { node, logs, images, containers }, silent)
    }

    /// A disk of the runtime's, with its word on it.
    async fn runtime_disk(&self, disk: Option<RuntimeDiskAt>) -> Option<(RuntimeDisk, Asked)> {
        let disk = disk?;
        let path = self.inner.places.root.join(disk.path.trim_start_matches('/'));
        Some((disk.told, self.disk(path).await))
    }

    async fn disk(&self, path: PathBuf) -> Asked {
        let name = path.display().to_string();
        let (inner, key) = (Arc::clone(&self.inner), format!("statistics of {name}"));
        let ask = self.ask_disk;
        let call = move || ask(&path, &*inner.clock);
        self.in_time(FILE_SYSTEM_MAX, key, "look at the file system of", call).await.ok_or(Silent(name))
    }

    /// The space of pods' files, and the processor time that counting took; where logs are, where that does not answer.
    async fn files(&self, pods: &[PodSample]) -> Result<(Vec<PodSpace>, Duration), Silent> {
        if pods.is_empty() {
            return Ok((vec![], Duration::ZERO));
        }
        let files: Vec<PodFiles> = pods.iter().map(PodFiles::of).collect();
        let (inner, logs) = (Arc::clone(&self.inner), &self.inner.places.pod_logs);
        let count = move || metered(|| files.iter().map(|pod| inner.space(pod)).collect());
        let counted = self.in_time(FILES_MAX, "logs and hosts files".to_owned(), "count", count).await;
        counted.ok_or_else(|| Silent(logs.display().to_string()))
    }
}

impl Inner {
    /// The pod's log files, and its hosts file.
    fn space(&self, pod: &PodFiles) -> PodSpace {
        let clock = &*self.clock;
        let open = |path: &Path| disks::open(path);
        let logs = open(&self.places.pod_logs).and_then(|logs| disks::below(logs, &pod.log_directory));
        let of_container = |name: &String| {
            let folder = disks::below(logs.as_ref()?, name)?;
            disks::files_in(&folder, clock)
        };
        let folder = open(&self.places.root_dir.join("pods")).and_then(|pods| disks::below(pods, &pod.uid));
        PodSpace {
            containers: pod.containers.iter().map(of_container).collect(),
            logs: logs.as_ref().and_then(|logs| disks::files_in(logs, clock)),
            hosts_file: folder.and_then(|folder| disks::file_in(&folder, "etc-hosts", clock)),
        }
    }
}
