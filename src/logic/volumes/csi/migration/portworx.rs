//! portworxVolume.

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolume, PortworxVolumeSource, SecretReference};

use super::plain;

pub(super) const DRIVER: &str = "pxd.portworx.com";
/// Annotations of a volume that name the Secret for all calls.
const SECRET: [&str; 2] = ["openstorage.io/auth-secret-name", "openstorage.io/auth-secret-namespace"];

pub(super) fn of_volume(volume: &PersistentVolume, source: &PortworxVolumeSource) -> CSIPersistentVolumeSource {
    let annotation = |key: &str| volume.metadata.annotations.as_ref()?.get(key).cloned();
    let secret = match SECRET.map(annotation) {
        [Some(name), Some(namespace)] => Some(SecretReference { name: Some(name), namespace: Some(namespace) }),
        _ => None,
    };
    CSIPersistentVolumeSource {
        controller_expand_secret_ref: secret.clone(),
        controller_publish_secret_ref: secret.clone(),
        node_expand_secret_ref: secret.clone(),
        node_publish_secret_ref: secret.clone(),
        node_stage_secret_ref: secret,
        ..inline(source)
    }
}

pub(super) fn inline(source: &PortworxVolumeSource) -> CSIPersistentVolumeSource {
    plain(DRIVER, source.volume_id.clone(), source.fs_type.as_ref(), &[])
}
