//! A Unix socket for a gRPC service of the agent: made anew beside its place and moved there. So a client finds the old
//! socket or the new one and never half of one (SRV-51, SRV-53).
//!
//! Owned by a listener of `server`. The socket's file goes with it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use rustix::fs::Mode;
use tokio::net::{UnixListener, UnixStream};

use super::grpc_authority::AnyAuthority;

/// Connections that wait for the agent.
const BACKLOG: i32 = 64;
/// Of the folder, where it has to be made (SRV-53).
const FOLDER_MODE: u32 = 0o750;
/// Of the socket. To connect takes the right to write, so only its owner and root may.
const SOCKET_MODE: Mode = Mode::from_raw_mode(0o750);

/// Where a socket is to be. Clones are the same place.
#[derive(Clone, Debug)]
pub struct SocketPlace {
    path: PathBuf,
    /// Taken while the file is made or removed: the socket of a listener that ends must not take its successor's file.
    turn: Arc<Mutex<()>>,
}

impl SocketPlace {
    /// At this path.
    pub fn new(path: PathBuf) -> Self {
        Self { path, turn: Arc::default() }
    }

    /// See the type.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Listens here, in the place of whatever file is there, as upstream does.
    ///
    /// # Errors
    /// The kernel's error: a path that is too long for a socket, a folder in its place, no rights.
    pub fn bind(&self) -> io::Result<GrpcSocket> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (folder, name) = match (self.path.parent(), self.path.file_name().and_then(|name| name.to_str())) {
            (Some(folder), Some(name)) if !folder.as_os_str().is_empty() => (folder, name),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the path of a file in a folder")),
        };
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        remove(&self.path)?;
        // No longer than the name itself, because a socket's path has little room.
        let beside = folder.join(format!(".{}", name.get(1..).unwrap_or_default()));
        remove(&beside)?;
        let listener = open(&beside)?;
        let moved = fs::rename(&beside, &self.path).and_then(|()| fs::symlink_metadata(&self.path));
        let metadata = moved.inspect_err(|_| drop(fs::remove_file(&beside)))?;
        Ok(GrpcSocket { listener, place: self.clone(), file: (metadata.dev(), metadata.ino()) })
    }
}

/// See the module.
#[derive(Debug)]
pub struct GrpcSocket {
    listener: UnixListener,
    place: SocketPlace,
    /// Device and inode of the socket's file.
    file: (u64, u64),
}

impl GrpcSocket {
    /// Waits for the next client, whose requests may name any authority.
    ///
    /// # Errors
    /// The kernel's error, such as too many open files.
    pub async fn accept(&self) -> io::Result<AnyAuthority<UnixStream>> {
        let (stream, _) = self.listener.accept().await?;
        Ok(AnyAuthority::new(stream))
    }
}

impl Drop for GrpcSocket {
    fn drop(&mut self) {
        let _turn = self.place.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let path = &self.place.path;
        let is_own = fs::symlink_metadata(path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.file);
        if is_own && let Err(error) = fs::remove_file(path) {
            tracing::warn!(path = %path.display(), %error, "a socket stays behind");
        }
    }
}

fn open(path: &Path) -> io::Result<UnixListener> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    // Linux gives the file the socket's own mode, less the process' umask.
    rustix::fs::fchmod(&socket, SOCKET_MODE)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    UnixListener::from_std(StdUnixListener::from(socket))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("is there").permissions().mode() & 0o777
    }

    fn place() -> (tempfile::TempDir, SocketPlace) {
        let folder = tempfile::tempdir().expect("a folder");
        let place = SocketPlace::new(folder.path().join("pod-resources/kubelet.sock"));
        (folder, place)
    }

    /// SRV-53.
    #[tokio::test]
    async fn the_socket_and_its_folder_have_their_modes() {
        let (_folder, place) = place();
        let socket = place.bind().expect("room");
        assert_eq!(mode(place.path()), 0o750);
        assert_eq!(mode(place.path().parent().expect("a folder")) & 0o027, 0, "nobody else may look in");
        drop(socket);
        assert!(!place.path().exists(), "it goes with its listener");
        assert_eq!(fs::read_dir(place.path().parent().expect("a folder")).expect("a folder").count(), 0);
    }

    /// SRV-51.
    #[tokio::test]
    async fn a_socket_takes_the_place_of_whatever_was_left_there() {
        let (_folder, place) = place();
        fs::create_dir_all(place.path().parent().expect("a folder")).expect("made");
        let left: [fn(&Path); 2] = [
            |path| fs::write(path, "no socket").expect("written"),
            |path| drop(StdUnixListener::bind(path).expect("room")),
        ];
        for leave in left {
            leave(place.path());
            let _socket = place.bind().expect("room");
            assert!(fs::symlink_metadata(place.path()).expect("is there").file_type().is_socket());
            std::os::unix::net::UnixStream::connect(place.path()).expect("somebody listens");
        }
    }

    #[tokio::test]
    async fn the_end_of_an_older_socket_leaves_the_newer_one() {
        let (_folder, place) = place();
        let old = place.bind().expect("room");
        let _new = place.bind().expect("room");
        drop(old);
        std::os::unix::net::UnixStream::connect(place.path()).expect("somebody listens");
    }

    #[tokio::test]
    async fn a_place_that_cannot_be_is_an_error() {
        let (folder, place) = place();
        fs::create_dir_all(place.path()).expect("made");
        assert!(place.bind().is_err(), "a folder is in its place");
        let long = folder.path().join("x".repeat(120));
        assert!(SocketPlace::new(long).bind().is_err());
        assert!(SocketPlace::new("kubelet.sock".into()).bind().is_err());
    }
}
