//! Pods in the order in which they end: those of low priority first (upstream's `groupByPriority`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::ShutdownPeriod;

/// Pods that end together.
#[derive(Clone, Debug, PartialEq)]
pub struct ShutdownGroup {
    /// Their least priority.
    pub priority: i32,
    /// How long they may take.
    pub period: Duration,
    /// The pods.
    pub pods: Vec<Arc<Pod>>,
}

/// The groups of these pods, in their order; none is empty. A pod is in the group with the highest priority that is not above
/// its own; one below all of them is in the lowest. `periods` are in order of priority.
pub fn groups(periods: &[ShutdownPeriod], pods: Vec<Arc<Pod>>) -> Vec<ShutdownGroup> {
    let group = |one: &ShutdownPeriod| ShutdownGroup { priority: one.priority, period: one.period, pods: vec![] };
    let mut groups: Vec<ShutdownGroup> = periods.iter().map(group).collect();
    for pod in pods {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        let above = groups.partition_point(|group| group.priority <= priority);
        if let Some(group) = groups.get_mut(above.saturating_sub(1)) {
            group.pods.push(pod);
        }
    }
    groups.retain(|group| !group.pods.is_empty());
    groups
}

/// How long the containers of a pod have to end: the group's time, or the pod's own grace period where that is less.
pub fn grace(pod: &Pod, period: Duration) -> Duration {
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    own.map_or(period, |seconds| period.min(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, priority: Option<i32>) -> Arc<Pod> {
        let spec = json!({ "containers": [], "priority": priority });
        Arc::new(serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).expect("a pod"))
    }

    /// NODE-44.
    #[test]
    fn node_44_a_pod_is_in_the_highest_group_that_is_not_above_it() {
        let second = Duration::from_secs(1);
        let periods = [-100, 0, 1000].map(|priority| ShutdownPeriod { priority, period: second });
        let pods = [
            ("lowest", Some(-200)),
            ("low", Some(-100)),
            ("below", Some(-1)),
            ("none", None),
            ("between", Some(999)),
            ("high", Some(1000)),
            ("highest", Some(i32::MAX)),
        ];
        let found = groups(&periods, pods.iter().map(|(name, priority)| pod(name, *priority)).collect());
        let names = |group: &ShutdownGroup| {
            group.pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let found: Vec<_> = found.iter().map(|group| (group.priority, names(group))).collect();
        let expected = [(-100, "lowest low below"), (0, "none between"), (1000, "high highest")];
        assert_eq!(found, expected.map(|(priority, names)| (priority, names.to_owned())));
        let few = groups(&periods, vec![pod("high", Some(5000))]);
        assert_eq!(few.len(), 1, "nobody waits for a group without pods");
        assert!(groups(&[], vec![pod("any", None)]).is_empty());
    }

    /// NODE-44.
    #[test]
    fn a_pod_has_its_own_grace_period_or_the_groups_time() {
        let of = |seconds: Option<i64>| {
            let spec = json!({ "containers": [], "terminationGracePeriodSeconds": seconds });
            let pod: Pod = serde_json::from_value(json!({ "spec": spec })).expect("a pod");
            grace(&pod, Duration::from_secs(10)).as_secs()
        };
        assert_eq!(
            [of(None), of(Some(3)), of(Some(10)), of(Some(30)), of(Some(0)), of(Some(-1))],
            [10, 3, 10, 10, 0, 0]
        );
    }
}
