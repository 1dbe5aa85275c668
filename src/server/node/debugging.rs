//! `/debug/flags/v`, which sets how much is logged (SRV-29), and what of `/debug/pprof/` a program that is not Go can answer
//! (SRV-30).

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::{any, get};

use crate::server::reply::{self, Reply};
use crate::server::sources::{Shared, only_get};
use crate::telemetry;

/// Bytes of a verbosity.
const VERBOSITY_BYTES_MAX: usize = 32;

pub(in crate::server) fn routes() -> Router<Shared> {
    let routes = Router::new()
        .route("/debug/flags/v", any(set_verbosity))
        .route("/debug/pprof/cmdline", only_get(get(command_line)));
    #[cfg(feature = "profiling")]
    let routes = routes.merge(super::profile::routes());
    routes
}

async fn set_verbosity(method: Method, body: Body) -> Reply {
    if method != Method::PUT {
        return reply::text(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
    }
    let wrong = |text: &str| {
        let why = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
        reply::text(StatusCode::BAD_REQUEST, format!("failed set klog.logging.verbosity {text}: {why}\n"))
    };
    let Ok(body) = to_bytes(body, VERBOSITY_BYTES_MAX).await else { return wrong("…") };
    let text = String::from_utf8_lossy(&body);
    let Ok(level) = text.parse::<u32>() else { return wrong(&text) };
    telemetry::set_verbosity(level);
    tracing::info!(level, "the log's verbosity was set");
    reply::text(StatusCode::OK, format!("successfully set klog.logging.verbosity to {level}\n"))
}

/// The program's arguments, a zero byte between two, as upstream tells them, but for secrets.
async fn command_line(State(shared): State<Shared>) -> Reply {
    reply::text(StatusCode::OK, shared.pages.command_line.join("\0"))
}
