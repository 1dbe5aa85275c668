//! Where the API server is: the `server` of a kubeconfig, taken apart. Plain data.

use std::fmt;

use url::{Host, Url};

/// An address of an API server. Prints as `https://10.0.0.1:6443`, with the path before every call's, if it has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    tls: bool,
    host: String,
    /// As written: the default port of the scheme is left out.
    port: Option<u16>,
    prefix: String,
}

/// A text is no address of a server; in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("host must be a URL or a host:port pair: {0:?}")]
pub struct EndpointError(String);

impl Endpoint {
    /// From a kubeconfig's `server`. As in upstream's client, an address without a scheme is taken for `http`, or for
    /// `https` where TLS is configured.
    ///
    /// # Errors
    /// It is no address of a server.
    pub fn parse(server: &str, tls: bool) -> Result<Self, EndpointError> {
        let wrong = || EndpointError(server.to_owned());
        let with_scheme =
            if server.contains("://") { server.to_owned() } else { format!("{}://{server}", scheme(tls)) };
        let url = Url::parse(&with_scheme).map_err(|_| wrong())?;
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(wrong()),
        };
        let host = match url.host().ok_or_else(wrong)? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        Ok(Self { tls, host, port: url.port(), prefix: url.path().trim_end_matches('/').to_owned() })
    }

    /// Whether it speaks TLS.
    pub fn tls(&self) -> bool {
        self.tls
    }

    /// Name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, also where it was not written.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.tls { 443 } else { 80 })
    }

    /// Host and port, this also where it was not written: for a proxy.
    pub(super) fn with_port(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port())
    }

    /// The path before every call's; empty for the root.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Host and port as the server gets them.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        self.port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
    }
}

fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", scheme(self.tls), self.authority(), self.prefix)
    }
}

#[cfg(test)]
mod cases {
    use super::Endpoint;

    #[test]
    fn an_address_is_read_as_the_usual_client_reads_it() {
        for (server, tls, text, port) in [
            ("https://10.0.0.1:6443", true, "https://10.0.0.1:6443", 6443),
            ("https://api.example.com", true, "https://api.example.com", 443),
            ("https://[fd00::1]:6443/", true, "https://[fd00::1]:6443", 6443),
            ("https://h/k8s/clusters/c-1/", true, "https://h/k8s/clusters/c-1", 443),
            ("localhost:8080", false, "http://localhost:8080", 8080),
            ("api.example.com", true, "https://api.example.com", 443),
        ] {
            let endpoint = Endpoint::parse(server, tls).expect(server);
            assert_eq!((endpoint.to_string().as_str(), endpoint.port()), (text, port), "{server}");
        }
        for server in ["ftp://x", "https://", "https://a b", ""] {
            assert!(Endpoint::parse(server, true).is_err(), "{server}");
        }
    }
}
