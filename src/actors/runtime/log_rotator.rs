//! `LogRotator`: keeps the logs of running containers within their bound.
//!
//! Parent: Root. Restarted: after a failure; `Pleg` tells it again of all pods, as they were last seen. Hears of a log's
//! first write after a look, and looks again before the log can have grown too large; nothing is done for logs that
//! nobody writes to, and the runtime is asked for nothing but to open a log anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::context::{Context, OperationId};
use crate::cri::RuntimeService;
use crate::logic::logs::log_rotation::{LogLook, LogOrder, LogRotation, RotationPolicy};
use crate::logic::model::ids::ContainerId;
use crate::logic::model::time::Moment;
use crate::messages::runtime::log_rotator::LogRotatorMsg;
use crate::messages::{Ended, Lost};
use crate::platform::logs::container_logs::ContainerLogs;

/// The actor's arguments.
pub struct Args {
    /// How logs are rotated; `None` when they are not.
    pub policy: Option<RotationPolicy>,
    /// When the agent started: what was written before it was not seen.
    pub agent_started: Moment,
    /// Logs of containers.
    pub logs: Arc<dyn ContainerLogs>,
    /// Opens logs anew.
    pub runtime: Arc<dyn RuntimeService>,
}

/// See the module.
pub struct LogRotator {
    args: Args,
    /// `None` when logs are not rotated.
    rotation: Option<LogRotation>,
    timer: Option<(Duration, OperationId)>,
    /// It is waited for writes.
    is_listening: bool,
    /// The last message about a log that cannot be kept small, so that it is said once.
    said: BTreeMap<ContainerId, String>,
}

impl Actor for LogRotator {
    const KIND: &'static str = "LogRotator";
    type Msg = LogRotatorMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<LogRotatorMsg>) -> Self {
        let rotation = args.policy.map(LogRotation::new);
        let mut rotator = Self { args, rotation, timer: None, is_listening: false, said: BTreeMap::new() };
        if rotator.rotation.is_some() {
            rotator.listen(context);
        }
        rotator
    }

    fn receive(&mut self, message: LogRotatorMsg, context: &mut Context<LogRotatorMsg>) {
        if let LogRotatorMsg::PolicyChanged(policy) = message {
            self.follow(policy, context);
            return self.set_timer(context);
        }
        self.is_listening &= !matches!(message, LogRotatorMsg::Written(_));
        let Some(rotation) = &mut self.rotation else { return };
        let now = context.clock().uptime();
        let orders = match message {
            LogRotatorMsg::Observed(pod) => rotation.observed(&pod, self.args.agent_started),
            LogRotatorMsg::Written(paths) => {
                for path in paths.unwrap_or_default() {
                    rotation.written(&path, now);
                }
                self.listen(context);
                vec![]
            }
            LogRotatorMsg::LookDue => {
                self.timer = None;
                rotation.due(now)
            }
            LogRotatorMsg::PolicyChanged(_) => vec![], // Taken above.
            LogRotatorMsg::Looked(ids, looks) => self.looked(&ids, looks, now),
            LogRotatorMsg::Reopened(id, outcome) => {
                let done = self.outcome(&id, "open the missing log", outcome).is_some();
                self.rotation.as_mut().map_or_else(Vec::new, |rotation| rotation.reopened(&id, done, now))
            }
            LogRotatorMsg::Rotated(id, outcome) => {
                let done = self.outcome(&id, "rotate the log", outcome).is_some();
                self.rotation.as_mut().map_or_else(Vec::new, |rotation| rotation.rotated(&id, done, now))
            }
            LogRotatorMsg::Compressed(id, outcome) => {
                if let Some(files) = self.outcome(&id, "compress rotated logs", outcome) {
                    tracing::debug!(container = %id, files, "rotated logs compressed");
                }
                self.rotation.as_mut().map_or_else(Vec::new, |rotation| rotation.compressed(&id))
            }
        };
        self.carry_out(orders, context);
        self.set_timer(context);
    }
}

impl LogRotator {
    /// Another policy holds from now on, also for logs that nobody writes to any more.
    fn follow(&mut self, policy: Option<RotationPolicy>, context: &mut Context<LogRotatorMsg>) {
        self.args.policy = policy;
        match (policy, &mut self.rotation) {
            (Some(policy), Some(rotation)) => rotation.follow(policy, context.clock().uptime()),
            (Some(policy), none) => *none = Some(LogRotation::new(policy)),
            (None, rotation) => *rotation = None,
        }
        if self.rotation.is_some() && !self.is_listening {
            self.listen(context);
        }
    }

    fn listen(&mut self, context: &mut Context<LogRotatorMsg>) {
        self.is_listening = true;
        let logs = Arc::clone(&self.args.logs);
        context.start("wait for writes", "logs", async move { logs.written().await }, LogRotatorMsg::Written);
    }

    fn looked(&mut self, ids: &[ContainerId], looks: Result<Vec<LogLook>, Lost>, now: Duration) -> Vec<LogOrder> {
        let Some(rotation) = &mut self.rotation else { return vec![] };
        let looks = looks.unwrap_or_else(|loss| vec![LogLook::Failed(loss.to_string()); ids.len()]);
        let mut orders = vec![];
        for (id, look) in ids.iter().zip(looks) {
            if let LogLook::Failed(problem) = &look
                && self.said.insert(id.clone(), problem.clone()).as_ref() != Some(problem)
            {
                tracing::warn!(container = %id, problem, "log cannot be looked at, and is not rotated");
            }
            orders.extend(rotation.looked(id, &look, now));
        }
        self.said.retain(|id, _| rotation.knows(id));
        orders
    }

    /// The result of work on a log; a problem is logged once.
    fn outcome<T>(&mut self, id: &ContainerId, attempt: &'static str, outcome: Ended<T>) -> Option<T> {
        match outcome.into_result() {
            Ok(value) => {
                self.said.remove(id);
                Some(value)
            }
            Err(problem) => {
                if self.said.get(id) != Some(&problem) {
                    tracing::warn!(container = %id, attempt, problem, "log may grow beyond its bound");
                    self.said.insert(id.clone(), problem);
                }
                None
            }
        }
    }

    fn carry_out(&self, orders: Vec<LogOrder>, context: &mut Context<LogRotatorMsg>) {
        let args = &self.args;
        let (mut ids, mut paths) = (vec![], vec![]);
        for order in orders {
            match order {
                LogOrder::Look(id, path) => {
                    ids.push(id);
                    paths.push(path);
                }
                LogOrder::Reopen(id) => {
                    let (runtime, about, asked) = (Arc::clone(&args.runtime), id.to_string(), id.clone());
                    let work =
                        async move { runtime.reopen_container_log(&asked).await.map_err(|error| error.to_string()) };
                    context
                        .start("reopen log", about, work, move |outcome| LogRotatorMsg::Reopened(id, outcome.into()));
                }
                LogOrder::Rotate(id, path) => self.rotate(id, path, context),
                LogOrder::Compress(id, path) => {
                    let (logs, about) = (Arc::clone(&args.logs), path.clone());
                    let work = async move { logs.compress(&path).await.map_err(|error| error.to_string()) };
                    context.start("compress logs", about, work, move |outcome| {
                        LogRotatorMsg::Compressed(id, outcome.into())
                    });
                }
            }
        }
        if !ids.is_empty() {
            let (logs, about) = (Arc::clone(&args.logs), format!("{} logs", ids.len()));
            let work = async move { logs.look(&paths).await };
            context.start("look at logs", about, work, move |looks| LogRotatorMsg::Looked(ids, looks));
        }
    }

    /// Renames, then has the runtime open a new log; if it does not, the old name is given back, and the next look tries
    /// again. An agent that is killed between the two leaves a missing log, which is reopened by the next one.
    fn rotate(&self, id: ContainerId, path: String, context: &mut Context<LogRotatorMsg>) {
        let args = &self.args;
        let (logs, runtime, now) = (Arc::clone(&args.logs), Arc::clone(&args.runtime), context.now());
        let files_max = args.policy.map_or(2, |policy| policy.files_max);
        let (about, asked) = (path.clone(), id.clone());
        let work = async move {
            let rotated = logs.begin_rotation(&path, files_max, now).await.map_err(|error| error.to_string())?;
            let Err(error) = runtime.reopen_container_log(&asked).await else { return Ok(()) };
            match logs.undo_rotation(&path, &rotated).await {
                Ok(()) => Err(format!("failed to reopen container log {asked:?}: {error}")),
                Err(undo) => Err(format!("failed to reopen container log {asked:?}: {error}; {undo}")),
            }
        };
        context.start("rotate log", about, work, move |outcome| LogRotatorMsg::Rotated(id, outcome.into()));
    }

    fn set_timer(&mut self, context: &mut Context<LogRotatorMsg>) {
        let due = self.rotation.as_ref().and_then(LogRotation::next_due);
        match (due, self.timer) {
            (Some(due), Some((set, _))) if set <= due => {}
            (None, _) => {}
            (Some(due), old) => {
                if let Some((_, timer)) = old {
                    context.cancel(timer);
                }
                let wait = due.saturating_sub(context.clock().uptime());
                self.timer = Some((due, context.after(wait, LogRotatorMsg::LookDue)));
            }
        }
    }
}
