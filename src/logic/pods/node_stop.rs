//! Pods that the node itself ends: to make room for a critical pod (POD-32), to stay alive (EVI-20 to EVI-24), or because
//! the machine goes down (NODE-45). Also pods with a volume that cannot be attached here (VOL-12).
//!
//! Pure. The worker reports the status while containers may still run: a phase that is an end is held back until they have
//! ended.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::pod_phase::{FAILED, SUCCEEDED};
use crate::logic::model::time::Moment;

/// The reason of the conditions of a pod that succeeded.
const COMPLETED: &str = "PodCompleted";

/// The sentence of a preempted pod.
pub const PREEMPTED: &str = "Preempted in order to admit critical pod";

/// The shortest time that a pod's end may take before it is an Event: what the runtime needs.
const PATIENCE_MIN: Duration = Duration::from_secs(10);

/// Why the node ends a pod. Its `Display` is the reason in the pod's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
pub enum StopCause {
    /// It makes room for a critical pod.
    #[strum(to_string = "Preempting")]
    Preempted,
    /// The node is short of something, or the pod exceeds a limit of its own.
    Evicted,
    /// The machine goes down.
    #[strum(to_string = "Terminated")]
    ShutDown,
    /// The node has no room for a volume of it.
    VolumeAttachmentLimitExceeded,
}

impl From<StopCause> for AdmissionReason {
    fn from(cause: StopCause) -> Self {
        match cause {
            StopCause::Preempted => Self::Preempting,
            StopCause::Evicted => Self::Evicted,
            StopCause::ShutDown => Self::Terminated,
            StopCause::VolumeAttachmentLimitExceeded => Self::VolumeAttachmentLimitExceeded,
        }
    }
}

/// The end of a pod by the node, and its words in the pod's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStop {
    /// The cause.
    pub cause: StopCause,
    /// The status's sentence.
    pub message: String,
    /// The sentence of the condition `DisruptionTarget`; `None` for a pod that goes because of a limit of its own.
    pub disruption: Option<String>,
    /// When it was decided.
    pub since: Moment,
}

impl NodeStop {
    /// Of a pod that makes room for a critical one.
    pub fn preempted(since: Moment) -> Self {
        let disruption = Some("Pod was preempted by Kubelet to accommodate a critical pod.".to_owned());
        Self { cause: StopCause::Preempted, message: PREEMPTED.to_owned(), disruption, since }
    }

    /// Of an evicted pod.
    pub fn evicted(message: String, is_disruption: bool, since: Moment) -> Self {
        let disruption = is_disruption.then(|| message.clone());
        Self { cause: StopCause::Evicted, message, disruption, since }
    }

    /// Of a pod of a machine that goes down.
    pub fn shut_down(since: Moment) -> Self {
        let message = "Pod was terminated in response to imminent node shutdown.".to_owned();
        Self { cause: StopCause::ShutDown, disruption: Some(message.clone()), message, since }
    }

    /// Of a pod whose volume cannot be attached for lack of room.
    pub fn without_room(message: String, since: Moment) -> Self {
        Self { cause: StopCause::VolumeAttachmentLimitExceeded, message, disruption: None, since }
    }

    /// The status of such a pod. A preempted pod, or one of a machine that goes down, has succeeded when its containers all
    /// ended well; every other one has failed. A preempted pod that succeeded has no reason.
    pub fn status(&self, mut status: PodStatus) -> PodStatus {
        let has_succeeded = status.phase.as_deref() == Some(SUCCEEDED);
        let may_succeed = matches!(self.cause, StopCause::Preempted | StopCause::ShutDown);
        if !may_succeed || !has_succeeded {
            status.phase = Some(FAILED.to_owned());
            // Its containers may have ended well all the same: their success is not the pod's.
            for condition in
                status.conditions.iter_mut().flatten().filter(|one| one.reason.as_deref() == Some(COMPLETED))
            {
                condition.reason = (condition.status == "False").then(|| "PodFailed".to_owned());
            }
        }
        if self.cause != StopCause::Preempted || !has_succeeded {
            status.reason = Some(self.cause.to_string());
            status.message = Some(self.message.clone());
        }
        let Some(disruption) = &self.disruption else { return status };
        let conditions = status.conditions.get_or_insert_default();
        conditions.retain(|condition| condition.type_ != "DisruptionTarget");
        conditions.push(PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: Some("TerminationByKubelet".to_owned()),
            message: Some(disruption.clone()),
            last_transition_time: Some(Time(self.since.to_timestamp())),
            observed_generation: status.observed_generation,
            ..PodCondition::default()
        });
        status
    }
}

/// How long the end of a pod may take before it is an Event (upstream's `killPodNow`): `grace`, or the pod's own grace
/// period, and half of it, but no less than ten seconds.
pub fn patience(pod: &Pod, grace: Option<Duration>) -> Duration {
    let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(0);
    let own = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let grace = grace.unwrap_or(own);
    (grace + grace / 2).max(PATIENCE_MIN)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(phase: &str) -> PodStatus {
        let conditions = json!([{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "False"}]);
        serde_json::from_value(json!({"phase": phase, "conditions": conditions, "observedGeneration": 3}))
            .expect("a status")
    }

    #[test]
    fn an_evicted_pod_whose_containers_ended_well_is_not_told_as_completed() {
        let told = json!({"phase": "Succeeded", "conditions": [
            {"type": "Initialized", "status": "True", "reason": "PodCompleted"},
            {"type": "Ready", "status": "False", "reason": "PodCompleted"},
            {"type": "PodScheduled", "status": "True"},
        ]});
        let told: PodStatus = serde_json::from_value(told).expect("a status");
        let reasons = |stop: NodeStop| {
            let conditions = stop.status(told.clone()).conditions.unwrap_or_default();
            conditions.into_iter().take(3).map(|one| one.reason.unwrap_or_default()).collect::<Vec<_>>()
        };
        assert_eq!(reasons(NodeStop::evicted("Too much. ".to_owned(), false, Moment(1))), ["", "PodFailed", ""]);
        assert_eq!(reasons(NodeStop::shut_down(Moment(1))), ["PodCompleted", "PodCompleted", ""]);
    }

    fn end_of(stop: &NodeStop, phase: &str) -> (String, Option<String>, Option<String>) {
        let told = stop.status(status(phase));
        let disruption = told
            .conditions
            .iter()
            .flatten()
            .find(|condition| condition.status == "True" && condition.type_ == "DisruptionTarget");
        (told.phase.unwrap_or_default(), told.reason, disruption.and_then(|condition| condition.message.clone()))
    }

    /// EVI-23, EVI-24.
    #[test]
    fn evi_23_evi_24_an_evicted_pod_has_failed_however_it_ended() {
        let pressure = NodeStop::evicted("The node was low. ".to_owned(), true, Moment(1));
        let reason = Some("Evicted".to_owned());
        for phase in ["Running", "Succeeded", "Failed"] {
            let expected = ("Failed".to_owned(), reason.clone(), Some("The node was low. ".to_owned()));
            assert_eq!(end_of(&pressure, phase), expected, "{phase}");
        }
        let limit = NodeStop::evicted("Too much. ".to_owned(), false, Moment(1));
        assert_eq!(end_of(&limit, "Running"), ("Failed".to_owned(), reason, None));
        assert_eq!(limit.status(status("Running")).message.as_deref(), Some("Too much. "));
        let generation = pressure.status(status("Running")).conditions.and_then(|all| all.last()?.observed_generation);
        assert_eq!(generation, Some(3));
    }

    /// VOL-12.
    #[test]
    fn a_pod_without_room_for_its_volume_has_failed() {
        let stop = NodeStop::without_room("Node has reached its volume attachment limit".to_owned(), Moment(1));
        let expected = ("Failed".to_owned(), Some("VolumeAttachmentLimitExceeded".to_owned()), None);
        assert_eq!(end_of(&stop, "Pending"), expected);
        let told = stop.status(status("Pending"));
        assert_eq!(told.message.as_deref(), Some("Node has reached its volume attachment limit"));
    }

    /// RES-60.
    #[test]
    fn a_preempted_pod_that_ended_well_has_succeeded() {
        let stop = NodeStop::preempted(Moment(1));
        let disruption = Some("Pod was preempted by Kubelet to accommodate a critical pod.".to_owned());
        assert_eq!(end_of(&stop, "Running"), ("Failed".to_owned(), Some("Preempting".to_owned()), disruption.clone()));
        assert_eq!(end_of(&stop, "Succeeded"), ("Succeeded".to_owned(), None, disruption));
    }

    /// NODE-45.
    #[test]
    fn node_45_a_pod_of_a_machine_that_goes_down_says_so_even_when_it_ended_well() {
        let stop = NodeStop::shut_down(Moment(1));
        let (reason, message) = (Some("Terminated".to_owned()), Some(stop.message.clone()));
        assert_eq!(end_of(&stop, "Running"), ("Failed".to_owned(), reason.clone(), message.clone()));
        assert_eq!(end_of(&stop, "Succeeded"), ("Succeeded".to_owned(), reason, message));
    }

    /// EVI-37.
    #[test]
    fn evi_37_the_end_may_take_half_as_long_again() {
        let pod = |grace: Value| -> Pod {
            let spec = json!({"containers": [], "terminationGracePeriodSeconds": grace});
            serde_json::from_value(json!({ "spec": spec })).expect("a pod")
        };
        for (grace, millis) in [(Value::Null, 10_000), (json!(-5), 10_000), (json!(6), 10_000), (json!(31), 46_500)] {
            assert_eq!(patience(&pod(grace.clone()), None), Duration::from_millis(millis), "{grace}");
        }
        assert_eq!(patience(&pod(json!(30)), Some(Duration::from_secs(1))), PATIENCE_MIN);
        assert_eq!(patience(&Pod::default(), None), PATIENCE_MIN);
    }
}
