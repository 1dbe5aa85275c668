//! Cases and properties of the API status.

use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, PodCondition, PodIP, PodReadinessGate, Probe, ResourceRequirements, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;

use super::*;
use crate::logic::model::ids::{FullName, PodUid, SandboxId};
use crate::logic::model::pod_phase::{PENDING, RUNNING, SUCCEEDED, is_terminal};
use crate::logic::model::runtime_pod::{
    ContainerProcess, ContainerState, RuntimeContainer, RuntimeSandbox, SandboxState,
};
use crate::logic::model::start_reason::StartReason;
use crate::logic::model::time::Stamp;

const NOW: u64 = 100_000;
const AGENT_STARTED: u64 = 50_000;

fn at(seconds: u64) -> Moment {
    Moment::EPOCH.plus(Duration::from_secs(seconds))
}

/// A pod, what the runtime holds of it, and all else that its status depends on.
struct Setup {
    pod: Pod,
    runtime: RuntimePod,
    previous: Option<PodStatus>,
    probes: ProbeResults,
    errors: BTreeMap<String, StartError>,
    restarts: BTreeSet<ContainerId>,
    adopted: BTreeSet<ContainerId>,
    host: HostIps,
    prefer_ipv6: bool,
    terminal: bool,
    is_static: bool,
    volumes_mounted: bool,
    recursive_read_only: Option<bool>,
    actuated: Option<PodResources>,
    figures: Option<PodFigures>,
    by_pod: bool,
    resize: ResizeConditions,
    gates: StatusGates,
    now: u64,
}

impl Setup {
    fn new(policy: &str, init: &[&str], regular: &[&str]) -> Self {
        let list = |names: &[&str]| -> Vec<Container> { names.iter().map(|name| container(name)).collect() };
        let metadata = ObjectMeta { name: Some("p".to_owned()), generation: Some(3), ..ObjectMeta::default() };
        let spec = PodSpec {
            restart_policy: Some(policy.to_owned()),
            init_containers: (!init.is_empty()).then(|| list(init)),
            containers: list(regular),
            ..PodSpec::default()
        };
        let mut runtime = RuntimePod::empty(PodUid::from("u"), FullName::new("p", "default"), Stamp(1));
        runtime.sandboxes = vec![sandbox(SandboxState::Ready)];
        Self {
            pod: Pod { metadata, spec: Some(spec), status: None },
            runtime,
            previous: None,
            probes: ProbeResults::default(),
            errors: BTreeMap::new(),
            restarts: BTreeSet::new(),
            adopted: BTreeSet::new(),
            host: host(&["192.168.0.1"]),
            prefer_ipv6: false,
            terminal: false,
            is_static: false,
            volumes_mounted: true,
            recursive_read_only: Some(false),
            actuated: None,
            figures: None,
            by_pod: false,
            resize: ResizeConditions::default(),
            gates: StatusGates::default(),
            now: NOW,
        }
    }

    fn holding(mut self, containers: Vec<RuntimeContainer>) -> Self {
        self.runtime.containers = containers;
        self
    }

    fn failing(mut self, name: &str, reason: StartReason) -> Self {
        let error = StartError { reason, message: format!("{reason} of {name}") };
        self.errors.insert(name.to_owned(), error);
        self
    }

    fn spec(&mut self) -> &mut PodSpec {
        self.pod.spec.as_mut().expect("has a spec")
    }

    fn status(&self) -> PodStatus {
        generate(&StatusInput {
            pod: &self.pod,
            runtime: &self.runtime,
            previous: self.previous.as_ref(),
            containers: ContainersInput {
                probes: &self.probes,
                start_errors: &self.errors,
                restarts: &self.restarts,
                adopted: &self.adopted,
            },
            resources: ResourcesInput {
                resize: &self.resize,
                actuated: self.actuated.as_ref(),
                figures: self.figures.as_ref(),
                options: &Default::default(),
                gates: &ResizeGates { by_pod: self.by_pod, ..ResizeGates::default() },
            },
            node: NodeInput {
                host: &self.host,
                prefer_ipv6: self.prefer_ipv6,
                runtime_name: "containerd",
                recursive_read_only: self.recursive_read_only,
            },
            volumes_mounted: self.volumes_mounted,
            terminal: self.terminal,
            is_static: self.is_static,
            qos_class: "BestEffort",
            gates: self.gates,
            now: at(self.now),
        })
    }

    /// The status, which the next one will then follow.
    fn step(&mut self) -> PodStatus {
        let status = self.status();
        self.previous = Some(status.clone());
        status
    }

    fn phase(&self) -> String {
        self.status().phase.expect("always has a phase")
    }
}

mod containers;
mod ends;
mod facts;
mod resources;
mod restart_all;
mod sidecars;

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn host(ips: &[&str]) -> HostIps {
    HostIps::listed(ips.iter().map(|ip| ip.parse().expect("is an address")))
}

fn container(name: &str) -> Container {
    Container { name: name.to_owned(), image: Some("busybox".to_owned()), ..Container::default() }
}

fn sandbox(state: SandboxState) -> RuntimeSandbox {
    let ips = vec!["10.0.0.9".to_owned()];
    let (id, created_at) = (SandboxId::from("s"), at(1));
    RuntimeSandbox { id, attempt: 0, state, created_at, host_network: false, ips, lacks_address: false }
}

fn instance(name: &str, restart_count: u32, state: ContainerState, exit_code: i32) -> RuntimeContainer {
    let started = at(AGENT_STARTED + 100 + u64::from(restart_count));
    let exited = state == ContainerState::Exited;
    RuntimeContainer {
        restart_count,
        created_at: started,
        started_at: started,
        finished_at: if exited { started.plus(Duration::from_millis(1500)) } else { Moment::EPOCH },
        exit_code,
        reason: if exited { "Error".to_owned() } else { String::new() },
        process: ContainerProcess {
            image: "docker.io/library/busybox:latest".to_owned(),
            image_ref: "sha256:abc".to_owned(),
            user: Some((1000, 1000, vec![2000])),
            ..ContainerProcess::default()
        },
        ..RuntimeContainer::sample(&format!("{name}{restart_count}"), name, state)
    }
}

fn of<'a>(status: &'a PodStatus, name: &str) -> &'a ContainerStatus {
    let all = [&status.init_container_statuses, &status.container_statuses];
    all.into_iter().flatten().flatten().find(|status| status.name == name).expect("has a status")
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> &'a PodCondition {
    conditions::find(status, kind).expect("has the condition")
}

/// Status, reason and message.
fn says<'a>(status: &'a PodStatus, kind: &str) -> (&'a str, &'a str, &'a str) {
    let found = condition(status, kind);
    (&found.status, found.reason.as_deref().unwrap_or_default(), found.message.as_deref().unwrap_or_default())
}

/// State in one line.
fn state_text(state: Option<&k8s_openapi::api::core::v1::ContainerState>) -> String {
    let state = state.expect("is always there");
    if state.running.is_some() {
        return "running".to_owned();
    }
    if let Some(ended) = &state.terminated {
        return format!("terminated {} {}", ended.exit_code, ended.reason.as_deref().unwrap_or_default());
    }
    match &state.waiting {
        Some(waiting) => format!("waiting {}", waiting.reason.as_deref().unwrap_or_default()),
        None => String::new(),
    }
}

fn state(status: &PodStatus, name: &str) -> String {
    state_text(of(status, name).state.as_ref())
}

fn last_state(status: &PodStatus, name: &str) -> String {
    state_text(of(status, name).last_state.as_ref())
}

/// POD-15.
#[test]
fn the_phase_follows_the_containers() {
    use ContainerState::{Created, Exited, Running, Unknown};
    // Policy, states of a and b (exit code), terminal, static, phase.
    type Row = (&'static str, Option<(ContainerState, i32)>, Option<(ContainerState, i32)>, bool, bool, &'static str);
    let rows: &[Row] = &[
        ("Always", None, None, false, false, PENDING),
        ("Always", Some((Running, 0)), None, false, false, PENDING),
        ("Always", Some((Running, 0)), Some((Created, 0)), false, false, PENDING),
        ("Always", Some((Running, 0)), Some((Unknown, 0)), false, false, PENDING),
        ("Always", Some((Running, 0)), Some((Running, 0)), false, false, RUNNING),
        ("Never", Some((Running, 0)), Some((Exited, 1)), false, false, RUNNING),
        ("Always", Some((Exited, 0)), Some((Exited, 0)), false, false, RUNNING),
        ("Always", Some((Exited, 0)), Some((Exited, 0)), true, false, SUCCEEDED),
        ("Always", Some((Exited, 0)), Some((Exited, 1)), true, false, FAILED),
        ("Always", Some((Exited, 0)), Some((Exited, 1)), true, true, RUNNING),
        ("Never", Some((Exited, 0)), Some((Exited, 0)), false, false, SUCCEEDED),
        ("Never", Some((Exited, 0)), Some((Exited, 7)), false, false, FAILED),
        ("OnFailure", Some((Exited, 0)), Some((Exited, 0)), false, false, SUCCEEDED),
        ("OnFailure", Some((Exited, 0)), Some((Exited, 7)), false, false, RUNNING),
        ("Never", Some((Exited, 0)), None, true, false, PENDING),
    ];
    for (policy, a, b, terminal, is_static, expected) in rows {
        let held = [("a", a), ("b", b)];
        let containers =
            held.into_iter().filter_map(|(name, kept)| kept.map(|(state, code)| instance(name, 0, state, code)));
        let mut setup = Setup::new(policy, &[], &["a", "b"]).holding(containers.collect());
        (setup.terminal, setup.is_static) = (*terminal, *is_static);
        assert_eq!(setup.phase(), *expected, "{policy} {a:?} {b:?} {terminal}");
    }
}

#[test]
fn init_containers_hold_the_phase_back() {
    use ContainerState::{Exited, Running};
    let rows: &[(&str, Vec<RuntimeContainer>, &str)] = &[
        ("Always", vec![instance("i", 0, Running, 0)], PENDING),
        ("Always", vec![instance("i", 0, Exited, 1)], PENDING),
        ("OnFailure", vec![instance("i", 0, Exited, 1)], PENDING),
        ("Never", vec![instance("i", 0, Exited, 1)], FAILED),
        ("Never", vec![instance("i", 0, Exited, 0)], PENDING),
        ("Never", vec![instance("a", 0, Running, 0), instance("i", 0, Exited, 0)], RUNNING),
        ("Never", vec![instance("a", 0, Running, 0)], RUNNING),
    ];
    for (policy, containers, expected) in rows {
        let setup = Setup::new(policy, &["i"], &["a"]).holding(containers.clone());
        assert_eq!(setup.phase(), *expected, "{policy} {containers:?}");
    }
}

#[test]
fn a_terminal_phase_is_never_left_and_keeps_its_words() {
    let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 0, ContainerState::Running, 0)]);
    let evicted = PodStatus {
        phase: Some(FAILED.to_owned()),
        reason: Some("Evicted".to_owned()),
        message: Some("low on memory".to_owned()),
        ..PodStatus::default()
    };
    setup.pod.status = Some(evicted.clone());
    let by_api = setup.status();
    setup.pod.status = None;
    setup.previous = Some(evicted);
    for status in [by_api, setup.status()] {
        assert_eq!(status.phase.as_deref(), Some(FAILED));
        assert_eq!(status.reason.as_deref(), Some("Evicted"));
        assert_eq!(status.message.as_deref(), Some("low on memory"));
        assert_eq!(says(&status, "Ready"), ("False", "PodFailed", ""));
    }
}

/// POD-16.
#[test]
fn conditions_of_a_pod_on_its_way() {
    use ContainerState::{Exited, Running};
    let mut setup = Setup::new("Always", &["i", "j"], &["b", "a"]);
    setup.runtime.sandboxes.clear();
    let status = setup.step();
    assert_eq!(says(&status, "PodScheduled"), ("True", "", ""));
    assert_eq!(says(&status, "PodReadyToStartContainers"), ("False", "", ""));
    let incomplete = "containers with incomplete status: [i j]";
    assert_eq!(says(&status, "Initialized"), ("False", "ContainersNotInitialized", incomplete));
    let unready = ("False", "ContainersNotReady", "containers with unready status: [b a]");
    assert_eq!(says(&status, "Ready"), unready);
    assert_eq!(says(&status, "ContainersReady"), unready);

    setup.now += 5;
    let running = vec![instance("a", 0, Running, 0), instance("b", 0, Running, 0), instance("j", 0, Exited, 0)];
    setup.runtime.sandboxes = vec![sandbox(SandboxState::Ready)];
    setup.runtime.containers = running;
    let status = setup.step();
    for kind in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
        assert_eq!(says(&status, kind), ("True", "", ""), "{kind}");
        let since = if kind == "PodScheduled" { NOW } else { NOW + 5 };
        assert_eq!(condition(&status, kind).last_transition_time, Some(time(at(since))), "{kind}");
        assert_eq!(condition(&status, kind).observed_generation, Some(3));
    }
    let kinds: Vec<&str> = status.conditions.iter().flatten().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(kinds, ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]);
}

#[test]
fn conditions_of_a_pod_that_succeeded() {
    let exited = vec![instance("a", 0, ContainerState::Exited, 0)];
    let status = Setup::new("Never", &[], &["a"]).holding(exited).status();
    assert_eq!(says(&status, "Initialized"), ("True", "PodCompleted", ""));
    assert_eq!(says(&status, "Ready"), ("False", "PodCompleted", ""));
    assert_eq!(says(&status, "ContainersReady"), ("False", "PodCompleted", ""));
}

#[test]
fn an_initialised_pod_stays_so() {
    use ContainerState::{Exited, Running};
    let mut setup =
        Setup::new("Always", &["i"], &["a"]).holding(vec![instance("a", 0, Running, 0), instance("i", 0, Exited, 0)]);
    setup.step();
    setup.runtime.containers.clear();
    assert_eq!(says(&setup.status(), "Initialized"), ("True", "", ""));
}

#[test]
fn readiness_gates_hold_ready_back() {
    let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 0, ContainerState::Running, 0)]);
    let gate = |kind: &str| PodReadinessGate { condition_type: kind.to_owned() };
    setup.spec().readiness_gates = Some(vec![gate("x/one"), gate("x/two"), gate("x/three")]);
    let foreign = |kind: &str, status: &str| PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        ..PodCondition::default()
    };
    let conditions = vec![foreign("x/two", "False"), foreign("x/three", "True")];
    setup.pod.status = Some(PodStatus { conditions: Some(conditions), ..PodStatus::default() });
    let status = setup.status();
    assert_eq!(
        says(&status, "Ready"),
        (
            "False",
            "ReadinessGatesNotReady",
            "corresponding condition of pod readiness gate \"x/one\" does not exist., \
             the status of pod readiness gate \"x/two\" is not \"True\", but False"
        )
    );
    assert_eq!(says(&status, "ContainersReady").0, "True");
    assert_eq!(says(&status, "x/two").0, "False", "foreign conditions are kept");
}

#[test]
fn a_disruption_is_carried_along() {
    let mut setup = Setup::new("Always", &[], &["a"]);
    let disruption =
        PodCondition { type_: "DisruptionTarget".to_owned(), status: "True".to_owned(), ..PodCondition::default() };
    setup.previous = Some(PodStatus { conditions: Some(vec![disruption]), ..PodStatus::default() });
    assert_eq!(says(&setup.status(), "DisruptionTarget").0, "True");
}

#[test]
fn started_and_ready_follow_the_probes() {
    let id = ContainerId::from("a0");
    // Startup result, readiness result, started, ready; the container has both probes.
    let rows = [
        (None, None, false, false),
        (Some(false), Some(true), false, false),
        (Some(true), None, true, false),
        (Some(true), Some(false), true, false),
        (Some(true), Some(true), true, true),
    ];
    for (startup, readiness, started, ready) in rows {
        let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 0, ContainerState::Running, 0)]);
        setup.spec().containers[0].startup_probe = Some(Probe::default());
        setup.spec().containers[0].readiness_probe = Some(Probe::default());
        setup.probes.startup = startup.map(|result| (id.clone(), result)).into_iter().collect();
        setup.probes.readiness = readiness.map(|result| (id.clone(), result)).into_iter().collect();
        let status = setup.status();
        let a = of(&status, "a");
        assert_eq!((a.started, a.ready), (Some(started), ready), "{startup:?} {readiness:?}");
    }
}

/// PRB-23.
#[test]
fn a_restart_of_the_agent_changes_no_readiness() {
    let rows = [(true, true, true), (true, false, false), (false, true, false)];
    for (adopted, was_ready, expected) in rows {
        let running = instance("a", 0, ContainerState::Running, 0);
        let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![running]);
        setup.adopted = adopted.then(|| ContainerId::from("a0")).into_iter().collect();
        setup.spec().containers[0].readiness_probe = Some(Probe::default());
        let ready = PodCondition {
            type_: "Ready".to_owned(),
            status: if was_ready { "True" } else { "False" }.to_owned(),
            ..PodCondition::default()
        };
        setup.pod.status = Some(PodStatus { conditions: Some(vec![ready]), ..PodStatus::default() });
        assert_eq!(of(&setup.status(), "a").ready, expected, "{adopted} {was_ready}");
        setup.probes.readiness.insert(ContainerId::from("a0"), false);
        assert!(!of(&setup.status(), "a").ready, "a result counts more than the past");
    }
}

#[test]
fn a_pod_began_with_its_oldest_sandbox_that_has_a_time() {
    let mut setup = Setup::new("Always", &[], &["a"]);
    let begun = |setup: &Setup| setup.status().start_time.map(|start| moment(&start));
    assert_eq!(begun(&setup), Some(at(1)));
    setup.runtime.sandboxes[0].created_at = at(NOW + 60);
    assert_eq!(begun(&setup), Some(at(NOW)), "a clock that was set back");
    setup.runtime.sandboxes[0].created_at = Moment::EPOCH;
    assert_eq!(begun(&setup), Some(at(NOW)), "cut off while it was made");
    setup.runtime.sandboxes.push(RuntimeSandbox { created_at: at(7), ..sandbox(SandboxState::NotReady) });
    assert_eq!(begun(&setup), Some(at(7)));
}

#[test]
fn a_container_once_started_stays_so_and_its_successor_begins_anew() {
    let mut setup = Setup::new("Always", &[], &["a"]).holding(vec![instance("a", 0, ContainerState::Running, 0)]);
    setup.spec().containers[0].startup_probe = Some(Probe::default());
    setup.probes.startup.insert(ContainerId::from("a0"), true);
    setup.step();
    setup.probes.startup.clear();
    assert_eq!(of(&setup.step(), "a").started, Some(true));
    setup.runtime.containers = vec![instance("a", 1, ContainerState::Running, 0)];
    assert_eq!(of(&setup.step(), "a").started, Some(false));
}

/// POD-29.
#[test]
fn addresses_are_ordered_by_family_and_outlive_the_sandbox() {
    let ips = |status: &PodStatus| -> Vec<String> { status.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect() };
    let mut setup = Setup::new("Always", &[], &["a"]);
    setup.runtime.sandboxes[0].ips = ["FD00:0::9", "10.0.0.9", "fd00::8"].map(str::to_owned).to_vec();
    assert_eq!(ips(&setup.status()), ["10.0.0.9", "fd00::9"]);
    setup.host = host(&["fd00::1", "192.168.0.1"]);
    assert_eq!(ips(&setup.status()), ["10.0.0.9", "fd00::9"], "what the node is known by does not turn them around");
    setup.prefer_ipv6 = true;
    let status = setup.step();
    assert_eq!(ips(&status), ["fd00::9", "10.0.0.9"]);
    assert_eq!((status.pod_ip.as_deref(), status.host_ip.as_deref()), (Some("fd00::9"), Some("fd00::1")));
    assert_eq!(status.host_ips.map(|ips| ips.len()), Some(2));
    setup.runtime.sandboxes[0].state = SandboxState::NotReady;
    assert_eq!(ips(&setup.status()), ["fd00::9", "10.0.0.9"]);
    setup.runtime.sandboxes.clear();
    assert_eq!(ips(&setup.status()), ["fd00::9", "10.0.0.9"]);
}

/// POD-29, NODE-20: shown before, known of the host, what the runtime says, expected.
#[test]
fn a_pod_on_the_hosts_network_has_the_hosts_addresses_for_as_long_as_the_host_has() {
    type Case<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a [&'a str]);
    let cases: &[Case] = &[
        (&[], &["10.0.0.1"], &[], &["10.0.0.1"]),
        (&[], &["fd00::1", "10.0.0.1"], &[], &["fd00::1", "10.0.0.1"]),
        (&[], &[], &[], &[]),
        // They stay although others come first now, and one of the other family is added.
        (&["10.0.0.1"], &["10.0.0.2", "10.0.0.1"], &[], &["10.0.0.1"]),
        (&["10.0.0.1"], &["10.0.0.2", "10.0.0.1", "fd00::1"], &[], &["10.0.0.1", "fd00::1"]),
        (&["fd00::1"], &["10.0.0.1", "fd00::1"], &[], &["fd00::1"]),
        (&["10.0.0.1", "fd00::1"], &["10.0.0.1", "fd00::2", "fd00::1"], &[], &["10.0.0.1", "fd00::1"]),
        // Addresses that the host lost go; unknown ones are not lost.
        (&["10.0.0.1"], &["10.0.0.2"], &[], &["10.0.0.2"]),
        (&["10.0.0.1", "fd00::1"], &["10.0.0.2", "fd00::1"], &[], &["10.0.0.2", "fd00::1"]),
        (&["10.0.0.1", "fd00::1"], &["10.0.0.1", "fd00::2"], &[], &["10.0.0.1", "fd00::2"]),
        (&["10.0.0.1"], &[], &[], &["10.0.0.1"]),
        // The runtime's word counts first.
        (&["10.0.0.1"], &["10.0.0.1", "fd00::1"], &["192.168.0.1"], &["192.168.0.1", "fd00::1"]),
        (&[], &["10.0.0.1", "fd00::1"], &["2001:db8::2", "192.168.0.1"], &["192.168.0.1", "2001:db8::2"]),
    ];
    for (before, known, told, expected) in cases {
        let mut setup = Setup::new("Always", &[], &["a"]);
        setup.spec().host_network = Some(true);
        setup.runtime.sandboxes[0].ips = told.iter().map(|ip| (*ip).to_owned()).collect();
        setup.host = host(known);
        let pod_ips = before.iter().map(|ip| PodIP { ip: (*ip).to_owned() }).collect();
        setup.pod.status = Some(PodStatus { pod_ips: Some(pod_ips), ..PodStatus::default() });
        let status = setup.status();
        let ips: Vec<String> = status.pod_ips.into_iter().flatten().map(|ip| ip.ip).collect();
        assert_eq!((ips.first(), &*ips), (status.pod_ip.as_ref(), &*texts(expected)), "{before:?} {known:?} {told:?}");
    }
}

/// POD-29: the node's address changed, or is not known for a while.
#[test]
fn the_hosts_address_is_the_newest_that_is_known() {
    let mut setup = Setup::new("Always", &[], &["a"]);
    assert_eq!(setup.step().host_ip.as_deref(), Some("192.168.0.1"));
    setup.host = host(&["10.0.0.2", "10.0.0.3", "fd00::2"]);
    let shown =
        |status: &PodStatus| -> Vec<String> { status.host_ips.iter().flatten().map(|ip| ip.ip.clone()).collect() };
    let status = setup.step();
    assert_eq!((status.host_ip.as_deref(), shown(&status)), (Some("10.0.0.2"), texts(&["10.0.0.2", "fd00::2"])));
    setup.host = HostIps::default();
    let status = setup.step();
    assert_eq!((status.host_ip.as_deref(), shown(&status)), (Some("10.0.0.2"), texts(&["10.0.0.2", "fd00::2"])));
}

#[test]
fn a_host_that_changes_its_family_is_told_of() {
    let status = |ip: &str| PodStatus { host_ip: (!ip.is_empty()).then(|| ip.to_owned()), ..PodStatus::default() };
    for (before, now, told) in [
        ("", "fd00::1", false),
        ("10.0.0.1", "10.0.0.2", false),
        ("10.0.0.1", "", false),
        ("10.0.0.1", "fd00::1", true),
    ] {
        assert_eq!(family_mismatch(&status(before), &status(now)).is_some(), told, "{before} {now}");
    }
    let expected = "Kubelet detected an IPv6 node IP (fd00::1), but the cloud provider selected an IPv4 node IP \
                    (10.0.0.1); pass an explicit `--node-ip` to kubelet to fix this.";
    assert_eq!(family_mismatch(&status("fd00::1"), &status("10.0.0.1")).as_deref(), Some(expected));
}

prop_compose! {
    fn any_instances()(
        parts in prop::collection::vec(
            (prop::sample::select(vec!["i", "a", "b"]), 0_usize..4, 0_i32..2, prop::bool::ANY), 0..6),
    ) -> (Vec<RuntimeContainer>, bool) {
        use ContainerState::{Created, Exited, Running, Unknown};
        let ready = parts.iter().all(|(.., ready)| *ready);
        let count = u32::try_from(parts.len()).expect("is small");
        let made = (0..count).zip(parts).map(|(number, (name, state, code, _))| {
            instance(name, count - number, [Created, Running, Exited, Unknown][state], code)
        });
        (made.collect(), ready)
    }
}

proptest! {
    #[test]
    fn statuses_never_go_back(
        policy in prop::sample::select(vec!["Always", "OnFailure", "Never"]),
        looks in prop::collection::vec((any_instances(), any::<bool>(), any::<bool>()), 1..8),
    ) {
        let mut setup = Setup::new(policy, &["i"], &["a", "b"]);
        let mut before: Option<PodStatus> = None;
        for ((containers, ready), fails, terminal) in looks {
            setup.runtime.containers = containers;
            setup.runtime.sandboxes = vec![sandbox(if ready { SandboxState::Ready } else { SandboxState::NotReady })];
            setup.errors.clear();
            if fails {
                setup = setup.failing("a", StartReason::CrashLoopBackOff);
            }
            setup.terminal = terminal;
            setup.now += 10;
            let status = setup.step();
            let phase = status.phase.clone().expect("always has a phase");
            let is_ready = says(&status, "Ready").0 == "True";
            prop_assert!(!is_ready || !is_terminal(&phase));
            prop_assert!(!is_ready || status.container_statuses.iter().flatten().all(|status| status.ready));
            prop_assert_eq!(says(&status, "PodScheduled").0, "True");
            for shown in status.container_statuses.iter().flatten() {
                prop_assert!(!shown.ready || state_text(shown.state.as_ref()) == "running");
            }
            if let Some(before) = before {
                let old = before.phase.as_deref().expect("always has a phase");
                prop_assert!(!is_terminal(old) || old == phase, "{} -> {}", old, phase);
                prop_assert_eq!(&status.start_time, &before.start_time);
                for old in before.container_statuses.iter().flatten() {
                    prop_assert!(of(&status, &old.name).restart_count >= old.restart_count);
                }
            }
            // Looked at again later, nothing differs.
            setup.now += 10;
            prop_assert_eq!(&setup.status(), &status);
            before = Some(status);
        }
    }
}
