//! Modes of what the agent leaves on the disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::{Node, condition};
use crate::pods::{pod, web, with};

/// All that is below a directory, links as they are; `pods` is left out, for that is the pods' own.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() && entry.file_name() != "pods" {
            found.extend(below(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// SEC-41: keys, states and sockets are for root alone, certificates for all to read, and nothing is for others to write.
#[test]
fn sec_41_what_the_agent_keeps_is_for_root_alone() {
    let Some(mut node) = Node::running() else { return };
    let probe = json!({ "httpGet": { "path": "/healthz", "port": 80 }, "periodSeconds": 1 });
    node.apply(&pod("web", &[with(web("main"), json!({ "readinessProbe": probe }))]));
    node.wait_listed("web", "ready", |pod| condition(pod, "Ready") == "True");
    assert!(node.answer(&["ps"]).is_array());
    let socket = node.socket();
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    node.stop_agent();

    let states = below(&node.dir.join("kubelet"));
    let is_file = |path: &&PathBuf| fs::symlink_metadata(path).unwrap().is_file();
    assert!(states.iter().any(|path| is_file(&path)), "the agent keeps something: {states:?}");
    for path in &states {
        let others = if is_file(&path) { 0o077 } else { 0o027 };
        assert_eq!(mode(path) & others, 0, "{} has mode {:o}", path.display(), mode(path));
    }
    let kept = below(&node.dir.join("pki"));
    let mut keys = 0;
    for path in kept.iter().filter(is_file) {
        let is_key = fs::read_to_string(path).unwrap().contains("PRIVATE KEY");
        keys += usize::from(is_key);
        let others = if is_key { 0o077 } else { 0o022 };
        assert_eq!(mode(path) & others, 0, "{} has mode {:o}", path.display(), mode(path));
    }
    assert!(keys > 0, "{kept:?}");
}
