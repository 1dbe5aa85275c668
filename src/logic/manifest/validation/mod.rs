//! Validates a pod as the API server does when one is created: the same rules, in its order, in its words.
//!
//! Owned by [`super`]; asked about pods with their defaults and identity. All errors are found at once. One rule is ours: the
//! UID must be safe in a path. What upstream checks and this does not, is what [`super::supported`] refuses anyway.

use k8s_openapi::api::core::v1::Pod;

mod field;
mod metadata;
mod names;

pub use field::{ErrorKind, FieldError};

use field::{Errors, FieldPath};

/// Everything that the API server would hold against the pod; empty when it would create it.
pub fn validate(pod: &Pod) -> Vec<FieldError> {
    let mut errors = Errors::default();
    metadata::validate(&pod.metadata, &FieldPath::root("metadata"), &mut errors);
    errors.found
}
