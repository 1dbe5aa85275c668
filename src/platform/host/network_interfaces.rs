//! The host's network interfaces and default routes, as the kernel tells them of this process's network namespace.
//!
//! Read by the node's facts. Keeps nothing. The calls read the kernel's memory and do not wait.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::Path;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::logic::network::default_address::{
    InterfaceAddress, default_addresses_of, default_route_of_fourth, default_route_of_sixth,
};

/// The most that is read of a table of routes: enough for all that the Internet has. Default routes come early.
const ROUTES_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Every address of every network interface, in the kernel's order.
///
/// # Errors
/// The kernel's.
pub fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let told = getifaddrs()?.filter_map(|one| {
        let address = one.address?;
        let fourth = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        let ip = fourth.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))?;
        Some(InterfaceAddress {
            interface: one.interface_name,
            ip,
            up: one.flags.contains(InterfaceFlags::IFF_UP),
            loopback: one.flags.contains(InterfaceFlags::IFF_LOOPBACK),
            point_to_point: one.flags.contains(InterfaceFlags::IFF_POINTOPOINT),
        })
    });
    Ok(told.collect())
}

/// The addresses that the default routes lead to, one of each family at most, the fourth version first. `guess`: without
/// any default route, the first address that others may know.
///
/// # Errors
/// When the routes cannot be read. A host without the sixth version has none of it.
pub fn default_addresses(addresses: &[InterfaceAddress], guess: bool) -> io::Result<Vec<IpAddr>> {
    default_addresses_by(Path::new("/proc/net"), addresses, guess)
}

fn default_addresses_by(tables: &Path, addresses: &[InterfaceAddress], guess: bool) -> io::Result<Vec<IpAddr>> {
    let fourth = match default_routes(&tables.join("route"), default_route_of_fourth) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        routes => Some(routes?),
    };
    let sixth = default_routes(&tables.join("ipv6_route"), default_route_of_sixth).unwrap_or_default();
    Ok(default_addresses_of(fourth.as_deref(), &sixth, addresses, guess))
}

fn default_routes(table: &Path, interface: impl Fn(&str) -> Option<&str>) -> io::Result<Vec<String>> {
    let mut found = vec![];
    for line in BufReader::new(File::open(table)?.take(ROUTES_BYTES_MAX)).lines() {
        found.extend(interface(&line?).map(str::to_owned));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ROUTES: &str = "Iface\tDestination\tGateway\neth0\t000200C0\t00000000\neth0\t00000000\t010200C0\n";

    fn on(interface: &str, ip: &str) -> InterfaceAddress {
        InterfaceAddress {
            interface: interface.to_owned(),
            ip: ip.parse().expect("an address"),
            up: true,
            loopback: false,
            point_to_point: false,
        }
    }

    /// NODE-20.
    #[test]
    fn an_address_is_guessed_only_where_there_are_no_routes_to_go_by() {
        let addresses = [on("eth1", "10.1.0.7"), on("eth0", "10.0.0.7"), on("eth1", "fd00::7")];
        let sixth = format!("{0} 00 {0} 00 fd{1} 0 0 0 0 eth1\n", "0".repeat(32), "0".repeat(30));
        for (route, sixth, guess, expected) in [
            (Some(ROUTES), Some(&*sixth), false, &["10.0.0.7", "fd00::7"][..]),
            (Some(ROUTES), None, true, &["10.0.0.7"]),
            (Some(""), Some(&*sixth), true, &["fd00::7"]),
            (Some(""), None, false, &[]),
            (Some(""), None, true, &["10.1.0.7", "fd00::7"]),
            (None, None, false, &["10.1.0.7", "fd00::7"]),
        ] {
            let folder = tempfile::tempdir().expect("a directory");
            for (name, content) in [("route", route), ("ipv6_route", sixth)] {
                if let Some(content) = content {
                    fs::write(folder.path().join(name), content).expect("written");
                }
            }
            let found = default_addresses_by(folder.path(), &addresses, guess).expect("told");
            let found: Vec<String> = found.iter().map(IpAddr::to_string).collect();
            assert_eq!(found, expected, "{route:?} {sixth:?} {guess}");
        }
    }

    #[test]
    fn this_hosts_interfaces_are_told() {
        let addresses = addresses().expect("told");
        let lo = addresses.iter().find(|one| one.interface == "lo" && one.ip.is_ipv4()).expect("every host has one");
        assert!(lo.up && lo.loopback && !lo.point_to_point && lo.ip.is_loopback(), "{lo:?}");
        let found = default_addresses(&addresses, true).expect("told");
        assert!(found.len() <= 2 && found.iter().all(|ip| addresses.iter().any(|one| one.ip == *ip)), "{found:?}");
    }
}
