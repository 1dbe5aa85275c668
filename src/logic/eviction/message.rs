//! The message of an eviction under pressure (EVI-23, EVI-25). The texts are upstream's, with their blanks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::monitor::Shortage;
use super::signal::Resource;
use super::usage;
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::{container_requests, has_pod_level_resources, resource_list};
use crate::logic::statistics::summary::{ContainerStats, PodStats};

/// The sentence and the Event's annotations for a pod that goes.
pub fn message(
    shortage: &Shortage,
    pod: &Pod,
    stats: Option<&PodStats>,
    pod_level_resources: bool,
) -> (String, BTreeMap<String, String>) {
    let resource = shortage.resource();
    let mut text = format!("The node was low on resource: {resource}. ");
    if let Some((threshold, observed)) = shortage.all.iter().find(|(one, _)| one.signal.resource() == resource) {
        let available = resource.quantity(observed.available);
        let _ = write!(text, "Threshold quantity: {}, available: {available}. ", threshold.quantity(observed));
    }
    let mut annotations = BTreeMap::new();
    let Some(stats) = stats else { return (text, annotations) };
    let larger = |kind: &str, name: &str, usage: Quantity, request: Quantity| {
        format!("{kind} {name} was using {usage}, request is {request}, has larger consumption of {resource}. ")
    };
    if let Some((usage, request)) = of_pod(resource, pod, stats).filter(|_| pod_level_resources) {
        let name = pod.metadata.name.clone().unwrap_or_default();
        text += &larger("Pod", &name, usage, request);
        annotations.insert("offending_pod".to_owned(), name);
        annotations.insert("offending_pod_usage".to_owned(), usage.to_string());
    }
    let (mut names, mut usages) = (Vec::new(), Vec::new());
    for stats in &stats.containers {
        let Some(container) = container(pod, &stats.name) else { continue };
        let requests = container_requests(container);
        let request = requests.get(<&str>::from(resource)).copied().unwrap_or_default();
        if let Some(usage) = of_container(resource, stats).filter(|usage| *usage > request) {
            text += &larger("Container", &container.name, usage, request);
            names.push(container.name.clone());
            usages.push(usage.to_string());
        }
    }
    annotations.insert("offending_containers".to_owned(), names.join(","));
    annotations.insert("offending_containers_usage".to_owned(), usages.join(","));
    annotations.insert("starved_resource".to_owned(), resource.to_string());
    (text, annotations)
}

/// The use of a pod with a request of its own, and that request; only memory is said of pods.
fn of_pod(resource: Resource, pod: &Pod, stats: &PodStats) -> Option<(Quantity, Quantity)> {
    if resource != Resource::Memory || !has_pod_level_resources(pod) {
        return None;
    }
    let own = pod.spec.as_ref()?.resources.as_ref()?.requests.as_ref();
    let request = *resource_list(own).get(<&str>::from(resource))?;
    let usage = usage::memory(Some(stats.memory.as_ref()?));
    Some((resource.quantity(usage), request))
}

/// A container that can ask for resources: an ephemeral one cannot, and is never blamed.
fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|container| container.name == name)
}

fn of_container(resource: Resource, stats: &ContainerStats) -> Option<Quantity> {
    let used = match resource {
        Resource::Memory => stats.memory?.working_set_bytes?,
        Resource::EphemeralStorage => stats.rootfs?.used_bytes?.saturating_add(stats.logs?.used_bytes?),
        Resource::Inodes | Resource::Pids => return None,
    };
    Some(resource.quantity(used))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::logic::eviction::signal::Signal;
    use crate::logic::eviction::testing::{container as files, memory, observation, pod, space, stats, threshold};

    fn shortage(signal: Signal, value: u64, available: u64) -> Shortage {
        let threshold = threshold(signal, value);
        Shortage { threshold, all: vec![(threshold, observation(available))] }
    }

    /// EVI-23, EVI-25.
    #[test]
    fn evi_23_evi_25_the_message_names_who_used_more_than_it_asked_for() {
        let containers = json!([
            {"name": "greedy", "resources": {"requests": {"memory": "1Mi"}}},
            {"name": "modest", "resources": {"requests": {"memory": "1Gi"}}},
        ]);
        let pod = pod("p", 0, json!({"containers": containers, "initContainers": [{"name": "side"}]}));
        let mut stats = stats("p");
        for (name, bytes) in [("debugger", 9 << 20), ("greedy", 3 << 20), ("modest", 5 << 20), ("side", 2048)] {
            let memory = Some(memory(bytes));
            stats.containers.push(ContainerStats { name: name.into(), memory, ..ContainerStats::default() });
        }
        let (text, annotations) =
            message(&shortage(Signal::MemoryAvailable, 100 << 20, 50 << 20), &pod, Some(&stats), true);
        assert_eq!(
            text,
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. \
             Container greedy was using 3Mi, request is 1Mi, has larger consumption of memory. \
             Container side was using 2Ki, request is 0, has larger consumption of memory. "
        );
        let annotations: Vec<_> = annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            annotations,
            [
                ("offending_containers", "greedy,side"),
                ("offending_containers_usage", "3Mi,2Ki"),
                ("starved_resource", "memory"),
            ]
        );
    }

    /// EVI-25.
    #[test]
    fn evi_25_a_pod_with_resources_of_its_own_is_named_too() {
        let pod = pod("p", 0, json!({"resources": {"requests": {"memory": "1Mi"}}}));
        let stats = PodStats { memory: Some(memory(2 << 20)), ..stats("p") };
        let shortage = shortage(Signal::MemoryAvailable, 100 << 20, 50 << 20);
        let (text, annotations) = message(&shortage, &pod, Some(&stats), true);
        assert!(text.ends_with("Pod p was using 2Mi, request is 1Mi, has larger consumption of memory. "), "{text}");
        assert_eq!(annotations.get("offending_pod_usage").map(String::as_str), Some("2Mi"));
        let (text, annotations) = message(&shortage, &pod, Some(&stats), false);
        assert!(!text.contains("Pod p"), "{text}");
        assert_eq!(annotations.get("offending_pod"), None);
    }

    /// EVI-25.
    #[test]
    fn evi_25_disks_and_pods_without_statistics() {
        let pod = pod("p", 0, json!({}));
        let mut stats = stats("p");
        stats.containers = vec![files("c", space(1 << 20, 1), space(1 << 20, 1))];
        let disk = shortage(Signal::NodeFsAvailable, 1 << 30, 1 << 20);
        let (text, _) = message(&disk, &pod, Some(&stats), true);
        assert_eq!(
            text,
            "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 1Mi. \
             Container c was using 2Mi, request is 0, has larger consumption of ephemeral-storage. "
        );
        let (text, annotations) = message(&disk, &pod, None, true);
        assert_eq!(text, "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 1Mi. ");
        assert!(annotations.is_empty());
        let files = shortage(Signal::NodeFsInodesFree, 5000, 4000);
        let (text, annotations) = message(&files, &pod, Some(&stats), true);
        assert_eq!(text, "The node was low on resource: inodes. Threshold quantity: 5k, available: 4k. ");
        assert_eq!(annotations.get("offending_containers").map(String::as_str), Some(""));
    }
}
