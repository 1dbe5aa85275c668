//! The other end of a Unix socket: a user, and a process that must live in the agent's own namespaces.
//!
//! Used by the local socket. A container that can reach the socket's file, by a `hostPath` say, is root like the agent
//! itself, so the user alone says nothing. Processes are known by numbers that the kernel gives out again: each answer
//! here is about the process that connected, or there is none.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, getsockopt, recv, send, socket as new_socket, sockopt,
};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::process::{Pid, PidfdFlags};

/// Open files of a process that are looked through where the kernel cannot name the process by itself.
const FILES_MAX: usize = 4096;

/// Why somebody is not answered.
#[derive(Debug, thiserror::Error)]
pub enum Stranger {
    /// Another user.
    #[error("user {0} is neither root nor the agent's own user")]
    User(u32),
    /// A process of a container, most likely.
    #[error("process {pid} is in another {namespace} namespace than the agent")]
    Elsewhere {
        /// Its number; 0 for one that has none here.
        pid: i32,
        /// Which namespace.
        namespace: &'static str,
    },
    /// The process has ended, and its number may be another one's.
    #[error("process {0} has ended")]
    Gone(i32),
    /// The process cannot be looked at.
    #[error("cannot look at process {pid}: {error}")]
    Unseen {
        /// Its number.
        pid: i32,
        /// The kernel's error.
        error: io::Error,
    },
}

/// A namespace: the device and the inode of its file.
type Identity = (u64, u64);

/// The namespaces that a peer has to share with the agent, by the names of their files.
const NAMESPACES: [&str; 3] = ["pid", "user", "mnt"];

/// The check of the clients that the agent answers.
pub struct PeerCheck {
    own_user: u32,
    own: [Identity; 3],
    /// Kernels before 6.5 cannot; then the peer is found by its number, and by the socket that it holds.
    by_pidfd: bool,
}

impl PeerCheck {
    /// For peers of the agent's own user and namespaces.
    ///
    /// # Errors
    /// When the agent's own namespaces cannot be read.
    pub fn of_this_process() -> io::Result<Self> {
        let own = namespaces(open_process("self")?.as_fd())?;
        Ok(Self { own_user: nix::unistd::geteuid().as_raw(), own, by_pidfd: true })
    }

    /// Judges the peer of an accepted connection, of which the kernel says this user and process number.
    ///
    /// # Errors
    /// Why the peer is not to be answered.
    pub fn judge(&self, socket: BorrowedFd<'_>, user: u32, pid: i32) -> Result<(), Stranger> {
        if user != 0 && user != self.own_user {
            return Err(Stranger::User(user));
        }
        let Some(number) = Pid::from_raw(pid).filter(|_| pid > 0) else {
            return Err(Stranger::Elsewhere { pid, namespace: "pid" });
        };
        let unseen = |error: io::Error| match error.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => Stranger::Gone(pid),
            _ => Stranger::Unseen { pid, error },
        };
        let named = if self.by_pidfd { peer_pidfd(socket).map_err(unseen)? } else { None };
        let is_named = named.is_some();
        let handle = match named {
            Some(handle) => handle,
            None => rustix::process::pidfd_open(number, PidfdFlags::empty()).map_err(|errno| unseen(errno.into()))?,
        };
        let process = open_process(&pid.to_string()).map_err(unseen)?;
        if !is_named && !holds_other_end(process.as_fd(), socket).map_err(unseen)? {
            return Err(Stranger::Gone(pid));
        }
        let theirs = namespaces(process.as_fd()).map_err(unseen)?;
        // Only now: while the process is not reaped its number is its own, so all that was read was about it.
        if pid_of(handle.as_fd()).map_err(unseen)? != Some(pid) {
            return Err(Stranger::Gone(pid));
        }
        let differs = NAMESPACES.iter().zip(self.own.iter().zip(&theirs)).find(|(_, (own, their))| own != their);
        differs.map_or(Ok(()), |(namespace, _)| Err(Stranger::Elsewhere { pid, namespace }))
    }
}

fn open_process(name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(format!("/proc/{name}"), flags, Mode::empty())?)
}

fn namespaces(process: BorrowedFd<'_>) -> io::Result<[Identity; 3]> {
    let mut found = [(0, 0); 3];
    for (identity, name) in found.iter_mut().zip(NAMESPACES) {
        let file = rustix::fs::statat(process, format!("ns/{name}"), AtFlags::empty())?;
        *identity = (file.st_dev, file.st_ino);
    }
    Ok(found)
}

/// A handle of the process that connected (`SO_PEERPIDFD`). `None` from a kernel that does not know the option.
fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    match getsockopt(&socket, sockopt::PeerPidfd) {
        Ok(handle) => Ok(Some(handle)),
        Err(Errno::ENOPROTOOPT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The number of a handle's process; `None` once it was reaped.
fn pid_of(handle: BorrowedFd<'_>) -> io::Result<Option<i32>> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:")).and_then(|number| number.trim().parse().ok());
    Ok(number.filter(|number| *number > 0))
}

/// Whether a process has the other end of a connection open. One that was given the number of a process that has ended
/// does not.
fn holds_other_end(process: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> io::Result<bool> {
    let wanted = format!("socket:[{}]", other_end(socket)?);
    let folder =
        rustix::fs::openat(process, "fd", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for entry in rustix::fs::Dir::read_from(&folder)?.take(FILES_MAX) {
        let link = rustix::fs::readlinkat(&folder, entry?.file_name(), Vec::new());
        if link.is_ok_and(|link| link.to_bytes() == wanted.as_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The inode of a connected socket's other end, as `ss` finds it: sock_diag(7).
fn other_end(socket: BorrowedFd<'_>) -> io::Result<u32> {
    const BY_FAMILY: u16 = 20;
    const REQUEST: u16 = 1;
    const SHOW_PEER: u32 = 4;
    const PEER: u16 = 2;
    /// The heads of a message and of what it says of a socket; its attributes follow.
    const HEADS: usize = 32;
    let own = u32::try_from(rustix::fs::fstat(socket)?.st_ino).map_err(io::Error::other)?;
    let mut request = vec![];
    request.extend(40_u32.to_ne_bytes()); // the whole message
    request.extend([BY_FAMILY, REQUEST].map(u16::to_ne_bytes).concat());
    request.extend([1_u32, 0].map(u32::to_ne_bytes).concat()); // its number, and from nobody in particular
    request.extend([1_u8, 0, 0, 0]); // AF_UNIX, and no protocol
    request.extend([u32::MAX, own, SHOW_PEER, u32::MAX, u32::MAX].map(u32::to_ne_bytes).concat());
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let asked = new_socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?;
    send(asked.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut buffer = [0; 1024];
    let length = recv(asked.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
    let answer = &buffer[..length];
    let short = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    if short(4) != Some(BY_FAMILY) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel does not tell who holds a socket"));
    }
    let mut at = HEADS;
    while let (Some(length), Some(kind)) = (short(at), short(at + 2)) {
        if kind == PEER
            && let Some(Ok(inode)) = answer.get(at + 4..at + 8).map(<[u8; 4]>::try_from)
        {
            return Ok(u32::from_ne_bytes(inode));
        }
        at += usize::from(length).max(4).next_multiple_of(4);
    }
    // The other end was closed.
    Err(io::Error::from_raw_os_error(libc::ESRCH))
}

#[cfg(test)]
mod tests;
