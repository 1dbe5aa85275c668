//! The node's Lease: its heartbeat in the API server (NODE-33 to NODE-35).
//!
//! Pure; owned by `NodeLease`. Keeps the Lease as the server last gave it, so that renewing it costs one PUT and no GET.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};

use crate::logic::model::time::Moment;

/// Where the Leases of nodes are.
pub const NAMESPACE: &str = "kube-node-lease";
/// The part of the Lease's duration after which it is renewed.
const RENEW_FRACTION: f64 = 0.25;
/// Each wait is longer by up to so much of itself.
const JITTER: f64 = 0.04;
/// PUTs in a row before a pause.
const TRIES_MAX: u32 = 5;
/// First wait before the Lease is looked for again; doubled up to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(7);

/// The event.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Time to renew.
    Due,
    /// The API server has the Node now.
    NodeRegistered,
    /// A pause is over.
    PauseOver,
    /// The Node was read: its UID; `None` when that failed.
    Owner(Option<String>),
    /// The Lease was read, and is there.
    Found(Box<Lease>),
    /// The Lease was read, and is not there.
    Missing,
    /// The Lease was created or replaced; as the server has it now.
    Stored(Box<Lease>),
    /// Somebody else changed the Lease since it was read.
    Conflict,
    /// The call failed in another way.
    Failed,
}

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Read the Node, for its UID.
    ReadOwner,
    /// Read the Lease.
    Read,
    /// Create this Lease.
    Create(Box<Lease>),
    /// Replace the Lease with this one.
    Replace(Box<Lease>),
    /// Connections may be dead without anybody having said so: begin new ones.
    CloseConnections,
    /// Wait so long, then say that the pause is over.
    Pause(Duration),
    /// All is done until the next renewal.
    Rest,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Idle,
    /// Looking for the Lease; `renewal` is the try that goes on when it is found.
    Reading {
        renewal: Option<Renewal>,
    },
    Pausing {
        renewal: Option<Renewal>,
    },
    /// The Node is read to create a Lease that it owns. `registered`: the Node came while it was read.
    OwnerForNew {
        renewal: Option<Renewal>,
        registered: bool,
    },
    Creating {
        renewal: Option<Renewal>,
    },
    /// The Node is read to renew a Lease that nobody owns yet.
    OwnerForRenewal(Renewal),
    Replacing(Renewal),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Renewal {
    tried: u32,
    /// The Lease at hand was not read in this round: when it cannot be renewed, it is read once more.
    optimistic: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct LeaseKeeper {
    node: String,
    duration_seconds: i32,
    lease: Option<Lease>,
    stage: Stage,
    pause_next: Duration,
}

impl LeaseKeeper {
    /// A keeper that knows nothing yet, of a Lease that holds for so long (`nodeLeaseDurationSeconds`).
    pub fn new(node: &str, duration_seconds: i32) -> Self {
        Self { node: node.to_owned(), duration_seconds, lease: None, stage: Stage::Idle, pause_next: PAUSE_FIRST }
    }

    /// How long to rest between two renewals; `chance` is in 0..1.
    pub fn rest(&self, chance: f64) -> Duration {
        let duration = Duration::from_secs(u64::try_from(self.duration_seconds).unwrap_or(0));
        duration.mul_f64(RENEW_FRACTION).mul_f64(1.0 + JITTER * chance.clamp(0.0, 1.0))
    }

    /// Takes one input; says what to do about it, in order.
    pub fn step(&mut self, input: Input, now: Moment) -> Vec<Action> {
        match (self.stage.clone(), input) {
            (Stage::Idle, Input::Due) => self.begin(now),
            // The last try may have come too early to find the Node, and so may the one under way.
            (Stage::Idle, Input::NodeRegistered) if self.lease.is_none() => self.read(None),
            (Stage::OwnerForNew { renewal, .. }, Input::NodeRegistered) => {
                self.stage = Stage::OwnerForNew { renewal, registered: true };
                vec![]
            }
            (Stage::Pausing { renewal }, Input::PauseOver) => self.read(renewal),
            (Stage::Reading { renewal }, Input::Found(lease)) => {
                self.lease = Some(*lease);
                self.renew(renewal.unwrap_or(Renewal { tried: 0, optimistic: false }), now)
            }
            (Stage::Reading { renewal }, Input::Missing) => self.read_owner(renewal),
            (Stage::Reading { renewal } | Stage::Creating { renewal }, Input::Failed | Input::Conflict) => {
                self.pause(renewal)
            }
            (Stage::OwnerForNew { renewal, .. }, Input::Owner(Some(uid))) => {
                self.stage = Stage::Creating { renewal };
                vec![Action::Create(Box::new(self.fresh(&uid, now)))]
            }
            (Stage::OwnerForNew { renewal, registered: true }, Input::Owner(None)) => self.read_owner(renewal),
            // A Lease that no Node owns would outlive it, so none is created this round.
            (Stage::OwnerForNew { .. }, Input::Owner(None)) => {
                self.lease = None;
                self.done()
            }
            (Stage::Creating { .. } | Stage::Replacing(_), Input::Stored(lease)) => {
                self.lease = Some(*lease);
                self.done()
            }
            (Stage::OwnerForRenewal(renewal), Input::Owner(Some(uid))) => {
                let owner = self.owner(&uid);
                if let Some(lease) = &mut self.lease {
                    lease.metadata.owner_references = Some(vec![owner]);
                }
                self.renew(renewal, now)
            }
            (Stage::Replacing(renewal), Input::Conflict) => {
                self.read(Some(Renewal { tried: renewal.tried + 1, ..renewal }))
            }
            (Stage::Replacing(renewal), Input::Failed) | (Stage::OwnerForRenewal(renewal), Input::Owner(None)) => {
                let close = (renewal.tried > 0).then_some(Action::CloseConnections);
                let next = self.renew(Renewal { tried: renewal.tried + 1, ..renewal }, now);
                close.into_iter().chain(next).collect()
            }
            _ => vec![], // An old one.
        }
    }

    fn begin(&mut self, now: Moment) -> Vec<Action> {
        match &self.lease {
            Some(_) => self.renew(Renewal { tried: 0, optimistic: true }, now),
            None => self.read(None),
        }
    }

    fn renew(&mut self, renewal: Renewal, now: Moment) -> Vec<Action> {
        let Some(lease) = &self.lease else { return self.read(None) };
        if renewal.tried >= TRIES_MAX {
            return if renewal.optimistic { self.read(None) } else { self.done() };
        }
        if lease.metadata.owner_references.as_ref().is_none_or(Vec::is_empty) {
            self.stage = Stage::OwnerForRenewal(renewal);
            return vec![Action::ReadOwner];
        }
        let mut lease = lease.clone();
        let spec = lease.spec.get_or_insert_default();
        // Settings may have changed since the Lease was made.
        spec.lease_duration_seconds = Some(self.duration_seconds);
        spec.renew_time = Some(micro_time(now));
        self.stage = Stage::Replacing(renewal);
        vec![Action::Replace(Box::new(lease))]
    }

    fn read(&mut self, renewal: Option<Renewal>) -> Vec<Action> {
        if !matches!(self.stage, Stage::Pausing { .. }) {
            self.pause_next = PAUSE_FIRST;
        }
        self.stage = Stage::Reading { renewal };
        vec![Action::Read]
    }

    fn read_owner(&mut self, renewal: Option<Renewal>) -> Vec<Action> {
        self.stage = Stage::OwnerForNew { renewal, registered: false };
        vec![Action::ReadOwner]
    }

    fn pause(&mut self, renewal: Option<Renewal>) -> Vec<Action> {
        let pause = self.pause_next;
        self.pause_next = (pause * 2).min(PAUSE_MAX);
        self.stage = Stage::Pausing { renewal };
        vec![Action::Pause(pause)]
    }

    fn done(&mut self) -> Vec<Action> {
        self.stage = Stage::Idle;
        vec![Action::Rest]
    }

    fn fresh(&self, owner: &str, now: Moment) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.node.clone());
        lease.metadata.namespace = Some(NAMESPACE.to_owned());
        lease.metadata.owner_references = Some(vec![self.owner(owner)]);
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(self.node.clone());
        spec.lease_duration_seconds = Some(self.duration_seconds);
        spec.renew_time = Some(micro_time(now));
        lease
    }

    fn owner(&self, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        }
    }
}

/// To the microsecond, as the API keeps it.
fn micro_time(now: Moment) -> MicroTime {
    MicroTime(jiff::Timestamp::from_microsecond(now.0.div_euclid(1000)).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests;
