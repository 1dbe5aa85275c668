//! Tests of [`super`]: who is taken, who waits, who is refused, and who goes for whom.

mod fit;
mod judging;

use serde_json::{Value, json};

use super::*;
use crate::logic::model::admission_reason::AdmissionReason;
use crate::logic::pods::node_stop::PREEMPTED;

pub(super) fn pod(spec: Value) -> Pod {
    let mut pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "a"}]}});
    for (field, value) in spec.as_object().expect("fields") {
        pod["spec"][field] = value.clone();
    }
    serde_json::from_value(pod).expect("a pod")
}

pub(super) fn node() -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "n1", "labels": {"disk": "ssd", "zone": "a", "cores": "8"}},
        "spec": {"taints": [{"key": "old", "effect": "NoExecute"}, {"key": "full", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}},
    }))
    .expect("a node")
}

pub(super) fn reason(pod: &Pod, others: &[Pod]) -> String {
    name_of(judge_among(pod, &room(others), &[], at(&node(), &NodeAbilities::default())).0)
}

pub(super) fn room(pods: &[Pod]) -> Room {
    let numbered = pods.iter().enumerate().map(|(at, pod)| (PodUid::from(at.to_string()), Arc::new(pod.clone())));
    let numbered: Vec<_> = numbered.collect();
    Room::of(numbered.iter().map(|(uid, pod)| (uid, pod)), false)
}

pub(super) fn name_of(verdict: Verdict) -> String {
    match verdict {
        Verdict::Admitted => "admitted".to_owned(),
        Verdict::NotYet { what, .. } => what.to_string(),
        Verdict::Unsure => "unsure".to_owned(),
        Verdict::Unplaced => "unplaced".to_owned(),
        Verdict::Never { reason, .. } => reason.to_string(),
    }
}

pub(super) fn at<'a>(node: &'a Node, abilities: &'a NodeAbilities) -> Surroundings<'a> {
    let takes_room = &|_: &PodUid, pod: &Pod| !is_over(pod);
    Surroundings {
        runs: &|_| false,
        takes_room,
        may_go_by_node: &|_| true,
        placed: &|_, _| Some(&Placing::Given),
        leaving: &[],
        node,
        abilities,
    }
}

pub(super) fn tolerant() -> Value {
    json!([{"operator": "Exists"}])
}

/// RES-59.
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
    let Verdict::Never { message, .. } = judge(&asks("3", "1"), Some(&node()), &NodeAbilities::default()) else {
        panic!("refused")
    };
    assert_eq!(message, "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000");
}

/// An annotation of our own: one that says nothing is refused by name rather than left out in silence.
#[test]
fn a_cpu_burst_that_is_no_percentage_is_refused() {
    let with = |value: &str| {
        let mut pod = pod(json!({"containers": [{"name": "a"}], "tolerations": tolerant()}));
        pod.metadata.annotations = Some([("podwright.io/cpu-burst".to_owned(), value.to_owned())].into());
        pod
    };
    assert_eq!(reason(&with("50%"), &[]), "admitted");
    let Verdict::Never { reason, message } = judge(&with("much"), Some(&node()), &NodeAbilities::default()) else {
        panic!("refused")
    };
    assert_eq!(reason, AdmissionReason::InvalidCpuBurst);
    let expected = "invalid annotation podwright.io/cpu-burst: \"much\" is no whole percentage from 0 to 100";
    assert_eq!(message, expected);
}

/// RES-59: extended resources count where the node has them. Upstream leaves those of the cluster, which the node does not
/// have, to others.
#[test]
fn res_59_extended_resources_count_where_the_node_has_them() {
    let asks = |name: &str, amount: &str| {
        let requests = json!({"requests": {name: amount}});
        pod(json!({"containers": [{"name": "a", "resources": requests}], "tolerations": tolerant()}))
    };
    let mut node = node();
    let allocatable =
        json!({"cpu": "2", "memory": "1Gi", "pods": "9", "vendor.com/thing": "3", "vendor.com/none": "0"});
    node.status.as_mut().expect("a status").allocatable = serde_json::from_value(allocatable).expect("amounts");
    let judged =
        |pod: &Pod, others: &[Pod]| judge_among(pod, &room(others), &[], at(&node, &NodeAbilities::default())).0;
    let two = asks("vendor.com/thing", "2");
    assert_eq!(name_of(judged(&two, &[])), "admitted");
    let Verdict::Never { reason, message } = judged(&two, std::slice::from_ref(&two)) else { panic!("refused") };
    assert_eq!(reason, AdmissionReason::OutOf("vendor.com/thing".to_owned()));
    assert_eq!(message, "Node didn't have enough resource: vendor.com/thing, requested: 2, used: 2, capacity: 3");
    for (name, expected) in [
        ("vendor.com/none", "OutOfvendor.com/none"),
        ("vendor.com/missing", "admitted"),
        ("hugepages-2Mi", "OutOfhugepages-2Mi"),
        ("kubernetes.io/counted", "PodFeatureUnsupported"),
    ] {
        assert_eq!(name_of(judged(&asks(name, "1"), &[])), expected, "{name}");
    }
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
    let (node, abilities) = (node(), NodeAbilities::default());
    let runs = |uid: &PodUid| uid.as_str() == "old";
    let surroundings = Surroundings { runs: &runs, ..at(&node, &abilities) };
    let refused = admissions.take(&pods, &mut Room::default(), surroundings).refused;
    let reasons: BTreeMap<&str, String> =
        refused.iter().map(|one| (one.uid.as_str(), one.reason.to_string())).collect();
    assert_eq!(reasons, BTreeMap::from([("new", "OutOfcpu".to_owned()), ("stray", "NodeAffinity".to_owned())]));
    assert_eq!(admissions.admitted(&pods).into_keys().collect::<Vec<_>>(), [PodUid::from("old")]);
}

/// RES-37, PAIN-18: the managers of CPUs and memory come before room, and only they are waited for.
#[test]
fn hardware_is_asked_for_before_room_is_looked_for() {
    let uid = PodUid::from("web");
    let cpus = json!([{"name": "a", "resources": {"requests": {"cpu": "20"}}}]);
    let mut web = pod(json!({"containers": cpus, "tolerations": tolerant()}));
    web.metadata.uid = Some("web".to_owned());
    let pods = BTreeMap::from([(uid.clone(), Arc::new(web))]);
    let (node, abilities) = (node(), NodeAbilities::default());
    let runs = |_: &PodUid| true;
    let judged = |admissions: &mut Admissions, placing: Option<&Placing>, runs_already: bool| {
        let placed = |_: &PodUid, _: &Pod| placing;
        let at = Surroundings { placed: &placed, ..at(&node, &abilities) };
        let at = if runs_already { Surroundings { runs: &runs, ..at } } else { at };
        let judged = admissions.take(&pods, &mut Room::default(), at);
        let reasons: Vec<String> = judged.refused.into_iter().map(|one| one.reason.to_string()).collect();
        (judged.unplaced.len(), reasons)
    };
    let mut admissions = Admissions::default();
    assert_eq!(judged(&mut admissions, None, false), (1, vec![]));
    assert!(admissions.waiting().contains(&uid));
    assert_eq!(judged(&mut admissions, Some(&Placing::NotYet("full".to_owned())), false), (0, vec![]));
    assert!(admissions.waiting().contains(&uid) && !admissions.is_decided(&uid));
    let refused = Placing::Refused { reason: AdmissionReason::TopologyAffinityError, message: "no".to_owned() };
    assert_eq!(judged(&mut admissions, Some(&refused), false), (0, vec!["TopologyAffinityError".to_owned()]));
    let mut others = Admissions::default();
    assert_eq!(judged(&mut others, Some(&Placing::Given), false), (0, vec!["OutOfcpu".to_owned()]));
    // As upstream, what a plugin gave counts, and not what the Node says meanwhile of the plugin's devices.
    let mut given = Admissions::default();
    let devices = Placing::GivenDevices(["cpu".to_owned()].into());
    assert_eq!(judged(&mut given, Some(&devices), false), (0, vec![]));
    assert!(given.is_admitted(&uid));
    let mut restarted = Admissions::default();
    assert_eq!(judged(&mut restarted, None, true), (1, vec![]), "what runs is asked about");
    assert!(restarted.is_admitted(&uid), "and goes on");
}

/// POD-31: labels of the Node may be newer than what is known of them; what else fails is known well enough.
#[test]
fn a_pod_is_refused_by_labels_alone_only_where_they_were_read_for_it() {
    let uid = PodUid::from("web");
    let one = |spec: Value| {
        let mut pod = pod(spec);
        pod.metadata.uid = Some("web".to_owned());
        BTreeMap::from([(uid.clone(), Arc::new(pod))])
    };
    let (node, abilities) = (node(), NodeAbilities::default());
    let judged = |admissions: &mut Admissions, pods, read: bool| {
        let surroundings = Surroundings { may_go_by_node: &|_| read, ..at(&node, &abilities) };
        let judged = admissions.take(pods, &mut Room::default(), surroundings);
        let reasons: Vec<String> = judged.refused.into_iter().map(|one| one.reason.to_string()).collect();
        (judged.unsure, reasons)
    };
    let elsewhere = one(json!({"nodeSelector": {"disk": "hdd"}, "tolerations": tolerant()}));
    let mut admissions = Admissions::default();
    assert_eq!(judged(&mut admissions, &elsewhere, false), (vec![uid.clone()], vec![]));
    assert_eq!(judged(&mut admissions, &elsewhere, true), (vec![], vec!["NodeAffinity".to_owned()]));
    let nowhere = one(json!({"nodeSelector": {"disk": "hdd"}}));
    assert_eq!(judged(&mut Admissions::default(), &nowhere, false), (vec![], vec!["NodeAffinity".to_owned()]));
}

/// POD-03, PAIN-18.
#[test]
fn before_the_node_is_known_nothing_is_refused_for_good() {
    let abilities = NodeAbilities::default();
    assert!(matches!(judge(&pod(json!({})), None, &abilities), Verdict::NotYet { until: None, .. }));
    let unsupported = pod(json!({"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]}));
    assert!(matches!(judge(&unsupported, None, &abilities), Verdict::Never { .. }));
}

/// POD-31: the order of upstream's handlers; each spec has all that comes after it, too.
#[test]
fn what_the_node_alone_knows_is_asked_in_upstreams_order() {
    let mut spec = json!({
        "tolerations": tolerant(), "os": {"name": "windows"}, "nodeSelector": {"disk": "hdd"},
        "securityContext": {
            "sysctls": [{"name": "kernel.msgmax", "value": "1"}], "supplementalGroupsPolicy": "Strict",
            "appArmorProfile": {"type": "RuntimeDefault"},
        },
        "resources": {"requests": {"cpu": "1"}},
        "containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 80}]}],
    });
    let (node, able) = (node(), NodeAbilities { groups_policy: Some(false), ..NodeAbilities::default() });
    let others = room(&[pod(json!({"containers": spec["containers"].clone()}))]);
    let reason = |spec: &Value, label: &str| {
        let mut pod = pod(spec.clone());
        pod.metadata.labels = Some([("kubernetes.io/os".to_owned(), label.to_owned())].into());
        name_of(judge_among(&pod, &others, &[], at(&node, &able)).0)
    };
    assert_eq!(reason(&spec, "windows"), "SysctlForbidden");
    spec["securityContext"]["sysctls"] = Value::Null;
    assert_eq!(reason(&spec, "windows"), "PodOSSelectorNodeLabelDoesNotMatch");
    assert_eq!(reason(&spec, "linux"), "PodOSNotSupported");
    spec["os"]["name"] = json!("linux");
    assert_eq!(reason(&spec, "linux"), "SupplementalGroupsPolicyNotSupported");
    spec["securityContext"]["supplementalGroupsPolicy"] = json!("Merge");
    assert_eq!(reason(&spec, "linux"), "NodeAffinity");
    spec["nodeSelector"] = Value::Null;
    assert_eq!(reason(&spec, "linux"), "NodePorts");
    spec["containers"][0]["ports"][0]["protocol"] = json!("UDP");
    assert_eq!(reason(&spec, "linux"), "AppArmor");
    spec["securityContext"]["appArmorProfile"] = Value::Null;
    assert_eq!(reason(&spec, "linux"), "PodLevelResourcesNotSupported");
    spec["resources"] = Value::Null;
    assert_eq!(reason(&spec, "linux"), "admitted");
}

/// PAIN-18.
#[test]
fn a_strict_pod_waits_for_the_runtimes_word() {
    let strict = pod(json!({"tolerations": tolerant(), "securityContext": {"supplementalGroupsPolicy": "Strict"}}));
    let verdict = |groups_policy| {
        let abilities = NodeAbilities { groups_policy, ..NodeAbilities::default() };
        name_of(judge(&strict, Some(&node()), &abilities))
    };
    assert_eq!(verdict(None), "the runtime to say what it can do");
    assert_eq!(verdict(Some(false)), "SupplementalGroupsPolicyNotSupported");
    assert_eq!(verdict(Some(true)), "admitted");
}

/// PAIN-18, POD-27.
#[test]
fn a_user_namespace_on_the_hosts_network_waits_for_the_runtimes_word() {
    let mixed = pod(json!({"tolerations": tolerant(), "hostUsers": false, "hostNetwork": true}));
    let verdict = |host_network_users| {
        let declared = Some(vec!["UserNamespacesHostNetworkSupport".to_owned()]);
        let abilities = NodeAbilities { declared, host_network_users, ..NodeAbilities::default() };
        name_of(judge(&mixed, Some(&node()), &abilities))
    };
    assert_eq!(verdict(None), "the runtime to say what it can do");
    assert_eq!(verdict(Some(false)), "PodFeatureUnsupported");
    assert_eq!(verdict(Some(true)), "admitted");
}

/// POD-32, RES-60.
#[test]
fn others_go_for_a_critical_pod_and_it_waits_for_their_room() {
    let of = |name: &str, priority: i32, cpu: &str| {
        let resources = json!({"requests": {"cpu": cpu}});
        let containers = json!([{"name": "a", "resources": resources}]);
        let spec = json!({"containers": containers, "priority": priority, "tolerations": tolerant()});
        let mut pod = pod(spec);
        pod.metadata.uid = Some(name.to_owned());
        (PodUid::from(name), Arc::new(pod))
    };
    let (node, abilities) = (node(), NodeAbilities::default());
    let (mut pods, mut admissions) =
        (BTreeMap::from([of("big", 0, "1500m"), of("small", 0, "500m")]), Admissions::default());
    let mut room = Room::default();
    assert!(admissions.take(&pods, &mut room, at(&node, &abilities)).refused.is_empty());
    pods.extend([of("vital", 2_000_000_000, "400m")]);
    let judged = admissions.take(&pods, &mut room, at(&node, &abilities));
    let victims: Vec<&str> = judged.victims.iter().map(|victim| victim.uid.as_str()).collect();
    assert_eq!((victims, judged.refused.len()), (vec!["small"], 0));
    admissions.stop(&"small".into(), NodeStop::preempted(Moment(0)), Moment(5));
    assert_eq!(admissions.why_not(&"small".into()), Some((&AdmissionReason::Preempting, PREEMPTED)));
    // As long as it takes its room nobody else has to go.
    let leaving = [Arc::clone(&pods[&PodUid::from("small")])];
    let judged = admissions.take(&pods, &mut room, Surroundings { leaving: &leaving, ..at(&node, &abilities) });
    assert!(judged.victims.is_empty() && judged.refused.is_empty());
    assert_eq!(admissions.undecided(&pods).count(), 1);
    room.set(&"small".into(), None, false);
    let until = |waits: Verdict| matches!(waits, Verdict::NotYet { until, .. } if until == Some(Moment(5)));
    assert!(until(admissions.for_room(&leaving)) && !until(admissions.for_room(&[])));
    let judged = admissions.take(&pods, &mut room, at(&node, &abilities));
    assert!(judged.victims.is_empty() && admissions.admitted(&pods).contains_key(&PodUid::from("vital")));
    // One that asks for more than the node has gets nobody killed.
    pods.extend([of("vast", 2_000_000_000, "3")]);
    let judged = admissions.take(&pods, &mut room, at(&node, &abilities));
    assert_eq!((judged.victims.len(), &judged.refused[0].reason), (0, &AdmissionReason::UnexpectedAdmissionError));
}

/// POD-31: a pod that comes alone is judged without a look at those that are here, however many they are.
#[test]
fn a_new_pod_costs_no_look_at_the_others() {
    let numbered = |number: usize| {
        let containers = json!([{"name": "a", "resources": {"requests": {"cpu": "1m"}}}]);
        let mut pod = pod(json!({"containers": containers, "tolerations": tolerant()}));
        pod.metadata.uid = Some(number.to_string());
        (PodUid::from(number.to_string()), Arc::new(pod))
    };
    let mut node = node();
    let status = node.status.as_mut().expect("a status");
    status
        .allocatable
        .as_mut()
        .expect("amounts")
        .insert("pods".to_owned(), serde_json::from_value(json!("2000")).expect("one"));
    let abilities = NodeAbilities::default();
    for pods in [10, 1000] {
        let (mut admissions, mut room) = (Admissions::default(), Room::default());
        let all: BTreeMap<PodUid, Arc<Pod>> = (0..pods).map(numbered).collect();
        admissions.take(&all, &mut room, at(&node, &abilities));
        assert_eq!(room.read(), pods as u64, "each once");
        let before = room.read();
        let judged = admissions.take_new(vec![numbered(pods)], &mut room, at(&node, &abilities));
        assert!(judged.refused.is_empty() && admissions.is_admitted(&pods.to_string().into()));
        assert_eq!(room.read() - before, 1, "beside {pods} others");
    }
}

/// Nobody else makes a static pod anew.
#[test]
fn only_refusals_of_static_pods_are_open() {
    let (node, abilities) = (node(), NodeAbilities::default());
    let vast = json!([{"name": "a", "resources": {"requests": {"cpu": "3"}}}]);
    let of = |containers: &Value| {
        let pod = pod(json!({"containers": containers, "tolerations": tolerant()}));
        BTreeMap::from([(PodUid::from("u"), Arc::new(pod))])
    };
    for (mut admissions, containers, expected) in [
        (Admissions::of_statics(), &vast, true),
        (Admissions::of_statics(), &json!([{"name": "a"}]), false),
        (Admissions::default(), &vast, false),
    ] {
        admissions.take(&of(containers), &mut room(&[]), at(&node, &abilities));
        assert_eq!(admissions.has_open_refusals(), expected, "{containers}");
    }
}

#[test]
fn a_taint_that_would_have_the_pod_leave_is_tolerated_by_key_value_and_effect() {
    for (toleration, expected) in [
        (json!({"operator": "Exists"}), true),
        (json!({"key": "old", "operator": "Exists"}), true),
        (json!({"key": "old", "operator": "Exists", "effect": "NoExecute"}), true),
        (json!({"key": "old"}), true),
        (json!({"key": "old", "value": "v"}), false),
        (json!({"key": "old", "operator": "Exists", "effect": "NoSchedule"}), false),
        (json!({"key": "other", "operator": "Exists"}), false),
        (json!({"value": ""}), false),
    ] {
        let pod = pod(json!({ "tolerations": [toleration] }));
        assert_eq!(reason(&pod, &[]) == "admitted", expected, "{toleration}");
    }
}
