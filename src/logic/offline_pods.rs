//! Which pods of the API server are started after a boot without it (PAIN-10).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::ids::PodUid;
use super::pod_roster::is_over;
use super::restart_policy::{ALWAYS, pod_policy};

/// Those that are to run for ever. One that runs to its end may have come to it while nobody could be told: it is not to run
/// twice.
pub fn worth_keeping(pods: &BTreeMap<PodUid, Arc<Pod>>) -> BTreeMap<PodUid, Arc<Pod>> {
    let lasting = pods.iter().filter(|(_, pod)| pod_policy(pod) == ALWAYS && !is_over(pod));
    lasting.map(|(uid, pod)| (uid.clone(), Arc::clone(pod))).collect()
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
