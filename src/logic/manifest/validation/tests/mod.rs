//! Tests of [`super`]: one table a theme, each case a change to a good pod and what the API server says to it.

use super::validate;
use crate::logic::manifest::defaults::apply_defaults;
use crate::logic::manifest::identity::{Source, static_identity};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The API server's answer about a pod with this spec.
fn errors_of(metadata: Value, spec: Value) -> Vec<String> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    let mut pod: Pod = serde_json::from_value(pod).expect("a pod");
    apply_defaults(&mut pod);
    static_identity(&mut pod, &Source::Http { url: "http://host/".to_owned() }, "node");
    validate(&pod).iter().map(ToString::to_string).collect()
}

fn check_specs(cases: Vec<(Value, &[&str])>) {
    for (fields, expected) in cases {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        merge(&mut spec, &fields);
        assert_eq!(errors_of(json!({"name": "web"}), spec), expected, "{fields}");
    }
}

fn check_containers(cases: Vec<(Value, &[&str])>) {
    for (fields, expected) in cases {
        let mut container = json!({"name": "c", "image": "i"});
        merge(&mut container, &fields);
        assert_eq!(errors_of(json!({"name": "web"}), json!({"containers": [container]})), expected, "{fields}");
    }
}

fn merge(into: &mut Value, fields: &Value) {
    for (field, value) in fields.as_object().expect("fields") {
        into[field] = value.clone();
    }
}

mod containers;
mod pods;

#[test]
fn a_plain_pod_has_nothing_said_about_it() {
    check_specs(vec![(json!({}), &[])]);
}

#[test]
fn profiles_in_annotations_are_about_containers_and_say_what_fields_say() {
    let key = |container: &str| format!("container.apparmor.security.beta.kubernetes.io/{container}");
    let field = |kind: &str| match kind {
        "" => json!({}),
        "Localhost" => json!({"appArmorProfile": {"type": kind, "localhostProfile": "a"}}),
        _ => json!({"appArmorProfile": {"type": kind}}),
    };
    let both = |annotated: &str, value: &str, kind: &str| {
        let container = json!({"name": "c", "image": "i", "securityContext": field(kind)});
        let metadata = json!({"name": "web", "annotations": {(key(annotated)): value}});
        errors_of(metadata, json!({"containers": [container]}))
    };
    for (value, kind) in [
        ("runtime/default", ""),
        ("unconfined", "Unconfined"),
        ("localhost/a", "Localhost"),
        ("runtime/default", "RuntimeDefault"),
    ] {
        assert!(both("c", value, kind).is_empty(), "{value} {kind}");
    }
    let place = |name: &str| format!("metadata.annotations[{}]: Invalid value: ", key(name));
    assert_eq!(both("d", "unconfined", ""), [format!("{}\"d\": container not found", place("d"))]);
    let expected = format!("{}\"x\": invalid AppArmor profile name: \"x\"", place("c"));
    assert_eq!(both("c", "x", ""), [expected]);
    let path = "spec.containers[0].securityContext.appArmorProfile";
    let other = format!("{path}.type: Forbidden: apparmor type in annotation and field must match");
    assert_eq!(both("c", "unconfined", "RuntimeDefault"), [other]);
    let other = format!("{path}.localhostProfile: Forbidden: apparmor profile in annotation and field must match");
    assert_eq!(both("c", "localhost/b", "Localhost"), [other]);
}

#[test]
fn seccomp_profiles_in_annotations_say_what_fields_say() {
    let pod_key = "seccomp.security.alpha.kubernetes.io/pod";
    let container_key = "container.seccomp.security.alpha.kubernetes.io/c";
    let field = |kind: &str| match kind {
        "" => json!({}),
        "Localhost" => json!({"seccompProfile": {"type": kind, "localhostProfile": "a"}}),
        _ => json!({"seccompProfile": {"type": kind}}),
    };
    let said_to = |annotations: Value, of_pod: &str, of_container: &str| {
        let container = json!({"name": "c", "image": "i", "securityContext": field(of_container)});
        let sidecar = json!({"name": "s", "image": "i", "securityContext": field("Unconfined")});
        let spec = json!({"securityContext": field(of_pod), "containers": [container], "initContainers": [sidecar]});
        errors_of(json!({"name": "web", "annotations": annotations}), spec)
    };
    for (value, kind) in [
        ("runtime/default", ""),
        ("unconfined", "Unconfined"),
        ("docker/default", "RuntimeDefault"),
        ("runtime/default", "RuntimeDefault"),
        ("localhost/a", "Localhost"),
    ] {
        assert_eq!(said_to(json!({pod_key: value}), kind, ""), Vec::<String>::new(), "{value} {kind}");
        assert_eq!(said_to(json!({container_key: value}), "", kind), Vec::<String>::new(), "{value} {kind}");
        assert_eq!(
            said_to(json!({container_key: value}), "Localhost", ""),
            Vec::<String>::new(),
            "not the pod's field"
        );
    }
    let path = "securityContext.seccompProfile";
    for (value, kind, expected) in [
        ("unconfined", "RuntimeDefault", "type: Forbidden: seccomp type in annotation and field must match"),
        ("runtime/default", "Unconfined", "type: Forbidden: seccomp type in annotation and field must match"),
        ("unconfined", "Localhost", "type: Forbidden: seccomp type in annotation and field must match"),
        ("localhost/b", "Localhost", "localhostProfile: Forbidden: seccomp profile in annotation and field must match"),
    ] {
        assert_eq!(said_to(json!({pod_key: value}), kind, ""), [format!("spec.{path}.{expected}")]);
        let expected = format!("spec.containers[0].{path}.{expected}");
        assert_eq!(said_to(json!({container_key: value}), "", kind), [expected]);
    }
    let sidecar_key = "container.seccomp.security.alpha.kubernetes.io/s";
    assert_eq!(
        said_to(json!({sidecar_key: "runtime/default", pod_key: "x"}), "", ""),
        [
            "metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: \"x\": must be a valid \
             seccomp profile",
            "spec.initContainers[0].securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and \
             field must match",
        ]
    );
}

proptest! {
    /// Any name is either refused or safe as a path and as a host name.
    #[test]
    fn names_that_pass_are_safe_in_paths(name in "[a-zA-Z0-9._/%\n-]{0,12}") {
        let spec = json!({"containers": [{"name": name, "image": "i"}], "volumes": [{"name": name}]});
        if errors_of(json!({"name": "web"}), spec).is_empty() {
            prop_assert!(crate::logic::formats::path_segment::is_safe_segment(&name).is_ok());
            prop_assert!(!name.contains('.') && name.to_lowercase() == name);
        }
    }

    #[test]
    fn validation_never_panics(port in any::<i32>(), text in ".{0,9}", number in any::<i64>()) {
        errors_of(json!({"name": text, "labels": {(text.as_str()): text}}), json!({
            "containers": [{"name": text, "image": text, "ports": [{"containerPort": port, "hostPort": port,
            "name": text}],
                "env": [{"name": text, "valueFrom": {"fieldRef": {"fieldPath": text}}}],
                "lifecycle": {"preStop": {"sleep": {"seconds": number}}}}],
            "dnsConfig": {"nameservers": [text], "searches": [text]}, "activeDeadlineSeconds": number,
            "volumes": [{"name": text, "hostPath": {"path": text}}],
        }));
    }
}
