//! SELinux labels of persistent volumes: which one a pod has for a volume, and metrics of it (VOL-31).

use k8s_openapi::api::core::v1::PersistentVolume;

use super::VolumeManager;
use super::tasks::{MountTask, label_failure};
use crate::logic::model::ids::PodUid;
use crate::logic::volumes::mounting::mount_label::{LabelProblem, MountLabel, access_modes, widest_mode};
use crate::logic::volumes::volume_states::{MountedVolume, TaskFailure, VolumeLabel};
use crate::platform::observer::{LabelNews, Observation};

/// Upstream's name of the plugin of a volume in metrics of labels.
fn plugin_of(mounted: &MountedVolume, volume: &PersistentVolume) -> String {
    let is_fc = volume.spec.as_ref().is_some_and(|spec| spec.fc.is_some());
    match &mounted.driven {
        Some(driven) => format!("kubernetes.io/csi/{}", driven.driver),
        None if is_fc => "kubernetes.io/fc".to_owned(),
        None => "kubernetes.io/iscsi".to_owned(),
    }
}

impl MountTask {
    /// The label that the pod has for a persistent volume; `None` where SELinux is off.
    ///
    /// # Errors
    /// It has none or several, and the volume is mounted with one alone.
    pub(super) fn label_of(&self, volume: &PersistentVolume) -> Result<Option<MountLabel>, TaskFailure> {
        let Some(labelling) = &self.labelling else { return Ok(None) };
        let binds = labelling.binds(volume);
        let label = match labelling.label(&self.pod, &self.plan.name) {
            Ok(label) => label,
            Err(problem) => {
                let news = match problem {
                    LabelProblem::NoLabel(_) => LabelNews::NoLabel,
                    LabelProblem::Several(_) => LabelNews::SeveralInPod,
                };
                self.tell_problem(news, binds, access_modes(volume), "");
                if binds {
                    return Err(label_failure(problem));
                }
                String::new()
            }
        };
        Ok(Some(MountLabel { label, binds }))
    }

    /// Counts what is wrong with a label.
    pub(super) fn tell_problem(&self, news: LabelNews, refused: bool, modes: &[String], plugin: &str) {
        let access_mode = widest_mode(modes);
        self.timing.observer.observe(Observation::Labelled { news, refused, access_mode, plugin });
    }

    /// The volume with the pod's label noted on it.
    pub(super) fn labelled(
        &self,
        mounted: MountedVolume,
        label: Option<String>,
        volume: Option<&PersistentVolume>,
    ) -> MountedVolume {
        let (Some(label), Some(volume)) = (label, volume) else { return mounted };
        let plugin = plugin_of(&mounted, volume);
        let access_mode = widest_mode(access_modes(volume));
        MountedVolume { label: Some(VolumeLabel { label, access_mode, plugin }), ..mounted }
    }
}

impl VolumeManager {
    /// Counts a volume that a pod has for the first time: its label, and whether another pod has it with another one.
    pub(super) fn tell_label(&self, uid: &PodUid, mounted: &MountedVolume) {
        let Some(VolumeLabel { label, access_mode, plugin }) = &mounted.label else { return };
        let tell = |news| {
            let (access_mode, refused) = (*access_mode, false);
            self.args.observer.observe(Observation::Labelled { news, refused, access_mode, plugin });
        };
        if !label.is_empty() {
            tell(LabelNews::Admitted);
        }
        let others = self.pods.iter().filter(|(other, _)| *other != uid).flat_map(|(_, pod)| pod.mounted.values());
        let mut labels = others.filter(|other| other.name == mounted.name).filter_map(|other| other.label.as_ref());
        if labels.any(|other| other.label != *label) {
            tell(LabelNews::OtherPod);
        }
    }
}
