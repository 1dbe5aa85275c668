//! `status.addresses`: which addresses the node is reached at (NODE-20, NODE-40).
//!
//! Pure; keeps nothing. The caller hands in the host's addresses and the name server's answer.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeStatus};

/// Tells an external cloud provider which addresses the administrator chose.
pub const PROVIDED_IP_ANNOTATION: &str = "alpha.kubernetes.io/provided-node-ip";

const NO_PAIR: &str = "must contain either a single IP or a dual-stack pair of IPs";

/// The configuration of the node's addresses.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AddressSettings {
    /// The node's host name, which is the node's name too.
    pub hostname: String,
    /// `--node-ip`, two at most; an unspecified one chooses the family alone.
    pub node_ips: Vec<IpAddr>,
    /// `--cloud-provider=external`.
    pub external_cloud_provider: bool,
    /// There is no API server, so nobody with whom to agree on what the node's name stands for: it is not looked up, and
    /// a host without a default route may guess its address for its pods.
    pub standalone: bool,
}

/// The answers of the host and the name server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AddressFacts {
    /// Every address of every network interface.
    pub interfaces: Vec<IpAddr>,
    /// The addresses that the node's name resolves to, in the resolver's order; empty where it was not looked up.
    pub resolved: Vec<IpAddr>,
    /// The name was looked up, and nobody said in time what it stands for.
    pub unresolved: bool,
    /// The addresses of the default routes' interfaces, one of each family at most; empty where they were not asked for.
    pub default_routes: Vec<IpAddr>,
}

/// Reads `--node-ip`: one address, or one of each family; and what of it is no address, which upstream only logs.
///
/// # Errors
/// When the addresses are no pair; upstream's texts.
pub fn parse_node_ips(text: &str) -> Result<(Vec<IpAddr>, Vec<String>), &'static str> {
    let (mut ips, mut invalid): (Vec<IpAddr>, Vec<String>) = (vec![], vec![]);
    for part in text.split(',').map(str::trim).filter(|_| !text.is_empty()) {
        match part.parse() {
            Ok(ip) => ips.push(ip),
            Err(_) => invalid.push(part.to_owned()),
        }
    }
    match ips.as_slice() {
        [one, other] if one.is_ipv4() == other.is_ipv4() => Err(NO_PAIR),
        [one, other] if one.is_unspecified() || other.is_unspecified() => {
            Err("dual-stack node IP cannot include '0.0.0.0' or '::'")
        }
        [] | [_] | [_, _] => Ok((ips, invalid)),
        _ => Err(NO_PAIR),
    }
}

impl AddressSettings {
    /// Whether the node's name has to be looked up: nothing tells an address, and others may know one by that name.
    pub fn needs_lookup(&self) -> bool {
        self.needs_routes() && !self.standalone
    }

    /// Whether the address may have to be that of a default route: neither a flag nor the node's name tells one.
    pub fn needs_routes(&self) -> bool {
        let waits_for_provider = self.external_cloud_provider && self.node_ips.is_empty();
        let tells = self.specified(0).is_some() || self.hostname.parse::<IpAddr>().is_ok();
        !tells && !waits_for_provider
    }

    fn specified(&self, place: usize) -> Option<IpAddr> {
        self.node_ips.get(place).copied().filter(|ip| !ip.is_unspecified())
    }

    /// Whether addresses of the sixth version go first: `--node-ip` begins with one.
    pub fn prefers_sixth(&self) -> bool {
        self.node_ips.first().is_some_and(IpAddr::is_ipv6)
    }
}

/// Sets the addresses, and the annotation that goes with them.
///
/// # Errors
/// When an address that was asked for cannot be the node's, or none was found; the addresses stay as they were.
pub fn set(node: &mut Node, settings: &AddressSettings, facts: &AddressFacts) -> Result<(), String> {
    let (first, second) = (settings.specified(0), settings.specified(1));
    for (named, what) in [(first, "nodeIP"), (second, "secondaryNodeIP")] {
        if let Some(ip) = named {
            validate(ip, &facts.interfaces).map_err(|error| format!("failed to validate {what}: {error}"))?;
        }
    }
    annotate(node, settings);
    let status = node.status.get_or_insert_default();
    let hostname = NodeAddress { type_: "Hostname".to_owned(), address: settings.hostname.clone() };
    if settings.external_cloud_provider {
        // The provider's addresses count. Before it has set them, only those that the administrator named are published.
        if status.addresses.as_ref().is_some_and(|addresses| !addresses.is_empty()) {
            return Ok(());
        }
        if settings.node_ips.is_empty() {
            status.addresses = Some(vec![hostname]);
            return Ok(());
        }
    }
    let internal = match (first, second) {
        (Some(first), Some(second)) => vec![first, second],
        (Some(first), None) => vec![first],
        (None, _) => match published(status, facts).filter(|_| facts.unresolved) {
            Some(ip) => vec![ip],
            None => vec![found(settings, facts)?],
        },
    };
    let internal =
        internal.into_iter().map(|ip| NodeAddress { type_: "InternalIP".to_owned(), address: ip.to_string() });
    status.addresses = Some(internal.chain([hostname]).collect());
    Ok(())
}

fn annotate(node: &mut Node, settings: &AddressSettings) {
    let provided = settings.specified(0).filter(|_| settings.external_cloud_provider);
    match (provided, &mut node.metadata.annotations) {
        (Some(first), annotations) => {
            let second = settings.specified(1).map(|second| format!(",{second}")).unwrap_or_default();
            let value = format!("{first}{second}");
            annotations.get_or_insert_default().insert(PROVIDED_IP_ANNOTATION.to_owned(), value);
        }
        (None, Some(annotations)) => {
            annotations.remove(PROVIDED_IP_ANNOTATION);
        }
        (None, None) => {}
    }
}

/// The internal address that the node has, if the host still has it: it stands while a name server is away.
fn published(status: &NodeStatus, facts: &AddressFacts) -> Option<IpAddr> {
    let internal = status.addresses.iter().flatten().find(|address| address.type_ == "InternalIP")?;
    internal.address.parse().ok().filter(|ip| facts.interfaces.contains(ip))
}

/// The address of a node that was given none: of the name, of the name server, of the default route.
fn found(settings: &AddressSettings, facts: &AddressFacts) -> Result<IpAddr, String> {
    if let Ok(ip) = settings.hostname.parse() {
        return Ok(ip);
    }
    let preferred = |ip: &&IpAddr| ip.is_ipv6() == settings.prefers_sixth();
    let valid: Vec<IpAddr> =
        facts.resolved.iter().copied().filter(|ip| validate(*ip, &facts.interfaces).is_ok()).collect();
    let routed = &facts.default_routes;
    let choices = [valid.iter().find(preferred), valid.first(), routed.iter().find(preferred), routed.first()];
    choices.into_iter().flatten().next().copied().ok_or_else(|| {
        let name = &settings.hostname;
        format!("can't get ip address of node {name}. error: no default routes found")
    })
}

/// Upstream's texts.
fn validate(ip: IpAddr, interfaces: &[IpAddr]) -> Result<(), String> {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let refused = if ip.is_loopback() {
        "nodeIP can't be loopback address"
    } else if ip.is_multicast() {
        "nodeIP can't be a multicast address"
    } else if link_local {
        "nodeIP can't be a link-local unicast address"
    } else if ip.is_unspecified() {
        "nodeIP can't be an all zeros address"
    } else if interfaces.contains(&ip) {
        return Ok(());
    } else {
        return Err(format!("node IP: \"{ip}\" not found in the host's network interfaces"));
    };
    Err(refused.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    fn settings(node_ips: &[&str]) -> AddressSettings {
        AddressSettings { hostname: "node-1".to_owned(), node_ips: ips(node_ips), ..AddressSettings::default() }
    }

    fn facts(resolved: &[&str], routes: &[&str]) -> AddressFacts {
        AddressFacts {
            interfaces: ips(&["127.0.0.1", "10.0.0.1", "10.0.0.2", "fd00::1", "::1"]),
            resolved: ips(resolved),
            unresolved: false,
            default_routes: ips(routes),
        }
    }

    fn addresses(node: &Node) -> Vec<String> {
        let status = node.status.clone().unwrap_or_default();
        status.addresses.into_iter().flatten().map(|one| format!("{}={}", one.type_, one.address)).collect()
    }

    /// NODE-20.
    #[test]
    fn addresses_follow_the_table() {
        // node-ip, resolved, default routes, addresses without the host name
        let cases: &[[&[&str]; 4]] = &[
            [&["10.0.0.1"], &[], &[], &["10.0.0.1"]],
            [&["10.0.0.1", "fd00::1"], &[], &[], &["10.0.0.1", "fd00::1"]],
            [&["fd00::1"], &["10.0.0.1"], &["10.0.0.2"], &["fd00::1"]],
            [&[], &["10.0.0.1"], &["10.0.0.2"], &["10.0.0.1"]],
            [&[], &["fd00::1", "10.0.0.2"], &[], &["10.0.0.2"]],
            [&["0.0.0.0"], &["fd00::1", "10.0.0.2"], &[], &["10.0.0.2"]],
            [&["::"], &["10.0.0.2", "fd00::1"], &[], &["fd00::1"]],
            [&[], &["fd00::1"], &["10.0.0.2"], &["fd00::1"]],
            [&[], &["127.0.0.1", "9.9.9.9"], &["10.0.0.2", "fd00::1"], &["10.0.0.2"]],
            [&["::"], &["127.0.0.1"], &["10.0.0.2", "fd00::1"], &["fd00::1"]],
            [&["::"], &[], &["10.0.0.2"], &["10.0.0.2"]],
        ];
        for [node_ips, resolved, routes, expected] in cases {
            let mut node = Node::default();
            set(&mut node, &settings(node_ips), &facts(resolved, routes)).expect("found");
            let mut expected: Vec<String> = expected.iter().map(|ip| format!("InternalIP={ip}")).collect();
            expected.push("Hostname=node-1".to_owned());
            assert_eq!(addresses(&node), expected, "{node_ips:?} {resolved:?} {routes:?}");
        }
    }

    /// NODE-20.
    #[test]
    fn a_name_server_that_is_away_changes_no_address() {
        let away = |routes: &[&str]| AddressFacts { unresolved: true, ..facts(&[], routes) };
        let mut node = Node::default();
        set(&mut node, &settings(&[]), &away(&["10.0.0.2"])).expect("there is a route");
        assert_eq!(addresses(&node), ["InternalIP=10.0.0.2", "Hostname=node-1"], "it has none yet");
        set(&mut node, &settings(&[]), &facts(&["10.0.0.1"], &["10.0.0.2"])).expect("there is a name");
        set(&mut node, &settings(&[]), &away(&["10.0.0.2"])).expect("it has one");
        assert_eq!(addresses(&node), ["InternalIP=10.0.0.1", "Hostname=node-1"]);
        let moved = AddressFacts { interfaces: ips(&["10.0.0.2"]), ..away(&["10.0.0.2"]) };
        set(&mut node, &settings(&[]), &moved).expect("there is a route");
        assert_eq!(addresses(&node), ["InternalIP=10.0.0.2", "Hostname=node-1"], "the host has it no more");
    }

    #[test]
    fn node_ips_are_one_or_a_pair() {
        for (text, expected, invalid) in [
            ("", vec![], 0),
            ("10.0.0.1", vec!["10.0.0.1"], 0),
            ("fd00::1, 10.0.0.1", vec!["fd00::1", "10.0.0.1"], 0),
            ("x,10.0.0.1", vec!["10.0.0.1"], 1),
            ("::", vec!["::"], 0),
        ] {
            let (found, wrong) = parse_node_ips(text).expect(text);
            assert_eq!((found, wrong.len()), (ips(&expected), invalid), "{text}");
        }
        for (text, error) in [
            ("10.0.0.1,10.0.0.2", NO_PAIR),
            ("10.0.0.1,fd00::1,fd00::2", NO_PAIR),
            ("0.0.0.0,fd00::1", "dual-stack node IP cannot include '0.0.0.0' or '::'"),
        ] {
            assert_eq!(parse_node_ips(text), Err(error), "{text}");
        }
    }

    /// NODE-20.
    #[test]
    fn a_name_that_is_an_address_is_the_address() {
        let mut node = Node::default();
        let settings = AddressSettings { hostname: "10.0.0.9".to_owned(), ..settings(&[]) };
        assert!(!settings.needs_lookup());
        set(&mut node, &settings, &facts(&["10.0.0.1"], &[])).expect("found");
        assert_eq!(addresses(&node), ["InternalIP=10.0.0.9", "Hostname=10.0.0.9"]);
    }

    /// NODE-20.
    #[test]
    fn an_address_that_cannot_be_the_nodes_changes_nothing() {
        for (node_ips, error) in [
            (vec!["127.0.0.1"], "failed to validate nodeIP: nodeIP can't be loopback address"),
            (vec!["224.0.0.1"], "failed to validate nodeIP: nodeIP can't be a multicast address"),
            (vec!["fe80::1"], "failed to validate nodeIP: nodeIP can't be a link-local unicast address"),
            (
                vec!["9.9.9.9"],
                "failed to validate nodeIP: node IP: \"9.9.9.9\" not found in the host's network interfaces",
            ),
            (
                vec!["10.0.0.1", "fd00::2"],
                "failed to validate secondaryNodeIP: node IP: \"fd00::2\" not found in the host's network interfaces",
            ),
            (vec![], "can't get ip address of node node-1. error: no default routes found"),
        ] {
            let mut node = Node::default();
            set(&mut node, &settings(&["10.0.0.2"]), &facts(&[], &[])).expect("good");
            let before = node.clone();
            assert_eq!(set(&mut node, &settings(&node_ips), &facts(&[], &[])), Err(error.to_owned()));
            assert_eq!(node, before, "{node_ips:?}");
        }
    }

    /// NODE-40.
    #[test]
    fn an_external_providers_addresses_are_left_alone() {
        let external = |node_ips: &[&str]| AddressSettings { external_cloud_provider: true, ..settings(node_ips) };
        let annotation =
            |node: &Node| node.metadata.annotations.as_ref().and_then(|all| all.get(PROVIDED_IP_ANNOTATION)).cloned();
        let mut node = Node::default();
        assert!(!external(&[]).needs_lookup());
        set(&mut node, &external(&[]), &facts(&["10.0.0.1"], &["10.0.0.2"])).expect("good");
        assert_eq!((addresses(&node), annotation(&node)), (vec!["Hostname=node-1".to_owned()], None));
        set(&mut node, &external(&["10.0.0.1", "fd00::1"]), &facts(&[], &[])).expect("good");
        assert_eq!(addresses(&node), ["Hostname=node-1"], "there are addresses");
        assert_eq!(annotation(&node).as_deref(), Some("10.0.0.1,fd00::1"));
        let mut fresh = Node::default();
        set(&mut fresh, &external(&["10.0.0.1"]), &facts(&[], &[])).expect("good");
        assert_eq!(addresses(&fresh), ["InternalIP=10.0.0.1", "Hostname=node-1"]);
        assert_eq!(annotation(&fresh).as_deref(), Some("10.0.0.1"));
        set(&mut fresh, &settings(&["10.0.0.1"]), &facts(&[], &[])).expect("good");
        assert_eq!(annotation(&fresh), None, "there is no provider any more");
        assert!(external(&["::"]).needs_lookup() && settings(&[]).needs_lookup());
        let standalone = AddressSettings { standalone: true, ..settings(&[]) };
        assert!(!standalone.needs_lookup(), "nobody else knows the node");
    }
}
