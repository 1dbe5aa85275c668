//! What a container may do: asked from inside of it, on a real kernel.
//!
//! CRI-09, SEC-19, SEC-21, SEC-23, SEC-25.

use serde_json::{Value, json};

use crate::harness::{Node, container_status};
use crate::pods::{forever, pod, with};

/// A container that runs as nobody in particular, with `context`.
fn confined(name: &str, context: Value) -> Value {
    with(forever(name), json!({ "securityContext": context }))
}

/// A field of `/proc/self/status`.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
}

/// CRI-09, SEC-25: users, groups, capabilities, privileges and the root file system are the container's, else the pod's.
#[test]
fn a_container_is_who_the_pod_says_and_may_do_no_more() {
    let Some(node) = Node::running() else { return };
    let narrow = confined(
        "narrow",
        json!({
            "runAsUser": 1001, "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] },
            "seccompProfile": { "type": "RuntimeDefault" },
        }),
    );
    let root = confined("root", json!({ "runAsUser": 0, "runAsNonRoot": false, "capabilities": { "drop": ["ALL"] } }));
    let wide = confined("wide", json!({ "privileged": true, "runAsUser": 0, "runAsNonRoot": false }));
    let context = json!({
        "runAsUser": 1000, "runAsGroup": 2000, "runAsNonRoot": true, "fsGroup": 3000, "supplementalGroups": [4000],
    });
    let wanted = with(
        pod("who", &[narrow, forever("plain"), root, wide]),
        json!({ "spec": { "securityContext": context, "shareProcessNamespace": true } }),
    );
    node.apply(&wanted);

    let narrow = node.wait_running("who", "narrow");
    assert_eq!(
        node.run_in(&narrow, "id -u; id -g; id -G").split_whitespace().collect::<Vec<_>>()[..2],
        ["1001", "2000"]
    );
    let groups = node.run_in(&narrow, "id -G");
    for group in ["2000", "3000", "4000"] {
        assert!(groups.split_whitespace().any(|one| one == group), "{groups}");
    }
    // What counts is the container's first process: `exec` could differ.
    let status = node.run_in(&narrow, "cat /proc/self/status");
    // An ordinary user has none of them until it runs a program that may raise them.
    assert_eq!(field(&status, "CapBnd"), "0000000000000400", "NET_BIND_SERVICE alone");
    assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), ("1", "2"));
    assert_eq!(node.run_in(&narrow, "touch /here 2>/dev/null || echo refused").trim(), "refused");
    assert_eq!(node.run_in(&narrow, "grep -c ' /proc/sys ' /proc/self/mountinfo").trim(), "1", "read-only");

    let plain = node.wait_running("who", "plain");
    let status = node.run_in(&plain, "cat /proc/self/status");
    assert_eq!(field(&status, "Uid").split_whitespace().next(), Some("1000"));
    assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), ("0", "0"), "unconfined unless asked for");
    // All see each other: the first process is the sandbox's.
    let processes = node.run_in(&plain, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '");
    assert!(processes.contains("pause") && processes.matches("sleep").count() >= 4, "{processes}");

    let root = node.wait_running("who", "root");
    let status = node.run_in(&root, "cat /proc/self/status");
    assert_eq!(field(&status, "Uid").split_whitespace().next(), Some("0"));
    assert_eq!((field(&status, "CapBnd"), field(&status, "CapEff")), ("0000000000000000", "0000000000000000"));

    let wide = node.wait_running("who", "wide");
    let status = node.run_in(&wide, "cat /proc/self/status");
    assert_eq!((field(&status, "Seccomp"), field(&status, "NoNewPrivs")), ("0", "0"));
    let all = std::fs::read_to_string("/proc/self/status").unwrap();
    assert_eq!(field(&status, "CapEff"), field(&all, "CapBnd"), "all that the host gives");
    node.delete("who");
    node.wait_gone("who");
}

/// SEC-19, SEC-21: what cannot be made safe does not start, and says why.
#[test]
fn a_container_that_would_be_root_or_unconfined_does_not_start() {
    let Some(node) = Node::running() else { return };
    let missing = json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": "none.json" } });
    node.apply(&pod(
        "refused",
        &[
            confined("image", json!({ "runAsNonRoot": true })),
            confined("zero", json!({ "runAsNonRoot": true, "runAsUser": 0 })),
            confined("file", missing),
            forever("fine"),
        ],
    ));
    node.wait_running("refused", "fine");
    let why = |shown: &Value, name: &str| container_status(shown, name)["state"]["waiting"].clone();
    let shown = node.wait_shown("refused", "with the reasons", |shown| {
        ["image", "zero", "file"].iter().all(|name| why(shown, name)["message"].is_string())
    });
    for (name, reason, message) in [
        ("image", "CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
        ("zero", "CreateContainerConfigError", "container's runAsUser breaks non-root policy"),
        ("file", "CreateContainerError", "none.json"),
    ] {
        let waiting = why(&shown, name);
        assert_eq!(waiting["reason"], reason, "{waiting}");
        assert!(waiting["message"].as_str().unwrap().contains(message), "{waiting}");
    }
    for name in ["image", "zero", "file"] {
        assert!(node.running_now("refused", name).is_none(), "{name}");
    }
}

/// CRI-09: a pod may share the host's processes and messages.
#[test]
fn a_pod_sees_the_hosts_processes_where_it_may() {
    let Some(node) = Node::running() else { return };
    node.apply(&with(pod("host", &[forever("main")]), json!({ "spec": { "hostPID": true, "hostIPC": true } })));
    node.apply(&pod("own", &[forever("main")]));
    let namespace = |name: &str| {
        let running = node.wait_running(name, "main");
        node.run_in(&running, "readlink /proc/self/ns/pid; readlink /proc/self/ns/ipc")
    };
    let mine = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string();
    let host = format!("{}\n{}\n", mine("pid"), mine("ipc"));
    assert_eq!(namespace("host"), host);
    let own = namespace("own");
    for line in host.lines() {
        assert!(!own.contains(line), "{own}");
    }
}
