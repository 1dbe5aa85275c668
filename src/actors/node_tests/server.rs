//! An API server that keeps one Node and one Lease, and writes down what it is asked.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::actors::played_api::{Answer, not_found, refused, serve, streamed, whole};
use crate::logic::node_status::apply_patch;
use crate::platform::kube_api::ApiServer;

/// See the module.
#[derive(Clone, Default)]
pub(super) struct PlayedServer {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    node: Option<Value>,
    lease: Option<Value>,
    version: u64,
    asked: Vec<(String, Value)>,
    /// Answers to give instead, each once: how the call begins, and the status code.
    refusals: Vec<(String, u16, &'static str)>,
    watchers: Vec<UnboundedSender<Value>>,
}

impl PlayedServer {
    /// As the agent reaches it.
    pub(super) fn api(&self) -> ApiServer {
        let server = self.clone();
        serve(move |verb, path, body| server.answer(verb, path, body))
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
    pub(super) fn node(&self) -> Option<Value> {
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

    /// Verb and path of each call so far, watches and lists aside, that names this kind.
    pub(super) fn calls(&self, kind: &str) -> Vec<String> {
        let state = self.state.lock().expect("not poisoned");
        let calls = state.asked.iter().map(|(call, _)| call);
        calls.filter(|call| call.contains(kind) && !call.contains('?')).cloned().collect()
    }

    /// What was sent with the last call that begins so.
    pub(super) fn sent(&self, call: &str) -> Value {
        let state = self.state.lock().expect("not poisoned");
        let found = state.asked.iter().rev().find(|(asked, _)| asked.starts_with(call));
        found.map(|(_, body)| body.clone()).unwrap_or_default()
    }

    fn answer(&self, verb: &str, path: &str, body: Value) -> Answer {
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
            _ => not_found(),
        }
    }
}

impl State {
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
