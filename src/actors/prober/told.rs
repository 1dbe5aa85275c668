//! What `Prober` tells others than workers: Events, what probes cost, and what is to be remembered of them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;

use super::{Prober, SAVE_PERIOD, SAVE_RETRY, containers};
use crate::actors::desk::{Desk, Panicked};
use crate::actors::settings::EventSubject;
use crate::logic::backoff::go_duration;
use crate::logic::ids::PodUid;
use crate::logic::pod_roster::full_name;
use crate::messages::prober::{ProbeCost, ProbeKey, ProberMsg};
use crate::platform::network_probe::ProbeOutcome;

/// What a probe does, in the API's word.
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
    pub(super) fn remember(&mut self, key: &ProbeKey, desk: &Desk<ProberMsg>) {
        let Some(machine) = self.machines.get_mut(key) else { return };
        let result = machine.result.as_ref().map(|(_, healthy)| *healthy);
        let Some(now) = machine.schedule.memory(result, desk.now()) else { return };
        if machine.remembered.as_ref().is_none_or(|before| !before.says_as(&now)) {
            machine.remembered = Some(now.clone());
            self.agent.adapters.probe_store.note(&key.uid, &key.container, key.kind, now);
        }
    }

    /// Writes what is news: at once, then not again for a while.
    pub(super) fn save(&mut self, desk: &mut Desk<ProberMsg>) {
        if self.saving || !self.agent.adapters.probe_store.is_to_be_saved() {
            return;
        }
        self.saving = true;
        let store = self.agent.adapters.probe_store.clone();
        desk.start("keep results", "", async move { store.save().await }, ProberMsg::Saved);
    }

    pub(super) fn saved(&self, outcome: Result<Result<(), String>, Panicked>, desk: &mut Desk<ProberMsg>) {
        let problem = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(problem)) => Some(problem),
            Err(panicked) => Some(panicked.to_string()),
        };
        if let Some(problem) = &problem {
            tracing::warn!(problem, "results of probes would not outlive this agent");
        }
        desk.after(if problem.is_some() { SAVE_RETRY } else { SAVE_PERIOD }, ProberMsg::SaveDue);
    }

    /// What the pod's probes cost.
    pub(super) fn costs(&self, uid: &PodUid) -> Vec<ProbeCost> {
        let of_pod = self.machines.range(ProbeKey::first_of(uid)..).take_while(|(key, _)| key.uid == *uid);
        let cost = |(key, machine): (&ProbeKey, &super::Machine)| ProbeCost {
            key: key.clone(),
            action: machine.action,
            period: machine.period,
            counts: machine.counts.clone(),
            put_off: machine.schedule.put_off().map(|(_, wait)| wait),
            waits_for_turn: self.gate.waits(key),
        };
        of_pod.map(cost).collect()
    }

    /// A warning that a command never ends in time, as often as the wait grows (SEC-47).
    pub(super) fn tell_put_off(&self, key: &ProbeKey, put_off: Option<(u32, Duration)>, desk: &Desk<ProberMsg>) {
        let (Some((times, wait)), Some(subject)) = (put_off, self.subject(key)) else { return };
        let wait = go_duration(wait);
        let message = format!(
            "{} probe warning: its command has timed out {times} times in a row and may run on in the container; \
             it is run again in {wait}",
            key.kind
        );
        desk.tell(&self.agent.directory.event_recorder, subject.warning("ProbeWarning", message));
    }

    pub(super) fn tell_event(&self, key: &ProbeKey, outcome: &ProbeOutcome, desk: &Desk<ProberMsg>) {
        let (reason, text) = match outcome {
            ProbeOutcome::Success => return,
            ProbeOutcome::Warning(text) => ("ProbeWarning", format!("{} probe warning: {text}", key.kind)),
            ProbeOutcome::Failure(text) => ("Unhealthy", format!("{} probe failed: {text}", key.kind)),
            ProbeOutcome::Error(text) => {
                ("Unhealthy", format!("{} probe errored and resulted in unknown state: {text}", key.kind))
            }
        };
        let Some(subject) = self.subject(key) else { return };
        desk.tell(&self.agent.directory.event_recorder, subject.warning(reason, text));
    }

    fn subject(&self, key: &ProbeKey) -> Option<EventSubject> {
        let watched = self.pods.get(&key.uid)?;
        let is_regular = containers(&watched.pod, false).any(|container| *container.name == *key.container);
        let list = if is_regular { "containers" } else { "initContainers" };
        let field_path = format!("spec.{list}{{{}}}", key.container);
        Some(EventSubject { uid: key.uid.clone(), full_name: full_name(&watched.pod), field_path })
    }
}
