//! Reports of `PodManager` to other actors about all pods: which there are, which are gone, and that everything was heard.

use std::sync::Arc;

use super::PodManager;
use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::Context;
use crate::actors::pods::pod_worker::PodWorker;
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::prober::ProberMsg;
use crate::messages::status::mirror_manager::MirrorManagerMsg;
use crate::messages::status::status_manager::{PodNews, StatusManagerMsg};

impl PodManager {
    /// Tells everything once more: someone who learns from the workers was started again.
    pub(super) fn repeat(&mut self, context: &mut Context<PodManagerMsg>) {
        self.repeat_stopped(context);
        self.workers.tell_all(&|| PodWorkerMsg::Repeat, context);
        self.repeat_api(context);
        self.heard_all_told = false;
        self.active_told = None;
        self.tell_known(context);
        self.tell_heard_all(context);
    }

    /// Tells once more of pods that have no worker to do so.
    fn repeat_api(&self, context: &Context<PodManagerMsg>) {
        for uid in self.roster.ended() {
            context.tell(&self.args.to.status_manager, StatusManagerMsg::Pods(PodNews::NeverHere(uid.clone())));
        }
        for (uid, pod) in self.sources.all() {
            self.tell_rejected(uid, pod, context);
        }
        if self.roster.all_heard() {
            self.tell_offline(context);
        }
        if let Some(node) = &self.node {
            context.tell(&self.args.to.mirror_manager, MirrorManagerMsg::NodeChanged(Arc::clone(node)));
        }
    }

    /// Tells what depends on which pods there are.
    pub(super) fn tell_known(&mut self, context: &mut Context<PodManagerMsg>) {
        self.recount_all();
        self.tell_active(context);
        self.tell_statics(context);
        if self.roster.all_heard() && !self.sweep.was_begun() && self.can_judge() {
            self.clean_leftovers(context);
        }
    }

    /// Tells which static pods there are, for their mirrors: one that was refused says there why (POD-31). Not before it is
    /// known what the runtime holds: a former pod of a name may still have to end.
    pub(super) fn tell_statics(&self, context: &Context<PodManagerMsg>) {
        let is_known = self.roster.statics_heard() && self.held.relisted().is_some();
        if is_known && self.args.adapters.api.is_some() {
            let statics = self.sources.statics().values().flat_map(|pods| pods.values()).cloned().collect();
            let statics = MirrorManagerMsg::Statics(statics, self.roster.ending_statics(self.held.listed()));
            context.tell(&self.args.to.mirror_manager, statics);
        }
    }

    /// Has what is kept of pods forgotten that went while this actor itself was restarted: nobody else would say so.
    pub(super) fn tell_gone(&self, context: &Context<PodManagerMsg>) {
        let known = self.roster.known();
        self.args.trace.keep_only(PodWorker::KIND, &self.workers.trace_names());
        let to = &self.args.to;
        let shown = known.iter().chain(self.sources.all().map(|(uid, _)| uid)).cloned().collect();
        let ended = self.roster.ended().clone();
        context.tell(&to.status_manager, StatusManagerMsg::Pods(PodNews::Known { pods: Arc::new(shown), ended }));
        context.tell(&to.prober, ProberMsg::Known(Arc::new(known)));
    }

    /// Has those answered who asked before all pods were known. Nothing waits for a pod without a worker. So this comes
    /// after the orders that start workers, and after the last of them where not all start at once.
    pub(super) fn tell_heard_all(&mut self, context: &mut Context<PodManagerMsg>) {
        let are_all_started = self.roster.all_heard() && self.can_judge() && !self.roster.is_unfinished();
        if self.heard_all_told || !are_all_started {
            return;
        }
        let heard = StatusManagerMsg::Pods(PodNews::HeardAll(self.roster.with_worker()));
        self.heard_all_told = context.try_tell(&self.args.to.status_manager, heard);
        if !self.heard_all_told {
            self.arm_retell(context);
        }
    }
}
