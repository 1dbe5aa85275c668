//! The identity of a kubeconfig: tokens from files and programs, and certificates to a server that asks for them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Node;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::super::credentials::Credentials;
use super::super::kubeconfig::Kubeconfig;
use super::super::transport::{Identity, Settings, Transport};
use super::super::{ApiError, ApiServer, Lane, Place, Selector, WatchEvent, WatchFrom};
use crate::logic::model::time::{Moment, Stamp};
use crate::logic::node::certificate_plan::Names;
use crate::platform::cluster::certificates::PrivateKey;
use crate::platform::cluster::certificates::tests::{Authority, NEW_YEAR};
use crate::platform::cluster::key_pair::Pair;
use crate::platform::cluster::live_certificate::LiveCertificate;
use crate::platform::host::clock::Clock;
use crate::platform::host::played_program::write_program;
use crate::platform::network::http_exchange::test_server::{certificate, server_config};
use crate::platform::network::tls::{Offer, provider};

/// A wall clock that is set by hand.
struct Wall(AtomicI64);

impl Clock for Wall {
    fn now(&self) -> Moment {
        Moment(self.0.load(Ordering::Relaxed))
    }

    fn uptime(&self) -> Duration {
        Duration::ZERO
    }

    fn stamp(&self) -> Stamp {
        Stamp(0)
    }
}

fn wall() -> Arc<Wall> {
    Arc::new(Wall(AtomicI64::new(NEW_YEAR.0)))
}

fn kubeconfig(folder: &Path, address: &str, user: &str) -> Kubeconfig {
    let authority = certificate();
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'https://{address}', certificate-authority: '{}'}}}}]\n\
         users:\n- name: u\n  user: {user}\n",
        authority.display()
    );
    let path = folder.join("kubelet.conf");
    std::fs::write(&path, text).expect("written");
    Kubeconfig::load(&path).expect("usable")
}

async fn header_of(credentials: &Credentials) -> Result<String, String> {
    let value = credentials.authorization().await.map_err(|error| error.to_string())?;
    assert!(value.as_ref().is_none_or(|value| value.is_sensitive()), "it must not be printed");
    Ok(value.map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_tokens_file_is_read_again_each_minute() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    let credentials = Credentials::new(kubeconfig(folder.path(), "h", "{tokenFile: token}"), Offer::Http2, wall());
    let missing = header_of(&credentials).await.expect_err("not there");
    assert!(missing.starts_with("failed to read token file") && missing.ends_with("no such file or directory"));
    std::fs::write(&path, " one\n").expect("written");
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer one"));
    std::fs::write(&path, "two").expect("written");
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer one"), "a minute is not over");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer two"));
    std::fs::write(&path, "").expect("written");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(
        header_of(&credentials).await.as_deref(),
        Ok("Bearer two"),
        "the last one counts until there is another"
    );
    std::fs::write(&path, "three").expect("written");
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer three"), "what could not be read is read again");
    std::fs::write(&path, "four").expect("written");
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer three"));
    credentials.refused(None).await;
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer four"), "the server takes the old one no more");
    assert!(!format!("{credentials:?}").contains("four"));
}

#[tokio::test(start_paused = true)]
async fn given_tokens_and_passwords_are_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    for (user, expected) in [
        ("{token: t}", "Bearer t"),
        ("{username: u, password: p}", "Basic dTpw"),
        ("{}", ""),
        ("{token: t, exec: {command: /nonexistent, apiVersion: client.authentication.k8s.io/v1beta1}}", "Bearer t"),
    ] {
        let credentials = Credentials::new(kubeconfig(folder.path(), "h", user), Offer::Http2, wall());
        assert_eq!(header_of(&credentials).await.as_deref(), Ok(expected), "{user}");
    }
}

/// A program that prints a token numbered by how often it was run; `more` goes into the status.
fn program(folder: &Path, more: &str) -> Kubeconfig {
    let path = folder.join("plugin");
    let count = folder.join("count");
    let script = format!(
        "#!/bin/sh\necho x >> {count}\nn=$(wc -l < {count})\n\
         echo \"{{\\\"kind\\\": \\\"ExecCredential\\\", \\\"apiVersion\\\": \\\"client.authentication.k8s.io/v1\\\", \
         \\\"status\\\": {{\\\"token\\\": \\\"$PREFIX-$n-$1\\\" {more}}}}}\"\n",
        count = count.display()
    );
    write_program(&path, &script);
    kubeconfig(
        folder,
        "h",
        "{exec: {command: ./plugin, args: [a], apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, env: \
         [{name: PREFIX, value: t}]}}",
    )
}

#[tokio::test]
async fn a_program_is_run_when_its_token_has_ended_or_was_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = program(folder.path(), ", \\\"expirationTimestamp\\\": \\\"2030-01-01T01:00:00Z\\\"");
    let wall = wall();
    let credentials = Credentials::new(config, Offer::Http2, Arc::clone(&wall) as Arc<dyn Clock>);
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer t-1-a"));
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer t-1-a"));
    let first = HeaderValue::from_static("Bearer t-1-a");
    credentials.refused(Some(&first)).await;
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer t-2-a"));
    credentials.refused(Some(&first)).await;
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer t-2-a"), "a late word on the one before");
    wall.0.store(NEW_YEAR.plus(Duration::from_secs(3601)).0, Ordering::Relaxed);
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer t-3-a"));
    assert_eq!(credentials.generation(), 0, "a token needs no new connection");
}

#[tokio::test]
async fn a_program_that_is_slower_than_its_caller_is_waited_for_by_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = program(folder.path(), "");
    let (script, gate) = (folder.path().join("plugin"), folder.path().join("gate"));
    let prints = std::fs::read_to_string(&script).expect("a program");
    let waits = format!("#!/bin/sh\nuntil [ -e {} ]; do sleep 0.01; done\n{prints}", gate.display());
    write_program(&script, &waits);
    let credentials = Credentials::new(config, Offer::Http2, wall());
    tokio::time::timeout(Duration::from_millis(50), header_of(&credentials)).await.expect_err("the caller gives up");
    std::fs::write(&gate, "").expect("written");
    assert_eq!(header_of(&credentials).await.as_deref(), Ok("Bearer t-1-a"), "it was not run a second time");
}

#[tokio::test]
async fn a_program_that_fails_says_so_in_the_usual_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = async |script: &str| {
        let config = program(folder.path(), "");
        write_program(&folder.path().join("plugin"), &format!("#!/bin/sh\n{script}\n"));
        let text = header_of(&Credentials::new(config, Offer::Http2, wall())).await.expect_err("fails");
        text.replace(&*folder.path().to_string_lossy(), "/f")
    };
    assert_eq!(run("exit 3").await, "exec: executable /f/./plugin failed with exit code 3");
    assert_eq!(run("echo secret").await, "decoding stdout: it is no ExecCredential");
    let printed = |version: &str, rest: &str| {
        format!(
            "echo '{{\"kind\": \"ExecCredential\", \"apiVersion\": \"client.authentication.k8s.io/{version}\"{rest}}}'"
        )
    };
    assert_eq!(run(&printed("v1", "")).await, "exec plugin didn't return a status field");
    let nothing = run(&printed("v1", ", \"status\": {}")).await;
    assert_eq!(nothing, "exec plugin didn't return a token or cert/key pair");
    let half = run(&printed("v1", ", \"status\": {\"clientKeyData\": \"k\"}")).await;
    assert_eq!(half, "exec plugin returned only certificate or key, not both");
    assert!(run(&printed("v1beta1", "")).await.starts_with("exec plugin is configured to use API version"));
    let config = program(folder.path(), "");
    std::fs::remove_file(folder.path().join("plugin")).expect("removed");
    let gone = header_of(&Credentials::new(config, Offer::Http2, wall())).await.expect_err("gone");
    assert!(gone.starts_with("exec: executable ") && gone.ends_with(" not found"), "{gone}");
}

/// The sights of a server, and the certificates that it no longer accepts.
#[derive(Default)]
struct Door {
    connections: AtomicUsize,
    refused: Mutex<String>,
}

impl Door {
    /// A watch never ends; everything else is a node named after who asks.
    fn answer(&self, name: &str, request: &Request<Incoming>) -> Response<BoxBody<Bytes, Infallible>> {
        if request.uri().query().unwrap_or_default().contains("watch=true") {
            let silence = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
            return Response::new(BodyExt::boxed(StreamBody::new(silence)));
        }
        let code = if *self.refused.lock().expect("a name") == name { 401 } else { 200 };
        let body = serde_json::json!({"kind": "Node", "metadata": {"name": name}}).to_string();
        Response::builder().status(code).body(Full::new(Bytes::from(body)).boxed()).expect("an answer")
    }
}

/// A server that takes certificates of `authority`, or none.
async fn asking_server(authority: &Authority) -> (SocketAddr, Arc<Door>, JoinSet<()>) {
    let mut roots = RootCertStore::empty();
    use rustls::pki_types::pem::PemObject;
    let root = rustls::pki_types::CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("a certificate");
    roots.add(root).expect("a root");
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let verifier = verifier.allow_unauthenticated().build().expect("a verifier");
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let same = server_config(&["h2"]);
    let mut config =
        builder.expect("versions").with_client_cert_verifier(verifier).with_cert_resolver(same.cert_resolver.clone());
    config.alpn_protocols = vec![b"h2".to_vec()];
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
    let address = listener.local_addr().expect("bound");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (mut tasks, door) = (JoinSet::new(), Arc::new(Door::default()));
    let here = Arc::clone(&door);
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, door) = (acceptor.clone(), Arc::clone(&here));
            open.spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                door.connections.fetch_add(1, Ordering::Relaxed);
                let name = stream.get_ref().1.peer_certificates().map_or("nobody".to_owned(), |chain| {
                    let (_, certificate) = X509Certificate::from_der(&chain[0]).expect("a certificate");
                    let name = certificate.subject().iter_common_name().next().expect("a name");
                    name.as_str().expect("text").to_owned()
                });
                let answer =
                    service_fn(|request| std::future::ready(Ok::<_, Infallible>(door.answer(&name, &request))));
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    (address, door, tasks)
}

async fn who(api: &ApiServer) -> String {
    api.get::<Node>(&Place::Cluster, "me").await.expect("answered").metadata.name.expect("a name")
}

fn pair(authority: &Authority, node: &str) -> (String, String) {
    let key = PrivateKey::generate().expect("a key");
    (authority.sign(&Names::of_client(node), &key), key.pem())
}

fn transport(kubeconfig: &Kubeconfig, credentials: Credentials) -> Transport {
    let settings = Settings::from_environment(kubeconfig.server.clone(), "kubelet/v1".to_owned());
    Transport::new(Settings { offer: Offer::Http2, ..settings }, Arc::new(credentials))
}

/// NODE-54.
#[tokio::test]
async fn an_exchanged_certificate_is_shown_from_the_next_call_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    let (address, door, _tasks) = asking_server(&authority).await;
    let config = kubeconfig(folder.path(), &address.to_string(), "{token: not-shown}");
    let live = Arc::new(LiveCertificate::default());
    let transport = transport(&config, Credentials::rotating(&config, Arc::clone(&live), Offer::Http2, wall()));
    let api = transport.server(None, None);
    let error = api.get::<Node>(&Place::Cluster, "me").await.expect_err("nobody is asked as nobody").to_string();
    assert!(error.ends_with("getting credentials: there is no client certificate yet"), "{error}");
    for node in ["one", "two"] {
        let (chain, key) = pair(&authority, node);
        assert!(live.set(Pair::parse(chain.as_bytes(), key.as_bytes()).expect("a pair")));
        for _ in 0..2 {
            assert_eq!(who(&api).await, format!("system:node:{node}"));
        }
    }
    assert_eq!(door.connections.load(Ordering::Relaxed), 2, "one for each identity");
}

/// A certificate in files, with a watch on the general lane of who shows it.
struct Filed {
    folder: tempfile::TempDir,
    authority: Authority,
    door: Arc<Door>,
    api: ApiServer,
    watch: Pin<Box<dyn Stream<Item = Result<WatchEvent<Node>, ApiError>> + Send>>,
    _tasks: JoinSet<()>,
}

impl Filed {
    async fn watching() -> Self {
        let (folder, authority) = (tempfile::tempdir().expect("a folder"), Authority::new());
        let (address, door, _tasks) = asking_server(&authority).await;
        write(folder.path(), &authority, "one");
        let config = kubeconfig(folder.path(), &address.to_string(), "{client-certificate: c.pem, client-key: c.pem}");
        let settings = Settings::from_environment(config.server.clone(), "kubelet/v1".to_owned());
        // Time is moved on by hand: a question whether the server lives would be late.
        let settings = Settings { offer: Offer::Http2, silence_max: Duration::ZERO, ..settings };
        let credentials = Credentials::new(config, Offer::Http2, wall());
        let api = Transport::new(settings, Arc::new(credentials)).server(None, None);
        let (from, timeout) = (WatchFrom::Version("1"), Duration::from_secs(36_000));
        let watch = api.watch::<Node>(&Place::Cluster, &Selector::all(), from, timeout).await.expect("opened");
        Self { folder, authority, door, api, watch: Box::pin(watch), _tasks }
    }

    /// Somebody else's certificate is laid down.
    fn exchange(&self, node: &str) {
        write(self.folder.path(), &self.authority, node);
    }

    /// The user that the server takes the heartbeats for.
    async fn heart(&self) -> String {
        who(&self.api.on(Lane::Heartbeat)).await
    }

    async fn watch_ends(mut self) {
        let ended = tokio::time::timeout(Duration::from_secs(30), self.watch.next()).await.expect("ends");
        assert!(matches!(&ended, Some(Err(error)) if error.is_unreachable()), "{ended:?}");
        assert_eq!(who(&self.api).await, "system:node:two", "the general lane shows the new one, too");
    }
}

fn write(folder: &Path, authority: &Authority, node: &str) {
    let (chain, key) = pair(authority, node);
    std::fs::write(folder.join("c.pem"), chain + &key).expect("written");
}

async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// NODE-54, CFG-43: a watch that never ends must not keep up the connection of a certificate that somebody exchanged.
#[tokio::test]
async fn a_certificate_exchanged_in_its_files_is_shown_within_five_minutes() {
    let filed = Filed::watching().await;
    assert_eq!(filed.heart().await, "system:node:one");
    filed.exchange("two");
    pass(200).await;
    assert_eq!(filed.heart().await, "system:node:one", "files are not read for each call");
    std::fs::write(filed.folder.path().join("c.pem"), "half").expect("written");
    pass(101).await;
    assert_eq!(filed.heart().await, "system:node:one", "what is half written is none yet");
    filed.exchange("two");
    pass(10).await;
    assert_eq!(filed.heart().await, "system:node:two");
    filed.watch_ends().await;
}

/// NODE-54, CFG-43.
#[tokio::test]
async fn a_certificate_exchanged_in_its_files_is_shown_once_the_old_one_is_refused() {
    let filed = Filed::watching().await;
    assert_eq!(filed.heart().await, "system:node:one");
    filed.exchange("two");
    "system:node:one".clone_into(&mut filed.door.refused.lock().expect("a name"));
    let refused = filed.api.get::<Node>(&Place::Cluster, "me").await.expect_err("the old one has ended");
    assert!(refused.is_unauthorized(), "{refused}");
    assert_eq!(filed.heart().await, "system:node:two");
    filed.watch_ends().await;
}

#[tokio::test]
async fn certificates_in_files_are_read_for_each_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    let (address, _, _tasks) = asking_server(&authority).await;
    write(folder.path(), &authority, "one");
    let config = kubeconfig(folder.path(), &address.to_string(), "{client-certificate: c.pem, client-key: c.pem}");
    let transport = transport(&config, Credentials::new(config.clone(), Offer::Http2, wall()));
    let api = transport.server(None, None);
    assert_eq!(who(&api).await, "system:node:one");
    write(folder.path(), &authority, "two");
    assert_eq!(who(&api).await, "system:node:one", "the connection is still the old one's");
    transport.reset();
    assert_eq!(who(&api).await, "system:node:two");
    // A wrong server learns nothing but that somebody came.
    let stranger = kubeconfig(folder.path(), &format!("localhost:{}", address.port()), "{token: secret}");
    let stranger = Kubeconfig { tls_server_name: Some("elsewhere.example".to_owned()), ..stranger };
    let credentials = Credentials::new(stranger.clone(), Offer::Http2, wall());
    let transport = self::transport(&stranger, credentials);
    let error = transport.server(None, None).get::<Node>(&Place::Cluster, "me").await.expect_err("the wrong name");
    let text = error.to_string();
    assert!(error.is_unreachable() && text.contains("tls: failed to verify certificate: x509: "), "{text}");
}
