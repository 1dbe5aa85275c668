//! Whether this node takes a pod (POD-31): what the scheduler looked at once more, what
//! the node alone knows, and what this version can do.
//!
//! Owned by `PodManager`. Pure. A refusal is one of two kinds: "never" fails the pod for good, as upstream; "not yet"
//! leaves it pending, because what is missing is known to come.

mod app_armor;
pub mod by_source;
mod declared_features;
pub mod placing;
mod predicates;
mod preemption;
mod pressure;
mod room;
mod sysctls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::node_stop::NodeStop;
use super::pod_roster::is_static;
use super::wait::{AdmissionWait, PodWait};
use crate::logic::manifest::supported::unsupported_fields;
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::model::ids::PodUid;
use crate::logic::model::pod_phase::is_terminal;
use crate::logic::model::pressure::Pressure;
use crate::logic::model::time::Moment;
use crate::logic::resources::{asked_cpu_burst, has_pod_level_resources, is_critical};
pub use declared_features::update_problem;
use placing::Placing;
use predicates::{Failure, failures};
use preemption::{Missing, victims};
pub use room::Room;
pub use sysctls::{SysctlAllowList, dotted};

/// The label that names a pod's operating system.
const OS_LABEL: &str = "kubernetes.io/os";
/// The operating system here.
const OS: &str = "linux";

/// The decision about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Admitted,
    /// It has to wait, and will be judged again (PAIN-18).
    NotYet {
        /// For what.
        what: AdmissionWait,
        /// By when it is to be over, if anything says so.
        until: Option<Moment>,
    },
    /// Nothing but the Node's labels keeps it away, and they may be newer than what is known of them: the Node is to be read
    /// once more.
    Unsure,
    /// The managers of CPUs and memory are to be asked about it.
    Unplaced,
    /// It fails, with this reason and message.
    Never {
        /// One word, as upstream says it.
        reason: AdmissionReason,
        /// A sentence.
        message: String,
    },
}

/// The trouble of a node, which keeps pods away.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeTrouble {
    /// Which of its resources run short.
    pub pressure: Pressure,
    /// The machine goes down (NODE-46).
    pub shuts_down: bool,
}

/// Abilities of the node that nobody else knows.
#[derive(Clone, Debug, Default)]
pub struct NodeAbilities {
    /// Gate `PodLevelResources`: whether resources of whole pods count.
    pub pod_level: bool,
    /// Which kernel parameters pods may set.
    pub sysctls: SysctlAllowList,
    /// Whether the host enforces AppArmor profiles.
    pub app_armor: bool,
    /// Whether the runtime keeps to `supplementalGroupsPolicy`; `None` until it was asked.
    pub groups_policy: Option<bool>,
    /// Whether the runtime can do user namespaces on the host's network; `None` until it was asked.
    pub host_network_users: Option<bool>,
    /// The trouble of the node itself.
    pub trouble: NodeTrouble,
    /// Features that the node declares, as far as the runtime can do them; `None` where it declares nothing at all (gate
    /// `NodeDeclaredFeatures`).
    pub declared: Option<Vec<String>>,
}

/// A pod that was refused just now, or has to go.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The pod's UID.
    pub uid: PodUid,
    /// The pod.
    pub pod: Arc<Pod>,
    /// One word.
    pub reason: AdmissionReason,
    /// A sentence.
    pub message: String,
}

/// Where pods are judged.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Pods that run here were admitted by an earlier run of the agent, and are not judged again (PAIN-17).
    pub runs: &'a dyn Fn(&PodUid) -> bool,
    /// Which of those that are admitted take room: not what has ended.
    pub takes_room: &'a dyn Fn(&PodUid, &Pod) -> bool,
    /// Whether what is known of the Node is new enough to refuse this pod by its labels alone.
    pub may_go_by_node: &'a dyn Fn(&PodUid) -> bool,
    /// The word of the managers of CPUs and memory about this pod; `None`: they are to be asked.
    pub placed: &'a dyn Fn(&PodUid, &Pod) -> Option<&'a Placing>,
    /// Preempted pods that still take room.
    pub leaving: &'a [Arc<Pod>],
    /// The node.
    pub node: &'a Node,
    /// The node's abilities.
    pub abilities: &'a NodeAbilities,
}

/// A pod that has to make room for a critical one (POD-32).
#[derive(Clone, Debug)]
pub struct Victim {
    /// The pod's UID.
    pub uid: PodUid,
    /// The pod.
    pub pod: Arc<Pod>,
    /// The resource that was short, the first of all if there were more.
    pub resource: String,
}

/// The result of judging.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Pods that are refused for good.
    pub refused: Vec<Refused>,
    /// Pods that have to make room.
    pub victims: Vec<Victim>,
    /// Pods for which the Node is to be read once more.
    pub unsure: Vec<PodUid>,
    /// Pods that the managers of CPUs and memory are to be asked about, in order.
    pub unplaced: Vec<(PodUid, Arc<Pod>)>,
}

/// The decisions about the pods of a kind of source. A decision stands for as long as the source wants the pod, but for the
/// refusal of a static pod: nobody else makes another in its place, so it is taken once nothing is in the way any more.
#[derive(Clone, Debug, Default)]
pub struct Admissions {
    admitted: BTreeSet<PodUid>,
    refused: BTreeMap<PodUid, (AdmissionReason, String)>,
    /// Those that were judged and wait.
    waiting: BTreeSet<PodUid>,
    /// Those that the node itself ends, why, and by when they are to have ended.
    stops: BTreeMap<PodUid, (Arc<NodeStop>, Moment)>,
    /// A refusal stands only until it is judged anew.
    judges_again: bool,
}

impl Admissions {
    /// Of static pods.
    pub fn of_statics() -> Self {
        Self { judges_again: true, ..Self::default() }
    }

    /// Whether some were refused that are to be judged anew.
    pub fn has_open_refusals(&self) -> bool {
        self.judges_again && !self.refused.is_empty()
    }

    /// Pods that were refused.
    pub fn refused(&self) -> impl Iterator<Item = &PodUid> {
        self.refused.keys()
    }

    /// A pod that was refused is to be judged anew, and told of as if it were new.
    pub fn forget_refusal(&mut self, uid: &PodUid) {
        self.refused.remove(uid);
    }

    /// Judges those of `pods` that are new, the oldest first. `room` holds what the others take that are here, whatever
    /// source they are of; who is admitted is counted there, too.
    pub fn take(&mut self, pods: &BTreeMap<PodUid, Arc<Pod>>, room: &mut Room, at: Surroundings<'_>) -> Judged {
        self.admitted.retain(|uid| pods.contains_key(uid));
        self.refused.retain(|uid, _| pods.contains_key(uid));
        self.stops.retain(|uid, _| pods.contains_key(uid));
        self.waiting.clear();
        // One that ends because the machine goes down keeps its own words until the machine runs on.
        let is_kept = |uid: &PodUid| at.abilities.trouble.shuts_down && self.stops.contains_key(uid);
        let may_be = |uid: &PodUid| !self.refused.contains_key(uid) || self.judges_again && !is_kept(uid);
        let is_open = |uid: &PodUid| !self.admitted.contains(uid) && may_be(uid);
        let new = pods.iter().filter(|(uid, _)| is_open(uid));
        let new: Vec<_> = new.map(|(uid, pod)| (uid.clone(), Arc::clone(pod))).collect();
        self.take_new(new, room, at)
    }

    /// Judges these, of which nothing is decided yet, the oldest first. Pods that run here come before all others.
    pub fn take_new(&mut self, mut new: Vec<(PodUid, Arc<Pod>)>, room: &mut Room, at: Surroundings<'_>) -> Judged {
        new.sort_by_cached_key(|(uid, pod)| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (!self.goes_on(uid, at), created, uid.clone())
        });
        let mut judged = Judged::default();
        for (uid, pod) in new {
            // Hardware that it owns is known, too, once the managers were asked.
            if self.goes_on(&uid, at) && !is_over(&pod) && (at.placed)(&uid, &pod).is_none() {
                judged.unplaced.push((uid.clone(), Arc::clone(&pod)));
            }
            // A pod that is over takes no room and is not judged: it only has to be cleared away.
            let verdict = if self.goes_on(&uid, at) || is_over(&pod) || pod.metadata.deletion_timestamp.is_some() {
                Verdict::Admitted
            } else {
                let (verdict, victims) = judge_among(&pod, room, &judged.victims, at);
                judged.victims.extend(victims);
                verdict
            };
            self.waiting.remove(&uid);
            match verdict {
                Verdict::Admitted => {
                    room.set(&uid, Some(&pod).filter(|pod| (at.takes_room)(&uid, pod)), at.abilities.pod_level);
                    self.refused.remove(&uid);
                    self.stops.remove(&uid);
                    self.admitted.insert(uid);
                }
                // It is new as long as it waits.
                Verdict::NotYet { .. } => drop(self.waiting.insert(uid)),
                Verdict::Unsure => {
                    self.waiting.insert(uid.clone());
                    judged.unsure.push(uid);
                }
                Verdict::Unplaced => {
                    self.waiting.insert(uid.clone());
                    judged.unplaced.push((uid, pod));
                }
                // Figures that change in the sentence are no news.
                Verdict::Never { reason, .. } if self.refused.get(&uid).is_some_and(|(known, _)| *known == reason) => {}
                Verdict::Never { reason, message } => {
                    self.refused.insert(uid.clone(), (reason.clone(), message.clone()));
                    judged.refused.push(Refused { uid, pod, reason, message });
                }
            }
        }
        judged
    }

    /// Whether the pod runs here since before the agent's start; one that was refused does not.
    fn goes_on(&self, uid: &PodUid, at: Surroundings<'_>) -> bool {
        !self.refused.contains_key(uid) && (at.runs)(uid)
    }

    /// The source wants this pod no more.
    pub fn forget(&mut self, uid: &PodUid) {
        self.admitted.remove(uid);
        self.refused.remove(uid);
        self.stops.remove(uid);
        self.waiting.remove(uid);
    }

    /// Whether the pod was admitted.
    pub fn is_admitted(&self, uid: &PodUid) -> bool {
        self.admitted.contains(uid)
    }

    /// Whether the pod was admitted or refused.
    pub fn is_decided(&self, uid: &PodUid) -> bool {
        self.admitted.contains(uid) || self.refused.contains_key(uid)
    }

    /// Pods that were judged and have to wait.
    pub fn waiting(&self) -> &BTreeSet<PodUid> {
        &self.waiting
    }

    /// Takes back the admission of a pod that the node ends, and that is to have ended by then. `None` for a pod that was not
    /// admitted, or ends already.
    pub fn stop(&mut self, uid: &PodUid, stop: NodeStop, until: Moment) -> Option<Arc<NodeStop>> {
        self.admitted.remove(uid).then(|| {
            let stop = Arc::new(stop);
            self.refused.insert(uid.clone(), (stop.cause.into(), stop.message.clone()));
            self.stops.insert(uid.clone(), (Arc::clone(&stop), until));
            stop
        })
    }

    /// Pods that the node itself ends, and why.
    pub fn stopped(&self) -> impl Iterator<Item = (&PodUid, &Arc<NodeStop>)> {
        self.stops.iter().map(|(uid, (stop, _))| (uid, stop))
    }

    /// Why the node itself ends the pod; `None` when it does not.
    pub fn stop_of(&self, uid: &PodUid) -> Option<&Arc<NodeStop>> {
        self.stops.get(uid).map(|(stop, _)| stop)
    }

    /// The wait of a pod to which nothing is in the way but others that make room: `leaving`.
    pub fn for_room(&self, leaving: &[Arc<Pod>]) -> Verdict {
        let until = leaving.iter().filter_map(|pod| Some(self.stops.get(&uid_of(pod))?.1)).max();
        Verdict::NotYet { what: AdmissionWait::Room, until }
    }

    /// Those of `pods` that were admitted.
    pub fn admitted(&self, pods: &BTreeMap<PodUid, Arc<Pod>>) -> BTreeMap<PodUid, Arc<Pod>> {
        let admitted = pods.iter().filter(|(uid, _)| self.admitted.contains(*uid));
        admitted.map(|(uid, pod)| (uid.clone(), Arc::clone(pod))).collect()
    }

    /// Those of `pods` that nothing was decided about yet.
    pub fn undecided<'a>(
        &'a self,
        pods: &'a BTreeMap<PodUid, Arc<Pod>>,
    ) -> impl Iterator<Item = (&'a PodUid, &'a Arc<Pod>)> {
        pods.iter().filter(|(uid, _)| !self.admitted.contains(*uid) && !self.refused.contains_key(*uid))
    }

    /// Reason and message of a refusal.
    pub fn why_not(&self, uid: &PodUid) -> Option<(&AdmissionReason, &str)> {
        self.refused.get(uid).map(|(reason, message)| (reason, &**message))
    }
}

/// Whether the API server shows the pod as ended.
pub fn is_over(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(is_terminal)
}

fn never(reason: AdmissionReason, message: impl Into<String>) -> Verdict {
    Verdict::Never { reason, message: message.into() }
}

/// It waits for this, and nothing says until when.
pub fn not_yet(what: AdmissionWait) -> Verdict {
    Verdict::NotYet { what, until: None }
}

/// Judges a pod by itself, as if no other were here.
pub fn judge(pod: &Pod, node: Option<&Node>, abilities: &NodeAbilities) -> Verdict {
    if let Some(verdict) = before_predicates(pod, abilities) {
        return verdict;
    }
    let Some(node) = node else { return not_yet(AdmissionWait::Node) };
    match failures(pod, &Room::default(), node, abilities.pod_level).into_iter().next() {
        Some(failure) => never(failure.reason(), failure.message()),
        None => after_predicates(pod, abilities),
    }
}

/// Whether the node has what the pod asks for beside what others take: labels, taints and abilities aside, nothing keeps
/// it away.
pub fn has_room(pod: &Pod, room: &Room, node: &Node, pod_level: bool) -> bool {
    let found = failures(pod, room, node, pod_level);
    !found.iter().any(Failure::is_of_others)
}

/// The verdict on a pod that room and affinity need not be looked at for; hardware comes last of these, as upstream.
fn before_room(pod: &Pod, at: Surroundings<'_>) -> Option<Verdict> {
    before_predicates(pod, at.abilities).or_else(|| by_placing((at.placed)(&uid_of(pod), pod)))
}

/// The verdict by the managers' word about a pod; `None` when they leave the decision to others.
fn by_placing(placed: Option<&Placing>) -> Option<Verdict> {
    match placed {
        Some(Placing::Given | Placing::GivenDevices(_)) => None,
        Some(Placing::Refused { reason, message }) => Some(never(reason.clone(), message.clone())),
        Some(Placing::NotYet(why)) => Some(not_yet(AdmissionWait::Hardware(Some(why.clone())))),
        None => Some(Verdict::Unplaced),
    }
}

/// Judges a pod among those that are here; gives those that have to go for it. `chosen` are to go already.
fn judge_among(pod: &Pod, room: &Room, chosen: &[Victim], at: Surroundings<'_>) -> (Verdict, Vec<Victim>) {
    let Surroundings { node, abilities, .. } = at;
    if let Some(verdict) = before_room(pod, at) {
        return (verdict, vec![]);
    }
    let placed = (at.placed)(&uid_of(pod), pod);
    let mut found = failures(pod, room, node, abilities.pod_level);
    found.retain(|failure| !failure.is_settled_by(placed));
    if !found.is_empty() && found.iter().all(Failure::is_of_labels) && !(at.may_go_by_node)(&uid_of(pod)) {
        return (Verdict::Unsure, vec![]);
    }
    let is_shortage = |failure: &&Failure| matches!(failure, Failure::Shortage { .. });
    let other = found.iter().find(|failure| !is_shortage(failure));
    let first = match (is_critical(pod), other) {
        // Room can be made for a critical pod; the rest cannot be helped.
        (true, Some(other)) => Some(other),
        (true, None) | (false, _) => found.first(),
    };
    match first {
        None => return (after_predicates(pod, abilities), vec![]),
        Some(failure) if !is_critical(pod) || !is_shortage(&failure) => {
            return (never(failure.reason(), failure.message()), vec![]);
        }
        Some(_) => {}
    }
    make_room(pod, room, chosen, at)
}

/// A critical pod, and too little of something: pods that are not yet on the way out may have to go. Gives those.
fn make_room(pod: &Pod, room: &Room, chosen: &[Victim], at: Surroundings<'_>) -> (Verdict, Vec<Victim>) {
    let (pod_level, placed) = (at.abilities.pod_level, (at.placed)(&uid_of(pod), pod));
    let leaving: BTreeSet<PodUid> =
        at.leaving.iter().map(|pod| uid_of(pod)).chain(chosen.iter().map(|victim| victim.uid.clone())).collect();
    let staying: Vec<(&PodUid, &Arc<Pod>)> = room.pods().filter(|(uid, _)| !leaving.contains(*uid)).collect();
    let without = Room::of(staying.iter().copied(), pod_level);
    let missing: Vec<Missing> = failures(pod, &without, at.node, pod_level)
        .into_iter()
        .filter_map(|failure| match failure {
            settled if settled.is_settled_by(placed) => None,
            Failure::Shortage { name, requested, used, capacity } => {
                Some(Missing { name, amount: requested.saturating_sub(capacity.saturating_sub(used)) })
            }
            Failure::Predicate(..) => None,
        })
        .collect();
    // The static ones are the administrator's own: they stay.
    let candidates: Vec<(&PodUid, &Arc<Pod>)> = staying.into_iter().filter(|(_, pod)| !is_static(pod)).collect();
    let pods: Vec<&Pod> = candidates.iter().map(|(_, pod)| &***pod).collect();
    match victims(pod, &pods, &missing, pod_level) {
        Ok(found) => {
            let resource = missing.first().map(|missing| missing.name.clone()).unwrap_or_default();
            let victim = |at: usize| Victim {
                uid: candidates[at].0.clone(),
                pod: Arc::clone(candidates[at].1),
                resource: resource.clone(),
            };
            (not_yet(AdmissionWait::Preempted), found.into_iter().map(victim).collect())
        }
        Err(error) => {
            let message = "Unexpected error while attempting to recover from admission failure";
            (
                never(
                    AdmissionReason::UnexpectedAdmissionError,
                    format!("{message}: preemption: error finding a set of pods to preempt: {error}"),
                ),
                vec![],
            )
        }
    }
}

/// Why a pod cannot have other resources now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Why it would be refused if it were new; `None` where it would wait.
    pub reason: Option<AdmissionReason>,
    /// A sentence.
    pub message: String,
}

impl Delay {
    /// One word for it.
    pub fn word(&self) -> String {
        self.reason.as_ref().map_or_else(|| "NotYet".to_owned(), ToString::to_string)
    }
}

/// The result of judging a pod that asks for other resources.
#[derive(Debug, Default)]
pub struct JudgedResize {
    /// Why it cannot have them now; `None` when it can.
    pub delay: Option<Delay>,
    /// Pods that have to go for it, where it is critical.
    pub victims: Vec<Victim>,
}

/// Judges a pod that asks for other resources, beside what all others take. It may wait, for whatever reason (POD-26).
pub fn judge_resize(pod: &Pod, room: &Room, at: Surroundings<'_>) -> JudgedResize {
    let (verdict, victims) = judge_among(pod, room, &[], at);
    let waits = |what| Some(Delay { reason: None, message: PodWait::Admission(what, None).to_string() });
    let delay = match verdict {
        Verdict::Admitted => None,
        Verdict::NotYet { what, .. } => waits(what),
        Verdict::Unsure => waits(AdmissionWait::NewerNode),
        Verdict::Unplaced => waits(AdmissionWait::Hardware(None)),
        Verdict::Never { reason, message } => Some(Delay { reason: Some(reason), message }),
    };
    JudgedResize { delay, victims }
}

fn uid_of(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}

/// The checks that upstream makes before room and affinity, in its order.
fn before_predicates(pod: &Pod, abilities: &NodeAbilities) -> Option<Verdict> {
    let refused = unsupported_fields(pod);
    if !refused.is_empty() {
        let fields: Vec<String> = refused.iter().map(ToString::to_string).collect();
        let message = format!("this node agent cannot do what the pod asks for: {}", fields.join(", "));
        return Some(never(AdmissionReason::PodFeatureUnsupported, message));
    }
    if let Some(message) = pressure::refusal(pod, abilities.trouble.pressure, abilities.pod_level) {
        return Some(never(AdmissionReason::Evicted, message));
    }
    if let Some(message) = abilities.sysctls.refusal(pod) {
        return Some(never(AdmissionReason::SysctlForbidden, message));
    }
    if let Err(error) = asked_cpu_burst(pod) {
        return Some(never(AdmissionReason::InvalidCpuBurst, error.to_string()));
    }
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS_LABEL));
    if label.is_some_and(|os| os != OS) {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Some(never(AdmissionReason::PodOsSelectorNodeLabelDoesNotMatch, message));
    }
    let spec = pod.spec.as_ref()?;
    if spec.os.as_ref().is_some_and(|os| os.name != OS) {
        return Some(never(
            AdmissionReason::PodOsNotSupported,
            "Failed to admit pod as the OS field doesn't match node OS",
        ));
    }
    if declared_features::awaits_runtime(pod, abilities) {
        return Some(not_yet(AdmissionWait::RuntimeFeatures));
    }
    let policy = spec.security_context.as_ref().and_then(|context| context.supplemental_groups_policy.as_deref());
    match (policy, abilities.groups_policy) {
        (Some("Strict"), None) => Some(not_yet(AdmissionWait::RuntimeFeatures)),
        (Some("Strict"), Some(false)) => {
            let message = "SupplementalGroupsPolicy=Strict is not supported in this node";
            Some(never(AdmissionReason::SupplementalGroupsPolicyNotSupported, message))
        }
        _ => None,
    }
}

/// And after them.
fn after_predicates(pod: &Pod, abilities: &NodeAbilities) -> Verdict {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    // One that ran before the agent was started anew keeps running.
    if let Some(message) = app_armor::refusal(pod, abilities.app_armor).filter(|_| phase == "Pending") {
        return never(AdmissionReason::AppArmor, message);
    }
    if has_pod_level_resources(pod) && !abilities.pod_level {
        return never(AdmissionReason::PodLevelResourcesNotSupported, "PodLevelResources feature gate is disabled");
    }
    if let Some(message) = declared_features::refusal(pod, abilities) {
        return never(AdmissionReason::PodFeatureUnsupported, message);
    }
    if abilities.trouble.shuts_down {
        return never(AdmissionReason::NodeShutdown, "Pod was rejected as the node is shutting down.");
    }
    Verdict::Admitted
}

#[cfg(test)]
mod tests;
