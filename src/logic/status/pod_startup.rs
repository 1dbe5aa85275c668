//! How long pods take to start, as the cluster sees it (upstream's startup latency): from a pod's creation to the moment
//! when the API server shows all its containers running, and what of that was pulls and init containers.
//!
//! Owned by the metrics. Only pods are measured that were first seen before they had begun: an agent that starts again
//! measures none of those that run. Keeps each pod's pulls until it has started, and that it has until it is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus, Volume};

use super::status_sync::is_mirror;
use crate::logic::model::ids::PodUid;
use crate::logic::model::pod_phase::is_terminal;
use crate::logic::model::time::Moment;

/// The most pulls that are kept of a pod; it has no more images than containers and image volumes.
const PULLS_MAX: usize = 128;

/// How long a pod took to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStartup {
    /// From its creation until it was seen to run.
    pub total: Duration,
    /// Time during which images were pulled for it; pulls at the same time count once.
    pub pulls: Duration,
    /// Time that its init containers took, sidecars left out.
    pub init_containers: Duration,
    /// Whether it has volumes with a state of their own.
    pub is_stateful: bool,
    /// Whether it has a network of its own.
    pub has_network: bool,
}

impl PodStartup {
    /// The time that was neither pulls nor init containers.
    pub fn own(&self) -> Duration {
        self.total.saturating_sub(self.pulls).saturating_sub(self.init_containers)
    }
}

/// A pod that is measured; `None` once it has been.
type Pulls = Option<Vec<(Moment, Moment)>>;

/// See the module.
#[derive(Debug, Default)]
pub struct StartupTracker {
    pods: BTreeMap<PodUid, Pulls>,
}

impl StartupTracker {
    /// The API server showed the pod; says how long its start took, once, when it shows that it has started.
    pub fn pod_seen(&mut self, pod: &Pod, at: Moment) -> Option<PodStartup> {
        let status = pod.status.as_ref();
        let uid = PodUid::from(pod.metadata.uid.as_deref()?);
        if status.and_then(|status| status.phase.as_deref()).is_some_and(is_terminal) {
            self.pods.remove(&uid);
            return None;
        }
        let has_begun = status.is_some_and(|status| status.start_time.is_some());
        let Some(pulls) = self.pods.get_mut(&uid) else {
            if !has_begun && !is_mirror(pod) {
                self.pods.insert(uid, Some(vec![]));
            }
            return None;
        };
        let runs = status.and_then(|status| status.container_statuses.as_ref()).is_some_and(|all| all_run(all));
        let pulls = pulls.take_if(|_| runs)?;
        let created = pod.metadata.creation_timestamp.as_ref()?;
        Some(PodStartup {
            total: at.since(Moment::from_timestamp(created.0)),
            pulls: covered(pulls),
            init_containers: init_time(pod, status?),
            is_stateful: pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(has_state),
            has_network: pod.spec.as_ref().is_none_or(|spec| spec.host_network != Some(true)),
        })
    }

    /// An image was pulled for the pod, from then to then.
    pub fn pulled(&mut self, uid: &PodUid, began: Moment, ended: Moment) {
        if let Some(Some(pulls)) = self.pods.get_mut(uid)
            && pulls.len() < PULLS_MAX
        {
            pulls.push((began, ended));
        }
    }

    /// The pod is no more.
    pub fn gone(&mut self, uid: &PodUid) {
        self.pods.remove(uid);
    }
}

fn all_run(statuses: &[ContainerStatus]) -> bool {
    let runs = |one: &ContainerStatus| one.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(drop);
    !statuses.is_empty() && statuses.iter().all(|one| runs(one).is_some())
}

/// How much time the spans cover together.
fn covered(mut spans: Vec<(Moment, Moment)>) -> Duration {
    spans.sort_unstable();
    let (mut sum, mut up_to) = (Duration::ZERO, Moment::EPOCH);
    for (began, ended) in spans {
        sum += ended.since(began.max(up_to));
        up_to = up_to.max(ended);
    }
    sum
}

/// From begin to end of each init container that has ended; those that go on are sidecars.
fn init_time(pod: &Pod, status: &PodStatus) -> Duration {
    let specs = || pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let is_sidecar =
        |name: &str| specs().any(|one| one.name == name && one.restart_policy.as_deref() == Some("Always"));
    let all = status.init_container_statuses.iter().flatten().filter(|one| !is_sidecar(&one.name));
    all.filter_map(|one| {
        let ended = one.state.as_ref()?.terminated.as_ref()?;
        let moment = |time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time| Moment::from_timestamp(time.0);
        Some(moment(ended.finished_at.as_ref()?).since(moment(ended.started_at.as_ref()?)))
    })
    .sum()
}

/// Whether a volume is more than what the pod is started with anew.
fn has_state(volume: &Volume) -> bool {
    volume.secret.is_none()
        && volume.config_map.is_none()
        && volume.downward_api.is_none()
        && volume.empty_dir.is_none()
        && volume.projected.is_none()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pod(extra: serde_json::Value) -> Pod {
        let mut pod = json!({
            "metadata": {"uid": "u", "name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "c"}], "initContainers": [
                {"name": "first"}, {"name": "side", "restartPolicy": "Always"}]},
        });
        pod.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        serde_json::from_value(pod).expect("a pod")
    }

    fn running() -> serde_json::Value {
        json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:01Z",
            "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"running": {"startedAt": "2026-01-01T00:00:09Z"}}}],
            "initContainerStatuses": [
                {"name": "first", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"terminated":
                    {"exitCode": 0, "startedAt": "2026-01-01T00:00:03Z", "finishedAt": "2026-01-01T00:00:05Z"}}},
                {"name": "side", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"terminated":
                    {"exitCode": 0, "startedAt": "2026-01-01T00:00:03Z", "finishedAt": "2026-01-01T00:00:08Z"}}}]}})
    }

    fn at(seconds: i64) -> Moment {
        let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        Moment::from_timestamp(start).plus(Duration::from_secs(u64::try_from(seconds).expect("positive")))
    }

    #[test]
    fn a_start_is_told_once_without_pulls_and_init_containers() {
        let (mut tracker, uid) = (StartupTracker::default(), PodUid::from("u"));
        assert_eq!(tracker.pod_seen(&pod(json!({})), at(1)), None);
        tracker.pulled(&uid, at(1), at(3));
        tracker.pulled(&uid, at(2), at(4));
        let startup = tracker.pod_seen(&pod(running()), at(10)).expect("started");
        assert_eq!((startup.total, startup.pulls), (Duration::from_secs(10), Duration::from_secs(3)));
        assert_eq!((startup.init_containers, startup.own()), (Duration::from_secs(2), Duration::from_secs(5)));
        assert!(!startup.is_stateful && startup.has_network);
        assert_eq!(tracker.pod_seen(&pod(running()), at(11)), None, "once");
        tracker.gone(&uid);
        assert_eq!(tracker.pod_seen(&pod(running()), at(12)), None, "one that runs already is not measured");
    }

    #[test]
    fn what_ran_before_the_agent_and_mirrors_are_not_measured() {
        let mut tracker = StartupTracker::default();
        assert_eq!(tracker.pod_seen(&pod(running()), at(5)), None);
        assert_eq!(tracker.pod_seen(&pod(running()), at(6)), None);
        let annotations = json!({"kubernetes.io/config.mirror": "x"});
        let mut mirror = pod(json!({}));
        mirror.metadata.annotations = serde_json::from_value(annotations).expect("annotations");
        assert_eq!(tracker.pod_seen(&mirror, at(1)), None);
        assert_eq!(tracker.pod_seen(&pod(running()), at(6)), None);
    }

    #[test]
    fn volumes_with_a_state_are_told() {
        for (volume, expected) in [(json!({"hostPath": {"path": "/x"}}), true), (json!({"emptyDir": {}}), false)] {
            let mut tracker = StartupTracker::default();
            let mut with_volume = pod(running());
            let mut volume = volume;
            volume["name"] = "v".into();
            with_volume.spec.as_mut().expect("a spec").volumes =
                Some(vec![serde_json::from_value(volume).expect("a volume")]);
            tracker.pod_seen(&pod(json!({})), at(1));
            assert_eq!(tracker.pod_seen(&with_volume, at(5)).expect("started").is_stateful, expected);
        }
    }

    proptest! {
        #[test]
        fn pulls_cover_no_more_than_their_whole_span(spans in proptest::collection::vec((0i64..1000, 0u64..1000), 0..20)) {
            let spans: Vec<(Moment, Moment)> =
                spans.into_iter().map(|(began, took)| (at(began), at(began).plus(Duration::from_secs(took)))).collect();
            let sum: Duration = spans.iter().map(|(began, ended)| ended.since(*began)).sum();
            let first = spans.iter().map(|(began, _)| *began).min().unwrap_or_default();
            let last = spans.iter().map(|(_, ended)| *ended).max().unwrap_or_default();
            let longest = spans.iter().map(|(began, ended)| ended.since(*began)).max().unwrap_or_default();
            let covered = covered(spans);
            prop_assert!(covered <= sum && covered <= last.since(first) && covered >= longest);
        }
    }
}
