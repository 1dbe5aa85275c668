//! Lookup of a name as Go's resolver does it: the node's hosts file, then its name servers.
//!
//! This module has the settings of `resolv.conf`, the full names that are tried for a given one, and the order of the
//! addresses found. [`hosts`] reads the hosts file, [`message`] writes and reads DNS messages.

pub mod hosts;
pub mod message;

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Most name servers that are asked.
const SERVERS_MAX: usize = 3;
/// Most search domains that are tried.
const SEARCHES_MAX: usize = 32;
/// Largest values of the options `ndots`, `timeout` (seconds) and `attempts`.
const NDOTS_MAX: usize = 15;
const TIMEOUT_MAX: u64 = 30;
const ATTEMPTS_MAX: u32 = 5;
/// Longest name with its last dot; longest part of one.
const NAME_MAX: usize = 254;
const LABEL_MAX: usize = 63;

/// A name server's address; `zone` names the interface of a link-local one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServer {
    /// Address.
    pub ip: IpAddr,
    /// Text after `%`; empty where there is none.
    pub zone: String,
}

/// The settings of lookups: what `resolv.conf` says, with Go's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupSettings {
    /// Name servers, three at most, in their order.
    pub servers: Vec<NameServer>,
    /// Search domains, each with its last dot.
    pub searches: Vec<String>,
    /// A name with as many dots is tried as it is first.
    pub ndots: usize,
    /// Time for one answer of one server.
    pub timeout: Duration,
    /// Rounds over all servers.
    pub attempts: u32,
    /// Each lookup begins with another server.
    pub rotates: bool,
    /// Servers are asked over TCP from the first question on.
    pub by_tcp: bool,
    /// The questions for IPv4 and IPv6 follow each other.
    pub one_by_one: bool,
}

impl LookupSettings {
    /// Reads the text of a `resolv.conf`. `hostname` gives the search domain of a file that has none.
    pub fn parse(text: &str, hostname: &str) -> Self {
        let mut settings = Self {
            servers: vec![],
            searches: vec![],
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
            rotates: false,
            by_tcp: false,
            one_by_one: false,
        };
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            let mut fields = line.split_whitespace();
            match fields.next() {
                Some("nameserver") if settings.servers.len() < SERVERS_MAX => {
                    settings.servers.extend(fields.next().and_then(server));
                }
                Some("domain") => settings.searches = fields.take(1).filter_map(rooted).collect(),
                Some("search") => settings.searches = fields.filter_map(rooted).take(SEARCHES_MAX).collect(),
                Some("options") => fields.for_each(|option| settings.take_option(option)),
                _ => {}
            }
        }
        if settings.servers.is_empty() {
            let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            settings.servers.extend(loopback.map(|ip| NameServer { ip, zone: String::new() }));
        }
        if settings.searches.is_empty() {
            settings.searches.extend(hostname.split_once('.').and_then(|(_, domain)| rooted(domain)));
        }
        settings
    }

    fn take_option(&mut self, option: &str) {
        let (name, value) = option.split_once(':').unwrap_or((option, ""));
        match name {
            "ndots" => self.ndots = value.parse().map_or(self.ndots, |dots: usize| dots.min(NDOTS_MAX)),
            "timeout" => {
                let seconds =
                    value.parse().map_or(self.timeout.as_secs(), |seconds: u64| seconds.clamp(1, TIMEOUT_MAX));
                self.timeout = Duration::from_secs(seconds);
            }
            "attempts" => {
                self.attempts = value.parse().map_or(self.attempts, |times: u32| times.clamp(1, ATTEMPTS_MAX))
            }
            "rotate" => self.rotates = true,
            "use-vc" | "usevc" | "tcp" => self.by_tcp = true,
            "single-request" | "single-request-reopen" => self.one_by_one = true,
            _ => {}
        }
    }

    /// The full names that servers are asked for, in their order; none for a text that is no name.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        if !is_name(name) {
            return vec![];
        }
        if name.ends_with('.') {
            return vec![name.to_owned()];
        }
        let itself = format!("{name}.");
        let searched = self.searches.iter().map(|domain| format!("{itself}{domain}"));
        let mut names: Vec<String> = searched.filter(|full| is_name(full)).collect();
        let is_full = name.matches('.').count() >= self.ndots;
        names.insert(if is_full { 0 } else { names.len() }, itself);
        names
    }
}

fn server(text: &str) -> Option<NameServer> {
    let (ip, zone) = text.split_once('%').unwrap_or((text, ""));
    Some(NameServer { ip: ip.parse().ok()?, zone: zone.to_owned() })
}

/// A search domain with its last dot; the root itself is none.
fn rooted(domain: &str) -> Option<String> {
    let domain = domain.trim_end_matches('.');
    (!domain.is_empty()).then(|| format!("{domain}."))
}

/// Whether DNS can know the name: parts of letters, digits, `-` and `_`, not digits alone.
fn is_name(name: &str) -> bool {
    let bare = name.strip_suffix('.').unwrap_or(name);
    let is_part = |part: &str| {
        let fits = (1..=LABEL_MAX).contains(&part.len()) && !part.starts_with('-') && !part.ends_with('-');
        fits && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let is_number = bare.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    bare.len() < NAME_MAX && !is_number && bare.split('.').all(is_part)
}

/// Puts the addresses in the order in which they are dialled. Each comes with the node's own address towards it, or `None`
/// where the node has no route. The rules are those of RFC 6724 that tell families apart.
pub fn in_order(mut found: Vec<(IpAddr, Option<IpAddr>)>) -> Vec<IpAddr> {
    found.sort_by_key(|(to, from)| {
        let is_other_kind = from.is_some_and(|from| precedence(from) != precedence(*to));
        (from.is_none(), is_other_kind, std::cmp::Reverse(precedence(*to)))
    });
    found.into_iter().map(|(to, _)| to).collect()
}

fn precedence(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V6(ip) if ip.is_loopback() => 50,
        IpAddr::V6(ip) if ip.is_unique_local() => 3,
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_none() => 40,
        _ => 35,
    }
}
