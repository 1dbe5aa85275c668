//! Calls to the runtime, as one sequence an object: the sandbox, each container, and the images of a pod.
//!
//! Agents may do independent things in any order, so that no order of all calls is compared. Commands of probes are no
//! part of a sequence: they come by the clock, and each distinct one counts once.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::folded;
use crate::normalise::without_shapes;
use crate::proxy::Call;

/// Requests of one method that are compared: those of the first start and of the first restart. Later ones are as the second.
const REQUESTS_MAX: usize = 2;
/// The name under which calls for a pod's sandbox are gathered.
const SANDBOX: &str = "sandbox";

/// The calls for one pod, by object.
pub fn of_pod(calls: &[Call], namespace: &str, pod: &str) -> Value {
    let mut objects: BTreeMap<String, Vec<&Call>> = BTreeMap::new();
    // Objects by the IDs that the runtime gave.
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for call in calls {
        let Some(object) = object_of(call, namespace, pod, &known) else { continue };
        for field in ["pod_sandbox_id", "container_id"] {
            // Only the two calls that make something answer with its ID.
            if let Some(id) = call.answer[field].as_str().filter(|_| is_made_by(&call.method)) {
                known.insert(id.to_owned(), object.clone());
            }
        }
        objects.entry(object).or_default().push(call);
    }
    objects.into_iter().map(|(object, calls)| (object, facts(&calls))).collect::<Map<_, _>>().into()
}

fn is_made_by(method: &str) -> bool {
    matches!(method, "RunPodSandbox" | "CreateContainer")
}

fn object_of(call: &Call, namespace: &str, pod: &str, known: &BTreeMap<String, String>) -> Option<String> {
    let request = &call.request;
    let is_of_pod = |config: &Value| config["metadata"]["namespace"] == namespace && config["metadata"]["name"] == pod;
    let name = request["config"]["metadata"]["name"].as_str();
    match call.method.as_str() {
        "RunPodSandbox" => is_of_pod(&request["config"]).then(|| SANDBOX.to_owned()),
        "CreateContainer" => {
            is_of_pod(&request["sandbox_config"]).then(|| format!("container {}", name.unwrap_or("?")))
        }
        "PullImage" => {
            let image = request["image"]["image"].as_str().unwrap_or("?");
            is_of_pod(&request["sandbox_config"]).then(|| format!("image {image}"))
        }
        _ => ["container_id", "pod_sandbox_id"].iter().find_map(|field| known.get(request[*field].as_str()?)).cloned(),
    }
}

/// The order of the calls, and the requests of each method in their order.
fn facts(calls: &[&Call]) -> Value {
    let mut order = vec![];
    let mut requests: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for call in calls {
        // Calls that fail alike but for an ID are one that repeats.
        let status = if call.status == "0" { String::new() } else { format!(" ({})", without_shapes(&call.status)) };
        // The agent left before the answer, and asks again when it is back.
        if call.status.is_empty() {
            continue;
        }
        let of_method = requests.entry(&call.method).or_default();
        if call.method == "ExecSync" {
            if !of_method.contains(&call.request) {
                of_method.push(call.request.clone());
            }
            continue;
        }
        // A stop of what is stopped changes nothing, and upstream repeats it as it sees the pod once more.
        // Old containers are removed at other times; that they are is compared, and not when.
        let is_repeated_stop =
            call.method == "StopPodSandbox" && order.last().is_some_and(|last: &String| last == "StopPodSandbox");
        if !call.method.starts_with("Remove") && !is_repeated_stop {
            order.push(format!("{}{status}", call.method));
        }
        if of_method.len() < REQUESTS_MAX {
            of_method.push(with_sorted_lists(&call.request));
        }
    }
    // Probes come in no order.
    if let Some(commands) = requests.get_mut("ExecSync") {
        commands.sort_by_cached_key(Value::to_string);
    }
    json!({ "order": folded(order), "calls": requests })
}

/// The request with its variables by name, and the resolver's options: upstream's have the order of a Go map, which is
/// another one each time.
fn with_sorted_lists(request: &Value) -> Value {
    let mut request = request.clone();
    for path in ["/config/dns_config/options", "/sandbox_config/dns_config/options"] {
        if let Some(options) = request.pointer_mut(path).and_then(Value::as_array_mut) {
            options.sort_by_cached_key(Value::to_string);
        }
    }
    if let Some(variables) = request.pointer_mut("/config/envs").and_then(Value::as_array_mut) {
        for variable in variables.iter_mut() {
            // Bytes in the protocol, and text in nearly all pods.
            let bytes = variable["value"].as_str().and_then(|text| STANDARD.decode(text).ok());
            if let Some(text) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
                variable["value"] = text.into();
            }
        }
        variables.sort_by_cached_key(|variable| variable["key"].as_str().unwrap_or_default().to_owned());
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, request: Value, answer: Value) -> Call {
        Call { method: method.to_owned(), request, answer, status: "0".to_owned() }
    }

    #[test]
    fn calls_are_gathered_by_object() {
        let metadata = json!({ "metadata": { "name": "a", "namespace": "n" } });
        let calls = [
            call("RunPodSandbox", json!({ "config": metadata }), json!({ "pod_sandbox_id": "s" })),
            call(
                "CreateContainer",
                json!({ "pod_sandbox_id": "s", "config": { "metadata": { "name": "c" } }, "sandbox_config": metadata }),
                json!({ "container_id": "1" }),
            ),
            call("StartContainer", json!({ "container_id": "1" }), json!({})),
            call("StartContainer", json!({ "container_id": "of another pod" }), json!({})),
            call("StopPodSandbox", json!({ "pod_sandbox_id": "s" }), json!({})),
        ];
        let found = of_pod(&calls, "n", "a");
        assert_eq!(found["sandbox"]["order"], json!(["RunPodSandbox", "StopPodSandbox"]));
        assert_eq!(found["container c"]["order"], json!(["CreateContainer", "StartContainer"]));
        assert_eq!(found["container c"]["calls"]["StartContainer"], json!([{ "container_id": "1" }]));
        assert_eq!(of_pod(&calls, "n", "b"), json!({}));
    }
}
