//! Whether the node declares the features that a pod relies on (KEP-5328; upstream's `nodedeclaredfeatures`). Pure.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::NodeAbilities;
use crate::logic::model::restart_policy::{ALWAYS, could_restart_all};

/// The feature of a rule that has all containers start over.
const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";
/// The feature of a pod with a user namespace of its own on the host's network. The runtime has to help.
const HOST_NETWORK_USERS: &str = "UserNamespacesHostNetworkSupport";
/// The feature that a change of a pod's own resources relies on.
const POD_RESIZE: &str = "InPlacePodLevelResourcesVerticalScaling";
/// The feature that a change of an init container's resources relies on.
const INIT_RESIZE: &str = "InPlacePodVerticalScalingInitContainers";

/// Why a new pod is refused: the node does not declare what it relies on. A node that declares nothing at all asks for
/// nothing. Other features that pods may rely on are refused by their own fields.
pub(super) fn refusal(pod: &Pod, abilities: &NodeAbilities) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let restarts = could_restart_all(spec).then_some(RESTART_ALL);
    let users = is_on_host_network(spec).then_some(HOST_NETWORK_USERS);
    let is_able = |name: &str| name != HOST_NETWORK_USERS || abilities.host_network_users == Some(true);
    let declared = abilities.declared.as_ref()?.iter().filter(|name| is_able(name)).cloned().collect::<Vec<_>>();
    missing(restarts.into_iter().chain(users), Some(&declared))
}

/// Whether the node declares what the pod relies on as soon as the runtime says that it can do it.
pub(super) fn awaits_runtime(pod: &Pod, abilities: &NodeAbilities) -> bool {
    let declares = abilities.declared.iter().flatten().any(|name| name == HOST_NETWORK_USERS);
    declares && abilities.host_network_users.is_none() && pod.spec.as_ref().is_some_and(is_on_host_network)
}

/// Whether the pod has a user namespace of its own on the host's network.
fn is_on_host_network(spec: &PodSpec) -> bool {
    spec.host_users == Some(false) && spec.host_network == Some(true)
}

/// The message about a pod that was changed in a way that the node does not declare. The change stands.
pub fn update_problem(old: &Pod, new: &Pod, declared: Option<&[String]>) -> Option<String> {
    let (old, new) = (old.spec.as_ref()?, new.spec.as_ref()?);
    let of_pod = (old.resources != new.resources).then_some(POD_RESIZE);
    let of_init = is_init_resized(old, new).then_some(INIT_RESIZE);
    missing(of_pod.into_iter().chain(of_init), declared)
}

fn is_init_resized(old: &PodSpec, new: &PodSpec) -> bool {
    let all = |spec: &PodSpec| spec.init_containers.clone().unwrap_or_default();
    let is_sidecar = |container: &Container| container.restart_policy.as_deref() == Some(ALWAYS);
    all(old).iter().zip(&all(new)).any(|(old, new)| !is_sidecar(old) && old.resources != new.resources)
}

fn missing(wanted: impl IntoIterator<Item = &'static str>, declared: Option<&[String]>) -> Option<String> {
    let declared = declared?;
    let missing: Vec<&str> =
        wanted.into_iter().filter(|feature| !declared.iter().any(|known| known == feature)).collect();
    (!missing.is_empty()).then(|| format!("Pod requires node features that are not available: {}", missing.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({ "spec": spec })).expect("a pod")
    }

    /// POD-31.
    #[test]
    fn a_pod_that_relies_on_what_is_not_declared_is_refused() {
        let rule = json!([{ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [1] } }]);
        let relying = pod(json!({ "containers": [{ "name": "a", "restartPolicyRules": rule }] }));
        let in_init = pod(json!({
            "containers": [{ "name": "a" }], "initContainers": [{ "name": "i", "restartPolicyRules": rule }],
        }));
        let why = "Pod requires node features that are not available: RestartAllContainersOnContainerExits";
        let refused = |pod: &Pod, declared: Option<Vec<String>>| {
            refusal(pod, &NodeAbilities { declared, ..NodeAbilities::default() })
        };
        for relying in [&relying, &in_init] {
            assert_eq!(refused(relying, Some(vec![])).as_deref(), Some(why));
            assert_eq!(refused(relying, Some(vec![RESTART_ALL.to_owned()])), None);
            assert_eq!(refused(relying, None), None, "such a node declares nothing");
        }
        assert_eq!(refused(&pod(json!({ "containers": [{ "name": "a" }] })), Some(vec![])), None);
    }

    /// POD-27, POD-31: the gate and the runtime both have to be able.
    #[test]
    fn a_user_namespace_on_the_hosts_network_waits_for_the_runtimes_word() {
        let mixed = pod(json!({ "hostUsers": false, "hostNetwork": true, "containers": [{ "name": "a" }] }));
        let judged = |pod: &Pod, on: bool, host_network_users: Option<bool>| {
            let declared = Some(if on { vec![HOST_NETWORK_USERS.to_owned()] } else { vec![] });
            let abilities = NodeAbilities { declared, host_network_users, ..NodeAbilities::default() };
            (awaits_runtime(pod, &abilities), refusal(pod, &abilities).is_some())
        };
        assert_eq!(judged(&mixed, true, Some(true)), (false, false));
        assert_eq!(judged(&mixed, true, Some(false)), (false, true));
        assert!(judged(&mixed, true, None).0);
        assert_eq!(judged(&mixed, false, None), (false, true), "nothing that the runtime says would help");
        let apart = pod(json!({ "hostUsers": false, "containers": [{ "name": "a" }] }));
        assert_eq!(judged(&apart, false, Some(false)), (false, false));
    }

    #[test]
    fn a_change_that_is_not_declared_is_told_of() {
        let of = |pod_cpu: &str, init_cpu: &str, policy: Option<&str>| {
            pod(json!({
                "resources": { "requests": { "cpu": pod_cpu } }, "containers": [{ "name": "a" }],
                "initContainers": [{ "name": "i", "restartPolicy": policy, "resources": { "requests": { "cpu": init_cpu } } }],
            }))
        };
        let prefix = "Pod requires node features that are not available: ";
        for (new, declared, expected) in [
            (of("1", "1", None), vec![], None),
            (of("2", "1", None), vec![], Some(POD_RESIZE)),
            (of("2", "1", None), vec![POD_RESIZE.to_owned()], None),
            (of("1", "2", None), vec![], Some(INIT_RESIZE)),
            (of("2", "2", None), vec![POD_RESIZE.to_owned()], Some(INIT_RESIZE)),
        ] {
            let told = update_problem(&of("1", "1", None), &new, Some(&declared));
            assert_eq!(told, expected.map(|feature| format!("{prefix}{feature}")), "{declared:?}");
        }
        let (old, new) = (of("1", "1", Some(ALWAYS)), of("1", "2", Some(ALWAYS)));
        assert_eq!(update_problem(&old, &new, Some(&[])), None, "a sidecar is resized as others are");
    }
}
