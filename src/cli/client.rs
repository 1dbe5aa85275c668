//! A client of an agent, by its local socket or by the API server: one request, one answer, bounded in time and size.

pub(super) mod node_proxy;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use node_proxy::NodeProxy;

/// From the connection to the answer's last byte.
const LIMIT: Duration = Duration::from_secs(30);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The answer of [`crate::server`] to a caller that it turns away.
const WHO_MAY_ASK: &str = "only root may ask, from the agent's own pid, user and mount namespaces";

type Sender = hyper::client::conn::http1::SendRequest<Empty<Bytes>>;
type Connection = hyper::client::conn::http1::Connection<TokioIo<UnixStream>, Empty<Bytes>>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// Nobody listens, or not for this user.
    #[error("cannot reach the agent at {socket}: {error}{}", hint(.error))]
    Unreachable {
        /// Where.
        socket: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It listens, and did not answer.
    #[error("the agent at {socket} did not answer {path}: {why}")]
    NoAnswer {
        /// Where.
        socket: PathBuf,
        /// The path of the question.
        path: String,
        /// Why.
        why: String,
    },
    /// It answered that it cannot.
    #[error("{0}")]
    Refused(String),
    /// The answer has not the form that is wanted.
    #[error("cannot print the answer: {0}")]
    Form(String),
    /// The answer could not be kept.
    #[error("cannot write {file}: {error}")]
    File {
        /// Where.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (only root may ask)",
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => " (does it run? --socket names another place)",
        _ => "",
    }
}

/// See the module.
pub(super) struct Client {
    way: Way,
}

/// The way to an agent.
enum Way {
    /// Its socket on this machine.
    Socket(PathBuf),
    /// The API server's proxy to its node.
    Proxy(NodeProxy),
}

impl Client {
    /// A client of the agent at this socket.
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { way: Way::Socket(socket) }
    }

    /// A client of the agent of a node of a cluster.
    pub(super) fn of_node(proxy: NodeProxy) -> Self {
        Self { way: Way::Proxy(proxy) }
    }

    /// The body of the answer to `GET path`.
    pub(super) fn get(&self, path: &str) -> Result<Vec<u8>, Trouble> {
        match &self.way {
            Way::Socket(_) => self.exchange(Method::GET, path),
            Way::Proxy(proxy) => proxy.get(path),
        }
    }

    /// The body of the answer to `POST path`, without a body of its own.
    pub(super) fn post(&self, path: &str) -> Result<Vec<u8>, Trouble> {
        match &self.way {
            Way::Socket(_) => self.exchange(Method::POST, path),
            Way::Proxy(proxy) => Err(proxy.local_only(path)),
        }
    }

    /// Hands on the body of the answer to `GET path` as it comes, for as long as that takes. Ends early, and well, when
    /// nobody takes it any more.
    pub(super) fn stream(&self, path: &str, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), Trouble> {
        if let Way::Proxy(proxy) = &self.way {
            return proxy.stream(path, take);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| self.no_answer(path, error))?;
        runtime.block_on(async {
            let (mut sender, connection, request) = self.begin(Method::GET, path).await?;
            let exchange = async {
                let response = sender.send_request(request).await.map_err(|error| self.not_heard(path, &error))?;
                let (status, mut body) = (response.status(), response.into_body());
                if status != StatusCode::OK {
                    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
                    let body = body.map_err(|error| self.no_answer(path, error))?.to_bytes();
                    return Err(Trouble::Refused(String::from_utf8_lossy(&body).trim_end().to_owned()));
                }
                while let Some(frame) = body.frame().await {
                    let frame = frame.map_err(|error| self.no_answer(path, error))?;
                    if frame.data_ref().is_some_and(|part| take(part).is_err()) {
                        break;
                    }
                }
                Ok(())
            };
            tokio::pin!(exchange);
            tokio::select! {
                answer = &mut exchange => answer,
                _ = connection => exchange.await,
            }
        })
    }

    fn exchange(&self, method: Method, path: &str) -> Result<Vec<u8>, Trouble> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| self.no_answer(path, error))?;
        let asked = runtime.block_on(async {
            let limited = tokio::time::timeout(LIMIT, self.ask(method, path)).await;
            limited.unwrap_or_else(|_| Err(self.no_answer(path, "it took too long")))
        });
        let (status, body) = asked?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        Err(Trouble::Refused(String::from_utf8_lossy(&body).trim_end().to_owned()))
    }

    /// Connects, and makes a request that is to be sent.
    async fn begin(&self, method: Method, path: &str) -> Result<(Sender, Connection, Request<Empty<Bytes>>), Trouble> {
        let socket = self.place();
        let stream = UnixStream::connect(&socket).await;
        let stream = stream.map_err(|error| Trouble::Unreachable { socket, error })?;
        let request = Request::builder().method(method).uri(path).header(header::HOST, "podwright");
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|error| self.no_answer(path, error))?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| self.no_answer(path, error))?;
        Ok((sender, connection, request))
    }

    async fn ask(&self, method: Method, path: &str) -> Result<(StatusCode, Vec<u8>), Trouble> {
        let (mut sender, connection, request) = self.begin(method, path).await?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|error| self.not_heard(path, &error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| self.no_answer(path, error))?;
            Ok((status, body.to_bytes().to_vec()))
        };
        // The connection moves only while it is polled; what it says at its end, the exchange says too.
        tokio::pin!(exchange);
        tokio::select! {
            answer = &mut exchange => answer,
            _ = connection => exchange.await,
        }
    }

    /// Reads a JSON answer.
    pub(super) fn decode<T: serde::de::DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<T, Trouble> {
        serde_json::from_slice(body)
            .map_err(|error| self.no_answer(path, format!("its answer makes no sense: {error}")))
    }

    /// The agent turns strangers away before it reads what they ask: whether its words are still seen is a matter of luck.
    fn not_heard(&self, path: &str, error: &hyper::Error) -> Trouble {
        let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
        let is_cut = cause
            .is_some_and(|cause| matches!(cause.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset));
        match is_cut || error.is_canceled() {
            true => self.no_answer(path, format!("it closed the connection ({WHO_MAY_ASK})")),
            false => self.no_answer(path, error),
        }
    }

    /// The trouble of a question without an answer.
    pub(super) fn no_answer(&self, path: &str, why: impl ToString) -> Trouble {
        Trouble::NoAnswer { socket: self.place(), path: path.to_owned(), why: why.to_string() }
    }

    /// Where the agent is asked: its socket, or for texts its node.
    pub(super) fn place(&self) -> PathBuf {
        match &self.way {
            Way::Socket(socket) => socket.clone(),
            Way::Proxy(proxy) => PathBuf::from(proxy.place()),
        }
    }
}

/// A value as part of a path or query.
pub(super) fn escape(value: &str) -> String {
    url::form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A caller that is turned away reads why, also where the refusal comes before the request was sent.
    #[test]
    fn a_refusal_that_comes_before_the_request_says_who_may_ask() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("podwright.sock");
        let listener = UnixListener::bind(&socket).expect("listens");
        let tries = 100;
        let refuses = std::thread::spawn(move || {
            for _ in 0..tries {
                let (mut stream, _) = listener.accept().expect("a connection");
                let head =
                    format!("HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: {}", WHO_MAY_ASK.len());
                let _ = stream.write_all(format!("{head}\r\n\r\n{WHO_MAY_ASK}").as_bytes());
            }
        });
        for _ in 0..tries {
            let told = Client::new(socket.clone()).get("/ps").expect_err("it is refused").to_string();
            assert!(told.contains(WHO_MAY_ASK), "{told}");
        }
        refuses.join().expect("it served all");
    }
}
