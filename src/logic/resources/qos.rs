//! A pod's quality of service class.
//!
//! As upstream's `ComputePodQOS`: Guaranteed when every container limits CPU and memory and asks for as much,
//! BestEffort when nothing is asked or limited, else Burstable. Pod-level resources, when set, decide alone (KEP-2837).

use std::fmt;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::{CPU, MEMORY, Quantity, ResourceList, container_limits, container_requests, resource_list};

/// Quality of service, from the best to the least protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QosClass {
    /// Gets what it asked for, and no more.
    Guaranteed,
    /// Gets what it asked for, and what is left.
    Burstable,
    /// Gets what is left.
    BestEffort,
}

impl QosClass {
    /// The class as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The class of a pod: the one persisted in its status, else computed from its spec. `pod_level_resources` is the gate
/// of that name.
pub fn pod_qos(pod: &Pod, pod_level_resources: bool) -> QosClass {
    match pod.status.as_ref().and_then(|status| status.qos_class.as_deref()) {
        Some("Guaranteed") => QosClass::Guaranteed,
        Some("Burstable") => QosClass::Burstable,
        Some("BestEffort") => QosClass::BestEffort,
        // Absent, or no class of ours: the spec decides.
        _ => pod.spec.as_ref().map_or(QosClass::BestEffort, |spec| compute(spec, pod_level_resources)),
    }
}

fn compute(spec: &PodSpec, pod_level_resources: bool) -> QosClass {
    let mut requests = ResourceList::new();
    let mut limits = ResourceList::new();
    let mut all_limited = true;
    if let Some(resources) = spec.resources.as_ref().filter(|_| pod_level_resources) {
        add_supported(&mut requests, &resource_list(resources.requests.as_ref()));
        let own = resource_list(resources.limits.as_ref());
        add_supported(&mut limits, &own);
        all_limited = own.is_empty() || limits_cpu_and_memory(&own);
    } else {
        for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
            add_supported(&mut requests, &container_requests(container));
            let own = container_limits(container);
            add_supported(&mut limits, &own);
            all_limited &= limits_cpu_and_memory(&own);
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return QosClass::BestEffort;
    }
    let matched = requests.iter().all(|(name, request)| limits.get(name) == Some(request));
    if all_limited && matched && requests.len() == limits.len() { QosClass::Guaranteed } else { QosClass::Burstable }
}

fn limits_cpu_and_memory(limits: &ResourceList) -> bool {
    [CPU, MEMORY].iter().all(|name| limits.get(*name).is_some_and(Quantity::is_positive))
}

/// Adds what counts for the class: CPU and memory, more than nothing.
fn add_supported(sum: &mut ResourceList, list: &ResourceList) {
    for name in [CPU, MEMORY] {
        if let Some(quantity) = list.get(name).filter(|quantity| quantity.is_positive()) {
            let entry = sum.entry(name.to_owned()).or_default();
            *entry = entry.plus(*quantity);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodStatus;
    use proptest::prelude::*;

    use super::*;
    use crate::logic::resources::testing::{container, pod, sidecar, with_pod_level};

    const BOTH: &str = "cpu=100m,memory=100Mi";

    /// POD-30.
    #[test]
    fn the_class_follows_requests_and_limits() {
        use QosClass::{BestEffort, Burstable, Guaranteed};
        let cases = [
            ("equal in all", vec![container("a", BOTH, BOTH)], vec![], Guaranteed),
            ("equal, written apart", vec![container("a", "cpu=0.1,memory=102400Ki", BOTH)], vec![], Guaranteed),
            ("two equal ones", vec![container("a", BOTH, BOTH), container("b", BOTH, BOTH)], vec![], Guaranteed),
            ("limits alone", vec![container("a", "", BOTH)], vec![], Burstable),
            ("requests alone", vec![container("a", BOTH, "")], vec![], Burstable),
            ("one without", vec![container("a", BOTH, BOTH), container("b", "", "")], vec![], Burstable),
            ("no memory limit", vec![container("a", "cpu=1", "cpu=1")], vec![], Burstable),
            ("asks less", vec![container("a", "cpu=50m,memory=100Mi", BOTH)], vec![], Burstable),
            ("nothing", vec![container("a", "", "")], vec![], BestEffort),
            ("zero", vec![container("a", "cpu=0,memory=0", "cpu=0")], vec![], BestEffort),
            ("another resource", vec![container("a", "ephemeral-storage=1Gi", "x.y/z=1")], vec![], BestEffort),
            ("init without", vec![container("a", BOTH, BOTH)], vec![container("i", "", "")], Burstable),
            ("init alone asks", vec![container("a", "", "")], vec![container("i", "cpu=1", "")], Burstable),
            ("equal sidecar", vec![container("a", BOTH, BOTH)], vec![sidecar("s", BOTH, BOTH)], Guaranteed),
        ];
        for (name, containers, init_containers, class) in cases {
            assert_eq!(pod_qos(&pod(containers, init_containers), true), class, "{name}");
        }
        assert_eq!(pod_qos(&Pod::default(), true), QosClass::BestEffort);
    }

    #[test]
    fn pod_level_resources_decide_alone_where_the_gate_is_on() {
        let plain = || pod(vec![container("a", "cpu=1", "")], vec![]);
        let cases =
            [(BOTH, BOTH, QosClass::Guaranteed), (BOTH, "", QosClass::Burstable), ("", "", QosClass::BestEffort)];
        for (requests, limits, class) in cases {
            let pod = with_pod_level(plain(), requests, limits);
            assert_eq!(pod_qos(&pod, true), class, "{requests} {limits}");
            assert_eq!(pod_qos(&pod, false), QosClass::Burstable, "{requests} {limits}, gate off");
        }
        assert_eq!(pod_qos(&with_pod_level(plain(), "cpu=1", "cpu=1"), true), QosClass::Burstable);
    }

    #[test]
    fn a_persisted_class_is_kept() {
        let mut pod = pod(vec![container("a", "", "")], vec![]);
        for (text, class) in [("Guaranteed", QosClass::Guaranteed), ("", QosClass::BestEffort)] {
            pod.status = Some(PodStatus { qos_class: Some(text.to_owned()), ..PodStatus::default() });
            assert_eq!(pod_qos(&pod, true), class, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_guaranteed_pod_loses_its_class_with_any_container_that_limits_less(
            cpu in 1_i64..10_000, memory in 1_i64..1 << 40, count in 1_usize..4,
        ) {
            let both = format!("cpu={cpu}m,memory={memory}");
            let mut containers = vec![container("a", &both, &both); count];
            prop_assert_eq!(pod_qos(&pod(containers.clone(), vec![]), true), QosClass::Guaranteed);
            containers.push(container("b", "", &format!("cpu={cpu}m")));
            prop_assert_eq!(pod_qos(&pod(containers, vec![]), true), QosClass::Burstable);
        }
    }
}
