//! CPUs of containers, as the file of state has them and as the runtime got them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::World;
use crate::actors::kit::trace::lock;
use crate::cri::ContainerState;
use crate::logic::model::ids::PodUid;
use crate::logic::resources::allocations::StateFiles;
use crate::logic::resources::cpu_manager::CpuSet;
use crate::sim::invariants::OWN_CPUS;

/// CPUs by the file of state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpusKept {
    /// Those that nobody owns; empty under the policy `none`.
    pub shared: CpuSet,
    /// By pod and container.
    pub owned: BTreeMap<PodUid, BTreeMap<String, CpuSet>>,
}

impl World {
    /// The content of the CPU manager's file; nothing where there is none, or it cannot be read.
    pub fn cpus_kept(&self) -> CpusKept {
        let bytes = lock(&self.node().disk).checkpoints.get(StateFiles::CPUS).cloned().unwrap_or_default();
        let file: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let set = |value: &Value| CpuSet::parse(value.as_str().unwrap_or_default()).unwrap_or_default();
        let pods = file["entries"].as_object().into_iter().flatten();
        let of_pod =
            |own: &Value| own.as_object().into_iter().flatten().map(|(name, cpus)| (name.clone(), set(cpus))).collect();
        let owned = pods.map(|(uid, own)| (PodUid::from(uid.as_str()), of_pod(own))).collect();
        CpusKept { shared: set(&file["defaultCpuSet"]), owned }
    }

    /// CPUs and NUMA nodes that the runtime got for the running container; empty ones restrict nothing.
    pub fn pinning_of(&self, pod: &str, container: &str) -> Option<(String, String)> {
        let containers = lock(&self.node().containers);
        let mut all = containers.containers.values().filter(|one| one.state == ContainerState::Running);
        let found = all.find(|one| one.pod == pod && one.metadata.name == container)?;
        Some((found.resources.cpuset_cpus.clone(), found.resources.cpuset_mems.clone()))
    }
}

/// Once quiet: each CPU has one owner at most, and running containers have just their own or just the shared ones.
pub(super) fn problems(world: &World) -> Vec<(&'static str, String)> {
    let kept = world.cpus_kept();
    let mut problems = vec![];
    let mut taken = kept.shared.clone();
    for (uid, own) in &kept.owned {
        for (name, cpus) in own {
            if !taken.is_disjoint(cpus) {
                problems.push((OWN_CPUS, format!("{name} of {uid} owns {cpus}, of which others have some")));
            }
            taken = taken.union(cpus);
        }
    }
    if kept.shared.is_empty() {
        return problems;
    }
    let containers = lock(&world.node().containers);
    for one in containers.containers.values().filter(|one| one.state == ContainerState::Running) {
        let own = kept.owned.get(&PodUid::from(one.uid.as_str())).and_then(|own| own.get(&one.metadata.name));
        let (has, wanted) = (&one.resources.cpuset_cpus, own.unwrap_or(&kept.shared));
        if *has != wanted.to_string() {
            problems.push((OWN_CPUS, format!("{} runs on {has:?}, to run on {wanted}", one.label())));
        }
    }
    problems
}
