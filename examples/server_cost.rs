//! The cost of the authenticated port for the agent, in processor time; `make bench` uses it.
//!
//! ```text
//! server_cost scrapes PID HOST:PORT TIMES
//! server_cost round PID HOST:PORT ROUNDS
//! server_cost exec PID HOST:PORT ENDPOINT NAMESPACE POD CONTAINER MEBIBYTES
//! ``` `scrapes` asks each endpoint alone, over one connection that stays open, as Prometheus does: milliseconds an answer.
//! `round` asks all of them within 15 s, further apart than a look is shared: what that takes of one processor. `exec` has a
//! command write so much, once through the agent and once through a proxy that knows nothing but bytes and TLS. The proxy is
//! a process of its own: each one's processor time, and the ratio; best of three. PID is the agent's.

#![allow(clippy::disallowed_methods, reason = "a measurement is no actor")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use podwright::cri::grpc::GrpcRuntime;
use podwright::cri::instrumented::Unobserved;
use podwright::cri::{ContainerFilter, RuntimeService, Streams};
use podwright::logic::model::ids::ContainerId;
use podwright::logic::serving::spdy;
use podwright::platform::network::tls::{Offer, provider, unverified_client};
use procfs::process::Process;
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Everything that is scraped.
const ENDPOINTS: [&str; 6] =
    ["/stats/summary", "/metrics/cadvisor", "/metrics/resource", "/metrics/probes", "/metrics/slis", "/metrics"];
/// Later than a look is shared.
const APART: Duration = Duration::from_millis(2200);
/// How often everything is scraped.
const PERIOD: Duration = Duration::from_secs(15);
/// The agent's buffers, each way.
const BUFFER_BYTES: usize = 64 << 10;
/// Passes of an exec; the cheapest counts.
const PASSES: usize = 3;

/// Processor time that a process has used, in seconds.
fn cpu_seconds(pid: i32) -> Outcome<f64> {
    let stat = Process::new(pid)?.stat()?;
    Ok((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

async fn connect(address: &str) -> Outcome<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let connector = TlsConnector::from(unverified_client(Offer::Http1));
    Ok(connector.connect(ServerName::try_from("localhost")?, stream).await?)
}

async fn client(address: &str) -> Outcome<SendRequest<Empty<Bytes>>> {
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(connect(address).await?)).await?;
    tokio::task::spawn_local(connection);
    Ok(sender)
}

/// One answer; its bytes as they came.
async fn scrape(sender: &mut SendRequest<Empty<Bytes>>, path: &str) -> Outcome<usize> {
    let request = Request::get(path)
        .header(header::HOST, "bench")
        .header(header::ACCEPT, "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
        .header(header::ACCEPT_ENCODING, "gzip");
    sender.ready().await?;
    let answer = sender.send_request(request.body(Empty::new())?).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    if status.is_success() { Ok(body.len()) } else { Err(format!("{path}: {status}").into()) }
}

async fn scrapes(pid: i32, address: &str, times: u32) -> Outcome<()> {
    let mut sender = client(address).await?;
    for path in ENDPOINTS {
        let bytes = scrape(&mut sender, path).await?; // The work that is only done once.
        tokio::time::sleep(APART).await;
        let before = cpu_seconds(pid)?;
        for _ in 0..times {
            scrape(&mut sender, path).await?;
            tokio::time::sleep(APART).await;
        }
        let ms = (cpu_seconds(pid)? - before) * 1e3 / f64::from(times);
        println!("{path} ms={ms:.1} bytes={bytes}");
    }
    Ok(())
}

async fn round(pid: i32, address: &str, rounds: u32) -> Outcome<()> {
    let mut sender = client(address).await?;
    let mut ticks = tokio::time::interval(PERIOD / u32::try_from(ENDPOINTS.len())?);
    let before = cpu_seconds(pid)?;
    for _ in 0..rounds {
        for path in ENDPOINTS {
            ticks.tick().await;
            scrape(&mut sender, path).await?;
        }
    }
    ticks.tick().await;
    let ms = (cpu_seconds(pid)? - before) * 1e3 / f64::from(rounds);
    println!("round ms={ms:.0} percent={:.2}", ms / PERIOD.as_secs_f64() / 10.0);
    Ok(())
}

/// The request of a client, and how it goes on once it was let in.
struct Asked {
    head: String,
    after: Vec<u8>,
}

/// A command's output over SPDY.
fn over_spdy(path: &str) -> Asked {
    let mut writer = spdy::Writer::default();
    let streams = [(1, "error"), (3, "stdout")].map(|(number, kind)| writer.open(number, &[("streamtype", kind)]));
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
    );
    Asked { head, after: streams.concat() }
}

/// The same as channels of a WebSocket, which the agent turns into SPDY.
fn over_websocket(path: &str) -> Asked {
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
    );
    Asked { head, after: vec![] }
}

/// Takes so many bytes of the answer.
async fn take(mut stream: impl AsyncRead + AsyncWrite + Unpin, asked: &Asked, bytes: u64) -> Outcome<()> {
    stream.write_all(asked.head.as_bytes()).await?;
    stream.flush().await?;
    let mut stream = BufReader::with_capacity(BUFFER_BYTES, stream);
    let (mut line, mut first) = (String::new(), String::new());
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err("no answer".into());
        }
        if first.is_empty() {
            first.clone_from(&line);
        }
    }
    if !first.contains(" 101 ") {
        return Err(first.into());
    }
    stream.write_all(&asked.after).await?;
    stream.flush().await?;
    let (mut taken, mut block) = (0, vec![0; BUFFER_BYTES]);
    while taken < bytes {
        match stream.read(&mut block).await? {
            0 => return Err(format!("only {taken} bytes came").into()),
            length => taken += length as u64,
        }
    }
    Ok(())
}

/// The process whose output is taken.
struct Place {
    runtime: Arc<GrpcRuntime>,
    container: ContainerId,
    path: String,
    command: Vec<String>,
    bytes: u64,
}

async fn through_agent(pid: i32, address: &str, place: &Place, asked: fn(&str) -> Asked) -> Outcome<f64> {
    let before = cpu_seconds(pid)?;
    take(connect(address).await?, &asked(&place.path), place.bytes).await?;
    Ok(cpu_seconds(pid)? - before)
}

async fn through_proxy(place: &Place) -> Outcome<f64> {
    let streams = Streams { stdin: false, stdout: true, stderr: false, tty: false };
    let url = url::Url::parse(&place.runtime.exec(&place.container, &place.command, streams).await?)?;
    let mut proxy = Command::new(std::env::current_exe()?)
        .args(["proxy", url.authority()])
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let cost = of_proxy(&mut proxy, &url, place.bytes).await;
    proxy.kill().await?;
    cost
}

async fn of_proxy(proxy: &mut Child, url: &url::Url, bytes: u64) -> Outcome<f64> {
    let pid = proxy.id().ok_or("the proxy has ended")?.try_into()?;
    let mut address = String::new();
    BufReader::new(proxy.stdout.take().ok_or("no output")?).read_line(&mut address).await?;
    let before = cpu_seconds(pid)?;
    take(connect(address.trim()).await?, &over_spdy(url.path()), bytes).await?;
    Ok(cpu_seconds(pid)? - before)
}

/// The bare proxy: one connection, with the settings and the library of the agent's own server.
async fn proxy(target: &str) -> Outcome<()> {
    let key = rcgen::KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&key)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let key = CertifiedKey::from_der(vec![certificate.der().clone()], key, &provider())?;
    let config = rustls::ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let config = config.with_no_client_auth().with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let (client, _) = listener.accept().await?;
    client.set_nodelay(true)?;
    let mut client = TlsAcceptor::from(Arc::new(config)).accept(client).await?;
    let mut runtime = TcpStream::connect(target).await?;
    runtime.set_nodelay(true)?;
    // On a thread that also waits for the sockets, as the agent's streams are; else each piece would wake another one.
    let copying = tokio::spawn(async move {
        // A client that has enough leaves in the middle.
        drop(tokio::io::copy_bidirectional_with_sizes(&mut client, &mut runtime, BUFFER_BYTES, BUFFER_BYTES).await);
    });
    Ok(copying.await?)
}

async fn exec(pid: i32, address: &str, place: &Place) -> Outcome<()> {
    let mut best = [f64::MAX; 3];
    for _ in 0..PASSES {
        best[0] = best[0].min(through_proxy(place).await?);
        best[1] = best[1].min(through_agent(pid, address, place, over_spdy).await?);
        best[2] = best[2].min(through_agent(pid, address, place, over_websocket).await?);
    }
    for (what, seconds) in ["proxy", "agent", "websocket"].into_iter().zip(best) {
        println!("{what} seconds={seconds:.2} ratio={:.2}", seconds / best[0]);
    }
    Ok(())
}

/// The container that runs by this name.
async fn place(endpoint: &str, namespace: &str, pod: &str, container: &str, mebibytes: u64) -> Outcome<Place> {
    let runtime = GrpcRuntime::connect(endpoint, "", Duration::from_secs(120), Arc::new(Unobserved))?;
    runtime.check_runtime().await?;
    let labels = [
        ("io.kubernetes.pod.namespace", namespace),
        ("io.kubernetes.pod.name", pod),
        ("io.kubernetes.container.name", container),
    ];
    let label_selector = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let filter = ContainerFilter { label_selector, ..ContainerFilter::default() };
    let found = runtime.list_containers(&filter).await?.into_iter().next().ok_or("no such container")?;
    let bytes = mebibytes << 20;
    let command = vec!["head".to_owned(), "-c".to_owned(), bytes.to_string(), "/dev/zero".to_owned()];
    let words: String = command.iter().map(|word| format!("&command={word}")).collect();
    let path = format!("/exec/{namespace}/{pod}/{container}?output=1{words}");
    Ok(Place { runtime: Arc::new(runtime), container: found.id, path, command, bytes })
}

async fn run(args: &[&str]) -> Outcome<()> {
    match args {
        ["scrapes", pid, address, times] => scrapes(pid.parse()?, address, times.parse()?).await,
        ["round", pid, address, rounds] => round(pid.parse()?, address, rounds.parse()?).await,
        ["exec", pid, address, endpoint, namespace, pod, container, mebibytes] => {
            let place = place(endpoint, namespace, pod, container, mebibytes.parse()?).await?;
            exec(pid.parse()?, address, &place).await
        }
        ["proxy", target] => proxy(target).await,
        _ => Err("usage: server_cost scrapes|round|exec ...; see the head of its source".into()),
    }
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // Two threads, as the agent's.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, run(&args))
}
