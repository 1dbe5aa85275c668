//! Questions about pods: each is answered once all of its pods are decided.
//!
//! A pod with devices of plugins takes several steps. Its plugins are asked beside the mailbox, and meanwhile it holds up no
//! other pod: what was chosen for it counts as taken, and it is given when all plugins have answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use ractor::RpcReplyPort;

use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::trace::Cause;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_admission::placing::Placing;
use crate::logic::resources::allocations::{Holding, Placement, ResourceManagers};
use crate::logic::resources::device_manager::calls::{DeviceUse, Need};
use crate::logic::resources::device_manager::devices::DeviceGrant;
use crate::logic::resources::device_manager::late::LatePlugins;
use crate::logic::resources::device_manager::{DeviceRefusal, Inquiry, Opinion, Question};
use crate::logic::resources::topology::admission::Refusal;
use crate::messages::Ended;
use crate::messages::plugins::device_plugins::{DeviceCallError, DevicePluginsMsg};
use crate::messages::resources::allocation_manager::{AllocationManagerMsg, DeviceStep, HardwareMsg, PlaceRequest};

/// The deadline of `GetPreferredAllocation`; upstream has none.
const PREFER_LIMIT: Duration = Duration::from_secs(10);
/// The deadline of `Allocate`; upstream has none.
const ALLOCATE_LIMIT: Duration = Duration::from_secs(30);
/// The answer about a pod that has ended while its question waited.
const UNWANTED: &str = "nobody wants the pod any more";

/// Decisions about pods.
pub(super) type Answers = BTreeMap<PodUid, Placing>;

/// A question, and what is decided of it.
struct Asker {
    reply: RpcReplyPort<Answers>,
    answers: Answers,
    missing: BTreeSet<PodUid>,
}

/// A pod whose plugins are asked.
struct DevicePod {
    pod: Arc<Pod>,
    inquiry: Inquiry,
    stage: Stage,
}

/// The calls that are open for a pod.
enum Stage {
    /// A plugin is asked which devices it prefers. Nothing is taken yet.
    Choosing(OperationId, Question),
    /// Devices are taken, and plugins are to give them.
    Calling(Calling),
    /// The pod's next step waits for the disk.
    Due(Step),
}

struct Calling {
    before: Holding,
    open: BTreeMap<Need, OperationId>,
    grants: BTreeMap<Need, DeviceGrant>,
}

/// The next step of a pod whose plugins have answered.
enum Step {
    /// It is admitted once more, with an answer.
    Admit,
    /// It is refused: a plugin did not say what it prefers.
    Refuse(Refusal),
    /// Its plugins gave all that they were to give.
    Give(Calling),
    /// A plugin did not.
    Withdraw(Holding, Refusal),
}

/// See the module.
pub(super) struct Placings {
    queue: Vec<PlaceRequest>,
    askers: Vec<Asker>,
    pods: BTreeMap<PodUid, DevicePod>,
    /// Pods whose calls came to their end in the decision that is not on the disk yet, with what each had before them.
    settled: BTreeMap<PodUid, Holding>,
    late: LatePlugins,
    device_plugins: Address<DevicePluginsMsg>,
}

/// The means of a decision.
pub(super) struct Deciding<'a> {
    pub(super) managers: &'a mut ResourceManagers,
    /// `None` until every source was heard.
    pub(super) holders: Option<&'a BTreeSet<PodUid>>,
    pub(super) context: &'a mut Context<AllocationManagerMsg>,
}

impl Placings {
    /// `patience`: how long pods wait for a plugin that is late.
    pub(super) fn new(device_plugins: Address<DevicePluginsMsg>, patience: Duration) -> Self {
        let late = LatePlugins::new(patience);
        Self { queue: vec![], askers: vec![], pods: BTreeMap::new(), settled: BTreeMap::new(), late, device_plugins }
    }

    pub(super) fn push(&mut self, request: PlaceRequest) {
        self.queue.push(request);
    }

    pub(super) fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.pods.values().any(|pod| matches!(pod.stage, Stage::Due(_)))
    }

    /// Whether a pod waits for a plugin that is late.
    pub(super) fn has_late(&self) -> bool {
        self.late.has_waits()
    }

    /// Nothing can be decided now.
    pub(super) fn refuse_all(&mut self, why: &str) {
        for PlaceRequest { pods, reply, .. } in self.queue.drain(..) {
            let not_yet = |pod: &Arc<Pod>| (uid_of(pod), Placing::NotYet(why.to_owned()));
            let _ = reply.send(pods.iter().map(not_yet).collect()); // The asker may have left.
        }
    }

    /// Decides all that can be decided now, and asks plugins about the rest.
    pub(super) fn decide(&mut self, mut at: Deciding<'_>) -> Answers {
        let mut decided = Answers::new();
        if let Some(holders) = at.holders {
            self.late.keep_only(holders);
            let gone: Vec<PodUid> = self.pods.keys().filter(|uid| !holders.contains(*uid)).cloned().collect();
            for uid in gone {
                self.forget(&uid, at.context);
                decided.insert(uid, Placing::NotYet(UNWANTED.to_owned()));
            }
        }
        for PlaceRequest { pods, mut running, reply, .. } in std::mem::take(&mut self.queue) {
            let missing = pods.iter().map(|pod| uid_of(pod)).collect();
            self.askers.push(Asker { reply, answers: Answers::new(), missing });
            for pod in pods {
                let uid = uid_of(&pod);
                if at.holders.is_some_and(|holders| !holders.contains(&uid)) {
                    decided.insert(uid, Placing::NotYet(UNWANTED.to_owned()));
                } else if !self.pods.contains_key(&uid) && !decided.contains_key(&uid) {
                    let inquiry = Inquiry { running: running.remove(&uid).unwrap_or_default(), ..Inquiry::default() };
                    decided.extend(self.admit(uid, pod, inquiry, &mut at));
                }
            }
        }
        let due = |pod: &mut DevicePod| matches!(pod.stage, Stage::Due(_));
        let due: Vec<(PodUid, DevicePod)> = self.pods.extract_if(.., |_, pod| due(pod)).collect();
        for (uid, DevicePod { pod, inquiry, stage }) in due {
            if let Stage::Due(step) = stage {
                decided.extend(self.go_on(uid, pod, inquiry, step, &mut at));
            }
        }
        decided
    }

    fn go_on(
        &mut self,
        uid: PodUid,
        pod: Arc<Pod>,
        inquiry: Inquiry,
        step: Step,
        at: &mut Deciding<'_>,
    ) -> Option<(PodUid, Placing)> {
        match step {
            Step::Admit => self.admit(uid, pod, inquiry, at),
            Step::Refuse(refusal) => Some(self.refused(uid, &refusal)),
            Step::Give(calling) => {
                for (need, grant) in calling.grants {
                    at.managers.grant(&uid, &need, grant);
                }
                self.settled.insert(uid.clone(), calling.before);
                for conflict in at.managers.device_conflicts(&uid) {
                    tracing::error!(%uid, %conflict, "device plugins contradict each other");
                }
                Some(self.given(uid, &pod, at.managers))
            }
            Step::Withdraw(before, refusal) => {
                at.managers.withdraw(&uid, &before, Some(refusal.clone()));
                self.settled.insert(uid.clone(), before);
                Some(self.refused(uid, &refusal))
            }
        }
    }

    /// Admits a pod; `None`: plugins are asked.
    fn admit(
        &mut self,
        uid: PodUid,
        pod: Arc<Pod>,
        mut inquiry: Inquiry,
        at: &mut Deciding<'_>,
    ) -> Option<(PodUid, Placing)> {
        let began = at.context.clock().uptime();
        inquiry.may_wait = self.late.may_wait(&uid, began);
        let placement = at.managers.admit(&pod, inquiry.clone());
        at.managers.note_length(at.context.clock().uptime().saturating_sub(began));
        let stage = match placement {
            Placement::Given => return Some(self.given(uid, &pod, at.managers)),
            Placement::Refused(refusal) => return Some(self.refused(uid, &refusal)),
            Placement::Late(resource) => {
                let wait = self.late.wait(&uid, resource, began, at.context.now());
                return Some((uid, Placing::NotYet(wait.to_string())));
            }
            Placement::Ask(question) => Stage::Choosing(self.prefer(&uid, &question, at.context), question),
            Placement::Call { taken, before } => {
                let call =
                    |(need, ids): (Need, Vec<String>)| (need.clone(), self.allocate(&uid, need, ids, at.context));
                let open = taken.into_iter().map(call).collect();
                Stage::Calling(Calling { before, open, grants: BTreeMap::new() })
            }
        };
        self.pods.insert(uid, DevicePod { pod, inquiry, stage });
        None
    }

    fn given(&mut self, uid: PodUid, pod: &Pod, managers: &ResourceManagers) -> (PodUid, Placing) {
        self.late.end(&uid);
        let resources = managers.device_resources(pod);
        (uid, if resources.is_empty() { Placing::Given } else { Placing::GivenDevices(resources) })
    }

    fn refused(&mut self, uid: PodUid, refusal: &Refusal) -> (PodUid, Placing) {
        self.late.end(&uid);
        (uid, Placing::Refused { reason: refusal.reason(), message: refusal.to_string() })
    }

    fn prefer(&self, uid: &PodUid, question: &Question, context: &mut Context<AllocationManagerMsg>) -> OperationId {
        let (preference, uid) = (question.preference.clone(), uid.clone());
        let about = format!("{} {}", preference.resource, uid);
        let ask = |reply| DevicePluginsMsg::Prefer(preference, reply);
        let work = asked(self.device_plugins.clone(), context.cause(), PREFER_LIMIT, ask);
        context.start("prefer devices", about, work, |outcome| {
            AllocationManagerMsg::Hardware(HardwareMsg::Device(DeviceStep::Preferred(uid, outcome.into())))
        })
    }

    fn allocate(
        &self,
        uid: &PodUid,
        need: Need,
        ids: Vec<String>,
        context: &mut Context<AllocationManagerMsg>,
    ) -> OperationId {
        let (wanted, uid) = (DeviceUse { resource: need.resource.clone(), ids }, uid.clone());
        let about = format!("{} {} {}", need.resource, uid, need.container);
        let ask = |reply| DevicePluginsMsg::Allocate(wanted, reply);
        let work = asked(self.device_plugins.clone(), context.cause(), ALLOCATE_LIMIT, ask);
        context.start("allocate devices", about, work, |outcome| {
            AllocationManagerMsg::Hardware(HardwareMsg::Device(DeviceStep::Allocated(uid, need, outcome.into())))
        })
    }

    /// A plugin answered. The pod's next step is due then, unless other plugins are asked still.
    pub(super) fn take_step(&mut self, step: DeviceStep, context: &mut Context<AllocationManagerMsg>) {
        match step {
            DeviceStep::Preferred(uid, outcome) => self.take_preferred(&uid, outcome),
            DeviceStep::Allocated(uid, need, outcome) => self.take_allocated(&uid, need, outcome, context),
        }
    }

    fn take_preferred(&mut self, uid: &PodUid, outcome: Ended<Vec<String>>) {
        let Some(DevicePod { inquiry, stage, .. }) = self.pods.get_mut(uid) else { return };
        let Stage::Choosing(_, Question { need, preference }) = stage else { return };
        let step = match outcome.into_result() {
            Ok(ids) => {
                let asked = inquiry.opinions.get(need).map_or(1, |opinion| opinion.asked + 1);
                let opinion = Opinion { preference: preference.clone(), ids, asked };
                inquiry.opinions.insert(need.clone(), opinion);
                Step::Admit
            }
            Err(why) => Step::Refuse(Refusal::Unexpected(DeviceRefusal::NotPreferred(why).to_string())),
        };
        *stage = Stage::Due(step);
    }

    fn take_allocated(
        &mut self,
        uid: &PodUid,
        need: Need,
        outcome: Ended<DeviceGrant>,
        context: &mut Context<AllocationManagerMsg>,
    ) {
        let Some(DevicePod { stage, .. }) = self.pods.get_mut(uid) else { return };
        let Stage::Calling(calling) = stage else { return };
        calling.open.remove(&need);
        match outcome.into_result() {
            Ok(grant) => {
                calling.grants.insert(need, grant);
                if !calling.open.is_empty() {
                    return;
                }
                let (before, open, grants) =
                    (calling.before.clone(), BTreeMap::new(), std::mem::take(&mut calling.grants));
                *stage = Stage::Due(Step::Give(Calling { before, open, grants }));
            }
            Err(why) => {
                calling.open.values().for_each(|operation| context.cancel(*operation));
                let refusal = Refusal::Unexpected(DeviceRefusal::NotAllocated(why).to_string());
                *stage = Stage::Due(Step::Withdraw(calling.before.clone(), refusal));
            }
        }
    }

    /// The pod's calls are of no use any more. Returns what it had before them.
    fn forget(&mut self, uid: &PodUid, context: &mut Context<AllocationManagerMsg>) -> Option<Holding> {
        match self.pods.remove(uid)?.stage {
            Stage::Choosing(operation, _) => {
                context.cancel(operation);
                None
            }
            Stage::Calling(Calling { before, open, .. }) => {
                open.values().for_each(|operation| context.cancel(*operation));
                Some(before)
            }
            Stage::Due(Step::Give(Calling { before, .. }) | Step::Withdraw(before, _)) => Some(before),
            Stage::Due(Step::Admit | Step::Refuse(_)) => None,
        }
    }

    /// The disk could not take a decision, and the managers are as before: pods whose plugins are asked begin anew.
    pub(super) fn abandon(
        &mut self,
        managers: &mut ResourceManagers,
        why: &str,
        context: &mut Context<AllocationManagerMsg>,
    ) -> Answers {
        // Devices are taken before they are given: those of a decision that is lost would be taken for given.
        for (uid, before) in std::mem::take(&mut self.settled) {
            managers.withdraw(&uid, &before, None);
        }
        let pods: Vec<PodUid> = self.pods.keys().cloned().collect();
        let mut decided = Answers::new();
        for uid in pods {
            if let Some(before) = self.forget(&uid, context) {
                managers.withdraw(&uid, &before, None);
            }
            decided.insert(uid, Placing::NotYet(why.to_owned()));
        }
        decided
    }

    /// Answers the questions of which all is decided now.
    pub(super) fn answer(&mut self, decided: &Answers) {
        self.settled.clear();
        for asker in &mut self.askers {
            for uid in decided.keys().filter(|uid| asker.missing.remove(*uid)) {
                asker.answers.insert(uid.clone(), decided[uid].clone());
            }
        }
        for Asker { reply, answers, .. } in self.askers.extract_if(.., |asker| asker.missing.is_empty()) {
            let _ = reply.send(answers); // The asker may have left.
        }
        self.askers.retain(|asker| !asker.reply.is_closed());
    }
}

/// A plugin's answer, or why there is none.
async fn asked<T: Send + 'static>(
    to: Address<DevicePluginsMsg>,
    cause: Cause,
    limit: Duration,
    question: impl FnOnce(RpcReplyPort<Result<T, DeviceCallError>>) -> DevicePluginsMsg,
) -> Result<T, String> {
    let answered = to.ask(cause, limit, question).await.map_err(|error| error.to_string())?;
    answered.map_err(|error| error.to_string())
}

pub(super) fn uid_of(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}
