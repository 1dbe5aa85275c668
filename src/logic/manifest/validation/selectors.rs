//! The rules about labels and selectors of labels.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::field::{Errors, FieldPath};
use super::names;

/// Labels, and the node selector, which follows the same rules.
pub(super) fn labels(labels: Option<&BTreeMap<String, String>>, path: &FieldPath, errors: &mut Errors) {
    for (key, value) in labels.into_iter().flatten() {
        errors.invalid_each(path, key, names::label_key(key));
        errors.invalid_each(path, value, names::label_value(value));
    }
}

/// A selector of labels.
pub(super) fn label_selector(selector: &LabelSelector, path: &FieldPath, errors: &mut Errors) {
    labels(selector.match_labels.as_ref(), &path.child("matchLabels"), errors);
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        requirement_of_selector(requirement, &path.child("matchExpressions").index(index), errors);
    }
}

fn requirement_of_selector(requirement: &LabelSelectorRequirement, path: &FieldPath, errors: &mut Errors) {
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors
                .forbidden(&path.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    errors.invalid_each(&path.child("key"), &requirement.key, names::label_key(&requirement.key));
    for (index, value) in values.iter().enumerate() {
        errors.invalid_each(&path.child("values").index(index), value, names::label_value(value));
    }
}
