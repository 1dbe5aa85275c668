//! How soon the kernel kills a container's processes when memory runs out.
//!
//! As upstream's `pkg/kubelet/qos/policy.go`: containers that use more than they asked for are to go first.

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::logic::resources::pod_sums::is_sidecar;
use crate::logic::resources::{
    MEMORY, NodeMemory, QosClass, ResourceOptions, aggregate_container_requests, amount, container_requests, pod_qos,
    resource_list,
};

/// The agent's own `oom_score_adj`.
pub const AGENT_OOM_SCORE_ADJ: i64 = -999;
const GUARANTEED: i64 = -997;
const BEST_EFFORT: i64 = 1000;
/// The lowest score of a burstable container: above any guaranteed one that uses all memory.
const BURSTABLE_MIN: i64 = 1000 + GUARANTEED;
/// The lowest priority of the system's own pods; upstream's `SystemCriticalPriority`.
pub const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Whether a pod is the node's or the cluster's own: static, a mirror, or of system priority; upstream's
/// `IsCriticalPod`.
pub fn is_critical(pod: &Pod) -> bool {
    let annotation = |key| pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
    let is_static = annotation("kubernetes.io/config.source").is_some_and(|source| source != "api");
    let is_mirror = annotation("kubernetes.io/config.mirror").is_some();
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority);
    is_static || is_mirror || priority.is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY)
}

/// Whether a pod is critical and of the class `system-node-critical`.
pub fn is_node_critical(pod: &Pod) -> bool {
    let class = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
    is_critical(pod) && class == Some("system-node-critical")
}

/// `oom_score_adj` (−1000 to 1000) of a container of this pod.
pub fn container_oom_score_adj(pod: &Pod, container: &Container, node: &NodeMemory, options: &ResourceOptions) -> i64 {
    if is_node_critical(pod) {
        return GUARANTEED;
    }
    match pod_qos(pod, options.pod_level_resources) {
        QosClass::Guaranteed => GUARANTEED,
        QosClass::BestEffort => BEST_EFFORT,
        QosClass::Burstable => burstable(pod, container, node, options),
    }
}

fn burstable(pod: &Pod, container: &Container, node: &NodeMemory, options: &ResourceOptions) -> i64 {
    let share = if options.pod_level_resources { unassigned_request_per_container(pod) } else { 0 };
    // Without a known capacity any request counts as all of it.
    let capacity = i128::from(node.capacity_bytes.max(1));
    let score = |request: i64| 1000 - 1000 * (i128::from(request) + i128::from(share)) / capacity;
    let mut adjustment = score(memory_request(container));
    if is_sidecar_of(pod, container) {
        // A sidecar must not go before the containers it serves.
        let smallest = pod.spec.iter().flat_map(|spec| &spec.containers).map(memory_request).min().unwrap_or(0);
        adjustment = adjustment.min(score(smallest));
    }
    let adjustment = adjustment.clamp(i128::from(BURSTABLE_MIN), i128::from(BEST_EFFORT - 1));
    i64::try_from(adjustment).expect("clamped to a range within 64 bits")
}

fn memory_request(container: &Container) -> i64 {
    amount(&container_requests(container), MEMORY).value()
}

/// The part of the pod's own memory request that no container asks for, divided among all of them (KEP-2837).
fn unassigned_request_per_container(pod: &Pod) -> i64 {
    let Some(spec) = &pod.spec else { return 0 };
    let own = resource_list(spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
    let own = amount(&own, MEMORY);
    let count = spec.containers.len() + spec.init_containers.as_ref().map_or(0, Vec::len);
    if own.is_zero() || count == 0 {
        return 0;
    }
    let assigned = amount(&aggregate_container_requests(spec), MEMORY);
    own.value().saturating_sub(assigned.value()) / i64::try_from(count).unwrap_or(i64::MAX)
}

fn is_sidecar_of(pod: &Pod, container: &Container) -> bool {
    let init_containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    is_sidecar(container) && init_containers.into_iter().any(|init| init.name == container.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::logic::resources::testing::{container, pod, sidecar, with_pod_level};

    const NODE: NodeMemory = NodeMemory { capacity_bytes: 4_000_000_000 };

    fn score(pod: &Pod, container: &Container) -> i64 {
        container_oom_score_adj(pod, container, &NODE, &ResourceOptions::default())
    }

    /// RES-14.
    #[test]
    fn a_container_scores_by_class_and_request() {
        let both = "cpu=1,memory=1G";
        let cases = [
            ("guaranteed", container("a", both, both), -997),
            ("best effort", container("a", "", ""), 1000),
            ("no memory asked", container("a", "cpu=1", ""), 999),
            ("a tenth", container("a", "memory=400M", ""), 900),
            ("half", container("a", "memory=2G", ""), 500),
            ("divided as whole numbers", container("a", "memory=1", ""), 999),
            ("all but a little", container("a", "memory=3996M", ""), 3),
            ("more than the node", container("a", "memory=40G", ""), 3),
        ];
        for (name, container, expected) in cases {
            assert_eq!(score(&pod(vec![container.clone()], vec![]), &container), expected, "{name}");
        }
    }

    #[test]
    fn a_sidecar_does_not_go_before_the_containers_it_serves() {
        let side = sidecar("s", "memory=40M", "");
        let regular = vec![container("a", "memory=2G", ""), container("b", "memory=400M", "")];
        let serving = pod(regular, vec![side.clone()]);
        assert_eq!(score(&serving, &side), 900);
        let thirsty = sidecar("s", "memory=1G", "");
        let serving = pod(vec![container("a", "memory=400M", "")], vec![thirsty.clone()]);
        assert_eq!(score(&serving, &thirsty), 750);
        // A plain init container keeps its own score.
        let init = container("i", "memory=40M", "");
        assert_eq!(score(&pod(vec![container("a", "memory=400M", "")], vec![init.clone()]), &init), 990);
    }

    #[test]
    fn a_pod_level_request_is_shared_out() {
        let containers = vec![container("a", "memory=400M", ""), container("b", "", "")];
        let own = with_pod_level(pod(containers.clone(), vec![]), "memory=1200M", "");
        assert_eq!(score(&own, &containers[0]), 800);
        assert_eq!(score(&own, &containers[1]), 900);
        let off = ResourceOptions { pod_level_resources: false, ..ResourceOptions::default() };
        assert_eq!(container_oom_score_adj(&own, &containers[1], &NODE, &off), 999);
    }

    #[test]
    fn only_critical_pods_of_the_nodes_class_are_spared() {
        let plain = container("a", "", "");
        let mut pod = pod(vec![plain.clone()], vec![]);
        pod.spec.as_mut().expect("a spec").priority_class_name = Some("system-node-critical".to_owned());
        assert_eq!(score(&pod, &plain), 1000);
        pod.spec.as_mut().expect("a spec").priority = Some(2_000_001_000);
        assert_eq!(score(&pod, &plain), -997);
        pod.spec.as_mut().expect("a spec").priority = Some(1);
        for (key, value, critical) in [
            ("kubernetes.io/config.source", "file", true),
            ("kubernetes.io/config.source", "api", false),
            ("kubernetes.io/config.mirror", "hash", true),
        ] {
            pod.metadata.annotations = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
            assert_eq!(is_node_critical(&pod), critical, "{key} {value}");
        }
    }

    proptest! {
        #[test]
        fn burstable_containers_stand_between_the_other_classes(
            request in 0_i64..i64::MAX, capacity in 0_i64..i64::MAX, own in 0_i64..i64::MAX, keeps in any::<bool>(),
        ) {
            let text = format!("cpu=1,memory={request}");
            let one = if keeps { sidecar("a", &text, "") } else { container("a", &text, "") };
            let other = container("b", "memory=1", "");
            let pod = with_pod_level(pod(vec![other], vec![one.clone()]), &format!("memory={own},cpu=1"), "");
            let node = NodeMemory { capacity_bytes: capacity };
            let score = container_oom_score_adj(&pod, &one, &node, &ResourceOptions::default());
            prop_assert!((3..=999).contains(&score), "{}", score);
        }
    }
}
