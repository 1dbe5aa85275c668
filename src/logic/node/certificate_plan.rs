//! The node's certificates: with which credentials the agent starts, when a certificate is exchanged, and what the agent
//! asks for. Also when the agent cannot go on without one (NODE-49 … NODE-54).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::logic::model::time::Moment;

/// The organisation of every node.
pub const NODES: &str = "system:nodes";
/// Waits of the first retries after a failed exchange: as upstream, five steps, each twice the one before.
const RETRY_FIRST: Duration = Duration::from_secs(2);
/// How many exchanges are tried in the first row.
const RETRY_STEPS: u32 = 5;
/// The wait of each later one.
const RETRY_LATER: Duration = Duration::from_secs(32);
/// How long the agent goes on without a client certificate while the server answers.
const WITHOUT_MAX: Duration = Duration::from_secs(300);

/// The purpose of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Purpose {
    /// To be known by the API server.
    Client,
    /// To be known by who asks the agent.
    Serving,
}

impl Purpose {
    /// For people: `client`, `serving`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Serving => "serving",
        }
    }

    /// The beginning of its files' names.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Client => "kubelet-client",
            Self::Serving => "kubelet-server",
        }
    }
}

/// The state of the kubeconfig file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KubeconfigState {
    /// None is named: no API server.
    Unset,
    /// It is not there, or cannot be used.
    Unusable,
    /// It can be used, but has no client certificate, or one that has ended.
    WithoutCertificate,
    /// It has a client certificate none of whose chain has ended.
    Valid,
}

/// With which credentials the agent starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartPlan {
    /// No API server.
    Standalone,
    /// With the kubeconfig's.
    UseKubeconfig,
    /// With the kubeconfig's, and a certificate manager that exchanges them.
    UseKubeconfigAndRotate,
    /// Ask for a certificate with the bootstrap credentials, wait for it, write the kubeconfig, use that.
    BootstrapFirst,
    /// Write the kubeconfig at once and go on without a certificate; the manager asks for one with the bootstrap
    /// credentials.
    BootstrapBehind,
    /// Neither file is of use: the agent cannot start.
    Impossible,
}

/// With which credentials to start.
pub fn at_start(kubeconfig: KubeconfigState, bootstrap: bool, rotate: bool) -> StartPlan {
    use KubeconfigState::{Unset, Unusable, Valid, WithoutCertificate};
    match (kubeconfig, bootstrap) {
        (Unset, _) => StartPlan::Standalone,
        (Valid, _) | (WithoutCertificate, false) if rotate => StartPlan::UseKubeconfigAndRotate,
        (Valid, _) | (WithoutCertificate, false) => StartPlan::UseKubeconfig,
        (Unusable, false) => StartPlan::Impossible,
        (Unusable | WithoutCertificate, true) if rotate => StartPlan::BootstrapBehind,
        (Unusable | WithoutCertificate, true) => StartPlan::BootstrapFirst,
    }
}

/// When a certificate is to be exchanged: when 70 to 90 % of its time is over, by `chance` (0..1), so that nodes made
/// together do not ask together for ever after.
pub fn rotation_deadline(not_before: Moment, not_after: Moment, chance: f64) -> Moment {
    not_before.plus(not_after.since(not_before).mul_f64(0.7 + 0.2 * chance.clamp(0.0, 1.0)))
}

/// How long to wait before the next try, after so many failed in a row (one at least). The first waits are longer by up to
/// a tenth, by `chance` (0..1).
pub fn retry_wait(failures: u32, chance: f64) -> Duration {
    match failures.max(1) {
        few @ 1..RETRY_STEPS => RETRY_FIRST.mul_f64(f64::from(1 << (few - 1)) * (1.0 + 0.1 * chance.clamp(0.0, 1.0))),
        _ => RETRY_LATER,
    }
}

/// The consequence of being without a valid client certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Without {
    /// It may still come.
    Bearable,
    /// It should have come; the fault may be the server's, so the agent goes on.
    Unreachable(&'static str),
    /// The agent ends, so that what started it can lay down new credentials.
    Exit(&'static str),
}

/// The consequence of being without a client certificate for so long: none yet, or one that has ended. As upstream, only a
/// server that answers is a reason to end. The texts are upstream's; its other ones, of a certificate that has ended, are
/// for an end without the wait which it never comes to: its manager gives none that has ended.
pub fn without_certificate(since: Duration, server_answers: bool) -> Without {
    match (since > WITHOUT_MAX, server_answers) {
        (false, _) => Without::Bearable,
        (true, true) => Without::Exit("No valid client certificate is found and the server is responsive, exiting."),
        (true, false) => Without::Unreachable(
            "No valid client certificate is found but the server is not responsive. A restart may be necessary to \
             retrieve new initial credentials.",
        ),
    }
}

/// The subject of a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    /// Common name.
    pub common_name: String,
    /// Organisations.
    pub organizations: BTreeSet<String>,
    /// Names of hosts.
    pub dns_names: BTreeSet<String>,
    /// Addresses of hosts.
    pub ip_addresses: BTreeSet<IpAddr>,
}

impl Names {
    /// Those of a node's client certificate.
    pub fn of_client(node: &str) -> Self {
        Self {
            common_name: format!("system:node:{node}"),
            organizations: BTreeSet::from([NODES.to_owned()]),
            ..Self::default()
        }
    }

    /// Those of a node's serving certificate, from the addresses of its status (type and address); `None` while there is
    /// no IP address among them, or nothing at all where names alone will do (gate AllowDNSOnlyNodeCSR).
    pub fn of_server<'a>(
        node: &str,
        addresses: impl IntoIterator<Item = (&'a str, &'a str)>,
        names_alone: bool,
    ) -> Option<Self> {
        let mut names = Self::of_client(node);
        for (kind, address) in addresses {
            match (kind, address.parse::<IpAddr>()) {
                (_, _) if address.is_empty() => {}
                ("Hostname" | "InternalIP" | "ExternalIP", Ok(ip)) => drop(names.ip_addresses.insert(ip)),
                ("Hostname", Err(_)) | ("InternalDNS" | "ExternalDNS", _) => {
                    names.dns_names.insert(address.to_owned());
                }
                _ => {}
            }
        }
        let enough = !names.ip_addresses.is_empty() || (names_alone && !names.dns_names.is_empty());
        enough.then_some(names)
    }

    /// Whether a certificate with these names serves who wants the other ones. More than wanted is no fault.
    pub fn satisfy(&self, wanted: &Self) -> bool {
        self.common_name == wanted.common_name
            && self.organizations.is_superset(&wanted.organizations)
            && self.dns_names.is_superset(&wanted.dns_names)
            && self.ip_addresses.is_superset(&wanted.ip_addresses)
    }
}

/// All that a bootstrapping node asks for, as one text. Its digest names the request, so that the node finds the request
/// again after a restart. `public_key` is the key's SubjectPublicKeyInfo in DER.
pub fn bootstrap_request_text(public_key: &[u8], names: &Names, usages: &[&str]) -> String {
    let mut text = String::new();
    let organizations = names.organizations.iter().map(|name| name.as_bytes());
    let usages = usages.iter().map(|usage| usage.as_bytes());
    for part in [public_key, names.common_name.as_bytes()].into_iter().chain(organizations).chain(usages) {
        text.push_str(&URL_SAFE_NO_PAD.encode(part));
        // Not a letter of the encoding, so that parts cannot run into each other.
        text.push('|');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::KubeconfigState::{Unset, Unusable, Valid, WithoutCertificate};
    use super::StartPlan::*;
    use super::{Names, Without, at_start, bootstrap_request_text};
    use super::{retry_wait, rotation_deadline, without_certificate};
    use crate::logic::model::time::Moment;

    /// NODE-49, NODE-50: the table of credentials at the start.
    #[test]
    fn credentials_at_the_start() {
        for (kubeconfig, bootstrap, rotate, plan) in [
            (Unset, true, true, Standalone),
            (Unset, false, false, Standalone),
            (Valid, false, false, UseKubeconfig),
            (Valid, true, false, UseKubeconfig),
            (Valid, false, true, UseKubeconfigAndRotate),
            (Valid, true, true, UseKubeconfigAndRotate),
            (Unusable, true, false, BootstrapFirst),
            (Unusable, true, true, BootstrapBehind),
            (WithoutCertificate, true, false, BootstrapFirst),
            (WithoutCertificate, true, true, BootstrapBehind),
            (WithoutCertificate, false, false, UseKubeconfig),
            (WithoutCertificate, false, true, UseKubeconfigAndRotate),
            (Unusable, false, false, Impossible),
            (Unusable, false, true, Impossible),
        ] {
            assert_eq!(at_start(kubeconfig, bootstrap, rotate), plan, "{kubeconfig:?} {bootstrap} {rotate}");
        }
    }

    #[test]
    fn retries_are_few_and_fast_then_steady() {
        let waits: Vec<_> = (1..8).map(|failures| retry_wait(failures, 0.0).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 32, 32]);
        assert_eq!(retry_wait(1, 1.0), Duration::from_millis(2200));
    }

    /// NODE-54.
    #[test]
    fn only_an_answering_server_ends_the_agent() {
        let after = |seconds, answers| without_certificate(Duration::from_secs(seconds), answers);
        assert_eq!(after(300, true), Without::Bearable);
        assert!(matches!(after(301, true), Without::Exit(_)));
        assert!(matches!(after(301, false), Without::Unreachable(_)));
    }

    /// NODE-52.
    #[test]
    fn a_serving_certificate_is_for_the_nodes_addresses() {
        let addresses = [
            ("Hostname", "node-1"),
            ("InternalIP", "10.0.0.7"),
            ("ExternalIP", "not an address"),
            ("InternalDNS", "node-1.internal"),
            ("InternalIP", "fd00::7"),
            ("Hostname", "10.0.0.8"),
            ("ExternalDNS", ""),
        ];
        let names = Names::of_server("node-1", addresses, false).expect("it has addresses");
        assert_eq!(names.common_name, "system:node:node-1");
        assert!(names.dns_names.iter().eq(["node-1", "node-1.internal"]));
        let ips: Vec<_> = names.ip_addresses.iter().map(ToString::to_string).collect();
        assert_eq!(ips, ["10.0.0.7", "10.0.0.8", "fd00::7"]);
        assert_eq!(Names::of_server("n", [("Hostname", "n")], false), None);
        assert!(Names::of_server("n", [("Hostname", "n")], true).is_some());
        assert_eq!(Names::of_server("n", [], true), None);
    }

    #[test]
    fn more_names_than_wanted_are_no_fault() {
        let wanted = Names::of_client("n");
        let more = Names::of_server("n", [("InternalIP", "10.0.0.7")], false).expect("an address");
        assert!(more.satisfy(&wanted) && !wanted.satisfy(&more));
        assert!(!Names::of_client("m").satisfy(&wanted));
    }

    #[test]
    fn a_request_has_the_same_text_for_the_same_content() {
        let usages = ["digital signature", "client auth"];
        let text = bootstrap_request_text(b"key", &Names::of_client("n"), &usages);
        let expected = "a2V5|c3lzdGVtOm5vZGU6bg|c3lzdGVtOm5vZGVz|ZGlnaXRhbCBzaWduYXR1cmU|Y2xpZW50IGF1dGg|";
        assert_eq!(text, expected);
        assert_ne!(text, bootstrap_request_text(b"key", &Names::of_client("m"), &usages));
        assert_ne!(text, bootstrap_request_text(b"key", &Names::of_client("n"), &usages[..1]));
    }

    proptest! {
        /// NODE-51.
        #[test]
        fn a_certificate_is_exchanged_between_seven_and_nine_tenths_of_its_time(
            begins in 0i64..4_000_000_000, lasts in 10u64..400_000_000, chance in 0.0f64..1.0,
        ) {
            let not_before = Moment(begins * 1_000_000_000);
            let lasts = Duration::from_secs(lasts);
            let deadline = rotation_deadline(not_before, not_before.plus(lasts), chance);
            let slack = Duration::from_millis(1);
            prop_assert!(deadline >= not_before.plus(lasts.mul_f64(0.7).saturating_sub(slack)));
            prop_assert!(deadline <= not_before.plus(lasts.mul_f64(0.9) + slack));
        }
    }
}
