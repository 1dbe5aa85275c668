//! Which address a node has when no flag gives it one: that of the interface which its default route leaves by (NODE-20;
//! upstream's `ChooseHostInterface`).
//!
//! Pure; keeps nothing. The kernel's routes and addresses are handed in.

use std::net::IpAddr;

/// An address that a network interface has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface's name.
    pub interface: String,
    /// The address.
    pub ip: IpAddr,
    /// Whether the interface is switched on.
    pub up: bool,
    /// Whether it leads back to this host.
    pub loopback: bool,
    /// Whether it leads to one other host alone.
    pub point_to_point: bool,
}

/// The interface of a line of `/proc/net/route`, if it is a default route.
pub fn default_route_of_fourth(line: &str) -> Option<&str> {
    let mut fields = line.split_ascii_whitespace();
    let (interface, destination) = (fields.next()?, fields.next()?);
    (u32::from_str_radix(destination, 16) == Ok(0)).then_some(interface)
}

/// The interface of a line of `/proc/net/ipv6_route`, if it is a default route by way of a gateway.
pub fn default_route_of_sixth(line: &str) -> Option<&str> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [destination, _, _, _, gateway, _, _, _, _, interface] = fields[..] else { return None };
    let address = |field: &str| u128::from_str_radix(field, 16).ok();
    (address(destination)? == 0 && address(gateway)? != 0).then_some(interface)
}

/// The node's addresses, one of each family at most, the fourth version first, by the interfaces of its default routes.
/// `fourth` is `None` on a host without a table of routes, where there is nothing to go by and an address is guessed;
/// `guess`: so, too, where there are no default routes.
pub fn default_addresses_of(
    fourth: Option<&[String]>,
    sixth: &[String],
    addresses: &[InterfaceAddress],
    guess: bool,
) -> Vec<IpAddr> {
    let families = [false, true].into_iter();
    match fourth {
        Some(fourth) if !(guess && fourth.is_empty() && sixth.is_empty()) => {
            families.filter_map(|of_sixth| routed(if of_sixth { sixth } else { fourth }, addresses, of_sixth)).collect()
        }
        _ => families.filter_map(|of_sixth| known_outside(addresses, of_sixth)).collect(),
    }
}

/// The first address of the family that the interface of a default route has; where none has one, as with routes that
/// are exchanged over link-local addresses alone (RFC 5549), the loopback interface's.
fn routed(default_routes: &[String], addresses: &[InterfaceAddress], sixth: bool) -> Option<IpAddr> {
    let candidates = || addresses.iter().filter(|one| one.up && one.ip.is_ipv6() == sixth && is_global(&one.ip));
    default_routes.iter().find_map(|route| {
        let on_route = candidates().find(|one| one.interface == *route);
        on_route.or_else(|| candidates().find(|one| one.loopback)).map(|one| one.ip)
    })
}

/// The first address of the family that others may know: what is left where there are no routes to go by.
fn known_outside(addresses: &[InterfaceAddress], sixth: bool) -> Option<IpAddr> {
    let usable = |one: &&InterfaceAddress| {
        one.up && !one.loopback && !one.point_to_point && one.ip.is_ipv6() == sixth && is_global(&one.ip)
    };
    addresses.iter().find(usable).map(|one| one.ip)
}

/// Whether an address can be a node's: not of the host alone, the link alone, a group, or nothing.
fn is_global(address: &IpAddr) -> bool {
    let local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(local || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(interface: &str, ip: &str) -> InterfaceAddress {
        InterfaceAddress {
            interface: interface.to_owned(),
            ip: ip.parse().expect("an address"),
            up: true,
            loopback: interface == "lo",
            point_to_point: interface.starts_with("ppp"),
        }
    }

    fn text(found: Option<IpAddr>) -> String {
        found.map_or_else(|| "none".to_owned(), |ip| ip.to_string())
    }

    #[test]
    fn default_routes_are_told_from_others() {
        let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
        for (line, expected) in [
            (head, None),
            ("eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0", Some("eth0")),
            ("eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0", None),
            ("", None),
        ] {
            assert_eq!(default_route_of_fourth(line), expected, "{line}");
        }
        let (zero, gateway) = ("0".repeat(32), format!("fd{:030x}", 1));
        let sixth = |to: &str, by: &str| format!("{to} 00 {zero} 00 {by} 00000400 00000002 00000000 00000003     eth0");
        assert_eq!(default_route_of_sixth(&sixth(&zero, &gateway)), Some("eth0"));
        assert_eq!(default_route_of_sixth(&sixth(&gateway, &gateway)), None);
        assert_eq!(default_route_of_sixth(&sixth(&zero, &zero)), None, "the kernel's own answer to what has no route");
        assert_eq!(default_route_of_sixth("x y"), None);
    }

    /// NODE-20.
    #[test]
    fn the_address_is_that_of_the_default_routes_interface() {
        let addresses = [
            on("lo", "127.0.0.1"),
            on("lo", "::1"),
            on("lo", "10.9.9.9"),
            on("eth0", "169.254.0.7"),
            on("eth0", "10.0.0.7"),
            on("eth0", "10.0.0.8"),
            on("eth0", "fe80::7"),
            on("eth0", "fd00::7"),
            InterfaceAddress { up: false, ..on("eth1", "10.1.0.7") },
        ];
        for (routes, sixth, expected) in [
            (&["eth0"][..], false, "10.0.0.7"),
            (&["eth0"], true, "fd00::7"),
            (&["eth1"], false, "10.9.9.9"),
            (&["eth1", "eth0"], false, "10.9.9.9"),
            (&["eth1", "eth0"], true, "fd00::7"),
            (&[], false, "none"),
        ] {
            let routes: Vec<String> = routes.iter().map(|&route| route.to_owned()).collect();
            assert_eq!(text(routed(&routes, &addresses, sixth)), expected, "{routes:?}, IPv6 {sixth}");
        }
    }

    #[test]
    fn without_routes_the_first_address_known_outside_counts() {
        let down = InterfaceAddress { up: false, ..on("eth0", "10.0.0.7") };
        let addresses =
            [on("lo", "10.9.9.9"), down, on("ppp0", "10.2.0.7"), on("eth1", "10.1.0.7"), on("eth1", "fe80::7")];
        assert_eq!(text(known_outside(&addresses, false)), "10.1.0.7");
        assert_eq!(text(known_outside(&addresses, true)), "none");
    }
}
