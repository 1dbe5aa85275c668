//! Why an exchange has no answer. `Display` has the words of upstream's client, for people and tools look for parts of them.

use super::HEADER_BYTES_MAX;
use crate::platform::host::blocking::lookup::LookupError;

/// Why there is no request, no connection or no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// There is nowhere to send the request.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A header cannot be sent. Its value may be a secret, so no error has it.
    #[error("net/http: invalid header field {part} {name:?}")]
    Header {
        /// `name` or `value for`.
        part: &'static str,
        /// Its name.
        name: String,
    },
    /// The path would be more than a path.
    #[error("net/http: invalid request path {0:?}")]
    Path(String),
    /// The host would be more than a host.
    #[error("http: invalid Host header")]
    Host,
    /// The library does not take the request.
    #[error("{0}")]
    Request(String),
    /// The name gave no address.
    #[error("dial tcp: {0}")]
    Lookup(#[from] LookupError),
    /// An address does not take the connection.
    #[error("dial tcp {address}: connect: {problem}")]
    Dial {
        /// The address, with the port.
        address: String,
        /// The kernel's words.
        problem: String,
    },
    /// There are no settings of TLS.
    #[error("{0}")]
    Settings(String),
    /// The server speaks plain HTTP where TLS was asked for.
    #[error("http: server gave HTTP response to HTTPS client")]
    PlainAfterAll,
    /// The server speaks neither.
    #[error("tls: first record does not look like a TLS handshake")]
    NoTls,
    /// The server ended the handshake, with this alert.
    #[error("remote error: tls:{0}")]
    Alert(String),
    /// The handshake failed.
    #[error("tls: {0}")]
    Tls(String),
    /// The connection ended before an answer.
    #[error("EOF")]
    End,
    /// The connection ended within the answer.
    #[error("unexpected EOF")]
    EndInBody,
    /// The connection broke.
    #[error("read tcp {between}: read: {problem}")]
    Read {
        /// The addresses of both ends.
        between: String,
        /// The kernel's words.
        problem: String,
    },
    /// The answer's header is larger than its bound.
    #[error("net/http: server response headers exceeded {HEADER_BYTES_MAX} bytes; aborted")]
    LargeHeader,
    /// The answer is no HTTP; with its first line.
    #[error("net/http: HTTP/1.x transport connection broken: malformed HTTP response {0:?}")]
    Malformed(String),
    /// The library's own error.
    #[error("{0}")]
    Other(String),
    /// Each of ten redirects led to another.
    #[error("stopped after 10 redirects")]
    Redirects,
    /// No answer came in time.
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    Late,
    /// The body did not end in time.
    #[error("context deadline exceeded (Client.Timeout or context cancellation while reading body)")]
    LateBody,
}

/// Why a request has no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// A scheme other than `http` and `https`.
    #[error("unsupported protocol scheme {0:?}")]
    Scheme(String),
    /// A URL without a host.
    #[error("http: no Host in request URL")]
    NoHost,
    /// A redirect leads to a text that is no URL.
    #[error("failed to parse Location header {location:?}: {problem}")]
    Location {
        /// The text.
        location: String,
        /// The fault in it.
        problem: url::ParseError,
    },
}

/// Why an exchange failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// Before the final answer's header was there.
    #[error("Get {url:?}: {problem}")]
    Get {
        /// The URL of the request that failed.
        url: String,
        /// The problem.
        problem: WireError,
    },
    /// While the body was read.
    #[error("{0}")]
    Body(WireError),
}

impl ExchangeError {
    /// Before the answer to the request for this URL.
    pub(super) fn get(url: &str, problem: WireError) -> Self {
        Self::Get { url: url.to_owned(), problem }
    }

    /// Whether the server speaks plain HTTP where TLS was asked for.
    pub fn is_plain_after_all(&self) -> bool {
        matches!(self, Self::Get { problem: WireError::PlainAfterAll, .. })
    }
}
