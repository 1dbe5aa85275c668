//! Events about a pod: by reason and container the type, the messages, and whether there was one or more.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The failures of a probe that count.
const UNHEALTHY_MIN: u64 = 5;

/// The Events about one pod, of a list of the API server.
pub fn of_pod(list: &Value, pod: &str) -> Value {
    let mut found: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>, u64)> = BTreeMap::new();
    for event in list["items"].as_array().into_iter().flatten() {
        let object = &event["involvedObject"];
        // Pods have other Events too, such as those of the scheduler.
        if object["kind"] != "Pod" || object["name"] != pod || event["source"]["component"] != "kubelet" {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        // The API server was slow, which says nothing of the agent.
        if event["message"].as_str().is_some_and(|message| message.contains("failed to sync")) {
            continue;
        }
        let key = format!("{} {}", text(&event["reason"]), text(&object["fieldPath"]));
        let (kinds, messages, count) = found.entry(key.trim_end().to_owned()).or_default();
        kinds.insert(text(&event["type"]));
        messages.insert(text(&event["message"]));
        *count += event["count"].as_u64().unwrap_or(1);
    }
    // When a probe meets a program that only starts is a matter of moments.
    found.retain(|key, (.., count)| !key.starts_with("Unhealthy") || *count >= UNHEALTHY_MIN);
    let facts = |(kinds, messages, count): (BTreeSet<String>, BTreeSet<String>, u64)| json!({ "type": kinds, "messages": messages, "count": if count > 1 { "more" } else { "1" } });
    found.into_iter().map(|(key, event)| (key, facts(event))).collect::<serde_json::Map<_, _>>().into()
}
