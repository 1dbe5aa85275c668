//! Tells the service manager that the agent has started: once the local socket answers, so that `podwright ps` right after
//! `systemctl start podwright` finds its agent. An agent whose socket cannot be made runs all the same.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use tokio::net::UnixStream;

use crate::platform::host::systemd;

/// How long the socket may take. The tree starts its server last, and the unit allows two minutes.
const SOCKET_MAX: Duration = Duration::from_secs(20);
/// From one look at the socket to the next.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// Tells it once; never ends.
pub(super) async fn announce(socket: &Path) -> Infallible {
    if !answers(socket).await {
        tracing::warn!(socket = %socket.display(), "the local socket does not answer; subcommands find no agent");
    }
    if let Err(error) = systemd::notify_ready() {
        tracing::warn!(%error, "the service manager cannot be told that the agent has started");
    }
    std::future::pending().await
}

/// Whether somebody listens there in time. A file alone says little: an agent before this one may have left it.
async fn answers(socket: &Path) -> bool {
    let connected = async {
        while UnixStream::connect(socket).await.is_err() {
            tokio::time::sleep(LOOK_PERIOD).await;
        }
    };
    tokio::time::timeout(SOCKET_MAX, connected).await.is_ok()
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    /// The socket of an agent that was killed is a file that nobody listens at.
    fn left_behind(socket: &Path) {
        drop(std::os::unix::net::UnixListener::bind(socket).expect("bound"));
        assert!(socket.exists());
    }

    #[tokio::test]
    async fn a_socket_that_comes_late_is_waited_for() {
        let folder = tempfile::tempdir().expect("a directory");
        let socket = folder.path().join("agent.sock");
        left_behind(&socket);
        let bound = async {
            tokio::time::sleep(2 * LOOK_PERIOD).await;
            std::fs::remove_file(&socket).expect("removed");
            UnixListener::bind(&socket).expect("bound")
        };
        let (is_there, _listener) = tokio::join!(answers(&socket), bound);
        assert!(is_there);
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_never_comes_holds_nobody_up() {
        let folder = tempfile::tempdir().expect("a directory");
        let socket = folder.path().join("agent.sock");
        left_behind(&socket);
        assert!(!answers(&socket).await);
    }
}
