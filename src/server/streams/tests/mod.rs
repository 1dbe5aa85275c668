//! Tests of streams as their clients meet them: the local socket of a whole tree, over a runtime that is played.

mod cves;
mod played;

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tonic::Status;

use self::played::{End, Played, Script};
use crate::logic::serving::streams::limits::StreamLimits;
use crate::logic::serving::{StreamSettings, spdy};
use crate::server::LocalSocket;
use crate::server::tests::Node;
use crate::testing::stream_clients::{Command, Socket, Spdy, ask, exec_path};

const PLACE: &str = "shop/web/a";
const ALL: &str = "input=1&output=1&error=1";
const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;

/// A node with the pod shop/web and its container `a`.
struct Stage {
    node: Node,
    runtime: Played,
}

impl Stage {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut StreamSettings)) -> Self {
        let node = Node::streaming(change);
        let runtime = Played::start(&node.folder.path().join("no-runtime.sock")).await;
        node.start().await;
        node.tell_pod("web", json!({"phase": "Running"}), &[]).await;
        node.ask_socket("/healthz").await;
        Self { node, runtime }
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.node.folder.path().join(LocalSocket::NAME)).await.expect("it listens")
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let (head, body) = ask(&mut self.connect().await, method, path, headers).await;
        (head.status, body)
    }

    async fn command(&self, protocol: &str, wanted: &[&str]) -> Command<UnixStream> {
        let flags: String = wanted
            .iter()
            .map(|kind| match *kind {
                "stdin" => "&input=1",
                "stdout" => "&output=1",
                "stderr" => "&error=1",
                _ => "&tty=1",
            })
            .collect();
        let path = exec_path(PLACE, &flags[1..], &["sh"]);
        let upgraded = Spdy::upgrade(self.connect().await, &path, &[protocol]).await;
        let (spdy, chosen) = upgraded.unwrap_or_else(|refused| panic!("{refused:?}"));
        assert_eq!(chosen, protocol);
        Command::open(spdy, wanted).await
    }
}

const UPGRADE: [(&str, &str); 3] =
    [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", "v4.channel.k8s.io")];

/// SRV-06, SRV-40: the refusals that come before the runtime is asked, in their bytes.
#[tokio::test]
async fn what_is_wrong_with_a_request_is_told_in_upstreams_words() {
    let stage = Stage::new().await;
    let one_of = "you must specify at least 1 of stdin, stdout, stderr";
    for (method, path, status, body) in [
        ("POST", "/exec/shop/web/a?stdin=1&stdout=1&command=ls", 400, one_of),
        ("GET", "/attach/shop/web/a?tty=1&error=1", 400, one_of),
        ("POST", "/exec/shop/nobody/a?output=1", 404, "pod does not exist"),
        ("POST", "/exec/other/web/a?output=1", 404, "pod does not exist"),
        ("POST", "/exec/shop/web/b?output=1", 500, "container not found (\"b\")"),
        ("POST", "/exec/shop/web/any-uid/b?output=1", 500, "container not found (\"b\")"),
        ("POST", "/attach/shop/web/b?output=1", 500, "container b not found in pod web_shop"),
        ("POST", "/attach/shop/web/other-uid/a?output=1", 500, "pod web_shop not found"),
        ("POST", "/portForward/shop/nobody", 404, "pod does not exist"),
        ("POST", "/portForward/shop/web/other-uid", 404, "pod not found"),
        (
            "POST",
            "/exec/shop/web/a?output=1&command=%ff",
            500,
            "rpc error: code = Internal desc = grpc: error while marshaling: string field contains invalid UTF-8",
        ),
        ("PUT", "/exec/shop/web/a?output=1", 405, "405: Method Not Allowed"),
        ("DELETE", "/portForward/shop/web", 405, "405: Method Not Allowed"),
        ("GET", "/run/shop/web/a?cmd=ls", 405, "405: Method Not Allowed"),
        ("GET", "/checkpoint/shop/web/a", 405, "405: Method Not Allowed"),
    ] {
        assert_eq!(stage.ask(method, path, &UPGRADE).await, (status, body.to_owned()), "{method} {path}");
    }
    let websocket = [("Connection", "Upgrade"), ("Upgrade", "websocket")];
    let (status, body) = stage.ask("GET", "/portForward/shop/web", &websocket).await;
    assert_eq!((status, body.as_str()), (400, "query parameter \"port\" is required"));
    assert_eq!(stage.runtime.calls.lock().expect("whole").len(), 0, "the runtime was not asked");
    for path in ["/exec/shop/web/a?output=1", "/attach/shop/web/a?output=1", "/portForward/shop/web"] {
        let plain = stage.ask("POST", path, &[]).await;
        assert_eq!(plain, (500, "Upgrade request required\n".to_owned()), "{path}");
    }
}

/// SRV-47, SEC-34: which calls the runtime gets, and which it never gets.
#[tokio::test]
async fn the_runtime_is_asked_as_upstream_asks_and_learns_no_secret() {
    let stage = Stage::new().await;
    stage.runtime.play(Script::Answer("HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno".to_owned()));
    let mut headers = UPGRADE.to_vec();
    headers.extend([
        ("Authorization", "Bearer secret"),
        ("Cookie", "secret"),
        ("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("User-Agent", "kubectl"),
    ]);
    let path = exec_path("shop/web/some-uid/a", "input=1&output=1&error=1&tty=1", &["sh", "-c", "a b;c"]);
    assert_eq!(stage.ask("POST", &path, &headers).await, (400, "no".to_owned()));
    let expected = r#"exec c1 ["sh", "-c", "a b;c"] true true false true"#;
    assert_eq!(
        *stage.runtime.calls.lock().expect("whole"),
        [expected],
        "the newest container, a terminal without stderr"
    );
    let head = stage.runtime.last_head();
    assert!(head.starts_with("POST /exec/token HTTP/1.1\n"), "{head}");
    for line in [
        "host: node",
        "upgrade: SPDY/3.1",
        "user-agent: kubectl",
        "x-forwarded-for: 192.0.2.1",
        "sec-websocket-protocol: v4.channel.k8s.io",
        "x-stream-protocol-version: v4.channel.k8s.io",
    ] {
        assert!(head.lines().any(|found| found == line), "{line} is not in\n{head}");
    }
    assert!(!head.contains("secret") && !head.contains("c2VjcmV0"), "{head}");
    stage.ask("POST", "/attach/shop/web/a?input=1&output=1&tty=1", &UPGRADE).await;
    assert_eq!(
        stage.runtime.calls.lock().expect("whole")[1],
        "attach c1 true true false false",
        "the spec has no terminal"
    );
}

/// SEC-32, SEC-33, SRV-47: no redirect reaches a client, nothing but 101 is an upgrade, errors are passed on.
#[tokio::test]
async fn only_an_upgrade_is_an_upgrade() {
    let stage = Stage::new().await;
    let path = exec_path(PLACE, "output=1", &["ls"]);
    let answer = |first: &str| {
        format!(
            "HTTP/1.1 {first}\r\nLocation: http://evil.example/\r\nSet-Cookie: a=b\r\nX-Accepted-Stream-Protocol-Versions: v4.channel.k8s.io\r\nContent-Length: 4\r\n\r\nbody"
        )
    };
    for (first, status, body) in [
        ("302 Found", 500, "invalid upgrade response: status code 302\n"),
        ("307 Temporary Redirect", 500, "invalid upgrade response: status code 307\n"),
        ("200 OK", 500, "invalid upgrade response: status code 200\n"),
        ("403 Forbidden", 403, "body"),
        ("404 Not Found", 404, "body"),
        ("500 Internal Server Error", 500, "body"),
    ] {
        stage.runtime.play(Script::Answer(answer(first)));
        let (head, seen) = ask(&mut stage.connect().await, "POST", &path, &UPGRADE).await;
        assert_eq!((head.status, seen.as_str()), (status, body), "{first}");
        assert_eq!((head.header("location"), head.header("set-cookie")), (None, None), "{first}");
        if status == 403 {
            assert_eq!(head.header("x-accepted-stream-protocol-versions"), Some("v4.channel.k8s.io"));
        }
    }
    stage.runtime.play(Script::Answer(String::new()));
    let (status, body) = stage.ask("POST", &path, &UPGRADE).await;
    assert_eq!((status, body.as_str()), (500, "read the answer to the upgrade request: unexpected EOF\n"));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    stage.runtime.lead_to(&format!("http://{closed}"));
    let refused = format!("error dialing backend: dial tcp {closed}: connect: connection refused\n");
    assert_eq!(stage.ask("POST", &path, &UPGRADE).await, (500, refused));
    let heads = stage.runtime.heads();
    stage.runtime.lead_to("http://192.0.2.9:1");
    let (status, body) = stage.ask("POST", &path, &UPGRADE).await;
    assert!(status == 500 && body.contains("not an address of this machine"), "SEC-33: {body}");
    assert_eq!(stage.runtime.heads(), heads);
}

/// SRV-48.
#[tokio::test]
async fn the_runtimes_refusals_have_upstreams_status() {
    let stage = Stage::new().await;
    for (refusal, status, body) in [
        (Status::not_found("gone"), 404, "rpc error: code = NotFound desc = gone"),
        (Status::resource_exhausted("full"), 429, "rpc error: code = ResourceExhausted desc = full"),
        (Status::unknown("odd"), 500, "rpc error: code = Unknown desc = odd"),
    ] {
        stage.runtime.refuse(Some(refusal));
        for path in ["/exec/shop/web/a?output=1&command=ls", "/attach/shop/web/a?output=1", "/portForward/shop/web"] {
            let (head, seen) = ask(&mut stage.connect().await, "POST", path, &UPGRADE).await;
            assert_eq!((head.status, seen.as_str()), (status, body), "{path}");
            assert_eq!(head.header("retry-after"), (status == 429).then_some("60"), "{path}");
        }
    }
}

/// SRV-41: each protocol passes as it is.
#[tokio::test]
async fn every_spdy_protocol_passes() {
    let stage = Stage::new().await;
    for protocol in ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"] {
        stage.runtime.play(Script::Command("how it ended", End::Whole));
        let mut command = stage.command(protocol, &["stdin", "stdout", "stderr"]).await;
        let stdin = command.stdin;
        command.spdy.send(stdin, b"hello", false).await;
        let stdout = command.stdout;
        command.spdy.until(|spdy| spdy.text(stdout) == "hello").await;
        command.spdy.send(stdin, b" and bye", true).await;
        let (stdout, stderr, status) = command.end().await;
        assert_eq!((stdout.as_str(), stderr.as_str(), status.as_str()), ("hello and bye", "done", "how it ended"));
    }
}

/// SRV-42: what the runtime's own library speaks goes there untouched; each side's end of sending, too.
#[tokio::test]
async fn older_websocket_protocols_pass_byte_by_byte() {
    let stage = Stage::new().await;
    let headers = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: base64.channel.k8s.io\r\n";
    stage.runtime.play(Script::Echo(headers.to_owned()));
    for offered in ["channel.k8s.io", "base64.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", ""] {
        let mut wire = stage.connect().await;
        let mut asked = vec![
            ("Connection", "upgrade"),
            ("Upgrade", "WebSocket"),
            ("Sec-WebSocket-Key", "eA=="),
            ("Sec-WebSocket-Version", "13"),
        ];
        if !offered.is_empty() {
            asked.push(("Sec-WebSocket-Protocol", offered));
        }
        let (head, _) = ask(&mut wire, "GET", &exec_path(PLACE, ALL, &["cat"]), &asked).await;
        assert_eq!((head.status, head.header("sec-websocket-protocol")), (101, Some("base64.channel.k8s.io")));
        wire.write_all(b"any bytes").await.expect("open");
        wire.shutdown().await.expect("open");
        let mut said = String::new();
        wire.read_to_string(&mut said).await.expect("a whole answer");
        assert_eq!(said, "ANY BYTESEND", "{offered}");
    }
}

/// SRV-43, SRV-44: the agent is the end of `v5.channel.k8s.io`.
#[tokio::test]
async fn v5_is_translated() {
    let stage = Stage::new().await;
    stage.runtime.play(Script::Command(r#"{"status":"Success"}"#, End::Whole));
    let path = exec_path(PLACE, ALL, &["cat"]);
    let mut socket =
        Socket::open(stage.connect().await, &path, "v4.channel.k8s.io, v5.channel.k8s.io", &[]).await.expect("open");
    assert_eq!(socket.protocol.as_deref(), Some("v5.channel.k8s.io"));
    assert_eq!(socket.next().await, Some((1, vec![])), "the first word is empty");
    socket.send(0, b"hello").await;
    assert_eq!(socket.until(1, "hello").await, "hello");
    socket.send(9, b"nobody's").await;
    socket.send(0, &vec![b'x'; 300_000]).await;
    socket.send(255, &[0]).await;
    let all = socket.rest().await;
    assert_eq!(all[&1].len(), 300_000);
    assert_eq!((&all[&2][..], std::str::from_utf8(&all[&3])), (&b"done"[..], Ok(SUCCESS)));
    let head = stage.runtime.last_head();
    assert!(head.starts_with("POST /exec/token HTTP/1.1\n") && head.contains("upgrade: SPDY/3.1"), "{head}");
    let metrics = stage.node.ask_socket("/metrics").await;
    let line = "kubelet_websocket_streaming_requests_total{subresource=\"exec\"} 1";
    assert!(metrics.body.lines().any(|found| found == line), "{}", metrics.body);
}

/// SRV-44, SRV-45: exit codes and sizes of the terminal.
#[tokio::test]
async fn v5_tells_exit_codes_and_sizes() {
    let stage = Stage::new().await;
    let exit =
        r#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
    stage.runtime.play(Script::Command(exit, End::Whole));
    let path = exec_path(PLACE, "input=1&output=1&tty=1", &["sh"]);
    let mut socket = Socket::open(stage.connect().await, &path, "v5.channel.k8s.io", &[]).await.expect("open");
    socket.send(4, br#"{"Width":80,"Height":24}"#).await;
    socket.send(255, &[0]).await;
    let all = socket.rest().await;
    assert_eq!(String::from_utf8_lossy(&all[&1]), "{\"Width\":80,\"Height\":24}\n");
    let status: serde_json::Value = serde_json::from_slice(&all[&3]).expect("JSON");
    assert_eq!(status["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}));
    assert_eq!(status["message"], "command terminated with non-zero exit code: command terminated with exit code 3");
}

/// A runtime's connection that is reset behind the status had told all that there was to tell.
#[tokio::test]
async fn v5_tells_a_status_that_came_before_a_reset() {
    let stage = Stage::new().await;
    stage.runtime.play(Script::Command(r#"{"status":"Success"}"#, End::Reset));
    let path = exec_path(PLACE, "input=1&error=1", &["cat"]);
    let mut socket = Socket::open(stage.connect().await, &path, "v5.channel.k8s.io", &[]).await.expect("open");
    socket.send(255, &[0]).await;
    let all = socket.rest().await;
    assert_eq!(std::str::from_utf8(&all[&3]), Ok(SUCCESS));
}

/// SRV-47 for `v5.channel.k8s.io`: what goes wrong behind it is a status, for the client is upgraded by then.
#[tokio::test]
async fn v5_tells_what_went_wrong_as_a_status() {
    let stage = Stage::new().await;
    let path = exec_path(PLACE, ALL, &["cat"]);
    for (script, wanted) in [
        (
            Script::Answer("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n".to_owned()),
            "redirect not allowed",
        ),
        (
            Script::Answer("HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\noops".to_owned()),
            "unable to upgrade connection: oops",
        ),
        (Script::Answer(String::new()), "unexpected EOF"),
        (Script::Echo("Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n".to_owned()), "does not speak v4.channel.k8s.io"),
        (Script::Command("", End::BreaksOff), "the connection to the runtime was lost"),
    ] {
        stage.runtime.play(script);
        let mut socket = Socket::open(stage.connect().await, &path, "v5.channel.k8s.io", &[]).await.expect("open");
        socket.send(255, &[0]).await;
        let all = socket.rest().await;
        let status: serde_json::Value = serde_json::from_slice(&all[&3]).expect("JSON");
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("Internal error occurred: ") && message.contains(wanted), "{wanted}: {status}");
        assert_eq!((&status["reason"], &status["code"]), (&json!("InternalError"), &json!(500)));
    }
    stage.runtime.lead_to("http://192.0.2.9:1");
    let mut socket = Socket::open(stage.connect().await, &path, "v5.channel.k8s.io", &[]).await.expect("open");
    let all = socket.rest().await;
    assert!(String::from_utf8_lossy(&all[&3]).contains("not an address of this machine"));
}

/// SRV-42: with the gate off `v5.channel.k8s.io` goes to the runtime like all others.
#[tokio::test]
async fn without_the_gate_the_runtime_sees_the_websocket() {
    let stage = Stage::with(|streams| streams.websockets_end_here = false).await;
    stage.runtime.play(Script::Answer("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned()));
    let path = exec_path(PLACE, ALL, &["cat"]);
    let refused = Socket::open(stage.connect().await, &path, "v5.channel.k8s.io", &[]).await.err().expect("refused");
    assert_eq!(refused.0, 403);
    assert!(stage.runtime.last_head().contains("sec-websocket-protocol: v5.channel.k8s.io"));
    let tunnel = "SPDY/3.1+portforward.k8s.io";
    let refused =
        Socket::open(stage.connect().await, "/portForward/shop/web?port=80", tunnel, &[]).await.err().expect("refused");
    assert_eq!(refused.0, 403);
    assert_eq!(stage.runtime.calls.lock().expect("whole")[1], "portforward s1 [80]");
}

/// SRV-46: bytes inside a tunnel are SPDY's own.
#[tokio::test]
async fn a_tunnel_carries_bytes() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::Message;

    let stage = Stage::new().await;
    let headers = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n";
    stage.runtime.play(Script::Echo(headers.to_owned()));
    let offered = "v4.channel.k8s.io, SPDY/3.1+portforward.k8s.io";
    let mut socket = Socket::open(stage.connect().await, "/portForward/shop/web", offered, &[]).await.expect("open");
    assert_eq!(socket.protocol.as_deref(), Some("SPDY/3.1+portforward.k8s.io"));
    let head = stage.runtime.last_head();
    assert!(head.starts_with("POST /portforward/token HTTP/1.1\n"), "{head}");
    assert!(
        head.contains("x-stream-protocol-version: portforward.k8s.io") && !head.contains("sec-websocket"),
        "{head}"
    );
    socket.inner.send(Message::binary(vec![b'a'; 100_000])).await.expect("open");
    let mut came = 0;
    while came < 100_000 {
        let message = socket.inner.next().await.expect("open").expect("whole").into_data();
        assert!(message.iter().all(|byte| *byte == b'A'));
        came += message.len();
    }
    socket.inner.send(Message::Close(None)).await.expect("open");
    let mut last = vec![];
    while let Some(Ok(message)) = socket.inner.next().await {
        last.extend_from_slice(&if message.is_binary() { message.into_data() } else { Default::default() });
    }
    assert_eq!(stage.runtime.calls.lock().expect("whole")[0], "portforward s1 []");
    stage.runtime.play(Script::Answer("HTTP/1.1 403 Forbidden\r\nX-Accepted-Stream-Protocol-Versions: portforward.k8s.io\r\nContent-Length: 2\r\n\r\nno".to_owned()));
    let foreign = "SPDY/3.1+other.k8s.io";
    let refused =
        Socket::open(stage.connect().await, "/portForward/shop/web", foreign, &[]).await.err().expect("refused");
    assert_eq!(refused, (403, "no".to_owned()));
}

/// The bounds: clear refusals, and room again once a stream is over.
#[tokio::test]
async fn streams_are_bounded_and_their_places_come_free() {
    let stage = Stage::with(|streams| {
        streams.limits =
            StreamLimits { node_max: 3, container_max: 2, attach_burst: 1, attach_period: Duration::from_secs(3600) };
    })
    .await;
    let one = stage.command("v4.channel.k8s.io", &["stdin", "stdout"]).await;
    let two = stage.command("v4.channel.k8s.io", &["stdin", "stdout"]).await;
    let path = exec_path(PLACE, "output=1", &["ls"]);
    let (head, body) = ask(&mut stage.connect().await, "POST", &path, &UPGRADE).await;
    assert_eq!((head.status, head.header("retry-after")), (429, Some("60")));
    assert_eq!(body, "too many streams are open to this container or pod (2)");
    drop((one, two));
    let freed = async {
        while stage.ask("POST", "/attach/shop/web/a?output=1", &UPGRADE).await.0 == 429 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), freed).await.expect("places come free");
    let again = stage.ask("POST", "/attach/shop/web/a?output=1", &UPGRADE).await;
    assert_eq!(again, (429, "this container is attached to too often".to_owned()), "CVE-2025-64329");
}

/// SEC-36: only where it is asked for.
#[tokio::test]
async fn sec_36_origins_can_be_named() {
    let path = exec_path(PLACE, ALL, &["cat"]);
    let foreign = [("origin", "https://evil.example")];
    let stage = Stage::new().await;
    assert!(Socket::open(stage.connect().await, &path, "v5.channel.k8s.io", &foreign).await.is_ok(), "as upstream");
    let stage = Stage::with(|streams| streams.origins = Some(vec!["https://good.example".to_owned()])).await;
    let refused =
        Socket::open(stage.connect().await, &path, "v5.channel.k8s.io", &foreign).await.err().expect("refused");
    assert_eq!(refused, (403, "streams may not be opened from this origin\n".to_owned()));
    for allowed in [&[("origin", "https://good.example")][..], &[]] {
        assert!(Socket::open(stage.connect().await, &path, "v5.channel.k8s.io", allowed).await.is_ok());
    }
}

/// SRV-39.
#[tokio::test]
async fn run_answers_with_the_output() {
    let stage = Stage::new().await;
    let (head, body) = ask(&mut stage.connect().await, "POST", "/run/shop/web/a?cmd=ls++-l", &[]).await;
    assert_eq!((head.status, body.as_str(), head.header("content-type")), (200, "out;err", Some("application/json")));
    assert_eq!(*stage.runtime.calls.lock().expect("whole"), [r#"execsync ["ls", "", "-l"] 0"#]);
    for (path, status, body) in [
        ("/run/shop/web/uid/a?cmd=ls", 200, "out;err"),
        ("/run/shop/web/a?cmd=true", 200, ""),
        ("/run/shop/web/a?cmd=false+x", 500, "command 'false x' exited with 1: err"),
        ("/run/shop/nobody/a?cmd=ls", 404, "pod does not exist"),
        ("/run/shop/web/b?cmd=ls", 500, "container not found (\"b\")"),
    ] {
        assert_eq!(stage.ask("POST", path, &[]).await, (status, body.to_owned()), "{path}");
    }
}

/// SRV-49, SEC-39, CRI-33.
#[tokio::test]
async fn checkpoints_are_named_told_and_for_root_alone() {
    use std::os::unix::fs::PermissionsExt;

    let stage = Stage::with(|streams| streams.checkpoints_max = Some(1)).await;
    for (path, status, body) in [
        ("/checkpoint/shop/nobody/a", 404, "pod does not exist"),
        ("/checkpoint/shop/web/b", 404, "container b does not exist"),
        ("/checkpoint/shop/web/a?timeout=5&timeout=x", 404, "cannot parse value of timeout parameter"),
        (
            "/checkpoint/shop/web/a?timeout=-1",
            500,
            "checkpointing of shop/web/a failed (CheckpointContainer requires the timeout value to be > 0)",
        ),
    ] {
        assert_eq!(stage.ask("POST", path, &[]).await, (status, body.to_owned()), "{path}");
    }
    stage.runtime.refuse(Some(Status::unimplemented("no CRIU")));
    let (status, body) = stage.ask("POST", "/checkpoint/shop/web/a", &[]).await;
    let expected = "checkpointing of shop/web/a failed (rpc error: code = Unimplemented desc = no CRIU)";
    assert_eq!((status, body.as_str()), (500, expected));
    stage.runtime.refuse(None);
    let (status, body) = stage.ask("POST", "/checkpoint/shop/web/a?timeout=x&timeout=100", &[]).await;
    let told: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let path = told["items"][0].as_str().expect("a path");
    let start = stage.node.folder.path().join("checkpoints/checkpoint-web_shop-a-19");
    assert!(status == 200 && path.starts_with(start.to_str().expect("text")) && path.ends_with(".tar"), "{body}");
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let path = std::path::Path::new(path);
    assert_eq!((mode(path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
    assert_eq!(stage.runtime.calls.lock().expect("whole").last().expect("asked"), "checkpoint 100");
    let (status, body) = stage.ask("POST", "/checkpoint/shop/web/a", &[]).await;
    assert!(status == 500 && body.contains("holds 1 checkpoints, and more are not allowed"), "{body}");
    let off = Stage::with(|streams| streams.checkpoints = false).await;
    assert_eq!(off.ask("POST", "/checkpoint/shop/web/a", &[]).await.0, 404);
}
