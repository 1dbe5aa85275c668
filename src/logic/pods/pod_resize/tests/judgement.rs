//! The changes that count as resizes, the order in which resizes are looked at, and the room of a pod.

use super::*;

/// As upstream: the sums of the pod decide, not those of a container.
#[test]
fn an_increase_is_more_of_either_resource_for_the_whole_pod() {
    let options = ResourceOptions::default();
    let two = |one: &str, other: &str| pod_of(vec![container("a", one, ""), container("b", other, "")]);
    let own = |container: &str, own: &str| with_own(pod(container, ""), own, "");
    for (old, new, increase) in [
        (pod("cpu=1,memory=1Gi", ""), pod("cpu=2,memory=1Gi", ""), true),
        (pod("cpu=2,memory=2Gi", ""), pod("cpu=1,memory=1Gi", ""), false),
        (pod("cpu=1,memory=2Gi", ""), pod("cpu=2,memory=1Gi", ""), true),
        (pod("cpu=2,memory=1Gi", ""), pod("cpu=1,memory=2Gi", ""), true),
        (pod("cpu=1", ""), pod("cpu=1000m", ""), false),
        (pod("cpu=1", ""), pod("", ""), false),
        (pod("", ""), pod("cpu=1", ""), true),
        // Limits take no room.
        (pod("cpu=1", "cpu=1"), pod("cpu=1", "cpu=2"), false),
        (two("cpu=1", "cpu=2"), two("cpu=2", "cpu=1"), false),
        (two("cpu=1", "cpu=2"), two("cpu=2", "cpu=2"), true),
        (two("cpu=2", "memory=1Gi"), two("cpu=1", "memory=512Mi"), false),
        (own("cpu=1", "cpu=2"), own("cpu=1", "cpu=3"), true),
        (own("cpu=1", "cpu=3"), own("cpu=2", "cpu=2"), false),
        // Where the pod has a request of its own, a container's is a share of that.
        (own("cpu=1", "cpu=2"), own("cpu=2", "cpu=2"), false),
    ] {
        assert_eq!(is_increase(&new, &old, &options), increase, "{old:?} {new:?}");
    }
    let off = ResourceOptions { pod_level_resources: false, ..options };
    assert!(!is_increase(&own("cpu=1", "cpu=3"), &own("cpu=1", "cpu=2"), &off));
    assert!(is_increase(&own("cpu=2", "cpu=2"), &own("cpu=1", "cpu=2"), &off));
}

/// Init containers run before the others: the larger of both sums is the pod's.
#[test]
fn init_containers_count_where_they_take_most() {
    let options = ResourceOptions::default();
    let of =
        |init: &str, side: &str| with_inits(pod("cpu=2", ""), vec![sidecar("s", side, ""), container("i", init, "")]);
    assert!(!is_increase(&of("cpu=2", ""), &of("cpu=1", ""), &options), "below what runs later");
    assert!(is_increase(&of("cpu=3", ""), &of("cpu=2", ""), &options));
    assert!(is_increase(&of("cpu=1", "cpu=1"), &of("cpu=1", ""), &options), "a sidecar runs beside them");
}

fn candidate(name: &str, increase: bool, priority: i32, guaranteed: bool, since: Option<i64>) -> Candidate {
    Candidate { uid: uid(name), increase, priority, guaranteed, since: since.map(at) }
}

#[test]
fn resizes_are_looked_at_in_upstreams_order() {
    let sorted = [
        candidate("smaller", false, -5, false, None),
        candidate("important", true, 5, false, None),
        candidate("guaranteed", true, 0, true, None),
        candidate("early", true, 0, false, Some(10)),
        candidate("late", true, 0, false, Some(20)),
        candidate("new", true, 0, false, None),
        candidate("newer", true, 0, false, None),
        candidate("unimportant", true, -1, true, Some(1)),
    ];
    let expected: Vec<&str> = sorted.iter().map(|one| one.uid.as_str()).collect();
    // However they come in.
    for shift in 0..sorted.len() {
        let mut all = sorted.to_vec();
        all.rotate_left(shift);
        all.swap(0, 3);
        let order = in_order(all);
        assert_eq!(order.iter().map(PodUid::as_str).collect::<Vec<_>>(), expected, "{shift}");
    }
}

/// Each rule decides only where those before it do not.
#[test]
fn an_earlier_rule_outweighs_all_later_ones() {
    for (first, second) in [
        (candidate("z", false, i32::MIN, false, None), candidate("a", true, i32::MAX, true, Some(0))),
        (candidate("z", true, 1, false, None), candidate("a", true, 0, true, Some(0))),
        (candidate("z", true, 0, true, None), candidate("a", true, 0, false, Some(0))),
        (candidate("z", true, 0, true, Some(1)), candidate("a", true, 0, true, Some(2))),
        (candidate("z", true, 0, true, Some(1)), candidate("a", true, 0, true, None)),
        (candidate("a", true, 0, true, Some(1)), candidate("z", true, 0, true, Some(1))),
    ] {
        let expected = [first.uid.clone(), second.uid.clone()];
        assert_eq!(in_order(vec![first.clone(), second.clone()]), expected);
        assert_eq!(in_order(vec![second, first]), expected);
    }
}

fn texts(before: &Pod, after: &Pod, gates: &ResizeGates) -> Vec<String> {
    let all = operations(before, after, gates);
    all.iter().map(|one| format!("{} {} {}", one.resource, one.requirement, one.operation)).collect()
}

/// OBS-08.
#[test]
fn each_amount_that_changes_is_an_operation() {
    let found = texts(&pod("cpu=1,memory=1Gi", "cpu=2"), &pod("cpu=500m,memory=2Gi", "memory=4Gi"), &GATES);
    assert_eq!(found, ["memory requests increase", "memory limits add", "cpu requests decrease", "cpu limits remove"]);
    for (before, after) in [
        (pod("cpu=1", ""), pod("cpu=1000m", "")),
        (pod("cpu=1", ""), pod("cpu=1,example.com/gpu=1", "")),
        (pod("cpu=0", ""), pod("", "")),
        (pod_of(vec![]), pod("cpu=1", "")),
        (pod("cpu=1", ""), pod_of(vec![container("b", "cpu=2", "")])),
    ] {
        assert_eq!(texts(&before, &after, &GATES), Vec::<String>::new(), "{after:?}");
    }
}

#[test]
fn operations_are_counted_container_by_container() {
    let of = |init: &str, side: &str, main: &str| {
        with_inits(pod(main, ""), vec![container("i", init, ""), sidecar("s", side, "")])
    };
    let (before, after) = (of("cpu=1", "cpu=1", "cpu=1"), of("cpu=2", "memory=1Gi", "cpu=500m"));
    let all = ["cpu requests increase", "memory requests add", "cpu requests remove", "cpu requests decrease"];
    assert_eq!(texts(&before, &after, &GATES), all);
    let off = ResizeGates { init_containers: false, ..GATES };
    assert_eq!(texts(&before, &after, &off), all[1..]);
}

fn counted(pod: Pod, status: serde_json::Value) -> (Arc<Pod>, Arc<Pod>) {
    let pod = Arc::new(with_status(pod, status));
    (counted_with_actual(&pod, true), pod)
}

/// A pod that is being made smaller takes its room until it is.
#[test]
fn a_pod_counts_for_the_larger_of_given_and_in_force() {
    for (given, in_force, expected) in [
        ("cpu=100m,memory=64Mi", json!({ "cpu": "1", "memory": "32Mi" }), "cpu=1,memory=64Mi"),
        ("cpu=100m,memory=64Mi", json!({ "cpu": "50m", "memory": "1Gi" }), "cpu=100m,memory=1Gi"),
        ("cpu=100m", json!({ "cpu": "100m", "memory": "1Gi" }), "cpu=100m,memory=1Gi"),
        ("", json!({ "cpu": "2", "example.com/gpu": "1" }), "cpu=2"),
    ] {
        let (counted, _) = counted(pod(given, "cpu=4"), json!({ "containerStatuses": [takes("a", &in_force)] }));
        let container = &counted.spec.as_ref().expect("a spec").containers[0];
        assert_eq!(container.resources, Some(requirements(expected, "cpu=4")), "{in_force}");
    }
}

#[test]
fn sidecars_count_for_what_is_in_force_too() {
    let given = with_inits(pod("cpu=1", ""), vec![sidecar("s", "cpu=100m", "")]);
    let (counted, _) = counted(given, json!({ "initContainerStatuses": [takes("s", &json!({ "cpu": "300m" }))] }));
    let spec = counted.spec.as_ref().expect("a spec");
    let inits = spec.init_containers.as_ref().expect("init containers");
    assert_eq!(inits[0].resources, Some(requirements("cpu=300m", "")));
    assert_eq!(spec.containers[0].resources, Some(requirements("cpu=1", "")));
}

#[test]
fn a_pod_that_takes_no_more_than_it_was_given_is_not_copied() {
    for status in [
        json!({}),
        json!({ "containerStatuses": [takes("a", &json!({ "cpu": "1000m" }))] }),
        json!({ "containerStatuses": [takes("a", &json!({ "cpu": "10m" }))] }),
        json!({ "containerStatuses": [takes("another", &json!({ "cpu": "10" }))] }),
        json!({ "containerStatuses": [takes("a", &json!({ "cpu": "much" }))] }),
    ] {
        let (counted, given) = counted(pod("cpu=1", ""), status.clone());
        assert!(Arc::ptr_eq(&counted, &given), "{status}");
    }
    let new = Arc::new(pod("cpu=1", ""));
    assert!(Arc::ptr_eq(&counted_with_actual(&new, true), &new), "it has no status yet");
}

/// The same of resources of the whole pod, whose overhead is in the figure of its cgroup.
#[test]
fn a_whole_pod_counts_for_the_cpu_in_force() {
    let of = |own: &str, overhead: &str, told: &str| {
        let mut pod = with_own(pod("cpu=100m", ""), own, "cpu=8");
        spec(&mut pod).overhead = list(overhead);
        Arc::new(with_status(pod, json!({ "resources": { "requests": { "cpu": told, "memory": "9Gi" } } })))
    };
    for (own, overhead, told, expected) in [
        ("cpu=1,memory=1Gi", "", "3", Some("cpu=3,memory=1Gi")),
        ("cpu=1", "cpu=500m", "3", Some("cpu=2500m")),
        ("cpu=1", "cpu=500m", "1500m", None),
        ("cpu=1", "", "999m", None),
        ("memory=1Gi", "", "3", None),
        ("", "", "3", None),
    ] {
        let given = of(own, overhead, told);
        let counted = counted_with_actual(&given, true);
        let requests =
            |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.resources.clone()).and_then(|own| own.requests);
        assert_eq!(requests(&counted), list(expected.unwrap_or(own)), "{own} {overhead} {told}");
        assert_eq!(Arc::ptr_eq(&counted, &given), expected.is_none(), "{own} {overhead} {told}");
        assert!(Arc::ptr_eq(&counted_with_actual(&given, false), &given), "its gate is off");
    }
}
