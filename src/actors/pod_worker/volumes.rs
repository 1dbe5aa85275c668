//! A pod worker's jobs about volumes: having them there, giving them to containers, letting them go.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::jobs::JobSite;
use crate::actors::ledger::Cause;
use crate::actors::settings::Agent;
use crate::cri::{Mount, MountPropagation};
use crate::logic::environment::{EnvironmentSources, container_environment};
use crate::logic::ids::PodUid;
use crate::logic::pod_lifecycle::JobEnd;
use crate::logic::volume_states::{MountedVolumes, VolumeFailure};
use crate::logic::volumes::container_mounts::{ContainerMount, Propagation, container_mounts};
use crate::logic::volumes::order::SubPathOrder;
use crate::logic::volumes::plan::{VolumeKind, volume_plans};
use crate::messages::volume_manager::VolumeManagerMsg;

/// Patience with `VolumeManager`, which answers sooner about what hangs or fails.
const PATIENCE: Duration = Duration::from_secs(150);

impl JobSite {
    /// Has the pod's volumes there.
    pub(super) async fn mount_volumes(self, pod: Arc<Pod>, cause: Cause) -> JobEnd {
        let volumes = &self.agent.directory.volume_manager;
        let question = |reply| VolumeManagerMsg::Ensure(pod, reply);
        let answer = volumes.ask(cause.clone(), PATIENCE, question).await;
        let mounted = answer.unwrap_or_else(|error| Err(VolumeFailure::lost(error.to_string())));
        if let Err(failure) = &mounted
            && failure.in_processing
        {
            let message = format!("Unable to attach or mount volumes: {}", failure.message);
            self.tell(&cause, self.subject(String::new()).warning("FailedMount", message));
        }
        JobEnd::VolumesMounted(mounted)
    }

    /// The container's mounts of volumes, parts of volumes mounted first.
    pub(super) async fn volume_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        sources: &EnvironmentSources,
        mounted: &MountedVolumes,
    ) -> Result<Vec<Mount>, String> {
        if container.volume_mounts.as_ref().is_none_or(Vec::is_empty) {
            return Ok(vec![]);
        }
        let environment = container_environment(pod, container, sources).map_err(|error| error.to_string())?;
        // What the runtime can do about it is not asked yet: without it nothing is promised.
        let wanted = container_mounts(pod, container, &environment, false)?;
        let mut mounts = Vec::with_capacity(wanted.len());
        for mount in wanted {
            let host_path = self.host_path(container, &mount, mounted).await?;
            mounts.push(Mount {
                container_path: mount.container_path,
                host_path,
                readonly: mount.read_only,
                recursive_read_only: mount.recursive_read_only,
                propagation: match mount.propagation {
                    Propagation::None => MountPropagation::Private,
                    Propagation::HostToContainer => MountPropagation::HostToContainer,
                    Propagation::Bidirectional => MountPropagation::Bidirectional,
                },
                ..Mount::default()
            });
        }
        Ok(mounts)
    }

    async fn host_path(
        &self,
        container: &Container,
        mount: &ContainerMount,
        mounted: &MountedVolumes,
    ) -> Result<String, String> {
        let name = &mount.volume.name;
        let missing = || format!("cannot find volume {name:?} to mount into container {:?}", container.name);
        let volume = mounted.volumes.get(name).ok_or_else(missing)?;
        if mount.volume.kind == VolumeKind::Image {
            return Err(format!("volume {name:?} is an image, which is not mounted by this version"));
        }
        if mount.sub_path.is_empty() {
            return Ok(volume.host_path.clone());
        }
        let order = SubPathOrder {
            uid: self.uid.clone(),
            volume: volume.name.clone(),
            volume_path: volume.host_path.clone(),
            container: container.name.clone(),
            index: mount.index,
            sub_path: mount.sub_path.clone(),
        };
        self.agent.adapters.volumes.prepare_sub_path(order).await.map_err(|error| error.to_string())
    }

    /// Has the pod's volumes gone. A pod that names none has none; of one that only the runtime knew nothing is known.
    pub(super) async fn release_volumes(&self, pod: Option<&Pod>) -> Result<(), String> {
        if pod.is_some_and(|pod| volume_plans(pod).is_empty()) {
            return Ok(());
        }
        release(&self.agent, &self.uid, Cause::outside("clean-up")).await
    }
}

/// Has the volumes of a pod gone whose containers are.
pub(super) async fn release(agent: &Agent, uid: &PodUid, cause: Cause) -> Result<(), String> {
    let question = |reply| VolumeManagerMsg::Release(uid.clone(), reply);
    let answer = agent.directory.volume_manager.ask(cause, PATIENCE, question).await;
    answer.map_err(|error| error.to_string())?.map_err(|failure| failure.message)
}
