//! The containers of a pod, from whatever list of its spec.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec};

/// An ephemeral container as an ordinary one: all it has but the container whose processes it joins.
pub fn plain(ephemeral: &EphemeralContainer) -> Container {
    let EphemeralContainer {
        args,
        command,
        env,
        env_from,
        image,
        image_pull_policy,
        lifecycle,
        liveness_probe,
        name,
        ports,
        readiness_probe,
        resize_policy,
        resources,
        restart_policy,
        restart_policy_rules,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        target_container_name: _,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir,
    } = ephemeral.clone();
    Container {
        args,
        command,
        env,
        env_from,
        image,
        image_pull_policy,
        lifecycle,
        liveness_probe,
        name,
        ports,
        readiness_probe,
        resize_policy,
        resources,
        restart_policy,
        restart_policy_rules,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir,
    }
}

/// The ephemeral containers, in the spec's order.
pub fn ephemeral_containers(spec: &PodSpec) -> impl Iterator<Item = Container> {
    spec.ephemeral_containers.iter().flatten().map(plain)
}

/// All containers: init, regular, ephemeral.
pub fn all_containers(pod: &Pod) -> impl Iterator<Item = (ContainerKind, Cow<'_, Container>)> {
    pod.spec.iter().flat_map(|spec| {
        let init = spec.init_containers.iter().flatten().map(|one| (ContainerKind::Init, Cow::Borrowed(one)));
        let regular = spec.containers.iter().map(|one| (ContainerKind::Regular, Cow::Borrowed(one)));
        let ephemeral = ephemeral_containers(spec).map(|one| (ContainerKind::Ephemeral, Cow::Owned(one)));
        init.chain(regular).chain(ephemeral)
    })
}

/// The containers that are started as soon as there is a sandbox: the first init container, or all regular ones.
pub fn first_containers(pod: &Pod) -> &[Container] {
    let Some(spec) = &pod.spec else { return &[] };
    let init = spec.init_containers.as_deref().unwrap_or_default();
    if init.is_empty() { &spec.containers } else { &init[..1] }
}

/// The container of this name; they are unique over all lists.
pub fn find_container<'a>(pod: &'a Pod, name: &str) -> Option<(ContainerKind, Cow<'a, Container>)> {
    all_containers(pod).find(|(_, container)| container.name == name)
}

/// The container whose processes the ephemeral container of this name joins (`targetContainerName`).
pub fn target_name<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let mut ephemeral = pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    let found = ephemeral.find(|one| one.name == name)?;
    found.target_container_name.as_deref().filter(|target| !target.is_empty())
}

/// The list of the spec that a container comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub enum ContainerKind {
    /// `spec.initContainers`.
    Init,
    /// `spec.containers`.
    Regular,
    /// `spec.ephemeralContainers`.
    Ephemeral,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn those_that_come_first_wait_for_nobody() {
        let names = |spec: serde_json::Value| -> Vec<String> {
            let pod: Pod = serde_json::from_value(json!({ "spec": spec })).expect("a pod");
            first_containers(&pod).iter().map(|one| one.name.clone()).collect()
        };
        let of = |names: &[&str]| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
        assert_eq!(names(json!({ "containers": of(&["a", "b"]) })), ["a", "b"]);
        assert_eq!(names(json!({ "initContainers": of(&["i", "j"]), "containers": of(&["a"]) })), ["i"]);
        assert_eq!(names(json!({ "initContainers": [], "containers": of(&["a"]) })), ["a"]);
    }

    /// Every field of the type, so that none is lost on the way.
    #[test]
    fn an_ephemeral_container_keeps_all_it_has() {
        let given = json!({
            "name": "debug", "image": "busybox", "args": ["a"], "command": ["c"], "workingDir": "/w",
            "env": [{ "name": "A", "value": "1" }], "envFrom": [{ "secretRef": { "name": "s" } }],
            "imagePullPolicy": "Always", "stdin": true, "stdinOnce": true, "tty": true,
            "terminationMessagePath": "/t", "terminationMessagePolicy": "File",
            "securityContext": { "privileged": true }, "volumeMounts": [{ "name": "v", "mountPath": "/v" }],
            "volumeDevices": [{ "name": "d", "devicePath": "/d" }], "resources": { "limits": { "cpu": "1" } },
            "targetContainerName": "main",
        });
        let ephemeral: EphemeralContainer = serde_json::from_value(given.clone()).expect("is one");
        let mut expected = given;
        expected.as_object_mut().expect("is an object").remove("targetContainerName");
        assert_eq!(serde_json::to_value(plain(&ephemeral)).expect("is json"), expected);
    }

    #[test]
    fn containers_are_found_in_all_lists() {
        let pod: Pod = serde_json::from_value(json!({ "spec": {
            "containers": [{ "name": "main" }],
            "initContainers": [{ "name": "init" }],
            "ephemeralContainers": [{ "name": "debug", "targetContainerName": "main" }, { "name": "free" }],
        }}))
        .expect("is a pod");
        let kind = |name| find_container(&pod, name).map(|(kind, _)| kind);
        assert_eq!(kind("main"), Some(ContainerKind::Regular));
        assert_eq!(kind("init"), Some(ContainerKind::Init));
        assert_eq!(kind("debug"), Some(ContainerKind::Ephemeral));
        assert_eq!(kind("none"), None);
        assert_eq!((target_name(&pod, "debug"), target_name(&pod, "free")), (Some("main"), None));
    }
}
