//! `Prober`: probes containers; tells each pod's worker what came of it.
//!
//! Parent: Root. Restarted: after a failure; workers tell it their pods again. One machine (`logic::probe_schedule`) for
//! each container and kind of probe; a probe under way is an operation, so one that hangs holds up nobody. A machine has
//! one probe under way at most, so that those of a container that hangs cannot pile up, and commands of all containers
//! pass one gate (SEC-47). What is known outlives the agent in `platform::probe_store` (PAIN-16).

mod attempt;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};

pub(super) use attempt::output;

use super::address::Address;
use super::desk::{Desk, OperationId, Panicked};
use super::role::Role;
use super::settings::Agent;
use crate::logic::exec_gate::ExecGate;
use crate::logic::ids::{ContainerId, PodUid};
use crate::logic::pod_roster::full_name;
use crate::logic::probe_memory::Remembered;
use crate::logic::probe_schedule::{self, ProbeAction, ProbeKind, ProbeSchedule, ProbeTiming, Seen, Target, probes_of};
use crate::logic::probe_target::{self, ProbeTarget};
use crate::messages::pod_worker::PodWorkerMsg;
use crate::messages::prober::{ProbeCounts, ProbeKey, ProberMsg, Round};
use crate::platform::network_probe::ProbeOutcome;

/// Commands of probes under way at once, on the whole node.
const COMMANDS_MAX: usize = 32;
/// Rounds that begin in one turn; more that are due at once begin in the next.
const ROUNDS_MAX: usize = 128;
/// From one writing of what is remembered to the next; after one that failed.
const SAVE_PERIOD: Duration = Duration::from_secs(1);
const SAVE_RETRY: Duration = Duration::from_secs(30);

struct Watched {
    pod: Arc<Pod>,
    status: Arc<PodStatus>,
    ending: bool,
    worker: Address<PodWorkerMsg>,
}

impl Watched {
    fn look(&self, container: &Container) -> Seen {
        Seen::of(Some(&self.status), &self.pod, container, self.ending)
    }
}

struct Machine {
    schedule: ProbeSchedule,
    /// Its place in the agenda: the uptime of its next round.
    due: Option<Duration>,
    /// The probe under way, and the uptime of its beginning.
    probe: Option<(OperationId, Duration)>,
    result: Option<(ContainerId, bool)>,
    /// What the store was told last.
    remembered: Option<Remembered>,
    counts: ProbeCounts,
    /// What its probe does: `exec`, ….
    action: &'static str,
    period: Duration,
}

/// See the module.
pub struct Prober {
    agent: Arc<Agent>,
    pods: BTreeMap<PodUid, Watched>,
    machines: BTreeMap<ProbeKey, Machine>,
    /// The rounds to come, by uptime: one timer serves all that are due together.
    agenda: BTreeSet<(Duration, ProbeKey)>,
    /// That timer, set to the first of them.
    alarm: Option<(Duration, OperationId)>,
    gate: ExecGate<ProbeKey>,
    /// What is remembered is being written, or will be soon.
    saving: bool,
}

impl Role for Prober {
    const KIND: &'static str = "Prober";
    type Msg = ProberMsg;
    type Args = Arc<Agent>;

    fn begin(agent: Arc<Agent>, _: &mut Desk<ProberMsg>) -> Self {
        Self {
            agent,
            pods: BTreeMap::new(),
            machines: BTreeMap::new(),
            agenda: BTreeSet::new(),
            alarm: None,
            gate: ExecGate::new(COMMANDS_MAX),
            saving: false,
        }
    }

    fn receive(&mut self, message: ProberMsg, desk: &mut Desk<ProberMsg>) {
        match message {
            ProberMsg::PodChanged { uid, pod, status, ending, worker } => {
                self.pods.insert(uid.clone(), Watched { pod, status, ending, worker });
                self.notice(&uid, desk);
                self.repeat(&uid, desk);
            }
            ProberMsg::PodGone(uid) => self.forget(&uid, desk),
            ProberMsg::Known(known) => {
                self.agent.adapters.probe_store.keep_only(&known);
                let gone: Vec<PodUid> = self.pods.keys().filter(|uid| !known.contains(*uid)).cloned().collect();
                for uid in gone {
                    self.forget(&uid, desk);
                }
            }
            ProberMsg::RoundsDue => self.rounds(desk),
            ProberMsg::Probed(key, outcome) => self.finish(&key, outcome, desk),
            ProberMsg::Saved(outcome) => self.saved(outcome, desk),
            ProberMsg::SaveDue => self.saving = false,
            ProberMsg::Counts(reply) => {
                let counts = self.machines.iter().map(|(key, machine)| (key.clone(), machine.counts.clone()));
                let _ = reply.send(counts.collect()); // The asker may have left.
            }
            ProberMsg::Costs(uid, reply) => {
                let _ = reply.send(self.costs(&uid)); // The asker may have left.
            }
        }
        self.save(desk);
        self.set_alarm(desk);
    }
}

impl Prober {
    fn notice(&mut self, uid: &PodUid, desk: &mut Desk<ProberMsg>) {
        let watched = &self.pods[uid];
        let pod = Arc::clone(&watched.pod);
        let uptime = desk.clock().uptime();
        for (container, kind) in probes_of(&pod) {
            let key = ProbeKey { uid: uid.clone(), container: container.name.as_str().into(), kind };
            let Some(probe) = kind.of(container) else { continue };
            let seen = self.pods[uid].look(container);
            if is_over(&seen, kind) {
                self.drop_machine(&key, desk);
                continue;
            }
            let (agent, jitter) = (&self.agent, self.agent.adapters.chance.next());
            let machine = self.machines.entry(key.clone()).or_insert_with(|| {
                let age = desk.now().since(agent.settings.agent_started);
                let timing = ProbeTiming::from(probe);
                let mut schedule = ProbeSchedule::new(kind, timing, agent.settings.agent_started, age, jitter, uptime);
                let kept = agent.adapters.probe_store.of(uid).remove(&(container.name.clone(), kind));
                kept.into_iter().for_each(|kept| schedule.resume(kept));
                let (counts, action) = (ProbeCounts::of(full_name(&pod)), told::action_of(probe));
                let period = timing.period;
                Machine { schedule, due: None, probe: None, result: None, remembered: None, counts, action, period }
            });
            machine.schedule.notice(&seen, uptime);
            // What is due now begins in this turn, which is its cause.
            if machine.schedule.due().is_some_and(|due| due <= uptime) {
                self.round(&key, desk);
            } else {
                self.arm(&key, desk);
            }
        }
    }

    /// Tells the pod's worker what is known: one that was started anew has heard none of it, and hears only changes else.
    fn repeat(&self, uid: &PodUid, desk: &Desk<ProberMsg>) {
        let Some(watched) = self.pods.get(uid) else { return };
        for (key, machine) in self.machines.range(ProbeKey::first_of(uid)..).take_while(|(key, _)| key.uid == *uid) {
            if let Some((container, healthy)) = machine.result.clone() {
                desk.tell(&watched.worker, PodWorkerMsg::Probed { container, kind: key.kind, healthy });
            }
        }
    }

    fn forget(&mut self, uid: &PodUid, desk: &mut Desk<ProberMsg>) {
        self.agent.adapters.probe_store.forget(uid);
        self.pods.remove(uid);
        let of_pod = self.machines.range(ProbeKey::first_of(uid)..).map(|(key, _)| key);
        let gone: Vec<ProbeKey> = of_pod.take_while(|key| key.uid == *uid).cloned().collect();
        for key in gone {
            self.drop_machine(&key, desk);
        }
    }

    fn drop_machine(&mut self, key: &ProbeKey, desk: &mut Desk<ProberMsg>) {
        if let Some(machine) = self.machines.remove(key) {
            machine.due.map(|due| self.agenda.remove(&(due, key.clone())));
            machine.probe.into_iter().for_each(|(probe, _)| desk.cancel(probe));
        }
        self.leave_gate(key, desk);
    }

    /// The probe's command is over, if it was one: whoever waited for that is next.
    fn leave_gate(&mut self, key: &ProbeKey, desk: &mut Desk<ProberMsg>) {
        let mut next = self.gate.leave(key);
        while let Some(key) = next.take() {
            let container = self.machines.get(&key).and_then(|machine| machine.schedule.probing()).cloned();
            match container {
                Some(container) => self.probe(&key, container, desk),
                None => next = self.gate.leave(&key),
            }
        }
    }

    /// Puts the machine's next round into the agenda, in the place of the one that was there.
    fn arm(&mut self, key: &ProbeKey, desk: &Desk<ProberMsg>) {
        let Some(machine) = self.machines.get_mut(key) else { return };
        let due = machine.schedule.wake(desk.clock().uptime());
        if machine.due == due {
            return;
        }
        let before = std::mem::replace(&mut machine.due, due);
        before.map(|before| self.agenda.remove(&(before, key.clone())));
        self.agenda.extend(due.map(|due| (due, key.clone())));
    }

    fn set_alarm(&mut self, desk: &mut Desk<ProberMsg>) {
        let first = self.agenda.first().map(|(due, _)| *due);
        if self.alarm.map(|(set_to, _)| set_to) == first {
            return;
        }
        if let Some((_, timer)) = self.alarm.take() {
            desk.cancel(timer);
        }
        self.alarm = first.map(|due| {
            let delay = due.saturating_sub(desk.clock().uptime());
            (due, desk.alarm(delay, ProberMsg::RoundsDue))
        });
    }

    /// Begins the rounds that are due.
    fn rounds(&mut self, desk: &mut Desk<ProberMsg>) {
        self.alarm = None;
        let uptime = desk.clock().uptime();
        for _ in 0..ROUNDS_MAX {
            if self.agenda.first().is_none_or(|(due, _)| *due > uptime) {
                return;
            }
            if let Some((_, key)) = self.agenda.pop_first() {
                self.round(&key, desk);
            }
        }
    }

    fn round(&mut self, key: &ProbeKey, desk: &mut Desk<ProberMsg>) {
        let (wall, uptime) = (desk.now(), desk.clock().uptime());
        let Some(machine) = self.machines.get_mut(key) else { return };
        machine.due.take().map(|due| self.agenda.remove(&(due, key.clone())));
        let Some(watched) = self.pods.get(&key.uid) else { return };
        let seen = find(&watched.pod, &key.container).map_or(Seen::Nothing, |container| watched.look(container));
        let actions = machine.schedule.round(&seen, wall, uptime);
        self.perform(key, actions, desk);
        self.remember(key, desk);
        self.arm(key, desk);
    }

    fn finish(&mut self, key: &ProbeKey, round: Result<Round, Panicked>, desk: &mut Desk<ProberMsg>) {
        let panicked =
            |panicked: Panicked| Round { outcome: ProbeOutcome::Error(panicked.to_string()), timed_out: false };
        let Round { outcome, timed_out } = round.unwrap_or_else(panicked);
        self.tell_event(key, &outcome, desk);
        self.leave_gate(key, desk);
        let verdict = match outcome {
            ProbeOutcome::Failure(_) if timed_out => probe_schedule::ProbeOutcome::TimedOut,
            ProbeOutcome::Success | ProbeOutcome::Warning(_) => probe_schedule::ProbeOutcome::Success,
            ProbeOutcome::Failure(_) => probe_schedule::ProbeOutcome::Failure,
            ProbeOutcome::Error(_) => probe_schedule::ProbeOutcome::Errored,
        };
        let uptime = desk.clock().uptime();
        let Some(machine) = self.machines.get_mut(key) else { return };
        let began = machine.probe.take().map_or(uptime, |(_, began)| began);
        machine.counts.note(verdict, uptime.saturating_sub(began));
        let before = machine.schedule.put_off();
        let actions = machine.schedule.finish(verdict, uptime);
        let put_off = machine.schedule.put_off().filter(|(_, wait)| before.is_none_or(|(_, before)| before != *wait));
        self.perform(key, actions, desk);
        self.remember(key, desk);
        self.tell_put_off(key, put_off, desk);
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
                ProbeAction::Probe(container) => self.probe(key, container, desk),
                ProbeAction::End => self.drop_machine(key, desk),
            }
        }
    }

    fn probe(&mut self, key: &ProbeKey, container: ContainerId, desk: &mut Desk<ProberMsg>) {
        let Some(watched) = self.pods.get(&key.uid) else { return };
        let target = find(&watched.pod, &key.container)
            .and_then(|container| Some((container, key.kind.of(container)?)))
            .ok_or_else(|| "missing probe handler".to_owned())
            .and_then(|(container, probe)| probe_target::target(container, probe, &watched.status));
        let is_command = matches!(target, Ok(ProbeTarget::Exec { .. }));
        if is_command && !self.gate.ask(key.clone()) {
            return; // Its turn comes.
        }
        let work = attempt::make(Arc::clone(&self.agent), container, target);
        let ended = key.clone();
        let about = format!("{} of {}", key.kind, key.container);
        let operation = desk.start("probe", about, work, move |outcome| ProberMsg::Probed(ended, outcome));
        let began = desk.clock().uptime();
        if let Some(machine) = self.machines.get_mut(key) {
            machine.probe = Some((operation, began));
        }
    }
}

/// Whether the container is not to be probed so any more, whatever it answers: nothing is restarted in a pod that ends
/// (PRB-21), so only readiness and a sidecar's probes go on.
fn is_over(seen: &Seen, kind: ProbeKind) -> bool {
    match seen {
        Seen::PodOver => true,
        Seen::Container(Target { ends, .. }) => *ends && kind != ProbeKind::Readiness,
        Seen::Nothing => false,
    }
}

fn containers(pod: &Pod, init: bool) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(move |spec| if init { spec.init_containers.as_deref().unwrap_or_default() } else { &spec.containers })
}

fn find<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    containers(pod, false).chain(containers(pod, true)).find(|container| container.name == name)
}

#[cfg(test)]
mod load_tests;
#[cfg(test)]
mod tests;
