//! The agent's local socket, tried from containers that see it and from the node.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{AGENT, Node};
use crate::pods::{forever, pod, with};

/// The dynamic loader of the test's own program, and the directory of its C library: with them a program of the node
/// runs in a container that sees the node's files, and needs no capability for that.
fn loader() -> (PathBuf, PathBuf) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = |name: &str| {
        let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).map(PathBuf::from);
        let named = |path: &PathBuf| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name));
        paths.find(named).unwrap_or_else(|| panic!("no {name} in {maps}"))
    };
    (mapped("ld-linux"), mapped("libc.so").parent().unwrap().to_owned())
}

/// A pod as a monitoring agent or a CSI driver is: root, with the node's directories.
fn nosy(node: &Node, name: &str, spec: Value, context: Value) -> Value {
    let places = [("run", node.dir.join("run")), ("root-dir", node.dir.join("kubelet")), ("host", PathBuf::from("/"))];
    let mounts =
        places.iter().map(|(name, _)| json!({ "name": name, "mountPath": format!("/{name}"), "readOnly": true }));
    let volumes = places.iter().map(|(name, path)| json!({ "name": name, "hostPath": { "path": path } }));
    let main = json!({ "volumeMounts": mounts.collect::<Vec<_>>(), "securityContext": context });
    let spec = with(json!({ "volumes": volumes.collect::<Vec<_>>() }), spec);
    with(pod(name, &[with(forever("main"), main)]), json!({ "spec": spec }))
}

/// Whether a command reached somebody who told it nothing.
fn is_refusal(said: &str) -> bool {
    said.ends_with("end 1\n") && !said.contains("cannot reach") && !said.contains("plain")
}

/// Root in a container gets nothing out of the socket, however it reaches it. That holds with or without capabilities, with
/// the node's processes in sight or not. Root on the node does, also by way of `nsenter`.
#[test]
fn no_container_is_answered_at_the_local_socket_and_the_node_is() {
    let Some(node) = Node::running() else { return };
    let nothing = json!({ "capabilities": { "drop": ["ALL"] }, "readOnlyRootFilesystem": true });
    node.apply(&nosy(&node, "plain", json!({}), json!({})));
    node.apply(&nosy(&node, "powerless", json!({}), nothing));
    node.apply(&nosy(
        &node,
        "host-pid",
        json!({ "hostPID": true, "hostNetwork": true }),
        json!({ "privileged": true }),
    ));
    assert!(node.answer(&["ps"]).is_array(), "the node is answered");

    let (loader, libraries) = loader();
    let host = |path: &Path| format!("/host{}", path.display());
    let agent = Path::new(AGENT);
    let loaded = format!("{} --library-path {} {}", host(&loader), host(&libraries), host(agent));
    let seen_at = ["/run/podwright.sock".to_owned(), host(&node.socket())];
    for name in ["plain", "powerless", "host-pid"] {
        let main = node.wait_running(name, "main");
        assert_eq!(
            node.run_in(&main, "ls /root-dir | grep -c sock || true").trim(),
            "0",
            "the root directory has none"
        );
        for socket in &seen_at {
            let script = format!("test -S {socket} && echo seen; {loaded} ps --socket {socket} 2>&1; echo end $?");
            let found = node.run_in(&main, &script);
            assert!(found.starts_with("seen\n") && is_refusal(&found), "{name} at {socket}: {found}");
        }
    }
    // As `chroot /host` of a debugging pod, which leaves the mount namespace as it is.
    let main = node.wait_running("host-pid", "main");
    let asked = format!("{AGENT} ps --socket {} 2>&1; echo end $?", node.socket().display());
    let found = node.run_in(&main, &format!("busybox chroot /host {asked}"));
    assert!(is_refusal(&found), "{found}");
    node.wait_for_words(&["turned away at the local socket", "is in another pid namespace than the agent"]);

    let entered = format!("busybox nsenter -t {} -m -u -i -n {asked}", node.agent_pid());
    let found = node.run_in(&main, &entered);
    assert!(found.ends_with("end 0\n") && found.contains("plain"), "{found}");
    let output = Command::new(AGENT).args(["ps", "--socket"]).arg(node.socket()).output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("powerless"), "{output:?}");
}
