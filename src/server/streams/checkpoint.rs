//! `POST /checkpoint/{namespace}/{pod}/{container}?timeout=`: has the runtime write a container's memory into an archive
//! (SRV-49). The archive holds whatever secrets the container held: it is for root alone (SEC-39).

use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::json;

use super::{Audit, Kind, Place, Problem, find};
use crate::logic::model::ids::FullName;
use crate::logic::pods::pod_containers::find_container;
use crate::logic::serving::streams::query;
use crate::platform::host::blocking;
use crate::platform::pods::checkpoint_archives;
use crate::server::reply::{self, Reply};
use crate::server::sources::Shared;

/// The routes of this module.
pub(in crate::server) fn routes() -> Router<Shared> {
    Router::new().route("/checkpoint/{namespace}/{pod}/{container}", post(checkpoint).fallback(reply::only_post))
}

async fn checkpoint(State(shared): State<Shared>, Path(place): Path<Place>, request: Request) -> Reply {
    if !shared.stream_settings.checkpoints {
        return reply::not_found().await;
    }
    let audit = Audit::begin(Kind::Checkpoint, &shared, &place, &request);
    let asked = request.uri().query().unwrap_or_default().to_owned();
    drop(request);
    let answer = answer(&shared, &place, &asked).await.unwrap_or_else(Problem::reply);
    audit.answered(answer.status());
    answer
}

async fn answer(shared: &Shared, place: &Place, asked: &str) -> Result<Reply, Problem> {
    let view = find::pod(shared, &place.namespace, &place.pod).await?;
    if find_container(&view.pod, &place.container).is_none() {
        return Err(Problem::not_found(format!("container {} does not exist", place.container)));
    }
    let limits = query::values(asked, "timeout");
    let seconds: i64 = match limits.last() {
        None => 0,
        Some(text) => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            number.ok_or_else(|| Problem::not_found("cannot parse value of timeout parameter"))?
        }
    };
    let made = make(shared, place, &view.uid, seconds).await.map_err(|why| {
        let Place { namespace, pod, container, .. } = place;
        Problem::internal(format!("checkpointing of {namespace}/{pod}/{container} failed ({why})"))
    })?;
    Ok(reply::json_body(StatusCode::OK, json!({ "items": [made] }).to_string()))
}

async fn make(
    shared: &Shared,
    place: &Place,
    uid: &crate::logic::model::ids::PodUid,
    seconds: i64,
) -> Result<PathBuf, String> {
    let (backend, settings) = (&**shared, &shared.stream_settings);
    let found = find::running_container(backend, uid, &place.container).await.map_err(|error| error.to_string())?;
    let container = found.ok_or_else(|| format!("container {} not found", place.container))?;
    let seconds = u64::try_from(seconds).map_err(|_| "CheckpointContainer requires the timeout value to be > 0")?;
    let _permit =
        shared.streams.admit(backend, container.to_string(), Kind::Checkpoint).map_err(|error| error.to_string())?;
    let full_name = FullName::new(&place.pod, &place.namespace);
    let (folder, most) = (PathBuf::from(&settings.checkpoints_dir), settings.checkpoints_max);
    let (name, now) = (format!("checkpoint-{full_name}-{}", place.container), backend.trace.clock().now());
    let path = blocking::run(move || checkpoint_archives::place(&folder, &name, now, most)).await;
    let path = path.map_err(|error| error.to_string())?;
    let location = path.to_str().ok_or("the root directory's name is not UTF-8")?;
    let limit = Duration::from_secs(seconds);
    let made = backend.runtime.checkpoint_container(&container, location, limit).await;
    // Also after a failure, which may have left a part.
    let written = path.clone();
    let closed = blocking::run(move || checkpoint_archives::close(&written)).await;
    made.map_err(|error| error.to_string())?;
    closed.map(|()| path).map_err(|error| error.to_string())
}
