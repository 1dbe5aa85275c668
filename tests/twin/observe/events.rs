//! Events about a pod: by reason and container the type, the messages, and whether there was one or more.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::compare::FEW;
use crate::normalise::without_shapes;

/// Fewer failures of a probe count for nothing where the other node tells of none: it meets a program that only starts.
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
        // The API server was slow, or a controller, which says nothing of the agent.
        let is_late = |message: &str| {
            let is_of_token = message.contains("\"kube-api-access-") && message.contains("not found");
            is_of_token || message.contains("failed to sync") || message.contains("\" not registered")
        };
        if event["message"].as_str().is_some_and(is_late) {
            continue;
        }
        let key = format!("{} {}", text(&event["reason"]), text(&object["fieldPath"]));
        let (kinds, messages, count) = found.entry(key.trim_end().to_owned()).or_default();
        kinds.insert(text(&event["type"]));
        // A token is mounted a moment earlier or later than the volumes beside it.
        let message = without_shapes(event["message"].as_str().unwrap_or_default());
        messages.insert(message.replace("[<token-volume> ", "[").replace(" <token-volume>]", "]"));
        *count += event["count"].as_u64().unwrap_or(1);
    }
    for (key, (_, messages, _)) in &mut found {
        if key.starts_with("Unhealthy") && !messages.iter().all(|message| is_passing(message)) {
            messages.retain(|message| !is_passing(message));
        }
    }
    let facts = |key: &str, (kinds, messages, count): (BTreeSet<String>, BTreeSet<String>, u64)| {
        let mut facts = json!({ "type": kinds, "messages": messages, "count": if count > 1 { "more" } else { "1" } });
        if key.starts_with("Unhealthy") && count < UNHEALTHY_MIN {
            facts[FEW] = true.into();
        }
        facts
    };
    found.into_iter().map(|(key, event)| (key.clone(), facts(&key, event))).collect::<serde_json::Map<_, _>>().into()
}

/// Whether a probe met a container that begins or ends just then.
fn is_passing(message: &str) -> bool {
    const WORDS: [&str; 5] = [
        "container is in CONTAINER_EXITED state",
        "no running task found",
        "failed to connect service",
        "connection reset by peer",
        "Client.Timeout exceeded",
    ];
    WORDS.iter().any(|words| message.contains(words))
}
