//! Requests and limits of a pod as a whole.
//!
//! Regular containers and sidecars run side by side and are added; an init container runs beside the sidecars before it
//! only, so the largest such moment counts (KEP-753); pod-level values replace the sums (KEP-2837); the overhead of
//! the runtime class comes on top (KEP-688).

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::{CPU, HUGEPAGES_PREFIX, MEMORY, ResourceList, container_limits, container_requests, resource_list};

/// The requests of a pod. `pod_level_resources` is the gate of that name; without `overhead` the runtime's share is left
/// out.
pub fn pod_requests(pod: &Pod, pod_level_resources: bool, overhead: bool) -> ResourceList {
    let Some(spec) = &pod.spec else { return ResourceList::new() };
    let mut requests = aggregate_container_requests(spec);
    if pod_level_resources {
        let own = resource_list(spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
        requests.extend(own.into_iter().filter(|(name, _)| is_pod_level_resource(name)));
    }
    if overhead {
        add(&mut requests, &resource_list(spec.overhead.as_ref()));
    }
    requests
}

/// The limits of a pod. The overhead is added only where there is a limit: it must not create one.
pub fn pod_limits(pod: &Pod, pod_level_resources: bool, overhead: bool) -> ResourceList {
    let Some(spec) = &pod.spec else { return ResourceList::new() };
    let mut limits = aggregate_container_limits(spec);
    if pod_level_resources {
        let own = resource_list(spec.resources.as_ref().and_then(|resources| resources.limits.as_ref()));
        limits.extend(own.into_iter().filter(|(name, _)| is_pod_level_resource(name)));
    }
    if overhead {
        for (name, quantity) in resource_list(spec.overhead.as_ref()) {
            if let Some(limit) = limits.get_mut(&name).filter(|limit| !limit.is_zero()) {
                *limit = limit.plus(quantity);
            }
        }
    }
    limits
}

/// The requests of a pod's containers, without pod-level resources and overhead.
pub fn aggregate_container_requests(spec: &PodSpec) -> ResourceList {
    aggregate(spec, container_requests)
}

/// The limits of a pod's containers, without pod-level resources and overhead.
pub fn aggregate_container_limits(spec: &PodSpec) -> ResourceList {
    aggregate(spec, container_limits)
}

/// Whether a pod has resources of its own that count; upstream's `IsPodLevelResourcesSet`.
pub fn has_pod_level_resources(pod: &Pod) -> bool {
    let Some(resources) = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref()) else { return false };
    let names = resources.requests.iter().flatten().chain(resources.limits.iter().flatten());
    names.into_iter().any(|(name, _)| is_pod_level_resource(name))
}

/// Whether an init container keeps running beside the regular ones.
pub(super) fn is_sidecar(init_container: &Container) -> bool {
    init_container.restart_policy.as_deref() == Some("Always")
}

/// The limits at each moment of a pod's start: every regular container's own limits, then for each init
/// container the sum in force while it starts. Upstream asks these whether all are limited.
pub(super) fn limits_by_moment(pod: &Pod) -> Vec<ResourceList> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let regular = spec.containers.iter().map(container_limits);
    regular.chain(init_moments(spec.init_containers.as_deref().unwrap_or_default(), container_limits)).collect()
}

/// Whether a pod as a whole can have this resource.
pub fn is_pod_level_resource(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with(HUGEPAGES_PREFIX)
}

fn aggregate(spec: &PodSpec, of: fn(&Container) -> ResourceList) -> ResourceList {
    let mut sum = ResourceList::new();
    let init_containers = spec.init_containers.as_deref().unwrap_or_default();
    let sidecars = init_containers.iter().filter(|container| is_sidecar(container));
    for container in spec.containers.iter().chain(sidecars) {
        add(&mut sum, &of(container));
    }
    for moment in init_moments(init_containers, of) {
        for (name, quantity) in moment {
            let entry = sum.entry(name).or_insert(quantity);
            *entry = (*entry).max(quantity);
        }
    }
    sum
}

/// The resources in force while each init container starts: itself and the sidecars before it.
fn init_moments(init_containers: &[Container], of: fn(&Container) -> ResourceList) -> Vec<ResourceList> {
    let mut sidecars = ResourceList::new();
    let mut moments = Vec::with_capacity(init_containers.len());
    for container in init_containers {
        let mut moment = sidecars.clone();
        add(&mut moment, &of(container));
        if is_sidecar(container) {
            sidecars.clone_from(&moment);
        }
        moments.push(moment);
    }
    moments
}

fn add(sum: &mut ResourceList, list: &ResourceList) {
    for (name, quantity) in list {
        let entry = sum.entry(name.clone()).or_default();
        *entry = entry.plus(*quantity);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logic::resources::testing::{container, list, pod, sidecar, with_overhead, with_pod_level};

    fn expect(text: &str) -> ResourceList {
        resource_list(list(text).as_ref())
    }

    #[test]
    fn containers_add_up_and_init_containers_count_at_their_largest_moment() {
        let regular = || vec![container("a", "cpu=100m,memory=1Gi", ""), container("b", "cpu=200m", "")];
        let cases = [
            ("regular alone", regular(), vec![], "cpu=300m,memory=1Gi"),
            ("a small init", regular(), vec![container("i", "cpu=250m", "")], "cpu=300m,memory=1Gi"),
            ("a large init", regular(), vec![container("i", "cpu=1,x.y/z=2", "")], "cpu=1,memory=1Gi,x.y/z=2"),
            (
                "inits are not added to each other",
                regular(),
                vec![container("i", "cpu=400m", ""), container("j", "cpu=350m", "")],
                "cpu=400m,memory=1Gi",
            ),
            ("a sidecar is added", regular(), vec![sidecar("s", "cpu=50m", "")], "cpu=350m,memory=1Gi"),
            (
                "an init runs beside the sidecars before it",
                regular(),
                vec![sidecar("s", "cpu=50m", ""), container("i", "cpu=400m", ""), sidecar("t", "cpu=10m", "")],
                "cpu=450m,memory=1Gi",
            ),
            (
                "an init before the sidecars runs alone",
                regular(),
                vec![container("i", "cpu=400m", ""), sidecar("s", "cpu=50m", "")],
                "cpu=400m,memory=1Gi",
            ),
        ];
        for (name, containers, init_containers, expected) in cases {
            assert_eq!(pod_requests(&pod(containers, init_containers), true, true), expect(expected), "{name}");
        }
    }

    #[test]
    fn pod_level_values_replace_the_sums_and_the_overhead_comes_on_top() {
        let plain = pod(vec![container("a", "cpu=100m,memory=1Gi", "cpu=1")], vec![]);
        let own = with_pod_level(plain.clone(), "cpu=2,x.y/z=5", "memory=4Gi");
        assert_eq!(pod_requests(&own, true, true), expect("cpu=2,memory=1Gi"));
        assert_eq!(pod_requests(&own, false, true), expect("cpu=100m,memory=1Gi"));
        assert_eq!(pod_limits(&own, true, true), expect("cpu=1,memory=4Gi"));
        assert!(has_pod_level_resources(&own));
        assert!(!has_pod_level_resources(&with_pod_level(plain.clone(), "x.y/z=5", "")));

        let heavy = with_overhead(plain, "cpu=250m,memory=120Mi");
        assert_eq!(pod_requests(&heavy, true, true), expect("cpu=350m,memory=1144Mi"));
        assert_eq!(pod_requests(&heavy, true, false), expect("cpu=100m,memory=1Gi"));
        // No memory limit: the overhead makes none.
        assert_eq!(pod_limits(&heavy, true, true), expect("cpu=1250m"));
        assert_eq!(pod_limits(&heavy, true, false), expect("cpu=1"));
    }

    proptest! {
        #[test]
        fn a_pod_never_asks_for_less_than_any_moment_of_it(
            regular in prop::collection::vec(0_i64..5_000, 1..4),
            inits in prop::collection::vec((0_i64..5_000, any::<bool>()), 0..5),
        ) {
            let make = |milli: &i64| container("c", &format!("cpu={milli}m"), "");
            let init_containers = inits.iter().map(|(milli, keeps)| {
                if *keeps { sidecar("s", &format!("cpu={milli}m"), "") } else { make(milli) }
            });
            let pod = pod(regular.iter().map(make).collect(), init_containers.collect());
            let asked = pod_requests(&pod, true, true)[CPU].milli_value();
            let kept: i64 = inits.iter().filter(|(_, keeps)| *keeps).map(|(milli, _)| milli).sum();
            prop_assert!(asked >= regular.iter().sum::<i64>() + kept);
            let mut before = 0;
            for (milli, keeps) in &inits {
                prop_assert!(asked >= before + milli);
                before += if *keeps { *milli } else { 0 };
            }
        }
    }
}
