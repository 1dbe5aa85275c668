//! One GET over a connection of its own, with its redirects, within one time limit: no pool, no proxy, no keep-alive.
//!
//! Used by probes, hooks and the static pod URL; keeps nothing between requests. `unary` makes a gRPC call the same way.
//! Errors read as upstream's client writes them, for people and tools look for parts of them.

mod brief;
mod connection;
mod dial;
mod error;
mod hop;
mod peeked;
mod target;
#[cfg(test)]
pub(crate) mod test_server;
mod unary;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Request;
use hyper::header;
use rustls::ClientConfig;
use tokio::time::Sleep;

use brief::{Heard, Resumed};
pub(in crate::platform) use connection::connect;
use connection::{Connection, Ends, Payload, lift};
pub use error::{ExchangeError, TargetError, WireError};
use hop::Hop;
pub use target::Target;
pub use unary::{Unary, UnaryError, unary};

use crate::platform::network::names::Names;

/// How many redirects are followed.
const REDIRECTS_MAX: usize = 10;
/// The most bytes that the header of an answer may take.
const HEADER_BYTES_MAX: usize = 256 * 1024;

/// The question.
pub struct Ask<'a> {
    /// Where the first request goes.
    pub target: Target,
    /// Headers, in order; names may repeat. `Host` sets the request's host.
    pub headers: Vec<(&'a str, &'a str)>,
    /// Which redirects are followed.
    pub redirects: Redirects,
    /// The most bytes of the body that are read.
    pub body_max: usize,
    /// For the whole exchange, redirects and body too.
    pub timeout: Duration,
    /// How soon the answer must be heard.
    pub haste: Haste,
    /// How hosts are looked up.
    pub names: Names,
}

/// How soon an answer must be heard once it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Haste {
    /// At once.
    Great,
    /// Up to 20 ms later, which costs less where many ask together.
    Little,
}

/// Which redirects are followed, ten at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redirects {
    /// Those to the first request's host; another is the final answer.
    SameHost,
    /// All. The headers given are not sent to another host, for they may hold secrets.
    AnyHost,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Up to the bound asked for.
    pub body: Vec<u8>,
    /// Whether there was more of the body than the bound.
    pub cut: bool,
}

/// Where TLS settings come from; asked only when a target wants TLS.
pub type TlsSource<'a> = &'a (dyn Fn() -> Result<Arc<ClientConfig>, WireError> + Send + Sync);

/// An [`Ask`] that is ready to be sent, as often as wanted.
pub struct Errand {
    first: Hop,
    redirects: Redirects,
    body_max: usize,
    timeout: Duration,
    haste: Haste,
    names: Names,
}

impl Errand {
    /// Writes the request.
    ///
    /// # Errors
    /// A header cannot be sent.
    pub fn new(ask: Ask<'_>) -> Result<Self, ExchangeError> {
        let Ask { target, headers, redirects, body_max, timeout, haste, names } = ask;
        Ok(Self { first: Hop::first(target, &headers)?, redirects, body_max, timeout, haste, names })
    }

    /// Asks, follows redirects, reads the body.
    ///
    /// # Errors
    /// See [`ExchangeError`].
    pub async fn run(&self, tls: TlsSource<'_>) -> Result<Answer, ExchangeError> {
        let mut deadline = std::pin::pin!(tokio::time::sleep(self.timeout));
        match self.send(&self.first, tls, deadline.as_mut()).await? {
            Sent::Whole(answer) => Ok(answer),
            // In a box, as is all that few need: its state is of kilobytes, which the others need not carry.
            Sent::Begun(begun) => Box::pin(self.follow(*begun, tls, deadline)).await,
        }
    }

    async fn follow(
        &self,
        begun: Begun,
        tls: TlsSource<'_>,
        mut deadline: Pin<&mut Sleep>,
    ) -> Result<Answer, ExchangeError> {
        let (mut connection, mut response) = begun;
        let mut hop = Cow::Borrowed(&self.first);
        for followed in 0.. {
            let status = response.status().as_u16();
            let location = response.headers().get(header::LOCATION).map(|value| lossy(value.as_bytes()));
            let Some(location) = location.filter(|location| is_redirect(status) && !location.is_empty()) else {
                break;
            };
            let next =
                hop.target.follow(&location).map_err(|error| ExchangeError::get(&hop.target.text, error.into()))?;
            let same_host = next.same_host(&self.first.target);
            if self.redirects == Redirects::SameHost && !same_host {
                break;
            }
            if followed + 1 >= REDIRECTS_MAX {
                return Err(ExchangeError::get(&location, WireError::Redirects));
            }
            hop = Cow::Owned(hop.into_owned().redirected(next, &location, same_host));
            (connection, response) = match self.send(&hop, tls, deadline.as_mut()).await? {
                Sent::Whole(answer) => return Ok(answer),
                Sent::Begun(begun) => *begun,
            };
        }
        read_body(&mut connection, response, self.body_max, deadline).await
    }

    async fn send(&self, hop: &Hop, tls: TlsSource<'_>, deadline: Pin<&mut Sleep>) -> Result<Sent, ExchangeError> {
        let exchange = async {
            if hop.target.tls {
                return Box::pin(send_tls(hop, tls()?, &self.names)).await;
            }
            let request = hop.plain()?;
            let (line, ends) = lift(&hop.target.host, hop.target.port, &self.names).await?;
            let heard = brief::ask(line, request, self.body_max, self.haste).await;
            match heard.map_err(|error| ends.io_problem(&error))? {
                Heard::Whole(answer) => Ok(Sent::Whole(answer)),
                Heard::Begun(stream) => Box::pin(send_on(hop, stream, ends)).await,
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = exchange => outcome,
            () = deadline => Err(WireError::Late),
        };
        outcome.map_err(|problem| ExchangeError::get(&hop.target.text, problem))
    }
}

type Begun = (Connection, hyper::Response<hyper::body::Incoming>);

/// The end of a request.
enum Sent {
    /// All of the answer.
    Whole(Answer),
    /// Its header, and the connection that the rest comes from.
    Begun(Box<Begun>),
}

async fn send_tls(hop: &Hop, config: Arc<ClientConfig>, names: &Names) -> Result<Sent, WireError> {
    let connection = Connection::open_tls(&hop.target, config, names).await?;
    let request = hop.request(connection.is_http2())?;
    answered(connection, request).await
}

async fn send_on(hop: &Hop, stream: Resumed, ends: Ends) -> Result<Sent, WireError> {
    let connection = Connection::resume(stream, ends).await?;
    answered(connection, hop.request(false)?).await
}

async fn answered(mut connection: Connection, request: Request<Payload>) -> Result<Sent, WireError> {
    let response = connection.send(request).await?;
    Ok(Sent::Begun(Box::new((connection, response))))
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn read_body(
    connection: &mut Connection,
    response: hyper::Response<hyper::body::Incoming>,
    body_max: usize,
    mut deadline: Pin<&mut Sleep>,
) -> Result<Answer, ExchangeError> {
    let status = response.status().as_u16();
    let mut incoming = response.into_body();
    let mut body: Vec<u8> = Vec::new();
    loop {
        let frame = tokio::select! {
            biased;
            frame = connection.beside(incoming.frame()) => frame,
            () = deadline.as_mut() => return Err(ExchangeError::Body(WireError::LateBody)),
        };
        let frame = match frame {
            None => return Ok(Answer { status, body, cut: false }),
            Some(Err(error)) => return Err(ExchangeError::Body(connection.body_problem(&error))),
            Some(Ok(frame)) => frame,
        };
        let data = frame.into_data().unwrap_or_default();
        let room = body_max - body.len();
        if data.len() > room {
            body.extend_from_slice(&data[..room]);
            return Ok(Answer { status, body, cut: true });
        }
        body.extend_from_slice(&data);
    }
}
