//! Cgroups of all pods that cannot be made, or cannot be limited yet.

use std::collections::BTreeSet;
use std::io;
use std::sync::Mutex;

use ractor::{ActorCell, ActorStatus};

use super::*;
use crate::actors::kit::trace::lock;
use crate::actors::node::tests::{PlayedAgent, played_agent, seconds};
use crate::actors::played_api::ObjectServer;
use crate::actors::wiring::start_alone;
use crate::logic::model::ids::PodUid;
use crate::logic::model::quantity::Quantity;
use crate::logic::resources::CgroupVersion;
use crate::logic::resources::cgroup_name::{CgroupDriver, CgroupTree};
use crate::logic::resources::node_cgroups::ReservedFor;
use crate::messages::root::Child;
use crate::platform::cgroup::CgroupManager;

/// Cgroups of which some cannot be made or set. Remembers what was done.
#[derive(Default)]
struct StubbornCgroups {
    refused: Mutex<BTreeSet<String>>,
    made: Mutex<BTreeSet<String>>,
    calls: Mutex<Vec<String>>,
}

impl StubbornCgroups {
    fn refuse(&self, calls: &[&str]) {
        *lock(&self.refused) = calls.iter().map(|&call| call.to_owned()).collect();
    }

    fn done(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.calls))
    }

    fn attempt(&self, what: &str, name: &CgroupName) -> Result<(), CgroupError> {
        let call = format!("{what} {name}");
        lock(&self.calls).push(call.clone());
        let source = io::Error::from(io::ErrorKind::ResourceBusy);
        if lock(&self.refused).contains(&call) {
            return Err(CgroupError::Write { file: "memory.max".to_owned(), value: "7".to_owned(), source });
        }
        lock(&self.made).insert(name.to_string());
        Ok(())
    }
}

impl CgroupManager for StubbornCgroups {
    fn version(&self) -> CgroupVersion {
        CgroupVersion::V2
    }
    fn driver(&self) -> CgroupDriver {
        CgroupDriver::Cgroupfs
    }
    fn validate(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let missing =
            CgroupError::MissingPaths { name: name.clone(), missing: vec![format!("/sys/fs/cgroup/cpu{name}")] };
        if lock(&self.made).contains(&name.to_string()) { Ok(()) } else { Err(missing) }
    }
    fn create(&self, name: &CgroupName, _: &CgroupSettings) -> Result<(), CgroupError> {
        self.attempt("create", name)
    }
    fn update(&self, name: &CgroupName, _: &CgroupSettings) -> Result<(), CgroupError> {
        self.attempt("update", name)
    }
    fn destroy(&self, _: &CgroupName) -> Result<(), CgroupError> {
        Ok(())
    }
    fn pids(&self, _: &CgroupName) -> Result<BTreeSet<i32>, CgroupError> {
        Ok(BTreeSet::new())
    }
    fn list_pods(&self, _: &CgroupTree) -> Result<Vec<(PodUid, CgroupName)>, CgroupError> {
        Ok(vec![])
    }
    fn read(&self, _: &CgroupName) -> Result<CgroupSettings, CgroupError> {
        Ok(CgroupSettings::default())
    }
    fn memory_usage(&self, _: &CgroupName) -> Result<u64, CgroupError> {
        Ok(0)
    }
}

fn played(cgroups: &Arc<StubbornCgroups>) -> (PlayedAgent, ActorCell) {
    played_with(cgroups, vec![])
}

fn played_with(cgroups: &Arc<StubbornCgroups>, reserved: Vec<ReservedCgroup>) -> (PlayedAgent, ActorCell) {
    let cgroups = Arc::clone(cgroups);
    let played = played_agent(ObjectServer::default().api(), |settings, adapters| {
        settings.resources.node_cgroups.reserved = reserved;
        adapters.cgroups = cgroups;
    });
    start_alone(Child::EventRecorder, &played.agent);
    let manager = start_alone(Child::ResourceManager, &played.agent);
    (played, manager)
}

/// Lets what blocks end, which paused time does not wait for.
async fn settled(cgroups: &StubbornCgroups, calls: usize) -> Vec<String> {
    let mut done = vec![];
    while done.len() < calls {
        seconds(0.1).await;
        done.extend(cgroups.done());
    }
    seconds(1.0).await;
    done
}

const ALL_UPDATED: [&str; 3] = ["update /kubepods", "update /kubepods/besteffort", "update /kubepods/burstable"];

/// RES-04: Upstream's Events. Pods that use more than they may have must not keep the agent from starting.
#[tokio::test(start_paused = true)]
async fn a_limit_of_all_pods_that_cannot_be_set_is_told_of_until_it_is() {
    let cgroups = Arc::<StubbornCgroups>::default();
    for name in ["/kubepods", "/kubepods/besteffort", "/kubepods/burstable"] {
        lock(&cgroups.made).insert(name.to_owned());
    }
    cgroups.refuse(&["update /kubepods"]);
    let (played, manager) = played(&cgroups);
    assert_eq!(settled(&cgroups, 3).await, ALL_UPDATED, "the tiers do not wait");
    let failed = "FailedNodeAllocatableEnforcement: Failed to update Node Allocatable Limits [\"kubepods\"]: \
                  write \"7\" to memory.max: resource busy";
    assert_eq!(played.node_events().await, [failed]);
    cgroups.refuse(&[]);
    seconds(60.0).await;
    assert_eq!(settled(&cgroups, 3).await, ALL_UPDATED);
    let enforced = "NodeAllocatableEnforced: Updated Node Allocatable limit across pods";
    assert_eq!(played.node_events().await, [failed, enforced]);
    cgroups.refuse(&["update /kubepods"]);
    seconds(60.0).await;
    settled(&cgroups, 3).await;
    assert_eq!(played.node_events().await, [failed, enforced], "that is for the log");
    assert_eq!(manager.get_status(), ActorStatus::Running);
}

/// Without the cgroups no pod can start: that ends the agent.
#[tokio::test(start_paused = true)]
async fn cgroups_that_cannot_be_made_or_tiers_that_cannot_be_set_end_the_agent() {
    for (made, refused, calls) in [
        (&[][..], "create /kubepods", 1),
        (&["/kubepods"], "create /kubepods/besteffort", 2),
        (&["/kubepods", "/kubepods/besteffort"], "update /kubepods/besteffort", 2),
    ] {
        let cgroups = Arc::<StubbornCgroups>::default();
        lock(&cgroups.made).extend(made.iter().map(|&name| name.to_owned()));
        cgroups.refuse(&[refused]);
        let (_played, manager) = played(&cgroups);
        assert_eq!(settled(&cgroups, calls).await.last().map(String::as_str), Some(refused));
        assert_eq!(manager.get_status(), ActorStatus::Stopped, "{refused}");
    }
}

fn reserved(owner: ReservedFor, cgroup: &str) -> ReservedCgroup {
    let amounts = [("cpu".to_owned(), Quantity::from_milli(500))].into();
    ReservedCgroup { owner, cgroup: cgroup.to_owned(), amounts, compressible_only: false }
}

/// RES-16: the host's own cgroups are never made. Without them the agent does not run, and says so as upstream does.
#[tokio::test(start_paused = true)]
async fn res_16_reserved_cgroups_are_set_once_or_end_the_agent() {
    let both = vec![reserved(ReservedFor::System, "/system"), reserved(ReservedFor::Kube, "/kube")];
    let all = ["/kubepods", "/kubepods/besteffort", "/kubepods/burstable", "/system"].map(str::to_owned);
    let cgroups = Arc::<StubbornCgroups>::default();
    lock(&cgroups.made).extend(all.iter().cloned().chain(["/kube".to_owned()]));
    let (played, manager) = played_with(&cgroups, both.clone());
    assert_eq!(settled(&cgroups, 5).await[3..], ["update /system", "update /kube"]);
    let pods = "NodeAllocatableEnforced: Updated Node Allocatable limit across pods";
    let system = "NodeAllocatableEnforced: Updated limits on system reserved cgroup /system";
    let kube = "NodeAllocatableEnforced: Updated limits on kube reserved cgroup /kube";
    assert_eq!(played.node_events().await, [pods, system, kube]);
    seconds(60.0).await;
    assert_eq!(settled(&cgroups, 3).await, ALL_UPDATED, "they are the host's from then on");
    assert_eq!(manager.get_status(), ActorStatus::Running);

    let cgroups = Arc::<StubbornCgroups>::default();
    lock(&cgroups.made).extend(all);
    let (played, manager) = played_with(&cgroups, both);
    assert_eq!(settled(&cgroups, 4).await[3..], ["update /system"]);
    let missing = "FailedNodeAllocatableEnforcement: Failed to enforce Kube Reserved Cgroup Limits on \"/kube\": cgroup \
                   [\"kube\"] has some missing paths: /sys/fs/cgroup/cpu/kube";
    assert_eq!(played.node_events().await, [pods, system, missing]);
    assert_eq!(manager.get_status(), ActorStatus::Stopped);
}
