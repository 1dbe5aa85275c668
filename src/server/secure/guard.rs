//! The checks before every route: is there anything, who asks, may they (SRV-04). No handler is reached,
//! no body is read and no answer is made before all three are known (SEC-28).

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use tracing::Instrument;

use super::authentication::Authentication;
use super::authorization::{Authorization, Verdict};
use crate::logic::serving::server_access::{Switches, Way, place, way};
use crate::platform::host::clock::Clock;
use crate::server::caller::Caller;
use crate::server::listening::connections::{Peer, Standing};
use crate::server::reply::{self, Reply};
use crate::telemetry::{Metrics, Port, TraceOrigin, request_answered, request_span};

/// See the module.
#[derive(Clone)]
pub(super) struct Guard {
    pub(super) authentication: Arc<Authentication>,
    pub(super) authorization: Arc<Authorization>,
    pub(super) switches: Switches,
    /// A caller that opens a stream needs the right to `create`, also by `GET`, as WebSockets are opened (SEC-35).
    pub(super) streams_need_create: bool,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Guard {
    /// Stands before these routes. Every request is counted, whatever becomes of it.
    pub(super) fn before(self, routes: Router) -> Router {
        routes.layer(middleware::from_fn(move |request: Request, next: Next| {
            let guard = self.clone();
            async move {
                let (method, path) = (request.method().as_str(), request.uri().path());
                let in_flight = guard.metrics.http().begin(&guard.clock, Port::ReadWrite, method, path);
                let answer = guard.pass(request, next).await;
                drop(in_flight);
                answer
            }
        }))
    }

    async fn pass(&self, mut request: Request, next: Next) -> Reply {
        let off = match way(request.uri().path(), self.switches) {
            Way::Nowhere => return reply::not_found().await,
            Way::Elsewhere(path) => return elsewhere(&path, &request),
            Way::Off(text) => Some(text),
            Way::On => None,
        };
        let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
        let user = match self.authentication.user(&peer, request.headers_mut()).await {
            Ok(user) => user,
            Err(why) => {
                tracing::debug!(peer = ?peer.address, path = request.uri().path(), why, "Unable to authenticate the request");
                return reply::text(StatusCode::UNAUTHORIZED, "Unauthorized");
            }
        };
        let path = request.uri().path();
        let opens_stream = ["/exec/", "/attach/", "/portForward/"].iter().any(|top| path.starts_with(top));
        let method = match self.streams_need_create && opens_stream && *request.method() == Method::GET {
            true => "POST",
            false => request.method().as_str(),
        };
        match self.authorization.judge(&user, method, path).await {
            Verdict::Allowed => {}
            Verdict::Forbidden(text) => {
                tracing::debug!(user = user.name, method = %request.method(), path, "Forbidden");
                return reply::text(StatusCode::FORBIDDEN, text);
            }
            Verdict::Unknown(text, why) => {
                tracing::error!(user = user.name, method = %request.method(), path, %why, "Authorization error");
                return reply::text(StatusCode::INTERNAL_SERVER_ERROR, text);
            }
        }
        if let Some(standing) = request.extensions().get::<Standing>() {
            standing.trust(&user.name);
        }
        if let Some(text) = off {
            return reply::text(StatusCode::METHOD_NOT_ALLOWED, text);
        }
        request.extensions_mut().insert(Caller { name: user.name.into() });
        traced(request, next).await
    }
}

/// Goes on to the route in a span of its own, below the caller's where the headers name one. As upstream, the span begins
/// behind the door: a stranger's `traceparent` would otherwise have spans recorded and exported at will.
async fn traced(request: Request, next: Next) -> Reply {
    let span = match place(request.uri().path()) {
        Some((route, _)) => request_span(request.method().as_str(), route, request.headers(), TraceOrigin::Caller),
        None => tracing::Span::none(),
    };
    let answer = next.run(request).instrument(span.clone()).await;
    request_answered(&span, answer.status().as_u16());
    answer
}

/// Sends a client to the right path, as Go's mux does.
fn elsewhere(path: &str, request: &Request) -> Reply {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let place = format!("{path}{query}");
    let escaped = place.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;");
    let body = match *request.method() {
        Method::GET => format!("<a href=\"{escaped}\">Temporary Redirect</a>.\n\n"),
        _ => String::new(),
    };
    let mut answer = reply::with_type(StatusCode::TEMPORARY_REDIRECT, "text/html; charset=utf-8", body.into());
    if let Ok(place) = HeaderValue::from_str(&place) {
        answer.headers_mut().insert(header::LOCATION, place);
    }
    answer
}
