//! Tests of the pages that show the node's events, images and changes of its pods.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::super::{LocalSocket, routes};
use super::{Node, ask_routes};
use crate::actors::kit::trace::Cause;
use crate::cli;
use crate::logic::events::reasons::EventReason;
use crate::logic::pods::wait::{Awaited, PodWait};
use crate::messages::event_recorder::EventSubject;
use crate::messages::pods::pod_source::SourceKind;
use crate::messages::status::status_manager::{PodNews, RefusedManifest, StatusManagerMsg};

async fn started() -> (Node, Router) {
    let node = Node::plain();
    node.start().await;
    let router = routes::local(Arc::clone(&node.backend));
    (node, router)
}

async fn json_of(router: &Router, path: &str) -> Value {
    let (status, body) = ask_routes(router, "GET", path).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

/// An answer that goes on.
struct Lines {
    body: Body,
    rest: Vec<u8>,
}

impl Lines {
    async fn of(router: &Router, path: &str) -> Self {
        let request = Request::builder().uri(path).body(Body::empty()).expect("valid");
        let answer = router.clone().oneshot(request).await.expect("infallible");
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        Self { body: answer.into_body(), rest: vec![] }
    }

    /// The type of the next line and its object.
    async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line: Value = serde_json::from_slice(&line).expect("a line of JSON");
                return (line["type"].as_str().expect("a type").to_owned(), line["object"].clone());
            }
            let frame = self.body.frame().await.expect("it goes on").expect("bytes");
            self.rest.extend_from_slice(&frame.into_data().expect("bytes"));
        }
    }

    /// The type of the next line and one field of its object.
    async fn field(&mut self, name: &str) -> (String, Value) {
        let (kind, object) = self.next().await;
        (kind, object[name].clone())
    }
}

fn told(kind: &str, value: impl Into<Value>) -> (String, Value) {
    (kind.to_owned(), value.into())
}

/// PAIN-37: events of pods and of the node, without an API server.
#[tokio::test]
async fn the_last_events_are_listed_and_found_by_their_pod() {
    let (node, router) = started().await;
    node.tell_pod("web", json!({"phase": "Running"}), &[]).await;
    node.tell_pod("web", json!({"phase": "Running"}), &[]).await;
    node.tell_pod("api-n1", json!({"phase": "Running"}), &[]).await;
    let of_node = EventSubject::node("n1").normal(EventReason::Rebooted, "it was");
    node.agent.directory.event_recorder.tell(Cause::outside("test"), of_node).expect("room");
    let all = json_of(&router, "/events").await;
    let short = |row: &Value| (row["object_kind"].clone(), row["name"].clone(), row["count"].clone());
    let rows: Vec<_> = all.as_array().expect("a list").iter().map(short).collect();
    let of_node = rows.iter().find(|row| row.0 == "Node").expect("the node's");
    assert_eq!(*of_node, ("Node".into(), "n1".into(), 1.into()));
    assert!(rows.contains(&("Pod".into(), "web".into(), 2.into())), "{all}");
    let of_pod = json_of(&router, "/events?pod=shop/web").await;
    assert_eq!((of_pod.as_array().map(Vec::len), &of_pod[0]["reason"]), (Some(1), &"BackOff".into()));
    assert_eq!(json_of(&router, "/events?pod=shop/api").await[0]["name"], "api-n1", "as in its manifest");
    assert_eq!(json_of(&router, "/events?pod=other/web").await, json!([]));
    for pod in ["web", "/web", "shop/", "a/b/c"] {
        let (status, body) = ask_routes(&router, "GET", &format!("/events?pod={pod}")).await;
        assert_eq!((status.as_u16(), body.as_str()), (400, "a pod is given as NAMESPACE/POD\n"), "{pod}");
    }
}

/// PAIN-37.
#[tokio::test]
async fn a_watch_of_events_goes_on_with_each_one_that_is_meant() {
    let (node, router) = started().await;
    node.tell_pod("web", json!({"phase": "Running"}), &[]).await;
    let mut lines = Lines::of(&router, "/events?watch=true&pod=shop/web").await;
    assert_eq!(lines.field("count").await, told("ADDED", 1));
    assert_eq!(lines.next().await, told("SYNCED", Value::Null));
    node.tell_pod("db", json!({"phase": "Running"}), &[]).await;
    node.tell_pod("web", json!({"phase": "Running"}), &[]).await;
    assert_eq!(lines.field("count").await, told("MODIFIED", 2));
}

/// PAIN-37: a row comes again when the pod's status or what it waits for changes, and not otherwise.
#[tokio::test]
async fn a_watch_of_pods_goes_on_with_each_row_that_changes() {
    let (node, router) = started().await;
    let waits = || PodWait::ToRun(Awaited::Image("a".to_owned()).into());
    node.tell_pod("web", json!({"phase": "Pending"}), &[waits()]).await;
    node.tell_pod("db", json!({"phase": "Running"}), &[]).await;
    let mut lines = Lines::of(&router, "/ps?watch=true").await;
    assert_eq!(lines.field("name").await, told("ADDED", "db"));
    assert_eq!(lines.field("name").await, told("ADDED", "web"));
    assert_eq!(lines.next().await.0, "SYNCED");
    node.tell_pod("web", json!({"phase": "Pending"}), &[waits()]).await;
    node.tell_pod("web", json!({"phase": "Pending"}), &[]).await;
    let (kind, row) = lines.next().await;
    assert_eq!((kind.as_str(), &row["waiting"]), ("MODIFIED", &json!([])), "what did not change was not told");
    // A condition that no column shows.
    let status = json!({"phase": "Pending", "conditions": [{"type": "Initialized", "status": "True"}]});
    node.tell_pod("web", status, &[]).await;
    node.tell_pod("web", json!({"phase": "Running"}), &[]).await;
    assert_eq!(lines.field("phase").await, told("MODIFIED", "Running"));
    let to = &node.agent.directory.status_manager;
    let tell = |message| to.tell(Cause::outside("test"), message).expect("room");
    let refused = RefusedManifest { pod: None, place: "/m/bad.yaml".into(), why: "no".into() };
    tell(StatusManagerMsg::Refused(SourceKind::File, vec![refused]));
    assert_eq!(lines.field("phase").await, told("ADDED", "Refused"));
    tell(StatusManagerMsg::Refused(SourceKind::File, vec![]));
    assert_eq!(lines.field("name").await, told("DELETED", "/m/bad.yaml"));
    tell(StatusManagerMsg::Pods(PodNews::PodForgotten("uid-web".into())));
    assert_eq!(lines.field("name").await, told("DELETED", "web"));
}

/// A runtime that does not answer is said to be the trouble.
#[tokio::test]
async fn without_a_runtime_there_is_no_list_of_images() {
    let (_node, router) = started().await;
    let (status, body) = ask_routes(&router, "GET", "/images").await;
    assert_eq!(status.as_u16(), 503, "{body}");
    assert!(body.starts_with("Internal Error: "), "{body}");
}

/// SEC-28: from afar these pages are there for looking, and nothing that changes a pod is.
#[tokio::test]
async fn the_authenticated_port_has_the_pages_that_look_and_none_that_changes() {
    let (node, _) = started().await;
    node.tell_pod("web", json!({"phase": "Running"}), &[]).await;
    let router = routes::secure(Arc::clone(&node.backend));
    for path in ["/ps", "/explain/shop/web", "/events", "/debug/actors", "/debug/actors/trace", "/debug/plugins"] {
        assert_eq!(ask_routes(&router, "GET", path).await.0, StatusCode::OK, "{path}");
        assert_eq!(ask_routes(&router, "POST", path).await.0, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    for path in ["/restart/shop/web", "/reset-back-off/shop/web"] {
        assert_eq!(ask_routes(&router, "POST", path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

/// PAIN-37: the commands over the socket, in each form.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_read_these_pages() {
    let node = Node::with_socket();
    node.start().await;
    node.tell_pod("web", json!({"phase": "Running"}), &[]).await;
    node.ask_socket("/ps").await;
    let socket = node.folder.path().join(LocalSocket::NAME).to_str().expect("text").to_owned();
    let run = async |command: &'static str, arguments: &[&str]| {
        let mut all: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        all.extend(["--socket".to_owned(), socket.clone()]);
        crate::platform::host::blocking::run(move || cli::run(command, &all)).await
    };
    for form in ["text", "wide", "json", "yaml", "jsonpath={[*].name}"] {
        assert_eq!(run("ps", &["-o", form]).await, 0, "{form}");
        assert_eq!(run("events", &["--pod", "shop/web", "-o", form]).await, 0, "{form}");
        assert_eq!(run("top", &["containers", "-o", form]).await, 0, "{form}");
    }
    assert_eq!(run("ps", &["-o", "jsonpath={[5].name}"]).await, 1, "there is no sixth pod");
    assert_eq!(run("ps", &["-o", "jsonpath={[5"]).await, 2);
    assert_eq!(run("images", &[]).await, 1, "there is no runtime");
}
