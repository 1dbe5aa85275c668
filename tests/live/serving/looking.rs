//! The commands that look into the node, over a real runtime: changes of pods, events, images, figures.

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

/// The output of a command.
fn printed(node: &Node, command: &[&str]) -> String {
    let output = Command::new(AGENT).args(command).arg("--socket").arg(node.socket()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
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

/// PAIN-37: a node without an API server shows its events, its images with their users, and what its pods use.
#[test]
fn events_images_and_figures_are_shown() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main")]));
    node.wait_running("web", "main");
    let reasons = node.eventually("the pod has events", || {
        let events = node.ask(&["events", "--pod", "default/web"])?;
        let reasons: Vec<String> =
            events.as_array()?.iter().filter_map(|event| Some(event["reason"].as_str()?.to_owned())).collect();
        reasons.iter().any(|reason| reason == "Started").then_some(reasons)
    });
    assert!(reasons.iter().any(|reason| reason == "Created"), "{reasons:?}");
    let text = printed(&node, &["events"]);
    assert!(text.starts_with("NAMESPACE   LAST SEEN") && text.contains("pod/web-node1"), "{text}");

    let used = node.eventually("the pod's image is in use", || {
        let shown = node.ask(&["images"])?;
        let of_pod = |image: &&Value| image["pods"].as_array().unwrap().contains(&json!("default/web-node1"));
        shown["images"].as_array()?.iter().find(of_pod).cloned()
    });
    assert_eq!(used["in_use"], true);
    assert!(used["bytes"].as_u64().unwrap() > 0 && !used["names"].as_array().unwrap().is_empty(), "{used}");
    let listed = node.cri(async |cri| podwright::cri::ImageService::list_images(cri, None).await);
    assert_eq!(node.answer(&["images"])["images"].as_array().unwrap().len(), listed.len());

    let rows = node.eventually("the pod has figures", || {
        let rows = node.ask(&["top", "containers"])?;
        rows.as_array()?.iter().any(|row| row["pod"] == "web-node1").then_some(rows)
    });
    assert_eq!((&rows[0]["node"], &rows[0]["pod"]), (&json!("node1"), &json!("")));
    let of_pod = rows.as_array().unwrap().iter().find(|row| row["pod"] == "web-node1").unwrap();
    assert_eq!(of_pod["container"], "main");
    assert!(of_pod["memory_working_set_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{rows:#}");
    assert!(rows[0]["cpu_nano_cores"].is_u64(), "the command waits for a second look: {rows:#}");

    let names = printed(&node, &["ps", "-o", r#"jsonpath={range [?(@.namespace=="default")]}{.name},{end}"#]);
    assert_eq!(names, "web-node1,");
    let yaml: Value = serde_saphyr::from_str(&printed(&node, &["ps", "-o", "yaml"])).unwrap();
    assert_eq!((&yaml[0]["name"], &yaml[0]["phase"]), (&json!("web-node1"), &json!("Running")));
}
