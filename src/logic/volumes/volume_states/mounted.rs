//! Volumes of a pod that are there.

use std::collections::BTreeMap;

/// Where a pod's volumes are, by their names in the pod.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MountedVolumes {
    /// See [`MountedVolume`].
    pub volumes: BTreeMap<String, MountedVolume>,
}

/// A volume that is there.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MountedVolume {
    /// Its path on the host; empty for an image.
    pub host_path: String,
    /// Its name in that place: the persistent volume's name for a claim.
    pub name: String,
    /// A group that its files are meant for, from the persistent volume.
    pub group: Option<i64>,
    /// Whether it is a device, to be used by `volumeDevices` alone.
    pub is_device: bool,
    /// Whether the runtime is to label its files, where SELinux is on.
    pub relabel: bool,
    /// The pod's label for it, where SELinux is on and its kind can be mounted with one.
    pub label: Option<VolumeLabel>,
    /// Whether its driver is asked for it again at each sync of the pod (VOL-42).
    pub republish: bool,
    /// The driver that made it, where one did.
    pub driven: Option<DrivenVolume>,
}

/// A label of SELinux that a pod has for a persistent volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeLabel {
    /// The label; empty where the pod leaves it to the runtime.
    pub label: String,
    /// The volume's widest access mode, such as `RWOP`.
    pub access_mode: &'static str,
    /// Upstream's name of its kind in metrics of labels, such as `kubernetes.io/fc`.
    pub plugin: String,
}

/// A volume as its driver knows it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DrivenVolume {
    /// The driver's name.
    pub driver: String,
    /// The driver's name of the volume.
    pub handle: String,
    /// The path that the volume is published at.
    pub target: String,
    /// Whether the API has it as a volume of an in-tree kind.
    pub migrated: bool,
}
