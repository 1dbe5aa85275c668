//! A pod as the runtime shows it: sandboxes and containers, newest first. Decisions look at this instead of at the
//! runtime itself.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use super::ids::{ContainerId, FullName, PodUid, SandboxId};
use super::time::{Moment, Stamp};

/// A sandbox' state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub enum SandboxState {
    /// Runs.
    Ready,
    /// Stopped, or broken.
    NotReady,
}

/// A container's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub enum ContainerState {
    /// Made, not started.
    Created,
    /// Runs.
    Running,
    /// Ended.
    Exited,
    /// The runtime lost track of it.
    Unknown,
}

/// Where an instance stands among those of its container, or a sandbox among those of its pod: the greatest is the newest.
///
/// The count decides, which each new one continues; its time comes from a wall clock that somebody may have set back since
/// the one before it was made. IDs settle a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation<'a> {
    count: u32,
    created_at: Moment,
    id: Reverse<&'a str>,
}

impl<'a> Generation<'a> {
    /// Of a sandbox' attempt, or a container's restart count.
    pub fn new(count: u32, created_at: Moment, id: &'a str) -> Self {
        Self { count, created_at, id: Reverse(id) }
    }
}

/// One sandbox of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeSandbox {
    /// ID.
    pub id: SandboxId,
    /// Counts re-creations.
    pub attempt: u32,
    /// State.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Moment,
    /// Whether it uses the node's network.
    pub host_network: bool,
    /// Addresses, the primary one first; empty on the node's network.
    pub ips: Vec<String>,
    /// Whether the runtime told of its network, and no primary address. One that told nothing, or what is no address, may
    /// have one all the same.
    pub lacks_address: bool,
}

impl RuntimeSandbox {
    /// Whether nothing more will be known of it while its state is the same: it has its addresses, or will have none.
    pub fn is_complete(&self) -> bool {
        self.host_network || self.state == SandboxState::NotReady || !(self.ips.is_empty() || self.lacks_address)
    }

    /// The order of sandboxes, newest first.
    fn newest_first(one: &Self, other: &Self) -> Ordering {
        other.generation().cmp(&one.generation())
    }

    fn generation(&self) -> Generation<'_> {
        Generation::new(self.attempt, self.created_at, self.id.as_str())
    }
}

/// The process of a container: its image, its user, and the signal that ends it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ContainerProcess {
    /// Image, as the runtime names it.
    pub image: String,
    /// Image by digest or ID.
    pub image_ref: String,
    /// UID, GID and further GIDs of its first process, where told.
    pub user: Option<(i64, i64, Vec<i64>)>,
    /// The signal that it is stopped with, by the API's name, where the runtime tells and the gate
    /// `ContainerStopSignals` lets it (KEP-4960).
    pub stop_signal: Option<String>,
    /// Volumes of it that are images: by their clean path inside, the reference that the runtime has of each.
    pub image_mounts: BTreeMap<String, String>,
}

impl ContainerProcess {
    /// One of which only the image is known, by its reference.
    pub fn of_image(reference: &str) -> Self {
        Self { image: reference.to_owned(), image_ref: reference.to_owned(), ..Self::default() }
    }
}

/// One container of the pod, running or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeContainer {
    /// ID.
    pub id: ContainerId,
    /// Its sandbox; empty when the runtime did not tell.
    pub sandbox_id: SandboxId,
    /// Name in the pod.
    pub name: String,
    /// From the agent's annotation; 0 when it is missing (CRI-14).
    pub restart_count: u32,
    /// From the agent's annotation, lower hex; empty when it is missing (CRI-15).
    pub hash: String,
    /// The process that runs in it.
    pub process: ContainerProcess,
    /// State.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Moment,
    /// When it was started; the epoch before.
    pub started_at: Moment,
    /// When it ended; the epoch before.
    pub finished_at: Moment,
    /// How it ended.
    pub exit_code: i32,
    /// One word why it ended.
    pub reason: String,
    /// A sentence why it ended: the runtime's, and the container's own termination message (POD-38).
    pub message: String,
    /// Its log file; absolute.
    pub log_path: String,
    /// Its resources in force, where the runtime reports them.
    pub resources: Option<RuntimeResources>,
}

impl RuntimeContainer {
    /// The order of containers, the newest instance of each before its others.
    pub fn newest_first(one: &Self, other: &Self) -> Ordering {
        other.generation().cmp(&one.generation())
    }

    fn generation(&self) -> Generation<'_> {
        Generation::new(self.restart_count, self.created_at, self.id.as_str())
    }
}

#[cfg(test)]
impl RuntimeContainer {
    /// An instance of which the runtime tells this and no more, for tests.
    pub(crate) fn sample(id: &str, name: &str, state: ContainerState) -> Self {
        Self {
            id: id.into(),
            sandbox_id: "s".into(),
            name: name.to_owned(),
            restart_count: 0,
            hash: String::new(),
            process: ContainerProcess::default(),
            state,
            created_at: Moment::EPOCH,
            started_at: Moment::EPOCH,
            finished_at: Moment::EPOCH,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            log_path: String::new(),
            resources: None,
        }
    }
}

/// CPU and memory of a container as the runtime has them in force; what it does not limit, or tell, is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeResources {
    /// CPU asked for, in thousandths, as its share says.
    pub cpu_request: Option<i64>,
    /// CPU at most, in thousandths.
    pub cpu_limit: Option<i64>,
    /// Memory at most, in bytes.
    pub memory_limit: Option<i64>,
}

/// The runtime's objects of one pod UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimePod {
    /// The pod's UID.
    pub uid: PodUid,
    /// Name and namespace, as the runtime's labels tell.
    pub full_name: FullName,
    /// Newest first ([`Generation`]).
    pub sandboxes: Vec<RuntimeSandbox>,
    /// Of each container the newest instance first ([`Generation`]).
    pub containers: Vec<RuntimeContainer>,
    /// When this was looked at: nothing that happened after it is in it.
    pub taken: Stamp,
}

impl RuntimePod {
    /// A pod of which the runtime holds nothing.
    pub fn empty(uid: PodUid, full_name: FullName, taken: Stamp) -> Self {
        Self { uid, full_name, sandboxes: Vec::new(), containers: Vec::new(), taken }
    }

    /// Puts sandboxes and containers in their order.
    pub fn put_newest_first(&mut self) {
        self.sandboxes.sort_by(RuntimeSandbox::newest_first);
        self.containers.sort_by(RuntimeContainer::newest_first);
    }

    /// Whether they are in their order, which the newest of each is found by.
    pub fn is_newest_first(&self) -> bool {
        self.sandboxes.is_sorted_by(|one, other| RuntimeSandbox::newest_first(one, other).is_le())
            && self.containers.is_sorted_by(|one, other| RuntimeContainer::newest_first(one, other).is_le())
    }

    /// The newest sandbox.
    pub fn sandbox(&self) -> Option<&RuntimeSandbox> {
        self.sandboxes.first()
    }

    /// The newest instance of the container of this name.
    pub fn container(&self, name: &str) -> Option<&RuntimeContainer> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// All instances of the container of this name, newest first.
    pub fn instances<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a RuntimeContainer> {
        self.containers.iter().filter(move |container| container.name == name)
    }

    /// Whether an instance of the container of this name runs, be it the newest or not.
    pub fn runs(&self, name: &str) -> bool {
        self.running().any(|container| container.name == name)
    }

    /// Containers that run.
    pub fn running(&self) -> impl Iterator<Item = &RuntimeContainer> {
        self.containers.iter().filter(|container| container.state == ContainerState::Running)
    }

    /// Whether a container runs or a sandbox is ready.
    pub fn is_alive(&self) -> bool {
        self.running().next().is_some() || self.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready)
    }

    /// Whether the runtime holds nothing of the pod.
    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }
}

/// The last results of a container's probes, by container ID.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ProbeResults {
    /// Readiness: `Some(true)` is ready; absent means no result yet.
    pub readiness: BTreeMap<ContainerId, bool>,
    /// Liveness.
    pub liveness: BTreeMap<ContainerId, bool>,
    /// Startup.
    pub startup: BTreeMap<ContainerId, bool>,
}

#[cfg(test)]
pub(crate) mod testing {
    use super::{RuntimeSandbox, SandboxState};
    use crate::logic::model::time::Moment;

    /// The first sandbox of a pod, without an address.
    pub(crate) fn sandbox(id: &str, state: SandboxState) -> RuntimeSandbox {
        RuntimeSandbox {
            id: id.into(),
            attempt: 0,
            state,
            created_at: Moment(0),
            host_network: false,
            ips: vec![],
            lacks_address: false,
        }
    }
}
