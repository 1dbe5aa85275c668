//! Mirrors: the stand-ins of static pods in the API server, so that people and the scheduler see them (POD-06; upstream's
//! mirror client).
//!
//! Owned by `MirrorManager`. Level-triggered: it compares the static pods that are wanted with the mirrors that the API
//! server shows, and says which are to be made and which are to go. A mirror that somebody deletes is made again; the
//! static pod never notices. Waits are kept in uptime: a clock that is set back makes none longer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::ids::FullName;
use super::manifest::identity::CONFIG_HASH_ANNOTATION;
use super::pod_roster::full_name;
use super::status_sync::MIRROR_ANNOTATION;

/// The first wait after a call that failed; each further one is twice as long.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest wait after a call that failed, before it is made up to twice as long by chance. Once the API server is
/// back, nobody waits longer for a mirror than upstream's minute between two looks at a pod.
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
        /// Whose.
        full_name: FullName,
        /// The mirror's own.
        uid: String,
    },
}

impl Order {
    /// Whose mirror.
    pub fn full_name(&self) -> FullName {
        match self {
            Self::Create(pod) => full_name(pod),
            Self::Delete { full_name, .. } => full_name.clone(),
        }
    }
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
    /// Calls under way, with the UID of the mirror that was shown when each was ordered.
    calling: BTreeMap<FullName, Option<String>>,
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
    /// These static pods are wanted; those of `ending` still end.
    pub fn set_statics(&mut self, pods: impl IntoIterator<Item = Arc<Pod>>, ending: BTreeSet<FullName>) {
        let statics = by_name(pods);
        let mirrors = self.mirrors.as_ref();
        let is_known = |name: &FullName| statics.contains_key(name) || mirrors.is_none_or(|all| all.contains_key(name));
        self.failures.retain(|name, _| is_known(name));
        self.not_before.retain(|name, _| is_known(name));
        (self.statics, self.ending) = (Some(statics), ending);
    }

    /// The API server shows these mirrors.
    pub fn set_mirrors(&mut self, pods: impl IntoIterator<Item = Arc<Pod>>) {
        let mirrors = by_name(pods);
        let before = self.mirrors.replace(mirrors);
        let changed = |name: &FullName| shown_uid(&before, name) != shown_uid(&self.mirrors, name);
        // What was answered is now shown: there is nothing to wait for.
        let failures = &self.failures;
        self.not_before.retain(|name, _| failures.contains_key(name) || !changed(name));
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
    pub fn answered(&mut self, name: &FullName, worked: bool, now: Duration, jitter: f64) {
        let asked = self.calling.remove(name).flatten();
        let wait = if worked {
            self.failures.remove(name);
            if shown_uid(&self.mirrors, name) != asked {
                self.not_before.remove(name); // The watch was faster than the answer.
                return;
            }
            ECHO_MAX
        } else {
            let failures = self.failures.entry(name.clone()).or_default();
            *failures += 1;
            RETRY_FIRST.saturating_mul(1 << (*failures - 1).min(6)).min(RETRY_MAX).mul_f64(1.0 + jitter)
        };
        self.not_before.insert(name.clone(), now + wait);
    }

    /// The calls to make now, and when to ask again although nothing happens; both in uptime.
    pub fn orders(&mut self, now: Duration) -> (Vec<Order>, Option<Duration>) {
        let (mut orders, mut wake) = (Vec::new(), None::<Duration>);
        for order in self.differences() {
            let name = order.full_name();
            if self.calling.contains_key(&name) {
                continue;
            }
            if let Some(due) = self.not_before.get(&name).filter(|due| **due > now) {
                wake = wake.into_iter().chain([*due]).min();
                continue;
            }
            let shown = shown_uid(&self.mirrors, &name);
            self.calling.insert(name, shown);
            orders.push(order);
        }
        (orders, wake)
    }

    fn differences(&self) -> Vec<Order> {
        let (Some(statics), Some(mirrors)) = (&self.statics, &self.mirrors) else { return vec![] };
        let is_settled = |name: &FullName| !self.ending.contains(name);
        let is_wrong = |name: &FullName, mirror| statics.get(name).is_none_or(|pod| !is_mirror_of(mirror, pod));
        let gone = mirrors.iter().filter(|(name, mirror)| is_settled(name) && is_wrong(name, mirror));
        let deletes = gone.map(|(name, mirror)| Order::Delete {
            full_name: name.clone(),
            uid: mirror.metadata.uid.clone().unwrap_or_default(),
        });
        let missing = statics.iter().filter(|(name, _)| is_settled(name) && !mirrors.contains_key(*name));
        let creates = self
            .owner
            .iter()
            .flat_map(|owner| missing.clone().map(|(_, pod)| Order::Create(Box::new(mirror_of(pod, owner)))));
        deletes.chain(creates).collect()
    }
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
    fn a_mirror_is_made_once_everybody_was_heard() {
        let mut mirrors = MirrorPods::default();
        mirrors.set_statics([fixed()], BTreeSet::new());
        assert_eq!(mirrors.orders(at(0)).0, []);
        mirrors.set_mirrors([]);
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
        mirrors.answered(&name(), true, at(1), 0.0);
        assert_eq!(mirrors.orders(at(1)).0, [], "the API server shows it soon");
        mirrors.set_mirrors([mirror("h1", false)]);
        assert_eq!(mirrors.orders(at(100)).0, []);
    }

    /// POD-06, SEC-50.
    #[test]
    fn no_mirror_is_made_for_a_node_that_is_being_deleted() {
        let mut mirrors = MirrorPods::default();
        mirrors.set_statics([fixed()], BTreeSet::new());
        mirrors.set_mirrors([]);
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
            mirrors.set_mirrors([wrong]);
            assert_eq!(mirrors.orders(at(0)).0, [Order::Delete { full_name: name(), uid: "m1".to_owned() }]);
            mirrors.answered(&name(), true, at(0), 0.0);
            mirrors.set_mirrors([]);
            assert!(matches!(mirrors.orders(at(0)).0[..], [Order::Create(_)]));
        }
    }

    #[test]
    fn a_mirror_without_its_pod_goes_when_the_pod_has_ended() {
        let mut mirrors = MirrorPods::default();
        mirrors.set_mirrors([mirror("h1", false)]);
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
            mirrors.set_mirrors(shown.clone());
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
        mirrors.set_mirrors([]);
        assert!(matches!(mirrors.orders(at(0)).0[..], [Order::Create(_)]));
        mirrors.set_mirrors([mirror("h1", false)]);
        mirrors.answered(&name(), true, at(1), 0.0);
        mirrors.set_statics([], BTreeSet::new());
        assert_eq!(mirrors.orders(at(2)).0.len(), 1, "its pod has gone");
    }

    #[test]
    fn what_fails_is_tried_again_later_each_time() {
        let mut mirrors = MirrorPods::default();
        mirrors.set_statics([fixed()], BTreeSet::new());
        mirrors.set_mirrors([]);
        mirrors.set_node(&node("n1"));
        for (now, wait) in [(0, 1), (10, 2), (20, 4)] {
            assert_eq!(mirrors.orders(at(now)).0.len(), 1);
            mirrors.answered(&name(), false, at(now), 0.0);
            assert_eq!(mirrors.orders(at(now)), (vec![], Some(at(now + wait))));
        }
    }
}
