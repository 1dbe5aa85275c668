//! When a pod's status counts as what the pod comes to, whatever that is.

use std::time::Duration;

use serde_json::Value;

/// How long a status stays as it is before it counts; `None` for one that will change.
///
/// A container that crashes is compared in its second pause, which is longer than the time between two looks at a pod.
pub fn settle_time(pod: &Value) -> Option<Duration> {
    let status = &pod["status"];
    let of = |list: &str| status[list].as_array().cloned().unwrap_or_default();
    let (containers, init) = (of("containerStatuses"), of("initContainerStatuses"));
    let is_on_the_way = |one: &Value| {
        let is_in_first_pause = one["restartCount"].as_u64().is_some_and(|count| count < 2);
        match one["state"]["waiting"]["reason"].as_str().unwrap_or_default() {
            "ErrImagePull" | "RunContainerError" | "PostStartHookError" => true,
            "CrashLoopBackOff" => is_in_first_pause,
            _ => false,
        }
    };
    let has_ended = |one: &Value| !one["state"]["terminated"].is_null();
    let has_failed = |one: &Value| has_ended(one) && one["state"]["terminated"]["exitCode"] != 0;
    let has_own_rules = |one: &Value| !one["restartPolicyRules"].is_null();
    let may_restart = match pod["spec"]["restartPolicy"].as_str() {
        _ if pod["spec"]["containers"].as_array().is_some_and(|all| all.iter().any(has_own_rules)) => {
            containers.iter().any(has_ended)
        }
        Some("Never") => false,
        Some("OnFailure") => containers.iter().chain(&init).any(has_failed),
        _ => containers.iter().any(has_ended) || init.iter().any(has_failed),
    };
    let seconds = match status["phase"].as_str()? {
        "Succeeded" | "Failed" => 4,
        _ if may_restart || containers.iter().chain(&init).any(is_on_the_way) => return None,
        // Upstream may tell of a failure with its next look at the pod alone, 10 s to 15 s later.
        "Pending" => 18,
        _ if containers.iter().any(has_ended) => 12,
        _ => 4,
    };
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_settles_once_nothing_is_on_its_way() {
        let pod = |policy: &str, phase: &str, container: Value| {
            json!({ "spec": { "restartPolicy": policy },
                "status": { "phase": phase, "containerStatuses": [container] } })
        };
        let running = json!({ "restartCount": 0, "state": { "running": {} } });
        let pause = |count| json!({ "restartCount": count, "state": { "waiting": { "reason": "CrashLoopBackOff" } } });
        let ended = json!({ "state": { "terminated": { "exitCode": 0 } } });
        for (pod, seconds) in [
            (pod("Always", "Running", running), Some(4)),
            (pod("Always", "Running", pause(1)), None),
            (pod("Always", "Running", pause(2)), Some(4)),
            (pod("Always", "Running", ended.clone()), None),
            (pod("Never", "Running", ended.clone()), Some(12)),
            (pod("OnFailure", "Succeeded", ended), Some(4)),
            (json!({ "status": { "phase": "Pending" } }), Some(18)),
            (json!({}), None),
        ] {
            assert_eq!(settle_time(&pod).map(|time| time.as_secs()), seconds, "{pod}");
        }
    }
}
