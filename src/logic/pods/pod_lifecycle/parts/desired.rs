//! The newest desired pod, and the hashes by which its containers are known.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use litemap::LiteMap;

use crate::logic::pods::container_hash::container_hash;
use crate::logic::pods::pod_containers::all_containers;

/// The hash by which a running container is known to be of this spec (CRI-15), by container name.
pub fn expected_hashes(pod: &Pod) -> LiteMap<String, String> {
    all_containers(pod)
        .map(|(_, container)| {
            let image = container.image.as_deref().unwrap_or_default();
            (container.name.clone(), container_hash(&container.name, image))
        })
        .collect()
}

/// The pod's own grace period, as for a kill that nobody asked for.
pub fn own_grace(pod: &Pod) -> Duration {
    let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(2);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Whether the API says that the pod is to end: it is being deleted, or its phase is final (POD-07).
pub fn is_to_end(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded")) || pod.metadata.deletion_timestamp.is_some()
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    pod: Option<Arc<Pod>>,
    hashes: LiteMap<String, String>,
}

impl Desired {
    /// The pod; `None` for one that only the runtime knows.
    pub fn pod(&self) -> Option<&Arc<Pod>> {
        self.pod.as_ref()
    }

    /// By container name, the hash that a container made from the pod would carry.
    pub fn hashes(&self) -> &LiteMap<String, String> {
        &self.hashes
    }

    /// The hash of one container; empty when the pod has none of this name.
    pub fn hash_of(&self, container: &str) -> String {
        self.hashes.get(container).cloned().unwrap_or_default()
    }

    /// Takes the newest pod. Gives the names of containers that are gone or have another definition now.
    pub fn take(&mut self, pod: Arc<Pod>) -> Vec<String> {
        let before = std::mem::replace(&mut self.hashes, expected_hashes(&pod));
        self.pod = Some(pod);
        let changed = before.into_iter().filter(|(name, hash)| self.hashes.get(name) != Some(hash));
        changed.map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec};

    use super::*;

    fn a_pod(containers: &[(&str, &str)]) -> Arc<Pod> {
        let container = |(name, image): &(&str, &str)| Container {
            name: (*name).to_owned(),
            image: Some((*image).to_owned()),
            ..Container::default()
        };
        let containers = containers.iter().map(container).collect();
        Arc::new(Pod { spec: Some(PodSpec { containers, ..PodSpec::default() }), ..Pod::default() })
    }

    #[test]
    fn a_newer_pod_names_the_containers_that_changed_or_went() {
        let mut desired = Desired::default();
        assert_eq!(desired.take(a_pod(&[("web", "app:1"), ("log", "log:1"), ("old", "app:1")])), [""; 0]);
        assert_eq!(desired.take(a_pod(&[("web", "app:2"), ("log", "log:1"), ("new", "app:1")])), ["old", "web"]);
        assert_ne!(desired.hash_of("new"), "");
        assert_eq!(desired.hash_of("old"), "");
    }
}
