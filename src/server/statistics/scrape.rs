//! Answers to who scrapes metrics: the form that is asked for, compressed where that is understood.

use std::io::Write;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::server::reply::{self, Reply};
use crate::telemetry::Exposition;

/// Answers with the text form alone, as it is made.
pub(in crate::server) fn text(body: impl Into<Body>) -> Reply {
    reply::with_type(StatusCode::OK, Exposition::TEXT, body.into())
}

/// Answers with what an endpoint tells.
pub(in crate::server) fn answer(asked: &HeaderMap, told: &Exposition) -> Reply {
    let accept = asked.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let (content_type, body) = told.negotiated(accept);
    let gzip = takes_gzip(asked).then(|| compressed(&body)).flatten();
    let is_compressed = gzip.is_some();
    let mut answer = reply::with_type(StatusCode::OK, content_type, Body::from(gzip.unwrap_or(body)));
    if is_compressed {
        answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

/// `None` when it cannot be, which a vector never refuses.
fn compressed(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

fn takes_gzip(asked: &HeaderMap) -> bool {
    let all = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(',')).any(|coding| {
        let mut words = coding.split(';').map(str::trim);
        let is_gzip = words.next().is_some_and(|name| name == "gzip" || name == "*");
        is_gzip && !words.filter_map(|word| word.strip_prefix("q=")).any(|weight| weight.parse() == Ok(0.0))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn gzip_is_for_those_who_take_it() {
        for (value, expected) in [
            ("gzip", true),
            ("deflate, gzip;q=0.8", true),
            ("*", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            let asked = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(takes_gzip(&asked), expected, "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn what_is_compressed_is_the_same_text() {
        let text = "kubelet_running_pods 1\n".repeat(100);
        let small = compressed(text.as_bytes()).expect("a vector takes all");
        let mut again = String::new();
        flate2::read::GzDecoder::new(small.as_slice()).read_to_string(&mut again).expect("gzip");
        assert!(again == text && small.len() < text.len() / 4);
    }
}
