//! Tests of connections: what one client does costs that client only.

use axum::Extension;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::*;
use crate::server::tests::ask;

/// A listener with an answer, one that never comes, and one that panics. It ends when the set is dropped.
async fn listening(limits: Limits) -> (std::net::SocketAddr, JoinSet<String>) {
    let router = Router::new()
        .route("/well", get(async || "ok"))
        .route("/never", get(std::future::pending::<()>))
        .route("/trusted", get(async |Extension(standing): Extension<Standing>| standing.trust("one")))
        .route(
            "/endless",
            get(async |Extension(standing): Extension<Standing>| {
                standing.trust("one");
                Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>())
            }),
        )
        .route("/other", get(async |Extension(standing): Extension<Standing>| standing.trust("other")))
        .route("/reads", post(async |body: Bytes| format!("{} bytes", body.len())))
        .route("/ignores", post(async || "heard"))
        .route("/panic", get(async || -> &'static str { panic!("made to") }));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut tasks = JoinSet::new();
    tasks.spawn(serve(listener, router, limits));
    (address, tasks)
}

async fn connect(address: std::net::SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("listening")
}

async fn is_well(address: std::net::SocketAddr) -> bool {
    ask(connect(address).await, "GET", "/well").await.body == "ok"
}

/// Everything until the other side closes; a reset is a close, too.
async fn rest_of(mut stream: TcpStream) -> String {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    String::from_utf8_lossy(&rest).into_owned()
}

#[tokio::test]
async fn the_oldest_connection_gives_way_to_a_new_one() {
    let (address, _tasks) = listening(Limits { connections_max: 2, ..Limits::default() }).await;
    let first = connect(address).await;
    let _second = connect(address).await;
    assert!(is_well(address).await);
    assert_eq!(rest_of(first).await, "");
}

/// SRV-03.
#[tokio::test]
async fn a_head_that_is_too_large_or_no_http_ends_its_connection_only() {
    let (address, _tasks) = listening(Limits::default()).await;
    let mut large = b"GET /well HTTP/1.1\r\nx: ".to_vec();
    large.resize(2 << 20, b'a');
    for garbage in [b"\x16\x03\x01 not http\r\n\r\n".to_vec(), large] {
        let mut stream = connect(address).await;
        let _ = stream.write_all(&garbage).await; // May be cut short.
        assert!(!rest_of(stream).await.starts_with("HTTP/1.1 200"));
    }
    assert!(is_well(address).await);
}

/// As Go's server has it: a mebibyte, in one header or in many.
#[tokio::test]
async fn a_head_of_nearly_a_mebibyte_is_heard() {
    let (address, _tasks) = listening(Limits::default()).await;
    let many: String = (0..600).map(|number| format!("x-{number}: {}\r\n", "a".repeat(1600))).collect();
    for headers in [format!("x: {}\r\n", "a".repeat(1_000_000)), many] {
        let mut stream = connect(address).await;
        let head = format!("GET /well HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.expect("open");
        let said = rest_of(stream).await;
        assert!(said.ends_with("\r\n\r\nok"), "{} bytes: {said}", head.len());
    }
}

/// A follower whose machine vanished without a word is noticed, however silent the log.
#[tokio::test]
async fn an_accepted_connection_is_asked_for_signs_of_life() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let _client = connect(listener.local_addr().expect("bound")).await;
    let (stream, _) = Accept::accept(&listener).await.expect("accepted").expect("taken").await.expect("open");
    let socket = tokio::net::TcpSocket::from_std_stream(stream.into_std().expect("its own"));
    assert!(socket.keepalive().expect("asked"));
}

/// SRV-03.
#[tokio::test]
async fn an_idle_connection_is_closed_before_and_after_a_request() {
    let (address, _tasks) = listening(Limits { idle: Duration::from_millis(30), ..Limits::default() }).await;
    let mut slow = connect(address).await;
    slow.write_all(b"GET /we").await.expect("open");
    assert!(!rest_of(slow).await.contains("200 OK"));
    let mut asked = connect(address).await;
    asked.write_all(b"GET /well HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("open");
    assert!(rest_of(asked).await.ends_with("\r\n\r\nok"));
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_told_so() {
    let (address, _tasks) = listening(Limits { answer: Duration::from_millis(30), ..Limits::default() }).await;
    let answer = ask(connect(address).await, "GET", "/never").await;
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (504, "the answer took too long\n"));
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
}

#[tokio::test]
async fn a_panic_costs_its_own_connection_only() {
    let (address, _tasks) = listening(Limits::default()).await;
    let mut stream = connect(address).await;
    stream.write_all(b"GET /panic HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("open");
    assert_eq!(rest_of(stream).await, "");
    assert!(is_well(address).await);
}

/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes a byte now and then until the other side has closed.
async fn drip(stream: &mut TcpStream, byte: &[u8]) {
    let dripping = async {
        while stream.write_all(byte).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, dripping).await.expect("it is ended");
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_has_an_end() {
    let (address, _tasks) = listening(Limits { idle: Duration::from_millis(300), ..Limits::default() }).await;
    for beginning in ["", "GET /well HTTP/1.1\r\nhost: x\r\nx: "] {
        let mut slow = connect(address).await;
        slow.write_all(beginning.as_bytes()).await.expect("open");
        let (well, ()) = tokio::join!(is_well(address), drip(&mut slow, b"a"));
        assert!(well, "others are served meanwhile");
    }
    // One line after the other: the limit is for the head, not for its lines.
    let mut slow = connect(address).await;
    slow.write_all(b"GET /well HTTP/1.1\r\n").await.expect("open");
    drip(&mut slow, b"a: b\r\n").await;
}

#[tokio::test]
async fn a_body_that_never_comes_is_waited_for_a_while_if_at_all() {
    let (address, _tasks) = listening(Limits { body: Duration::from_millis(300), ..Limits::default() }).await;
    let ask = async |head: &str, body: &[u8]| {
        let mut stream = connect(address).await;
        stream.write_all(format!("POST {head}\r\n\r\n").as_bytes()).await.expect("open");
        stream.write_all(body).await.expect("open");
        tokio::time::timeout(PATIENCE, rest_of(stream)).await.expect("it is ended")
    };
    let whole = ask("/reads HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3", b"abc").await;
    assert!(whole.ends_with("3 bytes"), "{whole}");
    for how in ["content-length: 10", "transfer-encoding: chunked"] {
        let head = format!("/reads HTTP/1.1\r\nhost: x\r\n{how}");
        let (said, well) = tokio::join!(ask(&head, b"1\r\na"), is_well(address));
        assert!(well && said.starts_with("HTTP/1.1 400 "), "{how}: {said}");
        // Bytes that nobody reads are not waited for.
        let said = ask(&format!("/ignores HTTP/1.1\r\nhost: x\r\n{how}"), b"1\r\na").await;
        assert!(said.starts_with("HTTP/1.1 200 ") && said.ends_with("heard"), "{how}: {said}");
    }
    let mut slow = connect(address).await;
    slow.write_all(b"POST /reads HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n").await.expect("open");
    drip(&mut slow, b"a").await;
}

/// A connection whose answer has begun.
async fn answered(address: std::net::SocketAddr, path: &str) -> TcpStream {
    let mut stream = connect(address).await;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.expect("open");
    let mut said = [0; 15];
    stream.read_exact(&mut said).await.expect("answered");
    assert_eq!(&said, b"HTTP/1.1 200 OK");
    stream
}

#[tokio::test]
async fn where_each_known_user_has_a_request_one_more_is_refused() {
    let (address, _tasks) = listening(Limits { connections_max: 2, ..Limits::default() }).await;
    let mut known = vec![answered(address, "/endless").await, answered(address, "/endless").await];
    assert_eq!(rest_of(connect(address).await).await, "");
    // When one leaves there is room again.
    drop(known.pop());
    let room = async {
        while !is_well(address).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, room).await.expect("there is room");
}

/// SEC-28: a user with the least of rights cannot keep all connections: idle ones of the user with most give way.
#[tokio::test]
async fn the_oldest_idle_connection_of_the_user_with_most_gives_way() {
    let (address, _tasks) = listening(Limits { connections_max: 4, ..Limits::default() }).await;
    let mut other = answered(address, "/other").await;
    let endless = answered(address, "/endless").await;
    let (first, mut second) = (answered(address, "/trusted").await, answered(address, "/trusted").await);
    assert!(is_well(address).await);
    rest_of(first).await;
    for stream in [&mut other, &mut second] {
        stream.write_all(b"GET /well HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("open");
        let mut said = vec![];
        while !said.ends_with(b"\r\n\r\nok") {
            assert_ne!(stream.read_buf(&mut said).await.expect("still open"), 0);
        }
    }
    drop(endless);
}
