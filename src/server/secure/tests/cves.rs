//! Faults of earlier kubelets, at the authenticated port: each test is named after its subject.

use std::fmt::Write as _;

use super::*;
use crate::testing::kept_log::KeptLog;

/// CVE-2019-11250, CVE-2020-8565: whatever becomes of a request, no line of any level holds what proves who asks.
#[tokio::test]
async fn cve_2019_11250_cve_2020_8565_tokens_are_in_no_line_of_the_log() {
    let (log, _logged) = KeptLog::begin();
    let port = Port::new();
    let router = port.guarded();
    let in_protocols = "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.dG9rZW4tb2Ytbm9ib2R5";
    let proofs = [
        Proof::bearer("token-of-admin"),
        Proof::bearer("token-of-reader"),
        Proof::bearer("token-of-nobody"),
        Proof { headers: vec![("authorization", "Basic dG9rZW4tb2Ytbm9ib2R5".into())], ..Proof::default() },
        Proof {
            headers: vec![("upgrade", "websocket".into()), ("sec-websocket-protocol", in_protocols.into())],
            ..Proof::default()
        },
        Proof { headers: vec![("cookie", "session=token-of-nobody".into())], ..Proof::default() },
    ];
    for proof in &proofs {
        for path in ["/exec/a/b/c", "/pods", "/nope", "//pods"] {
            send(&router, "GET", path, proof).await;
        }
    }
    port.reviews.is_down.store(true, Ordering::SeqCst);
    send(&router, "GET", "/pods", &Proof::bearer("token-of-others")).await;
    send(&router, "GET", "/metrics/probes", &proofs[1]).await;
    let said = log.text();
    assert!(said.contains("Unable to authenticate the request") && said.contains("Forbidden"), "{said}");
    for secret in ["token-of-", "dG9rZW4t"] {
        assert!(!said.contains(secret), "{secret} in\n{said}");
    }
}

/// CVE-2020-8551: what clients ask for makes no series.
#[tokio::test]
async fn cve_2020_8551_paths_and_methods_of_clients_make_no_series() {
    let served = Served::new().await;
    let metrics = async || ask(served.connect(served.admin()).await, "GET", "/metrics").await.body;
    let series = |text: &str| text.lines().filter(|line| line.starts_with("kubelet_http_")).count();
    let flood = async |names: std::ops::Range<u32>| {
        for chunk in names.collect::<Vec<_>>().chunks(50) {
            let mut stream = served.connect(unverified_client(Offer::Http1)).await;
            let mut text = String::new();
            for name in chunk {
                let path = ["", "exec/", "metrics/", "debug/pprof/", "healthz/"][*name as usize % 5];
                let _ = write!(text, "STRANGE{name} /{path}strange{name}?strange HTTP/1.1\r\nhost: x\r\n\r\n");
            }
            text.push_str("GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            let (mut read, mut write) = tokio::io::split(&mut stream);
            let mut said = vec![];
            let (sent, _) = tokio::join!(write.write_all(text.as_bytes()), read.read_to_end(&mut said));
            sent.expect("taken");
            let answers = String::from_utf8_lossy(&said).matches("HTTP/1.1 40").count();
            assert_eq!(answers, chunk.len() + 1);
        }
    };
    flood(0..50).await;
    // A look is counted when it is over.
    metrics().await;
    let before = series(&metrics().await);
    flood(50..1050).await;
    let after = metrics().await;
    assert_eq!(series(&after), before, "{after}");
    assert!(before > 0 && !after.to_lowercase().contains("strange"), "{after}");
}

/// CVE-2019-9512, CVE-2019-9514, CVE-2023-44487, CVE-2023-39325, SEC-37: there is no HTTP/2 to be flooded; who speaks it all the
/// same is cut off, and others are served.
#[tokio::test]
async fn cve_2019_9512_cve_2019_9514_cve_2023_44487_cve_2023_39325_sec_37_http_2_is_not_spoken() {
    let served = Served::new().await;
    for config in [unverified_client(Offer::Http2), served.admin()] {
        let mut stream = served.connect(config).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), None);
        let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
        for number in 0..1000_u32 {
            let stream = (2 * number + 1).to_be_bytes();
            // The head of a request, its reset, a ping.
            flood.extend_from_slice(&[b"\0\0\x01\x01\x05".as_slice(), &stream, b"\x82"].concat());
            flood.extend_from_slice(&[b"\0\0\x04\x03\0".as_slice(), &stream, b"\0\0\0\x08"].concat());
            flood.extend_from_slice(b"\0\0\x08\x06\0\0\0\0\0abcdefgh");
        }
        let _ = stream.write_all(&flood).await; // May be cut short.
        let mut said = vec![];
        let _ = stream.read_to_end(&mut said).await;
        let said = String::from_utf8_lossy(&said);
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
        assert_eq!(said.matches("HTTP/1.1 ").count(), usize::from(!said.is_empty()), "one answer at most: {said}");
    }
    assert_eq!(ask(served.connect(served.admin()).await, "GET", "/healthz").await.status.as_u16(), 200);
}

/// CVE-2018-1002105: a connection whose upgrade was refused leads to nothing but the guard again. No right that somebody has
/// on one request counts for the next.
#[tokio::test]
async fn cve_2018_1002105_what_follows_a_refused_upgrade_is_a_request_of_its_own() {
    let served = Served::new().await;
    let upgrade = "connection: Upgrade\r\nupgrade: SPDY/3.1\r\nx-stream-protocol-version: v4.channel.k8s.io\r\n";
    let head = |path: &str, more: &str| format!("POST {path} HTTP/1.1\r\nhost: x\r\n{more}\r\n");
    let right = "authorization: Bearer token-of-admin\r\n";
    let requests = [
        head("/exec/shop/nobody/a?output=1&command=id", &format!("{right}{upgrade}")),
        head("/exec/shop/nobody/a?output=1&command=id", upgrade),
        head("/run/shop/nobody/a?cmd=id", "connection: close\r\n"),
    ];
    let mut stream = served.connect(unverified_client(Offer::Http1)).await;
    stream.write_all(requests.concat().as_bytes()).await.expect("sent");
    let mut said = vec![];
    let _ = stream.read_to_end(&mut said).await;
    let said = String::from_utf8_lossy(&said);
    let statuses: Vec<&str> = said.match_indices("HTTP/1.1 ").map(|(at, head)| &said[at + head.len()..][..3]).collect();
    assert_eq!(statuses, ["404", "401", "401"], "{said}");
}
