//! An API server for tests: how it answers at all, and one that keeps objects, lets them be watched, and makes tokens.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::platform::cluster::kube_api::ApiServer;

type Frames = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;
/// The answer of such a server.
pub(super) type Answer = Response<StreamBody<Frames>>;

/// A server that answers verb, path with query, and body so.
pub(super) fn serve(answer: impl Fn(&str, &str, Value) -> Answer + Clone + Send + 'static) -> ApiServer {
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            Ok::<_, Infallible>(answer(head.method.as_str(), &head.uri.to_string(), body))
        }
    });
    let client = kube::Client::new(service, "default");
    ApiServer::new(client.clone(), client.clone(), client)
}

pub(super) fn whole(code: u16, body: &Value) -> Answer {
    let frame = Ok(Frame::data(Bytes::from(body.to_string())));
    respond(code, Box::pin(futures_util::stream::iter([frame])))
}

/// Line by line what is sent, until nobody sends any more.
pub(super) fn streamed(receiver: UnboundedReceiver<Value>) -> Answer {
    let frames = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let event = receiver.recv().await?;
        Some((event, receiver))
    });
    respond(200, Box::pin(frames.map(|event| Ok(Frame::data(Bytes::from(format!("{event}\n")))))))
}

fn respond(code: u16, frames: Frames) -> Answer {
    let response = Response::builder().status(code).header("content-type", "application/json");
    response.body(StreamBody::new(frames)).expect("an answer")
}

pub(super) fn refused(code: u16, reason: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("refused: {reason}"),
    });
    whole(code, &status)
}

pub(super) fn not_found() -> Answer {
    refused(404, "NotFound")
}

/// A server that keeps any objects, by the path of each.
#[derive(Clone, Default)]
pub(crate) struct ObjectServer {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    asked: Vec<(String, Value)>,
    watchers: Vec<(Selection, UnboundedSender<Value>)>,
    /// Watches from a version are refused as too old, this many times.
    gone: usize,
    /// The refusal of every call whose path or body holds this.
    refusals: BTreeMap<&'static str, (u16, &'static str)>,
}

/// The target of a list or watch: a collection's path, or its end where all namespaces are meant, and a name.
#[derive(Clone)]
struct Selection {
    collection: String,
    name: Option<String>,
    /// Whether services without an address (`spec.clusterIP!=None`) are left out.
    with_address: bool,
}

impl Selection {
    fn holds(&self, path: &str, object: &Value) -> bool {
        let (collection, name) = path.rsplit_once('/').expect("a path");
        let plural = collection.rsplit('/').next().expect("a plural");
        let everywhere = self.collection == format!("/api/v1/{plural}");
        (collection == self.collection || everywhere)
            && self.name.as_deref().is_none_or(|wanted| wanted == name)
            && !(self.with_address && object["spec"]["clusterIP"] == "None")
    }
}

impl ObjectServer {
    /// As the agent reaches it.
    pub(crate) fn api(&self) -> ApiServer {
        let server = self.clone();
        serve(move |verb, path, body| server.answer(verb, path, body))
    }

    /// Writes an object; whoever watches it hears of it.
    pub(in crate::actors) fn put(&self, path: &str, object: Value) {
        let mut state = self.state();
        let kind = if state.objects.contains_key(path) { "MODIFIED" } else { "ADDED" };
        let object = state.store(path, object);
        state.tell(path, &json!({ "type": kind, "object": object }));
    }

    /// An object as it is now.
    pub(in crate::actors) fn object(&self, path: &str) -> Value {
        self.state().objects.get(path).cloned().unwrap_or_default()
    }

    /// Removes an object; whoever watches it hears of it.
    pub(super) fn remove(&self, path: &str) {
        let mut state = self.state();
        let object = state.objects.remove(path).expect("it is there");
        state.tell(path, &json!({ "type": "DELETED", "object": object }));
    }

    /// Ends all watches. The next `gone` that begin at a version get the answer that it is too old.
    pub(super) fn cut_watches(&self, gone: usize) {
        let mut state = self.state();
        state.watchers.clear();
        state.gone = gone;
    }

    /// Refuses every call whose path or body holds this, from now on; with no code, no longer.
    pub(super) fn refuse(&self, part: &'static str, answer: Option<(u16, &'static str)>) {
        let mut state = self.state();
        match answer {
            Some(answer) => drop(state.refusals.insert(part, answer)),
            None => drop(state.refusals.remove(part)),
        }
    }

    /// Which objects of this plural are watched now, by name; `*` for all.
    pub(super) fn watched(&self, plural: &str) -> Vec<String> {
        let state = self.state();
        let open = state.watchers.iter().filter(|(_, teller)| !teller.is_closed());
        let of = open.filter(|(selection, _)| selection.collection.ends_with(&format!("/{plural}")));
        let mut names: Vec<String> =
            of.map(|(selection, _)| selection.name.clone().unwrap_or_else(|| "*".to_owned())).collect();
        names.sort();
        names
    }

    /// The names of the objects that watches of this plural show.
    pub(super) fn shown(&self, plural: &str) -> Vec<String> {
        let state = self.state();
        let of = state.watchers.iter().filter(|(selection, _)| selection.collection.ends_with(&format!("/{plural}")));
        let objects = of.flat_map(|(selection, _)| state.selected(selection));
        objects.map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Verb and path, without its query, of each call so far that names this.
    pub(super) fn calls(&self, part: &str) -> Vec<String> {
        let state = self.state();
        let calls = state.asked.iter().map(|(call, _)| call.split('?').next().unwrap_or_default().to_owned());
        calls.filter(|call| call.contains(part)).collect()
    }

    /// Verb and path with its query, of each call so far that names this.
    pub(super) fn queries(&self, part: &str) -> Vec<String> {
        let state = self.state();
        state.asked.iter().map(|(call, _)| call.clone()).filter(|call| call.contains(part)).collect()
    }

    /// The body of the last call that names this.
    pub(super) fn sent(&self, part: &str) -> Value {
        let state = self.state();
        let found = state.asked.iter().rev().find(|(call, _)| call.contains(part));
        found.map(|(_, body)| body.clone()).unwrap_or_default()
    }

    /// The bodies of all calls that name this, oldest first.
    pub(super) fn bodies(&self, part: &str) -> Vec<Value> {
        let state = self.state();
        state.asked.iter().filter(|(call, _)| call.contains(part)).map(|(_, body)| body.clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    fn answer(&self, verb: &str, uri: &str, body: Value) -> Answer {
        let mut state = self.state();
        state.asked.push((format!("{verb} {uri}"), body.clone()));
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let sent = body.to_string();
        let is_refused = |part: &str| uri.contains(part) || sent.contains(part);
        if let Some((code, reason)) = state.refusals.iter().find(|(part, _)| is_refused(part)).map(|(_, it)| *it) {
            return refused(code, reason);
        }
        let query: BTreeMap<_, _> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let fields = query.get("fieldSelector").map_or("", String::as_str);
        let name = fields.strip_prefix("metadata.name=").map(str::to_owned);
        let with_address = fields == "spec.clusterIP!=None";
        let selection = Selection { collection: path.to_owned(), name, with_address };
        if verb == "POST" && path.ends_with("/token") {
            return whole(201, &token(body));
        }
        if query.contains_key("watch") {
            return state.watch(selection, query.contains_key("sendInitialEvents"));
        }
        if let Some(answer) = state.change(verb, path, &body) {
            return answer;
        }
        if let Some(object) = state.objects.get(path) {
            return whole(200, object);
        }
        let plurals = ["/configmaps", "/secrets", "/services"];
        if !plurals.iter().any(|plural| path.ends_with(plural)) {
            return not_found();
        }
        let items = state.selected(&selection);
        whole(200, &json!({ "metadata": { "resourceVersion": state.version.to_string() }, "items": items }))
    }
}

impl State {
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let segments: Vec<&str> = path.split('/').collect();
        object["metadata"]["name"] = (*segments.last().expect("a name")).into();
        if let Some(place) = segments.iter().position(|segment| *segment == "namespaces") {
            object["metadata"]["namespace"] = segments[place + 1].into();
        }
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    /// Makes or changes a CSINode or a Lease, or merges a patch into a Node or a claim; `None` for any other call.
    fn change(&mut self, verb: &str, path: &str, body: &Value) -> Option<Answer> {
        let is_whole = path.starts_with("/apis/storage.k8s.io/v1/csinodes") || path.contains("/leases");
        let is_node = path.starts_with("/api/v1/nodes/");
        let (path, object) = match verb {
            "POST" if is_whole => (format!("{path}/{}", body["metadata"]["name"].as_str()?), body.clone()),
            "PUT" if is_whole => (path.to_owned(), body.clone()),
            "PATCH" if is_node || path.contains("/persistentvolumeclaims/") => {
                let path = path.trim_end_matches("/status").to_owned();
                let mut object = self.objects.get(&path)?.clone();
                merge(&mut object, body);
                (path, object)
            }
            _ => return None,
        };
        let object = self.store(&path, object);
        self.tell(&path, &json!({ "type": "MODIFIED", "object": object }));
        Some(whole(200, &object))
    }

    fn selected(&self, selection: &Selection) -> Vec<Value> {
        self.objects
            .iter()
            .filter(|(path, object)| selection.holds(path, object))
            .map(|(_, object)| object.clone())
            .collect()
    }

    fn watch(&mut self, selection: Selection, from_the_beginning: bool) -> Answer {
        if !from_the_beginning && self.gone > 0 {
            self.gone -= 1;
            return refused(410, "Expired");
        }
        let (teller, receiver) = unbounded_channel();
        if from_the_beginning {
            for object in self.selected(&selection) {
                let _ = teller.send(json!({ "type": "ADDED", "object": object }));
            }
            let metadata = json!({
                "resourceVersion": self.version.to_string(), "annotations": { "k8s.io/initial-events-end": "true" },
            });
            let _ = teller.send(json!({ "type": "BOOKMARK", "object": { "metadata": metadata } }));
        }
        self.watchers.push((selection, teller));
        streamed(receiver)
    }

    fn tell(&mut self, path: &str, event: &Value) {
        let holds = |selection: &Selection| selection.holds(path, &event["object"]);
        self.watchers.retain(|(selection, teller)| !holds(selection) || teller.send(event.clone()).is_ok());
    }
}

/// As RFC 7386 has it.
fn merge(object: &mut Value, patch: &Value) {
    let (Value::Object(object), Value::Object(patch)) = (&mut *object, patch) else {
        *object = patch.clone();
        return;
    };
    for (key, value) in patch {
        match value {
            Value::Null => drop(object.remove(key)),
            value => merge(object.entry(key).or_insert(json!({})), value),
        }
    }
}

/// As the server answers a TokenRequest; it makes tokens for ten minutes.
fn token(mut request: Value) -> Value {
    request["spec"]["expirationSeconds"] = 600.into();
    request["status"] = json!({ "token": "a-token", "expirationTimestamp": "2026-01-01T00:10:00Z" });
    request
}
