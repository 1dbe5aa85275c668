//! A pod's volumes, as its life sees them: asked for beside everything else, there before its containers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::volumes::plan::volume_plans;
use crate::logic::volumes::volume_states::MountedVolumes;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct PodVolumes {
    /// Whether a container mounts any.
    used: bool,
    /// Where they are, once all are there.
    mounted: Option<Arc<MountedVolumes>>,
}

fn has_all(mounted: &MountedVolumes, pod: &Pod) -> bool {
    volume_plans(pod).iter().all(|plan| mounted.volumes.contains_key(&plan.name))
}

impl PodVolumes {
    /// Where the pod's volumes are; `None` until all are there.
    pub fn mounted(&self) -> Option<&Arc<MountedVolumes>> {
        self.mounted.as_ref()
    }

    /// Whether containers may be made as far as volumes are concerned.
    pub fn are_there(&self) -> bool {
        !self.used || self.mounted.is_some()
    }

    /// Takes the pod as it is now; says whether it needs more than is there. A container that came since, an ephemeral one,
    /// may mount a volume that no other did: then all are asked for again.
    pub fn take_pod(&mut self, pod: &Pod) -> bool {
        self.used = !volume_plans(pod).is_empty();
        self.mounted.take_if(|mounted| !has_all(mounted, pod)).is_some()
    }

    /// Volumes were mounted for the pod as it was when that began. That is not enough if the pod mounts more by now.
    pub fn take_mounted(&mut self, mounted: &Arc<MountedVolumes>, pod: Option<&Pod>) {
        if pod.is_none_or(|pod| has_all(mounted, pod)) {
            self.mounted = Some(Arc::clone(mounted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::volumes::volume_states::MountedVolume;

    fn pod(volumes: &[&str]) -> Pod {
        let mounts: Vec<_> =
            volumes.iter().map(|name| serde_json::json!({ "name": name, "mountPath": name })).collect();
        let volumes: Vec<_> = volumes.iter().map(|name| serde_json::json!({ "name": name, "emptyDir": {} })).collect();
        let container = serde_json::json!({ "name": "web", "volumeMounts": mounts });
        let pod = serde_json::json!({ "metadata": {}, "spec": { "containers": [container], "volumes": volumes } });
        serde_json::from_value(pod).expect("a pod")
    }

    fn mounted(volumes: &[&str]) -> Arc<MountedVolumes> {
        let volume =
            |name: &&str| ((*name).to_owned(), MountedVolume { name: (*name).to_owned(), ..Default::default() });
        Arc::new(MountedVolumes { volumes: volumes.iter().map(volume).collect() })
    }

    #[test]
    fn a_pod_without_volumes_waits_for_none() {
        let mut volumes = PodVolumes::default();
        assert!(!volumes.take_pod(&pod(&[])) && volumes.are_there());
    }

    #[test]
    fn all_volumes_of_the_newest_pod_are_to_be_there() {
        let mut volumes = PodVolumes::default();
        volumes.take_pod(&pod(&["a"]));
        assert!(!volumes.are_there());
        volumes.take_mounted(&mounted(&["a"]), Some(&pod(&["a", "b"])));
        assert!(!volumes.are_there(), "the pod mounts more by now");
        volumes.take_mounted(&mounted(&["a"]), Some(&pod(&["a"])));
        assert!(volumes.are_there() && !volumes.take_pod(&pod(&["a"])));
        assert!(volumes.take_pod(&pod(&["a", "b"])) && !volumes.are_there(), "all are asked for again");
    }
}
