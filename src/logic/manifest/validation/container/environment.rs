//! The rules about a container's variables, and about references to fields of the pod.

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, EnvVarSource};

use crate::logic::manifest::validation::field::{Errors, FieldPath, text};
use crate::logic::manifest::validation::references::{field_selector, resource_selector};
use crate::logic::manifest::validation::{names, paths};

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
            file => paths::no_backsteps(file, &path.child("path"), errors),
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
