//! Whether a container that ended is started again: by its own rules and policy, else by the pod's.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes, Pod, PodSpec};

use super::runtime_pod::{ContainerState, RuntimeContainer};

/// `restartPolicy` of pods and containers: start again after every end.
pub const ALWAYS: &str = "Always";
/// `restartPolicy`: start again after an end that is not a success.
pub const ON_FAILURE: &str = "OnFailure";
/// `restartPolicy`: never start again.
pub const NEVER: &str = "Never";
/// The action of a rule: start the container again.
pub(in crate::logic) const RESTART: &str = "Restart";
/// The action of a rule: have all containers of the pod start over.
pub(in crate::logic) const RESTART_ALL: &str = "RestartAllContainers";

/// An init container that is restarted for ever: a sidecar (KEP-753).
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some(ALWAYS)
}

/// The pod's `spec.restartPolicy`; `Always` when it is not set, as the API defaults it.
pub fn pod_policy(pod: &Pod) -> &str {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.restart_policy.as_deref())
        .filter(|policy| !policy.is_empty())
        .unwrap_or(ALWAYS)
}

/// Whether the container, having ended with `exit_code`, is to be started again (upstream's `ContainerShouldRestart`,
/// KEP-5307). The first of its rules that matches decides; then its own policy; then the pod's.
///
/// Says nothing about deletion: a pod that is being deleted restarts nothing, which the caller has to look at.
pub fn should_restart(pod: &Pod, container: &Container, exit_code: i32) -> bool {
    let Some(policy) = container.restart_policy.as_deref() else {
        return policy_restarts(pod_policy(pod), exit_code);
    };
    let action = rule_for(container, exit_code).map(|rule| rule.action.as_str());
    matches!(action, Some(RESTART | RESTART_ALL)) || policy_restarts(policy, exit_code)
}

/// Whether an end with `exit_code` has all containers of the pod start over (KEP-5532).
pub fn restarts_all(container: &Container, exit_code: i32) -> bool {
    rule_for(container, exit_code).is_some_and(|rule| rule.action == RESTART_ALL)
}

/// Whether some end of a container might have all containers start over (upstream's `AllContainersCouldRestart`).
pub fn could_restart_all(spec: &PodSpec) -> bool {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut rules = containers.flat_map(|container| container.restart_policy_rules.iter().flatten());
    rules.any(|rule| rule.action == RESTART_ALL)
}

/// The first rule that the exit code meets.
fn rule_for(container: &Container, exit_code: i32) -> Option<&ContainerRestartRule> {
    let mut rules = container.restart_policy_rules.iter().flatten();
    rules.find(|rule| rule.exit_codes.as_ref().is_some_and(|codes| matches(codes, exit_code)))
}

/// Whether the container, whose newest instance this is, is to be started (upstream's `ShouldContainerBeRestarted`).
/// One that was never made, never got to run or was lost always is; one that ended, as [`should_restart`] says. A pod
/// that is being deleted starts nothing.
pub fn wants_start(pod: &Pod, container: &Container, newest: Option<&RuntimeContainer>) -> bool {
    let starts = newest.is_none_or(|newest| match newest.state {
        ContainerState::Running => false,
        ContainerState::Created | ContainerState::Unknown => true,
        ContainerState::Exited => should_restart(pod, container, newest.exit_code),
    });
    starts && pod.metadata.deletion_timestamp.is_none()
}

/// Whether a container killed for a failed probe, or lost by the runtime, comes back. Its exit code is not known then,
/// so that only the policies are asked and not the rules.
pub fn restarts_after_kill(pod: &Pod, container: &Container) -> bool {
    container.restart_policy.as_deref().unwrap_or_else(|| pod_policy(pod)) != NEVER
}

/// Whether the container runs once to success: in a new sandbox a success of the former one still counts.
pub fn runs_to_success(pod: &Pod, container: &Container) -> bool {
    container.restart_policy.as_deref().unwrap_or_else(|| pod_policy(pod)) == ON_FAILURE
}

fn policy_restarts(policy: &str, exit_code: i32) -> bool {
    match policy {
        NEVER => false,
        ON_FAILURE => exit_code != 0,
        _ => true,
    }
}

fn matches(codes: &ContainerRestartRuleOnExitCodes, exit_code: i32) -> bool {
    let listed = codes.values.iter().flatten().any(|value| *value == exit_code);
    match codes.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(policy: Option<&str>) -> Pod {
        let spec = PodSpec { restart_policy: policy.map(str::to_owned), ..PodSpec::default() };
        Pod { spec: Some(spec), ..Pod::default() }
    }

    fn container(policy: Option<&str>, rules: &[(&str, &[i32])]) -> Container {
        let rule = |(operator, values): &(&str, &[i32])| ContainerRestartRule {
            action: "Restart".to_owned(),
            exit_codes: Some(ContainerRestartRuleOnExitCodes {
                operator: (*operator).to_owned(),
                values: Some(values.to_vec()),
            }),
        };
        Container {
            restart_policy: policy.map(str::to_owned),
            restart_policy_rules: (!rules.is_empty()).then(|| rules.iter().map(rule).collect()),
            ..Container::default()
        }
    }

    #[test]
    fn the_pods_policy_decides_when_the_container_has_none() {
        for (policy, on_success, on_failure) in [
            (Some(ALWAYS), true, true),
            (None, true, true),
            (Some(""), true, true),
            (Some(ON_FAILURE), false, true),
            (Some(NEVER), false, false),
        ] {
            let (pod, container) = (pod(policy), container(None, &[]));
            assert_eq!(should_restart(&pod, &container, 0), on_success, "{policy:?}");
            assert_eq!(should_restart(&pod, &container, 1), on_failure, "{policy:?}");
        }
    }

    #[test]
    fn the_containers_policy_and_rules_come_before_the_pods() {
        // The pod's policy, the container's, its rules, the exit code, the decision.
        type Row = (&'static str, Option<&'static str>, &'static [(&'static str, &'static [i32])], i32, bool);
        let cases: &[Row] = &[
            (NEVER, Some(ALWAYS), &[], 0, true),
            (ALWAYS, Some(NEVER), &[], 1, false),
            (ALWAYS, Some(ON_FAILURE), &[], 0, false),
            (ALWAYS, Some(NEVER), &[("In", &[42])], 42, true),
            (ALWAYS, Some(NEVER), &[("In", &[42])], 41, false),
            (ALWAYS, Some(NEVER), &[("NotIn", &[42])], 41, true),
            (ALWAYS, Some(NEVER), &[("NotIn", &[42])], 42, false),
            (ALWAYS, Some(NEVER), &[("In", &[1]), ("In", &[2])], 2, true),
            (ALWAYS, Some(NEVER), &[("Near", &[42])], 42, false),
        ];
        for (of_pod, of_container, rules, exit_code, expected) in cases {
            let container = container(*of_container, rules);
            assert_eq!(should_restart(&pod(Some(of_pod)), &container, *exit_code), *expected, "{rules:?} {exit_code}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_says_whether_all_start_over() {
        let mut ruled = container(Some(NEVER), &[("In", &[1]), ("In", &[1, 2]), ("NotIn", &[3])]);
        let rules = ruled.restart_policy_rules.as_mut().expect("has rules");
        RESTART_ALL.clone_into(&mut rules[1].action);
        let all: Vec<i32> = (0..5).filter(|code| restarts_all(&ruled, *code)).collect();
        assert_eq!(all, [2]);
        let again: Vec<i32> = (0..5).filter(|code| should_restart(&pod(None), &ruled, *code)).collect();
        assert_eq!(again, [0, 1, 2, 4]);
        let with = |containers| PodSpec { containers, ..PodSpec::default() };
        assert!(could_restart_all(&with(vec![ruled.clone()])));
        ruled.restart_policy_rules.as_mut().expect("has rules").remove(1);
        assert!(!could_restart_all(&with(vec![ruled])));
    }

    #[test]
    fn rules_are_not_asked_after_a_kill() {
        let ruled = container(Some(NEVER), &[("In", &[137])]);
        assert!(!restarts_after_kill(&pod(Some(ALWAYS)), &ruled));
        assert!(restarts_after_kill(&pod(Some(NEVER)), &container(Some(ON_FAILURE), &[])));
        assert!(!restarts_after_kill(&pod(Some(NEVER)), &container(None, &[])));
    }
}
