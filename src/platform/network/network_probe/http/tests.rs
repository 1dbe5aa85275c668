//! HTTP probes against sockets of the loopback interface.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration;

use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;
use crate::platform::network::http_exchange::test_server::{answer, serve, serve_raw, serve_tls, server_config};
use crate::platform::network::names::tests::Played;
use crate::platform::network::network_probe::{HostProber, NetworkProber};
use crate::platform::network::tls::Offer;

fn probe_of(address: SocketAddr) -> HttpProbe {
    HttpProbe {
        scheme: "http".to_owned(),
        host: address.ip().to_string(),
        port: address.port(),
        path: "/healthz".to_owned(),
        headers: vec![],
        timeout: Duration::from_secs(20),
    }
}

async fn run(probe: HttpProbe) -> ProbeOutcome {
    HostProber::new(Offer::Http2).http(probe).make().await
}

fn failure(outcome: ProbeOutcome) -> String {
    match outcome {
        ProbeOutcome::Failure(text) => text,
        other => panic!("not a failure: {other:?}"),
    }
}

/// Answers with `status` and hands out the request's header.
fn recording(status: &'static str) -> (SocketAddr, mpsc::Receiver<String>) {
    let (seen, heads) = mpsc::channel();
    let address = serve(move |head, stream| {
        seen.send(head.to_owned()).expect("the test listens");
        stream.write_all(answer(status, "", "hello").as_bytes()).expect("sent");
    });
    (address, heads)
}

/// Lines of a request's header, sorted: names in lower case.
fn header_lines(head: &str) -> Vec<String> {
    let lines = head.lines().skip(1).filter(|line| !line.is_empty());
    let lower = |line: &str| line.split_once(": ").map(|(name, value)| format!("{}: {value}", name.to_lowercase()));
    let mut lines: Vec<String> = lines.map(|line| lower(line).unwrap_or_else(|| line.to_owned())).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn status_codes_decide() {
    let cases = [
        ("200 OK", ProbeOutcome::Success),
        ("204 No Content", ProbeOutcome::Success),
        ("299 Odd", ProbeOutcome::Success),
        ("304 Not Modified", ProbeOutcome::Warning("Probe terminated redirects, Response body: ".to_owned())),
        ("302 Found", ProbeOutcome::Warning("Probe terminated redirects, Response body: body".to_owned())),
        ("404 Not Found", ProbeOutcome::Failure("HTTP probe failed with statuscode: 404".to_owned())),
        ("500 Oh", ProbeOutcome::Failure("HTTP probe failed with statuscode: 500".to_owned())),
    ];
    for (status, expected) in cases {
        let body = if status.starts_with("20") || status.starts_with("304") { "" } else { "body" };
        let address = serve(move |_, stream| stream.write_all(answer(status, "", body).as_bytes()).expect("sent"));
        assert_eq!(run(probe_of(address)).await, expected, "{status}");
    }
}

#[tokio::test]
async fn the_request_is_upstreams() {
    let (address, heads) = recording("200 OK");
    assert_eq!(run(HttpProbe { path: "/a b?c=d#e".to_owned(), ..probe_of(address) }).await, ProbeOutcome::Success);
    let head = heads.recv().expect("asked");
    assert_eq!(head.lines().next(), Some("GET /a%20b?c=d HTTP/1.1"));
    let host = format!("host: {address}");
    assert_eq!(header_lines(&head), ["accept: */*", "connection: close", &host, "user-agent: kube-probe/1.36"]);
}

/// Headers given, and the lines that the server sees.
type HeaderCase<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

#[tokio::test]
async fn headers_given_count() {
    let (address, heads) = recording("200 OK");
    let cases: [HeaderCase; 4] = [
        (
            &[("X-A", "1"), ("x-a", "2"), ("Host", "example.org")],
            &[
                "accept: */*",
                "connection: close",
                "host: example.org",
                "user-agent: kube-probe/1.36",
                "x-a: 1",
                "x-a: 2",
            ],
        ),
        (&[("accept", ""), ("User-Agent", "me"), ("Host", "h")], &["connection: close", "host: h", "user-agent: me"]),
        (
            &[("Accept", "text/plain"), ("User-Agent", ""), ("Host", "h")],
            &["accept: text/plain", "connection: close", "host: h"],
        ),
        (
            &[("Content-Length", "7"), ("Transfer-Encoding", "chunked"), ("Host", "h")],
            &["accept: */*", "connection: close", "host: h", "user-agent: kube-probe/1.36"],
        ),
    ];
    for (given, expected) in cases {
        let headers = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(run(HttpProbe { headers, ..probe_of(address) }).await, ProbeOutcome::Success);
        assert_eq!(header_lines(&heads.recv().expect("asked")), expected, "{given:?}");
    }
}

#[tokio::test]
async fn a_header_that_is_none_is_refused_without_showing_its_value() {
    let (address, _heads) = recording("200 OK");
    for (name, value) in [("a b", "secret"), ("X", "secret\r\nY: z")] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let text = failure(run(HttpProbe { headers, ..probe_of(address) }).await);
        assert!(text.contains("net/http: invalid header field") && !text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn nobody_there_is_a_failure_in_upstreams_words() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let expected = format!("Get \"http://{address}/healthz\": dial tcp {address}: connect: connection refused");
    assert_eq!(failure(run(probe_of(address)).await), expected);
    let played = Played::answering(|_| (0x8183, vec![]));
    let prober = HostProber::new(Offer::Http2).with_names(played.names(Duration::from_secs(600)));
    let host = "no-such-host.invalid".to_owned();
    let text = failure(prober.http(HttpProbe { host, ..probe_of(address) }).make().await);
    let expected = format!(": dial tcp: lookup no-such-host.invalid on 127.0.0.1:{}: no such host", played.port);
    assert!(text.ends_with(&expected), "{text}");
}

#[tokio::test]
async fn silence_is_a_timeout() {
    let timeout = Duration::from_millis(50);
    let (keep, kept) = mpsc::channel();
    let silent = serve_raw([127, 0, 0, 1].into(), move |stream| keep.send(stream).expect("the test listens"));
    let text = failure(run(HttpProbe { timeout, ..probe_of(silent) }).await);
    let url = format!("http://{silent}/healthz");
    let expected = format!("Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)");
    assert_eq!(text, expected);
    let scheme = "https".to_owned();
    let text = failure(run(HttpProbe { timeout, scheme, ..probe_of(silent) }).await);
    assert!(text.contains("context deadline exceeded"), "{text}");
    drop(kept);
}

#[tokio::test]
async fn a_body_that_does_not_end_is_an_error_and_one_that_breaks_too() {
    let (keep, kept) = mpsc::channel();
    let slow = serve_raw([127, 0, 0, 1].into(), move |mut stream| {
        // An answer before the question would be none.
        let asked = std::io::Read::read(&mut stream, &mut [0; 1024]).expect("a question");
        assert_ne!(asked, 0, "a question");
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc").expect("sent");
        keep.send(stream).expect("the test listens");
    });
    let outcome = run(HttpProbe { timeout: Duration::from_secs(2), ..probe_of(slow) }).await;
    let text = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
    assert_eq!(outcome, ProbeOutcome::Error(text.to_owned()));
    drop(kept);
    let broken = serve(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc").expect("sent");
    });
    assert_eq!(run(probe_of(broken)).await, ProbeOutcome::Error("unexpected EOF".to_owned()));
}

/// SEC-45.
#[tokio::test]
async fn a_body_is_read_up_to_its_bound_and_no_further() {
    let endless = serve(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert_eq!(run(probe_of(endless)).await, ProbeOutcome::Success);
    let redirect = serve(|_, stream| {
        stream.write_all(answer("304 Not", "", "").as_bytes()).expect("sent");
    });
    run(probe_of(redirect)).await;
    let large = serve(|_, stream| {
        let body = "x".repeat(20_000);
        let _ = stream.write_all(answer("302 Found", "Location: http://elsewhere.invalid/\r\n", &body).as_bytes());
    });
    let ProbeOutcome::Warning(text) = run(probe_of(large)).await else { panic!("no warning") };
    assert_eq!(text.len(), "Probe terminated redirects, Response body: ".len() + 10 * 1024);
}

#[tokio::test]
async fn an_answer_in_another_protocol_is_a_failure() {
    let ssh = serve_raw([127, 0, 0, 1].into(), |mut stream| {
        std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.9\r\n").expect("sent");
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
    });
    let text = failure(run(probe_of(ssh)).await);
    assert!(text.ends_with("malformed HTTP response \"SSH-2.0-OpenSSH_9.9\""), "{text}");
    let closing = serve(|_, _| {});
    assert!(failure(run(probe_of(closing)).await).ends_with(": EOF"));
    let scheme = "https".to_owned();
    let plain = serve_raw([127, 0, 0, 1].into(), |mut stream| {
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("sent");
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
    });
    let text = failure(run(HttpProbe { scheme, ..probe_of(plain) }).await);
    assert!(text.ends_with("http: server gave HTTP response to HTTPS client"), "{text}");
}

#[tokio::test]
async fn a_connection_that_is_reset_is_a_failure() {
    let address = serve_raw([127, 0, 0, 1].into(), |mut stream| {
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
        let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
        nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &at_once).expect("set");
    });
    let text = failure(run(probe_of(address)).await);
    assert!(text.starts_with(&format!("Get \"http://{address}/healthz\": read tcp 127.0.0.1:")), "{text}");
    assert!(text.ends_with(&format!("->{address}: read: connection reset by peer")), "{text}");
}

#[tokio::test]
async fn headers_without_end_are_cut_off() {
    let address = serve(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(format!("X-{}: x\r\n", "x".repeat(500)).as_bytes()).is_ok() {}
    });
    let text = failure(run(probe_of(address)).await);
    assert!(text.contains("net/http: "), "{text}");
}

#[tokio::test]
async fn redirects_on_the_same_host_are_followed() {
    let (seen, heads) = mpsc::channel();
    let last = serve(move |head, stream| {
        seen.send(head.to_owned()).expect("the test listens");
        stream.write_all(answer("200 OK", "", "").as_bytes()).expect("sent");
    });
    let first = serve(move |_, stream| {
        let location = format!("Location: http://{last}/end\r\n");
        stream.write_all(answer("307 Temporary Redirect", &location, "").as_bytes()).expect("sent");
    });
    let headers = vec![("X-A".to_owned(), "1".to_owned())];
    assert_eq!(run(HttpProbe { headers, ..probe_of(first) }).await, ProbeOutcome::Success);
    let head = heads.recv().expect("asked");
    let lines = header_lines(&head);
    assert_eq!(head.lines().next(), Some("GET /end HTTP/1.1"));
    for line in [format!("host: {last}"), "x-a: 1".to_owned(), format!("referer: http://{first}/healthz")] {
        assert!(lines.contains(&line), "{line} in {lines:?}");
    }
}

/// SEC-45.
#[tokio::test]
async fn sec_45_a_redirect_to_another_host_is_the_answer() {
    let address = serve(|_, stream| {
        let location = "Location: http://127.0.0.2/\r\n";
        stream.write_all(answer("302 Found", location, "moved").as_bytes()).expect("sent");
    });
    let expected = "Probe terminated redirects, Response body: moved".to_owned();
    assert_eq!(run(probe_of(address)).await, ProbeOutcome::Warning(expected));
}

#[tokio::test]
async fn redirects_end_after_ten() {
    let (count, counted) = mpsc::channel();
    let address = serve(move |_, stream| {
        count.send(()).expect("the test listens");
        stream.write_all(answer("302 Found", "Location: /again\r\n", "").as_bytes()).expect("sent");
    });
    assert_eq!(failure(run(probe_of(address)).await), "Get \"/again\": stopped after 10 redirects");
    assert_eq!(counted.try_iter().count(), 10);
}

#[tokio::test]
async fn certificates_are_not_verified() {
    let address = serve_tls(|_, stream| stream.write_all(answer("200 OK", "", "").as_bytes()).expect("sent"));
    for host in ["127.0.0.1", "localhost"] {
        let probe = HttpProbe { scheme: "https".to_owned(), host: host.to_owned(), ..probe_of(address) };
        assert_eq!(run(probe).await, ProbeOutcome::Success, "{host}");
    }
}

/// PRB-12.
#[tokio::test]
async fn http2_is_spoken_over_tls_unless_it_is_disabled() {
    for (offer, expected) in [(Offer::Http2, hyper::Version::HTTP_2), (Offer::Http1, hyper::Version::HTTP_11)] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("bound");
        let (seen, requests) = mpsc::channel();
        let server = async {
            let acceptor = tokio_rustls::TlsAcceptor::from(server_config(&["h2", "http/1.1"]));
            let stream = TokioIo::new(acceptor.accept(listener.accept().await.expect("came").0).await.expect("TLS"));
            let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
                let host = request.uri().authority().map(ToString::to_string);
                seen.send((request.version(), host)).expect("the test listens");
                async { Ok::<_, std::convert::Infallible>(hyper::Response::new(Full::new(bytes::Bytes::from("well")))) }
            });
            let _ = match offer {
                Offer::Http2 => {
                    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(stream, service)
                        .await
                }
                Offer::Http1 => hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await,
            };
            std::future::pending::<()>().await;
        };
        let headers =
            vec![("Host".to_owned(), "example.org".to_owned()), ("Connection".to_owned(), "close".to_owned())];
        let probe = HttpProbe { scheme: "https".to_owned(), headers, ..probe_of(address) };
        let prober = HostProber::new(offer);
        let outcome = tokio::select! { () = server => unreachable!(), outcome = prober.http(probe).make() => outcome };
        assert_eq!(outcome, ProbeOutcome::Success, "{offer:?}");
        let (version, host) = requests.recv().expect("asked");
        assert_eq!(version, expected);
        assert_eq!(host.as_deref(), (offer == Offer::Http2).then_some("example.org"));
    }
}

#[tokio::test]
async fn addresses_of_the_sixth_version_are_bracketed() {
    let address = serve_raw(Ipv6Addr::LOCALHOST.into(), |mut stream| {
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
        std::io::Write::write_all(&mut stream, answer("500 Oh", "", "").as_bytes()).expect("sent");
    });
    assert_eq!(failure(run(probe_of(address)).await), "HTTP probe failed with statuscode: 500");
    let scheme = "https".to_owned();
    let text = failure(run(HttpProbe { scheme, ..probe_of(address) }).await);
    assert!(text.starts_with(&format!("Get \"https://[::1]:{}/healthz\": ", address.port())), "{text}");
}

#[tokio::test]
async fn a_scheme_that_is_none_is_an_error() {
    let probe = HttpProbe { scheme: "ftp".to_owned(), ..probe_of(([127, 0, 0, 1], 1).into()) };
    assert_eq!(run(probe).await, ProbeOutcome::Error("unsupported protocol scheme \"ftp\"".to_owned()));
}

/// POD-23, PRB-28: any answer is one; only the transport fails.
#[tokio::test]
async fn a_hook_takes_any_answer() {
    let (address, heads) = recording("500 Oh");
    let prober = HostProber::new(Offer::Http2);
    assert_eq!(prober.hook(probe_of(address)).await, Ok(HookAnswer::AsAsked));
    let lines = header_lines(&heads.recv().expect("asked"));
    assert!(lines.contains(&"user-agent: kube-lifecycle/1.36".to_owned()), "{lines:?}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let closed = listener.local_addr().expect("bound");
    drop(listener);
    assert!(
        prober.hook(probe_of(closed)).await.is_err_and(|problem| problem.to_string().ends_with("connection refused"))
    );
}

/// POD-23: a server that speaks plain HTTP where TLS was asked for is asked again, without what was to be encrypted.
#[tokio::test]
async fn a_hook_falls_back_to_plain_http() {
    let (seen, heads) = mpsc::channel();
    let plain = serve_raw([127, 0, 0, 1].into(), move |mut stream| {
        let mut bytes = [0; 1024];
        let count = std::io::Read::read(&mut stream, &mut bytes).expect("a question");
        let head = String::from_utf8_lossy(&bytes[..count]).into_owned();
        let status = if head.starts_with("GET ") { "200 OK" } else { "400 Bad Request" };
        std::io::Write::write_all(&mut stream, answer(status, "", "").as_bytes()).expect("sent");
        seen.send(head).expect("the test listens");
    });
    let headers = vec![("Authorization".to_owned(), "secret".to_owned()), ("X-A".to_owned(), "1".to_owned())];
    let request = HttpProbe { scheme: "https".to_owned(), headers, ..probe_of(plain) };
    assert_eq!(HostProber::new(Offer::Http2).hook(request).await, Ok(HookAnswer::OverPlainHttp));
    let second = heads.iter().nth(1).expect("asked twice");
    let lines = header_lines(&second);
    assert!(lines.contains(&"x-a: 1".to_owned()) && !second.contains("secret"), "{second}");
}
