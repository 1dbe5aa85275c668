//! `fieldRef`: a field of the pod as text, for environment variables and downward API files.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ObjectFieldSelector, Pod};

use crate::logic::formats::dns_label::qualified_name_problems;
use crate::logic::formats::go_text::quoted;
use crate::logic::network::host_ips::HostIps;

/// Why a field has no value. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldPathError {
    /// Only `v1` is known.
    #[error("unsupported pod version: {0}")]
    Version(String),
    /// A `['key']` where none may be.
    #[error("field label does not support subscript: {0}")]
    Subscript(String),
    /// Nothing that a `fieldRef` may name.
    #[error("field label not supported: {0}")]
    Label(String),
    /// A known field that containers may not see.
    #[error("unsupported fieldPath: {0}")]
    Unsupported(String),
    /// The `['key']` is no valid key.
    #[error("invalid key subscript in {path}: {}", problems.join(";"))]
    Key {
        /// The whole path.
        path: String,
        /// The faults in the key.
        problems: Vec<String>,
    },
    /// The node's addresses are not known; why.
    #[error("{0}")]
    NoHostIp(String),
}

/// Addresses that are not in the pod itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Addresses {
    /// The pod's addresses, as the runtime told them; on the node's network the node's. Any order.
    pub pod_ips: Vec<String>,
    /// The node's addresses.
    pub host: HostIps,
    /// Whether `--node-ip` begins with an IPv6 address: that family's pod address goes first.
    pub prefer_ipv6: bool,
}

impl Addresses {
    /// The pod's addresses as the API shows them: at most one of each family, the node's family first, written in the
    /// usual form. Texts that are no address are left out.
    pub fn sorted_pod_ips(&self) -> Vec<String> {
        let ips = self.pod_ips.iter().filter_map(|ip| ip.parse::<IpAddr>().ok()).map(|ip| ip.to_canonical());
        let first = |ipv6: bool| ips.clone().find(|ip| ip.is_ipv6() == ipv6);
        [first(self.prefer_ipv6), first(!self.prefer_ipv6)].into_iter().flatten().map(|ip| ip.to_string()).collect()
    }
}

impl Addresses {
    /// The node's addresses, at least one.
    fn host_texts(&self) -> Result<Vec<String>, FieldPathError> {
        match self.host.problem() {
            Some(problem) => Err(FieldPathError::NoHostIp(problem.to_owned())),
            None => Ok(self.host.reported().map(|ip| ip.to_string()).collect()),
        }
    }
}

/// The text of the field that `selector` names.
///
/// # Errors
/// When the path is none that the downward API serves.
pub fn field_value(selector: &ObjectFieldSelector, pod: &Pod, addresses: &Addresses) -> Result<String, FieldPathError> {
    let version = selector.api_version.as_deref().filter(|version| !version.is_empty()).unwrap_or("v1");
    if version != "v1" {
        return Err(FieldPathError::Version(version.to_owned()));
    }
    let path = selector.field_path.as_str();
    if let Some((map_path, key)) = split_subscript(path) {
        return subscripted(pod, path, map_path, key);
    }
    let metadata = &pod.metadata;
    let spec = pod.spec.as_ref();
    let text = |field: Option<&String>| Ok(field.cloned().unwrap_or_default());
    match path {
        "metadata.name" => text(metadata.name.as_ref()),
        "metadata.namespace" => text(metadata.namespace.as_ref()),
        "metadata.uid" => text(metadata.uid.as_ref()),
        "metadata.labels" => Ok(format_map(metadata.labels.as_ref())),
        "metadata.annotations" => Ok(format_map(metadata.annotations.as_ref())),
        // Old clients still send `spec.host`.
        "spec.nodeName" | "spec.host" => text(spec.and_then(|spec| spec.node_name.as_ref())),
        "spec.serviceAccountName" => text(spec.and_then(|spec| spec.service_account_name.as_ref())),
        "status.hostIP" => addresses.host_texts().map(|mut ips| ips.swap_remove(0)),
        "status.hostIPs" => addresses.host_texts().map(|ips| ips.join(",")),
        "status.podIP" => Ok(addresses.sorted_pod_ips().into_iter().next().unwrap_or_default()),
        "status.podIPs" => Ok(addresses.sorted_pod_ips().join(",")),
        "spec.restartPolicy" | "spec.schedulerName" | "status.phase" => {
            Err(FieldPathError::Unsupported(path.to_owned()))
        }
        _ => Err(FieldPathError::Label(path.to_owned())),
    }
}

/// `path['key']` as path and key.
fn split_subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(map_path, _)| !map_path.is_empty())
}

/// One label or annotation; empty when the pod has none of this key. An annotation's key may be upper case.
fn subscripted(pod: &Pod, path: &str, map_path: &str, key: &str) -> Result<String, FieldPathError> {
    let (map, problems) = match map_path {
        "metadata.annotations" => (&pod.metadata.annotations, qualified_name_problems(&key.to_lowercase())),
        "metadata.labels" => (&pod.metadata.labels, qualified_name_problems(key)),
        _ => return Err(FieldPathError::Subscript(path.to_owned())),
    };
    if !problems.is_empty() {
        return Err(FieldPathError::Key { path: path.to_owned(), problems });
    }
    Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default())
}

/// One line `key="value"` for each entry, by key.
fn format_map(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn map(entries: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
        Some(entries.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect())
    }

    fn value(path: &str) -> Result<String, String> {
        let pod = Pod {
            metadata: ObjectMeta {
                name: Some("web".into()),
                namespace: Some("ns".into()),
                uid: Some("u-1".into()),
                labels: map(&[("b", "2"), ("a/x", "say \"hi\"\n")]),
                annotations: map(&[("A.B/key", "one")]),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                node_name: Some("node-1".into()),
                service_account_name: Some("robot".into()),
                ..PodSpec::default()
            }),
            status: None,
        };
        let addresses = Addresses {
            pod_ips: vec!["fd00:0::7".into(), "10.0.0.7".into(), "10.0.0.8".into()],
            host: HostIps::listed(["192.0.2.1", "fd00::1"].map(|ip| ip.parse().unwrap())),
            prefer_ipv6: false,
        };
        let selector = ObjectFieldSelector { api_version: None, field_path: path.into() };
        field_value(&selector, &pod, &addresses).map_err(|error| error.to_string())
    }

    #[test]
    fn each_served_field_has_its_value() {
        let cases = [
            ("metadata.name", "web"),
            ("metadata.namespace", "ns"),
            ("metadata.uid", "u-1"),
            ("metadata.labels", "a/x=\"say \\\"hi\\\"\\n\"\nb=\"2\""),
            ("metadata.annotations", "A.B/key=\"one\""),
            ("metadata.labels['b']", "2"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations['A.B/key']", "one"),
            ("spec.nodeName", "node-1"),
            ("spec.host", "node-1"),
            ("spec.serviceAccountName", "robot"),
            ("status.hostIP", "192.0.2.1"),
            ("status.hostIPs", "192.0.2.1,fd00::1"),
            ("status.podIP", "10.0.0.7"),
            ("status.podIPs", "10.0.0.7,fd00::7"),
        ];
        for (path, expected) in cases {
            assert_eq!(value(path), Ok(expected.into()), "{path}");
        }
    }

    #[test]
    fn all_other_paths_are_refused_in_upstreams_words() {
        let cases = [
            ("status.phase", "unsupported fieldPath: status.phase"),
            ("spec.restartPolicy", "unsupported fieldPath: spec.restartPolicy"),
            ("spec.containers", "field label not supported: spec.containers"),
            ("", "field label not supported: "),
            ("['x']", "field label not supported: ['x']"),
            ("metadata.name['x']", "field label does not support subscript: metadata.name['x']"),
        ];
        for (path, expected) in cases {
            assert_eq!(value(path), Err(expected.into()), "{path}");
        }
        let key = value("metadata.labels['']").unwrap_err();
        assert!(key.starts_with("invalid key subscript in metadata.labels['']: name part must be non-empty;"), "{key}");
        let selector = ObjectFieldSelector { api_version: Some("v2".into()), field_path: "metadata.name".into() };
        let error = field_value(&selector, &Pod::default(), &Addresses::default()).unwrap_err();
        assert_eq!(error.to_string(), "unsupported pod version: v2");
    }

    #[test]
    fn pod_addresses_follow_the_nodes_family() {
        let cases: [(&[&str], bool, &[&str]); 6] = [
            (&[], false, &[]),
            (&["10.0.0.7", "fd00::7"], false, &["10.0.0.7", "fd00::7"]),
            (&["10.0.0.7", "fd00::7"], true, &["fd00::7", "10.0.0.7"]),
            (&["fd00::7"], false, &["fd00::7"]),
            (&["nonsense", "10.0.0.7", "10.0.0.8"], true, &["10.0.0.7"]),
            (&["::ffff:10.0.0.7"], false, &["10.0.0.7"]),
        ];
        for (pod_ips, prefer_ipv6, expected) in cases {
            let pod_ips = pod_ips.iter().map(|ip| (*ip).into()).collect();
            let addresses = Addresses { pod_ips, prefer_ipv6, ..Addresses::default() };
            assert_eq!(addresses.sorted_pod_ips(), expected);
        }
    }

    #[test]
    fn a_host_address_must_be_known() {
        for path in ["status.hostIP", "status.hostIPs"] {
            let selector = ObjectFieldSelector { api_version: None, field_path: path.into() };
            let error = field_value(&selector, &Pod::default(), &Addresses::default());
            assert_eq!(error.unwrap_err().to_string(), "host IP unknown; known addresses: []", "{path}");
        }
    }
}
