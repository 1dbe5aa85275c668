//! `POST /run/{namespace}/{pod}[/{uid}]/{container}?cmd=`: one command without streams, its output as the answer (SRV-39).

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::routing::post;

use super::{Audit, Kind, Place, Problem, find};
use crate::logic::serving::streams::query;
use crate::server::reply::{self, Reply};
use crate::server::sources::Shared;

/// The routes of this module.
pub(in crate::server) fn routes() -> Router<Shared> {
    let run = || post(run).fallback(reply::only_post);
    Router::new()
        .route("/run/{namespace}/{pod}/{container}", run())
        .route("/run/{namespace}/{pod}/{uid}/{container}", run())
}

async fn run(State(shared): State<Shared>, Path(place): Path<Place>, request: Request) -> Reply {
    let mut audit = Audit::begin(Kind::Run, &shared, &place, &request);
    let asked = request.uri().query().unwrap_or_default().to_owned();
    drop(request);
    let answer = answer(&shared, &place, &asked, &mut audit).await.unwrap_or_else(Problem::reply);
    audit.answered(answer.status());
    answer
}

async fn answer(shared: &Shared, place: &Place, asked: &str, audit: &mut Audit) -> Result<Reply, Problem> {
    let backend = &**shared;
    let view = find::pod(backend, &place.namespace, &place.pod).await?;
    let asked = query::value(asked, "cmd").unwrap_or_default();
    let command = String::from_utf8(asked).map_err(|_| Problem::internal("the command is not UTF-8"))?;
    // No shell and no quotes: two blanks make an empty argument, as upstream.
    let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
    audit.command(&command);
    let failed = |error: crate::cri::CriError| Problem::internal(error.to_string());
    let container = find::running_container(backend, &view.uid, &place.container).await.map_err(failed)?;
    let container = container.ok_or_else(|| find::no_container(&place.container))?;
    let _permit = shared.streams.admit(backend, container.to_string(), Kind::Run)?;
    let outcome = backend.runtime.exec_sync(&container, &command, Duration::ZERO).await.map_err(failed)?;
    if outcome.exit_code != 0 {
        let stderr = String::from_utf8_lossy(&outcome.stderr).into_owned();
        let command = command.join(" ");
        return Err(Problem::internal(format!("command '{command}' exited with {}: {stderr}", outcome.exit_code)));
    }
    let output = [outcome.stdout, outcome.stderr].concat();
    if output.is_empty() {
        return Ok(Reply::new(Body::empty()));
    }
    Ok(reply::json_body(StatusCode::OK, output))
}
