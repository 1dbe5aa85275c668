//! `PodManager`'s judgement of new pods: which pods come in, which are refused, and which have to make room.
//!
//! The decisions are those of `logic::pods::pod_admission`; what is kept is kept by the actor.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeStatus, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::PodManager;
use crate::actors::kit::context::Context;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Stamp;
use crate::logic::pods::node_stop::{NodeStop, PREEMPTED, patience};
use crate::logic::pods::pod_admission::{Judged, NodeAbilities, Room, Surroundings, Victim, has_room};
use crate::logic::pods::pod_manager::pod_sources::Pods;
use crate::logic::pods::pod_roster::full_name;
use crate::logic::volumes::plan::NodeFacts;
use crate::messages::event_recorder::EventSubject;
use crate::messages::pods::offline_pods::OfflinePodsMsg;
use crate::messages::pods::pod_manager::{AdmissionMsg, PodManagerMsg};
use crate::messages::pods::pod_source::SourceKind;
use crate::messages::status::status_manager::{PodNews, StatusManagerMsg};
use crate::platform::observer::Observation;

mod placing;
mod rereading;
mod telling;

pub(super) use rereading::NodeReread;

impl PodManager {
    pub(super) fn receive_admission(&mut self, message: AdmissionMsg, context: &mut Context<PodManagerMsg>) {
        match message {
            AdmissionMsg::GraceExceeded(uid) => self.tell_grace_exceeded(&uid, context),
            AdmissionMsg::NoRoomForVolume(uid, message) => self.refuse_volume(&uid, message, context),
            AdmissionMsg::LacksDevices(uid) => self.place_admitted(uid, context),
            AdmissionMsg::NodeReread(read) => self.node_reread(read, context),
            AdmissionMsg::Placed(question, answers) => self.take_placed(question, answers, context),
            AdmissionMsg::PlaceAgainDue => {
                self.admissions.placements.disarm();
                self.place_again(context);
            }
            AdmissionMsg::DevicesCame => {
                self.admissions.placements.outdate();
                self.place_again(context);
                self.judge_refused(context);
            }
        }
    }

    pub(super) fn abilities(&self) -> NodeAbilities {
        let settings = &self.args.settings;
        NodeAbilities {
            pod_level: settings.resources.pod_level_resources,
            sysctls: settings.sysctls.clone(),
            app_armor: settings.app_armor,
            trouble: self.trouble,
            groups_policy: self.workers.health().groups_policy,
            host_network_users: self.workers.health().host_network_users,
            declared: settings.declared_features.clone(),
        }
    }

    /// Judges all that is not decided yet: something that it may have waited for is there.
    pub(super) fn judge_again(&mut self, context: &mut Context<PodManagerMsg>) {
        for (source, pods) in self.sources.statics().clone() {
            self.admit_statics(source, &pods, context);
        }
        self.admit(context);
        self.carry_out(context);
        self.tell_known(context);
    }

    /// Judges static pods anew that were refused: the Node, other pods, or what the runtime can do may have changed. Upstream
    /// never does; but a static pod is the administrator's own, and nobody makes another in its place.
    pub(super) fn judge_refused(&mut self, context: &mut Context<PodManagerMsg>) {
        let open = self.admissions.with_open_refusals();
        self.admissions.forget_placement_refusals();
        for source in &open {
            let pods = self.sources.statics_of(source);
            self.admit_statics(source, &pods, context);
        }
        if !open.is_empty() {
            self.carry_out(context);
            self.tell_statics(context);
        }
    }

    /// Judges the pods of the API server that are new. Until the Node is known, and what the runtime holds, all of them
    /// wait, and nothing that the API server may want is ended.
    pub(super) fn admit(&mut self, context: &mut Context<PodManagerMsg>) {
        let Some(pods) = self.sources.api().cloned() else { return };
        let Some(node) = self.node.clone().filter(|_| self.can_judge()) else { return };
        let was_heard = self.roster.all_heard();
        self.recount_all();
        let (mut admissions, counted) = (std::mem::take(&mut self.admissions.api), self.counted(&pods));
        let judge = |room: &mut Room, at: Surroundings<'_>| admissions.take(&counted, room, at);
        let judged = self.judged(&node, judge);
        self.admissions.api = admissions;
        self.tell_judged(judged, context);
        let admitted = self.admissions.api.admitted(&pods);
        self.tell_offline(context);
        self.give(&admitted, context);
        self.roster.set(SourceKind::Api.as_str(), self.in_force(&admitted));
        self.note_asking_all();
        if !was_heard {
            self.tell_known(context);
        }
    }

    /// Static pods begin new lives: one that was refused is judged anew.
    pub(super) fn begin_lives(&mut self, source: &'static str, lives: BTreeMap<PodUid, Stamp>) {
        for uid in lives.iter().filter(|(uid, life)| self.roster.life(uid) != Some(**life)).map(|(uid, _)| uid) {
            self.admissions.statics_of(source).forget_refusal(uid);
        }
        self.roster.set_lives(source, lives);
    }

    /// Judges with what is known of the node and of what others take.
    fn judged(&mut self, node: &Node, judge: impl FnOnce(&mut Room, Surroundings<'_>) -> Judged) -> Judged {
        let (abilities, leaving) = (self.abilities(), self.leaving());
        let mut room = std::mem::take(self.shares.room_mut());
        let judged = judge(
            &mut room,
            Surroundings {
                runs: &|uid| self.held.running(uid).is_some(),
                takes_room: &|uid, pod| self.takes_room(uid, pod),
                may_go_by_node: &|uid| self.may_go_by_node(uid),
                placed: &|uid, pod| self.admissions.placements.of(uid, pod),
                leaving: &leaving,
                node,
                abilities: &abilities,
            },
        );
        *self.shares.room_mut() = room;
        judged
    }

    /// Judges one pod of the API server if it is new, and those that wait, whose room it may have been.
    pub(super) fn admit_one(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        let source = SourceKind::Api.as_str();
        if self.node.is_none() || !self.can_judge() {
            return; // All are judged once these are known.
        }
        if !self.roster.was_heard(source) {
            return self.admit(context);
        }
        let Some(pod) = self.sources.api_pod(uid).cloned() else {
            self.admissions.api.forget(uid);
            self.roster.set_pod(source, uid, None);
            self.resizes.forget_asking(uid);
            self.recount(uid);
            self.tell_offline_one(uid, None, context);
            return self.judge_waiting(context);
        };
        if self.admissions.api.is_decided(uid) {
            self.hand_on(uid, &pod, context);
            return self.judge_waiting(context);
        }
        let mut due = self.admissions.api.waiting().clone();
        due.insert(uid.clone());
        self.judge_these(&due, context);
    }

    /// Judges pods that wait: there may be room for them.
    pub(super) fn judge_waiting(&mut self, context: &mut Context<PodManagerMsg>) {
        let due = self.admissions.api.waiting().clone();
        if !due.is_empty() && self.can_judge() {
            self.judge_these(&due, context);
        }
    }

    fn judge_these(&mut self, due: &BTreeSet<PodUid>, context: &mut Context<PodManagerMsg>) {
        let Some(node) = self.node.clone() else { return };
        let pods: Vec<(PodUid, Arc<Pod>)> =
            due.iter().filter_map(|uid| Some((uid.clone(), Arc::clone(self.sources.api_pod(uid)?)))).collect();
        let counted: Vec<_> = pods.iter().map(|(uid, pod)| (uid.clone(), self.counted_one(uid, pod))).collect();
        // The sums may still hold what has ended since. They are never too small: who has room by them has room.
        let pod_level = self.args.settings.resources.pod_level_resources;
        if counted.iter().any(|(_, pod)| !has_room(pod, self.shares.room(), &node, pod_level)) {
            self.recount_all();
        }
        let mut admissions = std::mem::take(&mut self.admissions.api);
        let judge = |room: &mut Room, at: Surroundings<'_>| admissions.take_new(counted, room, at);
        let judged = self.judged(&node, judge);
        self.admissions.api = admissions;
        self.tell_judged(judged, context);
        for (uid, pod) in &pods {
            self.hand_on(uid, pod, context);
            self.carry_out_for(uid, context);
        }
    }

    /// An admitted pod is wanted as it is by now, with what it was given.
    fn hand_on(&mut self, uid: &PodUid, pod: &Arc<Pod>, context: &mut Context<PodManagerMsg>) {
        if self.admissions.api.is_admitted(uid) {
            self.give_one(uid, pod, context);
            let in_force = self.in_force_one(uid, pod);
            self.roster.set_pod(SourceKind::Api.as_str(), uid, Some(in_force));
            self.note_asking(uid);
            self.tell_offline_one(uid, Some(pod), context);
        }
        self.recount(uid);
    }

    /// Tells which pods are to be kept for a boot without the API server, where they are kept.
    pub(super) fn tell_offline(&self, context: &Context<PodManagerMsg>) {
        if let Some(pods) = self.sources.api().filter(|_| self.args.settings.keeps_offline) {
            let admitted = self.admissions.api.admitted(pods);
            context.tell(&self.args.to.offline_pods, OfflinePodsMsg::Admitted(admitted));
        }
    }

    fn tell_offline_one(&self, uid: &PodUid, pod: Option<&Arc<Pod>>, context: &Context<PodManagerMsg>) {
        if self.args.settings.keeps_offline {
            let admitted = OfflinePodsMsg::PodAdmitted(uid.clone(), pod.cloned());
            // Nobody else would say so before the next complete set.
            if !context.try_tell(&self.args.to.offline_pods, admitted) {
                self.tell_offline(context);
            }
        }
    }

    /// Judges static pods that are new. They do not wait for the Node object. Until it is known what the runtime holds none
    /// starts anyway, and none is refused.
    pub(super) fn admit_statics(&mut self, source: &'static str, pods: &Pods, context: &mut Context<PodManagerMsg>) {
        if !self.can_judge() {
            return self.roster.set(source, self.in_force(pods));
        }
        let node = self.node.clone().unwrap_or_else(|| Arc::new(self.own_node()));
        self.recount_all();
        let mut admissions = std::mem::take(self.admissions.statics_of(source));
        let counted = self.counted(pods);
        let judged = self.judged(&node, |room, at| admissions.take(&counted, room, at));
        let admitted = admissions.admitted(pods);
        *self.admissions.statics_of(source) = admissions;
        self.give(&admitted, context);
        self.roster.set(source, self.in_force(&admitted));
        self.note_asking_all();
        self.tell_judged(judged, context);
    }

    /// Pods that the node itself ends and that have not ended yet.
    pub(super) fn leaving(&self) -> Vec<Arc<Pod>> {
        let ends = |uid: &&PodUid| self.workers.has(uid) && !self.roster.is_left_over(uid);
        let pods = self.admissions.api.stopped().map(|(uid, _)| uid).filter(ends);
        pods.filter_map(|uid| self.sources.api_pod(uid).cloned()).collect()
    }

    /// Tells once more whose statuses are to say that the node ends them.
    pub(super) fn repeat_stopped(&self, context: &Context<PodManagerMsg>) {
        let ends = |uid: &PodUid| self.workers.has(uid) && !self.roster.is_left_over(uid);
        for (uid, stop) in self.admissions.stopped().filter(|(uid, _)| ends(uid)) {
            let news = PodNews::Stopped(uid.clone(), Arc::clone(stop));
            context.tell(&self.args.to.status_manager, StatusManagerMsg::Pods(news));
        }
    }

    /// The node by which static pods are judged where there is no Node object: the host itself.
    pub(super) fn own_node(&self) -> Node {
        let settings = &self.args.settings;
        let own = self.workers.machine().map(|machine| machine.allocatable.clone());
        let mut allocatable: BTreeMap<String, ApiQuantity> = own
            .unwrap_or_else(|| NodeFacts::of(None, &settings.means).allocatable)
            .iter()
            .map(|(name, quantity)| (name.clone(), ApiQuantity(quantity.to_string())))
            .collect();
        allocatable.insert("pods".to_owned(), ApiQuantity(settings.max_pods.to_string()));
        let mut labels = settings.labels.clone();
        for (key, value) in [
            ("kubernetes.io/hostname", settings.node_name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", settings.architecture.as_str()),
        ] {
            labels.insert(key.to_owned(), value.to_owned());
        }
        Node {
            metadata: ObjectMeta {
                name: Some(settings.node_name.clone()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            status: Some(NodeStatus { allocatable: Some(allocatable), ..NodeStatus::default() }),
            ..Node::default()
        }
    }

    pub(super) fn tell_judged(&mut self, judged: Judged, context: &mut Context<PodManagerMsg>) {
        for refused in judged.refused {
            let subject = EventSubject::pod(&refused.uid, &full_name(&refused.pod));
            self.args.observe(Observation::PodRefused { reason: &refused.reason });
            let event = subject.warning(EventReason::NotAdmitted(refused.reason.to_string()), refused.message);
            context.tell(&self.args.to.event_recorder, event);
            self.tell_rejected(&refused.uid, &refused.pod, context);
        }
        let makes_room = !judged.victims.is_empty();
        let mut preempted = Vec::new();
        for Victim { uid, pod, resource } in judged.victims {
            self.args.observe(Observation::PodPreempted { resource: &resource });
            let event = EventSubject::pod(&uid, &full_name(&pod)).warning(EventReason::Preempting, PREEMPTED);
            context.tell(&self.args.to.event_recorder, event);
            tracing::warn!(%uid, pod = %full_name(&pod), "pod has to make room for a critical one");
            self.end_by_node(&uid, &pod, NodeStop::preempted(context.now()), patience(&pod, None), context);
            preempted.push(uid);
        }
        preempted.iter().for_each(|uid| self.carry_out_for(uid, context));
        if makes_room {
            self.tell_undecided(context);
        }
        self.reread_node(judged.unsure.into_iter().collect(), context);
        self.place(judged.unplaced, context);
    }

    /// Nobody wants the pod any more, by the node's own decision. Whether it was wanted until now.
    pub(super) fn end_by_node(
        &mut self,
        uid: &PodUid,
        pod: &Arc<Pod>,
        stop: NodeStop,
        patience: Duration,
        context: &mut Context<PodManagerMsg>,
    ) -> bool {
        let Some(source) = self.sources.source_of(uid) else { return false };
        let until = context.now().plus(patience);
        let Some(stop) = self.admissions.of(source).stop(uid, stop, until) else { return false };
        context.after(patience, PodManagerMsg::Admission(AdmissionMsg::GraceExceeded(uid.clone())));
        context.tell(&self.args.to.status_manager, StatusManagerMsg::Pods(PodNews::Stopped(uid.clone(), stop)));
        self.roster.set_pod(source, uid, None);
        self.recount(uid);
        self.tell_rejected(uid, pod, context); // One without a worker has nobody else to say so.
        true
    }

    /// Refuses a pod that was admitted: a volume of it cannot be attached here (VOL-12). A static pod waits for room: nobody would
    /// make it anew elsewhere.
    fn refuse_volume(&mut self, uid: &PodUid, message: String, context: &mut Context<PodManagerMsg>) {
        let pod = self.sources.api_pod(uid).cloned().filter(|_| self.workers.has(uid));
        let Some(pod) = pod else { return };
        let stop = NodeStop::without_room(message.clone(), context.now());
        let reason = AdmissionReason::from(stop.cause);
        if !self.end_by_node(uid, &pod, stop, patience(&pod, None), context) {
            return; // It was refused already.
        }
        self.args.observe(Observation::PodRefused { reason: &reason });
        let subject = EventSubject::pod(uid, &full_name(&pod));
        let event = subject.warning(EventReason::NotAdmitted(reason.to_string()), message);
        context.tell(&self.args.to.event_recorder, event);
        self.carry_out_for(uid, context);
    }

    /// A pod's end may be what a critical one waits for. How it ended its worker has told.
    pub(super) fn make_room(&mut self, uid: &PodUid, context: &mut Context<PodManagerMsg>) {
        if self.admissions.stop_of(uid).is_some() {
            self.judge_again(context);
        }
    }
}
