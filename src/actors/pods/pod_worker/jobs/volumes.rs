//! A pod worker's jobs about volumes: having them there, giving them to containers, letting them go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::site::{JobSite, field_path};
use super::starting::Given;
use crate::actors::kit::address::Address;
use crate::actors::kit::trace::Cause;
use crate::cri::{Device, ImageSpec, Mount, MountPropagation, PodSandboxConfig};
use crate::logic::environment::{EnvironmentSources, container_environment};
use crate::logic::events::reasons::EventReason;
use crate::logic::images::image_policy::{ImageFailure, ImageInUse, PullPolicy};
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_containers::ContainerKind;
use crate::logic::pods::pod_lifecycle::{CleanUpFailure, JobEnd};
use crate::logic::pods::pod_roster::is_static;
use crate::logic::volumes::container_mounts::{
    ContainerMount, Propagation, container_devices, container_mounts, no_device,
};
use crate::logic::volumes::order::SubPathOrder;
use crate::logic::volumes::plan::{VolumeKind, VolumePlan, mounted_images, volume_plans};
use crate::logic::volumes::volume_states::{HANGS_AFTER, MountedVolume, MountedVolumes, VolumeFailure};
use crate::messages::Subscriber;
use crate::messages::pods::pod_manager::{AdmissionMsg, PodManagerMsg};
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::volume_manager::VolumeManagerMsg;
use crate::platform::observer::Observation;
use crate::platform::volumes::VolumeError;

/// Patience with `VolumeManager`, which answers sooner about what hangs or fails.
const PATIENCE: Duration = Duration::from_secs(150);

impl JobSite {
    /// Has the pod's volumes there.
    pub(in super::super) async fn mount_volumes(
        self,
        pod: Arc<Pod>,
        worker: Subscriber<PodWorkerMsg>,
        cause: Cause,
    ) -> JobEnd {
        let volumes = &self.tools.to.volume_manager;
        let question = |reply| VolumeManagerMsg::Ensure(pod, worker, reply);
        let answer = volumes.ask(cause.clone(), PATIENCE, question).await;
        let mounted = answer.unwrap_or_else(|error| Err(VolumeFailure::lost(error.to_string())));
        if let Err(failure) = &mounted
            && failure.in_processing
        {
            let message = format!("Unable to attach or mount volumes: {}", failure.message);
            self.tell(&cause, self.subject(String::new()).warning(EventReason::FailedMount, message));
        }
        if let Err(failure) = &mounted
            && failure.rejects
        {
            let news = AdmissionMsg::NoRoomForVolume(self.uid.clone(), failure.message.clone());
            // Lost, it comes again with the next try.
            let _ = self.tools.to.pod_manager.tell(cause, PodManagerMsg::Admission(news));
        }
        JobEnd::VolumesMounted(mounted)
    }

    /// The container's mounts of volumes, parts of volumes mounted first.
    pub(super) async fn volume_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        sources: &EnvironmentSources,
        given: &Given,
    ) -> Result<Vec<Mount>, String> {
        if container.volume_mounts.as_ref().is_none_or(Vec::is_empty) {
            return Ok(vec![]);
        }
        let environment = container_environment(pod, container, sources).map_err(|error| error.to_string())?;
        let wanted = container_mounts(pod, container, &environment, given.recursive_read_only)?;
        let handler = self.image_handler(pod).await?;
        let mut mounts = Vec::with_capacity(wanted.len());
        for mount in wanted {
            let image = volume_image(pod, &mount.volume, &given.image, &handler)?;
            let (host_path, image_sub_path, relabel) = match image {
                Some(_) => (String::new(), mount.sub_path, false),
                None => {
                    let volume = mounted(container, &mount, &given.volumes)?;
                    (self.host_path(container, &mount, volume).await?, String::new(), volume.relabel)
                }
            };
            mounts.push(Mount {
                container_path: mount.container_path,
                host_path,
                image,
                image_sub_path,
                readonly: mount.read_only,
                recursive_read_only: mount.recursive_read_only,
                // Each of them: a part of a volume is all that the runtime labels of it.
                selinux_relabel: relabel && self.tools.settings.containers.selinux,
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

    /// The container's devices from volumes.
    pub(super) fn volume_devices(pod: &Pod, container: &Container, given: &Given) -> Result<Vec<Device>, String> {
        let wanted = container_devices(pod, container)?.into_iter();
        let devices = wanted.map(|device| {
            let volume = given.volumes.volumes.get(&device.volume).filter(|volume| volume.is_device);
            let volume = volume.ok_or_else(|| no_device(&device.volume, &container.name))?;
            let (container_path, permissions) = (device.container_path, device.permissions.to_owned());
            Ok(Device { container_path, host_path: volume.host_path.clone(), permissions })
        });
        devices.collect()
    }

    /// Has the images there of those volumes of the container that are images (VOL-36), in upstream's order one after the
    /// other. One that cannot be had keeps this container waiting, and no other.
    pub(super) async fn volume_images(
        &self,
        pod: &Pod,
        container: &Container,
        kind: ContainerKind,
        sandbox: &Arc<PodSandboxConfig>,
        cause: &Cause,
    ) -> Result<BTreeMap<String, String>, ImageFailure> {
        let (mut found, mut failed) = (BTreeMap::new(), None);
        let wanted = mounted_images(pod, container);
        let asked = wanted.len();
        for (volume, source) in wanted {
            let image = source.reference.clone().unwrap_or_default();
            let policy = PullPolicy::from_spec(source.pull_policy.as_deref());
            match self.have_image(pod, sandbox, image, policy, String::new(), cause).await {
                Ok(image) => drop(found.insert(volume.to_owned(), image.reference)),
                Err(failure) => {
                    let subject = self.subject(field_path(kind, &container.name));
                    let reason = failure.reason.map(<&str>::from).unwrap_or_default();
                    self.tell(cause, subject.warning(EventReason::Failed, format!("Error: {reason}")));
                    failed = Some(failure);
                }
            }
        }
        if asked > 0 {
            let failed = asked.saturating_sub(found.len());
            self.tools.observe(Observation::ImageVolumes { asked, failed });
        }
        failed.map_or(Ok(found), Err)
    }

    async fn host_path(
        &self,
        container: &Container,
        mount: &ContainerMount,
        volume: &MountedVolume,
    ) -> Result<String, String> {
        if mount.sub_path.is_empty() {
            return Ok(volume.host_path.clone());
        }
        let order = SubPathOrder {
            uid: self.uid.clone(),
            volume: volume.name.clone(),
            mount: mount.volume.name.clone(),
            volume_path: volume.host_path.clone(),
            container: container.name.clone(),
            index: mount.index,
            sub_path: mount.sub_path.clone(),
        };
        let prepared = self.tools.adapters.volumes.prepare_sub_path(order);
        match tokio::time::timeout(HANGS_AFTER, prepared).await {
            Ok(Err(VolumeError::Busy(_))) | Err(_) => Err(format!(
                "failed to prepare subPath for volumeMount {:?} of container {:?}: the volume does not answer",
                mount.volume.name, container.name
            )),
            Ok(prepared) => prepared.map_err(|error| error.to_string()),
        }
    }

    /// Has the pod's volumes gone. A pod that names none has none, unless it is from a file: under a UID of its own it may
    /// have been another. Of one that only the runtime knew nothing is known.
    pub(super) async fn release_volumes(&self, pod: Option<&Pod>) -> Result<(), CleanUpFailure> {
        if pod.is_some_and(|pod| volume_plans(pod).is_empty() && !is_static(pod)) {
            return Ok(());
        }
        release(&self.tools.to.volume_manager, &self.uid, Cause::outside("clean-up")).await
    }
}

fn mounted<'a>(
    container: &Container,
    mount: &ContainerMount,
    mounted: &'a MountedVolumes,
) -> Result<&'a MountedVolume, String> {
    let name = &mount.volume.name;
    let volume = mounted.volumes.get(name).filter(|volume| !volume.is_device);
    volume.ok_or_else(|| format!("cannot find volume {name:?} to mount into container {:?}", container.name))
}

/// The runtime's reference for a volume that is an image; `None` for any other.
fn volume_image(
    pod: &Pod,
    volume: &VolumePlan,
    image: &ImageInUse,
    handler: &str,
) -> Result<Option<ImageSpec>, String> {
    let VolumeKind::Image(source) = &volume.kind else { return Ok(None) };
    let missing = || format!("the image of volume {:?} was not looked for", volume.name);
    Ok(Some(ImageSpec {
        image: image.volumes.get(&volume.name).ok_or_else(missing)?.clone(),
        user_specified_image: source.reference.clone().unwrap_or_default(),
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        runtime_handler: handler.to_owned(),
        ..ImageSpec::default()
    }))
}

/// Has the volumes of a pod gone whose containers are.
pub(in crate::actors) async fn release(
    volume_manager: &Address<VolumeManagerMsg>,
    uid: &PodUid,
    cause: Cause,
) -> Result<(), CleanUpFailure> {
    let question = |reply| VolumeManagerMsg::Release(uid.clone(), reply);
    let answer = volume_manager.ask(cause, PATIENCE, question).await;
    Ok(answer.map_err(|error| error.to_string())??)
}
