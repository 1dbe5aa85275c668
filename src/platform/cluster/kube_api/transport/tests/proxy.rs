//! The way through a played proxy on loopback, in real time.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::super::{Endpoint, Proxy, Settings, Transport};
use super::{Server, someone};
use crate::platform::cluster::kube_api::{ApiError, ApiServer, Place};
use crate::platform::network::http_exchange::test_server::server_config;
use crate::platform::network::tls::Offer;

/// A proxy that leads everybody to one server, unless it answers with something else than `200`.
#[derive(Clone)]
struct PlayedProxy {
    to: SocketAddr,
    answer: &'static str,
    heads: Arc<Mutex<Vec<String>>>,
}

impl PlayedProxy {
    fn new(to: SocketAddr, answer: &'static str) -> Self {
        Self { to, answer, heads: Arc::default() }
    }

    async fn start(&self, tls: bool) -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
        let address = listener.local_addr().expect("bound");
        let (played, mut tasks) = (self.clone(), JoinSet::new());
        tasks.spawn(async move {
            let acceptor = TlsAcceptor::from(server_config(&[]));
            let mut tunnels = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (played, acceptor) = (played.clone(), acceptor.clone());
                tunnels.spawn(async move {
                    match tls {
                        true => played.serve(acceptor.accept(stream).await.expect("a client of TLS")).await,
                        false => played.serve(stream).await,
                    }
                });
            }
        });
        (address, tasks)
    }

    async fn serve(&self, mut client: impl AsyncRead + AsyncWrite + Unpin) {
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.expect("a head"));
        }
        self.heads.lock().expect("not poisoned").push(String::from_utf8(head).expect("text"));
        client.write_all(self.answer.as_bytes()).await.expect("it listens");
        if self.answer.contains(" 200 ") {
            let mut server = TcpStream::connect(self.to).await.expect("the server");
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        } else {
            let _ = client.read_u8().await; // It says nothing more, and does not hang up.
        }
    }
}

/// A server that is reached through this proxy.
fn through(server: &str, proxy: &str) -> ApiServer {
    let settings = Settings {
        server: Endpoint::parse(server, true).expect("an address"),
        proxy: Some(Proxy::parse(proxy).expect("a proxy")),
        offer: Offer::Http2,
        user_agent: "kubelet/v1".to_owned(),
        silence_max: Duration::from_secs(30),
        ping_timeout: Duration::from_secs(15),
    };
    Transport::new(settings, someone(Offer::Http2)).server(None, None)
}

async fn refusal(api: ApiServer) -> ApiError {
    api.get::<Node>(&Place::Cluster, "n").await.expect_err("no way")
}

#[tokio::test]
async fn a_server_is_reached_through_a_proxy_by_its_name_alone() {
    for tls in [false, true] {
        let (server, address, _tasks) = Server::start(&["h2"]).await;
        let proxy = PlayedProxy::new(address, "HTTP/1.1 200 Connection established\r\n\r\n");
        let (at, _proxy) = proxy.start(tls).await;
        let scheme = if tls { "https" } else { "http" };
        // No name server knows this name: the proxy has to.
        let api = through("https://localhost.invalid:6443", &format!("{scheme}://me:s%40cret@{at}"));
        for _ in 0..2 {
            api.get::<Node>(&Place::Cluster, "n").await.expect("read");
        }
        let heads = proxy.heads.lock().expect("not poisoned").clone();
        let expected = "CONNECT localhost.invalid:6443 HTTP/1.1\r\nHost: localhost.invalid:6443\r\n\
                        Proxy-Authorization: Basic bWU6c0BjcmV0\r\n\r\n";
        assert_eq!(heads, [expected], "one tunnel carries all calls");
        let asked = server.asked.lock().expect("log")[0].clone();
        assert_eq!(asked, "HTTP/2.0 https://localhost.invalid:6443/api/v1/nodes/n Bearer t kubelet/v1");
    }
}

#[tokio::test]
async fn a_proxy_that_refuses_is_told_of_without_its_password() {
    let (_server, address, _tasks) = Server::start(&["h2"]).await;
    let endless: &'static str = String::leak(format!("HTTP/1.1 200 OK\r\nVia: {}", "x".repeat(64 * 1024)));
    for (answer, told) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication Required"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "malformed HTTP response"),
        (endless, "the proxy's answer is too long"),
    ] {
        let (at, _proxy) = PlayedProxy::new(address, answer).start(false).await;
        let error = refusal(through(&format!("https://{address}"), &format!("http://me:hunter2@{at}"))).await;
        assert!(error.is_unreachable(), "{error}");
        let expected = format!("Get \"https://{address}/api/v1/nodes/n\": proxyconnect tcp: {told}");
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn a_call_ends_in_its_time_although_the_proxy_is_silent() {
    let (_server, address, _tasks) = Server::start(&["h2"]).await;
    let (at, _proxy) = PlayedProxy::new(address, "").start(false).await;
    let api = through(&format!("https://{address}"), &format!("http://{at}")).within(Duration::from_millis(200));
    assert!(refusal(api).await.is_unreachable());
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named_as_one() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
    let at = listener.local_addr().expect("bound");
    drop(listener);
    let error = refusal(through("https://10.0.0.1:6443", &format!("http://{at}"))).await;
    let told = format!("proxyconnect tcp: dial tcp {at}: connect: connection refused");
    assert!(error.to_string().ends_with(&told), "{error}");
}

async fn exactly(client: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    client.read_exact(&mut bytes).await.expect("a client that speaks");
    bytes
}

/// A SOCKS proxy that wants this user, and leads everybody to one server, or answers with another status than success.
/// Notes the name and port that it is asked for.
async fn socks(
    to: SocketAddr,
    user: Option<(&'static str, &'static str)>,
    status: u8,
) -> (SocketAddr, JoinSet<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bound");
    let (at, mut tasks) = (listener.local_addr().expect("bound"), JoinSet::new());
    tasks.spawn(async move {
        let (mut client, _) = listener.accept().await.expect("a client");
        let method = if user.is_some() { 2 } else { 0 };
        assert_eq!(exactly(&mut client, 3).await, [5, 1, method]);
        client.write_all(&[5, method]).await.expect("it listens");
        if let Some((name, password)) = user {
            assert_eq!(exactly(&mut client, 2 + name.len()).await[2..], *name.as_bytes());
            let said = exactly(&mut client, 1 + password.len()).await;
            let is_right = said[1..] == *password.as_bytes();
            client.write_all(&[1, u8::from(!is_right)]).await.expect("it listens");
        }
        let head = exactly(&mut client, 5).await;
        assert_eq!(head[..4], [5, 1, 0, 3], "connect to a name");
        let target = exactly(&mut client, usize::from(head[4]) + 2).await;
        client.write_all(&[5, status, 0, 1, 0, 0, 0, 0, 0, 0]).await.expect("it listens");
        if status == 0 {
            let mut server = TcpStream::connect(to).await.expect("the server");
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        }
        let port = u16::from_be_bytes([target[target.len() - 2], target[target.len() - 1]]);
        format!("{}:{port}", String::from_utf8_lossy(&target[..target.len() - 2]))
    });
    (at, tasks)
}

#[tokio::test]
async fn a_server_is_reached_through_a_socks_proxy_by_its_name() {
    for (user, shown) in [(None, ""), (Some(("me", "s@cret")), "me:s%40cret@")] {
        let (server, address, _tasks) = Server::start(&["h2"]).await;
        let (at, mut proxy) = socks(address, user, 0).await;
        let api = through("https://localhost.invalid:6443", &format!("socks5://{shown}{at}"));
        api.get::<Node>(&Place::Cluster, "n").await.expect("read");
        drop(api);
        let asked = proxy.join_next().await.expect("one").expect("no panic");
        assert_eq!(asked, "localhost.invalid:6443");
        assert_eq!(server.asked.lock().expect("log").len(), 1);
    }
}

#[tokio::test]
async fn a_socks_proxy_that_refuses_is_told_of_without_its_password() {
    for (user, status, why) in [(None, 2, "not allowed"), (Some(("me", "other")), 0, "credentials not accepted")] {
        let (_server, address, _tasks) = Server::start(&["h2"]).await;
        let (at, _proxy) = socks(address, user, status).await;
        let shown = user.map_or("", |_| "me:12345@");
        let error = refusal(through("https://localhost.invalid:6443", &format!("socks5h://{shown}{at}"))).await;
        let text = error.to_string();
        let told = format!("proxyconnect tcp: socks connect tcp {at}->localhost.invalid:6443: ");
        assert!(error.is_unreachable() && text.contains(&told) && text.contains(why), "{text}");
        assert!(!text.contains("12345"), "{text}");
    }
}
