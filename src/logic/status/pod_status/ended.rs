//! Which containers have ended since the agent last reported a pod's status (POD-39).

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

/// A container that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedContainer<'a> {
    /// `container`, `init_container` or `ephemeral_container`.
    pub container_type: &'static str,
    /// How.
    pub exit_code: i32,
    /// One word, as the runtime or the agent says it; may be empty.
    pub reason: &'a str,
}

/// The containers that `now` tells as ended and `before` did not: each end is found once, whoever tells the status again.
/// One that is tried again at once appears as waiting, and is not among them, as upstream has it.
pub fn newly_ended<'a>(before: Option<&PodStatus>, now: &'a PodStatus) -> Vec<EndedContainer<'a>> {
    type List = fn(&PodStatus) -> &Option<Vec<ContainerStatus>>;
    let lists: [(&'static str, List); 3] = [
        ("init_container", |status| &status.init_container_statuses),
        ("container", |status| &status.container_statuses),
        ("ephemeral_container", |status| &status.ephemeral_container_statuses),
    ];
    let mut found = vec![];
    for (container_type, list) in lists {
        let known = before.map(list).into_iter().flatten().flatten();
        for one in list(now).iter().flatten() {
            let Some(end) = one.state.as_ref().and_then(|state| state.terminated.as_ref()) else { continue };
            let mut known = known.clone().filter(|known| known.name == one.name);
            if !known.any(|known| known.state.as_ref().is_some_and(|state| state.terminated.is_some())) {
                let reason = end.reason.as_deref().unwrap_or_default();
                found.push(EndedContainer { container_type, exit_code: end.exit_code, reason });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(list: &str, state: &Value) -> PodStatus {
        let one = json!({"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        serde_json::from_value(json!({ list: [one] })).expect("a status")
    }

    /// POD-39.
    #[test]
    fn each_end_is_found_once() {
        let (runs, waits) = (json!({"running": {}}), json!({"waiting": {"reason": "CrashLoopBackOff"}}));
        let ends = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
        for (list, container_type) in [
            ("initContainerStatuses", "init_container"),
            ("containerStatuses", "container"),
            ("ephemeralContainerStatuses", "ephemeral_container"),
        ] {
            let end = EndedContainer { container_type, exit_code: 3, reason: "Error" };
            let of = |before: Option<&Value>, now: &Value| {
                let (before, now) = (before.map(|state| status(list, state)), status(list, now));
                newly_ended(before.as_ref(), &now) == [end]
            };
            assert!(of(None, &ends) && of(Some(&runs), &ends) && of(Some(&waits), &ends), "{list}");
            assert!(!of(Some(&ends), &ends) && !of(Some(&ends), &runs) && !of(Some(&runs), &waits), "{list}");
        }
    }
}
