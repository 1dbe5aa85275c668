//! Listening TCP sockets as the upstream kubelet has them from Go's library: an unspecified address listens on both
//! families, and a connection whose other end has vanished is noticed.
//!
//! Used by the server's listeners. Keeps nothing.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener};
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt,
};

/// Connections that wait to be accepted; the kernel has a bound of its own (`net.core.somaxconn`).
const BACKLOG: Backlog = Backlog::MAXCONN;

/// A connection at rest is asked for a sign of life after this time, and then this often: Go's default.
const KEEP_ALIVE_SECONDS: u32 = 15;
/// So many signs may be missing in a row.
const KEEP_ALIVE_MISSED_MAX: u32 = 9;

/// Listens at `address`. `0.0.0.0` and `::` both stand for every address of both families, where the kernel has IPv6.
///
/// # Errors
/// The address cannot be had.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    listen_with(address, true)
}

fn listen_with(address: SocketAddr, has_ipv6: bool) -> io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return Ok(open(address)?);
    }
    let both = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, address.port(), 0, 0));
    let opened = if has_ipv6 { open(both) } else { Err(Errno::EAFNOSUPPORT) };
    match opened {
        // A kernel without IPv6, or one whose IPv6 is turned off. A listener on `::` cannot be had then.
        Err(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL) if address.is_ipv4() => Ok(open(address)?),
        opened => Ok(opened?),
    }
}

fn open(address: SocketAddr) -> nix::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
    if address.is_ipv6() {
        // The system's own default (`net.ipv6.bindv6only`) does not matter.
        setsockopt(&socket, sockopt::Ipv6V6Only, &!address.ip().is_unspecified())?;
    }
    // A port whose last connections are not quite over is free for the agent's next start.
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    nix::sys::socket::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// Makes an accepted connection notice that its other end has vanished, and send small answers and keystrokes at once.
pub fn settle(connection: impl AsFd) {
    // A connection that is closed already refuses all of this, and needs none of it.
    let _ = setsockopt(&connection, sockopt::TcpNoDelay, &true);
    let _ = setsockopt(&connection, sockopt::TcpKeepIdle, &KEEP_ALIVE_SECONDS);
    let _ = setsockopt(&connection, sockopt::TcpKeepInterval, &KEEP_ALIVE_SECONDS);
    let _ = setsockopt(&connection, sockopt::TcpKeepCount, &KEEP_ALIVE_MISSED_MAX);
    let _ = setsockopt(&connection, sockopt::KeepAlive, &true);
}

/// The address of a client as it would be written: one of IPv4 that came to a socket of both families is one of IPv4.
pub fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, TcpStream};

    use nix::sys::socket::getsockopt;

    use super::*;

    fn any(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().expect("an address"), 0)
    }

    fn connects(to: &str, port: u16) -> bool {
        TcpStream::connect((to.parse::<IpAddr>().expect("an address"), port)).is_ok()
    }

    #[test]
    fn an_unspecified_address_listens_on_both_families() {
        for address in ["0.0.0.0", "::"] {
            let listener = listen(any(address)).expect("a port");
            let port = listener.local_addr().expect("bound").port();
            assert!(connects("127.0.0.1", port) && connects("::1", port), "{address}");
            // It is in use on both.
            let taken = listen(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)).expect_err("taken");
            assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[test]
    fn an_address_of_one_family_stays_of_that_family() {
        for (address, other) in [("127.0.0.1", "::1"), ("::1", "127.0.0.1")] {
            let listener = listen(any(address)).expect("a port");
            let port = listener.local_addr().expect("bound").port();
            assert!(connects(address, port) && !connects(other, port), "{address}");
        }
    }

    #[test]
    fn without_ipv6_the_unspecified_address_of_ipv4_still_listens() {
        let listener = listen_with(any("0.0.0.0"), false).expect("a port");
        let address = listener.local_addr().expect("bound");
        assert!(address.is_ipv4() && connects("127.0.0.1", address.port()));
        assert!(listen_with(any("::"), false).is_err());
    }

    #[test]
    fn a_vanished_client_is_noticed_after_a_few_missing_signs_of_life() {
        let listener = listen(any("127.0.0.1")).expect("a port");
        listener.set_nonblocking(false).expect("may wait");
        let _client = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
        let (connection, _) = listener.accept().expect("a client");
        assert_eq!(getsockopt(&connection, sockopt::KeepAlive), Ok(false));
        settle(&connection);
        let told = (
            getsockopt(&connection, sockopt::TcpKeepIdle),
            getsockopt(&connection, sockopt::TcpKeepInterval),
            getsockopt(&connection, sockopt::TcpKeepCount),
        );
        assert_eq!(told, (Ok(15), Ok(15), Ok(9)));
        assert_eq!(getsockopt(&connection, sockopt::KeepAlive), Ok(true));
    }

    #[test]
    fn a_client_of_ipv4_has_an_address_of_ipv4() {
        for (seen, written) in [
            ("[::ffff:192.0.2.1]:7", "192.0.2.1:7"),
            ("192.0.2.1:7", "192.0.2.1:7"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
        ] {
            assert_eq!(plain(seen.parse().expect("an address")).to_string(), written);
        }
    }
}
