//! The way to the API server on a node: HTTP/2 over TLS on few connections, HTTP/1.1 where that is all there is.
//!
//! It stands below kube's client in the place of kube's own, which speaks HTTP/1.1: each watch would be a TCP and TLS
//! connection, and a node watches every ConfigMap and Secret in use.
//!
//! Owned by whoever made the [`ApiServer`]; keeps the open connections and nothing else. A server grants about a hundred
//! calls at once on a connection, and a watch is one of them: the next connection is opened before that, and heartbeats
//! have one of their own. A new client certificate closes them all.

mod connect;
mod endpoint;
mod pool;
mod proxy;
mod rate;
#[cfg(test)]
pub(crate) mod tests;
mod texts;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;
use kube::client::Body;
use rustls::ClientConfig;

use super::{ApiServer, Lane, Observed};
use crate::platform::host::clock::Clock;
use crate::platform::network::tls::Offer;
use crate::platform::observer::Observer;
pub use endpoint::{Endpoint, EndpointError};
use pool::{Answer, Group};
pub use proxy::{Proxy, ProxyError};
pub use rate::{Rate, RateLimit};

/// Token reviews, whatever `kubeAPIQPS` says: strangers cause them.
const TOKEN_REVIEWS: Rate = Rate { per_second: 20.0, burst: 40 };
/// How often a call is made on another connection because the one chosen was closing.
const TRIES_MAX: usize = 3;

/// A failure on the way, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub String);

/// Why the client cannot show who it is; callers only pass it on.
pub type IdentityError = Box<dyn std::error::Error + Send + Sync>;

/// The client's identity, and the servers that it trusts. Asked anew for each connection and each call, for all of it may
/// change while the agent runs.
#[async_trait::async_trait]
pub trait Identity: Send + Sync {
    /// TLS settings of the next connection.
    async fn tls(&self) -> Result<Arc<ClientConfig>, IdentityError>;
    /// The name that the server's certificate is held against, if it is not the address' (`tls-server-name`).
    fn server_name(&self) -> Option<String> {
        None
    }
    /// Changes when open connections show somebody we no longer are: they are closed before the next call.
    fn generation(&self) -> u64 {
        0
    }
    /// Before each call: what may have been exchanged since is looked at, if that is due.
    async fn look(&self) {}
    /// The header of the next call, apart from the certificate: `Bearer …`, marked as a secret.
    async fn authorization(&self) -> Result<Option<HeaderValue>, IdentityError>;
    /// As whom it is called, where that is somebody else (`as` of a kubeconfig).
    fn impersonation(&self) -> Option<&HeaderMap> {
        None
    }
    /// The server did not accept the credentials (401), with this authorization. Other answers may have been faster, so that
    /// the credentials are others now.
    async fn refused(&self, _shown: Option<&HeaderValue>) {}
}

/// How connections are made and kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the server is.
    pub server: Endpoint,
    /// The proxy to it, where there is one.
    pub proxy: Option<Proxy>,
    /// HTTP/2, or HTTP/1.1 alone (`DISABLE_HTTP2`).
    pub offer: Offer,
    /// The client's name for itself.
    pub user_agent: String,
    /// A connection on which nothing was heard for so long is asked whether it lives
    /// (`HTTP2_READ_IDLE_TIMEOUT_SECONDS`).
    pub silence_max: Duration,
    /// How long it has to answer (`HTTP2_PING_TIMEOUT_SECONDS`).
    pub ping_timeout: Duration,
}

impl Settings {
    /// Those of the environment, with client-go's defaults; without a proxy.
    pub fn from_environment(server: Endpoint, user_agent: String) -> Self {
        let seconds = |name: &str, default: u64| {
            let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
            Duration::from_secs(given.unwrap_or(default))
        };
        Self {
            server,
            proxy: None,
            offer: Offer::from_environment(),
            user_agent,
            silence_max: seconds("HTTP2_READ_IDLE_TIMEOUT_SECONDS", 30),
            ping_timeout: seconds("HTTP2_PING_TIMEOUT_SECONDS", 15),
        }
    }
}

/// The agent's name for itself towards the API server, as upstream's kubelet does:
/// `kubelet/v1.36.0 (linux/amd64) kubernetes/podwright`.
pub fn user_agent(version: &str) -> String {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("kubelet/{version} (linux/{machine}) kubernetes/podwright")
}

/// The connections to one API server. Cheap to clone.
#[derive(Clone)]
pub struct Transport {
    shared: Arc<Shared>,
    observed: Option<Observed>,
}

struct Shared {
    settings: Settings,
    identity: Arc<dyn Identity>,
    general: Arc<Group>,
    heartbeat: Arc<Group>,
    /// The identity's generation when it was looked at last.
    generation: AtomicU64,
}

impl Transport {
    /// Connects when the first call is made.
    pub fn new(settings: Settings, identity: Arc<dyn Identity>) -> Self {
        let group = || Arc::new(Group::new(settings.clone(), Arc::clone(&identity)));
        let (general, heartbeat) = (group(), group());
        Self {
            shared: Arc::new(Shared {
                settings,
                general,
                heartbeat,
                generation: AtomicU64::new(identity.generation()),
                identity,
            }),
            observed: None,
        }
    }

    /// The same connections; an observer hears of each call that servers made from now on make over them.
    #[must_use]
    pub fn observed(self, observer: Arc<dyn Observer>, clock: Arc<dyn Clock>) -> Self {
        let observed = Observed::new(observer, clock, &self.shared.settings.server.authority());
        Self { observed: Some(observed), ..self }
    }

    /// The server over these connections, with the limits of its lanes; `None` is no limit. Needs a runtime.
    pub fn server(&self, general: Option<Rate>, events: Option<Rate>) -> ApiServer {
        let client = |lane, rate: Option<Rate>| {
            let limit = rate.map(|rate| Arc::new(RateLimit::new(rate)));
            let way = Way { shared: Arc::clone(&self.shared), lane, limit, observed: self.observed.clone() };
            kube::Client::new(way, "default")
        };
        ApiServer::new(client(Lane::General, general), client(Lane::Heartbeat, None), client(Lane::Events, events))
            .with_token_reviews(client(Lane::TokenReviews, Some(TOKEN_REVIEWS)))
            .named(&self.shared.settings.server.to_string())
            .observed(self.observed.clone())
    }

    /// Closes every connection, with the calls on it: who we are has changed.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Upstream's remedy when heartbeats fail again and again: closes connections without calls, and the heartbeats' own;
    /// all of them where HTTP/2, which notices dead ones by itself, is off (CFG-51).
    pub fn heartbeat_failed(&self) {
        self.shared.heartbeat.reset();
        match self.shared.settings.offer {
            Offer::Http1 => self.shared.general.reset(),
            Offer::Http2 => self.shared.general.close_idle(),
        }
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.shared.general.len() + self.shared.heartbeat.len()
    }
}

impl Shared {
    fn reset(&self) {
        self.general.reset();
        self.heartbeat.reset();
    }

    fn follow_identity(&self) {
        let generation = self.identity.generation();
        if self.generation.swap(generation, Ordering::Relaxed) != generation {
            self.reset();
        }
    }
}

/// One lane, as the library's client calls it.
#[derive(Clone)]
struct Way {
    shared: Arc<Shared>,
    lane: Lane,
    limit: Option<Arc<RateLimit>>,
    observed: Option<Observed>,
}

impl tower::Service<Request<Body>> for Way {
    type Response = Response<Answer>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, TransportError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        // Waiting is done in the call: here it would hold up those that are not limited.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let way = self.clone();
        Box::pin(async move {
            if let Some(limit) = &way.limit {
                let began = way.observed.as_ref().map(Observed::uptime);
                limit.wait().await;
                if let Some((observed, began)) = way.observed.as_ref().zip(began) {
                    observed.held_back(request.method(), began);
                }
            }
            way.send(request).await
        })
    }
}

impl Way {
    async fn send(&self, request: Request<Body>) -> Result<Response<Answer>, TransportError> {
        let shared = &self.shared;
        let (mut head, body) = request.into_parts();
        let body = body.collect_bytes().await.map_err(|error| TransportError(error.to_string()))?;
        shared.identity.look().await;
        let authorization = shared.identity.authorization().await;
        let authorization = authorization.map_err(|error| TransportError(format!("getting credentials: {error}")))?;
        shared.follow_identity();
        if let Some(value) = authorization.clone() {
            head.headers.insert(AUTHORIZATION, value);
        }
        if let Some(headers) = shared.identity.impersonation() {
            head.headers.extend(headers.clone());
        }
        if let Ok(value) = HeaderValue::from_str(&shared.settings.user_agent) {
            head.headers.insert(USER_AGENT, value);
        }
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let group = if self.lane == Lane::Heartbeat { &shared.heartbeat } else { &shared.general };
        let mut request = Request::from_parts(head, Full::new(body));
        for tried in 1.. {
            let connection = group.take().await?;
            self.address(&mut request, &path, connection.is_http2())?;
            match connection.send(request).await {
                Ok(response) => {
                    if response.status() == StatusCode::UNAUTHORIZED {
                        shared.identity.refused(authorization.as_ref()).await;
                    }
                    return Ok(response);
                }
                // The server never saw it: the connection was on its way out when it was chosen.
                Err((_, Some(unsent))) if tried < TRIES_MAX => request = unsent,
                Err((error, _)) => return Err(error),
            }
        }
        unreachable!("the loop ends at the last try")
    }

    /// Puts the address in the words of the protocol.
    fn address(&self, request: &mut Request<Full<Bytes>>, path: &str, http2: bool) -> Result<(), TransportError> {
        let server = &self.shared.settings.server;
        let wrong = |error: &dyn std::fmt::Display| TransportError(error.to_string());
        let uri = if http2 {
            request.headers_mut().remove(HOST);
            format!("{server}{path}")
        } else {
            let host = HeaderValue::from_str(&server.authority()).map_err(|error| wrong(&error))?;
            request.headers_mut().insert(HOST, host);
            format!("{}{path}", server.prefix())
        };
        *request.uri_mut() = uri.parse::<Uri>().map_err(|error| wrong(&error))?;
        Ok(())
    }
}
