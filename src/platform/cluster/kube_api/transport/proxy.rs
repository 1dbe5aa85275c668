//! The way through a proxy: `CONNECT`, and then the server as without one. Owned by whoever connects; keeps nothing open.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use url::{Host, Url};

use super::connect::{DIAL_TIMEOUT, Stream, dial, handshake};
use super::{Endpoint, TransportError};
use crate::logic::formats::url_query::unescaped;
use crate::logic::network::http_proxy::{ProxyEnvironment, answer};

/// The most bytes of a proxy's answer.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// A proxy. What proves there who we are is in no text.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    tls: bool,
    host: String,
    port: u16,
    authorization: Option<String>,
    url: String,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

impl Proxy {
    /// From a URL. It may hold a password, so it is not repeated.
    ///
    /// # Errors
    /// When it is none, or is of a kind that the agent does not speak.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("could not parse: {error}"))?;
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            "socks5" | "socks5h" => return Err("this node agent speaks to no socks5 proxy".to_owned()),
            other => return Err(format!("unsupported scheme {other:?}, must be http or https")),
        };
        let host = match url.host().ok_or("it names no host")? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let named = !url.username().is_empty() || url.password().is_some();
        let authorization = named.then(|| {
            let user = format!("{}:{}", unescaped(url.username()), unescaped(url.password().unwrap_or_default()));
            format!("Basic {}", STANDARD.encode(user))
        });
        let port = url.port().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host, port, authorization, url: text.to_owned() })
    }

    /// As it was written, with its password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The proxy that the environment names for this server (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`).
    ///
    /// # Errors
    /// When it cannot be used; the text names the variable.
    pub fn from_environment(server: &Endpoint) -> Result<Option<Self>, String> {
        let environment = ProxyEnvironment::read(|name| std::env::var(name).ok());
        let Some((variable, value)) = environment.of(server.tls(), server.host(), server.port()) else {
            return Ok(None);
        };
        // As with Go's library, a name alone is that of a proxy without TLS.
        let is_url = Url::parse(value).is_ok_and(|url| url.host().is_some());
        let with_scheme = if is_url { value.to_owned() } else { format!("http://{value}") };
        Self::parse(&with_scheme).map(Some).map_err(|error| format!("invalid {variable}: {error}"))
    }

    /// Whether the proxy itself is reached by TLS.
    pub(super) fn tls(&self) -> bool {
        self.tls
    }

    /// Connects to the server by way of the proxy. `tls` is there if the proxy speaks it; as with upstream's client, whom we
    /// take for the server vouches for the proxy.
    pub(super) async fn connect(
        &self,
        server: &Endpoint,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Box<dyn Stream>, TransportError> {
        let named = |TransportError(text)| TransportError(format!("proxyconnect tcp: {text}"));
        let stream = dial(&self.host, self.port).await.map_err(named)?;
        let mut stream: Box<dyn Stream> = match tls.filter(|_| self.tls) {
            None => Box::new(stream),
            Some(config) => {
                let mut config = ClientConfig::clone(config);
                config.alpn_protocols.clear(); // The tunnel is asked for in HTTP/1.1.
                Box::new(handshake(Arc::new(config), &self.host, stream).await.map_err(named)?)
            }
        };
        let asked = tokio::time::timeout(DIAL_TIMEOUT, self.ask(server, &mut *stream)).await;
        asked.unwrap_or_else(|_| Err(TransportError("i/o timeout".to_owned()))).map_err(named)?;
        Ok(stream)
    }

    async fn ask(&self, server: &Endpoint, stream: &mut dyn Stream) -> Result<(), TransportError> {
        let lost = |error: std::io::Error| TransportError(super::texts::kernel(&error));
        let to = server.with_port();
        let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
        if let Some(authorization) = &self.authorization {
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
}

#[cfg(test)]
mod cases {
    use super::Proxy;

    #[test]
    fn a_proxy_is_read_from_its_url_and_keeps_its_password() {
        let proxy = Proxy::parse("http://us%40er:s%3Acret@proxy.example.com:3128").expect("a proxy");
        assert_eq!((proxy.host.as_str(), proxy.port, proxy.tls()), ("proxy.example.com", 3128, false));
        // The text is `us@er:s:cret`.
        assert_eq!(proxy.authorization.as_deref(), Some("Basic dXNAZXI6czpjcmV0"));
        assert_eq!(format!("{proxy:?}"), "Proxy(proxy.example.com:3128)");
        let plain = Proxy::parse("https://[fd00::1]").expect("a proxy");
        assert_eq!((plain.host.as_str(), plain.port, plain.tls(), plain.authorization), ("fd00::1", 443, true, None));
        for (url, why) in [
            ("socks5://hunter2@p:1080", "this node agent speaks to no socks5 proxy"),
            ("ftp://p", "unsupported scheme \"ftp\", must be http or https"),
            ("p", "could not parse: relative URL without a base"),
        ] {
            assert_eq!(Proxy::parse(url), Err(why.to_owned()), "{url}");
        }
    }
}
