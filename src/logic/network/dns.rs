//! A pod's resolver: which servers, search domains and options its `resolv.conf` gets.
//!
//! Order, fall-backs and limits are upstream's (`pkg/kubelet/network/dns`). Where upstream leaves the order of options
//! open, ours is that of first mention.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig};

use crate::logic::events::reasons::EventReason;
use crate::logic::formats::dns_label::SUBDOMAIN_MAX;
use crate::logic::formats::go_text::quoted;
use crate::logic::network::hostname::Naming;

/// Most name servers.
const SERVERS_MAX: usize = 3;
/// Most search domains.
const SEARCHES_MAX: usize = 32;
/// How many search domains the cluster adds.
const CLUSTER_SEARCHES: usize = 3;
/// Most bytes of the search domains, joined by spaces.
const SEARCH_LINE_MAX: usize = 2048;

/// Servers, search domains and options: a `resolv.conf`, parsed or to be written.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Resolver {
    /// Addresses of name servers.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// `name:value` or `name`.
    pub options: Vec<String>,
}

/// Why a `resolv.conf` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolvConfError {
    /// A `nameserver` line names none. The text, trailing space included, is upstream's.
    #[error("Encountered error while parsing resolv conf file. Error: nameserver list is empty ")]
    NoAddress,
}

impl Resolver {
    /// Reads the text of a `resolv.conf`: name servers add up, the last `search` line wins, a later option of the same
    /// name replaces an earlier one.
    ///
    /// # Errors
    /// When a `nameserver` line has no address.
    pub fn parse(text: &str) -> Result<Self, ResolvConfError> {
        let mut resolver = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let mut fields = line.split_whitespace();
            match fields.next() {
                Some("nameserver") => {
                    resolver.servers.push(fields.next().ok_or(ResolvConfError::NoAddress)?.to_owned());
                }
                Some("search") => {
                    // With and without the root's dot it is the same domain and must count once against the limit.
                    let domains = fields.filter(|domain| *domain != ".");
                    resolver.searches =
                        domains.map(|domain| domain.strip_suffix('.').unwrap_or(domain).to_owned()).collect();
                }
                Some("options") => fields.for_each(|option| put_option(&mut resolver.options, option.to_owned())),
                _ => {}
            }
        }
        Ok(resolver)
    }
}

/// The configuration of names.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DnsSettings {
    /// `resolvConf`: where the node's resolver configuration is; `None` when it is empty. It is read for each sandbox anew:
    /// what writes it may come after the agent, and write it again.
    pub resolv_conf: Option<String>,
    /// `clusterDNS`.
    pub cluster_dns: Vec<IpAddr>,
    /// `clusterDomain`; may be empty.
    pub cluster_domain: String,
    /// `--node-ip`.
    pub node_ips: Vec<IpAddr>,
    /// Whether the gate `HostnameOverride` is off.
    pub ignores_hostname_override: bool,
}

impl DnsSettings {
    /// The rules for names of pods.
    pub fn naming(&self) -> Naming<'_> {
        Naming { cluster_domain: &self.cluster_domain, ignores_override: self.ignores_hostname_override }
    }

    /// With what the node's `resolv.conf` says now.
    pub fn with_host(&self, host: Option<Resolver>) -> NodeDns {
        let Self { cluster_dns, cluster_domain, node_ips, ignores_hostname_override, .. } = self.clone();
        NodeDns { host, cluster_dns, cluster_domain, node_ips, ignores_hostname_override }
    }
}

/// The node's own facts about names.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeDns {
    /// The node's `resolv.conf`; `None` when the configuration names none (`resolvConf: ""`).
    pub host: Option<Resolver>,
    /// `clusterDNS`.
    pub cluster_dns: Vec<IpAddr>,
    /// `clusterDomain`; may be empty.
    pub cluster_domain: String,
    /// `--node-ip`.
    pub node_ips: Vec<IpAddr>,
    /// Whether the gate `HostnameOverride` is off.
    pub ignores_hostname_override: bool,
}

impl NodeDns {
    /// The rules for names of pods.
    pub fn naming(&self) -> Naming<'_> {
        Naming { cluster_domain: &self.cluster_domain, ignores_override: self.ignores_hostname_override }
    }
}

/// A Warning event that the caller records: on the pod, and on the node where told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsWarning {
    /// `DNSConfigForming` or `MissingClusterDNS`.
    pub reason: EventReason,
    /// Message of the pod's event.
    pub pod_message: String,
    /// Message of the node's event.
    pub node_message: Option<String>,
}

/// The resolver of `pod`, and what there is to warn of.
pub fn pod_dns(pod: &Pod, node: &NodeDns) -> (Resolver, Vec<DnsWarning>) {
    let mut warnings = Vec::new();
    let host = || node.host.clone().unwrap_or_else(|| loopback(&node.node_ips));
    let mut resolver = match base(pod) {
        Base::None => Resolver::default(),
        Base::Cluster if !node.cluster_dns.is_empty() => cluster(pod, node),
        Base::Cluster => {
            warnings.push(missing_cluster_dns(pod));
            host()
        }
        Base::Host => host(),
    };
    if let Some(own) = pod.spec.as_ref().and_then(|spec| spec.dns_config.as_ref()) {
        append(&mut resolver, own);
    }
    warnings.extend(limit_servers(&mut resolver.servers));
    warnings.extend(limit_searches(&mut resolver.searches));
    (resolver, warnings)
}

enum Base {
    None,
    Cluster,
    Host,
}

/// An unknown policy counts as `ClusterFirst` without a look at the network, as upstream; an absent one is the API's
/// default.
fn base(pod: &Pod) -> Base {
    let spec = pod.spec.as_ref();
    let host_network = spec.and_then(|spec| spec.host_network).unwrap_or(false);
    match spec.and_then(|spec| spec.dns_policy.as_deref()).unwrap_or_default() {
        "None" => Base::None,
        "Default" => Base::Host,
        "ClusterFirst" | "" if host_network => Base::Host,
        _ => Base::Cluster,
    }
}

fn cluster(pod: &Pod, node: &NodeDns) -> Resolver {
    let mut searches = Vec::new();
    let domain = &node.cluster_domain;
    if !domain.is_empty() {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
    }
    searches.extend(node.host.iter().flat_map(|host| host.searches.iter().cloned()));
    if !domain.is_empty() {
        searches = unique(searches);
    }
    Resolver {
        servers: node.cluster_dns.iter().map(ToString::to_string).collect(),
        searches,
        options: vec!["ndots:5".to_owned()],
    }
}

/// Without a file the resolver is this machine, one address for each of the node's, and lookups search nothing.
fn loopback(node_ips: &[IpAddr]) -> Resolver {
    let mut servers =
        node_ips.iter().map(|ip| if ip.is_ipv6() { "::1" } else { "127.0.0.1" }.to_owned()).collect::<Vec<_>>();
    if servers.is_empty() {
        servers.push("127.0.0.1".to_owned());
    }
    Resolver { servers, searches: vec![".".to_owned()], options: Vec::new() }
}

fn append(resolver: &mut Resolver, own: &PodDNSConfig) {
    resolver.servers.extend(own.nameservers.iter().flatten().cloned());
    resolver.servers = unique(std::mem::take(&mut resolver.servers));
    resolver.searches.extend(own.searches.iter().flatten().cloned());
    resolver.searches = unique(std::mem::take(&mut resolver.searches));
    for option in own.options.iter().flatten() {
        let name = option.name.as_deref().unwrap_or_default();
        let option = match option.value.as_deref().unwrap_or_default() {
            "" => name.to_owned(),
            value => format!("{name}:{value}"),
        };
        put_option(&mut resolver.options, option);
    }
}

/// Replaces the option of the same name, or appends.
fn put_option(options: &mut Vec<String>, option: String) {
    let name = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    match options.iter_mut().find(|known| name(known) == name(&option)) {
        Some(known) => *known = option,
        None => options.push(option),
    }
}

fn unique(texts: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    texts.into_iter().filter(|text| seen.insert(text.clone())).collect()
}

fn limit_servers(servers: &mut Vec<String>) -> Option<DnsWarning> {
    if servers.len() <= SERVERS_MAX {
        return None;
    }
    servers.truncate(SERVERS_MAX);
    Some(forming(format!(
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
        servers.join(" ")
    )))
}

/// A resolver library may abort at a too long search path. So a path that is too long goes first, then those at the end of a
/// too long line.
fn limit_searches(searches: &mut Vec<String>) -> Option<DnsWarning> {
    let before = searches.len();
    searches.truncate(SEARCHES_MAX);
    searches.retain(|search| search.len() <= SUBDOMAIN_MAX);
    while searches.join(" ").len() > SEARCH_LINE_MAX {
        searches.pop();
    }
    (searches.len() < before).then(|| {
        forming(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            searches.join(" ")
        ))
    })
}

/// The fault in the search domains of the node's `resolv.conf`, told as an Event of the node when the agent starts
/// (upstream's `CheckLimitsForResolvConf`); the first finding alone. The cluster's own domains need room for three.
pub fn resolv_conf_problem(path: &str, text: &str, cluster_domain: &str) -> Option<String> {
    let searches = match Resolver::parse(text) {
        Ok(resolver) => resolver.searches,
        Err(ResolvConfError::NoAddress) => return Some("nameserver list is empty ".to_owned()),
    };
    let most = if cluster_domain.is_empty() { SEARCHES_MAX } else { SEARCHES_MAX - CLUSTER_SEARCHES };
    if searches.len() > most {
        return Some(format!("Resolv.conf file '{path}' contains search line consisting of more than {most} domains!"));
    }
    if searches.iter().any(|search| search.len() > SUBDOMAIN_MAX) {
        return Some(format!(
            "Resolv.conf file {} contains a search path which length is more than allowed {SUBDOMAIN_MAX} chars!",
            quoted(path)
        ));
    }
    (searches.join(" ").len() > SEARCH_LINE_MAX).then(|| {
        format!(
            "Resolv.conf file '{path}' contains search line which length is more than allowed {SEARCH_LINE_MAX} chars!"
        )
    })
}

fn forming(pod_message: String) -> DnsWarning {
    DnsWarning { reason: EventReason::DNSConfigForming, pod_message, node_message: None }
}

fn missing_cluster_dns(pod: &Pod) -> DnsWarning {
    let on_node = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
        Falling back to \"Default\" policy.";
    let metadata = &pod.metadata;
    let [name, namespace, uid] =
        [&metadata.name, &metadata.namespace, &metadata.uid].map(|part| part.as_deref().unwrap_or_default());
    DnsWarning {
        reason: EventReason::MissingClusterDNS,
        pod_message: format!("pod: {}. {on_node}", quoted(&format!("{name}_{namespace}({uid})"))),
        node_message: Some(on_node.to_owned()),
    }
}

#[cfg(test)]
mod tests;
