//! `Prober`: probes containers; tells each pod's worker what came of it.
//!
//! Parent: Root. Restarted: after a failure; workers tell it their pods again. One machine (`logic::probes::probe_schedule`)
//! for each container and kind of probe; a probe under way is an operation, or a part of one with all that began in the same
//! turn. One that hangs holds up nobody. A machine has one probe under way at most, so that those of a container that hangs
//! cannot pile up. Commands of all containers pass one gate, which is fair by pod (SEC-47, SEC-48). Their memory outlives
//! the agent in `platform::pods::probe_store` (PAIN-16).

mod attempt;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus, Probe};

use attempt::Aim;
pub(in crate::actors) use attempt::output;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId, Part};
use crate::actors::kit::untold::Untold;
use crate::cri::RuntimeService;
use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::model::time::Moment;
use crate::logic::pods::pod_roster::full_name;
use crate::logic::probes::exec_gate::{ExecGate, GateLimits};
use crate::logic::probes::probe_kind::ProbeKind;
use crate::logic::probes::probe_memory::Remembered;
use crate::logic::probes::probe_schedule;
use crate::logic::probes::probe_schedule::{ProbeAction, ProbeSchedule, ProbeTiming, Seen, Target, probes_of};
use crate::logic::probes::probe_target::{self, ProbeTarget};
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::pods::pod_worker::PodWorkerMsg;
use crate::messages::prober::{ProbeCounts, ProbeId, ProbeKey, Probed, ProberMsg, Round};
use crate::messages::{Lost, Subscriber};
use crate::platform::host::chance::Chance;
use crate::platform::network::network_probe::{NetworkProbe, NetworkProber, ProbeOutcome};
use crate::platform::pods::probe_store::ProbeStore;

/// Commands of probes under way at once: on the whole node, of those in their first seconds; and of one pod.
const COMMANDS: GateLimits = GateLimits { places: 32, of_pod: 8, hold: Duration::from_secs(10) };
/// Rounds that begin in one turn, before other actors have theirs: each connection takes the thread some 50 µs. More that
/// are due at once begin in the next.
const ROUNDS_MAX: usize = 32;
/// From one writing of what is remembered to the next; after one that failed.
const SAVE_PERIOD: Duration = Duration::from_secs(1);
const SAVE_RETRY: Duration = Duration::from_secs(30);

/// The actor's arguments.
pub struct Args {
    /// When the agent started: containers that ran before are not probed as new ones. The epoch where all of them are.
    pub agent_started: Moment,
    /// Runs commands in containers.
    pub runtime: Arc<dyn RuntimeService>,
    /// Probes over the network.
    pub network: Arc<dyn NetworkProber>,
    /// Memory of probes.
    pub probe_store: Arc<ProbeStore>,
    /// Spreads first rounds.
    pub chance: Arc<dyn Chance>,
    /// Hears of probes that fail.
    pub event_recorder: Address<EventRecorderMsg>,
}

struct Watched {
    pod: Arc<Pod>,
    worker: Subscriber<PodWorkerMsg>,
}

struct Machine {
    key: ProbeKey,
    schedule: ProbeSchedule,
    /// The container, as last told.
    seen: Seen,
    /// The action of the probe, made ready.
    target: Result<ProbeTarget, String>,
    aim: Aim,
    /// Its place in the agenda: the uptime of its next round.
    due: Option<Duration>,
    /// The probe under way, and the uptime of its beginning.
    probe: Option<(UnderWay, Duration)>,
    result: Option<(ContainerId, bool)>,
    /// The last memory that the store was given.
    remembered: Option<Remembered>,
    counts: ProbeCounts,
    /// The action of its probe: `exec`, ….
    action: &'static str,
    period: Duration,
}

/// A probe under way: over the network as one of many, or alone.
enum UnderWay {
    /// It begins with the others of this turn.
    Loaded,
    Part(Part),
    Alone(OperationId),
}

/// See the module.
pub struct Prober {
    args: Args,
    pods: BTreeMap<PodUid, Watched>,
    ids: BTreeMap<ProbeKey, ProbeId>,
    machines: BTreeMap<ProbeId, Machine>,
    /// The rounds to come, by uptime: one timer serves all that are due together.
    agenda: BTreeSet<(Duration, ProbeId)>,
    /// That timer, set to the first of them, or to when a place for a command becomes free.
    alarm: Option<(Duration, OperationId)>,
    /// The probes over the network that begin with this turn's end, all at once.
    volley: Vec<(PodUid, ProbeId, Arc<dyn NetworkProbe>)>,
    gate: ExecGate<PodUid, ProbeId>,
    /// Results that workers had no room for.
    untold: Untold<ProbeId, ProberMsg>,
    /// The memory is being written, or will be soon.
    saving: bool,
}

impl Actor for Prober {
    const KIND: &'static str = "Prober";
    type Msg = ProberMsg;
    type Args = Args;

    fn begin(args: Args, _: &mut Context<ProberMsg>) -> Self {
        Self {
            args,
            pods: BTreeMap::new(),
            ids: BTreeMap::new(),
            machines: BTreeMap::new(),
            agenda: BTreeSet::new(),
            alarm: None,
            volley: Vec::new(),
            gate: ExecGate::new(COMMANDS),
            untold: Untold::new(|| ProberMsg::RetellDue),
            saving: false,
        }
    }

    fn receive(&mut self, message: ProberMsg, context: &mut Context<ProberMsg>) {
        match message {
            ProberMsg::PodChanged { uid, pod, status, ending, worker } => {
                self.pods.insert(uid.clone(), Watched { pod: Arc::clone(&pod), worker });
                self.notice(&uid, &pod, &status, ending, context);
                self.repeat(&uid, context);
            }
            ProberMsg::PodGone(uid) => self.forget(&uid, context),
            ProberMsg::Known(known) => {
                self.args.probe_store.keep_only(&known);
                let gone: Vec<PodUid> = self.pods.keys().filter(|uid| !known.contains(*uid)).cloned().collect();
                for uid in gone {
                    self.forget(&uid, context);
                }
            }
            ProberMsg::RoundsDue => self.rounds(context),
            ProberMsg::Probed(ended) => {
                for Probed { id, round, .. } in ended {
                    self.finish(id, round, context);
                }
            }
            ProberMsg::Saved(outcome) => self.saved(outcome, context),
            ProberMsg::SaveDue => self.saving = false,
            ProberMsg::RetellDue => self.untold.tell_again(context),
            ProberMsg::Counts(reply) => {
                let counts = self.ids.iter().map(|(key, id)| (key.clone(), self.machines[id].counts.clone()));
                let _ = reply.send(counts.collect()); // The asker may have left.
            }
            ProberMsg::Costs(uid, reply) => {
                let _ = reply.send(self.costs(&uid)); // The asker may have left.
            }
        }
        self.let_in(context);
        self.fire(context);
        self.save(context);
        self.set_alarm(context);
    }
}

impl Prober {
    /// The machines of a pod's probes.
    fn of_pod(&self, uid: &PodUid) -> impl Iterator<Item = ProbeId> {
        self.ids.range(ProbeKey::first_of(uid)..).take_while(move |(key, _)| key.uid == *uid).map(|(_, id)| *id)
    }

    fn notice(&mut self, uid: &PodUid, pod: &Pod, status: &PodStatus, ending: bool, context: &mut Context<ProberMsg>) {
        let uptime = context.clock().uptime();
        let mut others: BTreeSet<ProbeId> = self.of_pod(uid).collect();
        for (container, kind) in probes_of(pod) {
            let key = ProbeKey { uid: uid.clone(), container: container.name.as_str().into(), kind };
            let Some(probe) = kind.of(container) else { continue };
            let seen = Seen::of(Some(status), pod, container, ending);
            let known = self.ids.get(&key).copied();
            known.map(|id| others.remove(&id));
            if is_over(&seen, kind) {
                known.into_iter().for_each(|id| self.drop_machine(id, context));
                continue;
            }
            let id = known.unwrap_or_else(|| self.add(key, pod, probe, context));
            let Some(machine) = self.machines.get_mut(&id) else { continue };
            let target = probe_target::target(container, probe, status);
            if machine.target != target {
                machine.target.clone_from(&target);
                machine.aim = Aim::at(target, &*self.args.network);
            }
            machine.schedule.notice(&seen, uptime);
            machine.seen = seen;
            // A probe that is due now begins in this turn, which is its cause.
            if machine.schedule.due().is_some_and(|due| due <= uptime) {
                self.round(id, context);
            } else {
                self.arm(id, context);
            }
        }
        for id in others {
            self.machines.get_mut(&id).into_iter().for_each(|machine| machine.seen = Seen::Nothing);
        }
    }

    fn add(&mut self, key: ProbeKey, pod: &Pod, probe: &Probe, context: &Context<ProberMsg>) -> ProbeId {
        let timing = ProbeTiming::from(probe);
        let (started, age) = (self.args.agent_started, context.clock().uptime());
        let jitter = self.args.chance.next();
        let mut schedule = ProbeSchedule::new(key.kind, timing, started, age, jitter, context.clock().uptime());
        let kept = self.args.probe_store.of(&key.uid).remove(&(key.container.to_string(), key.kind));
        kept.into_iter().for_each(|kept| schedule.resume(kept));
        let id = ProbeId(context.clock().stamp().0);
        self.ids.insert(key.clone(), id);
        let machine = Machine {
            key,
            schedule,
            seen: Seen::Nothing,
            target: Err(String::new()),
            aim: Aim::Nowhere(String::new()),
            due: None,
            probe: None,
            result: None,
            remembered: None,
            counts: ProbeCounts::of(full_name(pod)),
            action: told::action_of(probe),
            period: timing.period,
        };
        self.machines.insert(id, machine);
        id
    }

    /// Tells the pod's worker what is known: one that was started anew has heard none of it, and hears only changes else.
    fn repeat(&mut self, uid: &PodUid, context: &mut Context<ProberMsg>) {
        let ids: Vec<ProbeId> = self.of_pod(uid).collect();
        ids.into_iter().for_each(|id| self.tell_result(id, context));
    }

    /// Tells the pod's worker the result of one probe. Nobody else repeats it: a container whose liveness probe failed would
    /// run on.
    fn tell_result(&mut self, id: ProbeId, context: &mut Context<ProberMsg>) {
        let Some(machine) = self.machines.get(&id) else { return };
        let Some(worker) = self.pods.get(&machine.key.uid).map(|watched| watched.worker.clone()) else { return };
        let (Some((container, healthy)), kind) = (machine.result.clone(), machine.key.kind) else { return };
        let tell = move |context: &Context<ProberMsg>| {
            context.try_tell_subscriber(&worker, PodWorkerMsg::Probed { container: container.clone(), kind, healthy })
        };
        self.untold.tell(id, tell, context);
    }

    fn forget(&mut self, uid: &PodUid, context: &mut Context<ProberMsg>) {
        self.args.probe_store.forget(uid);
        self.pods.remove(uid);
        let gone: Vec<ProbeId> = self.of_pod(uid).collect();
        for id in gone {
            self.drop_machine(id, context);
        }
    }

    fn drop_machine(&mut self, id: ProbeId, context: &mut Context<ProberMsg>) {
        if let Some(machine) = self.machines.remove(&id) {
            self.ids.remove(&machine.key);
            machine.due.map(|due| self.agenda.remove(&(due, id)));
            match machine.probe {
                Some((UnderWay::Alone(operation), _)) => context.cancel(operation),
                Some((UnderWay::Part(part), _)) => part.cancel(),
                Some((UnderWay::Loaded, _)) => self.volley.retain(|(_, loaded, _)| *loaded != id),
                None => {}
            }
        }
        self.untold.keep_only(|untold| *untold != id);
        self.gate.leave(&id);
    }

    /// Puts the machine's next round into the agenda, in the place of the one that was there.
    fn arm(&mut self, id: ProbeId, context: &Context<ProberMsg>) {
        let Some(machine) = self.machines.get_mut(&id) else { return };
        let due = machine.schedule.wake(context.clock().uptime());
        if machine.due == due {
            return;
        }
        let before = std::mem::replace(&mut machine.due, due);
        before.map(|before| self.agenda.remove(&(before, id)));
        self.agenda.extend(due.map(|due| (due, id)));
    }

    fn set_alarm(&mut self, context: &mut Context<ProberMsg>) {
        let round = self.agenda.first().map(|(due, _)| *due);
        let first = round.into_iter().chain(self.gate.due(context.clock().uptime())).min();
        if self.alarm.map(|(set_to, _)| set_to) == first {
            return;
        }
        if let Some((_, timer)) = self.alarm.take() {
            context.cancel(timer);
        }
        self.alarm = first.map(|due| {
            let delay = due.saturating_sub(context.clock().uptime());
            (due, context.alarm(delay, ProberMsg::RoundsDue))
        });
    }

    /// Begins the rounds that are due.
    fn rounds(&mut self, context: &mut Context<ProberMsg>) {
        self.alarm = None;
        let uptime = context.clock().uptime();
        for _ in 0..ROUNDS_MAX {
            if self.agenda.first().is_none_or(|(due, _)| *due > uptime) {
                return;
            }
            if let Some((due, id)) = self.agenda.pop_first() {
                let machine = self.machines.get(&id);
                debug_assert!(
                    machine.is_some_and(|machine| machine.due == Some(due)),
                    "the agenda holds the next round of each machine, and nothing else"
                );
                self.round(id, context);
            }
        }
    }

    fn round(&mut self, id: ProbeId, context: &mut Context<ProberMsg>) {
        let (wall, uptime) = (context.now(), context.clock().uptime());
        let Some(machine) = self.machines.get_mut(&id) else { return };
        machine.due.take().map(|due| self.agenda.remove(&(due, id)));
        let actions = machine.schedule.round(&machine.seen, wall, uptime);
        self.perform(id, actions, context);
        self.remember(id, context);
        self.arm(id, context);
    }

    /// Takes the outcome of a probe, unless nobody waits for it any more.
    fn finish(&mut self, id: ProbeId, round: Result<Round, Lost>, context: &mut Context<ProberMsg>) {
        let Some(machine) = self.machines.get_mut(&id) else { return };
        let uptime = context.clock().uptime();
        let began = machine.probe.take().map_or(uptime, |(_, began)| began);
        let loss = |loss: Lost| Round { outcome: ProbeOutcome::Error(loss.to_string()), timed_out: false };
        let Round { outcome, timed_out } = round.unwrap_or_else(loss);
        let verdict = match outcome {
            ProbeOutcome::Failure(_) if timed_out => probe_schedule::ProbeOutcome::TimedOut,
            ProbeOutcome::Success | ProbeOutcome::Warning(_) => probe_schedule::ProbeOutcome::Success,
            ProbeOutcome::Failure(_) => probe_schedule::ProbeOutcome::Failure,
            ProbeOutcome::Error(_) => probe_schedule::ProbeOutcome::Errored,
        };
        machine.counts.note(verdict, uptime.saturating_sub(began));
        let before = machine.schedule.put_off();
        let actions = machine.schedule.finish(verdict, uptime);
        let put_off = machine.schedule.put_off().filter(|(_, wait)| before.is_none_or(|(_, before)| before != *wait));
        self.tell_event(id, &outcome, context);
        self.gate.leave(&id);
        self.perform(id, actions, context);
        self.remember(id, context);
        self.tell_put_off(id, put_off, context);
        self.arm(id, context);
    }

    fn perform(&mut self, id: ProbeId, actions: Vec<ProbeAction>, context: &mut Context<ProberMsg>) {
        for action in actions {
            let Some(machine) = self.machines.get_mut(&id) else { return };
            match action {
                ProbeAction::Store(container, healthy) => {
                    let result = Some((container, healthy));
                    if machine.result != result {
                        machine.result = result;
                        self.tell_result(id, context);
                    }
                }
                ProbeAction::Forget(_) => {
                    machine.result = None;
                    self.untold.keep_only(|untold| *untold != id);
                }
                ProbeAction::Probe(_) => self.probe(id, context),
                ProbeAction::End => self.drop_machine(id, context),
            }
        }
    }

    fn probe(&mut self, id: ProbeId, context: &mut Context<ProberMsg>) {
        let Some(machine) = self.machines.get_mut(&id) else { return };
        let began = context.clock().uptime();
        match &machine.aim {
            Aim::Network(probe) => {
                self.volley.push((machine.key.uid.clone(), id, Arc::clone(probe)));
                machine.probe = Some((UnderWay::Loaded, began));
            }
            Aim::Nowhere(problem) => {
                let round = Round { outcome: ProbeOutcome::Error(problem.clone()), timed_out: false };
                let ended = ProberMsg::Probed(vec![Probed { uid: machine.key.uid.clone(), id, round: Ok(round) }]);
                machine.probe = Some((UnderWay::Alone(context.after(Duration::ZERO, ended)), began));
            }
            Aim::Command(..) => self.gate.ask(&machine.key.uid, id),
        }
    }

    /// Begins the commands whose turn it is.
    fn let_in(&mut self, context: &mut Context<ProberMsg>) {
        let uptime = context.clock().uptime();
        while let Some(id) = self.gate.admit(uptime) {
            let machine = self.machines.get_mut(&id);
            let wanted = machine.and_then(|machine| Some((machine.schedule.probing().cloned()?, machine)));
            let Some((container, machine)) = wanted else {
                self.gate.leave(&id);
                continue;
            };
            let Aim::Command(command, timeout) = &machine.aim else {
                self.gate.leave(&id); // It changed while it waited.
                self.probe(id, context);
                continue;
            };
            let (uid, about) = (machine.key.uid.clone(), machine.key.about());
            let work = attempt::run(Arc::clone(&self.args.runtime), container, Arc::clone(command), *timeout);
            let ended = move |round| ProberMsg::Probed(vec![Probed { uid, id, round }]);
            machine.probe = Some((UnderWay::Alone(context.start("probe", about, work, ended)), uptime));
        }
    }

    /// Begins the probes over the network that this turn has led to.
    fn fire(&mut self, context: &mut Context<ProberMsg>) {
        let volley = std::mem::take(&mut self.volley);
        let Some(first) = volley.first().and_then(|(_, id, _)| self.machines.get(id)) else { return };
        let about = match volley.len() {
            1 => first.key.about(),
            many => format!("{} and {} more", first.key.about(), many - 1),
        };
        let ids: Vec<ProbeId> = volley.iter().map(|(_, id, _)| *id).collect();
        let works = volley.into_iter().map(|(uid, id, probe)| ((uid, id), attempt::ask(probe))).collect();
        let ended = |rounds: Vec<((PodUid, ProbeId), Result<Round, Lost>)>| {
            ProberMsg::Probed(rounds.into_iter().map(|((uid, id), round)| Probed { uid, id, round }).collect())
        };
        let parts = context.start_each("probe", about, works, ended);
        for (id, part) in ids.into_iter().zip(parts) {
            let machine = self.machines.get_mut(&id);
            machine
                .and_then(|machine| machine.probe.as_mut())
                .into_iter()
                .for_each(|(probe, _)| *probe = UnderWay::Part(part.clone()));
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

#[cfg(test)]
mod tests;
