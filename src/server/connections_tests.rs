//! Tests of connections: what one client does costs that client only.

use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::tests::ask;
use super::*;

/// A listener with an answer, one that never comes, and one that panics. It ends when the set is dropped.
async fn listening(limits: Limits) -> (std::net::SocketAddr, JoinSet<String>) {
    let router = Router::new()
        .route("/well", get(async || "ok"))
        .route("/never", get(std::future::pending::<()>))
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

#[tokio::test]
async fn a_head_that_is_too_large_or_no_http_ends_its_connection_only() {
    let (address, _tasks) = listening(Limits::default()).await;
    let mut large = b"GET /well HTTP/1.1\r\nx: ".to_vec();
    large.resize(200 * 1024, b'a');
    for garbage in [b"\x16\x03\x01 not http\r\n\r\n".to_vec(), large] {
        let mut stream = connect(address).await;
        let _ = stream.write_all(&garbage).await; // May be cut short.
        assert!(!rest_of(stream).await.starts_with("HTTP/1.1 200"));
    }
    assert!(is_well(address).await);
}

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
