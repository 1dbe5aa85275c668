//! The node's volumes, pod by pod: which are wanted, which are there, what is to be done next (VOL-01, VOL-04).
//!
//! Owned by `VolumeManager`, which feeds it and carries out its orders. Level-triggered like the pods' own machine: each
//! input may be lost or repeated. A pod is either wanted or released, and only its `Release` leads to unmounting; it is
//! sent once the pod's containers are gone. The volumes of a released pod are read from the disk, not from memory, so
//! that a restart of the agent changes nothing. Mounting begins only when nothing of the pod is being unmounted.

mod failures;
mod mounted;
pub mod slow_walk;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

pub use failures::{TaskFailure, VolumeFailure};
pub use mounted::{DrivenVolume, MountedVolume, MountedVolumes, VolumeLabel};

use super::order::VolumePlace;
use crate::logic::model::backoff::{Backoff, BackoffPolicy, Wait};
use crate::logic::model::ids::PodUid;
use crate::logic::model::log_level::LogLevel;
use crate::logic::model::time::{Clocks, Moment, Steady};

/// Waits after failures of one task: 500 ms, doubled up to 2 min 2 s.
const RETRY: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(122),
    reset: Duration::from_secs(600),
};
/// A task that takes longer is said to hang.
pub const HANGS_AFTER: Duration = Duration::from_secs(30);
/// How long a failure waits for mounts beside it, which it would name as missing too. Upstream looks every 300 ms.
const BESIDE: Duration = Duration::from_secs(1);
/// When to ask again about a task that hangs.
const HANG_RETRY: Duration = Duration::from_secs(10);

/// Work for one pod. At most one of each is under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// Setting up the volume of this name.
    Mount(String),
    /// Reading from the disk which volumes there are.
    List,
    /// Taking one down.
    Unmount(VolumePlace),
    /// Removing what is left once no volume is there.
    Finish,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount(name) => write!(f, "set up of volume {name:?}"),
            Self::List => f.write_str("reading of the pod's volumes"),
            Self::Unmount(place) => write!(f, "unmount of volume {:?}", place.name),
            Self::Finish => f.write_str("removal of what is left of the volumes"),
        }
    }
}

/// An observation.
#[derive(Clone, Debug)]
pub enum Input {
    /// The pod is to have these volumes: name, and whether it is set up again at each such input.
    Want {
        /// The pod's UID.
        uid: PodUid,
        /// Which.
        volumes: Vec<(String, bool)>,
    },
    /// The content of these volumes is not as it was: a try that waits because of failures waits no longer.
    Changed {
        /// The pod's UID.
        uid: PodUid,
        /// Which.
        volumes: Vec<String>,
    },
    /// A task that takes long is at work, and does not hang.
    Moves {
        /// The pod's UID.
        uid: PodUid,
        /// Which.
        task: Task,
        /// At what: a clause that stays the same for as long as it is at that.
        doing: String,
    },
    /// Nothing of the pod starts any more: its volumes stay as they are, until they are wanted anew or released.
    Settle {
        /// The pod's UID.
        uid: PodUid,
    },
    /// The pod's containers are gone: its volumes go.
    Release {
        /// The pod's UID.
        uid: PodUid,
    },
    /// A task ended; `List` with what it found.
    Ended {
        /// The pod's UID.
        uid: PodUid,
        /// Which.
        task: Task,
        /// How.
        outcome: Result<Vec<VolumePlace>, TaskFailure>,
    },
    /// The cause of any failure may be over: no task waits because of failures.
    Retry,
    /// A wait may be over.
    Due,
}

impl Input {
    /// The pod of the volumes; `None` of one that may be about any.
    pub fn about(&self) -> Option<&PodUid> {
        match self {
            Self::Want { uid, .. } | Self::Changed { uid, .. } | Self::Moves { uid, .. } => Some(uid),
            Self::Settle { uid } | Self::Release { uid } | Self::Ended { uid, .. } => Some(uid),
            Self::Retry | Self::Due => None,
        }
    }
}

/// A task to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The pod's UID.
    pub uid: PodUid,
    /// Which.
    pub task: Task,
}

/// How far a pod's wish has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All volumes are there; or, of a release, none is.
    Done,
    /// Under way.
    Working,
    /// Something failed or hangs.
    Failed(VolumeFailure),
}

#[derive(Clone, Debug, Default)]
struct PodState {
    wanted: bool,
    /// Of a wanted pod, that no volume is set up any more.
    settled: bool,
    volumes: BTreeMap<String, VolumeState>,
    running: BTreeMap<Task, Running>,
    failures: BTreeMap<Task, TaskFailure>,
    /// Waits that do not grow.
    looks: BTreeMap<Task, Wait>,
    /// Of a released pod, what is on the disk; `None` until it was read.
    listed: Option<BTreeSet<VolumePlace>>,
    /// Of a released pod, that nothing is left but mounts that hang; it is known until they end.
    finished: bool,
}

/// A task under way.
#[derive(Clone, Debug)]
struct Running {
    began: Steady,
    /// The same on the wall clock, for people.
    since: Moment,
    /// When it was seen at work last, and at what.
    moved: Option<(Steady, String)>,
}

impl Running {
    /// Since when it is waited for in vain, as far as is known.
    fn quiet_since(&self) -> Steady {
        self.moved.as_ref().map_or(self.began, |(at, _)| *at)
    }

    fn hangs(&self, now: Steady) -> bool {
        now.since(self.quiet_since()) >= HANGS_AFTER
    }
}

#[derive(Clone, Debug)]
struct VolumeState {
    mounted: bool,
    due: bool,
    /// Since when it is wanted.
    since: Steady,
}

impl PodState {
    fn is_releasing(&self) -> bool {
        self.running.keys().any(|task| !matches!(task, Task::Mount(_)))
    }

    /// Whether something under way may still leave something behind. A mount that hangs has left nothing so far, and may
    /// never end: the pod's end does not wait for it, and should it end after all the disk is read again.
    fn is_busy(&self, now: Steady) -> bool {
        self.running.iter().any(|(task, running)| !(matches!(task, Task::Mount(_)) && running.hangs(now)))
    }

    /// The tasks to do by and by, whether or not they may be tried now.
    fn due(&self, now: Steady) -> Vec<Task> {
        if self.wanted {
            let due = self.volumes.iter().filter(|(_, volume)| volume.due && !self.is_releasing());
            return due.map(|(name, _)| Task::Mount(name.clone())).collect();
        }
        match &self.listed {
            // It is of an earlier release: the disk is read once it has ended.
            _ if self.finished || self.running.contains_key(&Task::Finish) => vec![],
            None => vec![Task::List],
            Some(listed) if listed.is_empty() && !self.is_busy(now) => vec![Task::Finish],
            Some(listed) => listed.iter().cloned().map(Task::Unmount).collect(),
        }
    }

    /// Names of volumes that are not there yet, as upstream prints lists.
    fn unmounted(&self) -> String {
        let names = self.volumes.iter().filter(|(_, volume)| !volume.mounted).map(|(name, _)| name.as_str());
        format!("[{}]", names.collect::<Vec<_>>().join(" "))
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct VolumeStates {
    pods: BTreeMap<PodUid, PodState>,
    retries: Backoff,
    /// When something of each pod is due although nothing happens.
    wakes: BTreeMap<PodUid, Steady>,
    /// The same by time.
    agenda: BTreeSet<(Steady, PodUid)>,
}

impl Default for VolumeStates {
    fn default() -> Self {
        let (pods, wakes, agenda) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { pods, retries: Backoff::new(RETRY), wakes, agenda }
    }
}

/// When a task may be tried again; `None` when it may now.
fn waits_until(
    retries: &Backoff,
    looks: &BTreeMap<Task, Wait>,
    uid: &PodUid,
    task: &Task,
    now: Steady,
) -> Option<Steady> {
    match looks.get(task) {
        Some(look) => Some(look.until).filter(|until| *until > now),
        None => retries.wait(&key(uid, task), now).map(|wait| wait.until),
    }
}

fn key(uid: &PodUid, task: &Task) -> String {
    match task {
        Task::Unmount(place) => format!("unmount {place}"),
        Task::Mount(name) => format!("mount {uid}/{name}"),
        Task::List => format!("list {uid}"),
        Task::Finish => format!("finish {uid}"),
    }
}

/// Several causes as upstream prints them: each once, sorted.
fn joined<'a>(causes: impl Iterator<Item = &'a str>) -> String {
    causes.collect::<BTreeSet<&str>>().into_iter().collect::<Vec<_>>().join("; ")
}

impl VolumeStates {
    /// Takes one input; says what to begin.
    pub fn step(&mut self, input: Input, now: Clocks) -> Vec<Order> {
        match input {
            Input::Due => {
                self.retries.collect_garbage(now.steady);
                let due = self.agenda.iter().take_while(|(at, _)| *at <= now.steady);
                let uids: Vec<PodUid> = due.map(|(_, uid)| uid.clone()).collect();
                uids.iter().flat_map(|uid| self.decide(uid, now)).collect()
            }
            Input::Retry => {
                let failing: Vec<PodUid> = self.failing().cloned().collect();
                for uid in &failing {
                    let pod = self.pods.get_mut(uid).expect("found above");
                    pod.failures.keys().for_each(|task| self.retries.reset(&key(uid, task)));
                    pod.looks.clear();
                }
                failing.iter().flat_map(|uid| self.decide(uid, now)).collect()
            }
            Input::Want { uid, volumes } => {
                self.want(&uid, volumes, now.steady);
                self.decide(&uid, now)
            }
            Input::Changed { uid, volumes } => {
                for task in volumes.into_iter().map(Task::Mount) {
                    self.retries.reset(&key(&uid, &task));
                    self.pods.get_mut(&uid).map(|pod| pod.looks.remove(&task));
                }
                self.decide(&uid, now)
            }
            Input::Moves { uid, task, doing } => {
                if let Some(running) = self.pods.get_mut(&uid).and_then(|pod| pod.running.get_mut(&task)) {
                    running.moved = Some((now.steady, doing));
                }
                self.plan(&uid, now.steady);
                vec![]
            }
            Input::Settle { uid } => {
                if let Some(pod) = self.pods.get_mut(&uid).filter(|pod| pod.wanted) {
                    pod.settled = true;
                    pod.volumes.values_mut().for_each(|volume| volume.due = false);
                    pod.failures.clear();
                    pod.looks.clear();
                }
                self.decide(&uid, now)
            }
            Input::Release { uid } => {
                self.release(&uid);
                self.decide(&uid, now)
            }
            Input::Ended { uid, task, outcome } => {
                self.end(&uid, task, outcome, now.steady);
                self.decide(&uid, now)
            }
        }
    }

    /// Pods of which some task has failed and is tried again.
    pub fn failing(&self) -> impl Iterator<Item = &PodUid> {
        self.pods.iter().filter(|(_, pod)| !pod.failures.is_empty()).map(|(uid, _)| uid)
    }

    fn want(&mut self, uid: &PodUid, volumes: Vec<(String, bool)>, now: Steady) {
        let pod = self.pods.entry(uid.clone()).or_default();
        pod.settled = false;
        if !std::mem::replace(&mut pod.wanted, true) {
            // The result of a release meanwhile is not known: every volume is set up anew, which finds what is there.
            pod.volumes.clear();
            pod.failures.clear();
            pod.looks.clear();
            (pod.listed, pod.finished) = (None, false);
        }
        let mut before = std::mem::take(&mut pod.volumes);
        for (name, is_set_up_again) in volumes {
            let known = before.remove(&name);
            let mounted = known.as_ref().is_some_and(|volume| volume.mounted);
            let since = known.as_ref().map_or(now, |volume| volume.since);
            let due = is_set_up_again || known.is_none_or(|volume| volume.due);
            pod.volumes.insert(name, VolumeState { mounted, due, since });
        }
        let names = &pod.volumes;
        pod.failures.retain(|task, _| matches!(task, Task::Mount(name) if names.contains_key(name)));
    }

    fn release(&mut self, uid: &PodUid) {
        let pod = self.pods.entry(uid.clone()).or_default();
        if std::mem::replace(&mut pod.wanted, false) {
            pod.volumes.clear();
            pod.failures.clear();
            pod.looks.clear();
            (pod.listed, pod.finished) = (None, false);
        }
    }

    fn end(&mut self, uid: &PodUid, task: Task, outcome: Result<Vec<VolumePlace>, TaskFailure>, now: Steady) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if pod.running.remove(&task).is_none() {
            return; // Of an order that no longer stands.
        }
        if matches!(task, Task::Mount(_)) && !pod.wanted {
            (pod.listed, pod.finished) = (None, false); // It may have made something after the disk was read.
        }
        let name = key(uid, &task);
        pod.looks.remove(&task);
        match outcome {
            Ok(found) => {
                self.retries.reset(&name);
                pod.failures.remove(&task);
                match &task {
                    Task::Mount(name) => {
                        if let Some(volume) = pod.volumes.get_mut(name) {
                            volume.mounted = true;
                        }
                    }
                    Task::List if !pod.wanted => pod.listed = Some(found.into_iter().collect()),
                    Task::Unmount(place) => {
                        pod.listed.as_mut().map(|listed| listed.remove(place));
                    }
                    Task::Finish if !pod.wanted && pod.listed.is_some() => {
                        pod.finished = true;
                        if pod.running.is_empty() {
                            self.pods.remove(uid);
                        }
                    }
                    Task::List | Task::Finish => {}
                }
            }
            Err(failure) => {
                match failure.look_again {
                    Some(period) => drop(pod.looks.insert(task.clone(), Wait { period, until: now.plus(period) })),
                    None => drop(self.retries.fail(&name, now)),
                }
                match &task {
                    Task::Mount(name) => {
                        if let Some(volume) = pod.volumes.get_mut(name) {
                            volume.due = !pod.settled;
                        }
                    }
                    // Something may be there again.
                    Task::Finish => pod.listed = None,
                    Task::List | Task::Unmount(_) => {}
                }
                let stands = match &task {
                    Task::Mount(name) => pod.volumes.contains_key(name) && !pod.settled,
                    _ => !pod.wanted,
                };
                if stands {
                    pod.failures.insert(task, failure);
                }
            }
        }
    }

    fn decide(&mut self, uid: &PodUid, now: Clocks) -> Vec<Order> {
        let orders = self.tasks(uid, now);
        self.plan(uid, now.steady);
        orders
    }

    /// Puts the pod into the agenda, in the place where it was.
    fn plan(&mut self, uid: &PodUid, now: Steady) {
        let at = self.pods.get(uid).and_then(|pod| {
            let open = pod.failures.keys().cloned().chain(pod.due(now));
            let open = open.filter(|task| !pod.running.contains_key(task));
            let tries = open.filter_map(|task| waits_until(&self.retries, &pod.looks, uid, &task, now));
            let long = pod.running.values().map(|running| running.began.plus(HANGS_AFTER));
            let hanging = pod.running.values().map(|running| running.quiet_since().plus(HANGS_AFTER));
            let beside = pod.running.values().map(|running| running.began.plus(BESIDE));
            tries.chain(long.chain(hanging).chain(beside).filter(|at| *at > now)).min()
        });
        let before = match at {
            Some(at) => self.wakes.insert(uid.clone(), at),
            None => self.wakes.remove(uid),
        };
        before.map(|before| self.agenda.remove(&(before, uid.clone())));
        self.agenda.extend(at.map(|at| (at, uid.clone())));
    }

    fn tasks(&mut self, uid: &PodUid, now: Clocks) -> Vec<Order> {
        let Some(pod) = self.pods.get_mut(uid) else { return vec![] };
        let mut tasks = pod.due(now.steady);
        let (retries, looks) = (&self.retries, &pod.looks);
        let waits = |task: &Task| waits_until(retries, looks, uid, task, now.steady).is_some();
        tasks.retain(|task| !pod.running.contains_key(task) && !waits(task));
        for task in &tasks {
            pod.running.insert(task.clone(), Running { began: now.steady, since: now.wall, moved: None });
            if let Task::Mount(name) = task {
                pod.volumes.get_mut(name).expect("taken from there").due = false;
            }
        }
        tasks.into_iter().map(|task| Order { uid: uid.clone(), task }).collect()
    }

    /// Whether the pod has all its volumes.
    pub fn mounted(&self, uid: &PodUid, now: Steady) -> Standing {
        let Some(pod) = self.pods.get(uid) else { return Standing::Working };
        if !pod.wanted {
            return Standing::Failed(VolumeFailure {
                message: "the pod's volumes are being unmounted".to_owned(),
                retry_after: HANG_RETRY,
                in_processing: false,
                rejects: false,
            });
        }
        if pod.volumes.values().all(|volume| volume.mounted) {
            return Standing::Done;
        }
        // A refresh that failed says nothing about what is still to come, nor does a failure that is being repaired.
        let first = |task: &Task| {
            let missing = matches!(task, Task::Mount(name) if pod.volumes.get(name).is_some_and(|it| !it.mounted));
            missing && !pod.running.contains_key(task)
        };
        let in_processing: Vec<(&Task, &TaskFailure)> =
            pod.failures.iter().filter(|(task, failure)| first(task) && failure.in_processing).collect();
        let is_beside = |running: &Running| now.since(running.began) < BESIDE;
        if !in_processing.is_empty() && pod.running.values().any(is_beside) {
            return Standing::Working;
        }
        if let Some((task, _)) = in_processing.first() {
            let names = in_processing.iter().filter_map(|(task, _)| match task {
                Task::Mount(name) => Some(name.as_str()),
                _ => None,
            });
            let message = format!(
                "unmounted volumes={}, unattached volumes=[], failed to process volumes=[{}]: {}",
                pod.unmounted(),
                names.collect::<Vec<_>>().join(" "),
                joined(in_processing.iter().map(|(_, failure)| failure.message.as_str()))
            );
            let retry_after = self.retry_after(uid, task, now);
            return Standing::Failed(VolumeFailure { message, retry_after, in_processing: true, rejects: false });
        }
        if let Some(rejected) = pod.rejected(now) {
            return Standing::Failed(rejected);
        }
        if let Some((task, failure)) = pod.failures.iter().find(|(task, _)| first(task)) {
            let retry_after = self.retry_after(uid, task, now);
            return Standing::Failed(VolumeFailure {
                message: failure.message.clone(),
                retry_after,
                in_processing: false,
                rejects: false,
            });
        }
        Self::hangs(pod, now).unwrap_or(Standing::Working)
    }

    /// Whether nothing of the pod's volumes is left.
    pub fn released(&self, uid: &PodUid, now: Steady) -> Standing {
        let Some(pod) = self.pods.get(uid) else { return Standing::Done };
        if pod.wanted {
            let message = "the pod is wanted again".to_owned();
            return Standing::Failed(VolumeFailure {
                message,
                retry_after: HANG_RETRY,
                in_processing: false,
                rejects: false,
            });
        }
        if pod.finished {
            return Standing::Done;
        }
        let Some((task, failure)) = pod.failures.iter().find(|(task, _)| !pod.running.contains_key(task)) else {
            return Self::hangs(pod, now).unwrap_or(Standing::Working);
        };
        let places = pod.listed.iter().flatten().map(|place| place.name.as_str());
        let message = match task {
            Task::Unmount(_) => {
                format!("mounted volumes=[{}]: {}", places.collect::<Vec<_>>().join(" "), failure.message)
            }
            _ => failure.message.clone(),
        };
        Standing::Failed(VolumeFailure {
            message,
            retry_after: self.retry_after(uid, task, now),
            in_processing: false,
            rejects: false,
        })
    }

    /// The news of a task that takes long. It names points in time, not spans, so that it stays the same.
    fn hangs(pod: &PodState, now: Steady) -> Option<Standing> {
        let (task, running) = pod.running.iter().find(|(_, running)| now.since(running.began) >= HANGS_AFTER)?;
        let since = running.since.to_timestamp();
        let message = match &running.moved {
            Some((_, doing)) if !running.hangs(now) => format!("{task} takes long, since {since}: {doing}"),
            _ => format!("{task} has not ended since {since}: the file system behind it may not answer"),
        };
        Some(Standing::Failed(VolumeFailure { message, retry_after: HANG_RETRY, in_processing: false, rejects: false }))
    }

    /// How loud a failure of a task is to be told, by the one that was known of it before.
    pub fn log_level(&self, uid: &PodUid, task: &Task, failure: &TaskFailure) -> LogLevel {
        let before = self.pods.get(uid).and_then(|pod| pod.failures.get(task));
        LogLevel::of_reason(before.map(|before| before.message.as_str()), &failure.message)
    }

    /// Whether a volume of the pod is missing.
    pub fn lacks_some(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(|pod| pod.volumes.values().any(|volume| !volume.mounted))
    }

    fn retry_after(&self, uid: &PodUid, task: &Task, now: Steady) -> Duration {
        let until = self.pods.get(uid).and_then(|pod| waits_until(&self.retries, &pod.looks, uid, task, now));
        until.map_or(Duration::ZERO, |until| until.since(now))
    }

    /// When something is due although nothing happens: a try, or a task's turn to be called hanging.
    pub fn wake_at(&self) -> Option<Steady> {
        self.agenda.first().map(|(at, _)| *at)
    }

    /// Pods of which anything is known.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether no pod is known.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }
}

#[cfg(test)]
mod tests;
