//! Faults of earlier kubelets and runtimes, where streams are: each test is named after its subject.

use super::*;

/// Somebody to whom nobody is to be led.
struct Foreigner {
    listener: std::net::TcpListener,
}

impl Foreigner {
    fn new() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("changed");
        Self { listener }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.listener.local_addr().expect("bound"))
    }

    fn was_dialled(&self) -> bool {
        self.listener.accept().is_ok()
    }
}

/// CVE-2018-1002102, CVE-2020-8559, SEC-32: whatever redirect a runtime answers, neither the client nor the agent goes
/// where it leads, on any kind of stream.
#[tokio::test]
async fn cve_2018_1002102_cve_2020_8559_sec_32_a_redirect_of_the_runtime_leads_nobody_anywhere() {
    let (stage, foreigner) = (Stage::new().await, Foreigner::new());
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let to = foreigner.url();
        let answer =
            format!("HTTP/1.1 {status}\r\nLocation: {to}\r\nRefresh: 0; url={to}\r\nContent-Length: 0\r\n\r\n");
        stage.runtime.play(Script::Answer(answer));
        let exec = exec_path(PLACE, ALL, &["ls"]);
        for path in [exec.as_str(), "/attach/shop/web/a?output=1", "/portForward/shop/web"] {
            let (head, body) = ask(&mut stage.connect().await, "POST", path, &UPGRADE).await;
            assert_eq!(head.status, 500, "{status} {path}");
            assert_eq!((head.header("location"), head.header("refresh")), (None, None), "{status} {path}");
            assert!(!body.contains(&to), "{body}");
        }
        for (path, protocol) in
            [(exec.as_str(), "v4.channel.k8s.io"), ("/portForward/shop/web", "SPDY/3.1+portforward.k8s.io")]
        {
            let refused = Socket::open(stage.connect().await, path, protocol, &[]).await.err().expect("refused");
            assert_eq!(refused.0, 500, "{status} {protocol}: {}", refused.1);
        }
        let mut socket = Socket::open(stage.connect().await, &exec, "v5.channel.k8s.io", &[]).await.expect("open");
        let all = socket.rest().await;
        assert!(String::from_utf8_lossy(&all[&3]).contains("redirect not allowed"), "{status}");
    }
    assert!(!foreigner.was_dialled());
}

/// CVE-2018-1002105: after an upgrade that was refused nothing that the client sends reaches the runtime. That holds for
/// what came with the request and for what comes after the answer.
#[tokio::test]
async fn cve_2018_1002105_a_refused_upgrade_leaves_no_way_to_the_runtime() {
    let stage = Stage::new().await;
    // It would keep the connection, and go on listening to it.
    stage.runtime.play(Script::Answer("HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno".to_owned()));
    let path = exec_path(PLACE, "output=1", &["ls"]);
    let mut wire = stage.connect().await;
    let (head, body) = ask(&mut wire, "POST", &path, &UPGRADE).await;
    assert_eq!((head.status, body.as_str()), (400, "no"));
    let asked = stage.runtime.heads();
    // Where the runtime's server would take it for one of its own; the agent does not, if it listens at all.
    let headers: String = UPGRADE.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let _ = wire.write_all(format!("POST /exec/token HTTP/1.1\r\nHost: node\r\n{headers}\r\n").as_bytes()).await;
    let _ = wire.shutdown().await;
    let mut said = String::new();
    let _ = wire.read_to_string(&mut said).await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 404 "), "{said}");
    let mut wire = stage.connect().await;
    let smuggled = format!("POST /exec/token HTTP/1.1\r\nHost: node\r\nX-Smuggled: yes\r\n{headers}\r\n");
    wire.write_all(format!("POST {path} HTTP/1.1\r\nHost: node\r\n{headers}\r\n{smuggled}").as_bytes())
        .await
        .expect("open");
    wire.shutdown().await.expect("open");
    let mut said = String::new();
    let _ = wire.read_to_string(&mut said).await;
    assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
    assert_eq!(stage.runtime.heads(), asked + 1, "the runtime heard of the one request alone");
    assert!(!stage.runtime.last_head().contains("x-smuggled"), "{}", stage.runtime.last_head());
}

/// CVE-2022-31030, CVE-2022-1708, SEC-49: of what a command writes no more is taken than a bound, and the agent goes on.
#[tokio::test]
async fn cve_2022_31030_cve_2022_1708_the_output_of_a_command_is_bounded() {
    let stage = Stage::new().await;
    let (status, body) = stage.ask("POST", "/run/shop/web/a?cmd=flood", &[]).await;
    assert!(status == 500 && body.len() < 4096, "{status}: {} bytes", body.len());
    assert!(body.contains("message length too large") || body.contains("OutOfRange"), "{body}");
    let (status, body) = stage.ask("POST", "/run/shop/web/a?cmd=ls", &[]).await;
    assert_eq!((status, body.as_str()), (200, "out;err"));
}

/// CVE-2022-23471, CVE-2025-64329: each attach costs some runtimes something for ever. So no more than a burst of them
/// reaches it, also when every one of them ends at once.
#[tokio::test]
async fn cve_2022_23471_cve_2025_64329_a_container_is_attached_to_so_often_and_no_more() {
    let stage = Stage::with(|streams| {
        streams.limits.attach_burst = 3;
        streams.limits.attach_period = Duration::from_secs(3600);
    })
    .await;
    stage.runtime.play(Script::Answer("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_owned()));
    let mut statuses = vec![];
    for _ in 0..20 {
        statuses.push(stage.ask("POST", "/attach/shop/web/a?output=1", &UPGRADE).await.0);
    }
    assert_eq!(statuses[..3], [400; 3]);
    assert_eq!(statuses[3..], [429; 17]);
    assert_eq!(stage.runtime.calls.lock().expect("whole").len(), 3, "the runtime was asked three times");
}
