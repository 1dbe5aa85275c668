//! Tables and properties of in-place resize.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::*;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
use crate::logic::resources::{CgroupVersion, ResourceOptions};

mod amounts;
mod bookkeeping;
mod checkpoints;
mod conditions;
mod given;
mod infeasible;
mod judgement;
mod memory;
mod steps;
mod texts;
mod triggers;

const GATES: ResizeGates =
    ResizeGates { by_pod: true, init_containers: true, cpus_pinned: false, memory_pinned: false };

fn list(text: &str) -> Option<BTreeMap<String, ApiQuantity>> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let list: BTreeMap<_, _> = pairs.map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_owned()))).collect();
    (!list.is_empty()).then_some(list)
}

fn requirements(requests: &str, limits: &str) -> ResourceRequirements {
    ResourceRequirements { requests: list(requests), limits: list(limits), claims: None }
}

fn container(name: &str, requests: &str, limits: &str) -> Container {
    Container { name: name.to_owned(), resources: Some(requirements(requests, limits)), ..Container::default() }
}

fn sidecar(name: &str, requests: &str, limits: &str) -> Container {
    Container { restart_policy: Some("Always".to_owned()), ..container(name, requests, limits) }
}

fn pod_of(containers: Vec<Container>) -> Pod {
    let metadata = ObjectMeta { generation: Some(3), ..ObjectMeta::default() };
    Pod { metadata, spec: Some(PodSpec { containers, ..PodSpec::default() }), ..Pod::default() }
}

fn pod(requests: &str, limits: &str) -> Pod {
    pod_of(vec![container("a", requests, limits)])
}

/// Its requests are its limits.
fn guaranteed(amounts: &str) -> Pod {
    pod(amounts, amounts)
}

fn spec(pod: &mut Pod) -> &mut PodSpec {
    pod.spec.as_mut().expect("has a spec")
}

fn with_inits(mut pod: Pod, inits: Vec<Container>) -> Pod {
    spec(&mut pod).init_containers = Some(inits);
    pod
}

/// The pod with resources of its own.
fn with_own(mut pod: Pod, requests: &str, limits: &str) -> Pod {
    spec(&mut pod).resources = Some(requirements(requests, limits));
    pod
}

fn with_status(mut pod: Pod, status: serde_json::Value) -> Pod {
    pod.status = Some(serde_json::from_value::<PodStatus>(status).expect("a status"));
    pod
}

/// The status of a container that takes this, in the form of the API.
fn takes(name: &str, requests: &serde_json::Value) -> serde_json::Value {
    json!({ "name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "resources": { "requests": requests } })
}

fn given_to(containers: &[(&str, ResourceRequirements)], pod: Option<ResourceRequirements>) -> PodResources {
    let containers = containers.iter().map(|(name, own)| ((*name).to_owned(), own.clone())).collect();
    PodResources { containers: Arc::new(containers), pod }
}

fn uid(name: &str) -> PodUid {
    PodUid::from(name)
}

fn at(seconds: i64) -> Moment {
    Moment(seconds * 1_000_000_000)
}

const MIB: i64 = 1 << 20;

fn figures(shares: u64, quota: i64, memory: i64) -> PodFigures {
    PodFigures {
        cpu_shares: Some(shares),
        cpu_quota: Some(quota),
        cpu_period: Some(100_000),
        memory_limit: Some(memory),
    }
}

fn update(name: &str, current: Amounts, desired: Amounts) -> ContainerUpdate {
    ContainerUpdate { id: name.into(), name: name.to_owned(), desired, current }
}

fn amounts(cpu: i64, memory: i64) -> Amounts {
    Amounts { cpu_request: cpu, cpu_limit: cpu, memory_request: memory, memory_limit: memory }
}
