//! `Pleg`: the runtime's truth about pods, for `PodManager`.
//!
//! Parent: Root. Restarted: after a failure; a relist tells it all again. With an event stream, an event is a hint to
//! look at one pod, and a slow relist proves that nothing was missed; without one, the relist alone finds what changed.
//! One pod that cannot be inspected delays that pod only. Keeps the last relist and the last account of each pod.

mod accounts;
mod look;

pub(in crate::actors) use look::{container_account, present};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::trace::Cause;
use crate::cri::{ContainerEvent, ContainerEventKind, CriError, CriResult, RuntimeService};
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::model::runtime_health::{self, FIRST_RELIST_MAX, RELIST_AGE_MAX};
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::Stamp;
use crate::logic::pods::pleg_diff::{self, PodParts, PodRecord};
use crate::messages::Panicked;
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::log_rotator::LogRotatorMsg;
use crate::messages::pleg::{PlegMsg, Relist};
use crate::messages::pod_manager::PodManagerMsg;
use crate::messages::runtime_monitor::RuntimeMonitorMsg;
use crate::platform::observer::{Observer, Occurrence};
use crate::platform::pods::pod_files::PodFiles;

use accounts::Accounts;
use look::Looker;

/// From the end of one relist to the next, without an event stream (CRI-28).
pub const RELIST_PERIOD: Duration = Duration::from_secs(1);
/// The same with an event stream: the relist only proves the stream right.
pub const RELIST_PERIOD_EVENTED: Duration = Duration::from_secs(60);
/// How often the age of the last relist is told anew, once it is a fault.
const OVERDUE_RETOLD: Duration = Duration::from_secs(60);
/// A stream that was open for longer is proved good: its end is a first failure again.
const STREAM_PROVED: Duration = Duration::from_secs(30);
/// Wait before the event stream is opened again.
const STREAM_RETRY: Duration = Duration::from_secs(1);
/// Failed attempts to open the stream before relists alone are relied upon, until the next slow attempt.
const STREAM_FAILURES_MAX: u32 = 5;
/// Wait before a stream that failed too often, or is not offered, is tried again.
const STREAM_RETRY_SLOW: Duration = Duration::from_secs(300);
/// Wait before a pod that could not be inspected is looked at again.
const INSPECT_RETRY: Duration = Duration::from_secs(1);

/// From an event of something made or started to the look at its pod, which serves all such events until then. Nearly all
/// are the agent's own doing: whoever did it knows, and asks for a look himself; what ended is looked at at once.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// What the relist is about, in the trace.
pub const RELIST_ABOUT: &str = "all pods";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Off,
    Opening,
    Open,
}

/// What the actor needs.
pub struct Args {
    /// Whether the runtime's event stream is used.
    pub evented: bool,
    /// Whether containers name the signal that they are stopped with.
    pub stop_signals: bool,
    /// The runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// Termination messages and logs.
    pub files: Arc<dyn PodFiles>,
    /// Counts looks.
    pub observer: Arc<dyn Observer>,
    /// Hears what the runtime holds.
    pub pod_manager: Address<PodManagerMsg>,
    /// Hears what the runtime holds, for the logs' sake.
    pub log_rotator: Address<LogRotatorMsg>,
    /// Hears what is wrong with relists.
    pub runtime_monitor: Address<RuntimeMonitorMsg>,
    /// Hears of pods that cannot be looked at.
    pub event_recorder: Address<EventRecorderMsg>,
}

/// See the module.
pub struct Pleg {
    args: Args,
    looker: Arc<Looker>,
    last: pleg_diff::Relist,
    accounts: Accounts,
    inspecting: BTreeSet<PodUid>,
    again: BTreeSet<PodUid>,
    /// Pods of which something was made or started that no look has shown yet; one timer each.
    soon: BTreeMap<PodUid, OperationId>,
    /// Pods that could not be looked at, or told of, and wait for the next try; one timer each.
    retrying: BTreeSet<PodUid>,
    /// Names of pods that a relist showed, and no look yet.
    unseen: BTreeMap<PodUid, FullName>,
    /// Why pods could not be looked at, until they can.
    failing: BTreeMap<PodUid, String>,
    stream: Stream,
    stream_failures: u32,
    opened: Duration,
    relisting: bool,
    /// Something happened that the relist under way may have missed.
    relist_again: bool,
    /// A relist from before is not told: who asks to hear all again must not hear of an earlier time.
    relist_after: Stamp,
    relist_timer: Option<OperationId>,
    /// When the last relist that brought something began, as an uptime, and why there was none since.
    last_good_relist: Option<Duration>,
    why_none: Option<String>,
    /// When it is too long ago; none while there is nothing to wait for. A call that hangs must not be waited for.
    overdue: Option<OperationId>,
    born: Duration,
    /// When the relist under way began, and the one before it.
    relist_began: Duration,
    relist_before: Option<Duration>,
}

impl Actor for Pleg {
    const KIND: &'static str = "Pleg";
    type Msg = PlegMsg;
    type Args = Args;

    fn begin(args: Args, context: &mut Context<PlegMsg>) -> Self {
        let looker = Looker {
            runtime: Arc::clone(&args.runtime),
            files: Arc::clone(&args.files),
            stop_signals: args.stop_signals,
            clock: Arc::clone(context.clock()),
        };
        let mut pleg = Self {
            args,
            looker: Arc::new(looker),
            last: BTreeMap::new(),
            accounts: Accounts::default(),
            inspecting: BTreeSet::new(),
            again: BTreeSet::new(),
            soon: BTreeMap::new(),
            retrying: BTreeSet::new(),
            unseen: BTreeMap::new(),
            failing: BTreeMap::new(),
            stream: Stream::Off,
            stream_failures: 0,
            opened: Duration::ZERO,
            relisting: false,
            relist_again: false,
            relist_after: Stamp::default(),
            relist_timer: None,
            last_good_relist: None,
            why_none: None,
            overdue: None,
            born: context.clock().uptime(),
            relist_began: Duration::ZERO,
            relist_before: None,
        };
        if pleg.args.evented {
            pleg.open_stream(context);
        }
        pleg.relist(context);
        pleg
    }

    fn receive(&mut self, message: PlegMsg, context: &mut Context<PlegMsg>) {
        match message {
            PlegMsg::RelistDue => self.relist(context),
            PlegMsg::Relisted(outcome) => self.take_relist(outcome, context),
            PlegMsg::RelistOverdue => self.tell_overdue(context),
            PlegMsg::Inspect(uid) => self.inspect(uid, context),
            PlegMsg::InspectSoon(uid) => self.inspect_soon(uid, context),
            PlegMsg::LookDue(uid) => {
                self.soon.remove(&uid);
                self.inspect(uid, context);
            }
            PlegMsg::InspectRetryDue(uid) => {
                self.retrying.remove(&uid);
                self.inspect(uid, context);
            }
            PlegMsg::Inspected(uid, outcome) => self.take_inspection(uid, outcome, context),
            PlegMsg::StreamDue => self.open_stream(context),
            PlegMsg::StreamOpened => {
                self.stream = Stream::Open;
                self.args.observer.happened(Occurrence::StreamOpened);
                self.opened = context.clock().uptime();
                // What happened before the stream was open is found by one more relist.
                self.relist(context);
            }
            PlegMsg::EventArrived(event) => self.take_event(event, context),
            PlegMsg::StreamEnded(why) => self.lose_stream(why, context),
            PlegMsg::Repeat => self.repeat(context),
            PlegMsg::RepeatSeen => self.repeat_seen(context),
            PlegMsg::Pods(reply) => {
                let _ = reply.send(self.accounts.all().cloned().collect()); // The asker may have left.
            }
        }
    }
}

impl Pleg {
    fn relist(&mut self, context: &mut Context<PlegMsg>) {
        if let Some(timer) = self.relist_timer.take() {
            context.cancel(timer);
        }
        if std::mem::replace(&mut self.relisting, true) {
            self.relist_again = true;
            return;
        }
        self.relist_began = context.clock().uptime();
        let looker = Arc::clone(&self.looker);
        context.start("relist", RELIST_ABOUT, async move { look::relist(&looker).await }, PlegMsg::Relisted);
        if self.overdue.is_none() {
            let due = self.overdue_at();
            let wait = due.checked_sub(self.relist_began).unwrap_or(OVERDUE_RETOLD);
            self.overdue = Some(context.after(wait, PlegMsg::RelistOverdue));
        }
    }

    /// When the last relist is, or was, too long ago.
    fn overdue_at(&self) -> Duration {
        self.last_good_relist.map_or(self.born + FIRST_RELIST_MAX, |last| last + RELIST_AGE_MAX)
    }

    fn tell_overdue(&mut self, context: &mut Context<PlegMsg>) {
        self.overdue = Some(context.after(OVERDUE_RETOLD, PlegMsg::RelistOverdue));
        self.tell_problem(self.problem(context), context);
    }

    /// What is wrong by now.
    fn problem(&self, context: &Context<PlegMsg>) -> Option<String> {
        let now = context.clock().uptime();
        let open = || context.address().record().oldest_call(Some(RELIST_ABOUT));
        let hung = || open().map(|call| runtime_health::no_answer(call.method, call.open, context.now()));
        let why = self.why_none.clone().or_else(hung).unwrap_or_else(|| "no answer".to_owned());
        let age = self.last_good_relist.map(|last| now.saturating_sub(last));
        (now >= self.overdue_at()).then(|| runtime_health::relist_problem(age, &why))
    }

    fn take_relist(&mut self, outcome: Result<CriResult<Relist>, Panicked>, context: &mut Context<PlegMsg>) {
        self.relisting = false;
        self.count_relist(context);
        let period = if self.stream == Stream::Open { RELIST_PERIOD_EVENTED } else { RELIST_PERIOD };
        let delay = if std::mem::take(&mut self.relist_again) { Duration::ZERO } else { period };
        self.relist_timer = Some(context.after(delay, PlegMsg::RelistDue));
        let outcome = outcome.map_err(|panicked| panicked.to_string());
        match outcome.and_then(|outcome| outcome.map_err(|error| error.to_string())) {
            Ok(relist) => {
                self.last_good_relist = Some(self.relist_began);
                self.why_none = None;
                if let Some(overdue) = self.overdue.take() {
                    context.cancel(overdue);
                }
                self.tell_problem(None, context);
                if relist.taken >= self.relist_after {
                    self.compare(relist, context);
                }
            }
            Err(error) => {
                tracing::warn!(error, "relist failed");
                self.why_none = Some(error);
            }
        }
    }

    fn count_relist(&mut self, context: &Context<PlegMsg>) {
        let took = context.clock().uptime().saturating_sub(self.relist_began);
        let interval = self.relist_before.replace(self.relist_began);
        let interval = interval.map(|before| self.relist_began.saturating_sub(before));
        self.args.observer.happened(Occurrence::Relisted { ended: context.now(), took, interval });
    }

    fn compare(&mut self, relist: Relist, context: &mut Context<PlegMsg>) {
        let diff = pleg_diff::diff(&self.last, &relist.pods);
        self.last = relist.pods;
        let unseen = relist.names.iter().filter(|(uid, _)| self.accounts.get(uid).is_none());
        self.unseen = unseen.map(|(uid, name)| (uid.clone(), name.clone())).collect();
        for uid in &diff.changed {
            let (known, record) = (self.accounts.get(uid), self.last.get(uid));
            let of_relist = |record| {
                let name = relist.names.get(uid)?.clone();
                PodParts::of_relist(relist.taken, name, record, known.map(|known| &**known))
            };
            // Else looked at by UID, so that also what is gone is told with the next account.
            let parts = record.and_then(of_relist);
            self.inspect_parts(uid.clone(), parts, context);
        }
        let told = PodManagerMsg::Relisted { taken: relist.taken, pods: relist.names };
        if !context.try_tell(&self.args.pod_manager, told) {
            // There was no room: the next one comes soon.
            if let Some(timer) = self.relist_timer.replace(context.after(RELIST_PERIOD, PlegMsg::RelistDue)) {
                context.cancel(timer);
            }
        }
    }

    fn inspect(&mut self, uid: PodUid, context: &mut Context<PlegMsg>) {
        self.inspect_parts(uid, None, context);
    }

    fn inspect_parts(&mut self, uid: PodUid, parts: Option<PodParts>, context: &mut Context<PlegMsg>) {
        if !self.inspecting.insert(uid.clone()) {
            self.again.insert(uid); // The look under way may have missed what this one is about.
            return;
        }
        if let Some(timer) = self.soon.remove(&uid) {
            context.cancel(timer);
        }
        let (looker, observer) = (Arc::clone(&self.looker), Arc::clone(&self.args.observer));
        let known = self.accounts.get(&uid).cloned();
        let (about, asked) = (uid.clone(), uid.clone());
        let work = async move {
            let began = looker.clock.uptime();
            let found = look::inspect(&looker, &asked, known.as_deref(), parts).await;
            let took = looker.clock.uptime().saturating_sub(began);
            observer.happened(Occurrence::PodInspected { took });
            found
        };
        context.start("inspect pod", about.as_str(), work, move |outcome| PlegMsg::Inspected(uid, outcome));
    }

    fn inspect_soon(&mut self, uid: PodUid, context: &mut Context<PlegMsg>) {
        self.soon.entry(uid.clone()).or_insert_with(|| context.after(LOOK_PAUSE, PlegMsg::LookDue(uid)));
    }

    fn take_inspection(
        &mut self,
        uid: PodUid,
        outcome: Result<CriResult<Arc<RuntimePod>>, Panicked>,
        context: &mut Context<PlegMsg>,
    ) {
        self.inspecting.remove(&uid);
        // That nobody answers at all is told of the node.
        let is_away = matches!(outcome, Ok(Err(CriError::Unavailable { .. })));
        let outcome = outcome.map_err(|panicked| panicked.to_string());
        match outcome.and_then(|outcome| outcome.map_err(|error| error.to_string())) {
            Ok(pod) => {
                self.last.insert(uid.clone(), record(&pod));
                self.failing.remove(&uid);
                if pod.is_empty() {
                    self.last.remove(&uid);
                }
                self.accounts.take(&pod);
                let to = &self.args;
                let logs = context.try_tell(&to.log_rotator, LogRotatorMsg::Observed(Arc::clone(&pod)));
                if !context.try_tell(&to.pod_manager, PodManagerMsg::Observed(pod)) || !logs {
                    self.args.observer.happened(Occurrence::NewsDropped);
                    self.retry(uid.clone(), context); // There was no room: it is told with the next look.
                }
            }
            Err(error) => {
                tracing::warn!(pod = %uid, error, "pod cannot be inspected");
                if !is_away {
                    self.tell_failed_look(&uid, error, context);
                }
                self.retry(uid.clone(), context);
            }
        }
        if self.again.remove(&uid) {
            self.inspect(uid, context);
        }
    }

    /// Without an account of it nothing is done for a pod. One Event for as long as the same goes wrong.
    fn tell_failed_look(&mut self, uid: &PodUid, error: String, context: &Context<PlegMsg>) {
        let name = self.accounts.get(uid).map(|pod| &pod.full_name).or_else(|| self.unseen.get(uid));
        let Some(name) = name else { return }; // A relist will tell it.
        let event = EventSubject::pod(uid, name);
        let event = event.warning(EventReason::FailedSync, format!("error determining status: {error}"));
        if self.failing.insert(uid.clone(), error.clone()) != Some(error) {
            context.tell(&self.args.event_recorder, event);
        }
    }

    /// Looks at the pod again after a while.
    fn retry(&mut self, uid: PodUid, context: &mut Context<PlegMsg>) {
        if self.retrying.insert(uid.clone()) {
            context.after(INSPECT_RETRY, PlegMsg::InspectRetryDue(uid));
        }
    }

    fn open_stream(&mut self, context: &mut Context<PlegMsg>) {
        self.stream = Stream::Opening;
        let (runtime, me) = (Arc::clone(&self.args.runtime), context.address().clone());
        let work = async move {
            let mut events = match runtime.container_events().await {
                Ok(events) => events,
                Err(error) => return error,
            };
            let _ = me.tell(Cause::outside("event stream"), PlegMsg::StreamOpened);
            loop {
                match events.next().await {
                    Some(Ok(event)) => {
                        // A hint that finds no room is made good by the next relist.
                        let _ = me.tell(Cause::outside("runtime event"), PlegMsg::EventArrived(event));
                    }
                    Some(Err(error)) => return error,
                    None => return CriError::Unavailable { message: "the runtime ended the event stream".to_owned() },
                }
            }
        };
        context.start("event stream", "the container runtime", work, PlegMsg::StreamEnded);
    }

    fn lose_stream(&mut self, why: Result<CriError, Panicked>, context: &mut Context<PlegMsg>) {
        self.args.observer.happened(Occurrence::StreamFailed);
        let was_open = self.stream == Stream::Open;
        self.stream = Stream::Off;
        if was_open && context.clock().uptime().saturating_sub(self.opened) > STREAM_PROVED {
            self.stream_failures = 0;
        }
        self.stream_failures += 1;
        let (unimplemented, why) = match why {
            Ok(error) => (matches!(error, CriError::Unimplemented { .. }), error.to_string()),
            Err(panicked) => (false, panicked.to_string()),
        };
        let slow = unimplemented || self.stream_failures >= STREAM_FAILURES_MAX;
        if unimplemented {
            tracing::info!("the container runtime has no event stream, relists alone find what changed");
        } else {
            tracing::warn!(why, failures = self.stream_failures, "event stream lost, relists find what changed");
        }
        context.after(if slow { STREAM_RETRY_SLOW } else { STREAM_RETRY }, PlegMsg::StreamDue);
        if was_open {
            self.relist(context);
        }
    }

    fn take_event(&mut self, event: ContainerEvent, context: &mut Context<PlegMsg>) {
        self.args.observer.happened(Occurrence::EventTaken { age: context.now().since(event.created_at) });
        let named = event.pod_uid.filter(|uid| !uid.is_empty()).map(PodUid::from);
        let Some(uid) = named.or_else(|| self.accounts.owner_of(event.container_id.as_str())) else {
            return self.relist(context); // An event that does not say whose, about what no known pod holds.
        };
        match event.kind {
            ContainerEventKind::Created | ContainerEventKind::Started => self.inspect_soon(uid, context),
            ContainerEventKind::Stopped | ContainerEventKind::Deleted => self.inspect(uid, context),
        }
    }

    fn repeat(&mut self, context: &mut Context<PlegMsg>) {
        // The accounts that are known may be old by now; a relist that takes all pods for changed tells each anew.
        self.last.clear();
        self.tell_problem(self.problem(context), context);
        self.relist_after = context.clock().stamp();
        self.relist(context);
    }

    /// For logs an old account will do: a container that ended since is told of with the next. A runtime that hangs must
    /// not keep logs from being rotated.
    fn repeat_seen(&mut self, context: &mut Context<PlegMsg>) {
        let pods: Vec<Arc<RuntimePod>> = self.accounts.all().cloned().collect();
        for pod in pods {
            let uid = pod.uid.clone();
            if !context.try_tell(&self.args.log_rotator, LogRotatorMsg::Observed(pod)) {
                self.retry(uid, context);
            }
        }
    }

    fn tell_problem(&self, problem: Option<String>, context: &Context<PlegMsg>) {
        context.tell(&self.args.runtime_monitor, RuntimeMonitorMsg::PlegProblem(problem));
    }
}

fn record(pod: &RuntimePod) -> PodRecord {
    let mut record = PodRecord::default();
    for sandbox in &pod.sandboxes {
        record.add_sandbox(sandbox.id.clone(), sandbox.state);
    }
    for container in &pod.containers {
        record.add_container(container.id.clone(), container.state);
    }
    record
}
