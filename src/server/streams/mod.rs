//! `/exec`, `/attach`, `/portForward`: a user's streams into a container or pod.
//!
//! The runtime is asked where it serves them, and the client's connection is joined to that place: byte by byte
//! (`relay`), or, for two WebSocket protocols that no runtime knows, as SPDY (`translate`, `tunnel`). All of it is
//! bounded in number and written down. [`Streams`] holds what is open; it ends with the agent, not with a listener, so
//! that a listener that is started anew cuts off nobody.

mod audit;
mod carried;
pub(super) mod checkpoint;
pub(super) mod find;
mod pass;
mod problem;
mod relay;
pub(super) mod run;
mod translate;
mod tunnel;
mod websocket;

#[cfg(test)]
mod tests;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::handler::Handler;
use axum::routing::{MethodRouter, get};
use serde::Deserialize;

pub(super) use self::audit::Audit;
pub(super) use self::problem::Problem;
use super::reply::{self, Reply};
use super::sources::Shared;
use crate::logic::model::ids::FullName;
use crate::logic::pods::pod_containers::find_container;
use crate::logic::serving::streams::options::{self, StreamOptions};
use crate::logic::serving::streams::query;
pub(super) use crate::server::backend::open_streams::Kind;

/// Where a request leads.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) pod: String,
    #[serde(default)]
    pub(super) uid: String,
    #[serde(default)]
    pub(super) container: String,
}

/// The routes of this module.
pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/exec/{namespace}/{pod}/{container}", streamed(exec))
        .route("/exec/{namespace}/{pod}/{uid}/{container}", streamed(exec))
        .route("/attach/{namespace}/{pod}/{container}", streamed(attach))
        .route("/attach/{namespace}/{pod}/{uid}/{container}", streamed(attach))
        .route("/portForward/{namespace}/{pod}", streamed(port_forward))
        .route("/portForward/{namespace}/{pod}/{uid}", streamed(port_forward))
}

fn streamed<H: Handler<T, Shared>, T: 'static>(handler: H) -> MethodRouter<Shared> {
    get(handler.clone()).post(handler).head(reply::only_get_and_post).fallback(reply::only_get_and_post)
}

async fn exec(State(shared): State<Shared>, Path(place): Path<Place>, request: Request) -> Reply {
    let mut audit = Audit::begin(Kind::Exec, &shared, &place, &request);
    let answer = begin_exec(&shared, &place, request, &mut audit).await.unwrap_or_else(Problem::reply);
    audit.answered(answer.status());
    answer
}

async fn begin_exec(shared: &Shared, place: &Place, request: Request, audit: &mut Audit) -> Result<Reply, Problem> {
    let backend = &**shared;
    pass::check_origin(backend, &request)?;
    let asked = request.uri().query().unwrap_or_default().to_owned();
    let options = StreamOptions::parse(&asked).map_err(Problem::bad_request)?;
    let command = text_values(&asked, "command")?;
    audit.command(&command);
    let view = find::pod(backend, &place.namespace, &place.pod).await?;
    let container = find::running_container(backend, &view.uid, &place.container).await?;
    let container = container.ok_or_else(|| find::no_container(&place.container))?;
    let upgrade = pass::Upgrade::of(shared, request)?;
    let permit = shared.streams.admit(backend, container.to_string(), Kind::Exec)?;
    let streams = cri_streams(options);
    let url = backend.runtime.exec(&container, &command, streams).await?;
    Ok(upgrade.command(url, options, permit, audit).await)
}

async fn attach(State(shared): State<Shared>, Path(place): Path<Place>, request: Request) -> Reply {
    let mut audit = Audit::begin(Kind::Attach, &shared, &place, &request);
    let answer = begin_attach(&shared, &place, request, &mut audit).await.unwrap_or_else(Problem::reply);
    audit.answered(answer.status());
    answer
}

async fn begin_attach(shared: &Shared, place: &Place, request: Request, audit: &mut Audit) -> Result<Reply, Problem> {
    let backend = &**shared;
    pass::check_origin(backend, &request)?;
    let options = StreamOptions::parse(request.uri().query().unwrap_or_default()).map_err(Problem::bad_request)?;
    let view = find::pod(backend, &place.namespace, &place.pod).await?;
    let full_name = FullName::new(&place.pod, &place.namespace);
    let nowhere = || Problem::internal(format!("container {} not found in pod {full_name}", place.container));
    let container = find::running_container(backend, &view.uid, &place.container).await?.ok_or_else(nowhere)?;
    if !place.uid.is_empty() && place.uid != view.uid.as_str() {
        return Err(Problem::internal(format!("pod {full_name} not found")));
    }
    let (_, specified) = find_container(&view.pod, &place.container).ok_or_else(nowhere)?;
    // A running command already has a terminal or not, with any request.
    let options = StreamOptions { tty: specified.tty.unwrap_or_default(), ..options };
    let upgrade = pass::Upgrade::of(shared, request)?;
    let permit = shared.streams.admit(backend, container.to_string(), Kind::Attach)?;
    let url = backend.runtime.attach(&container, cri_streams(options)).await?;
    Ok(upgrade.command(url, options, permit, audit).await)
}

async fn port_forward(State(shared): State<Shared>, Path(place): Path<Place>, request: Request) -> Reply {
    let mut audit = Audit::begin(Kind::PortForward, &shared, &place, &request);
    let answer = begin_port_forward(&shared, &place, request, &mut audit).await.unwrap_or_else(Problem::reply);
    audit.answered(answer.status());
    answer
}

async fn begin_port_forward(
    shared: &Shared,
    place: &Place,
    request: Request,
    audit: &mut Audit,
) -> Result<Reply, Problem> {
    let backend = &**shared;
    pass::check_origin(backend, &request)?;
    let tunnels = backend.stream_settings.websockets_end_here && websocket::offers_tunnel(request.headers());
    // SPDY names its ports as it goes, also in a tunnel.
    let ports = match websocket::is_websocket(request.headers()) && !tunnels {
        true => options::ports(request.uri().query().unwrap_or_default()).map_err(Problem::bad_request)?,
        false => vec![],
    };
    let view = find::pod(backend, &place.namespace, &place.pod).await?;
    if !place.uid.is_empty() && place.uid != view.uid.as_str() {
        return Err(Problem::not_found("pod not found"));
    }
    let full_name = FullName::new(&place.pod, &place.namespace);
    let sandbox = find::ready_sandbox(backend, &view.uid).await?;
    let sandbox = sandbox.ok_or_else(|| Problem::internal(format!("pod not found (\"{full_name}\")")))?;
    let upgrade = pass::Upgrade::of(shared, request)?;
    let permit = shared.streams.admit(backend, sandbox.to_string(), Kind::PortForward)?;
    let url = backend.runtime.port_forward(&sandbox, &ports).await?;
    if tunnels { upgrade.tunnel(url, permit, audit).await } else { Ok(upgrade.pass(url, permit, audit).await) }
}

fn cri_streams(options: StreamOptions) -> crate::cri::Streams {
    let StreamOptions { stdin, stdout, stderr, tty } = options;
    crate::cri::Streams { stdin, stdout, stderr, tty }
}

/// All values of one name, as the runtime gets them.
fn text_values(asked: &str, name: &str) -> Result<Vec<String>, Problem> {
    let values = query::values(asked, name).into_iter().map(String::from_utf8);
    let not_text =
        "rpc error: code = Internal desc = grpc: error while marshaling: string field contains invalid UTF-8";
    values.collect::<Result<_, _>>().map_err(|_| Problem::internal(not_text))
}
