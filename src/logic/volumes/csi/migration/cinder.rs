//! cinder.

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, CinderPersistentVolumeSource, CinderVolumeSource};

use super::{Topology, plain};

pub(super) const DRIVER: &str = "cinder.csi.openstack.org";
pub(super) const TOPOLOGY: Topology = Topology { zone: Some("topology.cinder.csi.openstack.org/zone"), region: None };

pub(super) fn of_volume(source: &CinderPersistentVolumeSource) -> CSIPersistentVolumeSource {
    translated(&source.volume_id, source.fs_type.as_ref(), source.read_only)
}

pub(super) fn inline(source: &CinderVolumeSource) -> CSIPersistentVolumeSource {
    translated(&source.volume_id, source.fs_type.as_ref(), source.read_only)
}

fn translated(handle: &str, fs_type: Option<&String>, read_only: Option<bool>) -> CSIPersistentVolumeSource {
    CSIPersistentVolumeSource { read_only, ..plain(DRIVER, handle.to_owned(), fs_type, &[]) }
}
