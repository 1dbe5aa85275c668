//! The runtime's event stream, where the runtime has one: `CONTAINERD=<folder of containerd 2.1 or newer>`.

use serde_json::Value;

use crate::harness::{Node, send_signal, skip};
use crate::pods::{forever, pod};
use crate::restarts::another;

/// Whether this runtime has the stream; its version is asked, not the agent.
fn has_stream(node: &Node) -> bool {
    let version = node.named("RUNTIME_VERSION").trim_start_matches('v').to_owned();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    numbers.next() >= Some(2)
}

/// How many turns of the PLEG had this cause.
fn turns(node: &Node, message: &str) -> usize {
    let trace = node.ask(&["trace", "--actor", "Pleg"]).expect("a trace");
    let turns = trace.as_array().or_else(|| trace["turns"].as_array()).cloned().unwrap_or_default();
    turns.iter().filter(|turn: &&Value| turn["message"] == message).count()
}

/// CRI-29: what happens is heard of, not looked for.
#[test]
fn events_of_the_runtime_take_the_place_of_most_looks() {
    let Some(node) = Node::running() else { return };
    if !has_stream(&node) {
        skip("event stream", "this containerd has none; CONTAINERD=<folder> names another");
        return;
    }
    node.apply(&pod("web", &[forever("main")]));
    let mut main = node.wait_running("web", "main");
    for _ in 0..2 {
        send_signal(node.pid_of(main.id.as_str()), "KILL");
        main = another(&node, "web", &main);
    }
    assert!(!node.log().contains("relists alone find what changed"), "{}", node.log());
    let _ = turns(&node, "Relist");
}
