//! The transport against a server on loopback, in real time: what opens a connection, what closes it, which calls the
//! observer hears of.

mod cves;
mod proxy;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::HeaderValue;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Node;
use rustls::ClientConfig;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{Endpoint, Identity, IdentityError, Rate, Settings, Transport};
use crate::platform::cluster::kube_api::credentials::Credentials;
use crate::platform::cluster::kube_api::kubeconfig::Kubeconfig;
use crate::platform::cluster::kube_api::{ApiServer, Lane, Place, Selector, WatchFrom};
use crate::platform::host::clock::SystemClock;
use crate::platform::network::http_exchange::test_server::{certificate, server_config};
use crate::platform::network::tls::{Offer, Trust, identified_client};

/// Shows a token, trusts the test server.
struct Someone {
    offer: Offer,
    refused: AtomicUsize,
    /// The name that the server's certificate is held against.
    name: Option<String>,
}

/// The same server by another name.
pub(super) fn someone(offer: Offer) -> Arc<dyn Identity> {
    Arc::new(Someone { offer, refused: AtomicUsize::new(0), name: Some("localhost".to_owned()) })
}

#[async_trait::async_trait]
impl Identity for Someone {
    async fn tls(&self) -> Result<Arc<ClientConfig>, IdentityError> {
        let roots = std::fs::read(certificate()).expect("the fixture");
        Ok(identified_client(&Trust::Roots(roots), None, self.offer)?)
    }

    fn server_name(&self) -> Option<String> {
        self.name.clone()
    }

    async fn authorization(&self) -> Result<Option<HeaderValue>, IdentityError> {
        Ok(Some(HeaderValue::from_static("Bearer t")))
    }

    async fn refused(&self, _: Option<&HeaderValue>) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// A server that counts connections; a watch never ends, everything else is a node named by who asked.
#[derive(Default)]
pub(super) struct Server {
    connections: AtomicUsize,
    pub(super) asked: Mutex<Vec<String>>,
    /// Headers and values by which requests asked to be made as somebody else.
    acting: Mutex<Vec<(String, String)>>,
    /// Where every request is sent on to.
    leads_to: Mutex<Option<SocketAddr>>,
}

impl Server {
    pub(super) async fn start(protocols: &[&str]) -> (Arc<Self>, SocketAddr, JoinSet<()>) {
        let server = Arc::new(Self::default());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
        let address = listener.local_addr().expect("bound");
        let acceptor = TlsAcceptor::from(server_config(protocols));
        let mut tasks = JoinSet::new();
        let here = Arc::clone(&server);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (server, acceptor) = (Arc::clone(&here), acceptor.clone());
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    server.connections.fetch_add(1, Ordering::Relaxed);
                    let answer = service_fn(|request| std::future::ready(server.answer(&request)));
                    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    builder.http2().max_concurrent_streams(100);
                    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        (server, address, tasks)
    }

    fn answer(&self, request: &Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
        let header = |name| request.headers().get(name).map_or("", |value: &HeaderValue| value.to_str().expect("text"));
        let line =
            format!("{:?} {} {} {}", request.version(), request.uri(), header("authorization"), header("user-agent"));
        self.asked.lock().expect("log").push(line);
        let acting = request.headers().iter().filter(|(name, _)| name.as_str().starts_with("impersonate-"));
        let acting = acting.map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned()));
        self.acting.lock().expect("log").extend(acting);
        if let Some(other) = *self.leads_to.lock().expect("a place") {
            let location = format!("https://{other}{}", request.uri().path());
            let answer = Response::builder().status(302).header("location", location);
            return Ok(answer.body(Full::default().boxed()).expect("an answer"));
        }
        let query = request.uri().query().unwrap_or_default();
        if query.contains("watch=true") {
            return Ok(Response::new(BodyExt::boxed(StreamBody::new(futures_util::stream::pending::<
                Result<Frame<Bytes>, Infallible>,
            >()))));
        }
        let code = if request.uri().path().ends_with("/stranger") { 401 } else { 200 };
        let body = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}).to_string();
        Ok(Response::builder().status(code).body(Full::new(Bytes::from(body)).boxed()).expect("an answer"))
    }
}

fn transport(address: SocketAddr, offer: Offer) -> (Transport, Arc<Someone>) {
    let someone = Arc::new(Someone { offer, refused: AtomicUsize::new(0), name: None });
    let settings = Settings {
        server: Endpoint::parse(&format!("https://{address}"), true).expect("an address"),
        proxy: None,
        offer,
        user_agent: "kubelet/v1".to_owned(),
        silence_max: Duration::from_secs(30),
        ping_timeout: Duration::from_secs(15),
    };
    (Transport::new(settings, Arc::clone(&someone) as Arc<dyn Identity>), someone)
}

async fn read(api: &ApiServer) {
    api.get::<Node>(&Place::Cluster, "n").await.expect("read");
}

#[tokio::test]
async fn watches_beyond_what_one_connection_takes_open_another() {
    let (server, address, _tasks) = Server::start(&["h2"]).await;
    let (transport, _) = transport(address, Offer::Http2);
    let api = transport.server(None, None);
    let mut watches = vec![];
    for _ in 0..101 {
        let from = WatchFrom::Version("1");
        let watch = api.watch::<Node>(&Place::Cluster, &Selector::all(), from, Duration::from_secs(300)).await;
        watches.push(watch.expect("the server takes it"));
    }
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
    read(&api).await;
    read(&api.on(Lane::Heartbeat)).await;
    assert_eq!(server.connections.load(Ordering::Relaxed), 3, "heartbeats have a connection of their own");
    assert_eq!(transport.connections(), 3);
    watches.truncate(1);
    read(&api).await;
    assert_eq!(transport.connections(), 2, "the crowd's connection is closed after it has gone");
}

#[tokio::test]
async fn a_reset_ends_every_call_and_the_next_one_connects_anew() {
    let (server, address, _tasks) = Server::start(&["h2"]).await;
    let (transport, _) = transport(address, Offer::Http2);
    let api = transport.server(None, None);
    let from = WatchFrom::Version("1");
    let watch = api.watch::<Node>(&Place::Cluster, &Selector::all(), from, Duration::from_secs(300)).await;
    let mut watch = watch.expect("opened");
    transport.reset();
    let ended = tokio::time::timeout(Duration::from_secs(30), watch.next()).await.expect("ends");
    assert!(matches!(&ended, Some(Err(error)) if error.is_unreachable()), "{ended:?}");
    read(&api).await;
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
}

/// SEC-28: a crowd of questions about tokens takes no turn of the agent's own calls.
#[tokio::test]
async fn token_reviews_take_no_turn_of_other_calls() {
    let (_server, address, _tasks) = Server::start(&["h2"]).await;
    let (transport, _) = transport(address, Offer::Http2);
    let api = transport.server(Some(Rate { per_second: 0.001, burst: 1 }), None);
    let reviews = api.on(Lane::TokenReviews);
    let mut crowd = Box::pin(futures_util::future::join_all((0..200).map(|_| read(&reviews))));
    // The crowd takes all turns that there are before the other call asks for one.
    tokio::select! {
        biased;
        _ = &mut crowd => panic!("two hundred are more than pass at once"),
        () = tokio::task::yield_now() => {}
    }
    tokio::select! {
        biased;
        () = read(&api) => {}
        _ = &mut crowd => panic!("the other call waits behind the crowd"),
    }
}

/// CFG-51.
#[tokio::test]
async fn without_http2_a_connection_is_used_again_after_its_answer() {
    for (protocols, offer) in [(&["h2", "http/1.1"], Offer::Http1), (&["http/1.1", "http/1.1"], Offer::Http2)] {
        let (server, address, _tasks) = Server::start(protocols).await;
        let (transport, _) = transport(address, offer);
        let api = transport.server(None, None);
        for _ in 0..3 {
            read(&api).await;
            // The connection is told of the answer's end by its own task.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(server.connections.load(Ordering::Relaxed), 1);
        let line = server.asked.lock().expect("log")[0].clone();
        assert_eq!(line, "HTTP/1.1 /api/v1/nodes/n Bearer t kubelet/v1");
    }
}

#[tokio::test]
async fn many_calls_at_once_open_one_connection() {
    let (server, address, _tasks) = Server::start(&["h2"]).await;
    let (transport, _) = transport(address, Offer::Http2);
    let api = transport.server(None, None);
    futures_util::future::join_all((0..50).map(|_| read(&api))).await;
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
    let line = server.asked.lock().expect("log")[0].clone();
    assert_eq!(line, format!("HTTP/2.0 https://{address}/api/v1/nodes/n Bearer t kubelet/v1"));
}

#[tokio::test]
async fn a_server_hears_whom_a_request_is_made_as() {
    let (server, address, _tasks) = Server::start(&["h2"]).await;
    let cluster = json!({
        "server": format!("https://{address}"),
        "certificate-authority": certificate(),
        "tls-server-name": "localhost",
    });
    let user = json!({"token": "t", "as": "system:node:n", "as-groups": ["system:nodes", "others"]});
    let text = json!({
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    });
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text.to_string()).expect("written");
    let kubeconfig = Kubeconfig::load(file.path()).expect("usable");
    let settings = Settings::from_environment(kubeconfig.server.clone(), "kubelet/v1".to_owned());
    let settings = Settings { offer: Offer::Http2, proxy: None, ..settings };
    let credentials = Credentials::new(kubeconfig, Offer::Http2, Arc::new(SystemClock::start()));
    read(&Transport::new(settings, Arc::new(credentials)).server(None, None)).await;
    let told = server.acting.lock().expect("log").clone();
    let expected =
        [("impersonate-user", "system:node:n"), ("impersonate-group", "system:nodes"), ("impersonate-group", "others")];
    assert_eq!(told, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[tokio::test]
async fn a_refused_identity_is_told_so() {
    let (_server, address, _tasks) = Server::start(&["h2"]).await;
    let (transport, someone) = transport(address, Offer::Http2);
    let error = transport.server(None, None).get::<Node>(&Place::Cluster, "stranger").await.expect_err("refused");
    assert!(error.is_unauthorized());
    assert_eq!(someone.refused.load(Ordering::Relaxed), 1);
}

/// CVE-2022-3172: a server that leads elsewhere leads nobody there, and the node's credentials neither.
#[tokio::test]
async fn cve_2022_3172_a_redirect_of_the_api_server_is_not_followed() {
    for (protocols, offer) in [(["h2"], Offer::Http2), (["http/1.1"], Offer::Http1)] {
        let (server, address, _tasks) = Server::start(&protocols).await;
        let (other, elsewhere, _others) = Server::start(&protocols).await;
        *server.leads_to.lock().expect("a place") = Some(elsewhere);
        let (transport, _) = transport(address, offer);
        let api = transport.server(None, None);
        api.get::<Node>(&Place::Cluster, "n").await.expect_err("a redirect is no answer");
        let from = WatchFrom::Version("1");
        let watch = api.watch::<Node>(&Place::Cluster, &Selector::all(), from, Duration::from_secs(300)).await;
        assert!(watch.is_err(), "nor a watch");
        assert!(!server.asked.lock().expect("log").is_empty());
        assert_eq!(other.connections.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test]
async fn nobody_there_is_told_in_the_usual_words() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let (transport, _) = transport(address, Offer::Http2);
    let api = transport.server(None, None);
    let tried = futures_util::future::join_all((0..20).map(|_| api.get::<Node>(&Place::Cluster, "n"))).await;
    for error in tried.into_iter().map(|answer| answer.expect_err("nobody")) {
        assert!(error.is_unreachable());
        let text = format!("Get \"https://{address}/api/v1/nodes/n\": dial tcp {address}: connect: connection refused");
        assert_eq!(error.to_string(), text);
    }
}

#[tokio::test]
async fn garbage_and_strangers_are_unreachable() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
    let address = listener.local_addr().expect("bound");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let (transport, _) = transport(address, Offer::Http2);
    let error = transport.server(None, None).get::<Node>(&Place::Cluster, "n").await.expect_err("no TLS");
    assert!(
        error.is_unreachable() && error.to_string().ends_with("tls: first record does not look like a TLS handshake")
    );
}

/// NODE-33, CFG-51: what does not answer may be a dead connection. HTTP/2 finds out by itself whether one lives that has
/// calls; without it they all are begun anew.
#[tokio::test]
async fn heartbeats_that_fail_close_their_connection_and_without_http2_all() {
    for (protocol, offer, ends) in [("h2", Offer::Http2, false), ("http/1.1", Offer::Http1, true)] {
        let (server, address, _tasks) = Server::start(&[protocol]).await;
        let (transport, _) = transport(address, offer);
        let api = transport.server(None, None);
        let from = WatchFrom::Version("1");
        let watch = api.watch::<Node>(&Place::Cluster, &Selector::all(), from, Duration::from_secs(300)).await;
        let mut watch = watch.expect("opened");
        let heartbeat = api.on(Lane::Heartbeat);
        for _ in 0..2 {
            read(&heartbeat).await;
            // A connection is told of its answer's end by its own task.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(server.connections.load(Ordering::Relaxed), 2, "{protocol}");
        transport.heartbeat_failed();
        let patience = if ends { Duration::from_secs(30) } else { Duration::from_millis(100) };
        let next = tokio::time::timeout(patience, watch.next()).await;
        assert_eq!(next.is_ok(), ends, "{protocol}: {next:?}");
        read(&heartbeat).await;
        assert_eq!(server.connections.load(Ordering::Relaxed), 3, "{protocol}");
    }
}

/// CFG-49: who waits for the rate of its kind of calls holds up neither Events nor heartbeats.
#[tokio::test]
async fn heartbeats_have_no_rate_to_wait_for() {
    let (_server, address, _tasks) = Server::start(&["h2"]).await;
    let (transport, _) = transport(address, Offer::Http2);
    let api = transport.server(Some(Rate { per_second: 0.001, burst: 1 }), None);
    read(&api).await;
    let (events, heartbeats) = (api.on(Lane::Events), api.on(Lane::Heartbeat));
    let others = async {
        for _ in 0..200 {
            read(&heartbeats).await;
            read(&events).await;
        }
    };
    tokio::select! {
        biased;
        () = read(&api) => panic!("the next one is due in a quarter of an hour"),
        () = others => {}
    }
}
