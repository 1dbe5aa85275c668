//! The API server as the agent's operations use it: typed calls, each with a time limit, over four lanes.
//!
//! An [`ApiServer`] is made of kube's clients over tower services: the transport's on a node, the simulated server's in the
//! simulator. It decides nothing; who may be asked for what, and when again, is its callers' business. Where texts reach
//! people they are those of upstream's client.
//!
//! kube gives the client, the resources' paths, the kubeconfig's types and the errors of a call. Requests are built here:
//! its own end in a bare `?`, which stands in the texts of errors. Its watches last less than 295 s, not up to 10 minutes as
//! upstream's. So are [`WatchEvent`] and [`ApiError`]: they hold what decisions need, in upstream's words.

pub mod credentials;
mod error;
mod exchange;
pub mod kubeconfig;
mod managed_fields;
mod observed;
mod place;
pub mod reflector;
mod runtime_clock;
mod shown_files;
#[cfg(test)]
mod tests;
pub mod transport;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::{Method, Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub use error::{ApiError, Refusal};
use exchange::{Call, Line, ask, decode, open};
pub use observed::Observed;
pub use place::{Place, Selector};
use place::{segment, with_query};
pub use watch::{WatchEvent, WatchFrom};

/// The time limit of a call, if no other is given.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// An object of the API server: every type of `k8s_openapi` that has a place of its own.
pub trait ApiObject: kube::Resource<DynamicType = ()> + DeserializeOwned + Serialize + Send + 'static {}
impl<K: kube::Resource<DynamicType = ()> + DeserializeOwned + Serialize + Send + 'static> ApiObject for K {}

/// Which way a call goes, so that a slow one does not hold up those that must not wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lane {
    /// Everything else: bounded by `kubeAPIQPS` and `kubeAPIBurst`.
    General,
    /// The Lease and the node's status: never behind watches or rate limits.
    Heartbeat,
    /// Events, bounded by `eventRecordQPS` and `eventBurst`.
    Events,
    /// Questions about tokens, which anyone who reaches the agent's port can cause: bounded by a rate of their own.
    TokenReviews,
}

/// The API server. Cheap to clone; each call goes over the lane of its clone and has its time limit.
#[derive(Clone)]
pub struct ApiServer {
    lanes: Arc<Lanes>,
    lane: Lane,
    deadline: Duration,
}

struct Lanes {
    general: kube::Client,
    heartbeat: kube::Client,
    events: kube::Client,
    token_reviews: kube::Client,
    /// The server's address, for texts.
    server: String,
    /// The observer of calls.
    observed: Option<Observed>,
}

impl Lanes {
    fn again(&self) -> Self {
        Self {
            general: self.general.clone(),
            heartbeat: self.heartbeat.clone(),
            events: self.events.clone(),
            token_reviews: self.token_reviews.clone(),
            server: self.server.clone(),
            observed: self.observed.clone(),
        }
    }
}

/// The answer to a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<K> {
    /// The objects, in the server's order.
    pub items: Vec<K>,
    /// From where a watch goes on.
    pub resource_version: String,
}

/// How a patch is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatchKind {
    /// Strategic merge: lists are merged by their keys.
    Strategic,
    /// Merge (RFC 7386): lists are replaced.
    Merge,
    /// A list of operations (RFC 6902).
    Json,
}

impl PatchKind {
    fn content_type(self) -> &'static str {
        match self {
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }
}

#[derive(Deserialize)]
struct ListBody<'a> {
    #[serde(default)]
    metadata: ListBodyMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct ListBodyMeta {
    #[serde(default)]
    resource_version: String,
}

impl ApiServer {
    /// A server behind three services; token reviews share that of the general lane. Needs a runtime: each client starts a
    /// task of its own.
    pub fn new(general: kube::Client, heartbeat: kube::Client, events: kube::Client) -> Self {
        let token_reviews = general.clone();
        let lanes = Lanes { general, heartbeat, events, token_reviews, server: String::new(), observed: None };
        Self { lanes: Arc::new(lanes), lane: Lane::General, deadline: DEADLINE }
    }

    /// The same, with a service of its own for token reviews.
    #[must_use]
    pub fn with_token_reviews(self, token_reviews: kube::Client) -> Self {
        Self { lanes: Arc::new(Lanes { token_reviews, ..self.lanes.again() }), ..self }
    }

    /// The same, with the server's address as texts name it: `https://10.0.0.1:6443`.
    #[must_use]
    pub fn named(self, server: &str) -> Self {
        let lanes = Lanes { server: server.trim_end_matches('/').to_owned(), ..self.lanes.again() };
        Self { lanes: Arc::new(lanes), ..self }
    }

    /// The same, and an observer hears of each call.
    #[must_use]
    pub fn observed(self, observed: Option<Observed>) -> Self {
        Self { lanes: Arc::new(Lanes { observed, ..self.lanes.again() }), ..self }
    }

    /// The observer of calls.
    pub fn observer(&self) -> Option<&Observed> {
        self.lanes.observed.as_ref()
    }

    /// The same, over another lane.
    #[must_use]
    pub fn on(&self, lane: Lane) -> Self {
        Self { lane, ..self.clone() }
    }

    /// The same, with another time limit for each call, retries and the body of the answer included.
    #[must_use]
    pub fn within(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// Reads one object.
    ///
    /// # Errors
    /// See [`ApiError`]; `is_not_found` when it is not there.
    pub async fn get<K: ApiObject>(&self, at: &Place, name: &str) -> Result<K, ApiError> {
        let path = format!("{}/{}", at.path::<K>()?, segment(name)?);
        watch::object(&self.ask(&Call::get(path, about::<K>(name))).await?)
    }

    /// Reads one object as the server's cache has it (`resourceVersion=0`): cheaper for the server, maybe old.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn get_cached<K: ApiObject>(&self, at: &Place, name: &str) -> Result<K, ApiError> {
        let path = format!("{}/{}?resourceVersion=0", at.path::<K>()?, segment(name)?);
        watch::object(&self.ask(&Call::get(path, about::<K>(name))).await?)
    }

    /// Reads all objects that are selected: the newest, or with a version those of at least that version, where `0`
    /// takes whatever the server's cache has. `managedFields` are left out. An answer has 64 MiB at most.
    ///
    /// # Errors
    /// See [`ApiError`]; `is_gone` when the version is too old.
    pub async fn list<K: ApiObject>(
        &self,
        at: &Place,
        selector: &Selector,
        resource_version: Option<&str>,
    ) -> Result<Listed<K>, ApiError> {
        let path = with_query(
            &at.path::<K>()?,
            &[
                ("fieldSelector", &selector.fields),
                ("labelSelector", &selector.labels),
                ("resourceVersion", resource_version.unwrap_or_default()),
            ],
        );
        let json = self.ask(&Call::get(path, about::<K>(""))).await?;
        let body: ListBody<'_> = decode(&format!("a list of {}", K::plural(&())), &json)?;
        let items = body.items.unwrap_or_default();
        let items = items.into_iter().map(|item| watch::object(item.get().as_bytes())).collect::<Result<_, _>>()?;
        Ok(Listed { items, resource_version: body.metadata.resource_version })
    }

    /// Hears of every change of what is selected, bookmarks too, until the server ends it, which it is asked to do after
    /// `timeout`. The time limit of the call is for the beginning of the answer alone. Initial events have 64 MiB at most,
    /// as a list has.
    ///
    /// # Errors
    /// See [`ApiError`]; also as the last item of the stream, where `is_gone` says that the version is too old.
    pub async fn watch<K: ApiObject>(
        &self,
        at: &Place,
        selector: &Selector,
        from: WatchFrom<'_>,
        timeout: Duration,
    ) -> Result<impl Stream<Item = Result<WatchEvent<K>, ApiError>> + Send + Unpin + use<K>, ApiError> {
        let (version, initial, matching) = match from {
            WatchFrom::Version(version) => (version, "", ""),
            WatchFrom::InitialEvents => ("", "true", "NotOlderThan"),
        };
        let path = with_query(
            &at.path::<K>()?,
            &[
                ("allowWatchBookmarks", "true"),
                ("fieldSelector", &selector.fields),
                ("labelSelector", &selector.labels),
                ("resourceVersion", version),
                ("resourceVersionMatch", matching),
                ("sendInitialEvents", initial),
                ("timeoutSeconds", &timeout.as_secs().to_string()),
                ("watch", "true"),
            ],
        );
        let call = Call::get(path, about::<K>(""));
        let response = open(&self.line(), &call, self.deadline).await?;
        Ok(watch::events(response.into_body(), timeout, from == WatchFrom::InitialEvents))
    }

    /// Makes an object; what the server made of it comes back.
    ///
    /// # Errors
    /// See [`ApiError`]; `is_already_exists` when one of this name is there.
    pub async fn create<K: ApiObject>(&self, at: &Place, object: &K) -> Result<K, ApiError> {
        let body = encode(object)?;
        let name = object.meta().name.as_deref().unwrap_or_default();
        let call = Call::with_json(Method::POST, at.path::<K>()?, about::<K>(name), body);
        watch::object(&self.ask(&call).await?)
    }

    /// Replaces an object, or its subresource (`status`), if it did not change since it was read.
    ///
    /// # Errors
    /// See [`ApiError`]; `is_conflict` when it changed.
    pub async fn replace<K: ApiObject>(
        &self,
        at: &Place,
        object: &K,
        subresource: Option<&str>,
    ) -> Result<K, ApiError> {
        let name = object.meta().name.as_deref().unwrap_or_default();
        let path = path_of::<K>(at, name, subresource)?;
        let call = Call::with_json(Method::PUT, path, about::<K>(name), encode(object)?);
        watch::object(&self.ask(&call).await?)
    }

    /// Changes parts of an object, or of its subresource (`status`).
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn patch<K: ApiObject>(
        &self,
        at: &Place,
        name: &str,
        subresource: Option<&str>,
        kind: PatchKind,
        body: &Value,
    ) -> Result<K, ApiError> {
        let mut call =
            Call::with_json(Method::PATCH, path_of::<K>(at, name, subresource)?, about::<K>(name), encode(body)?);
        call.content_type = kind.content_type();
        watch::object(&self.ask(&call).await?)
    }

    /// Asks for an object's end: after `grace` seconds, the object's own where that is `None`; only if it still has this
    /// UID, where one is given.
    ///
    /// # Errors
    /// See [`ApiError`]; `is_conflict` when it has another UID.
    pub async fn delete<K: ApiObject>(
        &self,
        at: &Place,
        name: &str,
        grace: Option<i64>,
        uid: Option<&str>,
    ) -> Result<(), ApiError> {
        let options = DeleteOptions {
            api_version: Some("v1".to_owned()),
            kind: Some("DeleteOptions".to_owned()),
            grace_period_seconds: grace,
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() }),
            ..DeleteOptions::default()
        };
        let path = path_of::<K>(at, name, None)?;
        let call = Call::with_json(Method::DELETE, path, about::<K>(name), encode(&options)?);
        self.ask(&call).await.map(drop)
    }

    /// Asks for the end of all objects that are selected, each after its own grace period.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn delete_all<K: ApiObject>(&self, at: &Place, selector: &Selector) -> Result<(), ApiError> {
        let options = DeleteOptions {
            api_version: Some("v1".to_owned()),
            kind: Some("DeleteOptions".to_owned()),
            ..DeleteOptions::default()
        };
        let selected = [("fieldSelector", selector.fields.as_str()), ("labelSelector", selector.labels.as_str())];
        let path = with_query(&at.path::<K>()?, &selected);
        let call = Call::with_json(Method::DELETE, path, about::<K>(""), encode(&options)?);
        self.ask(&call).await.map(drop)
    }

    /// Posts to a subresource of an object, such as `token` of a service account.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn post_subresource<K: ApiObject, B: Serialize, A: DeserializeOwned>(
        &self,
        at: &Place,
        name: &str,
        subresource: &str,
        body: &B,
    ) -> Result<A, ApiError> {
        let path = path_of::<K>(at, name, Some(subresource))?;
        let call = Call::with_json(Method::POST, path, about::<K>(name), encode(body)?);
        decode(&format!("{subresource} of {}", about::<K>(name)), &self.ask(&call).await?)
    }

    /// Whether the server is up: `GET /healthz` answers with success.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn healthz(&self) -> Result<(), ApiError> {
        self.ask(&Call::get("/healthz".to_owned(), String::new())).await.map(drop)
    }

    /// Asks the agent of a node through the server's proxy, once; the answer's head, whatever its status, and its body as it
    /// comes.
    ///
    /// # Errors
    /// See [`ApiError`]: nobody answered, or not within the time limit of the call.
    pub async fn node_proxy(&self, node: &str, path: &str) -> Result<Response<Body>, ApiError> {
        let path = format!("/api/v1/nodes/{}/proxy{path}", segment(node)?);
        let call = Call::get(path, format!("nodes {node}"));
        let line = self.line();
        let late = || ApiError::Deadline { request: call.title(line.server) };
        tokio::time::timeout(self.deadline, line.exchange(&call)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn ask(&self, call: &Call) -> Result<Bytes, ApiError> {
        ask(&self.line(), call, self.deadline).await
    }

    fn line(&self) -> Line<'_> {
        let client = match self.lane {
            Lane::General => &self.lanes.general,
            Lane::Heartbeat => &self.lanes.heartbeat,
            Lane::Events => &self.lanes.events,
            Lane::TokenReviews => &self.lanes.token_reviews,
        };
        Line { client, server: &self.lanes.server, observed: self.lanes.observed.as_ref() }
    }
}

fn path_of<K: ApiObject>(at: &Place, name: &str, subresource: Option<&str>) -> Result<String, ApiError> {
    let object = format!("{}/{}", at.path::<K>()?, segment(name)?);
    Ok(subresource.map_or_else(|| object.clone(), |subresource| format!("{object}/{subresource}")))
}

/// Resource and name, as texts of bare status codes name them: `leases.coordination.k8s.io node-1`.
fn about<K: ApiObject>(name: &str) -> String {
    let (plural, group) = (K::plural(&()), K::group(&()));
    let resource = if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") };
    if name.is_empty() { resource } else { format!("{resource} {name}") }
}

fn encode<B: Serialize>(body: &B) -> Result<Bytes, ApiError> {
    // A body that cannot be written is left unsaid: it may be a secret's.
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|_| ApiError::Request("encode the object: it has no JSON".to_owned()))
}
