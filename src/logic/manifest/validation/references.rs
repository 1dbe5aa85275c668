//! The rules about references to fields of the pod and to amounts of its containers, in variables and in files.

use k8s_openapi::api::core::v1::{ObjectFieldSelector, ResourceFieldSelector};

use super::field::{Errors, FieldPath, text};
use super::names;
use crate::logic::model::quantity::Quantity;

/// The fields of the pod that a file can carry.
pub(super) const FIELDS_OF_FILES: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// The fields of the pod that exist for references at all.
const FIELDS_CONVERTIBLE: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// A reference to a field of the pod, which must be one of `allowed`, or one label or annotation.
pub(super) fn field_selector(selector: &ObjectFieldSelector, allowed: &[&str], path: &FieldPath, errors: &mut Errors) {
    let (version, field) = (text(&selector.api_version), selector.field_path.as_str());
    if version.is_empty() {
        return errors.required(&path.child("apiVersion"), "");
    }
    if field.is_empty() {
        return errors.required(&path.child("fieldPath"), "");
    }
    let field_path = path.child("fieldPath");
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        return errors.invalid(&field_path, field, detail);
    }
    let subscript = field.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    match subscript {
        Some(("metadata.annotations", key)) => errors.invalid_each(path, key, names::label_key(&key.to_lowercase())),
        Some(("metadata.labels", key)) => errors.invalid_each(path, key, names::label_key(key)),
        Some(_) => {
            let detail = format!("error converting fieldPath: field label does not support subscript: {field}");
            errors.invalid(&field_path, field, detail);
        }
        None if allowed.contains(&field) => {}
        None if FIELDS_CONVERTIBLE.contains(&field) => {
            errors.not_supported(&field_path, field, allowed);
        }
        None => {
            let detail = format!("error converting fieldPath: field label not supported: {field}");
            errors.invalid(&field_path, field, detail);
        }
    }
}

/// A reference to a request or limit of a container.
pub(super) fn resource_selector(
    selector: &ResourceFieldSelector,
    in_volume: bool,
    path: &FieldPath,
    errors: &mut Errors,
) {
    let resource = selector.resource.as_str();
    let huge_pages = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if in_volume && text(&selector.container_name).is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !RESOURCES.contains(&resource) && !huge_pages {
        errors.not_supported(&path.child("resource"), resource, &RESOURCES);
    }
    let Some(divisor) = selector.divisor.as_ref().and_then(|divisor| Quantity::parse(&divisor.0).ok()) else { return };
    if divisor.is_zero() {
        return;
    }
    let what = match resource {
        "limits.cpu" | "requests.cpu" => "cpu",
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if huge_pages => "hugepages",
        _ => return,
    };
    let divisor = divisor.to_string();
    let bytes = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    if what == "cpu" && !["1m", "1"].contains(&divisor.as_str()) {
        let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
        errors.invalid(&path.child("divisor"), resource, detail);
    } else if what != "cpu" && !bytes.contains(&divisor.as_str()) {
        let detail = format!("only divisor's values {} are supported with the {what} resource", bytes.join(", "));
        errors.invalid(&path.child("divisor"), resource, detail);
    }
}
