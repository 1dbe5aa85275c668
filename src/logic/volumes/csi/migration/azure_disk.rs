//! azureDisk: managed disks alone.

use k8s_openapi::api::core::v1::{AzureDiskVolumeSource, CSIPersistentVolumeSource};

use super::{NotMigrated, Translated, plain};

pub(super) const DRIVER: &str = "disk.csi.azure.com";
const MANAGED: &str = "Managed";

pub(super) fn of_volume(source: &AzureDiskVolumeSource) -> Translated {
    translated(source, source.caching_mode.as_deref())
}

/// A pod's own volume says nothing of caching where it leaves that open.
pub(super) fn inline(source: &AzureDiskVolumeSource) -> Translated {
    translated(source, source.caching_mode.as_deref().filter(|mode| !mode.is_empty()))
}

fn translated(source: &AzureDiskVolumeSource, caching: Option<&str>) -> Translated {
    if let Some(kind) = source.kind.as_deref().filter(|kind| !kind.eq_ignore_ascii_case(MANAGED)) {
        return Err(NotMigrated::AzureKind(kind.to_owned()));
    }
    let mut attributes = vec![("kind", MANAGED)];
    attributes.extend(caching.map(|mode| ("cachingmode", mode)));
    attributes.extend(source.fs_type.as_deref().map(|fs_type| ("fstype", fs_type)));
    let found = plain(DRIVER, source.disk_uri.clone(), source.fs_type.as_ref(), &attributes);
    Ok(CSIPersistentVolumeSource { read_only: source.read_only, ..found })
}
