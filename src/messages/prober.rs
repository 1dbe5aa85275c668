//! To `Prober`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use ractor::RpcReplyPort;

use super::pods::pod_worker::PodWorkerMsg;
use super::{Ended, Lost, Subscriber, describe};
use crate::logic::model::histogram::{Histogram, milliseconds};
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::probes::probe_kind::ProbeKind;
use crate::logic::probes::probe_schedule;
use crate::platform::network::network_probe::ProbeOutcome;

/// One prober: a container's probe of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeKey {
    /// The pod's UID.
    pub uid: PodUid,
    /// The container's name.
    pub container: Arc<str>,
    /// Which probe.
    pub kind: ProbeKind,
}

impl ProbeKey {
    /// Comes before all keys of the pod.
    pub fn first_of(uid: &PodUid) -> Self {
        Self { uid: uid.clone(), container: Arc::default(), kind: ProbeKind::Startup }
    }

    /// The subject of its operation.
    pub fn about(&self) -> String {
        format!("{} of {}", self.kind, self.container)
    }
}

/// A prober, by the number it was given: no other ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeId(pub u64);

/// A probe that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The pod's UID.
    pub uid: PodUid,
    /// Which.
    pub id: ProbeId,
    /// How.
    pub round: Result<Round, Lost>,
}

/// Bounds of the lengths of rounds; upstream's defaults.
static ROUND_BOUNDS: [Duration; 11] = milliseconds([5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000]);

/// How the rounds of one prober went (PRB-25). A round whose probe could not be made is none.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeCounts {
    /// The pod's name and namespace.
    pub full_name: FullName,
    /// Rounds that found the container well.
    pub successful: u64,
    /// Rounds that did not.
    pub failed: u64,
    /// Lengths of the rounds that found it well.
    pub lengths: Histogram<11>,
    /// Rounds whose probe could not be made.
    pub errored: u64,
    /// Of the failed rounds, those whose command did not end in time (SEC-47).
    pub timed_out: u64,
    /// How long all rounds took together, whatever came of them.
    pub spent: Duration,
}

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Its outcome.
    pub outcome: ProbeOutcome,
    /// Whether it was a command that did not end in time.
    pub timed_out: bool,
}

/// The cost of one prober, for people (PAIN-29).
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeCost {
    /// The pod, the container and the kind.
    pub key: ProbeKey,
    /// `exec`, `httpGet`, `tcpSocket` or `grpc`.
    pub action: &'static str,
    /// From one round to the next, as the pod asks for it.
    pub period: Duration,
    /// How rounds went.
    pub counts: ProbeCounts,
    /// The wait in force after a command that never ends in time.
    pub put_off: Option<Duration>,
    /// Whether its command waits for those of other containers.
    pub waits_for_turn: bool,
}

impl ProbeCounts {
    /// None yet.
    pub fn of(full_name: FullName) -> Self {
        let lengths = Histogram::new(&ROUND_BOUNDS);
        Self { full_name, successful: 0, failed: 0, lengths, errored: 0, timed_out: 0, spent: Duration::ZERO }
    }

    /// One more round.
    pub fn note(&mut self, outcome: probe_schedule::ProbeOutcome, length: Duration) {
        self.spent += length;
        match outcome {
            probe_schedule::ProbeOutcome::Errored => self.errored += 1,
            probe_schedule::ProbeOutcome::Failure => self.failed += 1,
            probe_schedule::ProbeOutcome::TimedOut => {
                self.failed += 1;
                self.timed_out += 1;
            }
            probe_schedule::ProbeOutcome::Success => {
                self.successful += 1;
                self.lengths.add(length);
            }
        }
    }
}

/// See the module.
#[derive(Debug, strum::IntoStaticStr)]
pub enum ProberMsg {
    /// From a `PodWorker`: a pod with probes, and its newest status.
    PodChanged {
        /// The pod's UID.
        uid: PodUid,
        /// The pod as it is wanted.
        pod: Arc<Pod>,
        /// The pod's status.
        status: Arc<PodStatus>,
        /// Whether its end has begun.
        ending: bool,
        /// Where results go.
        worker: Subscriber<PodWorkerMsg>,
    },
    /// From a `PodWorker`: the pod's containers are gone.
    PodGone(PodUid),
    /// From `PodManager`: these are all pods there are; told now and then, because a pod may have gone while `PodManager`
    /// itself was restarted.
    Known(Arc<BTreeSet<PodUid>>),
    /// From itself: rounds are due.
    RoundsDue,
    /// From itself: probes ended, one at least.
    Probed(Vec<Probed>),
    /// From itself: what is remembered of probes was written, or not.
    Saved(Ended<()>),
    /// From itself: what is remembered of probes is to be written.
    SaveDue,
    /// From itself: workers that had no room for results get them again.
    RetellDue,
    /// From the server: how rounds went, of each prober that there is.
    Counts(RpcReplyPort<Vec<(ProbeKey, ProbeCounts)>>),
    /// From the server: what the probes of this pod cost.
    Costs(PodUid, RpcReplyPort<Vec<ProbeCost>>),
}

describe!(ProberMsg, message => match message {
    ProberMsg::PodChanged { uid, .. } | ProberMsg::PodGone(uid) | ProberMsg::Costs(uid, _) => Some(uid),
    ProberMsg::Known(_)
    | ProberMsg::RoundsDue
    | ProberMsg::Counts(_)
    | ProberMsg::Saved(_)
    | ProberMsg::SaveDue
    | ProberMsg::RetellDue => None,
    ProberMsg::Probed(ended) => match ended.as_slice() {
        [one] => Some(&one.uid),
        _ => None,
    },
});
