//! Which instance of a container a log is read of, from the pod's status (SRV-34).

use k8s_openapi::api::core::v1::{ContainerStatus, PodSpec, PodStatus};

/// Whether the pod's spec has a container of this name, of whatever kind.
pub fn has_container(spec: &PodSpec, name: &str) -> bool {
    spec.init_containers.iter().flatten().any(|one| one.name == name)
        || spec.containers.iter().any(|one| one.name == name)
        || spec.ephemeral_containers.iter().flatten().any(|one| one.name == name)
}

/// The ID of the instance, as the API writes it (`containerd://…`): the last but one with `previous`; else the one that
/// runs or ended last, which for a container that waits to be started again is the one that crashed.
///
/// # Errors
/// There is no such instance; the text is upstream's.
pub fn instance<'a>(status: &'a PodStatus, pod: &str, container: &str, previous: bool) -> Result<&'a str, String> {
    let problem = |what: &str| format!("container {container:?} in pod {pod:?} is {what}");
    let Some(found) = status_of(status, container) else { return Err(problem("not available")) };
    let state = found.state.as_ref();
    let id_of = |state: Option<&'a k8s_openapi::api::core::v1::ContainerState>| {
        let ended = state.and_then(|state| state.terminated.as_ref())?;
        Some(ended.container_id.as_deref().unwrap_or_default())
    };
    let last = id_of(found.last_state.as_ref());
    if previous {
        let missing = || format!("previous terminated container {container:?} in pod {pod:?} not found");
        return last.filter(|id| !id.is_empty()).ok_or_else(missing);
    }
    if state.is_some_and(|state| state.running.is_some()) {
        return Ok(found.container_id.as_deref().unwrap_or_default());
    }
    // Where the next instance did not come to be, the end in the status has no ID.
    let ended = id_of(state);
    if ended.is_some() || last.is_some() {
        let mut ids = [ended, last].into_iter().flatten();
        return ids.find(|id| !id.is_empty()).ok_or_else(|| problem("terminated"));
    }
    let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) else {
        return Err(problem("waiting to start - no logs yet"));
    };
    Err(problem(&match waiting.reason.as_deref().unwrap_or_default() {
        "ErrImagePull" => "waiting to start: image can't be pulled".to_owned(),
        "ImagePullBackOff" => "waiting to start: trying and failing to pull image".to_owned(),
        reason => format!("waiting to start: {reason}"),
    }))
}

fn status_of<'a>(status: &'a PodStatus, container: &str) -> Option<&'a ContainerStatus> {
    let lists = [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().find(|one| one.name == container)
}

/// The ID as the runtime knows it: without the runtime's name.
pub fn runtime_id(id: &str) -> &str {
    id.trim_matches('"').split_once("://").map_or("", |(_, id)| id)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(container: Value) -> PodStatus {
        serde_json::from_value(json!({ "containerStatuses": [container] })).expect("a status")
    }

    fn ended(id: &str) -> Value {
        json!({ "terminated": { "exitCode": 1, "containerID": id } })
    }

    /// SRV-34, by upstream's table: which instance, or which words.
    #[test]
    fn the_instance_follows_from_the_states() {
        let running = json!({ "running": {} });
        let waiting = |reason: &str| json!({ "waiting": { "reason": reason } });
        let none = json!({});
        type Case<'a> = (&'a str, Value, Value, bool, Result<&'a str, &'a str>);
        let cases: &[Case<'_>] = &[
            ("runs", running.clone(), none.clone(), false, Ok("c://now")),
            ("runs again", running.clone(), ended("c://last"), false, Ok("c://now")),
            ("runs again, previous", running.clone(), ended("c://last"), true, Ok("c://last")),
            (
                "runs, no previous",
                running.clone(),
                none.clone(),
                true,
                Err("previous terminated container \"a\" in pod \"p\" not found"),
            ),
            (
                "previous without an ID",
                running,
                ended(""),
                true,
                Err("previous terminated container \"a\" in pod \"p\" not found"),
            ),
            ("ended", ended("c://ended"), none.clone(), false, Ok("c://ended")),
            ("ended without an ID, with one before", ended(""), ended("c://last"), false, Ok("c://last")),
            ("ended without an ID", ended(""), none.clone(), false, Err("container \"a\" in pod \"p\" is terminated")),
            ("crash loop", waiting("CrashLoopBackOff"), ended("c://last"), false, Ok("c://last")),
            (
                "crash loop without an ID",
                waiting("CrashLoopBackOff"),
                ended(""),
                false,
                Err("container \"a\" in pod \"p\" is terminated"),
            ),
            (
                "waits",
                waiting("ContainerCreating"),
                none.clone(),
                false,
                Err("container \"a\" in pod \"p\" is waiting to start: ContainerCreating"),
            ),
            (
                "pull failed",
                waiting("ErrImagePull"),
                none.clone(),
                false,
                Err("container \"a\" in pod \"p\" is waiting to start: image can't be pulled"),
            ),
            (
                "pull backs off",
                waiting("ImagePullBackOff"),
                none.clone(),
                false,
                Err("container \"a\" in pod \"p\" is waiting to start: trying and failing to pull image"),
            ),
            (
                "no state",
                none.clone(),
                none,
                false,
                Err("container \"a\" in pod \"p\" is waiting to start - no logs yet"),
            ),
        ];
        for (what, state, last, previous, expected) in cases {
            let status = status(json!({ "name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "containerID": "c://now", "state": state, "lastState": last }));
            let found = instance(&status, "p", "a", *previous);
            assert_eq!(found.as_deref().map_err(String::as_str), *expected, "{what}");
        }
        let nothing = PodStatus::default();
        let missing = instance(&nothing, "p", "a", false);
        assert_eq!(missing.expect_err("no status"), "container \"a\" in pod \"p\" is not available");
    }

    #[test]
    fn containers_of_every_kind_are_found() {
        let one = |name: &str| json!({ "name": name, "image": "i" });
        let spec: PodSpec = serde_json::from_value(json!({
            "containers": [one("main")], "initContainers": [one("init")], "ephemeralContainers": [one("debug")],
        }))
        .expect("a spec");
        for (name, there) in [("main", true), ("init", true), ("debug", true), ("none", false), ("", false)] {
            assert_eq!(has_container(&spec, name), there, "{name}");
        }
    }

    #[test]
    fn a_runtimes_name_is_taken_off_an_id() {
        for (id, expected) in [("containerd://abc", "abc"), ("\"docker://x\"", "x"), ("abc", ""), ("", "")] {
            assert_eq!(runtime_id(id), expected, "{id}");
        }
    }
}
