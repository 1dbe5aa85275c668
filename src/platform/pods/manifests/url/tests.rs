//! Manifests from a URL of the loopback interface.

use std::sync::mpsc;

use super::*;
use crate::platform::network::http_exchange::test_server::{answer, certificate, serve, serve_tls};

async fn fetch(url: String) -> Result<Vec<u8>, String> {
    let headers = vec![("X-Token".to_owned(), "secret".to_owned())];
    let fetched = HttpManifestUrl::new(&url, headers).fetch().await;
    fetched.map(|fetched| fetched.body.to_vec()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_body_comes_with_the_headers_given() {
    let (seen, heads) = mpsc::channel();
    let address = serve(move |head, stream| {
        seen.send(head.to_lowercase()).expect("the test listens");
        stream.write_all(answer("200 OK", "", "kind: Pod").as_bytes()).expect("sent");
    });
    assert_eq!(fetch(format!("http://{address}/pods?x")).await, Ok(b"kind: Pod".to_vec()));
    let head = heads.recv().expect("asked");
    assert!(head.starts_with("get /pods?x http/1.1\r\n") && head.contains("\r\nx-token: secret\r\n"), "{head}");
}

#[tokio::test]
async fn anything_but_200_is_an_error() {
    for status in ["204 No Content", "304 Not Modified", "404 Not Found", "500 Internal Server Error"] {
        let address =
            serve(move |_, stream| stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).expect("sent"));
        let expected = format!("read static pod URL http://{address}/: {status}");
        assert_eq!(fetch(format!("http://{address}")).await, Err(expected));
    }
}

#[tokio::test]
async fn a_body_over_the_bound_is_an_error() {
    let address = serve(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
    });
    let text = fetch(format!("http://{address}/")).await.expect_err("too large");
    assert!(text.ends_with("the body is larger than 10485760 bytes"), "{text}");
}

#[tokio::test]
async fn headers_are_not_taken_to_another_host() {
    let (seen, heads) = mpsc::channel();
    let last = serve(move |head, stream| {
        seen.send(head.to_lowercase()).expect("the test listens");
        stream.write_all(answer("200 OK", "", "here").as_bytes()).expect("sent");
    });
    let first = serve(move |_, stream| {
        let location = format!("Location: http://localhost:{}/\r\n", last.port());
        stream.write_all(answer("302 Found", &location, "").as_bytes()).expect("sent");
    });
    assert_eq!(fetch(format!("http://{first}/")).await, Ok(b"here".to_vec()));
    assert!(!heads.recv().expect("asked").contains("secret"));
}

#[tokio::test]
async fn the_servers_certificate_is_verified() {
    let address = serve_tls(|_, stream| {
        let _ = stream.write_all(answer("200 OK", "", "here").as_bytes());
    });
    let trusting = tls::client_trusting(&certificate(), Offer::Http2).expect("the fixture");
    for (host, fine) in [("localhost", true), ("127.0.0.1", true), ("127.0.0.2", false)] {
        let url = format!("https://{host}:{}/", address.port());
        // 127.0.0.2 is answered by nobody, or by a certificate for another name.
        let manifest = HttpManifestUrl::new(&url, vec![]).with_tls(Arc::clone(&trusting));
        assert_eq!(manifest.fetch().await.is_ok(), fine, "{host}");
    }
    let text = fetch(format!("https://{address}/")).await.expect_err("no root of the system signed it");
    assert!(text.contains("tls: ") || text.contains("no root certificates"), "{text}");
}

#[tokio::test]
async fn a_url_that_is_none_is_told_without_its_password() {
    for url in ["not a url", "ftp://host/", "http://user:secret@:80:80/"] {
        let text = fetch(url.to_owned()).await.expect_err(url);
        assert!(text.starts_with("read static pod URL ") && !text.contains("secret"), "{text}");
    }
}

#[test]
fn neither_headers_nor_a_password_are_printed() {
    let headers = vec![("Authorization".to_owned(), "secret".to_owned())];
    let text = format!("{:?}", HttpManifestUrl::new("http://user:secret@host/", headers));
    assert!(text.contains("Authorization") && !text.contains("secret"), "{text}");
}
