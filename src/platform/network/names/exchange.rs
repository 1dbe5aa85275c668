//! One question to one name server: over UDP, and over TCP where the answer is too long for that.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::ADDRESSES_MAX;
use crate::logic::network::name_lookup::message::{Question, Reply, UDP_BYTES_MAX};

/// Asks; waits for an answer as long as the caller does.
///
/// # Errors
/// The kernel's.
pub(super) async fn ask(server: SocketAddr, question: &Question, by_tcp: bool) -> io::Result<Reply> {
    let message = question.message();
    if !by_tcp {
        let reply = over_udp(server, question, &message).await?;
        if reply != Reply::Cut {
            return Ok(reply);
        }
    }
    over_tcp(server, question, &message).await
}

/// The socket's port is the kernel's random choice, and only the server's messages reach it.
async fn over_udp(server: SocketAddr, question: &Question, message: &[u8]) -> io::Result<Reply> {
    let any = if server.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(message).await?;
    let mut answer = vec![0; usize::from(UDP_BYTES_MAX)];
    loop {
        let length = socket.recv(&mut answer).await?;
        match question.reply(&answer[..length], ADDRESSES_MAX) {
            Reply::Foreign => {} // The server's own answer may still come.
            reply => return Ok(reply),
        }
    }
}

/// Messages have their length before them.
async fn over_tcp(server: SocketAddr, question: &Question, message: &[u8]) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), message].concat()).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    Ok(question.reply(&answer, ADDRESSES_MAX))
}
