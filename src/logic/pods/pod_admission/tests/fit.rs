//! Whether a pod fits this node: resources, ports, labels, names, taints (RES-59).

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A pod that tolerates all, of containers with these requests.
fn asking(requests: &[Value]) -> Pod {
    let container =
        |(at, requests): (usize, &Value)| json!({"name": format!("c{at}"), "resources": {"requests": requests}});
    let containers: Vec<Value> = requests.iter().enumerate().map(container).collect();
    pod(json!({"containers": containers, "tolerations": tolerant()}))
}

/// The same with init containers: their requests, and whether each is a sidecar.
fn with_inits(requests: &Value, inits: &[(Value, bool)]) -> Pod {
    let mut pod = asking(std::slice::from_ref(requests));
    let container = |(at, (requests, is_sidecar)): (usize, &(Value, bool))| {
        let policy = is_sidecar.then_some("Always");
        json!({"name": format!("i{at}"), "restartPolicy": policy, "resources": {"requests": requests}})
    };
    let inits: Vec<Value> = inits.iter().enumerate().map(container).collect();
    pod.spec.as_mut().expect("a spec").init_containers = serde_json::from_value(json!(inits)).expect("containers");
    pod
}

fn cpu(amount: &str) -> Value {
    json!({ "cpu": amount })
}

/// A node that has these.
fn node_with(allocatable: Value) -> Node {
    let mut node = node();
    node.status = serde_json::from_value(json!({ "allocatable": allocatable })).expect("a status");
    node
}

/// The sentences of everything that keeps a pod away.
fn problems(pod: &Pod, others: &[Pod], node: &Node) -> Vec<String> {
    failures(pod, &room(others), node, false).iter().map(Failure::message).collect()
}

/// RES-59: containers count together, init containers each for itself, sidecars with those that run beside them.
#[test]
fn res_59_a_pod_takes_the_most_that_it_needs_at_once() {
    let one = || cpu("1");
    for (pod, expected) in [
        (asking(&[one(), one()]), "admitted"),
        (asking(&[one(), one(), cpu("1m")]), "OutOfcpu"),
        (with_inits(&one(), &[(cpu("2"), false), (cpu("2"), false)]), "admitted"),
        (with_inits(&one(), &[(cpu("2001m"), false)]), "OutOfcpu"),
        (with_inits(&one(), &[(one(), true)]), "admitted"),
        (with_inits(&one(), &[(cpu("1001m"), true)]), "OutOfcpu"),
        // The sidecar runs while the init container after it does; one before it is alone.
        (with_inits(&one(), &[(cpu("500m"), true), (cpu("1500m"), false)]), "admitted"),
        (with_inits(&one(), &[(cpu("500m"), true), (cpu("1501m"), false)]), "OutOfcpu"),
        (with_inits(&one(), &[(cpu("2"), false), (cpu("500m"), true)]), "admitted"),
    ] {
        assert_eq!(reason(&pod, &[]), expected, "{:?}", pod.spec);
    }
}

/// RES-59.
#[test]
fn res_59_a_runtime_classs_overhead_counts() {
    let mut heavy = asking(&[cpu("1500m")]);
    let overhead = |amount: &str| serde_json::from_value(json!({ "cpu": amount })).expect("amounts");
    heavy.spec.as_mut().expect("a spec").overhead = Some(overhead("500m"));
    assert_eq!(reason(&heavy, &[]), "admitted");
    assert_eq!(reason(&asking(&[cpu("1m")]), &[heavy.clone()]), "OutOfcpu", "of others, too");
    heavy.spec.as_mut().expect("a spec").overhead = Some(overhead("501m"));
    assert_eq!(reason(&heavy, &[]), "OutOfcpu");
}

/// RES-59: a node that has given away more than it has takes pods that ask for nothing of it.
#[test]
fn res_59_a_pod_that_asks_for_nothing_needs_no_room() {
    let full = [asking(&[json!({"cpu": "5", "memory": "5Gi"})])];
    assert_eq!(reason(&asking(&[json!({})]), &full), "admitted");
    assert_eq!(reason(&asking(&[json!({"cpu": "0", "memory": "0"})]), &full), "admitted");
    assert_eq!(reason(&asking(&[json!({"memory": "1"})]), &full), "OutOfmemory");
}

/// RES-59: all that is short is found, the number of pods first, then what every node has, then the rest by name.
#[test]
fn res_59_each_resource_is_counted_in_its_unit_and_order() {
    let amounts = json!({
        "pods": "1", "cpu": "1500m", "memory": "1Ki", "ephemeral-storage": "1k", "hugepages-2Mi": "4Mi", "vendor.com/a": "2",
    });
    let all = json!({
        "cpu": "2", "memory": "2Ki", "ephemeral-storage": "2k", "hugepages-2Mi": "6Mi", "vendor.com/a": "3",
    });
    let wants = asking(std::slice::from_ref(&all));
    let found = problems(&wants, std::slice::from_ref(&wants), &node_with(amounts));
    let text = "Node didn't have enough resource: ";
    let expected = [
        "pods, requested: 1, used: 1, capacity: 1",
        "cpu, requested: 2000, used: 2000, capacity: 1500",
        "memory, requested: 2048, used: 2048, capacity: 1024",
        "ephemeral-storage, requested: 2000, used: 2000, capacity: 1000",
        "hugepages-2Mi, requested: 6291456, used: 6291456, capacity: 4194304",
        "vendor.com/a, requested: 3, used: 3, capacity: 2",
    ];
    assert_eq!(found, expected.map(|rest| format!("{text}{rest}")));
}

/// RES-59: a Node that does not say what can be allocated has its capacity; one that says nothing refuses nothing.
#[test]
fn res_59_a_node_without_allocatable_has_its_capacity() {
    let asks = asking(&[cpu("2")]);
    let of = |status: Value| {
        let mut node = node();
        node.status = serde_json::from_value(status).expect("a status");
        problems(&asks, &[], &node).len()
    };
    assert_eq!(of(json!({"capacity": {"cpu": "2"}})), 0);
    assert_eq!(of(json!({"capacity": {"cpu": "1"}})), 1);
    assert_eq!(of(json!({"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1"}})), 1);
    assert_eq!(of(json!({})), 0);
    assert_eq!(of(Value::Null), 0);
}

/// A port of the host: its number, address and protocol.
fn port(number: i32, address: Option<&str>, protocol: Option<&str>) -> Value {
    json!({"containerPort": 1, "hostPort": number, "hostIP": address, "protocol": protocol})
}

fn with_port(port: &Value) -> Pod {
    pod(json!({"containers": [{"name": "a", "ports": [port]}], "tolerations": tolerant()}))
}

/// POD-31: a port of the host is of one pod, by address and protocol; an address of all is each of them.
#[test]
fn a_port_of_the_host_is_free_by_address_and_protocol() {
    let used = [port(80, Some("10.0.0.1"), None), port(53, None, Some("UDP"))];
    let containers = json!([{"name": "a", "ports": [port(0, None, None)]}, {"name": "b", "ports": used}]);
    let taken = [pod(json!({ "containers": containers }))];
    for (wanted, expected) in [
        (port(80, Some("10.0.0.1"), None), "NodePorts"),
        (port(80, Some("10.0.0.1"), Some("TCP")), "NodePorts"),
        (port(80, Some("10.0.0.1"), Some("SCTP")), "admitted"),
        (port(80, Some("10.0.0.2"), None), "admitted"),
        (port(80, None, None), "NodePorts"),
        (port(80, Some(""), None), "NodePorts"),
        (port(80, Some("0.0.0.0"), None), "NodePorts"),
        (port(81, Some("10.0.0.1"), None), "admitted"),
        (port(53, Some("10.0.0.7"), Some("UDP")), "NodePorts"),
        (port(53, Some("10.0.0.7"), Some("TCP")), "admitted"),
        // No port of the host at all, as one of the others has it.
        (port(0, None, None), "admitted"),
    ] {
        assert_eq!(reason(&with_port(&wanted), &taken), expected, "{wanted}");
    }
    let message = problems(&with_port(&port(80, None, None)), &taken, &node());
    assert_eq!(message, ["Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"]);
}

/// POD-31: containers that run beside the others have their ports, init containers that end do not.
#[test]
fn ports_of_sidecars_count_and_those_of_init_containers_do_not() {
    let with = |policy: Option<&str>| {
        let init = json!([{"name": "i", "restartPolicy": policy, "ports": [port(80, None, None)]}]);
        pod(json!({"initContainers": init, "tolerations": tolerant()}))
    };
    let web = with_port(&port(80, None, None));
    assert_eq!(reason(&with(Some("Always")), std::slice::from_ref(&web)), "NodePorts");
    assert_eq!(reason(&web, &[with(Some("Always"))]), "NodePorts");
    assert_eq!(reason(&with(None), std::slice::from_ref(&web)), "admitted");
    assert_eq!(reason(&web, &[with(None)]), "admitted");
}

/// Required node affinity of these terms.
fn terms(terms: &Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

/// POD-31: of several terms one is enough, of a term's requirements all are needed; a selector is needed beside them.
#[test]
fn terms_are_alternatives_and_requirements_are_not() {
    let yes = json!({"key": "zone", "operator": "In", "values": ["a"]});
    let no = json!({"key": "zone", "operator": "In", "values": ["b"]});
    let name = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    for (selector, wanted, expected) in [
        (Value::Null, json!([{"matchExpressions": [no]}, {"matchExpressions": [yes]}]), "admitted"),
        (Value::Null, json!([{"matchExpressions": [yes, no]}]), "NodeAffinity"),
        (Value::Null, json!([{"matchExpressions": [no]}]), "NodeAffinity"),
        (Value::Null, json!([]), "NodeAffinity"),
        (Value::Null, json!([{}]), "NodeAffinity"),
        (Value::Null, json!([{}, {"matchExpressions": [yes]}]), "admitted"),
        (json!({"disk": "ssd"}), json!([{"matchExpressions": [yes]}]), "admitted"),
        (json!({"disk": "hdd"}), json!([{"matchExpressions": [yes]}]), "NodeAffinity"),
        (json!({"disk": "ssd", "gone": "x"}), json!([{"matchExpressions": [yes]}]), "NodeAffinity"),
        (Value::Null, json!([{"matchFields": [name("n1")]}]), "admitted"),
        (Value::Null, json!([{"matchFields": [name("n2")]}]), "NodeAffinity"),
        (Value::Null, json!([{"matchFields": [name("n1")], "matchExpressions": [no]}]), "NodeAffinity"),
    ] {
        let wants = json!({"nodeSelector": selector, "affinity": terms(&wanted), "tolerations": tolerant()});
        assert_eq!(reason(&pod(wants), &[]), expected, "{selector} {wanted}");
    }
}

/// POD-31: what is only preferred keeps no pod away.
#[test]
fn preferences_are_the_schedulers() {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]});
    let preferred = json!([{"weight": 1, "preference": term}]);
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
    assert_eq!(reason(&pod(json!({"affinity": affinity, "tolerations": tolerant()})), &[]), "admitted");
}

/// POD-31.
#[test]
fn comparisons_need_whole_numbers_on_both_sides() {
    for (key, operator, value, expected) in [
        ("cores", "Gt", "7", "admitted"),
        ("cores", "Gt", "8", "NodeAffinity"),
        ("cores", "Lt", "9", "admitted"),
        ("cores", "Lt", "8", "NodeAffinity"),
        ("cores", "Gt", "7.5", "NodeAffinity"),
        ("cores", "Gt", "", "NodeAffinity"),
        ("zone", "Gt", "1", "NodeAffinity"),
        ("none", "Lt", "1", "NodeAffinity"),
    ] {
        let requirement = json!({"key": key, "operator": operator, "values": [value]});
        let wants = terms(&json!([{"matchExpressions": [requirement]}]));
        assert_eq!(reason(&pod(json!({"affinity": wants, "tolerations": tolerant()})), &[]), expected, "{requirement}");
    }
}

/// POD-31.
#[test]
fn a_pod_may_name_its_node_or_none() {
    for (name, expected) in [(json!("n1"), "admitted"), (json!(""), "admitted"), (json!("n10"), "NodeName")] {
        assert_eq!(reason(&pod(json!({"nodeName": name, "tolerations": tolerant()})), &[]), expected, "{name}");
    }
}

/// POD-31: a static pod is the administrator's: no taint keeps it away. Its labels, name and room are looked at.
#[test]
fn a_static_pod_stands_above_taints() {
    let of_file = |spec: Value| {
        let mut pod = pod(spec);
        pod.metadata.annotations = Some([("kubernetes.io/config.source".to_owned(), "file".to_owned())].into());
        pod
    };
    assert_eq!(reason(&of_file(json!({})), &[]), "admitted");
    assert_eq!(reason(&of_file(json!({"nodeSelector": {"disk": "hdd"}})), &[]), "NodeAffinity");
    assert_eq!(reason(&of_file(json!({"nodeName": "n2"})), &[]), "NodeName");
}

/// POD-31: each taint that would have the pod leave needs a toleration; one that only keeps new pods away is the scheduler's.
#[test]
fn every_taint_is_to_be_tolerated() {
    let mut tainted = node();
    let taints = json!([
        {"key": "a", "value": "1", "effect": "NoExecute"}, {"key": "b", "effect": "NoExecute"},
        {"key": "c", "effect": "NoSchedule"}, {"key": "d", "effect": "PreferNoSchedule"},
    ]);
    tainted.spec = serde_json::from_value(json!({ "taints": taints })).expect("a spec");
    let abilities = NodeAbilities::default();
    let judged = |tolerations: Value| {
        let pod = pod(json!({ "tolerations": tolerations }));
        name_of(judge_among(&pod, &room(&[]), &[], at(&tainted, &abilities)).0)
    };
    assert_eq!(judged(json!([{"key": "a", "value": "1"}, {"key": "b", "operator": "Exists"}])), "admitted");
    assert_eq!(judged(json!([{"key": "a", "value": "1"}])), "TaintToleration");
    assert_eq!(judged(json!([{"key": "a", "value": "2"}, {"key": "b"}])), "TaintToleration");
    assert_eq!(judged(json!([])), "TaintToleration");
    tainted.spec = None;
    assert_eq!(name_of(judge_among(&pod(json!({})), &room(&[]), &[], at(&tainted, &abilities)).0), "admitted");
}

/// POD-31, KEP-5471: a toleration may compare numbers; a text that is no number fits nothing.
#[test]
fn a_toleration_may_compare_whole_numbers() {
    let abilities = NodeAbilities::default();
    let judged = |operator: &str, bound: &str, value: &str| {
        let mut tainted = node();
        let taint = json!({"key": "a", "value": value, "effect": "NoExecute"});
        tainted.spec = serde_json::from_value(json!({ "taints": [taint] })).expect("a spec");
        let toleration = json!({"key": "a", "operator": operator, "value": bound});
        name_of(judge_among(&pod(json!({ "tolerations": [toleration] })), &room(&[]), &[], at(&tainted, &abilities)).0)
    };
    for (operator, bound, value, expected) in [
        ("Gt", "5", "6", "admitted"),
        ("Gt", "5", "5", "TaintToleration"),
        ("Lt", "5", "-4", "admitted"),
        ("Lt", "5", "5", "TaintToleration"),
        ("Lt", "05", "4", "TaintToleration"),
        ("Gt", "5", "x", "TaintToleration"),
        ("Gt", "x", "x", "TaintToleration"),
        ("Other", "5", "5", "TaintToleration"),
    ] {
        assert_eq!(judged(operator, bound, value), expected, "{value} {operator} {bound}");
    }
}

/// A node that lacks several things names the first of them, and all are found.
#[test]
fn everything_that_keeps_a_pod_away_is_found_in_order() {
    let wants = json!({
        "containers": [{"name": "a", "ports": [port(80, None, None)], "resources": {"requests": {"cpu": "3"}}}],
        "nodeSelector": {"disk": "hdd"}, "nodeName": "n2",
    });
    let found = failures(&pod(wants), &room(&[with_port(&port(80, None, None))]), &node(), false);
    let names: Vec<String> = found.iter().map(|failure| failure.reason().to_string()).collect();
    assert_eq!(names, ["OutOfcpu", "NodeAffinity", "NodeName", "NodePorts", "TaintToleration"]);
    let of_others: Vec<bool> = found.iter().map(Failure::is_of_others).collect();
    assert_eq!(of_others, [true, false, false, true, false]);
}

/// POD-26: room alone decides whether a pod that waits for others could run.
#[test]
fn room_is_looked_at_without_labels_and_taints() {
    let wants = |cpu: &str| {
        let containers = json!([{"name": "a", "resources": {"requests": {"cpu": cpu}}}]);
        pod(json!({"containers": containers, "nodeSelector": {"disk": "hdd"}}))
    };
    assert!(has_room(&wants("2"), &room(&[]), &node(), false));
    assert!(!has_room(&wants("2"), &room(&[asking(&[cpu("1")])]), &node(), false));
    let web = with_port(&port(80, None, None));
    assert!(!has_room(&web, &room(std::slice::from_ref(&web)), &node(), false));
}

/// RES-59: resources of the whole pod count in place of its containers', where the gate says so.
#[test]
fn res_59_resources_of_the_whole_pod_count_under_their_gate() {
    let containers = json!([{"name": "a", "resources": {"requests": {"cpu": "1"}}}]);
    let wants = json!({"containers": containers, "resources": {"requests": {"cpu": "3"}}, "tolerations": tolerant()});
    let wants = pod(wants);
    let short = |pod_level| failures(&wants, &Room::default(), &node(), pod_level).len();
    assert_eq!((short(true), short(false)), (1, 0));
}

proptest! {
    /// Pods are taken one by one as long as their sum fits, whatever their order.
    #[test]
    fn the_sum_decides(amounts in prop::collection::vec(0_i64..900, 1..12)) {
        let node = node_with(json!({"cpu": "2", "pods": "100"}));
        let mut taken: Vec<Pod> = vec![];
        let mut sum = 0;
        for amount in amounts {
            let one = asking(&[cpu(&format!("{amount}m"))]);
            let fits = problems(&one, &taken, &node).is_empty();
            prop_assert_eq!(fits, amount == 0 || sum + amount <= 2000);
            if fits {
                sum += amount;
                taken.push(one);
            }
        }
    }
}

/// RES-59: amounts whose sum no number holds leave no room, rather than all of it.
#[test]
fn res_59_what_pods_take_together_has_a_bound() {
    let most = i64::MAX.to_string();
    let huge = asking(&[json!({ "memory": most })]);
    assert_eq!(room(&[huge.clone(), huge]).used("memory"), i64::MAX);
}
