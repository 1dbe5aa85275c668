//! `RuntimeMonitor`: asks the runtime how it is, and tells `PodManager` when that changes.
//!
//! Parent: Root. Restarted: after a failure; the next poll tells it all.

use std::sync::Arc;
use std::time::Duration;

use super::desk::Desk;
use super::role::Role;
use super::settings::Agent;
use crate::cri::{CriResult, RuntimeStatus};
use crate::logic::runtime_health::{self, RuntimeHealth};
use crate::logic::time::Moment;
use crate::messages::pod_manager::PodManagerMsg;
use crate::messages::runtime_monitor::RuntimeMonitorMsg;

/// Wait between polls (POD-12).
pub const POLL_PERIOD: Duration = Duration::from_secs(5);

/// See the module.
pub struct RuntimeMonitor {
    agent: Arc<Agent>,
    last_good: Option<Moment>,
    polled: Option<RuntimeHealth>,
    pleg_problem: Option<String>,
    told: Option<RuntimeHealth>,
}

impl Role for RuntimeMonitor {
    const KIND: &'static str = "RuntimeMonitor";
    type Msg = RuntimeMonitorMsg;
    type Args = Arc<Agent>;

    fn begin(agent: Arc<Agent>, desk: &mut Desk<RuntimeMonitorMsg>) -> Self {
        let monitor = Self { agent, last_good: None, polled: None, pleg_problem: None, told: None };
        monitor.poll(desk);
        monitor
    }

    fn receive(&mut self, message: RuntimeMonitorMsg, desk: &mut Desk<RuntimeMonitorMsg>) {
        match message {
            RuntimeMonitorMsg::PollDue => self.poll(desk),
            RuntimeMonitorMsg::Polled(outcome) => {
                let answer = outcome.map_err(|panicked| panicked.to_string());
                self.take(answer, desk.now());
                desk.after(POLL_PERIOD, RuntimeMonitorMsg::PollDue);
            }
            RuntimeMonitorMsg::PlegProblem(problem) => self.pleg_problem = problem,
            RuntimeMonitorMsg::Repeat => self.told = None,
            RuntimeMonitorMsg::Current(reply) => {
                let _ = reply.send(self.health()); // The asker may have left.
                return;
            }
        }
        self.tell(desk);
    }
}

impl RuntimeMonitor {
    fn poll(&self, desk: &mut Desk<RuntimeMonitorMsg>) {
        let runtime = Arc::clone(&self.agent.adapters.runtime);
        desk.start(
            "runtime status",
            "the container runtime",
            async move { runtime.status().await },
            RuntimeMonitorMsg::Polled,
        );
    }

    fn take(&mut self, answer: Result<CriResult<RuntimeStatus>, String>, now: Moment) {
        let status = answer.and_then(|answer| answer.map_err(|error| error.to_string()));
        let conditions = status.as_ref().map(|status| {
            ["RuntimeReady", "NetworkReady"].map(|kind| {
                let condition = status.condition(kind);
                condition.map(|found| (found.status, found.reason.clone(), found.message.clone()))
            })
        });
        if status.is_ok() {
            self.last_good = Some(now);
        }
        self.polled =
            Some(runtime_health::judge(conditions.map_err(Clone::clone), self.last_good, now, self.polled.as_ref()));
    }

    fn health(&self) -> RuntimeHealth {
        let mut health = self.polled.clone().unwrap_or_else(runtime_health::not_yet_known);
        if health.runtime_problem.is_none() {
            health.runtime_problem.clone_from(&self.pleg_problem);
        }
        health
    }

    fn tell(&mut self, desk: &Desk<RuntimeMonitorMsg>) {
        let health = self.health();
        let news = self.polled.is_some() && self.told.as_ref() != Some(&health);
        // One who is not there yet hears it after the next poll.
        if news && self.agent.directory.pod_manager.is_up() {
            if let Some(problem) = &health.runtime_problem {
                tracing::warn!(problem, "container runtime cannot be used");
            }
            if let Some(problem) = &health.network_problem {
                tracing::warn!(problem, "container runtime network not ready");
            }
            // Where there was no room for it, it is news again after the next poll.
            let has_room = desk.offer(&self.agent.directory.pod_manager, PodManagerMsg::HealthChanged(health.clone()));
            self.told = has_room.then_some(health);
        }
    }
}
