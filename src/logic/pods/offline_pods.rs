//! Which pods of the API server are started after a boot without it (PAIN-10).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::pod_roster::is_over;
use crate::logic::model::ids::PodUid;
use crate::logic::model::restart_policy::{ALWAYS, pod_policy};
use crate::logic::objects::object_references::{ObjectKind, object_references};

/// Those that are to run for ever. One that runs to its end may have come to it while no API server heard: it is not to run
/// twice.
pub fn worth_keeping(pods: &BTreeMap<PodUid, Arc<Pod>>) -> BTreeMap<PodUid, Arc<Pod>> {
    let lasting = pods.iter().filter(|(_, pod)| is_worth_keeping(pod));
    lasting.map(|(uid, pod)| (uid.clone(), Arc::clone(pod))).collect()
}

/// Whether the pod is one of them.
pub fn is_worth_keeping(pod: &Pod) -> bool {
    pod_policy(pod) == ALWAYS && !is_over(pod)
}

/// Objects that pods need to have kept besides themselves; they go once no pod needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// Secrets that they refer to, by namespace and name.
    pub secrets: BTreeSet<(String, String)>,
    /// The pods: tokens are theirs alone.
    pub pods: BTreeSet<PodUid>,
}

/// The objects that these pods need.
pub fn needed(pods: &BTreeMap<PodUid, Arc<Pod>>) -> Needed {
    let references = pods.values().flat_map(|pod| object_references(pod));
    let secrets = references.filter(|key| key.kind == ObjectKind::Secret).map(|key| (key.namespace, key.name));
    Needed { secrets: secrets.collect(), pods: pods.keys().cloned().collect() }
}

/// Whether what is kept is old: of another set of pods, or of another version of one. Statuses alone do not count.
pub fn is_outdated(
    kept: &BTreeMap<PodUid, Arc<Pod>>,
    pods: &BTreeMap<PodUid, Arc<Pod>>,
    differs: impl Fn(&Pod, &Pod) -> bool,
) -> bool {
    kept.len() != pods.len() || pods.iter().any(|(uid, pod)| kept.get(uid).is_none_or(|before| differs(before, pod)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(policy: &str, phase: &str, deleted: bool) -> Arc<Pod> {
        let mut pod = Pod::default();
        pod.spec.get_or_insert_default().restart_policy = Some(policy.to_owned());
        pod.status.get_or_insert_default().phase = Some(phase.to_owned());
        if deleted {
            pod.metadata.deletion_timestamp = serde_json::from_str("\"2026-01-01T00:00:00Z\"").ok();
        }
        Arc::new(pod)
    }

    #[test]
    fn pods_need_the_secrets_that_they_refer_to() {
        let uses = |namespace: &str, secret: &str| {
            let volume = serde_json::json!({ "name": "v", "secret": { "secretName": secret } });
            let config = serde_json::json!({ "name": "c", "configMap": { "name": secret } });
            let pod = serde_json::json!({
                "metadata": { "namespace": namespace },
                "spec": { "containers": [], "volumes": [volume, config], "imagePullSecrets": [{ "name": "registry" }] },
            });
            Arc::new(serde_json::from_value::<Pod>(pod).expect("a pod"))
        };
        let pods = [("1", uses("a", "db")), ("2", uses("a", "db")), ("3", uses("b", "web"))];
        let pods = pods.into_iter().map(|(uid, pod)| (PodUid::from(uid), pod)).collect();
        let Needed { secrets, pods } = needed(&pods);
        let secrets: Vec<String> = secrets.into_iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
        assert_eq!(secrets, ["a/db", "a/registry", "b/registry", "b/web"]);
        assert_eq!(pods.len(), 3);
    }

    #[test]
    fn what_lasts_is_kept_and_what_ends_is_not() {
        let pods = [
            ("lasts", pod("Always", "Running", false)),
            ("is new", pod("Always", "Pending", false)),
            ("a job", pod("OnFailure", "Running", false)),
            ("once", pod("Never", "Running", false)),
            ("has failed", pod("Always", "Failed", false)),
            ("is deleted", pod("Always", "Running", true)),
        ];
        let pods = pods.into_iter().map(|(uid, pod)| (PodUid::from(uid), pod)).collect();
        let kept = worth_keeping(&pods);
        assert_eq!(kept.keys().map(PodUid::as_str).collect::<Vec<_>>(), ["is new", "lasts"]);
    }
}
