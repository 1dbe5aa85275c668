//! `PodManager`'s knowledge of pods' allocations, and of resizes that wait. A resize that is taken on is in force for
//! others only once it was kept on the disk: after a crash, nobody may know less than the worker did.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};

use super::allocation::resizable;
use super::{
    PendingReason, PendingResize, PodResources, ResizeGates, allocation_of, same_requirements, with_allocation,
};
use crate::logic::model::ids::PodUid;
use crate::logic::model::pod_phase::is_terminal;

/// Why waiting resizes are looked at: the label of `kubelet_pod_deferred_accepted_resizes_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Trigger {
    /// Pods are gone.
    PodsRemoved,
    /// A pod has ended.
    PodTerminated,
    /// A pod takes less than it did.
    PodResized,
    /// There are new pods.
    PodsAdded,
    /// A pod asks for other resources.
    PodUpdated,
    /// Time has passed.
    PeriodicRetry,
}

impl Trigger {
    /// The part of it in the news of one pod, from the old wish to the new state. A change counts as the one that makes
    /// room, if it does. See [`may_free`] for changes of a status alone.
    pub fn between(before: Option<&Arc<Pod>>, after: Option<&Arc<Pod>>) -> Option<Self> {
        let (old, pod) = match (before, after) {
            (None, None) => return None,
            (Some(_), None) => return Some(Self::PodsRemoved),
            (None, Some(_)) => return Some(Self::PodsAdded),
            (Some(old), Some(new)) if Arc::ptr_eq(old, new) => return None,
            (Some(old), Some(new)) => (old, new),
        };
        let is_over =
            |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(is_terminal);
        if is_over(pod) && !is_over(old) {
            Some(Self::PodTerminated)
        } else if !reported(pod).eq(reported(old)) {
            Some(Self::PodResized)
        } else {
            // A resize that was taken back and asked for again shows in the generation alone.
            let is_another = pod.metadata.generation != old.metadata.generation
                && pod.metadata.deletion_timestamp == old.metadata.deletion_timestamp;
            (is_another || pod.spec != old.spec).then_some(Self::PodUpdated)
        }
    }
}

/// The resources that statuses of containers report, in their order, and those of the pod.
fn reported(pod: &Pod) -> impl Iterator<Item = Option<&ResourceRequirements>> {
    let status = pod.status.iter();
    let all =
        status.flat_map(|status| status.container_statuses.iter().chain(&status.init_container_statuses).flatten());
    all.map(|status| status.resources.as_ref()).chain(own_taken(pod).map(Some))
}

/// The resources that the pod as a whole takes, as the status says; `None` where it asks for none of its own.
fn own_taken(pod: &Pod) -> Option<&ResourceRequirements> {
    pod.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    pod.status.as_ref()?.resources.as_ref()
}

/// Whether a pod's status alone tells that there may be room for others: it has ended, or what it takes has changed.
pub fn may_free(before: &Pod, after: &Pod) -> bool {
    let is_over = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(is_terminal);
    let after_taken = taken(after);
    let has_changed = |(name, old): (&&str, _)| after_taken.get(*name).is_some_and(|new| new != old);
    (is_over(after) && !is_over(before)) || taken(before).iter().any(has_changed)
}

/// Whether both statuses say the same of what the pod and its containers take; one that takes nothing need not be said.
pub fn take_the_same(one: &Pod, other: &Pod) -> bool {
    let something = |(_, resources): &(&str, &ResourceRequirements)| **resources != ResourceRequirements::default();
    taken(one).into_iter().filter(something).eq(taken(other).into_iter().filter(something))
}

/// The resources that containers take, by name, as the status says; those of the pod under no name.
fn taken(pod: &Pod) -> BTreeMap<&str, &ResourceRequirements> {
    let status = pod.status.iter();
    let all =
        status.flat_map(|status| status.container_statuses.iter().chain(&status.init_container_statuses).flatten());
    let of_containers = all.filter_map(|status| Some((&*status.name, status.resources.as_ref()?)));
    of_containers.chain(own_taken(pod).map(|own| ("", own))).collect()
}

/// Whether the pod asks for something else than this.
fn asks_for_other(pod: &Pod, given: &PodResources, gates: &ResizeGates) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let differs = |container: &Container| {
        let given = given.containers.get(&container.name);
        given.is_some_and(|given| {
            !same_requirements(Some(given), Some(container.resources.as_ref().unwrap_or(&NOTHING)))
        })
    };
    resizable(spec, gates).any(differs)
        || (gates.by_pod && !same_requirements(spec.resources.as_ref(), given.pod.as_ref()))
}

static NOTHING: ResourceRequirements = ResourceRequirements { claims: None, limits: None, requests: None };

/// A resize that was taken on and is being kept.
#[derive(Clone, Debug)]
struct Accepted {
    given: PodResources,
    /// Where it had waited, what led to its being taken on.
    deferred: Option<Trigger>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Allocations {
    recalled: bool,
    given: BTreeMap<PodUid, PodResources>,
    accepted: BTreeMap<PodUid, Accepted>,
    /// The pods whose allocation is to be kept on the disk.
    unkept: BTreeSet<PodUid>,
    waiting: BTreeMap<PodUid, PendingResize>,
}

impl Allocations {
    /// Takes what earlier runs of the agent gave. Only the first word counts: later this knows better.
    pub fn recall(&mut self, given: &BTreeMap<PodUid, PodResources>) -> bool {
        let is_first = !std::mem::replace(&mut self.recalled, true);
        if is_first {
            self.given.clone_from(given);
        }
        is_first
    }

    /// Whether it is known what earlier runs of the agent gave.
    pub fn is_recalled(&self) -> bool {
        self.recalled
    }

    /// The pod with what it was given; as it is where it was given nothing yet.
    pub fn in_force(&self, uid: &PodUid, pod: &Arc<Pod>, gates: &ResizeGates) -> Arc<Pod> {
        self.given.get(uid).map_or_else(|| Arc::clone(pod), |given| with_allocation(pod, given, gates))
    }

    /// The pod with what it takes of the node: what it was given, or is being given.
    pub fn counted(&self, uid: &PodUid, pod: &Arc<Pod>, gates: &ResizeGates) -> Arc<Pod> {
        match self.accepted.get(uid) {
            Some(accepted) => with_allocation(pod, &accepted.given, gates),
            None => self.in_force(uid, pod, gates),
        }
    }

    /// The pod was admitted: from now on it has what it asked for, unless it had something before.
    /// Says whether there is something new to be kept.
    pub fn admit(&mut self, uid: &PodUid, pod: &Pod, gates: &ResizeGates) -> bool {
        let is_new = !self.given.contains_key(uid);
        if is_new {
            self.given.insert(uid.clone(), allocation_of(pod, gates));
            self.unkept.insert(uid.clone());
        }
        is_new
    }

    /// Whether the pod asks for something else than it was given, or is being given.
    pub fn is_asked(&self, uid: &PodUid, pod: &Pod, gates: &ResizeGates) -> bool {
        let given = self.accepted.get(uid).map(|accepted| &accepted.given).or_else(|| self.given.get(uid));
        given.is_some_and(|given| asks_for_other(pod, given, gates))
    }

    /// Whether the node has decided about what this generation of the pod asks for: it has that, or waits. A resize that was
    /// taken on counts once it was kept.
    pub fn is_judged(&self, uid: &PodUid, pod: &Pod, gates: &ResizeGates) -> bool {
        let waits = |waiting: &PendingResize| waiting.generation == pod.metadata.generation;
        !self.accepted.contains_key(uid)
            && (self.waiting.get(uid).is_some_and(waits) || !self.is_asked(uid, pod, gates))
    }

    /// Whether what the pod asks for was taken on, and is being kept.
    pub fn is_accepted(&self, uid: &PodUid, pod: &Pod, gates: &ResizeGates) -> bool {
        self.accepted.get(uid).is_some_and(|accepted| !asks_for_other(pod, &accepted.given, gates))
    }
    /// Takes a resize on. It is in force once it was kept.
    pub fn accept(&mut self, uid: &PodUid, pod: &Pod, gates: &ResizeGates, trigger: Trigger) {
        let deferred =
            self.waiting.get(uid).filter(|waiting| waiting.reason == PendingReason::Deferred).map(|_| trigger);
        self.accepted.insert(uid.clone(), Accepted { given: allocation_of(pod, gates), deferred });
    }

    /// Why the pod's resize waits.
    pub fn waiting(&self, uid: &PodUid) -> Option<&PendingResize> {
        self.waiting.get(uid)
    }

    /// Pods whose resize waits.
    pub fn all_waiting(&self) -> &BTreeMap<PodUid, PendingResize> {
        &self.waiting
    }

    /// The resize waits. Says whether that is news, beside its wording; `shown` is the condition that the status had before
    /// a restart.
    pub fn wait(&mut self, uid: &PodUid, mut pending: PendingResize, shown: Option<PendingResize>) -> bool {
        let before = self.waiting.get(uid).cloned().or(shown).filter(|before| before.reason == pending.reason);
        if let Some(before) = &before {
            pending.since = before.since;
        }
        let is_news = before.is_none_or(|before| before.generation != pending.generation);
        self.waiting.insert(uid.clone(), pending);
        is_news
    }

    /// The pod was changed. One without a generation shows by that alone that it may ask for something else: what it
    /// waited for is judged anew.
    pub fn changed(&mut self, uid: &PodUid, generation: Option<i64>) {
        if generation.is_none() {
            self.settle(uid);
        }
    }

    /// The pod's request is its allocation now. Says whether it had waited.
    pub fn settle(&mut self, uid: &PodUid) -> bool {
        self.waiting.remove(uid).is_some()
    }

    /// Forgets all but these pods.
    pub fn retain(&mut self, known: &BTreeSet<PodUid>) {
        self.given.retain(|uid, _| known.contains(uid));
        self.accepted.retain(|uid, _| known.contains(uid));
        self.unkept.retain(|uid| known.contains(uid));
        self.waiting.retain(|uid, _| known.contains(uid));
    }

    /// The allocations to keep on the disk.
    pub fn to_keep(&self) -> BTreeMap<PodUid, PodResources> {
        let unkept = self.unkept.iter().filter_map(|uid| Some((uid.clone(), self.given.get(uid)?.clone())));
        let accepted = self.accepted.iter().map(|(uid, accepted)| (uid.clone(), accepted.given.clone()));
        unkept.chain(accepted).collect()
    }

    /// This was kept. Gives the pods whose resize is in force by it, and where it had waited, what led to that.
    pub fn kept(&mut self, kept: &BTreeMap<PodUid, PodResources>) -> Vec<(PodUid, Option<Trigger>)> {
        let mut resized = Vec::new();
        for (uid, resources) in kept {
            if self.given.get(uid) == Some(resources) {
                self.unkept.remove(uid);
            }
            if let Some(accepted) = self.accepted.remove(uid) {
                if accepted.given == *resources {
                    self.given.insert(uid.clone(), accepted.given);
                    self.unkept.remove(uid);
                    self.waiting.remove(uid);
                    resized.push((uid.clone(), accepted.deferred));
                } else {
                    // The disk has a wish of before. Should the present one never get there, it is written over.
                    self.unkept.insert(uid.clone());
                    self.accepted.insert(uid.clone(), accepted);
                }
            }
        }
        resized
    }

    /// It could not be kept: resizes are not taken on yet.
    pub fn not_kept(&mut self) {
        self.accepted.clear();
    }
}
