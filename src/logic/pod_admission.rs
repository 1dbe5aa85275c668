//! Whether this node takes a pod of the API server (POD-31, section 17.2 of upstream's admission): what the scheduler
//! looked at once more, and what this version can do.
//!
//! Owned by `PodManager`. Pure. A refusal is one of two kinds: "never" fails the pod for good, as upstream; "not yet"
//! leaves it pending, because what is missing is known to come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint, Toleration,
};

use super::ids::PodUid;
use super::manifest::supported::unsupported_fields;
use super::pod_status::is_terminal;
use super::quantity::Quantity;
use super::resources::{CPU, ResourceList, pod_requests, resource_list};
use super::time::Moment;

/// What is decided about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Admitted,
    /// It has to wait, and will be judged again (PAIN-18).
    NotYet {
        /// For what.
        what: String,
        /// When the wait is over at the latest, if anything says so.
        until: Option<Moment>,
    },
    /// It fails, with this reason and message.
    Never {
        /// One word, as upstream says it.
        reason: String,
        /// A sentence.
        message: String,
    },
}

/// A pod that was refused just now.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Whose.
    pub uid: PodUid,
    /// The pod.
    pub pod: Arc<Pod>,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What was decided about each pod that the API server wants. A decision stands for as long as it wants the pod.
#[derive(Clone, Debug, Default)]
pub struct Admissions {
    admitted: BTreeSet<PodUid>,
    refused: BTreeMap<PodUid, (String, String)>,
}

impl Admissions {
    /// Judges those of `pods` that are new, the oldest first, beside the static pods; gives those it refuses. What `runs`
    /// here was admitted by an earlier run of the agent, and is not judged again (PAIN-17).
    pub fn take(
        &mut self,
        pods: &BTreeMap<PodUid, Arc<Pod>>,
        runs: impl Fn(&PodUid) -> bool,
        statics: &[Arc<Pod>],
        node: &Node,
        pod_level: bool,
    ) -> Vec<Refused> {
        self.admitted.retain(|uid| pods.contains_key(uid));
        self.refused.retain(|uid, _| pods.contains_key(uid));
        let unknown = |uid: &PodUid| !self.admitted.contains(uid) && !self.refused.contains_key(uid);
        let running: Vec<PodUid> = pods.keys().filter(|uid| unknown(uid) && runs(uid)).cloned().collect();
        self.admitted.extend(running);
        let mut new: Vec<(&PodUid, &Arc<Pod>)> =
            pods.iter().filter(|(uid, _)| !self.admitted.contains(*uid) && !self.refused.contains_key(*uid)).collect();
        new.sort_by_key(|(uid, pod)| (pod.metadata.creation_timestamp.as_ref().map(|time| time.0), (*uid).clone()));
        let mut refused = Vec::new();
        for (uid, pod) in new {
            let here = pods.iter().filter(|(uid, _)| self.admitted.contains(*uid)).map(|(_, pod)| pod);
            let here = here.chain(statics).map(|pod| &**pod).filter(|pod| !is_over(pod));
            // What is over takes no room and is not judged: it only has to be cleared away.
            let verdict = if is_over(pod) || pod.metadata.deletion_timestamp.is_some() {
                Verdict::Admitted
            } else {
                judge(pod, here, Some(node), pod_level)
            };
            match verdict {
                Verdict::Admitted => drop(self.admitted.insert(uid.clone())),
                // It is new as long as it waits.
                Verdict::NotYet { .. } => {}
                Verdict::Never { reason, message } => {
                    self.refused.insert(uid.clone(), (reason.clone(), message.clone()));
                    refused.push(Refused { uid: uid.clone(), pod: Arc::clone(pod), reason, message });
                }
            }
        }
        refused
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
    pub fn why_not(&self, uid: &PodUid) -> Option<(&str, &str)> {
        self.refused.get(uid).map(|(reason, message)| (&**reason, &**message))
    }
}

/// A refusal's reason as an Event has it: those of resources by name are a fixed set there.
pub fn event_reason(reason: &str) -> &'static str {
    const REASONS: [&str; 8] = [
        "OutOfpods",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfephemeral-storage",
        "NodeAffinity",
        "NodeName",
        "TaintToleration",
        "PodFeatureUnsupported",
    ];
    REASONS.into_iter().find(|known| *known == reason).unwrap_or("OutOfExtendedResources")
}

fn is_over(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(is_terminal)
}

fn never(reason: impl Into<String>, message: impl Into<String>) -> Verdict {
    Verdict::Never { reason: reason.into(), message: message.into() }
}

/// Judges a pod. `others` are the pods that are here already; `pod_level` says whether resources of whole pods count.
pub fn judge<'a>(
    pod: &Pod,
    others: impl Iterator<Item = &'a Pod> + Clone,
    node: Option<&Node>,
    pod_level: bool,
) -> Verdict {
    let refused = unsupported_fields(pod);
    if !refused.is_empty() {
        let fields: Vec<String> = refused.iter().map(ToString::to_string).collect();
        return never(
            "PodFeatureUnsupported",
            format!("this node agent cannot do what the pod asks for: {}", fields.join(", ")),
        );
    }
    let Some(node) = node else {
        return Verdict::NotYet { what: "the Node object to be known".to_owned(), until: None };
    };
    if let Some(verdict) = fits(pod, others, node, pod_level) {
        return verdict;
    }
    let predicate = |name: &str, why: &str| never(name, format!("Predicate {name} failed: {why}"));
    if !matches_node(pod, node) {
        return predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector");
    }
    let name = node.metadata.name.as_deref();
    if pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|wanted| Some(wanted) != name) {
        return predicate("NodeName", "node(s) didn't match the requested node name");
    }
    if untolerated(pod, node) {
        return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate");
    }
    Verdict::Admitted
}

/// Whether there is room, resource by resource, the number of pods first.
fn fits<'a>(pod: &Pod, others: impl Iterator<Item = &'a Pod> + Clone, node: &Node, pod_level: bool) -> Option<Verdict> {
    let status = node.status.as_ref()?;
    let room: ResourceList = resource_list(status.allocatable.as_ref().or(status.capacity.as_ref()));
    let short = |name: &str, requested: i64, used: i64, capacity: i64| {
        never(
            format!("OutOf{name}"),
            format!(
                "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
            ),
        )
    };
    let count = i64::try_from(others.clone().count()).unwrap_or(i64::MAX);
    if let Some(pods) = room.get("pods").map(Quantity::value).filter(|pods| count >= *pods) {
        return Some(short("pods", 1, count, pods));
    }
    let wanted = pod_requests(pod, pod_level, true);
    let number = |name: &str, quantity: &Quantity| if name == CPU { quantity.milli_value() } else { quantity.value() };
    for (name, asked) in &wanted {
        // What the node does not know (extended resources of others) is nobody's to refuse here.
        let Some(capacity) = room.get(name).filter(|_| asked.is_positive()) else { continue };
        let used: i64 = others
            .clone()
            .filter_map(|other| pod_requests(other, pod_level, true).get(name).map(|used| number(name, used)))
            .fold(0, i64::saturating_add);
        let (asked, capacity) = (number(name, asked), number(name, capacity));
        if used.saturating_add(asked) > capacity {
            return Some(short(name, asked, used, capacity));
        }
    }
    None
}

fn matches_node(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| label(key) == Some(value.as_str()));
    let required = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = required.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|it| matches_terms(it, node))
}

/// Whether the node has what one of the terms asks for.
pub fn matches_terms(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| matches_term(term, node))
}

/// A term without any requirement matches nothing.
fn matches_term(term: &NodeSelectorTerm, node: &Node) -> bool {
    let (labels, fields) = (term.match_expressions.as_deref(), term.match_fields.as_deref());
    let (labels, fields) = (labels.unwrap_or_default(), fields.unwrap_or_default());
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let field = |key: &str| (key == "metadata.name").then_some(node.metadata.name.as_deref()).flatten();
    !(labels.is_empty() && fields.is_empty())
        && labels.iter().all(|it| meets(it, label(&it.key)))
        && fields.iter().all(|it| meets(it, field(&it.key)))
}

fn meets(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_in = value.is_some_and(|value| values.iter().any(|one| one == value));
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = || Some((number(value?)?, number(values.first()?)?));
    match requirement.operator.as_str() {
        "In" => is_in,
        "NotIn" => !is_in,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|(value, bound)| value > bound),
        "Lt" => compared().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Of the taints only those count that would have the pod leave again.
fn untolerated(pod: &Pod, node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let tolerations = || pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let mut leaving = taints.filter(|taint| taint.effect == "NoExecute");
    leaving.any(|taint| !tolerations().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    let exists = toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || (key.is_empty() && exists))
        && (exists || text(&toleration.value) == text(&taint.value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        let mut pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "a"}]}});
        for (field, value) in spec.as_object().expect("fields") {
            pod["spec"][field] = value.clone();
        }
        serde_json::from_value(pod).expect("a pod")
    }

    fn node() -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n1", "labels": {"disk": "ssd", "zone": "a", "cores": "8"}},
            "spec": {"taints": [{"key": "old", "effect": "NoExecute"}, {"key": "full", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}},
        }))
        .expect("a node")
    }

    fn reason(pod: &Pod, others: &[Pod]) -> String {
        match judge(pod, others.iter(), Some(&node()), false) {
            Verdict::Admitted => "admitted".to_owned(),
            Verdict::NotYet { what, .. } => what,
            Verdict::Never { reason, .. } => reason,
        }
    }

    fn tolerant() -> Value {
        json!([{"operator": "Exists"}])
    }

    #[test]
    fn a_pod_is_taken_only_where_it_fits() {
        let asks = |cpu: &str, memory: &str| {
            let requests = json!({"requests": {"cpu": cpu, "memory": memory}});
            pod(json!({"containers": [{"name": "a", "resources": requests}], "tolerations": tolerant()}))
        };
        assert_eq!(reason(&asks("2", "1Gi"), &[]), "admitted");
        assert_eq!(reason(&asks("2", "1Gi"), &[asks("1m", "1")]), "OutOfcpu");
        assert_eq!(reason(&asks("1", "1Gi"), &[asks("1", "1")]), "OutOfmemory");
        assert_eq!(reason(&asks("0", "0"), &[asks("2", "1Gi"), asks("0", "0"), asks("0", "0")]), "OutOfpods");
        let Verdict::Never { message, .. } = judge(&asks("3", "1"), [].iter(), Some(&node()), false) else {
            panic!("refused")
        };
        assert_eq!(message, "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000");
    }

    #[test]
    fn a_pod_is_taken_only_where_it_wants_to_be() {
        let with = |spec: Value| {
            let mut pod = pod(spec);
            pod.spec.as_mut().expect("a spec").tolerations = serde_json::from_value(tolerant()).expect("tolerations");
            pod
        };
        let term = |requirement: Value| {
            let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]});
            with(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}))
        };
        for (pod, expected) in [
            (with(json!({"nodeSelector": {"disk": "ssd"}})), "admitted"),
            (with(json!({"nodeSelector": {"disk": "hdd"}})), "NodeAffinity"),
            (term(json!({"key": "zone", "operator": "In", "values": ["a", "b"]})), "admitted"),
            (term(json!({"key": "zone", "operator": "NotIn", "values": ["a"]})), "NodeAffinity"),
            (term(json!({"key": "none", "operator": "NotIn", "values": ["a"]})), "admitted"),
            (term(json!({"key": "none", "operator": "Exists"})), "NodeAffinity"),
            (term(json!({"key": "none", "operator": "DoesNotExist"})), "admitted"),
            (term(json!({"key": "cores", "operator": "Gt", "values": ["4"]})), "admitted"),
            (term(json!({"key": "cores", "operator": "Lt", "values": ["4"]})), "NodeAffinity"),
            (with(json!({"nodeName": "n2"})), "NodeName"),
            (pod(json!({})), "TaintToleration"),
            (pod(json!({"tolerations": [{"key": "old", "operator": "Exists", "effect": "NoExecute"}]})), "admitted"),
            (pod(json!({"tolerations": [{"key": "old", "value": "x"}]})), "TaintToleration"),
        ] {
            assert_eq!(reason(&pod, &[]), expected, "{:?}", pod.spec);
        }
    }

    #[test]
    fn what_runs_already_is_not_judged_again_and_takes_its_room() {
        let wants = |name: &str, spec: Value| {
            let mut pod = pod(spec);
            pod.metadata.uid = Some(name.to_owned());
            (PodUid::from(name), Arc::new(pod))
        };
        let cpus = |count: &str| json!([{"name": "a", "resources": {"requests": {"cpu": count}}}]);
        let elsewhere = json!({"nodeSelector": {"disk": "hdd"}, "containers": cpus("1")});
        let pods: BTreeMap<PodUid, Arc<Pod>> = [
            wants("new", json!({"containers": cpus("2"), "tolerations": tolerant()})),
            wants("old", elsewhere.clone()),
            wants("stray", elsewhere),
        ]
        .into();
        let mut admissions = Admissions::default();
        let refused = admissions.take(&pods, |uid| uid.as_str() == "old", &[], &node(), false);
        let reasons: BTreeMap<&str, &str> = refused.iter().map(|one| (one.uid.as_str(), &*one.reason)).collect();
        assert_eq!(reasons, BTreeMap::from([("new", "OutOfcpu"), ("stray", "NodeAffinity")]));
        assert_eq!(admissions.admitted(&pods).into_keys().collect::<Vec<_>>(), [PodUid::from("old")]);
    }

    #[test]
    fn before_the_node_is_known_nothing_is_refused_for_good() {
        assert!(matches!(judge(&pod(json!({})), [].iter(), None, false), Verdict::NotYet { until: None, .. }));
        let unsupported = pod(json!({"hostUsers": false}));
        assert!(matches!(judge(&unsupported, [].iter(), None, false), Verdict::Never { .. }));
    }
}
