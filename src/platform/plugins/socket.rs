//! Connections to plugins' sockets.
//!
//! The kernel would follow a link at a socket's path. Where that is refused the file itself is opened first, looked at, and
//! connected to by its descriptor; that also lifts the kernel's limit of 108 bytes for such paths.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustix::fs::{FileType, Mode, OFlags};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::platform::files::safe_path::{Directory, Mounts};

/// How long a connection may take, as upstream's dial.
pub(super) const DIAL_LIMIT: Duration = Duration::from_secs(10);

/// Whether a link at the socket's path may be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// In the registry: never.
    Refuse,
    /// At an endpoint, which the plugin chose and which other programs use too.
    Follow,
    /// Below this folder, which plugins share: never, at no level.
    Below(PathBuf),
}

/// Opens the socket without connecting to it.
fn open(path: &Path, links: &Links) -> io::Result<OwnedFd> {
    let plainly = |flags| rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty());
    let opened = match links {
        Links::Refuse => plainly(OFlags::NOFOLLOW)?,
        Links::Follow => plainly(OFlags::empty())?,
        Links::Below(folder) => {
            let below = path.strip_prefix(folder).map_err(|_| io::ErrorKind::InvalidInput)?;
            let segments: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
            Directory::open(folder)?.handle(&segments.ok_or(io::ErrorKind::InvalidInput)?, Mounts::Cross)?
        }
    };
    match FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode) {
        FileType::Socket => Ok(opened),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a socket")),
    }
}

/// Connects to a socket.
///
/// # Errors
/// There is no socket, or nobody listens.
pub(super) async fn connect(path: &Path, links: &Links) -> io::Result<UnixStream> {
    let opened = open(path, links)?;
    UnixStream::connect(format!("/proc/self/fd/{}", opened.as_raw_fd())).await
}

/// The way of calls to a socket: connected with the first call, and anew when the connection broke.
pub(super) fn channel(path: &Path, links: &Links) -> Channel {
    let (path, links) = (path.to_path_buf(), links.clone());
    let connector = service_fn(move |_: Uri| {
        let (path, links) = (path.clone(), links.clone());
        async move { connect(&path, &links).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost").connect_timeout(DIAL_LIMIT);
    endpoint.connect_with_connector_lazy(connector)
}
