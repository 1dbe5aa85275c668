//! The hosts file: addresses and the names that stand for them.

use std::net::IpAddr;

/// The addresses that a hosts file has for a name, in the file's order, `max` at most. Case does not count, nor a last dot.
pub fn addresses(file: &str, name: &str, max: usize) -> Vec<IpAddr> {
    let wanted = name.strip_suffix('.').unwrap_or(name);
    let mut found = vec![];
    for line in file.lines() {
        let mut fields = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(ip) = fields.next().and_then(|ip| ip.parse().ok()) else { continue };
        let mut names = fields.map(|name| name.strip_suffix('.').unwrap_or(name));
        if names.any(|name| name.eq_ignore_ascii_case(wanted)) && !found.contains(&ip) && found.len() < max {
            found.push(ip);
        }
    }
    found
}
