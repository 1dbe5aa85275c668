//! The addresses of pods' host: what the API shows as `status.hostIPs`, and what pods on the host's network are reached
//! at (POD-29, NODE-20; upstream's `GetNodeHostIPs`).
//!
//! Pure. The newest Node says them; while there is none, what would be said in it.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeAddress};

use crate::logic::network::node_addresses::{self, AddressFacts, AddressSettings};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostIps(Result<Arc<[IpAddr]>, Arc<str>>);

impl Default for HostIps {
    /// Before anybody has looked.
    fn default() -> Self {
        Self(Err(unknown(&[]).into()))
    }
}

impl HostIps {
    /// Those of the host that `node` stands for: internal addresses come before external ones.
    pub fn of(node: &Node) -> Self {
        let status = node.status.as_ref();
        let all = status.and_then(|status| status.addresses.as_deref()).unwrap_or_default();
        let of_kind = |kind: &'static str| {
            let parsed = |one: &NodeAddress| one.address.parse().ok().map(|ip: IpAddr| ip.to_canonical());
            all.iter().filter(move |one| one.type_ == kind).filter_map(parsed)
        };
        let ips: Arc<[IpAddr]> = of_kind("InternalIP").chain(of_kind("ExternalIP")).collect();
        if ips.is_empty() { Self(Err(unknown(all).into())) } else { Self(Ok(ips)) }
    }

    /// Those of a host whose Node is not known: what the agent itself would say in it.
    pub fn own(settings: &AddressSettings, facts: &AddressFacts) -> Self {
        let mut node = Node::default();
        match node_addresses::set(&mut node, settings, facts) {
            Ok(()) => Self::of(&node),
            Err(problem) => Self(Err(format!("{}: {problem}", unknown(&[])).into())),
        }
    }

    /// These, the primary one first.
    pub fn listed(ips: impl IntoIterator<Item = IpAddr>) -> Self {
        let ips: Arc<[IpAddr]> = ips.into_iter().collect();
        if ips.is_empty() { Self::default() } else { Self(Ok(ips)) }
    }

    /// The primary one, where one is known.
    pub fn primary(&self) -> Option<IpAddr> {
        self.all().first().copied()
    }

    /// The primary one, and the first of the other family where there is one.
    pub fn reported(&self) -> impl Iterator<Item = IpAddr> + Clone + '_ {
        let primary = self.primary();
        let other = self.all().iter().copied().find(|ip| primary.is_some_and(|first| first.is_ipv6() != ip.is_ipv6()));
        primary.into_iter().chain(other)
    }

    /// Whether the host has this address.
    pub fn has(&self, ip: IpAddr) -> bool {
        self.all().contains(&ip.to_canonical())
    }

    /// Why none is known; `None` when one is.
    pub fn problem(&self) -> Option<&str> {
        self.0.as_ref().err().map(AsRef::as_ref)
    }

    fn all(&self) -> &[IpAddr] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// Upstream's text, the addresses in the form that Go gives them.
fn unknown(known: &[NodeAddress]) -> String {
    let known: Vec<String> = known.iter().map(|one| format!("{{{} {}}}", one.type_, one.address)).collect();
    format!("host IP unknown; known addresses: [{}]", known.join(" "))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeStatus;

    use super::*;

    fn node(addresses: &[(&str, &str)]) -> Node {
        let one = |(kind, address): &(&str, &str)| NodeAddress { type_: (*kind).into(), address: (*address).into() };
        let addresses = Some(addresses.iter().map(one).collect());
        Node { status: Some(NodeStatus { addresses, ..NodeStatus::default() }), ..Node::default() }
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    /// POD-29, NODE-20.
    #[test]
    fn internal_addresses_come_first_and_at_most_one_of_each_family_is_shown() {
        let (internal, external) = ("InternalIP", "ExternalIP");
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
        let cases: &[Case] = &[
            (&[(internal, "10.0.0.1"), ("Hostname", "n")], &["10.0.0.1"]),
            (&[(external, "192.168.0.1"), (internal, "10.0.0.1")], &["10.0.0.1"]),
            (&[(external, "192.168.0.1"), ("Hostname", "9.9.9.9")], &["192.168.0.1"]),
            (&[(internal, "10.0.0.1"), (internal, "10.0.0.2")], &["10.0.0.1"]),
            (&[(internal, "fd00::1"), (internal, "fd00::2"), (internal, "10.0.0.1")], &["fd00::1", "10.0.0.1"]),
            (&[(external, "fd00::1"), (internal, "10.0.0.1")], &["10.0.0.1", "fd00::1"]),
            (&[(internal, "no address"), (internal, "::ffff:10.0.0.1")], &["10.0.0.1"]),
        ];
        for (addresses, expected) in cases {
            let host = HostIps::of(&node(addresses));
            assert_eq!(host.reported().collect::<Vec<_>>(), ips(expected), "{addresses:?}");
            assert_eq!((host.primary(), host.problem()), (ips(expected).first().copied(), None), "{addresses:?}");
        }
        let host = HostIps::of(&node(&[(internal, "10.0.0.1"), (internal, "10.0.0.2")]));
        assert!(host.has(ips(&["10.0.0.2"])[0]) && !host.has(ips(&["10.0.0.3"])[0]));
    }

    #[test]
    fn a_host_without_addresses_says_what_is_known() {
        for (addresses, known) in [
            (&[][..], "[]"),
            (&[("Hostname", "n-1"), ("InternalDNS", "n-1.example")], "[{Hostname n-1} {InternalDNS n-1.example}]"),
        ] {
            let host = HostIps::of(&node(addresses));
            let expected = format!("host IP unknown; known addresses: {known}");
            assert_eq!((host.problem(), host.primary()), (Some(&*expected), None));
            assert_eq!(host.reported().count(), 0);
        }
    }

    #[test]
    fn without_a_node_the_addresses_are_what_it_would_say() {
        let facts = AddressFacts { default_routes: ips(&["10.0.0.1", "fd00::1"]), ..AddressFacts::default() };
        let settings = |node_ips: &[&str], external_cloud_provider| AddressSettings {
            hostname: "n-1".to_owned(),
            node_ips: ips(node_ips),
            external_cloud_provider,
            ..AddressSettings::default()
        };
        let primary = |settings: &AddressSettings| HostIps::own(settings, &facts).primary();
        assert_eq!(primary(&settings(&[], false)), Some(ips(&["10.0.0.1"])[0]));
        assert_eq!(primary(&settings(&["::"], false)), Some(ips(&["fd00::1"])[0]));
        // The provider's answer is not known yet.
        let waits = HostIps::own(&settings(&[], true), &facts);
        assert_eq!(waits.problem(), Some("host IP unknown; known addresses: [{Hostname n-1}]"));
        let wrong = HostIps::own(&settings(&["9.9.9.9"], false), &facts);
        let problem = wrong.problem().expect("it is not the host's");
        assert!(problem.ends_with("\"9.9.9.9\" not found in the host's network interfaces"), "{problem}");
    }
}
