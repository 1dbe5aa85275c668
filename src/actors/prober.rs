//! `Prober`: probes containers; tells each pod's worker what came of it.
//!
//! Parent: Root. Restarted: after a failure; workers tell it their pods again. One machine (`logic::probe_schedule`) for
//! each container and kind of probe; a probe under way is an operation, so one that hangs holds up nobody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodStatus, Probe};

use super::address::Address;
use super::desk::{Desk, OperationId, Panicked};
use super::role::Role;
use super::settings::{Agent, EventSubject};
use crate::logic::ids::{ContainerId, PodUid};
use crate::logic::pod_roster::full_name;
use crate::logic::probe_schedule::{self, ProbeAction, ProbeSchedule, ProbeTiming, Seen, probes_of};
use crate::logic::probe_target;
use crate::messages::pod_worker::PodWorkerMsg;
use crate::messages::prober::{ProbeKey, ProberMsg};
use crate::platform::http_probe::{HttpProbe, ProbeOutcome};

/// Tries of one round, while the probe itself cannot be made (PRB-08).
const TRIES_MAX: u32 = 3;

struct Watched {
    pod: Arc<Pod>,
    status: Arc<PodStatus>,
    worker: Address<PodWorkerMsg>,
}

struct Machine {
    schedule: ProbeSchedule,
    timer: Option<OperationId>,
    probe: Option<OperationId>,
    result: Option<(ContainerId, bool)>,
}

/// See the module.
pub struct Prober {
    agent: Arc<Agent>,
    pods: BTreeMap<PodUid, Watched>,
    machines: BTreeMap<ProbeKey, Machine>,
}

impl Role for Prober {
    const KIND: &'static str = "Prober";
    type Msg = ProberMsg;
    type Args = Arc<Agent>;

    fn begin(agent: Arc<Agent>, _: &mut Desk<ProberMsg>) -> Self {
        Self { agent, pods: BTreeMap::new(), machines: BTreeMap::new() }
    }

    fn receive(&mut self, message: ProberMsg, desk: &mut Desk<ProberMsg>) {
        match message {
            ProberMsg::PodChanged { uid, pod, status, worker } => {
                self.pods.insert(uid.clone(), Watched { pod, status, worker });
                self.notice(&uid, desk);
                self.repeat(&uid, desk);
            }
            ProberMsg::PodGone(uid) => self.forget(&uid, desk),
            ProberMsg::Known(known) => {
                let gone: Vec<PodUid> = self.pods.keys().filter(|uid| !known.contains(*uid)).cloned().collect();
                for uid in gone {
                    self.forget(&uid, desk);
                }
            }
            ProberMsg::RoundDue(key) => self.round(&key, desk),
            ProberMsg::Probed(key, outcome) => self.finish(&key, outcome, desk),
        }
    }
}

impl Prober {
    fn notice(&mut self, uid: &PodUid, desk: &mut Desk<ProberMsg>) {
        let watched = &self.pods[uid];
        let (pod, status) = (Arc::clone(&watched.pod), Arc::clone(&watched.status));
        let uptime = desk.clock().uptime();
        for (container, kind) in probes_of(&pod) {
            let key = ProbeKey { uid: uid.clone(), container: container.name.clone(), kind };
            let Some(probe) = kind.of(container) else { continue };
            let seen = Seen::of(Some(&status), &pod, container);
            if matches!(seen, Seen::PodOver) {
                continue;
            }
            let (agent, jitter) = (&self.agent, self.agent.adapters.chance.next());
            let machine = self.machines.entry(key.clone()).or_insert_with(|| {
                let age = desk.now().since(agent.settings.agent_started);
                let timing = ProbeTiming::from(probe);
                let schedule = ProbeSchedule::new(kind, timing, agent.settings.agent_started, age, jitter, uptime);
                Machine { schedule, timer: None, probe: None, result: None }
            });
            machine.schedule.notice(&seen, uptime);
            self.arm(&key, desk);
        }
    }

    /// Tells the pod's worker what is known: one that was started anew has heard none of it, and hears only changes else.
    fn repeat(&self, uid: &PodUid, desk: &Desk<ProberMsg>) {
        let Some(watched) = self.pods.get(uid) else { return };
        for (key, machine) in self.machines.iter().filter(|(key, _)| key.uid == *uid) {
            if let Some((container, healthy)) = machine.result.clone() {
                desk.tell(&watched.worker, PodWorkerMsg::Probed { container, kind: key.kind, healthy });
            }
        }
    }

    fn forget(&mut self, uid: &PodUid, desk: &mut Desk<ProberMsg>) {
        self.pods.remove(uid);
        let gone: Vec<ProbeKey> = self.machines.keys().filter(|key| key.uid == *uid).cloned().collect();
        for key in gone {
            let machine = self.machines.remove(&key).expect("listed above");
            for operation in machine.timer.into_iter().chain(machine.probe) {
                desk.cancel(operation);
            }
        }
    }

    fn arm(&mut self, key: &ProbeKey, desk: &mut Desk<ProberMsg>) {
        let uptime = desk.clock().uptime();
        let Some(machine) = self.machines.get_mut(key) else { return };
        if let Some(timer) = machine.timer.take() {
            desk.cancel(timer);
        }
        if let Some(due) = machine.schedule.due() {
            machine.timer = Some(desk.after(due.saturating_sub(uptime), ProberMsg::RoundDue(key.clone())));
        }
    }

    fn round(&mut self, key: &ProbeKey, desk: &mut Desk<ProberMsg>) {
        let (wall, uptime) = (desk.now(), desk.clock().uptime());
        let Some(watched) = self.pods.get(&key.uid) else { return };
        let Some(machine) = self.machines.get_mut(key) else { return };
        machine.timer = None;
        let seen = find(&watched.pod, &key.container)
            .map_or(Seen::Nothing, |container| Seen::of(Some(&watched.status), &watched.pod, container));
        let actions = machine.schedule.round(&seen, wall, uptime);
        self.perform(key, actions, desk);
        self.arm(key, desk);
    }

    fn finish(&mut self, key: &ProbeKey, outcome: Result<ProbeOutcome, Panicked>, desk: &mut Desk<ProberMsg>) {
        let outcome = outcome.unwrap_or_else(|panicked| ProbeOutcome::Error(panicked.to_string()));
        self.tell_event(key, &outcome, desk);
        let verdict = match outcome {
            ProbeOutcome::Success | ProbeOutcome::Warning(_) => probe_schedule::ProbeOutcome::Success,
            ProbeOutcome::Failure(_) => probe_schedule::ProbeOutcome::Failure,
            ProbeOutcome::Error(_) => probe_schedule::ProbeOutcome::Errored,
        };
        let uptime = desk.clock().uptime();
        let Some(machine) = self.machines.get_mut(key) else { return };
        machine.probe = None;
        let actions = machine.schedule.finish(verdict, uptime);
        self.perform(key, actions, desk);
        self.arm(key, desk);
    }

    fn perform(&mut self, key: &ProbeKey, actions: Vec<ProbeAction>, desk: &mut Desk<ProberMsg>) {
        for action in actions {
            let Some(machine) = self.machines.get_mut(key) else { return };
            match action {
                ProbeAction::Store(container, healthy) => {
                    let result = Some((container.clone(), healthy));
                    if machine.result != result {
                        machine.result = result;
                        let message = PodWorkerMsg::Probed { container, kind: key.kind, healthy };
                        if let Some(watched) = self.pods.get(&key.uid) {
                            desk.tell(&watched.worker, message);
                        }
                    }
                }
                ProbeAction::Forget(_) => machine.result = None,
                ProbeAction::Probe(_) => self.probe(key, desk),
                ProbeAction::End => {
                    let ended = self.machines.remove(key);
                    for operation in
                        ended.into_iter().flat_map(|machine| machine.timer.into_iter().chain(machine.probe))
                    {
                        desk.cancel(operation);
                    }
                }
            }
        }
    }

    fn probe(&mut self, key: &ProbeKey, desk: &mut Desk<ProberMsg>) {
        let Some(watched) = self.pods.get(&key.uid) else { return };
        let request = find(&watched.pod, &key.container)
            .and_then(|container| Some((container, key.kind.of(container)?)))
            .map_or_else(
                || Err("missing probe handler".to_owned()),
                |(container, probe)| http_probe(container, probe, &watched.status),
            );
        let prober = Arc::clone(&self.agent.adapters.http_prober);
        let work = async move {
            let mut outcome = ProbeOutcome::Error(String::new());
            for _ in 0..TRIES_MAX {
                outcome = match &request {
                    Ok(request) => prober.probe(request.clone()).await,
                    Err(problem) => ProbeOutcome::Error(problem.clone()),
                };
                if !matches!(outcome, ProbeOutcome::Error(_)) {
                    break;
                }
            }
            outcome
        };
        let ended = key.clone();
        let about = format!("{} of {}", key.kind, key.container);
        let operation = desk.start("probe", about, work, move |outcome| ProberMsg::Probed(ended, outcome));
        if let Some(machine) = self.machines.get_mut(key) {
            machine.probe = Some(operation);
        }
    }

    fn tell_event(&self, key: &ProbeKey, outcome: &ProbeOutcome, desk: &Desk<ProberMsg>) {
        let Some(watched) = self.pods.get(&key.uid) else { return };
        let field_path = format!("spec.containers{{{}}}", key.container);
        let subject = EventSubject { uid: key.uid.clone(), full_name: full_name(&watched.pod), field_path };
        let event = match outcome {
            ProbeOutcome::Success => return,
            ProbeOutcome::Warning(text) => {
                subject.warning("ProbeWarning", format!("{} probe warning: {text}", key.kind))
            }
            ProbeOutcome::Failure(text) => subject.warning("Unhealthy", format!("{} probe failed: {text}", key.kind)),
            ProbeOutcome::Error(text) => {
                let message = format!("{} probe errored and resulted in unknown state: {text}", key.kind);
                subject.warning("Unhealthy", message)
            }
        };
        desk.tell(&self.agent.directory.event_recorder, event);
    }
}

fn find<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|container| container.name == name)
}

/// The request of an `httpGet` probe (PRB-12, PRB-15, PRB-16).
fn http_probe(container: &Container, probe: &Probe, status: &PodStatus) -> Result<HttpProbe, String> {
    let get = probe.http_get.as_ref().ok_or("missing probe handler")?;
    let host = probe_target::host(get.host.as_deref(), status).ok_or("the pod has no address yet")?;
    let port = probe_target::port(container, &get.port).map_err(|error| error.to_string())?;
    let headers = get.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone()));
    let timeout = probe.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(1).max(1);
    Ok(HttpProbe {
        scheme: get.scheme.as_deref().unwrap_or("HTTP").to_lowercase(),
        host: host.to_owned(),
        port,
        path: get.path.clone().unwrap_or_else(|| "/".to_owned()),
        headers: headers.collect(),
        timeout: Duration::from_secs(timeout),
    })
}
