//! Pods with user namespaces of their own, over a runtime that has them: containerd 2.0 or newer, and a runc (1.2) or crun
//! that maps mounts. Over any other one such a pod waits.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use podwright::cri::{ContainerStatus, RuntimeService};
use podwright::testing::skips::needs;
use serde_json::{Value, json};

use crate::harness::{Node, http_get, send_signal};
use crate::node::machine::path_text;
use crate::pods::{forever, pod, shell, then_forever, with};

/// Pods with user namespaces that were begun, and those that failed.
const STARTED: &str = "kubelet_started_user_namespaced_pods_total";
const ERRORS: &str = "kubelet_started_user_namespaced_pods_errors_total";

/// IDs of a user namespace: the first outside, the first inside, how many.
type Mapping = [u64; 3];

/// Whether the runtime's default handler can do it.
pub fn has_user_namespaces(node: &Node) -> bool {
    let status = node.cri(async |cri| cri.status().await);
    status.handlers.iter().any(|handler| handler.name.is_empty() && handler.user_namespaces)
}

/// A test with such pods cannot be done over this runtime.
pub fn needs_user_namespaces() {
    needs("CONTAINERD=<folder of version 2, and a runc of version 1.2>");
}

/// The pod's mapping as its container sees it; users and groups alike.
pub fn mapping_in(node: &Node, container: &ContainerStatus) -> Mapping {
    let seen = node.run_in(container, "cat /proc/self/uid_map; cat /proc/self/gid_map");
    let lines: Vec<Vec<u64>> =
        seen.lines().map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect()).collect();
    let [users, groups] = &lines[..] else { panic!("one mapping each: {seen}") };
    assert_eq!(users, groups);
    let [inside, outside, length] = users[..] else { panic!("{seen}") };
    [outside, inside, length]
}

/// How often a counter counted.
fn counted(node: &Node, name: &str) -> u64 {
    let address = format!("127.0.0.1:{}", node.named("READ_ONLY_PORT"));
    let metrics = node.eventually("metrics", || http_get(&address, "/metrics").filter(|(status, _)| *status == 200)).1;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {metrics}"))
}

fn file_of(node: &Node, uid: &str) -> std::path::PathBuf {
    path_text(&node.dir, &format!("kubelet/pods/{uid}/userns")).into()
}

/// The pod's mapping as its file keeps it.
pub fn mapping_on_disk(node: &Node, uid: &str) -> Mapping {
    let text = fs::read(file_of(node, uid)).unwrap();
    let content: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(content["uidMappings"], content["gidMappings"]);
    assert_eq!(content["uidMappings"].as_array().map(Vec::len), Some(1), "{content}");
    ["hostId", "containerId", "length"].map(|field| content["uidMappings"][0][field].as_u64().unwrap())
}

/// The UID of a static pod.
fn uid_of(node: &Node, name: &str) -> String {
    node.sandboxes(name)[0].metadata.uid.clone()
}

fn users_of(node: &Node, container: &ContainerStatus) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", node.pid_of(container.id.as_str()))).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// A pod of its own users, with files of each kind that needs no API server.
fn with_own_users(name: &str) -> Value {
    let script =
        then_forever("echo hello > /disk/greeting; echo hello > /memory/greeting; echo said > /dev/termination-log");
    let mounts = ["disk", "memory", "about"].map(|name| json!({ "name": name, "mountPath": format!("/{name}") }));
    let main = with(shell("main", &script), json!({ "volumeMounts": mounts }));
    let bare = with(forever("bare"), json!({ "securityContext": { "procMount": "Unmasked" } }));
    let items = json!([{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }]);
    let volumes = json!([
        { "name": "disk", "emptyDir": {} },
        { "name": "memory", "emptyDir": { "medium": "Memory" } },
        { "name": "about", "downwardAPI": { "items": items, "defaultMode": 0o400 } },
    ]);
    with(pod(name, &[main, bare]), json!({ "spec": { "hostUsers": false, "volumes": volumes } }))
}

/// RES-63, SEC-26, CRI-36, POD-27: the container's root is nobody on the host, its files are its own all the same, and no
/// other pod has an ID of its.
#[test]
fn a_pod_has_ids_of_its_own_and_its_files_are_its_own() {
    let Some(mut node) = Node::running() else { return };
    if !has_user_namespaces(&node) {
        return needs_user_namespaces();
    }
    for name in ["one", "two"] {
        node.apply(&with_own_users(name));
    }
    let [one, two] = ["one", "two"].map(|name| node.wait_running(name, "main"));
    let [uid, other] = ["one", "two"].map(|name| uid_of(&node, name));
    let (mapping, others) = (mapping_in(&node, &one), mapping_in(&node, &two));
    assert_eq!(mapping_on_disk(&node, &uid), mapping);
    assert_eq!(mapping_on_disk(&node, &other), others);
    assert_eq!((mapping[1], mapping[2], mapping[0] % 65_536), (0, 65_536, 0), "{mapping:?}");
    assert!(mapping[0] >= 65_536 && mapping[0] != others[0], "{mapping:?} and {others:?}");
    assert_eq!(users_of(&node, &one), mapping[0], "its root is not the host's");

    let seen =
        "stat -c '%u %g' /disk /disk/greeting /memory/greeting /about/name /etc/hosts /dev/termination-log /bin/sh";
    node.eventually("the greetings", || node.run_in(&one, "ls /memory").contains("greeting").then_some(()));
    assert_eq!(node.run_in(&one, seen), "0 0\n".repeat(7));
    assert_eq!(node.run_in(&one, "cat /disk/greeting /memory/greeting /about/name"), "hello\nhello\none-node1");
    let greeting = node.dir.join(format!("kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/disk/greeting"));
    assert_eq!(fs::metadata(greeting).unwrap().uid(), 0, "volumes keep their own IDs: the mount is mapped");

    assert_eq!([STARTED, ERRORS].map(|name| counted(&node, name)), [2, 0]);

    // It may do with /proc as it likes: that is its own.
    let bare = node.wait_running("one", "bare");
    assert_eq!(mapping_in(&node, &bare), mapping, "all containers of a pod have the same");
    assert_eq!(node.run_in(&bare, "grep -c ' /proc/' /proc/self/mountinfo || true").trim(), "0", "nothing is masked");

    // Neither a restart of the agent nor one of the container changes it.
    node.kill_agent();
    node.start_agent();
    node.see_a_round();
    assert_eq!(node.wait_running("one", "main").id, one.id);
    send_signal(node.pid_of(one.id.as_str()), "KILL");
    let again = node
        .eventually("another instance", || node.running_now("one", "main").filter(|container| container.id != one.id));
    assert_eq!(mapping_in(&node, &again), mapping);
    assert_eq!(mapping_on_disk(&node, &uid), mapping);

    for name in ["one", "two"] {
        node.delete(name);
        node.wait_gone(name);
    }
    let files = [file_of(&node, &uid), file_of(&node, &other)];
    node.eventually_none("no ranges", || files.iter().filter(|file| file.exists()).collect());
}

/// RES-63: ranges of another size, and few of them: what a pod had is another one's after its end.
#[test]
fn a_range_is_another_pods_after_the_end_of_the_first() {
    let Some(mut node) = Node::new() else { return };
    if !has_user_namespaces(&node) {
        return needs_user_namespaces();
    }
    const SIZE: u64 = 1 << 30;
    // The IDs hold four ranges of this size: the host has the first, and the kernel does not take the last.
    node.configure(json!({ "maxPods": 2, "userNamespaces": { "idsPerPod": SIZE } }));
    node.start_agent();
    let own = |name: &str| with(pod(name, &[forever("main")]), json!({ "spec": { "hostUsers": false } }));
    ["first", "second"].iter().for_each(|name| node.apply(&own(name)));
    let [first, second] = ["first", "second"].map(|name| mapping_in(&node, &node.wait_running(name, "main")));
    let all = BTreeSet::from([first, second]);
    assert_eq!(all, [[SIZE, 0, SIZE], [2 * SIZE, 0, SIZE]].into());
    node.delete("first");
    node.wait_gone("first");
    node.apply(&own("third"));
    let third = node.wait_running("third", "main");
    assert_eq!(mapping_in(&node, &third), first);
}

/// SEC-26: a runtime without user namespaces starts no such pod; the pod waits in upstream's words.
#[test]
fn a_runtime_without_user_namespaces_keeps_such_a_pod_waiting() {
    let Some(node) = Node::running() else { return };
    if has_user_namespaces(&node) {
        return needs("a runtime without user namespaces, such as Debian 12's");
    }
    node.apply(&with(pod("modern", &[forever("main")]), json!({ "spec": { "hostUsers": false } })));
    node.apply(&pod("plain", &[forever("main")]));
    let words = "can't set `spec.hostUsers: false`, runtime does not support user namespaces";
    node.eventually("upstream's words", || node.explained("default/modern-node1").contains(words).then_some(()));
    node.wait_running("plain", "main");
    let shown = node.wait_listed("modern", "pending", |pod| pod["status"]["phase"] == "Pending");
    assert_eq!(shown["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
    assert!(node.sandboxes("modern").is_empty());
    let files = node.dir.join("kubelet/pods");
    let ranges = fs::read_dir(files).unwrap().flatten().filter(|entry| entry.path().join("userns").exists()).count();
    assert_eq!(ranges, 0, "it was given no range");
    let [started, errors] = [STARTED, ERRORS].map(|name| counted(&node, name));
    assert!(started >= errors && errors >= 1, "{started} {errors}");
    node.delete("modern");
    node.eventually("it is gone", || (node.is_listed("modern") == Some(false)).then_some(()));
}
