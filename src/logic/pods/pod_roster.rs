//! Which pods are to have a worker, and what each worker hears (POD-04, POD-07, POD-09, POD-10, POD-33).
//!
//! Owned by `PodManager`. Level-triggered: [`PodRoster::orders`] compares what sources want, what workers do and what the
//! runtime holds, and says what is to be done about the difference; asking twice changes nothing.

mod pass;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodExtendedResourceClaimStatus, PodResourceClaimStatus};

use self::pass::Pass;
use super::pod_lifecycle::ORPHAN_GRACE;
use super::pod_resize::{may_free, take_the_same};
use crate::logic::manifest::identity::{CONFIG_HASH_ANNOTATION, CONFIG_SOURCE_ANNOTATION};
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::pod_phase::is_terminal;
use crate::logic::model::time::Stamp;

/// The annotation's value for pods from the API server.
pub const API_SOURCE: &str = "api";

/// A worker's orders, as far as they are known to have arrived.
#[derive(Clone, Debug)]
struct Worker {
    full_name: FullName,
    told: Option<Arc<Pod>>,
    terminating: bool,
    /// The pod has ended, and its worker only removes what is left of it.
    over: bool,
    /// The grace period that the worker got, from the API object.
    grace: Option<Duration>,
    /// The worker is to get the pod again: to a worker that was started anew, or had no room.
    spec_again: bool,
    /// So is its end.
    end_again: bool,
    /// Which life of a static pod it looks after; `None` for the first that its source knows of.
    life: Option<Stamp>,
}

/// The life of a pod that a worker looks after. A static pod that comes back with the same UID has another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerLife {
    /// Since when its source wants it; `None` for the first life that the source knows of.
    pub since: Option<Stamp>,
    /// `PodManager` has told the worker to end it.
    pub is_ending: bool,
}

/// The orders.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Start a worker.
    Start {
        /// For this pod.
        uid: PodUid,
        /// Its name and namespace.
        full_name: FullName,
    },
    /// Tell the worker the newest desired pod.
    TellSpec {
        /// The UID of the worker's pod.
        uid: PodUid,
        /// The pod.
        pod: Arc<Pod>,
    },
    /// Tell the worker that the API server shows the pod as ended. Where the agent said so itself, it is no news.
    TellEnd {
        /// The UID of the worker's pod.
        uid: PodUid,
        /// The pod.
        pod: Arc<Pod>,
    },
    /// Tell the worker that nobody wants the pod any more.
    Terminate {
        /// The UID of the worker's pod.
        uid: PodUid,
        /// Time for its containers; `None` leaves the pod's own.
        grace: Option<Duration>,
    },
    /// A pod of the API server that is to end, or has, and of which the runtime holds nothing: it gets no worker. Its volumes
    /// and cgroups are to be released; then [`PodRoster::released`] is called.
    Release(PodUid),
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct PodRoster {
    /// By source name; `None` until the source was heard.
    sources: BTreeMap<&'static str, Option<BTreeMap<PodUid, Arc<Pod>>>>,
    /// The pods that the API server wanted before the agent started; wanted until it is heard.
    remembered: BTreeMap<PodUid, Arc<Pod>>,
    workers: BTreeMap<PodUid, Worker>,
    /// By source name, pods that it did not want in between, and since when it wants them again.
    lives: BTreeMap<&'static str, BTreeMap<PodUid, Stamp>>,
    /// Pods that had workers when this roster's predecessor fell, and which life of them those looked after.
    inherited: BTreeMap<PodUid, WorkerLife>,
    /// Pods of the API server whose life on this node is over, as long as the API server has them (POD-07: a UID ends once).
    ended: BTreeSet<PodUid>,
    /// Pods of [`Order::Release`] that are not released yet.
    releasing: BTreeSet<PodUid>,
    /// The pod whose remains are being removed: it gets no worker meanwhile.
    held: Option<PodUid>,
    /// How many workers have pods of each name that are not over.
    names: BTreeMap<FullName, usize>,
    /// Pods that a source wants and that are not decided yet: what the runtime holds of them stays.
    open: BTreeSet<PodUid>,
    /// Wanted pods without a worker, which something held up: each pass over any pod looks at them again.
    held_up: BTreeSet<PodUid>,
    /// How many workers more may be started before the next refill.
    starts_left: usize,
    /// Pods wait for that.
    unfinished: bool,
}

/// The most workers that are started until [`PodRoster::refill`] allows more. A thousand that begin at once
/// would keep a processor, and with it all probes, for a second.
const STARTS_MAX: usize = 20;

/// Whether the pod is from a file or a URL.
pub fn is_static(pod: &Pod) -> bool {
    let source = pod.metadata.annotations.as_ref().and_then(|all| all.get(CONFIG_SOURCE_ANNOTATION));
    source.is_some_and(|source| source != API_SOURCE)
}

/// The hash that tells the versions of a static pod apart.
pub fn config_hash(pod: &Pod) -> Option<String> {
    pod.metadata.annotations.as_ref()?.get(CONFIG_HASH_ANNOTATION).cloned()
}

/// Whether the API server has its end: it is being deleted, or has ended already.
pub fn is_over(pod: &Pod) -> bool {
    !is_static(pod) && (pod.metadata.deletion_timestamp.is_some() || has_ended(pod))
}

/// Whether its phase says that it has ended.
fn has_ended(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(is_terminal)
}

/// The time that a pod which is being deleted has for its end.
fn deletion_grace(pod: &Pod) -> Option<Duration> {
    let seconds = pod.metadata.deletion_timestamp.as_ref().and(pod.metadata.deletion_grace_period_seconds)?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// A pod's name and namespace, from the object.
pub fn full_name(pod: &Pod) -> FullName {
    let metadata = &pod.metadata;
    FullName::new(metadata.name.as_deref().unwrap_or_default(), metadata.namespace.as_deref().unwrap_or_default())
}

impl Worker {
    fn new(full_name: FullName, told: Option<Arc<Pod>>) -> Self {
        let (grace, life) = (None, None);
        Self { full_name, told, terminating: false, over: false, grace, spec_again: false, end_again: false, life }
    }

    fn end(&self, uid: &PodUid) -> Order {
        // A worker that was never told a pod has only the runtime's word for it: an orphan.
        Order::Terminate { uid: uid.clone(), grace: self.told.as_ref().map_or(Some(ORPHAN_GRACE), |_| self.grace) }
    }
}

impl PodRoster {
    /// A roster that waits for these sources before anything is ended.
    pub fn new(sources: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            sources: sources.into_iter().map(|name| (name, None)).collect(),
            remembered: BTreeMap::new(),
            workers: BTreeMap::new(),
            lives: BTreeMap::new(),
            inherited: BTreeMap::new(),
            ended: BTreeSet::new(),
            releasing: BTreeSet::new(),
            held: None,
            open: BTreeSet::new(),
            names: BTreeMap::new(),
            held_up: BTreeSet::new(),
            starts_left: STARTS_MAX,
            unfinished: false,
        }
    }

    /// A source told its complete set.
    pub fn set(&mut self, source: &'static str, pods: BTreeMap<PodUid, Arc<Pod>>) {
        if source == API_SOURCE {
            self.remembered.clear();
        }
        self.sources.insert(source, Some(pods));
        let (ended, releasing) = (std::mem::take(&mut self.ended), std::mem::take(&mut self.releasing));
        self.ended = ended.into_iter().filter(|uid| self.wanted(uid).is_some()).collect();
        self.releasing = releasing.into_iter().filter(|uid| self.wanted(uid).is_some()).collect();
    }

    /// These pods of a source were not wanted in between. A source that was started again knows of none, and nothing ends for
    /// that.
    pub fn set_lives(&mut self, source: &'static str, lives: BTreeMap<PodUid, Stamp>) {
        self.lives.insert(source, lives);
    }

    /// A predecessor's workers looked after these lives of pods. The runtime's objects of such a pod are of that life.
    #[must_use]
    pub fn with_inherited(mut self, lives: BTreeMap<PodUid, WorkerLife>) -> Self {
        self.inherited = lives;
        self
    }

    /// Which life of the pod its worker looks after. One that the API server wants never ends so: its UID ends once.
    pub fn life_of_worker(&self, uid: &PodUid) -> WorkerLife {
        let Some(worker) = self.workers.get(uid) else { return WorkerLife::default() };
        let is_ending = worker.terminating && worker.told.as_ref().is_none_or(|pod| is_static(pod));
        WorkerLife { since: worker.life, is_ending }
    }

    /// Which life of the pod is wanted; `None` for the first that its source knows of.
    pub fn life(&self, uid: &PodUid) -> Option<Stamp> {
        self.lives.values().find_map(|lives| lives.get(uid)).copied()
    }

    /// A source that told its complete set tells of one pod: what it is to be by now, or that it is wanted no more.
    pub fn set_pod(&mut self, source: &'static str, uid: &PodUid, pod: Option<Arc<Pod>>) {
        let Some(Some(pods)) = self.sources.get_mut(source) else { return }; // Its complete set is still to come.
        match pod {
            Some(pod) => drop(pods.insert(uid.clone(), pod)),
            None => drop(pods.remove(uid)),
        }
        if self.wanted(uid).is_none() {
            self.ended.remove(uid);
            self.releasing.remove(uid);
        }
    }

    /// Whether the source told its complete set.
    pub fn was_heard(&self, source: &'static str) -> bool {
        self.sources.get(source).is_some_and(Option::is_some)
    }

    /// The API server cannot be heard, and wanted these when it last was. They are wanted; what is not among them is not
    /// unwanted for that: a pod may be newer than what is remembered.
    pub fn remember(&mut self, pods: BTreeMap<PodUid, Arc<Pod>>) {
        if self.sources.get(API_SOURCE).is_some_and(Option::is_none) {
            self.remembered = pods;
        }
    }

    /// Whether all sources were heard.
    pub fn all_heard(&self) -> bool {
        self.sources.values().all(Option::is_some)
    }

    /// Whether all sources of static pods were heard.
    pub fn statics_heard(&self) -> bool {
        self.sources.iter().all(|(name, pods)| *name == API_SOURCE || pods.is_some())
    }

    /// The desired pod of this UID.
    pub fn wanted(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        let heard = self.sources.values().flatten();
        heard.chain([&self.remembered]).find_map(|pods| pods.get(uid))
    }

    /// The pod that a worker got last; `None` without a worker, or of a pod that only the runtime knows.
    pub fn told(&self, uid: &PodUid) -> Option<&Pod> {
        self.workers.get(uid)?.told.as_deref()
    }

    /// All desired pods.
    pub fn all_wanted(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        self.sources.values().flatten().flatten().chain(&self.remembered)
    }

    /// Pods that have a worker which knows its orders.
    pub fn with_worker(&self) -> BTreeSet<PodUid> {
        let workers = self.workers.iter().filter(|(_, worker)| worker.told.is_some());
        workers.map(|(uid, _)| uid.clone()).collect()
    }

    /// UIDs that are wanted or still have a worker.
    pub fn known(&self) -> BTreeSet<PodUid> {
        self.all_wanted().map(|(uid, _)| uid.clone()).chain(self.workers.keys().cloned()).collect()
    }

    /// A worker's pod has ended, and its volumes and its cgroup are gone: whatever is left of it, its name is free. Says
    /// whether that is news.
    pub fn over(&mut self, uid: &PodUid) -> bool {
        let worker = self.workers.get_mut(uid).filter(|worker| !worker.over);
        let Some(worker) = worker else { return false };
        worker.over = true;
        if let Some(count) = self.names.get_mut(&worker.full_name) {
            *count -= 1;
            if *count == 0 {
                self.names.remove(&worker.full_name);
            }
        }
        if self.wanted(uid).is_some_and(|pod| is_over(pod)) {
            self.ended.insert(uid.clone());
        }
        true
    }

    /// Whether the worker only removes what is left of its pod.
    pub fn is_left_over(&self, uid: &PodUid) -> bool {
        self.workers.get(uid).is_some_and(|worker| worker.over)
    }

    /// A worker's pod is gone from the node.
    pub fn finished(&mut self, uid: &PodUid) {
        self.over(uid);
        self.workers.remove(uid);
    }

    /// Of a pod of [`Order::Release`] nothing is here; says whether it still counts.
    pub fn released(&mut self, uid: &PodUid) -> bool {
        let counts = self.releasing.remove(uid) && !self.workers.contains_key(uid);
        if counts {
            self.ended.insert(uid.clone());
        }
        counts
    }

    /// Pods that the API server still has and whose life on this node is over.
    pub fn ended(&self) -> &BTreeSet<PodUid> {
        &self.ended
    }

    /// Names of static pods that nobody wants any more and that still end; and of pods that only the runtime knows, which
    /// may be such ones of before a restart.
    pub fn ending_statics(&self, runtime: &BTreeMap<PodUid, FullName>) -> BTreeSet<FullName> {
        let ending = self.workers.values().filter(|worker| worker.terminating && !worker.over);
        let ending = ending.filter(|worker| worker.told.as_ref().is_none_or(|pod| is_static(pod)));
        let is_strange =
            |uid: &PodUid| self.wanted(uid).is_none() && self.told(uid).is_none() && !self.is_left_over(uid);
        let strange = runtime.iter().filter(|(uid, _)| is_strange(uid));
        ending.map(|worker| &worker.full_name).chain(strange.map(|(_, name)| name)).cloned().collect()
    }

    /// These pods are not decided yet, and only these: what the runtime holds of one may be an orphan's once it is.
    pub fn set_open(&mut self, open: BTreeSet<PodUid>) {
        self.open = open;
    }

    /// Keeps this pod from starting, and whichever it was before no longer.
    pub fn hold(&mut self, uid: Option<PodUid>) {
        self.held = uid;
    }

    /// A worker was started anew after a failure: it is to get once more what its predecessor got. A pod that was ending
    /// goes on ending, with its own grace period.
    pub fn forget_told(&mut self, uid: &PodUid) {
        if let Some(worker) = self.workers.get_mut(uid) {
            (worker.spec_again, worker.end_again) = (worker.told.is_some(), worker.terminating);
        }
    }

    /// A worker had no room for its pod: that is an order of the next pass.
    pub fn spec_refused(&mut self, uid: &PodUid) {
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.spec_again = true;
        }
    }

    /// A worker had no room for its end, or must get its pod first: that is an order of the next pass.
    pub fn end_refused(&mut self, uid: &PodUid) {
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.end_again = true;
        }
    }

    /// Whether the worker has yet to get its pod, without which it would end it as a stranger's.
    pub fn owes_spec(&self, uid: &PodUid) -> bool {
        self.workers.get(uid).is_some_and(|worker| worker.spec_again)
    }

    /// As many workers as at first may be started from now on. To be called now and then, not at each pass.
    pub fn refill(&mut self) {
        self.starts_left = STARTS_MAX;
    }

    /// Whether pods wait only for a refill.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// The orders about all pods. `runtime` has the pods of the runtime; `None` before it was listed: then
    /// nobody starts, for a pod of the same name may be there still.
    pub fn orders(&mut self, runtime: Option<&BTreeMap<PodUid, FullName>>) -> Vec<Order> {
        self.held_up.clear();
        self.unfinished = false;
        let mut pass = Pass::new(runtime, vec![]);
        let workers: Vec<PodUid> = self.workers.keys().cloned().collect();
        workers.iter().for_each(|uid| self.repeat(uid, &mut pass.orders));
        workers.iter().for_each(|uid| self.end_unwanted(uid, &mut pass.orders));
        for uid in runtime.into_iter().flat_map(BTreeMap::keys) {
            self.end_orphan(uid, &mut pass);
        }
        let wanted: Vec<(PodUid, Arc<Pod>)> =
            self.all_wanted().map(|(uid, pod)| (uid.clone(), Arc::clone(pod))).collect();
        for (uid, pod) in wanted {
            self.want(&uid, &pod, &mut pass);
        }
        pass.orders
    }

    /// The orders about this pod, after news of it alone, and about those that it may have held up.
    pub fn orders_for(&mut self, uid: &PodUid, runtime: Option<&BTreeMap<PodUid, FullName>>) -> Vec<Order> {
        let mut pass = Pass::new(runtime, vec![]);
        self.repeat(uid, &mut pass.orders);
        self.end_unwanted(uid, &mut pass.orders);
        self.end_orphan(uid, &mut pass);
        self.held_up.insert(uid.clone());
        self.go_on(&mut pass);
        pass.orders
    }

    /// The orders about pods that something held up.
    pub fn orders_held_up(&mut self, runtime: Option<&BTreeMap<PodUid, FullName>>) -> Vec<Order> {
        let mut pass = Pass::new(runtime, vec![]);
        self.go_on(&mut pass);
        pass.orders
    }

    fn go_on(&mut self, pass: &mut Pass<'_>) {
        self.unfinished = false;
        for uid in std::mem::take(&mut self.held_up) {
            if let Some(pod) = self.wanted(&uid).cloned() {
                self.want(&uid, &pod, pass);
            }
        }
    }

    fn repeat(&mut self, uid: &PodUid, orders: &mut Vec<Order>) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        if let Some(pod) = worker.told.as_ref().filter(|_| worker.spec_again) {
            orders.push(Order::TellSpec { uid: uid.clone(), pod: Arc::clone(pod) });
        }
        if worker.end_again {
            orders.push(worker.end(uid));
        }
        (worker.spec_again, worker.end_again) = (false, false);
    }

    fn end_unwanted(&mut self, uid: &PodUid, orders: &mut Vec<Order>) {
        // A source that was not heard yet may want any of them; but the API server wants no static ones.
        let (all_heard, statics_heard, is_wanted) =
            (self.all_heard(), self.statics_heard(), self.wanted(uid).is_some());
        let Some(worker) = self.workers.get_mut(uid).filter(|worker| !worker.terminating && !is_wanted) else { return };
        let is_known_static = worker.told.as_ref().is_some_and(|pod| is_static(pod)) && statics_heard;
        if all_heard || is_known_static {
            worker.terminating = true;
            orders.push(worker.end(uid));
        }
    }

    fn want(&mut self, uid: &PodUid, pod: &Arc<Pod>, pass: &mut Pass<'_>) {
        if self.workers.contains_key(uid) {
            return self.update(uid, pod, &mut pass.orders);
        }
        let full_name = full_name(pod);
        if self.ended.contains(uid) {
            return;
        }
        // Static pods of one name run one after the other (POD-09), also when the former is of before a restart.
        let Some(runtime) = pass.runtime.filter(|_| self.held.as_ref() != Some(uid)) else {
            self.held_up.insert(uid.clone());
            return;
        };
        if is_over(pod) && !runtime.contains_key(uid) {
            if self.releasing.insert(uid.clone()) {
                pass.orders.push(Order::Release(uid.clone()));
            }
            return;
        }
        self.releasing.remove(uid);
        let is_held = |other: &&PodUid| *other != uid && self.wanted(other).is_none() && !self.is_left_over(other);
        let is_taken =
            is_static(pod) && (self.names.contains_key(&full_name) || pass.of_name(&full_name).iter().any(is_held));
        if is_taken || self.starts_left == 0 {
            self.held_up.insert(uid.clone());
            self.unfinished |= !is_taken;
            return;
        }
        self.starts_left -= 1;
        let wanted = self.life(uid);
        // Of a former life its worker knew the end: it is brought to it, and the wanted life begins after that.
        let inherited = self.inherited.remove(uid).filter(|_| runtime.contains_key(uid));
        let life = inherited.map_or(wanted, |life| life.since);
        let is_other = wanted.is_some() && life != wanted;
        let is_former = is_other || is_static(pod) && inherited.is_some_and(|life| life.is_ending);
        let terminating = is_former || !is_static(pod) && pod.metadata.deletion_timestamp.is_some();
        let told = Some(Arc::clone(pod));
        let worker = Worker { terminating, grace: deletion_grace(pod), life, ..Worker::new(full_name.clone(), told) };
        let end = terminating.then(|| worker.end(uid));
        self.hire(uid, worker);
        pass.orders.push(Order::Start { uid: uid.clone(), full_name });
        pass.orders.push(Order::TellSpec { uid: uid.clone(), pod: Arc::clone(pod) });
        pass.orders.extend(end);
    }

    /// Tells a worker what is new about its pod.
    fn update(&mut self, uid: &PodUid, pod: &Arc<Pod>, orders: &mut Vec<Order>) {
        let life = self.life(uid);
        let Some(worker) = self.workers.get_mut(uid) else { return };
        if life.is_some() && worker.life != life && !worker.terminating {
            worker.terminating = true;
            orders.push(worker.end(uid));
        }
        let grace = deletion_grace(pod);
        let is_deleted = !is_static(pod) && pod.metadata.deletion_timestamp.is_some();
        // The very same pod has nothing new, whatever it is made of.
        if worker.told.as_ref().is_none_or(|told| !Arc::ptr_eq(told, pod)) {
            // Wanted again while it ends: it ends first, and starts anew when its worker has finished.
            let changed = worker.told.as_ref().is_none_or(|told| differs(told, pod));
            let ended = !is_static(pod) && has_ended(pod) && !worker.told.as_deref().is_some_and(has_ended);
            // The worker hears of a deletion even while the pod ends: a later deletion may leave less time.
            if (changed || ended) && (!worker.terminating || is_deleted) {
                worker.told = Some(Arc::clone(pod));
                let (uid, pod) = (uid.clone(), Arc::clone(pod));
                orders.push(if changed { Order::TellSpec { uid, pod } } else { Order::TellEnd { uid, pod } });
            }
        }
        if is_deleted && (!worker.terminating || grace < worker.grace) {
            (worker.terminating, worker.grace) = (true, grace);
            orders.push(worker.end(uid));
        }
    }

    fn end_orphan(&mut self, uid: &PodUid, pass: &mut Pass<'_>) {
        let Some(full_name) = pass.runtime.filter(|_| self.all_heard()).and_then(|runtime| runtime.get(uid)) else {
            return;
        };
        let may_be_wanted = self.wanted(uid).is_some() || self.open.contains(uid) || self.held.as_ref() == Some(uid);
        if self.workers.contains_key(uid) || may_be_wanted {
            return;
        }
        let worker = Worker { terminating: true, ..Worker::new(full_name.clone(), None) };
        self.hire(uid, worker);
        pass.orders.push(Order::Start { uid: uid.clone(), full_name: full_name.clone() });
        pass.orders.push(Order::Terminate { uid: uid.clone(), grace: Some(ORPHAN_GRACE) });
    }

    fn hire(&mut self, uid: &PodUid, worker: Worker) {
        *self.names.entry(worker.full_name.clone()).or_default() += 1;
        self.workers.insert(uid.clone(), worker);
    }
}

/// Whether an update is worth telling (POD-04): annotations of the agent's own do not count. The generation does, although
/// nothing else may differ from the version that the worker has: the status says which one was observed (POD-28).
pub fn differs(one: &Pod, other: &Pod) -> bool {
    const LOCAL: [&str; 3] =
        ["kubernetes.io/config.source", "kubernetes.io/config.mirror", "kubernetes.io/config.seen"];
    fn foreign(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
        pod.metadata.annotations.iter().flatten().filter(|(key, _)| !LOCAL.contains(&key.as_str()))
    }
    one.metadata.generation != other.metadata.generation
        || one.spec != other.spec
        || one.metadata.labels != other.metadata.labels
        || one.metadata.deletion_timestamp != other.metadata.deletion_timestamp
        || one.metadata.deletion_grace_period_seconds != other.metadata.deletion_grace_period_seconds
        || !foreign(one).eq(foreign(other))
        || gates(one) != gates(other)
        || claims(one) != claims(other)
}

/// Whether a source tells of a pod that it had told as `before`: what the pod is to be has changed, or what it takes of the
/// node. Another change is nothing to the worker, and the version that it has stays the one that everybody shares.
pub fn is_news(before: &Pod, now: &Pod) -> bool {
    differs(before, now) || may_free(before, now) || !take_the_same(before, now)
}

/// The claims of resources that others made for the pod, and said in its status.
fn claims(pod: &Pod) -> (Option<&[PodResourceClaimStatus]>, Option<&PodExtendedResourceClaimStatus>) {
    let status = pod.status.as_ref();
    let made = status.and_then(|status| status.resource_claim_statuses.as_deref()).filter(|made| !made.is_empty());
    (made, status.and_then(|status| status.extended_resource_claim_status.as_ref()))
}

/// The statuses that others gave the pod's readiness gates.
fn gates(pod: &Pod) -> Vec<(&str, &str)> {
    let wanted: BTreeSet<&str> = pod
        .spec
        .iter()
        .flat_map(|spec| spec.readiness_gates.iter().flatten())
        .map(|gate| &*gate.condition_type)
        .collect();
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .filter(|condition| wanted.contains(&*condition.type_))
        .map(|condition| (&*condition.type_, &*condition.status))
        .collect()
}

#[cfg(test)]
mod tests;
