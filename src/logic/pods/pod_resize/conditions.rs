//! The two conditions that tell of a resize: that one is asked for and not taken on, and that one is not in force yet.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{PendingReason, PendingResize};
use crate::logic::model::time::Moment;

/// The condition of a resize that the node has not taken on.
pub const PENDING: &str = "PodResizePending";
/// The condition of a resize that the node has taken on and that is not in force yet.
pub const PROGRESS: &str = "PodResizeInProgress";
/// The reason of one that failed, and is tried again.
const ERROR: &str = "Error";

/// A resize that is not in force yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Of which generation of the pod.
    pub generation: Option<i64>,
    /// Why it could not be brought about at the last try.
    pub error: Option<String>,
    /// When this came to be so.
    pub since: Moment,
}

/// The conditions of a pod's resizes in its status. Kept by the pod's worker; what the API server shows stands in for
/// it after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeConditions {
    /// As `PodManager` judged.
    pub pending: Option<PendingResize>,
    /// As the worker sees.
    pub progress: Option<Progress>,
}

impl ResizeConditions {
    /// As a status shows them.
    pub fn of_status(status: &PodStatus) -> Self {
        let find = |kind: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == kind);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let since = |condition: &PodCondition| {
            condition.last_transition_time.as_ref().map_or(Moment::EPOCH, |time| Moment::from_timestamp(time.0))
        };
        let pending = find(PENDING).map(|condition| PendingResize {
            reason: match condition.reason.as_deref() == Some(PendingReason::Infeasible.into()) {
                true => PendingReason::Infeasible,
                false => PendingReason::Deferred,
            },
            message: text(&condition.message),
            generation: condition.observed_generation,
            since: since(condition),
        });
        let progress = find(PROGRESS).map(|condition| Progress {
            generation: condition.observed_generation,
            error: (condition.reason.as_deref() == Some(ERROR)).then(|| text(&condition.message)),
            since: since(condition),
        });
        Self { pending, progress }
    }

    /// The node took a resize on: what was said of an earlier one is over.
    pub fn begin(&mut self, generation: Option<i64>, now: Moment) {
        *self = Self { pending: None, progress: Some(Progress { generation, error: None, since: now }) };
    }

    /// Takes what is seen: whether all that was given is in force. Gives the generation of a resize that has come to its
    /// end just now.
    pub fn note(&mut self, in_force: bool, generation: Option<i64>, now: Moment) -> Option<Option<i64>> {
        if in_force {
            return self.progress.take().map(|progress| progress.generation);
        }
        if self.progress.is_none() {
            self.progress = Some(Progress { generation, error: None, since: now });
        }
        None
    }

    /// A try failed. Gives the generation of the resize where that is news.
    pub fn fail(&mut self, why: &str, generation: Option<i64>, now: Moment) -> Option<Option<i64>> {
        let since = self.progress.as_ref().filter(|progress| progress.error.is_some()).map(|progress| progress.since);
        let generation = self.progress.as_ref().map_or(generation, |progress| progress.generation);
        let failed = Progress { generation, error: Some(why.to_owned()), since: since.unwrap_or(now) };
        let is_news = self.progress.as_ref() != Some(&failed);
        self.progress = Some(failed);
        is_news.then_some(generation)
    }

    /// As the API has them.
    pub fn conditions(&self) -> Vec<PodCondition> {
        let condition = |kind: &str, reason: Option<&str>, message: &str, generation, since: Moment| PodCondition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            reason: reason.map(str::to_owned),
            message: (!message.is_empty()).then(|| message.to_owned()),
            last_probe_time: Some(Time(since.to_timestamp())),
            last_transition_time: Some(Time(since.to_timestamp())),
            observed_generation: generation,
        };
        let pending = self.pending.as_ref().map(|pending| {
            condition(PENDING, Some(pending.reason.into()), &pending.message, pending.generation, pending.since)
        });
        let progress = self.progress.as_ref().map(|progress| {
            let error = progress.error.as_deref();
            condition(PROGRESS, error.map(|_| ERROR), error.unwrap_or_default(), progress.generation, progress.since)
        });
        pending.into_iter().chain(progress).collect()
    }
}
