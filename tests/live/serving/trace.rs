//! The trace as a file: what a viewer of Chrome's trace events needs is there, for every event.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use podwright::testing::skips::needs;
use serde_json::Value;

use crate::harness::{AGENT, Node, condition};
use crate::pods::{forever, pod};

/// OBS: every event has what its kind must have, and every arrow and operation two ends in order.
#[test]
fn a_written_trace_follows_the_trace_event_format() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main")]));
    node.wait_running("web", "main");
    node.delete("web");
    node.wait_gone("web");
    let file = node.dir.join("trace.json");
    let said =
        Command::new(AGENT).args(["trace", "--chrome"]).arg(&file).arg("--socket").arg(node.socket()).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let trace: Value = serde_json::from_slice(&fs::read(&file).unwrap()).expect("the file is JSON");
    let events = trace["traceEvents"].as_array().expect("the object form of the format");

    let mut of_kind: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in events {
        let kind = event["ph"].as_str().expect("a kind");
        assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        // Names of processes and threads hold for the whole trace; everything else happens at a time.
        assert!(kind == "M" || microseconds(event, "ts") >= 0.0, "{event}");
        of_kind.entry(kind).or_default().push(event);
    }
    assert_eq!(of_kind.keys().copied().collect::<Vec<_>>(), ["M", "X", "b", "e", "f", "s"], "kinds of events");
    assert!(of_kind["X"].iter().all(|slice| microseconds(slice, "dur") > 0.0));
    assert!(of_kind["f"].iter().all(|arrow| arrow["bp"] == "e"), "an arrow ends at the slice around it");
    for (start, finish) in [("s", "f"), ("b", "e")] {
        let (starts, finishes) = (by_identity(&of_kind[start]), by_identity(&of_kind[finish]));
        assert!(starts.keys().eq(finishes.keys()), "each {start} has its {finish}: {starts:?} {finishes:?}");
        for (identity, began) in &starts {
            assert!(began <= &finishes[identity], "{start} and {finish} of {identity:?} are in order");
        }
    }
    let named = |key: &str| of_kind["M"].iter().filter(|event| event["name"] == key).collect::<Vec<_>>();
    assert_eq!(named("process_name").len(), 1);
    let threads: BTreeMap<u64, &str> = named("thread_name")
        .iter()
        .map(|event| (event["tid"].as_u64().unwrap(), event["args"]["name"].as_str().expect("a name")))
        .collect();
    let worker = threads.iter().find(|(_, name)| name.starts_with("PodWorker/default/web-node1/")).expect("the worker");
    assert!(of_kind["X"].iter().any(|slice| slice["tid"] == *worker.0), "with its turns");
    assert!(of_kind["X"].iter().all(|slice| threads.contains_key(&slice["tid"].as_u64().unwrap())));
}

fn microseconds(event: &Value, field: &str) -> f64 {
    event[field].as_f64().unwrap_or_else(|| panic!("{field} is a number: {event}"))
}

/// When each happened, by what a viewer tells two apart by; no two are alike.
fn by_identity(events: &[&Value]) -> BTreeMap<(String, String, u64), f64> {
    let mut found = BTreeMap::new();
    for event in events {
        let text = |field: &str| event[field].as_str().expect("a text").to_owned();
        let identity = (text("cat"), text("name"), event["id"].as_u64().expect("a number"));
        assert!(found.insert(identity, microseconds(event, "ts")).is_none(), "told twice: {event}");
    }
    found
}

/// The page of a pod's start has the chain that led to Ready; a browser shows it and complains of nothing.
#[test]
fn a_written_page_shows_the_start_of_a_pod() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main")]));
    node.wait_listed("web", "Ready", |shown| condition(shown, "Ready") == "True");
    let file = node.dir.join("trace.html");
    let mut command = Command::new(AGENT);
    command.args(["trace", "--pod", "default/web", "--html"]).arg(&file).arg("--socket").arg(node.socket());
    let said = command.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.contains("<h1>Start of default/web-node1</h1>"), "{page}");
    let chain = page.split_once("id=\"chain\"").and_then(|(_, rest)| rest.split_once("</table>")).expect("a chain").0;
    for step in ["PodWorker/default/web-node1/", "<td>run sandbox</td>", "<td>StatusManager</td>"] {
        assert!(chain.contains(step), "{step}: {chain}");
    }
    let quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
    let alone = ["--disable-background-networking", "--disable-component-update", "--disable-sync"];
    let mut browser = Command::new("chromium");
    browser.args(quiet).args(alone).arg(format!("--user-data-dir={}", node.dir.join("profile").display()));
    browser.args(["--enable-logging=stderr", "--virtual-time-budget=2000", "--dump-dom"]);
    let Ok(shown) = browser.arg(format!("file://{}", file.display())).output() else { return needs("chromium") };
    let (dom, log) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(
        dom.contains("data-ready=") && dom.contains("class=\"turn chain\"") && dom.contains("run sandbox"),
        "{log}"
    );
    let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}
