//! Tables, and whole pods written out by hand beside what the runtime must be asked for.

mod container;
mod observe;
mod sandbox;
mod security;

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use crate::cri::types::Labels;

/// A pod as the API server gives it, its defaults filled in, with `changes` to its specification.
fn pod(changes: Value) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "6b1d2c1e-0000-4000-8000-000000000001",
            "labels": { "app": "web" },
            "annotations": { "kubernetes.io/config.source": "api", "team": "a" },
        },
        "spec": {
            "containers": [{
                "name": "app",
                "image": "busybox",
                "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {},
            }],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": true,
            "nodeName": "node-1",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
    });
    merge(&mut pod["spec"], changes);
    serde_json::from_value(pod).unwrap()
}

/// The first container of a pod whose first container has `changes`.
fn with_container(pod_changes: Value, changes: Value) -> (Pod, Container) {
    let mut pod = pod(pod_changes);
    let mut container = serde_json::to_value(&pod.spec.as_ref().unwrap().containers[0]).unwrap();
    merge(&mut container, changes);
    let container: Container = serde_json::from_value(container).unwrap();
    pod.spec.as_mut().unwrap().containers = vec![container.clone()];
    (pod, container)
}

/// Sets each key of `changes` in `target`.
fn merge(target: &mut Value, changes: Value) {
    let Value::Object(changes) = changes else { panic!("changes are an object") };
    for (key, value) in changes {
        target[key] = value;
    }
}

fn labels(entries: &[(&str, &str)]) -> Labels {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

const UID: &str = "6b1d2c1e-0000-4000-8000-000000000001";
