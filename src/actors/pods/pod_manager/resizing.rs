//! `PodManager`'s part of in-place resize: what pods are given, and which resizes wait.
//!
//! `logic::pods::pod_resize` and `logic::pods::pod_admission` decide. An allocation is kept on the disk before anyone acts
//! on it; pods are handed on with their allocations in the place of their requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_admission::placing::Placing;
use crate::logic::pods::pod_admission::{Judged, Surroundings, judge_resize, update_problem};
use crate::logic::pods::pod_manager::pod_sources::Pods;
use crate::logic::pods::pod_resize::{
    self, Candidate, PENDING, PendingReason, PendingResize, PodResources, ResizeConditions, Trigger,
    counted_with_actual, in_order, infeasible, is_increase, operations,
};
use crate::logic::pods::pod_roster::{full_name, is_over};
use crate::logic::resources::{QosClass, pod_qos};
use crate::messages::Ended;
use crate::messages::event_recorder::EventSubject;
use crate::messages::pods::pod_manager::{PodManagerMsg, ResizesMsg};
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::pods::user_namespaces::UserNamespacesMsg;
use crate::messages::resources::allocation_manager::{AllocationManagerMsg, ResizeCount};

/// Wait before resizes that found no room are looked at again although nothing happened (upstream's).
const RETRY: Duration = Duration::from_secs(180);
/// The same while it is not known yet which pods there are.
const RETRY_EARLY: Duration = Duration::from_secs(30);
/// Wait before what could not be kept on the disk is tried again.
const RETRY_KEEPING: Duration = Duration::from_secs(5);
/// Patience with `AllocationManager`, which waits for the disk.
const KEEP_PATIENCE: Duration = Duration::from_secs(60);

impl PodManager {
    pub(super) fn receive_resizes(&mut self, message: ResizesMsg, context: &mut Context<PodManagerMsg>) {
        match message {
            ResizesMsg::AllocationsKept(outcome) => self.take_kept(outcome, context),
            ResizesMsg::ResizeRetryDue => {
                self.resizes.timer = None;
                self.resize(Trigger::PeriodicRetry, context);
                self.keep_allocations(context);
            }
        }
    }

    /// Pods as they are carried out: with what they were given, and without what the gates have off.
    pub(super) fn in_force(&self, pods: &Pods) -> Pods {
        pods.iter().map(|(uid, pod)| (uid.clone(), self.in_force_one(uid, pod))).collect()
    }

    pub(super) fn in_force_one(&self, uid: &PodUid, pod: &Arc<Pod>) -> Arc<Pod> {
        let settings = &self.args.settings;
        let asked = settings.restart_gates.applied(pod);
        self.as_observed(uid, &asked, self.resizes.allocations.in_force(uid, &asked, &settings.resize))
    }

    /// The pod with the generation that its status may say was observed. A generation whose resize is not decided yet is not
    /// among these: who waits for it would take the resize for made.
    fn as_observed(&self, uid: &PodUid, asked: &Pod, given: Arc<Pod>) -> Arc<Pod> {
        if is_over(asked) || self.resizes.allocations.is_judged(uid, asked, &self.args.settings.resize) {
            return given;
        }
        let shown = || asked.status.as_ref().and_then(|status| status.observed_generation);
        let before = self.roster.wanted(uid).and_then(|known| known.metadata.generation).or_else(shown);
        match before.filter(|before| Some(*before) != given.metadata.generation) {
            None => given,
            Some(before) => {
                let mut given = Arc::unwrap_or_clone(given);
                given.metadata.generation = Some(before);
                Arc::new(given)
            }
        }
    }

    /// Pods with what they take of the node.
    pub(super) fn counted(&self, pods: &Pods) -> Pods {
        pods.iter().map(|(uid, pod)| (uid.clone(), self.counted_one(uid, pod))).collect()
    }

    pub(super) fn counted_one(&self, uid: &PodUid, pod: &Arc<Pod>) -> Arc<Pod> {
        let gates = &self.args.settings.resize;
        counted_with_actual(&self.resizes.allocations.counted(uid, pod, gates), gates.by_pod)
    }

    /// Those are admitted: they have what they asked for, unless they had something before.
    pub(super) fn give(&mut self, admitted: &Pods, context: &mut Context<PodManagerMsg>) {
        for (uid, pod) in admitted.iter().filter(|(_, pod)| !is_over(pod)) {
            self.resizes.allocations.admit(uid, pod, &self.args.settings.resize);
        }
        self.keep_allocations(context);
    }

    /// This one is admitted.
    pub(super) fn give_one(&mut self, uid: &PodUid, pod: &Pod, context: &mut Context<PodManagerMsg>) {
        if !is_over(pod) && self.resizes.allocations.admit(uid, pod, &self.args.settings.resize) {
            self.keep_allocations(context);
        }
    }

    /// The earlier allocations are known now: pods may be judged.
    pub(super) fn take_allocated(
        &mut self,
        given: &BTreeMap<PodUid, PodResources>,
        context: &mut Context<PodManagerMsg>,
    ) {
        // `AllocationManager` has begun, and forgotten who holds hardware.
        self.admissions.placements.note_told(None);
        self.tell_holders(context);
        if self.resizes.allocations.recall(given) {
            self.remember(context);
            self.judge_again(context);
            if self.can_judge() {
                self.clean_leftovers(context);
                self.see_resizes(context);
            }
        }
    }

    /// A source told what it wants, and this was wanted before: counts what is asked for; says why resizes are to be
    /// looked at.
    pub(super) fn note_changes(
        &mut self,
        before: &Pods,
        after: &Pods,
        context: &Context<PodManagerMsg>,
    ) -> Option<Trigger> {
        let gone = before.iter().filter(|(uid, _)| !after.contains_key(*uid)).map(|(uid, old)| (uid, Some(old), None));
        let there = after.iter().map(|(uid, new)| (uid, before.get(uid), Some(new)));
        let triggers = gone.chain(there).map(|(uid, old, new)| self.note_change(uid, old, new, context));
        triggers.flatten().min()
    }

    /// The same of one pod.
    pub(super) fn note_change(
        &mut self,
        uid: &PodUid,
        old: Option<&Arc<Pod>>,
        new: Option<&Arc<Pod>>,
        context: &Context<PodManagerMsg>,
    ) -> Option<Trigger> {
        if let (Some(old), Some(new)) = (old, new)
            && !Arc::ptr_eq(old, new)
            && old.spec != new.spec
        {
            self.tell_undeclared(old, new, context);
            self.resizes.allocations.changed(uid, new.metadata.generation);
            self.resizes.tell_later(uid);
            let counts = operations(old, new, &self.args.settings.resize);
            self.count(counts.into_iter().map(ResizeCount::Requested).collect(), context);
        }
        Trigger::between(old, new)
    }

    /// A pod was changed in a way that this node does not declare; the change stands, as upstream.
    fn tell_undeclared(&self, old: &Pod, new: &Pod, context: &Context<PodManagerMsg>) {
        if let Some(why) = update_problem(old, new, self.args.settings.declared_features.as_deref()) {
            let uid = PodUid::from(new.metadata.uid.as_deref().unwrap_or_default());
            let event =
                EventSubject::pod(&uid, &full_name(new)).warning(EventReason::FailedNodeDeclaredFeaturesCheck, why);
            context.tell(&self.args.to.event_recorder, event);
        }
    }

    fn count(&self, counts: Vec<ResizeCount>, context: &Context<PodManagerMsg>) {
        if !counts.is_empty() {
            context.tell(&self.args.to.allocation_manager, AllocationManagerMsg::Counted(counts));
        }
    }

    /// An admitted pod as its source wants it.
    fn admitted_pod(&self, uid: &PodUid) -> Option<Arc<Pod>> {
        self.sources.pod(uid).filter(|_| self.admissions.is_admitted(uid)).cloned()
    }

    /// The same, unless it ends or has ended: then it gets nothing more.
    fn changeable_pod(&self, uid: &PodUid) -> Option<Arc<Pod>> {
        self.admitted_pod(uid).filter(|pod| !is_over(pod) && !self.roster.ended().contains(uid))
    }

    /// Takes note of whether this pod asks for other resources than it was given.
    pub(super) fn note_asking(&mut self, uid: &PodUid) {
        let pod = self.changeable_pod(uid);
        self.resizes.note_asking(uid, pod.as_ref(), &self.args.settings.resize);
    }

    /// The same of all pods.
    pub(super) fn note_asking_all(&mut self) {
        let all: Vec<PodUid> = self.sources.all().map(|(uid, _)| uid.clone()).collect();
        self.resizes.asking.clear();
        all.iter().for_each(|uid| self.note_asking(uid));
    }

    /// Looks at all resizes that are asked for and not taken on, in order.
    pub(super) fn resize(&mut self, trigger: Trigger, context: &mut Context<PodManagerMsg>) {
        if !self.can_judge() || !self.roster.all_heard() {
            if !self.resizes.allocations.all_waiting().is_empty() {
                self.resizes.arm_retry(RETRY_EARLY, context);
            }
            return;
        }
        self.resizes.was_seen = true;
        let waited = self.resizes.allocations.all_waiting().clone();
        let mut asked = Vec::new();
        for uid in &self.resizes.asking {
            let pod = self.changeable_pod(uid);
            if let Some(pod) = pod.filter(|pod| self.resizes.is_open(uid, pod, &self.args.settings.resize)) {
                asked.push(self.candidate(uid, &pod));
            }
        }
        for uid in in_order(asked) {
            self.judge_one(&uid, trigger, context);
        }
        self.keep_allocations(context);
        self.tell_resizes(context);
        // After why it waits, the generation that was judged: its status says both, or neither.
        let both = waited.keys().chain(self.resizes.allocations.all_waiting().keys());
        let changed: BTreeSet<PodUid> =
            both.filter(|uid| waited.get(*uid) != self.resizes.allocations.waiting(uid)).cloned().collect();
        for uid in &changed {
            self.hand_on_given(uid);
            self.carry_out_for(uid, context);
        }
        if self.resizes.allocations.all_waiting().values().any(|waiting| waiting.reason == PendingReason::Deferred) {
            self.resizes.arm_retry(RETRY, context);
        }
    }

    /// Looks at resizes for the first time once everything is known that they are judged by: what was asked for while no
    /// agent ran is nobody's news.
    pub(super) fn see_resizes(&mut self, context: &mut Context<PodManagerMsg>) {
        if !self.resizes.was_seen && self.can_judge() && self.roster.all_heard() {
            self.resize(Trigger::PodsAdded, context);
        }
    }

    fn candidate(&self, uid: &PodUid, pod: &Arc<Pod>) -> Candidate {
        let (options, gates) = (&self.args.settings.resources, &self.args.settings.resize);
        let shown = wait_in_status(pod).map(|shown| shown.since);
        Candidate {
            uid: uid.clone(),
            increase: is_increase(pod, &self.resizes.allocations.in_force(uid, pod, gates), options),
            priority: pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default(),
            guaranteed: pod_qos(pod, options.pod_level_resources) == QosClass::Guaranteed,
            since: self.resizes.allocations.waiting(uid).map(|waiting| waiting.since).or(shown),
        }
    }

    fn judge_one(&mut self, uid: &PodUid, trigger: Trigger, context: &mut Context<PodManagerMsg>) {
        let Some(pod) = &self.admitted_pod(uid) else { return };
        let (options, gates) = (self.args.settings.resources, self.args.settings.resize);
        let allocated = self.resizes.allocations.in_force(uid, pod, &gates);
        if let Some(never) = infeasible(pod, &allocated, &gates, &options) {
            self.count(vec![ResizeCount::Infeasible(never.detail)], context);
            let reason = PendingReason::Infeasible;
            return self.let_wait(uid, pod, reason, reason.into(), never.message, context);
        }
        self.recount_all(); // Of what has ended nobody may have said so yet.
        let node = self.node.clone().unwrap_or_else(|| Arc::new(self.own_node()));
        let (abilities, leaving) = (self.abilities(), self.leaving());
        let mut room = std::mem::take(self.shares.room_mut());
        room.set(uid, None, options.pod_level_resources);
        let surroundings = Surroundings {
            runs: &|_| true,
            takes_room: &|_, _| true,
            may_go_by_node: &|_| true,
            placed: &|uid, _| match self.admissions.placements.answer(uid) {
                // It has its devices, whatever the Node says of them meanwhile.
                Some(given @ Placing::GivenDevices(_)) => Some(given),
                _ => Some(&Placing::Given),
            },
            leaving: &leaving,
            node: &node,
            abilities: &abilities,
        };
        let judged = judge_resize(pod, &room, surroundings);
        *self.shares.room_mut() = room;
        self.tell_judged(Judged { victims: judged.victims, ..Judged::default() }, context);
        match judged.delay {
            None => self.resizes.allocations.accept(uid, pod, &gates, trigger),
            Some(delay) => {
                let word = delay.word();
                self.let_wait(uid, pod, PendingReason::Deferred, &word, delay.message, context);
            }
        }
        self.recount(uid);
    }

    /// The resize waits: the pod's status says so, and an Event when that is news.
    fn let_wait(
        &mut self,
        uid: &PodUid,
        pod: &Arc<Pod>,
        reason: PendingReason,
        detail: &str,
        message: String,
        context: &Context<PodManagerMsg>,
    ) {
        let generation = pod.metadata.generation;
        let text = pod_resize::pending(pod, generation.unwrap_or_default(), detail, &message);
        let pending = PendingResize { reason, message, generation, since: context.now() };
        self.resizes.tell_later(uid);
        if self.resizes.allocations.wait(uid, pending, wait_in_status(pod)) {
            let event = match reason {
                PendingReason::Infeasible => EventReason::ResizeInfeasible,
                PendingReason::Deferred => EventReason::ResizeDeferred,
            };
            let subject = EventSubject::pod(uid, &full_name(pod));
            context.tell(&self.args.to.event_recorder, subject.warning(event, text));
        }
    }

    /// Has what was given kept on the disk; one write at a time.
    pub(super) fn keep_allocations(&mut self, context: &mut Context<PodManagerMsg>) {
        let changes = self.resizes.allocations.to_keep();
        if self.resizes.is_keeping || changes.is_empty() {
            return;
        }
        self.resizes.is_keeping = true;
        let (to, cause) = (self.args.to.allocation_manager.clone(), context.cause());
        let work = async move {
            let ask = |reply| AllocationManagerMsg::Allocate(changes.clone(), reply);
            let asked = to.ask(cause, KEEP_PATIENCE, ask).await;
            asked.map_err(|error| error.to_string()).and_then(|kept| kept).map(|()| changes)
        };
        context.start("keep allocations", "pods", work, |outcome| {
            PodManagerMsg::Resizes(ResizesMsg::AllocationsKept(outcome.into()))
        });
    }

    /// The kept allocations are in force: the workers of these pods hear of it.
    fn take_kept(&mut self, outcome: Ended<BTreeMap<PodUid, PodResources>>, context: &mut Context<PodManagerMsg>) {
        self.resizes.is_keeping = false;
        let kept = match outcome.into_result() {
            Ok(kept) => kept,
            Err(why) => {
                tracing::warn!(why, "what pods are given could not be kept, resizes wait for that");
                self.resizes.allocations.not_kept();
                self.note_asking_all();
                return self.resizes.arm_retry(RETRY_KEEPING, context);
            }
        };
        let resized = self.resizes.allocations.kept(&kept);
        for (uid, trigger) in &resized {
            self.resizes.tell_later(uid);
            self.note_asking(uid);
            let Some(pod) = &self.admitted_pod(uid) else { continue };
            let message = pod_resize::started(pod, pod.metadata.generation.unwrap_or_default());
            let event = EventSubject::pod(uid, &full_name(pod)).normal(EventReason::ResizeStarted, message);
            context.tell(&self.args.to.event_recorder, event);
            self.count(trigger.iter().map(|trigger| ResizeCount::DeferredAccepted(*trigger)).collect(), context);
        }
        for (uid, _) in &resized {
            self.hand_on_given(uid);
            self.recount(uid);
            self.carry_out_for(uid, context);
        }
        if !resized.is_empty() {
            self.tell_resizes(context);
            self.tell_active(context);
        }
        self.keep_allocations(context);
    }

    /// An admitted pod is wanted with the resources that it was given since.
    fn hand_on_given(&mut self, uid: &PodUid) {
        let Some(pod) = self.admitted_pod(uid) else { return };
        let Some(source) = self.sources.source_of(uid) else { return };
        let in_force = self.in_force_one(uid, &pod);
        self.roster.set_pod(source, uid, Some(in_force));
    }

    /// Tells workers why their pods' resizes wait, and that they do no more. News that a worker has no room for, or that it
    /// cannot use before it has its pod, go out later.
    pub(super) fn tell_resizes(&mut self, context: &mut Context<PodManagerMsg>) {
        for uid in std::mem::take(&mut self.resizes.due) {
            let Some(slot) = self.workers.get(&uid) else { continue };
            let waiting = self.resizes.allocations.waiting(&uid);
            if slot.resize_told().is_some_and(|told| told.as_ref() == waiting) {
                continue;
            }
            if self.roster.owes_spec(&uid) {
                self.resizes.due.insert(uid);
                continue;
            }
            let says_so = || self.roster.wanted(&uid).is_some_and(|pod| wait_in_status(pod).is_some());
            if waiting.is_none() && slot.resize_told().is_none() && !says_so() {
                continue;
            }
            let waiting = waiting.cloned();
            let has_room = self.workers.tell(&uid, PodWorkerMsg::ResizeJudged(waiting.clone()), context);
            match self.workers.get_mut(&uid).filter(|_| has_room) {
                Some(slot) => slot.note_resize_told(waiting),
                None => drop(self.resizes.due.insert(uid)),
            }
        }
    }

    /// Forgets allocations of pods that are no more, here and on the disk.
    pub(super) fn forget_allocations(&mut self, known: &Arc<BTreeSet<PodUid>>, context: &Context<PodManagerMsg>) {
        self.resizes.allocations.retain(known);
        context.tell(&self.args.to.allocation_manager, AllocationManagerMsg::Known(Arc::clone(known)));
        context.tell(&self.args.to.user_namespaces, UserNamespacesMsg::Known(Arc::clone(known)));
    }
}

/// The wait of a resize that the API server shows.
fn wait_in_status(pod: &Pod) -> Option<PendingResize> {
    let status = pod.status.as_ref()?;
    status.conditions.iter().flatten().find(|condition| condition.type_ == PENDING)?;
    ResizeConditions::of_status(status).pending
}
