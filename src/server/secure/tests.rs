//! Tests of the authenticated port: everyone who may not get in, at every path; and over real TLS, those who may.

mod cves;
mod pressure;
mod strangers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::{Method, Request, StatusCode, header};
use axum::routing::any;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::ServiceExt;

use super::*;
use crate::actors::kit::trace::lock;
use crate::logic::node::certificate_plan::Names;
use crate::logic::serving::server_access::{ANONYMOUS, AUTHENTICATED, PATHS, UNAUTHENTICATED, User, subresources};
use crate::platform::cluster::access_review::{AccessReviews, ReviewError, Right};
use crate::platform::cluster::certificates::tests::Authority;
use crate::platform::cluster::certificates::{ClientAuthorities, PrivateKey};
use crate::platform::cluster::key_pair::Pair;
use crate::platform::cluster::live_certificate::LiveCertificate;
use crate::platform::host::clock::Clock;
use crate::platform::network::tls::{Offer, Trust, identified_client, unverified_client};
use crate::platform::network::tls_server::{ServerTls, server_config};
use crate::server::backend::Pages;
use crate::server::caller::Caller;
use crate::server::listening::connections::Peer;
use crate::server::tests::{Node, WoundClock, ask};

fn refused() -> ReviewError {
    ReviewError::Refused("connection refused".to_owned())
}

/// An API server that knows two tokens, and lets `admin` do everything and `reader` read metrics.
#[derive(Default)]
struct PlayedReviews {
    tokens: AtomicUsize,
    rights: Mutex<Vec<(String, Right)>>,
    is_down: std::sync::atomic::AtomicBool,
    is_silent: std::sync::atomic::AtomicBool,
}

#[async_trait::async_trait]
impl AccessReviews for PlayedReviews {
    async fn user_of(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.tokens.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        if self.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.is_down.load(Ordering::SeqCst) {
            return Err(refused());
        }
        Ok(["admin", "reader"].into_iter().find(|name| token == format!("token-of-{name}")).map(named))
    }

    async fn may(&self, user: &User, right: &Right) -> Result<bool, ReviewError> {
        lock(&self.rights).push((user.name.clone(), right.clone()));
        match user.name.as_str() {
            _ if self.is_down.load(Ordering::SeqCst) => Err(refused()),
            "admin" => Ok(true),
            "reader" => Ok(right.verb == "get" && right.subresource == "metrics"),
            "proxied" => Ok(right.subresource == "proxy"),
            _ => Ok(false),
        }
    }
}

fn named(name: &str) -> User {
    User { name: name.to_owned(), ..User::default() }
}

/// Authorities in a file, and two certificates: one of theirs, and one of a stranger's.
struct Certificates {
    folder: tempfile::TempDir,
    ours: Vec<u8>,
    key: Vec<u8>,
    strange: Pair,
}

impl Certificates {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let names = Names { common_name: "admin".into(), organizations: ["ops".to_owned()].into(), ..Names::default() };
        let (ours, stranger, key) = (Authority::new(), Authority::new(), PrivateKey::generate().expect("a key"));
        std::fs::write(folder.path().join("ca.crt"), ours.pem()).expect("written");
        let strange = Pair::parse(stranger.sign(&names, &key).as_bytes(), key.pem().as_bytes()).expect("a pair");
        let certificate = ours.sign(&names, &key).into_bytes();
        Self { folder, ours: certificate, key: key.pem().into_bytes(), strange }
    }

    fn pair(&self) -> Pair {
        Pair::parse(&self.ours, &self.key).expect("a pair")
    }

    fn authorities(&self) -> Arc<ClientAuthorities> {
        let path = self.folder.path().join("ca.crt");
        Arc::new(ClientAuthorities::open(&path, true, true).expect("authorities"))
    }
}

fn peer(pair: &Pair) -> Peer {
    Peer { address: None, certificates: pair.certified().cert.clone().into() }
}

/// 2026, as far as certificates are concerned.
fn clock() -> Arc<WoundClock> {
    let clock = WoundClock::default();
    clock.set(Duration::from_secs(1_767_225_600));
    Arc::new(clock)
}

struct Port {
    clock: Arc<WoundClock>,
    reviews: Arc<PlayedReviews>,
    certificates: Certificates,
    switches: Switches,
    anonymous: bool,
    streams_need_create: bool,
}

impl Port {
    fn new() -> Self {
        let certificates = Certificates::new();
        Self {
            clock: clock(),
            reviews: Arc::default(),
            certificates,
            switches: Switches::default(),
            anonymous: false,
            streams_need_create: false,
        }
    }

    fn authentication(&self) -> Arc<Authentication> {
        let tokens = Tokens::new(self.reviews.clone(), Duration::from_secs(120)).expect("randomness");
        let authorities = Some(self.certificates.authorities());
        Arc::new(Authentication::new(authorities, Some(tokens), self.anonymous, self.clock.clone()))
    }

    fn authorization(&self) -> Arc<Authorization> {
        let (yes, no) = (Duration::from_secs(300), Duration::from_secs(30));
        Arc::new(Authorization::webhook(self.reviews.clone(), "n1", yes, no, self.clock.clone()))
    }

    /// A guard before one route that tells who came through, and with which headers.
    fn guarded(&self) -> Router {
        let inside = any(|request: axum::extract::Request| async move {
            let caller = request.extensions().get::<Caller>().expect("known").name.to_string();
            let mut headers: Vec<_> = request.headers().keys().map(ToString::to_string).collect();
            headers.sort_unstable();
            format!("inside as {caller} with {headers:?}")
        });
        let guard = guard::Guard {
            authentication: self.authentication(),
            authorization: self.authorization(),
            switches: self.switches,
            streams_need_create: self.streams_need_create,
            metrics: Arc::default(),
            clock: self.clock.clone(),
        };
        guard.before(Router::new().fallback(inside))
    }
}

/// The credentials of a caller.
#[derive(Clone, Default)]
struct Proof {
    peer: Peer,
    headers: Vec<(&'static str, String)>,
}

impl Proof {
    fn bearer(token: &str) -> Self {
        Self { headers: vec![("authorization", format!("Bearer {token}"))], ..Self::default() }
    }
}

async fn send(router: &Router, method: &str, path: &str, proof: &Proof) -> (StatusCode, String) {
    let mut request = Request::builder().method(method).uri(path).extension(proof.peer.clone());
    for (name, value) in &proof.headers {
        request = request.header(*name, value);
    }
    let request = request.body(Empty::<Bytes>::new()).expect("valid");
    let answer = router.clone().oneshot(request).await.expect("infallible");
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

/// A path that is served by each line of the table.
fn served() -> Vec<String> {
    PATHS
        .iter()
        .map(|(path, _)| if path.ends_with('/') { format!("{path}a/b/c") } else { (*path).to_owned() })
        .collect()
}

/// SEC-28, SRV-04.
#[tokio::test]
async fn sec_28_nobody_gets_in_who_proves_nothing_or_not_enough_at_any_path_with_any_method() {
    let port = Port::new();
    let router = port.guarded();
    let strange = Proof { peer: peer(&port.certificates.strange), ..Proof::default() };
    let methods =
        [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::HEAD, Method::OPTIONS, Method::PATCH];
    for path in served() {
        for method in methods.iter().map(Method::as_str) {
            for (who, proof) in [
                ("nobody", Proof::default()),
                ("a wrong token", Proof::bearer("wrong")),
                ("no token", Proof::bearer("")),
                ("a stranger's certificate", strange.clone()),
                ("a password", Proof { headers: vec![("authorization", "Basic YTpi".into())], ..Proof::default() }),
            ] {
                let (status, body) = send(&router, method, &path, &proof).await;
                let told = if method == "HEAD" { "" } else { "Unauthorized" };
                assert_eq!((status.as_u16(), body.as_str()), (401, told), "{who}: {method} {path}");
            }
            let (status, body) = send(&router, method, &path, &Proof::bearer("token-of-reader")).await;
            let may = method == "GET" && path.starts_with("/metrics");
            assert_eq!(status.as_u16(), if may { 200 } else { 403 }, "{method} {path}: {body}");
            if !may {
                let verb = crate::logic::serving::server_access::verb(method);
                let tried = subresources(&path).join(" ");
                let told = format!("Forbidden (user=reader, verb={verb}, resource=nodes, subresource(s)=[{tried}])\n");
                assert_eq!(body, if method == "HEAD" { "" } else { &told }, "{method} {path}");
            }
            let (status, body) = send(&router, method, &path, &Proof::bearer("token-of-admin")).await;
            assert_eq!(status.as_u16(), 200, "{method} {path}: {body}");
        }
    }
}

/// SRV-04, SRV-05, SRV-06.
#[tokio::test]
async fn what_is_nowhere_or_elsewhere_is_told_without_asking_who_it_is() {
    let port = Port::new();
    let router = port.guarded();
    assert_eq!(
        send(&router, "GET", "/nope", &Proof::default()).await,
        (StatusCode::NOT_FOUND, "404 page not found\n".into())
    );
    let (status, body) = send(&router, "GET", "//healthz?a=b", &Proof::default()).await;
    assert_eq!((status.as_u16(), body.as_str()), (307, "<a href=\"/healthz?a=b\">Temporary Redirect</a>.\n\n"));
    assert_eq!(port.reviews.tokens.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn nothing_that_proves_who_it_is_goes_further() {
    let port = Port::new();
    let router = port.guarded();
    let token = "YmFzZTY0dXJsLmJlYXJlcg";
    let all = Proof {
        peer: peer(&port.certificates.pair()),
        headers: vec![
            ("authorization", "Bearer token-of-admin".into()),
            ("cookie", "a=b".into()),
            ("sec-websocket-protocol", format!("v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.{token}")),
            ("x-stream-protocol-version", "v4.channel.k8s.io".into()),
        ],
    };
    let (_, body) = send(&router, "GET", "/exec/a/b/c", &all).await;
    assert_eq!(body, r#"inside as admin with ["sec-websocket-protocol", "x-stream-protocol-version"]"#);
}

#[tokio::test]
async fn a_token_may_come_among_the_protocols_of_a_websocket() {
    let port = Port::new();
    let router = port.guarded();
    let protocols = |protocols: &str| Proof {
        headers: vec![("upgrade", "websocket".into()), ("sec-websocket-protocol", protocols.into())],
        ..Proof::default()
    };
    // "token-of-admin" in the alphabet of URLs.
    let token = "base64url.bearer.authorization.k8s.io.dG9rZW4tb2YtYWRtaW4";
    for (offered, status) in [
        (format!("v4.channel.k8s.io, {token}"), 200),
        (token.to_owned(), 401),
        (format!("v4.channel.k8s.io, {token}, {token}"), 401),
        ("v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.###".to_owned(), 401),
        ("v4.channel.k8s.io".to_owned(), 401),
    ] {
        let (found, _) = send(&router, "GET", "/exec/a/b/c", &protocols(&offered)).await;
        assert_eq!(found.as_u16(), status, "{offered}");
    }
}

/// SRV-16.
#[tokio::test]
async fn a_certificate_names_its_user_and_groups() {
    let port = Port::new();
    let mut headers = axum::http::HeaderMap::new();
    let user = port.authentication().user(&peer(&port.certificates.pair()), &mut headers).await.expect("known");
    assert_eq!((user.name.as_str(), user.groups.as_slice()), ("admin", &["ops", AUTHENTICATED].map(String::from)[..]));
    let id = &user.extra["authentication.kubernetes.io/credential-id"][0];
    assert!(id.starts_with("X509SHA256=") && id.len() == "X509SHA256=".len() + 64, "{id}");
    // In ten years it holds no longer.
    port.clock.set(Duration::from_secs(2_082_758_400));
    let error = port.authentication().user(&peer(&port.certificates.pair()), &mut headers).await.expect_err("over");
    assert!(error.contains("certificate"), "{error}");
}

/// NODE-55, SRV-15.
#[tokio::test]
async fn other_authorities_count_as_soon_as_their_file_was_read() {
    let port = Port::new();
    let authorities = port.certificates.authorities();
    let now = Clock::now(&*port.clock);
    let (ours, file) = (port.certificates.pair(), port.certificates.folder.path().join("ca.crt"));
    let chain = ours.certified().cert.clone();
    assert!(authorities.identify(&chain, now).is_ok());
    assert_eq!(authorities.read_again(), Ok(false));
    write(&file, &Authority::new().pem());
    assert_eq!(authorities.read_again(), Ok(true));
    assert!(authorities.identify(&chain, now).is_err());
    write(&file, "no certificate");
    assert!(authorities.read_again().is_err());
    assert!(authorities.identify(&chain, now).is_err());
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
}

/// SRV-18.
#[tokio::test]
async fn whoever_shows_nothing_is_anonymous_where_that_is_allowed_and_a_bad_proof_never_is() {
    let mut port = Port::new();
    port.anonymous = true;
    let authentication = port.authentication();
    let mut headers = axum::http::HeaderMap::new();
    let user = authentication.user(&Peer::default(), &mut headers).await.expect("anonymous");
    assert_eq!((user.name.as_str(), user.groups.as_slice()), (ANONYMOUS, &[UNAUTHENTICATED.to_owned()][..]));
    assert!(authentication.user(&peer(&port.certificates.strange), &mut headers).await.is_err());
    headers.insert(header::AUTHORIZATION, "Bearer wrong".parse().expect("valid"));
    assert!(authentication.user(&Peer::default(), &mut headers).await.is_err());
    // A bad certificate beside a good token does no harm.
    headers.insert(header::AUTHORIZATION, "Bearer token-of-admin".parse().expect("valid"));
    let user = authentication.user(&peer(&port.certificates.strange), &mut headers).await.expect("the token is good");
    assert_eq!(user.name, "admin");
    // Where nobody judges tokens, one is worth as much as none.
    let without = Authentication::new(None, None, true, port.clock.clone());
    headers.insert(header::AUTHORIZATION, "Bearer wrong".parse().expect("valid"));
    assert_eq!(without.user(&Peer::default(), &mut headers).await.expect("anonymous").name, ANONYMOUS);
}

/// SRV-17.
#[tokio::test]
async fn a_token_is_asked_about_once_at_a_time_and_again_when_its_time_is_over() {
    let port = Port::new();
    let router = port.guarded();
    let admin = Proof::bearer("token-of-admin");
    let asked = || port.reviews.tokens.load(Ordering::SeqCst);
    let many = (0..20).map(|_| send(&router, "GET", "/pods", &admin));
    assert!(futures_util::future::join_all(many).await.iter().all(|(status, _)| *status == StatusCode::OK));
    assert_eq!(asked(), 1);
    port.clock.advance(Duration::from_secs(121));
    send(&router, "GET", "/pods", &admin).await;
    assert_eq!(asked(), 2);
    // "Nobody's" is kept as well; that nobody could say is not.
    for _ in 0..3 {
        send(&router, "GET", "/pods", &Proof::bearer("wrong")).await;
    }
    assert_eq!(asked(), 3);
    port.reviews.is_down.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(send(&router, "GET", "/pods", &Proof::bearer("other")).await.0.as_u16(), 401);
    }
    assert_eq!(asked(), 6);
}

/// SRV-19, SRV-20.
#[tokio::test]
async fn rights_are_asked_in_order_and_each_answer_is_kept_for_its_own_time() {
    let port = Port::new();
    let (authorization, proxied) = (port.authorization(), named("proxied"));
    let tried = || {
        let rights = std::mem::take(&mut *lock(&port.reviews.rights));
        rights.into_iter().map(|(_, right)| right.subresource).collect::<Vec<_>>()
    };
    let judge = |path| authorization.judge(&proxied, "GET", path);
    assert_eq!(judge("/pods").await, authorization::Verdict::Allowed);
    assert_eq!(tried(), ["pods", "proxy"]);
    assert_eq!(judge("/pods").await, authorization::Verdict::Allowed);
    assert!(tried().is_empty());
    port.clock.advance(Duration::from_secs(31));
    judge("/pods").await;
    assert_eq!(tried(), ["pods"], "a no is kept for 30 s, a yes for 300 s");
    port.clock.advance(Duration::from_secs(300));
    judge("/exec/a/b/c").await;
    assert_eq!(tried(), ["proxy"]);
    port.reviews.is_down.store(true, Ordering::SeqCst);
    let told = "Authorization error (user=proxied, verb=get, resource=nodes, subresource=metrics)";
    let unknown = authorization::Verdict::Unknown(told.into(), refused());
    assert_eq!(judge("/metrics").await, unknown);
    assert_eq!(judge("/metrics").await, unknown, "a failure is not kept");
    assert_eq!(tried().len(), 2);
}

/// SRV-07.
#[tokio::test]
async fn what_is_switched_off_says_so_to_those_with_rights() {
    let mut port = Port::new();
    port.switches = Switches { debugging: false, ..Switches::default() };
    let router = port.guarded();
    let off = (StatusCode::METHOD_NOT_ALLOWED, "Debug endpoints are disabled.".to_owned());
    assert_eq!(send(&router, "POST", "/run/a/b/c", &Proof::bearer("token-of-admin")).await, off);
    assert_eq!(send(&router, "POST", "/run/a/b/c", &Proof::default()).await.0.as_u16(), 401);
    assert_eq!(send(&router, "GET", "/configz", &Proof::default()).await.0.as_u16(), 404);
}

/// SEC-35.
#[tokio::test]
async fn sec_35_opening_a_stream_by_get_can_be_made_to_need_the_right_to_create() {
    let mut port = Port::new();
    let asked = |port: &Port| {
        let rights = std::mem::take(&mut *lock(&port.reviews.rights));
        rights.into_iter().map(|(_, right)| right.verb).collect::<Vec<_>>()
    };
    for (needs_create, verb) in [(false, "get"), (true, "create")] {
        port.streams_need_create = needs_create;
        let router = port.guarded();
        for path in ["/exec/a/b/c", "/attach/a/b/c", "/portForward/a/b"] {
            send(&router, "GET", path, &Proof::bearer("token-of-admin")).await;
        }
        assert_eq!(asked(&port), [verb], "kept after the first");
        send(&router, "GET", "/containerLogs/a/b/c", &Proof::bearer("token-of-admin")).await;
        assert_eq!(asked(&port), if needs_create { vec!["get"] } else { vec![] });
    }
}

/// A port over real TLS, with real routes behind it.
struct Served {
    address: SocketAddr,
    port: Port,
    _node: Node,
    _tasks: tokio::task::JoinSet<String>,
}

impl Served {
    async fn new() -> Self {
        Self::with(|_| ()).await
    }

    async fn with(change: impl FnOnce(&mut SecureListener)) -> Self {
        let (port, node) = (Port::new(), Node::plain());
        node.start().await;
        let shown = Arc::new(LiveCertificate::new(Some(port.certificates.pair())));
        let (tls, _) = server_config(&ServerTls { ask_client: true, ..ServerTls::default() }, shown).expect("valid");
        let parts = Parts {
            tls,
            authentication: port.authentication(),
            authorization: port.authorization(),
            switches: Switches::default(),
            backend: Arc::clone(&node.backend),
        };
        let mut listener = SecureListener::bind(([127, 0, 0, 1], 0).into(), parts).expect("a port");
        change(&mut listener);
        let (address, mut tasks) = (listener.address(), tokio::task::JoinSet::new());
        tasks.spawn(async move { listener.serve().await });
        Self { address, port, _node: node, _tasks: tasks }
    }

    async fn connect(&self, config: Arc<rustls::ClientConfig>) -> tokio_rustls::client::TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.expect("listening");
        let name = ServerName::try_from("node").expect("a name");
        TlsConnector::from(config).connect(name, stream).await.expect("a handshake")
    }

    fn admin(&self) -> Arc<rustls::ClientConfig> {
        let identity = Arc::new(LiveCertificate::new(Some(self.port.certificates.pair())));
        identified_client(&Trust::Anyone, Some(identity), Offer::Http2).expect("valid")
    }
}

/// SRV-10.
#[tokio::test]
async fn a_client_with_a_certificate_is_served_over_http_1_whatever_it_offers() {
    let served = Served::new().await;
    let stream = served.connect(served.admin()).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), None);
    let answer = ask(stream, "GET", "/configz").await;
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, r#"{"kubeletconfig":{}}"#));
    let answer = ask(served.connect(unverified_client(Offer::Http1)).await, "GET", "/configz").await;
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (401, "Unauthorized"));
    // Behind the door a path that is nothing gets the router's words.
    let answer = ask(served.connect(served.admin()).await, "GET", "/debug/pprof/nothing").await;
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (404, "404: Page Not Found"));
}

#[test]
fn extras_of_a_user_make_another_question() {
    let plain = named("jane");
    let extra = User { extra: BTreeMap::from([("a".to_owned(), vec!["b".to_owned()])]), ..plain.clone() };
    assert_ne!(plain, extra);
}

/// SRV-28, SRV-29.
#[tokio::test]
async fn pages_about_the_program_have_the_forms_that_are_asked_for() {
    let node = Node::plain();
    let flags = BTreeMap::from([("v".to_owned(), "4".to_owned())]);
    let pages = Pages { flags, version: "v1.36.0".into(), ..Pages::default() };
    let backend = Backend::of(&node.agent, Arc::clone(&node.metrics), pages);
    let router = routes::secure(Arc::new(backend));
    let ask = |path: &'static str, accept: &'static str| {
        let proof = Proof { headers: vec![("accept", accept.to_owned())], ..Proof::default() };
        let router = router.clone();
        async move { send(&router, "GET", path, &proof).await }
    };
    let (_, text) = ask("/flagz", "").await;
    assert!(text.starts_with("\nkubelet flagz\nWarning: This endpoint is not meant"), "{text}");
    assert!(text.ends_with("\nv=4\n"), "{text}");
    let (_, beta) = ask("/flagz", "application/json;as=Flagz;v=v1beta1;g=config.k8s.io").await;
    let beta: serde_json::Value = serde_json::from_str(&beta).expect("JSON");
    let told = serde_json::json!({
        "kind": "Flagz", "apiVersion": "config.k8s.io/v1beta1", "metadata": {"name": "kubelet"}, "flags": {"v": "4"},
    });
    assert_eq!(beta, told);
    let (_, status) = ask("/statusz", "application/json;as=Statusz;v=v1alpha1;g=config.k8s.io").await;
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!((status["kind"].as_str(), status["emulationVersion"].as_str()), (Some("Statusz"), Some("1.36")));
    let (code, refused) = ask("/statusz", "application/json").await;
    assert_eq!(code.as_u16(), 406);
    assert!(refused.contains("application/json, application/yaml, text/plain"), "{refused}");
    let verbosity = |method: &'static str| {
        let router = router.clone();
        async move { send(&router, method, "/debug/flags/v", &Proof::default()).await }
    };
    assert_eq!(verbosity("GET").await, (StatusCode::NOT_ACCEPTABLE, "unsupported http method".into()));
    assert_eq!(verbosity("PUT").await.0.as_u16(), 400, "nothing is no number");
}
