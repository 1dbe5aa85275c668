//! Pods for manifests: defaults that a test need not care about, so that what it sets is what it is about.

pub(super) mod bad_input;
pub(super) mod containers;
pub(super) mod hooks;
pub(super) mod lifecycle;
pub(super) mod manifest_url;
pub(super) mod probes;
pub(super) mod restarts;
pub(super) mod user_namespaces;
pub(super) mod volumes;

use serde_json::{Value, json};

/// The image with a shell.
pub const CLIENT: &str = "localhost/podwright/client:1";
/// The image of a web server on port 80.
pub const WEB: &str = "localhost/podwright/web:1";

/// A pod of these containers, in namespace `default`, that is gone quickly when deleted.
pub fn pod(name: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "terminationGracePeriodSeconds": 2, "containers": containers },
    })
}

/// A container that runs a shell script.
pub fn shell(name: &str, script: &str) -> Value {
    json!({
        "name": name,
        "image": CLIENT,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", script],
    })
}

/// A container that runs until it is asked to end.
pub fn forever(name: &str) -> Value {
    shell(name, &then_forever(""))
}

/// A script that goes on until it is asked to end, and then does so with status 0.
pub fn then_forever(first: &str) -> String {
    format!("trap 'exit 0' TERM; {first}\nwhile :; do sleep 1000 & wait $!; done")
}

/// A container that serves HTTP on port 80.
pub fn web(name: &str) -> Value {
    json!({ "name": name, "image": WEB, "imagePullPolicy": "IfNotPresent" })
}

/// Lays `patch` over `value`: objects are merged, all else is replaced.
pub fn merge(value: &mut Value, patch: Value) {
    match (value, patch) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, part) in new {
                merge(old.entry(key).or_insert(Value::Null), part);
            }
        }
        (value, patch) => *value = patch,
    }
}

/// `value` with `patch` laid over it.
pub fn with(mut value: Value, patch: Value) -> Value {
    merge(&mut value, patch);
    value
}
