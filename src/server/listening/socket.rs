//! A Unix socket for root alone: made with mode 0600, it answers only root and the agent's own user. It answers only
//! processes of the agent's own namespaces, which those of containers are not.

use std::future::ready;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use rustix::fs::{Mode, OFlags};
use tokio::net::{UnixListener, UnixStream};

use super::accepting::Accept;
use super::connections::{Opening, Peer};
use crate::actors::kit::trace::lock;
use crate::platform::host::clock::Clock;
use crate::platform::network::socket_peer::{PeerCheck, Stranger};

/// Connections that wait for the agent.
const BACKLOG: i32 = 16;
/// From one line about refused processes to the next. A process that sees the socket may connect as often as it likes.
const REFUSALS_PERIOD: Duration = Duration::from_secs(10);
/// For the look at an old socket.
const OLD_MAX: Duration = Duration::from_secs(2);
/// The answer to a refused process.
const REFUSAL: &[u8] =
    b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 71\r\n\r\n\
    only root may ask, from the agent's own pid, user and mount namespaces\n";

/// See the module.
pub(in crate::server) struct PrivateListener {
    listener: UnixListener,
    peers: PeerCheck,
    refusals: Refusals,
}

impl PrivateListener {
    /// Listens at `path`, in a directory that is made where there is none; takes the place of a socket that nobody answers,
    /// and of nothing else.
    pub(in crate::server) async fn bind(path: &Path, clock: Arc<dyn Clock>) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        clear_stale(path).await?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        // Linux gives the file the socket's own mode, so it is never open to others, not even for an instant. The process'
        // umask, which all threads share, stays as it is.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
        listen(&socket, Backlog::new(BACKLOG)?)?;
        let mode = std::fs::symlink_metadata(path)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(io::Error::other(format!("the socket's mode came out as {mode:o}")));
        }
        let listener = UnixListener::from_std(StdUnixListener::from(socket))?;
        let refusals = Refusals { clock, told: Mutex::default() };
        Ok(Self { listener, peers: PeerCheck::of_this_process()?, refusals })
    }
}

impl Accept for PrivateListener {
    type Connection = Opening<UnixStream>;

    async fn accept(&self) -> io::Result<Option<Opening<UnixStream>>> {
        let (stream, _) = self.listener.accept().await?;
        let peer = stream.peer_cred()?;
        match self.peers.judge(stream.as_fd(), peer.uid(), peer.pid().unwrap_or_default()) {
            Ok(()) => Ok(Some(Box::pin(ready(Some((stream, Peer::default())))))),
            Err(stranger) => {
                // There is room for it in a new connection; whoever does not read it gets the end of the connection.
                let _ = stream.try_write(REFUSAL);
                self.refusals.tell(&stranger);
                Ok(None)
            }
        }
    }
}

/// Processes that were turned away, told of in a bounded number of lines.
struct Refusals {
    clock: Arc<dyn Clock>,
    /// When the last line was written, since the machine's start, and how many were refused after it.
    told: Mutex<(Option<Duration>, u64)>,
}

impl Refusals {
    fn tell(&self, stranger: &Stranger) {
        let now = self.clock.uptime();
        let (last, more) = &mut *lock(&self.told);
        if last.is_some_and(|last| now < last + REFUSALS_PERIOD) {
            *more += 1;
            return;
        }
        tracing::warn!(why = %stranger, unlogged = *more, "a process was turned away at the local socket");
        (*last, *more) = (Some(now), 0);
    }
}

/// Sees to it that a directory is there, and for its owner alone: the place of the socket where nobody names another.
pub(in crate::server) fn make_private(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&opened)?;
    if found.st_uid != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::other(format!("{} belongs to another user", folder.display())));
    }
    if found.st_mode & 0o077 != 0 {
        rustix::fs::fchmod(&opened, Mode::RWXU)?;
    }
    Ok(())
}

/// Removes the socket that versions before this one had in the agent's directory, where containers reached it. One that
/// is answered, and what is no socket, stays.
pub(in crate::server) async fn remove_old(path: &Path) {
    match tokio::time::timeout(OLD_MAX, clear_stale(path)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(path = %path.display(), %error, "the old local socket stays"),
        Err(_) => tracing::warn!(path = %path.display(), "the old local socket stays: it was not looked at in time"),
    }
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
mod tests;
