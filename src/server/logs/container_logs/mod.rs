//! `/containerLogs/{namespace}/{pod}/{container}`: what a container wrote, and writes (SRV-33 to SRV-37).
//!
//! Reads the query, asks `StatusManager` which instance is meant, and then the runtime where its log is. Headers go out
//! before the log is opened, as upstream's do: an error from there on goes into the body.

mod stream;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::routing::get;

use crate::actors::kit::address::AskError;
use crate::logic::formats::go_text::quoted;
use crate::logic::formats::url_query;
use crate::logic::logs::container_log::query::{LogQuery, QueryFault};
use crate::logic::logs::container_log::selection;
use crate::messages::status::status_manager::PodView;
use crate::platform::logs::log_reader::READERS_MAX;
use crate::server::backend::Backend;
use crate::server::pods::pod_list::named;
use crate::server::reply::{self, Reply};
use crate::server::sources::{Shared, only_get};

/// When a client that was turned away may try again, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// The routes of containers' logs.
pub(in crate::server) fn routes() -> Router<Shared> {
    Router::new().route("/containerLogs/{namespace}/{pod}/{container}", only_get(get(container_logs)))
}

async fn container_logs(
    State(shared): State<Shared>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Reply {
    let backend = &shared;
    let query = match LogQuery::parse(&url_query::pairs(query.as_deref().unwrap_or_default())) {
        Ok(query) => query,
        Err(QueryFault::Undecodable) => {
            return reply::text(StatusCode::BAD_REQUEST, r#"{"message": "Unable to decode query."}"#);
        }
        Err(QueryFault::Invalid) => {
            return reply::text(StatusCode::UNPROCESSABLE_ENTITY, r#"{"message": "Invalid request."}"#);
        }
    };
    let view = match find(backend, &namespace, &pod).await {
        Ok(Some(view)) => view,
        Ok(None) => {
            return reply::text(StatusCode::NOT_FOUND, format!("pod {} does not exist", quoted(&pod)));
        }
        Err(error) => return reply::unanswered("StatusManager", error),
    };
    if !view.pod.spec.as_ref().is_some_and(|spec| selection::has_container(spec, &container)) {
        let text = format!("container {} not found in pod {}", quoted(&container), quoted(&pod));
        return reply::text(StatusCode::NOT_FOUND, text);
    }
    if let Err(refused) = query.check_gate(backend.served_logs.split_streams) {
        return reply::text(StatusCode::BAD_REQUEST, refused);
    }
    let id = match selection::instance(&view.status, &pod, &container, query.previous) {
        Ok(id) => id,
        Err(why) => return unknown_type(StatusCode::BAD_REQUEST, Body::from(why)),
    };
    let Some(admission) = backend.log_reader.admit() else { return too_many() };
    let log = stream::Wanted { id: id.to_owned(), query, _admission: admission };
    unknown_type(StatusCode::OK, Body::from_stream(stream::read(Arc::clone(backend), log)))
}

/// The pod of this name; of several, the one that is not being deleted, or the youngest. A mirror has the name of its
/// static pod, and that is the one which is here.
async fn find(backend: &Backend, namespace: &str, name: &str) -> Result<Option<PodView>, AskError> {
    let is_it = |view: &PodView| {
        let metadata = &view.pod.metadata;
        metadata.namespace.as_deref().unwrap_or("default") == namespace && metadata.name.as_deref() == Some(name)
    };
    let found = named(backend, is_it).await?;
    Ok(found.into_iter().max_by_key(|view| {
        let metadata = &view.pod.metadata;
        let made = metadata.creation_timestamp.as_ref().map(|time| time.0);
        (metadata.deletion_timestamp.is_none(), view.may_run, made)
    }))
}

/// As upstream, whose answers from here on name no type.
fn unknown_type(status: StatusCode, body: Body) -> Reply {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
}

fn too_many() -> Reply {
    let text = format!("too many logs are being read: at most {READERS_MAX} at once\n");
    let mut answer = reply::text(StatusCode::TOO_MANY_REQUESTS, text);
    answer.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    answer
}

#[cfg(test)]
mod tests;
