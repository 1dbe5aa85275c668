//! The resizes of all pods, as `PodManager` keeps them: what pods were given, what they ask for, and what workers are still to
//! hear.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::actors::kit::context::{Context, OperationId};
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_resize::{Allocations, PendingReason, PendingResize, ResizeGates};
use crate::messages::pods::pod_manager::{PodManagerMsg, ResizesMsg};

/// The resizes of all pods: what is given, what is asked for, and what workers are still to hear.
#[derive(Default)]
pub(super) struct Resizes {
    /// The allocations of pods, and the resizes that wait.
    pub(super) allocations: Allocations,
    /// Pods that ask for other resources than they were given.
    pub(super) asking: BTreeSet<PodUid>,
    /// Pods whose workers are to hear about a resize.
    pub(super) due: BTreeSet<PodUid>,
    /// The allocations are being kept on the disk.
    pub(super) is_keeping: bool,
    /// Resizes were looked at since all sources were heard.
    pub(super) was_seen: bool,
    pub(super) timer: Option<OperationId>,
}

impl Resizes {
    /// Whether it is known what earlier runs of the agent gave.
    pub(super) fn is_recalled(&self) -> bool {
        self.allocations.is_recalled()
    }

    /// The pod's worker is to hear about its resize.
    pub(super) fn tell_later(&mut self, uid: &PodUid) {
        self.due.insert(uid.clone());
    }

    /// The pod asks for nothing any more.
    pub(super) fn forget_asking(&mut self, uid: &PodUid) {
        self.asking.remove(uid);
    }

    /// Takes note of whether the pod asks for other resources than it was given; `None` for a pod that gets nothing more.
    pub(super) fn note_asking(&mut self, uid: &PodUid, pod: Option<&Arc<Pod>>, gates: &ResizeGates) {
        match pod {
            Some(pod) if self.allocations.is_asked(uid, pod, gates) => drop(self.asking.insert(uid.clone())),
            Some(_) => {
                self.asking.remove(uid);
                if self.allocations.settle(uid) {
                    self.tell_later(uid);
                }
            }
            None => self.forget_asking(uid),
        }
    }

    /// Whether the request of a pod that asks for something is still to be judged: it was not accepted, and is not known to
    /// be impossible.
    pub(super) fn is_open(&self, uid: &PodUid, pod: &Arc<Pod>, gates: &ResizeGates) -> bool {
        let is_known = |waiting: &PendingResize| {
            waiting.reason == PendingReason::Infeasible && waiting.generation == pod.metadata.generation
        };
        !self.allocations.is_accepted(uid, pod, gates) && !self.allocations.waiting(uid).is_some_and(is_known)
    }

    pub(super) fn arm_retry(&mut self, delay: Duration, context: &mut Context<PodManagerMsg>) {
        let due = PodManagerMsg::Resizes(ResizesMsg::ResizeRetryDue);
        if let Some(timer) = self.timer.replace(context.after(delay, due)) {
            context.cancel(timer);
        }
    }
}
