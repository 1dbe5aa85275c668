//! `/stats/summary`, `/metrics/resource`, `/metrics/cadvisor`: a snapshot of `StatsCollector`, printed.

mod told;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::routing::get;
use futures_util::stream;
use serde::Serialize;

use super::scrape;
use crate::logic::statistics::build;
use crate::logic::statistics::cadvisor::Page;
use crate::logic::statistics::resource_metrics;
use crate::logic::statistics::sample::{Snapshot, Wanted};
use crate::logic::statistics::summary::Summary;
use crate::messages::stats_collector::StatsCollectorMsg;
use crate::server::backend::Backend;
use crate::server::pods::pod_list::REQUEST;
use crate::server::reply::{self, Reply};
use crate::server::sources::{Shared, only_get};

/// How old figures may be: who asks at about the same time shares a look.
const AGE_MAX: Duration = Duration::from_secs(2);
/// How long figures are waited for: longer than the runtime may take to tell its disks.
const ASK_LIMIT: Duration = Duration::from_secs(20);

/// The routes of statistics.
pub(in crate::server) fn routes() -> Router<Shared> {
    let both = || get(summary).post(summary).fallback(reply::only_get);
    Router::new()
        .route("/stats/summary", both())
        .route("/stats/summary/", both())
        .route("/metrics/resource", only_get(get(resource)))
        .route("/metrics/cadvisor", only_get(get(cadvisor)))
}

async fn snapshot(backend: &Backend, wanted: Wanted) -> Result<Arc<Snapshot>, String> {
    let get = |reply| StatsCollectorMsg::Get { wanted, age_max: AGE_MAX, reply };
    match backend.directory.stats_collector.ask(REQUEST, ASK_LIMIT, get).await {
        Ok(outcome) => outcome,
        Err(error) => Err(format!("StatsCollector: {error}")),
    }
}

async fn summary(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Reply {
    let backend = &*shared;
    // Said twice, or said otherwise, it does not count.
    let only = reply::query_values(query.as_deref(), "only_cpu_and_memory") == ["true"];
    let wanted = if only { Wanted::CPU_AND_MEMORY } else { Wanted::SUMMARY };
    match snapshot(backend, wanted).await {
        Ok(snapshot) if only => indented(&build::cpu_and_memory(&snapshot, &backend.facts)),
        Ok(snapshot) => indented(&build::summary(&snapshot, &backend.facts)),
        Err(problem) => failed(&problem),
    }
}

/// JSON with one blank a level, as upstream writes it.
fn indented(summary: &Summary) -> Reply {
    let mut body = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(b" ");
    match summary.serialize(&mut serde_json::Serializer::with_formatter(&mut body, form)) {
        Ok(()) => reply::json_body(StatusCode::OK, body),
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(problem: &str) -> Reply {
    reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("Internal Error: {problem}"))
}

async fn resource(State(shared): State<Shared>) -> Reply {
    // An error becomes a metric, so that the scrape itself does not fail.
    let snapshot = snapshot(&shared, Wanted::RESOURCES).await.ok();
    scrape::text(resource_metrics::text(snapshot.as_deref()))
}

async fn cadvisor(State(shared): State<Shared>) -> Reply {
    if shared.sources.from_runtime {
        return told::families(&shared).await.map_or_else(|problem| failed(&problem), page);
    }
    match snapshot(&shared, Wanted::EVERYTHING).await {
        Ok(snapshot) => page(Page::new(snapshot, shared.facts.pressure)),
        Err(problem) => failed(&problem),
    }
}

fn page(families: impl Iterator<Item = String> + Send + 'static) -> Reply {
    let families = families.map(|family| Ok::<Bytes, Infallible>(Bytes::from(family)));
    scrape::text(Body::from_stream(stream::iter(families)))
}

#[cfg(test)]
mod tests;
