//! Memory that the kernel keeps for who asked for it, and the limit from which it slows others down (KEP-2570, gate
//! `MemoryQoS`, cgroup v2 alone).
//!
//! As upstream 1.36: `memory.high` of containers always; `memory.min` of guaranteed and `memory.low` of burstable pods only
//! with `memoryReservationPolicy: TieredReservation`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::logic::resources::{
    MEMORY, QosClass, ResourceOptions, amount, container_limits, container_requests, pod_qos, pod_requests,
};

/// Memory that the kernel never takes back.
pub(in crate::logic::resources) const MIN: &str = "memory.min";
/// Memory that the kernel takes back last.
pub(in crate::logic::resources) const LOW: &str = "memory.low";
/// Memory from which on it slows its users down.
const HIGH: &str = "memory.high";
/// `memory.high` is a multiple of it, in bytes.
const PAGE_BYTES: i64 = 4096;

/// Settings from the configuration and the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryQos {
    /// `memoryThrottlingFactor`: the part of what lies between request and limit that may be used unslowed.
    pub throttling_factor: f64,
    /// `memoryReservationPolicy: TieredReservation`.
    pub reserves: bool,
    /// The node's allocatable memory, in bytes: it stands for the limit of a container that has none.
    pub allocatable_bytes: i64,
}

/// The values that are written beside the rest to a container's cgroup.
pub(super) fn container_unified(
    pod: &Pod,
    container: &Container,
    options: &ResourceOptions,
) -> BTreeMap<String, String> {
    let Some(qos) = options.memory_qos else { return BTreeMap::new() };
    let request = amount(&container_requests(container), MEMORY).value();
    let limit = amount(&container_limits(container), MEMORY).value();
    let mut unified = BTreeMap::new();
    let mut put = |key: &str, value: i64| unified.insert(key.to_owned(), value.to_string());
    if request != 0 && qos.reserves {
        put(key_of(pod, options), request);
    } else {
        // A value that an earlier configuration kept is given back.
        put(MIN, 0);
        put(LOW, 0);
    }
    if request != limit {
        let most = if limit == 0 { qos.allocatable_bytes } else { limit };
        let high = high(request, most, qos.throttling_factor);
        if most > 0 && high != 0 && high > request {
            put(HIGH, high);
        }
    }
    unified
}

/// The values that are written beside the rest to a pod's cgroup.
pub(super) fn pod_unified(pod: &Pod, options: &ResourceOptions) -> BTreeMap<String, String> {
    if !options.memory_qos.is_some_and(|qos| qos.reserves) {
        return BTreeMap::new();
    }
    let request = amount(&pod_requests(pod, options.pod_level_resources, true), MEMORY).value();
    let reserved = (request > 0).then(|| (key_of(pod, options).to_owned(), request.to_string()));
    reserved.into_iter().collect()
}

fn key_of(pod: &Pod, options: &ResourceOptions) -> &'static str {
    if pod_qos(pod, options.pod_level_resources) == QosClass::Guaranteed { MIN } else { LOW }
}

/// The request, and of what lies between it and `most` the part that the factor names, in whole pages.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream's formula to the digit")]
fn high(request: i64, most: i64, factor: f64) -> i64 {
    let bytes = (request as f64 + (most as f64 - request as f64) * factor).floor();
    ((bytes / PAGE_BYTES as f64) as i64).saturating_mul(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::logic::resources::testing::{container, pod};

    const GI: i64 = 1 << 30;

    fn options(reserves: bool) -> ResourceOptions {
        let memory_qos = Some(MemoryQos { throttling_factor: 0.9, reserves, allocatable_bytes: 4 * GI });
        ResourceOptions { memory_qos, ..ResourceOptions::default() }
    }

    fn joined(unified: &BTreeMap<String, String>) -> String {
        unified.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// RES-21.
    #[test]
    fn a_container_is_slowed_before_its_limit_and_keeps_what_it_asked_for() {
        for (requests, limits, reserves, expected) in [
            // Guaranteed: request and limit are one.
            ("cpu=1,memory=1Gi", "cpu=1,memory=1Gi", false, "memory.low=0 memory.min=0"),
            ("cpu=1,memory=1Gi", "cpu=1,memory=1Gi", true, "memory.min=1073741824"),
            // Burstable: 1 Gi + 0.9 * 1 Gi, in pages.
            ("memory=1Gi", "memory=2Gi", false, "memory.high=2040107008 memory.low=0 memory.min=0"),
            ("memory=1Gi", "memory=2Gi", true, "memory.high=2040107008 memory.low=1073741824"),
            // Without a limit the node's memory stands for it: 1 Gi + 0.9 * 3 Gi.
            ("memory=1Gi", "", true, "memory.high=3972841472 memory.low=1073741824"),
            // Best effort: request and limit are one here, too.
            ("", "", true, "memory.low=0 memory.min=0"),
            // So close to the limit that no page is between.
            ("memory=4096", "memory=4097", false, "memory.low=0 memory.min=0"),
        ] {
            let container = container("a", requests, limits);
            let found = container_unified(&pod(vec![container.clone()], vec![]), &container, &options(reserves));
            assert_eq!(joined(&found), expected, "{requests} {limits} {reserves}");
        }
    }

    /// RES-22.
    #[test]
    fn a_pod_keeps_what_its_containers_keep() {
        let both = "cpu=1,memory=1Gi";
        let guaranteed = pod(vec![container("a", both, both), container("b", both, both)], vec![]);
        let burstable = pod(vec![container("a", "memory=1Gi", "memory=3Gi")], vec![]);
        let idle = pod(vec![container("a", "", "")], vec![]);
        for (one, reserving, not) in
            [(&guaranteed, "memory.min=2147483648", ""), (&burstable, "memory.low=1073741824", ""), (&idle, "", "")]
        {
            assert_eq!(joined(&pod_unified(one, &options(true))), reserving);
            assert_eq!(joined(&pod_unified(one, &options(false))), not);
        }
    }

    #[test]
    fn without_the_gate_nothing_is_written() {
        let container = container("a", "memory=1Gi", "memory=2Gi");
        let pod = pod(vec![container.clone()], vec![]);
        assert_eq!(container_unified(&pod, &container, &ResourceOptions::default()), BTreeMap::new());
        assert_eq!(pod_unified(&pod, &ResourceOptions::default()), BTreeMap::new());
    }

    proptest! {
        #[test]
        fn nobody_is_slowed_below_the_request_or_above_the_limit(
            request in 0_i64..64 * GI,
            more in 1_i64..64 * GI,
            factor in 0.01..1.0_f64,
        ) {
            let high = high(request, request + more, factor);
            prop_assert!(high <= request + more, "{high}");
            prop_assert!(high > request - PAGE_BYTES && high % PAGE_BYTES == 0, "{high}");
        }
    }
}
