//! Cgroups, in memory: names and settings. Removing one kills what runs in it, as in a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::Node;
use super::outlet::Outlet;
use crate::actors::kit::trace::lock;
use crate::cri::ContainerState;
use crate::logic::model::ids::PodUid;
use crate::logic::resources::cgroup_name::{CgroupDriver, CgroupName, CgroupTree};
use crate::logic::resources::{CgroupSettings, CgroupVersion};
use crate::platform::cgroup::{CgroupError, CgroupManager};
use crate::sim::faults::Fault;

/// See the module.
#[derive(Debug, Default)]
pub struct Cgroups {
    /// The settings of each.
    pub all: BTreeMap<CgroupName, CgroupSettings>,
}

impl Cgroups {
    /// Makes a cgroup, as a runtime does for what it is to put in.
    pub fn ensure(&mut self, path: &str) {
        if let Ok(name) = CgroupName::from_cgroupfs_path(path) {
            self.all.entry(name).or_default();
        }
    }

    /// Pods that have one.
    pub fn pods(&self, tree: &CgroupTree) -> Vec<(PodUid, CgroupName)> {
        self.all.keys().filter_map(|name| Some((tree.pod_uid(name)?, name.clone()))).collect()
    }
}

/// An absent value stays as it is, and so does a limit of nothing.
fn merge(known: &mut CgroupSettings, to: &CgroupSettings) {
    known.cpu_shares = to.cpu_shares.or(known.cpu_shares);
    known.cpu_quota = to.cpu_quota.filter(|quota| *quota != 0).or(known.cpu_quota);
    known.cpu_period = to.cpu_period.or(known.cpu_period);
    known.memory_limit = to.memory_limit.filter(|limit| *limit != 0).or(known.memory_limit);
    known.pids_max = to.pids_max.or(known.pids_max);
    if to.cpuset_cpus.is_some() {
        known.cpuset_cpus.clone_from(&to.cpuset_cpus);
    }
    if to.hugepages.is_some() {
        known.hugepages.clone_from(&to.hugepages);
        known.hugepages_otherwise = to.hugepages_otherwise;
    }
    known.unified.extend(to.unified.clone());
}

fn folder(name: &CgroupName) -> String {
    format!("/sys/fs/cgroup{name}")
}

impl Outlet {
    fn cgroup<T>(&self, name: &CgroupName, share: f64, work: impl FnOnce(&Node) -> T) -> Result<T, CgroupError> {
        let dead = || CgroupError::Read { file: folder(name), source: io::ErrorKind::BrokenPipe.into() };
        let node = self.touch().ok_or_else(dead)?;
        if node.faults.strikes(Fault::Cgroups, share) {
            node.story.tell("fault", format!("cgroup {name} is busy"));
            return Err(CgroupError::Remove { folder: folder(name), source: io::ErrorKind::ResourceBusy.into() });
        }
        let done = work(node);
        if self.is_alive() { Ok(done) } else { Err(dead()) }
    }

    fn absent(name: &CgroupName) -> CgroupError {
        CgroupError::Read { file: folder(name), source: io::ErrorKind::NotFound.into() }
    }
}

impl CgroupManager for Outlet {
    fn version(&self) -> CgroupVersion {
        CgroupVersion::V2
    }

    fn driver(&self) -> CgroupDriver {
        CgroupDriver::Cgroupfs
    }

    fn validate(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let found = self.cgroup(name, 0.0, |node| lock(&node.cgroups).all.contains_key(name))?;
        if found { Ok(()) } else { Err(Self::absent(name)) }
    }

    fn create(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        if self.node().fails_now("create cgroup") {
            return Err(CgroupError::Create { folder: folder(name), source: io::ErrorKind::StorageFull.into() });
        }
        self.cgroup(name, 0.05, |node| drop(lock(&node.cgroups).all.insert(name.clone(), settings.clone())))
    }

    fn update(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        let found = self.cgroup(name, 0.05, |node| {
            lock(&node.cgroups).all.get_mut(name).map(|known| merge(known, settings)).is_some()
        })?;
        if found { Ok(()) } else { Err(Self::absent(name)) }
    }

    fn destroy(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.cgroup(name, 0.1, |node| {
            node.kill_cgroup(&name.path(CgroupDriver::Cgroupfs));
            if lock(&node.cgroups).all.remove(name).is_some() {
                node.changed();
            }
        })
    }

    fn pids(&self, _: &CgroupName) -> Result<BTreeSet<i32>, CgroupError> {
        Ok(BTreeSet::new())
    }

    fn list_pods(&self, tree: &CgroupTree) -> Result<Vec<(PodUid, CgroupName)>, CgroupError> {
        self.cgroup(tree.pods(), 0.05, |node| lock(&node.cgroups).pods(tree))
    }

    fn read(&self, name: &CgroupName) -> Result<CgroupSettings, CgroupError> {
        let found = self.cgroup(name, 0.0, |node| lock(&node.cgroups).all.get(name).cloned())?;
        found.ok_or_else(|| Self::absent(name))
    }

    /// The memory that the running containers of the cgroup's pod use together; nothing of any other cgroup.
    fn memory_usage(&self, name: &CgroupName) -> Result<u64, CgroupError> {
        self.read(name)?;
        let Some(uid) = cgroup_tree().pod_uid(name) else { return Ok(0) };
        self.cgroup(name, 0.0, |node| {
            let containers = lock(&node.containers);
            let of_pod = containers.containers.values().filter(|one| one.uid == uid);
            of_pod.filter(|one| one.state == ContainerState::Running).map(|one| one.memory).sum()
        })
    }
}

/// Where the agent's cgroups are.
pub fn cgroup_tree() -> CgroupTree {
    CgroupTree::new("/", true).expect("the root is a path")
}
