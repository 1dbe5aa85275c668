//! How far the claims of each pod are prepared, or released (RES-48): one piece of work for a pod at a time.
//!
//! Owned by `ClaimManager`, which feeds it and carries out its actions. A claim that some pod's work is about is left alone by
//! the work of others until that has ended. The book is on the disk before a driver is asked, and before a release counts.

mod job;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;

use super::book::ClaimBook;
use super::check::{AllocatedClaim, ClaimCall, ClaimError, check};
use super::drivers::Drivers;
use super::pod_claims::wanted_claims;
use super::{ClaimGates, ClaimId, ClaimKey, PreparedDevice, WantedClaim};
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;
pub use job::Progress;
use job::{Job, Stage, Work};

/// A driver's answer: for each claim its devices, or why not, by the claim's UID. Releases have no devices.
pub type Answer = BTreeMap<String, Result<Vec<PreparedDevice>, String>>;

/// An order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Read these claims from the API server, in this order.
    Read {
        /// For this pod.
        pod: PodUid,
        /// The work.
        attempt: u64,
        /// The claims.
        claims: Vec<ClaimKey>,
    },
    /// Write the book.
    Store,
    /// Call a driver.
    Call {
        /// For this pod.
        pod: PodUid,
        /// The work.
        attempt: u64,
        /// Which call.
        call: ClaimCall,
        /// The driver.
        driver: String,
        /// The claims that it is about.
        claims: Vec<ClaimId>,
    },
    /// The work for a pod has ended.
    Ended {
        /// Which pod.
        pod: PodUid,
        /// Which work.
        call: ClaimCall,
        /// How.
        outcome: Result<(), ClaimError>,
    },
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct ClaimStates {
    gates: ClaimGates,
    book: ClaimBook,
    jobs: BTreeMap<PodUid, Job>,
    attempts: u64,
    /// Counts changes of the book.
    version: u64,
    /// The newest version on the disk.
    stored: u64,
    /// The version that is being written.
    storing: Option<u64>,
}

impl ClaimStates {
    /// Goes on from a book as the disk has it.
    pub fn new(book: ClaimBook, gates: ClaimGates) -> Self {
        Self { book, gates, ..Self::default() }
    }

    /// The account of claims.
    pub fn book(&self) -> &ClaimBook {
        &self.book
    }

    /// The progress of a pod's work; `None` where there is none.
    pub fn progress(&self, pod: &PodUid) -> Option<Progress> {
        self.jobs.get(pod).map(Job::progress)
    }

    /// A pod is to have its claims prepared.
    pub fn prepare(&mut self, uid: &PodUid, pod: &Arc<Pod>) -> Vec<Action> {
        let ended = |outcome| vec![Action::Ended { pod: uid.clone(), call: ClaimCall::Prepare, outcome }];
        match self.jobs.get(uid) {
            Some(job) if job.is_release() || job.then_release => return ended(Err(ClaimError::Leaving)),
            Some(_) => return vec![], // Its end answers this question, too.
            None => {}
        }
        match wanted_claims(pod) {
            Err(error) => ended(Err(error)),
            Ok(wanted) if wanted.is_empty() => ended(Ok(())),
            Ok(wanted) => self.read(uid, Arc::clone(pod), wanted),
        }
    }

    fn next_attempt(&mut self) -> u64 {
        self.attempts += 1;
        self.attempts
    }

    fn read(&mut self, uid: &PodUid, pod: Arc<Pod>, wanted: Vec<WantedClaim>) -> Vec<Action> {
        let attempt = self.next_attempt();
        let claims = wanted.iter().map(|claim| claim.key.clone()).collect();
        self.jobs.insert(uid.clone(), Job::new(attempt, Work::Prepare { pod, wanted }, Stage::Reading));
        vec![Action::Read { pod: uid.clone(), attempt, claims }]
    }

    /// The claims of a pod were read, or could not be.
    pub fn read_ended(
        &mut self,
        uid: &PodUid,
        attempt: u64,
        outcome: Result<Vec<ResourceClaim>, ClaimError>,
        drivers: &Drivers,
    ) -> Vec<Action> {
        let Some(job) = self.jobs.get(uid).filter(|job| job.attempt == attempt && job.stage == Stage::Reading) else {
            return vec![];
        };
        let Work::Prepare { pod, wanted } = &job.work else { return vec![] };
        match outcome.and_then(|claims| checked(pod, wanted, &claims, drivers, self.gates)) {
            Err(error) => self.end(uid, Err(error)),
            Ok(claims) => self.admit(uid, &claims),
        }
    }

    fn admit(&mut self, uid: &PodUid, claims: &[AllocatedClaim]) -> Vec<Action> {
        let keys: Vec<ClaimKey> = claims.iter().map(|claim| claim.id.key.clone()).collect();
        if self.is_busy(uid, &keys) {
            return self.park(uid);
        }
        match self.book.admit(uid, claims) {
            Err(error) => self.end(uid, Err(error)),
            Ok(added) => {
                self.version += u64::from(!added.is_empty());
                if let Some(job) = self.jobs.get_mut(uid) {
                    (job.claims, job.added) = (keys, added);
                }
                self.store_or(uid, Self::call)
            }
        }
    }

    /// Whether another pod's work is about one of these claims.
    fn is_busy(&self, uid: &PodUid, keys: &[ClaimKey]) -> bool {
        let others = self.jobs.iter().filter(|(other, job)| *other != uid && job.holds_its_claims());
        others.flat_map(|(_, job)| &job.claims).any(|key| keys.contains(key))
    }

    fn park(&mut self, uid: &PodUid) -> Vec<Action> {
        if let Some(job) = self.jobs.get_mut(uid) {
            job.stage = Stage::Parked;
        }
        vec![]
    }

    /// A pod has ended: what it alone uses is to be released. The same as often as it is asked.
    pub fn release(&mut self, uid: &PodUid) -> Vec<Action> {
        match self.jobs.get_mut(uid) {
            Some(job) if job.is_release() => return vec![], // Its end answers this question, too.
            Some(job) if job.holds_its_claims() => {
                job.then_release = true;
                return vec![];
            }
            _ => {}
        }
        let mut actions = match self.jobs.contains_key(uid) {
            true => self.end(uid, Err(ClaimError::Leaving)),
            false => vec![],
        };
        let attempt = self.next_attempt();
        self.jobs.insert(uid.clone(), Job::new(attempt, Work::Release, Stage::Parked));
        actions.extend(self.begin_release(uid));
        actions
    }

    fn begin_release(&mut self, uid: &PodUid) -> Vec<Action> {
        let keys = self.book.of_pod(uid);
        if self.is_busy(uid, &keys) {
            return self.park(uid);
        }
        let (last, changed) = self.book.leave_shared(uid);
        self.version += u64::from(changed);
        if let Some(job) = self.jobs.get_mut(uid) {
            job.claims = last;
        }
        self.call(uid)
    }

    /// Releases what pods use that are no more.
    pub fn reconcile(&mut self, active: &BTreeSet<PodUid>) -> Vec<Action> {
        let gone: Vec<PodUid> = self.book.pods().into_iter().filter(|uid| !active.contains(uid)).collect();
        gone.iter().flat_map(|uid| self.release(uid)).collect()
    }

    /// Calls the drivers that the pod's work needs.
    fn call(&mut self, uid: &PodUid) -> Vec<Action> {
        let Some(job) = self.jobs.get_mut(uid) else { return vec![] };
        let (attempt, call) = (job.attempt, job.call());
        let batches = match call {
            ClaimCall::Prepare => self.book.to_prepare(&job.claims),
            ClaimCall::Unprepare => {
                self.book.doubt(&job.claims);
                self.book.to_release(&job.claims)
            }
        };
        if batches.is_empty() {
            return self.calls_ended(uid);
        }
        job.stage = Stage::Calling;
        job.asked = batches.clone();
        let call = |(driver, claims)| Action::Call { pod: uid.clone(), attempt, call, driver, claims };
        batches.into_iter().map(call).collect()
    }

    /// The call of a driver has begun.
    pub fn note_called(&mut self, uid: &PodUid, driver: &str, now: Moment) {
        if let Some(job) = self.jobs.get_mut(uid) {
            job.open.insert(driver.to_owned(), now);
        }
    }

    /// A driver answered, or did not.
    pub fn call_ended(
        &mut self,
        uid: &PodUid,
        attempt: u64,
        driver: &str,
        outcome: Result<Answer, ClaimError>,
    ) -> Vec<Action> {
        let Some(job) = self.jobs.get_mut(uid).filter(|job| job.attempt == attempt) else { return vec![] };
        job.open.remove(driver);
        let (call, asked) = (job.call(), job.asked.get(driver).cloned().unwrap_or_default());
        match outcome {
            Err(error) => job.fail_all(&asked, error),
            Ok(answer) => {
                if let Some(error) = job.take_answer(call, &asked, &answer) {
                    job.fail(error);
                }
                for (id, devices) in asked.iter().filter_map(|id| Some((id, answer.get(&id.uid)?.as_ref().ok()?))) {
                    if call == ClaimCall::Prepare {
                        self.book.set_devices(id, driver, devices.clone());
                    }
                }
            }
        }
        let Some(job) = self.jobs.get_mut(uid) else { return vec![] };
        job.answered.insert(driver.to_owned());
        if job.answered.len() < job.asked.len() { vec![] } else { self.calls_ended(uid) }
    }

    /// All drivers have answered: claims without a failure are prepared, or gone.
    fn calls_ended(&mut self, uid: &PodUid) -> Vec<Action> {
        let Some(job) = self.jobs.get_mut(uid) else { return vec![] };
        let done: Vec<ClaimKey> = job.claims.iter().filter(|key| !job.failed.contains(*key)).cloned().collect();
        for key in &done {
            let was_prepared = self.book.get(key).is_some_and(|claim| claim.prepared);
            match job.call() {
                ClaimCall::Prepare if was_prepared => continue,
                ClaimCall::Prepare => self.book.set_prepared(key),
                ClaimCall::Unprepare => self.book.remove(key),
            }
            self.version += 1;
        }
        job.added.clear(); // A driver may have been asked: only a release undoes that.
        job.stage = Stage::Keeping;
        self.store_or(uid, Self::finish)
    }

    fn finish(&mut self, uid: &PodUid) -> Vec<Action> {
        let failure = self.jobs.get_mut(uid).and_then(|job| job.failure.take());
        self.end(uid, failure.map_or(Ok(()), Err))
    }

    /// Goes on once the disk has the book as it is now.
    fn store_or(&mut self, uid: &PodUid, next: fn(&mut Self, &PodUid) -> Vec<Action>) -> Vec<Action> {
        let version = self.version;
        if version <= self.stored {
            return next(self, uid);
        }
        if let Some(job) = self.jobs.get_mut(uid) {
            job.waits_for = Some(version);
            if job.stage != Stage::Keeping {
                job.stage = Stage::Storing;
            }
        }
        self.store()
    }

    /// Has the book written, unless that is under way or not needed.
    pub fn store(&mut self) -> Vec<Action> {
        if self.storing.is_some() || self.version <= self.stored {
            return vec![];
        }
        self.storing = Some(self.version);
        vec![Action::Store]
    }

    /// Whether the disk lacks something of the book that nobody waits for.
    pub fn is_behind(&self) -> bool {
        self.storing.is_none() && self.version > self.stored
    }

    /// The book was written, or could not be.
    pub fn store_ended(&mut self, outcome: Result<(), String>) -> Vec<Action> {
        let Some(version) = self.storing.take() else { return vec![] };
        let waiting: Vec<PodUid> =
            self.jobs.iter().filter(|(_, job)| job.waits_for.is_some()).map(|(uid, _)| uid.clone()).collect();
        let mut actions = vec![];
        if let Err(why) = outcome {
            for uid in waiting {
                let Some(job) = self.jobs.get_mut(&uid) else { continue };
                let added = std::mem::take(&mut job.added);
                self.book.take_back(&uid, &added);
                actions.extend(self.end(&uid, Err(ClaimError::Checkpoint(why.clone()))));
            }
            return actions;
        }
        self.stored = version;
        for uid in waiting {
            let Some(job) = self.jobs.get_mut(&uid) else { continue };
            if job.waits_for.is_none_or(|wanted| wanted > version) {
                continue;
            }
            job.waits_for = None;
            let next = if job.stage == Stage::Keeping { Self::finish } else { Self::call };
            actions.extend(next(self, &uid));
        }
        actions.extend(self.store());
        actions
    }

    /// The work for a pod has ended; those that waited for its claims go on.
    fn end(&mut self, uid: &PodUid, outcome: Result<(), ClaimError>) -> Vec<Action> {
        let Some(job) = self.jobs.remove(uid) else { return vec![] };
        let mut actions = vec![Action::Ended { pod: uid.clone(), call: job.call(), outcome }];
        if job.then_release {
            actions.extend(self.release(uid));
        }
        if job.holds_its_claims() {
            let parked = self.jobs.iter().filter(|(_, job)| job.stage == Stage::Parked);
            let parked: Vec<(PodUid, Work)> = parked.map(|(uid, job)| (uid.clone(), job.work.clone())).collect();
            for (uid, work) in parked {
                actions.extend(match work {
                    Work::Prepare { pod, wanted } => self.read(&uid, pod, wanted),
                    Work::Release => self.begin_release(&uid),
                });
            }
        }
        actions
    }
}

/// Checks all claims of a pod, and that its drivers are there: one that was never installed would never release them.
fn checked(
    pod: &Pod,
    wanted: &[WantedClaim],
    claims: &[ResourceClaim],
    drivers: &Drivers,
    gates: ClaimGates,
) -> Result<Vec<AllocatedClaim>, ClaimError> {
    let check_one = |(wanted, claim): (&WantedClaim, &ResourceClaim)| {
        let allocated = check(pod, wanted, claim, gates)?;
        match allocated.drivers.iter().find(|driver| drivers.get(driver).is_none()) {
            Some(missing) => Err(ClaimError::NoDriver(missing.clone())),
            None => Ok(allocated),
        }
    };
    wanted.iter().zip(claims).map(check_one).collect()
}

#[cfg(test)]
mod tests;
