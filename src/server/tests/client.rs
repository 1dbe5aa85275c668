//! Helpers that tests of the server share: a client of the listeners (one request, one answer), a clock, a journal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use crate::logic::model::time::{Moment, Stamp};
use crate::platform::host::clock::Clock;
use crate::platform::host::played_program::write_program;

/// A clock that a test winds.
#[derive(Default)]
pub(crate) struct WoundClock {
    pub(in crate::server) seconds: AtomicU64,
    stamps: AtomicU64,
}

impl WoundClock {
    /// Sets the uptime, and the wall clock with it.
    pub(in crate::server) fn set(&self, uptime: Duration) {
        self.seconds.store(uptime.as_secs(), Ordering::SeqCst);
    }

    /// Lets so much time pass.
    pub(in crate::server) fn advance(&self, by: Duration) {
        self.seconds.fetch_add(by.as_secs(), Ordering::SeqCst);
    }
}

impl Clock for WoundClock {
    fn now(&self) -> Moment {
        Moment::EPOCH.plus(self.uptime())
    }
    fn uptime(&self) -> Duration {
        Duration::from_secs(self.seconds.load(Ordering::SeqCst))
    }
    fn stamp(&self) -> Stamp {
        Stamp(self.stamps.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

/// The answer to a client.
pub(in crate::server) struct Answer {
    pub(in crate::server) status: StatusCode,
    pub(in crate::server) headers: HeaderMap,
    pub(in crate::server) body: String,
    pub(in crate::server) bytes: Bytes,
}

impl Answer {
    /// The body, as JSON.
    pub(in crate::server) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// One request on a connection of its own.
pub(in crate::server) async fn ask<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    method: &str,
    path: &str,
) -> Answer {
    ask_for(stream, method, path, &[]).await
}

/// `GET` with headers.
pub(in crate::server) async fn ask_with(stream: UnixStream, path: &str, headers: &[(&str, &str)]) -> Answer {
    ask_for(stream, "GET", path, headers).await
}

async fn ask_for<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.expect("HTTP");
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", "x");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let request = request.body(Empty::new()).expect("valid");
    let response = sender.send_request(request).await.expect("an answer");
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.into_body().collect().await.expect("a whole body").to_bytes();
    Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned(), bytes: body }
}

/// A journal that knows one unit, and says what it is asked.
pub(in crate::server) fn played_journal(folder: &std::path::Path) -> std::path::PathBuf {
    let path = folder.join("journal");
    let script = "#!/bin/sh\nif [ \"$1\" = --field ]; then echo known.service; else echo \"asked: $*\"; fi\n";
    write_program(&path, script);
    path
}
