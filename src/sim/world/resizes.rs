//! In-place resizes of simulated pods: somebody asks for them by way of the API server, and what must come of them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};

use super::cluster::NAMESPACE;
use super::truth::Problem;
use super::{Wanted, World};
use crate::actors::kit::trace::lock;
use crate::cri::ContainerState;
use crate::logic::model::ids::PodUid;
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::pods::pod_resize::{PENDING, PROGRESS, PodFigures};
use crate::logic::resources::{
    CgroupVersion, NodeMemory, QosClass, ResourceOptions, TierSums, burstable_tier_settings, container_resources,
    pod_cgroup_settings, pod_qos,
};
use crate::sim::api_server::pods::is_over;
use crate::sim::invariants::{RESIZED, TIER_SHARES};
use crate::sim::node::cgroups::cgroup_tree;

impl World {
    /// Somebody gives a container of a pod other resources, if it is there (`kubectl patch --subresource resize`).
    pub fn resize_pod(&self, name: &str, container: &str, resources: &Value) {
        let Some(pod) = self.api_pod(name) else { return };
        self.node().story.tell("user", format!("resizes {container} of {name} to {resources}"));
        let changed = |list: &Value| -> Vec<Value> {
            let mut all = list.as_array().cloned().unwrap_or_default();
            all.iter_mut().filter(|one| one["name"] == container).for_each(|one| one["resources"] = resources.clone());
            all
        };
        let spec = &pod["spec"];
        let patch = json!({ "spec": {
            "containers": changed(&spec["containers"]), "initContainers": changed(&spec["initContainers"]),
        } });
        drop(self.api().admin("PATCH", &format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}"), patch));
    }

    /// Somebody gives a pod as a whole other resources, if it is there.
    pub fn resize_whole_pod(&self, name: &str, resources: &Value) {
        if self.api_pod(name).is_none() {
            return;
        }
        self.node().story.tell("user", format!("resizes {name} to {resources}"));
        let patch = json!({ "spec": { "resources": resources } });
        drop(self.api().admin("PATCH", &format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}"), patch));
    }

    /// The figures of the cgroup of a pod of the API.
    pub fn pod_figures(&self, name: &str) -> Option<PodFigures> {
        let pod: Pod = serde_json::from_value((*self.api_pod(name)?).clone()).ok()?;
        let uid = PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default());
        let cgroup = cgroup_tree().pod(&uid, pod_qos(&pod, true)).ok()?;
        lock(&self.node().cgroups).all.get(&cgroup).map(PodFigures::of)
    }

    /// A condition of a pod as the API server has it.
    pub fn condition(&self, name: &str, kind: &str) -> Option<Value> {
        let pod = self.api_pod(name)?;
        let mut all = pod["status"]["conditions"].as_array().into_iter().flatten();
        all.find(|condition| condition["type"] == kind).cloned()
    }

    /// The resources of a running container: CPU shares, quota in µs, and bytes of memory.
    pub fn in_force(&self, pod: &str, container: &str) -> Option<(i64, i64, i64)> {
        let containers = lock(&self.node().containers);
        let mut all = containers.containers.values().filter(|one| one.state == ContainerState::Running);
        let found = all.find(|one| one.pod == pod && one.metadata.name == container)?;
        let has = &found.resources;
        Some((has.cpu_shares, has.cpu_quota, has.memory_limit_in_bytes))
    }

    /// Reasons of the Events about a pod, as the API server has them, the oldest first.
    pub fn event_reasons(&self, pod: &str) -> Vec<String> {
        let of_pod = |event: &Arc<Value>| event["involvedObject"]["name"] == pod;
        let all = self.api().all("events").into_iter().filter(of_pod);
        all.map(|event| event["reason"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Once quiet: a pod has what it asks for, or says that it waits for it. As it says itself, so it is in the runtime.
pub(in crate::sim) fn problems(world: &World, wanted: &Wanted, object: &Value) -> Vec<Problem> {
    let Ok(mut pod) = serde_json::from_value::<Pod>(object.clone()) else { return vec![] };
    let name = &wanted.pod.name;
    let has = |kind: &str| {
        object["status"]["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == kind)
    };
    if object["status"]["phase"] != "Running" || !object["metadata"]["deletionTimestamp"].is_null() {
        return vec![];
    }
    if let Some(progress) = has(PROGRESS) {
        return match progress["message"].as_str().unwrap_or_default() {
            // Somebody uses more than it is to have: that is not the agent's to change.
            why if why.starts_with("cannot decrease memory limits") => vec![],
            why => vec![(RESIZED, format!("{name} is still being resized: {why:?}"))],
        };
    }
    if has(PENDING).is_some() {
        as_allocated(&mut pod);
    }
    let mut problems = vec![];
    let options = ResourceOptions { cgroup_version: CgroupVersion::V2, ..ResourceOptions::default() };
    let spec = pod.spec.clone().unwrap_or_default();
    let sidecars = spec.init_containers.into_iter().flatten().filter(is_sidecar);
    // CPUs of its own need no quota.
    let own = world.cpus_kept().owned.remove(&wanted.uid).unwrap_or_default();
    for container in sidecars.chain(spec.containers) {
        let (node, no_quota) = (NodeMemory { capacity_bytes: 8 << 30 }, own.contains_key(&container.name));
        let computed = container_resources(&pod, &container, &node, no_quota, &options);
        let wanted = (computed.cpu_shares, computed.cpu_quota, computed.memory_limit_in_bytes);
        let found = world.in_force(name, &container.name);
        // A container without a limit of its own keeps the one that it had: none can be taken away.
        let meets = |(shares, quota, memory): (i64, i64, i64)| {
            shares == wanted.0 && (wanted.1 == 0 || quota == wanted.1) && (wanted.2 == 0 || memory == wanted.2)
        };
        if found.is_some_and(|found| !meets(found)) {
            problems.push((RESIZED, format!("{} of {name} has {found:?} and was given {wanted:?}", container.name)));
        }
    }
    let is = world.pod_figures(name);
    let figures = PodFigures::of(&pod_cgroup_settings(&pod, !own.is_empty(), &options));
    if let Some(is) = is.filter(|is| !is.suits(&figures, CgroupVersion::V2)) {
        problems.push((RESIZED, format!("the cgroup of {name} has {is:?}, to be {figures:?}")));
    }
    problems
}

/// Once quiet: the tier of burstable pods has the share that they ask for, or were given before what they wait for.
pub(in crate::sim) fn tier_problems(world: &World) -> Vec<Problem> {
    let tier = cgroup_tree().tier(QosClass::Burstable);
    let Some(settings) = lock(&world.node().cgroups).all.get(&tier).cloned() else { return vec![] };
    let objects = world.api().all("pods").into_iter().filter(|object| !is_over(object));
    let mut pods: Vec<Pod> = objects.filter_map(|object| serde_json::from_value((*object).clone()).ok()).collect();
    for pod in &mut pods {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if conditions.into_iter().any(|condition| condition.type_ == PENDING) {
            as_allocated(pod);
        }
    }
    let wanted = burstable_tier_settings(&TierSums::of(&pods, true)).cpu_shares;
    let differs = settings.cpu_shares != wanted;
    let how = || format!("burstable pods have {:?} shares together, to be {wanted:?}", settings.cpu_shares);
    differs.then(|| (TIER_SHARES, how())).into_iter().collect()
}

/// Puts what the status says in the place of what is asked for.
fn as_allocated(pod: &mut Pod) {
    let status = pod.status.clone().unwrap_or_default();
    let told = [status.container_statuses, status.init_container_statuses].into_iter().flatten().flatten();
    let told: Vec<ContainerStatus> = told.collect();
    let spec = pod.spec.get_or_insert_default();
    if spec.resources.is_some() {
        spec.resources = status.resources;
    }
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        if let Some(told) = told.iter().find(|told| told.name == container.name) {
            container.resources.clone_from(&told.resources);
        }
    }
}
