//! A pod worker's jobs that remove: dead containers, then volumes and cgroup of a pod that has ended, then what is left of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::allocations::release_user_namespace;
use super::problems::joined;
use super::site::JobSite;
use crate::actors::kit::trace::Cause;
use crate::actors::runtime::removal::remove_container;
use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::pods::pod_lifecycle::{CleanUpFailure, JobEnd, Remains};
use crate::logic::resources::cgroup_name::CgroupTree;
use crate::logic::resources::pod_qos;
use crate::platform::cgroup::CgroupManager;
use crate::platform::host::blocking;

impl JobSite {
    /// Removes dead containers with their logs, each whatever became of the others.
    pub(in super::super) async fn remove_containers(
        self,
        known: Option<Arc<RuntimePod>>,
        ids: Vec<ContainerId>,
    ) -> JobEnd {
        let adapters = &self.tools.adapters;
        let mut problems = vec![];
        for id in &ids {
            problems.extend(remove_container(&*adapters.runtime, &*adapters.files, known.as_deref(), id).await.err());
        }
        JobEnd::Removed(joined(problems))
    }

    /// Has the pod's volumes unmounted, then its cgroup removed: what volumes in memory hold is charged to it.
    /// Others may have its range of IDs after that.
    pub(in super::super) async fn clean_up(self, pod: Option<Arc<Pod>>, cause: Cause) -> JobEnd {
        JobEnd::CleanedUp(self.try_clean_up(pod.as_deref(), cause).await)
    }

    async fn try_clean_up(&self, pod: Option<&Pod>, cause: Cause) -> Result<(), CleanUpFailure> {
        self.release_volumes(pod).await?;
        let resources = &self.tools.settings.resources;
        let pod_level = resources.options.pod_level_resources;
        destroy_cgroup(&self.tools.adapters.cgroups, &resources.cgroup_tree, pod_level, &self.uid, pod).await?;
        release_user_namespace(&self.tools.to.user_namespaces, &self.uid, pod, cause).await;
        Ok(())
    }

    /// Removes what is left of the pod, each thing whatever became of the others. Logs stay: they are read for a while yet.
    pub(in super::super) async fn remove_remains(self, known: Option<Arc<RuntimePod>>, remains: Remains) -> JobEnd {
        let runtime = &self.tools.adapters.runtime;
        let (mut problems, mut held) = (vec![], BTreeSet::new());
        for id in &remains.containers {
            if let Err(error) = runtime.remove_container(id).await {
                let containers = known.iter().flat_map(|known| &known.containers);
                held.extend(containers.filter(|one| one.id == *id).map(|one| one.sandbox_id.clone()));
                problems.push(error.to_string());
            }
        }
        for id in remains.sandboxes.iter().filter(|id| !held.contains(*id)) {
            problems.extend(runtime.remove_pod_sandbox(id).await.err().map(|error| error.to_string()));
        }
        if remains.directory {
            let removed = self.tools.adapters.files.remove_pod(&self.uid).await;
            problems.extend(removed.err().map(|error| error.to_string()));
        }
        JobEnd::RemainsRemoved(remains, joined(problems))
    }
}

/// Removes the cgroup of a pod that has ended.
pub(in crate::actors) async fn destroy_cgroup(
    cgroups: &Arc<dyn CgroupManager>,
    tree: &CgroupTree,
    pod_level: bool,
    uid: &PodUid,
    pod: Option<&Pod>,
) -> Result<(), String> {
    if !tree.per_qos() {
        return Ok(());
    }
    let (cgroups, tree, uid) = (Arc::clone(cgroups), tree.clone(), uid.clone());
    let qos = pod.map(|pod| pod_qos(pod, pod_level));
    let destroyed = blocking::run(move || match qos {
        Some(qos) => cgroups.destroy(&tree.pod(&uid, qos)?),
        // Of a pod that only the runtime knew the class is not known: it is where it is.
        None => {
            let mine = cgroups.list_pods(&tree)?.into_iter().filter(|(owner, _)| *owner == uid);
            mine.map(|(_, name)| name).try_for_each(|name| cgroups.destroy(&name))
        }
    });
    destroyed.await.map_err(|error| error.to_string())
}
