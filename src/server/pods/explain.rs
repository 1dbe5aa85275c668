//! `/ps` and `/explain/{namespace}/{pod}`: each pod's state, and why it is not as it should be. Asks, never decides.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::pod_list::{ASK_LIMIT, REQUEST, views};
use crate::actors::kit::address::AskError;
use crate::actors::kit::trace::ActorView;
use crate::actors::runtime::pleg::RELIST_ABOUT;
use crate::logic::eviction::record::EvictionRecord;
use crate::logic::model::backoff::CrashLoopWait;
use crate::logic::model::pod_phase::{FAILED, SUCCEEDED};
use crate::logic::model::restart_policy::is_sidecar;
use crate::logic::model::runtime_health::hangs;
use crate::logic::model::time::Moment;
use crate::logic::pods::node_stop::StopCause;
use crate::logic::pods::wait::PodWait;
use crate::messages::event_recorder::{CountedEvent, EventRecorderMsg};
use crate::messages::eviction_manager::EvictionManagerMsg;
use crate::messages::images::image_manager::{ImageManagerMsg, PullProgress};
use crate::messages::pods::pod_source::SourceKind;
use crate::messages::runtime::runtime_monitor::RuntimeMonitorMsg;
use crate::messages::status::status_manager::{PodView, RefusedManifest, StatusManagerMsg};
use crate::server::backend::Backend;
use crate::server::sources::static_pod_name;
use crate::server::views::actors_view::state_of;
use crate::server::views::{
    BackOffShown, ConditionShown, ContainerShown, EventShown, Explanation, OperationOpen, PodRow, REFUSED, WorkerShown,
};

mod asked;

use asked::{hardware, probes};

/// The reason of a container that ended with status 0, as runtimes and the API have it.
const COMPLETED: &str = "Completed";
/// The kind of actor that looks after a pod.
const WORKER: &str = "PodWorker";

/// All pods, by namespace and name.
pub(in crate::server) async fn rows(backend: &Backend) -> Result<Vec<PodRow>, AskError> {
    let mut rows = rows_of(backend, &views(backend).await?).await;
    rows.extend(refused_rows(backend).await?);
    Ok(rows)
}

/// The rows of these pods.
pub(super) async fn rows_of(backend: &Backend, views: &[PodView]) -> Vec<PodRow> {
    let clock = backend.trace.clock();
    let workers: BTreeMap<Arc<str>, ActorView> = workers(backend).map(|worker| (worker.name.clone(), worker)).collect();
    let progress = pull_progress(backend).await;
    let told = |view: &PodView| {
        let back_offs = back_offs(view, clock.now());
        let row = with_waits(row(view, clock.now()), &view.waiting, &progress, &back_offs);
        let worker = workers.get(&*format!("{WORKER}/{}/{}/{}", row.namespace, row.name, row.uid));
        let operations = worker.map(|worker| show_worker(worker, clock.uptime()).operations);
        with_work(row, &operations.unwrap_or_default())
    };
    views.iter().map(told).collect()
}

/// The rows of manifests that give no pod.
pub(super) async fn refused_rows(backend: &Backend) -> Result<Vec<PodRow>, AskError> {
    Ok(refusals(backend).await?.iter().map(refused_row).collect())
}

/// How far images are that containers wait for. Without an answer the page has the waits without it.
async fn pull_progress(backend: &Backend) -> Vec<PullProgress> {
    let asked = backend.directory.image_manager.ask(REQUEST, ASK_LIMIT, ImageManagerMsg::Progress).await;
    asked.unwrap_or_default()
}

/// Adds what the pod waits for: of an image how far it is (PAIN-22), of a back-off when it is over (PAIN-34).
fn with_waits(mut row: PodRow, waits: &[PodWait], progress: &[PullProgress], back_offs: &[BackOffShown]) -> PodRow {
    for wait in waits {
        let mut more = String::new();
        let mut of_pod = progress.iter().filter(|one| one.uid.as_str() == row.uid && one.container.is_some());
        if let Some(one) = of_pod.find(|one| one.container.as_deref() == wait.image_of()) {
            more.push_str(&format!(": {}", one.step));
        }
        let container = wait.crash_loop().map(|crashes| &crashes.container);
        if let Some(back_off) = back_offs.iter().find(|one| Some(&one.container) == container) {
            more.push_str(&format!(", next at {}", back_off.until));
        }
        row.waiting.push(format!("{wait}{more}"));
        row.waiting_for.push(format!("{wait:#}{more}"));
    }
    row
}

/// The manifests that give no pod.
async fn refusals(backend: &Backend) -> Result<Vec<(SourceKind, RefusedManifest)>, AskError> {
    backend.directory.status_manager.ask(REQUEST, ASK_LIMIT, StatusManagerMsg::Refusals).await
}

/// A manifest that gives no pod, as a row: under its pod's name, or under its own place where it does not tell one.
fn refused_row((source, manifest): &(SourceKind, RefusedManifest)) -> PodRow {
    let (namespace, name) = manifest.pod.clone().unwrap_or_else(|| ("-".to_owned(), manifest.place.clone()));
    let (phase, source) = (REFUSED.to_owned(), source.as_str().to_owned());
    let row = PodRow { namespace, name, phase, source, ..PodRow::default() };
    let wait = PodWait::Correction { place: manifest.place.clone(), why: manifest.why.clone() };
    with_waits(row, &[wait], &[], &[])
}

/// Adds what the pod's worker has just begun, and may not have told of yet.
fn with_work(mut row: PodRow, operations: &[OperationOpen]) -> PodRow {
    if row.waiting.is_empty() {
        row.waiting = operations.iter().map(under_way).collect();
        row.waiting_for.clone_from(&row.waiting);
    }
    row
}

fn workers(backend: &Backend) -> impl Iterator<Item = ActorView> {
    backend.trace.actors().into_iter().filter(|actor| actor.kind == WORKER)
}

/// The pods of this name, or else the static pods of this name: none, one, or while one replaces another, both.
pub(in crate::server) async fn explain(
    backend: &Backend,
    namespace: &str,
    name: &str,
) -> Result<Vec<Explanation>, (&'static str, AskError)> {
    let exact = explain_exactly(backend, namespace, name).await?;
    if !exact.is_empty() {
        return Ok(exact);
    }
    explain_exactly(backend, namespace, &static_pod_name(backend, name)).await
}

async fn explain_exactly(
    backend: &Backend,
    namespace: &str,
    name: &str,
) -> Result<Vec<Explanation>, (&'static str, AskError)> {
    let views = views(backend).await.map_err(|error| ("StatusManager", error))?;
    let wanted = |view: &PodView| {
        let metadata = &view.pod.metadata;
        metadata.namespace.as_deref().unwrap_or("default") == namespace && metadata.name.as_deref() == Some(name)
    };
    let workers: Vec<ActorView> = workers(backend).collect();
    let progress = pull_progress(backend).await;
    let mut found = Vec::new();
    for view in views.iter().filter(|view| wanted(view)) {
        let uid = view.uid.clone();
        let events =
            backend.directory.event_recorder.ask(REQUEST, ASK_LIMIT, |reply| EventRecorderMsg::OfPod(uid, reply));
        let events = events.await.map_err(|error| ("EventRecorder", error))?;
        let worker = workers.iter().find(|worker| is_worker_of(worker, namespace, name, view.uid.as_str()));
        let mut explained = explanation(backend, view, worker, &events, &progress);
        explained.probes = probes(backend, view).await;
        explained.hardware = hardware(backend, &view.uid).await;
        found.push(explained);
    }
    add_evictions(backend, namespace, name, &mut found).await;
    if found.is_empty() {
        // A pod whose first look at the runtime is still to come has a worker, but no status yet.
        let prefix = format!("{WORKER}/{namespace}/{name}/");
        let unseen = workers.iter().filter(|worker| worker.name.starts_with(&prefix));
        found.extend(unseen.map(|worker| unseen_pod(backend, namespace, name, worker)));
    }
    let refused = refused_rows(backend).await.map_err(|error| ("StatusManager", error))?;
    let refused = refused.into_iter().filter(|row| row.namespace == namespace && row.name == name);
    found.extend(refused.map(|pod| Explanation { why: pod.waiting.clone(), pod, ..Explanation::default() }));
    let health = backend.directory.runtime_monitor.ask(REQUEST, ASK_LIMIT, RuntimeMonitorMsg::Current).await;
    let mut problems: Vec<String> = match health {
        Ok(health) => health.runtime_problem.into_iter().chain(health.network_problem).collect(),
        Err(error) => vec![format!("the runtime's health is not known: RuntimeMonitor: {error}")],
    };
    problems.extend(hung_relist(backend));
    problems.extend(late_work(backend));
    for one in &mut found {
        one.node_problems.clone_from(&problems);
    }
    Ok(found)
}

/// Adds why pods of this name were evicted within the last hour, also where they are gone since; nothing when nobody can
/// say.
async fn add_evictions(backend: &Backend, namespace: &str, name: &str, found: &mut Vec<Explanation>) {
    let question = |reply| EvictionManagerMsg::Why { namespace: namespace.to_owned(), name: name.to_owned(), reply };
    let records = backend.directory.eviction_manager.ask(REQUEST, ASK_LIMIT, question).await.unwrap_or_default();
    for record in records {
        let lines = record.cause.lines();
        match found.iter_mut().find(|one| one.pod.uid == record.uid.as_str()) {
            Some(one) => one.why.splice(0..0, lines).for_each(drop),
            None => found.push(gone_pod(&record, lines)),
        }
    }
}

/// A pod that was evicted and that nobody has any more.
fn gone_pod(record: &EvictionRecord, why: Vec<String>) -> Explanation {
    let row = PodRow {
        namespace: record.namespace.clone(),
        name: record.name.clone(),
        uid: record.uid.to_string(),
        phase: FAILED.to_owned(),
        reason: StopCause::Evicted.to_string(),
        ..PodRow::default()
    };
    Explanation { pod: row, why, ..Explanation::default() }
}

/// The call to the runtime that holds up the look at all pods (PAIN-02).
fn hung_relist(backend: &Backend) -> Option<String> {
    let call = backend.directory.pleg.record().oldest_call(Some(RELIST_ABOUT))?;
    let open = crate::server::views::table::span(call.open.as_secs_f64());
    hangs(call.method, call.open, Duration::ZERO)
        .then(|| format!("the runtime has not answered {} about all pods for {open}", call.method))
}

/// Work for the node that should have ended by now; pods may wait for it. A pod's own work stands with the pod.
fn late_work(backend: &Backend) -> impl Iterator<Item = String> {
    backend.trace.late().into_iter().filter(|late| late.kind != WORKER).map(|late| late.to_string())
}

fn is_worker_of(worker: &ActorView, namespace: &str, name: &str, uid: &str) -> bool {
    worker.name.strip_prefix(WORKER) == Some(&*format!("/{namespace}/{name}/{uid}"))
}

fn unseen_pod(backend: &Backend, namespace: &str, name: &str, worker: &ActorView) -> Explanation {
    let uid = worker.name.rsplit('/').next().unwrap_or_default().to_owned();
    let row = PodRow {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid,
        phase: "Pending".to_owned(),
        waiting: worker.note.iter().cloned().collect(),
        ..PodRow::default()
    };
    let worker = show_worker(worker, backend.trace.clock().uptime());
    let why = row.waiting.iter().cloned().chain(worker.operations.iter().map(under_way)).collect();
    Explanation { pod: row, why, worker: Some(worker), ..Explanation::default() }
}

fn explanation(
    backend: &Backend,
    view: &PodView,
    worker: Option<&ActorView>,
    events: &[CountedEvent],
    progress: &[PullProgress],
) -> Explanation {
    let (now, status) = (backend.trace.clock().now(), &*view.status);
    let worker = worker.map(|worker| show_worker(worker, backend.trace.clock().uptime()));
    let conditions: Vec<ConditionShown> = status
        .conditions
        .iter()
        .flatten()
        .map(|condition| ConditionShown {
            kind: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
            age_seconds: since(condition.last_transition_time.as_ref(), now),
        })
        .collect();
    let containers = containers(&view.pod, status, now);
    let events: Vec<EventShown> = events.iter().map(|event| show_event(event, now)).collect();
    let pod = with_waits(row(view, now), &view.waiting, progress, &[]);
    let succeeded = pod.phase == SUCCEEDED;
    let ready = conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True");
    let settled = pod.waiting.is_empty() && worker.as_ref().is_none_or(|worker| worker.operations.is_empty());
    let healthy = settled && (ready || succeeded);
    let why = if healthy { Vec::new() } else { reasons(&pod, worker.as_ref(), &containers, &conditions, &events) };
    let message = status.message.clone().unwrap_or_default();
    let back_offs = back_offs(view, now);
    let (hardware, probes, node_problems) = (vec![], vec![], vec![]);
    Explanation {
        pod,
        message,
        healthy,
        why,
        conditions,
        containers,
        hardware,
        probes,
        back_offs,
        worker,
        events,
        node_problems,
    }
}

/// The chain from what holds the pod up now to the first cause before it.
fn reasons(
    pod: &PodRow,
    worker: Option<&WorkerShown>,
    containers: &[ContainerShown],
    conditions: &[ConditionShown],
    events: &[EventShown],
) -> Vec<String> {
    let mut why = pod.waiting.clone();
    why.extend(worker.iter().flat_map(|worker| &worker.operations).map(under_way));
    let unwell = containers.iter().filter(|one| !one.ready && !one.detail.is_empty() && !is_completed(one));
    why.extend(unwell.map(|one| format!("container {} is {}: {}", one.name, one.state, one.detail)));
    let unmet = conditions.iter().filter(|one| one.status != "True" && !one.message.is_empty());
    why.extend(unmet.map(|one| format!("condition {} is {}: {} ({})", one.kind, one.status, one.message, one.reason)));
    let warnings = events.iter().rev().filter(|event| event.kind == "Warning").take(3);
    why.extend(warnings.map(|event| {
        let age = crate::server::views::table::age(event.last_seconds);
        format!("{} {age} ago, seen {}x: {}", event.reason, event.count, event.message)
    }));
    why
}

/// Whether the container ended well and left no message: nothing to explain.
fn is_completed(one: &ContainerShown) -> bool {
    one.exit_code == Some(0) && one.reason == COMPLETED && one.message.is_empty()
}

fn under_way(operation: &OperationOpen) -> String {
    let (name, about, open) =
        (&operation.name, &operation.about, crate::server::views::table::span(operation.open_seconds));
    let call = match operation.call.as_str() {
        "" => String::new(),
        call => format!(
            ", which waits for {call} of the runtime for {}",
            crate::server::views::table::span(operation.call_seconds)
        ),
    };
    let late = if operation.late { ", which is late" } else { "" };
    format!("under way for {open}{late}: {name} ({about}){call}")
}

fn show_worker(worker: &ActorView, uptime: Duration) -> WorkerShown {
    let operations = worker.operations.iter().map(|operation| {
        let (call, (open, late)) = (operation.calls.oldest(), operation.open_for(uptime));
        OperationOpen {
            name: operation.name.to_owned(),
            about: operation.about.clone(),
            open_seconds: open.as_secs_f64(),
            late,
            call: call.map_or_else(String::new, |call| call.method.to_owned()),
            call_seconds: call.map_or(0.0, |call| call.open.as_secs_f64()),
        }
    });
    WorkerShown {
        name: worker.name.to_string(),
        state: state_of(worker, None).to_owned(),
        turns: worker.turns,
        restarts: worker.restarts,
        last_failure: worker.last_failure.clone(),
        operations: operations.collect(),
    }
}

fn show_event(counted: &CountedEvent, now: Moment) -> EventShown {
    EventShown {
        kind: if counted.event.warning { "Warning" } else { "Normal" }.to_owned(),
        reason: counted.event.reason.to_string(),
        object: counted.event.field_path.clone(),
        message: counted.event.message.clone(),
        count: counted.count,
        first_seconds: now.since(counted.first_seen).as_secs_f64(),
        last_seconds: now.since(counted.last_seen).as_secs_f64(),
    }
}

fn row(view: &PodView, now: Moment) -> PodRow {
    let (pod, status) = (&*view.pod, &*view.status);
    let statuses = || status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let spec = pod.spec.as_ref();
    // As kubectl counts: the regular containers and the sidecars.
    let sidecars = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).filter(|one| is_sidecar(one));
    let stays = spec.iter().flat_map(|spec| &spec.containers).chain(sidecars);
    let stays: Vec<&str> = stays.map(|one| one.name.as_str()).collect();
    let source = pod.metadata.annotations.as_ref().and_then(|all| all.get("kubernetes.io/config.source"));
    let started = status.start_time.as_ref().or(pod.metadata.creation_timestamp.as_ref());
    PodRow {
        namespace: pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: view.uid.to_string(),
        phase: status.phase.clone().unwrap_or_else(|| "Pending".to_owned()),
        reason: reason(status),
        ready: status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True"),
        ready_containers: statuses().filter(|one| one.ready && stays.contains(&one.name.as_str())).count(),
        containers: stays.len(),
        restarts: statuses().map(|one| i64::from(one.restart_count)).sum(),
        age_seconds: since(started, now),
        ip: status.pod_ip.clone().unwrap_or_default(),
        node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        source: source.cloned().unwrap_or_default(),
        ..PodRow::default()
    }
}

/// The word that a list shows in place of the phase: the pod's own reason, else the first container's that is not well.
fn reason(status: &PodStatus) -> String {
    if let Some(reason) = status.reason.as_ref().filter(|reason| !reason.is_empty()) {
        return reason.clone();
    }
    let mut states = status.container_statuses.iter().flatten().filter_map(|one| one.state.as_ref());
    let found = states.find_map(|state| {
        let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone());
        waiting.or_else(|| {
            state.terminated.as_ref().filter(|ended| ended.exit_code != 0).and_then(|ended| ended.reason.clone())
        })
    });
    found.unwrap_or_default()
}

fn since(time: Option<&Time>, now: Moment) -> Option<f64> {
    time.map(|time| now.since(Moment::from_timestamp(time.0)).as_secs_f64())
}

fn containers(pod: &Pod, status: &PodStatus, now: Moment) -> Vec<ContainerShown> {
    let sidecar = |name: &str| {
        let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        inits.into_iter().any(|init| init.name == name && is_sidecar(init))
    };
    let init = status.init_container_statuses.iter().flatten();
    let init = init.map(|one| (if sidecar(&one.name) { "sidecar" } else { "init" }, one));
    let main = status.container_statuses.iter().flatten().map(|one| ("main", one));
    let ephemeral = status.ephemeral_container_statuses.iter().flatten().map(|one| ("ephemeral", one));
    init.chain(main).chain(ephemeral).map(|(role, one)| container(role, one, now)).collect()
}

fn container(role: &str, status: &ContainerStatus, now: Moment) -> ContainerShown {
    let state = status.state.as_ref().map(|state| container_state(state, now)).unwrap_or_default();
    let last = status.last_state.as_ref().filter(|last| last.terminated.is_some());
    let last = last.map(|last| {
        let last = container_state(last, now);
        match last.age_seconds {
            Some(age) => format!("{}, {} ago", last.detail(), crate::server::views::table::age(age)),
            None => last.detail(),
        }
    });
    ContainerShown {
        name: status.name.clone(),
        role: role.to_owned(),
        detail: state.detail(),
        state: state.name.to_owned(),
        age_seconds: state.age_seconds,
        reason: state.reason.unwrap_or_default(),
        message: state.message.unwrap_or_default(),
        exit_code: state.exit_code,
        ready: status.ready,
        started: status.started.unwrap_or(false),
        restarts: status.restart_count.into(),
        last: last.unwrap_or_default(),
    }
}

/// A container's state.
struct StateTold {
    name: &'static str,
    reason: Option<String>,
    message: Option<String>,
    exit_code: Option<i32>,
    age_seconds: Option<f64>,
}

impl Default for StateTold {
    fn default() -> Self {
        Self { name: "waiting", reason: None, message: None, exit_code: None, age_seconds: None }
    }
}

impl StateTold {
    /// The sentence about it.
    fn detail(&self) -> String {
        let reason = match self.exit_code {
            Some(code) => Some(format!("{} (exit {code})", self.reason.as_deref().unwrap_or("Ended"))),
            None => self.reason.clone(),
        };
        let message = self.message.clone().filter(|message| self.exit_code.is_none() || !message.is_empty());
        reason.into_iter().chain(message).collect::<Vec<_>>().join(": ")
    }
}

fn container_state(state: &ContainerState, now: Moment) -> StateTold {
    if let Some(running) = &state.running {
        let age_seconds = since(running.started_at.as_ref(), now);
        return StateTold { name: "running", age_seconds, ..StateTold::default() };
    }
    if let Some(ended) = &state.terminated {
        return StateTold {
            name: "terminated",
            reason: ended.reason.clone(),
            message: ended.message.clone(),
            exit_code: Some(ended.exit_code),
            age_seconds: since(ended.finished_at.as_ref(), now),
        };
    }
    let waiting = state.waiting.clone().unwrap_or_default();
    StateTold { reason: waiting.reason, message: waiting.message, ..StateTold::default() }
}

/// Which restarts wait until when: as long as the worker says, after the last end.
fn back_offs(view: &PodView, now: Moment) -> Vec<BackOffShown> {
    let waits: Vec<&CrashLoopWait> = view.waiting.iter().filter_map(PodWait::crash_loop).collect();
    let all = view.status.init_container_statuses.iter().chain(&view.status.container_statuses).flatten();
    all.filter_map(|one| {
        let wait = waits.iter().find(|wait| wait.container == one.name)?;
        let ended = one.last_state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?;
        let until = Moment::from_timestamp(ended.0).plus(wait.period);
        let in_seconds = until.since(now).as_secs_f64() - now.since(until).as_secs_f64();
        Some(BackOffShown { container: one.name.clone(), until: until.to_timestamp().to_string(), in_seconds })
    })
    .collect()
}

#[cfg(test)]
mod tests;
