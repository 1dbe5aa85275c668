//! The rules about AppArmor profiles in annotations, their old place, and that they say what the fields say.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{AppArmorProfile, PodSpec};

use super::field::{Errors, FieldPath};
use crate::logic::formats::go_text::quoted;
use crate::logic::manifest::supported::APP_ARMOR_ANNOTATION_PREFIX;

type Annotations = BTreeMap<String, String>;

/// Each annotation is about a container of the pod, and names a profile.
pub(super) fn annotations(annotations: &Annotations, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let is_there = |name: &str| {
        spec.init_containers.iter().flatten().chain(&spec.containers).any(|container| container.name == name)
    };
    for (key, profile) in annotations {
        let Some(name) = key.strip_prefix(APP_ARMOR_ANNOTATION_PREFIX) else { continue };
        if !is_there(name) {
            errors.invalid(&path.key(key), name, "container not found");
        }
        let is_known = ["", "runtime/default", "unconfined"].contains(&profile.as_str());
        if !is_known && !profile.starts_with("localhost/") {
            let detail = format!("invalid AppArmor profile name: {}", quoted(profile));
            errors.invalid(&path.key(key), profile.as_str(), detail);
        }
    }
}

/// Where a container has both, annotation and field say the same.
pub(super) fn agreement(annotations: &Annotations, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    if spec.os.as_ref().is_some_and(|os| os.name == "windows") {
        return;
    }
    let of_pod = spec.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
    let lists = [("initContainers", spec.init_containers.as_deref()), ("containers", Some(spec.containers.as_slice()))];
    for (field, containers) in lists {
        for (index, container) in containers.into_iter().flatten().enumerate() {
            let own = container.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
            let annotation = annotations.get(&format!("{APP_ARMOR_ANNOTATION_PREFIX}{}", container.name));
            let (Some(profile), Some(annotation)) = (own.or(of_pod), annotation) else { continue };
            let path = path.child(field).index(index).child("securityContext").child("appArmorProfile");
            match disagreement(profile, annotation) {
                Some("type") => {
                    errors.forbidden(&path.child("type"), "apparmor type in annotation and field must match");
                }
                Some(part) => {
                    errors.forbidden(&path.child(part), "apparmor profile in annotation and field must match")
                }
                None => {}
            }
        }
    }
}

/// Which part of the field the annotation contradicts.
fn disagreement(profile: &AppArmorProfile, annotation: &str) -> Option<&'static str> {
    let same_type = |value: &str| (annotation != value).then_some("type");
    match profile.type_.as_str() {
        "Unconfined" => same_type("unconfined"),
        "RuntimeDefault" => same_type("runtime/default"),
        "Localhost" => match annotation.strip_prefix("localhost/") {
            None => Some("type"),
            Some(name) => (profile.localhost_profile.as_deref() != Some(name)).then_some("localhostProfile"),
        },
        _ => None,
    }
}
