//! Words of `PodManager` about pods that it does not take, or not yet.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::actors::kit::context::Context;
use crate::actors::pods::pod_manager::PodManager;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_admission::{Verdict, is_over, judge, not_yet};
use crate::logic::pods::pod_lifecycle::Stage;
use crate::logic::pods::pod_roster::is_static;
use crate::logic::pods::wait::{AdmissionWait, PodWait};
use crate::logic::resources::pod_qos;
use crate::logic::status::pod_status::{rejected_status, waiting_status};
use crate::messages::event_recorder::EventSubject;
use crate::messages::pods::pod_manager::{HousekeepingMsg, PodManagerMsg};
use crate::messages::status::status_manager::{PodNews, PodView, StatusManagerMsg};

impl PodManager {
    /// A pod that makes room had its time; says so where people look if it has not ended.
    pub(super) fn tell_grace_exceeded(&self, uid: &PodUid, context: &Context<PodManagerMsg>) {
        let ending = self.workers.get(uid).filter(|slot| slot.stage() != Stage::Terminated);
        if let Some(slot) = ending {
            let message = "Container runtime did not kill the pod within specified grace period.";
            let event = EventSubject::pod(uid, slot.full_name()).warning(EventReason::ExceededGracePeriod, message);
            context.tell(&self.args.to.event_recorder, event);
        }
    }

    /// A pod that cannot be judged for long says so where people look. One that was started already has more to tell.
    pub(in super::super) fn tell_undecided(&self, context: &Context<PodManagerMsg>) {
        let abilities = self.abilities();
        let started = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        let undecided = self.sources.api().into_iter().flat_map(|pods| self.admissions.api.undecided(pods));
        for (uid, pod) in undecided.filter(|(_, pod)| !started(pod)) {
            let verdict = match judge(pod, self.node.as_deref(), &abilities) {
                waits @ Verdict::NotYet { .. } => waits,
                _ if self.held.relisted().is_none() => not_yet(AdmissionWait::Relist),
                _ if self.admissions.placements.is_open(uid, pod) => {
                    let why = self.admissions.placements.delay_of(uid);
                    not_yet(AdmissionWait::Hardware(why.map(ToOwned::to_owned)))
                }
                _ => self.admissions.api.for_room(&self.leaving()),
            };
            let Verdict::NotYet { what, until } = verdict else { continue };
            let wait = PodWait::Admission(what, until);
            let gates = self.args.worker_tools.settings.status;
            let view = PodView {
                uid: uid.clone(),
                pod: Arc::clone(pod),
                status: Arc::new(waiting_status(pod, gates, wait.to_string(), context.now())),
                may_run: true,
                is_over: false,
                waiting: vec![wait].into(),
            };
            context.tell(&self.args.to.status_manager, StatusManagerMsg::StatusChanged(view));
        }
    }

    /// Tells of a pod that is refused. One that still ends has its worker to tell of it, unless that knows of nothing but what
    /// the runtime held.
    pub(in super::super) fn tell_rejected(&self, uid: &PodUid, pod: &Arc<Pod>, context: &Context<PodManagerMsg>) {
        let Some((reason, message)) = self.admissions.why_not(uid) else { return };
        if self.workers.has(uid) && self.roster.told(uid).is_some() {
            return;
        }
        let stop = self.admissions.stop_of(uid);
        if stop.is_some() && is_over(pod) {
            let due = PodManagerMsg::Housekeeping(HousekeepingMsg::ReleaseDue(uid.clone()));
            return context.tell(&self.args.to.pod_manager, due);
        }
        let qos = pod_qos(pod, self.args.settings.resources.pod_level_resources);
        let status = match stop {
            // The facts of its containers and addresses stay true.
            Some(stop) => stop.status(pod.status.clone().unwrap_or_default()),
            None => rejected_status(pod, reason, message, qos.as_str(), context.now()),
        };
        let view = PodView {
            uid: uid.clone(),
            pod: Arc::clone(pod),
            status: Arc::new(status),
            may_run: false,
            is_over: false,
            waiting: if is_static(pod) { vec![PodWait::NotYet(message.to_owned())].into() } else { Arc::default() },
        };
        context.tell(&self.args.to.status_manager, StatusManagerMsg::Pods(PodNews::Rejected(view)));
    }
}
