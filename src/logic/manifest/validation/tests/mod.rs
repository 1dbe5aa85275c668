//! Tests of [`super`]: one table a theme, each case a change to a good pod and what the API server says to it.

use super::validate;
use crate::logic::manifest::defaults::apply_defaults;
use crate::logic::manifest::identity::{Source, static_identity};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What the API server says to a pod with this spec.
fn said(metadata: Value, spec: Value) -> Vec<String> {
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
        assert_eq!(said(json!({"name": "web"}), spec), expected, "{fields}");
    }
}

fn check_containers(cases: Vec<(Value, &[&str])>) {
    for (fields, expected) in cases {
        let mut container = json!({"name": "c", "image": "i"});
        merge(&mut container, &fields);
        assert_eq!(said(json!({"name": "web"}), json!({"containers": [container]})), expected, "{fields}");
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

proptest! {
    /// Whatever a name is, it is either refused or safe as a path and as a host name.
    #[test]
    fn names_that_pass_are_safe_in_paths(name in "[a-zA-Z0-9._/%\n-]{0,12}") {
        let spec = json!({"containers": [{"name": name, "image": "i"}], "volumes": [{"name": name}]});
        if said(json!({"name": "web"}), spec).is_empty() {
            prop_assert!(crate::logic::path_segment::is_safe_segment(&name).is_ok());
            prop_assert!(!name.contains('.') && name.to_lowercase() == name);
        }
    }

    #[test]
    fn validation_never_panics(port in any::<i32>(), text in ".{0,9}", number in any::<i64>()) {
        said(json!({"name": text, "labels": {(text.as_str()): text}}), json!({
            "containers": [{"name": text, "image": text, "ports": [{"containerPort": port, "hostPort": port,
            "name": text}],
                "env": [{"name": text, "valueFrom": {"fieldRef": {"fieldPath": text}}}],
                "lifecycle": {"preStop": {"sleep": {"seconds": number}}}}],
            "dnsConfig": {"nameservers": [text], "searches": [text]}, "activeDeadlineSeconds": number,
            "volumes": [{"name": text, "hostPath": {"path": text}}],
        }));
    }
}
