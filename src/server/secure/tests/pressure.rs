//! Crowds and slow clients at the authenticated port: each is bounded, and whoever has rights is served meanwhile.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::*;

/// How long anything may take that must happen.
const PATIENCE: Duration = Duration::from_secs(120);
const QUESTION: &[u8] = b"GET /healthz/ping HTTP/1.1\r\nhost: x\r\n\r\n";
const ANSWER: &str = "HTTP/1.1 200 OK";

impl Served {
    /// Whether somebody with rights is answered on a connection of their own.
    async fn is_well(&self) -> bool {
        ask(self.connect(self.admin()).await, "GET", "/healthz").await.status.as_u16() == 200
    }
}

/// Asks on a connection that stays open.
async fn ask_again(stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin)) {
    stream.write_all(QUESTION).await.expect("still open");
    let (mut said, mut part) = (String::new(), [0; 4096]);
    while !(said.starts_with(ANSWER) && said.ends_with("ok")) {
        let length = stream.read(&mut part).await.expect("answered");
        assert_ne!(length, 0, "closed after {said:?}");
        said.push_str(&String::from_utf8_lossy(&part[..length]));
    }
}

/// Room for so many open files, as far as this process may have it.
fn room_for(files: u64) -> usize {
    let limits = || getrlimit(Resource::RLIMIT_NOFILE).expect("told");
    let (soft, hard) = limits();
    if soft < files && setrlimit(Resource::RLIMIT_NOFILE, files, hard.max(files)).is_err() {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    usize::try_from(limits().0.min(files)).expect("a number of files")
}

/// KiB of memory that this process has now.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// SEC-28: ten thousand connections that say nothing, or too little. No more than the limit are held, each one more has
/// an unknown one give way, and those with rights are served. The limit does it: no handshake ends while the test runs.
#[tokio::test]
async fn ten_thousand_connections_do_not_shut_out_those_with_rights() {
    const CROWD: usize = 10_000;
    // The listener's ends are this process's, too, and a listener without a limit holds them all.
    let crowd_size = CROWD.min(room_for(24_000).saturating_sub(3000) / 2);
    // A crowd that the listener has room for shows nothing.
    if crowd_size < 2 * CONNECTIONS_MAX {
        return crate::testing::skips::skip("too few open files are allowed for a crowd");
    }
    let served = Served::with(|listener| listener.handshake_max = 10 * PATIENCE).await;
    let mut known = served.connect(served.admin()).await;
    ask_again(&mut known).await;
    let before = resident_kib();
    let mut crowd = vec![];
    for number in 0..crowd_size {
        let mut stream = TcpStream::connect(served.address).await.expect("listening");
        if number % 3 == 0 {
            // The beginning of a handshake.
            let _ = stream.write_all(b"\x16\x03\x01\x02\x00\x01").await;
        }
        crowd.push(stream.into_std().expect("registered"));
        if number % 2000 == 0 {
            assert!(served.is_well().await, "after {number}");
        }
    }
    assert!(served.is_well().await);
    ask_again(&mut known).await;
    let is_open = |stream: &&std::net::TcpStream| matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
    let open = async {
        while crowd.iter().filter(is_open).count() >= CONNECTIONS_MAX {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, open).await.expect("no more are held than the limit");
    // Other tests run beside this one; ten thousand connections that were kept would take far more.
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 256 * 1024, "{grown} KiB for {crowd_size} connections");
    assert!(served.is_well().await);
}

/// A handshake that never ends, or comes byte by byte, is ended by its limit; others are served meanwhile.
#[tokio::test]
async fn a_handshake_that_never_ends_is_ended() {
    let served = Served::with(|listener| listener.handshake_max = Duration::from_secs(10)).await;
    let mut silent = TcpStream::connect(served.address).await.expect("listening");
    let mut slow = TcpStream::connect(served.address).await.expect("listening");
    let drip = async {
        slow.write_all(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03").await.expect("open");
        while slow.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let all = async {
        let mut answer = [0; 16];
        let (well, (), said) = tokio::join!(served.is_well(), drip, silent.read(&mut answer));
        assert!(well);
        assert_eq!(said.unwrap_or(0), 0, "nothing is said to who says nothing");
    };
    tokio::time::timeout(PATIENCE, all).await.expect("both are ended");
    assert!(served.is_well().await);
}

/// A head that comes byte by byte inside TLS, from somebody unknown.
#[tokio::test]
async fn a_head_that_never_ends_is_ended() {
    let served = Served::with(|listener| listener.limits.idle = Duration::from_secs(10)).await;
    let mut slow = served.connect(unverified_client(Offer::Http1)).await;
    let drip = async {
        slow.write_all(b"GET /pods HTTP/1.1\r\nx: ").await.expect("open");
        while slow.write_all(b"a").await.is_ok() && slow.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let all = async { assert!(tokio::join!(served.is_well(), drip).0) };
    tokio::time::timeout(PATIENCE, all).await.expect("it is ended");
    assert!(served.is_well().await);
}

/// SEC-28: who shows nothing is answered before any of the body is there, and with that it is over.
#[tokio::test]
async fn a_body_of_somebody_unknown_is_not_waited_for() {
    let served = Served::new().await;
    for path in ["/run/a/b/c?cmd=ls", "/exec/a/b/c", "/checkpoint/a/b/c", "/debug/flags/v", "/stats/summary"] {
        let mut stream = served.connect(unverified_client(Offer::Http1)).await;
        let head = format!("PUT {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("open");
        let mut said = vec![];
        let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await;
        let said = String::from_utf8_lossy(&said);
        assert!(ended.is_ok() && said.starts_with("HTTP/1.1 401 "), "{path}: {said}");
    }
}

#[tokio::test]
async fn a_flood_of_headers_ends_its_own_connection_only() {
    let served = Served::new().await;
    let mut flood = served.connect(unverified_client(Offer::Http1)).await;
    flood.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n").await.expect("sent");
    let header = format!("a: {}\r\n", "b".repeat(1000));
    let mut said = String::new();
    for _ in 0..2000 {
        if flood.write_all(header.as_bytes()).await.is_err() {
            break;
        }
    }
    let _ = flood.read_to_string(&mut said).await;
    assert!(said.starts_with("HTTP/1.1 431 ") || said.is_empty(), "{said}");
    let answer = ask(served.connect(served.admin()).await, "GET", "/healthz").await;
    assert_eq!(answer.status.as_u16(), 200);
}
