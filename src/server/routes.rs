//! Which paths each plain listener answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::routing::{MethodRouter, any, get, post};
use axum::{Extension, Router};

use super::caller::Caller;
use super::health::Health;
use super::reply::{self, Reply};
use super::streams::{self, Streams};
use super::{
    actors_view, checkpoint, container_logs, debugging, demands, explain, node_logs, pods, run, scrape, stats,
    trace_view, zpages,
};
use crate::actors::settings::Agent;
use crate::logic::pods::pod_lifecycle::Demanded;
use crate::telemetry::{Metrics, Port};

/// What the local socket's answers come from.
pub(super) struct Shared {
    pub(super) agent: Arc<Agent>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) pages: Arc<Pages>,
    pub(super) streams: Arc<Streams>,
}

/// What was decided at the start, and is shown since.
#[derive(Debug, Default)]
pub struct Pages {
    /// The body of `/configz`: the effective configuration as JSON.
    pub configz: String,
    /// The release whose behaviour this is, such as `v1.36.0`.
    pub version: String,
    /// Every flag with its value as text; secrets are not in it.
    pub flags: BTreeMap<String, String>,
}

/// The state of all routes.
pub(super) type Sources = Arc<Shared>;

/// The health port: `/healthz` and its checks. Any method may ask, as upstream's mux has it.
pub(super) fn healthz(agent: Arc<Agent>) -> Router {
    health_routes(agent).fallback(reply::not_found)
}

/// The read-only port.
pub(super) fn read_only(agent: Arc<Agent>, metrics: Arc<Metrics>) -> Router {
    let (http, clock) = (Arc::clone(metrics.http()), Arc::clone(agent.trace.clock()));
    let shared = Shared { agent: Arc::clone(&agent), metrics, pages: Arc::default(), streams: Arc::default() };
    let routes = health_routes(agent).merge(public_routes().with_state(Arc::new(shared))).fallback(reply::not_found);
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
    let health = health_routes(Arc::clone(&shared.agent));
    let inside = inside_routes()
        .route("/explain/{namespace}/{pod}", only_get(get(explain_pod)))
        .route("/ps", only_get(get(ps)))
        // The only two that change something, for the same users as all else here.
        .route("/restart/{namespace}/{pod}", post(restart).fallback(reply::only_post))
        .route("/reset-back-off/{namespace}/{pod}", post(reset_back_off).fallback(reply::only_post));
    let inside = inside.merge(public_routes()).layer(Extension(Caller::local()));
    health.merge(inside.with_state(Arc::new(shared))).fallback(reply::not_found)
}

/// The authenticated port; a guard stands before it.
pub(super) fn secure(shared: Shared) -> Router {
    let health = health_routes(Arc::clone(&shared.agent));
    let inside = inside_routes().merge(public_routes());
    health.merge(inside.with_state(Arc::new(shared))).fallback(reply::page_not_found)
}

/// What people and programs with rights may ask, over the network and on the node: never on a port without authentication.
fn inside_routes() -> Router<Sources> {
    Router::new()
        .route("/configz", only_get(get(configz)))
        .route("/runningpods", only_get(get(running_pods)))
        .route("/runningpods/", only_get(get(running_pods)))
        .route("/debug/actors", only_get(get(actors)))
        .route("/debug/actors/trace", only_get(get(trace)))
        .merge(debugging::routes())
        .merge(zpages::routes())
        .merge(container_logs::routes())
        .merge(node_logs::routes())
        .merge(streams::routes())
        .merge(run::routes())
        .merge(checkpoint::routes())
}

fn health_routes(agent: Arc<Agent>) -> Router {
    let health = Arc::new(Health::default());
    let (all, one) = ((Arc::clone(&health), Arc::clone(&agent)), (health, agent));
    let all = any(move |RawQuery(query)| {
        let (health, agent) = all.clone();
        async move { health.answer_all(&agent, query.as_deref()) }
    });
    let one = any(move |Path(name): Path<String>| {
        let (health, agent) = one.clone();
        async move {
            match health.answer_one(&agent, &name) {
                Some(answer) => answer,
                None => reply::not_found().await,
            }
        }
    });
    Router::new().route("/healthz", all).route("/healthz/{name}", one)
}

fn public_routes() -> Router<Sources> {
    Router::new()
        .route("/pods", only_get(get(all_pods)))
        .route("/pods/", only_get(get(all_pods)))
        .route("/metrics", only_get(get(metrics)))
        .route("/metrics/probes", only_get(get(probe_metrics)))
        .route("/metrics/slis", get(slis).delete(reset_slis).head(reply::only_get).fallback(reply::only_get))
        .merge(stats::routes())
}

/// `GET` takes `HEAD` along; everything else is refused by name.
pub(super) fn only_get(route: MethodRouter<Sources>) -> MethodRouter<Sources> {
    route.head(reply::only_get).fallback(reply::only_get)
}

async fn all_pods(State(shared): State<Sources>) -> Reply {
    pods::pods(&shared.agent).await
}

async fn running_pods(State(shared): State<Sources>) -> Reply {
    pods::running_pods(&shared.agent).await
}

async fn metrics(State(shared): State<Sources>, headers: HeaderMap) -> Reply {
    scrape::answer(&headers, &shared.metrics.all(&shared.agent).await)
}

async fn probe_metrics(State(shared): State<Sources>, headers: HeaderMap) -> Reply {
    scrape::answer(&headers, &shared.metrics.probes(&shared.agent).await)
}

async fn slis(State(shared): State<Sources>, headers: HeaderMap) -> Reply {
    scrape::answer(&headers, &shared.metrics.slis())
}

async fn reset_slis(State(shared): State<Sources>) -> Reply {
    shared.metrics.reset_slis();
    reply::text(StatusCode::OK, "metrics reset\n")
}

async fn configz(State(shared): State<Sources>) -> Reply {
    reply::json_body(StatusCode::OK, shared.pages.configz.clone())
}

async fn actors(State(shared): State<Sources>, RawQuery(query): RawQuery) -> Reply {
    let query = query.as_deref();
    let with_turns = reply::query_value(query, "turns").is_some();
    let shown = actors_view::all(&shared.agent, with_turns);
    match reply::query_value(query, "format").as_deref() {
        None | Some("json") => reply::json(&shown),
        Some("text") => {
            let colours = reply::query_value(query, "colours").is_some();
            reply::text(StatusCode::OK, actors_view::tree(&shown, colours))
        }
        Some(_) => reply::text(StatusCode::BAD_REQUEST, "format is one of json, text\n"),
    }
}

async fn trace(State(shared): State<Sources>, RawQuery(query): RawQuery) -> Reply {
    trace_view::answer(&shared.agent, query.as_deref()).await
}

async fn ps(State(shared): State<Sources>) -> Reply {
    match explain::rows(&shared.agent).await {
        Ok(rows) => reply::json(&rows),
        Err(error) => reply::unanswered("StatusManager", error),
    }
}

async fn explain_pod(State(shared): State<Sources>, Path((namespace, pod)): Path<(String, String)>) -> Reply {
    match explain::explain(&shared.agent, &namespace, &pod).await {
        Ok(found) if found.is_empty() => {
            reply::text(StatusCode::NOT_FOUND, format!("no pod {namespace}/{pod} on this node\n"))
        }
        Ok(found) => reply::json(&found),
        Err((actor, error)) => reply::unanswered(actor, error),
    }
}

async fn restart(shared: State<Sources>, path: Path<(String, String)>, query: RawQuery) -> Reply {
    demanded(shared, path, query, Demanded::Restart).await
}

async fn reset_back_off(shared: State<Sources>, path: Path<(String, String)>, query: RawQuery) -> Reply {
    demanded(shared, path, query, Demanded::ResetBackOff).await
}

async fn demanded(
    State(shared): State<Sources>,
    Path((namespace, pod)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    what: Demanded,
) -> Reply {
    let container = reply::query_value(query.as_deref(), "container");
    demands::answer(&shared.agent, &namespace, &pod, what, container).await
}
