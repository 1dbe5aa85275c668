//! News of `Prober` for others than workers: Events, the cost of probes, and their memory.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;

use super::{Prober, SAVE_PERIOD, SAVE_RETRY};
use crate::actors::kit::context::Context;
use crate::logic::events::reasons::EventReason;
use crate::logic::model::backoff::go_duration;
use crate::logic::model::ids::PodUid;
use crate::logic::pods::pod_roster::full_name;
use crate::messages::Ended;
use crate::messages::event_recorder::EventSubject;
use crate::messages::prober::{ProbeCost, ProbeId, ProbeKey, ProberMsg};
use crate::platform::network::network_probe::ProbeOutcome;

/// The action of a probe, in the API's word.
pub(super) fn action_of(probe: &Probe) -> &'static str {
    match () {
        () if probe.exec.is_some() => "exec",
        () if probe.http_get.is_some() => "httpGet",
        () if probe.tcp_socket.is_some() => "tcpSocket",
        () if probe.grpc.is_some() => "grpc",
        () => "",
    }
}

impl Prober {
    /// Has what the machine knows outlive this agent.
    pub(super) fn remember(&mut self, id: ProbeId, context: &Context<ProberMsg>) {
        let Some(machine) = self.machines.get_mut(&id) else { return };
        let result = machine.result.as_ref().map(|(_, healthy)| *healthy);
        let Some(now) = machine.schedule.memory(result, context.now()) else { return };
        if machine.remembered.as_ref().is_none_or(|before| !before.says_as(&now)) {
            machine.remembered = Some(now.clone());
            let key = &machine.key;
            self.args.probe_store.note(&key.uid, &key.container, key.kind, now);
        }
    }

    /// Writes what is news: at once, then not again for a while.
    pub(super) fn save(&mut self, context: &mut Context<ProberMsg>) {
        if self.saving || !self.args.probe_store.is_to_be_saved() {
            return;
        }
        self.saving = true;
        let store = self.args.probe_store.clone();
        let work = async move { store.save().await.map_err(|error| error.to_string()) };
        context.start("keep results", "", work, |outcome| ProberMsg::Saved(outcome.into()));
    }

    pub(super) fn saved(&self, outcome: Ended<()>, context: &mut Context<ProberMsg>) {
        let problem = outcome.into_result().err();
        if let Some(problem) = &problem {
            tracing::warn!(problem, "results of probes would not outlive this agent");
        }
        context.after(if problem.is_some() { SAVE_RETRY } else { SAVE_PERIOD }, ProberMsg::SaveDue);
    }

    /// The cost of the pod's probes.
    pub(super) fn costs(&self, uid: &PodUid) -> Vec<ProbeCost> {
        let cost = |id: ProbeId| {
            let machine = &self.machines[&id];
            ProbeCost {
                key: machine.key.clone(),
                action: machine.action,
                period: machine.period,
                counts: machine.counts.clone(),
                put_off: machine.schedule.put_off().map(|(_, wait)| wait),
                waits_for_turn: self.gate.waits(&id),
            }
        };
        self.of_pod(uid).map(cost).collect()
    }

    /// A warning that a command never ends in time, as often as the wait grows (SEC-47).
    pub(super) fn tell_put_off(&self, id: ProbeId, put_off: Option<(u32, Duration)>, context: &Context<ProberMsg>) {
        let Some((times, wait)) = put_off else { return };
        let Some((key, subject)) = self.subject(id) else { return };
        let wait = go_duration(wait);
        let message = format!(
            "{} probe warning: its command has timed out {times} times in a row and may run on in the container; \
             it is run again in {wait}",
            key.kind
        );
        context.tell(&self.args.event_recorder, subject.warning(EventReason::ProbeWarning, message));
    }

    pub(super) fn tell_event(&self, id: ProbeId, outcome: &ProbeOutcome, context: &Context<ProberMsg>) {
        if *outcome == ProbeOutcome::Success {
            return;
        }
        let Some((key, subject)) = self.subject(id) else { return };
        let (reason, text) = match outcome {
            ProbeOutcome::Success => return,
            ProbeOutcome::Warning(text) => (EventReason::ProbeWarning, format!("{} probe warning: {text}", key.kind)),
            ProbeOutcome::Failure(text) => (EventReason::Unhealthy, format!("{} probe failed: {text}", key.kind)),
            ProbeOutcome::Error(text) => {
                (EventReason::Unhealthy, format!("{} probe errored and resulted in unknown state: {text}", key.kind))
            }
        };
        context.tell(&self.args.event_recorder, subject.warning(reason, text));
    }

    fn subject(&self, id: ProbeId) -> Option<(&ProbeKey, EventSubject)> {
        let key = &self.machines.get(&id)?.key;
        let pod = &self.pods.get(&key.uid)?.pod;
        let mut regular = pod.spec.iter().flat_map(|spec| &spec.containers);
        let list = if regular.any(|one| *one.name == *key.container) { "containers" } else { "initContainers" };
        let field_path = format!("spec.{list}{{{}}}", key.container);
        Some((key, EventSubject { uid: key.uid.clone(), full_name: full_name(pod), field_path }))
    }
}
