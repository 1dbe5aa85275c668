//! A Unix socket for root alone: made with mode 0600, answers only root and the agent's own user.

use std::future::ready;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{UnixListener, UnixStream};

use super::connections::{Accept, Opening, Peer};

/// Connections that wait for the agent.
const BACKLOG: i32 = 16;

/// See the module.
pub(super) struct PrivateListener {
    listener: UnixListener,
    own_user: u32,
}

impl PrivateListener {
    /// Listens at `path`; takes the place of a socket that nobody answers, and of nothing else.
    pub(super) async fn bind(path: &Path) -> io::Result<Self> {
        clear_stale(path).await?;
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        // Linux gives the file the socket's own mode, so it is never open to others, not even for an instant, and the
        // process' umask, which all threads share, stays as it is.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let mode = std::fs::symlink_metadata(path)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(io::Error::other(format!("the socket's mode came out as {mode:o}")));
        }
        Self::from_socket(socket)
    }

    fn from_socket(socket: OwnedFd) -> io::Result<Self> {
        let listener = UnixListener::from_std(StdUnixListener::from(socket))?;
        Ok(Self { listener, own_user: rustix::process::geteuid().as_raw() })
    }
}

impl Accept for PrivateListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<Option<Opening<UnixStream>>> {
        let (stream, _) = self.listener.accept().await?;
        let user = stream.peer_cred()?.uid();
        if may_ask(user, self.own_user) {
            return Ok(Some(Box::pin(ready(Some((stream, Peer::default()))))));
        }
        tracing::warn!(user, "a user who is not root was turned away at the local socket");
        Ok(None)
    }
}

fn may_ask(user: u32, own_user: u32) -> bool {
    user == 0 || user == own_user
}

/// Removes a socket that an earlier process left behind.
async fn clear_stale(path: &Path) -> io::Result<()> {
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::other("something that is not a socket is in its place"));
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another agent answers there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_socket_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.sock");
        let _listener = PrivateListener::bind(&path).await.expect("free");
        assert_eq!(std::fs::symlink_metadata(&path).expect("made").mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_socket_left_behind_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.sock");
        let first = PrivateListener::bind(&path).await.expect("free");
        let error = PrivateListener::bind(&path).await.err().expect("in use");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        PrivateListener::bind(&path).await.expect("left behind");
    }

    #[tokio::test]
    async fn what_is_not_a_socket_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.sock");
        std::fs::write(&path, "precious").expect("written");
        PrivateListener::bind(&path).await.err().expect("not a socket");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        PrivateListener::bind(&link).await.err().expect("not a socket");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "precious");
    }

    #[test]
    fn only_root_and_the_own_user_may_ask() {
        assert!(may_ask(0, 1000) && may_ask(1000, 1000) && may_ask(0, 0));
        assert!(!may_ask(1001, 1000) && !may_ask(1000, 0));
    }
}
