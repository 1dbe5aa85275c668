//! The rules about requests, limits and resource names.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodSpec, ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::field::{Errors, FieldPath, text};
use super::names;
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::{aggregate_container_limits, aggregate_container_requests, container_limits};

type ResourceList = BTreeMap<String, ApiQuantity>;

/// The resources that the API knows by a plain name.
const STANDARD: [&str; 20] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

/// An error lists no more names to choose from than this.
const NAMES_LISTED_MAX: usize = 100;

/// The kind of names that are allowed.
#[derive(Clone, Copy)]
enum Holder {
    Container,
    Pod,
}

/// The resources of a container.
pub(super) fn of_container(
    requirements: &ResourceRequirements,
    claims: &BTreeSet<&str>,
    path: &FieldPath,
    errors: &mut Errors,
) {
    validate(requirements, Holder::Container, path, errors);
    claim_names(requirements.claims.as_deref().unwrap_or_default(), claims, &path.child("claims"), errors);
}

/// The resources of a whole pod.
pub(super) fn of_pod(
    requirements: &ResourceRequirements,
    spec: &PodSpec,
    claims: &BTreeSet<&str>,
    path: &FieldPath,
    errors: &mut Errors,
) {
    let own_claims = requirements.claims.as_deref().unwrap_or_default();
    if !own_claims.is_empty() {
        errors.forbidden(&path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    validate(requirements, Holder::Pod, path, errors);
    claim_names(own_claims, claims, &path.child("claims"), errors);
    room_for_containers(requirements, spec, path, errors);
}

/// A pod's own resources have room for its containers: for what they ask for together, for all their huge pages, and for
/// the limit of each.
fn room_for_containers(requirements: &ResourceRequirements, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let requests: BTreeMap<&str, Quantity> = parsed(requirements.requests.as_ref()).collect();
    let limits: BTreeMap<&str, Quantity> = parsed(requirements.limits.as_ref()).collect();
    for (name, sum) in aggregate_container_requests(spec) {
        if let Some(request) = requests.get(name.as_str()).filter(|request| sum > **request) {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.invalid(&path.child("requests").key(&name), request.to_string(), detail);
        }
    }
    for (name, sum) in aggregate_container_limits(spec).into_iter().filter(|(name, _)| is_huge_pages(name)) {
        if let Some(limit) = limits.get(name.as_str()).filter(|limit| sum > **limit) {
            let detail = format!("must be greater than or equal to aggregate container limits of {sum}");
            errors.invalid(&path.child("limits").key(&name), limit.to_string(), detail);
        }
    }
    for (index, container) in spec.containers.iter().enumerate() {
        for (name, own) in container_limits(container) {
            if let Some(limit) = limits.get(name.as_str()).filter(|limit| own > **limit) {
                // Upstream's path, below the pod's resources.
                let path = path.child("containers").index(index).key(&name).child("limits");
                let detail = format!("must be less than or equal to pod limits of {limit}");
                errors.invalid(&path, own.to_string(), detail);
            }
        }
    }
}

/// The cost of the pod beyond its containers.
pub(super) fn overhead(overhead: &ResourceList, path: &FieldPath, errors: &mut Errors) {
    let requirements = ResourceRequirements { limits: Some(overhead.clone()), ..ResourceRequirements::default() };
    validate(&requirements, Holder::Container, path, errors);
}

fn parsed(list: Option<&ResourceList>) -> impl Iterator<Item = (&str, Quantity)> {
    // Decoding refused what does not parse.
    list.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), Quantity::parse(&value.0).ok()?)))
}

fn validate(requirements: &ResourceRequirements, holder: Holder, path: &FieldPath, errors: &mut Errors) {
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    let limits: BTreeMap<&str, Quantity> = parsed(requirements.limits.as_ref()).collect();
    for (name, limit) in &limits {
        entry(name, *limit, holder, &limits_path.key(name), errors);
    }
    for (name, request) in parsed(requirements.requests.as_ref()) {
        let key = requests_path.key(name);
        quantity_and_name(name, request, holder, &key, errors);
        match limits.get(name) {
            Some(limit) if request != *limit && !is_overcommit_allowed(name) => {
                errors.invalid(
                    &requests_path,
                    request.to_string(),
                    format!("must be equal to {name} limit of {limit}"),
                );
            }
            Some(limit) if request > *limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(&requests_path, request.to_string(), detail);
            }
            None if !is_overcommit_allowed(name) => {
                errors.required(&limits_path, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
        huge_pages(name, request, &key, errors);
    }
    let lists = [&requirements.limits, &requirements.requests];
    let all: Vec<&str> = lists.into_iter().flatten().flat_map(|list| list.keys().map(String::as_str)).collect();
    let computes = all.iter().any(|name| *name == "cpu" || *name == "memory");
    if !computes && all.iter().any(|name| is_huge_pages(name)) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

fn entry(name: &str, value: Quantity, holder: Holder, path: &FieldPath, errors: &mut Errors) {
    quantity_and_name(name, value, holder, path, errors);
    huge_pages(name, value, path, errors);
}

fn quantity_and_name(name: &str, value: Quantity, holder: Holder, path: &FieldPath, errors: &mut Errors) {
    resource_name(name, holder, path, errors);
    if value.is_negative() {
        errors.invalid(path, value.to_string(), "must be greater than or equal to 0");
    }
    if is_integer(name) && value.milli_value() % 1000 != 0 {
        errors.invalid(path, value.to_string(), "must be an integer");
    }
}

fn resource_name(name: &str, holder: Holder, path: &FieldPath, errors: &mut Errors) {
    let messages = names::label_key(name);
    let plain = !name.contains('/');
    let has_form = messages.is_empty();
    errors.invalid_each(path, name, messages);
    let is_standard = STANDARD.contains(&name) || is_huge_pages(name) || name.starts_with("requests.hugepages-");
    if has_form && plain && !is_standard {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
    let of_containers = ["cpu", "memory", "ephemeral-storage"].contains(&name) || is_huge_pages(name);
    match holder {
        Holder::Container if plain && !of_containers => {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
        Holder::Container if !is_native(name) && !is_extended(name) => {
            errors.invalid(path, name, "doesn't follow extended resource name standard");
        }
        Holder::Pod
            if has_form && (!plain || is_standard) && !["cpu", "memory"].contains(&name) && !is_huge_pages(name) =>
        {
            errors.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
        }
        _ => {}
    }
}

fn huge_pages(name: &str, value: Quantity, path: &FieldPath, errors: &mut Errors) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let divides = Quantity::parse(size)
        .is_ok_and(|size| size.is_positive() && size.milli_value() % 1000 == 0 && value.value() % size.value() == 0);
    if !divides {
        errors.invalid(path, value.to_string(), format!("{value} is not positive integer multiple of {name}"));
    }
}

fn claim_names(claims: &[ResourceClaim], known: &BTreeSet<&str>, path: &FieldPath, errors: &mut Errors) {
    let names: Vec<&str> = known.iter().copied().take(NAMES_LISTED_MAX).collect();
    let choice = if names.is_empty() { " which is empty".to_owned() } else { format!(": {}", names.join(", ")) };
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (claim.name.as_str(), text(&claim.request));
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        if !request.is_empty() {
            errors.invalid_each(&path.child("request"), request, names::dns_label(request));
        }
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        let below = format!("{name}/");
        let has_request = seen.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below));
        let covered = seen.contains(name) || (request.is_empty() && has_request);
        if covered || seen.contains(&key) {
            errors.duplicate(&path, if seen.contains(name) { name.to_owned() } else { key.clone() });
        }
        seen.insert(key);
        if !known.contains(name) {
            errors.not_found(&path, name, format!("must be one of the names in pod.spec.resourceClaims{choice}"));
        }
    }
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::label_key(&format!("requests.{name}")).is_empty()
}

fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

fn is_integer(name: &str) -> bool {
    const COUNTED: [&str; 9] = [
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    ];
    COUNTED.contains(&name) || is_extended(name)
}
