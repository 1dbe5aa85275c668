//! Which resources the simulated API server has, and what a path of the API means. Plain data.

/// A resource.
#[derive(Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its API group; empty for the core.
    pub group: &'static str,
    /// As paths have it.
    pub plural: &'static str,
    /// As objects have it.
    pub kind: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

const fn core(plural: &'static str, kind: &'static str, namespaced: bool) -> Resource {
    Resource { group: "", plural, kind, namespaced }
}

/// All there are. Each has version v1.
pub const RESOURCES: &[Resource] = &[
    core("namespaces", "Namespace", false),
    core("nodes", "Node", false),
    core("pods", "Pod", true),
    core("events", "Event", true),
    core("configmaps", "ConfigMap", true),
    core("secrets", "Secret", true),
    core("services", "Service", true),
    core("serviceaccounts", "ServiceAccount", true),
    core("persistentvolumeclaims", "PersistentVolumeClaim", true),
    core("persistentvolumes", "PersistentVolume", false),
    Resource { group: "coordination.k8s.io", plural: "leases", kind: "Lease", namespaced: true },
    Resource {
        group: "certificates.k8s.io",
        plural: "certificatesigningrequests",
        kind: "CertificateSigningRequest",
        namespaced: false,
    },
    Resource { group: "node.k8s.io", plural: "runtimeclasses", kind: "RuntimeClass", namespaced: false },
    Resource { group: "storage.k8s.io", plural: "csinodes", kind: "CSINode", namespaced: false },
    Resource { group: "storage.k8s.io", plural: "csidrivers", kind: "CSIDriver", namespaced: false },
    Resource { group: "resource.k8s.io", plural: "resourceclaims", kind: "ResourceClaim", namespaced: true },
    Resource { group: "resource.k8s.io", plural: "resourceslices", kind: "ResourceSlice", namespaced: false },
    Resource { group: "storage.k8s.io", plural: "volumeattachments", kind: "VolumeAttachment", namespaced: false },
];

/// The resource of this plural.
pub fn resource(plural: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|resource| resource.plural == plural)
}

impl Resource {
    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", self.group) }
    }

    /// As refusals name it: `leases.coordination.k8s.io`.
    pub fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// The meaning of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Of which resource.
    pub resource: &'static Resource,
    /// In which namespace; `None` for objects without one, and for those of all.
    pub namespace: Option<String>,
    /// Which object; `None` for a collection.
    pub name: Option<String>,
    /// Which part of it, such as `status`.
    pub subresource: Option<String>,
}

impl Target {
    /// Reads a path such as `/api/v1/namespaces/default/pods/web/status`.
    pub fn parse(path: &str) -> Option<Self> {
        let mut segments = path.trim_matches('/').split('/').peekable();
        let group = match segments.next()? {
            "api" => "",
            "apis" => segments.next()?,
            _ => return None,
        };
        if segments.next()? != "v1" {
            return None;
        }
        let rest: Vec<&str> = segments.collect();
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let [plural, rest @ ..] = rest else { return None };
        let resource = resource(plural).filter(|resource| resource.group == group)?;
        let text = |place: usize| rest.get(place).map(|text| (*text).to_owned());
        let is_whole = rest.len() <= 2 && (namespace.is_none() || resource.namespaced);
        let needs_namespace = resource.namespaced && namespace.is_none() && !rest.is_empty();
        (is_whole && !needs_namespace).then(|| Self { resource, namespace, name: text(0), subresource: text(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn paths_are_read_as_the_api_has_them() {
        let parts = |path: &str| {
            let target = Target::parse(path)?;
            Some((target.resource.plural, target.namespace, target.name, target.subresource))
        };
        let own = |text: &str| Some(text.to_owned());
        assert_eq!(parts("/api/v1/pods"), Some(("pods", None, None, None)));
        assert_eq!(parts("/api/v1/namespaces/web/pods/a/status"), Some(("pods", own("web"), own("a"), own("status"))));
        assert_eq!(parts("/api/v1/namespaces/web"), Some(("namespaces", None, own("web"), None)));
        assert_eq!(parts("/api/v1/nodes/n"), Some(("nodes", None, own("n"), None)));
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n";
        assert_eq!(parts(lease), Some(("leases", own("kube-node-lease"), own("n"), None)));
        for wrong in ["/healthz", "/api/v1", "/api/v1/pods/a", "/api/v1/leases", "/apis/apps/v1/deployments"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }
}
