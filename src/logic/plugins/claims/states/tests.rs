//! Tests of the machine: claims of one pod and of several, through failures.

use serde_json::json;

use super::*;
use crate::logic::model::time::Steady;
use crate::logic::plugins::call_error::{CallError, CallProblem};
use crate::logic::plugins::claims::drivers::Service;
use crate::logic::plugins::plugin::{Plugin, PluginKind};

fn key(name: &str) -> ClaimKey {
    ClaimKey { namespace: "ns".to_owned(), name: name.to_owned() }
}

fn pod(uid: &str, claims: &[&str]) -> Arc<Pod> {
    let claims: Vec<_> = claims.iter().map(|name| json!({ "name": name, "resourceClaimName": name })).collect();
    let value = json!({
        "metadata": { "name": uid, "namespace": "ns", "uid": uid },
        "spec": { "containers": [], "resourceClaims": claims },
    });
    Arc::new(serde_json::from_value(value).expect("a pod"))
}

/// A claim that all pods of these tests may use.
fn claim(name: &str, uid: &str, drivers: &[&str]) -> ResourceClaim {
    let result = |driver: &&str| json!({ "driver": driver, "pool": "n", "device": "d", "request": "r" });
    let results: Vec<_> = drivers.iter().map(result).collect();
    let reserved: Vec<_> =
        ["p", "q"].iter().map(|uid| json!({ "resource": "pods", "name": uid, "uid": uid })).collect();
    let value = json!({
        "metadata": { "name": name, "namespace": "ns", "uid": uid }, "spec": {},
        "status": { "allocation": { "devices": { "results": results } }, "reservedFor": reserved },
    });
    serde_json::from_value(value).expect("a claim")
}

fn drivers(names: &[&str]) -> Drivers {
    let mut drivers = Drivers::default();
    for name in names {
        let (socket, endpoint, name) = (format!("/r/{name}"), format!("/p/{name}"), (*name).to_owned());
        let plugin = Plugin { socket, attempt: 1, kind: PluginKind::Dra, name, endpoint, versions: vec![] };
        drivers.add(Arc::new(plugin), Service::V1, Steady(0)).expect("new");
    }
    drivers
}

fn answer(uids: &[&str]) -> Answer {
    let device =
        |uid: &str| PreparedDevice { cdi_device_ids: vec![format!("v.com/c={uid}")], ..PreparedDevice::default() };
    uids.iter().map(|uid| ((*uid).to_owned(), Ok(vec![device(uid)]))).collect()
}

/// A machine, and what it asked for last.
struct Played {
    states: ClaimStates,
    drivers: Drivers,
}

impl Played {
    fn new() -> Self {
        Self { states: ClaimStates::default(), drivers: drivers(&["d", "e"]) }
    }

    fn prepare(&mut self, uid: &str, claims: &[&str]) -> Vec<Action> {
        self.states.prepare(&PodUid::from(uid), &pod(uid, claims))
    }

    fn read(&mut self, actions: &[Action], claims: Vec<ResourceClaim>) -> Vec<Action> {
        let [Action::Read { pod, attempt, .. }] = actions else { panic!("no read: {actions:?}") };
        self.states.read_ended(pod, *attempt, Ok(claims), &self.drivers)
    }

    fn stored(&mut self, actions: &[Action]) -> Vec<Action> {
        assert_eq!(actions, [Action::Store]);
        self.states.store_ended(Ok(()))
    }

    fn called(&mut self, action: &Action, outcome: Result<Answer, ClaimError>) -> Vec<Action> {
        let Action::Call { pod, attempt, driver, .. } = action else { panic!("no call: {action:?}") };
        self.states.call_ended(pod, *attempt, driver, outcome)
    }

    /// Prepares one claim of one driver to the end.
    fn prepared(&mut self, uid: &str, name: &str) {
        let actions = self.prepare(uid, &[name]);
        let actions = self.read(&actions, vec![claim(name, name, &["d"])]);
        let actions = self.stored(&actions);
        let actions = self.called(&actions[0], Ok(answer(&[name])));
        let actions = self.stored(&actions);
        assert_eq!(actions, [ended(uid, ClaimCall::Prepare, Ok(()))]);
    }
}

fn ended(uid: &str, call: ClaimCall, outcome: Result<(), ClaimError>) -> Action {
    Action::Ended { pod: PodUid::from(uid), call, outcome }
}

/// The drivers that are called, each with its claims.
fn calls(actions: &[Action]) -> Vec<String> {
    let call = |action: &Action| match action {
        Action::Call { call, driver, claims, .. } => {
            let claims: Vec<&str> = claims.iter().map(|id| id.key.name.as_str()).collect();
            format!("{call} {driver}: {}", claims.join(" "))
        }
        other => panic!("no call: {other:?}"),
    };
    actions.iter().map(call).collect()
}

/// RES-48.
#[test]
fn the_book_is_on_the_disk_before_each_driver_is_called_once() {
    let mut played = Played::new();
    let actions = played.prepare("p", &["a", "b"]);
    assert_eq!(played.prepare("p", &["a", "b"]), [], "asked twice, done once");
    let actions = played.read(&actions, vec![claim("a", "1", &["d", "e"]), claim("b", "2", &["d"])]);
    assert_eq!(actions, [Action::Store], "no driver is called yet");
    let calls_made = played.stored(&actions);
    assert_eq!(calls(&calls_made), ["NodePrepareResources d: a b", "NodePrepareResources e: a"]);
    assert_eq!(played.called(&calls_made[0], Ok(answer(&["1", "2"]))), [], "the other driver is still at it");
    let actions = played.called(&calls_made[1], Ok(answer(&["1"])));
    let actions = played.stored(&actions);
    assert_eq!(actions, [ended("p", ClaimCall::Prepare, Ok(()))]);
    assert!(played.states.book().all().all(|claim| claim.prepared && claim.drivers.values().all(|all| all.len() == 1)));
    let actions = played.prepare("p", &["a"]);
    let actions = played.read(&actions, vec![claim("a", "1", &["d", "e"])]);
    assert_eq!(actions, [ended("p", ClaimCall::Prepare, Ok(()))], "prepared once");
}

/// RES-48.
#[test]
fn nothing_is_entered_for_a_pod_that_may_not_have_its_claims() {
    let mut played = Played::new();
    for (claims, expected) in [
        (vec![claim("a", "1", &["d"]), claim("b", "2", &["missing"])], "DRA driver missing is not registered"),
        (vec![claim("a", "1", &["d"]), ResourceClaim::default()], "pod p (p) is not allowed to use ResourceClaim b ()"),
    ] {
        let actions = played.prepare("p", &["a", "b"]);
        let actions = played.read(&actions, claims);
        let [Action::Ended { outcome: Err(error), .. }] = &actions[..] else { panic!("{actions:?}") };
        assert_eq!(error.to_string(), expected);
        assert_eq!(played.states.book().all().count(), 0);
        assert_eq!(played.states.release(&PodUid::from("p")), [ended("p", ClaimCall::Unprepare, Ok(()))]);
    }
    assert_eq!(played.prepare("p", &[]), [ended("p", ClaimCall::Prepare, Ok(()))]);
}

/// RES-48: a write that fails changes nothing.
#[test]
fn a_book_that_cannot_be_written_keeps_drivers_from_being_called() {
    let mut played = Played::new();
    let actions = played.prepare("p", &["a"]);
    let actions = played.read(&actions, vec![claim("a", "1", &["d"])]);
    assert_eq!(actions, [Action::Store]);
    let failed = played.states.store_ended(Err("no space".to_owned()));
    let why = ClaimError::Checkpoint("no space".to_owned());
    assert_eq!(failed, [ended("p", ClaimCall::Prepare, Err(why))]);
    assert_eq!(played.states.book().all().count(), 0);
    assert!(played.states.is_behind(), "the disk may have it all the same");
}

/// RES-48: a failed claim is tried again, one that succeeded is not.
#[test]
fn a_claim_that_fails_is_prepared_again_alone() {
    let mut played = Played::new();
    let both = || vec![claim("a", "1", &["d"]), claim("b", "2", &["d"])];
    let actions = played.prepare("p", &["a", "b"]);
    let actions = played.read(&actions, both());
    let actions = played.stored(&actions);
    let partly = Answer::from([("1".to_owned(), Ok(vec![])), ("2".to_owned(), Err("no device".to_owned()))]);
    let actions = played.called(&actions[0], Ok(partly));
    let actions = played.stored(&actions);
    let [Action::Ended { outcome: Err(error), .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(error.to_string(), "NodePrepareResources failed for ResourceClaim b: no device");
    let actions = played.prepare("p", &["a", "b"]);
    let again = played.read(&actions, both());
    assert_eq!(calls(&again), ["NodePrepareResources d: b"]);
    let skipped = played.called(&again[0], Ok(Answer::new()));
    let [Action::Ended { outcome: Err(error), .. }] = &skipped[..] else { panic!("{skipped:?}") };
    assert_eq!(error.to_string(), "NodePrepareResources skipped 1 ResourceClaims");
    let problem = CallProblem::Unreachable("gone".to_owned());
    let error = CallError { method: "NodePrepareResources", problem };
    let actions = played.prepare("p", &["a", "b"]);
    let again = played.read(&actions, both());
    let actions = played.called(&again[0], Err(ClaimError::Call { call: ClaimCall::Prepare, error }));
    let [Action::Ended { outcome: Err(error), .. }] = &actions[..] else { panic!("{actions:?}") };
    assert!(error.to_string().starts_with("NodePrepareResources: rpc error: code = Unavailable"), "{error}");
}

/// RES-48.
#[test]
fn the_last_pod_of_a_claim_has_it_released() {
    let mut played = Played::new();
    played.prepared("p", "a");
    let actions = played.prepare("q", &["a"]);
    let actions = played.read(&actions, vec![claim("a", "a", &["d"])]);
    let actions = played.stored(&actions);
    assert_eq!(actions, [ended("q", ClaimCall::Prepare, Ok(()))], "it is prepared already");
    let actions = played.states.release(&PodUid::from("p"));
    let actions = played.stored(&actions);
    assert_eq!(actions, [ended("p", ClaimCall::Unprepare, Ok(()))], "another pod uses it");
    let actions = played.states.release(&PodUid::from("q"));
    assert_eq!(calls(&actions), ["NodeUnprepareResources d: a"]);
    assert_eq!(played.states.release(&PodUid::from("q")), [], "asked twice, done once");
    let failed = Answer::from([("a".to_owned(), Err("busy".to_owned()))]);
    let actions = played.called(&actions[0], Ok(failed));
    let [Action::Ended { outcome: Err(error), .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(error.to_string(), "NodeUnprepareResources failed for ResourceClaim a: busy");
    assert!(played.states.book().get(&key("a")).is_some(), "it stays until it is released");
    let actions = played.states.reconcile(&BTreeSet::from([PodUid::from("q")]));
    assert_eq!(actions, [], "the pod is there still");
    let actions = played.states.reconcile(&BTreeSet::new());
    let actions = played.called(&actions[0], Ok(Answer::from([("a".to_owned(), Ok(vec![]))])));
    let actions = played.stored(&actions);
    assert_eq!(actions, [ended("q", ClaimCall::Unprepare, Ok(()))]);
    assert_eq!(played.states.book().all().count(), 0);
}

/// RES-48: the driver may have released the claim, and its answer was lost.
#[test]
fn a_claim_whose_release_failed_is_prepared_again() {
    let mut played = Played::new();
    played.prepared("p", "a");
    let actions = played.states.release(&PodUid::from("p"));
    assert_eq!(calls(&actions), ["NodeUnprepareResources d: a"]);
    let actions = played.called(&actions[0], Err(ClaimError::NoDriver("d".to_owned())));
    assert!(matches!(actions.last(), Some(Action::Ended { outcome: Err(_), .. })), "{actions:?}");
    let actions = played.prepare("q", &["a"]);
    let actions = played.read(&actions, vec![claim("a", "a", &["d"])]);
    let actions = played.stored(&actions);
    assert_eq!(calls(&actions), ["NodePrepareResources d: a"]);
}

/// RES-48: two pods that share a claim never have it prepared and released at once.
#[test]
fn work_on_a_shared_claim_is_done_one_after_the_other() {
    let mut played = Played::new();
    played.prepared("p", "a");
    let release = played.states.release(&PodUid::from("p"));
    assert_eq!(calls(&release), ["NodeUnprepareResources d: a"]);
    let read = played.prepare("q", &["a"]);
    assert_eq!(played.read(&read, vec![claim("a", "a", &["d"])]), [], "it waits");
    assert_eq!(played.states.progress(&PodUid::from("q")), Some(Progress::Parked));
    let actions = played.called(&release[0], Ok(Answer::from([("a".to_owned(), Ok(vec![]))])));
    let actions = played.stored(&actions);
    assert_eq!(actions[0], ended("p", ClaimCall::Unprepare, Ok(())));
    let actions = played.read(&actions[1..], vec![claim("a", "a", &["d"])]);
    let actions = played.stored(&actions);
    assert_eq!(calls(&actions), ["NodePrepareResources d: a"]);
    let since = Moment(1_000_000_000);
    played.states.note_called(&PodUid::from("q"), "d", since);
    let told = played.states.progress(&PodUid::from("q")).expect("under way").to_string();
    assert_eq!(told, "DRA driver d, which has not answered NodePrepareResources since 1970-01-01T00:00:01Z");
}

/// RES-48: what a driver was asked for while the pod was deleted is released after its answer.
#[test]
fn a_pod_that_ends_while_a_driver_is_called_is_released_afterwards() {
    let mut played = Played::new();
    let actions = played.prepare("p", &["a"]);
    let actions = played.read(&actions, vec![claim("a", "1", &["d"])]);
    let call = played.stored(&actions);
    assert_eq!(played.states.release(&PodUid::from("p")), [], "the driver is at it");
    assert_eq!(played.prepare("p", &["a"]), [ended("p", ClaimCall::Prepare, Err(ClaimError::Leaving))]);
    let actions = played.called(&call[0], Err(ClaimError::Lost("panicked".to_owned())));
    assert_eq!(actions[0], ended("p", ClaimCall::Prepare, Err(ClaimError::Lost("panicked".to_owned()))));
    assert_eq!(calls(&actions[1..]), ["NodeUnprepareResources d: a"]);
}

/// RES-48, RES-50: the node may have been started anew.
#[test]
fn claims_of_the_file_are_prepared_again_and_released_without_their_pod() {
    let mut played = Played::new();
    played.prepared("p", "a");
    let file = super::super::checkpoint::print(played.states.book());
    let book = super::super::checkpoint::parse(&file).expect("ours");
    let mut again = Played { states: ClaimStates::new(book, ClaimGates::default()), drivers: drivers(&["d"]) };
    let actions = again.prepare("p", &["a"]);
    let actions = again.read(&actions, vec![claim("a", "a", &["d"])]);
    assert_eq!(calls(&actions), ["NodePrepareResources d: a"], "the disk has the pod already");
    let actions = again.called(&actions[0], Ok(answer(&["a"])));
    assert_eq!(actions, [Action::Store]);
    let devices: usize = again.states.book().all().flat_map(|claim| claim.drivers.values()).map(Vec::len).sum();
    assert_eq!(devices, 1, "not twice");
}
