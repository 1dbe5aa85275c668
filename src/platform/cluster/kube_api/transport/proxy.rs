//! The way through a proxy, by `CONNECT` or by SOCKS 5, and then the server as without one. Owned by whoever connects; keeps
//! nothing open.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use hyper_util::client::legacy::connect::proxy::SocksV5;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::Service;
use url::{Host, Url};

use super::connect::{DIAL_TIMEOUT, Stream, dial, handshake};
use super::{Endpoint, TransportError};
use crate::logic::formats::url_query::unescaped;
use crate::logic::network::http_proxy::{ProxyEnvironment, answer};

/// The most bytes of a proxy's answer.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// A proxy. Its credentials are in no text.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    kind: Kind,
    host: String,
    port: u16,
    url: String,
}

/// The protocol of a proxy, with its credentials.
#[derive(Clone, PartialEq, Eq)]
enum Kind {
    /// HTTP, within TLS or without.
    Http { tls: bool, authorization: Option<String> },
    /// SOCKS 5. As with Go's library, the proxy looks names up (`socks5h` says so, `socks5` means it).
    Socks { user: Option<(String, String)> },
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

/// Why a proxy cannot be used. Its URL may hold a password, so no error repeats it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// It is no URL.
    #[error("could not parse: {0}")]
    Parse(#[from] url::ParseError),
    /// The agent does not speak to proxies of this kind.
    #[error("unsupported scheme {0:?}, must be http, https, or socks5")]
    Scheme(String),
    /// It names no host.
    #[error("it names no host")]
    NoHost,
    /// The environment names it.
    #[error("invalid {variable}: {problem}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// The fault in its value.
        problem: Box<ProxyError>,
    },
}

impl Proxy {
    /// From a URL. It may hold a password, so it is not repeated.
    ///
    /// # Errors
    /// When it is none, or is of a kind that the agent does not speak.
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let url = Url::parse(text)?;
        let named = !url.username().is_empty() || url.password().is_some();
        let user = named.then(|| (unescaped(url.username()), unescaped(url.password().unwrap_or_default())));
        let basic = |user: Option<(String, String)>| {
            user.map(|(name, password)| format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
        };
        let (kind, port) = match url.scheme() {
            "http" => (Kind::Http { tls: false, authorization: basic(user) }, 80),
            "https" => (Kind::Http { tls: true, authorization: basic(user) }, 443),
            "socks5" | "socks5h" => (Kind::Socks { user }, 1080),
            other => return Err(ProxyError::Scheme(other.to_owned())),
        };
        let host = match url.host().ok_or(ProxyError::NoHost)? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        Ok(Self { kind, host, port: url.port().unwrap_or(port), url: text.to_owned() })
    }

    /// As it was written, with its password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The proxy that the environment names for this server (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`).
    ///
    /// # Errors
    /// When it cannot be used; the text names the variable.
    pub fn from_environment(server: &Endpoint) -> Result<Option<Self>, ProxyError> {
        let environment = ProxyEnvironment::read(|name| std::env::var(name).ok());
        let Some((variable, value)) = environment.of(server.tls(), server.host(), server.port()) else {
            return Ok(None);
        };
        // As with Go's library, a name alone is that of a proxy without TLS.
        let is_url = Url::parse(value).is_ok_and(|url| url.host().is_some());
        let with_scheme = if is_url { value.to_owned() } else { format!("http://{value}") };
        let parsed = Self::parse(&with_scheme).map(Some);
        parsed.map_err(|problem| ProxyError::Environment { variable, problem: Box::new(problem) })
    }

    /// Whether the proxy itself is reached by TLS.
    pub(super) fn tls(&self) -> bool {
        matches!(self.kind, Kind::Http { tls: true, .. })
    }

    /// Connects to the server by way of the proxy. `tls` is there if the proxy speaks it; as with upstream's client, whom we
    /// take for the server vouches for the proxy.
    pub(super) async fn connect(
        &self,
        server: &Endpoint,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Box<dyn Stream>, TransportError> {
        let named = |TransportError(text)| TransportError(format!("proxyconnect tcp: {text}"));
        let late = |_| TransportError("i/o timeout".to_owned());
        let stream = dial(&self.host, self.port).await.map_err(named)?;
        let authorization = match &self.kind {
            Kind::Http { authorization, .. } => authorization.as_deref(),
            Kind::Socks { user } => {
                let asked = tokio::time::timeout(DIAL_TIMEOUT, self.ask_socks(server, stream, user.clone())).await;
                let stream = asked.map_err(late).and_then(|asked| asked).map_err(named)?;
                return Ok(Box::new(stream));
            }
        };
        let mut stream: Box<dyn Stream> = match tls.filter(|_| self.tls()) {
            None => Box::new(stream),
            Some(config) => {
                let mut config = ClientConfig::clone(config);
                config.alpn_protocols.clear(); // The tunnel is asked for in HTTP/1.1.
                Box::new(handshake(Arc::new(config), &self.host, stream).await.map_err(named)?)
            }
        };
        let asked = tokio::time::timeout(DIAL_TIMEOUT, ask_http(server, authorization, &mut *stream)).await;
        asked.map_err(late).and_then(|asked| asked).map_err(named)?;
        Ok(stream)
    }

    async fn ask_socks(
        &self,
        server: &Endpoint,
        stream: TcpStream,
        user: Option<(String, String)>,
    ) -> Result<TcpStream, TransportError> {
        let to = server.with_port();
        let wrong = |why: String| TransportError(format!("socks connect tcp {}:{}->{to}: {why}", self.host, self.port));
        let uri = Uri::builder().authority(to.as_str()).build().map_err(|error| wrong(error.to_string()))?;
        let mut stream = Some(TokioIo::new(stream));
        // The connection is there already, dialled as every other one: the library only shakes hands on it.
        let connection = tower::service_fn(move |_: Uri| {
            let stream = stream.take().expect("invariant: one call, one connection");
            std::future::ready(Ok::<_, Infallible>(stream))
        });
        let mut socks = SocksV5::new(Uri::default(), connection);
        if let Some((name, password)) = user {
            socks = socks.with_auth(name, password);
        }
        let opened = socks.call(uri).await.map_err(|error| wrong(error.to_string()))?;
        Ok(opened.into_inner())
    }
}

async fn ask_http(
    server: &Endpoint,
    authorization: Option<&str>,
    stream: &mut dyn Stream,
) -> Result<(), TransportError> {
    let lost = |error: std::io::Error| TransportError(super::texts::kernel(&error));
    let to = server.with_port();
    let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
    if let Some(authorization) = authorization {
        request += &format!("Proxy-Authorization: {authorization}\r\n");
    }
    request += "\r\n";
    stream.write_all(request.as_bytes()).await.map_err(lost)?;
    stream.flush().await.map_err(lost)?;
    let mut said = Vec::new();
    loop {
        if stream.read_buf(&mut said).await.map_err(lost)? == 0 {
            return Err(TransportError("EOF".to_owned()));
        }
        if let Some(outcome) = answer(&said) {
            return outcome.map_err(TransportError);
        }
        if said.len() > ANSWER_BYTES_MAX {
            return Err(TransportError("the proxy's answer is too long".to_owned()));
        }
    }
}

#[cfg(test)]
mod cases {
    use super::{Kind, Proxy};

    #[test]
    fn a_proxy_is_read_from_its_url_and_keeps_its_password() {
        let proxy = Proxy::parse("http://us%40er:s%3Acret@proxy.example.com:3128").expect("a proxy");
        assert_eq!((proxy.host.as_str(), proxy.port, proxy.tls()), ("proxy.example.com", 3128, false));
        // The text is `us@er:s:cret`.
        let authorization = Some("Basic dXNAZXI6czpjcmV0".to_owned());
        assert!(proxy.kind == Kind::Http { tls: false, authorization });
        assert_eq!(format!("{proxy:?}"), "Proxy(proxy.example.com:3128)");
        let plain = Proxy::parse("https://[fd00::1]").expect("a proxy");
        assert_eq!((plain.host.as_str(), plain.port), ("fd00::1", 443));
        assert!(plain.kind == Kind::Http { tls: true, authorization: None });
        let socks = Proxy::parse("socks5h://us%40er:s%3Acret@p").expect("a proxy");
        assert_eq!((socks.host.as_str(), socks.port, socks.tls()), ("p", 1080, false));
        assert!(socks.kind == Kind::Socks { user: Some(("us@er".to_owned(), "s:cret".to_owned())) });
        for (url, why) in [
            ("ftp://p", "unsupported scheme \"ftp\", must be http, https, or socks5"),
            ("p", "could not parse: relative URL without a base"),
        ] {
            assert_eq!(Proxy::parse(url).expect_err("no proxy").to_string(), why, "{url}");
        }
    }
}
