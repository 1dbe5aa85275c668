//! Metrics of the managers of CPUs, memory and topology, read at a scrape (OBS-07): counts from `AllocationManager`.

use prometheus::proto::MetricFamily;

use crate::actors::kit::trace::Cause;
use crate::logic::resources::allocations::{ManagerFigures, TopologyCounts};
use crate::logic::resources::cpu_manager::CpuFigures;
use crate::logic::resources::memory_manager::MemoryFigures;
use crate::messages::resources::allocation_manager::{AllocationManagerMsg, HardwareMsg};
use crate::telemetry::registry::families::{Family, MILLISECOND};
use crate::telemetry::sources::Sources;

use super::resize_metrics::ASK_LIMIT;

/// The families; none while the managers' files are not read. `by_pod` is the gate `PodLevelResourceManagers`.
pub(in crate::telemetry) async fn families(sources: &Sources, by_pod: bool, families: &mut Vec<MetricFamily>) {
    let ask = |reply| AllocationManagerMsg::Hardware(HardwareMsg::Figures(reply));
    let asked = sources.directory.allocation_manager.ask(Cause::outside("request"), ASK_LIMIT, ask).await;
    let Ok(Some(figures)) = asked else { return };
    let ManagerFigures { cpus, memory, topology } = &*figures;
    of_cpus(cpus, families);
    of_memory(memory, families);
    of_topology(topology, families);
    aligned(cpus, topology, families);
    if by_pod {
        by_source(cpus, memory, families);
    }
}

fn single(family: Family, value: u64, families: &mut Vec<MetricFamily>) {
    let mut family = family;
    family.sample(&[], value as f64);
    family.finish(families);
}

fn of_cpus(cpus: &CpuFigures, families: &mut Vec<MetricFamily>) {
    let help = "[ALPHA] The number of cpu core allocations which required pinning.";
    single(Family::counter("kubelet_cpu_manager_pinning_requests_total", help), cpus.counts.pinning_requests, families);
    let help = "[ALPHA] The number of cpu core allocations which required pinning failed.";
    single(Family::counter("kubelet_cpu_manager_pinning_errors_total", help), cpus.counts.pinning_errors, families);
    let help = "[ALPHA] The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.";
    let family = Family::gauge("kubelet_cpu_manager_shared_pool_size_millicores", help);
    single(family, cpus.shared_pool_millicores, families);
    let help = "[ALPHA] The total number of CPUs exclusively allocated to containers running on this node";
    let family = Family::gauge("kubelet_cpu_manager_exclusive_cpu_allocation_count", help);
    single(family, cpus.exclusive_cpus, families);
    let help = "[ALPHA] Number of CPUs allocated per NUMA node";
    let mut family = Family::gauge("kubelet_cpu_manager_allocation_per_numa", help);
    for (node, count) in &cpus.exclusive_by_node {
        family.sample(&[("numa_node", &node.to_string())], *count as f64);
    }
    family.finish(families);
}

fn of_memory(memory: &MemoryFigures, families: &mut Vec<MetricFamily>) {
    let help = "[ALPHA] The number of memory pages allocations which required pinning.";
    single(Family::counter("kubelet_memory_manager_pinning_requests_total", help), memory.pinning_requests, families);
    let help = "[ALPHA] The number of memory pages allocations which required pinning that failed.";
    single(Family::counter("kubelet_memory_manager_pinning_errors_total", help), memory.pinning_errors, families);
}

fn of_topology(topology: &TopologyCounts, families: &mut Vec<MetricFamily>) {
    let help = "[ALPHA] The number of admission requests where resources have to be aligned.";
    single(Family::counter("kubelet_topology_manager_admission_requests_total", help), topology.requests, families);
    let help = "[ALPHA] The number of admission request failures where resources could not be aligned.";
    single(Family::counter("kubelet_topology_manager_admission_errors_total", help), topology.errors, families);
    let help = "[ALPHA] Duration in milliseconds to serve a pod admission request.";
    let mut family = Family::histogram("kubelet_topology_manager_admission_duration_ms", help);
    family.distribution(&[], &topology.lengths, MILLISECOND);
    family.finish(families);
}

fn aligned(cpus: &CpuFigures, topology: &TopologyCounts, families: &mut Vec<MetricFamily>) {
    let counts = &cpus.counts;
    let samples = |family: &mut Family, of: &[(&str, &str, u64)]| {
        for (scope, boundary, count) in of.iter().filter(|(_, _, count)| *count > 0) {
            family.sample(&[("boundary", boundary), ("scope", scope)], *count as f64);
        }
    };
    let help = "[ALPHA] Cumulative number of aligned compute resources allocated to containers by alignment type.";
    let mut family = Family::counter("kubelet_container_aligned_compute_resources_count", help);
    samples(
        &mut family,
        &[
            ("container", "physical_cpu", counts.aligned_cores),
            ("container", "uncore_cache", counts.aligned_uncores),
            (topology.scope, "numa_node", topology.aligned),
        ],
    );
    family.finish(families);
    let help = "[ALPHA] Cumulative number of failures to allocate aligned compute resources to containers by alignment \
                type.";
    let mut family = Family::counter("kubelet_container_aligned_compute_resources_failure_count", help);
    samples(
        &mut family,
        &[
            ("container", "physical_cpu", counts.misaligned_cores),
            (topology.scope, "numa_node", topology.alignment_failures),
        ],
    );
    family.finish(families);
}

fn by_source(cpus: &CpuFigures, memory: &MemoryFigures, families: &mut Vec<MetricFamily>) {
    let cpus = &cpus.counts;
    let mut add = |name: &'static str, help: &'static str, label: &str, samples: &[(&str, &str, u64)]| {
        let mut family = Family::counter(name, help);
        for (resource, value, count) in samples.iter().filter(|(_, _, count)| *count > 0) {
            family.sample(&[(label, value), ("resource_name", resource)], *count as f64);
        }
        family.finish(families);
    };
    add(
        "resource_manager_allocations_total",
        "[ALPHA] Number of exclusive resource allocations performed by a resource manager.",
        "source",
        &[
            ("cpu", "node", cpus.allocations_of_node),
            ("cpu", "pod", cpus.allocations_of_pod),
            ("memory", "node", memory.allocations_of_node),
            ("memory", "pod", memory.allocations_of_pod),
        ],
    );
    add(
        "resource_manager_allocation_errors_total",
        "[ALPHA] Number of errors encountered during exclusive resource allocation.",
        "source",
        &[
            ("cpu", "node", cpus.errors_of_node),
            ("cpu", "pod", cpus.errors_of_pod),
            ("memory", "node", memory.errors_of_node),
            ("memory", "pod", memory.errors_of_pod),
        ],
    );
    add(
        "resource_manager_container_assignments",
        "[ALPHA] Number of containers with a specific type of resource assignment.",
        "assignment_type",
        &[
            ("cpu", "node_exclusive", cpus.node_exclusive),
            ("cpu", "pod_exclusive", cpus.pod_exclusive),
            ("cpu", "pod_shared", cpus.pod_shared),
            ("memory", "node_exclusive", memory.node_exclusive),
            ("memory", "pod_exclusive", memory.pod_exclusive),
            ("memory", "pod_shared", memory.pod_shared),
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::resources::allocations::ResourceManagers;

    /// OBS-07: with the policies `none` the families that have no labels are there, and say nothing was given.
    #[test]
    fn obs_07_the_managers_tell_upstreams_families() {
        let ManagerFigures { mut cpus, memory, mut topology } = ResourceManagers::default().figures();
        cpus.counts.aligned_cores = 2;
        cpus.exclusive_by_node.insert(0, 3);
        topology.alignment_failures = 1;
        topology.lengths.add(std::time::Duration::from_micros(60));
        let mut families = vec![];
        of_cpus(&cpus, &mut families);
        of_memory(&memory, &mut families);
        of_topology(&topology, &mut families);
        aligned(&cpus, &topology, &mut families);
        by_source(&cpus, &memory, &mut families);
        let text = prometheus::TextEncoder::new().encode_to_string(&families).expect("families");
        for line in [
            "kubelet_cpu_manager_pinning_requests_total 0",
            "kubelet_cpu_manager_allocation_per_numa{numa_node=\"0\"} 3",
            "kubelet_memory_manager_pinning_errors_total 0",
            "kubelet_topology_manager_admission_requests_total 0",
            "kubelet_topology_manager_admission_duration_ms_bucket{le=\"0.05\"} 0",
            "kubelet_topology_manager_admission_duration_ms_bucket{le=\"0.1\"} 1",
            "kubelet_topology_manager_admission_duration_ms_bucket{le=\"819.2\"} 1",
            "kubelet_container_aligned_compute_resources_count{boundary=\"physical_cpu\",scope=\"container\"} 2",
            "kubelet_container_aligned_compute_resources_failure_count{boundary=\"numa_node\",scope=\"container\"} 1",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
    }
}
