//! Validates a pod as the API server does when one is created: the same rules, in its order, in its words.
//!
//! Owned by [`super`]; asked about pods with their defaults and identity. All errors are found at once. One rule is
//! ours: the UID must be safe in a path. Left out is what [`super::supported`] refuses anyway.

use k8s_openapi::api::core::v1::Pod;

mod app_armor;
mod container;
mod disks;
mod field;
mod metadata;
mod names;
mod paths;
mod pod_spec;
mod references;
mod resources;
mod scheduling;
mod seccomp;
mod security;
mod selectors;
mod volumes;

pub use field::{ErrorKind, FieldError};

use field::{Errors, FieldPath};

/// Everything that the API server would hold against the pod; empty when it would create it.
pub fn validate(pod: &Pod) -> Vec<FieldError> {
    let mut errors = Errors::default();
    metadata::validate(&pod.metadata, &FieldPath::root("metadata"), &mut errors);
    if let Some(spec) = &pod.spec {
        let annotations = pod.metadata.annotations.clone().unwrap_or_default();
        let path = FieldPath::root("metadata").child("annotations");
        metadata::annotations_of_pods(&annotations, &path, &mut errors);
        seccomp::annotations(&annotations, &path, &mut errors);
        app_armor::annotations(&annotations, spec, &path, &mut errors);
        pod_spec::validate(spec, &FieldPath::root("spec"), &mut errors);
        seccomp::agreement(&annotations, spec, &FieldPath::root("spec"), &mut errors);
        app_armor::agreement(&annotations, spec, &FieldPath::root("spec"), &mut errors);
    }
    errors.found
}

#[cfg(test)]
mod tests;
