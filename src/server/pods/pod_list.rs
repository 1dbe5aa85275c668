//! `/pods` and `/runningpods/`: lists of pods in the API's JSON form, sent pod by pod so that no list is held whole.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use futures_util::stream;
use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::json;

use crate::actors::kit::address::AskError;
use crate::actors::kit::trace::Cause;
use crate::logic::model::runtime_pod::{ContainerState, RuntimePod};
use crate::messages::runtime::pleg::PlegMsg;
use crate::messages::status::status_manager::{Patience, PodView, StatusManagerMsg};
use crate::server::backend::Backend;
use crate::server::reply::{self, Reply};

/// How long an actor may take to answer a request.
pub(crate) const ASK_LIMIT: Duration = Duration::from_secs(5);
/// Why the server asks.
pub(in crate::server) const REQUEST: Cause = Cause::outside("request");

/// A pod inside a list: without the kind and version that the list already has, as upstream writes it.
#[derive(Serialize)]
struct Item<'a> {
    metadata: &'a ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<&'a PodSpec>,
    status: &'a PodStatus,
}

/// The longest that a request waits for a just started agent to know its pods.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// Waits until the agent, if it was just started, knows all its pods. It goes on without that knowledge in the end: the
/// answer is then what is known.
pub(in crate::server) async fn settled(backend: &Backend, patience: Patience) {
    let question = |reply| StatusManagerMsg::Settled(patience, reply);
    let _ = backend.directory.status_manager.ask(REQUEST, SETTLED_WITHIN, question).await;
}

/// All pods with their newest status, by namespace and name; of an agent that is new, once it knows them.
pub(in crate::server) async fn views(backend: &Backend) -> Result<Vec<PodView>, AskError> {
    settled(backend, Patience::WhileNew).await;
    known(backend).await
}

/// Those pods of which `is_meant` holds; before there are none, the agent has to know all its pods.
pub(in crate::server) async fn named(
    backend: &Backend,
    is_meant: impl Fn(&PodView) -> bool,
) -> Result<Vec<PodView>, AskError> {
    let mut found = known(backend).await?;
    found.retain(&is_meant);
    if found.is_empty() {
        settled(backend, Patience::UntilKnown).await;
        found = known(backend).await?;
        found.retain(&is_meant);
    }
    Ok(found)
}

async fn known(backend: &Backend) -> Result<Vec<PodView>, AskError> {
    backend.directory.status_manager.ask(REQUEST, ASK_LIMIT, StatusManagerMsg::List).await
}

/// Answers `/pods`.
pub(in crate::server) async fn pods(backend: &Backend) -> Reply {
    match views(backend).await {
        Ok(views) => list(views.into_iter().filter(|view| !view.is_over).collect(), |view: &PodView| {
            let pod = &view.pod;
            serde_json::to_vec(&Item { metadata: &pod.metadata, spec: pod.spec.as_ref(), status: &view.status })
        }),
        Err(error) => reply::unanswered("StatusManager", error),
    }
}

/// Answers `/runningpods/`: what the runtime runs, whoever wanted it.
pub(in crate::server) async fn running_pods(backend: &Backend) -> Reply {
    settled(backend, Patience::WhileNew).await;
    match backend.directory.pleg.ask(REQUEST, ASK_LIMIT, PlegMsg::Pods).await {
        Ok(pods) => {
            let alive: Vec<Arc<RuntimePod>> = pods.into_iter().filter(|pod| pod.is_alive()).collect();
            list(alive, |pod| serde_json::to_vec(&running_pod(pod)))
        }
        Err(error) => reply::unanswered("Pleg", error),
    }
}

fn running_pod(pod: &RuntimePod) -> serde_json::Value {
    let running = pod.containers.iter().filter(|container| container.state == ContainerState::Running);
    let containers: Vec<_> = running
        .map(|container| json!({"name": container.name, "image": container.process.image, "resources": {}}))
        .collect();
    // As Go writes a list that has nothing in it.
    let containers = if containers.is_empty() { serde_json::Value::Null } else { containers.into() };
    json!({
        "metadata": {"name": &*pod.full_name.name, "namespace": &*pod.full_name.namespace, "uid": pod.uid},
        "spec": {"containers": containers},
        "status": {},
    })
}

/// A `v1.PodList` whose items are written one at a time.
fn list<T: Send + 'static>(items: Vec<T>, write: impl Fn(&T) -> serde_json::Result<Vec<u8>> + Send + 'static) -> Reply {
    if items.is_empty() {
        let body = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}"#;
        return reply::json_body(StatusCode::OK, format!("{body}\n"));
    }
    let mut first = true;
    let written = items.into_iter().filter_map(move |item| {
        // An item that has no JSON form cannot be; if one were, the page would still have the others.
        let mut bytes = write(&item).ok()?;
        if !std::mem::replace(&mut first, false) {
            bytes.insert(0, b',');
        }
        Some(Bytes::from(bytes))
    });
    let head = Bytes::from_static(br#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":["#);
    let parts = std::iter::once(head).chain(written).chain(std::iter::once(Bytes::from_static(b"]}\n")));
    reply::json_body(StatusCode::OK, Body::from_stream(stream::iter(parts.map(Ok::<Bytes, Infallible>))))
}
