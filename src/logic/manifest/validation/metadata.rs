//! The rules about an object's metadata: name, namespace, labels, annotations, owners, finalizers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

use super::field::{Errors, FieldPath, text};
use super::selectors::labels;
use super::{names, scheduling};
use crate::logic::formats::path_segment::is_safe_segment;

/// The size of all annotations, keys and values, in bytes.
const ANNOTATIONS_SIZE_MAX: usize = 256 * 1024;

const TOLERATIONS_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST_ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The metadata of a pod.
pub(super) fn validate(metadata: &ObjectMeta, path: &FieldPath, errors: &mut Errors) {
    let prefix = text(&metadata.generate_name);
    if !prefix.is_empty() {
        errors.invalid_each(&path.child("generateName"), prefix, names::dns_subdomain(prefix.trim_end_matches('-')));
    }
    match text(&metadata.name) {
        "" => errors.required(&path.child("name"), "name or generateName is required"),
        name => errors.invalid_each(&path.child("name"), name, names::dns_subdomain(name)),
    }
    match text(&metadata.namespace) {
        "" => errors.required(&path.child("namespace"), ""),
        namespace => errors.invalid_each(&path.child("namespace"), namespace, names::dns_label(namespace)),
    }
    // Ours: the UID names directories of the node (SEC-17).
    if let Err(why) = is_safe_segment(text(&metadata.uid)) {
        errors.invalid(&path.child("uid"), text(&metadata.uid), why.to_string());
    }
    errors.nonnegative(&path.child("generation"), metadata.generation.unwrap_or_default());
    labels(metadata.labels.as_ref(), &path.child("labels"), errors);
    annotations(metadata.annotations.as_ref(), &path.child("annotations"), errors);
    owners(metadata.owner_references.as_deref().unwrap_or_default(), &path.child("ownerReferences"), errors);
    for finalizer in metadata.finalizers.iter().flatten() {
        errors.invalid_each(&path.child("finalizers"), finalizer, names::label_key(finalizer));
    }
}

fn annotations(annotations: Option<&BTreeMap<String, String>>, path: &FieldPath, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        // Capitals do not matter here.
        errors.invalid_each(path, key, names::label_key(&key.to_lowercase()));
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_SIZE_MAX {
        errors.too_long(path, ANNOTATIONS_SIZE_MAX);
    }
}

/// Annotations that mean something to others than the node have their form all the same.
pub(super) fn annotations_of_pods(annotations: &BTreeMap<String, String>, path: &FieldPath, errors: &mut Errors) {
    if let Some(text) = annotations.get(TOLERATIONS_ANNOTATION).filter(|text| !text.is_empty()) {
        match serde_json::from_str::<Option<Vec<Toleration>>>(text) {
            Ok(tolerations) => {
                let path = path.child(TOLERATIONS_ANNOTATION);
                scheduling::tolerations(&tolerations.unwrap_or_default(), &path, errors);
            }
            Err(error) => errors.invalid(path, TOLERATIONS_ANNOTATION, error.to_string()),
        }
    }
    if let Some(cost) = annotations.get(DELETION_COST_ANNOTATION) {
        let has_form = cost == "0" || cost.starts_with(|first: char| first == '-' || ('1'..='9').contains(&first));
        if !has_form || cost.parse::<i32>().is_err() {
            errors.invalid(&path.key(DELETION_COST_ANNOTATION), cost.as_str(), "must be a 32bit integer");
        }
    }
}

fn owners(owners: &[OwnerReference], path: &FieldPath, errors: &mut Errors) {
    let (mut first, mut reported): (Option<String>, bool) = (None, false);
    for owner in owners {
        // The last part of `group/version`.
        if owner.api_version.rsplit('/').next().unwrap_or_default().is_empty() {
            errors.invalid(&path.child("apiVersion"), owner.api_version.as_str(), "version must not be empty");
        }
        for (name, value) in [("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)] {
            if value.is_empty() {
                errors.invalid(&path.child(name), value.as_str(), "must not be empty");
            }
        }
        if owner.controller == Some(true) {
            let current = format!("{}/{}", owner.kind, owner.name);
            match &first {
                None => first = Some(current),
                // Once is enough: each time repeats all owners.
                Some(_) if reported => {}
                Some(first) => {
                    reported = true;
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for \
                         {first} and {current}"
                    );
                    errors.invalid(path, serde_json::to_value(owners).unwrap_or(Value::Null), detail);
                }
            }
        }
    }
}
