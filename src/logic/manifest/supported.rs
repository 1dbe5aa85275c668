//! The refusal of pods that ask for something which this version of the agent does not do.
//!
//! Owned by [`super`]. A pod never runs without something that it asked for: a volume that nobody mounts or a device that
//! nobody gives is worse than a pod that does not start. A field without effect on the upstream kubelet on Linux, such as
//! `windowsOptions` or `schedulerName`, has none here either, and refuses nothing. `tests/pod_fields.txt` names every
//! field of the API's Pod and what becomes of it.

use std::fmt;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements, Volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::logic::model::quantity::Quantity;
use crate::logic::plugins::claims::pod_claims::DEVICE_CLASS_PREFIX;
use crate::logic::resources::{CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, is_extended};

/// A field that the agent would not act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The field's path, `spec.volumes[0].csi`.
    pub path: String,
    /// Why it is refused.
    pub reason: &'static str,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

const NO_VOLUME: &str = "volumes of this kind are not supported by this version";
const NO_CLAIMS: &str = "a pod as a whole has no resource claims";
const NO_RESOURCE: &str =
    "of the resources only cpu, memory, huge pages, ephemeral-storage and extended ones are supported by this version";
const NO_POD_RESOURCE: &str = "a pod as a whole has cpu, memory and huge pages alone";

/// The beginning of annotations' names that are settings in disguise: upstream's old form of the AppArmor profile.
pub const APP_ARMOR_ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// More refusals than this are not kept: a hostile manifest may have millions.
const REFUSALS_MAX: usize = 500;

/// The fields of the pod that this version of the agent would not act on though upstream does. Also those with which no
/// version of upstream runs a pod. Empty for a pod that can run in full, from whatever source.
pub fn unsupported_fields(pod: &Pod) -> Vec<Refusal> {
    let Some(spec) = &pod.spec else { return vec![] };
    let mut found = Found(vec![]);
    let mut containers = |list: &str, index: usize, resources: Option<&ResourceRequirements>| {
        if let Some(resources) = resources {
            found.resources(&format_args!("spec.{list}[{index}].resources"), resources, Whose::Container);
        }
    };
    for (index, container) in spec.containers.iter().enumerate() {
        containers("containers", index, container.resources.as_ref());
    }
    for (index, container) in spec.ephemeral_containers.iter().flatten().enumerate() {
        containers("ephemeralContainers", index, container.resources.as_ref());
    }
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        containers("initContainers", index, container.resources.as_ref());
    }
    if let Some(resources) = &spec.resources {
        found.resources(&"spec.resources", resources, Whose::Pod);
    }
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        for kind in strange_sources(volume) {
            found.refuse(&format_args!("spec.volumes[{index}].{kind}"), NO_VOLUME);
        }
    }
    found.0
}

struct Found(Vec<Refusal>);

impl Found {
    fn refuse(&mut self, path: &dyn fmt::Display, reason: &'static str) {
        if self.0.len() < REFUSALS_MAX {
            self.0.push(Refusal { path: path.to_string(), reason });
        }
    }

    fn resources(&mut self, place: &dyn fmt::Display, resources: &ResourceRequirements, whose: Whose) {
        if whose == Whose::Pod && resources.claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
            self.refuse(&format_args!("{place}.claims"), NO_CLAIMS);
        }
        let reason = match whose {
            Whose::Container => NO_RESOURCE,
            Whose::Pod => NO_POD_RESOURCE,
        };
        for (list, amounts) in [("limits", &resources.limits), ("requests", &resources.requests)] {
            for name in amounts.iter().flatten().filter_map(|amount| strange_resource(amount, whose)) {
                self.refuse(&format_args!("{place}.{list}[{name}]"), reason);
            }
        }
    }
}

/// The owner of the resources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Container,
    Pod,
}

/// The name of a resource that nobody here gives out, where any of it is asked for.
fn strange_resource<'a>((name, amount): (&'a String, &ApiQuantity), whose: Whose) -> Option<&'a str> {
    let is_known = name == CPU
        || name == MEMORY
        || name.starts_with(HUGEPAGES_PREFIX)
        || (whose == Whose::Container
            && (name == EPHEMERAL_STORAGE || is_extended(name) || name.starts_with(DEVICE_CLASS_PREFIX)));
    let is_none = Quantity::parse(&amount.0).is_ok_and(|amount| amount.is_zero());
    (!is_known && !is_none).then_some(name)
}

/// The sources of a volume that no adapter here mounts, by their names in the API.
fn strange_sources(volume: &Volume) -> impl Iterator<Item = &'static str> {
    let sources = [
        ("cephfs", volume.cephfs.is_some()),
        ("flexVolume", volume.flex_volume.is_some()),
        ("flocker", volume.flocker.is_some()),
        ("gitRepo", volume.git_repo.is_some()),
        ("glusterfs", volume.glusterfs.is_some()),
        ("photonPersistentDisk", volume.photon_persistent_disk.is_some()),
        ("quobyte", volume.quobyte.is_some()),
        ("rbd", volume.rbd.is_some()),
        ("scaleIO", volume.scale_io.is_some()),
        ("storageos", volume.storageos.is_some()),
    ];
    sources.into_iter().filter_map(|(name, is_given)| is_given.then_some(name))
}

#[cfg(test)]
mod tests;
