//! Pods beyond their own limits of local storage (EVI-26, EVI-27, EVI-28). The texts are upstream's, with their blanks.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::layout::DiskLayout;
use super::{Eviction, GRACE_IMMEDIATE};
use crate::logic::model::quantity::{Format, Quantity};
use crate::logic::resources::{EPHEMERAL_STORAGE, container_limits, pod_limits};
use crate::logic::statistics::summary::{FsStats, PodStats};

/// Whether a pod has a limit that its statistics are needed for.
pub fn has_limits(pod: &Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let is_sized = |directory: &k8s_openapi::api::core::v1::EmptyDirVolumeSource| directory.size_limit.is_some();
    volumes.filter_map(|volume| volume.empty_dir.as_ref()).any(is_sized)
        || pod_limits(pod, false, false).contains_key(EPHEMERAL_STORAGE)
}

/// Why a pod goes, if it is beyond a limit; the first limit found counts, as upstream has it.
pub fn exceeded(pod: &Pod, stats: &PodStats, layout: DiskLayout) -> Option<Eviction> {
    let (message, signal) = of_volumes(pod, stats)
        .map(|message| (message, "emptydirfs.limit"))
        .or_else(|| of_pod(pod, stats).map(|message| (message, "ephemeralpodfs.limit")))
        .or_else(|| of_containers(pod, stats, layout).map(|message| (message, "ephemeralcontainerfs.limit")))?;
    let (grace, annotations) = (GRACE_IMMEDIATE, BTreeMap::new());
    Some(Eviction { grace, is_hard: true, message, annotations, is_disruption: false, signal })
}

fn of_volumes(pod: &Pod, stats: &PodStats) -> Option<String> {
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.find_map(|volume| {
        let size = volume.empty_dir.as_ref()?.size_limit.as_ref()?;
        let limit = Quantity::parse(&size.0).ok().filter(Quantity::is_positive)?;
        let found = stats.volumes.iter().find(|found| found.name == volume.name)?;
        (used(Some(&found.space)) > limit)
            .then(|| format!("Usage of EmptyDir volume {:?} exceeds the limit \"{limit}\". ", volume.name))
    })
}

/// The overhead of the runtime class comes on top of a limit that is not zero, as upstream has it.
fn of_pod(pod: &Pod, stats: &PodStats) -> Option<String> {
    let limit = *pod_limits(pod, false, true).get(EPHEMERAL_STORAGE)?;
    (used(stats.ephemeral_storage.as_ref()) > limit)
        .then(|| format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "))
}

/// Regular containers alone; those of an init container are over when it matters.
fn of_containers(pod: &Pod, stats: &PodStats, layout: DiskLayout) -> Option<String> {
    let containers = &pod.spec.as_ref()?.containers;
    stats.containers.iter().find_map(|found| {
        let container = containers.iter().find(|container| container.name == found.name)?;
        let limit = *container_limits(container).get(EPHEMERAL_STORAGE)?;
        let mut usage = used(found.logs.as_ref());
        if layout == DiskLayout::Single {
            usage = usage.plus(used(found.rootfs.as_ref()));
        }
        (!limit.is_zero() && usage > limit)
            .then(|| format!("Container {} exceeded its local ephemeral storage limit \"{limit}\". ", container.name))
    })
}

fn used(space: Option<&FsStats>) -> Quantity {
    let bytes = space.and_then(|space| space.used_bytes).unwrap_or(0);
    Quantity::from_units(i64::try_from(bytes).unwrap_or(i64::MAX), Format::BinarySi)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::logic::eviction::testing::{container, pod, space, stats, volume, with_overhead};

    fn limited(name: &str, limit: &str) -> serde_json::Value {
        json!({"name": name, "resources": {"limits": {"ephemeral-storage": limit}}})
    }

    fn told(pod: &Pod, stats: &PodStats, layout: DiskLayout) -> Option<(String, &'static str)> {
        exceeded(pod, stats, layout).map(|eviction| (eviction.message, eviction.signal))
    }

    /// EVI-26.
    #[test]
    fn evi_26_an_empty_directory_beyond_its_size() {
        let pod = pod("p", 0, json!({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "100"}}]}));
        assert!(has_limits(&pod));
        let with = |bytes| PodStats { volumes: vec![volume("v", space(bytes, 1))], ..stats("p") };
        assert_eq!(told(&pod, &with(100), DiskLayout::Single), None);
        let expected = "Usage of EmptyDir volume \"v\" exceeds the limit \"100\". ".to_owned();
        assert_eq!(told(&pod, &with(101), DiskLayout::Single), Some((expected, "emptydirfs.limit")));
        assert_eq!(told(&pod, &stats("p"), DiskLayout::Single), None, "not measured yet");
    }

    /// EVI-27.
    #[test]
    fn evi_27_a_pod_beyond_the_sum_of_its_limits() {
        let pod = pod("p", 0, json!({"containers": [limited("a", "60"), limited("b", "40"), {"name": "c"}]}));
        assert!(has_limits(&pod));
        let with = |bytes| PodStats { ephemeral_storage: Some(space(bytes, 1)), ..stats("p") };
        assert_eq!(told(&pod, &with(100), DiskLayout::Single), None);
        let expected = |limit: &str| {
            let message = format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. ");
            Some((message, "ephemeralpodfs.limit"))
        };
        assert_eq!(told(&pod, &with(101), DiskLayout::Single), expected("100"));
        let heavy = with_overhead(pod, "ephemeral-storage", "50");
        assert_eq!(told(&heavy, &with(150), DiskLayout::Single), None, "the overhead is granted, too");
        assert_eq!(told(&heavy, &with(151), DiskLayout::Single), expected("150"));
    }

    /// EVI-28.
    #[test]
    fn evi_28_a_container_beyond_its_limit_by_logs_and_layer() {
        let spec =
            json!({"containers": [limited("a", "100"), limited("none", "0")], "initContainers": [limited("i", "1")]});
        let pod = pod("p", 0, spec);
        let with = |name: &str, layer, logs| PodStats {
            containers: vec![container(name, space(layer, 1), space(logs, 1))],
            ..stats("p")
        };
        let expected = "Container a exceeded its local ephemeral storage limit \"100\". ".to_owned();
        let gone = Some((expected, "ephemeralcontainerfs.limit"));
        assert_eq!(told(&pod, &with("a", 60, 40), DiskLayout::Single), None);
        assert_eq!(told(&pod, &with("a", 60, 41), DiskLayout::Single), gone);
        assert_eq!(told(&pod, &with("a", 60, 41), DiskLayout::ImagesApart), None, "the layer is on another disk");
        assert_eq!(told(&pod, &with("a", 0, 101), DiskLayout::ImagesApart), gone);
        assert_eq!(told(&pod, &with("none", 0, 101), DiskLayout::Single), None);
        assert_eq!(told(&pod, &with("i", 0, 101), DiskLayout::Single), None);
    }

    /// EVI-29.
    #[test]
    fn evi_29_a_pod_without_limits_needs_no_look() {
        assert!(!has_limits(&pod("p", 0, json!({"volumes": [{"name": "v", "emptyDir": {}}]}))));
    }
}
