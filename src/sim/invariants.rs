//! Invariants that hold under all faults, by name. Checked at each change of the runtime; [`super::world::truth`] has
//! those that must hold once all is quiet.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::clock::VirtualTime;
use super::containers::{Containers, SimContainer};
use super::pods::{CLAIMS_ASKED, OWN_DEVICES, SimPod};
use super::story::Story;
use crate::actors::kit::trace::lock;
use crate::cri::{ContainerState, IdMapping};
use crate::logic::model::ids::{ContainerId, PodUid, SandboxId};
use crate::logic::resources::user_namespaces::IdRange;

/// Two instances of a container of a pod never run side by side.
pub const ONE_INSTANCE: &str = "one-instance";
/// A container of a pod that never restarts is started once at most, unless the runtime lost track of it.
pub const NEVER_TWICE: &str = "never-twice";
/// No container is asked for before its sandbox was ready.
pub const SANDBOX_FIRST: &str = "sandbox-first";
/// Each further stop of a container gives it no more time than the one before.
pub const GRACE_SHRINKS: &str = "grace-shrinks";
/// A container's restart count only grows while the runtime holds an instance of it.
pub const COUNTS_GROW: &str = "counts-grow";
/// Nothing of a pod is started after the pod was ended and removed.
pub const NO_WAY_BACK: &str = "no-way-back";
/// A container is made with its pod's volumes there, and none of them is taken down while it runs.
pub const VOLUMES_OUTLIVE: &str = "volumes-outlive";
/// No image is removed while a container that has it runs.
pub const IMAGES_STAY: &str = "images-stay";
/// Once quiet: every wanted pod runs, or has ended as its policy says.
pub const WANTED_RUNS: &str = "wanted-runs";
/// Once quiet: nothing runs that nobody wants.
pub const UNWANTED_STOPS: &str = "unwanted-stops";
/// Once quiet: no sandbox, container, directory or cgroup is left of a pod that nobody wants.
pub const NOTHING_LEFT: &str = "nothing-left";
/// Once quiet: what the agent tells of pods is what the runtime holds.
pub const TRUE_STATUS: &str = "true-status";
/// The status told of a pod never goes back: a phase that is final stays, restart counts never fall.
pub const STATUS_FORWARD: &str = "status-forward";
/// The agent takes from the API only pods that somebody deleted, for good, and by their UID.
pub const OWN_DELETES: &str = "own-deletes";
/// A pod is taken from the API after its containers have ended and its volumes and its cgroup are gone, not before.
pub const GONE_FIRST: &str = "gone-first";
/// No container of a pod that is wanted is stopped, whatever goes wrong between the agent and its sources. While the node
/// runs short, pods of the API may be, unless they are critical.
pub const WANTED_LIVES: &str = "wanted-lives";
/// Once quiet: what the API tells of pods is what the runtime holds, and it has no pod that nobody wants.
pub const API_TRUTH: &str = "api-truth";
/// Once quiet: pods have the resources that they ask for, or say that they wait for them.
pub const RESIZED: &str = "resized";
/// Once quiet: the tier of burstable pods has the share that those pods ask for together.
pub const TIER_SHARES: &str = "tier-shares";
/// Once quiet: each static pod has one mirror, of its own version.
pub const MIRRORS: &str = "mirrors";
/// Once quiet: the Node is there and ready, and its Lease is renewed.
pub const NODE_READY: &str = "node-ready";
/// While the node runs short and a pod may end for that, one is stopped within the bound.
pub const PRESSURE_RELIEVED: &str = "pressure-relieved";
/// No status says that a critical pod was evicted.
pub const CRITICAL_STAYS: &str = "critical-stays";
/// A status says that a pod was evicted only when the node ran short, or when the pod has a limit of its own.
pub const EVICTED_FOR_CAUSE: &str = "evicted-for-cause";
/// Once quiet: the node has as much left as it is to keep, unless none but critical pods run.
pub const PRESSURE_ENDS: &str = "pressure-ends";
/// Once quiet: no CPU is given twice, and containers run on the CPUs that the file of state says.
pub const OWN_CPUS: &str = "own-cpus";
/// A pod that asks for it has IDs of the host that no other pod has. They stay the same from its first sandbox until
/// nothing of it runs any more.
pub const OWN_IDS: &str = "own-ids";
/// A device is never with two containers that run.
pub const DEVICE_ONCE: &str = "device-once";
/// A container is made with all that its pod asks for it: devices, and those of claims.
pub const ALL_GIVEN: &str = "all-given";
/// A claim of a container is prepared before the container starts.
pub const CLAIMS_FIRST: &str = "claims-first";
/// A claim is released after the last container that uses it has ended.
pub const CLAIMS_OUTLIVE: &str = "claims-outlive";
/// Nothing is published over something else.
pub const PUBLISHED_ONCE: &str = "published-once";
/// A volume for one pod is published for one pod at a time.
pub const ONE_POD: &str = "one-pod";
/// A volume is published after it was staged, and nothing is staged over something else.
pub const STAGED_FIRST: &str = "staged-first";
/// A volume is unstaged after it was unpublished, and detached after it was unstaged.
pub const STAGED_OUTLIVES: &str = "staged-outlives";
/// Once quiet: drivers have nothing prepared, published or staged that no pod wants.
pub const DRIVERS_IDLE: &str = "drivers-idle";
/// Once quiet: a volume that pods have is as large as its claim wants, unless the claim says why not; no claim has more than
/// its driver.
pub const VOLUMES_GROWN: &str = "volumes-grown";
/// Once quiet: a pod's status says of each device of its claims how it is, as its driver does.
pub const HEALTH_TOLD: &str = "health-told";
/// A cluster in which nothing happens is asked next to nothing.
pub const API_BOUNDED: &str = "api-bounded";

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub name: &'static str,
    /// The run's seed.
    pub seed: u64,
    /// Virtual time.
    pub at: Duration,
    /// How.
    pub how: String,
    /// The command that shows it again.
    pub command: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, seed, at, how, command } = self;
        write!(f, "{name} broken at {:.3}s, seed {seed}: {how}\n    again: ", at.as_secs_f64())?;
        // A test's own scenario is no command; the test takes the seed.
        if command.is_empty() { write!(f, "the same test with PODWRIGHT_SEED={seed}") } else { f.write_str(command) }
    }
}

#[derive(Default)]
struct State {
    violations: Vec<Violation>,
    command: String,
    wanted: BTreeSet<PodUid>,
    /// The pods that were wanted when the agent last read the manifests.
    read: BTreeSet<PodUid>,
    never: BTreeSet<PodUid>,
    starts: BTreeMap<(PodUid, String), u32>,
    /// Since when each pod is wanted; the first time counts.
    since: BTreeMap<PodUid, Duration>,
    /// Containers that were ever made, with the exit code of the newest instance that has ended.
    made: BTreeMap<(PodUid, String), Option<i32>>,
    /// Pods whose sandbox was ever lost without the agent's doing, or to an agent before the one that runs.
    bereft: BTreeSet<PodUid>,
    /// Pods that were wanted, then not, and then again.
    again: BTreeSet<PodUid>,
    graces: BTreeMap<ContainerId, (PodUid, Duration)>,
    retired: BTreeSet<PodUid>,
    /// Pods of the API that the agent may take for wanted.
    api_known: BTreeSet<PodUid>,
    /// Pods whose containers nobody may stop, with their regular containers.
    kept: BTreeMap<PodUid, BTreeSet<String>>,
    /// Pods whose priority is critical.
    critical: BTreeSet<PodUid>,
    /// Pods with limits of their own for what they write.
    limited: BTreeSet<PodUid>,
    /// The machine goes down.
    goes_down: bool,
    /// Devices that containers ask for: of each resource how many.
    asked: BTreeMap<(PodUid, String), BTreeMap<String, u64>>,
    /// Pods that are to have IDs of their own.
    own_users: BTreeSet<PodUid>,
    /// The IDs that pods have: the first on the host, and how many.
    ids: BTreeMap<PodUid, IdRange>,
    /// When the node was last seen to run short.
    short: Option<Duration>,
    /// Pods that were stopped while it did, or soon afterwards: for as long as the API server is away, nobody says why.
    relieved: BTreeSet<PodUid>,
    /// Sandboxes that were ready, each with its pod.
    readied: BTreeMap<SandboxId, PodUid>,
    /// Since when it does, or since when a pod was last stopped for that.
    unrelieved: Option<Duration>,
}

/// A pod that the agent chose while the node ran short may be stopped this much later.
const EVICTION_LAG: Duration = Duration::from_secs(60);

/// The longest between two looks of an agent that lives.
const LOOK_MAX: Duration = Duration::from_secs(35);
/// From one eviction to the next: the wait for the end of a pod, a look, and a reclaim.
const RELIEF_MAX: Duration = Duration::from_secs(60);

/// Devices of a container that no other one may have: those of device plugins, by the names of simulated ones.
fn own_devices(container: &SimContainer) -> impl Iterator<Item = &String> {
    container.devices.iter().filter(|device| device.starts_with(OWN_DEVICES))
}

/// See the module.
pub struct Invariants {
    seed: u64,
    time: VirtualTime,
    story: Arc<Story>,
    state: Mutex<State>,
}

impl Invariants {
    /// Nothing broken yet.
    pub fn new(seed: u64, time: VirtualTime, story: Arc<Story>) -> Self {
        Self { seed, time, story, state: Mutex::default() }
    }

    /// The command that violations name.
    pub fn set_command(&self, command: String) {
        lock(&self.state).command = command;
    }

    /// All that was broken so far.
    pub fn violations(&self) -> Vec<Violation> {
        lock(&self.state).violations.clone()
    }

    /// Notes a broken invariant.
    pub fn broken(&self, name: &'static str, how: String) {
        self.story.tell("BROKEN", format!("{name}: {how}"));
        let mut state = lock(&self.state);
        let command = state.command.clone();
        state.violations.push(Violation { name, seed: self.seed, at: self.time.elapsed(), how, command });
    }

    /// Forgets what is known of pods that nobody wants.
    pub fn forget_unwanted(&self) {
        let mut state = lock(&self.state);
        let State { wanted, relieved, readied, .. } = &mut *state;
        relieved.retain(|uid| wanted.contains(uid));
        readied.retain(|_, uid| wanted.contains(uid));
        let State { wanted, never, starts, graces, retired, since, made, bereft, again, asked, own_users, ids, .. } =
            &mut *state;
        own_users.retain(|uid| wanted.contains(uid));
        ids.retain(|uid, _| wanted.contains(uid));
        asked.retain(|(uid, _), _| wanted.contains(uid));
        since.retain(|uid, _| wanted.contains(uid));
        made.retain(|(uid, _), _| wanted.contains(uid));
        bereft.retain(|uid| wanted.contains(uid));
        again.retain(|uid| wanted.contains(uid));
        never.retain(|uid| wanted.contains(uid));
        starts.retain(|(uid, _), _| wanted.contains(uid));
        graces.retain(|_, (uid, _)| wanted.contains(uid));
        retired.clear();
    }

    /// A pod is wanted from now on.
    pub fn pod_wanted(&self, uid: &PodUid, pod: &SimPod) {
        let mut state = lock(&self.state);
        state.retired.remove(uid);
        let is_wish = state.wanted.insert(uid.clone());
        let is_new = !state.since.contains_key(uid);
        if is_wish && !is_new {
            state.again.insert(uid.clone());
        }
        state.since.entry(uid.clone()).or_insert_with(|| self.time.elapsed());
        // One that comes back may still be on the way of its earlier end.
        if is_new && !pod.may_be_stopped() {
            let regular = pod.containers.iter().map(|spec| spec.name.clone()).collect();
            state.kept.insert(uid.clone(), regular);
        }
        let has_own_policy = pod.init.iter().chain(&pod.containers).any(|spec| spec.restarts.is_some());
        if pod.is_critical() {
            state.critical.insert(uid.clone());
        }
        if pod.has_own_users() {
            state.own_users.insert(uid.clone());
        }
        if pod.is_limited() {
            state.limited.insert(uid.clone());
        }
        for spec in pod.init.iter().chain(&pod.containers) {
            state.asked.insert((uid.clone(), spec.name.clone()), spec.asks());
        }
        if pod.restart_policy == "Never" && !has_own_policy {
            state.never.insert(uid.clone());
        }
        state.starts.retain(|(other, _), _| other != uid);
        state.graces.retain(|_, (other, _)| other != uid);
    }

    /// Nobody wants a pod any more.
    pub fn pod_unwanted(&self, uid: &PodUid) {
        let mut state = lock(&self.state);
        state.wanted.remove(uid);
        state.kept.remove(uid);
    }

    /// The API wants a pod from now on.
    pub fn api_pod_wanted(&self, uid: &PodUid) {
        lock(&self.state).api_known.insert(uid.clone());
    }

    /// The agent itself took a pod from the API: it knows that nobody wants it.
    pub fn api_pod_gone(&self, uid: &PodUid) {
        lock(&self.state).api_known.remove(uid);
    }

    /// Somebody shuts the machine down, or cancels that. Meanwhile every container may be stopped.
    pub fn goes_down(&self, goes_down: bool) {
        lock(&self.state).goes_down = goes_down;
    }

    /// A running container in a ready sandbox is asked to stop, while the runtime itself works well. Sidecars end when
    /// nothing is left that they run beside.
    pub fn kept_stopped(&self, containers: &Containers, container: &SimContainer) {
        if self.may_be_evicted(&container.uid, EVICTION_LAG) {
            return self.relief_held_up();
        }
        let state = lock(&self.state);
        let regular = state.kept.get(&container.uid).filter(|_| !state.goes_down).cloned();
        drop(state);
        let Some(regular) = regular else { return };
        let has_ended = |name: &String| {
            let newest = containers.newest(&container.uid, name);
            newest.is_some_and(|newest| newest.state == ContainerState::Exited)
        };
        if regular.contains(&container.metadata.name) || !regular.iter().all(has_ended) {
            self.broken(WANTED_LIVES, format!("{} is stopped", container.label()));
        }
    }

    /// The node has less left than it is to keep, where the agent can see it.
    pub fn seen_short(&self) {
        let now = self.time.elapsed();
        let mut state = lock(&self.state);
        // Nobody looked meanwhile: there was no agent.
        if state.short.replace(now).is_some_and(|before| now.saturating_sub(before) > LOOK_MAX) {
            state.unrelieved = Some(now);
        }
    }

    /// The node has as much left as it is to keep.
    pub fn seen_enough(&self) {
        lock(&self.state).unrelieved = None;
    }

    /// A pod is stopped because the node runs short, or nobody can stop one: the time for it begins anew.
    pub fn relief_held_up(&self) {
        lock(&self.state).unrelieved = Some(self.time.elapsed());
    }

    /// The node runs short, and these run that may end for that.
    pub fn relief_due(&self, spared: &[String]) {
        let now = self.time.elapsed();
        let since = *lock(&self.state).unrelieved.get_or_insert(now);
        let late = now.saturating_sub(since);
        if late > RELIEF_MAX && !spared.is_empty() {
            self.relief_held_up();
            self.broken(PRESSURE_RELIEVED, format!("nothing is evicted for {late:?} although {spared:?} run"));
        }
    }

    /// Whether the pod is one that may end when the node runs short.
    pub fn may_go(&self, uid: &PodUid) -> bool {
        let state = lock(&self.state);
        state.api_known.contains(uid) && state.wanted.contains(uid) && !state.critical.contains(uid)
    }

    /// The agent tells the API server that it evicted a pod.
    pub fn told_evicted(&self, uid: &PodUid, name: &str) {
        let (is_critical, has_cause) = {
            let state = lock(&self.state);
            let lately = state.short.is_some_and(|at| self.time.elapsed().saturating_sub(at) < EVICTION_LAG);
            let has_cause = lately || state.relieved.contains(uid) || state.limited.contains(uid);
            (state.critical.contains(uid), has_cause)
        };
        if is_critical {
            self.broken(CRITICAL_STAYS, format!("{name} is told as evicted"));
        }
        if !has_cause {
            self.broken(EVICTED_FOR_CAUSE, format!("{name} is told as evicted although there was enough"));
        }
    }

    /// Whether the pod is one that may end because the node ran short at most `ago` before now.
    pub fn may_be_evicted(&self, uid: &PodUid, ago: Duration) -> bool {
        let state = lock(&self.state);
        let lately = state.short.is_some_and(|at| self.time.elapsed().saturating_sub(at) < ago);
        lately && state.api_known.contains(uid) && !state.critical.contains(uid)
    }

    /// A container's process is over, or could not begin.
    pub fn container_ended(&self, container: &SimContainer) {
        let key = (container.uid.clone(), container.metadata.name.clone());
        lock(&self.state).made.insert(key, Some(container.exit_code));
    }

    /// A sandbox died, and the agent had no part in it.
    pub fn sandbox_lost(&self, uid: &PodUid) {
        lock(&self.state).bereft.insert(uid.clone());
    }

    /// An agent begins. It takes the remains of a pod's former life, which the agent before could not remove, for the pod's
    /// own, as upstream does.
    pub fn agent_begins(&self, containers: &Containers) {
        let mut state = lock(&self.state);
        let remains = |uid: &&PodUid| containers.containers.values().any(|one| one.uid == **uid);
        let found: Vec<PodUid> = state.again.iter().filter(remains).cloned().collect();
        state.bereft.extend(found);
    }

    /// Whether a sandbox of the pod ever died by itself, or may have for all that the agent knows.
    pub fn is_bereft(&self, uid: &PodUid) -> bool {
        lock(&self.state).bereft.contains(uid)
    }

    /// Since when the pod is wanted.
    pub fn wanted_since(&self, uid: &PodUid) -> Option<Duration> {
        lock(&self.state).since.get(uid).copied()
    }

    /// Some container has this image, and it is removed.
    pub fn image_removed(&self, containers: &Containers, image: &str) {
        let mut users = containers.containers.values().filter(|one| one.may_run() && one.image == image);
        if let Some(user) = users.next() {
            self.broken(IMAGES_STAY, format!("{image} is removed while {} runs", user.label()));
        }
    }

    /// Whether a container of the pod was ever made.
    pub fn was_made(&self, uid: &PodUid, name: &str) -> bool {
        lock(&self.state).made.contains_key(&(uid.clone(), name.to_owned()))
    }

    /// With which exit code a container of the pod has ended last, however long ago it was removed.
    pub fn last_end(&self, uid: &PodUid, name: &str) -> Option<i32> {
        lock(&self.state).made.get(&(uid.clone(), name.to_owned())).copied().flatten()
    }

    /// The agent reads the manifests.
    pub fn manifests_read(&self) {
        let mut state = lock(&self.state);
        state.read = state.wanted.clone();
    }

    /// The agent removed the last of a pod from the node. Where nobody wants it, as it knows, it must not come back.
    pub fn pod_removed(&self, uid: &PodUid) {
        let mut state = lock(&self.state);
        if !state.wanted.contains(uid) && !state.read.contains(uid) && !state.api_known.contains(uid) {
            state.retired.insert(uid.clone());
        }
    }

    /// A sandbox is ready. `is_late`: a killed agent had asked for it, before another one removed the pod.
    pub fn sandbox_started(&self, uid: &PodUid, id: &SandboxId, label: &str, is_late: bool) {
        lock(&self.state).readied.insert(id.clone(), uid.clone());
        if !is_late && lock(&self.state).retired.contains(uid) {
            self.broken(NO_WAY_BACK, format!("sandbox {label} of the removed pod {uid}"));
        }
    }

    /// A sandbox is ready, with these IDs of its own or none.
    pub fn users_given(&self, uid: &PodUid, label: &str, ids: Option<IdMapping>) {
        let range = ids.map(|ids| IdRange { first: ids.host_id, length: ids.length });
        let problem = {
            let mut state = lock(&self.state);
            let before = state.ids.get(uid).copied();
            let asks = state.own_users.contains(uid);
            let mut others = state.ids.iter().filter(|(other, _)| *other != uid);
            let common = others.find(|(_, other)| range.is_some_and(|range| range.overlaps(**other)));
            let common = common.map(|(other, _)| other.clone());
            state.ids.extend(range.map(|range| (uid.clone(), range)));
            match (range, before, common) {
                (None, _, _) if asks => Some(format!("sandbox {label} has the host's IDs")),
                (Some(range), Some(before), _) if range != before => {
                    Some(format!("sandbox {label} has IDs from {} after those from {}", range.first, before.first))
                }
                (Some(range), _, Some(other)) => {
                    Some(format!("sandbox {label} has IDs from {}, of which pod {other} has some", range.first))
                }
                _ => None,
            }
        };
        problem.into_iter().for_each(|how| self.broken(OWN_IDS, how));
    }

    /// The file with a pod's IDs is gone: others may have them now.
    pub fn users_taken(&self, containers: &Containers, uid: &PodUid) {
        let had_any = lock(&self.state).ids.remove(uid).is_some();
        let mut running = containers.containers.values().filter(|one| one.state == ContainerState::Running);
        if let Some(running) = running.find(|one| had_any && one.uid == *uid) {
            self.broken(OWN_IDS, format!("the IDs of {} are free while it runs", running.label()));
        }
    }

    /// A container is asked for.
    pub fn container_wanted(&self, sandbox: &SandboxId, name: &str) {
        if !lock(&self.state).readied.contains_key(sandbox) {
            self.broken(SANDBOX_FIRST, format!("container {name} in sandbox {sandbox}"));
        }
    }

    /// Whether a container has the devices that its pod asks for.
    fn check_given(&self, new: &SimContainer) {
        let key = (new.uid.clone(), new.metadata.name.clone());
        let Some(asked) = lock(&self.state).asked.get(&key).cloned() else { return };
        let mut given: BTreeMap<String, u64> = BTreeMap::new();
        for device in BTreeSet::from_iter(&new.devices) {
            let resource = device.split(['=', '/']).next().filter(|kind| *kind == CLAIMS_ASKED);
            let resource = resource.or(device.split('=').next()).unwrap_or_default();
            *given.entry(resource.to_owned()).or_default() += 1;
        }
        if given != asked {
            self.broken(ALL_GIVEN, format!("{} asks for {asked:?} and has {:?}", new.label(), new.devices));
        }
    }

    /// The runtime has forgotten all instances. As upstream, a pod that never restarts begins anew then: nobody knows that it
    /// ran.
    pub fn instances_forgotten(&self) {
        lock(&self.state).starts.clear();
    }

    /// A container was made.
    pub fn container_made(&self, containers: &Containers, new: &SimContainer) {
        self.check_given(new);
        lock(&self.state).made.entry((new.uid.clone(), new.metadata.name.clone())).or_default();
        let before = containers.instances(&new.uid, &new.metadata.name).filter(|other| other.id != new.id);
        if let Some(highest) = before.map(|other| other.metadata.attempt).max()
            && highest >= new.metadata.attempt
        {
            self.broken(COUNTS_GROW, format!("{} after attempt {highest}", new.label()));
        }
    }

    /// A container was started; `is_late` as in [`Self::sandbox_started`].
    pub fn container_started(&self, containers: &Containers, new: &SimContainer, is_late: bool) {
        let instances = containers.instances(&new.uid, &new.metadata.name);
        let running = instances.filter(|other| other.may_run()).count();
        if running > 1 {
            self.broken(ONE_INSTANCE, format!("{} is the {running}. that runs", new.label()));
        }
        let others = containers.containers.values().filter(|one| one.may_run() && one.id != new.id);
        for other in others.filter(|one| (&one.uid, &one.metadata.name) != (&new.uid, &new.metadata.name)) {
            let own: Vec<&String> = own_devices(new).collect();
            if let Some(device) = own_devices(other).find(|device| own.contains(device)) {
                self.broken(DEVICE_ONCE, format!("{} has {device}, which {} has", new.label(), other.label()));
            }
        }
        let was_unknown = containers.instances(&new.uid, &new.metadata.name).any(|other| other.was_unknown);
        let twice = {
            let mut state = lock(&self.state);
            let starts = state.starts.entry((new.uid.clone(), new.metadata.name.clone())).or_default();
            *starts += 1;
            *starts > 1 && !was_unknown && state.never.contains(&new.uid)
        };
        if twice {
            self.broken(NEVER_TWICE, format!("{} runs again", new.label()));
        }
        if !is_late && lock(&self.state).retired.contains(&new.uid) {
            self.broken(NO_WAY_BACK, format!("{} of a removed pod", new.label()));
        }
    }

    /// Something of the pod is asked to stop.
    pub fn relief_asked(&self, uid: &PodUid) {
        if self.may_be_evicted(uid, EVICTION_LAG) {
            lock(&self.state).relieved.insert(uid.clone());
        }
    }

    /// A container is asked to stop. While its pod is wanted this is one of its restarts, or the late end of an earlier
    /// wish that it go; an agent started since knows nothing of either, and the pod's end, when it comes, begins anew.
    pub fn stop_asked(&self, container: &SimContainer, grace: Duration) {
        self.relief_asked(&container.uid);
        if lock(&self.state).wanted.contains(&container.uid) {
            return;
        }
        let now = (container.uid.clone(), grace);
        let before = lock(&self.state).graces.insert(container.id.clone(), now);
        if let Some((_, before)) = before.filter(|(_, before)| *before < grace) {
            self.broken(GRACE_SHRINKS, format!("{} is given {grace:?} after {before:?}", container.label()));
        }
    }
}
