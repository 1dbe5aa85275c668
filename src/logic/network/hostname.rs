//! A pod's host name and domain: what its kernel, its `/etc/hosts` and its resolver call it.

use k8s_openapi::api::core::v1::PodSpec;

use crate::logic::formats::dns_label::{label_problems, subdomain_problems};
use crate::logic::formats::go_text::quoted;

/// Longest host name, in bytes: the kernel takes 64 with the closing zero.
const HOSTNAME_MAX: usize = 63;
/// Longest fully qualified name that the kernel's `nodename` field takes, in bytes.
const FQDN_MAX: usize = 64;

/// Why a pod has no valid host name. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostnameError {
    /// A field of the specification is no valid name.
    #[error("pod {field} {} is not a valid DNS {kind}: {}", quoted(value), problems.join(";"))]
    Invalid {
        /// `Hostname`, `HostnameOverride` or `Subdomain`.
        field: &'static str,
        /// `label` or `subdomain`.
        kind: &'static str,
        /// The content of the field.
        value: String,
        /// The faults of the value.
        problems: Vec<String>,
    },
    /// Nothing is left once the name was cut.
    #[error("hostname for pod {} was invalid: {}", quoted(pod), quoted(hostname))]
    Empty {
        /// The pod's name.
        pod: String,
        /// The name before the cut.
        hostname: String,
    },
    /// `setHostnameAsFQDN` asks for a longer name than the kernel takes.
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long ({FQDN_MAX} \
         characters is the max, {} characters requested)",
        fqdn.len()
    )]
    FqdnTooLong {
        /// The whole name.
        fqdn: String,
    },
}

/// A pod's host name, and its domain if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PodHostname {
    /// The short name, at most 63 bytes.
    pub hostname: String,
    /// `<subdomain>.<namespace>.svc.<cluster domain>`; empty without a subdomain.
    pub domain: String,
}

/// The node's rules for the names of its pods.
#[derive(Clone, Copy, Debug)]
pub struct Naming<'a> {
    /// `clusterDomain`.
    pub cluster_domain: &'a str,
    /// Whether `spec.hostnameOverride` counts for nothing (gate `HostnameOverride`).
    pub ignores_override: bool,
}

impl PodHostname {
    /// The name of the pod `pod_name` in `namespace`: `spec.hostnameOverride` (KEP-4762), which has no domain, unless its
    /// gate is off; or else `spec.hostname`, or else the pod's own name; cut to what the kernel takes.
    ///
    /// # Errors
    /// When a field is no valid DNS name, or nothing is left of the name.
    pub fn of(pod_name: &str, namespace: &str, spec: &PodSpec, naming: Naming<'_>) -> Result<Self, HostnameError> {
        if let Some(hostname) = spec.hostname_override.as_ref().filter(|_| !naming.ignores_override) {
            check("HostnameOverride", "subdomain", hostname, subdomain_problems)?;
            return Ok(Self { hostname: cut(pod_name, hostname)?, domain: String::new() });
        }
        let own = spec.hostname.as_deref().filter(|hostname| !hostname.is_empty());
        if let Some(hostname) = own {
            check("Hostname", "label", hostname, label_problems)?;
        }
        let hostname = cut(pod_name, own.unwrap_or(pod_name))?;
        let domain = match spec.subdomain.as_deref().filter(|subdomain| !subdomain.is_empty()) {
            Some(subdomain) => {
                check("Subdomain", "label", subdomain, label_problems)?;
                format!("{subdomain}.{namespace}.svc.{}", naming.cluster_domain)
            }
            None => String::new(),
        };
        Ok(Self { hostname, domain })
    }

    /// The hostname in the pod's kernel: the short name, or the whole one if `as_fqdn` (`setHostnameAsFQDN`) and there is
    /// a domain.
    ///
    /// # Errors
    /// When the whole name is longer than 64 bytes.
    pub fn for_kernel(&self, as_fqdn: bool) -> Result<String, HostnameError> {
        if !as_fqdn || self.domain.is_empty() {
            return Ok(self.hostname.clone());
        }
        let fqdn = format!("{}.{}", self.hostname, self.domain);
        if fqdn.len() > FQDN_MAX { Err(HostnameError::FqdnTooLong { fqdn }) } else { Ok(fqdn) }
    }
}

fn check(
    field: &'static str,
    kind: &'static str,
    value: &str,
    problems_of: impl Fn(&str) -> Vec<String>,
) -> Result<(), HostnameError> {
    let problems = problems_of(value);
    if problems.is_empty() {
        return Ok(());
    }
    Err(HostnameError::Invalid { field, kind, value: value.to_owned(), problems })
}

/// Cuts to 63 bytes; a cut name must not end in a dash or a dot.
fn cut(pod_name: &str, hostname: &str) -> Result<String, HostnameError> {
    if hostname.len() <= HOSTNAME_MAX {
        return Ok(hostname.to_owned());
    }
    let end = (0..=HOSTNAME_MAX).rev().find(|end| hostname.is_char_boundary(*end)).unwrap_or(0);
    let short = hostname[..end].trim_end_matches(['-', '.']);
    if short.is_empty() {
        return Err(HostnameError::Empty { pod: pod_name.to_owned(), hostname: hostname.to_owned() });
    }
    Ok(short.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(hostname: &str, subdomain: &str, over: Option<&str>) -> PodSpec {
        PodSpec {
            hostname: (!hostname.is_empty()).then(|| hostname.into()),
            subdomain: (!subdomain.is_empty()).then(|| subdomain.into()),
            hostname_override: over.map(Into::into),
            ..PodSpec::default()
        }
    }

    fn of(pod_name: &str, spec: &PodSpec) -> Result<(String, String), String> {
        named(pod_name, spec, false)
    }

    fn named(pod_name: &str, spec: &PodSpec, ignores_override: bool) -> Result<(String, String), String> {
        PodHostname::of(pod_name, "ns", spec, Naming { cluster_domain: "cluster.local", ignores_override })
            .map(|name| (name.hostname, name.domain))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_gate_that_is_off_leaves_an_override_out() {
        let over = spec("host", "sub", Some("over.example.com"));
        let (own, domain) = ("host".to_owned(), "sub.ns.svc.cluster.local".to_owned());
        assert_eq!(named("web", &over, true), Ok((own, domain)));
        assert_eq!(named("web", &spec("", "", Some("no name")), true), Ok(("web".to_owned(), String::new())));
    }

    #[test]
    fn the_name_comes_from_override_hostname_or_pod_name() {
        let x63 = "x".repeat(63);
        let long = format!("{}-.-.yyy", "x".repeat(60));
        let cases = [
            ("web", spec("", "", None), "web", ""),
            ("web.1", spec("", "", None), "web.1", ""),
            ("web", spec("host", "", None), "host", ""),
            ("web", spec("host", "sub", None), "host", "sub.ns.svc.cluster.local"),
            ("web", spec("", "sub", None), "web", "sub.ns.svc.cluster.local"),
            ("web", spec("host", "sub", Some("over.example.com")), "over.example.com", ""),
            (&x63, spec("", "", None), &x63, ""),
            (&format!("{x63}y"), spec("", "", None), &x63, ""),
            (&long, spec("", "", None), &"x".repeat(60), ""),
            ("web", spec("", "", Some(&format!("{}.{}", "x".repeat(62), "y"))), &"x".repeat(62), ""),
        ];
        for (pod_name, spec, hostname, domain) in cases {
            assert_eq!(of(pod_name, &spec), Ok((hostname.into(), domain.into())), "{pod_name} {:?}", spec.hostname);
        }
    }

    #[test]
    fn invalid_names_are_refused_in_upstreams_words() {
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
            start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
            '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        let cases = [
            (spec("A", "", None), format!("pod Hostname \"A\" is not a valid DNS label: {label}")),
            (spec("a.b", "", None), "pod Hostname \"a.b\" is not a valid DNS label: must not contain dots".into()),
            (spec("", "-", None), format!("pod Subdomain \"-\" is not a valid DNS label: {label}")),
        ];
        for (spec, text) in cases {
            assert_eq!(of("web", &spec), Err(text));
        }
        assert!(
            of("web", &spec("", "", Some(""))).unwrap_err().starts_with("pod HostnameOverride \"\" is not a valid DNS")
        );
        let dots = "-".repeat(64);
        assert_eq!(of(&dots, &spec("", "", None)), Err(format!("hostname for pod \"{dots}\" was invalid: \"{dots}\"")));
    }

    #[test]
    fn the_kernel_takes_64_bytes_of_a_full_name() {
        let name = |length: usize| PodHostname { hostname: "h".into(), domain: "d".repeat(length) };
        assert_eq!(name(62).for_kernel(true).map(|fqdn| fqdn.len()), Ok(64));
        assert_eq!(name(63).for_kernel(false), Ok("h".into()));
        assert_eq!(name(0).for_kernel(true), Ok("h".into()));
        assert_eq!(
            name(63).for_kernel(true).unwrap_err().to_string(),
            format!(
                "failed to construct FQDN from pod hostname and cluster domain, FQDN h.{} is too long (64 characters \
                 is the max, 65 characters requested)",
                "d".repeat(63)
            )
        );
    }

    proptest::proptest! {
        #[test]
        fn a_name_never_exceeds_the_limit_nor_ends_badly(pod_name in "[a-z]([-.a-z0-9]{0,250}[a-z0-9])?") {
            let (hostname, _) = of(&pod_name, &spec("", "", None)).unwrap();
            proptest::prop_assert!((1..=63).contains(&hostname.len()));
            proptest::prop_assert!(pod_name.starts_with(&hostname) && !hostname.ends_with(['-', '.']));
        }
    }
}
