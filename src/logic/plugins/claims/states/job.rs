//! The work for one pod's claims.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::Answer;
use crate::logic::model::time::Moment;
use crate::logic::plugins::claims::book::Batches;
use crate::logic::plugins::claims::check::{ClaimCall, ClaimError};
use crate::logic::plugins::claims::{ClaimId, ClaimKey, WantedClaim};

/// The task.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Prepare { pod: Arc<Pod>, wanted: Vec<WantedClaim> },
    Release,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The API server is asked for the claims.
    Reading,
    /// Another pod's work is about one of the claims.
    Parked,
    /// The disk is to have the book before a driver is asked.
    Storing,
    /// Drivers are asked.
    Calling,
    /// The disk is to have the book before this counts.
    Keeping,
}

/// The state of a pod's work, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The API server is asked for the claims.
    Reading,
    /// Another pod's work is about one of the claims.
    Parked,
    /// The disk is to have it first.
    Storing,
    /// A driver has not answered yet.
    Calling {
        /// Its name.
        driver: String,
        /// The call.
        call: ClaimCall,
        /// Since when. A moment, not a span, so that one message is enough.
        since: Option<Moment>,
    },
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reading => f.write_str("the API server to give its ResourceClaims"),
            Self::Parked => f.write_str("another pod that has one of its ResourceClaims prepared or released"),
            Self::Storing => f.write_str("its ResourceClaims to be kept on the disk"),
            Self::Calling { driver, call, since } => {
                write!(f, "DRA driver {driver}, which has not answered {call}")?;
                since.map_or(Ok(()), |since| write!(f, " since {}", since.to_timestamp()))
            }
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub attempt: u64,
    pub work: Work,
    pub stage: Stage,
    /// The claims that it is about, once that is known.
    pub claims: Vec<ClaimKey>,
    /// Those that the pod did not use before, until a driver was asked.
    pub added: Vec<ClaimKey>,
    /// The version of the book that the disk is to have first.
    pub waits_for: Option<u64>,
    pub asked: Batches,
    /// Calls that are under way, and since when.
    pub open: BTreeMap<String, Moment>,
    pub answered: BTreeSet<String>,
    /// Claims that some driver failed at.
    pub failed: BTreeSet<ClaimKey>,
    /// The first failure.
    pub failure: Option<ClaimError>,
    /// The pod has ended meanwhile.
    pub then_release: bool,
}

impl Job {
    pub fn new(attempt: u64, work: Work, stage: Stage) -> Self {
        Self {
            attempt,
            work,
            stage,
            claims: vec![],
            added: vec![],
            waits_for: None,
            asked: Batches::new(),
            open: BTreeMap::new(),
            answered: BTreeSet::new(),
            failed: BTreeSet::new(),
            failure: None,
            then_release: false,
        }
    }

    pub fn is_release(&self) -> bool {
        matches!(self.work, Work::Release)
    }

    pub fn call(&self) -> ClaimCall {
        if self.is_release() { ClaimCall::Unprepare } else { ClaimCall::Prepare }
    }

    /// Whether others leave its claims alone.
    pub fn holds_its_claims(&self) -> bool {
        matches!(self.stage, Stage::Storing | Stage::Calling | Stage::Keeping)
    }

    pub fn progress(&self) -> Progress {
        match self.stage {
            Stage::Reading => Progress::Reading,
            Stage::Parked => Progress::Parked,
            Stage::Storing | Stage::Keeping => Progress::Storing,
            Stage::Calling => {
                let oldest = self.open.iter().min_by_key(|(_, since)| **since);
                let (driver, since) = oldest.map_or_else(
                    || {
                        (
                            self.asked.keys().find(|name| !self.answered.contains(*name)).cloned().unwrap_or_default(),
                            None,
                        )
                    },
                    |(driver, since)| (driver.clone(), Some(*since)),
                );
                Progress::Calling { driver, call: self.call(), since }
            }
        }
    }

    /// The first failure counts.
    pub fn fail(&mut self, error: ClaimError) {
        self.failure.get_or_insert(error);
    }

    pub fn fail_all(&mut self, claims: &[ClaimId], error: ClaimError) {
        self.failed.extend(claims.iter().map(|id| id.key.clone()));
        self.fail(error);
    }

    /// Notes which claims a driver failed at; gives the first failure.
    pub fn take_answer(&mut self, call: ClaimCall, asked: &[ClaimId], answer: &Answer) -> Option<ClaimError> {
        let mut failure = None;
        for (uid, result) in answer {
            let Some(id) = asked.iter().find(|id| id.uid == *uid) else {
                failure.get_or_insert(ClaimError::UnknownResult { call, uid: uid.clone() });
                continue;
            };
            if let Err(why) = result {
                self.failed.insert(id.key.clone());
                failure.get_or_insert(ClaimError::Refused { call, claim: id.key.name.clone(), why: why.clone() });
            }
        }
        let skipped: Vec<&ClaimId> = asked.iter().filter(|id| !answer.contains_key(&id.uid)).collect();
        self.failed.extend(skipped.iter().map(|id| id.key.clone()));
        if !skipped.is_empty() {
            failure.get_or_insert(ClaimError::Skipped { call, count: skipped.len() });
        }
        failure
    }
}
