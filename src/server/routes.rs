//! Which paths each plain listener answers.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::routing::{any, get, post};
use axum::{Extension, Router};

use super::caller::Caller;
use super::node::health::Health;
use super::reply::{self, Reply};
use super::streams;
use crate::logic::pods::pod_lifecycle::Demanded;
use crate::server::logs::{container_logs, node_logs};
use crate::server::node::{debugging, events, images, plugins, zpages};
use crate::server::pods::{demands, explain, pod_list, ps_watch};
use crate::server::sources::{Shared, only_get};
use crate::server::statistics::{scrape, stats};
use crate::server::streams::{checkpoint, run};
use crate::server::views::{actors_view, trace_view};
use crate::telemetry::Port;

/// The health port: `/healthz` and its checks. Any method may ask, as upstream's mux has it.
pub(super) fn healthz(shared: Shared) -> Router {
    health_routes(shared).fallback(reply::not_found)
}

/// The read-only port.
pub(super) fn read_only(shared: Shared) -> Router {
    let (http, clock) = (Arc::clone(shared.metrics.http()), Arc::clone(shared.trace.clock()));
    let routes =
        health_routes(Arc::clone(&shared)).merge(public_routes().with_state(shared)).fallback(reply::not_found);
    routes.layer(middleware::from_fn(move |request: Request, next: Next| {
        let in_flight = http.begin(&clock, Port::ReadOnly, request.method().as_str(), request.uri().path());
        async move {
            let answer = next.run(request).await;
            drop(in_flight);
            answer
        }
    }))
}

/// The local socket.
pub(super) fn local(shared: Shared) -> Router {
    let health = health_routes(Arc::clone(&shared));
    let inside = inside_routes()
        // The only two that change something, for the same users as all else here.
        .route("/restart/{namespace}/{pod}", post(restart).fallback(reply::only_post))
        .route("/reset-back-off/{namespace}/{pod}", post(reset_back_off).fallback(reply::only_post));
    let inside = inside.merge(public_routes()).layer(Extension(Caller::local()));
    health.merge(inside.with_state(shared)).fallback(reply::not_found)
}

/// The authenticated port; a guard stands before it.
pub(super) fn secure(shared: Shared) -> Router {
    let health = health_routes(Arc::clone(&shared));
    let inside = inside_routes().merge(public_routes());
    health.merge(inside.with_state(shared)).fallback(reply::page_not_found)
}

/// The routes for people and programs with rights, over the network and on the node: never on a port without
/// authentication.
fn inside_routes() -> Router<Shared> {
    Router::new()
        .route("/configz", only_get(get(configz)))
        .route("/runningpods", only_get(get(running_pods)))
        .route("/runningpods/", only_get(get(running_pods)))
        .route("/debug/actors", only_get(get(actors)))
        .route("/debug/actors/trace", only_get(get(trace)))
        .route("/debug/plugins", only_get(get(all_plugins)))
        .route("/ps", only_get(get(ps)))
        .route("/explain/{namespace}/{pod}", only_get(get(explain_pod)))
        .route("/events", only_get(get(last_events)))
        .route("/images", only_get(get(all_images)))
        .merge(debugging::routes())
        .merge(zpages::routes())
        .merge(container_logs::routes())
        .merge(node_logs::routes())
        .merge(streams::routes())
        .merge(run::routes())
        .merge(checkpoint::routes())
}

fn health_routes(backend: Shared) -> Router {
    let health = Arc::new(Health::default());
    let (all, one) = ((Arc::clone(&health), Arc::clone(&backend)), (health, backend));
    let all = any(move |RawQuery(query)| {
        let (health, backend) = all.clone();
        async move { health.answer_all(&backend, query.as_deref()) }
    });
    let one = any(move |Path(name): Path<String>| {
        let (health, backend) = one.clone();
        async move {
            match health.answer_one(&backend, &name) {
                Some(answer) => answer,
                None => reply::not_found().await,
            }
        }
    });
    Router::new().route("/healthz", all).route("/healthz/{name}", one)
}

fn public_routes() -> Router<Shared> {
    Router::new()
        .route("/pods", only_get(get(all_pods)))
        .route("/pods/", only_get(get(all_pods)))
        .route("/metrics", only_get(get(metrics)))
        .route("/metrics/probes", only_get(get(probe_metrics)))
        .route("/metrics/slis", get(slis).delete(reset_slis).head(reply::only_get).fallback(reply::only_get))
        .merge(stats::routes())
}

async fn all_pods(State(shared): State<Shared>) -> Reply {
    pod_list::pods(&shared).await
}

async fn running_pods(State(shared): State<Shared>) -> Reply {
    pod_list::running_pods(&shared).await
}

async fn metrics(State(shared): State<Shared>, headers: HeaderMap) -> Reply {
    scrape::answer(&headers, &shared.metrics.all(&shared.sources).await)
}

async fn probe_metrics(State(shared): State<Shared>, headers: HeaderMap) -> Reply {
    scrape::answer(&headers, &shared.metrics.probes(&shared.sources).await)
}

async fn slis(State(shared): State<Shared>, headers: HeaderMap) -> Reply {
    scrape::answer(&headers, &shared.metrics.slis())
}

async fn reset_slis(State(shared): State<Shared>) -> Reply {
    shared.metrics.reset_slis();
    reply::text(StatusCode::OK, "metrics reset\n")
}

async fn configz(State(shared): State<Shared>) -> Reply {
    reply::json_body(StatusCode::OK, shared.pages.configz.get().to_string())
}

async fn actors(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Reply {
    let query = query.as_deref();
    let with_turns = reply::query_value(query, "turns").is_some();
    let shown = actors_view::all(&shared, with_turns);
    match reply::query_value(query, "format").as_deref() {
        None | Some("json") => reply::json(&shown),
        Some("text") => {
            let colours = reply::query_value(query, "colours").is_some();
            reply::text(StatusCode::OK, actors_view::tree(&shown, colours))
        }
        Some(_) => reply::text(StatusCode::BAD_REQUEST, "format is one of json, text\n"),
    }
}

async fn trace(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Reply {
    trace_view::answer(&shared, query.as_deref()).await
}

async fn all_plugins(State(shared): State<Shared>) -> Reply {
    plugins::answer(&shared).await
}

async fn last_events(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Reply {
    events::answer(&shared, query.as_deref()).await
}

async fn all_images(State(shared): State<Shared>) -> Reply {
    images::answer(&shared).await
}

async fn ps(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Reply {
    if reply::is_set(query.as_deref(), "watch") {
        return ps_watch::answer(&shared).await;
    }
    match explain::rows(&shared).await {
        Ok(rows) => reply::json(&rows),
        Err(error) => reply::unanswered("StatusManager", error),
    }
}

async fn explain_pod(State(shared): State<Shared>, Path((namespace, pod)): Path<(String, String)>) -> Reply {
    match explain::explain(&shared, &namespace, &pod).await {
        Ok(found) if found.is_empty() => {
            reply::text(StatusCode::NOT_FOUND, format!("no pod {namespace}/{pod} on this node\n"))
        }
        Ok(found) => reply::json(&found),
        Err((actor, error)) => reply::unanswered(actor, error),
    }
}

async fn restart(shared: State<Shared>, path: Path<(String, String)>, query: RawQuery) -> Reply {
    demanded(shared, path, query, Demanded::Restart).await
}

async fn reset_back_off(shared: State<Shared>, path: Path<(String, String)>, query: RawQuery) -> Reply {
    demanded(shared, path, query, Demanded::ResetBackOff).await
}

async fn demanded(
    State(shared): State<Shared>,
    Path((namespace, pod)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    what: Demanded,
) -> Reply {
    let container = reply::query_value(query.as_deref(), "container");
    demands::answer(&shared, &namespace, &pod, what, container).await
}
