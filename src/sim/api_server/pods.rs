//! The API server's work on pods alone: defaults, phases, versions of the spec, time to end. Pure.

use serde_json::{Value, json};

use super::refusal::Refused;
use super::resources::Resource;
use crate::logic::manifest::defaults::apply_defaults;

/// Completes a new pod.
pub fn begin(pod: &mut Value) {
    if let Ok(mut typed) = serde_json::from_value(pod.clone()) {
        apply_defaults(&mut typed);
        if let Ok(complete) = serde_json::to_value(typed) {
            *pod = complete;
        }
    }
    if pod["spec"]["serviceAccountName"].as_str().is_none_or(str::is_empty) {
        pod["spec"]["serviceAccountName"] = "default".into(); // As admission does.
    }
    pod["metadata"]["generation"] = 1.into();
    pod["status"] = json!({ "phase": "Pending" });
}

/// The result of an edit: status is another door, and a new spec is a new generation.
pub fn edited(before: &Value, mut after: Value, resource: &Resource) -> Value {
    if matches!(resource.plural, "pods" | "nodes") {
        after["status"] = before["status"].clone();
    }
    if resource.plural == "pods" && after["spec"] != before["spec"] {
        after["metadata"]["generation"] = (before["metadata"]["generation"].as_i64().unwrap_or_default() + 1).into();
    }
    after
}

/// The result of a change of the status. As the real one, it keeps what older agents do not know of: the generations that
/// status and conditions are about (`preserveOldObservedGeneration`) and the class of service. A container's states are there,
/// if only empty.
pub fn with_new_status(before: &Value, mut after: Value) -> Value {
    let old = &before["status"];
    let Some(status) = after.get_mut("status") else { return after };
    for field in ["observedGeneration", "qosClass"] {
        if status[field].is_null() && !old[field].is_null() {
            status[field] = old[field].clone();
        }
    }
    for condition in items(status, "conditions") {
        let known = list(&old["conditions"]).iter().find(|known| known["type"] == condition["type"]);
        let generation = known.map(|known| &known["observedGeneration"]).filter(|generation| !generation.is_null());
        if let Some(generation) = generation.filter(|_| condition["observedGeneration"].is_null()) {
            condition["observedGeneration"] = generation.clone();
        }
    }
    for field in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in items(status, field) {
            for state in ["state", "lastState"] {
                if container[state].is_null() {
                    container[state] = json!({});
                }
            }
        }
    }
    after
}

/// Whether the pod has ended.
pub fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// The seconds that a pod has for its end; 0 takes it away at once, as it does one that was never placed or has ended.
pub fn grace(pod: &Value, asked: Option<i64>) -> i64 {
    let placed = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    if !placed || is_over(pod) {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let grace = asked.unwrap_or(own);
    if grace < 0 { 1 } else { grace }
}

/// Refuses changes that none may make.
pub fn check(before: &Value, after: &Value) -> Result<(), Refused> {
    let invalid = |why: &str| {
        let name = before["metadata"]["name"].as_str().unwrap_or_default();
        Err(Refused::new(422, "Invalid", format!("Pod {name:?} is invalid: {why}")))
    };
    if before["spec"]["nodeName"] != after["spec"]["nodeName"] {
        return invalid("spec.nodeName: Forbidden: pod updates may not change the node");
    }
    // A container that ended for good does not run again.
    for (specs, statuses) in [("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")] {
        for (index, old) in list(&before["status"][statuses]).iter().enumerate() {
            let Some(code) = old["state"]["terminated"]["exitCode"].as_i64() else { continue };
            let new = list(&after["status"][statuses]).iter().find(|new| new["name"] == old["name"]);
            let container = list(&before["spec"][specs]).iter().find(|container| container["name"] == old["name"]);
            let may = container.is_some_and(|container| may_restart(&before["spec"], container, code));
            if new.is_some_and(|new| new["state"]["terminated"].is_null()) && !may {
                let why = "Forbidden: may not be transitioned to non-terminated state";
                return invalid(&format!("status.{statuses}[{index}].state: {why}"));
            }
        }
    }
    Ok(())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn items<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Whether the status of a container that ended so may say that it runs once more: where any container may have all start
/// over; by its own rules and policy, where it has a policy; by the pod's.
fn may_restart(spec: &Value, container: &Value, code: i64) -> bool {
    let all = list(&spec["initContainers"]).iter().chain(list(&spec["containers"]));
    let rules = |container: &Value| list(&container["restartPolicyRules"]).to_vec();
    if all.flat_map(rules).any(|rule| rule["action"] == "RestartAllContainers") {
        return true;
    }
    let of = |policy: &str| match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    };
    let Some(policy) = container["restartPolicy"].as_str() else {
        return of(spec["restartPolicy"].as_str().unwrap_or("Always"));
    };
    let meets = |rule: &Value| {
        let listed = list(&rule["exitCodes"]["values"]).iter().any(|value| value.as_i64() == Some(code));
        listed == (rule["exitCodes"]["operator"] == "In")
    };
    rules(container).iter().any(|rule| meets(rule) && rule["action"] == "Restart") || of(policy)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_has_its_own_time_unless_it_is_over() {
        let pod = |phase: &str| json!({ "spec": { "nodeName": "n", "terminationGracePeriodSeconds": 7 }, "status": { "phase": phase } });
        assert_eq!(grace(&pod("Running"), None), 7);
        assert_eq!(grace(&pod("Running"), Some(3)), 3);
        assert_eq!(grace(&pod("Running"), Some(0)), 0);
        assert_eq!(grace(&pod("Failed"), None), 0);
        assert_eq!(grace(&json!({ "spec": {} }), None), 0);
    }

    #[test]
    fn a_new_status_keeps_the_generations_that_it_does_not_name() {
        let before = json!({ "status": { "observedGeneration": 3, "qosClass": "Burstable",
            "conditions": [{ "type": "Ready", "observedGeneration": 2 }] } });
        let after = json!({ "status": { "conditions": [{ "type": "Ready" }, { "type": "New" }],
            "containerStatuses": [{ "name": "a", "state": { "waiting": {} } }] } });
        let expected = json!({ "observedGeneration": 3, "qosClass": "Burstable",
            "conditions": [{ "type": "Ready", "observedGeneration": 2 }, { "type": "New" }],
            "containerStatuses": [{ "name": "a", "state": { "waiting": {} }, "lastState": {} }] });
        assert_eq!(with_new_status(&before, after)["status"], expected);
    }

    #[test]
    fn what_ended_for_good_stays_ended() {
        let pod = |state: Value| {
            json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "a" }] },
                    "status": { "containerStatuses": [{ "name": "a", "state": state }] } })
        };
        let (ended, running) = (pod(json!({ "terminated": { "exitCode": 0 } })), pod(json!({ "running": {} })));
        assert!(check(&ended, &running).is_err());
        assert!(check(&running, &ended).is_ok());
        let init = |state: Value| {
            json!({ "spec": { "restartPolicy": "OnFailure", "initContainers": [{ "name": "a" }] },
                    "status": { "initContainerStatuses": [{ "name": "a", "state": state }] } })
        };
        let state = |code: i64| init(json!({ "terminated": { "exitCode": code } }));
        assert!(check(&state(0), &init(json!({ "running": {} }))).is_err());
        assert!(check(&state(1), &init(json!({ "running": {} }))).is_ok());
    }
}
