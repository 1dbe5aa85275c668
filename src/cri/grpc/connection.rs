//! The way to the runtime's socket: where it is, how often it is tried, what is said when it cannot be reached.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};

use crate::cri::open_calls::now;
use crate::cri::{CriError, CriResult};

/// How long a connection may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The wait after the first failed attempt, and the longest one. Upstream's values.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// The path in an endpoint: `unix:///run/x.sock`, `unix:/run/x.sock`, or a bare absolute path, as upstream takes it.
///
/// # Errors
/// Everything else: other schemes, relative paths.
pub(super) fn socket_path(endpoint: &str) -> CriResult<PathBuf> {
    let path = endpoint.strip_prefix("unix://").or_else(|| endpoint.strip_prefix("unix:")).unwrap_or(endpoint);
    if path.len() > 1 && path.starts_with('/') {
        return Ok(PathBuf::from(path));
    }
    let message = format!("runtime endpoint {endpoint:?}: only a unix socket with an absolute path is supported");
    Err(CriError::Other { code: "InvalidArgument", message })
}

/// The attempts to reach one socket.
pub(super) struct Attempts {
    path: PathBuf,
    memory: Mutex<Option<Failure>>,
}

/// The last attempt failed.
struct Failure {
    /// Why.
    text: String,
    /// No attempt before.
    until: Instant,
    /// The wait from which `until` was made.
    wait: Duration,
}

impl Attempts {
    pub fn new(path: PathBuf) -> Self {
        Self { path, memory: Mutex::new(None) }
    }

    /// Connects, or repeats the last failure while its back-off runs: callers never wait for a back-off.
    pub async fn connect(&self) -> io::Result<UnixStream> {
        if let Some(failure) = self.memory().as_ref().filter(|failure| now() < failure.until) {
            return Err(io::Error::other(failure.text.clone()));
        }
        match timeout(CONNECT_LIMIT, UnixStream::connect(&self.path)).await {
            Ok(Ok(stream)) => {
                *self.memory() = None;
                Ok(stream)
            }
            Ok(Err(error)) => Err(self.note(error.to_string())),
            Err(_) => Err(self.note(format!("not connected within {}s", CONNECT_LIMIT.as_secs()))),
        }
    }

    fn note(&self, text: String) -> io::Error {
        let mut memory = self.memory();
        let wait = next_wait(memory.as_ref().map(|failure| failure.wait));
        *memory = Some(Failure { text: text.clone(), until: now() + wait, wait });
        io::Error::other(text)
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Option<Failure>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// gRPC's back-off grows by 1.6 from attempt to attempt. No jitter: a node has one agent, so there is no herd.
fn next_wait(last: Option<Duration>) -> Duration {
    last.map_or(BACKOFF.0, |wait| wait.mul_f64(1.6).min(BACKOFF.1))
}

/// The endpoint as messages name it.
pub(super) fn name(path: &Path) -> Arc<str> {
    Arc::from(format!("unix://{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_names_an_absolute_path() {
        let table = [
            ("unix:///run/containerd/containerd.sock", Some("/run/containerd/containerd.sock")),
            ("unix:/run/x.sock", Some("/run/x.sock")),
            ("/run/x.sock", Some("/run/x.sock")),
            ("unix://run/x.sock", None),
            ("run/x.sock", None),
            ("tcp://127.0.0.1:1234", None),
            ("unix:///", None),
            ("npipe:////./pipe/x", None),
            ("", None),
        ];
        for (endpoint, path) in table {
            assert_eq!(socket_path(endpoint).ok().as_deref(), path.map(Path::new), "{endpoint}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_repeated_until_its_back_off_is_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let attempts = Attempts::new(folder.path().join("socket"));
        let first = attempts.connect().await.expect_err("nobody there").to_string();
        let _server = tokio::net::UnixListener::bind(&attempts.path).expect("a server");
        tokio::time::advance(BACKOFF.0 - Duration::from_millis(1)).await;
        assert_eq!(attempts.connect().await.expect_err("too early").to_string(), first);
        tokio::time::advance(Duration::from_millis(1)).await;
        attempts.connect().await.expect("tried again");
        assert!(attempts.memory().is_none(), "a success forgets the failures");
    }

    #[test]
    fn the_back_off_grows_from_100_ms_to_3_s() {
        let mut waits = vec![next_wait(None)];
        for _ in 0..9 {
            waits.push(next_wait(waits.last().copied()));
        }
        assert_eq!(waits[0], Duration::from_millis(100));
        assert_eq!(waits[1], Duration::from_millis(160));
        assert!(waits.is_sorted());
        assert_eq!(waits[9], Duration::from_secs(3));
    }
}
