//! `PodManager`'s part in evictions: whom `EvictionManager` may choose from, and the end of those that it chose.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::logic::events::reasons::EventReason;
use crate::logic::eviction::Eviction;
use crate::logic::eviction::storage_limits::has_limits;
use crate::logic::model::ids::PodUid;
use crate::logic::model::pressure::Pressure;
use crate::logic::pods::node_stop::{NodeStop, patience};
use crate::logic::pods::pod_admission::is_over;
use crate::logic::pods::pod_lifecycle::Stage;
use crate::logic::pods::pod_roster::full_name;
use crate::messages::event_recorder::EventSubject;
use crate::messages::eviction_manager::EvictionManagerMsg;
use crate::messages::pods::pod_manager::{EvictionMsg, PodManagerMsg};

impl PodManager {
    pub(super) fn receive_eviction(&mut self, message: EvictionMsg, context: &mut Context<PodManagerMsg>) {
        match message {
            EvictionMsg::PressureChanged(pressure) => self.take_pressure(pressure, context),
            EvictionMsg::Evict(uid, eviction) => self.evict(&uid, *eviction, context),
            EvictionMsg::Active { limited, reply } => drop(reply.send(self.active_pods(limited))), // The asker may have left.
            EvictionMsg::Unfinished(reply) => drop(reply.send(self.unfinished())),
        }
    }

    /// Static pods are judged anew by it; those of the API that were refused stay so, as the API demands.
    fn take_pressure(&mut self, pressure: Pressure, context: &mut Context<PodManagerMsg>) {
        if std::mem::replace(&mut self.trouble.pressure, pressure) != pressure {
            self.judge_refused(context);
        }
    }

    /// Ends the pod. One that the node ends already is only given less time, and one that is gone meanwhile is over.
    fn evict(&mut self, uid: &PodUid, eviction: Eviction, context: &mut Context<PodManagerMsg>) {
        let pod = self.sources.api_pod(uid).cloned().filter(|_| self.workers.has(uid));
        let Some(pod) = pod else { return self.tell_over(uid, context) };
        let stop = NodeStop::evicted(eviction.message.clone(), eviction.is_disruption, context.now());
        if self.end_by_node(uid, &pod, stop, patience(&pod, Some(eviction.grace)), context) {
            let subject = EventSubject::pod(uid, &full_name(&pod));
            let event = subject.annotated_warning(EventReason::Evicted, eviction.message, eviction.annotations);
            context.tell(&self.args.to.event_recorder, event);
            self.carry_out_for(uid, context);
        } else if !self.is_candidate(uid, &pod) {
            return self.tell_over(uid, context);
        }
        self.workers.shorten(uid, eviction.grace, context);
    }

    fn tell_over(&self, uid: &PodUid, context: &Context<PodManagerMsg>) {
        context.tell(&self.args.to.eviction_manager, EvictionManagerMsg::PodOver(uid.clone()));
    }

    /// Pods of the API that take something of the node, with the resources that they were given.
    fn active_pods(&self, limited: bool) -> Vec<Arc<Pod>> {
        let pods = self.sources.api().into_iter().flatten();
        let active = pods.filter(|(uid, pod)| (!limited || has_limits(pod)) && self.is_candidate(uid, pod));
        active.map(|(uid, pod)| self.in_force_one(uid, pod)).collect()
    }

    /// Whether a pod may be evicted. As upstream, a pod that ends already may, until its containers have: it can still grow,
    /// and has perhaps an hour left.
    fn is_candidate(&self, uid: &PodUid, pod: &Pod) -> bool {
        let is_admitted = self.admissions.is_admitted(uid);
        match self.workers.get(uid).map(|slot| slot.stage()) {
            Some(Stage::Syncing) => is_admitted && !is_over(pod),
            Some(Stage::Terminating) => is_admitted || self.admissions.stop_of(uid).is_some(),
            Some(Stage::Terminated) | None => false,
        }
    }

    /// Pods that are wanted or still going, but for those whose containers have all ended for good.
    fn unfinished(&self) -> Option<BTreeSet<PodUid>> {
        let known = self.known_to_collector()?;
        let is_finished = |uid: &PodUid| self.workers.get(uid).is_some_and(|slot| slot.stage() == Stage::Terminated);
        Some(known.into_iter().filter(|uid| !is_finished(uid)).collect())
    }
}
