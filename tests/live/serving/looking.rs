//! The commands that look into the node, over a real runtime: changes of pods and events.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use serde_json::{Value, json};

use crate::harness::{AGENT, Node, PATIENCE};
use crate::pods::{forever, pod};

/// A `podwright` that goes on until it is dropped, and the documents that it prints.
struct Following {
    child: Child,
    documents: Receiver<Value>,
}

impl Following {
    fn start(node: &Node, command: &[&str]) -> Self {
        let mut child = Command::new(AGENT)
            .args(command)
            .args(["-o", "json", "--socket"])
            .arg(node.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, documents) = channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let all = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
            all.map_while(Result::ok).try_for_each(|document| send.send(document))
        });
        Self { child, documents }
    }

    /// The first document from here on of which `is_meant` holds.
    fn until(&self, what: &str, is_meant: impl Fn(&str, &Value) -> bool) -> Value {
        let mut seen = vec![];
        loop {
            match self.documents.recv_timeout(PATIENCE) {
                Ok(document) if is_meant(document["type"].as_str().unwrap(), &document["object"]) => return document,
                Ok(document) => seen.push(document),
                Err(RecvTimeoutError::Timeout) => panic!("waited in vain: {what}: {seen:#?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended before {what}: {seen:#?}"),
            }
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// PAIN-37: each change of a pod is pushed to `ps --watch`, from the manifest to the pod's end.
#[test]
fn changes_of_pods_are_followed() {
    let Some(node) = Node::running() else { return };
    node.answer(&["ps"]);
    let follows = Following::start(&node, &["ps", "--watch"]);
    let events = Following::start(&node, &["events", "--watch"]);
    node.apply(&pod("web", &[forever("main")]));
    follows.until("the pod comes", |kind, row| kind == "ADDED" && row["name"] == "web-node1");
    follows.until("it runs", |kind, row| {
        kind == "MODIFIED" && row["name"] == "web-node1" && row["ready_containers"] == 1 && row["waiting"] == json!([])
    });
    events.until("its start is an event", |kind, event| {
        kind == "ADDED" && event["name"] == "web-node1" && event["reason"] == "Started"
    });
    node.write_manifest("bad.yaml", b"apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {}\n");
    follows.until("a refused manifest is listed", |kind, row| kind == "ADDED" && row["phase"] == "Refused");
    node.delete("web");
    follows.until("it goes", |kind, row| kind == "DELETED" && row["name"] == "web-node1");
    node.wait_gone("web");
}
