//! The runtime's event stream, where the runtime has one: `CONTAINERD=<folder of containerd 2.1 or newer>`.

use std::time::Duration;

use podwright::testing::skips::needs;

use crate::harness::{Node, http_get, send_signal};
use crate::pods::restarts::another;
use crate::pods::{forever, pod};

/// Whether this runtime has the stream, by its version: the agent is not asked.
fn has_stream(node: &Node) -> bool {
    node.runtime_major() >= 2
}

/// How often the agent has listed all sandboxes so far.
fn looks(node: &Node) -> f64 {
    let address = format!("127.0.0.1:{}", node.named("READ_ONLY_PORT"));
    let (_, body) = node.eventually("the agent answers", || http_get(&address, "/metrics"));
    let line = body.lines().find(|line| {
        line.starts_with("kubelet_runtime_operations_total{") && line.contains("operation_type=\"list_podsandbox\"")
    });
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("no such figure: {body}"))
}

/// CRI-28, CRI-29: what happens is heard of, not looked for; without a stream the relist finds it each second.
#[test]
fn events_of_the_runtime_take_the_place_of_most_looks() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main")]));
    let main = node.wait_running("web", "main");
    send_signal(node.pid_of(main.id.as_str()), "KILL");
    another(&node, "web", &main);
    let before = looks(&node);
    std::thread::sleep(Duration::from_secs(12));
    let looked = looks(&node) - before;
    let alone = node.log().contains("relists alone find what changed");
    if has_stream(&node) {
        assert!(!alone, "{}", node.log());
        assert!(looked <= 5.0, "{looked} looks in a quiet time");
    } else {
        needs("CONTAINERD=<folder of version 2>");
        assert!(alone, "{}", node.log());
        assert!(looked >= 2.0, "{looked} looks");
    }
}
