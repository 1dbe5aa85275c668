//! Exec, attach, port forward and run in real containers, through the local socket: what a user's tools do.

use std::time::Duration;

use podwright::testing::stream_clients::{Command, Socket, Spdy, Wire, ask, exec_path};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::harness::{NODE_NAME, Node, condition};
use crate::pods::{forever, pod, shell, web, with};

const ALL: &str = "input=1&output=1&error=1";
const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;

/// Runs a test's own requests.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), work).await.expect("in time") })
}

/// A connection to the agent.
async fn wire(node: &Node) -> UnixStream {
    UnixStream::connect(node.socket()).await.unwrap()
}

fn place(pod: &str) -> String {
    format!("default/{pod}-{NODE_NAME}/main")
}

/// A node with a pod that waits, which the agent shows as running.
fn node_with_shell() -> Option<Node> {
    let node = Node::running()?;
    node.apply(&pod("web", &[forever("main")]));
    node.wait_listed("web", "running", |shown| shown["status"]["phase"] == "Running");
    Some(node)
}

/// Opens a command over SPDY.
async fn spdy_command(node: &Node, protocol: &str, flags: &str, wanted: &[&str], script: &str) -> Command<UnixStream> {
    let path = exec_path(&place("web"), flags, &["/bin/sh", "-c", script]);
    let upgraded = Spdy::upgrade(wire(node).await, &path, &[protocol]).await;
    let (spdy, chosen) = upgraded.unwrap_or_else(|refused| panic!("{refused:?}"));
    assert_eq!(chosen, protocol);
    Command::open(spdy, wanted).await
}

/// SRV-40, SRV-41, SRV-44, CRI-31: commands end with their output and their exit codes, in each protocol.
#[test]
fn commands_run_over_spdy() {
    let Some(node) = node_with_shell() else { return };
    block_on(async {
        let two = ["stdout", "stderr"];
        let script = "echo out; echo err >&2; exit 3";
        for protocol in ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io"] {
            let command = spdy_command(&node, protocol, "output=1&error=1", &two, script).await;
            let (stdout, stderr, status) = command.end().await;
            assert_eq!((stdout.as_str(), stderr.as_str()), ("out\n", "err\n"), "{protocol}");
            if protocol.starts_with("v4") {
                let status: Value = serde_json::from_str(&status).unwrap();
                assert_eq!(status["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}));
                assert_eq!(status["reason"], "NonZeroExitCode");
            } else {
                assert!(status.contains("exit status 3") || status.contains("exit code 3"), "{protocol}: {status}");
            }
        }
        // The first of them knows no status: the runtime takes the stream for it back before anything is said.
        let mut command = spdy_command(&node, "channel.k8s.io", "output=1&error=1", &two, script).await;
        let (stdout, stderr, error) = (command.stdout, command.stderr, command.error);
        command.spdy.until(|spdy| [stdout, stderr, error].iter().all(|stream| spdy.is_over(*stream))).await;
        assert_eq!([stdout, stderr, error].map(|stream| command.spdy.text(stream)), ["out\n", "err\n", ""]);
        let command = spdy_command(&node, "v4.channel.k8s.io", "output=1", &["stdout"], "true").await;
        let status: Value = serde_json::from_str(&command.end().await.2).unwrap();
        assert_eq!(status["status"], "Success");
        let mut cat =
            spdy_command(&node, "v4.channel.k8s.io", ALL, &["stdin", "stdout", "stderr"], "cat; echo done").await;
        let stdin = cat.stdin;
        cat.spdy.send(stdin, b"hello\n", true).await;
        assert_eq!(cat.end().await.0, "hello\ndone\n", "the end of input is passed on");
    });
    let log = node.wait_for_words(&["exec requested", "local socket", "web-node1"]);
    assert!(!log.contains("exit 3"), "the command is not written down: {log}");
}

/// SRV-41: a protocol that the runtime does not know.
#[test]
fn unknown_protocols_are_refused_by_the_runtime() {
    let Some(node) = node_with_shell() else { return };
    block_on(async {
        let path = exec_path(&place("web"), "output=1", &["true"]);
        let (head, body) =
            Spdy::upgrade(wire(&node).await, &path, &["v99.channel.k8s.io"]).await.err().expect("refused");
        assert_eq!(head.status, 403, "{body}");
        assert!(body.contains("unable to negotiate protocol"), "{body}");
        assert!(head.header("x-accepted-stream-protocol-versions").is_some_and(|name| name == "v4.channel.k8s.io"));
        let refused = Socket::open(wire(&node).await, &path, "v99.channel.k8s.io", &[]).await.err().expect("refused");
        assert_eq!(refused.0, 403, "{refused:?}");
        let (head, body) =
            ask(&mut wire(&node).await, "POST", &path, &[("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]).await;
        assert_eq!((head.status, body.contains("X-Stream-Protocol-Version")), (400, true), "{body}");
    });
}

/// Opens a WebSocket that offers no sub-protocol. A runtime may name one nevertheless, with no letters in it, which the
/// library's client would take for a fault.
async fn without_protocol(node: &Node, path: &str) -> Socket<UnixStream> {
    let headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let mut wire = wire(node).await;
    let (head, body) = ask(&mut wire, "GET", path, &headers).await;
    assert_eq!(
        (head.status, head.header("sec-websocket-accept")),
        (101, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")),
        "{body}"
    );
    assert_eq!(head.header("sec-websocket-protocol").unwrap_or_default(), "");
    Socket::inside(WebSocketStream::from_raw_socket(wire, Role::Client, None).await, None)
}

/// SRV-42, SRV-43, SRV-44: every WebSocket protocol, half close with `v5.channel.k8s.io`, exit codes.
#[test]
fn commands_run_over_websocket() {
    let Some(node) = node_with_shell() else { return };
    block_on(async {
        let failing =
            exec_path(&place("web"), "output=1&error=1", &["/bin/sh", "-c", "echo out; echo err >&2; exit 3"]);
        for protocol in [
            "",
            "channel.k8s.io",
            "base64.channel.k8s.io",
            "v4.channel.k8s.io",
            "v4.base64.channel.k8s.io",
            "v5.channel.k8s.io",
        ] {
            let mut socket = match protocol {
                "" => without_protocol(&node, &failing).await,
                offered => Socket::open(wire(&node).await, &failing, offered, &[]).await.expect("open"),
            };
            assert_eq!(socket.protocol.as_deref().unwrap_or_default(), protocol);
            assert_eq!(socket.next().await, Some((1, vec![])), "{protocol}: the first word is empty");
            let all = socket.rest().await;
            let said = |channel: u8| String::from_utf8_lossy(&all[&channel]).into_owned();
            assert_eq!((said(1).as_str(), said(2).as_str()), ("out\n", "err\n"), "{protocol}");
            if protocol.starts_with('v') {
                let status: Value = serde_json::from_str(&said(3)).unwrap();
                assert_eq!(status["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}), "{protocol}");
            } else {
                assert!(said(3).contains('3'), "{protocol}: {}", said(3));
            }
        }
        let cat = exec_path(&place("web"), ALL, &["/bin/sh", "-c", "cat; echo done"]);
        let mut socket = Socket::open(wire(&node).await, &cat, "v5.channel.k8s.io", &[]).await.expect("open");
        socket.send(0, b"hello\n").await;
        socket.until(1, "hello\n").await;
        socket.send(255, &[0]).await;
        let all = socket.rest().await;
        assert_eq!((&all[&1][..], std::str::from_utf8(&all[&3])), (&b"done\n"[..], Ok(SUCCESS)));
        let missing = exec_path(&place("web"), "output=1", &["/no/such/program"]);
        let mut socket = Socket::open(wire(&node).await, &missing, "v5.channel.k8s.io", &[]).await.expect("open");
        let status = String::from_utf8_lossy(&socket.rest().await[&3]).into_owned();
        assert!(status.contains(r#""reason":"InternalError""#) && status.contains("/no/such/program"), "{status}");
    });
}

/// SRV-45: in both ways to a terminal.
#[test]
fn a_terminal_has_the_size_that_its_user_says() {
    let Some(node) = node_with_shell() else { return };
    block_on(async {
        let shell = exec_path(&place("web"), "input=1&output=1&tty=1", &["/bin/sh"]);
        let mut socket = Socket::open(wire(&node).await, &shell, "v5.channel.k8s.io", &[]).await.expect("open");
        socket.send(4, br#"{"Width":93,"Height":41}"#).await;
        // The size may arrive after the first line typed.
        socket.send(0, b"until stty size | grep '41 93'; do sleep 0.1; done; exit 7\n").await;
        let said = socket.until(3, "ExitCode").await;
        assert!(said.contains(r#""message":"7""#), "{said}");
        let flags = "input=1&output=1&tty=1";
        let path = exec_path(&place("web"), flags, &["/bin/sh"]);
        let (spdy, _) =
            Spdy::upgrade(wire(&node).await, &path, &["v4.channel.k8s.io"]).await.unwrap_or_else(|_| panic!("refused"));
        let mut command = Command::open(spdy, &["stdin", "stdout", "resize"]).await;
        let (stdin, resize) = (command.stdin, command.resize);
        command.spdy.send(resize, b"{\"Width\":94,\"Height\":42}\n", false).await;
        command.spdy.send(stdin, b"until stty size | grep '42 94'; do sleep 0.1; done; exit 7\n", false).await;
        let (stdout, _, status) = command.end().await;
        assert!(stdout.contains("42 94") && status.contains(r#""7""#), "{stdout} {status}");
    });
}

/// SRV-40: a user joins the container's own process, by both kinds of connection.
#[test]
fn a_user_joins_the_containers_own_process() {
    let Some(node) = Node::running() else { return };
    let echo = "while read line; do echo \"heard $line\"; done";
    node.apply(&pod("web", &[with(shell("main", echo), json!({ "stdin": true }))]));
    node.wait_listed("web", "running", |shown| shown["status"]["phase"] == "Running");
    block_on(async {
        let path = format!("/attach/{}?{ALL}", place("web"));
        let mut socket = Socket::open(wire(&node).await, &path, "v5.channel.k8s.io", &[]).await.expect("open");
        socket.send(0, b"one\n").await;
        socket.until(1, "heard one\n").await;
        drop(socket);
        let (spdy, _) =
            Spdy::upgrade(wire(&node).await, &path, &["v4.channel.k8s.io"]).await.unwrap_or_else(|_| panic!("refused"));
        let mut command = Command::open(spdy, &["stdin", "stdout", "stderr"]).await;
        let (stdin, stdout) = (command.stdin, command.stdout);
        command.spdy.send(stdin, b"two\n", false).await;
        command.spdy.until(|spdy| spdy.text(stdout).contains("heard two\n")).await;
    });
    assert!(node.running_now("web", "main").is_some(), "it goes on without its users");
}

/// SRV-46, CRI-31: a pod's port, by SPDY, by SPDY in a WebSocket, and by WebSocket alone.
#[test]
fn a_port_of_a_pod_is_reached() {
    let Some(node) = Node::running() else { return };
    let probe = json!({ "tcpSocket": { "port": 80 }, "periodSeconds": 1, "timeoutSeconds": 30 });
    node.apply(&pod("site", &[with(web("main"), json!({ "readinessProbe": probe }))]));
    node.wait_listed("site", "ready", |shown| condition(shown, "Ready") == "True");
    let path = format!("/portForward/default/site-{NODE_NAME}");
    let request = b"GET / HTTP/1.0\r\n\r\n";
    block_on(async {
        let (spdy, chosen) = Spdy::upgrade(wire(&node).await, &path, &["portforward.k8s.io"])
            .await
            .unwrap_or_else(|_| panic!("refused"));
        assert_eq!(chosen, "portforward.k8s.io");
        forward(spdy, request).await;

        let tunnel = Socket::open(wire(&node).await, &path, "SPDY/3.1+portforward.k8s.io", &[]).await.expect("open");
        assert_eq!(tunnel.protocol.as_deref(), Some("SPDY/3.1+portforward.k8s.io"));
        let (inside, mut outside) = tokio::io::duplex(64 * 1024);
        let carried = async {
            use futures_util::{SinkExt, StreamExt};
            let mut socket = tunnel.inner;
            let mut buffer = vec![0; 16 * 1024];
            loop {
                tokio::select! {
                    read = outside.read(&mut buffer) => match read.unwrap_or(0) {
                        0 => return,
                        length => socket.send(Message::binary(buffer[..length].to_vec())).await.unwrap(),
                    },
                    message = socket.next() => match message {
                        Some(Ok(Message::Binary(bytes))) => outside.write_all(&bytes).await.unwrap(),
                        Some(Ok(_)) => {}
                        _ => return,
                    },
                }
            }
        };
        tokio::select! {
            () = forward(Spdy::inside(inside), request) => {}
            () = carried => panic!("the tunnel ended"),
        }

        let mut native =
            Socket::open(wire(&node).await, &format!("{path}?port=80"), "v4.channel.k8s.io", &[]).await.expect("open");
        assert_eq!(native.next().await, Some((0, vec![80, 0])), "the port, twice");
        assert_eq!(native.next().await, Some((1, vec![80, 0])));
        native.send(0, request).await;
        native.until(0, "200 OK").await;
    });
}

/// One request to port 80, and one to a port where nobody listens.
async fn forward<W: Wire>(mut spdy: Spdy<W>, request: &[u8]) {
    let headers = |kind| [("port", "80"), ("streamtype", kind), ("requestid", "0")];
    let error = spdy.open(&headers("error")).await;
    spdy.send(error, b"", true).await;
    let data = spdy.open(&headers("data")).await;
    spdy.send(data, request, false).await;
    spdy.until(|spdy| spdy.text(data).contains("200 OK")).await;
    assert!(spdy.text(data).contains("200 OK"), "{} {}", spdy.text(data), spdy.text(error));
    let headers = |kind| [("port", "81"), ("streamtype", kind), ("requestid", "1")];
    let error = spdy.open(&headers("error")).await;
    spdy.open(&headers("data")).await;
    spdy.until(|spdy| spdy.text(error).contains("port 81")).await;
    assert!(spdy.text(error).contains("error forwarding port 81"), "{}", spdy.text(error));
}

/// CRI-31, CRI-33.
/// SRV-39, SRV-48, SRV-49: a command without streams; what the runtime cannot do; a container that is gone.
#[test]
fn run_checkpoint_and_refusals() {
    let Some(node) = node_with_shell() else { return };
    let post = |path: String| block_on(async { ask(&mut wire(&node).await, "POST", &path, &[]).await });
    let (head, body) = post(format!("/run/{}?cmd=echo+a++b", place("web")));
    assert_eq!((head.status, body.as_str(), head.header("content-type")), (200, "a  b\n", Some("application/json")));
    let (head, body) = post(format!("/run/{}?cmd=false", place("web")));
    assert_eq!((head.status, body.as_str()), (500, "command 'false' exited with 1: "));
    let (head, body) = post(format!("/checkpoint/{}", place("web")));
    // The runtime of version 1 has no such call, and the one of version 2 needs CRIU for it.
    let has_criu = std::process::Command::new("criu").arg("--version").output().is_ok();
    if node.runtime_major() >= 2 && has_criu {
        assert_eq!(head.status, 200, "{body}");
        assert!(body.contains("checkpoint-web-node1_default-main-"), "{body}");
    } else {
        podwright::testing::skips::needs("containerd 2 with criu");
        let why = if node.runtime_major() < 2 { "code = Unimplemented" } else { "CRIU" };
        let expected = "checkpointing of default/web-node1/main failed (rpc error: ";
        assert!(head.status == 500 && body.starts_with(expected) && body.contains(why), "{} {body}", head.status);
    }
    let (head, body) = post(format!("/exec/default/web-{NODE_NAME}/none?output=1"));
    assert_eq!((head.status, body.as_str()), (500, "container not found (\"none\")"));
    node.stop_containerd();
    let path = exec_path(&place("web"), "output=1", &["true"]);
    let (head, body) = post(path);
    assert!(head.status == 500 && body.contains("ListContainers"), "{body}");
    node.start_containerd();
}
