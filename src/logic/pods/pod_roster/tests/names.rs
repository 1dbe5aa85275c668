//! Pods of one name: static ones run one after the other (POD-09), others side by side.

use super::*;

/// A static pod of another namespace.
fn elsewhere(name: &str) -> Arc<Pod> {
    let mut pod = Pod::clone(&pod(name, "a"));
    pod.metadata.namespace = Some("elsewhere".to_owned());
    Arc::new(pod)
}

/// A pass over all pods, with nothing in the runtime.
fn pass(roster: &mut PodRoster) -> Vec<Order> {
    roster.orders(Some(NOTHING))
}

/// A manifest that is edited twice while the first pod still ends.
#[test]
fn of_two_edits_only_the_last_one_runs() {
    let mut roster = PodRoster::new(["file"]);
    for (uid, orders) in [("u1", 2), ("u2", 1), ("u3", 0)] {
        roster.set("file", set(&[(uid, &pod("web", uid))]));
        assert_eq!(pass(&mut roster).len(), orders, "{uid}");
    }
    roster.finished(&"u1".into());
    assert_eq!(started(&roster.orders_for(&"u1".into(), Some(NOTHING))), ["u3"]);
}

#[test]
fn two_sources_that_want_one_name_get_one_pod_after_the_other() {
    let mut roster = PodRoster::new(["file", "http"]);
    roster.set("file", set(&[("f", &pod("web", "a"))]));
    roster.set("http", set(&[("h", &pod("web", "b"))]));
    assert_eq!(started(&pass(&mut roster)), ["f"], "one in a pass");
    assert!(!roster.is_unfinished(), "a timer gives nobody the name");
    assert_eq!(pass(&mut roster), []);
    roster.set("file", BTreeMap::new());
    assert_eq!(pass(&mut roster), [end("f", None)]);
    assert!(roster.over(&"f".into()));
    assert_eq!(started(&roster.orders_for(&"f".into(), Some(NOTHING))), ["h"]);
}

#[test]
fn a_name_is_taken_in_its_own_namespace_alone() {
    let mut roster = PodRoster::new(["file"]);
    roster.set("file", set(&[("u1", &pod("web", "a")), ("u2", &elsewhere("web")), ("u3", &pod("db", "a"))]));
    assert_eq!(started(&pass(&mut roster)), ["u1", "u2", "u3"]);
}

/// Pods of the API server share a name while one ends and its successor of the same StatefulSet comes.
#[test]
fn a_static_pod_waits_for_every_pod_of_its_name() {
    let mut roster = PodRoster::new([API_SOURCE, "file"]);
    roster.set("file", BTreeMap::new());
    roster.set(API_SOURCE, set(&[("a1", &api_pod("web", None)), ("a2", &api_pod("web", None))]));
    assert_eq!(started(&pass(&mut roster)), ["a1", "a2"]);
    roster.set("file", set(&[("f", &pod("web", "a"))]));
    assert_eq!(pass(&mut roster), []);
    assert!(roster.over(&"a1".into()));
    roster.finished(&"a1".into());
    roster.set_pod(API_SOURCE, &"a1".into(), None);
    assert_eq!(roster.orders_for(&"a1".into(), Some(NOTHING)), [], "one pod gave the name back, and only once");
    assert!(roster.over(&"a2".into()));
    assert_eq!(started(&roster.orders_for(&"a2".into(), Some(NOTHING))), ["f"]);
}

/// POD-09, POD-10: the agent was started again, and the runtime holds pods from before.
#[test]
fn a_pod_from_before_a_restart_has_its_name_as_long_as_the_runtime_holds_it() {
    for (runtime, wanted, starts, why) in [
        (held(&[("u1", "web")]), "u1", vec!["u1"], "the pod itself is no other"),
        (held(&[("u1", "db")]), "u2", vec!["u1", "u2"], "an orphan of another name keeps nobody waiting"),
        (held(&[("u1", "web")]), "u2", vec!["u1"], "the orphan ends first"),
        (
            held(&[("u1", "web"), ("u2", "web")]),
            "u2",
            vec!["u1"],
            "the orphan ends first, though the pod is there, too",
        ),
    ] {
        let mut roster = PodRoster::new(["file"]);
        roster.set("file", set(&[(wanted, &pod("web", "a"))]));
        assert_eq!(started(&roster.orders(Some(&runtime))), starts, "{why}");
    }
}

/// POD-10: a folder and a URL want one name, and the runtime holds both pods from before.
#[test]
fn two_pods_of_one_name_that_the_runtime_holds_do_not_wait_for_each_other() {
    let runtime = held(&[("f", "web"), ("h", "web")]);
    let mut roster = PodRoster::new(["file", "http"]);
    roster.set("file", set(&[("f", &pod("web", "a"))]));
    roster.set("http", set(&[("h", &pod("web", "b"))]));
    assert_eq!(started(&roster.orders(Some(&runtime))), ["f"]);
    assert_eq!(roster.orders(Some(&runtime)), [], "the other one waits for its end");
}

/// Another source is still to be heard, so the stranger may be wanted; until then its name is in use.
#[test]
fn a_static_pod_waits_for_a_stranger_of_its_name_that_may_be_wanted() {
    let (runtime, web) = (held(&[("old", "web")]), pod("web", "a"));
    let mut roster = PodRoster::new(["file", "http"]);
    roster.set("file", set(&[("new", &web)]));
    assert_eq!(roster.orders(Some(&runtime)), [], "nobody knows whose the old one is");
    assert_eq!(roster.orders_held_up(Some(NOTHING)), [start("new", "web"), tell("new", &web)], "it went by itself");
}

#[test]
fn a_pod_of_the_api_server_waits_for_no_stranger_of_its_name() {
    let (runtime, web) = (held(&[("old", "web")]), api_pod("web", None));
    let mut roster = PodRoster::new([API_SOURCE]);
    roster.set(API_SOURCE, set(&[("new", &web)]));
    let orders = roster.orders(Some(&runtime));
    assert_eq!(orders, [start("old", "web"), end("old", Some(1)), start("new", "web"), tell("new", &web)]);
}

/// POD-06: their mirror pods stay for so long.
#[test]
fn names_of_static_pods_that_still_end_are_known() {
    let names = |roster: &PodRoster, runtime: &BTreeMap<_, _>| -> Vec<String> {
        roster.ending_statics(runtime).iter().map(|name| name.name.to_string()).collect()
    };
    let mut roster = PodRoster::new([API_SOURCE, "file"]);
    roster.set("file", set(&[("s1", &pod("s1", "a")), ("s2", &pod("s2", "a"))]));
    roster.set(API_SOURCE, set(&[("a1", &api_pod("a1", None)), ("a2", &api_pod("a2", None))]));
    let runtime = held(&[("s1", "s1"), ("s2", "s2"), ("a1", "a1"), ("a2", "a2")]);
    let strange = held(&[("x", "x"), ("s1", "s1")]);
    assert_eq!(names(&roster, &runtime), Vec::<String>::new(), "wanted, and not started yet");
    roster.orders(Some(&runtime));
    assert_eq!(names(&roster, &runtime), Vec::<String>::new(), "all are wanted");
    assert_eq!(names(&roster, &strange), ["x"], "nobody knows what it was");
    roster.set("file", set(&[("s1", &pod("s1", "a"))]));
    roster.set(API_SOURCE, set(&[("a1", &api_pod("a1", None))]));
    roster.orders(Some(&runtime));
    assert_eq!(names(&roster, &runtime), ["s2"], "a pod of the API server has no mirror");
    assert_eq!(names(&roster, NOTHING), ["s2"], "its worker has not ended");
    roster.orders(Some(&strange));
    assert_eq!(names(&roster, NOTHING), ["s2", "x"], "a worker ends the stranger");
    roster.over(&"s2".into());
    roster.over(&"x".into());
    assert_eq!(names(&roster, &strange), Vec::<String>::new(), "only what is left of them is there");
}

/// A pod that ended by itself, and whose worker still removes what is left of it, when its manifest goes.
#[test]
fn a_pod_that_is_over_ends_once_more_when_nobody_wants_it() {
    let mut roster = PodRoster::new(["file"]);
    roster.set("file", set(&[("u1", &pod("web", "a"))]));
    pass(&mut roster);
    assert!(roster.over(&"u1".into()));
    assert_eq!(pass(&mut roster), [], "it is wanted");
    roster.set("file", BTreeMap::new());
    assert_eq!(pass(&mut roster), [end("u1", None)]);
    assert!(roster.ending_statics(NOTHING).is_empty(), "its name is free");
}
