//! Reports on their way to the API server: one at a time, in their order, each tried so often. Owned by `EventRecorder`;
//! keeps what waits.

use std::collections::VecDeque;
use std::time::Duration;

use super::Report;

/// Reports that may wait; beyond, the oldest is lost.
pub const WAITING_MAX: usize = 1000;
/// How often one report is tried.
pub const TRIES_MAX: u32 = 12;
/// The wait between two tries of a report; the first is a part of it, by chance, so that the nodes of a cluster do not
/// all come back at once.
pub const RETRY_PERIOD: Duration = Duration::from_secs(10);

/// How long the first report waits when nothing is on its way. Its subject is still going on: the pod's start or end,
/// and the status that others wait for, go first.
pub const PAUSE: Duration = Duration::from_millis(250);

/// The orders, in sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the Event object.
    Create(Box<Report>),
    /// Change the Event object that should be there.
    Patch(Box<Report>),
    /// Tell [`Outbox::wait_over`] after so long.
    Wait(Duration),
    /// Nobody will hear of it: too many wait (`tries` is 0), or it was tried so often.
    Lost {
        /// The report that is lost.
        report: Box<Report>,
        /// How often it was tried.
        tries: u32,
    },
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server has it.
    Stored,
    /// There is no such Event to be changed.
    Missing,
    /// The server will not have it, now or later.
    Rejected,
    /// Nobody answered, or the server was not able to.
    Failed,
}

#[derive(Debug)]
struct Letter {
    report: Box<Report>,
    /// Whether the Event object was asked for before.
    known: bool,
}

#[derive(Debug)]
struct Sending {
    letter: Letter,
    tries: u32,
    waits: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: VecDeque<Letter>,
    sending: Option<Sending>,
    /// The first of those that wait has its pause.
    pausing: bool,
    lost: u64,
}

impl Outbox {
    /// Reports lost so far, over the life of this outbox.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes a report in. One that still waits about the same Event is brought up to date instead, in its place.
    pub fn add(&mut self, report: Report) -> Vec<Action> {
        // The first of its name can be about none that waits.
        let known = (report.count > 1)
            .then_some(())
            .and_then(|()| self.waiting.iter_mut().find(|letter| letter.report.is_about_same(&report)));
        if let Some(letter) = known {
            *letter.report = report;
            return vec![];
        }
        let mut actions = vec![];
        if self.waiting.len() >= WAITING_MAX {
            let oldest = self.waiting.pop_front().map(|letter| self.lose(letter.report, 0));
            actions.extend(oldest);
        }
        self.waiting.push_back(Letter { known: report.count > 1, report: Box::new(report) });
        if self.sending.is_none() && !std::mem::replace(&mut self.pausing, true) {
            actions.push(Action::Wait(PAUSE));
        }
        actions
    }

    /// The call ended. `chance` is between 0 and 1.
    pub fn ended(&mut self, outcome: Outcome, chance: f64) -> Vec<Action> {
        let Some(mut sending) = self.sending.take_if(|sending| !sending.waits) else { return vec![] };
        match outcome {
            Outcome::Missing if sending.letter.known => {
                // It was removed, for Events live an hour, or never came to be: this is the same try still.
                sending.letter.known = false;
                let action = sending.call();
                self.sending = Some(sending);
                vec![action]
            }
            Outcome::Failed => {
                sending.tries += 1;
                if sending.tries >= TRIES_MAX {
                    let lost = self.lose(sending.letter.report, sending.tries);
                    return [lost].into_iter().chain(self.next()).collect();
                }
                let part = if sending.tries == 1 { chance.clamp(0.0, 1.0) } else { 1.0 };
                sending.waits = true;
                self.sending = Some(sending);
                vec![Action::Wait(RETRY_PERIOD.mul_f64(part))]
            }
            Outcome::Stored | Outcome::Missing | Outcome::Rejected => self.next().into_iter().collect(),
        }
    }

    /// The wait is over.
    pub fn wait_over(&mut self) -> Vec<Action> {
        if std::mem::take(&mut self.pausing) {
            return self.next().into_iter().collect();
        }
        let Some(sending) = self.sending.as_mut().filter(|sending| sending.waits) else { return vec![] };
        sending.waits = false;
        vec![sending.call()]
    }

    /// Sends what waits at once: who speaks is about to leave.
    pub fn hurry(&mut self) -> Vec<Action> {
        if self.pausing { self.wait_over() } else { vec![] }
    }

    /// Whether nothing is on its way, now or soon: there is nothing, or the server does not take it.
    pub fn is_at_rest(&self) -> bool {
        self.sending.as_ref().map_or(self.waiting.is_empty(), |sending| sending.waits)
    }

    fn next(&mut self) -> Option<Action> {
        let letter = self.waiting.pop_front()?;
        let sending = Sending { letter, tries: 0, waits: false };
        let action = sending.call();
        self.sending = Some(sending);
        Some(action)
    }

    fn lose(&mut self, report: Box<Report>, tries: u32) -> Action {
        self.lost = self.lost.saturating_add(1);
        Action::Lost { report, tries }
    }
}

impl Sending {
    fn call(&self) -> Action {
        let report = self.letter.report.clone();
        if self.letter.known { Action::Patch(report) } else { Action::Create(report) }
    }
}

impl Report {
    /// Whether both are counted in one Event object.
    fn is_about_same(&self, other: &Self) -> bool {
        self.name == other.name && self.namespace() == other.namespace()
    }
}
