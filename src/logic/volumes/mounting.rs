//! Mounts of a pod's containers, from any list of its spec.

pub mod mount_label;

use k8s_openapi::api::core::v1::{Pod, SecurityContext, VolumeDevice, VolumeMount};

/// The mounts of a container of any kind.
#[derive(Clone, Copy, Debug)]
pub struct Mounting<'a> {
    /// `volumeMounts`.
    pub mounts: &'a [VolumeMount],
    /// `volumeDevices`.
    pub devices: &'a [VolumeDevice],
    /// `securityContext`, which an ephemeral container has as well.
    pub(super) security: Option<&'a SecurityContext>,
}

/// All containers of a pod: init, ordinary and ephemeral.
pub fn mounting_containers(pod: &Pod) -> Vec<Mounting<'_>> {
    let Some(spec) = &pod.spec else { return vec![] };
    let plain = spec.init_containers.iter().flatten().chain(&spec.containers).map(|container| Mounting {
        mounts: container.volume_mounts.as_deref().unwrap_or_default(),
        devices: container.volume_devices.as_deref().unwrap_or_default(),
        security: container.security_context.as_ref(),
    });
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| Mounting {
        mounts: container.volume_mounts.as_deref().unwrap_or_default(),
        devices: container.volume_devices.as_deref().unwrap_or_default(),
        security: container.security_context.as_ref(),
    });
    plain.chain(ephemeral).collect()
}
