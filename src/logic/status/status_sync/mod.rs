//! Writes of pods' statuses to the API server, and the time when a pod may go from it (POD-34, POD-35, POD-36;
//! upstream's status manager).
//!
//! Owned by `StatusManager`. Level-triggered: it keeps each pod's status as it is here and as the API server last had it. It
//! says what to send about the difference, one call a pod at a time. A status that the API server has already costs nothing:
//! an agent that starts again sends nothing.
//!
//! Waits are kept in uptime: the wall clock may be set back, and would hold a status back for as long.

mod call;
pub mod merge;
pub mod patch;
mod queue;
#[cfg(test)]
mod tests;
mod untaken;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::pod_phase::{PENDING, is_terminal};
use crate::logic::pods::pod_roster::full_name;
use crate::logic::status::status_gates::StatusGates;
use queue::{Queue, Urgency};
use untaken::Tried;

pub use call::{Answer, Call, Order, Own};

/// Calls under way at once: after the API server was away, what changed is spread out.
pub const CALLS_MAX: usize = 16;
/// How often a status that others keep changing is set right (upstream's resync).
const RECONCILE_PERIOD: Duration = Duration::from_secs(10);
/// The first wait after a call that failed; each further one is twice as long.
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// How long what is merely detail of a pod that starts or is being deleted waits for more: that its containers run, or its
/// end, follows soon, in the same patch.
const DETAIL_PAUSE: Duration = Duration::from_secs(1);
/// How long the mere word that the agent has seen a pod's deletion waits for more. A pod that ends within it costs one
/// patch, and one that ends later two. The containers' ends and the pod's do not wait for it.
const GENERATION_PAUSE: Duration = Duration::from_secs(5);
/// How long a pod that is being deleted waits for the word that it is unready as all its containers have ended: its phase
/// follows in the same patch, as soon as its sandbox is stopped. Upstream tells of neither before that, however long it
/// takes.
const UNREADY_PAUSE: Duration = Duration::from_secs(2);
/// The longest wait after a call that failed, before jitter, which may double it: what is not sent yet is tried every 10 s
/// at least, as upstream does.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The longest wait that the server may ask for, before jitter.
const ASKED_MAX: Duration = Duration::from_secs(60);

/// The annotation that makes a pod the stand-in of a static pod.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Why a call is not made yet, and so what ends the wait early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Nobody answered: any other call that works shows that the server is back.
    Away,
    /// The server knew no such pod: over once the watch shows it.
    Gone,
    /// The server did not want it: it is as long as it is.
    Refused,
}

#[derive(Debug, Default)]
struct Entry {
    own: Option<Own>,
    api: Option<Arc<Pod>>,
    /// Nothing of the pod is left on the node.
    finished: bool,
    /// The pod of the call under way, in the API.
    calling: Option<PodUid>,
    /// The deleted pod, in the API.
    deleted: Option<PodUid>,
    /// The state here has changed since the last call.
    changed: bool,
    /// When the last call ended, and the object that it was about.
    last_call: Option<(Duration, Option<PodUid>)>,
    not_before: Option<(Duration, Why)>,
    /// The kind of detail of a start or an end that is held back, and since when.
    held: Option<(Urgency, Duration)>,
    failures: u32,
    /// The fate of the last patch.
    tried: Tried,
}

impl Entry {
    /// Ends the wait, if it is for one of these; gives whether it was.
    fn release(&mut self, whys: &[Why]) -> bool {
        self.not_before.take_if(|(_, why)| whys.contains(why)).is_some()
    }

    /// A call did not work: each further wait is longer, and spread.
    fn fail(&mut self, asked: Duration, why: Why, now: Duration, jitter: f64) {
        let wait = RETRY_FIRST.saturating_mul(1 << self.failures.min(6)).min(RETRY_MAX);
        let wait = asked.min(ASKED_MAX).max(wait).mul_f64(1.0 + jitter);
        self.not_before = Some((now + wait, why));
        (self.failures, self.changed) = (self.failures.saturating_add(1), true);
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct StatusSync {
    pods: BTreeMap<PodUid, Entry>,
    mirrors: BTreeMap<FullName, Arc<Pod>>,
    /// The pods whose difference is to be looked at.
    dirty: BTreeSet<PodUid>,
    /// The pods whose difference was looked at and may not be sent before this: until then it is not looked at again,
    /// unless it changes.
    later: BTreeMap<PodUid, Duration>,
    /// The same by time.
    agenda: BTreeSet<(Duration, PodUid)>,
    /// Pods whose news may be sent as soon as there is room.
    queue: Queue,
    /// Pods whose calls are under way.
    calling: BTreeSet<PodUid>,
    /// Pods of which a call did not work, so that something may end their wait.
    failed: BTreeSet<PodUid>,
    /// Static pods by name: whom a mirror may be about.
    statics: BTreeMap<FullName, BTreeSet<PodUid>>,
    /// How often a pod's difference was looked at: for a test, that one event costs one pod.
    looks: u64,
    /// The pods that wait for something else in the API server than before.
    waits_changed: BTreeSet<PodUid>,
    /// The pods whose difference was looked at, or that were forgotten, since somebody asked for these.
    looked_at: BTreeSet<PodUid>,
    /// Which parts of a status are the agent's own.
    gates: StatusGates,
}

/// Whether the pod is a mirror.
pub fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR_ANNOTATION))
}

fn uid_of(pod: &Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}

/// Whether one is older than the other, as far as their versions tell: they are numbers that grow, unless the API server's
/// store was restored from a copy. So watch events and answers are compared by them, and full lists are not.
fn is_older(one: &Pod, other: &Pod) -> bool {
    matches!((version(one), version(other)), (Some(one), Some(other)) if one < other)
}

fn is_as_new(one: &Pod, other: &Pod) -> bool {
    matches!((version(one), version(other)), (Some(one), Some(other)) if one >= other)
}

fn version(pod: &Pod) -> Option<u64> {
    pod.metadata.resource_version.as_deref()?.parse().ok()
}

impl StatusSync {
    /// An agent that tells these parts of statuses.
    pub fn telling(gates: StatusGates) -> Self {
        Self { gates, ..Self::default() }
    }

    /// A worker told its pod's status.
    pub fn own(&mut self, uid: &PodUid, own: Own) {
        if own.is_static {
            self.statics.entry(own.full_name.clone()).or_default().insert(uid.clone());
        }
        let entry = self.pods.entry(uid.clone()).or_default();
        (entry.own, entry.changed, entry.finished) = (Some(own), true, false);
        entry.tried.begin_anew();
        self.dirty.insert(uid.clone());
    }

    /// How often a pod's difference was looked at so far.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    fn forget(&mut self, uid: &PodUid) {
        let Some(entry) = self.pods.remove(uid) else { return };
        self.looked_at.insert(uid.clone());
        self.calling.remove(uid);
        self.failed.remove(uid);
        self.queue.leave(uid);
        self.put_off(uid, None);
        if let Some(own) = entry.own.filter(|own| own.is_static)
            && let Some(uids) = self.statics.get_mut(&own.full_name)
        {
            uids.remove(uid);
            if uids.is_empty() {
                self.statics.remove(&own.full_name);
            }
        }
    }

    /// The pod's difference is looked at again then; or not for the time alone.
    fn put_off(&mut self, uid: &PodUid, due: Option<Duration>) {
        let before = match due {
            Some(due) => self.later.insert(uid.clone(), due),
            None => self.later.remove(uid),
        };
        before.map(|before| self.agenda.remove(&(before, uid.clone())));
        self.agenda.extend(due.map(|due| (due, uid.clone())));
    }

    /// Whether a status of the pod came from here.
    pub fn has_own(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(|entry| entry.own.is_some())
    }

    /// Nothing of the pod is left on the node; or nothing ever was. Without an API object it is forgotten.
    pub fn finished(&mut self, uid: &PodUid) {
        let is_known = self.pods.get(uid).is_some_and(|entry| entry.api.is_some());
        if !is_known {
            self.forget(uid);
            return;
        }
        self.never_here(uid);
    }

    /// A pod that will never be on the node is finished as soon as the API shows it.
    pub fn never_here(&mut self, uid: &PodUid) {
        let entry = self.pods.entry(uid.clone()).or_default();
        if !entry.finished {
            entry.tried.begin_anew();
        }
        (entry.finished, entry.changed) = (true, true);
        self.dirty.insert(uid.clone());
    }

    /// The API server showed a pod. Older ones than are known already are passed over.
    pub fn seen(&mut self, pod: Arc<Pod>) {
        if is_mirror(&pod) {
            let name = full_name(&pod);
            if self.mirrors.get(&name).is_some_and(|known| is_older(&pod, known)) {
                return; // Also where another one has taken its place since.
            }
            self.mirrors.insert(name.clone(), pod);
            self.touch_static(&name);
            return;
        }
        let uid = uid_of(&pod);
        let entry = self.pods.entry(uid.clone()).or_default();
        if entry.api.as_ref().is_none_or(|known| !is_older(&pod, known)) {
            if entry.api.as_ref().is_none_or(|known| is_older(known, &pod)) {
                entry.release(&[Why::Gone]);
            }
            entry.api = Some(pod);
            self.dirty.insert(uid);
        }
    }

    /// The API server has this pod now, whatever it said before.
    fn listed(&mut self, pod: Arc<Pod>) {
        if is_mirror(&pod) {
            let name = full_name(&pod);
            self.mirrors.insert(name.clone(), pod);
            self.touch_static(&name);
        } else {
            let uid = uid_of(&pod);
            self.pods.entry(uid.clone()).or_default().api = Some(pod);
            self.dirty.insert(uid);
        }
    }

    /// How the API server shows this very pod, as far as is known.
    fn known_to_server(&self, pod: &Pod) -> Option<&Arc<Pod>> {
        if is_mirror(pod) {
            return self.mirrors.get(&full_name(pod)).filter(|known| uid_of(known) == uid_of(pod));
        }
        self.pods.get(&uid_of(pod)).and_then(|entry| entry.api.as_ref())
    }

    /// The API server no longer has the pod.
    pub fn gone(&mut self, pod: &Pod) {
        let (uid, name) = (uid_of(pod), full_name(pod));
        if self.mirrors.get(&name).is_some_and(|mirror| uid_of(mirror) == uid) {
            self.mirrors.remove(&name);
        }
        if let Some(entry) = self.pods.get_mut(&uid) {
            entry.api = None;
            if entry.finished || entry.own.is_none() {
                self.forget(&uid);
            }
        }
    }

    /// These are all pods that the API server has: it is there, and so are they.
    pub fn all(&mut self, pods: &[Arc<Pod>]) {
        let known: BTreeSet<PodUid> = pods.iter().map(|pod| uid_of(pod)).collect();
        let apis = self.pods.values().filter_map(|entry| entry.api.clone());
        let lost: Vec<Arc<Pod>> =
            apis.chain(self.mirrors.values().cloned()).filter(|pod| !known.contains(&uid_of(pod))).collect();
        lost.iter().for_each(|pod| self.gone(pod));
        pods.iter().for_each(|pod| self.listed(Arc::clone(pod)));
        for entry in self.pods.values_mut() {
            entry.deleted = None;
        }
        self.release(&[Why::Away, Why::Gone]);
    }

    /// Ends waits. How many calls are under way at once bounds what follows.
    fn release(&mut self, whys: &[Why]) {
        for uid in std::mem::take(&mut self.failed) {
            let Some(entry) = self.pods.get_mut(&uid) else { continue };
            if entry.release(whys) {
                self.dirty.insert(uid);
            } else if entry.not_before.is_some() {
                self.failed.insert(uid);
            }
        }
    }

    /// A call ended. `now` is uptime, `jitter` in 0..1.
    pub fn answered(&mut self, uid: &PodUid, answer: Answer, now: Duration, jitter: f64) {
        if matches!(answer, Answer::Done(_)) {
            self.release(&[Why::Away]);
        }
        // The answer may come after the watch said that the pod is gone, or that another one has its name. It may also come
        // after the watch brought the same: that pod is shared with whoever else knows it, an answer's is not.
        if let Answer::Done(Some(pod)) = &answer
            && self.known_to_server(pod).is_some_and(|known| !is_as_new(known, pod))
        {
            self.seen(Arc::clone(pod));
        }
        let shown = self.shown_uid(uid);
        let Some(entry) = self.pods.get_mut(uid) else { return };
        let asked = entry.calling.take();
        self.calling.remove(uid);
        entry.last_call = Some((now, asked.clone()));
        entry.tried.answered(&answer, entry.finished && !entry.changed);
        match answer {
            Answer::Done(pod) => {
                (entry.failures, entry.not_before) = (0, None);
                if pod.is_none() {
                    entry.deleted.clone_from(&asked);
                }
            }
            // The watch will say so, or has already, and has shown who came after. As long as it shows the pod all the same,
            // something else may have answered.
            Answer::Gone => {
                entry.failures = 0;
                entry.not_before = (asked == shown).then(|| (now + RECONCILE_PERIOD, Why::Gone));
                entry.changed = true;
            }
            Answer::Away => entry.fail(Duration::ZERO, Why::Away, now, jitter),
            Answer::Failed(after) => entry.fail(after.unwrap_or_default(), Why::Refused, now, jitter),
            Answer::Refused(_) => entry.fail(Duration::ZERO, Why::Refused, now, jitter),
        }
        if entry.not_before.is_some() {
            self.failed.insert(uid.clone());
        }
        self.dirty.insert(uid.clone());
    }

    /// Forgets what has no worker: those not in `known` count as finished.
    pub fn keep_only(&mut self, known: &BTreeSet<PodUid>) {
        let lost: Vec<PodUid> = self.pods.keys().filter(|uid| !known.contains(*uid)).cloned().collect();
        for uid in lost {
            let has_own = self.pods.get(&uid).is_some_and(|entry| entry.own.is_some() && !entry.finished);
            if has_own {
                self.finished(&uid);
            }
        }
    }

    /// The calls to make now, and when to ask again although nothing happens; both in uptime.
    pub fn orders(&mut self, now: Duration) -> (Vec<Order>, Option<Duration>) {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.extend(self.agenda.iter().take_while(|(due, _)| *due <= now).map(|(_, uid)| uid.clone()));
        let mut made = BTreeMap::new();
        for uid in dirty {
            self.put_off(&uid, None);
            made.extend(self.look(&uid, now).map(|order| (uid, order)));
        }
        let mut orders = Vec::new();
        while self.calling.len() < CALLS_MAX
            && let Some(uid) = self.queue.pop()
        {
            let Some(order) = made.remove(&uid).or_else(|| self.look(&uid, now)) else { continue };
            self.queue.leave(&uid);
            let entry = self.pods.get_mut(&uid).expect("it has an order");
            (entry.calling, entry.changed, entry.held) = (Some(order.api_uid.clone()), false, None);
            entry.tried.begin(&order.call);
            self.calling.insert(uid);
            orders.push(order);
        }
        (orders, self.agenda.first().map(|(due, _)| *due))
    }

    /// Looks at the pod's difference. News that may be sent now wait for room from then on.
    fn look(&mut self, uid: &PodUid, now: Duration) -> Option<Order> {
        self.looked_at.insert(uid.clone());
        if let Some(due) = self.away_until(uid).filter(|due| *due > now) {
            self.queue.leave(uid);
            self.put_off(uid, Some(due));
            return None;
        }
        self.looks += 1;
        let candidate = self.candidate(uid);
        self.judge(uid, candidate.is_some());
        let due = candidate
            .as_ref()
            .and_then(|candidate| candidate.due.into_iter().chain(self.held_until(uid, candidate.urgency, now)).max());
        let due = due.filter(|due| *due > now);
        match candidate.filter(|_| due.is_none()) {
            Some(Candidate { order, urgency, .. }) => {
                self.queue.join(uid, urgency);
                Some(order)
            }
            None => {
                self.queue.leave(uid);
                self.put_off(uid, due);
                None
            }
        }
    }

    /// Until when nobody is expected to answer: the news are made up when somebody may.
    fn away_until(&self, uid: &PodUid) -> Option<Duration> {
        let (due, why) = self.pods.get(uid)?.not_before?;
        (why == Why::Away).then_some(due)
    }

    /// The pods of which nothing is on its way any more, among those looked at since this was asked last.
    pub fn take_settled(&mut self) -> Vec<PodUid> {
        let looked_at = std::mem::take(&mut self.looked_at);
        looked_at.into_iter().filter(|uid| !self.is_waiting(uid)).collect()
    }

    /// Until when this is held back, as a detail of a start or an end.
    fn held_until(&mut self, uid: &PodUid, urgency: Urgency, now: Duration) -> Option<Duration> {
        let entry = self.pods.get_mut(uid)?;
        if entry.finished {
            return None;
        }
        let is_ending = entry.api.as_ref().is_some_and(|api| api.metadata.deletion_timestamp.is_some());
        let pause = match urgency {
            Urgency::Sandbox => DETAIL_PAUSE,
            Urgency::Detail if is_ending => DETAIL_PAUSE,
            Urgency::Generation => GENERATION_PAUSE,
            Urgency::Turn if is_ending && entry.own.as_ref().is_some_and(is_stopping) => UNREADY_PAUSE,
            _ => return None,
        };
        let since = entry.held.filter(|(what, _)| *what == urgency).map_or(now, |(_, since)| since);
        entry.held = Some((urgency, since));
        Some(since + pause)
    }

    /// Whether something of the pod is on its way to the API server, or will have to be.
    fn is_waiting(&self, uid: &PodUid) -> bool {
        self.dirty.contains(uid) || self.later.contains_key(uid) || self.queue.has(uid) || self.calling.contains(uid)
    }

    /// The UID of the pod's object in the API, as the watch last had it.
    fn shown_uid(&self, uid: &PodUid) -> Option<PodUid> {
        self.api_of(self.pods.get(uid)?).map(|pod| uid_of(pod))
    }

    /// The pod's object in the API, as the watch last had it.
    fn api_of<'a>(&'a self, entry: &'a Entry) -> Option<&'a Arc<Pod>> {
        let fixed = entry.own.as_ref().filter(|own| own.is_static);
        fixed.map_or(entry.api.as_ref(), |own| self.mirror_of(own))
    }

    /// The mirror that stands for just this static pod: one of its name may be another version's (POD-06).
    fn mirror_of(&self, own: &Own) -> Option<&Arc<Pod>> {
        let mirror = self.mirrors.get(&own.full_name)?;
        let hash = mirror.metadata.annotations.as_ref()?.get(MIRROR_ANNOTATION);
        (hash == own.config_hash.as_ref()).then_some(mirror)
    }

    /// The news of the pod to send, and its time.
    fn candidate(&self, uid: &PodUid) -> Option<Candidate> {
        let entry = self.pods.get(uid).filter(|entry| entry.calling.is_none())?;
        let is_static = entry.own.as_ref().is_some_and(|own| own.is_static);
        let api = self.api_of(entry)?;
        let nothing = PodStatus::default();
        let shown = api.status.as_ref().unwrap_or(&nothing);
        let api_uid = uid_of(api);
        if entry.deleted.as_ref() == Some(&api_uid) {
            return None;
        }
        let desired = merge::as_allowed(api, shown, self.desired(entry, shown, is_static));
        let call = match patch::patch(shown, &desired, api_uid.as_str()) {
            _ if is_static && lives_again(entry, shown) => Call::Delete,
            Some(_) if entry.tried.is_last() && may_be_deleted(entry, api) => Call::Delete,
            Some(mut body) => {
                if entry.own.is_none() {
                    // All that is known of the pod's end is what the API server showed: it must not have shown more since.
                    body["metadata"]["resourceVersion"] = api.metadata.resource_version.clone().into();
                }
                Call::Patch { body: Arc::new(body) }
            }
            None if may_be_deleted(entry, api) => Call::Delete,
            None => return None,
        };
        // Nobody here changed anything: somebody else did, and may go on to. A new mirror is no change of the one before.
        let is_same = entry.last_call.as_ref().is_none_or(|(_, asked)| asked.as_ref() == Some(&api_uid));
        let is_others = !entry.changed && is_same && call != Call::Delete;
        let pause = RECONCILE_PERIOD * entry.tried.pauses();
        let calm = entry.last_call.as_ref().filter(|_| is_others).map(|(last, _)| *last + pause);
        let due = entry.not_before.map(|(due, _)| due).into_iter().chain(calm).max();
        let order = Order { uid: uid.clone(), api_uid, full_name: full_name(api), call };
        let urgency = match (&order.call, is_others) {
            (_, true) => Urgency::Repair,
            (Call::Delete, _) => Urgency::End,
            _ if is_turn(shown, &desired) => Urgency::Turn,
            _ if is_about_sandbox(shown, &desired) => Urgency::Sandbox,
            _ if api.metadata.deletion_timestamp.is_some() && is_about_generation(shown, &desired) => {
                Urgency::Generation
            }
            _ => Urgency::Detail,
        };
        Some(Candidate { order, due, urgency })
    }

    fn desired(&self, entry: &Entry, shown: &PodStatus, is_static: bool) -> PodStatus {
        let status = match &entry.own {
            Some(own) => merge::merged(shown, &own.status, own.may_run && !entry.finished, self.gates),
            None => shown.clone(),
        };
        if entry.finished { merge::finished(status, is_static) } else { status }
    }

    fn touch_static(&mut self, name: &FullName) {
        for uid in self.statics.get(name).into_iter().flatten() {
            if let Some(entry) = self.pods.get_mut(uid) {
                entry.release(&[Why::Gone]); // It is there after all, or this is another one.
                self.dirty.insert(uid.clone());
            }
        }
    }
}

/// Whether the mirror has the end of a static pod that is not over: one that began a new life, or one that was refused and
/// exists no more. The API lets no phase go back: this mirror goes, and `MirrorManager` makes another.
fn lives_again(entry: &Entry, shown: &PodStatus) -> bool {
    let phase = |status: &PodStatus| is_terminal(status.phase.as_deref().unwrap_or_default());
    let lives = |own: &Own| own.may_run && !phase(&own.status);
    !entry.finished && entry.own.as_ref().is_some_and(lives) && phase(shown)
}

/// News that could be sent.
struct Candidate {
    order: Order,
    due: Option<Duration>,
    urgency: Urgency,
}

fn is_turn(shown: &PodStatus, desired: &PodStatus) -> bool {
    let ready = |status: &PodStatus| {
        status.conditions.iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    shown.phase != desired.phase || ready(shown) != ready(desired)
}

/// Whether the pod is still to start, and there is no news of its containers.
fn is_about_sandbox(shown: &PodStatus, desired: &PodStatus) -> bool {
    shown.phase.as_deref() == Some(PENDING)
        && shown.container_statuses == desired.container_statuses
        && shown.init_container_statuses == desired.init_container_statuses
        && shown.ephemeral_container_statuses == desired.ephemeral_container_statuses
}

/// Whether there is no news but of which generation of the pod the agent has seen.
fn is_about_generation(shown: &PodStatus, desired: &PodStatus) -> bool {
    let without = |status: &PodStatus| {
        let mut status = status.clone();
        status.observed_generation = None;
        for condition in status.conditions.iter_mut().flatten() {
            condition.observed_generation = None;
        }
        status
    };
    patch::patch(&without(shown), &without(desired), "").is_none()
}

/// Whether all containers of the pod have ended, and its phase does not say so yet: only its sandbox is to be stopped.
fn is_stopping(own: &Own) -> bool {
    let status = &own.status;
    let all = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let mut containers = all.into_iter().flatten().flatten();
    let phase = status.phase.as_deref().unwrap_or_default();
    !is_terminal(phase) && containers.all(|one| one.state.as_ref().is_some_and(|state| state.running.is_none()))
}

/// A pod goes from the API once it is being deleted, nothing of it is left here, and its last status is there (POD-36). An
/// API server that answered the last status holds up no deletion, whether it took the status over or not.
fn may_be_deleted(entry: &Entry, api: &Pod) -> bool {
    let phase = api.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let has_ended = is_terminal(phase) || entry.tried.is_last();
    entry.finished && api.metadata.deletion_timestamp.is_some() && !is_mirror(api) && has_ended
}
