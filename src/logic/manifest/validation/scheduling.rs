//! The rules about where a pod may go: affinity, spreading, tolerations. The node obeys few of them; their form
//! counts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, Toleration,
    TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::field::{Errors, FieldPath, text};
use super::{names, selectors};
use crate::logic::formats::go_number::canonical_integer;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT_RANGE: &str = "must be in the range 1-100";

/// The preferences of a pod for nodes and for other pods.
pub(super) fn affinity(affinity: &Affinity, path: &FieldPath, errors: &mut Errors) {
    if let Some(nodes) = &affinity.node_affinity {
        node_affinity(nodes, &path.child("nodeAffinity"), errors);
    }
    if let Some(pods) = &affinity.pod_affinity {
        let path = path.child("podAffinity");
        required_terms(pods.required_during_scheduling_ignored_during_execution.as_deref(), &path, errors);
        preferred_terms(pods.preferred_during_scheduling_ignored_during_execution.as_deref(), &path, errors);
    }
    if let Some(pods) = &affinity.pod_anti_affinity {
        let path = path.child("podAntiAffinity");
        required_terms(pods.required_during_scheduling_ignored_during_execution.as_deref(), &path, errors);
        preferred_terms(pods.preferred_during_scheduling_ignored_during_execution.as_deref(), &path, errors);
    }
}

fn node_affinity(affinity: &NodeAffinity, path: &FieldPath, errors: &mut Errors) {
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        let path = path.child(REQUIRED).child("nodeSelectorTerms");
        if selector.node_selector_terms.is_empty() {
            errors.required(&path, "must have at least one node selector term");
        }
        for (index, term) in selector.node_selector_terms.iter().enumerate() {
            node_selector_term(term, true, &path.index(index), errors);
        }
    }
    for (index, preferred) in affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten().enumerate()
    {
        let path = path.child(PREFERRED).index(index);
        weight(preferred.weight, &path, errors);
        node_selector_term(&preferred.preference, false, &path.child("preference"), errors);
    }
}

fn weight(weight: i32, path: &FieldPath, errors: &mut Errors) {
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), weight, WEIGHT_RANGE);
    }
}

fn node_selector_term(term: &NodeSelectorTerm, strict: bool, path: &FieldPath, errors: &mut Errors) {
    for (index, requirement) in term.match_expressions.iter().flatten().enumerate() {
        node_requirement(requirement, strict, &path.child("matchExpressions").index(index), errors);
    }
    for (index, requirement) in term.match_fields.iter().flatten().enumerate() {
        field_requirement(requirement, &path.child("matchFields").index(index), errors);
    }
}

fn node_requirement(requirement: &NodeSelectorRequirement, strict: bool, path: &FieldPath, errors: &mut Errors) {
    let values = requirement.values.as_deref().unwrap_or_default();
    let values_path = path.child("values");
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&values_path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&values_path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(&values_path, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    errors.invalid_each(&path.child("key"), &requirement.key, names::label_key(&requirement.key));
    for (index, value) in values.iter().enumerate().filter(|_| strict) {
        errors.invalid_each(&values_path.index(index), value, names::label_value(value));
    }
}

fn field_requirement(requirement: &NodeSelectorRequirement, path: &FieldPath, errors: &mut Errors) {
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(&path.child("values"), detail);
        }
        "In" | "NotIn" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    if requirement.key != "metadata.name" {
        return errors.invalid(&path.child("key"), requirement.key.as_str(), "not a valid field selector key");
    }
    for (index, value) in values.iter().enumerate() {
        errors.invalid_each(&path.child("values").index(index), value, names::dns_subdomain(value));
    }
}

fn required_terms(terms: Option<&[PodAffinityTerm]>, path: &FieldPath, errors: &mut Errors) {
    for (index, term) in terms.into_iter().flatten().enumerate() {
        pod_term(term, &path.child(REQUIRED).index(index), errors);
    }
}

fn preferred_terms(terms: Option<&[WeightedPodAffinityTerm]>, path: &FieldPath, errors: &mut Errors) {
    for (index, term) in terms.into_iter().flatten().enumerate() {
        let path = path.child(PREFERRED).index(index);
        weight(term.weight, &path, errors);
        pod_term(&term.pod_affinity_term, &path.child("podAffinityTerm"), errors);
    }
}

fn pod_term(term: &PodAffinityTerm, path: &FieldPath, errors: &mut Errors) {
    for (field, selector) in [("labelSelector", &term.label_selector), ("namespaceSelector", &term.namespace_selector)]
    {
        if let Some(selector) = selector {
            selectors::label_selector(selector, &path.child(field), errors);
        }
    }
    for namespace in term.namespaces.iter().flatten() {
        errors.invalid_each(&path.child("namespace"), namespace, names::dns_label(namespace));
    }
    let matching = term.match_label_keys.as_deref().unwrap_or_default();
    let mismatching = term.mismatch_label_keys.as_deref().unwrap_or_default();
    match_label_keys(matching, mismatching, term.label_selector.as_ref(), path, errors);
    if term.topology_key.is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    errors.invalid_each(&path.child("topologyKey"), &term.topology_key, names::label_key(&term.topology_key));
}

fn match_label_keys(
    matching: &[String],
    mismatching: &[String],
    selector: Option<&LabelSelector>,
    path: &FieldPath,
    errors: &mut Errors,
) {
    for (field, keys) in [("matchLabelKeys", matching), ("mismatchLabelKeys", mismatching)] {
        if selector.is_none() && !keys.is_empty() {
            errors.forbidden(&path.child(field), "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            errors.invalid_each(&path.child(field).index(index), key, names::label_key(key));
        }
    }
    if let Some(selector) = selector {
        let places: BTreeMap<&String, usize> = matching.iter().enumerate().map(|(index, key)| (key, index)).collect();
        let mut seen: BTreeSet<&String> = selector.match_labels.iter().flat_map(|labels| labels.keys()).collect();
        for expression in selector.match_expressions.iter().flatten() {
            let index = places.get(&expression.key).filter(|_| seen.contains(&expression.key));
            if let Some(index) = index {
                errors.invalid(
                    &path.index(*index),
                    expression.key.as_str(),
                    "exists in both matchLabelKeys and labelSelector",
                );
            }
            seen.insert(&expression.key);
        }
    }
    let mismatching: BTreeSet<&String> = mismatching.iter().collect();
    for (index, key) in matching.iter().enumerate().filter(|(_, key)| mismatching.contains(key)) {
        let path = path.child("matchLabelKeys").index(index);
        errors.invalid(&path, key.as_str(), "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// How pods of one kind spread.
pub(super) fn topology_spread(constraints: &[TopologySpreadConstraint], path: &FieldPath, errors: &mut Errors) {
    let pair_of = |constraint: &TopologySpreadConstraint| {
        (constraint.topology_key.clone(), constraint.when_unsatisfiable.clone())
    };
    // Upstream reports the earlier of two that are alike.
    let last: BTreeMap<_, usize> = constraints.iter().enumerate().map(|(index, one)| (pair_of(one), index)).collect();
    for (index, constraint) in constraints.iter().enumerate() {
        let is_repeated = last.get(&pair_of(constraint)).is_some_and(|last| *last > index);
        let path = path.index(index);
        positive(constraint.max_skew, &path.child("maxSkew"), errors);
        if constraint.topology_key.is_empty() {
            errors.required(&path.child("topologyKey"), "can not be empty");
        }
        let action = constraint.when_unsatisfiable.as_str();
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            errors.not_supported(&path.child("whenUnsatisfiable"), action, &actions);
        }
        if is_repeated {
            let pair = format!("{{{}, {action}}}", constraint.topology_key);
            errors.duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), pair);
        }
        if let Some(domains) = constraint.min_domains {
            positive(domains, &path.child("minDomains"), errors);
            if action != "DoNotSchedule" {
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(&path.child("minDomains"), domains, detail);
            }
        }
        for (field, policy) in [
            ("nodeAffinityPolicy", &constraint.node_affinity_policy),
            ("nodeTaintsPolicy", &constraint.node_taints_policy),
        ] {
            if let Some(policy) = policy.as_deref().filter(|policy| !["Honor", "Ignore"].contains(policy)) {
                errors.not_supported(&path.child(field), policy, &["Honor", "Ignore"]);
            }
        }
        let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
        match_label_keys(keys, &[], constraint.label_selector.as_ref(), &path, errors);
        if let Some(selector) = &constraint.label_selector {
            selectors::label_selector(selector, &path.child("labelSelector"), errors);
        }
    }
}

fn positive(number: i32, path: &FieldPath, errors: &mut Errors) {
    if number <= 0 {
        errors.invalid(path, number, "must be greater than zero");
    }
}

/// The taints that a pod puts up with.
pub(super) fn tolerations(tolerations: &[Toleration], path: &FieldPath, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = path.index(index);
        let (key, operator) = (text(&toleration.key), text(&toleration.operator));
        let (value, effect) = (text(&toleration.value), text(&toleration.effect));
        if !key.is_empty() {
            errors.invalid_each(&path.child("key"), key, names::label_key(key));
        }
        let operator_path = path.child("operator");
        if key.is_empty() && operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&operator_path, operator, detail);
        }
        if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&path.child("effect"), effect, detail);
        }
        match operator {
            "" | "Equal" => {
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    errors.invalid(&operator_path, value, messages.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.invalid(&operator_path, value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            "Lt" | "Gt" if canonical_integer(value).is_none() => {
                errors.invalid(&path.child("value"), value, "must be a valid decimal integer in canonical form");
            }
            "Lt" | "Gt" => {}
            other => errors.not_supported(&operator_path, other, &["Equal", "Exists"]),
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effect.is_empty() && !effects.contains(&effect) {
            errors.not_supported(&path.child("effect"), effect, &effects);
        }
    }
}
