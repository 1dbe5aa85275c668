//! Volumes of in-tree kinds that CSI drivers took over: each is the volume of a driver, under another name in the API.
//!
//! Pure; a file a kind. A persistent volume or a pod's own volume becomes a persistent volume of the driver, with upstream's
//! names, handles and attributes. So attachments, directories and staged volumes are found whoever made them.

mod aws;
mod azure_disk;
mod azure_file;
mod cinder;
mod gce;
mod portworx;
#[cfg(test)]
mod tests;
mod vsphere;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Labels of a node's zone: today's, and the older one.
const ZONES: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
/// The same of its region.
const REGIONS: [&str; 2] = ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];

const ONE_NODE: &str = "ReadWriteOnce";
const READERS: &str = "ReadOnlyMany";
const MANY_NODES: &str = "ReadWriteMany";

/// A volume that cannot be a driver's. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMigrated {
    /// An EBS volume whose name has another form than `aws://<zone>/vol-<id>`.
    #[error(
        "failed to translate in-tree pv to CSI: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({0})"
    )]
    AwsVolume(String),
    /// An Azure disk of another kind than `Managed`.
    #[error("failed to translate in-tree pv to CSI: kind({0}) is not supported in csi migration")]
    AzureKind(String),
    /// An Azure file share whose Secret is in no namespace.
    #[error(
        "failed to translate in-tree pv to CSI: could not find a secret namespace in PersistentVolumeSource or ClaimRef"
    )]
    AzureNamespace,
    /// A zone of GCE that names no region.
    #[error(
        "failed to translate in-tree pv to CSI: failed to get region from zones: zone in unexpected format, expected: \
         {{locale}}-{{region}}-{{zone}}, got: {0}"
    )]
    GceZone(String),
    /// Zones of GCE in several regions.
    #[error(
        "failed to translate in-tree pv to CSI: failed to get region from zones: multiple or no regions gotten from zones, got: {0}"
    )]
    GceRegions(String),
}

/// The driver's volume, as a kind translates it.
type Translated = Result<CSIPersistentVolumeSource, NotMigrated>;

/// A volume of a pod's own as a driver's: its name as a persistent volume, its source, and its access mode.
type Inline = Result<(String, CSIPersistentVolumeSource, &'static str), NotMigrated>;

/// The driver's labels of a node's zone and region, where the kind has some.
#[derive(Clone, Copy, Default)]
struct Topology {
    zone: Option<&'static str>,
    region: Option<&'static str>,
}

/// A persistent volume of an in-tree kind as its driver's; `None` where it is of no such kind.
///
/// # Errors
/// See [`NotMigrated`].
pub fn of_volume(volume: &PersistentVolume) -> Option<Result<PersistentVolume, NotMigrated>> {
    let spec = volume.spec.as_ref()?;
    let (source, topology) = source_of(volume, spec)?;
    let translate = |source| {
        let mut changed = volume.clone();
        let spec = changed.spec.as_mut().expect("looked at above");
        if spec.gce_persistent_disk.is_some() {
            spec.access_modes = spec.access_modes.take().map(|modes| gce::access_modes(&modes));
        }
        clear(spec);
        spec.csi = Some(source);
        name_labels(spec, topology);
        changed
    };
    Some(source.map(translate))
}

fn source_of(volume: &PersistentVolume, spec: &PersistentVolumeSpec) -> Option<(Translated, Topology)> {
    if let Some(source) = &spec.aws_elastic_block_store {
        return Some((aws::source(source), aws::TOPOLOGY));
    }
    if let Some(source) = &spec.azure_disk {
        return Some((azure_disk::of_volume(source), Topology::default()));
    }
    if let Some(source) = &spec.azure_file {
        return Some((azure_file::of_volume(volume, spec, source), Topology::default()));
    }
    if let Some(source) = &spec.cinder {
        return Some((Ok(cinder::of_volume(source)), cinder::TOPOLOGY));
    }
    if let Some(source) = &spec.gce_persistent_disk {
        return Some((gce::of_volume(volume, source), gce::TOPOLOGY));
    }
    if let Some(source) = &spec.portworx_volume {
        return Some((Ok(portworx::of_volume(volume, source)), Topology::default()));
    }
    let source = spec.vsphere_volume.as_ref()?;
    Some((Ok(vsphere::source(source)), vsphere::TOPOLOGY))
}

/// Takes the in-tree source away.
fn clear(spec: &mut PersistentVolumeSpec) {
    spec.aws_elastic_block_store = None;
    spec.azure_disk = None;
    spec.azure_file = None;
    spec.cinder = None;
    spec.gce_persistent_disk = None;
    spec.portworx_volume = None;
    spec.vsphere_volume = None;
}

/// Has the volume's terms name the driver's labels, as its nodes have them.
fn name_labels(spec: &mut PersistentVolumeSpec, topology: Topology) {
    let required = spec.node_affinity.as_mut().and_then(|affinity| affinity.required.as_mut());
    let terms = required.into_iter().flat_map(|required| &mut required.node_selector_terms);
    for expression in terms.flat_map(|term| term.match_expressions.iter_mut().flatten()) {
        let key = expression.key.as_str();
        let other = if ZONES.contains(&key) {
            topology.zone
        } else if REGIONS.contains(&key) {
            topology.region
        } else {
            None
        };
        if let Some(other) = other {
            expression.key = other.to_owned();
        }
    }
}

/// A pod's own volume of an in-tree kind as a driver's persistent volume; `None` where it is of no such kind. `namespace` is the
/// pod's.
///
/// # Errors
/// See [`NotMigrated`].
pub fn inline(volume: &Volume, namespace: &str) -> Option<Result<PersistentVolume, NotMigrated>> {
    let found = inline_source(volume, namespace)?;
    Some(found.map(|(name, source, mode)| PersistentVolume {
        metadata: ObjectMeta { name: Some(name), ..ObjectMeta::default() },
        spec: Some(PersistentVolumeSpec {
            access_modes: Some(vec![mode.to_owned()]),
            csi: Some(source),
            volume_mode: Some("Filesystem".to_owned()),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }))
}

fn inline_source(volume: &Volume, namespace: &str) -> Option<Inline> {
    if let Some(source) = &volume.aws_elastic_block_store {
        let named = |source: CSIPersistentVolumeSource| (format!("{}-{}", aws::DRIVER, source.volume_handle), source);
        return Some(aws::source(source).map(named).map(|(name, source)| (name, source, ONE_NODE)));
    }
    if let Some(source) = &volume.azure_disk {
        return Some(azure_disk::inline(source).map(|found| (source.disk_uri.clone(), found, ONE_NODE)));
    }
    if let Some(source) = &volume.azure_file {
        let found = azure_file::inline(source, &volume.name, namespace);
        return Some(Ok((found.volume_handle.clone(), found, MANY_NODES)));
    }
    if let Some(source) = &volume.cinder {
        let name = format!("{}-{}", cinder::DRIVER, source.volume_id);
        return Some(Ok((name, cinder::inline(source), ONE_NODE)));
    }
    if let Some(source) = &volume.gce_persistent_disk {
        let (name, mode) = (format!("{}-{}", gce::DRIVER, source.pd_name), reading(source.read_only));
        return Some(Ok((name, gce::inline(source), mode)));
    }
    if let Some(source) = &volume.portworx_volume {
        let (name, mode) = (format!("{}-{}", portworx::DRIVER, source.volume_id), reading(source.read_only));
        return Some(Ok((name, portworx::inline(source), mode)));
    }
    let source = volume.vsphere_volume.as_ref()?;
    let name = format!("{}-{}", vsphere::DRIVER, source.volume_path);
    Some(Ok((name, vsphere::source(source), ONE_NODE)))
}

/// Whether a pod's own volume is of an in-tree kind that a driver took over.
pub fn is_migrated(volume: &Volume) -> bool {
    volume.aws_elastic_block_store.is_some()
        || volume.azure_disk.is_some()
        || volume.azure_file.is_some()
        || volume.cinder.is_some()
        || volume.gce_persistent_disk.is_some()
        || volume.portworx_volume.is_some()
        || volume.vsphere_volume.is_some()
}

/// The driver that such a volume belongs to.
pub fn driver_of(volume: &Volume) -> Option<&'static str> {
    let drivers = [
        (volume.aws_elastic_block_store.is_some(), aws::DRIVER),
        (volume.azure_disk.is_some(), azure_disk::DRIVER),
        (volume.azure_file.is_some(), azure_file::DRIVER),
        (volume.cinder.is_some(), cinder::DRIVER),
        (volume.gce_persistent_disk.is_some(), gce::DRIVER),
        (volume.portworx_volume.is_some(), portworx::DRIVER),
        (volume.vsphere_volume.is_some(), vsphere::DRIVER),
    ];
    drivers.into_iter().find(|(given, _)| *given).map(|(_, driver)| driver)
}

/// Whether the pod wants only to read such a volume.
pub fn is_read_only(volume: &Volume) -> bool {
    let given = [
        volume.aws_elastic_block_store.as_ref().and_then(|source| source.read_only),
        volume.azure_disk.as_ref().and_then(|source| source.read_only),
        volume.azure_file.as_ref().and_then(|source| source.read_only),
        volume.cinder.as_ref().and_then(|source| source.read_only),
        volume.gce_persistent_disk.as_ref().and_then(|source| source.read_only),
        volume.portworx_volume.as_ref().and_then(|source| source.read_only),
    ];
    given.contains(&Some(true))
}

/// The access mode of a pod's own volume that is read by many or written by one.
fn reading(read_only: Option<bool>) -> &'static str {
    if read_only == Some(true) { READERS } else { ONE_NODE }
}

/// A driver's volume with these attributes.
fn plain(
    driver: &str,
    handle: String,
    fs_type: Option<&String>,
    attributes: &[(&str, &str)],
) -> CSIPersistentVolumeSource {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    CSIPersistentVolumeSource {
        driver: driver.to_owned(),
        volume_handle: handle,
        fs_type: fs_type.cloned(),
        volume_attributes: Some(attributes.iter().map(own).collect::<BTreeMap<_, _>>()),
        ..CSIPersistentVolumeSource::default()
    }
}
