//! A static pod's life: it runs as its manifest says, is replaced when that changes, and leaves nothing behind.

use std::path::{Path, PathBuf};

use podwright::cri::{ContainerState, SandboxState};
use podwright::logic::pods::container_hash::container_hash;
use serde_json::json;

use crate::harness::Node;
use crate::pods::{CLIENT, forever, pod, shell, then_forever, with};

/// POD-01, POD-05, CRI-06, CRI-08, CRI-13, CRI-14, CRI-15, CFG-34.
#[test]
fn a_pod_from_a_manifest_runs_as_the_manifest_says() {
    let Some(node) = Node::running() else { return };
    let main = with(
        shell("main", &then_forever("echo \"$GREETING $NAME $NODE $(GREETING)\"; pwd; echo \"$0\" \"$@\"")),
        json!({
            "args": ["first", "$(GREETING)", "$$(GREETING)"],
            "workingDir": "/tmp",
            "env": [
                { "name": "GREETING", "value": "hello" },
                { "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                { "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
            ],
            "ports": [{ "name": "http", "containerPort": 80 }],
        }),
    );
    node.apply(&with(
        pod("web", &[main]),
        json!({ "metadata": { "labels": { "app": "web" }, "annotations": { "example.com/note": "kept" } } }),
    ));
    let container = node.wait_running("web", "main");
    let sandbox = &node.sandboxes("web")[0];

    assert_eq!(sandbox.state, SandboxState::Ready);
    assert_eq!(sandbox.metadata.name, "web-node1");
    assert_eq!(sandbox.metadata.namespace, "default");
    assert_eq!(sandbox.metadata.attempt, 0);
    let uid = &sandbox.metadata.uid;
    for (key, value) in [
        ("app", "web"),
        ("io.kubernetes.pod.name", "web-node1"),
        ("io.kubernetes.pod.namespace", "default"),
        ("io.kubernetes.pod.uid", uid),
    ] {
        assert_eq!(sandbox.labels.get(key).map(String::as_str), Some(value), "sandbox label {key}");
    }
    for (key, value) in
        [("example.com/note", "kept"), ("kubernetes.io/config.source", "file"), ("kubernetes.io/config.hash", uid)]
    {
        assert_eq!(sandbox.annotations.get(key).map(String::as_str), Some(value), "sandbox annotation {key}");
    }
    assert!(sandbox.annotations.contains_key("kubernetes.io/config.seen"));
    assert_eq!(sandbox.ips.len(), 1, "one address from the network: {:?}", sandbox.ips);

    assert_eq!(container.labels.get("app"), None, "a pod's labels are not its containers'");
    for (key, value) in [
        ("io.kubernetes.container.name", "main"),
        ("io.kubernetes.pod.name", "web-node1"),
        ("io.kubernetes.pod.namespace", "default"),
        ("io.kubernetes.pod.uid", uid),
    ] {
        assert_eq!(container.labels.get(key).map(String::as_str), Some(value), "container label {key}");
    }
    let hash = container_hash("main", CLIENT);
    for (key, value) in [
        ("io.kubernetes.container.hash", hash.as_str()),
        ("io.kubernetes.container.restartCount", "0"),
        ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
        ("io.kubernetes.container.terminationMessagePolicy", "File"),
        ("io.kubernetes.pod.terminationGracePeriod", "2"),
        ("io.kubernetes.container.ports", r#"[{"name":"http","containerPort":80,"protocol":"TCP"}]"#),
    ] {
        assert_eq!(container.annotations.get(key).map(String::as_str), Some(value), "container annotation {key}");
    }
    let said = node.eventually("the container speaks", || {
        let said = node.output(&container);
        (said.lines().count() >= 3).then_some(said)
    });
    // The shell is no place for `$(GREETING)` of its own script: it was expanded before.
    assert_eq!(said, "hello web-node1 node1 hello\n/tmp\nfirst hello $(GREETING)\n");
}

/// POD-01, POD-09, PAIN-07: an edit makes a new pod, which starts when the old one is gone.
#[test]
fn an_edited_manifest_replaces_the_pod_after_the_old_one_is_gone() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[shell("main", &then_forever("echo one"))]));
    let old = node.wait_running("web", "main");
    let old_uid = old.labels["io.kubernetes.pod.uid"].clone();
    // Takes its time to end, so that a hasty successor would be seen beside it.
    node.apply(&pod("web", &[shell("main", &then_forever("echo two"))]));
    let mut together = 0;
    let new = node.eventually("the new pod runs", || {
        let running: Vec<_> =
            node.all_containers("web").into_iter().filter(|one| one.state == ContainerState::Running).collect();
        together = together.max(running.len());
        running.into_iter().find(|one| one.labels["io.kubernetes.pod.uid"] != old_uid)
    });
    assert_eq!(together, 1, "never two at a time");
    assert_eq!(new.metadata.attempt, 0, "a new pod, not a restart");
    node.eventually("the new container speaks", || (node.output(&new) == "two\n").then_some(()));
    node.eventually("the old pod is gone from the runtime", || (node.sandboxes("web").len() == 1).then_some(()));
    assert!(node.all_containers("web").iter().all(|one| one.id == new.id));
}

/// EVI-45, POD-14, RES-08, CRI-16, CRI-19, CRI-20: sandboxes go with the pod.
#[test]
fn a_removed_manifest_leaves_nothing_behind() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main"), forever("second")]));
    node.apply(&pod("stays", &[forever("main")]));
    let container = node.wait_running("web", "main");
    node.wait_running("web", "second");
    let stays = node.wait_running("stays", "main");
    let uid = container.labels["io.kubernetes.pod.uid"].clone();
    assert!(!places_of(&node, &uid).is_empty());
    assert!(!cgroups_of(&node, &uid).is_empty());
    node.eventually("both logs are linked", || (links_of(&node, "web").len() == 2).then_some(()));

    node.delete("web");
    node.wait_gone("web");
    node.eventually_none("no cgroups and directories", || [cgroups_of(&node, &uid), places_of(&node, &uid)].concat());
    assert_eq!(node.running_now("stays", "main").map(|one| one.id), Some(stays.id), "its neighbour is untouched");
}

/// The directory of a pod.
pub fn places_of(node: &Node, uid: &str) -> Vec<PathBuf> {
    named_for(uid, &node.dir.join("kubelet/pods"))
}

/// The directory of a pod's logs, which outlives the pod by a minute or two.
pub fn logs_of(node: &Node, uid: &str) -> Vec<PathBuf> {
    named_for(uid, &node.dir.join("logs"))
}

fn named_for(uid: &str, folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|path| path.to_str().unwrap().ends_with(uid)).collect()
}

/// The links to a pod's logs.
pub fn links_of(node: &Node, pod: &str) -> Vec<PathBuf> {
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&format!("{pod}-node1_")) && std::fs::read_link(path).is_ok_and(|to| to.starts_with(&node.dir))
    };
    entries(Path::new("/var/log/containers")).into_iter().filter(ours).collect()
}

/// The cgroups of a pod, in every hierarchy.
pub fn cgroups_of(node: &Node, uid: &str) -> Vec<PathBuf> {
    let root = node.named("CGROUP_ROOT").trim_start_matches('/');
    let hierarchies = std::iter::once(PathBuf::from("/sys/fs/cgroup")).chain(entries(Path::new("/sys/fs/cgroup")));
    let tiers = hierarchies.flat_map(|mount| {
        ["kubepods", "kubepods/burstable", "kubepods/besteffort"].map(|tier| mount.join(root).join(tier))
    });
    tiers.map(|tier| tier.join(format!("pod{uid}"))).filter(|place| place.exists()).collect()
}

/// The entries of a folder; nothing when there is none.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).map_or(vec![], |found| found.map(|entry| entry.unwrap().path()).collect())
}
