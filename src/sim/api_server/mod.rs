//! The simulated API server: objects in memory, answers in a real one's words, and nothing that waits.
//!
//! [`ApiServer::handle`] answers one request. Over it are two ways in: [`link`], by which the simulated node's agent asks,
//! with all that goes wrong on the way, and [`http`], for real clients. People and controllers of the cluster use the
//! same door, as [`Who::Admin`].

pub mod answers;
pub mod authorizer;
pub mod http;
pub mod link;
pub mod patch;
pub mod pods;
pub mod refusal;
pub mod resources;
pub mod store;
mod verbs;
pub mod watches;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

use self::answers::Answer;
use self::resources::Target;
use self::store::{Key, Saved, Selection, Store};
use self::watches::{Cut, Watching};
use crate::actors::kit::trace::lock;
use crate::logic::model::time::Moment;
use crate::sim::api_server::refusal::Refused;

/// The caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The agent of the node of this name.
    Node(String),
    /// Somebody who may do everything.
    Admin,
}

impl Who {
    /// As refusals name them.
    pub fn user(&self) -> String {
        match self {
            Self::Node(name) => format!("system:node:{name}"),
            Self::Admin => "admin".to_owned(),
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// GET, POST, …
    pub method: String,
    /// Without its query.
    pub path: String,
    /// The query.
    pub query: BTreeMap<String, String>,
    /// Of the body.
    pub content_type: String,
    /// Empty is null.
    pub body: Value,
}

impl Request {
    /// Of a method, a path with its query, and a body.
    pub fn new(method: &str, uri: &str, content_type: &str, body: Value) -> Self {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
            content_type: content_type.to_owned(),
            body,
        }
    }

    /// A parameter of the query; empty if it is not there.
    pub fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    /// As statistics and stories name it: the verb and the resource.
    pub fn title(&self) -> String {
        let plural = Target::parse(&self.path).map_or("?", |target| target.resource.plural);
        format!("{} {plural}", self.verb())
    }

    /// As the API names what is done.
    pub fn verb(&self) -> &'static str {
        let is_one = Target::parse(&self.path).is_some_and(|target| target.name.is_some());
        match self.method.as_str() {
            "GET" if self.query.contains_key("watch") => "watch",
            "GET" if is_one => "get",
            "GET" => "list",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            _ if is_one => "delete",
            _ => "deletecollection",
        }
    }
}

/// A change of an object, for checks that it was right.
pub struct Deed<'a> {
    /// The caller that made it.
    pub who: &'a Who,
    /// How.
    pub request: &'a Request,
    /// Where.
    pub key: &'a Key,
    /// The object before.
    pub before: Option<&'a Value>,
    /// The object after; `None` when it is gone.
    pub after: Option<&'a Value>,
}

type Witness = Box<dyn Fn(&Deed<'_>) + Send + Sync>;

/// How the server is out of sorts, beyond single calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mood {
    /// Its clock goes so many seconds wrong.
    pub skew_seconds: i64,
    /// A list that may be old is so many versions old.
    pub lag: u64,
    /// It has no streaming lists, as older ones.
    pub plain_lists: bool,
    /// The next watch that begins ends so.
    pub cut: Option<(Duration, Cut)>,
    /// Webhooks change what nodes write.
    pub mutates: bool,
}

/// See the module.
pub struct ApiServer {
    store: Mutex<Store>,
    made: Mutex<u64>,
    mood: Mutex<Mood>,
    now: Box<dyn Fn() -> Moment + Send + Sync>,
    witness: Mutex<Option<Witness>>,
    asked: Mutex<BTreeMap<String, u64>>,
    me: Weak<ApiServer>,
}

impl ApiServer {
    /// An empty one, with this clock.
    pub fn new(now: impl Fn() -> Moment + Send + Sync + 'static) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            store: Mutex::default(),
            made: Mutex::default(),
            mood: Mutex::default(),
            now: Box::new(now),
            witness: Mutex::default(),
            asked: Mutex::default(),
            me: me.clone(),
        })
    }

    /// Sets the witness of each change.
    pub fn set_witness(&self, witness: impl Fn(&Deed<'_>) + Send + Sync + 'static) {
        *lock(&self.witness) = Some(Box::new(witness));
    }

    /// Sets how it is out of sorts.
    pub fn set_mood(&self, mood: Mood) {
        *lock(&self.mood) = mood;
    }

    /// How it is out of sorts.
    pub fn mood(&self) -> Mood {
        *lock(&self.mood)
    }

    /// The newest version.
    pub fn version(&self) -> u64 {
        lock(&self.store).version()
    }

    /// Its clock.
    pub fn now(&self) -> Moment {
        Moment((self.now)().0.saturating_add(self.mood().skew_seconds * 1_000_000_000))
    }

    /// The object there.
    pub fn get(&self, plural: &'static str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        lock(&self.store).get(&Key { plural, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// All objects of a resource.
    pub fn all(&self, plural: &str) -> Vec<Arc<Value>> {
        lock(&self.store).all(plural).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// How often nodes asked for what, by verb and resource.
    pub fn asked(&self) -> BTreeMap<String, u64> {
        lock(&self.asked).clone()
    }

    /// Forgets what changed so far: watches that begin before now get that as their answer.
    pub fn compact(&self) {
        lock(&self.store).compact();
    }

    /// A copy of all objects, to be restored later.
    pub fn copy(&self) -> Saved {
        lock(&self.store).copy()
    }

    /// Has what a copy holds, with the versions of that time, as after `etcdctl snapshot restore`.
    pub fn restore(&self, copy: &Saved) {
        lock(&self.store).restore(copy);
    }

    /// Ends all watches, as when the server goes away.
    pub fn end_watches(&self) {
        lock(&self.store).end_watches();
    }

    /// Does something as somebody who may do everything.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn admin(&self, method: &str, path: &str, body: Value) -> Result<Value, Refused> {
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::new(method, path, content_type, body);
        match self.answer(&Who::Admin, &request)? {
            Answer::Whole { body, .. } => Ok(body),
            Answer::Stream(_) => Ok(Value::Null),
        }
    }

    /// Answers a request.
    pub fn handle(&self, who: &Who, request: &Request) -> Answer {
        if matches!(who, Who::Node(_)) {
            *lock(&self.asked).entry(request.title()).or_default() += 1;
        }
        self.answer(who, request).unwrap_or_else(|refused| Answer::from(Err(refused)))
    }

    fn answer(&self, who: &Who, request: &Request) -> Result<Answer, Refused> {
        if matches!(request.path.as_str(), "/healthz" | "/livez" | "/readyz") {
            return Ok(Answer::Whole { code: 200, retry_after: None, body: "ok".into() });
        }
        let not_found = || Refused::new(404, "NotFound", "the server could not find the requested resource");
        let target = Target::parse(&request.path).ok_or_else(not_found)?;
        let selection = selection(&target, request);
        if let Who::Node(node) = who {
            authorizer::check(&lock(&self.store), node, who, request, &target, &selection)?;
        }
        match request.verb() {
            "watch" => self.watch(selection, request).map(Answer::Stream),
            "list" => self.list(&selection, request).map(|body| Answer::from(Ok(body))),
            "get" => {
                let (key, name) = self.one(&target)?;
                let found = lock(&self.store).get(&key);
                let found = found.ok_or_else(|| Refused::not_found(target.resource, &name))?;
                Ok(Answer::from(Ok((*found).clone())))
            }
            "create" => {
                self.create(who, request, &target).map(|body| Answer::Whole { code: 201, retry_after: None, body })
            }
            "deletecollection" => Ok(Answer::from(Ok(self.delete_all(who, request, &selection)))),
            _ => self.change(who, request, &target).map(|body| Answer::from(Ok(body))),
        }
    }

    fn list(&self, selection: &Selection, request: &Request) -> Result<Value, Refused> {
        let store = lock(&self.store);
        let version = match request.parameter("resourceVersion") {
            "" => store.version(),
            asked => {
                let asked: u64 =
                    asked.parse().map_err(|_| Refused::new(400, "BadRequest", "invalid resource version"))?;
                if asked > store.version() {
                    return Err(Refused::too_new(asked, store.version()));
                }
                store.version().saturating_sub(self.mood().lag).max(asked)
            }
        };
        let (items, version) = store.list(selection, version);
        let items: Vec<Value> = items.iter().map(|item| (**item).clone()).collect();
        Ok(json!({
            "apiVersion": selection.resource.api_version(), "kind": selection.list_kind(),
            "metadata": { "resourceVersion": version.to_string() }, "items": items,
        }))
    }

    fn watch(&self, selection: Selection, request: &Request) -> Result<Watching, Refused> {
        let mood = self.mood();
        let initial = request.parameter("sendInitialEvents") == "true";
        if initial && mood.plain_lists {
            let text = "ListOptions.meta.k8s.io is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden \
                        for watch unless the WatchList feature gate is enabled";
            return Err(Refused::new(422, "Invalid", text));
        }
        if initial && request.parameter("resourceVersionMatch") != "NotOlderThan" {
            let text = "ListOptions.meta.k8s.io is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires \
                        setting resourceVersionMatch to NotOlderThan";
            return Err(Refused::new(422, "Invalid", text));
        }
        let since = match request.parameter("resourceVersion") {
            "" | "0" => None,
            version if !initial => version.parse::<u64>().ok(),
            _ => None,
        };
        let (teller, events) = unbounded_channel();
        let mut store = lock(&self.store);
        let version = store.version();
        let (api_version, kind) = (selection.resource.api_version(), selection.resource.kind);
        if let Err(refused) = store.watch(selection, since, teller) {
            return Ok(Watching::refused(&refused)); // As an event of the watch.
        }
        let seconds: u64 = request.parameter("timeoutSeconds").parse().unwrap_or(1800);
        let cut = lock(&self.mood).cut.take();
        Ok(Watching {
            server: self.me.clone(),
            api_version,
            kind,
            events,
            initial_end: initial.then_some(version),
            bookmarks: request.parameter("allowWatchBookmarks") == "true",
            ends: instant() + Duration::from_secs(seconds),
            next_bookmark: Watching::bookmark_from_now(),
            cut: cut.map(|(after, kind)| (instant() + after, kind)),
            over: false,
        })
    }

    fn one(&self, target: &Target) -> Result<(Key, String), Refused> {
        let name = target.name.clone().ok_or_else(|| Refused::new(405, "MethodNotAllowed", "a name is needed"))?;
        Ok((Key::new(target.resource, target.namespace.as_deref(), &name), name))
    }

    /// Writes, and tells the witness.
    fn write(&self, who: &Who, request: &Request, key: &Key, object: Option<Value>) -> Arc<Value> {
        let (before, after) = {
            let mut store = lock(&self.store);
            let before = store.get(key);
            let is_there = object.is_some();
            let shown = store.write(key.clone(), object);
            (before, is_there.then(|| Arc::clone(&shown)).ok_or(shown))
        };
        if let Some(witness) = &*lock(&self.witness) {
            let after = after.as_ref().ok().map(|after| &**after);
            witness(&Deed { who, request, key, before: before.as_deref(), after });
        }
        after.unwrap_or_else(|last| last)
    }
}

fn selection(target: &Target, request: &Request) -> Selection {
    let terms = |text: &str| {
        let terms = text.split(',').filter(|term| !term.is_empty());
        let term = |term: &str| match term.split_once("!=") {
            Some((name, value)) => (name.to_owned(), false, value.to_owned()),
            None => {
                let (name, value) = term.split_once('=').unwrap_or((term, ""));
                (name.to_owned(), true, value.trim_start_matches('=').to_owned())
            }
        };
        terms.map(term).collect()
    };
    Selection {
        resource: target.resource,
        namespace: target.namespace.clone(),
        fields: terms(request.parameter("fieldSelector")),
        labels: terms(request.parameter("labelSelector")),
    }
}

#[expect(clippy::disallowed_methods, reason = "paused with the runtime: a simulated server sees simulated time")]
fn instant() -> Instant {
    Instant::now()
}
