//! Truths once all is quiet: the node is what is wanted, and the agent tells what is so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

use super::{Wanted, World};
use crate::actors::kit::trace::lock;
use crate::cri::{ContainerState, SandboxState};
use crate::logic::model::ids::PodUid;
use crate::logic::status::pod_status::DEADLINE_EXCEEDED;
use crate::messages::status::status_manager::PodView;
use crate::sim::containers::{Containers, SimContainer};
use crate::sim::faults::Fault;
use crate::sim::invariants::{NOTHING_LEFT, STATUS_FORWARD, TRUE_STATUS, UNWANTED_STOPS, WANTED_RUNS};
use crate::sim::node::Node;
use crate::sim::node::cgroups::cgroup_tree;
use crate::sim::pods::behaviour::Life;
use crate::sim::pods::{SimPod, SimSpec};

/// The longest that a container which ends again and again may be down: the back-off, and time to start.
const DOWN_MAX: Duration = Duration::from_secs(330);

/// A name of an invariant, and how it is not met yet.
pub type Problem = (&'static str, String);

/// The furthest that statuses told so far have come.
#[derive(Debug, Default)]
pub struct Told {
    /// With the reason, and the agent that told it.
    phases: BTreeMap<PodUid, (String, String, u64)>,
    counts: BTreeMap<(PodUid, String), i32>,
    wanted: BTreeSet<PodUid>,
    again: BTreeSet<PodUid>,
}

impl Told {
    /// A pod is wanted from now on. One that comes back may be in the list twice: as it ends, and as it begins anew.
    pub fn pod_wanted(&mut self, uid: &PodUid) {
        if !self.wanted.insert(uid.clone()) {
            self.again.insert(uid.clone());
        }
    }

    /// Forgets all news.
    pub(in crate::sim) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// The problems of a node without a cluster.
pub async fn problems(world: &World) -> Vec<Problem> {
    let wanted: Vec<Wanted> = world.wanted().into_values().collect();
    let mut problems = of_unwanted(world.node(), &wanted);
    let Some(views) = world.statuses().await else {
        problems.push((TRUE_STATUS, "the agent does not answer".to_owned()));
        return problems;
    };
    check_forward(world, &views);
    let views: BTreeMap<PodUid, PodView> = views.into_iter().map(|view| (view.uid.clone(), view)).collect();
    let node = world.node();
    for one in &wanted {
        let view = views.get(&one.uid);
        let containers = lock(&node.containers);
        if let Err(how) = as_wanted(node, &containers, one, view) {
            let says = view.map(|view| view.waits().join("; ")).unwrap_or_default();
            problems.push((WANTED_RUNS, format!("{}: {how}; the agent says {says:?}", one.pod.name)));
        }
        match view {
            None => problems.push((TRUE_STATUS, format!("no status of {}", one.pod.name))),
            Some(view) => problems.extend(untrue(node, &containers, one, view).map(|how| (TRUE_STATUS, how))),
        }
    }
    let uids: BTreeSet<&PodUid> = wanted.iter().map(|one| &one.uid).collect();
    let strangers = views.values().filter(|view| !uids.contains(&view.uid));
    problems.extend(strangers.map(|view| (TRUE_STATUS, format!("a status of {}, which nobody wants", view.uid))));
    problems.extend(workers(world, wanted.len()));
    problems
}

fn workers(world: &World, wanted: usize) -> Option<Problem> {
    let agent = world.agent()?;
    let workers = agent.agent.trace.count("PodWorker");
    (workers != wanted).then(|| (TRUE_STATUS, format!("{workers} workers for {wanted} pods")))
}

/// The objects that run or are left although nobody wants them.
pub(super) fn of_unwanted(node: &Node, wanted: &[Wanted]) -> Vec<Problem> {
    let uids: BTreeSet<&str> = wanted.iter().map(|one| one.uid.as_str()).collect();
    let mut problems = vec![];
    let containers = lock(&node.containers);
    for sandbox in containers.sandboxes.values().filter(|sandbox| !uids.contains(sandbox.metadata.uid.as_str())) {
        let name = if sandbox.state == SandboxState::Ready { UNWANTED_STOPS } else { NOTHING_LEFT };
        problems.push((name, format!("sandbox {} of {}", sandbox.id, sandbox.metadata.name)));
    }
    for container in containers.containers.values().filter(|one| !uids.contains(one.uid.as_str())) {
        let name = if container.state == ContainerState::Running { UNWANTED_STOPS } else { NOTHING_LEFT };
        problems.push((name, format!("container {}", container.label())));
    }
    drop(containers);
    let disk = lock(&node.disk);
    let remains = disk.remains(node.time.now()).into_iter().filter(|(uid, _)| !uids.contains(uid.as_str()));
    problems.extend(remains.map(|(uid, what)| (NOTHING_LEFT, format!("{what} of {uid}"))));
    let cgroups = lock(&node.cgroups).pods(&cgroup_tree()).into_iter();
    let strange = cgroups.filter(|(uid, _)| !uids.contains(uid.as_str()));
    problems.extend(strange.map(|(_, name)| (NOTHING_LEFT, format!("cgroup {name}"))));
    problems
}

/// Whether the pod runs, or has ended as it may.
pub(in crate::sim) fn as_wanted(
    node: &Node,
    containers: &Containers,
    wanted: &Wanted,
    view: Option<&PodView>,
) -> Result<(), String> {
    let pod = &wanted.pod;
    let phase = view.and_then(|view| view.status.phase.as_deref()).unwrap_or_default();
    let mut sandboxes = containers.sandboxes.values();
    let ready = sandboxes
        .by_ref()
        .filter(|sandbox| sandbox.metadata.uid == wanted.uid.as_str() && sandbox.state == SandboxState::Ready);
    let ready = ready.count();
    if matches!(phase, "Succeeded" | "Failed") {
        return ended_well(node, containers, wanted, view, ready);
    }
    if pod.containers.iter().chain(&pod.init).any(|spec| lock(&node.images).unknown.contains(&spec.image)) {
        return Ok(()); // It cannot run, and waits.
    }
    let (sidecars, init): (Vec<&SimSpec>, Vec<&SimSpec>) = pod.init.iter().partition(|spec| spec.is_sidecar());
    if let Some(stuck) = init.iter().find(|spec| !matches!(spec.behaviour().life, Life::Exit { code: 0, .. })) {
        return loops(node, containers.newest(&wanted.uid, &stuck.name))
            .map_err(|how| format!("init container {}: {how}", stuck.name));
    }
    if pod.restart_policy == "Never" && gave_up(node, containers, wanted, ready) {
        return Ok(());
    }
    if ready != 1 {
        return Err(format!("{ready} sandboxes are ready"));
    }
    for spec in sidecars {
        loops(node, containers.newest(&wanted.uid, &spec.name))
            .map_err(|how| format!("sidecar {}: {how}", spec.name))?;
    }
    for spec in &pod.containers {
        expected(node, pod, spec, containers.newest(&wanted.uid, &spec.name))
            .map_err(|how| format!("container {}: {how}", spec.name))?;
    }
    Ok(())
}

/// A pod that never restarts and lost its sandbox after a container was made gets no other one, whether that container
/// had run or not.
fn gave_up(node: &Node, containers: &Containers, wanted: &Wanted, ready: usize) -> bool {
    if !node.invariants.is_bereft(&wanted.uid) {
        return false;
    }
    let mut made = containers.containers.values().filter(|one| one.uid == wanted.uid).peekable();
    ready == 0 && made.peek().is_some() && made.all(|one| one.state != ContainerState::Running)
}

/// Whether a pod whose status says so has ended so: nothing of it runs, its containers did what the phase says, and a
/// deadline that it failed for is over.
fn ended_well(
    node: &Node,
    containers: &Containers,
    wanted: &Wanted,
    view: Option<&PodView>,
    ready: usize,
) -> Result<(), String> {
    let pod = &wanted.pod;
    let status = view.map(|view| &*view.status);
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let runs = containers.containers.values().any(|one| one.uid == wanted.uid && one.state == ContainerState::Running);
    if ready > 0 || runs {
        return Err(format!("has {phase} and still runs"));
    }
    if phase == "Failed" && pod.asks_for_devices() && status.is_some_and(|status| lacks_devices(wanted, status)) {
        return Ok(());
    }
    if status.and_then(|status| status.reason.as_deref()) == Some("DeadlineExceeded") {
        return late(node, wanted);
    }
    match (pod.restart_policy, phase) {
        ("Always", _) => {
            let told = |text: Option<&str>| text.unwrap_or_default().to_owned();
            let reason = told(status.and_then(|status| status.reason.as_deref()));
            let message = told(status.and_then(|status| status.message.as_deref()));
            return Err(format!("has {phase} although it restarts always: {reason}, {message}"));
        }
        ("OnFailure", "Failed") => return Err("has failed although it is to be tried again".to_owned()),
        _ => {}
    }
    let last_end = |spec: &SimSpec| node.invariants.last_end(&wanted.uid, &spec.name);
    if phase == "Succeeded" {
        let other = pod.containers.iter().find(|spec| last_end(spec) != Some(0));
        return other
            .map_or(Ok(()), |spec| Err(format!("has Succeeded although {} ended {:?}", spec.name, last_end(spec))));
    }
    let has_failed = pod.init.iter().chain(&pod.containers).any(|spec| last_end(spec).is_some_and(|code| code != 0));
    // How a container ended that the runtime has forgotten is known by what was told alone; else it counts as killed.
    let is_forgotten = node.faults.had(Fault::RuntimeLosses) && node.invariants.is_bereft(&wanted.uid);
    (has_failed || is_forgotten).then_some(()).ok_or_else(|| "has Failed although no container of it has".to_owned())
}

/// Whether a pod was refused for want of devices, in upstream's words.
fn lacks_devices(wanted: &Wanted, status: &PodStatus) -> bool {
    let message = status.message.as_deref().unwrap_or_default();
    let resources = wanted.pod.containers.iter().flat_map(SimSpec::devices).map(|(resource, _)| resource);
    match status.reason.as_deref() {
        Some("UnexpectedAdmissionError") => message.starts_with("Pod was rejected: Allocate failed due to "),
        Some(reason) => resources.into_iter().any(|resource| reason == format!("OutOf{resource}")),
        None => false,
    }
}

/// Whether the time of a pod that failed for its deadline is over.
fn late(node: &Node, wanted: &Wanted) -> Result<(), String> {
    let Some(deadline) = wanted.pod.deadline else { return Err("has no deadline and failed for it".to_owned()) };
    let had = node.time.elapsed() - node.invariants.wanted_since(&wanted.uid).unwrap_or_default();
    let is_over = had >= Duration::from_secs(deadline.into());
    is_over.then_some(()).ok_or_else(|| format!("failed for its deadline of {deadline} s after {had:?}"))
}

fn expected(node: &Node, pod: &SimPod, spec: &SimSpec, newest: Option<&SimContainer>) -> Result<(), String> {
    let Some(newest) = newest else { return Err("was never made".to_owned()) };
    let running = newest.state == ContainerState::Running;
    // Rules of tests have a container come back after each end of its own.
    let policy = if spec.is_ruled() { "Always" } else { pod.restart_policy };
    match (spec.behaviour().life, policy) {
        (Life::Run, _) => running.then_some(()).ok_or_else(|| "does not run".to_owned()),
        (Life::Exit { below, .. }, policy) if below != u32::MAX && policy != "Never" => {
            let is_up = running && newest.metadata.attempt >= below;
            is_up.then_some(()).ok_or_else(|| format!("has not come to attempt {below}"))
        }
        (_, "Never") => Err("has not ended yet".to_owned()),
        // Beside one that goes on it stays as it ended.
        (Life::Exit { code: 0, .. }, "OnFailure")
            if pod.containers.iter().any(|one| one.behaviour().life == Life::Run) =>
        {
            let has_ended = newest.state == ContainerState::Exited && newest.exit_code == 0;
            has_ended.then_some(()).ok_or_else(|| "has not ended well".to_owned())
        }
        (Life::Exit { code: 0, .. }, "OnFailure") => Err("has not ended yet".to_owned()),
        _ => loops(node, Some(newest)),
    }
}

/// Whether a container that ends again and again is started again and again.
fn loops(node: &Node, newest: Option<&SimContainer>) -> Result<(), String> {
    let Some(newest) = newest else { return Err("was never made".to_owned()) };
    let now = node.time.truly();
    match newest.state {
        ContainerState::Running => Ok(()),
        ContainerState::Exited if now.since(newest.over) < DOWN_MAX => Ok(()),
        ContainerState::Exited => Err(format!("is down for {:?}", now.since(newest.over))),
        ContainerState::Created | ContainerState::Unknown => Err("was made and never started".to_owned()),
    }
}

/// How the status differs from what the runtime holds.
pub(in crate::sim) fn untrue(node: &Node, containers: &Containers, wanted: &Wanted, view: &PodView) -> Option<String> {
    let statuses =
        view.status.container_statuses.iter().flatten().chain(view.status.init_container_statuses.iter().flatten());
    let by_name: BTreeMap<&str, &ContainerStatus> = statuses.map(|status| (status.name.as_str(), status)).collect();
    wanted.pod.init.iter().chain(&wanted.pod.containers).find_map(|spec| {
        let Some(newest) = containers.newest(&wanted.uid, &spec.name) else {
            let is_over = matches!(view.status.phase.as_deref(), Some("Succeeded" | "Failed"));
            let was_made = node.invariants.was_made(&wanted.uid, &spec.name);
            let told = by_name.get(spec.name.as_str()).filter(|_| !is_over && !was_made)?;
            return invented(told).map(|how| format!("{} was never made, told {how}", spec.name));
        };
        let place = newest.label();
        let Some(status) = by_name.get(spec.name.as_str()) else { return Some(format!("{place} is not told of")) };
        let state = status.state.clone().unwrap_or_default();
        let id = format!("containerd://{}", newest.id);
        match newest.state {
            ContainerState::Running if state.running.is_none() => Some(format!("{place} runs, told {state:?}")),
            ContainerState::Exited if state.running.is_some() => Some(format!("{place} has ended, told as running")),
            ContainerState::Exited if !tells_end(status, newest) => {
                let (code, reason) = (newest.exit_code, newest.reason);
                Some(format!("{place} ended with {code}, {reason}, told {state:?}, before {:?}", status.last_state))
            }
            _ if status.container_id.as_ref().is_some_and(|told| *told != id) => {
                Some(format!("{place} is {id}, told {:?}", status.container_id))
            }
            ContainerState::Running | ContainerState::Exited
                if u32::try_from(status.restart_count) != Ok(newest.metadata.attempt) =>
            {
                Some(format!("{place} is told with restart count {}", status.restart_count))
            }
            _ => None,
        }
    })
}

/// Whether the status tells how the instance ended: now, or of the last one while the next one is waited for. As upstream, a
/// container that was waited for when its pod ended counts as one that could not be located. Its end is the last one.
fn tells_end(status: &ContainerStatus, newest: &SimContainer) -> bool {
    let ended = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| state.clone()?.terminated;
    let now = ended(&status.state).filter(|now| now.reason.as_deref() != Some("ContainerStatusUnknown"));
    let told = now.or_else(|| ended(&status.last_state));
    told.is_some_and(|told| told.exit_code == newest.exit_code && told.reason.as_deref() == Some(newest.reason))
}

/// The status of a container that there never was; `None` when only that it waits.
fn invented(status: &ContainerStatus) -> Option<String> {
    let state = status.state.clone().unwrap_or_default();
    let is_told = state.running.is_some()
        || state.terminated.is_some()
        || status.restart_count > 0
        || status.container_id.as_ref().is_some_and(|id| !id.is_empty());
    is_told.then(|| format!("{state:?}, restart count {}, ID {:?}", status.restart_count, status.container_id))
}

/// Final phases stay, counts never fall. A static pod whose time was over by a clock that was ahead may live on for the next
/// agent, once the clock is right: no API object keeps its start, and what the runtime holds tells that and no more. As
/// upstream: there no static pod without a mirror keeps its start.
pub(in crate::sim) fn check_forward(world: &World, views: &[PodView]) {
    let mut told = lock(&world.shared.told);
    let told = &mut *told;
    let (agent, may_be_early) = (world.incarnations(), world.node().faults.had(Fault::ClockSteps));
    let mut broken = vec![];
    for view in views.iter().filter(|view| !told.again.contains(&view.uid)) {
        let phase = view.status.phase.clone().unwrap_or_default();
        let reason = view.status.reason.clone().unwrap_or_default();
        let before = told.phases.insert(view.uid.clone(), (phase.clone(), reason, agent));
        let is_excused = |reason: &str, by: u64| reason == DEADLINE_EXCEEDED && may_be_early && by != agent;
        if let Some((before, ..)) = before.filter(|(before, reason, by)| {
            matches!(before.as_str(), "Succeeded" | "Failed") && *before != phase && !is_excused(reason, *by)
        }) {
            broken.push(format!("{} was {before} and is {phase}", view.uid));
        }
        for status in view.status.container_statuses.iter().flatten() {
            let count = told.counts.entry((view.uid.clone(), status.name.clone())).or_default();
            if status.restart_count < *count {
                broken
                    .push(format!("{} of {}: {} restarts after {count}", status.name, view.uid, status.restart_count));
            }
            *count = status.restart_count;
        }
    }
    for how in broken {
        world.node().invariants.broken(STATUS_FORWARD, how);
    }
}
