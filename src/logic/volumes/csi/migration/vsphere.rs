//! vsphereVolume.

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, VsphereVirtualDiskVolumeSource};

use super::{Topology, plain};

pub(super) const DRIVER: &str = "csi.vsphere.vmware.com";
pub(super) const TOPOLOGY: Topology =
    Topology { zone: Some("topology.csi.vmware.com/zone"), region: Some("topology.csi.vmware.com/region") };

pub(super) fn source(source: &VsphereVirtualDiskVolumeSource) -> CSIPersistentVolumeSource {
    let policy = source.storage_policy_name.as_deref().filter(|name| !name.is_empty());
    let attributes: Vec<(&str, &str)> = policy.map(|name| ("storagepolicyname", name)).into_iter().collect();
    plain(DRIVER, source.volume_path.clone(), source.fs_type.as_ref(), &attributes)
}
