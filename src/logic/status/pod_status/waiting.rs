//! The status of a pod that is not admitted yet.

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};

use super::{conditions, time};
use crate::logic::model::time::Moment;
use crate::logic::status::status_gates::{READY_TO_START, StatusGates};

/// The status of a pod that waits to be admitted: as the API has it, and why (PAIN-18), unless `gates` have that condition
/// off. Said again it is the same.
pub fn waiting_status(pod: &Pod, gates: StatusGates, message: String, now: Moment) -> PodStatus {
    let mut status = pod.status.clone().unwrap_or_default();
    if !gates.ready_to_start {
        return status;
    }
    let before = conditions::find(&status, READY_TO_START).filter(|before| before.status == "False");
    let since = before.and_then(|before| before.last_transition_time.clone());
    let known = status.conditions.get_or_insert_default();
    known.retain(|condition| condition.type_ != READY_TO_START);
    known.push(PodCondition {
        type_: READY_TO_START.to_owned(),
        status: "False".to_owned(),
        message: Some(message),
        last_transition_time: since.or_else(|| Some(time(now))),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    });
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PAIN-18: it is said again every minute, and each new time would be a patch.
    #[test]
    fn a_pod_that_goes_on_waiting_has_waited_since_it_began_to() {
        let waits = |pod: &Pod, seconds: i64| {
            let now = Moment(seconds * 1_000_000_000);
            waiting_status(pod, StatusGates::default(), "waits for room".to_owned(), now)
        };
        let mut pod = Pod::default();
        pod.metadata.generation = Some(4);
        let first = waits(&pod, 100);
        let condition = &first.conditions.as_ref().expect("has one")[0];
        assert_eq!((condition.observed_generation, condition.message.as_deref()), (Some(4), Some("waits for room")));
        pod.status = Some(first.clone());
        assert_eq!(waits(&pod, 160), first);
        let conditions = pod.status.as_mut().and_then(|status| status.conditions.as_mut()).expect("it has one");
        conditions[0].status = "True".to_owned();
        assert_ne!(waits(&pod, 160), first, "it was another before");
    }

    #[test]
    fn a_pod_that_waits_keeps_all_else_that_its_status_says() {
        let scheduled = PodCondition { type_: "PodScheduled".to_owned(), ..PodCondition::default() };
        let status = PodStatus {
            phase: Some("Pending".to_owned()),
            conditions: Some(vec![scheduled.clone()]),
            ..PodStatus::default()
        };
        let pod = Pod { status: Some(status), ..Pod::default() };
        let waits = |gates| waiting_status(&pod, gates, "waits for room".to_owned(), Moment::EPOCH);
        let silent = waits(StatusGates { ready_to_start: false, ..StatusGates::default() });
        assert_eq!(Some(&silent), pod.status.as_ref(), "nothing is told of the condition");
        let waits = waits(StatusGates::default());
        let conditions = waits.conditions.expect("has some");
        assert_eq!((waits.phase.as_deref(), &conditions[0], conditions.len()), (Some("Pending"), &scheduled, 2));
    }
}
