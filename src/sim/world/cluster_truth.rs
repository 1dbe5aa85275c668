//! Truths of a cluster once all is quiet: the node is what the API server wants, the API server knows what is so,
//! and each static pod has its mirror.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::cluster::is_mirror;
use super::truth::{Problem, as_wanted, of_unwanted, untrue};
use super::{Wanted, World};
use crate::actors::kit::trace::lock;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::node_stop::StopCause;
use crate::logic::status::status_sync::MIRROR_ANNOTATION;
use crate::messages::status::status_manager::PodView;
use crate::sim::api_server::pods::is_over;
use crate::sim::invariants::{API_TRUTH, MIRRORS, NODE_READY, PRESSURE_ENDS, TRUE_STATUS, WANTED_RUNS};
use crate::sim::node::NODE_NAME;
use crate::sim::pods::behaviour::Life;

/// The oldest that a Lease may be.
const LEASE_AGE_MAX: Duration = Duration::from_secs(40);
/// The longest between two looks of the agent at what the node has left, and time for the look.
const LOOK_PERIOD: Duration = Duration::from_secs(11);

/// The problems of a node of a cluster.
pub async fn problems(world: &World) -> Vec<Problem> {
    let statics: Vec<Wanted> = world.wanted().into_values().collect();
    let pods: Vec<Wanted> = world.api_wanted().into_values().collect();
    let all: Vec<Wanted> = statics.iter().chain(&pods).cloned().collect();
    let mut problems = of_unwanted(world.node(), &all);
    problems.extend(node_problems(world));
    let waits: BTreeMap<PodUid, String> = match world.statuses().await {
        Some(views) => views.into_iter().map(|view| (view.uid.clone(), view.waits().join("; "))).collect(),
        None => {
            problems.push((TRUE_STATUS, "the agent does not answer".to_owned()));
            BTreeMap::new()
        }
    };
    let says = |uid: &PodUid| waits.get(uid).map_or("nothing", String::as_str);
    for one in &pods {
        let Some(object) = world.api_pod(&one.pod.name) else {
            problems.push((API_TRUTH, format!("{} is gone although nobody deleted it", one.pod.name)));
            continue;
        };
        problems.extend(problems_of(world, one, &object, says(&one.uid)));
        problems.extend(super::resizes::problems(world, one, &object));
    }
    for one in &statics {
        let name = format!("{}-{NODE_NAME}", one.pod.name);
        match world.api_pod(&name).filter(|pod| is_mirror(pod)) {
            None => problems.push((MIRRORS, format!("{name} has no mirror"))),
            Some(mirror) if mirror["metadata"]["annotations"][MIRROR_ANNOTATION] != *one.uid.as_str() => {
                problems.push((MIRRORS, format!("the mirror of {name} is of another version")));
            }
            Some(mirror) => problems.extend(problems_of(world, one, &mirror, says(&one.uid))),
        }
    }
    problems.extend(strangers(world, &statics, &pods));
    problems.extend(spared(world, &pods));
    problems.extend(super::resizes::tier_problems(world));
    problems
}

/// Pods that run although the node runs short and they could end for that.
fn spared(world: &World, pods: &[Wanted]) -> Vec<Problem> {
    let node = world.node();
    let spared = pods.iter().filter(|one| node.invariants.may_be_evicted(&one.uid, LOOK_PERIOD));
    let containers = lock(&node.containers);
    let runs = |one: &&Wanted| containers.containers.values().any(|other| other.uid == one.uid && other.may_run());
    spared.filter(runs).map(|one| (PRESSURE_ENDS, format!("{} still runs", one.pod.name))).collect()
}

/// Pods of the API that nobody wants.
fn strangers(world: &World, statics: &[Wanted], pods: &[Wanted]) -> Vec<Problem> {
    let mut names: BTreeSet<String> = statics.iter().map(|one| format!("{}-{NODE_NAME}", one.pod.name)).collect();
    names.extend(pods.iter().map(|one| one.pod.name.clone()));
    let all = world.api().all("pods").into_iter();
    let strange = all.filter(|pod| !names.contains(pod["metadata"]["name"].as_str().unwrap_or_default()));
    strange.map(|pod| (API_TRUTH, format!("{} is still in the API", pod["metadata"]["name"]))).collect()
}

/// Whether the pod runs as it should, and the API server knows what is so.
fn problems_of(world: &World, wanted: &Wanted, object: &Arc<Value>, says: &str) -> Vec<Problem> {
    let mut problems = vec![];
    let typed: Pod = serde_json::from_value((**object).clone()).unwrap_or_default();
    let view = PodView {
        uid: wanted.uid.clone(),
        status: Arc::new(typed.status.clone().unwrap_or_default()),
        pod: Arc::new(typed),
        may_run: false,
        is_over: false,
        waiting: Arc::default(),
    };
    let node = world.node();
    let containers = lock(&node.containers);
    let may_be_evicted = wanted.pod.is_limited() || node.invariants.may_be_evicted(&wanted.uid, Duration::MAX);
    let was_evicted = object["status"]["reason"] == <&str>::from(StopCause::Evicted) && may_be_evicted;
    if !was_evicted && let Err(how) = as_wanted(node, &containers, wanted, Some(&view)) {
        problems.push((WANTED_RUNS, format!("{}: {how}; the agent says {says:?}", wanted.pod.name)));
    }
    // The remains of a pod that is over may have been cleared away.
    problems.extend(untrue(node, &containers, wanted, &view).map(|how| (API_TRUTH, how)));
    let stays = wanted.pod.containers.iter().all(|spec| matches!(spec.behaviour().life, Life::Run));
    let begins = wanted.pod.init.iter().all(|spec| match spec.behaviour().life {
        Life::Run => spec.is_sidecar(),
        Life::Exit { code: 0, .. } => !spec.is_sidecar(),
        _ => false,
    });
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True");
    if stays && begins && !is_over(object) && !ready {
        problems.push((API_TRUTH, format!("{} is not told as ready; the agent says {says:?}", wanted.pod.name)));
    }
    problems
}

/// The node is there, ready, and alive.
fn node_problems(world: &World) -> Vec<Problem> {
    let Some(node) = world.api().get("nodes", "", NODE_NAME) else {
        return vec![(NODE_READY, "there is no Node".to_owned())];
    };
    let mut problems = vec![];
    let ready = node["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "Ready");
    if ready.is_none_or(|ready| ready["status"] != "True") {
        problems.push((NODE_READY, format!("the Node is not ready: {ready:?}")));
    }
    match world.api().get("leases", "kube-node-lease", NODE_NAME) {
        None => problems.push((NODE_READY, "there is no Lease".to_owned())),
        Some(lease) => {
            let renewed = lease["spec"]["renewTime"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
            let now = world.node().time.now();
            let age = renewed.map(|time| now.since(crate::logic::model::time::Moment::from_timestamp(time)));
            if age.is_none_or(|age| age > LEASE_AGE_MAX) {
                problems.push((NODE_READY, format!("the Lease was renewed {age:?} ago")));
            }
        }
    }
    problems
}
