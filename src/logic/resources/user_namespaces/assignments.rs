//! Which pod has which range of IDs, and how far its file is.
//!
//! Owned by the actor `UserNamespaces`. A range is a pod's from the choice until its file is gone. So no two pods ever have
//! the same one, whenever the agent ends. A range whose file could not be written stays the pod's: the file may be there.

use std::collections::{BTreeMap, BTreeSet};

use super::IdRange;
use super::mapping_file::{FileProblem, parse};
use super::space::IdSpace;
use crate::logic::model::ids::PodUid;

/// Why a pod gets no range; upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// Its file cannot be followed.
    #[error("user namespace: {0}")]
    File(FileProblem),
    /// All ranges are other pods'.
    #[error("create user namespace: could not find an empty slot to allocate a user namespace")]
    Full,
    /// Another pod's file does not say which range that pod has: it could be any.
    #[error("create user namespace: the IDs of pod {pod:?} are not known: {why}")]
    Unknown {
        /// The other pod.
        pod: String,
        /// The fault in its file.
        why: FileProblem,
    },
    /// Its file cannot be written.
    #[error("create user namespace: {0}")]
    NotWritten(String),
}

/// The answer to a pod that wants its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It is this one, and the disk has it.
    Ready(IdRange),
    /// It is this one, and the disk is to have it first.
    Write(IdRange),
    /// Its file is being written or removed.
    Wait,
    /// It gets none.
    Refused(AssignmentError),
}

/// The answer to a pod that needs its range no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It has none.
    Nothing,
    /// Its file is to be removed.
    Remove,
    /// Its file is being written or removed.
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Kept,
    Writing,
    /// The disk may or may not have it.
    Unwritten,
    Removing,
}

#[derive(Clone, Copy, Debug)]
struct Holding {
    slot: u32,
    progress: Progress,
}

/// A file that says no range of this configuration.
#[derive(Clone, Debug)]
struct Strange {
    why: FileProblem,
    /// The range that it says; `None` when it could be any.
    range: Option<IdRange>,
    removing: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Assignments {
    space: IdSpace,
    held: BTreeMap<PodUid, Holding>,
    by_slot: BTreeMap<u32, PodUid>,
    strange: BTreeMap<PodUid, Strange>,
}

impl Assignments {
    /// Goes on from the files of pods, as they were read. An empty file says nothing.
    pub fn of(space: IdSpace, files: BTreeMap<PodUid, Result<Vec<u8>, String>>) -> Self {
        let mut all = Self { space, held: BTreeMap::new(), by_slot: BTreeMap::new(), strange: BTreeMap::new() };
        for (uid, file) in files {
            let range = match file {
                Ok(bytes) if bytes.is_empty() => continue,
                Ok(bytes) => parse(&bytes),
                Err(why) => Err(FileProblem::Unread(why)),
            };
            all.restore(uid, range);
        }
        all
    }

    fn restore(&mut self, uid: PodUid, read: Result<IdRange, FileProblem>) {
        let range = read.as_ref().ok().copied();
        match read.and_then(|range| self.slot_of(&uid, range)) {
            Ok(slot) => self.hold(uid, slot, Progress::Kept),
            Err(why) => drop(self.strange.insert(uid, Strange { why, range, removing: false })),
        }
    }

    /// Upstream's checks, in its order.
    fn slot_of(&self, uid: &PodUid, range: IdRange) -> Result<u32, FileProblem> {
        if range.length != self.space.ids_per_pod() {
            return Err(FileProblem::Length(range.length));
        }
        if !range.first.is_multiple_of(range.length) {
            return Err(FileProblem::Offset(range.first));
        }
        let slot = self.space.slot(range.first).ok_or(FileProblem::OutOfRange(range.first))?;
        match self.by_slot.get(&slot) {
            Some(_) => Err(FileProblem::Taken(uid.to_string())),
            None => Ok(slot),
        }
    }

    fn hold(&mut self, uid: PodUid, slot: u32, progress: Progress) {
        self.by_slot.insert(slot, uid.clone());
        self.held.insert(uid, Holding { slot, progress });
    }

    /// The files that cannot be followed, for the log.
    pub fn problems(&self) -> impl Iterator<Item = (&PodUid, &FileProblem)> {
        self.strange.iter().map(|(uid, strange)| (uid, &strange.why))
    }

    /// A pod wants its range; `chance`, in 0..1, picks a new one.
    pub fn want(&mut self, uid: &PodUid, chance: f64) -> Wanted {
        if let Some(strange) = self.strange.get(uid) {
            let refused = || Wanted::Refused(AssignmentError::File(strange.why.clone()));
            return if strange.removing { Wanted::Wait } else { refused() };
        }
        if let Some(holding) = self.held.get_mut(uid) {
            let range = self.space.range(holding.slot);
            return match holding.progress {
                Progress::Kept => Wanted::Ready(range),
                Progress::Writing | Progress::Removing => Wanted::Wait,
                Progress::Unwritten => {
                    holding.progress = Progress::Writing;
                    Wanted::Write(range)
                }
            };
        }
        match self.free_slot(chance) {
            Ok(slot) => {
                self.hold(uid.clone(), slot, Progress::Writing);
                Wanted::Write(self.space.range(slot))
            }
            Err(error) => Wanted::Refused(error),
        }
    }

    /// The first free slot from one that chance picks, as upstream. IDs of pods cannot be guessed then, and a range that was
    /// released is seldom the next pod's.
    fn free_slot(&self, chance: f64) -> Result<u32, AssignmentError> {
        if let Some((pod, strange)) = self.strange.iter().find(|(_, strange)| strange.range.is_none()) {
            return Err(AssignmentError::Unknown { pod: pod.to_string(), why: strange.why.clone() });
        }
        let slots = self.space.slots();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in 0..=slots")]
        let start = (chance.clamp(0.0, 1.0) * f64::from(slots)) as u32 % slots.max(1);
        let is_free = |slot: &u32| {
            let range = self.space.range(*slot);
            let is_others = || self.strange.values().filter_map(|one| one.range).any(|other| other.overlaps(range));
            !self.by_slot.contains_key(slot) && !is_others()
        };
        (start..slots).chain(0..start).find(is_free).ok_or(AssignmentError::Full)
    }

    /// A pod's file was written, or it is not known whether.
    pub fn written(&mut self, uid: &PodUid, is_written: bool) {
        if let Some(holding) = self.held.get_mut(uid).filter(|holding| holding.progress == Progress::Writing) {
            holding.progress = if is_written { Progress::Kept } else { Progress::Unwritten };
        }
    }

    /// A pod needs its range no more.
    pub fn release(&mut self, uid: &PodUid) -> Released {
        if let Some(strange) = self.strange.get_mut(uid) {
            return match std::mem::replace(&mut strange.removing, true) {
                true => Released::Wait,
                false => Released::Remove,
            };
        }
        match self.held.get_mut(uid) {
            None => Released::Nothing,
            Some(Holding { progress: Progress::Writing | Progress::Removing, .. }) => Released::Wait,
            Some(holding) => {
                holding.progress = Progress::Removing;
                Released::Remove
            }
        }
    }

    /// A pod's file was removed, or it is not known whether: then the range is not free, and may be released again.
    pub fn removed(&mut self, uid: &PodUid, is_removed: bool) {
        if let Some(strange) = self.strange.get_mut(uid) {
            strange.removing = false;
            if is_removed {
                self.strange.remove(uid);
            }
            return;
        }
        let Some(holding) = self.held.get_mut(uid).filter(|holding| holding.progress == Progress::Removing) else {
            return;
        };
        if is_removed {
            self.by_slot.remove(&holding.slot);
            self.held.remove(uid);
        } else {
            holding.progress = Progress::Unwritten;
        }
    }

    /// The pods with a file, or perhaps with one, that are none of these.
    pub fn unknown(&self, known: &BTreeSet<PodUid>) -> Vec<PodUid> {
        self.held.keys().chain(self.strange.keys()).filter(|uid| !known.contains(*uid)).cloned().collect()
    }
}

#[cfg(test)]
mod tests;
