//! When a container's log is looked at, and what becomes of its files once it is too large (CRI-27, PAIN-24).
//!
//! Owned by `LogRotator`. Upstream asks the runtime about each container every 10 s and looks at its log then. Here a log
//! that nobody writes to costs nothing: the watch reports the first write to it. From then on the rotation looks at the log
//! as often as it could have grown too large. The names and the number of files are upstream's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::ToSpan;
use jiff::civil::DateTime;

use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::model::runtime_pod::{RuntimeContainer, RuntimePod};
use crate::logic::model::time::Moment;

/// The fastest growth that is expected of a log, in bytes a second, until it was seen to grow faster.
const RATE_EXPECTED: u64 = 12 * 1024 * 1024;
/// The least time between two looks at a log that is written to.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(100);
/// Looks that are due this soon are made together.
const TOGETHER: Duration = Duration::from_millis(50);
/// How a rotated log's name ends: local time, upstream's form.
const STAMP_FORM: &str = "%Y%m%d-%H%M%S";
const COMPRESSED: &str = ".gz";
const TEMPORARY: &str = ".tmp";

/// The settings of rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationPolicy {
    /// `containerLogMaxSize`, bytes: a log of this size is rotated.
    pub bytes_max: u64,
    /// `containerLogMaxFiles`, at least 2: with the one that is written to.
    pub files_max: usize,
    /// `containerLogMaxWorkers`, at least 1: logs that are compressed at once.
    pub workers: usize,
    /// `containerLogMonitorInterval`: the longest time until a log that was written to is looked at, and until
    /// something that failed is tried again.
    pub interval: Duration,
}

/// The finding of a look at a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogLook {
    /// It is this large, in bytes; and whether its next write will be heard of.
    There(u64, bool),
    /// There is no such file.
    Missing,
    /// It could not be looked at.
    Failed(String),
}

/// An order about a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogOrder {
    /// Look at it: how large it is, and have its next write told.
    Look(ContainerId, String),
    /// Have the runtime open it anew: it is missing.
    Reopen(ContainerId),
    /// Rename it, and have the runtime open a new one.
    Rotate(ContainerId, String),
    /// Compress what was rotated before the newest.
    Compress(ContainerId, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its next write is heard of.
    Resting,
    /// It is looked at then.
    Waiting(Duration),
    /// It is being looked at, reopened or rotated.
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    None,
    Wanted,
    /// It may not see what was rotated since it began: then once more.
    Running {
        again: bool,
    },
}

impl Compression {
    fn is_running(self) -> bool {
        matches!(self, Self::Running { .. })
    }
}

#[derive(Clone, Debug)]
struct Log {
    pod: PodUid,
    path: String,
    stage: Stage,
    /// It was written to since the look under way had its next write told: that needs no second message.
    written: bool,
    /// Not looked at before, however soon it is written to.
    not_before: Duration,
    /// The last look: when, and how large it was.
    last: Option<(Duration, u64)>,
    compression: Compression,
    /// How often in a row it was missing.
    lost: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct LogRotation {
    policy: RotationPolicy,
    logs: BTreeMap<ContainerId, Log>,
    ids: BTreeMap<String, ContainerId>,
    /// Logs of each pod.
    pods: BTreeMap<PodUid, BTreeSet<ContainerId>>,
    /// Looks to come, by uptime.
    agenda: BTreeSet<(Duration, ContainerId)>,
    /// Logs whose rotated files wait for their compression.
    wanted: BTreeSet<ContainerId>,
    /// Logs whose rotated files are being compressed.
    running: BTreeSet<ContainerId>,
}

impl LogRotation {
    /// No logs.
    pub fn new(policy: RotationPolicy) -> Self {
        let (logs, ids, pods) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { policy, logs, ids, pods, agenda: BTreeSet::new(), wanted: BTreeSet::new(), running: BTreeSet::new() }
    }

    /// The policy.
    pub fn policy(&self) -> RotationPolicy {
        self.policy
    }

    /// Another policy from now on. Every log is looked at once more: it may be too large already.
    pub fn follow(&mut self, policy: RotationPolicy, now: Duration) {
        self.policy = policy;
        let at_rest = self.logs.iter().filter(|(_, log)| log.stage != Stage::Busy);
        let at_rest: Vec<ContainerId> = at_rest.map(|(id, _)| id.clone()).collect();
        for id in at_rest {
            self.enter(&id, Stage::Waiting(now));
        }
    }

    /// How many logs are known.
    pub fn len(&self) -> usize {
        self.logs.len()
    }

    /// Whether no log is known.
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty()
    }

    /// A pod was observed. Only logs of running containers are rotated, as upstream: others do not grow.
    /// An agent that ended may have left something to compress of containers made before this one `began`.
    pub fn observed(&mut self, pod: &RuntimePod, began: Moment) -> Vec<LogOrder> {
        let running: BTreeMap<&ContainerId, &RuntimeContainer> = pod
            .running()
            .filter(|container| !container.log_path.is_empty())
            .map(|container| (&container.id, container))
            .collect();
        let known = self.pods.get(&pod.uid).into_iter().flatten();
        let gone: Vec<ContainerId> = known.filter(|id| !running.contains_key(id)).cloned().collect();
        gone.iter().for_each(|id| self.forget(id));
        let mut orders = vec![];
        for (id, container) in running {
            if self.logs.contains_key(id) {
                continue;
            }
            let path = &container.log_path;
            let log = Log {
                pod: pod.uid.clone(),
                path: path.clone(),
                stage: Stage::Busy,
                written: false,
                not_before: Duration::ZERO,
                last: None,
                compression: if container.created_at < began { Compression::Wanted } else { Compression::None },
                lost: 0,
            };
            self.note_compression(id, log.compression);
            self.logs.insert(id.clone(), log);
            self.pods.entry(pod.uid.clone()).or_default().insert(id.clone());
            self.ids.insert(path.clone(), id.clone());
            orders.push(LogOrder::Look(id.clone(), path.clone()));
        }
        orders.extend(self.compress());
        orders
    }

    /// The log at this path was written to, moved or removed.
    pub fn written(&mut self, path: &str, now: Duration) {
        let Some(id) = self.ids.get(path).cloned() else { return };
        let Some(log) = self.logs.get_mut(&id) else { return };
        match log.stage {
            Stage::Resting => {
                let due = log.not_before.max(now);
                self.enter(&id, Stage::Waiting(due));
            }
            Stage::Busy => log.written = true,
            Stage::Waiting(_) => {}
        }
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Duration> {
        self.agenda.first().map(|(due, _)| *due)
    }

    /// The orders that are due by now.
    pub fn due(&mut self, now: Duration) -> Vec<LogOrder> {
        let due = self.agenda.iter().take_while(|(due, _)| *due <= now + TOGETHER);
        let mut due: Vec<ContainerId> = due.map(|(_, id)| id.clone()).collect();
        due.sort();
        let mut orders = vec![];
        for id in due {
            self.enter(&id, Stage::Busy);
            if let Some(log) = self.logs.get_mut(&id) {
                log.written = false;
                orders.push(LogOrder::Look(id, log.path.clone()));
            }
        }
        orders
    }

    /// The log is at this by now.
    fn enter(&mut self, id: &ContainerId, stage: Stage) {
        let Some(log) = self.logs.get_mut(id) else { return };
        if let Stage::Waiting(due) = std::mem::replace(&mut log.stage, stage) {
            self.agenda.remove(&(due, id.clone()));
        }
        if let Stage::Waiting(due) = stage {
            self.agenda.insert((due, id.clone()));
        }
    }

    /// How far the log's rotated files are.
    fn note_compression(&mut self, id: &ContainerId, compression: Compression) {
        for (set, is_in) in
            [(&mut self.wanted, compression == Compression::Wanted), (&mut self.running, compression.is_running())]
        {
            match is_in {
                true => drop(set.insert(id.clone())),
                false => drop(set.remove(id)),
            }
        }
        if let Some(log) = self.logs.get_mut(id) {
            log.compression = compression;
        }
    }

    /// A look ended.
    pub fn looked(&mut self, id: &ContainerId, look: &LogLook, now: Duration) -> Vec<LogOrder> {
        let policy = self.policy;
        let Some(log) = self.logs.get_mut(id) else { return vec![] };
        match *look {
            LogLook::There(bytes, _) if bytes > 0 && bytes >= policy.bytes_max => {
                vec![LogOrder::Rotate(id.clone(), log.path.clone())]
            }
            LogLook::There(bytes, heard) => {
                log.lost = 0;
                let wait = log.wait(policy, bytes, now);
                log.last = Some((now, bytes));
                log.not_before = now + wait;
                let stage = match (heard, log.written) {
                    (true, false) => Stage::Resting,
                    (true, true) => Stage::Waiting(log.not_before),
                    (false, _) => Stage::Waiting(now + policy.interval.min(wait.max(policy.interval / 10))),
                };
                self.enter(id, stage);
                vec![]
            }
            LogLook::Missing => {
                log.lost = log.lost.saturating_add(1);
                vec![LogOrder::Reopen(id.clone())]
            }
            LogLook::Failed(_) => {
                self.enter(id, Stage::Waiting(now + policy.interval));
                vec![]
            }
        }
    }

    /// The runtime opened a missing log anew, or did not.
    pub fn reopened(&mut self, id: &ContainerId, done: bool, now: Duration) -> Vec<LogOrder> {
        let interval = self.policy.interval;
        let Some(log) = self.logs.get_mut(id) else { return vec![] };
        if done && log.lost <= 1 {
            return vec![LogOrder::Look(id.clone(), log.path.clone())];
        }
        self.enter(id, Stage::Waiting(now + interval));
        vec![]
    }

    /// A rotation ended.
    pub fn rotated(&mut self, id: &ContainerId, done: bool, now: Duration) -> Vec<LogOrder> {
        let interval = self.policy.interval;
        let Some(log) = self.logs.get_mut(id) else { return vec![] };
        if !done {
            self.enter(id, Stage::Waiting(now + interval));
            return vec![];
        }
        (log.last, log.written) = (Some((now, 0)), false);
        let mut orders = vec![LogOrder::Look(id.clone(), log.path.clone())];
        let compression = match log.compression {
            Compression::None | Compression::Wanted => Compression::Wanted,
            Compression::Running { .. } => Compression::Running { again: true },
        };
        self.note_compression(id, compression);
        orders.extend(self.compress());
        orders
    }

    /// A compression ended, well or not: what it left is done at once if the log was rotated meanwhile, or else after the
    /// next rotation.
    pub fn compressed(&mut self, id: &ContainerId) -> Vec<LogOrder> {
        if let Some(log) = self.logs.get(id) {
            let again = log.compression == Compression::Running { again: true };
            self.note_compression(id, if again { Compression::Wanted } else { Compression::None });
        }
        self.compress()
    }

    /// Whether the log of this container is looked after.
    pub fn knows(&self, id: &ContainerId) -> bool {
        self.logs.contains_key(id)
    }

    fn compress(&mut self) -> Vec<LogOrder> {
        let free = self.policy.workers.max(1).saturating_sub(self.running.len());
        let next: Vec<ContainerId> = self.wanted.iter().take(free).cloned().collect();
        let begin = |id: ContainerId| {
            self.note_compression(&id, Compression::Running { again: false });
            let path = self.logs.get(&id)?.path.clone();
            Some(LogOrder::Compress(id, path))
        };
        next.into_iter().filter_map(begin).collect()
    }

    fn forget(&mut self, id: &ContainerId) {
        self.enter(id, Stage::Busy);
        let Some(log) = self.logs.remove(id) else { return };
        self.wanted.remove(id);
        self.running.remove(id);
        if let Some(ids) = self.pods.get_mut(&log.pod) {
            ids.remove(id);
            if ids.is_empty() {
                self.pods.remove(&log.pod);
            }
        }
        if self.ids.get(&log.path) == Some(id) {
            self.ids.remove(&log.path);
        }
    }
}

impl Log {
    /// How long a log of this size cannot grow too large for, if it grows twice as fast as it did.
    fn wait(&self, policy: RotationPolicy, bytes: u64, now: Duration) -> Duration {
        let grown = self.last.filter(|(_, before)| *before <= bytes).map_or(0, |(at, before)| {
            let millis = u64::try_from(now.saturating_sub(at).as_millis()).unwrap_or(u64::MAX).max(1);
            (bytes - before).saturating_mul(1000) / millis
        });
        let rate = grown.saturating_mul(2).max(RATE_EXPECTED);
        let left = policy.bytes_max.saturating_sub(bytes);
        let wait = Duration::from_millis(left.saturating_mul(1000) / rate);
        wait.clamp(LOOK_AGAIN_MIN, policy.interval.max(LOOK_AGAIN_MIN))
    }
}

/// The effect of a rotation on the files of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationPlan {
    /// These go first.
    pub remove: Vec<String>,
    /// The new name of the log.
    pub rotated: String,
}

/// Plans the rotation of the log `base`, given all names of its directory. At most `files_max` files remain: the new log,
/// the one that is rotated now, and the newest of those before. The time in the new name is later than in any other. So two
/// rotations within a second, or a clock that was set back, never take a name that exists.
pub fn plan(base: &str, names: &[String], files_max: usize, now: DateTime) -> RotationPlan {
    let rotated = in_use(base, names);
    let surplus = rotated.len().saturating_sub(files_max.saturating_sub(2));
    // Names know no fractions of seconds.
    let now = now.with().subsec_nanosecond(0).build().unwrap_or(now);
    let newest = rotated.iter().filter_map(|name| stamp_of(base, name)).max();
    let stamp = match newest {
        Some(newest) if newest >= now => newest.checked_add(1.second()).unwrap_or(now),
        _ => now,
    };
    RotationPlan {
        remove: rotated.into_iter().take(surplus).collect(),
        rotated: format!("{base}.{}", stamp.strftime(STAMP_FORM)),
    }
}

/// Leftovers of rotations and compressions that were cut off: temporary files, and files that have been compressed.
pub fn leftovers(base: &str, names: &[String]) -> Vec<String> {
    let used = in_use(base, names);
    rotated_names(base, names).filter(|name| !used.contains(name)).cloned().collect()
}

/// Rotated logs that are to be compressed: all but the newest, which the runtime or a collector may still have open.
pub fn to_compress(base: &str, names: &[String]) -> Vec<String> {
    let mut used = in_use(base, names);
    used.pop();
    used.retain(|name| !name.ends_with(COMPRESSED));
    used
}

/// Rotated logs of `base`, compressed or not, oldest first: what a reader finds before the log itself.
pub fn rotated_logs(base: &str, names: &[String]) -> Vec<String> {
    let mut rotated = in_use(base, names);
    rotated.retain(|name| stamp_of(base, name).is_some());
    rotated
}

/// The name of a rotated log before it was compressed, if it is.
pub fn uncompressed_name(name: &str) -> &str {
    name.strip_suffix(COMPRESSED).unwrap_or(name)
}

/// The names of a rotated log once it is compressed, and while it is.
pub fn compressed_names(name: &str) -> (String, String) {
    (format!("{name}{COMPRESSED}"), format!("{name}{TEMPORARY}"))
}

/// Rotated logs of `base`, oldest first, without what is of no use.
fn in_use(base: &str, names: &[String]) -> Vec<String> {
    let all: Vec<&String> = rotated_names(base, names).collect();
    let is_used = |name: &&&String| {
        let compressed = format!("{name}{COMPRESSED}");
        !name.ends_with(TEMPORARY) && (name.ends_with(COMPRESSED) || !all.iter().any(|other| **other == compressed))
    };
    let mut used: Vec<String> = all.iter().filter(is_used).map(|name| (*name).clone()).collect();
    used.sort_unstable();
    used
}

fn rotated_names<'a>(base: &'a str, names: &'a [String]) -> impl Iterator<Item = &'a String> {
    names.iter().filter(move |name| name.strip_prefix(base).is_some_and(|rest| rest.starts_with('.')))
}

fn stamp_of(base: &str, name: &str) -> Option<DateTime> {
    let stamp = name.strip_prefix(base)?.strip_prefix('.')?;
    let stamp = stamp.strip_suffix(COMPRESSED).unwrap_or(stamp);
    DateTime::strptime(STAMP_FORM, stamp).ok()
}

#[cfg(test)]
mod tests;
