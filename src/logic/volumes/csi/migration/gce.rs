//! gcePersistentDisk. The handle names zone or region where the volume's labels do.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, GCEPersistentDiskVolumeSource, PersistentVolume};

use super::{MANY_NODES, NotMigrated, ONE_NODE, READERS, Topology, Translated, ZONES, plain};

pub(super) const DRIVER: &str = "pd.csi.storage.gke.io";
pub(super) const TOPOLOGY: Topology = Topology { zone: Some("topology.gke.io/zone"), region: None };
/// A part of a handle that nobody knows; the driver finds it out.
const UNKNOWN: &str = "UNSPECIFIED";
/// Between the zones of a disk that is in several.
const BETWEEN_ZONES: &str = "__";

pub(super) fn of_volume(volume: &PersistentVolume, source: &GCEPersistentDiskVolumeSource) -> Translated {
    let label =
        |key: &str| volume.metadata.labels.as_ref().and_then(|all| all.get(key)).filter(|zone| !zone.is_empty());
    let told = label(ZONES[1]).or_else(|| label(ZONES[0])).map_or("", String::as_str);
    let zones: Vec<&str> = told.split(BETWEEN_ZONES).collect();
    let place = match zones[..] {
        [""] => format!("zones/{UNKNOWN}"),
        [zone] => format!("zones/{zone}"),
        _ => format!("regions/{}", region_of(&zones)?),
    };
    Ok(translated(source, &place))
}

pub(super) fn inline(source: &GCEPersistentDiskVolumeSource) -> CSIPersistentVolumeSource {
    translated(source, &format!("zones/{UNKNOWN}"))
}

fn translated(source: &GCEPersistentDiskVolumeSource, place: &str) -> CSIPersistentVolumeSource {
    let handle = format!("projects/{UNKNOWN}/{place}/disks/{}", source.pd_name);
    let partition = source.partition.filter(|number| *number != 0).map(|number| number.to_string()).unwrap_or_default();
    let found = plain(DRIVER, handle, source.fs_type.as_ref(), &[("partition", &partition)]);
    CSIPersistentVolumeSource { read_only: source.read_only, ..found }
}

/// The one region of zones such as `europe-west1-b`.
fn region_of(zones: &[&str]) -> Result<String, NotMigrated> {
    let mut regions = BTreeSet::new();
    for zone in zones {
        let parts: Vec<&str> = zone.split('-').collect();
        let [locale, region, _] = parts[..] else { return Err(NotMigrated::GceZone((*zone).to_owned())) };
        regions.insert(format!("{locale}-{region}"));
    }
    let all: Vec<String> = regions.into_iter().collect();
    match &all[..] {
        [region] => Ok(region.clone()),
        _ => Err(NotMigrated::GceRegions(all.join(" "))),
    }
}

/// Access modes that the driver takes. The in-tree kind took every mode as one of a single writer.
pub(super) fn access_modes(modes: &[String]) -> Vec<String> {
    let has = |mode: &str| modes.iter().any(|one| one == mode);
    let only_read = has(READERS) && !has(ONE_NODE) && !has(MANY_NODES);
    vec![if only_read { READERS } else { ONE_NODE }.to_owned()]
}
