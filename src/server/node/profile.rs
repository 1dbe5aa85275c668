//! `/debug/pprof/profile`: a profile of the processor for as long as is asked for, with Go's texts (SRV-30).

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::routing::get;

use crate::platform::host::blocking;
use crate::server::reply::{self, Reply};
use crate::server::sources::{Shared, only_get};
use crate::telemetry::Sampler;

/// The length of a sample when nothing else, or nonsense, is asked for.
const SECONDS_DEFAULT: u64 = 30;
/// From here on the answer would come later than an answer may.
const SECONDS_END: u64 = 4 * 3600;

pub(in crate::server) fn routes() -> Router<Shared> {
    Router::new().route("/debug/pprof/profile", only_get(get(profile)))
}

async fn profile(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Reply {
    let seconds = seconds(reply::query_value(query.as_deref(), "seconds").as_deref());
    if seconds >= SECONDS_END {
        return failed(StatusCode::BAD_REQUEST, "profile duration exceeds server's WriteTimeout\n".to_owned());
    }
    let clock = shared.trace.clock();
    let could_not = |why| failed(StatusCode::INTERNAL_SERVER_ERROR, format!("Could not enable CPU profiling: {why}\n"));
    // A client that leaves drops the sampler with this.
    let sampler = match Sampler::begin(clock.now()) {
        Ok(sampler) => sampler,
        Err(why) => return could_not(why),
    };
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let now = clock.now();
    match blocking::run(move || sampler.end(now)).await {
        Ok(profile) => {
            let mut answer = reply::with_type(StatusCode::OK, "application/octet-stream", Body::from(profile));
            let name = HeaderValue::from_static("attachment; filename=\"profile\"");
            answer.headers_mut().insert(header::CONTENT_DISPOSITION, name);
            answer
        }
        Err(why) => could_not(why),
    }
}

/// As Go reads it: what is no number, or none above zero, does not count.
fn seconds(asked: Option<&str>) -> u64 {
    let asked = asked.and_then(|text| text.parse::<i64>().ok()).and_then(|seconds| u64::try_from(seconds).ok());
    asked.filter(|seconds| *seconds > 0).unwrap_or(SECONDS_DEFAULT)
}

fn failed(status: StatusCode, text: String) -> Reply {
    let mut answer = reply::text(status, text);
    answer.headers_mut().insert(HeaderName::from_static("x-go-pprof"), HeaderValue::from_static("1"));
    answer
}

#[cfg(test)]
mod tests {
    use super::seconds;
    use crate::server::tests::Node;

    #[test]
    fn nonsense_is_half_a_minute() {
        for (asked, expected) in [
            (None, 30),
            (Some(""), 30),
            (Some("x"), 30),
            (Some("0"), 30),
            (Some("-3"), 30),
            (Some("1.5"), 30),
            (Some("+2"), 2),
            (Some("14400"), 14400),
        ] {
            assert_eq!(seconds(asked), expected, "{asked:?}");
        }
    }

    #[tokio::test]
    async fn a_profile_is_answered_as_go_answers_it() {
        let node = Node::with_socket();
        node.start().await;
        let late = node.ask_socket("/debug/pprof/profile?seconds=14400").await;
        assert_eq!(
            (late.status.as_u16(), late.body.as_str()),
            (400, "profile duration exceeds server's WriteTimeout\n")
        );
        assert_eq!(late.headers.get("x-go-pprof").map(|value| value.as_bytes()), Some(&b"1"[..]));
        let _one = crate::telemetry::SAMPLED_BY_ONE.lock().await;
        let answer = node.ask_socket("/debug/pprof/profile?seconds=1").await;
        assert_eq!(answer.status.as_u16(), 200);
        assert_eq!(answer.headers["content-type"], "application/octet-stream");
        assert_eq!(answer.headers["content-disposition"], "attachment; filename=\"profile\"");
        assert_eq!(&answer.bytes[..2], b"\x1f\x8b", "gzip");
    }
}
