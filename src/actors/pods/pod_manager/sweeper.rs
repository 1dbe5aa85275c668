//! The work of `PodManager` on the node itself: it finds and removes the leftovers of pods that nobody knows, and releases
//! volumes and cgroups of pods that the runtime does not hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::actors::kit::address::Address;
use crate::actors::kit::trace::Cause;
use crate::actors::pods::pod_worker::jobs::{destroy_cgroup, release, release_user_namespace};
use crate::logic::logs::log_keeping::{LogKeeping, is_full};
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_lifecycle::CleanUpFailure;
use crate::logic::pods::pod_manager::leftovers::{Found, Leftovers, Swept};
use crate::logic::resources::cgroup_name::{CgroupName, CgroupTree};
use crate::messages::pods::user_namespaces::UserNamespacesMsg;
use crate::messages::volume_manager::VolumeManagerMsg;
use crate::platform::cgroup::CgroupManager;
use crate::platform::host::blocking;
use crate::platform::images::ImageHost;
use crate::platform::pods::pod_files::PodFiles;

/// See the module.
pub struct Sweeper {
    /// Where the agent's cgroups are.
    pub cgroup_tree: CgroupTree,
    /// Whether resources of whole pods count.
    pub pod_level: bool,
    /// `podLogsDir`.
    pub pod_logs_dir: String,
    /// Cgroups.
    pub cgroups: Arc<dyn CgroupManager>,
    /// Pods' files.
    pub files: Arc<dyn PodFiles>,
    /// Knows how full the disk of the logs is.
    pub image_host: Arc<dyn ImageHost>,
    /// Has volumes gone.
    pub volume_manager: Address<VolumeManagerMsg>,
    /// Has ranges of IDs free.
    pub user_namespaces: Address<UserNamespacesMsg>,
}

impl Sweeper {
    /// The things on the node of pods that are not `known`.
    pub async fn find(&self, known: &BTreeSet<PodUid>, logs: &LogKeeping) -> Found {
        let mut found: BTreeMap<PodUid, Leftovers> = BTreeMap::new();
        for uid in self.files.known_pods().await.unwrap_or_default() {
            found.entry(uid).or_default().has_directory = true;
        }
        for (name, uid) in self.files.known_log_directories().await.unwrap_or_default() {
            found.entry(uid).or_default().logs.push(name);
        }
        let (tree, cgroups) = (self.cgroup_tree.clone(), Arc::clone(&self.cgroups));
        for (uid, name) in blocking::run(move || pod_cgroups(&tree, &*cgroups)).await {
            found.entry(uid).or_default().cgroups.push(name);
        }
        found.retain(|uid, _| !known.contains(uid));
        let mut disk_is_full = false;
        if found.values().any(|left| !left.logs.is_empty()) {
            let disk = self.image_host.disk_use(&self.pod_logs_dir).await;
            disk_is_full = disk.is_ok_and(is_full);
        }
        for (_, left) in found.iter_mut().filter(|(uid, _)| !logs.knows(uid)) {
            for name in &left.logs {
                left.written = left.written.max(self.files.log_directory_written(name).await.ok().flatten());
            }
        }
        Found { leftovers: found, disk_is_full }
    }

    /// Removes the leftovers of one pod. Those that cannot be removed are left for the next pass.
    pub async fn remove(&self, uid: &PodUid, left: Leftovers) -> Swept {
        let directory = if left.has_directory { Some(self.remove_directory(uid).await) } else { None };
        let mut removed = usize::from(directory == Some(Ok(())));
        let mut logs = None;
        for name in &left.logs {
            match self.files.remove_log_directory(name).await {
                Ok(()) => removed += 1,
                Err(error) => logs = Some(error.to_string()),
            }
        }
        // A process that still uses the volumes may be in the pod's cgroup: that stays as long as they do (upstream, too).
        if !matches!(directory, Some(Err(_))) {
            let cgroups = Arc::clone(&self.cgroups);
            let gone = move || left.cgroups.iter().filter(|name| cgroups.destroy(name).is_ok()).count();
            removed += blocking::run(gone).await;
        }
        Swept { removed, directory, logs }
    }

    /// Mounts below it are let go first, and a volume that cannot go keeps its directory (VOL-15).
    async fn remove_directory(&self, uid: &PodUid) -> Result<(), String> {
        let released = release(&self.volume_manager, uid, Cause::outside("housekeeping")).await;
        released.map_err(|failure| failure.message)?;
        self.files.remove_pod(uid).await.map_err(|error| error.to_string())
    }

    /// Releases the volumes, then the cgroup, then the user namespace of a pod that the runtime does not hold.
    pub async fn release(&self, uid: &PodUid, pod: &Pod, cause: Cause) -> Result<(), CleanUpFailure> {
        release(&self.volume_manager, uid, cause.clone()).await?;
        destroy_cgroup(&self.cgroups, &self.cgroup_tree, self.pod_level, uid, Some(pod)).await?;
        release_user_namespace(&self.user_namespaces, uid, Some(pod), cause).await;
        Ok(())
    }
}

fn pod_cgroups(tree: &CgroupTree, cgroups: &dyn CgroupManager) -> Vec<(PodUid, CgroupName)> {
    if tree.per_qos() { cgroups.list_pods(tree).unwrap_or_default() } else { vec![] }
}
