//! The resize of a pod, as its worker follows it: what the status says of it, and the Events and figures about its end.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::time::Moment;
use crate::logic::pods::pod_lifecycle::{PodLifecycle, Stage};
use crate::logic::pods::pod_resize::{self, PendingResize, ResizeConditions, ResizeGates, ResizeReport};
use crate::messages::resources::allocation_manager::ResizeCount;

/// See the module.
#[derive(Default)]
pub(super) struct ResizeTrack {
    conditions: ResizeConditions,
    /// When the change of resources that is under way began, by uptime.
    began: Option<Duration>,
}

/// The news at the end of a try to bring resources into force.
pub(super) struct ResizeEnd {
    /// For the metrics.
    pub count: Option<ResizeCount>,
    /// For an Event.
    pub error: Option<String>,
}

impl ResizeTrack {
    /// The conditions of resizes in the status.
    pub(super) fn conditions(&self) -> &ResizeConditions {
        &self.conditions
    }

    /// `PodManager` has judged whether the pod gets what it asks for.
    pub(super) fn note_judged(&mut self, pending: Option<PendingResize>) {
        self.conditions.pending = pending;
    }

    /// A try to bring resources into force begins.
    pub(super) fn begin(&mut self, uptime: Duration) {
        self.began = Some(uptime);
    }

    /// A new pod, or a new spec: what the API server shows of resizes counts until this agent knows better, and resources
    /// that changed are a resize that was taken on.
    pub(super) fn take_spec(&mut self, before: Option<&Pod>, pod: &Pod, gates: &ResizeGates, now: Moment) {
        match before {
            None => self.conditions = pod.status.as_ref().map(ResizeConditions::of_status).unwrap_or_default(),
            Some(before) => {
                let (old, new) = (pod_resize::allocation_of(before, gates), pod_resize::allocation_of(pod, gates));
                if !pod_resize::same_resources(&old, &new) {
                    self.conditions.begin(pod.metadata.generation, now);
                }
            }
        }
    }

    /// Follows whether all is in force, as the status is to show it; gives the message of an Event when it has come to be.
    pub(super) fn follow(&mut self, lifecycle: &PodLifecycle, now: Moment) -> Option<String> {
        let pod = lifecycle.pod()?;
        match lifecycle.stage() {
            Stage::Syncing => {}
            Stage::Terminating => return None,
            Stage::Terminated => {
                self.conditions = ResizeConditions::default();
                return None;
            }
        }
        let in_force = lifecycle.is_in_force()?;
        let generation = self.conditions.note(in_force, pod.metadata.generation, now)?;
        Some(pod_resize::completed(pod, generation.unwrap_or_default()))
    }

    /// A try to bring resources into force has ended.
    pub(super) fn end(&mut self, report: &ResizeReport, pod: Option<&Pod>, now: Moment, uptime: Duration) -> ResizeEnd {
        let count = report.changed.then(|| {
            let took = self.began.take().map_or(Duration::ZERO, |began| uptime - began);
            ResizeCount::Actuated { success: report.problem.is_none(), took }
        });
        let error = report.problem.as_ref().zip(pod).and_then(|(why, pod)| {
            let generation = self.conditions.fail(why, pod.metadata.generation, now)?;
            Some(pod_resize::failed(pod, generation.unwrap_or_default(), why))
        });
        ResizeEnd { count, error }
    }
}
