//! A client's request on its way to the runtime's stream server, and the answer on its way back.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::audit::Audit;
use super::carried::Carried;
use super::problem::Problem;
use super::relay::relay;
use super::{translate, tunnel, websocket};
use crate::logic::serving::streams::options::{StreamOptions, V5};
use crate::logic::serving::streams::passing;
use crate::platform::network::runtime_stream::{self, Answer, Ask, Refusal};
use crate::server::backend::Backend;
use crate::server::backend::open_streams::Permit;
use crate::server::listening::connections::Peer;
use crate::server::reply::Reply;
use crate::server::sources::Shared;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// SEC-36: which web pages may open streams. Requests without `Origin`, as all but browsers send them, are not meant.
pub(super) fn check_origin(backend: &Backend, request: &Request) -> Result<(), Problem> {
    let (Some(allowed), Some(origin)) = (&backend.stream_settings.origins, request.headers().get(header::ORIGIN))
    else {
        return Ok(());
    };
    match allowed.iter().any(|one| one.as_bytes() == origin.as_bytes()) {
        true => Ok(()),
        false => Err(Problem::forbidden("streams may not be opened from this origin\n")),
    }
}

/// A request that asks for an upgrade.
pub(super) struct Upgrade {
    shared: Shared,
    request: Request,
    client: OnUpgrade,
}

impl Upgrade {
    /// The request, if it asks for an upgrade.
    pub(super) fn of(shared: &Shared, mut request: Request) -> Result<Self, Problem> {
        if !websocket::is_upgrade(request.headers()) {
            return Err(Problem::internal("Upgrade request required\n"));
        }
        let client = hyper::upgrade::on(&mut request);
        Ok(Self { shared: Arc::clone(shared), request, client })
    }

    /// Joins the client to a command's streams.
    pub(super) async fn command(self, url: String, options: StreamOptions, permit: Permit, audit: &Audit) -> Reply {
        let ends_here = self.shared.stream_settings.websockets_end_here;
        if !ends_here || !websocket::offers_v5(self.request.headers()) {
            return self.pass(url, permit, audit).await;
        }
        let answer = match websocket::handshake(&self.request, Some(V5)) {
            Ok(answer) => answer,
            Err(problem) => return problem.reply(),
        };
        let shared = Arc::clone(&self.shared);
        shared.metrics.http().stream_opened(audit.kind());
        let (carried, _) = self.carried(permit, audit);
        shared.streams.carry(translate::run(carried, url, options));
        answer
    }

    /// Joins the client to the runtime byte by byte.
    pub(super) async fn pass(self, url: String, permit: Permit, audit: &Audit) -> Reply {
        let shared = Arc::clone(&self.shared);
        let headers = forwarded(&self.request);
        let ask = Ask { url, method: self.request.method().clone(), headers };
        let (answer, runtime) = match runtime_stream::open(ask).await {
            Ok(Answer::Upgraded(headers, runtime)) => (upgraded(headers), runtime),
            Ok(Answer::Refused(refusal)) => return refused(refusal),
            Err(error) => return Problem::from(error).reply(),
        };
        let (mut carried, _) = self.carried(permit, audit);
        shared.streams.carry(async move {
            if let Ok(client) = (&mut carried.client).await {
                relay(TokioIo::new(client), runtime, &carried.traffic, carried.idle_max).await;
            }
        });
        answer
    }

    /// Joins the SPDY connection inside the client's WebSocket to the runtime.
    pub(super) async fn tunnel(self, url: String, permit: Permit, audit: &Audit) -> Result<Reply, Problem> {
        let shared = Arc::clone(&self.shared);
        shared.metrics.http().stream_opened(audit.kind());
        let ask = Ask { url, method: Method::POST, headers: tunnel::spdy_headers(forwarded(&self.request)) };
        let (headers, runtime) = match runtime_stream::open(ask).await? {
            Answer::Upgraded(headers, runtime) => (headers, runtime),
            Answer::Refused(refusal) => return Ok(refused(refusal)),
        };
        let answer = tunnel::answer(&self.request, &headers)?;
        let (carried, _) = self.carried(permit, audit);
        shared.streams.carry(tunnel::run(carried, runtime));
        Ok(answer)
    }

    fn carried(self, permit: Permit, audit: &Audit) -> (Carried, Request) {
        let carried = Carried {
            client: self.client,
            traffic: Arc::default(),
            idle_max: self.shared.stream_settings.idle_max,
            audit: audit.clone(),
            room: self.shared.streams.messages(),
            _permit: permit,
        };
        (carried, self.request)
    }
}

/// The client's headers, as the runtime may see them.
fn forwarded(request: &Request) -> HeaderMap {
    let mut out = HeaderMap::new();
    for (name, value) in request.headers() {
        if passing::is_withheld(name.as_str()) {
            continue;
        }
        if name == header::SEC_WEBSOCKET_PROTOCOL {
            let kept = value.to_str().ok().and_then(passing::without_bearer);
            out.extend(kept.and_then(|kept| HeaderValue::from_str(&kept).ok()).map(|kept| (name.clone(), kept)));
            continue;
        }
        out.append(name.clone(), value.clone());
    }
    if let Some(client) = request.extensions().get::<Peer>().and_then(|peer| peer.address) {
        let before: Vec<&str> = out.get_all(FORWARDED_FOR).iter().filter_map(|line| line.to_str().ok()).collect();
        let line = passing::forwarded_for(&before, &client.ip().to_canonical().to_string());
        out.extend(HeaderValue::from_str(&line).ok().map(|line| (FORWARDED_FOR, line)));
    }
    out
}

fn upgraded(headers: HeaderMap) -> Reply {
    let mut answer = Reply::new(Body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = headers;
    answer
}

/// SEC-32: an error is passed on, a redirect or anything else is not.
fn refused(refusal: Refusal) -> Reply {
    if refusal.status.as_u16() < 400 {
        let status = refusal.status.as_u16();
        return Problem::internal(format!("invalid upgrade response: status code {status}\n")).reply();
    }
    let mut answer = Reply::new(Body::from(refusal.body));
    *answer.status_mut() = refusal.status;
    let passed = refusal.headers.iter().filter(|(name, _)| passing::is_passed_back(name.as_str()));
    for (name, value) in passed {
        answer.headers_mut().append(name.clone(), value.clone());
    }
    // As upstream, which has taken the connection out of HTTP by then.
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}
