//! `status.conditions`: pressures and readiness, with upstream's reasons and texts (NODE-17, NODE-18, NODE-19).
//!
//! Pure; keeps nothing. Conditions of others stay where they are in the list.

use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::NodeEvent;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::pressure::Pressure;
use crate::logic::model::time::Moment;

/// Why the node is not ready; nothing for a ready one. Texts are as the API shows them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Problems {
    /// The runtime cannot be used; several problems at once are one text.
    pub runtime: Option<String>,
    /// Pods have no network.
    pub network: Option<String>,
    /// Volumes cannot be used yet.
    pub storage: Option<String>,
    /// The machine is being shut down.
    pub shutdown: Option<String>,
    /// Resources whose capacity is not known.
    pub missing_capacity: Vec<String>,
    /// Settings that the host cannot enforce, and disks that do not answer: no reasons.
    pub warnings: Vec<String>,
}

struct Wording {
    kind: &'static str,
    /// Reason, message, Event when it holds, and when it does not.
    yes: (&'static str, &'static str, EventReason),
    no: (&'static str, &'static str, EventReason),
}

const MEMORY: Wording = Wording {
    kind: "MemoryPressure",
    yes: (
        "KubeletHasInsufficientMemory",
        "kubelet has insufficient memory available",
        EventReason::NodeHasInsufficientMemory,
    ),
    no: ("KubeletHasSufficientMemory", "kubelet has sufficient memory available", EventReason::NodeHasSufficientMemory),
};
const DISK: Wording = Wording {
    kind: "DiskPressure",
    yes: ("KubeletHasDiskPressure", "kubelet has disk pressure", EventReason::NodeHasDiskPressure),
    no: ("KubeletHasNoDiskPressure", "kubelet has no disk pressure", EventReason::NodeHasNoDiskPressure),
};
const PID: Wording = Wording {
    kind: "PIDPressure",
    yes: ("KubeletHasInsufficientPID", "kubelet has insufficient PID available", EventReason::NodeHasInsufficientPID),
    no: ("KubeletHasSufficientPID", "kubelet has sufficient PID available", EventReason::NodeHasSufficientPID),
};

/// The type of the condition that says whether pods can run here.
pub const READY: &str = "Ready";

/// The value of a condition in the status: `True`, `False` or `Unknown`; `None` when it has none of this type.
pub fn condition_status<'a>(status: Option<&'a NodeStatus>, kind: &str) -> Option<&'a str> {
    let found = status?.conditions.iter().flatten().find(|condition| condition.type_ == kind)?;
    Some(&found.status)
}

/// Whether the node's status says that it is ready.
pub fn is_ready(status: Option<&NodeStatus>) -> bool {
    condition_status(status, READY) == Some("True")
}

/// Sets the pressures; gives the Events of those that changed.
pub fn set_pressures(status: &mut NodeStatus, pressure: Pressure, node: &str, now: Moment) -> Vec<NodeEvent> {
    let mut events = vec![];
    for (wording, holds) in [(&MEMORY, pressure.memory), (&DISK, pressure.disk), (&PID, pressure.pid)] {
        events.extend(set_pressure(status, wording, holds, now).map(|event| NodeEvent::status(node, event)));
    }
    events
}

/// Reason and message are written anew only when the status changes, as upstream has it.
fn set_pressure(status: &mut NodeStatus, wording: &Wording, holds: bool, now: Moment) -> Option<EventReason> {
    let conditions = status.conditions.get_or_insert_default();
    let place = conditions.iter().rposition(|condition| condition.type_ == wording.kind);
    let place = place.unwrap_or_else(|| {
        conditions.push(NodeCondition {
            type_: wording.kind.to_owned(),
            status: "Unknown".to_owned(),
            ..NodeCondition::default()
        });
        conditions.len() - 1
    });
    let condition = &mut conditions[place];
    let now = Some(Time(now.to_timestamp()));
    condition.last_heartbeat_time.clone_from(&now);
    let (word, (reason, message, event)) = if holds { ("True", &wording.yes) } else { ("False", &wording.no) };
    if condition.status == word {
        return None;
    }
    condition.status = word.to_owned();
    condition.reason = Some((*reason).to_owned());
    condition.message = Some((*message).to_owned());
    condition.last_transition_time = now;
    Some(event.clone())
}

/// Sets readiness; gives the Event if it changed. One that was not there before has not changed.
pub fn set_ready(status: &mut NodeStatus, problems: &Problems, node: &str, now: Moment) -> Option<NodeEvent> {
    let now = Some(Time(now.to_timestamp()));
    let why = problems.text();
    let ready = why.is_none();
    let mut message = why.unwrap_or_else(|| "kubelet is posting ready status".to_owned());
    for warning in &problems.warnings {
        message = format!("{message}. WARNING: {warning}");
    }
    let mut condition = NodeCondition {
        type_: READY.to_owned(),
        status: if ready { "True" } else { "False" }.to_owned(),
        reason: Some(if ready { "KubeletReady" } else { "KubeletNotReady" }.to_owned()),
        message: Some(message),
        last_heartbeat_time: now.clone(),
        last_transition_time: now,
    };
    let conditions = status.conditions.get_or_insert_default();
    let Some(known) = conditions.iter_mut().find(|condition| condition.type_ == READY) else {
        conditions.push(condition);
        return None;
    };
    let changed = known.status != condition.status;
    if !changed {
        condition.last_transition_time.clone_from(&known.last_transition_time);
    }
    *known = condition;
    changed.then(|| NodeEvent::status(node, if ready { EventReason::NodeReady } else { EventReason::NodeNotReady }))
}

impl Problems {
    /// All of them in upstream's order, the same only once; nothing when the node is ready.
    pub fn text(&self) -> Option<String> {
        let missing = (!self.missing_capacity.is_empty())
            .then(|| format!("missing node capacity for resources: {}", self.missing_capacity.join(", ")));
        let parts = [self.runtime.clone(), self.network.clone(), self.storage.clone(), self.shutdown.clone(), missing];
        let mut told: Vec<String> = vec![];
        for part in parts.into_iter().flatten() {
            if !told.contains(&part) {
                told.push(part);
            }
        }
        match told.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    fn found(status: &NodeStatus, kind: &str) -> NodeCondition {
        status.conditions.iter().flatten().find(|one| one.type_ == kind).expect("it is there").clone()
    }

    fn set_all(status: &mut NodeStatus, pressure: Pressure, problems: &Problems, now: Moment) -> Vec<String> {
        let mut events = set_pressures(status, pressure, "n", now);
        events.extend(set_ready(status, problems, "n", now));
        for event in &events {
            assert_eq!(event.message, format!("Node n status is now: {}", event.reason));
            assert!(!event.warning);
        }
        events.into_iter().map(|event| event.reason.to_string()).collect()
    }

    /// NODE-18.
    #[test]
    fn a_first_status_has_all_conditions_with_ready_last() {
        let mut status = NodeStatus::default();
        let events = set_all(&mut status, Pressure::default(), &Problems::default(), at(5));
        assert_eq!(events, ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]);
        let kinds: Vec<_> = status.conditions.iter().flatten().map(|one| (&*one.type_, &*one.status)).collect();
        assert_eq!(
            kinds,
            [("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False"), ("Ready", "True")]
        );
        let ready = found(&status, "Ready");
        assert_eq!(ready.reason.as_deref(), Some("KubeletReady"));
        assert_eq!(ready.message.as_deref(), Some("kubelet is posting ready status"));
        assert_eq!(ready.last_transition_time, Some(Time(at(5).to_timestamp())));
        assert!(is_ready(Some(&status)) && !is_ready(None));
    }

    /// NODE-17, NODE-19.
    #[test]
    fn pressures_have_upstreams_words() {
        let all = Pressure { memory: true, disk: true, pid: true };
        let mut status = NodeStatus::default();
        let events = set_all(&mut status, all, &Problems::default(), at(1));
        assert_eq!(events, ["NodeHasInsufficientMemory", "NodeHasDiskPressure", "NodeHasInsufficientPID"]);
        for (kind, reason, message) in [
            ("MemoryPressure", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
            ("DiskPressure", "KubeletHasDiskPressure", "kubelet has disk pressure"),
            ("PIDPressure", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        ] {
            let found = found(&status, kind);
            assert_eq!((found.reason.as_deref(), found.message.as_deref()), (Some(reason), Some(message)));
        }
        let relieved = set_all(&mut status, Pressure::default(), &Problems::default(), at(2));
        assert_eq!(relieved, ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"]);
        assert_eq!(found(&status, "DiskPressure").message.as_deref(), Some("kubelet has no disk pressure"));
    }

    /// NODE-17.
    #[test]
    fn a_transition_has_its_time_and_a_heartbeat_does_not_move_it() {
        let mut status = NodeStatus::default();
        let down = Problems { runtime: Some("container runtime is down".to_owned()), ..Problems::default() };
        assert_eq!(set_all(&mut status, Pressure::default(), &down, at(1)).len(), 3, "a first Ready is no change");
        assert_eq!(set_all(&mut status, Pressure::default(), &down, at(2)), [""; 0]);
        let waiting = Problems { network: Some("no network".to_owned()), ..Problems::default() };
        assert_eq!(set_all(&mut status, Pressure::default(), &waiting, at(3)), [""; 0]);
        let ready = found(&status, "Ready");
        assert_eq!(ready.message.as_deref(), Some("no network"), "the words of Ready are always the newest");
        assert_eq!(ready.last_transition_time, Some(Time(at(1).to_timestamp())));
        assert_eq!(ready.last_heartbeat_time, Some(Time(at(3).to_timestamp())));
        assert_eq!(set_all(&mut status, Pressure::default(), &Problems::default(), at(4)), ["NodeReady"]);
        assert_eq!(set_all(&mut status, Pressure::default(), &down, at(5)), ["NodeNotReady"]);
        assert_eq!(found(&status, "Ready").last_transition_time, Some(Time(at(5).to_timestamp())));
        assert_eq!(found(&status, "PIDPressure").last_transition_time, Some(Time(at(1).to_timestamp())));
    }

    /// NODE-18.
    #[test]
    fn others_conditions_keep_their_place() {
        let other = NodeCondition { type_: "NetworkUnavailable".to_owned(), ..NodeCondition::default() };
        let mut status = NodeStatus { conditions: Some(vec![other.clone()]), ..NodeStatus::default() };
        set_all(&mut status, Pressure::default(), &Problems::default(), at(1));
        let conditions = status.conditions.expect("set");
        assert_eq!((conditions.len(), &conditions[0], &*conditions[4].type_), (5, &other, "Ready"));
    }

    /// NODE-17.
    #[test]
    fn several_problems_are_told_together() {
        let text = |text: &str| Some(text.to_owned());
        let missing = vec!["cpu".to_owned(), "memory".to_owned()];
        for (problems, expected) in [
            (Problems::default(), None),
            (Problems { storage: text("s"), ..Problems::default() }, Some("s")),
            (Problems { runtime: text("x"), network: text("x"), ..Problems::default() }, Some("x")),
            (
                Problems {
                    runtime: text("r"),
                    network: text("n"),
                    shutdown: text("node is shutting down"),
                    missing_capacity: missing,
                    ..Problems::default()
                },
                Some("[r, n, node is shutting down, missing node capacity for resources: cpu, memory]"),
            ),
        ] {
            assert_eq!(problems.text().as_deref(), expected);
        }
        let mut status = NodeStatus::default();
        let soft = Problems { warnings: vec!["CPU hardcapping unsupported".to_owned()], ..Problems::default() };
        set_ready(&mut status, &soft, "n", at(1));
        let expected = "kubelet is posting ready status. WARNING: CPU hardcapping unsupported";
        assert_eq!(found(&status, "Ready").message.as_deref(), Some(expected));
    }

    proptest! {
        #[test]
        fn a_transition_time_moves_exactly_with_the_status(steps in proptest::collection::vec(any::<[bool; 4]>(), 1..20)) {
            let mut status = NodeStatus::default();
            let mut before: Option<NodeStatus> = None;
            for (second, [memory, disk, pid, down]) in steps.into_iter().enumerate() {
                let problems = Problems { runtime: down.then(|| "down".to_owned()), ..Problems::default() };
                let now = at(second as i64);
                let events = set_all(&mut status, Pressure { memory, disk, pid }, &problems, now);
                let mut changes = 0;
                for condition in status.conditions.iter().flatten() {
                    let old = before.as_ref().map(|before| found(before, &condition.type_));
                    let changed = old.as_ref().is_none_or(|old| old.status != condition.status);
                    changes += usize::from(changed && (old.is_some() || condition.type_ != READY));
                    let expected = if changed {
                        Some(Time(now.to_timestamp()))
                    } else {
                        old.and_then(|old| old.last_transition_time)
                    };
                    prop_assert_eq!(&condition.last_transition_time, &expected);
                }
                prop_assert_eq!(events.len(), changes);
                before = Some(status.clone());
            }
        }
    }
}
