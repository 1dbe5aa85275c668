//! The configuration read again while the agent runs, and looked at without an agent.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{AGENT, Node, send_signal};
use crate::pods::{pod, shell};

/// A page of the local socket.
fn page(node: &Node, path: &str) -> String {
    node.eventually("the socket answers", || {
        let mut stream = UnixStream::connect(node.socket()).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        (answer.split_whitespace().nth(1) == Some("200")).then(|| body.to_owned())
    })
}

fn in_force(node: &Node) -> Value {
    // The body comes in pieces whose sizes stand between them.
    let text = page(node, "/configz");
    let json = text.get(text.find('{').expect("JSON")..=text.rfind('}').expect("JSON")).expect("whole");
    serde_json::from_str::<Value>(json).expect("JSON")["kubeletconfig"].clone()
}

fn reload(node: &Node, document: &str) {
    fs::write(node.dir.join("kubelet.yaml"), document).unwrap();
    send_signal(node.agent_pid(), "HUP");
}

fn counted(node: &Node, result: &str) -> bool {
    page(node, "/metrics").contains(&format!("podwright_config_reloads_total{{result=\"{result}\"}} 1"))
}

/// PAIN-35, CFG-52.
#[test]
fn a_changed_file_counts_at_sighup_and_a_broken_one_does_not() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "containerLogMaxSize": "100Mi", "containerLogMonitorInterval": "3s" }));
    node.start_agent();
    let script = "while :; do head -c 4000 /dev/zero | tr '\\0' x; echo; sleep 0.01; done";
    node.apply(&pod("writer", &[shell("main", script)]));
    let container = node.wait_running("writer", "main");
    assert_eq!(in_force(&node)["containerLogMaxSize"], "100Mi");

    node.configure(json!({ "containerLogMaxSize": "64Ki", "maxPods": 7, "logging": { "verbosity": 3 } }));
    reload(&node, &node.configuration.to_string());
    node.eventually("the new size is in force", || (in_force(&node)["containerLogMaxSize"] == "64Ki").then_some(()));
    assert_eq!(in_force(&node)["logging"]["verbosity"], 3);
    assert_ne!(in_force(&node)["maxPods"], 7, "that needs a restart");
    node.wait_for_words(&["these fields differ from what runs, and need a restart", "maxPods"]);
    let log = std::path::PathBuf::from(&container.log_path);
    node.eventually("the log is rotated", || {
        let names = fs::read_dir(log.parent()?).ok()?.flatten();
        (names.count() > 1).then_some(())
    });
    assert!(counted(&node, "success") && !counted(&node, "failure"));

    node.configure(json!({ "containerLogMaxFiles": 1, "imageGCHighThresholdPercent": 101 }));
    reload(&node, &node.configuration.to_string());
    node.wait_for_words(&["the configuration was read again and is refused"]);
    node.wait_for_words(&["wrong configuration", "imageGCHighThresholdPercent"]);
    node.wait_for_words(&["wrong configuration", "containerLogMaxFiles"]);
    assert_eq!(in_force(&node)["containerLogMaxSize"], "64Ki", "what ran goes on");
    assert!(counted(&node, "failure"));
    reload(&node, "maxPods: [");
    node.see_a_round();
    assert!(node.agent_lives() && !node.log().contains("panicked"));
}

#[test]
fn a_configuration_is_checked_without_an_agent() {
    let Some(node) = Node::new() else { return };
    let file = node.dir.join("kubelet.yaml");
    let check = |document: &str| {
        fs::write(&file, document).unwrap();
        let flag = format!("--config={}", file.display());
        let output = Command::new(AGENT).args(["check-config", &flag]).args(&node.flags).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (status, said) = check(&node.configuration.to_string());
    assert_eq!(status, Some(0), "{said}");
    let head = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
    let (status, said) = check(&format!("{head}maxPods: -1\nport: x\n"));
    assert_eq!(status, Some(1), "{said}");
    for line in [3, 4] {
        assert!(said.contains(&format!("error: {}:{line}: ", file.display())), "{said}");
    }
}
