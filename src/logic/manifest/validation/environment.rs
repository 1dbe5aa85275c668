//! The rules about a container's variables, and about references to fields of the pod.

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector};

use super::field::{Errors, FieldPath, text};
use super::{mounts, names};
use crate::logic::model::quantity::Quantity;

/// The fields of the pod that a variable can carry.
const FIELDS_OF_VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

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

/// Variables one by one.
pub(super) fn variables(variables: &[EnvVar], path: &FieldPath, errors: &mut Errors) {
    for (index, variable) in variables.iter().enumerate() {
        let path = path.index(index);
        match variable.name.as_str() {
            "" => errors.required(&path.child("name"), ""),
            name => errors.invalid_each(&path.child("name"), name, names::variable_name(name)),
        }
        if let Some(from) = &variable.value_from {
            value_from(from, text(&variable.value), &path.child("valueFrom"), errors);
        }
    }
}

fn value_from(from: &EnvVarSource, value: &str, path: &FieldPath, errors: &mut Errors) {
    if let Some(selector) = &from.field_ref {
        field_selector(selector, &FIELDS_OF_VARIABLES, &path.child("fieldRef"), errors);
    }
    if let Some(selector) = &from.resource_field_ref {
        resource_selector(selector, false, &path.child("resourceFieldRef"), errors);
    }
    if let Some(selector) = &from.config_map_key_ref {
        key_selector(&selector.name, &selector.key, &path.child("configMapKeyRef"), errors);
    }
    if let Some(selector) = &from.secret_key_ref {
        key_selector(&selector.name, &selector.key, &path.child("secretKeyRef"), errors);
    }
    if let Some(selector) = &from.file_key_ref {
        let path = path.child("fileKeyRef");
        match selector.key.as_str() {
            "" => errors.required(&path.child("key"), ""),
            key => errors.invalid_each(&path.child("key"), key, names::variable_name(key)),
        }
        match selector.volume_name.as_str() {
            "" => errors.required(&path.child("volumeName"), ""),
            name => errors.invalid_each(&path.child("volumeName"), name, names::dns_label(name)),
        }
        match selector.path.as_str() {
            "" => errors.required(&path.child("path"), ""),
            file => mounts::no_backsteps(file, &path.child("path"), errors),
        }
    }
    let sources = [
        from.field_ref.is_some(),
        from.resource_field_ref.is_some(),
        from.config_map_key_ref.is_some(),
        from.secret_key_ref.is_some(),
        from.file_key_ref.is_some(),
    ];
    match sources.into_iter().filter(|is_set| *is_set).count() {
        0 => errors.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if !value.is_empty() => errors.invalid(path, "", "may not be specified when `value` is not empty"),
        1 => {}
        _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
    }
}

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

fn key_selector(name: &str, key: &str, path: &FieldPath, errors: &mut Errors) {
    errors.invalid_each(&path.child("name"), name, names::dns_subdomain(name));
    match key {
        "" => errors.required(&path.child("key"), ""),
        key => errors.invalid_each(&path.child("key"), key, names::config_key(key)),
    }
}

/// Sources of many variables.
pub(super) fn sources(sources: &[EnvFromSource], path: &FieldPath, errors: &mut Errors) {
    for (index, source) in sources.iter().enumerate() {
        let item = path.index(index);
        let prefix = text(&source.prefix);
        if !prefix.is_empty() {
            errors.invalid_each(&item.child("prefix"), prefix, names::variable_name(prefix));
        }
        let named = [
            ("configMapRef", source.config_map_ref.as_ref().map(|reference| reference.name.as_str())),
            ("secretRef", source.secret_ref.as_ref().map(|reference| reference.name.as_str())),
        ];
        let mut count = 0;
        for (field, name) in named {
            let Some(name) = name else { continue };
            count += 1;
            let path = item.child(field).child("name");
            match name {
                "" => errors.required(&path, ""),
                name => errors.invalid_each(&path, name, names::dns_subdomain(name.trim_end_matches('-'))),
            }
        }
        match count {
            0 => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}
