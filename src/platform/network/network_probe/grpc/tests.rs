//! gRPC health probes against played servers on loopback.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::mpsc;

use super::*;
use crate::platform::network::http_exchange::test_server::serve_raw;

/// The server's answer to a call.
#[derive(Clone, Copy)]
enum Play {
    Answer(&'static [u8]),
    End(&'static str, &'static str),
    Http(u16),
    Silence,
}

/// A request's headers of interest, and its message.
type Asked = (Vec<(String, String)>, Vec<u8>);

/// Plays a server for one connection while `client` runs.
async fn with_server<T>(play: Play, client: impl AsyncFnOnce(SocketAddr) -> T) -> (T, Vec<Asked>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("bound");
    let (tell, mut asked) = mpsc::unbounded_channel();
    let server = async {
        let stream = listener.accept().await.expect("came").0;
        let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
            let tell = tell.clone();
            async move {
                let (head, body) = request.into_parts();
                let mut lines: Vec<(String, String)> = vec![(":path".to_owned(), head.uri.path().to_owned())];
                for (name, value) in &head.headers {
                    lines.push((name.to_string(), value.to_str().expect("text").to_owned()));
                }
                let body = body.collect().await.expect("a message").to_bytes().to_vec();
                tell.send((lines, body)).expect("the test listens");
                if matches!(play, Play::Silence) {
                    std::future::pending::<()>().await;
                }
                Ok::<_, std::convert::Infallible>(played(play))
            }
        });
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        std::future::pending::<()>().await;
    };
    let outcome = tokio::select! { () = server => unreachable!(), outcome = client(address) => outcome };
    asked.close();
    let mut all = vec![];
    while let Some(one) = asked.recv().await {
        all.push(one);
    }
    (outcome, all)
}

type Frames =
    StreamBody<futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, std::convert::Infallible>>>>;

fn played(play: Play) -> hyper::Response<Frames> {
    let response = hyper::Response::builder().header("content-type", "application/grpc");
    let end = |code: &'static str, message: &'static str| {
        let mut trailers = hyper::HeaderMap::new();
        trailers.insert("grpc-status", code.parse().expect("a number"));
        trailers.insert("grpc-message", message.parse().expect("a text"));
        Ok(Frame::trailers(trailers))
    };
    let (status, frames) = match play {
        Play::Answer(message) => {
            let mut framed = vec![0, 0, 0, 0, u8::try_from(message.len()).expect("short")];
            framed.extend_from_slice(message);
            (200, vec![Ok(Frame::data(Bytes::from(framed))), end("0", "")])
        }
        Play::End(code, message) => (200, vec![end(code, message)]),
        Play::Http(status) => (status, vec![]),
        Play::Silence => (200, vec![]),
    };
    response.status(status).body(StreamBody::new(futures_util::stream::iter(frames))).expect("an answer")
}

fn to(address: SocketAddr, timeout: Duration) -> GrpcProbe {
    GrpcProbe { host: address.ip().to_string(), port: address.port(), service: "a.B".to_owned(), timeout }
}

const LONG: Duration = Duration::from_secs(20);

/// PRB-14.
#[tokio::test]
async fn the_question_is_upstreams() {
    let (outcome, asked) =
        with_server(Play::Answer(&[8, 1]), async |address| probe(&to(address, LONG), &Names::OfNode).await).await;
    assert_eq!(outcome, ProbeOutcome::Success);
    let [(head, body)] = asked.as_slice() else { panic!("asked once") };
    assert_eq!(body, &[0, 0, 0, 0, 5, 10, 3, b'a', b'.', b'B']);
    for (name, value) in [
        (":path", "/grpc.health.v1.Health/Check"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("user-agent", "kube-probe/1.36"),
        ("grpc-timeout", "20000m"),
    ] {
        assert!(head.contains(&(name.to_owned(), value.to_owned())), "{name}: {value} in {head:?}");
    }
}

/// PRB-14: all but SERVING is a failure, in upstream's words.
#[tokio::test]
async fn all_but_serving_is_a_failure() {
    let cases = [
        (Play::Answer(&[]), "service unhealthy (responded with \"UNKNOWN\")"),
        (Play::Answer(&[8, 2]), "service unhealthy (responded with \"NOT_SERVING\")"),
        (Play::Answer(&[18, 1, 0, 8, 3]), "service unhealthy (responded with \"SERVICE_UNKNOWN\")"),
        (Play::Answer(&[8, 9]), "service unhealthy (responded with \"9\")"),
        (
            Play::Answer(&[8]),
            "error: health rpc probe failed: rpc error: code = Internal desc = the answer is no HealthCheckResponse",
        ),
        (
            Play::End("12", "unknown service"),
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service",
        ),
        (
            Play::End("7", "not%20you%"),
            "error: health rpc probe failed: rpc error: code = PermissionDenied desc = not you%",
        ),
        (
            Play::Http(404),
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unexpected HTTP \
             status code received from server: 404 Not Found",
        ),
    ];
    for (play, expected) in cases {
        let (outcome, _) = with_server(play, async |address| probe(&to(address, LONG), &Names::OfNode).await).await;
        assert_eq!(outcome, ProbeOutcome::Failure(expected.to_owned()));
    }
}

#[tokio::test]
async fn silence_is_a_timeout_of_the_call_or_of_the_connection() {
    let short = Duration::from_secs(1);
    let (outcome, _) =
        with_server(Play::Silence, async |address| probe(&to(address, short), &Names::OfNode).await).await;
    assert_eq!(outcome, ProbeOutcome::Failure("timeout: health rpc did not complete within 1s".to_owned()));
    let (keep, _kept) = std::sync::mpsc::channel();
    let address = serve_raw([127, 0, 0, 1].into(), move |stream| drop(keep.send(stream)));
    let expected = format!("timeout: failed to connect service \"{address}\" within 1s: context deadline exceeded");
    assert_eq!(probe(&to(address, short), &Names::OfNode).await, ProbeOutcome::Failure(expected));
}

#[tokio::test]
async fn who_speaks_something_else_is_no_server() {
    let address = serve_raw([127, 0, 0, 1].into(), |mut stream| {
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
        let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let ProbeOutcome::Failure(text) = probe(&to(address, LONG), &Names::OfNode).await else { panic!("a failure") };
    assert!(text.starts_with(&format!("error: failed to connect service at \"{address}\": ")), "{text}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let closed = listener.local_addr().expect("bound");
    drop(listener);
    let expected =
        format!("error: failed to connect service at \"{closed}\": dial tcp {closed}: connect: connection refused");
    assert_eq!(probe(&to(closed, LONG), &Names::OfNode).await, ProbeOutcome::Failure(expected));
}

#[test]
fn a_long_service_name_has_a_long_length() {
    let name = "x".repeat(300);
    assert_eq!(check_request(&name)[..3], [10, 0xac, 2]);
    assert!(check_request("").is_empty());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
        let _ = serving_status(&bytes);
    }
}
