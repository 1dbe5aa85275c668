//! The gates `ContainerRestartRules` and `RestartAllContainersOnContainerExits`: what is left of a pod's wishes where they
//! are off. As upstream: static pods that use what is off are refused as the API server would refuse them; new pods of the
//! API server where the node does not declare what they rely on (`pod_admission`); of those that run already, which may
//! have been made while it was on, it is not looked at.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::FieldError;
use super::validation::ErrorKind;
use crate::logic::model::restart_policy::{ALWAYS, RESTART, RESTART_ALL};

/// Which of them are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartGates {
    /// `ContainerRestartRules`: containers have policies and rules of their own.
    pub rules: bool,
    /// `RestartAllContainersOnContainerExits`: a rule may have all containers start over.
    pub all: bool,
}

impl Default for RestartGates {
    /// Upstream's defaults.
    fn default() -> Self {
        Self { rules: true, all: true }
    }
}

/// In the place of an action that is off: a rule that matches still ends the search, and leaves the policy to decide.
const NO_ACTION: &str = "";

impl RestartGates {
    /// Features that a static pod uses although they are off, as the API server's validation words it.
    pub fn refusals(self, pod: &Pod) -> Vec<FieldError> {
        let Some(spec) = &pod.spec else { return vec![] };
        let regular = spec.containers.iter().enumerate().map(|(index, one)| ("containers", index, one));
        let init = spec.init_containers.iter().flatten().enumerate().map(|(index, one)| ("initContainers", index, one));
        let found = regular.chain(init).flat_map(|(list, index, container)| {
            let is_init = list == "initContainers";
            self.of_container(container, is_init, &format!("spec.{list}[{index}]"))
        });
        found.collect()
    }

    fn of_container(self, container: &Container, is_init: bool, path: &str) -> Vec<FieldError> {
        let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
        let policy = container.restart_policy.as_deref();
        match (self, policy) {
            (Self { rules: false, .. }, Some(policy)) if is_init && policy != ALWAYS => {
                vec![not_supported(format!("{path}.restartPolicy"), policy, ALWAYS)]
            }
            (Self { rules: false, .. }, Some(_)) if !is_init => {
                vec![forbidden(format!("{path}.restartPolicy"), "may not be set for non-init containers")]
            }
            (Self { rules: false, .. } | Self { all: true, .. }, _) => vec![],
            (_, Some(ALWAYS)) if is_init && !rules.is_empty() => {
                let why = "restartPolicyRules are not allowed for init containers with restart policy Always";
                vec![forbidden(format!("{path}.restartPolicyRules"), why)]
            }
            _ => {
                let all = rules.iter().enumerate().filter(|(_, rule)| rule.action == RESTART_ALL);
                let place = |index: usize| format!("{path}.restartPolicyRules[{index}].action");
                all.map(|(index, _)| not_supported(place(index), RESTART_ALL, RESTART)).collect()
            }
        }
    }

    /// The pod without what is off; the same one where nothing is.
    pub fn applied(self, pod: &Arc<Pod>) -> Arc<Pod> {
        if self == Self::default() {
            return Arc::clone(pod);
        }
        let mut changed = Pod::clone(pod);
        if let Some(spec) = &mut changed.spec {
            spec.containers.iter_mut().for_each(|container| self.strip(container, false));
            spec.init_containers.iter_mut().flatten().for_each(|container| self.strip(container, true));
        }
        if changed == **pod { Arc::clone(pod) } else { Arc::new(changed) }
    }

    fn strip(self, container: &mut Container, is_init: bool) {
        if !self.rules {
            container.restart_policy_rules = None;
            // Sidecars were there before it.
            container.restart_policy = container.restart_policy.take().filter(|policy| is_init && policy == ALWAYS);
        }
        if !self.all {
            let rules = container.restart_policy_rules.iter_mut().flatten();
            rules.filter(|rule| rule.action == RESTART_ALL).for_each(|rule| rule.action = NO_ACTION.to_owned());
        }
    }
}

fn forbidden(path: String, why: &str) -> FieldError {
    FieldError { path, kind: ErrorKind::Forbidden, value: None, detail: why.to_owned() }
}

fn not_supported(path: String, value: &str, supported: &str) -> FieldError {
    let detail = format!("supported values: \"{supported}\"");
    FieldError { path, kind: ErrorKind::NotSupported, value: Some(value.into()), detail }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::logic::model::restart_policy::{could_restart_all, is_sidecar, restarts_all, should_restart};

    const NO_RULES: RestartGates = RestartGates { rules: false, all: false };
    const NOT_ALL: RestartGates = RestartGates { rules: true, all: false };

    fn pod(regular: Value, init: Value) -> Arc<Pod> {
        let rule = |action: &str| json!({ "action": action, "exitCodes": { "operator": "In", "values": [42] } });
        let filled = |mut container: Value| {
            container["name"] = json!("c");
            if let Some(action) = container["rule"].as_str().map(rule) {
                container["restartPolicyRules"] = json!([action]);
            }
            container
        };
        let spec =
            json!({ "restartPolicy": "Never", "containers": [filled(regular)], "initContainers": [filled(init)] });
        Arc::new(serde_json::from_value(json!({ "spec": spec })).expect("a pod"))
    }

    fn refused(gates: RestartGates, pod: &Pod) -> Vec<String> {
        gates.refusals(pod).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_static_pod_that_uses_what_is_off_is_refused_as_the_api_server_does() {
        let restarts = || json!({ "restartPolicy": "Never", "rule": "Restart" });
        let all = || json!({ "restartPolicy": "Never", "rule": "RestartAllContainers" });
        let sidecar = || json!({ "restartPolicy": "Always" });
        let forbidden = "spec.containers[0].restartPolicy: Forbidden: may not be set for non-init containers";
        let cases = [
            (pod(restarts(), sidecar()), [vec![], vec![], vec![forbidden]]),
            (
                pod(json!({}), json!({ "restartPolicy": "OnFailure" })),
                [
                    vec![],
                    vec![],
                    vec![
                        "spec.initContainers[0].restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
                    ],
                ],
            ),
            (
                pod(all(), json!({})),
                [
                    vec![],
                    vec![
                        "spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"RestartAllContainers\": supported values: \"Restart\"",
                    ],
                    vec![forbidden],
                ],
            ),
            (
                pod(json!({}), json!({ "restartPolicy": "Always", "rule": "RestartAllContainers" })),
                [
                    vec![],
                    vec![
                        "spec.initContainers[0].restartPolicyRules: Forbidden: restartPolicyRules are not allowed for init containers with restart policy Always",
                    ],
                    vec![],
                ],
            ),
        ];
        for (pod, expected) in cases {
            for (gates, expected) in [RestartGates::default(), NOT_ALL, NO_RULES].into_iter().zip(expected) {
                assert_eq!(refused(gates, &pod), expected, "{gates:?}");
            }
        }
    }

    #[test]
    fn what_is_off_is_not_looked_at() {
        let wishes = pod(
            json!({ "restartPolicy": "Never", "rule": "RestartAllContainers" }),
            json!({ "restartPolicy": "Always" }),
        );
        let seen = |gates: RestartGates| {
            let pod = gates.applied(&wishes);
            let spec = pod.spec.as_ref().expect("a spec");
            let (container, sidecar) = (&spec.containers[0], &spec.init_containers.as_ref().expect("one")[0]);
            let all = restarts_all(container, 42) || could_restart_all(spec);
            (should_restart(&pod, container, 42), all, is_sidecar(sidecar))
        };
        assert_eq!(seen(RestartGates::default()), (true, true, true));
        assert_eq!(seen(NOT_ALL), (false, false, true));
        assert_eq!(seen(NO_RULES), (false, false, true));
        // A rule that restarts the container alone needs the first gate only, and where the pod restarts, it does.
        let alone = pod(json!({ "restartPolicy": "Never", "rule": "Restart" }), json!({}));
        let restarts = |gates: RestartGates| {
            let pod = gates.applied(&alone);
            should_restart(&pod, &pod.spec.as_ref().expect("a spec").containers[0], 42)
        };
        assert_eq!([RestartGates::default(), NOT_ALL, NO_RULES].map(restarts), [true, true, false]);
        let plain = pod(json!({}), json!({}));
        assert!(Arc::ptr_eq(&NO_RULES.applied(&plain), &plain), "nothing is changed without need");
    }
}
