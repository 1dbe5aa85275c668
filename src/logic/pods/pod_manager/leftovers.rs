//! Leftovers of a crash on the node, of pods that nobody knows, and the progress of the pass that removes them (POD-33,
//! VOL-15).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::logic::logs::log_keeping::LogKeeping;
use crate::logic::model::ids::PodUid;
use crate::logic::model::log_level::LogLevel;
use crate::logic::model::time::Moment;
use crate::logic::resources::cgroup_name::CgroupName;

/// The things on the node of a pod that nobody knows.
#[derive(Clone, Debug, Default)]
pub struct Leftovers {
    /// Whether it has a directory below `pods`.
    pub has_directory: bool,
    /// Directories of its logs.
    pub logs: Vec<String>,
    /// When its logs were written to last, where somebody looked.
    pub written: Option<Moment>,
    /// Its cgroups.
    pub cgroups: Vec<CgroupName>,
}

/// The findings of a pass.
#[derive(Debug, Default)]
pub struct Found {
    /// By pod.
    pub leftovers: BTreeMap<PodUid, Leftovers>,
    /// Whether logs take room that the node is short of.
    pub disk_is_full: bool,
}

/// The removals of one pod.
#[derive(Debug, Default)]
pub struct Swept {
    /// How many things went.
    pub removed: usize,
    /// Whether it had a directory, and why that stays if it does.
    pub directory: Option<Result<(), String>>,
    /// Why logs stay that were to go.
    pub logs: Option<String>,
}

/// Something that could not be removed.
#[derive(Debug, PartialEq, Eq)]
pub struct Stays {
    /// Why.
    pub error: String,
    /// The level of its log line.
    pub level: LogLevel,
}

/// The figures of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How many things went.
    pub removed: usize,
    /// How many directories there were to remove.
    pub directories: usize,
    /// How many of them stay.
    pub failed: usize,
}

/// A pass over leftovers, and what the one before could not remove. Owned by `PodManager`.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    progress: Progress,
    /// Pods whose leftovers were found and not yet looked at.
    open: BTreeMap<PodUid, Leftovers>,
    figures: Figures,
    /// Of which pods something stays, and why.
    stay: BTreeMap<PodUid, String>,
    /// Those of the pass before.
    stayed: BTreeMap<PodUid, String>,
    /// Until when logs stay.
    logs: LogKeeping,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    /// There was no pass since the start.
    #[default]
    NeverBegun,
    UnderWay,
    Ended,
}

impl Sweep {
    /// Whether there was a pass since the start.
    pub fn was_begun(&self) -> bool {
        self.progress != Progress::NeverBegun
    }

    /// A new pass, if none is under way.
    pub fn begin(&mut self) -> bool {
        if self.progress == Progress::UnderWay {
            return false;
        }
        let (stayed, logs) = (std::mem::take(&mut self.stay), std::mem::take(&mut self.logs));
        *self = Self { progress: Progress::UnderWay, stayed, logs, ..Self::default() };
        true
    }

    /// How long logs stay.
    pub fn logs(&self) -> &LogKeeping {
        &self.logs
    }

    /// A pod has ended: its logs stay for a while.
    pub fn note_end(&mut self, uid: &PodUid, uptime: Duration) {
        self.logs.ended(uid, uptime);
    }

    /// Takes what the pass found. Leaves logs alone that are to be read for a while yet.
    pub fn take_found(&mut self, found: Found, now: Moment, uptime: Duration) {
        let Found { mut leftovers, disk_is_full } = found;
        self.logs.keep_only(|uid| leftovers.contains_key(uid), uptime);
        for (uid, left) in leftovers.iter_mut().filter(|(_, left)| !left.logs.is_empty()) {
            self.logs.found(uid, left.written.map(|written| now.since(written)), uptime);
            if !self.logs.may_go(uid, uptime, disk_is_full) {
                left.logs.clear();
            }
        }
        leftovers.retain(|_, left| left.has_directory || !left.logs.is_empty() || !left.cgroups.is_empty());
        self.open = leftovers;
    }

    /// The next pod whose leftovers are to go: one that nobody knows by now, too. `None` ends the pass.
    pub fn next(&mut self, known: &BTreeSet<PodUid>) -> Option<(PodUid, Leftovers)> {
        while let Some((uid, left)) = self.open.pop_first() {
            if !known.contains(&uid) {
                return Some((uid, left));
            }
        }
        self.progress = Progress::Ended;
        None
    }

    /// Takes what was removed of one pod; gives what stays. The log has that as an error unless it stayed for the same
    /// reason before (PAIN-14).
    pub fn note(&mut self, uid: &PodUid, swept: Swept) -> Option<Stays> {
        self.figures.removed += swept.removed;
        self.figures.directories += usize::from(swept.directory.is_some());
        self.figures.failed += usize::from(matches!(swept.directory, Some(Err(_))));
        let error = swept.directory.and_then(Result::err).or(swept.logs)?;
        let level = LogLevel::of_reason(self.stayed.get(uid).map(String::as_str), &error);
        self.stay.insert(uid.clone(), error.clone());
        Some(Stays { error, level })
    }

    /// The figures of the pass.
    pub fn figures(&self) -> Figures {
        self.figures
    }
}

#[cfg(test)]
mod tests;
