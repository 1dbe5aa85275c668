//! Labels of Kubernetes' own namespaces: which of them a node may give itself (NODE-03, NODE-60).
//!
//! Upstream's kubelet and the API server's admission plugin `NodeRestriction` share this rule. It also covers
//! `node-restriction.kubernetes.io`, which administrators keep from nodes.

/// Labels of Kubernetes' own namespaces that a node may set on itself, sorted.
pub const ALLOWED_LABELS: &[&str] = &[
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Namespaces in which it may set any.
pub const ALLOWED_NAMESPACES: &[&str] = &["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Whether the label is Kubernetes' own and none that a node may give itself.
pub fn is_protected(key: &str) -> bool {
    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
    let is_own = ["kubernetes.io", "k8s.io"].iter().any(|own| is_within(namespace, own));
    let is_allowed =
        ALLOWED_LABELS.contains(&key) || ALLOWED_NAMESPACES.iter().any(|allowed| is_within(namespace, allowed));
    is_own && !is_allowed
}

fn is_within(namespace: &str, outer: &str) -> bool {
    namespace.strip_suffix(outer).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NODE-60.
    #[test]
    fn labels_of_administrators_are_protected_and_those_of_drivers_are_not() {
        for (key, expected) in [
            ("node-restriction.kubernetes.io/rack", true),
            ("a.node-restriction.kubernetes.io/rack", true),
            ("kubernetes.io/rack", true),
            ("topology.kubernetes.io/rack", true),
            ("x.k8s.io/rack", true),
            ("topology.kubernetes.io/zone", false),
            ("kubernetes.io/hostname", false),
            ("a.node.kubernetes.io/rack", false),
            ("topology.csi.example.com/rack", false),
            ("notkubernetes.io/rack", false),
            ("rack", false),
        ] {
            assert_eq!(is_protected(key), expected, "{key}");
        }
    }
}
