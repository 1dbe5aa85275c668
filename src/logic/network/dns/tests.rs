//! Tables and properties of a pod's resolver.

use k8s_openapi::api::core::v1::{PodDNSConfigOption, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn resolver(servers: &str, searches: &str, options: &str) -> Resolver {
    Resolver { servers: words(servers), searches: words(searches), options: words(options) }
}

fn pod(policy: &str, host_network: bool) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some("web".into()),
            namespace: Some("ns".into()),
            uid: Some("u-1".into()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            dns_policy: (!policy.is_empty()).then(|| policy.into()),
            host_network: Some(host_network),
            ..PodSpec::default()
        }),
        status: None,
    }
}

fn with_config(mut pod: Pod, servers: &str, searches: &str, options: &[(&str, Option<&str>)]) -> Pod {
    let options = options
        .iter()
        .map(|(name, value)| PodDNSConfigOption { name: Some((*name).into()), value: value.map(Into::into) });
    pod.spec.as_mut().unwrap().dns_config = Some(PodDNSConfig {
        nameservers: Some(words(servers)),
        searches: Some(words(searches)),
        options: Some(options.collect()),
    });
    pod
}

fn node() -> NodeDns {
    NodeDns {
        host: Some(resolver("1.1.1.1", "corp.example svc.cluster.local", "timeout:2 rotate")),
        cluster_dns: vec!["10.96.0.10".parse().unwrap()],
        cluster_domain: "cluster.local".into(),
        node_ips: vec!["192.0.2.1".parse().unwrap()],
        ignores_hostname_override: false,
    }
}

#[test]
fn a_resolv_conf_is_read_as_upstream_does() {
    let cases = [
        ("", resolver("", "", "")),
        ("# nameserver 9.9.9.9\n\nnameserver 1.1.1.1 ignored\nnameserver ::1", resolver("1.1.1.1 ::1", "", "")),
        ("  nameserver\t1.1.1.1  \n", resolver("1.1.1.1", "", "")),
        ("search a b\nsearch c. . d.e.", resolver("", "c d.e", "")),
        ("search a\nsearch", resolver("", "", "")),
        ("options ndots:2 rotate\noptions ndots:3 ndots:4", resolver("", "", "ndots:4 rotate")),
        ("domain x\nsortlist y\n; nameserver 1.1.1.1", resolver("", "", "")),
    ];
    for (text, expected) in cases {
        assert_eq!(Resolver::parse(text), Ok(expected), "{text:?}");
    }
    assert_eq!(Resolver::parse("nameserver 1.1.1.1\nnameserver"), Err(ResolvConfError::NoAddress));
}

#[test]
fn the_policy_chooses_the_base() {
    let cluster =
        resolver("10.96.0.10", "ns.svc.cluster.local svc.cluster.local cluster.local corp.example", "ndots:5");
    let host = node().host.unwrap();
    let cases = [
        ("ClusterFirst", false, cluster.clone()),
        ("", false, cluster.clone()),
        ("ClusterFirst", true, host.clone()),
        ("", true, host.clone()),
        ("ClusterFirstWithHostNet", true, cluster.clone()),
        ("Default", false, host.clone()),
        ("Default", true, host),
        ("None", false, resolver("", "", "")),
        ("Nonsense", true, cluster),
    ];
    for (policy, host_network, expected) in cases {
        assert_eq!(pod_dns(&pod(policy, host_network), &node()), (expected, vec![]), "{policy} {host_network}");
    }
}

#[test]
fn without_a_cluster_domain_the_hosts_searches_stay() {
    let node = NodeDns { cluster_domain: String::new(), ..node() };
    let (found, _) = pod_dns(&pod("ClusterFirst", false), &node);
    assert_eq!(found, resolver("10.96.0.10", "corp.example svc.cluster.local", "ndots:5"));
}

#[test]
fn without_cluster_dns_the_pod_falls_back_with_a_warning() {
    let node = NodeDns { cluster_dns: vec![], ..node() };
    let (found, warnings) = pod_dns(&pod("ClusterFirst", false), &node);
    assert_eq!(Some(found), node.host);
    let text = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
                Falling back to \"Default\" policy.";
    let expected = DnsWarning {
        reason: EventReason::MissingClusterDNS,
        pod_message: format!("pod: \"web_ns(u-1)\". {text}"),
        node_message: Some(text.into()),
    };
    assert_eq!(warnings, [expected]);
}

#[test]
fn without_a_resolv_conf_lookups_go_to_the_node_itself() {
    let cases: [(&[&str], &str); 4] = [
        (&[], "127.0.0.1"),
        (&["192.0.2.1"], "127.0.0.1"),
        (&["fd00::1"], "::1"),
        (&["192.0.2.1", "fd00::1"], "127.0.0.1 ::1"),
    ];
    for (ips, servers) in cases {
        let node_ips = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        let node = NodeDns { host: None, node_ips, ..node() };
        assert_eq!(pod_dns(&pod("Default", false), &node).0, resolver(servers, ".", ""), "{ips:?}");
    }
    let (found, _) = pod_dns(&pod("ClusterFirst", false), &NodeDns { host: None, ..node() });
    assert_eq!(found.searches, words("ns.svc.cluster.local svc.cluster.local cluster.local"));
}

#[test]
fn the_pods_own_settings_are_appended() {
    let options = [("ndots", Some("2")), ("rotate", None), ("edns0", Some(""))];
    let own = with_config(pod("ClusterFirst", false), "9.9.9.9 10.96.0.10", "cluster.local own.example", &options);
    let (found, warnings) = pod_dns(&own, &node());
    let searches = "ns.svc.cluster.local svc.cluster.local cluster.local corp.example own.example";
    assert_eq!(found, resolver("10.96.0.10 9.9.9.9", searches, "ndots:2 rotate edns0"));
    assert_eq!(warnings, []);

    let alone = with_config(pod("None", false), "9.9.9.9", "", &[]);
    assert_eq!(pod_dns(&alone, &node()).0, resolver("9.9.9.9", "", ""));
}

#[test]
fn too_many_servers_are_cut_with_a_warning() {
    let own = with_config(pod("None", false), "1.1.1.1 2.2.2.2 3.3.3.3 4.4.4.4", "", &[]);
    let (found, warnings) = pod_dns(&own, &node());
    assert_eq!(found.servers, words("1.1.1.1 2.2.2.2 3.3.3.3"));
    let text = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: \
                1.1.1.1 2.2.2.2 3.3.3.3";
    assert_eq!(warnings, [forming(text.into())]);
}

#[test]
fn too_long_search_lines_are_cut_with_a_warning() {
    let long = |letter: &str, length: usize| letter.repeat(length);
    let many = (0..33).map(|number| format!("d{number}")).collect::<Vec<_>>().join(" ");
    // Eight of 253 and their spaces are 2031 bytes: one of 16 more fits exactly, one of 17 does not.
    let eight = (0..8).map(|number| long(&number.to_string(), 253)).collect::<Vec<_>>().join(" ");
    let cases = [
        (many.clone(), words(&many)[..32].to_vec(), true),
        (format!("a {} b", long("x", 254)), words("a b"), true),
        (format!("a {} b", long("x", 253)), words(&format!("a {} b", long("x", 253))), false),
        (format!("{eight} {}", long("y", 16)), words(&format!("{eight} {}", long("y", 16))), false),
        (format!("{eight} {}", long("y", 17)), words(&eight), true),
        (format!("{eight} {} z", long("y", 17)), words(&eight), true),
    ];
    for (searches, expected, warned) in cases {
        let (found, warnings) = pod_dns(&with_config(pod("None", false), "9.9.9.9", &searches, &[]), &node());
        assert_eq!(found.searches, expected);
        let text = format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            expected.join(" ")
        );
        assert_eq!(warnings, if warned { vec![forming(text)] } else { vec![] });
    }
}

/// CRI-06: searches of the file, the cluster's domain, the beginning of the text.
#[test]
fn a_nodes_resolv_conf_is_held_against_the_limits() {
    let many = |count: usize| (0..count).map(|number| format!("d{number}")).collect::<Vec<_>>().join(" ");
    let (long, longest) = ("x".repeat(254), "x".repeat(253));
    let wide = [longest.as_str(); 9].join(" ");
    let cases = [
        (many(32), "", ""),
        (many(33), "", "Resolv.conf file '/r' contains search line consisting of more than 32 domains!"),
        (many(29), "cluster.local", ""),
        (many(30), "cluster.local", "Resolv.conf file '/r' contains search line consisting of more than 29 domains!"),
        (longest.clone(), "", ""),
        (long, "", "Resolv.conf file \"/r\" contains a search path which length is more than allowed 253 chars!"),
        (wide, "", "Resolv.conf file '/r' contains search line which length is more than allowed 2048 chars!"),
    ];
    for (searches, domain, expected) in cases {
        let text = format!("nameserver 1.1.1.1\nsearch {searches}\n");
        assert_eq!(resolv_conf_problem("/r", &text, domain).unwrap_or_default(), expected);
    }
    assert_eq!(resolv_conf_problem("/r", "nameserver", "").as_deref(), Some("nameserver list is empty "));
}

proptest::proptest! {
    #[test]
    fn the_limits_always_hold(
        policy in "(None|Default|ClusterFirst)",
        servers in proptest::collection::vec("[0-9.]{1,8}", 0..6),
        searches in proptest::collection::vec("[a-z.]{1,300}", 0..40),
    ) {
        let own = with_config(pod(&policy, false), &servers.join(" "), &searches.join(" "), &[]);
        let (found, _) = pod_dns(&own, &node());
        proptest::prop_assert!(found.servers.len() <= 3 && found.searches.len() <= 32);
        proptest::prop_assert!(found.searches.iter().all(|search| search.len() <= 253));
        proptest::prop_assert!(found.searches.join(" ").len() <= 2048);
    }
}
