//! An API server that keeps one Node, one Lease and Events, and writes down what it is asked.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::logic::node::node_status::apply_patch;
use crate::platform::cluster::kube_api::ApiServer;

type Frames = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;

/// See the module.
#[derive(Clone, Default)]
pub(in crate::actors) struct PlayedServer {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    node: Option<Value>,
    lease: Option<Value>,
    /// By their paths.
    events: BTreeMap<String, Value>,
    version: u64,
    asked: Vec<(String, Value)>,
    /// Answers to give instead, each once: how the call begins, and the status code.
    refusals: Vec<(String, u16, &'static str)>,
    /// How the calls begin that nobody answers.
    silent: Option<String>,
    /// Calls that were not answered yet, and the most at once.
    open: usize,
    open_max: usize,
    watchers: Vec<UnboundedSender<Value>>,
}

impl PlayedServer {
    /// As the agent reaches it.
    pub(in crate::actors) fn api(&self) -> ApiServer {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.expect("a body").to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (verb, path) = (head.method.as_str(), head.uri.to_string());
                server.take_time(&format!("{verb} {path}")).await;
                Ok::<_, Infallible>(server.answer(verb, &path, body))
            }
        });
        let client = kube::Client::new(service, "default");
        ApiServer::new(client.clone(), client.clone(), client)
    }

    /// Has a Node from before.
    pub(super) fn with_node(self, node: Value) -> Self {
        self.set_node(node);
        self
    }

    /// Somebody else writes the Node.
    pub(super) fn set_node(&self, node: Value) {
        let mut state = self.state.lock().expect("not poisoned");
        state.store_node(node, "MODIFIED");
    }

    /// The Node as it is.
    pub(in crate::actors) fn node(&self) -> Option<Value> {
        self.state.lock().expect("not poisoned").node.clone()
    }

    /// The Lease as it is.
    pub(super) fn lease(&self) -> Option<Value> {
        self.state.lock().expect("not poisoned").lease.clone()
    }

    /// Somebody else writes the Lease.
    pub(super) fn touch_lease(&self) {
        let mut state = self.state.lock().expect("not poisoned");
        let lease = state.lease.clone().expect("there is one");
        state.store_lease(lease);
    }

    /// Refuses the next calls that begin so, as often as this is said.
    pub(super) fn refuse(&self, call: &str, code: u16, reason: &'static str) {
        self.state.lock().expect("not poisoned").refusals.push((call.to_owned(), code, reason));
    }

    /// Does not answer calls that begin so, from now on; `None`: answers all.
    pub(super) fn fall_silent(&self, call: Option<&str>) {
        self.state.lock().expect("not poisoned").silent = call.map(str::to_owned);
    }

    /// The Events as they are, in the order of their paths.
    pub(super) fn events(&self) -> Vec<Value> {
        self.state.lock().expect("not poisoned").events.values().cloned().collect()
    }

    /// Events live an hour; they are gone now.
    pub(super) fn forget_events(&self) {
        self.state.lock().expect("not poisoned").events.clear();
    }

    /// The most calls about Events that were open at once.
    pub(super) fn events_open_max(&self) -> usize {
        self.state.lock().expect("not poisoned").open_max
    }

    /// Verb and path of each call so far, watches and lists aside, that names this kind.
    pub(super) fn calls(&self, kind: &str) -> Vec<String> {
        let state = self.state.lock().expect("not poisoned");
        let calls = state.asked.iter().map(|(call, _)| call);
        calls.filter(|call| call.contains(kind) && !call.contains('?')).cloned().collect()
    }

    /// The body of the last call that begins so.
    pub(super) fn sent(&self, call: &str) -> Value {
        let state = self.state.lock().expect("not poisoned");
        let found = state.asked.iter().rev().find(|(asked, _)| asked.starts_with(call));
        found.map(|(_, body)| body.clone()).unwrap_or_default()
    }

    /// The bodies of all calls that begin so, the oldest first.
    pub(super) fn bodies(&self, call: &str) -> Vec<Value> {
        let state = self.state.lock().expect("not poisoned");
        let found = state.asked.iter().filter(|(asked, _)| asked.starts_with(call));
        found.map(|(_, body)| body.clone()).collect()
    }

    /// A call about an Event takes a tenth of a second, or for ever.
    async fn take_time(&self, call: &str) {
        if !call.contains("/events") {
            return;
        }
        let open = Open::new(self);
        let silent = |state: &State| state.silent.as_ref().is_some_and(|silent| call.starts_with(silent));
        if silent(&self.state.lock().expect("not poisoned")) {
            self.state.lock().expect("not poisoned").asked.push((call.to_owned(), Value::Null));
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(open);
    }

    fn answer(&self, verb: &str, path: &str, body: Value) -> Response<StreamBody<Frames>> {
        let mut state = self.state.lock().expect("not poisoned");
        let call = format!("{verb} {path}");
        state.asked.push((call.clone(), body.clone()));
        if let Some(place) = state.refusals.iter().position(|(refused, ..)| call.starts_with(refused)) {
            let (_, code, reason) = state.refusals.remove(place);
            return refused(code, reason);
        }
        let node_path = format!("/api/v1/nodes/{}", super::NODE);
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let lease_path = format!("{leases}/{}", super::NODE);
        match (verb, path) {
            ("GET", path) if path.starts_with("/api/v1/nodes?") && path.contains("watch=true") => {
                let (sender, receiver) = unbounded_channel();
                if path.contains("sendInitialEvents=true") {
                    state.initial_events().into_iter().for_each(|event| sender.send(event).expect("it is open"));
                }
                state.watchers.push(sender);
                streamed(receiver)
            }
            ("GET", path) if path.starts_with("/api/v1/nodes?") => {
                let items: Vec<Value> = state.node.iter().cloned().collect();
                whole(200, &json!({ "metadata": { "resourceVersion": state.version.to_string() }, "items": items }))
            }
            ("POST", "/api/v1/nodes") if state.node.is_some() => refused(409, "AlreadyExists"),
            ("POST", "/api/v1/nodes") => whole(201, &state.store_node(body, "ADDED")),
            ("GET", path) if path == node_path => state.node.as_ref().map_or_else(not_found, |node| whole(200, node)),
            ("PATCH", path) if path == format!("{node_path}/status") => match state.node.clone() {
                Some(mut node) => {
                    apply_patch(&mut node, &body);
                    whole(200, &state.store_node(node, "MODIFIED"))
                }
                None => not_found(),
            },
            // Nobody reads it again.
            ("POST", "/apis/storage.k8s.io/v1/csinodes") => whole(201, &body),
            ("GET", path) if path == lease_path => state.lease.as_ref().map_or_else(not_found, |one| whole(200, one)),
            ("POST", path) if path == leases => whole(201, &state.store_lease(body)),
            ("PUT", path) if path == lease_path => {
                let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
                match state.lease.as_ref().map(version) {
                    None => not_found(),
                    Some(known) if known != version(&body) => refused(409, "Conflict"),
                    Some(_) => whole(200, &state.store_lease(body)),
                }
            }
            ("POST", path) if path.ends_with("/events") => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().expect("a name"));
                match state.events.contains_key(&path) {
                    true => refused(409, "AlreadyExists"),
                    false => whole(201, &state.store_event(path, body)),
                }
            }
            ("PATCH", path) if path.contains("/events/") => match state.events.get(path).cloned() {
                Some(mut event) => {
                    apply_patch(&mut event, &body);
                    whole(200, &state.store_event(path.to_owned(), event))
                }
                None => not_found(),
            },
            _ => not_found(),
        }
    }
}

/// A call that was not answered yet.
struct Open(PlayedServer);

impl Open {
    fn new(server: &PlayedServer) -> Self {
        let mut state = server.state.lock().expect("not poisoned");
        state.open += 1;
        state.open_max = state.open_max.max(state.open);
        Self(server.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.state.lock().expect("not poisoned").open -= 1;
    }
}

impl State {
    fn initial_events(&self) -> Vec<Value> {
        let metadata = json!({
            "resourceVersion": self.version.to_string(), "annotations": { "k8s.io/initial-events-end": "true" },
        });
        let end = json!({ "type": "BOOKMARK", "object": { "kind": "Node", "metadata": metadata } });
        let all = self.node.iter().map(|node| json!({ "type": "ADDED", "object": node }));
        all.chain([end]).collect()
    }

    fn store_event(&mut self, path: String, mut event: Value) -> Value {
        self.version += 1;
        event["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.events.insert(path, event.clone());
        event
    }

    fn store_node(&mut self, mut node: Value, event: &str) -> Value {
        self.version += 1;
        node["apiVersion"] = "v1".into();
        node["kind"] = "Node".into();
        node["metadata"]["uid"] = "uid-1".into();
        node["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.node = Some(node.clone());
        self.watchers.retain(|watcher| watcher.send(json!({ "type": event, "object": node })).is_ok());
        node
    }

    fn store_lease(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Some(lease.clone());
        lease
    }
}

fn whole(code: u16, body: &Value) -> Response<StreamBody<Frames>> {
    let frame = Ok(Frame::data(Bytes::from(body.to_string())));
    respond(code, Box::pin(futures_util::stream::iter([frame])))
}

fn streamed(receiver: UnboundedReceiver<Value>) -> Response<StreamBody<Frames>> {
    let frames = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let event = receiver.recv().await?;
        Some((event, receiver))
    });
    respond(200, Box::pin(frames.map(|event| Ok(Frame::data(Bytes::from(format!("{event}\n")))))))
}

fn respond(code: u16, frames: Frames) -> Response<StreamBody<Frames>> {
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(StreamBody::new(frames)).expect("an answer")
}

fn refused(code: u16, reason: &str) -> Response<StreamBody<Frames>> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("refused: {reason}"),
    });
    whole(code, &status)
}

fn not_found() -> Response<StreamBody<Frames>> {
    refused(404, "NotFound")
}
