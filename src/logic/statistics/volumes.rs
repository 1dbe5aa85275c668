//! Figures of pods' volumes, and which volumes have some (VOL-49).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::figures::{FileSystem, Usage};
use super::summary::{ClaimReference, FsStats, Time, VolumeStats};
use crate::logic::volumes::order::plugin;

/// How a volume's figures are had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// By a walk through it: it shares its file system with others.
    Walk,
    /// By its file system: it has one of its own, and looking at it may take long.
    FileSystem,
}

/// The findings about a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The file system that it is on.
    pub file_system: FileSystem,
    /// Its use of that; `None` for one that has the file system for itself.
    pub usage: Option<Usage>,
}

/// A volume with its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeFigures {
    /// Its name in the pod.
    pub name: String,
    /// The claim that it comes from.
    pub claim: Option<ClaimReference>,
    /// Whether it counts against the pod's ephemeral storage.
    pub is_ephemeral: bool,
    /// Its figures.
    pub space: Space,
}

impl VolumeFigures {
    /// As the summary shows it: all fields are there, as upstream has it.
    pub fn stats(&self) -> VolumeStats {
        let (system, usage) = (&self.space.file_system, self.space.usage);
        let space = FsStats {
            time: Time(usage.map_or(system.at, |usage| usage.at)),
            available_bytes: Some(system.available),
            capacity_bytes: Some(system.capacity),
            used_bytes: Some(usage.map_or(system.used(), |usage| usage.bytes)),
            inodes_free: Some(system.inodes_free),
            inodes: Some(system.inodes),
            inodes_used: Some(usage.map_or(system.inodes_used(), |usage| usage.inodes)),
        };
        VolumeStats { space, name: self.name.clone(), claim: self.claim.clone() }
    }
}

/// How the volume with this path is measured; `None` for one without figures. The path ends with plugin and name.
pub fn measure(host_path: &str) -> Option<Measure> {
    let folder = host_path.trim_end_matches('/').rsplit('/').nth(1)?;
    match folder {
        plugin::EMPTY_DIR | plugin::CONFIG_MAP | plugin::SECRET | plugin::DOWNWARD_API | plugin::PROJECTED => {
            Some(Measure::Walk)
        }
        plugin::LOCAL | plugin::NFS | plugin::CSI => Some(Measure::FileSystem),
        _ => None,
    }
}

/// The pod's volume of this name.
pub fn volume_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a Volume> {
    pod.spec.as_ref()?.volumes.as_ref()?.iter().find(|volume| volume.name == name)
}

/// The claim that a volume comes from: named, or made for the pod.
pub fn claim_of(pod: &Pod, volume: &Volume) -> Option<ClaimReference> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let name = match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => source.claim_name.clone(),
        (None, Some(_)) => format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name),
        (None, None) => return None,
    };
    Some(ClaimReference { name, namespace })
}

/// Whether a volume counts against the pod's ephemeral storage: upstream's `IsLocalEphemeralVolume`.
pub fn is_ephemeral(volume: &Volume) -> bool {
    let on_disk = |medium: Option<&str>| medium.unwrap_or_default().is_empty();
    volume.empty_dir.as_ref().is_some_and(|source| on_disk(source.medium.as_deref()))
        || volume.config_map.is_some()
        || volume.git_repo.is_some()
}

/// Volumes that come from claims, each claim once, in the order of their pods: `kubelet_volume_stats_*`.
pub fn of_claims<'a>(volumes: impl Iterator<Item = &'a VolumeFigures>) -> Vec<(ClaimReference, FsStats)> {
    let mut told = BTreeSet::new();
    let fresh = volumes.filter_map(|volume| Some((volume.claim.clone()?, volume.stats().space)));
    fresh.filter(|(claim, _)| told.insert(claim.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::logic::model::time::Moment;

    fn pod(volumes: serde_json::Value) -> Pod {
        let spec = json!({"containers": [], "volumes": volumes});
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})).expect("a pod")
    }

    #[test]
    fn what_counts_against_a_pods_ephemeral_storage() {
        let cases = [
            (json!({"name": "v", "emptyDir": {}}), true),
            (json!({"name": "v", "emptyDir": {"medium": "Memory"}}), false),
            (json!({"name": "v", "emptyDir": {"medium": "HugePages"}}), false),
            (json!({"name": "v", "configMap": {"name": "c"}}), true),
            (json!({"name": "v", "secret": {"secretName": "s"}}), false),
            (json!({"name": "v", "downwardAPI": {}}), false),
            (json!({"name": "v", "projected": {}}), false),
            (json!({"name": "v", "hostPath": {"path": "/x"}}), false),
            (json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}), false),
        ];
        for (volume, expected) in cases {
            let pod = pod(json!([volume]));
            assert_eq!(is_ephemeral(volume_of(&pod, "v").expect("there")), expected, "{volume}");
        }
    }

    #[test]
    fn claims_are_named_or_made_for_the_pod() {
        let pod = pod(json!([
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "c", "emptyDir": {}},
        ]));
        let claim = |name| claim_of(&pod, volume_of(&pod, name).expect("there"));
        let named = |name: &str| Some(ClaimReference { name: name.to_owned(), namespace: "ns".to_owned() });
        assert_eq!(claim("a"), named("data"));
        assert_eq!(claim("b"), named("p-b"));
        assert_eq!(claim("c"), None);
    }

    #[test]
    fn the_plugin_in_the_path_says_how_to_measure() {
        let cases = [
            ("/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/cache", Some(Measure::Walk)),
            ("/var/lib/kubelet/pods/u/volumes/kubernetes.io~secret/s/", Some(Measure::Walk)),
            ("/var/lib/kubelet/pods/u/volumes/kubernetes.io~nfs/pv", Some(Measure::FileSystem)),
            ("/data/host", None),
            ("", None),
        ];
        for (path, expected) in cases {
            assert_eq!(measure(path), expected, "{path}");
        }
    }

    #[test]
    fn a_claim_of_two_pods_is_told_once() {
        let system =
            FileSystem { device: 1, at: Moment(1), capacity: 100, available: 40, free: 50, inodes: 10, inodes_free: 7 };
        let claim = Some(ClaimReference { name: "data".to_owned(), namespace: "ns".to_owned() });
        let space = Space { file_system: system, usage: None };
        let one = VolumeFigures { name: "a".to_owned(), claim, is_ephemeral: false, space };
        let other = VolumeFigures { name: "b".to_owned(), claim: None, ..one.clone() };
        let told = of_claims([&one, &other, &one].into_iter());
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].1.used_bytes, told[0].1.inodes_used), (Some(50), Some(3)));
    }
}
