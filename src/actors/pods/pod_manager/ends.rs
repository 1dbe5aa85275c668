//! How pods end for `PodManager`: over, then gone; and pods of the API that are over and that the runtime does not hold.
//!
//! A pod that is over may go from the API, and another may take its name. Its worker stays until nothing is left of it, and
//! so whoever looks for leftovers of unknown pods lets it be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::PodManager;
use crate::actors::agent::Agent;
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::{Cause, lock};
use crate::actors::pods::pod_worker::jobs::destroy_cgroup;
use crate::actors::pods::pod_worker::volumes::release;
use crate::logic::model::ids::PodUid;
use crate::logic::model::loudness::Loudness;
use crate::logic::pods::pod_resize::Trigger;
use crate::logic::pods::pod_roster::{full_name, is_static};
use crate::messages::Panicked;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::pod_manager::PodManagerMsg;
use crate::messages::prober::ProberMsg;
use crate::messages::status_manager::StatusManagerMsg;

/// Wait before a release that failed is tried again, before jitter. What hangs is asked after, not begun again.
const RELEASE_RETRY: Duration = Duration::from_secs(10);

/// Releases of pods that the runtime does not hold.
#[derive(Default)]
pub(super) struct Releases {
    under_way: BTreeSet<PodUid>,
    /// How the last try failed.
    problems: BTreeMap<PodUid, String>,
}

impl PodManager {
    /// A pod is over, whatever is left of it.
    pub(super) fn take_over(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        let may_be_static = self.roster.told(uid).is_none_or(is_static);
        if !self.roster.over(uid) {
            return; // Said before.
        }
        self.sweep.logs.ended(uid, context.clock().uptime());
        self.recount(uid);
        self.make_room(uid, context);
        self.judge_refused(context);
        self.judge_waiting(context);
        self.carry_out_for(uid, context);
        self.tell_active(context);
        if may_be_static {
            self.tell_statics(context); // Its name may be free for the mirror of another.
        }
        self.resize(Trigger::PodTerminated, context);
    }

    pub(super) fn take_finished(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        self.take_over(uid, context); // That word may have been lost.
        self.retire(uid, context);
    }

    fn retire(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        let Some(slot) = self.slots.remove(uid) else { return };
        if let Some(cell) = slot.cell {
            cell.stop(None);
        }
        context.child_left(&slot.address, None);
        self.agent.trace.forget(&slot.address.record().name);
        self.roster.finished(uid);
        lock(&self.agent.adapters.pod_ends).forget(uid);
        self.retired.insert(uid.clone(), (context.clock().stamp(), context.clock().uptime()));
        self.runtime.remove(uid);
        self.listed.remove(uid);
        let to = &self.agent.directory;
        context.tell(&to.status_manager, StatusManagerMsg::PodForgotten(uid.clone()));
        context.tell(&to.event_recorder, EventRecorderMsg::PodForgotten(uid.clone()));
        context.tell(&to.prober, ProberMsg::PodGone(uid.clone()));
        self.recount(uid);
        self.carry_out_for(uid, context);
        self.tell_active(context);
    }

    /// Has volumes and cgroup of such a pod released; the API server may not let it go before.
    pub(super) fn release_absent(&mut self, uid: PodUid, context: &mut Context<PodManagerMsg>) {
        let Some(pod) = self.api_pods.as_ref().and_then(|pods| pods.get(&uid)).cloned() else {
            self.releases.problems.remove(&uid);
            return;
        };
        if self.slots.contains_key(&uid) || !self.releases.under_way.insert(uid.clone()) {
            return;
        }
        let (agent, of, cause) = (Arc::clone(&self.agent), uid.clone(), context.cause());
        let work = async move { release_all(&agent, &of, &pod, cause).await };
        context.start("release", uid.to_string(), work, |outcome| PodManagerMsg::Released(uid, outcome));
    }

    pub(super) fn take_released(
        &mut self,
        uid: PodUid,
        outcome: Result<Result<(), String>, Panicked>,
        context: &mut Context<PodManagerMsg>,
    ) {
        self.releases.under_way.remove(&uid);
        match outcome.unwrap_or_else(|panicked| Err(panicked.to_string())) {
            Ok(()) => {
                self.releases.problems.remove(&uid);
                self.roster.released(&uid);
                self.recount(&uid);
                self.tell_active(context);
                // The runtime may have shown it after all: then its worker sees to its end.
                if !self.slots.contains_key(&uid) {
                    context.tell(&self.agent.directory.status_manager, StatusManagerMsg::NeverHere(uid));
                }
            }
            Err(why) => self.note_unreleased(uid, why, context),
        }
        let first = self.releases.problems.first_key_value();
        let note = first.map(|(uid, why)| format!("{} stays in the API: {why}", self.name_of(uid)));
        context.address().record().set_note(note);
    }

    /// As for other volumes that stay (VOL-13), this is in the log, once for each reason.
    fn note_unreleased(&mut self, uid: PodUid, why: String, context: &mut Context<PodManagerMsg>) {
        let pod = self.name_of(&uid);
        match Loudness::of_reason(self.releases.problems.get(&uid).map(String::as_str), &why) {
            Loudness::Debug => tracing::debug!(pod, why, "the pod's volumes or its cgroup stay still"),
            _ => tracing::warn!(pod, why, "the pod's volumes or its cgroup cannot be released yet"),
        }
        let wait = RELEASE_RETRY.mul_f64(1.0 + self.agent.adapters.chance.next() / 2.0);
        context.after(wait, PodManagerMsg::ReleaseDue(uid.clone()));
        self.releases.problems.insert(uid, why);
    }

    fn name_of(&self, uid: &PodUid) -> String {
        let pod = self.api_pods.as_ref().and_then(|pods| pods.get(uid));
        pod.map_or_else(|| uid.to_string(), |pod| full_name(pod).to_string())
    }
}

async fn release_all(agent: &Arc<Agent>, uid: &PodUid, pod: &Pod, cause: Cause) -> Result<(), String> {
    release(agent, uid, cause).await?;
    destroy_cgroup(agent, uid, Some(pod)).await
}
