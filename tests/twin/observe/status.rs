//! The statuses that the API server had of a pod.
//!
//! Upstream and Podwright may send different numbers of statuses on the way, so that not each of them is compared. These are:
//! the last one before the deletion and the very last one, whole; the phases that the pod had; and of each container the
//! states with a reason that it had. A short run that one agent shows and the other does not see is no difference: the
//! phase `Running` of a pod that ends counts for nothing, and a running state has no reason.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::api::Seen;

const LISTS: [&str; 3] = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];

/// The reasons of a container whose image cannot be pulled, in turn.
const PULL_FAILED: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];

/// The facts of one pod.
pub fn of_pod(seen: &[Seen], pod: &str) -> Value {
    let of_pod: Vec<&Seen> = seen.iter().filter(|(_, object)| object["metadata"]["name"] == pod).collect();
    let is_wanted = |seen: &&&Seen| seen.1["metadata"]["deletionTimestamp"].is_null();
    let before = of_pod.iter().rev().find(is_wanted).map(|(_, object)| object["status"].clone());
    let gone = of_pod.iter().rev().find(|(kind, _)| kind == "DELETED").map(|(_, object)| object["status"].clone());
    let mut phases: Vec<String> = vec![];
    let mut states: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, object) in &of_pod {
        let status = &object["status"];
        push_new(&mut phases, status["phase"].as_str().unwrap_or_default().to_owned());
        for container in LISTS.iter().filter_map(|list| status[list].as_array()).flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            states.entry(name).or_default().extend(state_word(&container["state"]));
        }
    }
    if phases.last().is_some_and(|last| last == "Succeeded" || last == "Failed") {
        phases.retain(|phase| phase != "Running");
        phases.dedup();
    }
    let [before, gone] = [before, gone].map(|status| status.map(with_folded_tries));
    json!({ "before the deletion": before, "at the end": gone, "phases": phases, "states": states })
}

/// A status in which all later tries are the same: how many there are by a moment, and whether one is under way, is a matter
/// of time.
fn with_folded_tries(mut status: Value) -> Value {
    for list in LISTS {
        for one in status.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let is_restarted = one["restartCount"].as_u64().is_some_and(|count| count > 1);
            if is_restarted {
                one["restartCount"] = "more".into();
            }
            let Some(waiting) = one.pointer_mut("/state/waiting") else { continue };
            let message = waiting["message"].as_str().unwrap_or_default();
            if is_restarted && let Some((_, rest)) = message.split_once(" restarting failed container=") {
                waiting["message"] = format!("back-off <pause> restarting failed container={rest}").into();
            } else if PULL_FAILED.iter().any(|reason| waiting["reason"] == *reason) {
                let cause = message.split_once(": ErrImagePull: ").map_or(message, |(_, cause)| cause).to_owned();
                waiting["message"] = cause.into();
                waiting["reason"] = PULL_FAILED.join(" or ").into();
            }
        }
    }
    status
}

fn push_new(sequence: &mut Vec<String>, word: String) {
    if sequence.last() != Some(&word) {
        sequence.push(word);
    }
}

/// The kind of a state, and its reason; `None` without a reason.
fn state_word(state: &Value) -> Option<String> {
    let (kind, of_kind) = state.as_object()?.iter().next()?;
    let reason = of_kind["reason"].as_str()?;
    Some(match of_kind["exitCode"].as_i64() {
        Some(code) => format!("{kind} {reason} {code}"),
        None => format!("{kind} {reason}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_tries_are_folded() {
        let of = |count: u64, pause: &str| {
            let message = format!("back-off {pause} restarting failed container=c pod=p");
            let state = json!({ "waiting": { "message": message } });
            with_folded_tries(json!({ "containerStatuses": [{ "restartCount": count, "state": state }] }))
        };
        assert_eq!(of(2, "20s"), of(5, "2m40s"));
        assert_ne!(of(1, "10s"), of(2, "10s"));
        let pull = |reason: &str, message: &str| {
            let state = json!({ "waiting": { "reason": reason, "message": message } });
            with_folded_tries(json!({ "containerStatuses": [{ "state": state }] }))
        };
        let pause = "Back-off pulling image \"a\": ErrImagePull: refused";
        assert_eq!(pull("ErrImagePull", "refused"), pull("ImagePullBackOff", pause));
    }

    #[test]
    fn a_life_is_told_by_its_changes() {
        let object = |phase: &str, state: Value, deletion: Value| {
            json!({ "metadata": { "name": "a", "deletionTimestamp": deletion },
                "status": { "phase": phase, "containerStatuses": [{ "name": "c", "state": state }] } })
        };
        let running = json!({ "running": { "startedAt": "t" } });
        let seen = [
            ("ADDED".to_owned(), object("Pending", json!({ "waiting": { "reason": "X" } }), Value::Null)),
            ("MODIFIED".to_owned(), object("Running", running.clone(), Value::Null)),
            ("MODIFIED".to_owned(), object("Running", running.clone(), json!("t"))),
            (
                "DELETED".to_owned(),
                object("Failed", json!({ "terminated": { "reason": "Error", "exitCode": 1 } }), json!("t")),
            ),
        ];
        let found = of_pod(&seen, "a");
        assert_eq!(found["phases"], json!(["Pending", "Failed"]));
        assert_eq!(found["states"]["c"], json!(["terminated Error 1", "waiting X"]));
        assert_eq!(found["before the deletion"]["phase"], "Running");
        assert_eq!(found["at the end"]["phase"], "Failed");
    }
}
