//! The node's own words about itself: its objects in the API, and its endpoints.
//!
//! Measured numbers differ from moment to moment, so that of `/stats/summary` the shape counts, and of metrics the names,
//! the types and the labels.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::api::Api;

/// Fields of an object that the API server chooses.
const CHOSEN: [&str; 4] = ["uid", "resourceVersion", "managedFields", "generation"];
/// Endpoints whose answers are compared as they are.
const TEXTS: [&str; 5] = ["healthz", "healthz/ping", "healthz/syncloop", "no/such/endpoint", "runningpods"];
/// Endpoints with metrics. `/metrics` itself is compared with a scrape in the unit tests.
const METRICS: [&str; 3] = ["metrics/cadvisor", "metrics/resource", "metrics/probes"];
/// Fields of the configuration that the two nodes cannot share.
const PORTS: [&str; 3] = ["port", "readOnlyPort", "healthzPort"];

/// Time between two questions about the same figures.
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(3);

/// The facts of a node; of pods, those of one namespace.
pub fn facts(api: &Api, node: &str, namespace: &str) -> Value {
    let objects = [
        ("node", format!("/api/v1/nodes/{node}")),
        ("lease", format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}")),
        ("csi node", format!("/apis/storage.k8s.io/v1/csinodes/{node}")),
    ];
    let object = |path: &str| api.get(path).map_or_else(Value::String, without_chosen);
    let endpoint = |path: &str| api.text(&format!("/api/v1/nodes/{node}/proxy/{path}"));
    let answer = |path: &str| {
        let (status, text) = endpoint(path);
        serde_json::from_str::<Value>(&text).unwrap_or_else(|_| json!({ "status": status, "text": text }))
    };
    // Rates come with the second question.
    let _ = answer("stats/summary");
    std::thread::sleep(BETWEEN_QUESTIONS);
    let metrics = |path: &&str| ((*path).to_owned(), families(&endpoint(path).1));
    let text = |path: &&str| {
        let (status, text) = endpoint(path);
        let text = if *path == "runningpods" { String::new() } else { text };
        ((*path).to_owned(), json!({ "status": status, "text": text }))
    };
    json!({
        "objects": objects.map(|(name, path)| (name.to_owned(), object(&path))).into_iter().collect::<Map<_, _>>(),
        "pods": pods(&answer("pods"), namespace),
        "configz": without_ports(answer("configz")),
        "summary": summary(&answer("stats/summary"), namespace),
        "metrics": METRICS.iter().map(metrics).collect::<Map<_, _>>(),
        "texts": TEXTS.iter().map(text).collect::<Map<_, _>>(),
    })
}

fn without_chosen(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, _| !CHOSEN.contains(&key.as_str()));
    }
    // Other runs leave other images, and each node has a port of its own.
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("images");
        status.remove("daemonEndpoints");
    }
    without_nulls(object)
}

/// The same without fields that say nothing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        Value::Object(fields) => {
            let said = fields.into_iter().filter(|(_, value)| !value.is_null());
            said.map(|(key, value)| (key, without_nulls(value))).collect::<Map<_, _>>().into()
        }
        other => other,
    }
}

fn without_ports(mut configuration: Value) -> Value {
    if let Some(fields) = configuration.get_mut("kubeletconfig").and_then(Value::as_object_mut) {
        fields.retain(|field, _| !PORTS.contains(&field.as_str()));
    }
    configuration
}

/// The pods of one namespace in a list, by their names.
fn pods(list: &Value, namespace: &str) -> Value {
    let items = list["items"].as_array().into_iter().flatten();
    let of_namespace = items.filter(|pod| pod["metadata"]["namespace"] == namespace);
    let pair =
        |pod: &Value| (pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(), without_chosen(pod.clone()));
    of_namespace.map(pair).collect::<Map<_, _>>().into()
}

/// The shape of the summary: of the node, and of the pods of one namespace.
fn summary(summary: &Value, namespace: &str) -> Value {
    let pods = summary["pods"].as_array().into_iter().flatten();
    let of_namespace: Vec<Value> = pods.filter(|pod| pod["podRef"]["namespace"] == namespace).cloned().collect();
    json!({ "node": shape(&summary["node"]), "pods": shape(&of_namespace.into()) })
}

/// The same value with a word in the place of each number.
fn shape(value: &Value) -> Value {
    match value {
        Value::Number(_) => "a number".into(),
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(shape).collect();
            let name = |item: &Value| item["name"].as_str().or(item["podRef"]["name"].as_str()).map(str::to_owned);
            items.sort_by_cached_key(|item| name(item).unwrap_or_else(|| item.to_string()));
            items.into()
        }
        Value::Object(fields) => {
            fields.iter().map(|(key, item)| (key.clone(), shape(item))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// The families of a scrape: the type of each, and the labels of its series.
fn families(scrape: &str) -> Value {
    let mut found: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for line in scrape.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            found.entry(name.to_owned()).or_default().0 = kind.to_owned();
        } else if let Some((name, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let name = ["_bucket", "_count", "_sum"]
                .iter()
                .filter_map(|end| name.strip_suffix(end))
                .find(|base| found.contains_key(*base))
                .unwrap_or(name);
            let labels = labels.split("=\"").filter_map(|part| part.rsplit(['"', ',', '{']).next());
            let all: Vec<&str> = labels.collect();
            let keys = all[..all.len().saturating_sub(1)].iter().map(|key| (*key).to_owned());
            found.entry(name.to_owned()).or_default().1.extend(keys);
        }
    }
    let family = |(name, (kind, labels))| (name, json!({ "type": kind, "labels": Vec::from_iter(labels) }));
    found.into_iter().map(family).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_told_by_names_types_and_labels() {
        let scrape = "# HELP a Words.\n# TYPE a counter\na{x=\"1\",y=\"a=\\\"b\"} 3\n# TYPE h histogram\nh_bucket{le=\"1\",z=\"\"} 1\nh_sum{z=\"\"} 2\n# TYPE g gauge\ng 7\n";
        let expected = json!({
            "a": { "type": "counter", "labels": ["x", "y"] },
            "g": { "type": "gauge", "labels": [] },
            "h": { "type": "histogram", "labels": ["le", "z"] },
        });
        assert_eq!(families(scrape), expected);
    }

    #[test]
    fn a_shape_has_no_numbers() {
        let value = json!({ "cpu": { "time": "t", "usage": 5 }, "list": [{ "name": "b" }, { "name": "a" }] });
        let expected =
            json!({ "cpu": { "time": "t", "usage": "a number" }, "list": [{ "name": "a" }, { "name": "b" }] });
        assert_eq!(shape(&value), expected);
    }
}
