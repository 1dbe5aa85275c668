//! A container: the whole, mounts, annotations, commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::cri::pod_mapping::facts::DeviceFacts;
use crate::cri::pod_mapping::{ContainerFacts, ImageUser, container_config, needs_hosts_file};
use crate::cri::types::*;
use crate::logic::environment::EnvironmentSources;
use crate::logic::environment::field_path::Addresses;
use crate::logic::formats::go_text::clean_absolute;
use crate::logic::network::host_ips::HostIps;
use crate::logic::objects::object_references::Looked;

pub(super) fn facts() -> ContainerFacts {
    ContainerFacts {
        restart_count: 3,
        image_ref: "sha256:1111".into(),
        environment: EnvironmentSources {
            services: Some(Arc::new(labels(&[("KUBERNETES_SERVICE_HOST", "10.96.0.1")]))),
            addresses: Addresses {
                pod_ips: texts(&["10.0.0.7"]),
                host: HostIps::listed([[192, 0, 2, 1].into()]),
                prefer_ipv6: false,
            },
            ..EnvironmentSources::default()
        },
        resources: LinuxContainerResources { cpu_shares: 2, oom_score_adj: 1000, ..Default::default() },
        etc_hosts_path: Some("/var/lib/kubelet/pods/u/etc-hosts".into()),
        termination_log_path: Some("/var/lib/kubelet/pods/u/containers/app/0a1b2c3d".into()),
        seccomp_root: "/var/lib/kubelet/seccomp".into(),
        ..ContainerFacts::default()
    }
}

fn config(pod_changes: Value, changes: Value, facts: &ContainerFacts) -> Result<ContainerConfig, String> {
    let (pod, container) = with_container(pod_changes, changes);
    container_config(&pod, &container, facts).map_err(|error| error.to_string())
}

fn file(host_path: &str, container_path: &str) -> Mount {
    Mount { host_path: host_path.into(), container_path: container_path.into(), ..Mount::default() }
}

/// The container of a plain pod, field by field.
pub(super) fn plain() -> ContainerConfig {
    ContainerConfig {
        metadata: ContainerMetadata { name: "app".into(), attempt: 3 },
        image: ImageSpec {
            image: "sha256:1111".into(),
            user_specified_image: "busybox".into(),
            ..ImageSpec::default()
        },
        command: vec![],
        args: vec![],
        working_dir: String::new(),
        envs: vec![("KUBERNETES_SERVICE_HOST".into(), b"10.96.0.1".to_vec())],
        mounts: vec![
            file("/var/lib/kubelet/pods/u/etc-hosts", "/etc/hosts"),
            file("/var/lib/kubelet/pods/u/containers/app/0a1b2c3d", "/dev/termination-log"),
        ],
        devices: vec![],
        cdi_devices: vec![],
        labels: labels(&[
            ("io.kubernetes.container.name", "app"),
            ("io.kubernetes.pod.name", "web"),
            ("io.kubernetes.pod.namespace", "shop"),
            ("io.kubernetes.pod.uid", UID),
        ]),
        annotations: labels(&[
            ("io.kubernetes.container.hash", HASH),
            ("io.kubernetes.container.restartCount", "3"),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
            ("io.kubernetes.container.terminationMessagePolicy", "File"),
            ("io.kubernetes.pod.terminationGracePeriod", "30"),
        ]),
        log_path: "app/3.log".into(),
        stdin: false,
        stdin_once: false,
        tty: false,
        stop_signal: None,
        resources: LinuxContainerResources { cpu_shares: 2, oom_score_adj: 1000, ..Default::default() },
        security_context: LinuxContainerSecurityContext {
            namespace_options: NamespaceOptions {
                network: NamespaceMode::Pod,
                pid: NamespaceMode::Container,
                ipc: NamespaceMode::Pod,
                target_id: String::new(),
                userns: Some(UserNamespace { mode: NamespaceMode::Node, uids: vec![], gids: vec![] }),
            },
            run_as_user: Some(0),
            masked_paths: texts(&[
                "/proc/asound",
                "/proc/acpi",
                "/proc/interrupts",
                "/proc/kcore",
                "/proc/keys",
                "/proc/latency_stats",
                "/proc/timer_list",
                "/proc/timer_stats",
                "/proc/sched_debug",
                "/proc/scsi",
                "/sys/firmware",
                "/sys/devices/virtual/powercap",
            ]),
            readonly_paths: texts(&["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]),
            seccomp: Some(SecurityProfile::Unconfined),
            ..LinuxContainerSecurityContext::default()
        },
    }
}

/// FNV-1a of the dump of `{"image":"busybox","name":"app"}`, worked out apart from the code under test.
const HASH: &str = "3ada567e";

/// SEC-23.
#[test]
fn a_plain_pods_container() {
    let found = config(json!({}), json!({}), &facts()).unwrap();
    let expected = plain();
    assert_eq!(found.security_context, expected.security_context);
    assert_eq!(found.annotations, expected.annotations);
    assert_eq!(found.labels, expected.labels);
    assert!(found == expected, "{found:#?}");
}

#[test]
fn a_container_of_many_fields() {
    let changes = json!({
        "command": ["/bin/sh", "-c", "$(GREETING) $(NONE) $$(GREETING)"],
        "args": ["--ip=$(IP)", "$(KUBERNETES_SERVICE_HOST)"],
        "env": [
            { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
            { "name": "GREETING", "value": "hello $(IP)" },
            { "name": "GPU", "value": "own" },
        ],
        "workingDir": "/srv",
        "stdin": true,
        "stdinOnce": true,
        "tty": true,
        "ports": [{ "containerPort": 80, "protocol": "TCP" }],
    });
    let devices = DeviceFacts {
        devices: vec![Device {
            container_path: "/dev/x".into(),
            host_path: "/dev/x0".into(),
            permissions: "rw".into(),
        }],
        cdi_devices: texts(&["vendor.com/x=0"]),
        mounts: vec![file("/host/lib", "/lib/x")],
        variables: vec![("GPU".into(), "plugin".into()), ("CARD".into(), "0".into())],
        annotations: labels(&[("vendor.com/x", "y"), ("io.kubernetes.container.hash", "forged")]),
    };
    let found = config(json!({}), changes, &ContainerFacts { devices: devices.clone(), ..facts() }).unwrap();

    let mut expected = plain();
    expected.command = texts(&["/bin/sh", "-c", "hello 10.0.0.7 $(NONE) $(GREETING)"]);
    expected.args = texts(&["--ip=10.0.0.7", "10.96.0.1"]);
    let envs = [
        ("GPU", "own"),
        ("CARD", "0"),
        ("IP", "10.0.0.7"),
        ("GREETING", "hello 10.0.0.7"),
        ("KUBERNETES_SERVICE_HOST", "10.96.0.1"),
    ];
    expected.envs = envs.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).to_vec();
    expected.working_dir = "/srv".into();
    (expected.stdin, expected.stdin_once, expected.tty) = (true, true, true);
    expected.devices = devices.devices;
    expected.cdi_devices = devices.cdi_devices;
    expected.mounts.insert(0, file("/host/lib", "/lib/x"));
    expected.annotations.insert("vendor.com/x".into(), "y".into());
    let ports = r#"[{"containerPort":80,"protocol":"TCP"}]"#;
    expected.annotations.insert("io.kubernetes.container.ports".into(), ports.into());
    assert_eq!(found.annotations, expected.annotations);
    assert!(found == expected, "{found:#?}");
}

#[test]
fn ports_and_handlers_are_written_as_go_writes_them() {
    let all = json!([
        { "name": "a", "hostPort": 8080, "containerPort": 80, "protocol": "TCP", "hostIP": "::1" },
        { "containerPort": 1, "hostPort": 0, "name": "" },
    ]);
    let handlers = [
        (
            json!({ "exec": { "command": ["a", "<b> & \"c\""] } }),
            r#"{"exec":{"command":["a","\u003cb\u003e \u0026 \"c\""]}}"#,
        ),
        (json!({ "exec": {} }), r#"{"exec":{}}"#),
        (
            json!({ "httpGet": { "port": "web", "path": "/x", "host": "h", "scheme": "HTTP", "httpHeaders": [{ "name": "N", "value": "" }] } }),
            r#"{"httpGet":{"path":"/x","port":"web","host":"h","scheme":"HTTP","httpHeaders":[{"name":"N","value":""}]}}"#,
        ),
        (json!({ "httpGet": { "port": 80 } }), r#"{"httpGet":{"port":80}}"#),
        (json!({ "tcpSocket": { "port": 80, "host": "h" } }), r#"{"tcpSocket":{"port":80,"host":"h"}}"#),
        (json!({ "sleep": { "seconds": 5 } }), r#"{"sleep":{"seconds":5}}"#),
    ];
    for (handler, expected) in handlers {
        let changes = json!({ "ports": all, "lifecycle": { "preStop": handler } });
        let found = config(json!({}), changes, &facts()).unwrap().annotations;
        assert_eq!(found["io.kubernetes.container.preStopHandler"], expected);
        let ports =
            r#"[{"name":"a","hostPort":8080,"containerPort":80,"protocol":"TCP","hostIP":"::1"},{"containerPort":1}]"#;
        assert_eq!(found["io.kubernetes.container.ports"], ports);
    }
}

#[test]
fn grace_periods_are_noted_where_set() {
    let (mut pod, container) = with_container(json!({ "terminationGracePeriodSeconds": null }), json!({}));
    let none = container_config(&pod, &container, &facts()).unwrap().annotations;
    assert!(none.keys().all(|key| !key.contains("GracePeriod")), "{none:?}");
    pod.metadata.deletion_grace_period_seconds = Some(7);
    pod.spec.as_mut().unwrap().termination_grace_period_seconds = Some(0);
    let both = container_config(&pod, &container, &facts()).unwrap().annotations;
    assert_eq!(both["io.kubernetes.pod.deletionGracePeriod"], "7");
    assert_eq!(both["io.kubernetes.pod.terminationGracePeriod"], "0");
}

#[test]
fn the_hosts_file_is_mounted_unless_the_container_has_its_own() {
    let own = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/etc/hosts" }] });
    let near = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/etc/hosts.d" }] });
    let ip = texts(&["10.0.0.7"]);
    let cases = [
        (json!({}), json!({}), ip.clone(), true),
        (json!({}), json!({}), vec![], false),
        (json!({ "hostNetwork": true }), json!({}), vec![], true),
        (json!({}), own.clone(), ip.clone(), false),
        (json!({ "hostNetwork": true }), own, ip.clone(), false),
        (json!({}), near, ip, true),
    ];
    for (pod_changes, changes, pod_ips, expected) in cases {
        let (pod, container) = with_container(pod_changes, changes);
        assert_eq!(needs_hosts_file(&pod, &container, &pod_ips), expected, "{pod_ips:?}");
        let mut facts = ContainerFacts { volume_mounts: vec![file("/v", "/v")], ..facts() };
        facts.environment.addresses.pod_ips = pod_ips;
        let mounts = container_config(&pod, &container, &facts).unwrap().mounts;
        assert_eq!(mounts.iter().any(|mount| mount.host_path.ends_with("etc-hosts")), expected);
    }
}

/// CRI-36.
#[test]
fn mounts_come_in_order_with_labels_and_mappings() {
    let ids = vec![IdMapping { host_id: 65536, container_id: 0, length: 65536 }];
    let facts = ContainerFacts {
        selinux_enabled: true,
        volume_mounts: vec![file("/a", "/x"), file("/b", "/y")],
        devices: DeviceFacts { mounts: vec![file("/d", "/z")], ..DeviceFacts::default() },
        user_namespace: Some(UserNamespace { mode: NamespaceMode::Pod, uids: ids.clone(), gids: ids.clone() }),
        ..facts()
    };
    let volumes = json!([{ "name": "a", "mountPath": "/x" }, { "name": "b", "mountPath": "/y" }]);
    let changes = json!({ "volumeMounts": volumes, "terminationMessagePath": "tmp//../log/./end" });
    let found = config(json!({ "hostUsers": false }), changes, &facts).unwrap().mounts;
    let seen = found.iter().map(|mount| (mount.container_path.as_str(), mount.selinux_relabel)).collect::<Vec<_>>();
    assert_eq!(seen, [("/z", false), ("/x", false), ("/y", false), ("/etc/hosts", true), ("/log/end", true)]);
    assert!(found.iter().all(|mount| mount.uid_mappings == ids && mount.gid_mappings == ids && !mount.readonly));
}

#[test]
fn a_mount_without_its_volume_is_refused_in_upstreams_words() {
    let volumes = json!([{ "name": "a", "mountPath": "/x" }, { "name": "b", "mountPath": "/y" }]);
    let facts = ContainerFacts { volume_mounts: vec![file("/a", "/x")], ..facts() };
    assert_eq!(
        config(json!({}), json!({ "volumeMounts": volumes }), &facts),
        Err("cannot find volume \"b\" to mount into container \"app\"".into())
    );
}

#[test]
fn without_a_path_there_is_no_termination_message() {
    for (path, facts) in [
        (json!(""), facts()),
        (json!(null), facts()),
        (json!("/dev/termination-log"), ContainerFacts { termination_log_path: None, ..facts() }),
    ] {
        let found = config(json!({}), json!({ "terminationMessagePath": path }), &facts).unwrap();
        let paths = found.mounts.iter().map(|mount| mount.container_path.as_str()).collect::<Vec<_>>();
        assert_eq!(paths, ["/etc/hosts"], "{path}");
    }
}

#[test]
fn what_the_protocol_cannot_carry_is_refused() {
    let mut facts = facts();
    let secret = serde_json::from_value(json!({ "data": { "RAW": "/w==" } })).unwrap();
    facts.environment.secrets = BTreeMap::from([("s".to_owned(), Looked::There(Arc::new(secret)))]);
    let from = json!([{ "secretRef": { "name": "s" } }]);
    for field in ["command", "args"] {
        let mut changes = json!({ "envFrom": from });
        changes[field] = json!(["$(RAW)"]);
        let text = format!("{field} of container app is not valid UTF-8 once expanded");
        assert_eq!(config(json!({}), changes, &facts), Err(text));
    }
    let raw = config(json!({}), json!({ "envFrom": from }), &facts).unwrap();
    assert_eq!(raw.envs[0], ("RAW".into(), b"\xff".to_vec()));
}

#[test]
fn a_container_name_that_leaves_the_log_directory_is_refused() {
    for (name, problem) in [("..", "may not be '..'"), ("a/b", "may not contain '/'"), ("", "may not be empty")] {
        let found = config(json!({}), json!({ "name": name }), &facts());
        assert_eq!(found, Err(format!("container name {name:?} cannot be part of a path: {problem}")));
    }
}

#[test]
fn an_environment_that_cannot_be_built_is_told() {
    let env = json!([{ "name": "X", "valueFrom": { "configMapKeyRef": { "name": "cm", "key": "k" } } }]);
    assert_eq!(config(json!({}), json!({ "env": env }), &facts()), Err("configmap \"cm\" not found".into()));
}

#[test]
fn the_images_user_is_a_number_or_a_name() {
    let image = |uid, username: &str| Image { uid, username: username.into(), ..Image::default() };
    assert_eq!(ImageUser::new(None, "name"), ImageUser::Name("name".into()));
    let cases = [
        (Some(image(Some(5), "name")), ImageUser::Uid(5)),
        (Some(image(None, "name")), ImageUser::Name("name".into())),
        (Some(image(None, "")), ImageUser::Uid(0)),
        (None, ImageUser::Uid(0)),
    ];
    for (image, expected) in cases {
        assert_eq!(ImageUser::of(image.as_ref()), expected);
    }
}

#[test]
fn paths_are_cleaned_as_go_does() {
    let cases = [("", "/"), ("a", "/a"), ("/a//b/", "/a/b"), ("/a/./b/../c", "/a/c"), ("../../a", "/a"), ("/..", "/")];
    for (path, expected) in cases {
        assert_eq!(clean_absolute(path), expected, "{path:?}");
    }
}
