//! Through which proxy a server is reached, by the rules of Go's library (`golang.org/x/net/http/httpproxy`), which are
//! those of every client of Kubernetes; and what a proxy's answer means.
//!
//! Pure; keeps nothing. The caller hands in the environment.

use std::net::IpAddr;

/// The proxies in the environment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProxyEnvironment {
    http: String,
    https: String,
    none: String,
}

impl ProxyEnvironment {
    /// From the variables, each in capitals or else in small letters; an empty one counts as absent.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |name: &str| {
            let names = [name.to_owned(), name.to_ascii_lowercase()];
            names.iter().filter_map(|name| variable(name)).find(|value| !value.is_empty()).unwrap_or_default()
        };
        Self { http: either("HTTP_PROXY"), https: either("HTTPS_PROXY"), none: either("NO_PROXY") }
    }

    /// The proxy to a server with or without TLS, and the variable that names it; `None` where there is no proxy, or none
    /// is to be used.
    pub fn of(&self, tls: bool, host: &str, port: u16) -> Option<(&'static str, &str)> {
        let (name, value) = if tls { ("HTTPS_PROXY", &self.https) } else { ("HTTP_PROXY", &self.http) };
        (!value.is_empty() && !is_direct(&self.none, host, port)).then_some((name, value.as_str()))
    }
}

/// Whether no proxy stands before this host. The machine itself is never asked for through one.
fn is_direct(none: &str, host: &str, port: u16) -> bool {
    let host = host.to_ascii_lowercase();
    let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    none.split(',').any(|entry| covers(&entry.trim().to_ascii_lowercase(), &host, address, port))
}

/// Whether an entry of `NO_PROXY` names the host: `*`, a network, an address or a domain, these two also with a port.
fn covers(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some(inside) = is_inside(entry, address) {
        return inside;
    }
    let (name, wanted) = match entry.rsplit_once(':') {
        // More than one colon and no brackets: an address of IPv6.
        Some((name, wanted)) if !name.contains(':') || name.ends_with(']') => (name, Some(wanted)),
        _ => (entry, None),
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if name.is_empty() || wanted.is_some_and(|wanted| !wanted.is_empty() && wanted != port.to_string()) {
        return false;
    }
    match (name.parse::<IpAddr>(), address) {
        (Ok(named), Some(address)) => named.to_canonical() == address,
        (Err(_), None) => is_in_domain(host, name),
        _ => false,
    }
}

/// Whether the address is in the network that the entry names; `None` where it names none.
fn is_inside(entry: &str, address: Option<IpAddr>) -> Option<bool> {
    let (network, bits) = entry.split_once('/')?;
    let (network, bits) = (network.parse::<IpAddr>().ok()?, bits.parse::<u32>().ok()?);
    let (network, width) = match network {
        IpAddr::V4(network) => (u128::from(network.to_bits()), 32),
        IpAddr::V6(network) => (network.to_bits(), 128),
    };
    let rest = u32::checked_sub(width, bits)?;
    let same = |bits: u128| bits.checked_shr(rest) == network.checked_shr(rest);
    Some(match address {
        Some(IpAddr::V4(address)) => width == 32 && same(u128::from(address.to_bits())),
        Some(IpAddr::V6(address)) => width == 128 && same(address.to_bits()),
        None => false,
    })
}

/// `example.com` names itself and all below, `.example.com` and `*.example.com` only what is below.
fn is_in_domain(host: &str, domain: &str) -> bool {
    match domain.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(domain) {
        below if below.starts_with('.') => host.ends_with(below),
        itself => host == itself || host.strip_suffix(itself).is_some_and(|rest| rest.ends_with('.')),
    }
}

/// The most that is repeated of what a proxy says.
const REASON_CHARS_MAX: usize = 100;

/// The answer of a proxy to `CONNECT`, as far as it has come in: nothing to be judged yet, the way is open, or why it
/// is not.
pub fn answer(bytes: &[u8]) -> Option<Result<(), String>> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split_once(' ')).map(|(_, status)| status);
    let code = status.and_then(|status| status.get(..3)).and_then(|code| code.parse::<u16>().ok());
    Some(match (code, status) {
        (Some(200), _) if bytes.len() == end + 4 => Ok(()),
        (Some(200), _) => Err("the proxy speaks before the server is asked".to_owned()),
        (Some(_), Some(status)) => {
            Err(status.chars().filter(|letter| !letter.is_control()).take(REASON_CHARS_MAX).collect())
        }
        _ => Err("malformed HTTP response".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> ProxyEnvironment {
        ProxyEnvironment::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn each_kind_of_server_has_its_own_variable() {
        let both = environment(&[("HTTPS_PROXY", "s:1"), ("http_proxy", "p:2"), ("https_proxy", "late:3")]);
        assert_eq!(both.of(true, "api.example.com", 6443), Some(("HTTPS_PROXY", "s:1")), "capitals count first");
        assert_eq!(both.of(false, "api.example.com", 8080), Some(("HTTP_PROXY", "p:2")));
        let empty = environment(&[("HTTPS_PROXY", ""), ("https_proxy", "s:1")]);
        assert_eq!(empty.of(true, "api.example.com", 6443), Some(("HTTPS_PROXY", "s:1")));
        assert_eq!(environment(&[("HTTP_PROXY", "p:2")]).of(true, "api.example.com", 6443), None);
    }

    #[test]
    fn what_needs_no_proxy_is_named_in_gos_ways() {
        for (none, host, port, direct) in [
            ("", "api.example.com", 443, false),
            ("", "localhost", 443, true),
            ("", "127.0.0.9", 443, true),
            ("", "::1", 443, true),
            ("*", "api.example.com", 443, true),
            ("example.com", "example.com", 443, true),
            ("example.com", "api.example.com", 443, true),
            ("example.com", "badexample.com", 443, false),
            (".example.com", "example.com", 443, false),
            (".example.com", "API.example.com", 443, true),
            ("*.example.com", "api.example.com", 443, true),
            ("*.example.com", "example.com", 443, false),
            ("example.com:6443", "api.example.com", 6443, true),
            ("example.com:6443", "api.example.com", 443, false),
            ("other.org, EXAMPLE.com ", "api.example.com", 443, true),
            ("10.0.0.1", "10.0.0.1", 443, true),
            ("10.0.0.1:6443", "10.0.0.1", 443, false),
            ("10.0.0.0/8", "10.200.3.4", 443, true),
            ("10.0.0.0/8", "11.0.0.1", 443, false),
            ("0.0.0.0/0", "11.0.0.1", 443, true),
            ("10.0.0.0/33", "10.0.0.1", 443, false),
            ("fd00::/8", "fd12::1", 443, true),
            ("fd00::/8", "10.0.0.1", 443, false),
            ("fd00::1", "fd00::1", 443, true),
            ("[fd00::1]:6443", "fd00::1", 6443, true),
            ("[fd00::1]:6443", "fd00::1", 443, false),
            ("0.0.1", "10.0.0.1", 443, false),
            (",:443", "api.example.com", 443, false),
        ] {
            let environment = environment(&[("HTTPS_PROXY", "proxy"), ("no_proxy", none)]);
            let found = environment.of(true, host, port);
            assert_eq!(found.is_none(), direct, "{none:?} {host} {port}");
        }
    }

    #[test]
    fn a_proxy_opens_the_way_or_says_why_not() {
        for (bytes, expected) in [
            ("HTTP/1.1 200 Connection established\r\n\r\n", Some(Ok(()))),
            ("HTTP/1.0 200\r\nVia: x\r\n\r\n", Some(Ok(()))),
            ("HTTP/1.1 200 OK\r\nVia: x\r\n", None),
            ("HTTP/1.1 200 OK\r\n\r\nmore", Some(Err("the proxy speaks before the server is asked"))),
            (
                "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n<html>",
                Some(Err("407 Proxy Authentication Required")),
            ),
            ("SSH-2.0\r\n\r\n", Some(Err("malformed HTTP response"))),
            ("HTTP/1.1 \r\n\r\n", Some(Err("malformed HTTP response"))),
        ] {
            assert_eq!(answer(bytes.as_bytes()), expected.map(|told| told.map_err(str::to_owned)), "{bytes:?}");
        }
    }
}
