//! The simulated node: all that stays when the agent goes. Runtime, images, disk, cgroups, watched folders, time, story.

pub mod appetites;
pub(super) mod busy;
pub mod cgroups;
pub mod disk;
pub mod folders;
pub mod logind;
pub mod machine_facts;
pub mod machines;
pub mod network_rules;
pub mod outlet;
pub mod plugins;
pub mod process_placement;
pub mod runtime;
pub mod statistics;
pub mod volumes;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::clock::VirtualTime;
use super::containers::{Containers, SimContainer};
use super::faults::Faults;
use super::invariants::{CLAIMS_FIRST, Invariants};
use super::node::appetites::Beside;
use super::node::cgroups::Cgroups;
use super::node::disk::Disk;
use super::node::folders::WatchedFolder;
use super::node::logind::SimLogind;
use super::node::network_rules::Firewall;
use super::node::plugins::Plugins;
use super::node::process_placement::Processes;
use super::node::runtime::events::Events;
use super::node::runtime::images::Images;
use super::node::runtime::lists::Past;
use super::story::Story;
use crate::actors::kit::trace::lock;
use crate::cri::{ContainerEventKind, SandboxState};
use crate::logic::model::ids::{ContainerId, PodUid, SandboxId};
use crate::platform::host::node_facts::FixedNodeFacts;

/// The effect of a call whose caller left, and how late it comes.
type Orphan = (Duration, Box<dyn FnOnce(&Node) + Send>);

/// See the module.
pub struct Node {
    /// Time.
    pub time: VirtualTime,
    /// The story of the run.
    pub story: Arc<Story>,
    /// The faults.
    pub faults: Arc<Faults>,
    /// The invariants.
    pub invariants: Invariants,
    /// Sandboxes and containers.
    pub containers: Mutex<Containers>,
    /// How they were, for lists that are old.
    pub past: Mutex<Past>,
    /// The listeners to them.
    pub events: Events,
    /// Wakes whoever watches the memory that containers use.
    pub memory_changed: tokio::sync::Notify,
    /// The part of disks and processes that belongs to no pod.
    pub beside: Mutex<Beside>,
    /// The signals of evictions that agents counted.
    pub evicted: Mutex<Vec<&'static str>>,
    /// Images.
    pub images: Mutex<Images>,
    /// Pods' files.
    pub disk: Mutex<Disk>,
    /// Cgroups.
    pub cgroups: Mutex<Cgroups>,
    /// The packet filter.
    pub firewall: Mutex<Firewall>,
    /// Shutdowns of the machine.
    pub logind: SimLogind,
    /// The machine: its size, addresses, CPUs. Set when the agent starts first.
    pub machine: Mutex<Option<FixedNodeFacts>>,
    /// Processes that are no containers'.
    pub processes: Mutex<Processes>,
    /// The static pod path.
    pub manifests: WatchedFolder,
    /// The folder of local objects, where the agent has one.
    pub objects: WatchedFolder,
    /// Drivers beside the agent.
    pub plugins: Plugins,
    /// Whether the runtime answers.
    pub runtime_up: AtomicBool,
    /// A call to the API server is taking effect that its caller has left.
    pub late_call: AtomicBool,
    /// A call to the runtime is taking effect whose caller has left.
    late_effect: AtomicBool,
    /// Counts boots of the machine.
    pub boots: AtomicU64,
    /// Counts restarts of the runtime.
    pub runtime_epoch: AtomicU64,
    /// The runtime's conditions of itself and of the network; absent ones are well.
    pub conditions: Mutex<BTreeMap<&'static str, String>>,
    /// A method of the runtime that never answers, without any effect.
    pub hung: Mutex<Option<&'static str>>,
    /// A method of the runtime, or a work on a volume, that fails at its end, and how often it still does.
    pub failing: Mutex<Option<(&'static str, u32)>>,
    /// A pod, by name, about whose containers the runtime never answers, as with a shim that does not.
    pub stuck: Mutex<Option<String>>,
    /// Calls to the outside so far, over all incarnations of the agent.
    pub calls: AtomicU64,
    /// The agent dies at this call: its number, and whether after its effect.
    pub kill_at: Mutex<Option<(u64, bool)>>,
    /// Containers with a command that was left by a living agent before it had ended.
    pub commands_left: Mutex<Vec<ContainerId>>,
    /// Containers whose start a living agent cut off.
    pub starts_left: Mutex<Vec<ContainerId>>,
    orphans: Mutex<BTreeMap<u64, Orphan>>,
    version: AtomicU64,
    over: AtomicBool,
    me: Weak<Node>,
}

impl Node {
    /// An empty node.
    pub fn new(seed: u64, time: VirtualTime, story: Arc<Story>, faults: Arc<Faults>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            invariants: Invariants::new(seed, time.clone(), Arc::clone(&story)),
            containers: Mutex::default(),
            past: Mutex::default(),
            events: Events::default(),
            beside: Mutex::default(),
            evicted: Mutex::default(),
            images: Mutex::default(),
            disk: Mutex::default(),
            cgroups: Mutex::default(),
            firewall: Mutex::default(),
            logind: SimLogind::default(),
            machine: Mutex::default(),
            processes: Mutex::default(),
            manifests: WatchedFolder::default(),
            objects: WatchedFolder::default(),
            plugins: Plugins::new(seed),
            runtime_up: AtomicBool::new(true),
            late_call: AtomicBool::new(false),
            late_effect: AtomicBool::new(false),
            memory_changed: tokio::sync::Notify::new(),
            boots: AtomicU64::new(0),
            runtime_epoch: AtomicU64::new(0),
            conditions: Mutex::default(),
            hung: Mutex::default(),
            failing: Mutex::default(),
            stuck: Mutex::default(),
            calls: AtomicU64::new(0),
            kill_at: Mutex::default(),
            commands_left: Mutex::default(),
            starts_left: Mutex::default(),
            orphans: Mutex::default(),
            version: AtomicU64::new(0),
            over: AtomicBool::new(false),
            me: me.clone(),
            time,
            story,
            faults,
        })
    }

    /// Whether this is to fail; counts it then.
    pub(super) fn fails_now(&self, what: &str) -> bool {
        let mut failing = lock(&self.failing);
        let left = failing.as_mut().filter(|(which, times)| *which == what && *times > 0);
        left.map(|(_, times)| *times -= 1).is_some()
    }

    /// Somebody may set the wall clock; `share` is how often, while that goes wrong.
    pub fn may_step_clock(&self, share: f64) {
        if let Some(step) = self.faults.clock_step(share) {
            self.step_clock(step);
        }
    }

    /// The wall clock jumps so many nanoseconds ahead, or back.
    pub fn step_clock(&self, nanoseconds: i64) {
        let span = Duration::from_nanos(nanoseconds.unsigned_abs());
        let way = if nanoseconds < 0 { "back" } else { "ahead" };
        self.story.tell("fault", format!("the clock is set {way} by {:.0}s", span.as_secs_f64()));
        self.time.step(nanoseconds);
    }

    /// Something lasting changed.
    pub fn changed(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts changes.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The run is over: nothing may be begun any more.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Does something later, whoever lives then.
    pub fn later(&self, delay: Duration, what: impl FnOnce(&Node) + Send + 'static) {
        if self.over.load(Ordering::Relaxed) || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let me = self.me.clone();
        spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(node) = me.upgrade() {
                what(&node);
            }
        });
    }

    /// Does something later for a call whose caller left. Calls that are left at one moment are left in no order; what
    /// becomes of them has the order of their numbers. None outlives the machine's boot.
    pub fn left_behind(&self, number: u64, delay: Duration, what: impl FnOnce(&Node) + Send + 'static) {
        let boot = self.boots.load(Ordering::Relaxed);
        let what = move |node: &Node| {
            if node.boots.load(Ordering::Relaxed) == boot {
                what(node);
            }
        };
        lock(&self.orphans).insert(number, (delay, Box::new(what)));
        self.later(Duration::from_millis(1), |node| {
            for (_, (delay, what)) in std::mem::take(&mut *lock(&node.orphans)) {
                node.later(delay, |node| {
                    node.late_effect.store(true, Ordering::Relaxed);
                    what(node);
                    node.late_effect.store(false, Ordering::Relaxed);
                });
            }
        });
    }

    /// Whether what happens now was asked for by somebody who has left.
    pub fn is_late(&self) -> bool {
        self.late_effect.load(Ordering::Relaxed)
    }

    /// The sandbox is ready: told, and its cgroup is there, because the runtime makes what it needs.
    pub fn sandbox_began(&self, id: &SandboxId) {
        self.changed();
        let (uid, cgroup, label) = {
            let containers = lock(&self.containers);
            let sandbox = &containers.sandboxes[id];
            let label = format!("{}#{}", sandbox.metadata.name, sandbox.metadata.attempt);
            (PodUid::from(sandbox.metadata.uid.as_str()), sandbox.cgroup_parent.clone(), label)
        };
        lock(&self.cgroups).ensure(&cgroup);
        self.story.tell("runtime", format!("sandbox {label} is ready"));
        self.invariants.sandbox_started(&uid, id, &label, self.is_late());
        if !self.is_late() {
            let users = lock(&self.containers).sandboxes.get(id).and_then(|sandbox| sandbox.users.clone());
            self.invariants.users_given(&uid, &label, users.unwrap_or_default().uids.first().copied());
        }
        self.tell_event(id.as_str(), ContainerEventKind::Created, &uid);
        self.tell_event(id.as_str(), ContainerEventKind::Started, &uid);
    }

    /// A sandbox dies without the agent's doing.
    pub fn lose_sandbox(&self, id: &SandboxId, why: &str) {
        let uid = lock(&self.containers).sandboxes.get(id).map(|one| PodUid::from(one.metadata.uid.as_str()));
        uid.iter().for_each(|uid| self.invariants.sandbox_lost(uid));
        self.stop_sandbox(id, why);
    }

    /// Stops a sandbox and, at once, all in it.
    pub fn stop_sandbox(&self, id: &SandboxId, why: &str) {
        let (running, known) = {
            let containers = lock(&self.containers);
            let ready = containers.sandboxes.get(id).filter(|sandbox| sandbox.state == SandboxState::Ready);
            let known = ready
                .map(|sandbox| (sandbox.metadata.name.clone(), sandbox.metadata.attempt, sandbox.metadata.uid.clone()));
            (containers.running_in(id), known)
        };
        for container in running {
            self.end_container(&container, 137, "killed with its sandbox");
        }
        if let Some((name, attempt, uid)) = known {
            lock(&self.containers).stop_sandbox(id);
            self.changed();
            self.story.tell("runtime", format!("sandbox {name}#{attempt} {why}"));
            self.tell_event(id.as_str(), ContainerEventKind::Stopped, &PodUid::from(uid));
        }
    }

    /// A container was started: its log is there, and its own end is set.
    pub fn container_began(&self, id: &ContainerId) {
        self.changed();
        let (uid, label, log, end, cgroup, writes) = {
            let containers = lock(&self.containers);
            let container = &containers.containers[id];
            let sandbox = containers.sandboxes.get(&container.sandbox);
            let end = container.behaviour.end(container.metadata.attempt);
            let cgroup = sandbox.map(|sandbox| sandbox.cgroup_parent.clone()).unwrap_or_default();
            self.invariants.container_started(&containers, container, self.is_late());
            for device in self.plugins.unprepared(&container.devices) {
                self.invariants.broken(CLAIMS_FIRST, format!("{} starts without {device}", container.label()));
            }
            let writes = container.behaviour.writes;
            (container.uid.clone(), container.label(), container.log_path.clone(), end, cgroup, writes)
        };
        lock(&self.cgroups).ensure(&cgroup);
        lock(&self.disk).write_log(&log);
        lock(&self.disk).note_written(&log, self.time.now());
        lock(&self.disk).writing.begin(&log, writes, self.time.truly());
        self.story.tell("runtime", format!("{label} runs"));
        self.tell_event(id.as_str(), ContainerEventKind::Started, &uid);
        if let Some((after, code)) = end {
            let id = id.clone();
            self.later(after, move |node| node.end_container(&id, code, "ends by itself"));
        }
    }

    /// The kernel kills a container that takes too much memory.
    pub fn kill_for_memory(&self, id: &ContainerId) {
        self.end_container_as(id, 137, "OOMKilled", "is killed for its memory");
    }

    /// A container's process is over.
    pub fn end_container(&self, id: &ContainerId, code: i32, why: &str) {
        self.end_container_as(id, code, if code == 0 { "Completed" } else { "Error" }, why);
    }

    fn end_container_as(&self, id: &ContainerId, code: i32, reason: &'static str, why: &str) {
        let ended = lock(&self.containers).end(id, code, reason, self.time.date());
        if !ended {
            return;
        }
        self.changed();
        self.invariants.container_ended(&lock(&self.containers).containers[id]);
        let log = lock(&self.containers).containers[id].log_path.clone();
        lock(&self.disk).writing.end(&log, self.time.truly());
        lock(&self.disk).note_written(&log, self.time.now());
        let (uid, label) = self.about(id);
        self.story.tell("runtime", format!("{label} {why}, exit code {code}"));
        self.tell_event(id.as_str(), ContainerEventKind::Stopped, &uid);
    }

    /// A container is gone.
    pub fn container_went(&self, container: &SimContainer) {
        self.changed();
        self.story.tell("runtime", format!("{} is removed", container.label()));
        self.tell_event(container.id.as_str(), ContainerEventKind::Deleted, &container.uid);
    }

    /// Kills everything in a cgroup's path, as its removal does.
    pub fn kill_cgroup(&self, path: &str) {
        let inside: Vec<ContainerId> = {
            let containers = lock(&self.containers);
            let sandboxes = containers.sandboxes.values().filter(|sandbox| sandbox.cgroup_parent == path);
            sandboxes.flat_map(|sandbox| containers.running_in(&sandbox.id)).collect()
        };
        for id in inside {
            self.end_container(&id, 137, "killed with its cgroup");
        }
    }

    /// Sends an event, as well as the stream does.
    pub fn tell_event(&self, id: &str, kind: ContainerEventKind, uid: &PodUid) {
        self.events.tell(self, id, kind, uid);
    }

    fn about(&self, id: &ContainerId) -> (PodUid, String) {
        let containers = lock(&self.containers);
        let container = &containers.containers[id];
        (container.uid.clone(), container.label())
    }
}

/// Begins a task of the node itself.
#[expect(clippy::disallowed_methods, reason = "the node's own processes are no actor's operations")]
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

/// The node's name.
pub const NODE_NAME: &str = "node-1";
