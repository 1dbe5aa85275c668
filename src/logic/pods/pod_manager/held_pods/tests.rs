//! Tests of the pods that the runtime holds: relists, looks at single pods, and the knowledge that they give.

use super::*;
use crate::logic::model::runtime_pod::testing::sandbox;
use crate::logic::model::runtime_pod::{RuntimeContainer, SandboxState};

fn name() -> FullName {
    FullName::new("web", "default")
}

fn look(uid: &str, sandboxes: usize) -> Arc<RuntimePod> {
    let mut seen = RuntimePod::empty(uid.into(), name(), Stamp(3));
    seen.sandboxes = vec![sandbox("s", SandboxState::Ready); sandboxes];
    Arc::new(seen)
}

#[test]
fn a_worker_is_told_only_what_is_certain() {
    let (mut held, uid) = (HeldPods::default(), PodUid::from("u"));
    assert_eq!(held.look_for_worker(&uid, &name()), None, "the runtime was not listed");
    held.take_relist(Stamp(2), [(uid.clone(), name())].into(), BTreeMap::new());
    assert_eq!(held.look_for_worker(&uid, &name()), None, "the runtime holds it, and nobody has looked");
    held.take_look(&look("u", 1));
    assert_eq!(held.look_for_worker(&uid, &name()), Some(look("u", 1)));
    held.take_look(&look("u", 0));
    let empty = held.look_for_worker(&uid, &name()).expect("the runtime was listed without it");
    assert!(empty.is_empty() && empty.taken == Stamp(2));
}

#[test]
fn a_relist_names_what_vanished() {
    let mut held = HeldPods::default();
    assert!(held.take_relist(Stamp(1), BTreeMap::new(), BTreeMap::new()).is_first);
    held.take_look(&look("a", 1));
    held.take_look(&look("b", 1));
    let relist = held.take_relist(Stamp(2), [("a".into(), name())].into(), BTreeMap::new());
    assert_eq!(relist, Relist { is_first: false, vanished: vec!["b".into()] });
    assert!(held.holds(&"a".into()) && !held.holds(&"b".into()) && held.is_alive(&"b".into()), "a look is to come");
}
#[test]
fn a_sandbox_alone_is_no_pod_that_runs() {
    let (mut held, uid) = (HeldPods::default(), PodUid::from("u"));
    held.take_relist(Stamp(1), [(uid.clone(), name())].into(), BTreeMap::new());
    held.take_look(&look("u", 1));
    assert!(held.holds(&uid) && held.running(&uid).is_none());
    let container = |id: &str, name: &str, state| RuntimeContainer::sample(id, name, state);
    let mut seen = RuntimePod::empty(uid.clone(), name(), Stamp(4));
    seen.sandboxes = vec![sandbox("s", SandboxState::Ready)];
    seen.containers = vec![container("c", "ended", ContainerState::Exited)];
    held.take_look(&Arc::new(seen.clone()));
    assert_eq!(held.running(&uid), Some(&BTreeSet::new()));
    seen.containers.push(container("d", "runs", ContainerState::Running));
    held.take_look(&Arc::new(seen));
    assert_eq!(held.running(&uid), Some(&["runs".to_owned()].into()));
    held.take_relist(Stamp(5), [(uid.clone(), name())].into(), [(uid.clone(), ["new".to_owned()].into())].into());
    assert_eq!(held.running(&uid), Some(&["new".to_owned()].into()));
    held.forget(&uid);
    assert!(held.running(&uid).is_none());
}

fn seen(uid: &str, sandbox_state: Option<SandboxState>, containers: &[(&str, ContainerState)]) -> Arc<RuntimePod> {
    let mut seen = RuntimePod::empty(uid.into(), name(), Stamp(3));
    seen.sandboxes = sandbox_state.map(|state| sandbox("s", state)).into_iter().collect();
    let of = |(number, (name, state)): (usize, &(&str, ContainerState))| {
        RuntimeContainer::sample(&format!("c{number}"), name, *state)
    };
    seen.containers = containers.iter().enumerate().map(of).collect();
    Arc::new(seen)
}

fn listed(uids: &[&str]) -> BTreeMap<PodUid, FullName> {
    uids.iter().map(|uid| (PodUid::from(*uid), name())).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn the_newest_relist_is_the_one_that_counts() {
    let mut held = HeldPods::default();
    assert_eq!(held.relisted(), None, "before the first");
    for (stamp, uids, is_first) in [(4, vec!["a", "b"], true), (9, vec!["b", "c"], false), (10, vec![], false)] {
        let relist = held.take_relist(Stamp(stamp), listed(&uids), BTreeMap::new());
        assert_eq!(relist, Relist { is_first, vanished: vec![] }, "nobody looked at {uids:?}");
        assert_eq!(held.relisted(), Some(Stamp(stamp)));
        assert_eq!(held.listed(), &listed(&uids), "relist {stamp}");
    }
}

/// A container of another name counts for itself; an instance that ended does not hide the one that runs.
#[test]
fn containers_that_run_are_known_by_name() {
    use ContainerState::{Created, Exited, Running, Unknown};
    let ready = Some(SandboxState::Ready);
    for (containers, running) in [
        (vec![], None),
        (vec![("app", Created)], Some(names(&[]))),
        (vec![("app", Exited), ("log", Unknown)], Some(names(&[]))),
        (vec![("app", Running)], Some(names(&["app"]))),
        (vec![("app", Running), ("app", Exited)], Some(names(&["app"]))),
        (vec![("app", Exited), ("app", Running)], Some(names(&["app"]))),
        (vec![("app", Running), ("log", Running), ("init", Exited)], Some(names(&["app", "log"]))),
    ] {
        let mut held = HeldPods::default();
        held.take_look(&seen("u", ready, &[("before", Running)]));
        held.take_look(&seen("u", ready, &containers));
        assert_eq!(held.running(&"u".into()), running.as_ref(), "{containers:?}");
        assert!(held.holds(&"u".into()), "{containers:?}");
    }
}

#[test]
fn a_pod_is_alive_while_a_sandbox_is_ready_or_a_container_runs() {
    use SandboxState::{NotReady, Ready};
    for (state, container, alive) in [
        (Some(Ready), None, true),
        (Some(NotReady), None, false),
        (Some(NotReady), Some(ContainerState::Exited), false),
        (Some(NotReady), Some(ContainerState::Running), true),
        (Some(Ready), Some(ContainerState::Exited), true),
        (None, Some(ContainerState::Running), true),
        (None, Some(ContainerState::Created), false),
    ] {
        let containers: Vec<_> = container.map(|state| ("app", state)).into_iter().collect();
        let mut held = HeldPods::default();
        held.take_look(&seen("u", state, &containers));
        assert_eq!(held.is_alive(&"u".into()), alive, "{state:?} {container:?}");
        assert!(!held.is_alive(&"other".into()), "nobody looked at it");
    }
}

/// The relist knows of a pod that it runs; only a look says whether it is alive.
#[test]
fn a_relist_says_of_no_pod_that_it_is_alive() {
    let (mut held, uid) = (HeldPods::default(), PodUid::from("u"));
    held.take_relist(Stamp(1), listed(&["u"]), [(uid.clone(), names(&["app"]))].into());
    assert!(held.holds(&uid) && !held.is_alive(&uid));
    assert_eq!(held.running(&uid), Some(&names(&["app"])));
    held.take_relist(Stamp(2), listed(&["u"]), BTreeMap::new());
    assert_eq!(held.running(&uid), None, "its containers were removed, its sandbox is there");
}

/// A pod comes up between two relists: the look at it is the first that is known of it.
#[test]
fn a_look_holds_a_pod_before_any_relist_has_it() {
    let (mut held, uid) = (HeldPods::default(), PodUid::from("u"));
    held.take_relist(Stamp(1), BTreeMap::new(), BTreeMap::new());
    assert!(!held.holds(&uid));
    held.take_look(&look("u", 1));
    assert_eq!(held.listed(), &listed(&["u"]));
    assert!(held.holds(&uid) && held.is_alive(&uid));
    assert_eq!(held.relisted(), Some(Stamp(1)), "a look is no relist");
}

#[test]
fn a_look_that_shows_nothing_forgets_the_pod_and_no_other() {
    for forget in [|held: &mut HeldPods| held.take_look(&look("u", 0)), |held: &mut HeldPods| held.forget(&"u".into())]
    {
        let mut held = HeldPods::default();
        let running = [("u".into(), names(&["app"])), ("v".into(), names(&["app"]))].into();
        held.take_relist(Stamp(1), listed(&["u", "v"]), running);
        for uid in ["u", "v"] {
            held.take_look(&seen(uid, Some(SandboxState::Ready), &[("app", ContainerState::Running)]));
        }
        forget(&mut held);
        for (uid, is_there) in [("u", false), ("v", true)] {
            let uid = PodUid::from(uid);
            let state = (held.holds(&uid), held.is_alive(&uid), held.running(&uid).is_some());
            assert_eq!(state, (is_there, is_there, is_there), "{uid}");
        }
        assert!(held.take_relist(Stamp(2), listed(&["v"]), BTreeMap::new()).vanished.is_empty(), "that is known");
    }
}

/// Somebody removed pods behind the agent's back. Until the look at each, the next relist names it again.
#[test]
fn a_pod_that_vanished_is_named_until_somebody_has_looked() {
    let mut held = HeldPods::default();
    held.take_relist(Stamp(1), listed(&["a", "b", "c", "d"]), BTreeMap::new());
    ["c", "a", "b"].into_iter().for_each(|uid| held.take_look(&look(uid, 1)));
    let vanished = |held: &mut HeldPods| held.take_relist(Stamp(2), listed(&["b"]), BTreeMap::new()).vanished;
    assert_eq!(vanished(&mut held), ["a".into(), "c".into()], "nobody has looked at d");
    assert_eq!(vanished(&mut held), ["a".into(), "c".into()]);
    held.take_look(&look("a", 0));
    assert_eq!(vanished(&mut held), ["c".into()]);
}

/// A worker that begins with an old look, or with an empty one too early, would start containers twice.
#[test]
fn the_knowledge_of_a_new_worker_is_the_look_at_its_pod_or_a_relist_without_it() {
    let uid = PodUid::from("u");
    let other = FullName::new("other", "default");
    let relist = |held: &mut HeldPods, uids: &[&str]| drop(held.take_relist(Stamp(7), listed(uids), BTreeMap::new()));
    let mut held = HeldPods::default();
    held.take_look(&look("u", 1));
    assert_eq!(held.look_for_worker(&uid, &name()), Some(look("u", 1)), "a look says all, without a relist");
    relist(&mut held, &[]);
    assert_eq!(held.look_for_worker(&uid, &name()), Some(look("u", 1)), "the look is to be taken again");
    held.forget(&uid);
    let empty = RuntimePod::empty(uid.clone(), other.clone(), Stamp(7));
    assert_eq!(held.look_for_worker(&uid, &other), Some(Arc::new(empty)), "nothing, as of the relist");
    relist(&mut held, &["u"]);
    assert_eq!(held.look_for_worker(&uid, &name()), None, "the relist has it: a look is to come");
    assert!(held.look_for_worker(&"v".into(), &name()).is_some(), "the relist has it not");
}
