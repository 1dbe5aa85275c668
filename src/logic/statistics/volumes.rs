//! Figures of pods' volumes, and which volumes have some (VOL-49). A driver's volume has those of the driver's answer.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Volume};

use super::figures::{FileSystem, Usage};
use super::summary::{ClaimReference, FsStats, Time, VolumeHealth, VolumeStats};
use crate::logic::model::time::Moment;
use crate::logic::volumes::csi::capabilities::NodeCapabilities;
use crate::logic::volumes::csi::requests::{Amounts, VolumeUse};
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

/// The driver's answer about a volume. An amount that the driver leaves out counts as zero, as upstream has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// When the driver was asked.
    pub at: Moment,
    /// Bytes.
    pub bytes: Amounts,
    /// Inodes.
    pub inodes: Amounts,
    /// Whether the volume is in a bad condition (gate `CSIVolumeHealth`); `None` where the driver does not tell.
    pub abnormal: Option<bool>,
}

/// A volume's figures, by their origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// The agent looked at the volume.
    Seen(Space),
    /// The volume's driver answered.
    Answered(Answer),
}

/// A driver gave no figures of a volume that it says it measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to get usage from response. usage is nil")]
pub struct NoFigures;

/// The figures in a driver's answer, and its words about a bad condition. `with_health` is the gate `CSIVolumeHealth`.
///
/// # Errors
/// The answer has neither figures nor a condition.
pub fn answered(
    found: &VolumeUse,
    can: NodeCapabilities,
    with_health: bool,
    at: Moment,
) -> Result<(Answer, Option<String>), NoFigures> {
    let tells_condition = with_health && can.tells_condition;
    if !tells_condition && found.bytes.is_none() && found.inodes.is_none() {
        return Err(NoFigures);
    }
    // A driver that tells conditions and sends none says that all is well.
    let (abnormal, words) = found.condition.clone().unwrap_or_default();
    let (bytes, inodes) = (found.bytes.unwrap_or_default(), found.inodes.unwrap_or_default());
    let answer = Answer { at, bytes, inodes, abnormal: tells_condition.then_some(abnormal) };
    Ok((answer, (tells_condition && abnormal).then_some(words)))
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
    pub figures: Figures,
}

impl VolumeFigures {
    /// As the summary shows it: all fields are there, as upstream has it.
    pub fn stats(&self) -> VolumeStats {
        let (space, abnormal) = match &self.figures {
            Figures::Seen(space) => (seen(space), None),
            Figures::Answered(answer) => (of_driver(answer), answer.abnormal),
        };
        let health = abnormal.map(|abnormal| VolumeHealth { abnormal });
        VolumeStats { space, name: self.name.clone(), claim: self.claim.clone(), health }
    }
}

fn seen(space: &Space) -> FsStats {
    let (system, usage) = (&space.file_system, space.usage);
    FsStats {
        time: Time(usage.map_or(system.at, |usage| usage.at)),
        available_bytes: Some(system.available),
        capacity_bytes: Some(system.capacity),
        used_bytes: Some(usage.map_or(system.used(), |usage| usage.bytes)),
        inodes_free: Some(system.inodes_free),
        inodes: Some(system.inodes),
        inodes_used: Some(usage.map_or(system.inodes_used(), |usage| usage.inodes)),
    }
}

fn of_driver(answer: &Answer) -> FsStats {
    // A driver that answers with less than nothing is not believed; upstream would show a number near 2^64.
    let amount = |amount: i64| Some(u64::try_from(amount).unwrap_or(0));
    FsStats {
        time: Time(answer.at),
        available_bytes: amount(answer.bytes.available),
        capacity_bytes: amount(answer.bytes.total),
        used_bytes: amount(answer.bytes.used),
        inodes_free: amount(answer.inodes.available),
        inodes: amount(answer.inodes.total),
        inodes_used: amount(answer.inodes.used),
    }
}

/// How the volume with this path is measured; `None` for one without figures, and for a driver's, which is never looked at.
/// The path ends with plugin and name.
pub fn measure(host_path: &str) -> Option<Measure> {
    let folder = host_path.trim_end_matches('/').rsplit('/').nth(1)?;
    match folder {
        plugin::EMPTY_DIR | plugin::CONFIG_MAP | plugin::SECRET | plugin::DOWNWARD_API | plugin::PROJECTED => {
            Some(Measure::Walk)
        }
        plugin::LOCAL | plugin::NFS | plugin::ISCSI | plugin::FC => Some(Measure::FileSystem),
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
pub fn of_claims<'a>(volumes: impl Iterator<Item = &'a VolumeFigures>) -> Vec<(ClaimReference, VolumeStats)> {
    let mut told = BTreeSet::new();
    let fresh = volumes.filter_map(|volume| Some((volume.claim.clone()?, volume.stats())));
    fresh.filter(|(claim, _)| told.insert(claim.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            ("/var/lib/kubelet/pods/u/volumes/kubernetes.io~iscsi/pv", Some(Measure::FileSystem)),
            ("/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pv/mount", None),
            ("/data/host", None),
            ("", None),
        ];
        for (path, expected) in cases {
            assert_eq!(measure(path), expected, "{path}");
        }
    }

    /// VOL-49.
    #[test]
    fn a_claim_of_two_pods_is_told_once() {
        let system =
            FileSystem { device: 1, at: Moment(1), capacity: 100, available: 40, free: 50, inodes: 10, inodes_free: 7 };
        let claim = Some(ClaimReference { name: "data".to_owned(), namespace: "ns".to_owned() });
        let space = Space { file_system: system, usage: None };
        let figures = Figures::Seen(space);
        let one = VolumeFigures { name: "a".to_owned(), claim, is_ephemeral: false, figures };
        let other = VolumeFigures { name: "b".to_owned(), claim: None, ..one.clone() };
        let told = of_claims([&one, &other, &one].into_iter());
        assert_eq!(told.len(), 1);
        let space = told[0].1.space;
        assert_eq!((space.used_bytes, space.inodes_used), (Some(50), Some(3)));
    }

    /// VOL-49: figures that are left out are zero, and a condition counts under its gate and capability alone.
    #[test]
    fn a_drivers_answer_has_all_fields() {
        let bytes = Some(Amounts { available: 60, total: 100, used: 40 });
        let condition = Some((true, "disk is on fire".to_owned()));
        let full = VolumeUse { bytes, inodes: Some(Amounts { available: -1, total: 9, used: 4 }), condition };
        let can = |tells_condition| NodeCapabilities { measures: true, tells_condition, ..Default::default() };
        let of = |found: &VolumeUse, tells, gate| answered(found, can(tells), gate, Moment(7));
        let (answer, words) = of(&full, true, true).expect("it has figures");
        assert_eq!((answer.abnormal, words.as_deref()), (Some(true), Some("disk is on fire")));
        let claim = Some(ClaimReference { name: "data".to_owned(), namespace: "ns".to_owned() });
        let figures = Figures::Answered(answer);
        let stats = VolumeFigures { name: "v".to_owned(), claim, is_ephemeral: false, figures }.stats();
        let expected = json!({
            "time": "1970-01-01T00:00:00Z", "availableBytes": 60, "capacityBytes": 100, "usedBytes": 40,
            "inodesFree": 0, "inodes": 9, "inodesUsed": 4, "name": "v", "pvcRef": {"name": "data", "namespace": "ns"},
            "volumeHealthStats": {"abnormal": true},
        });
        assert_eq!(serde_json::to_value(&stats).expect("JSON"), expected);
        for (tells, gate) in [(false, true), (true, false)] {
            let (answer, words) = of(&full, tells, gate).expect("it has figures");
            assert_eq!((answer.abnormal, words), (None, None), "{tells} {gate}");
        }
        let well = VolumeUse { condition: None, ..full };
        let (answer, words) = of(&well, true, true).expect("it has figures");
        assert_eq!((answer.abnormal, words), (Some(false), None), "all is well where the driver sends nothing");
        assert_eq!(of(&VolumeUse::default(), false, true), Err(NoFigures));
        let (answer, _) = of(&VolumeUse::default(), true, true).expect("a condition is enough");
        assert_eq!(answer, Answer { at: Moment(7), abnormal: Some(false), ..Answer::default() });
    }
}
