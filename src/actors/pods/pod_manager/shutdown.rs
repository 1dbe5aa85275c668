//! `PodManager`'s part in a shutdown of the machine: no pod comes in, and those that are here end when their turn comes.
//!
//! A pod of the API has failed by that, and its owner makes another one. A static pod is nobody else's: it runs again once the
//! machine does, or as soon as the shutdown is cancelled.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::node_stop::{NodeStop, patience};
use crate::logic::pods::pod_admission::is_over;
use crate::logic::pods::pod_lifecycle::Stage;
use crate::logic::pods::pod_roster::full_name;
use crate::messages::eviction_manager::EvictionManagerMsg;
use crate::messages::node::shutdown_manager::ShutdownManagerMsg;
use crate::messages::pods::pod_manager::{PodManagerMsg, ShutdownMsg};

/// How long an agent that starts during a shutdown waits until all its sources were heard.
const SOURCES_PATIENCE: Duration = Duration::from_secs(5);

impl PodManager {
    pub(super) fn receive_shutdown(&mut self, message: ShutdownMsg, context: &mut Context<PodManagerMsg>) {
        match message {
            ShutdownMsg::Changed(shuts_down) => {
                if std::mem::replace(&mut self.trouble.shuts_down, shuts_down) != shuts_down {
                    self.judge_refused(context);
                    self.judge_waiting(context);
                }
            }
            ShutdownMsg::Active(reply) => {
                if let Some(pods) = self.pods_to_end(context.clock().uptime()) {
                    let _ = reply.send(pods); // The asker may have left.
                }
            }
            ShutdownMsg::End { uid, grace } => self.end_for_shutdown(&uid, grace, context),
        }
    }

    /// Pods that have a worker and are not over, whichever source wants them; nothing before it is known which pods there
    /// are. An agent that has just started waits for its sources, but not for long: the machine does not wait, either.
    fn pods_to_end(&self, uptime: Duration) -> Option<Vec<Arc<Pod>>> {
        if !self.can_judge() || (!self.roster.all_heard() && uptime < SOURCES_PATIENCE) {
            return None;
        }
        let runs = |uid: &PodUid| self.workers.get(uid).is_some_and(|slot| slot.stage() != Stage::Terminated);
        let pods = self.sources.all().filter(|(uid, pod)| runs(uid) && !self.roster.is_left_over(uid) && !is_over(pod));
        Some(pods.map(|(_, pod)| Arc::clone(pod)).collect())
    }

    /// Ends the pod. Of one that ends already only the time may get shorter; one that is gone meanwhile is over.
    fn end_for_shutdown(&mut self, uid: &PodUid, grace: Duration, context: &mut Context<PodManagerMsg>) {
        let (Some(pod), true) = (self.sources.pod(uid).cloned(), self.workers.has(uid)) else {
            return self.tell_shut_down(uid, context);
        };
        tracing::info!(pod = %full_name(&pod), gracePeriod = grace.as_secs(), "Shutdown manager killing pod with gracePeriod");
        let stop = NodeStop::shut_down(context.now());
        if self.end_by_node(uid, &pod, stop, patience(&pod, Some(grace)), context) {
            self.carry_out_for(uid, context);
        }
        self.workers.shorten(uid, grace, context);
    }

    /// A pod that the node ended is over: somebody may wait for that.
    pub(super) fn tell_stopped(&self, uid: &PodUid, context: &Context<PodManagerMsg>) {
        if self.trouble.shuts_down {
            self.tell_shut_down(uid, context);
        }
        // An eviction may have given the pod less time, for whatever cause the node ends it.
        if self.admissions.stop_of(uid).is_some() {
            context.tell(&self.args.to.eviction_manager, EvictionManagerMsg::PodOver(uid.clone()));
        }
    }

    fn tell_shut_down(&self, uid: &PodUid, context: &Context<PodManagerMsg>) {
        context.tell(&self.args.to.shutdown_manager, ShutdownManagerMsg::PodOver(uid.clone()));
    }
}
