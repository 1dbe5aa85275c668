//! A container's users, namespaces and profiles.

use super::container::{facts, plain};
use super::*;
use crate::cri::pod_mapping::{ContainerFacts, ImageUser, container_config};
use crate::cri::types::*;

/// The security context of a container with these contexts of pod and container.
fn context(of_pod: Value, own: Value, facts: &ContainerFacts) -> Result<LinuxContainerSecurityContext, String> {
    let (pod, container) = with_container(json!({ "securityContext": of_pod }), json!({ "securityContext": own }));
    container_config(&pod, &container, facts).map(|config| config.security_context).map_err(|error| error.to_string())
}

/// SEC-23, SEC-25.
#[test]
fn sec_23_sec_25_every_field_of_a_security_context() {
    let of_pod = json!({
        "runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4, 5],
        "supplementalGroupsPolicy": "Strict", "seLinuxOptions": { "level": "pod" },
        "seccompProfile": { "type": "RuntimeDefault" }, "appArmorProfile": { "type": "RuntimeDefault" },
    });
    let own = json!({
        "runAsUser": 10, "privileged": true, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
        "procMount": "Unmasked", "capabilities": { "add": ["A"], "drop": ["B", "C"] },
        "seLinuxOptions": { "level": "own" }, "seccompProfile": { "type": "Localhost", "localhostProfile": "a/b.json" },
        "appArmorProfile": { "type": "Localhost", "localhostProfile": "mine" },
    });
    let expected = LinuxContainerSecurityContext {
        add_capabilities: texts(&["A"]),
        drop_capabilities: texts(&["B", "C"]),
        add_ambient_capabilities: vec![],
        privileged: true,
        namespace_options: plain().security_context.namespace_options,
        selinux_options: Some(SeLinuxOption { level: "own".into(), ..SeLinuxOption::default() }),
        run_as_user: Some(10),
        run_as_group: Some(2),
        run_as_username: String::new(),
        readonly_rootfs: true,
        supplemental_groups: vec![3, 4, 5, 6],
        supplemental_groups_policy: SupplementalGroupsPolicy::Strict,
        no_new_privs: true,
        masked_paths: vec![],
        readonly_paths: vec![],
        seccomp: Some(SecurityProfile::Localhost("/var/lib/kubelet/seccomp/a/b.json".into())),
        apparmor: Some(SecurityProfile::Localhost("mine".into())),
    };
    let facts = ContainerFacts { volume_groups: vec![6], ..facts() };
    assert_eq!(context(of_pod, own, &facts), Ok(expected));
}

/// SEC-20.
#[test]
fn sec_20_the_user_is_the_containers_the_pods_or_the_images() {
    let cases = [
        (json!({}), json!({}), ImageUser::Uid(7), (Some(7), "")),
        (json!({}), json!({}), ImageUser::Name("www".into()), (None, "www")),
        (json!({ "runAsUser": 1 }), json!({}), ImageUser::Name("www".into()), (Some(1), "")),
        (json!({ "runAsUser": 1 }), json!({ "runAsUser": 0 }), ImageUser::Uid(7), (Some(0), "")),
    ];
    for (of_pod, own, image_user, (uid, name)) in cases {
        let facts = ContainerFacts { image_user, ..facts() };
        let found = context(of_pod, own, &facts).unwrap();
        assert_eq!((found.run_as_user, found.run_as_username.as_str()), (uid, name));
    }
}

/// CVE-2024-40635, SEC-19: also no number that a runtime would cut to 32 bits, and so to root.
#[test]
fn cve_2024_40635_sec_19_run_as_non_root_is_verified() {
    let tail = format!("(pod: \"web_shop({UID})\", container: app)");
    let name = "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root";
    let range = "container has runAsNonRoot and image has an invalid user id (2147483648). (Must be 1-(2147483647)): \
                 must be between 0 and 2147483647, inclusive";
    let non_root = json!({ "runAsNonRoot": true });
    let as_user = |uid: i64| json!({ "runAsNonRoot": true, "runAsUser": uid });
    let cases = [
        (non_root.clone(), json!({}), ImageUser::Uid(5), None),
        (non_root.clone(), json!({}), ImageUser::Uid(0), Some("container has runAsNonRoot and image will run as root")),
        (non_root.clone(), json!({}), ImageUser::Name("www".into()), Some(name)),
        (non_root.clone(), json!({}), ImageUser::Uid(1 << 31), Some(range)),
        (non_root.clone(), json!({}), ImageUser::Uid(1 << 32), Some(&range.replace("2147483648", "4294967296"))),
        (non_root.clone(), json!({ "runAsNonRoot": false }), ImageUser::Uid(0), None),
        (json!({}), as_user(0), ImageUser::Uid(5), Some("container's runAsUser breaks non-root policy")),
        (json!({}), as_user(1), ImageUser::Uid(0), None),
        (as_user(1), json!({}), ImageUser::Name("www".into()), None),
    ];
    for (of_pod, own, image_user, problem) in cases {
        let facts = ContainerFacts { image_user, ..facts() };
        let expected = problem.map(|problem| format!("{problem} {tail}"));
        assert_eq!(context(of_pod, own, &facts).err(), expected);
    }
}

/// CVE-2023-2431, SEC-21, RES-65: a local profile without a name is an error, and never means unconfined.
#[test]
fn cve_2023_2431_sec_21_the_seccomp_profile_has_a_default() {
    let local = |name: Value| json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": name } });
    let of_type = |kind: &str| json!({ "seccompProfile": { "type": kind } });
    let cases = [
        (json!({}), json!({}), false, Ok(SecurityProfile::Unconfined)),
        (json!({}), json!({}), true, Ok(SecurityProfile::RuntimeDefault)),
        (of_type("Unconfined"), json!({}), true, Ok(SecurityProfile::Unconfined)),
        (of_type("Unconfined"), of_type("RuntimeDefault"), false, Ok(SecurityProfile::RuntimeDefault)),
        (local(json!("p")), json!({}), false, Ok(SecurityProfile::Localhost("/var/lib/kubelet/seccomp/p".into()))),
        (
            json!({}),
            local(json!("")),
            false,
            Err("localhostProfile must be set if seccompProfile type is Localhost.".to_owned()),
        ),
        (
            local(json!(null)),
            json!({}),
            true,
            Err("localhostProfile must be set if seccompProfile type is Localhost.".to_owned()),
        ),
        (
            json!({}),
            local(json!("a/../../x")),
            false,
            Err("localhostProfile \"a/../../x\" of seccompProfile leaves the directory of profiles".to_owned()),
        ),
    ];
    for (of_pod, own, seccomp_default, expected) in cases {
        let facts = ContainerFacts { seccomp_default, ..facts() };
        let found = context(of_pod, own, &facts).map(|context| context.seccomp);
        assert_eq!(found, expected.map(Some));
    }
}

#[test]
fn the_apparmor_profile_is_the_containers_the_annotations_or_the_pods() {
    let of_type = |kind: &str| json!({ "appArmorProfile": { "type": kind } });
    let local = SecurityProfile::Localhost("p".into());
    let cases = [
        (json!({}), json!({}), None, Ok(None)),
        (of_type("Unconfined"), json!({}), None, Ok(Some(SecurityProfile::Unconfined))),
        (of_type("Unconfined"), json!({}), Some("runtime/default"), Ok(Some(SecurityProfile::RuntimeDefault))),
        (of_type("RuntimeDefault"), json!({}), Some("unconfined"), Ok(Some(SecurityProfile::Unconfined))),
        (of_type("RuntimeDefault"), json!({}), Some("localhost/p"), Ok(Some(local))),
        (of_type("RuntimeDefault"), json!({}), Some("nonsense"), Ok(Some(SecurityProfile::RuntimeDefault))),
        (json!({}), of_type("RuntimeDefault"), Some("unconfined"), Ok(Some(SecurityProfile::RuntimeDefault))),
        (json!({}), of_type("Localhost"), None, Err("missing localhost apparmor profile name")),
        (json!({}), of_type("Odd"), None, Err("unknown apparmor profile type: \"Odd\"")),
    ];
    for (of_pod, own, annotation, expected) in cases {
        let (mut pod, container) =
            with_container(json!({ "securityContext": of_pod }), json!({ "securityContext": own }));
        if let Some(value) = annotation {
            let key = "container.apparmor.security.beta.kubernetes.io/app".to_owned();
            pod.metadata.annotations.as_mut().unwrap().insert(key, value.to_owned());
        }
        let found = container_config(&pod, &container, &facts()).map(|config| config.security_context.apparmor);
        assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{annotation:?}");
    }
}

#[test]
fn privileges_may_only_be_gained_unless_forbidden() {
    for (own, expected) in [
        (json!({}), false),
        (json!({ "allowPrivilegeEscalation": true }), false),
        (json!({ "allowPrivilegeEscalation": false }), true),
    ] {
        assert_eq!(context(json!({}), own, &facts()).unwrap().no_new_privs, expected);
    }
}

#[test]
fn the_nodes_thermal_files_are_masked_too() {
    let path = "/sys/devices/system/cpu/cpu0/thermal_throttle";
    let facts = ContainerFacts { thermal_throttle_paths: texts(&[path]), ..facts() };
    let found = context(json!({}), json!({ "procMount": "Default" }), &facts).unwrap();
    assert_eq!(found.masked_paths.len(), 13);
    assert_eq!(found.masked_paths[12], path);
    assert_eq!(found.readonly_paths.len(), 5);
}

#[test]
fn processes_are_shared_as_the_pod_says() {
    let target = || Some("t".into());
    let cases = [
        (json!({}), None, NamespaceMode::Container, ""),
        (json!({}), target(), NamespaceMode::Target, "t"),
        (json!({ "shareProcessNamespace": true }), target(), NamespaceMode::Pod, ""),
        (json!({ "hostPID": true }), target(), NamespaceMode::Node, ""),
    ];
    for (changes, target, pid, target_id) in cases {
        let (pod, container) = with_container(changes, json!({}));
        let config = container_config(&pod, &container, &ContainerFacts { target, ..facts() }).unwrap();
        let found = config.security_context.namespace_options;
        assert_eq!((found.pid, found.target_id.as_str()), (pid, target_id));
    }
}
