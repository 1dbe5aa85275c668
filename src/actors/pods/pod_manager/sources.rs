//! The sources' pods, as `PodManager` takes them: a complete set, or one pod of the API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Stamp;
use crate::logic::pods::pod_manager::pod_sources::Pods;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::status::status_manager::{PodNews, StatusManagerMsg};

impl PodManager {
    /// The API server told what it wants.
    pub(super) fn take_api(&mut self, pods: Pods, context: &mut Context<PodManagerMsg>) {
        let before = self.sources.set_api(pods.clone());
        let trigger = self.note_changes(&before, &pods, context);
        self.admit(context);
        if let Some(trigger) = trigger {
            self.resize(trigger, context);
            self.judge_refused(context);
        }
        self.carry_out(context);
        self.tell_known(context);
        self.tell_resizes(context);
        self.see_resizes(context);
    }

    /// The API server told of one pod: what it is to be by now, or that it is wanted no more. No other is looked at.
    pub(super) fn take_api_pod(&mut self, uid: &PodUid, pod: Option<Arc<Pod>>, context: &mut Context<PodManagerMsg>) {
        // Before the complete set nothing is to be done: this pod is in it.
        let Some(before) = self.sources.set_api_pod(uid, pod.as_ref()) else { return };
        let trigger = self.note_change(uid, before.as_ref(), pod.as_ref(), context);
        self.admit_one(uid, context);
        if let Some(trigger) = trigger {
            self.resize(trigger, context);
            self.judge_refused(context);
        }
        self.carry_out_for(uid, context);
        self.tell_active(context);
        self.tell_resizes(context);
    }

    /// A source of static pods told what it wants, and which of them begin new lives.
    pub(super) fn take_source(
        &mut self,
        source: &'static str,
        pods: Pods,
        lives: BTreeMap<PodUid, Stamp>,
        context: &mut Context<PodManagerMsg>,
    ) {
        self.begin_lives(source, lives);
        self.take_statics(source, pods, context);
        self.carry_out(context);
        self.tell_known(context);
        self.tell_resizes(context);
        self.see_resizes(context);
    }

    fn take_statics(&mut self, source: &'static str, pods: Pods, context: &mut Context<PodManagerMsg>) {
        let before = self.sources.set_statics(source, pods.clone());
        let trigger = self.note_changes(&before, &pods, context);
        for uid in before.keys().filter(|uid| !pods.contains_key(*uid) && !self.workers.has(uid)) {
            // It was refused: nobody else says that it is no more.
            context.tell(&self.args.to.status_manager, StatusManagerMsg::Pods(PodNews::PodForgotten(uid.clone())));
        }
        self.admit_statics(source, &pods, context);
        if let Some(trigger) = trigger {
            self.resize(trigger, context);
        }
    }

    /// Has wanted what the API server wanted when it was last heard, with what was given: not before both are known.
    pub(super) fn remember(&mut self, context: &mut Context<PodManagerMsg>) {
        if self.resizes.is_recalled()
            && let Some(pods) = self.sources.take_recalled()
        {
            self.roster.remember(self.in_force(&pods));
            self.carry_out(context);
            self.tell_known(context);
        }
    }
}
