//! The runtime's answers as decisions see them.

use super::*;
use crate::cri::pod_mapping::{
    pod_identity, runtime_container, runtime_pod, runtime_sandbox, termination_message_file,
};
use crate::cri::types::*;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::runtime_pod::{ContainerProcess, RuntimeContainer, RuntimeResources, RuntimeSandbox};
use crate::logic::model::time::{Moment, Stamp};

fn container_status(id: &str, created_at: i64, annotations: Labels) -> ContainerStatus {
    ContainerStatus {
        id: id.into(),
        metadata: ContainerMetadata { name: "app".into(), attempt: 9 },
        state: ContainerState::Exited,
        created_at: Moment(created_at),
        started_at: Moment(2),
        finished_at: Moment(3),
        exit_code: 4,
        image: "busybox:latest".into(),
        image_ref: "sha256:1".into(),
        image_id: "sha256:2".into(),
        reason: "Error".into(),
        message: "why".into(),
        labels: labels(&[]),
        annotations,
        mounts: vec![
            Mount { container_path: "/data".into(), host_path: "/srv".into(), ..Mount::default() },
            Mount {
                container_path: "/models/".into(),
                image: Some(ImageSpec { image: "sha256:3".into(), ..ImageSpec::default() }),
                ..Mount::default()
            },
        ],
        log_path: "/var/log/pods/x/app/0.log".into(),
        resources: Some(LinuxContainerResources {
            cpu_shares: 102,
            cpu_quota: 25_000,
            cpu_period: 100_000,
            memory_limit_in_bytes: 64 << 20,
            ..LinuxContainerResources::default()
        }),
        user: Some(LinuxContainerUser { uid: 1, gid: 2, supplemental_groups: vec![3] }),
        stop_signal: Some("SIGUSR1".into()),
    }
}

fn sandbox_status(
    id: &str,
    attempt: u32,
    created_at: i64,
    ips: &[&str],
    network_mode: NamespaceMode,
) -> PodSandboxStatus {
    PodSandboxStatus {
        id: id.into(),
        metadata: PodSandboxMetadata { name: "web".into(), uid: UID.into(), namespace: "shop".into(), attempt },
        state: SandboxState::Ready,
        created_at: Moment(created_at),
        ips: texts(ips),
        lacks_address: ips.first() == Some(&""),
        network_mode,
        labels: labels(&[]),
        annotations: labels(&[]),
        runtime_handler: String::new(),
    }
}

#[test]
fn a_container_is_known_by_its_annotations() {
    let annotations =
        labels(&[("io.kubernetes.container.hash", "8e45cbd0"), ("io.kubernetes.container.restartCount", "5")]);
    let expected = RuntimeContainer {
        id: "c".into(),
        sandbox_id: "s".into(),
        name: "app".into(),
        restart_count: 5,
        hash: "8e45cbd0".into(),
        process: ContainerProcess {
            image: "busybox:latest".into(),
            image_ref: "sha256:1".into(),
            user: Some((1, 2, vec![3])),
            stop_signal: Some("SIGUSR1".into()),
            image_mounts: [("/models".into(), "sha256:3".into())].into(),
        },
        state: ContainerState::Exited,
        created_at: Moment(1),
        started_at: Moment(2),
        finished_at: Moment(3),
        exit_code: 4,
        reason: "Error".into(),
        message: "why".into(),
        log_path: "/var/log/pods/x/app/0.log".into(),
        resources: Some(RuntimeResources {
            cpu_request: Some(100),
            cpu_limit: Some(250),
            memory_limit: Some(64 << 20),
        }),
    };
    let status = container_status("c", 1, annotations);
    assert_eq!(runtime_container(&status, &"s".into(), true), expected);
    let process = ContainerProcess { stop_signal: None, ..expected.process.clone() };
    let silent = RuntimeContainer { process, ..expected };
    assert_eq!(runtime_container(&status, &"s".into(), false), silent);
}

#[test]
fn what_is_missing_or_broken_counts_as_nothing() {
    type Annotations<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Annotations<'_>, &str, u32); 4] = [
        (&[], "", 0),
        (&[("io.kubernetes.container.hash", "xyz"), ("io.kubernetes.container.restartCount", "-1")], "", 0),
        (&[("io.kubernetes.container.hash", "00ABC"), ("io.kubernetes.container.restartCount", "")], "abc", 0),
        (&[("io.kubernetes.container.hash", ""), ("io.kubernetes.container.restartCount", "2")], "", 2),
    ];
    for (annotations, hash, restart_count) in cases {
        let found = runtime_container(&container_status("c", 1, labels(annotations)), &"s".into(), true);
        assert_eq!((found.hash.as_str(), found.restart_count), (hash, restart_count), "{annotations:?}");
    }
}

#[test]
fn a_hash_written_is_the_hash_read() {
    let (pod, container) = with_container(json!({}), json!({}));
    let facts = super::container::facts();
    let config = crate::cri::pod_mapping::container_config(&pod, &container, &facts).unwrap();
    let found = runtime_container(&container_status("c", 1, config.annotations), &"s".into(), true);
    assert_eq!(found.hash, crate::logic::pods::container_hash::container_hash("app", "busybox"));
    assert_eq!(found.restart_count, facts.restart_count);
    assert_eq!(pod_identity(&config.labels), Some((PodUid::from(UID), FullName::new("web", "shop"))));
}

#[test]
fn the_termination_message_is_found_however_its_path_is_written() {
    for path in ["/dev/termination-log", "dev/termination-log", "/dev//x/../termination-log/", "/other", ""] {
        let (pod, container) = with_container(json!({}), json!({ "terminationMessagePath": path }));
        let facts = super::container::facts();
        let config = crate::cri::pod_mapping::container_config(&pod, &container, &facts).unwrap();
        let status = ContainerStatus { mounts: config.mounts, ..container_status("c", 1, config.annotations) };
        let expected = facts.termination_log_path.as_deref().filter(|_| !path.is_empty());
        assert_eq!(termination_message_file(&status), expected, "{path:?}");
    }
    assert_eq!(termination_message_file(&container_status("c", 1, labels(&[]))), None);
}

#[test]
fn a_pod_is_known_by_all_three_labels() {
    let all = [("io.kubernetes.pod.uid", "u"), ("io.kubernetes.pod.name", "n"), ("io.kubernetes.pod.namespace", "s")];
    assert_eq!(pod_identity(&labels(&all)), Some((PodUid::from("u"), FullName::new("n", "s"))));
    for index in 0..3 {
        let mut fewer = all.to_vec();
        fewer.remove(index);
        assert_eq!(pod_identity(&labels(&fewer)), None, "without {}", all[index].0);
        let mut empty = all;
        empty[index].1 = "";
        assert_eq!(pod_identity(&labels(&empty)), None, "empty {}", all[index].0);
    }
}

#[test]
fn a_sandbox_tells_its_addresses_if_they_are_its_own() {
    let cases: [(&[&str], NamespaceMode, &[&str]); 6] = [
        (&["10.0.0.7", "fd00::7"], NamespaceMode::Pod, &["10.0.0.7", "fd00::7"]),
        (&[""], NamespaceMode::Pod, &[]),
        (&["", "fd00::7"], NamespaceMode::Pod, &["fd00::7"]),
        (&["10.0.0.7", "nonsense"], NamespaceMode::Pod, &[]),
        (&["192.0.2.1"], NamespaceMode::Node, &[]),
        (&[], NamespaceMode::Node, &[]),
    ];
    for (ips, mode, expected) in cases {
        let expected = RuntimeSandbox {
            id: "s".into(),
            attempt: 1,
            state: SandboxState::Ready,
            created_at: Moment(5),
            host_network: mode == NamespaceMode::Node,
            ips: texts(expected),
            lacks_address: ips.first() == Some(&""),
        };
        assert_eq!(runtime_sandbox(&sandbox_status("s", 1, 5, ips, mode)), expected);
    }
}

#[test]
fn the_newest_comes_first() {
    let sandbox = |id: &str, attempt, created_at| {
        runtime_sandbox(&sandbox_status(id, attempt, created_at, &[], NamespaceMode::Pod))
    };
    let container =
        |id: &str, created_at| runtime_container(&container_status(id, created_at, labels(&[])), &"s".into(), true);
    let found = runtime_pod(
        PodUid::from(UID),
        FullName::new("web", "shop"),
        vec![sandbox("old", 0, 9), sandbox("b", 2, 1), sandbox("a", 2, 1), sandbox("new", 2, 3)],
        vec![container("old", 1), container("b", 5), container("a", 5), container("new", 7)],
        Stamp(4),
    );
    let sandboxes = found.sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect::<Vec<_>>();
    let containers = found.containers.iter().map(|container| container.id.as_str()).collect::<Vec<_>>();
    assert_eq!(sandboxes, ["new", "a", "b", "old"]);
    assert_eq!(containers, ["new", "a", "b", "old"]);
    let counted = |id: &str, count: &str, created_at| {
        let annotations = labels(&[("io.kubernetes.container.restartCount", count)]);
        runtime_container(&container_status(id, created_at, annotations), &"s".into(), true)
    };
    // The clock was set back between the making of the second and the third.
    let made = vec![counted("first", "0", 100), counted("second", "1", 200), counted("third", "2", 50)];
    let stepped = runtime_pod(PodUid::from(UID), FullName::new("web", "shop"), vec![], made, Stamp(4));
    let order = stepped.containers.iter().map(|container| container.id.as_str()).collect::<Vec<_>>();
    assert_eq!(order, ["third", "second", "first"], "by restart count, whatever the clock showed");
    assert_eq!((found.uid.as_str(), found.taken), (UID, Stamp(4)));
}
