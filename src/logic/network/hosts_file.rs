//! The content of a container's `/etc/hosts`, which the agent writes and mounts.
//!
//! Two forms: the pod's own names on the pod network; the node's file, copied, on the node's network.

use std::fmt::Write;

use k8s_openapi::api::core::v1::HostAlias;

/// First line of a pod network file. Upstream's text, so that tools that look for it still find it.
const HEADER: &str = "# Kubernetes-managed hosts file.\n";
/// First line of a host network file.
const HEADER_HOST_NETWORK: &str = "# Kubernetes-managed hosts file (host network).\n";
/// The names that every pod has.
const STANDARD_ENTRIES: &str = "127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
";

/// The file of a pod on the pod network: standard names, then the pod's own for each of its addresses.
pub fn pod_network_hosts_file(pod_ips: &[String], hostname: &str, domain: &str, aliases: &[HostAlias]) -> String {
    let mut out = format!("{HEADER}{STANDARD_ENTRIES}");
    for ip in pod_ips {
        let line = if domain.is_empty() {
            writeln!(out, "{ip}\t{hostname}")
        } else {
            writeln!(out, "{ip}\t{hostname}.{domain}\t{hostname}")
        };
        line.expect("invariant: a String takes all text");
    }
    push_aliases(&mut out, aliases);
    out
}

/// The file of a pod on the node's network: the node's own file, whatever bytes it holds, then the pod's aliases.
pub fn host_network_hosts_file(node_file: &[u8], aliases: &[HostAlias]) -> Vec<u8> {
    let mut tail = String::new();
    push_aliases(&mut tail, aliases);
    [HEADER_HOST_NETWORK.as_bytes(), node_file, tail.as_bytes()].concat()
}

/// Appends one line for each alias: the address, then its names.
fn push_aliases(out: &mut String, aliases: &[HostAlias]) {
    if aliases.is_empty() {
        return;
    }
    out.push_str("\n# Entries added by HostAliases.\n");
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        writeln!(out, "{}\t{names}", alias.ip).expect("invariant: a String takes all text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alias(ip: &str, names: &[&str]) -> HostAlias {
        HostAlias { ip: ip.into(), hostnames: Some(names.iter().map(|name| (*name).into()).collect()) }
    }

    const TOP: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n\
        ::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\n\
        fe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

    #[test]
    fn a_pod_on_the_pod_network_finds_its_own_names() {
        let both = ["10.0.0.7".to_owned(), "fd00::7".to_owned()];
        let aliases = [alias("1.2.3.4", &["a", "b.c"]), alias("::5", &["d"])];
        let cases: [(&[String], &str, &[HostAlias], &str); 4] = [
            (&both[..1], "", &[], "10.0.0.7\tweb\n"),
            (&both, "", &[], "10.0.0.7\tweb\nfd00::7\tweb\n"),
            (&both[..1], "sub.ns.svc.cluster.local", &[], "10.0.0.7\tweb.sub.ns.svc.cluster.local\tweb\n"),
            (&both[..1], "", &aliases, "10.0.0.7\tweb\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb.c\n::5\td\n"),
        ];
        for (ips, domain, aliases, tail) in cases {
            assert_eq!(pod_network_hosts_file(ips, "web", domain, aliases), format!("{TOP}{tail}"));
        }
    }

    #[test]
    fn a_pod_on_the_nodes_network_sees_the_nodes_file() {
        let node_file = b"127.0.0.1 localhost\n\xff raw\n";
        let plain = host_network_hosts_file(node_file, &[]);
        assert_eq!(plain, [b"# Kubernetes-managed hosts file (host network).\n".as_slice(), node_file].concat());
        let aliased = host_network_hosts_file(node_file, &[alias("1.2.3.4", &["a"])]);
        assert_eq!(aliased, [plain.as_slice(), b"\n# Entries added by HostAliases.\n1.2.3.4\ta\n"].concat());
    }
}
