//! `RuntimeMonitor`: asks the runtime how it is, and tells `PodManager` and `NodeStatus` when that changes.
//!
//! Parent: Root. Restarted: after a failure; the next poll tells it all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::single_flight::SingleFlight;
use crate::cri::{RuntimeHandler, RuntimeService, RuntimeStatus};
use crate::logic::model::runtime_health::{self, RuntimeHealth, SILENCE_MAX};
use crate::logic::node::node_status::{HandlerFact, RuntimeFact};
use crate::messages::node::node_status::{NodeNews, NodeStatusMsg};
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::runtime::runtime_monitor::RuntimeMonitorMsg;

/// Wait between polls (POD-12).
pub const POLL_PERIOD: Duration = Duration::from_secs(5);

/// The actor's arguments.
pub struct Args {
    /// The runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// Hears what the runtime can do, and how it is.
    pub node_status: Address<NodeStatusMsg>,
    /// Hears how the runtime is.
    pub pod_manager: Address<PodManagerMsg>,
}

/// See the module.
pub struct RuntimeMonitor {
    args: Args,
    /// When the runtime was last heard, as an uptime, and why it was not since.
    last_good: Option<Duration>,
    why_silent: Option<String>,
    polled: Option<RuntimeHealth>,
    pleg_problem: Option<String>,
    told: Option<RuntimeHealth>,
    /// The abilities of the runtime, as it said when it was last ready, and whether `NodeStatus` has them.
    able: Option<RuntimeFact>,
    able_told: bool,
    /// The part of that about user namespaces, by handler.
    user_namespaces: Arc<BTreeMap<String, bool>>,
    polls: SingleFlight<()>,
    /// The wait for the next poll; none while one is under way.
    timer: Option<OperationId>,
    /// The end of a silence that is borne; none while there is no silence. A call that hangs must not be waited for.
    silence: Option<OperationId>,
}

impl Actor for RuntimeMonitor {
    const KIND: &'static str = "RuntimeMonitor";
    type Msg = RuntimeMonitorMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<RuntimeMonitorMsg>) -> Self {
        let mut monitor = Self {
            args,
            last_good: None,
            why_silent: None,
            polled: None,
            pleg_problem: None,
            told: None,
            able: None,
            able_told: false,
            user_namespaces: Arc::default(),
            polls: SingleFlight::default(),
            timer: None,
            silence: None,
        };
        monitor.poll(context);
        monitor
    }

    fn receive(&mut self, message: RuntimeMonitorMsg, context: &mut Context<RuntimeMonitorMsg>) {
        match message {
            RuntimeMonitorMsg::PollDue | RuntimeMonitorMsg::LookNow => self.poll(context),
            RuntimeMonitorMsg::Polled(outcome) => {
                self.take(outcome.into_result(), context);
                match self.polls.end() {
                    (_, Some(())) => self.poll(context),
                    (_, None) => self.timer = Some(context.after(POLL_PERIOD, RuntimeMonitorMsg::PollDue)),
                }
            }
            RuntimeMonitorMsg::SilenceDue => self.note_silence(context),
            RuntimeMonitorMsg::PlegProblem(problem) => self.pleg_problem = problem,
            RuntimeMonitorMsg::Repeat => (self.told, self.able_told) = (None, false),
            RuntimeMonitorMsg::Current(reply) => {
                let _ = reply.send(self.health()); // The asker may have left.
                return;
            }
        }
        self.tell(context);
    }
}

impl RuntimeMonitor {
    fn poll(&mut self, context: &mut Context<RuntimeMonitorMsg>) {
        if self.polls.want(()).is_none() {
            return;
        }
        if let Some(timer) = self.timer.take() {
            context.cancel(timer);
        }
        let runtime = Arc::clone(&self.args.runtime);
        context.start("runtime status", "the container runtime", async move { runtime.status().await }, |outcome| {
            RuntimeMonitorMsg::Polled(outcome.into())
        });
        let borne = self.silent(context).and_then(|silent| SILENCE_MAX.checked_sub(silent));
        if let Some(borne) = borne.filter(|borne| !borne.is_zero() && self.silence.is_none()) {
            self.silence = Some(context.after(borne, RuntimeMonitorMsg::SilenceDue));
        }
    }

    /// For how long the runtime was not heard; `None` when it never was.
    fn silent(&self, context: &Context<RuntimeMonitorMsg>) -> Option<Duration> {
        self.last_good.map(|last| context.clock().uptime().saturating_sub(last))
    }

    fn take(&mut self, status: Result<RuntimeStatus, String>, context: &mut Context<RuntimeMonitorMsg>) {
        let conditions = status.as_ref().map(|status| {
            ["RuntimeReady", "NetworkReady"].map(|kind| {
                let condition = status.condition(kind);
                condition.map(|found| (found.status, found.reason.clone(), found.message.clone()))
            })
        });
        if let Ok(status) = &status {
            self.last_good = Some(context.clock().uptime());
            if let Some(silence) = self.silence.take() {
                context.cancel(silence);
            }
            self.take_abilities(status);
        }
        let judged =
            runtime_health::judge(conditions.map_err(Clone::clone), self.silent(context), self.polled.as_ref());
        self.polled = Some(judged);
        self.why_silent = status.err();
    }

    /// The call that is open need not have ended for that.
    fn note_silence(&mut self, context: &Context<RuntimeMonitorMsg>) {
        self.silence = None;
        let open = || context.address().record().oldest_call(None);
        let why = self.why_silent.clone();
        let why = why.or_else(|| open().map(|call| runtime_health::no_answer(call.method, call.open, context.now())));
        let answer = Err(why.unwrap_or_else(|| "no answer".to_owned()));
        self.polled = Some(runtime_health::judge(answer, self.silent(context), self.polled.as_ref()));
    }

    /// Only what a ready runtime says of itself counts.
    fn take_abilities(&mut self, status: &RuntimeStatus) {
        if !status.condition("RuntimeReady").is_some_and(|condition| condition.status) {
            return;
        }
        let handler = |handler: &RuntimeHandler| HandlerFact {
            name: handler.name.clone(),
            recursive_read_only_mounts: handler.recursive_read_only_mounts,
            user_namespaces: handler.user_namespaces,
        };
        let able = RuntimeFact {
            handlers: status.handlers.iter().map(handler).collect(),
            supplemental_groups_policy: status.features.supplemental_groups_policy,
            user_namespaces_host_network: status.features.user_namespaces_host_network,
        };
        if self.able.as_ref() != Some(&able) {
            let of_handler = |handler: &HandlerFact| (handler.name.clone(), handler.user_namespaces);
            self.user_namespaces = Arc::new(able.handlers.iter().map(of_handler).collect());
            (self.able, self.able_told) = (Some(able), false);
        }
    }

    fn health(&self) -> RuntimeHealth {
        let mut health = self.polled.clone().unwrap_or_else(runtime_health::not_yet_known);
        // The default handler's word stands for those of runtime classes.
        let is_able = |handler: &HandlerFact| handler.name.is_empty() && handler.recursive_read_only_mounts;
        health.recursive_read_only = self.able.as_ref().map(|able| able.handlers.iter().any(is_able));
        health.groups_policy = self.able.as_ref().map(|able| able.supplemental_groups_policy);
        health.host_network_users = self.able.as_ref().map(|able| able.user_namespaces_host_network);
        health.user_namespaces = Arc::clone(&self.user_namespaces);
        if health.runtime_problem.is_none() {
            health.runtime_problem.clone_from(&self.pleg_problem);
        }
        health
    }

    fn tell(&mut self, context: &Context<RuntimeMonitorMsg>) {
        let node_status = &self.args.node_status;
        if let Some(able) = self.able.as_ref().filter(|_| !self.able_told && node_status.is_up()) {
            self.able_told = context.try_tell(node_status, NodeStatusMsg::News(NodeNews::Runtime(able.clone())));
        }
        let health = self.health();
        let news = self.polled.is_some() && self.told.as_ref() != Some(&health);
        // One who is not there yet hears it after the next poll.
        if news && self.args.pod_manager.is_up() {
            if let Some(problem) = &health.runtime_problem {
                tracing::warn!(problem, "container runtime cannot be used");
            }
            if let Some(problem) = &health.network_problem {
                tracing::warn!(problem, "container runtime network not ready");
            }
            // Where there was no room for it, it is news again after the next poll.
            let heard = context.try_tell(node_status, NodeStatusMsg::News(NodeNews::Health(health.clone())));
            let has_room = context.try_tell(&self.args.pod_manager, PodManagerMsg::HealthChanged(health.clone()));
            self.told = (heard && has_room).then_some(health);
        }
    }
}
