//! Whether a pod's AppArmor profiles can be enforced here (SEC-22; upstream's `pkg/security/apparmor`).
//!
//! Pure. Whether a local profile is loaded is for the runtime to find out.

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, Pod};

use crate::logic::manifest::supported::APP_ARMOR_ANNOTATION_PREFIX;

const UNCONFINED: &str = "Unconfined";

/// Why the profiles cannot be enforced; `None` when they can, or there are none.
pub(super) fn refusal(pod: &Pod, host_enforces: bool) -> Option<String> {
    if !is_required(pod) {
        return None;
    }
    if !host_enforces {
        return Some("Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned());
    }
    let spec = pod.spec.as_ref()?;
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let nameless = containers
        .filter_map(|container| profile(pod, container))
        .any(|(kind, name)| kind == "Localhost" && name.is_none_or(|name| name.trim().is_empty()));
    nameless.then(|| "Cannot enforce AppArmor: invalid empty AppArmor profile name".to_owned())
}

fn is_required(pod: &Pod) -> bool {
    let confines = |profile: Option<&AppArmorProfile>| profile.is_some_and(|profile| profile.type_ != UNCONFINED);
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let annotations = pod.metadata.annotations.iter().flatten();
    confines(of_pod.and_then(|context| context.app_armor_profile.as_ref()))
        || containers.into_iter().any(|container| confines(own_profile(container)))
        // Upstream looks at any one of them; an administrator who says so once means all.
        || annotations.into_iter().any(|(key, value)| key.starts_with(APP_ARMOR_ANNOTATION_PREFIX) && value != "unconfined")
}

fn own_profile(container: &Container) -> Option<&AppArmorProfile> {
    container.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref())
}

/// Kind and name of a container's profile: its own, its annotation's, the pod's.
fn profile<'a>(pod: &'a Pod, container: &'a Container) -> Option<(&'a str, Option<&'a str>)> {
    let of = |profile: &'a AppArmorProfile| (profile.type_.as_str(), profile.localhost_profile.as_deref());
    let key = format!("{APP_ARMOR_ANNOTATION_PREFIX}{}", container.name);
    let annotated = || match pod.metadata.annotations.as_ref()?.get(&key)?.as_str() {
        "runtime/default" => Some(("RuntimeDefault", None)),
        "unconfined" => Some((UNCONFINED, None)),
        other => other.strip_prefix("localhost/").map(|name| ("Localhost", Some(name))),
    };
    let of_pod = || pod.spec.as_ref()?.security_context.as_ref()?.app_armor_profile.as_ref().map(of);
    own_profile(container).map(of).or_else(annotated).or_else(of_pod)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(own: Value, of_pod: Value, annotation: Option<&str>) -> Pod {
        let key = format!("{APP_ARMOR_ANNOTATION_PREFIX}a");
        let annotations = annotation.map_or(Value::Null, |text| json!({ (key.as_str()): text }));
        let context = |profile: Value| if profile.is_null() { profile } else { json!({ "appArmorProfile": profile }) };
        serde_json::from_value(json!({
            "metadata": { "annotations": annotations },
            "spec": { "containers": [{ "name": "a", "securityContext": context(own) }], "securityContext": context(of_pod) },
        }))
        .expect("a pod")
    }

    /// SEC-22, RES-66.
    #[test]
    fn sec_22_a_profile_needs_a_host_that_enforces_it_and_a_name() {
        const HOST: Option<&str> = Some("Cannot enforce AppArmor: AppArmor is not enabled on the host");
        const NAME: Option<&str> = Some("Cannot enforce AppArmor: invalid empty AppArmor profile name");
        let kind = |kind: &str| json!({ "type": kind });
        let local = |name: &str| json!({ "type": "Localhost", "localhostProfile": name });
        for (pod, without, with) in [
            (pod(Value::Null, Value::Null, None), None, None),
            (pod(kind("Unconfined"), kind("Unconfined"), Some("unconfined")), None, None),
            (pod(kind("RuntimeDefault"), Value::Null, None), HOST, None),
            (pod(Value::Null, kind("RuntimeDefault"), None), HOST, None),
            (pod(Value::Null, Value::Null, Some("runtime/default")), HOST, None),
            (pod(local("k8s"), Value::Null, None), HOST, None),
            (pod(local(" "), Value::Null, None), HOST, NAME),
            (pod(Value::Null, local("k8s"), Some("localhost/")), HOST, NAME),
            (pod(Value::Null, kind("Localhost"), None), HOST, NAME),
            (pod(kind("RuntimeDefault"), kind("Localhost"), None), HOST, None),
            // An annotation stands before the profile of the pod.
            (pod(Value::Null, kind("Localhost"), Some("runtime/default")), HOST, None),
            (pod(Value::Null, kind("Localhost"), Some("unconfined")), HOST, None),
        ] {
            assert_eq!((refusal(&pod, false).as_deref(), refusal(&pod, true).as_deref()), (without, with), "{pod:?}");
        }
    }
}
