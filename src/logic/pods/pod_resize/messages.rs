//! The messages of Events about resizes (upstream's `pkg/kubelet/events/resize.go`): a sentence, and the resources as JSON.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use serde::Serialize;

use crate::logic::resources::resource_list;

/// In the order in which upstream writes the fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Allocation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Allocation>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: String,
}

#[derive(Serialize)]
struct Allocation {
    name: String,
    resources: Resources,
}

#[derive(Serialize)]
struct Resources {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    requests: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    claims: Vec<ResourceClaim>,
}

impl Resources {
    fn new(requirements: &ResourceRequirements) -> Self {
        let texts = |list: Option<&BTreeMap<String, ApiQuantity>>| {
            resource_list(list).into_iter().map(|(name, amount)| (name, amount.to_string())).collect()
        };
        Self {
            limits: texts(requirements.limits.as_ref()),
            requests: texts(requirements.requests.as_ref()),
            claims: requirements.claims.clone().unwrap_or_default(),
        }
    }
}

fn message(what: &str, pod: &Pod, generation: i64, error: &str) -> String {
    let allocation = |container: &Container| Allocation {
        name: container.name.clone(),
        resources: Resources::new(&container.resources.clone().unwrap_or_default()),
    };
    let spec = pod.spec.as_ref();
    let summary = Summary {
        init_containers: spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).map(allocation).collect(),
        containers: spec.iter().flat_map(|spec| &spec.containers).map(allocation).collect(),
        generation,
        error: error.to_owned(),
    };
    let json = serde_json::to_string(&summary).expect("invariant: text keys alone");
    format!("Pod resize {what}: {json}")
}

/// Of a resize that the node has taken on (`ResizeStarted`).
pub fn started(pod: &Pod, generation: i64) -> String {
    message("started", pod, generation, "")
}

/// Of one that is in force (`ResizeCompleted`).
pub fn completed(pod: &Pod, generation: i64) -> String {
    message("completed", pod, generation, "")
}

/// Of one that could not be brought about (`ResizeError`).
pub fn failed(pod: &Pod, generation: i64, why: &str) -> String {
    message("error", pod, generation, why)
}

/// Of one that the node does not take on, or not now (`ResizeDeferred`, `ResizeInfeasible`). As upstream it begins with
/// the reason of whoever refused it, such as `OutOfcpu`.
pub fn pending(pod: &Pod, generation: i64, reason: &str, why: &str) -> String {
    message(reason, pod, generation, why)
}
