//! The rules about seccomp profiles in annotations, their old place: they name a profile and say what the fields say. The
//! agent itself obeys the fields alone.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, SeccompProfile};

use super::field::{Errors, FieldPath};
use super::paths;

const POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINER_ANNOTATION_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";

type Annotations = BTreeMap<String, String>;

/// Each annotation names a profile.
pub(super) fn annotations(annotations: &Annotations, path: &FieldPath, errors: &mut Errors) {
    let of_pod = annotations.get_key_value(POD_ANNOTATION);
    let of_containers = annotations.iter().filter(|(key, _)| key.starts_with(CONTAINER_ANNOTATION_PREFIX));
    for (key, profile) in of_pod.into_iter().chain(of_containers) {
        match profile.strip_prefix("localhost/") {
            _ if ["runtime/default", "docker/default", "unconfined"].contains(&profile.as_str()) => {}
            Some(file) => paths::descending(file, &path.child(key), errors),
            None => errors.invalid(&path.child(key), profile.as_str(), "must be a valid seccomp profile"),
        }
    }
}

/// Where annotation and field are both given, they agree.
pub(super) fn agreement(annotations: &Annotations, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let mut agree = |profile: Option<&SeccompProfile>, key: &str, path: &FieldPath| {
        let (Some(profile), Some(annotation)) = (profile, annotations.get(key)) else { return };
        let path = path.child("securityContext").child("seccompProfile");
        match disagreement(profile, annotation) {
            Some("type") => errors.forbidden(&path.child("type"), "seccomp type in annotation and field must match"),
            Some(part) => errors.forbidden(&path.child(part), "seccomp profile in annotation and field must match"),
            None => {}
        }
    };
    let of_pod = spec.security_context.as_ref().and_then(|context| context.seccomp_profile.as_ref());
    agree(of_pod, POD_ANNOTATION, path);
    let lists = [("initContainers", spec.init_containers.as_deref()), ("containers", Some(spec.containers.as_slice()))];
    for (field, containers) in lists {
        for (index, container) in containers.into_iter().flatten().enumerate() {
            let own = container.security_context.as_ref().and_then(|context| context.seccomp_profile.as_ref());
            let key = format!("{CONTAINER_ANNOTATION_PREFIX}{}", container.name);
            agree(own, &key, &path.child(field).index(index));
        }
    }
}

/// Which part of the field the annotation contradicts.
fn disagreement(profile: &SeccompProfile, annotation: &str) -> Option<&'static str> {
    match profile.type_.as_str() {
        "Unconfined" => (annotation != "unconfined").then_some("type"),
        "RuntimeDefault" => (!["runtime/default", "docker/default"].contains(&annotation)).then_some("type"),
        "Localhost" => match annotation.strip_prefix("localhost/") {
            None => Some("type"),
            Some(file) => (profile.localhost_profile.as_deref() != Some(file)).then_some("localhostProfile"),
        },
        _ => None,
    }
}
