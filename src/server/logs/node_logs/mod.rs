//! `/logs/`: the node's own log files, as a file server and by query (SRV-31, SRV-32).
//!
//! Off with `enableSystemLogHandler`; the query form is on with `enableSystemLogQuery`, else its parameters mean nothing.

mod files;
mod query;

use std::io;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::routing::get;

use crate::logic::formats::url_query;
use crate::logic::logs::node_log_query::{NodeLogQuery, Refused, joined};
use crate::server::reply::{self, Reply};
use crate::server::sources::{Shared, only_get};

/// The routes of the node's logs.
pub(in crate::server) fn routes() -> Router<Shared> {
    Router::new().route("/logs/", only_get(get(top))).route("/logs/{*path}", only_get(get(below)))
}

async fn top(shared: State<Shared>, query: RawQuery, headers: HeaderMap) -> Reply {
    answer(shared, String::new(), query, headers).await
}

async fn below(shared: State<Shared>, Path(path): Path<String>, query: RawQuery, headers: HeaderMap) -> Reply {
    answer(shared, path, query, headers).await
}

async fn answer(State(shared): State<Shared>, path: String, RawQuery(query): RawQuery, headers: HeaderMap) -> Reply {
    let settings = shared.served_logs;
    if !settings.system {
        return reply::text(StatusCode::METHOD_NOT_ALLOWED, "logs endpoint is disabled.\n");
    }
    let logs = &shared.node_logs;
    let Some(admission) = logs.admit() else {
        let mut answer = reply::text(StatusCode::TOO_MANY_REQUESTS, "too many logs of the node are being read\n");
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        return answer;
    };
    let asked = match settings.system_query {
        true => NodeLogQuery::parse(&url_query::pairs(query.as_deref().unwrap_or_default())),
        false => Ok(None),
    };
    match asked {
        Ok(None) => files::answer(logs.as_ref(), &path, &headers, &boundary(&shared), admission).await,
        Ok(Some(query)) => match query.file.clone() {
            Some(file) => {
                let file = file.replace('\\', "/");
                match logs.open(&file).await {
                    Ok(_) => files::answer(logs.as_ref(), &file, &headers, &boundary(&shared), admission).await,
                    Err(error) => not_acceptable(&[missing(&file, &error)]),
                }
            }
            None => query::answer(logs, query, &headers, admission),
        },
        Err(Refused::Undecodable(problems)) => reply::text(StatusCode::BAD_REQUEST, joined(&problems) + "\n"),
        Err(Refused::Invalid(problems)) => not_acceptable(&problems),
    }
}

/// The boundary between parts of a file: a text that is in none of them.
fn boundary(shared: &Shared) -> String {
    // The bits that such a number has.
    let part = || (shared.chance.next() * (1_u64 << 52) as f64) as u64;
    format!("{:013x}{:013x}{:013x}", part(), part(), part())
}

fn missing(file: &str, error: &io::Error) -> String {
    let shown = serde_json::to_string(&[file]).unwrap_or_default();
    let why = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        _ => error.to_string(),
    };
    format!("query: Invalid value: {shown}: statat {file}: {why}")
}

fn not_acceptable(problems: &[String]) -> Reply {
    reply::text(StatusCode::NOT_ACCEPTABLE, joined(problems) + "\n")
}

#[cfg(test)]
mod tests;
