//! Mirrors: the stand-ins of static pods in the API server, so that people and the scheduler see them (POD-06; upstream's
//! mirror client).
//!
//! Owned by `MirrorManager`. Level-triggered: it compares the static pods that are wanted with the mirrors in the API
//! server, and says which to make and which to remove. A mirror that somebody deletes is made again; the static pod never
//! notices. An answer counts as news of its own: a mirror may be exchanged while the watch still waits to be opened again.
//! Waits are kept in uptime: a clock that is set back makes none longer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::status_sync::MIRROR_ANNOTATION;
use crate::logic::manifest::identity::CONFIG_HASH_ANNOTATION;
use crate::logic::model::ids::FullName;
use crate::logic::pods::pod_roster::full_name;

/// The wait after a call that nobody answered, and after a deletion that the API server denies while it still has the
/// mirror. Chance makes it up to twice as long. It stays the same: `kubeadm upgrade` waits for the new mirror of the very
/// API server that is away. So the mirror is right within two seconds of its return.
const RETRY: Duration = Duration::from_secs(1);
/// Calls in a row that the API server may refuse before the wait grows: one that has just started refuses what is right.
const REFUSALS_EARLY: u32 = 5;
/// The longest wait after a call that was refused, before chance makes it up to twice as long; it doubles up to that.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long an answer may be ahead of what the API server shows.
const ECHO_MAX: Duration = Duration::from_secs(30);

/// A call to make.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Make this mirror.
    Create(Box<Pod>),
    /// Delete the mirror of this name, with grace period 0, if it still has this UID.
    Delete {
        /// The pod's full name.
        full_name: FullName,
        /// The mirror's own.
        uid: String,
    },
}

impl Order {
    /// The full name of the mirror's pod.
    pub fn full_name(&self) -> FullName {
        match self {
            Self::Create(pod) => full_name(pod),
            Self::Delete { full_name, .. } => full_name.clone(),
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The mirror is there, as it is given: it was made, or somebody had made it before.
    Made(Arc<Pod>),
    /// The mirror was deleted.
    Deleted,
    /// The API server says that there is no such mirror. It also says so of one that is there, until its own caches are full.
    Denied,
    /// Nobody answered.
    Away,
    /// The API server did not want it.
    Refused,
}

/// News of an answer that the API server may not show yet.
#[derive(Debug)]
struct Ahead {
    /// UIDs of the mirrors before it, `None` where there was none: while the API server shows one of these, the answer is
    /// newer.
    before: BTreeSet<Option<String>>,
    /// The mirror since then.
    mirror: Option<Arc<Pod>>,
    /// Until when the answer counts for more than the watch.
    until: Duration,
}

/// A call under way.
#[derive(Debug)]
struct Call {
    /// The UID of the mirror that the API server had when it was ordered.
    shown: Option<String>,
    /// The version of the static pod that it makes a mirror of; `None` for a deletion.
    hash: Option<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct MirrorPods {
    /// Static pods that the sources want, refused ones too: their mirrors say why. `None` until all their sources were heard.
    statics: Option<BTreeMap<FullName, Arc<Pod>>>,
    /// Names of static pods that nobody wants any more and that still end, also where another one of the name is wanted:
    /// their mirrors stay until then, and nothing takes their place.
    ending: BTreeSet<FullName>,
    /// `None` until the API server was heard.
    mirrors: Option<BTreeMap<FullName, Arc<Pod>>>,
    owner: Option<OwnerReference>,
    /// News of answers since.
    ahead: BTreeMap<FullName, Ahead>,
    calling: BTreeMap<FullName, Call>,
    failures: BTreeMap<FullName, u32>,
    not_before: BTreeMap<FullName, Duration>,
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn by_name(pods: impl IntoIterator<Item = Arc<Pod>>) -> BTreeMap<FullName, Arc<Pod>> {
    pods.into_iter().map(|pod| (full_name(&pod), pod)).collect()
}

impl MirrorPods {
    /// These static pods are wanted; those of `ending` still end. One that was edited may be welcome now.
    pub fn set_statics(&mut self, pods: impl IntoIterator<Item = Arc<Pod>>, ending: BTreeSet<FullName>) {
        let statics = by_name(pods);
        let mirrors = self.mirrors.as_ref();
        let is_known = |name: &FullName| statics.contains_key(name) || mirrors.is_none_or(|all| all.contains_key(name));
        let before = self.statics.take().unwrap_or_default();
        let is_same = |name: &FullName| hash_of(before.get(name)) == hash_of(statics.get(name));
        self.failures.retain(|name, _| is_known(name) && is_same(name));
        self.not_before.retain(|name, _| is_known(name) && is_same(name));
        (self.statics, self.ending) = (Some(statics), ending);
    }

    /// The API server shows these mirrors. `are_listed` says that it has listed them all anew: no call waits any longer
    /// then, and no answer from before counts.
    pub fn set_mirrors(&mut self, pods: impl IntoIterator<Item = Arc<Pod>>, are_listed: bool) {
        let before = self.mirrors.replace(by_name(pods));
        if are_listed {
            self.ahead.clear();
            self.failures.clear();
            self.not_before.clear();
            return;
        }
        let (mirrors, failures) = (&self.mirrors, &self.failures);
        self.ahead.retain(|name, answer| answer.before.contains(&shown_uid(mirrors, name)));
        let same = |name: &FullName| shown_uid(&before, name) == shown_uid(mirrors, name);
        self.not_before.retain(|name, _| failures.contains_key(name) || same(name));
    }

    /// The Node object. One without a UID, or one that is being deleted, owns nothing.
    pub fn set_node(&mut self, node: &Node) {
        let metadata = &node.metadata;
        let usable = metadata.uid.as_ref().filter(|uid| !uid.is_empty() && metadata.deletion_timestamp.is_none());
        self.owner = usable.map(|uid| OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: uid.clone(),
            controller: Some(true),
            ..OwnerReference::default()
        });
    }

    /// A call ended; `now` is uptime, `jitter` in 0..1.
    pub fn answered(&mut self, name: &FullName, outcome: Outcome, now: Duration, jitter: f64) {
        let call = self.calling.remove(name);
        let (asked, hash) = call.map_or((None, None), |call| (call.shown, call.hash));
        let wanted = hash_of(self.statics.as_ref().and_then(|statics| statics.get(name)));
        let wait = match outcome {
            Outcome::Made(mirror) if !self.was_deleted(name, &mirror) => {
                self.failures.remove(name);
                return self.believe(name, asked, Some(mirror), now);
            }
            Outcome::Deleted => return self.believe(name, asked, None, now),
            Outcome::Denied if shown_uid(&self.mirrors, name) != asked => {
                self.not_before.remove(name); // The watch was faster than the answer.
                return;
            }
            Outcome::Denied | Outcome::Away => {
                self.failures.remove(name);
                RETRY
            }
            // The pod was edited meanwhile.
            Outcome::Refused if hash.is_some() && hash.as_deref() != wanted => return,
            // The one that was deleted is still there: finalizers keep it.
            Outcome::Made(_) | Outcome::Refused => {
                let failures = self.failures.entry(name.clone()).or_default();
                *failures += 1;
                RETRY.saturating_mul(1 << failures.saturating_sub(REFUSALS_EARLY).min(6)).min(RETRY_MAX)
            }
        };
        self.not_before.insert(name.clone(), now + wait.mul_f64(1.0 + jitter));
    }

    /// Whether an answer told before that this very mirror was deleted.
    fn was_deleted(&self, name: &FullName, mirror: &Pod) -> bool {
        let is_before = |answer: &Ahead| answer.before.contains(&mirror.metadata.uid);
        mirror.metadata.uid.is_some() && self.ahead.get(name).is_some_and(is_before)
    }

    /// An answer counts over what the API server shows, as long as that is older.
    fn believe(&mut self, name: &FullName, asked: Option<String>, mirror: Option<Arc<Pod>>, now: Duration) {
        self.not_before.remove(name);
        let mut before = self.ahead.remove(name).map(|answer| answer.before).unwrap_or_default();
        before.insert(asked);
        if mirror.is_some() {
            before.insert(None);
        }
        if before.contains(&shown_uid(&self.mirrors, name)) {
            self.ahead.insert(name.clone(), Ahead { before, mirror, until: now + ECHO_MAX });
        }
    }

    /// The calls to make now, and when to ask again although nothing happens; both in uptime.
    pub fn orders(&mut self, now: Duration) -> (Vec<Order>, Option<Duration>) {
        self.ahead.retain(|_, answer| answer.until > now);
        let (mut orders, mut wake) = (Vec::new(), self.ahead.values().map(|answer| answer.until).min());
        for order in self.differences() {
            let name = order.full_name();
            if self.calling.contains_key(&name) {
                continue;
            }
            if let Some(due) = self.not_before.get(&name).filter(|due| **due > now) {
                wake = wake.into_iter().chain([*due]).min();
                continue;
            }
            let hash = match &order {
                Order::Create(mirror) => annotation(mirror, MIRROR_ANNOTATION).map(str::to_owned),
                Order::Delete { .. } => None,
            };
            let call = Call { shown: shown_uid(&self.mirrors, &name), hash };
            self.calling.insert(name, call);
            orders.push(order);
        }
        (orders, wake)
    }

    /// The mirrors as the API server has them, as far as is known here.
    fn known(&self) -> Option<BTreeMap<&FullName, &Arc<Pod>>> {
        let mut known: BTreeMap<&FullName, &Arc<Pod>> = self.mirrors.as_ref()?.iter().collect();
        for (name, answer) in &self.ahead {
            match &answer.mirror {
                Some(mirror) => drop(known.insert(name, mirror)),
                None => drop(known.remove(name)),
            }
        }
        Some(known)
    }

    fn differences(&self) -> Vec<Order> {
        let (Some(statics), Some(mirrors)) = (&self.statics, self.known()) else { return vec![] };
        let is_settled = |name: &FullName| !self.ending.contains(name);
        let is_wrong = |name: &FullName, mirror| statics.get(name).is_none_or(|pod| !is_mirror_of(mirror, pod));
        let gone = mirrors.iter().filter(|(name, mirror)| is_settled(name) && is_wrong(name, mirror));
        let deletes = gone.map(|(name, mirror)| Order::Delete {
            full_name: FullName::clone(name),
            uid: mirror.metadata.uid.clone().unwrap_or_default(),
        });
        let missing = statics.iter().filter(|(name, _)| is_settled(name) && !mirrors.contains_key(name));
        let creates = self
            .owner
            .iter()
            .flat_map(|owner| missing.clone().map(|(_, pod)| Order::Create(Box::new(mirror_of(pod, owner)))));
        deletes.chain(creates).collect()
    }
}

/// The version of a static pod.
fn hash_of(pod: Option<&Arc<Pod>>) -> Option<&str> {
    annotation(pod?, CONFIG_HASH_ANNOTATION)
}

fn shown_uid(mirrors: &Option<BTreeMap<FullName, Arc<Pod>>>, name: &FullName) -> Option<String> {
    mirrors.as_ref()?.get(name)?.metadata.uid.clone()
}

/// Whether the mirror stands for just this pod, and stays.
fn is_mirror_of(mirror: &Pod, pod: &Pod) -> bool {
    let hash = annotation(pod, CONFIG_HASH_ANNOTATION);
    mirror.metadata.deletion_timestamp.is_none() && annotation(mirror, MIRROR_ANNOTATION) == hash && hash.is_some()
}

fn mirror_of(pod: &Pod, owner: &OwnerReference) -> Pod {
    let metadata = &pod.metadata;
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    let hash = annotations.get(CONFIG_HASH_ANNOTATION).cloned().unwrap_or_default();
    annotations.insert(MIRROR_ANNOTATION.to_owned(), hash);
    let metadata = ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        labels: metadata.labels.clone(),
        annotations: Some(annotations),
        finalizers: metadata.finalizers.clone(),
        owner_references: Some(vec![owner.clone()]),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: pod.spec.clone(), status: None }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, annotations: &[(&str, &str)], deleting: bool) -> Arc<Pod> {
        let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
        let mut pod = json!({"metadata": {"name": "web-n", "namespace": "default", "uid": uid, "annotations": annotations},
                             "spec": {"containers": [{"name": "a"}]}});
        if deleting {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Arc::new(serde_json::from_value(pod).expect("a pod"))
    }

    fn node(uid: &str) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n", "uid": uid}})).expect("a node")
    }

    fn name() -> FullName {
        FullName::new("web-n", "default")
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn fixed() -> Arc<Pod> {
        pod("static", &[(CONFIG_HASH_ANNOTATION, "h1")], false)
    }

    fn mirror(hash: &str, deleting: bool) -> Arc<Pod> {
        pod("m1", &[(MIRROR_ANNOTATION, hash)], deleting)
    }

    /// SEC-51.
    #[test]
    fn sec_51_a_mirror_is_made_once_everybody_was_heard() {
        let mut mirrors = MirrorPods::default();
        mirrors.set_statics([fixed()], BTreeSet::new());
        assert_eq!(mirrors.orders(at(0)).0, []);
        mirrors.set_mirrors([], false);
        assert_eq!(mirrors.orders(at(0)).0, [], "it has no owner yet");
        mirrors.set_node(&node(""));
        assert_eq!(mirrors.orders(at(0)).0, [], "nor a UID of an owner");
        mirrors.set_node(&node("n1"));
        let orders = mirrors.orders(at(0)).0;
        let [Order::Create(made)] = &orders[..] else { panic!("{orders:?}") };
        assert_eq!(annotation(made, MIRROR_ANNOTATION), Some("h1"));
        assert_eq!(made.metadata.uid, None);
        let owner = &made.metadata.owner_references.as_ref().expect("owned")[0];
        assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("Node", "n1", Some(true)));
        assert_eq!(mirrors.orders(at(0)).0, [], "one call at a time");
        mirrors.answered(&name(), Outcome::Made(mirror("h1", false)), at(1), 0.0);
        assert_eq!(mirrors.orders(at(1)).0, [], "the API server shows it soon");
        mirrors.set_mirrors([mirror("h1", false)], false);
        assert_eq!(mirrors.orders(at(100)).0, []);
    }

    /// POD-06, SEC-50.
    #[test]
    fn no_mirror_is_made_for_a_node_that_is_being_deleted() {
        let mut mirrors = MirrorPods::default();
        mirrors.set_statics([fixed()], BTreeSet::new());
        mirrors.set_mirrors([], false);
        mirrors.set_node(&node("n1"));
        let mut leaving = node("n1");
        leaving.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        mirrors.set_node(&leaving);
        assert_eq!(mirrors.orders(at(0)).0, []);
        mirrors.set_node(&node("n2"));
        assert!(matches!(mirrors.orders(at(0)).0[..], [Order::Create(_)]), "another one takes its place");
    }

    #[test]
    fn a_mirror_that_is_wrong_goes_and_comes_again() {
        for wrong in [mirror("h0", false), mirror("h1", true)] {
            let mut mirrors = MirrorPods::default();
            mirrors.set_statics([fixed()], BTreeSet::new());
            mirrors.set_node(&node("n1"));
            mirrors.set_mirrors([wrong], false);
            assert_eq!(mirrors.orders(at(0)).0, [Order::Delete { full_name: name(), uid: "m1".to_owned() }]);
            mirrors.answered(&name(), Outcome::Deleted, at(0), 0.0);
            assert!(matches!(mirrors.orders(at(0)).0[..], [Order::Create(_)]), "nobody waits for the watch");
            mirrors.set_mirrors([], false);
            assert_eq!(mirrors.orders(at(0)).0, [], "one call at a time");
        }
    }

    #[test]
    fn a_mirror_without_its_pod_goes_when_the_pod_has_ended() {
        let mut mirrors = MirrorPods::default();
        mirrors.set_mirrors([mirror("h1", false)], false);
        assert_eq!(mirrors.orders(at(0)).0, [], "a source that was not heard may want it");
        mirrors.set_statics([], [name()].into());
        assert_eq!(mirrors.orders(at(0)).0, []);
        mirrors.set_statics([], BTreeSet::new());
        assert_eq!(mirrors.orders(at(0)).0.len(), 1);
    }

    /// POD-06: of an edited pod the mirror is exchanged when the pod before has ended, and not before.
    #[test]
    fn a_mirror_is_exchanged_when_the_pod_before_has_ended() {
        for shown in [vec![mirror("h0", false)], vec![mirror("h0", true)], vec![]] {
            let mut mirrors = MirrorPods::default();
            mirrors.set_node(&node("n1"));
            mirrors.set_mirrors(shown.clone(), false);
            mirrors.set_statics([fixed()], [name()].into());
            assert_eq!(mirrors.orders(at(0)), (vec![], None), "{shown:?}");
            mirrors.set_statics([fixed()], BTreeSet::new());
            assert_eq!(mirrors.orders(at(0)).0.len(), 1, "{shown:?}");
        }
    }

    #[test]
    fn what_is_shown_before_the_answer_is_not_waited_for() {
        let mut mirrors = MirrorPods::default();
        mirrors.set_statics([fixed()], BTreeSet::new());
        mirrors.set_node(&node("n1"));
        mirrors.set_mirrors([], false);
        assert!(matches!(mirrors.orders(at(0)).0[..], [Order::Create(_)]));
        mirrors.set_mirrors([mirror("h1", false)], false);
        mirrors.answered(&name(), Outcome::Made(mirror("h1", false)), at(1), 0.0);
        mirrors.set_statics([], BTreeSet::new());
        assert_eq!(mirrors.orders(at(2)).0.len(), 1, "its pod has gone");
    }

    /// Wrong, and wanted otherwise: the API server has the mirror of another version.
    fn outdated() -> MirrorPods {
        let mut mirrors = MirrorPods::default();
        mirrors.set_statics([fixed()], BTreeSet::new());
        mirrors.set_node(&node("n1"));
        mirrors.set_mirrors([mirror("h0", false)], false);
        mirrors
    }

    /// POD-06: an API server whose caches are not full yet denies a mirror that it shows; nobody knows how long that takes.
    #[test]
    fn a_deletion_that_is_denied_is_tried_again_within_two_seconds() {
        let mut mirrors = outdated();
        let mut now = at(0);
        for jitter in [0.0, 0.5, 0.999, 0.0, 0.999, 0.0, 0.5] {
            assert!(matches!(mirrors.orders(now).0[..], [Order::Delete { .. }]), "{now:?}");
            mirrors.answered(&name(), Outcome::Denied, now, jitter);
            let (orders, wake) = mirrors.orders(now);
            assert_eq!(orders, []);
            let next = wake.expect("it is tried again");
            assert!((at(1)..at(2)).contains(&(next - now)), "{next:?} after {now:?}");
            now = next;
        }
        assert!(matches!(mirrors.orders(now).0[..], [Order::Delete { .. }]));
        mirrors.set_mirrors([], false);
        mirrors.answered(&name(), Outcome::Denied, now, 0.0);
        assert!(matches!(mirrors.orders(now).0[..], [Order::Create(_)]), "it was true");
    }

    /// POD-06: also where the API server is away for long.
    #[test]
    fn a_call_that_nobody_answers_is_tried_again_within_two_seconds() {
        let mut mirrors = outdated();
        for now in (0..200).step_by(2) {
            assert_eq!(mirrors.orders(at(now)).0.len(), 1, "{now}");
            mirrors.answered(&name(), Outcome::Away, at(now), 0.0);
            assert_eq!(mirrors.orders(at(now)), (vec![], Some(at(now + 1))));
        }
    }

    #[test]
    fn a_full_list_ends_each_wait() {
        for outcome in [Outcome::Denied, Outcome::Away, Outcome::Refused, Outcome::Deleted] {
            let mut mirrors = outdated();
            assert_eq!(mirrors.orders(at(0)).0.len(), 1);
            mirrors.answered(&name(), outcome.clone(), at(0), 0.9);
            if outcome == Outcome::Deleted {
                assert!(matches!(mirrors.orders(at(0)).0[..], [Order::Create(_)]));
                mirrors.answered(&name(), Outcome::Refused, at(0), 0.9);
            }
            mirrors.set_mirrors([mirror("h0", false)], false);
            assert_eq!(mirrors.orders(at(0)).0, [], "{outcome:?}");
            mirrors.set_mirrors([mirror("h0", false)], true);
            assert!(matches!(mirrors.orders(at(0)).0[..], [Order::Delete { .. }]), "{outcome:?}");
        }
    }

    /// The watch tells of the old mirror's end and of the new one after both answers, or between them: no call is made again.
    #[test]
    fn an_exchange_that_the_watch_tells_of_later_is_made_once() {
        for watch_is_between in [false, true] {
            let mut mirrors = outdated();
            assert!(matches!(mirrors.orders(at(0)).0[..], [Order::Delete { .. }]));
            mirrors.answered(&name(), Outcome::Deleted, at(0), 0.0);
            assert!(matches!(mirrors.orders(at(0)).0[..], [Order::Create(_)]));
            let made = pod("m2", &[(MIRROR_ANNOTATION, "h1")], false);
            if watch_is_between {
                mirrors.set_mirrors([], false);
            }
            mirrors.answered(&name(), Outcome::Made(Arc::clone(&made)), at(1), 0.0);
            assert_eq!(mirrors.orders(at(1)).0, [], "{watch_is_between}");
            mirrors.set_mirrors([], false);
            assert_eq!(mirrors.orders(at(1)).0, [], "{watch_is_between}");
            mirrors.set_mirrors([made], false);
            assert_eq!(mirrors.orders(at(1)), (vec![], None), "{watch_is_between}");
            mirrors.set_mirrors([], false);
            assert!(matches!(mirrors.orders(at(2)).0[..], [Order::Create(_)]), "somebody took it away");
        }
    }

    /// A finalizer keeps a mirror that was deleted: nobody asks for another one without end.
    #[test]
    fn a_mirror_that_outlives_its_deletion_is_waited_for() {
        let mut mirrors = outdated();
        assert!(matches!(mirrors.orders(at(0)).0[..], [Order::Delete { .. }]));
        mirrors.answered(&name(), Outcome::Deleted, at(0), 0.0);
        let mut waits = vec![];
        let mut now = at(0);
        for _ in 0..8 {
            assert!(matches!(mirrors.orders(now).0[..], [Order::Create(_)]), "{now:?}");
            mirrors.answered(&name(), Outcome::Made(mirror("h0", true)), now, 0.0);
            let (orders, wake) = mirrors.orders(now);
            assert_eq!(orders, []);
            waits.push((wake.expect("it is tried again") - now).as_secs());
            now = wake.expect("as above");
        }
        assert_eq!(waits, [1, 1, 1, 1, 1, 2, 4, 8]);
    }

    /// An answer that the API server never shows is not believed for ever.
    #[test]
    fn what_is_answered_counts_for_half_a_minute() {
        let mut mirrors = outdated();
        assert_eq!(mirrors.orders(at(0)).0.len(), 1);
        mirrors.answered(&name(), Outcome::Deleted, at(0), 0.0);
        assert_eq!(mirrors.orders(at(0)).0.len(), 1);
        mirrors.answered(&name(), Outcome::Made(pod("m2", &[(MIRROR_ANNOTATION, "h1")], false)), at(1), 0.0);
        assert_eq!(mirrors.orders(at(30)), (vec![], Some(at(31))));
        assert!(matches!(mirrors.orders(at(31)).0[..], [Order::Delete { .. }]));
    }

    /// The mirror of a manifest that was mended is there at once, however often the one before was refused.
    #[test]
    fn an_edited_pod_does_not_wait_for_what_was_refused_before() {
        let edited = || pod("static", &[(CONFIG_HASH_ANNOTATION, "h2")], false);
        for is_under_way in [false, true] {
            let mut mirrors = MirrorPods::default();
            mirrors.set_mirrors([], false);
            mirrors.set_node(&node("n1"));
            mirrors.set_statics([fixed()], BTreeSet::new());
            for now in 0..9 {
                assert_eq!(mirrors.orders(at(60 * now)).0.len(), 1, "{now}");
                mirrors.answered(&name(), Outcome::Refused, at(60 * now), 0.0);
            }
            if is_under_way {
                assert_eq!(mirrors.orders(at(600)).0.len(), 1);
                mirrors.set_statics([edited()], BTreeSet::new());
                mirrors.answered(&name(), Outcome::Refused, at(600), 0.0);
            } else {
                mirrors.set_statics([fixed()], BTreeSet::new());
                assert_eq!(mirrors.orders(at(481)).0, [], "the same one waits");
                mirrors.set_statics([edited()], BTreeSet::new());
            }
            let orders = mirrors.orders(at(if is_under_way { 600 } else { 481 })).0;
            let [Order::Create(made)] = &orders[..] else { panic!("{is_under_way}: {orders:?}") };
            assert_eq!(annotation(made, MIRROR_ANNOTATION), Some("h2"));
        }
    }

    #[test]
    fn what_is_refused_is_tried_again_later_each_time() {
        let mut mirrors = MirrorPods::default();
        mirrors.set_statics([fixed()], BTreeSet::new());
        mirrors.set_mirrors([], false);
        mirrors.set_node(&node("n1"));
        let waits = [1, 1, 1, 1, 1, 2, 4, 8, 16, 30, 30];
        for (now, wait) in waits.into_iter().enumerate().map(|(turn, wait)| (40 * turn as u64, wait)) {
            assert_eq!(mirrors.orders(at(now)).0.len(), 1);
            mirrors.answered(&name(), Outcome::Refused, at(now), 0.0);
            assert_eq!(mirrors.orders(at(now)), (vec![], Some(at(now + wait))));
        }
    }
}
