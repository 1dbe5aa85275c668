//! Cases and properties of plans.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use proptest::prelude::*;

use super::*;
use crate::logic::model::backoff::BackoffPolicy;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::runtime_pod::{ContainerProcess, RuntimeSandbox, SandboxState};
use crate::logic::model::start_reason::StartReason;
use crate::logic::model::time::{Moment, Stamp};

const NOW: u64 = 100_000;

fn at(seconds: u64) -> Moment {
    Moment::EPOCH.plus(Duration::from_secs(seconds))
}

/// The wall clock shows the uptime.
fn steady(seconds: u64) -> Steady {
    Steady(at(seconds).0)
}

fn now() -> Clocks {
    Clocks { wall: at(NOW), steady: steady(NOW) }
}

fn container(name: &str) -> Container {
    Container { name: name.to_owned(), image: Some("busybox".to_owned()), ..Container::default() }
}

fn pod(policy: &str, init: &[&str], regular: &[&str]) -> Pod {
    let list = |names: &[&str]| -> Vec<Container> { names.iter().map(|name| container(name)).collect() };
    Pod {
        metadata: ObjectMeta {
            name: Some("p".to_owned()),
            namespace: Some("default".to_owned()),
            uid: Some("u".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            restart_policy: Some(policy.to_owned()),
            init_containers: (!init.is_empty()).then(|| list(init)),
            containers: list(regular),
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

fn sandbox(attempt: u32, state: SandboxState) -> RuntimeSandbox {
    RuntimeSandbox {
        id: SandboxId::from(format!("s{attempt}")),
        attempt,
        state,
        created_at: at(u64::from(attempt)),
        host_network: false,
        ips: vec!["10.0.0.1".to_owned()],
        lacks_address: false,
    }
}

/// The instance `name` numbered `restart_count`, which ended long ago if it ended.
fn instance(name: &str, restart_count: u32, state: ContainerState, exit_code: i32) -> RuntimeContainer {
    let created = at(1000 + u64::from(restart_count));
    RuntimeContainer {
        sandbox_id: SandboxId::from("s0"),
        restart_count,
        hash: "h".to_owned(),
        created_at: created,
        started_at: created,
        finished_at: if state == ContainerState::Exited { created } else { Moment::EPOCH },
        exit_code,
        process: ContainerProcess::of_image("busybox"),
        ..RuntimeContainer::sample(&format!("{name}{restart_count}"), name, state)
    }
}

fn runtime(sandboxes: Vec<RuntimeSandbox>, containers: Vec<RuntimeContainer>) -> RuntimePod {
    let mut runtime = RuntimePod::empty(PodUid::from("u"), FullName::new("p", "default"), Stamp(1));
    runtime.sandboxes = sandboxes;
    runtime.containers = containers;
    runtime
}

fn ready(containers: Vec<RuntimeContainer>) -> RuntimePod {
    runtime(vec![sandbox(0, SandboxState::Ready)], containers)
}

fn no_loops() -> CrashLoops {
    CrashLoops::new(BackoffPolicy::crash_loop(Duration::from_secs(300)))
}

struct Case {
    loops: CrashLoops,
    probes: ProbeResults,
    restarts: BTreeSet<ContainerId>,
}

impl Case {
    fn new() -> Self {
        Self { loops: no_loops(), probes: ProbeResults::default(), restarts: BTreeSet::new() }
    }

    fn plan(&self, pod: &Pod, runtime: &RuntimePod) -> PodPlan {
        self.plan_with(pod, runtime, None)
    }

    fn plan_with(&self, pod: &Pod, runtime: &RuntimePod, resize: Option<ResizeInput<'_>>) -> PodPlan {
        let spec = pod.spec.as_ref().expect("has a spec");
        let all = spec.containers.iter().chain(init_containers(spec));
        let hashes = all.map(|container| (container.name.clone(), "h".to_owned())).collect();
        let (probes, crash_loops) = (&self.probes, &self.loops);
        let restarts = &self.restarts;
        plan(&PlanInput { pod, runtime, hashes: &hashes, probes, crash_loops, restarts, resize, now: now() })
    }
}

/// Whether nothing is to be done now; a container may be waiting still.
fn is_idle(plan: &PodPlan) -> bool {
    PodPlan { sandbox: None, waiting: vec![], ..plan.clone() } == PodPlan::default()
}

fn planned(pod: &Pod, runtime: &RuntimePod) -> PodPlan {
    Case::new().plan(pod, runtime)
}

fn starts(plan: &PodPlan) -> Vec<(&str, u32)> {
    plan.start.iter().map(|start| (start.name.as_str(), start.restart_count)).collect()
}

fn texts(ids: &[ContainerId]) -> Vec<&str> {
    ids.iter().map(ContainerId::as_str).collect()
}

/// CRI-17.
#[test]
fn a_sandbox_is_kept_only_while_it_is_fit() {
    use SandboxState::{NotReady, Ready};
    let keep = |attempt: u32| SandboxDecision::Keep { id: SandboxId::from(format!("s{attempt}")) };
    let create = |attempt| SandboxDecision::Create { attempt };
    let without_ip = RuntimeSandbox { ips: Vec::new(), lacks_address: true, ..sandbox(0, Ready) };
    // The runtime tells nothing of networks, or what is no address.
    let untold = RuntimeSandbox { ips: Vec::new(), ..sandbox(0, Ready) };
    let on_host = RuntimeSandbox { host_network: true, ips: Vec::new(), ..sandbox(0, Ready) };
    let cases = [
        (false, vec![], create(0)),
        (false, vec![sandbox(0, Ready)], keep(0)),
        (false, vec![sandbox(3, Ready), sandbox(2, NotReady)], keep(3)),
        (false, vec![sandbox(3, Ready), sandbox(2, Ready)], create(4)),
        (false, vec![sandbox(3, NotReady), sandbox(2, Ready)], create(4)),
        (false, vec![sandbox(0, NotReady)], create(1)),
        (false, vec![without_ip.clone()], create(1)),
        (false, vec![untold], keep(0)),
        (false, vec![on_host.clone()], create(1)),
        (true, vec![on_host], keep(0)),
        (true, vec![sandbox(0, Ready)], create(1)),
        (true, vec![without_ip], create(1)),
    ];
    for (host_network, sandboxes, expected) in cases {
        let mut pod = pod("Always", &[], &["a"]);
        pod.spec.as_mut().expect("has a spec").host_network = Some(host_network);
        assert_eq!(sandbox_decision(&pod, &runtime(sandboxes.clone(), vec![])), expected, "{sandboxes:?}");
    }
}

#[test]
fn a_new_pod_gets_a_sandbox_and_all_its_containers() {
    let plan = planned(&pod("Always", &[], &["b", "a"]), &runtime(vec![], vec![]));
    assert_eq!((plan.kill_pod, plan.create_sandbox), (None, Some(0)));
    assert_eq!(starts(&plan), [("b", 0), ("a", 0)]);
}

#[test]
fn a_new_pod_begins_with_its_first_init_container() {
    let plan = planned(&pod("Always", &["i", "j"], &["a"]), &runtime(vec![], vec![]));
    assert_eq!(plan.create_sandbox, Some(0));
    assert_eq!(starts(&plan), [("i", 0)]);
}

#[test]
fn a_broken_sandbox_starts_everything_over() {
    let broken = |containers| runtime(vec![sandbox(0, SandboxState::NotReady)], containers);
    let exited = |name, code| instance(name, 0, ContainerState::Exited, code);
    let plan = planned(&pod("Always", &["i"], &["a"]), &broken(vec![exited("a", 0), exited("i", 0)]));
    assert_eq!((plan.kill_pod, plan.create_sandbox), (Some(PodKill::SandboxChanged), Some(1)));
    assert_eq!(starts(&plan), [("i", 1)]);
    assert_eq!(texts(&plan.remove), ["i0"]);

    let plan = planned(&pod("OnFailure", &[], &["a", "b"]), &broken(vec![exited("a", 0), exited("b", 1)]));
    assert_eq!(plan.create_sandbox, Some(1));
    assert_eq!(starts(&plan), [("b", 1)]);
}

#[test]
fn no_sandbox_is_made_for_a_pod_that_is_done() {
    let broken = |containers| runtime(vec![sandbox(0, SandboxState::NotReady)], containers);
    let exited = |name, code| instance(name, 0, ContainerState::Exited, code);
    for (policy, containers) in [
        ("OnFailure", vec![exited("a", 0)]),
        ("Never", vec![exited("a", 0)]),
        ("Never", vec![exited("a", 1)]),
        ("Never", vec![instance("a", 0, ContainerState::Running, 0)]),
    ] {
        let plan = planned(&pod(policy, &[], &["a"]), &broken(containers.clone()));
        assert_eq!(plan, PodPlan { kill_pod: Some(PodKill::NothingToRun), ..PodPlan::default() }, "{policy}");
    }
    let never_made = planned(&pod("Never", &[], &["a"]), &broken(vec![]));
    assert_eq!(never_made.create_sandbox, Some(1), "a pod that made no container may try again");
}

#[test]
fn init_containers_go_one_after_another() {
    use ContainerState::{Created, Exited, Running, Unknown};
    type Expected<'a> = (&'a [(&'a str, u32)], Option<PodKill>, usize);
    let failed = Some(PodKill::InitContainerFailed);
    // Policy, instances newest first, (starts, pod kill, number of containers killed).
    let cases: &[(&str, Vec<RuntimeContainer>, Expected<'_>)] = &[
        ("Always", vec![], (&[("i", 0)], None, 0)),
        ("Always", vec![instance("i", 0, Running, 0)], (&[], None, 0)),
        ("Always", vec![instance("i", 0, Created, 0)], (&[("i", 1)], None, 0)),
        ("Always", vec![instance("i", 0, Exited, 0)], (&[("j", 0)], None, 0)),
        ("Always", vec![instance("i", 0, Exited, 1)], (&[("i", 1)], None, 0)),
        ("OnFailure", vec![instance("i", 0, Exited, 1)], (&[("i", 1)], None, 0)),
        ("Never", vec![instance("i", 0, Exited, 1)], (&[], failed, 0)),
        ("Never", vec![instance("i", 0, Exited, 0)], (&[("j", 0)], None, 0)),
        ("Always", vec![instance("i", 2, Unknown, 0)], (&[("i", 3)], None, 1)),
        ("Never", vec![instance("i", 0, Unknown, 0)], (&[], failed, 0)),
        // The last one decides, whatever became of those before it.
        ("Always", vec![instance("j", 0, Exited, 0)], (&[("a", 0)], None, 0)),
        ("Never", vec![instance("j", 0, Exited, 0), instance("i", 0, Exited, 1)], (&[("a", 0)], None, 0)),
        ("Always", vec![instance("j", 0, Running, 0), instance("i", 0, Exited, 0)], (&[], None, 0)),
        // A running or made regular container proves initialisation; one that ended does not.
        ("Always", vec![instance("a", 0, Running, 0)], (&[], None, 0)),
        ("Always", vec![instance("a", 0, Created, 0), instance("i", 0, Exited, 1)], (&[("a", 1)], None, 0)),
        ("Always", vec![instance("a", 0, Exited, 0)], (&[("i", 0)], None, 0)),
    ];
    for (policy, containers, expected) in cases {
        let plan = planned(&pod(policy, &["i", "j"], &["a"]), &ready(containers.clone()));
        assert_eq!((starts(&plan).as_slice(), plan.kill_pod, plan.kill.len()), *expected, "{policy} {containers:?}");
    }
}

#[test]
fn an_init_container_out_of_memory_has_failed() {
    let mut killed = instance("i", 0, ContainerState::Exited, 0);
    killed.reason = "OOMKilled".to_owned();
    let plan = planned(&pod("Always", &["i"], &["a"]), &ready(vec![killed]));
    assert_eq!(starts(&plan), [("i", 1)]);
}

#[test]
fn only_the_newest_ended_init_instance_is_kept() {
    use ContainerState::{Exited, Running};
    let three = vec![instance("i", 2, Running, 0), instance("i", 1, Exited, 1), instance("i", 0, Exited, 1)];
    let plan = planned(&pod("Always", &["i"], &["a"]), &ready(three));
    assert_eq!(texts(&plan.remove), ["i0"]);
}

#[test]
fn regular_containers_follow_the_restart_policy() {
    use ContainerState::{Created, Exited, Running, Unknown};
    let done = Some(PodKill::NothingToRun);
    let cases: &[(&str, Option<RuntimeContainer>, bool, Option<PodKill>)] = &[
        ("Never", None, true, None),
        ("Never", Some(instance("a", 0, Running, 0)), false, None),
        ("Never", Some(instance("a", 0, Created, 0)), true, None),
        ("Never", Some(instance("a", 0, Exited, 1)), false, done),
        ("OnFailure", Some(instance("a", 0, Exited, 1)), true, None),
        ("OnFailure", Some(instance("a", 0, Exited, 0)), false, done),
        ("Always", Some(instance("a", 0, Exited, 0)), true, None),
        ("Always", Some(instance("a", 0, Unknown, 0)), true, None),
        ("Never", Some(instance("a", 0, Unknown, 0)), false, done),
    ];
    for (policy, newest, is_started, kill_pod) in cases {
        let plan = planned(&pod(policy, &[], &["a"]), &ready(newest.iter().cloned().collect()));
        assert_eq!((!plan.start.is_empty(), plan.kill_pod), (*is_started, *kill_pod), "{policy} {newest:?}");
    }
}

#[test]
fn a_lost_container_is_killed_before_it_is_started_again() {
    let plan = planned(&pod("Always", &[], &["a"]), &ready(vec![instance("a", 4, ContainerState::Unknown, 0)]));
    assert_eq!(plan.kill[0].message, "Container is in \"unknown\" state, try killing it before restart");
    assert_eq!(starts(&plan), [("a", 5)]);
    assert_eq!(plan.start[0].replaces, Some(ContainerId::from("a4")));
}

/// It may have done its work, which is not done twice: upstream's pod is over by its phase, before anything is planned.
#[test]
fn a_lost_container_that_is_not_to_come_back_is_killed_alone() {
    let containers = vec![instance("b", 0, ContainerState::Running, 0), instance("a", 0, ContainerState::Unknown, 0)];
    let plan = planned(&pod("Never", &[], &["a", "b"]), &ready(containers));
    assert_eq!(plan.kill.len(), 1);
    assert!(plan.start.is_empty() && plan.waiting.is_empty(), "{plan:?}");
}

#[test]
fn a_finished_container_leaves_its_running_siblings_alone() {
    let containers = vec![instance("b", 0, ContainerState::Running, 0), instance("a", 0, ContainerState::Exited, 0)];
    let plan = planned(&pod("Never", &[], &["a", "b"]), &ready(containers));
    assert!(is_idle(&plan));
    assert_eq!(plan.sandbox, Some(SandboxId::from("s0")));
}

#[test]
fn a_changed_definition_restarts_whatever_the_policy() {
    let mut old = instance("a", 0, ContainerState::Running, 0);
    old.hash = "other".to_owned();
    let plan = planned(&pod("Never", &[], &["a"]), &ready(vec![old]));
    assert_eq!(plan.kill[0].message, "Container a definition changed, will be restarted");
    assert_eq!(plan.kill[0].reason, KillReason::DefinitionChanged);
    assert_eq!(starts(&plan), [("a", 1)]);
}

#[test]
fn a_failed_probe_kills_and_the_policy_says_what_then() {
    let a = instance("a", 0, ContainerState::Running, 0);
    let failed = BTreeMap::from([(a.id.clone(), false)]);
    let mut case = Case::new();
    case.probes.startup = failed.clone();
    let plan = case.plan(&pod("OnFailure", &[], &["a"]), &ready(vec![a.clone()]));
    assert_eq!(plan.kill[0].message, "Container a failed startup probe, will be restarted");
    case.probes.liveness = failed;
    let b = instance("b", 0, ContainerState::Running, 0);
    let plan = case.plan(&pod("Never", &[], &["a", "b"]), &ready(vec![b, a.clone()]));
    assert_eq!(plan.kill[0].message, "Container a failed liveness probe");
    assert_eq!((plan.kill[0].reason, plan.start.len(), plan.kill_pod), (KillReason::LivenessProbe, 0, None));
    let plan = case.plan(&pod("Never", &[], &["a"]), &ready(vec![a]));
    assert_eq!((plan.kill_pod, plan.kill.len()), (Some(PodKill::NothingToRun), 0), "the last one ends the pod");
}

#[test]
fn a_crashing_container_waits_and_says_so() {
    let mut crashed = instance("a", 3, ContainerState::Exited, 1);
    crashed.finished_at = at(NOW - 4);
    let pod = pod("Always", &[], &["a", "b"]);
    let mut case = Case::new();
    case.loops.note_start(&container("a"), Some(steady(NOW - 20)), steady(NOW - 20));
    let plan = case.plan(&pod, &ready(vec![crashed, instance("b", 0, ContainerState::Running, 0)]));
    assert!(is_idle(&plan));
    let waiting = &plan.waiting[0];
    assert_eq!(waiting.message.to_string(), "back-off 10s restarting failed container=a pod=p_default(u)");
    assert_eq!((waiting.reason, plan.due()), (StartReason::CrashLoopBackOff, Some(steady(NOW + 6))));
}

#[test]
fn the_first_restart_is_immediate_and_tells_its_end() {
    let mut crashed = instance("a", 0, ContainerState::Exited, 1);
    crashed.finished_at = at(NOW);
    let plan = planned(&pod("Always", &[], &["a"]), &ready(vec![crashed]));
    assert_eq!(plan.start[0].ended, Some(steady(NOW)));
    assert!(plan.waiting.is_empty());
}

#[test]
fn a_pod_that_waits_in_a_back_off_is_not_killed() {
    let mut crashed = instance("a", 1, ContainerState::Exited, 1);
    crashed.finished_at = at(NOW);
    let mut case = Case::new();
    case.loops.note_start(&container("a"), Some(steady(NOW - 5)), steady(NOW - 5));
    let plan = case.plan(&pod("Always", &[], &["a"]), &ready(vec![crashed]));
    assert_eq!((plan.kill_pod, plan.waiting.len()), (None, 1));
}

#[test]
fn a_deleted_pod_starts_nothing() {
    let mut pod = pod("Always", &[], &["a"]);
    pod.metadata.deletion_timestamp = Some(Time(at(NOW).to_timestamp()));
    for containers in [vec![], vec![instance("a", 0, ContainerState::Exited, 1)]] {
        assert!(planned(&pod, &ready(containers)).start.is_empty());
    }
}

/// With any instance taken for the newest: one that runs is never joined by another, nor is its pod taken for over. The
/// older one is stopped, and no plan waits for it in silence.
#[test]
fn nothing_starts_before_an_older_instance_that_runs_is_stopped() {
    use ContainerState::{Exited, Running};
    let held = |name, exit_code| ready(vec![instance(name, 1, Exited, exit_code), instance(name, 0, Running, 0)]);
    let both = ready(vec![instance("a", 1, Running, 0), instance("a", 0, Running, 0)]);
    let kills = |plan: &PodPlan| -> Vec<(String, KillReason)> {
        plan.kill.iter().map(|kill| (kill.id.to_string(), kill.reason)).collect()
    };
    let outdated = |id: &str| vec![(id.to_owned(), KillReason::Outdated)];
    for policy in ["Always", "OnFailure"] {
        for seen in [&held("a", 1), &both] {
            let plan = planned(&pod(policy, &[], &["a"]), seen);
            assert_eq!((starts(&plan), plan.kill_pod, kills(&plan)), (vec![], None, outdated("a0")), "{policy}");
        }
    }
    let plan = planned(&pod("Always", &["i"], &["a"]), &held("i", 1));
    assert_eq!((starts(&plan), kills(&plan)), (vec![], outdated("i0")));
}

mod resize;
mod restart_all;
mod sidecars;

prop_compose! {
    fn any_instance()(
        name in prop::sample::select(vec!["i", "j", "a", "b"]),
        state in 0_usize..4,
        exit_code in 0_i32..2,
        finished in NOW - 400..NOW,
        hash in prop::sample::select(vec!["h", "old"]),
    ) -> RuntimeContainer {
        use ContainerState::{Created, Exited, Running, Unknown};
        let mut made = instance(name, 0, [Created, Running, Exited, Unknown][state], exit_code);
        made.finished_at = at(finished);
        made.hash = hash.to_owned();
        made
    }
}

proptest! {
    #[test]
    fn no_plan_starts_a_container_beside_a_running_one(
        policy in prop::sample::select(vec!["Always", "OnFailure", "Never"]),
        sandbox_ready in any::<bool>(),
        mut containers in prop::collection::vec(any_instance(), 0..8),
        crashes in 0_u64..5,
    ) {
        for (number, made) in (0_u32..).zip(&mut containers) {
            made.id = ContainerId::from(format!("c{number}"));
            made.restart_count = 100 - number;
        }
        let pod = pod(policy, &["i", "j"], &["a", "b"]);
        let state = if sandbox_ready { SandboxState::Ready } else { SandboxState::NotReady };
        let runtime = runtime(vec![sandbox(0, state)], containers);
        let mut case = Case::new();
        for crash in 0..crashes {
            case.loops.note_start(&container("a"), Some(steady(NOW - 500 + crash)), steady(NOW - 500 + crash));
        }
        let plan = case.plan(&pod, &runtime);
        let inits = plan.start.iter().filter(|start| start.kind == ContainerKind::Init).count();
        prop_assert!(inits <= 1 && (inits == 0 || plan.start.len() == 1), "init containers start alone");
        for start in &plan.start {
            let newest = runtime.container(&start.name);
            let runs = newest.is_some_and(|newest| newest.state == ContainerState::Running);
            prop_assert!(!runs || plan.kill_pod.is_some() || start.replaces == newest.map(|newest| newest.id.clone()));
            let stays = |one: &RuntimeContainer| plan.kill.iter().all(|kill| kill.id != one.id);
            let mut beside = runtime.running().filter(|one| one.name == start.name);
            prop_assert!(plan.kill_pod.is_some() || !beside.any(stays), "no instance of it runs on, old or new");
            prop_assert!(newest.is_none_or(|newest| start.restart_count == newest.restart_count + 1));
            prop_assert!(plan.waiting.iter().all(|waiting| waiting.name != start.name));
        }
        for start in plan.start.iter().filter_map(|start| start.replaces.as_ref()) {
            prop_assert!(plan.kill.iter().any(|kill| kill.id == *start));
        }
        prop_assert!(plan.waiting.iter().all(|waiting| waiting.wait.until > steady(NOW)));
        if plan.kill_pod.is_some() && plan.create_sandbox.is_none() {
            prop_assert!(plan.start.is_empty() && plan.waiting.is_empty());
        }
    }
}
