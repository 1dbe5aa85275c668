//! The order in which pods are judged, which decisions stand, and pods that ask for other resources.

use serde_json::{Value, json};

use super::*;

const CRITICAL: i32 = 2_000_000_000;

/// A pod of this name, UID and CPU request, made so many seconds after the epoch.
fn made(name: &str, second: u32, cpu: &str, more: Value) -> (PodUid, Arc<Pod>) {
    let containers = json!([{"name": "a", "resources": {"requests": {"cpu": cpu}}}]);
    let mut spec = json!({"containers": containers, "tolerations": tolerant()});
    spec.as_object_mut().expect("fields").extend(more.as_object().cloned().expect("fields"));
    let mut pod = pod(spec);
    pod.metadata.uid = Some(name.to_owned());
    pod.metadata.name = Some(name.to_owned());
    let created = json!(format!("1970-01-01T00:00:{second:02}Z"));
    pod.metadata.creation_timestamp = serde_json::from_value(created).expect("a time");
    (PodUid::from(name), Arc::new(pod))
}

fn plain(name: &str, second: u32, cpu: &str) -> (PodUid, Arc<Pod>) {
    made(name, second, cpu, json!({}))
}

/// The same pod with a phase that the API server shows, or being deleted.
fn changed((uid, pod): (PodUid, Arc<Pod>), change: impl FnOnce(&mut Pod)) -> (PodUid, Arc<Pod>) {
    let mut pod = Pod::clone(&pod);
    change(&mut pod);
    (uid, Arc::new(pod))
}

fn all(pods: impl IntoIterator<Item = (PodUid, Arc<Pod>)>) -> BTreeMap<PodUid, Arc<Pod>> {
    pods.into_iter().collect()
}

fn names<'a>(uids: impl IntoIterator<Item = &'a PodUid>) -> Vec<&'a str> {
    uids.into_iter().map(PodUid::as_str).collect()
}

/// Decisions, and the room that they leave.
#[derive(Default)]
struct Judge {
    admissions: Admissions,
    room: Room,
}

impl Judge {
    fn of_statics() -> Self {
        Self { admissions: Admissions::of_statics(), ..Self::default() }
    }

    /// Judges these; gives the reasons of those that are refused now, by name.
    fn take(&mut self, pods: &BTreeMap<PodUid, Arc<Pod>>, at: Surroundings<'_>) -> Vec<String> {
        let judged = self.admissions.take(pods, &mut self.room, at);
        judged.refused.iter().map(|one| format!("{} {}", one.uid, one.reason)).collect()
    }
}

/// POD-31: the oldest pod gets the last place, whatever the order in which pods are heard of.
#[test]
fn the_oldest_is_judged_first() {
    let (node, abilities) = (node(), NodeAbilities::default());
    let pods = all([plain("a-young", 30, "2"), plain("z-old", 10, "1500m"), plain("m-middle", 20, "500m")]);
    let mut judge = Judge::default();
    assert_eq!(judge.take(&pods, at(&node, &abilities)), ["a-young OutOfcpu"]);
    assert_eq!(names(judge.admissions.admitted(&pods).keys()), ["m-middle", "z-old"]);
    // Of one age, the names decide, so that each run decides alike.
    let pods = all([plain("b", 1, "2"), plain("a", 1, "2")]);
    assert_eq!(Judge::default().take(&pods, at(&node, &abilities)), ["b OutOfcpu"]);
}

/// PAIN-17: what runs here goes on, and comes before older pods that do not run yet.
#[test]
fn a_running_pod_comes_before_an_older_one() {
    let (node, abilities) = (node(), NodeAbilities::default());
    let pods = all([plain("old", 10, "2"), plain("runs", 20, "2")]);
    let runs = |uid: &PodUid| uid.as_str() == "runs";
    let mut judge = Judge::default();
    assert_eq!(judge.take(&pods, Surroundings { runs: &runs, ..at(&node, &abilities) }), ["old OutOfcpu"]);
    assert!(judge.admissions.is_admitted(&"runs".into()));
}

/// A pod that is over, or being deleted, has only to be cleared away.
#[test]
fn a_pod_on_its_way_out_is_admitted_and_one_that_is_over_takes_no_room() {
    let (node, abilities) = (node(), NodeAbilities::default());
    let phase = |phase: &'static str| {
        move |pod: &mut Pod| pod.status = serde_json::from_value(json!({ "phase": phase })).expect("a status")
    };
    let deleted = |pod: &mut Pod| pod.metadata.deletion_timestamp = pod.metadata.creation_timestamp.clone();
    let pods = all([
        changed(plain("done", 1, "9"), phase("Succeeded")),
        changed(plain("lost", 2, "9"), phase("Failed")),
        changed(plain("going", 3, "2"), deleted),
        changed(plain("new", 4, "1"), phase("Pending")),
    ]);
    let mut judge = Judge::default();
    assert_eq!(judge.take(&pods, at(&node, &abilities)), ["new OutOfcpu"]);
    assert_eq!(names(judge.admissions.admitted(&pods).keys()), ["done", "going", "lost"]);
    assert_eq!(names(judge.room.pods().map(|(uid, _)| uid)), ["going"]);
}

/// POD-31: the API server's pods are refused once and for all, static ones until nothing is in the way.
#[test]
fn a_refusal_stands_by_source() {
    let (node, abilities) = (node(), NodeAbilities::default());
    let (first, second) = (plain("first", 1, "2"), plain("second", 2, "1"));
    let both = all([first.clone(), second.clone()]);
    let (mut api, mut statics) = (Judge::default(), Judge::of_statics());
    for judge in [&mut api, &mut statics] {
        assert_eq!(judge.take(&both, at(&node, &abilities)), ["second OutOfcpu"]);
        assert_eq!(judge.take(&both, at(&node, &abilities)), [""; 0], "it is told once");
        assert!(judge.admissions.is_decided(&second.0) && !judge.admissions.is_admitted(&second.0));
        judge.room.set(&first.0, None, false);
        assert_eq!(judge.take(&all([second.clone()]), at(&node, &abilities)), [""; 0]);
    }
    assert!(!api.admissions.is_admitted(&second.0) && statics.admissions.is_admitted(&second.0));
    assert_eq!((api.admissions.why_not(&second.0).is_some(), statics.admissions.why_not(&second.0)), (true, None));
    // Nobody wants it, and then somebody does again.
    api.admissions.forget(&second.0);
    assert!(!api.admissions.is_decided(&second.0));
    assert_eq!(api.take(&all([second.clone()]), at(&node, &abilities)), [""; 0]);
    assert!(api.admissions.is_admitted(&second.0));
}

/// Another reason of a refusal is news about a static pod; figures that change are none.
#[test]
fn another_reason_is_news() {
    let abilities = NodeAbilities::default();
    let (mut small, mut elsewhere) = (node(), node());
    let amounts =
        |cpu: &str| serde_json::from_value(json!({"allocatable": {"cpu": cpu, "pods": "3"}})).expect("a status");
    small.status = amounts("100m");
    elsewhere.metadata.labels = None;
    let pods = all([made("p", 1, "1", json!({"nodeSelector": {"disk": "ssd"}}))]);
    let mut judge = Judge::of_statics();
    assert_eq!(judge.take(&pods, at(&small, &abilities)), ["p OutOfcpu"]);
    let message = |judge: &Judge| judge.admissions.why_not(&"p".into()).map(|(_, message)| message.to_owned());
    let first = message(&judge);
    small.status = amounts("200m");
    assert_eq!((judge.take(&pods, at(&small, &abilities)), message(&judge)), (vec![], first));
    assert_eq!(judge.take(&pods, at(&elsewhere, &abilities)), ["p NodeAffinity"]);
    judge.admissions.forget_refusal(&"p".into());
    assert_eq!(judge.take(&pods, at(&elsewhere, &abilities)), ["p NodeAffinity"], "as if it were new");
}

/// A decision goes with the pod that it is about.
#[test]
fn decisions_about_pods_that_nobody_wants_go() {
    let (node, abilities) = (node(), NodeAbilities::default());
    let pods = all([plain("in", 1, "1"), plain("out", 2, "2"), plain("stopped", 0, "100m")]);
    let mut judge = Judge::default();
    assert_eq!(judge.take(&pods, at(&node, &abilities)), ["out OutOfcpu"]);
    assert!(judge.admissions.stop(&"stopped".into(), NodeStop::preempted(Moment(0)), Moment(5)).is_some());
    assert_eq!(judge.take(&BTreeMap::new(), at(&node, &abilities)), [""; 0]);
    for name in ["in", "out", "stopped"] {
        assert!(!judge.admissions.is_decided(&name.into()), "{name}");
    }
    assert_eq!((judge.admissions.stopped().count(), judge.admissions.refused().count()), (0, 0));
}

/// POD-32: only a pod that was admitted can be ended by the node, and once.
#[test]
fn the_node_ends_a_pod_once() {
    let (node, abilities) = (node(), NodeAbilities::default());
    let mut judge = Judge::default();
    judge.take(&all([plain("in", 1, "1"), plain("out", 2, "2")]), at(&node, &abilities));
    let mut stop =
        |name: &str| judge.admissions.stop(&name.into(), NodeStop::preempted(Moment(0)), Moment(5)).is_some();
    assert_eq!([stop("in"), stop("in"), stop("out"), stop("unknown")], [true, false, false, false]);
    assert!(judge.admissions.stop_of(&"in".into()).is_some() && judge.admissions.stop_of(&"out".into()).is_none());
    assert!(!judge.admissions.is_admitted(&"in".into()) && judge.admissions.is_decided(&"in".into()));
}

/// NODE-46: pods that come while the machine goes down are refused, whatever their priority, unless something else is named first.
#[test]
fn nobody_is_taken_while_the_machine_goes_down() {
    let node = node();
    let trouble = NodeTrouble { shuts_down: true, ..NodeTrouble::default() };
    let abilities = NodeAbilities { trouble, ..NodeAbilities::default() };
    let pods = all([
        plain("plain", 1, "1"),
        made("vital", 2, "1", json!({ "priority": CRITICAL })),
        plain("vast", 3, "9"),
        plain("runs", 4, "1"),
    ]);
    let runs = |uid: &PodUid| uid.as_str() == "runs";
    let mut judge = Judge::default();
    let refused = judge.take(&pods, Surroundings { runs: &runs, ..at(&node, &abilities) });
    assert_eq!(refused, ["plain NodeShutdown", "vital NodeShutdown", "vast OutOfcpu"]);
    let (_, message) = judge.admissions.why_not(&"plain".into()).expect("refused");
    assert_eq!(message, "Pod was rejected as the node is shutting down.");
}

/// NODE-46: a static pod that was ended keeps its reason while the machine goes down, and is taken again if it does not.
#[test]
fn a_static_pod_keeps_why_it_was_ended_until_the_machine_runs_on() {
    let node = node();
    let calm = NodeAbilities::default();
    let down = NodeTrouble { shuts_down: true, ..NodeTrouble::default() };
    let down = NodeAbilities { trouble: down, ..NodeAbilities::default() };
    let pods = all([plain("p", 1, "1")]);
    let mut judge = Judge::of_statics();
    judge.take(&pods, at(&node, &calm));
    let stop = NodeStop::preempted(Moment(0));
    let said = stop.message.clone();
    judge.admissions.stop(&"p".into(), stop, Moment(5));
    assert_eq!(judge.take(&pods, at(&node, &down)), [""; 0]);
    assert_eq!(judge.admissions.why_not(&"p".into()).map(|(_, message)| message.to_owned()), Some(said));
    assert_eq!(judge.take(&pods, at(&node, &calm)), [""; 0]);
    assert!(judge.admissions.is_admitted(&"p".into()) && judge.admissions.stop_of(&"p".into()).is_none());
}

/// EVI-33: pressure is named before anything that the scheduler looked at.
#[test]
fn pressure_is_named_before_room() {
    let node = node();
    let pressure = Pressure { disk: true, ..Pressure::default() };
    let trouble = NodeTrouble { pressure, ..NodeTrouble::default() };
    let abilities = NodeAbilities { trouble, ..NodeAbilities::default() };
    let pods =
        all([plain("vast", 1, "9"), plain("small", 2, "1m"), made("vital", 3, "1m", json!({ "priority": CRITICAL }))]);
    let mut judge = Judge::default();
    assert_eq!(judge.take(&pods, at(&node, &abilities)), ["vast Evicted", "small Evicted"]);
    assert!(judge.admissions.is_admitted(&"vital".into()));
}

/// POD-31: features that the node does not declare, and resources of whole pods without their gate.
#[test]
fn a_pod_is_refused_for_what_the_node_does_not_declare() {
    let rule = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]);
    let relying = pod(json!({"containers": [{"name": "a", "restartPolicyRules": rule}], "tolerations": tolerant()}));
    let whole = pod(json!({"resources": {"requests": {"cpu": "1"}}, "tolerations": tolerant()}));
    let verdict = |pod: &Pod, declared: Option<Vec<String>>, pod_level: bool| {
        let abilities = NodeAbilities { declared, pod_level, ..NodeAbilities::default() };
        name_of(judge(pod, Some(&node()), &abilities))
    };
    assert_eq!(verdict(&relying, None, false), "admitted");
    assert_eq!(verdict(&relying, Some(vec![]), false), "PodFeatureUnsupported");
    let declared = vec!["RestartAllContainersOnContainerExits".to_owned()];
    assert_eq!(verdict(&relying, Some(declared), false), "admitted");
    assert_eq!(
        (verdict(&whole, None, false), verdict(&whole, None, true)),
        ("PodLevelResourcesNotSupported".to_owned(), "admitted".to_owned())
    );
}

/// SEC-22: a pod that runs was admitted before the host lost AppArmor; one that never began is refused.
#[test]
fn sec_22_only_a_pod_that_never_began_is_refused_for_its_profile() {
    let confined = |phase: &str| {
        let context = json!({"appArmorProfile": {"type": "RuntimeDefault"}});
        let mut pod = pod(json!({"securityContext": context, "tolerations": tolerant()}));
        pod.status = serde_json::from_value(json!({ "phase": phase })).expect("a status");
        name_of(judge(&pod, Some(&node()), &NodeAbilities::default()))
    };
    assert_eq!((confined("Pending"), confined("Running")), ("AppArmor".to_owned(), "admitted".to_owned()));
}

fn room_of(pods: &[(PodUid, Arc<Pod>)]) -> Room {
    Room::of(pods.iter().map(|(uid, pod)| (uid, pod)), false)
}

/// The names of those that go for a pod, or why it is refused.
fn preempted(
    pod: &(PodUid, Arc<Pod>),
    others: &[(PodUid, Arc<Pod>)],
    leaving: &[Arc<Pod>],
) -> Result<Vec<String>, String> {
    let (node, abilities) = (node(), NodeAbilities::default());
    let at = Surroundings { leaving, ..at(&node, &abilities) };
    match judge_among(&pod.1, &room_of(others), &[], at) {
        (Verdict::NotYet { what: AdmissionWait::Preempted, .. }, victims) => {
            Ok(victims.iter().map(|victim| victim.uid.to_string()).collect())
        }
        (verdict, victims) => {
            assert!(victims.is_empty(), "nobody goes in vain: {verdict:?}");
            Err(name_of(verdict))
        }
    }
}

/// POD-32, RES-60: nobody goes for a pod that could not run all the same.
#[test]
fn nobody_goes_for_a_critical_pod_that_something_else_keeps_away() {
    let vital = |more: Value| {
        let mut fields = json!({ "priority": CRITICAL });
        fields.as_object_mut().expect("fields").extend(more.as_object().cloned().expect("fields"));
        made("vital", 9, "2", fields)
    };
    let others = [plain("a", 1, "1"), plain("b", 2, "1")];
    assert_eq!(preempted(&vital(json!({})), &others, &[]).map(|victims| victims.len()), Ok(2));
    for (more, expected) in [
        (json!({"nodeSelector": {"disk": "hdd"}}), "NodeAffinity"),
        (json!({"nodeName": "n2"}), "NodeName"),
        (json!({"tolerations": []}), "TaintToleration"),
        (json!({"os": {"name": "windows"}}), "PodOSNotSupported"),
    ] {
        assert_eq!(preempted(&vital(more.clone()), &others, &[]), Err(expected.to_owned()), "{more}");
    }
    let plain = plain("plain", 9, "2");
    assert_eq!(preempted(&plain, &others, &[]), Err("OutOfcpu".to_owned()), "nobody goes for one that is not critical");
}

/// RES-60: static pods, and those at least as important, stay; those on their way out are counted as gone.
#[test]
fn res_60_who_may_go_and_who_goes_already() {
    let fixed = changed(plain("fixed", 1, "500m"), |pod| {
        pod.metadata.annotations = Some([("kubernetes.io/config.source".to_owned(), "file".to_owned())].into());
    });
    let vital = |name: &str, cpu: &str| made(name, 9, cpu, json!({ "priority": CRITICAL }));
    let others = [fixed.clone(), vital("other-vital", "500m"), plain("low", 2, "500m"), plain("lower", 3, "500m")];
    let mut small = others.to_vec();
    small.truncate(3);
    assert_eq!(preempted(&vital("vital", "1"), &small, &[]), Ok(vec!["low".to_owned()]), "half a CPU is free");
    let both = preempted(&vital("vital", "1"), &small[..2], &[]);
    assert_eq!(both, Err("admitted".to_owned()), "there is room");
    assert_eq!(preempted(&vital("vital", "1500m"), &small, &[]), Err("UnexpectedAdmissionError".to_owned()));
    // The node takes three pods: a fourth is one too many, and so is its request.
    let leaving = [Arc::clone(&others[2].1)];
    assert_eq!(preempted(&vital("vital", "500m"), &small, &leaving), Ok(vec![]), "it waits for the one that goes");
}

/// RES-60: nobody has to go for devices that a plugin gave, whatever the Node says of them.
#[test]
fn res_60_devices_that_a_critical_pod_was_given_are_not_missing() {
    let (mut node, abilities) = (node(), NodeAbilities::default());
    let allocatable = json!({"cpu": "2", "memory": "1Gi", "pods": "3", "vendor.com/gpu": "0"});
    node.status.as_mut().expect("a status").allocatable = serde_json::from_value(allocatable).expect("amounts");
    let containers = json!([{"name": "a", "resources": {"requests": {"cpu": "2", "vendor.com/gpu": "1"}}}]);
    let vital = made("vital", 9, "2", json!({"priority": CRITICAL, "containers": containers}));
    let given = Placing::GivenDevices(["vendor.com/gpu".to_owned()].into());
    let placed = |_: &PodUid, _: &Pod| Some(&given);
    let at = Surroundings { placed: &placed, ..at(&node, &abilities) };
    let (verdict, victims) = judge_among(&vital.1, &room_of(&[plain("low", 1, "500m")]), &[], at);
    assert!(matches!(verdict, Verdict::NotYet { what: AdmissionWait::Preempted, .. }), "{verdict:?}");
    let victims: Vec<(&str, &str)> = victims.iter().map(|one| (one.uid.as_str(), one.resource.as_str())).collect();
    assert_eq!(victims, [("low", "cpu")]);
}

/// The outcome of a resize: the word of the delay, and who goes.
fn resized(
    pod: &(PodUid, Arc<Pod>),
    others: &[(PodUid, Arc<Pod>)],
    at: Surroundings<'_>,
) -> (Option<String>, Vec<String>) {
    let JudgedResize { delay, victims } = judge_resize(&pod.1, &room_of(others), at);
    (delay.map(|delay| delay.word()), victims.iter().map(|victim| victim.uid.to_string()).collect())
}

/// POD-26: a pod that asks for other resources is judged beside the others, and may wait for any reason.
#[test]
fn a_resize_is_judged_beside_what_others_take() {
    let (node, abilities) = (node(), NodeAbilities::default());
    let surroundings = at(&node, &abilities);
    let others = [plain("a", 1, "1"), plain("b", 2, "500m")];
    let nobody: Vec<String> = vec![];
    assert_eq!(resized(&plain("p", 3, "500m"), &others, surroundings), (None, nobody.clone()));
    assert_eq!(resized(&plain("p", 3, "501m"), &others, surroundings), (Some("OutOfcpu".to_owned()), nobody.clone()));
    let vital = made("p", 3, "1", json!({ "priority": CRITICAL }));
    assert_eq!(resized(&vital, &others, surroundings), (Some("NotYet".to_owned()), vec!["b".to_owned()]));
    let unplaced = Surroundings { placed: &|_, _| None, ..surroundings };
    assert_eq!(resized(&plain("p", 3, "1m"), &others, unplaced), (Some("NotYet".to_owned()), nobody.clone()));
    let elsewhere = made("p", 3, "1m", json!({"nodeSelector": {"disk": "hdd"}}));
    let old = Surroundings { may_go_by_node: &|_| false, ..surroundings };
    assert_eq!(resized(&elsewhere, &others, old), (Some("NotYet".to_owned()), nobody.clone()));
    assert_eq!(resized(&elsewhere, &others, surroundings), (Some("NodeAffinity".to_owned()), nobody));
}

/// PAIN-18: a pod that was judged and has to wait is not decided, and takes no room.
#[test]
fn waiting_is_no_decision() {
    let (node, abilities) = (node(), NodeAbilities::default());
    let pods = all([plain("p", 1, "1"), plain("q", 2, "1")]);
    let not_yet = Placing::NotYet("a device is late".to_owned());
    let placed = |uid: &PodUid, _: &Pod| if uid.as_str() == "p" { Some(&not_yet) } else { Some(&Placing::Given) };
    let mut judge = Judge::default();
    judge.take(&pods, Surroundings { placed: &placed, ..at(&node, &abilities) });
    assert_eq!(names(judge.admissions.waiting()), ["p"]);
    assert_eq!(names(judge.admissions.undecided(&pods).map(|(uid, _)| uid)), ["p"]);
    assert_eq!(names(judge.room.pods().map(|(uid, _)| uid)), ["q"], "it takes no room meanwhile");
    judge.take(&pods, at(&node, &abilities));
    assert!(judge.admissions.waiting().is_empty() && judge.admissions.is_admitted(&"p".into()));
}

/// The room that is left is the same, however decisions came about.
#[test]
fn room_is_what_admitted_pods_take() {
    let (node, abilities) = (node(), NodeAbilities::default());
    let mut judge = Judge::default();
    let first = all([plain("a", 1, "1"), plain("b", 2, "500m")]);
    judge.take(&first, at(&node, &abilities));
    let second = all([plain("a", 1, "1"), plain("b", 2, "500m"), plain("c", 3, "600m"), plain("d", 4, "500m")]);
    assert_eq!(judge.take(&second, at(&node, &abilities)), ["c OutOfcpu"]);
    assert!(!has_room(&second[&PodUid::from("c")], &judge.room, &node, false));
    let at_once = room(&["a", "b", "d"].map(|name| Pod::clone(&second[&PodUid::from(name)])));
    assert_eq!(names(judge.room.pods().map(|(uid, _)| uid)), ["a", "b", "d"]);
    for cpu in ["1m", "500m"] {
        let one = plain("e", 5, cpu).1;
        assert_eq!(has_room(&one, &judge.room, &node, false), has_room(&one, &at_once, &node, false), "{cpu}");
    }
}
