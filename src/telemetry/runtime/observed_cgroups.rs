//! A cgroup manager that has another one do it, and tells how long that took.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::logic::model::ids::PodUid;
use crate::logic::resources::cgroup_name::{CgroupDriver, CgroupName, CgroupTree};
use crate::logic::resources::{CgroupSettings, CgroupVersion};
use crate::platform::cgroup::{CgroupError, CgroupManager};
use crate::platform::host::clock::Clock;
use crate::platform::observer::{Observation, Observer};

/// See the module.
pub struct ObservedCgroups {
    inner: Arc<dyn CgroupManager>,
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
}

impl ObservedCgroups {
    /// Tells `observer` of what `inner` does.
    pub fn new(inner: Arc<dyn CgroupManager>, observer: Arc<dyn Observer>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, observer, clock }
    }

    fn timed<T>(&self, operation: &'static str, work: impl FnOnce() -> T) -> T {
        let began = self.clock.uptime();
        let outcome = work();
        let took = self.clock.uptime().saturating_sub(began);
        self.observer.observe(Observation::CgroupDone { operation, took });
        outcome
    }
}

impl CgroupManager for ObservedCgroups {
    fn version(&self) -> CgroupVersion {
        self.inner.version()
    }

    fn driver(&self) -> CgroupDriver {
        self.inner.driver()
    }

    fn validate(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.inner.validate(name)
    }

    fn exists(&self, name: &CgroupName) -> bool {
        self.inner.exists(name)
    }

    fn create(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        self.timed("create", || self.inner.create(name, settings))
    }

    fn update(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        self.timed("update", || self.inner.update(name, settings))
    }

    fn destroy(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.timed("destroy", || self.inner.destroy(name))
    }

    fn pids(&self, name: &CgroupName) -> Result<BTreeSet<i32>, CgroupError> {
        self.inner.pids(name)
    }

    fn list_pods(&self, tree: &CgroupTree) -> Result<Vec<(PodUid, CgroupName)>, CgroupError> {
        self.inner.list_pods(tree)
    }

    fn read(&self, name: &CgroupName) -> Result<CgroupSettings, CgroupError> {
        self.inner.read(name)
    }

    fn memory_usage(&self, name: &CgroupName) -> Result<u64, CgroupError> {
        self.inner.memory_usage(name)
    }
}
