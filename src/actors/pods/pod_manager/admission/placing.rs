//! `PodManager`'s questions to `AllocationManager`: CPUs and memory of their own for pods that are to be admitted.
//!
//! One question at a time about all pods that wait for one, but for those that ask for devices: a plugin may take its time,
//! so each of them has a question of its own. Nothing of this runs for pods without devices where no policy gives anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use ractor::RpcReplyPort;

use crate::actors::kit::address::AskError;
use crate::actors::kit::context::Context;
use crate::actors::pods::pod_manager::PodManager;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_admission::is_over;
use crate::logic::pods::pod_admission::placing::{Placing, QuestionId};
use crate::messages::Ended;
use crate::messages::pods::pod_manager::{AdmissionMsg, PodManagerMsg};
use crate::messages::resources::allocation_manager::{AllocationManagerMsg, HardwareMsg, PlaceRequest};

/// Patience with `AllocationManager`, which waits for the disk.
const PATIENCE: Duration = Duration::from_secs(60);
/// Wait before pods are asked about again that could not be decided.
const RETRY: Duration = Duration::from_secs(5);

impl PodManager {
    /// Has these asked about.
    pub(super) fn place(&mut self, pods: Vec<(PodUid, Arc<Pod>)>, context: &mut Context<PodManagerMsg>) {
        self.admissions.placements.ask(pods);
        for (question, pods) in self.admissions.placements.begin() {
            self.ask_placement(question, pods, context);
        }
    }

    fn ask_placement(&mut self, question: QuestionId, pods: Vec<Arc<Pod>>, context: &mut Context<PodManagerMsg>) {
        let asked: BTreeSet<PodUid> =
            pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).map(PodUid::from).collect();
        let holders = self.holders();
        let running = asked.into_iter().filter_map(|uid| self.held.running(&uid).cloned().map(|names| (uid, names)));
        let running = running.collect();
        // Sent within the turn, so that it cannot overtake or fall behind the news of holders.
        let (reply, answer) = ractor::concurrency::oneshot();
        let request = PlaceRequest { pods, holders: holders.clone(), running, reply: RpcReplyPort::from(reply) };
        let message = AllocationManagerMsg::Hardware(HardwareMsg::Place(request));
        let has_room = context.try_tell(&self.args.to.allocation_manager, message);
        self.admissions.placements.note_told(holders.filter(|_| has_room));
        let work = async move {
            let answered = tokio::time::timeout(PATIENCE, answer).await.map_err(|_| AskError::Late.to_string())?;
            answered.map_err(|_| AskError::Dropped.to_string())
        };
        context.start("place pods", "hardware", work, move |outcome| {
            PodManagerMsg::Admission(AdmissionMsg::Placed(question, outcome.into()))
        });
    }

    /// The answers are there: the pods are judged by them.
    pub(super) fn take_placed(
        &mut self,
        question: QuestionId,
        answers: Ended<BTreeMap<PodUid, Placing>>,
        context: &mut Context<PodManagerMsg>,
    ) {
        let answered = self.admissions.placements.end(question, answers.into_result());
        if self.admissions.placements.arm() {
            context.after(RETRY, PodManagerMsg::Admission(AdmissionMsg::PlaceAgainDue));
        }
        self.judge_placed(&answered, context);
        self.place(vec![], context);
    }

    /// Asks once more about a pod that was admitted.
    pub(super) fn place_admitted(&mut self, uid: PodUid, context: &mut Context<PodManagerMsg>) {
        let pod = self.sources.all().find(|(one, _)| **one == uid).map(|(_, pod)| Arc::clone(pod));
        if let Some(pod) = pod.filter(|_| self.admissions.is_admitted(&uid)) {
            self.admissions.placements.forget(&uid);
            self.place(vec![(uid, pod)], context);
        }
    }

    /// Pods that could not be decided are new again.
    pub(super) fn place_again(&mut self, context: &mut Context<PodManagerMsg>) {
        let delayed = self.admissions.placements.retry();
        self.judge_placed(&delayed, context);
    }

    /// Judges these, of which the managers said something new. Pods that run go on, with any word of theirs.
    fn judge_placed(&mut self, pods: &BTreeSet<PodUid>, context: &mut Context<PodManagerMsg>) {
        for uid in pods.iter().filter(|uid| self.admissions.is_admitted(uid)) {
            if let Some(Placing::Refused { message, .. }) = self.admissions.placements.answer(uid) {
                tracing::warn!(%uid, message, "a pod that runs gets no hardware of its own beside what it has");
            }
        }
        let open = |uid: &&PodUid| !self.admissions.api.is_decided(uid) && self.sources.api_pod(uid).is_some();
        let of_api: BTreeSet<PodUid> = pods.iter().filter(open).cloned().collect();
        if !of_api.is_empty() && self.can_judge() {
            self.judge_these(&of_api, context);
        }
        for (source, statics) in self.sources.statics().clone() {
            let is_open = |uid: &&PodUid| statics.contains_key(*uid) && !self.admissions.is_admitted(uid);
            if pods.iter().any(|uid| is_open(&uid)) {
                self.admit_statics(source, &statics, context);
                self.carry_out(context);
            }
        }
        self.tell_active(context);
        self.tell_undecided(context);
    }

    /// Pods that may hold hardware: all that are wanted and not refused, and all that still run. A refused static pod may, too,
    /// while the managers are asked about it again. `None` until every source was heard.
    fn holders(&self) -> Option<Arc<BTreeSet<PodUid>>> {
        if !self.admissions.placements.is_needed() || !self.roster.all_heard() || !self.can_judge() {
            return None;
        }
        let placements = &self.admissions.placements;
        let is_wanted = |uid: &PodUid, pod: &Pod| {
            !is_over(pod) && (self.admissions.why_not(uid).is_none() || placements.is_asked(uid))
        };
        let wanted = self.sources.all().filter(|(uid, pod)| is_wanted(uid, pod)).map(|(uid, _)| uid);
        let working = self.workers.iter().map(|(uid, _)| uid);
        let listed = self.held.listed().keys().filter(|uid| self.held.is_alive(uid));
        let all = wanted.chain(working).chain(listed).filter(|uid| !self.has_ended(uid));
        Some(Arc::new(all.cloned().collect()))
    }

    /// Tells who holds hardware, where that has changed: the rest is free for others.
    pub(in super::super) fn tell_holders(&mut self, context: &Context<PodManagerMsg>) {
        let Some(holders) = self.holders() else { return };
        if self.admissions.placements.knows_holders(&holders) {
            return;
        }
        let wanted = |uid: &PodUid| holders.contains(uid);
        self.admissions.placements.retain(wanted);
        let message = AllocationManagerMsg::Hardware(HardwareMsg::Holders(Arc::clone(&holders)));
        let has_room = context.try_tell(&self.args.to.allocation_manager, message);
        self.admissions.placements.note_told(Some(holders).filter(|_| has_room));
    }
}
