//! The feature gates by which static pods are refused, as the API server would refuse them. Pure.

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::FieldError;
use super::restart_gates::RestartGates;
use super::validation::ErrorKind;

/// Which gates are on. The default is upstream's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManifestGates {
    /// Of the restart policies of containers.
    pub restarts: RestartGates,
    /// `UserNamespacesHostNetworkSupport`: a pod with `hostUsers: false` may be on the host's network.
    pub host_network_users: bool,
}

impl ManifestGates {
    /// Features that a static pod uses although they are off, as the API server's validation words it.
    pub fn refusals(self, pod: &Pod) -> Vec<FieldError> {
        let mut refused = self.restarts.refusals(pod);
        let is_mixed = |spec: &PodSpec| spec.host_users == Some(false) && spec.host_network == Some(true);
        if !self.host_network_users && pod.spec.as_ref().is_some_and(is_mixed) {
            let (path, detail) = ("spec.hostNetwork".to_owned(), "when `hostUsers` is false".to_owned());
            refused.push(FieldError { path, kind: ErrorKind::Forbidden, value: None, detail });
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// POD-27.
    #[test]
    fn a_user_namespace_on_the_hosts_network_needs_its_gate() {
        let refused = |host_users: Option<bool>, host_network: bool, host_network_users: bool| {
            let spec = json!({"hostUsers": host_users, "hostNetwork": host_network, "containers": []});
            let pod: Pod = serde_json::from_value(json!({ "spec": spec })).expect("a pod");
            let gates = ManifestGates { host_network_users, ..ManifestGates::default() };
            gates.refusals(&pod).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let why = "spec.hostNetwork: Forbidden: when `hostUsers` is false";
        assert_eq!(refused(Some(false), true, false), [why]);
        assert_eq!(refused(Some(false), true, true), [""; 0]);
        for (host_users, host_network) in [(Some(false), false), (Some(true), true), (None, true)] {
            assert_eq!(refused(host_users, host_network, false), [""; 0], "{host_users:?} {host_network}");
        }
    }
}
