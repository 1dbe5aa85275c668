//! `Root`: starts the tree, looks after its first level, ends it in order.
//!
//! Parent: none. A failure beyond a child's budget ends Root as failed, and the process with it: the service manager
//! starts it anew, and running containers are adopted. Keeps nothing but who its children are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ractor::{ActorCell, ActorId, RpcReplyPort};

use super::tree::{ChildSpec, FAILURE_WINDOW, TREE};
use crate::actors::kit::actor::{Actor, ChildEnd};
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::{Cause, Trace};
use crate::logic::model::restart_budget::{BudgetPolicy, RestartBudget, Verdict};
use crate::messages::root::{Child, LiveSettings, RootMsg};
use crate::platform::host::systemd::ServiceManager;

/// A turn open for longer is a fault: it is logged, and the watchdog is not fed.
pub const STUCK_AFTER: Duration = Duration::from_secs(10);
/// How often stuck turns are looked for where nobody watches.
const WATCH_PERIOD: Duration = Duration::from_secs(10);

/// Wait before children that had no room for their settings get them again.
const TELL_RETRY: Duration = Duration::from_millis(100);

/// How often memory that was freed goes back to the kernel.
const RELEASE_PERIOD: Duration = Duration::from_secs(30);

/// For what was said last to go out before the tree stops.
pub const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

struct Slot {
    spec: &'static ChildSpec,
    cell: Option<ActorCell>,
    budget: RestartBudget,
}

/// Root's means towards its children, of any kind.
pub trait Children: Send {
    /// Starts one, or its next incarnation.
    fn start(&self, child: Child, context: &mut Context<RootMsg>) -> ActorCell;
    /// Marks its address as empty, until its next incarnation.
    fn vacate(&self, child: Child, why: String, context: &Context<RootMsg>);
    /// Has `teacher` tell everything once more that `learner` has to hear.
    fn ask_to_repeat(&self, teacher: Child, learner: Child, context: &Context<RootMsg>);
    /// Children start with these settings from now on. Gives those whose part of them changed.
    fn follow(&mut self, settings: &LiveSettings) -> BTreeSet<Child>;
    /// Tells a child its part of the newest settings; false when it has no room for them.
    fn tell_settings(&self, child: Child, context: &Context<RootMsg>) -> bool;
    /// Has go out what was said and waits. It takes [`LAST_WORDS_MAX`] at most.
    fn last_words(&self, cause: Cause) -> BoxFuture<'static, ()>;
}

/// The actor's arguments.
pub struct Args {
    /// Root's children, with all that they are given.
    pub children: Box<dyn Children>,
    /// Counts restarts, and knows turns that do not end.
    pub trace: Arc<Trace>,
    /// The service manager.
    pub service_manager: Arc<dyn ServiceManager>,
    /// How often the watchdog is fed; `None` when nobody watches.
    pub watchdog_period: Option<Duration>,
}

/// See the module.
pub struct Root {
    args: Args,
    children: BTreeMap<Child, Slot>,
    stopping: Option<RpcReplyPort<()>>,
    /// Children whose mailboxes had no room yet for their newest settings.
    untold: BTreeSet<Child>,
    /// When memory was last given back, by uptime; first as soon as the start is over.
    released: Option<Duration>,
    /// Operations that the log names as late; forgotten once they have ended.
    late: BTreeSet<u64>,
}

impl Actor for Root {
    const KIND: &'static str = "Root";
    type Msg = RootMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<RootMsg>) -> Self {
        let (children, untold, late) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut root = Self { args, children, stopping: None, untold, released: None, late };
        for spec in TREE {
            let policy = BudgetPolicy::permanent(spec.failures_max, FAILURE_WINDOW);
            let slot = Slot { spec, cell: None, budget: RestartBudget::new(policy) };
            root.children.insert(spec.child, slot);
            root.start_child(spec.child, context);
        }
        context.after(root.watch_period(), RootMsg::WatchDue);
        root
    }

    fn receive(&mut self, message: RootMsg, context: &mut Context<RootMsg>) {
        match message {
            RootMsg::Restart(child) => {
                if self.stopping.is_none() {
                    self.start_child(child, context);
                    self.ask_to_repeat(child, context);
                }
            }
            RootMsg::Shutdown(reply) => self.shut_down(reply, context),
            RootMsg::AllStopped(_) => {
                if let Some(reply) = self.stopping.take() {
                    let _ = reply.send(()); // The asker may have left.
                }
                context.stop();
            }
            RootMsg::Reload(settings, reply) => {
                self.untold.extend(self.args.children.follow(&settings));
                self.tell_settings(context);
                let _ = reply.send(()); // The asker may have left.
            }
            RootMsg::TellDue => self.tell_settings(context),
            RootMsg::WatchDue => {
                self.watch();
                self.release_memory(context.clock().uptime());
                context.after(self.watch_period(), RootMsg::WatchDue);
            }
        }
    }

    fn child_ended(&mut self, who: ActorId, end: ChildEnd, context: &mut Context<RootMsg>) {
        let found = self.children.iter().find(|(_, slot)| slot.cell.as_ref().is_some_and(|cell| cell.get_id() == who));
        let Some(child) = found.map(|(child, _)| *child) else { return }; // An old incarnation.
        let name: &'static str = child.into();
        let why = match end {
            ChildEnd::Failed(why) => why,
            ChildEnd::Stopped if self.stopping.is_some() => return,
            ChildEnd::Stopped => "ended although it was not told to".to_owned(),
        };
        self.vacate(child, &why, context);
        let uptime = context.clock().uptime();
        let slot = self.children.get_mut(&child).expect("found above");
        slot.cell = None;
        match slot.budget.record_failure(uptime) {
            Verdict::RestartAfter(delay) => {
                tracing::error!(actor = name, error = why, restart_in = ?delay, "actor failed");
                context.after(delay, RootMsg::Restart(child));
            }
            Verdict::Escalate => {
                tracing::error!(actor = name, error = why, "actor failed too often, the agent gives up");
                context.escalate(format!("{name} failed too often: {why}"));
            }
        }
    }
}

impl Root {
    fn start_child(&mut self, child: Child, context: &mut Context<RootMsg>) {
        let cell = self.args.children.start(child, context);
        self.children.get_mut(&child).expect("every child has a slot").cell = Some(cell);
    }

    fn vacate(&self, child: Child, why: &str, context: &Context<RootMsg>) {
        self.args.trace.count_restart(child.into());
        self.args.children.vacate(child, why.to_owned(), context);
    }

    /// Has everything told again that the child knew only from others.
    fn ask_to_repeat(&self, child: Child, context: &Context<RootMsg>) {
        for teacher in self.children[&child].spec.learns_from {
            self.args.children.ask_to_repeat(*teacher, child, context);
        }
    }

    /// Gives children their newest settings. One that is away begins with them.
    fn tell_settings(&mut self, context: &mut Context<RootMsg>) {
        let children = &self.args.children;
        self.untold.retain(|child| !children.tell_settings(*child, context));
        if !self.untold.is_empty() {
            context.after(TELL_RETRY, RootMsg::TellDue);
        }
    }

    fn shut_down(&mut self, reply: RpcReplyPort<()>, context: &mut Context<RootMsg>) {
        self.stopping = Some(reply);
        let mut order: Vec<(&ChildSpec, ActorCell)> = vec![];
        for spec in TREE.iter().rev() {
            if let Some(cell) = self.children[&spec.child].cell.clone() {
                order.push((spec, cell));
            }
        }
        let mut last_words = Some(self.args.children.last_words(context.cause()));
        let work = async move {
            for (spec, cell) in order {
                // By then nobody is left who would tell more of pods.
                if spec.child == Child::EventRecorder
                    && let Some(last_words) = last_words.take()
                {
                    last_words.await;
                }
                let limit = spec.stop_limit;
                cell.stop(None);
                if cell.wait(Some(ractor::concurrency::Duration::from(limit))).await.is_err() {
                    cell.kill();
                }
            }
        };
        context.start("stop the tree", "all actors", work, RootMsg::AllStopped);
    }

    fn watch_period(&self) -> Duration {
        self.args.watchdog_period.unwrap_or(WATCH_PERIOD)
    }

    fn release_memory(&mut self, uptime: Duration) {
        if self.released.is_none_or(|last| uptime.saturating_sub(last) >= RELEASE_PERIOD) {
            self.released = Some(uptime);
            self.args.service_manager.release_free_memory();
        }
    }

    /// The log names a late operation once; it holds up nobody else, so the watchdog is fed all the same.
    fn watch(&mut self) {
        if self.args.trace.stuck(STUCK_AFTER).is_none() {
            self.args.service_manager.feed_watchdog();
        }
        let late = self.args.trace.late();
        for operation in late.iter().filter(|operation| !self.late.contains(&operation.id)) {
            tracing::warn!("{operation}");
        }
        self.late = late.into_iter().map(|operation| operation.id).collect();
    }
}
