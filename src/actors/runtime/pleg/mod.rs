//! `Pleg`: the runtime's truth about pods, for `PodManager`.
//!
//! Parent: Root. Restarted: after a failure; a relist tells it all again. With an event stream, an event is a hint to
//! look at one pod, and a slow relist proves that nothing was missed; without one, the relist alone finds what changed.
//! One pod that cannot be inspected delays that pod only. Keeps the last relist and the last account of each pod.

mod accounts;
mod look;
#[cfg(test)]
mod tests;

pub(in crate::actors) use look::{container_account, present};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use crate::actors::kit::actor::Actor;
use crate::actors::kit::address::Address;
use crate::actors::kit::context::{Context, OperationId};
use crate::actors::kit::single_flight::{Flights, Newest, SingleFlight};
use crate::actors::kit::trace::Cause;
use crate::cri::{ContainerEvent, ContainerEventKind, CriError, RuntimeService};
use crate::logic::events::reasons::EventReason;
use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::model::runtime_health;
use crate::logic::model::runtime_pod::RuntimePod;
use crate::logic::model::time::Stamp;
use crate::logic::runtime::event_stream::EventStream;
use crate::logic::runtime::failed_looks::FailedLooks;
use crate::logic::runtime::pleg_diff::{self, PodParts, PodRecord};
use crate::logic::runtime::relists::{OVERDUE_RETOLD, RELIST_PERIOD, RELIST_PERIOD_EVENTED, Relists};
use crate::messages::event_recorder::{EventRecorderMsg, EventSubject};
use crate::messages::pods::pod_manager::PodManagerMsg;
use crate::messages::runtime::log_rotator::LogRotatorMsg;
use crate::messages::runtime::pleg::{LookStep, PlegMsg, Relist, RelistStep, StreamStep};
use crate::messages::runtime::runtime_monitor::RuntimeMonitorMsg;
use crate::messages::{Ended, Lost};
use crate::platform::observer::{Observation, Observer};
use crate::platform::pods::pod_files::PodFiles;

use accounts::Accounts;
use look::Looker;

/// Wait before a pod that could not be inspected is looked at again.
const INSPECT_RETRY: Duration = Duration::from_secs(1);

/// From an event of something made or started to the look at its pod, which serves all such events until then. Nearly all
/// are the agent's own doing: whoever did it knows, and asks for a look himself; what ended is looked at at once.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// The subject of the relist, in the trace.
pub const RELIST_ABOUT: &str = "all pods";

/// The actor's arguments.
pub struct Args {
    /// Whether the runtime's event stream is used.
    pub evented: bool,
    /// Whether a pod is looked at when somebody asks. Where it is not, the look waits as long as for a relist.
    pub on_demand: bool,
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
    /// The states of all parts, as of the last relist and the looks since.
    last: pleg_diff::Relist,
    accounts: Accounts,
    /// The looks under way, and when each began.
    looks: Flights<PodUid, Newest<Stamp>>,
    failed_looks: FailedLooks,
    /// Pods of which something was made or started that no look has shown yet.
    soon: BTreeMap<PodUid, Soon>,
    stream: EventStream,
    /// The next attempt to open it.
    stream_timer: Option<OperationId>,
    relisting: SingleFlight<()>,
    relists: Relists,
    relist_timer: Option<OperationId>,
    /// The end of the wait for a good relist; none while there is nothing to wait for. A call that hangs must not be
    /// waited for.
    overdue: Option<OperationId>,
}

/// A look that is to come when what was done to a pod has settled.
struct Soon {
    timer: OperationId,
    /// The parts that the pod's worker knows of, once it has asked for the look.
    known: Option<Arc<RuntimePod>>,
    /// Somebody asked for all parts of the pod, whatever the worker knows of.
    whole: bool,
    /// Containers and sandboxes that events named since.
    heard: BTreeSet<ContainerId>,
}

impl Soon {
    /// The parts to look at, if whoever asked knows of all that events named. Nobody else makes containers in a pod; those of
    /// a call whose answer was lost are found by the next relist or event.
    fn basis(self) -> Option<Basis> {
        let known = self.known.filter(|_| !self.whole)?;
        let has = |id: &str| {
            known.containers.iter().any(|one| one.id.as_str() == id)
                || known.sandboxes.iter().any(|one| one.id.as_str() == id)
        };
        self.heard.iter().all(|id| has(id.as_str())).then_some(Basis::Known(known))
    }
}

/// The knowledge that a look at a pod begins with.
enum Basis {
    /// None: its parts are listed.
    Nothing,
    /// The parts that a relist has just shown.
    Parts(PodParts),
    /// The parts that its worker knows of.
    Known(Arc<RuntimePod>),
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
            looks: Flights::default(),
            failed_looks: FailedLooks::default(),
            soon: BTreeMap::new(),
            stream: EventStream::default(),
            stream_timer: None,
            relisting: SingleFlight::default(),
            relists: Relists::new(context.clock().uptime()),
            relist_timer: None,
            overdue: None,
        };
        if pleg.args.evented {
            pleg.open_stream(context);
        }
        pleg.relist(context);
        pleg
    }

    fn receive(&mut self, message: PlegMsg, context: &mut Context<PlegMsg>) {
        match message {
            PlegMsg::Relist(step) => self.step_relist(step, context),
            PlegMsg::Look(step) => self.step_look(step, context),
            PlegMsg::Stream(step) => self.step_stream(step, context),
            PlegMsg::Inspect(uid) if self.args.on_demand => self.inspect(uid, Basis::Nothing, context),
            PlegMsg::Inspect(uid) => self.inspect_soon(uid, RELIST_PERIOD, context).whole = true,
            PlegMsg::InspectSoon(known) => {
                let pause = if self.args.on_demand { LOOK_PAUSE } else { RELIST_PERIOD };
                let soon = self.inspect_soon(known.uid.clone(), pause, context);
                soon.known = Some(known);
            }
            PlegMsg::Repeat => self.repeat(context),
            PlegMsg::RepeatSeen => self.repeat_seen(context),
            PlegMsg::Pods(reply) => {
                let _ = reply.send(self.accounts.all().cloned().collect()); // The asker may have left.
            }
        }
    }
}

impl Pleg {
    fn step_relist(&mut self, step: RelistStep, context: &mut Context<PlegMsg>) {
        match step {
            RelistStep::RelistDue => self.relist(context),
            RelistStep::Relisted(outcome) => self.take_relist(outcome, context),
            RelistStep::RelistOverdue => self.tell_overdue(context),
        }
    }

    fn step_look(&mut self, step: LookStep, context: &mut Context<PlegMsg>) {
        match step {
            LookStep::LookDue(uid) => {
                let basis = self.soon.remove(&uid).and_then(Soon::basis).unwrap_or(Basis::Nothing);
                self.inspect(uid, basis, context);
            }
            LookStep::InspectRetryDue(uid) => {
                self.failed_looks.waited(&uid);
                self.inspect(uid, Basis::Nothing, context);
            }
            LookStep::Inspected(uid, outcome) => self.take_inspection(uid, outcome, context),
        }
    }

    fn step_stream(&mut self, step: StreamStep, context: &mut Context<PlegMsg>) {
        match step {
            StreamStep::StreamDue => self.open_stream(context),
            StreamStep::StreamOpened => {
                self.stream.opened(context.clock().uptime());
                self.args.observer.observe(Observation::StreamOpened);
                // Changes before the stream was open are found by one more relist.
                self.relist(context);
            }
            StreamStep::EventArrived(event) => self.take_event(event, context),
            StreamStep::StreamEnded(why) => self.lose_stream(why, context),
        }
    }

    fn relist(&mut self, context: &mut Context<PlegMsg>) {
        if let Some(timer) = self.relist_timer.take() {
            context.cancel(timer);
        }
        // Something happened that the relist under way may have missed.
        if self.relisting.want(()).is_none() {
            return;
        }
        self.relists.begin(context.clock().uptime());
        let looker = Arc::clone(&self.looker);
        let ended = |outcome: Result<_, Lost>| PlegMsg::Relist(RelistStep::Relisted(outcome.into()));
        context.start("relist", RELIST_ABOUT, async move { look::relist(&looker).await }, ended);
        if self.overdue.is_none() {
            let wait = self.relists.overdue_in();
            self.overdue = Some(context.after(wait, PlegMsg::Relist(RelistStep::RelistOverdue)));
        }
    }

    fn tell_overdue(&mut self, context: &mut Context<PlegMsg>) {
        self.overdue = Some(context.after(OVERDUE_RETOLD, PlegMsg::Relist(RelistStep::RelistOverdue)));
        self.tell_problem(self.problem(context), context);
    }

    /// The problem by now.
    fn problem(&self, context: &Context<PlegMsg>) -> Option<String> {
        let open = || context.address().record().oldest_call(Some(RELIST_ABOUT));
        let hung = || open().map(|call| runtime_health::no_answer(call.method, call.open, context.now()));
        self.relists.problem(context.clock().uptime(), hung)
    }

    fn take_relist(&mut self, outcome: Ended<Relist, CriError>, context: &mut Context<PlegMsg>) {
        let (_, wanted) = self.relisting.end();
        let ended = self.relists.end(context.clock().uptime());
        let relisted = Observation::Relisted { ended: context.now(), took: ended.took, interval: ended.interval };
        self.args.observer.observe(relisted);
        let period = match self.stream.is_open() {
            // A relist that is too long ago counts as a runtime that hangs.
            true => context.until_repair(RELIST_PERIOD_EVENTED).min(runtime_health::RELIST_AGE_MAX / 2),
            false => RELIST_PERIOD,
        };
        let delay = if wanted.is_some() { Duration::ZERO } else { period };
        self.relist_timer = Some(context.after(delay, PlegMsg::Relist(RelistStep::RelistDue)));
        match outcome.into_result() {
            Ok(relist) => {
                let counts = self.relists.listed(relist.taken);
                if let Some(overdue) = self.overdue.take() {
                    context.cancel(overdue);
                }
                self.tell_problem(None, context);
                if counts {
                    self.compare(relist, context);
                }
                if self.stream.relisted(true) && self.args.evented {
                    self.open_stream(context);
                }
            }
            Err(error) => {
                self.stream.relisted(false);
                if self.relists.failed(error.clone()) {
                    tracing::warn!(error, "relist failed, and is tried again each second");
                } else {
                    tracing::debug!(error, "relist failed again");
                }
            }
        }
    }

    fn compare(&mut self, relist: Relist, context: &mut Context<PlegMsg>) {
        let diff = pleg_diff::diff(&self.last, &relist.pods);
        let mut before = std::mem::replace(&mut self.last, relist.pods);
        self.accounts.take_names(&relist.names);
        for uid in &diff.changed {
            // A look that is newer has told of it, or will. The next relist is compared with that.
            let is_told = self.accounts.get(uid).is_some_and(|known| known.taken > relist.taken);
            let will_be_told = self.looks.current(uid).is_some_and(|Newest(began)| *began > relist.taken);
            if is_told || will_be_told {
                match before.remove(uid) {
                    Some(record) => drop(self.last.insert(uid.clone(), record)),
                    None => drop(self.last.remove(uid)),
                }
                continue;
            }
            let (known, record) = (self.accounts.get(uid), self.last.get(uid));
            let of_relist = |record| {
                let name = relist.names.get(uid)?.clone();
                PodParts::of_relist(relist.taken, name, record, known.map(|known| &**known))
            };
            // Else looked at by UID, so that also what is gone is told with the next account.
            let basis = record.and_then(of_relist).map_or(Basis::Nothing, Basis::Parts);
            self.inspect(uid.clone(), basis, context);
        }
        let told = PodManagerMsg::Relisted { taken: relist.taken, pods: relist.names, running: relist.running };
        if !context.try_tell(&self.args.pod_manager, told) {
            // There was no room: the next one comes soon.
            let again = context.after(RELIST_PERIOD, PlegMsg::Relist(RelistStep::RelistDue));
            if let Some(timer) = self.relist_timer.replace(again) {
                context.cancel(timer);
            }
        }
    }

    /// Looks at the pod, from what is known of it on.
    fn inspect(&mut self, uid: PodUid, basis: Basis, context: &mut Context<PlegMsg>) {
        let now = context.clock().stamp();
        if self.looks.want(&uid, Newest(now)).is_none() {
            return;
        }
        // The parts that a relist showed may be older than what was done to the pod since.
        if !matches!(basis, Basis::Parts(_))
            && let Some(soon) = self.soon.remove(&uid)
        {
            context.cancel(soon.timer);
        }
        let (looker, observer) = (Arc::clone(&self.looker), Arc::clone(&self.args.observer));
        let known = self.accounts.get(&uid).cloned();
        let (parts, known) = match basis {
            Basis::Nothing => (None, known),
            Basis::Parts(parts) => (Some(parts), known),
            Basis::Known(known) => (Some(PodParts::of_known(now, &known)), Some(known)),
        };
        let (about, asked) = (uid.clone(), uid.clone());
        let work = async move {
            let began = looker.clock.uptime();
            let found = look::inspect(&looker, &asked, known.as_deref(), parts).await;
            let took = looker.clock.uptime().saturating_sub(began);
            observer.observe(Observation::PodInspected { took });
            found
        };
        let ended = move |outcome: Result<_, Lost>| PlegMsg::Look(LookStep::Inspected(uid, outcome.into()));
        context.start("inspect pod", about.as_str(), work, ended);
    }

    fn inspect_soon(&mut self, uid: PodUid, pause: Duration, context: &mut Context<PlegMsg>) -> &mut Soon {
        let due = PlegMsg::Look(LookStep::LookDue(uid.clone()));
        let soon = || Soon { timer: context.after(pause, due), known: None, whole: false, heard: BTreeSet::new() };
        self.soon.entry(uid).or_insert_with(soon)
    }

    fn take_inspection(
        &mut self,
        uid: PodUid,
        outcome: Ended<Arc<RuntimePod>, CriError>,
        context: &mut Context<PlegMsg>,
    ) {
        // A look may have missed what was asked for since it began.
        let (_, wanted) = self.looks.end(&uid);
        // A runtime that does not answer at all is the node's trouble.
        let is_away = matches!(outcome, Ended::Failed(CriError::Unavailable { .. }));
        match outcome.into_result() {
            Ok(pod) => {
                match pod.is_empty() {
                    true => drop(self.last.remove(&uid)),
                    false => drop(self.last.insert(uid.clone(), PodRecord::from(&*pod))),
                }
                self.failed_looks.succeeded(&uid);
                self.accounts.take(&pod);
                let to = &self.args;
                let logs = context.try_tell(&to.log_rotator, LogRotatorMsg::Observed(Arc::clone(&pod)));
                if !context.try_tell(&to.pod_manager, PodManagerMsg::Observed(pod)) || !logs {
                    self.args.observer.observe(Observation::NewsDropped);
                    self.retry(uid.clone(), context); // There was no room: it is told with the next look.
                }
            }
            Err(error) => {
                if is_away {
                    tracing::debug!(pod = %uid, error, "pod cannot be inspected: the runtime is away");
                } else {
                    tracing::warn!(pod = %uid, error, "pod cannot be inspected");
                    self.tell_failed_look(&uid, error, context);
                }
                self.retry(uid.clone(), context);
            }
        }
        if wanted.is_some() {
            self.inspect(uid, Basis::Nothing, context);
        }
    }

    /// Without an account of it nothing is done for a pod. One Event for as long as the same goes wrong.
    fn tell_failed_look(&mut self, uid: &PodUid, error: String, context: &Context<PlegMsg>) {
        let Some(name) = self.accounts.name_of(uid) else { return }; // A relist will tell it.
        let event = EventSubject::pod(uid, name);
        let event = event.warning(EventReason::FailedSync, format!("error determining status: {error}"));
        if self.failed_looks.failed(uid, &error) {
            context.tell(&self.args.event_recorder, event);
        }
    }

    /// Looks at the pod again after a while.
    fn retry(&mut self, uid: PodUid, context: &mut Context<PlegMsg>) {
        if self.failed_looks.wait(&uid) {
            context.after(INSPECT_RETRY, PlegMsg::Look(LookStep::InspectRetryDue(uid)));
        }
    }

    fn open_stream(&mut self, context: &mut Context<PlegMsg>) {
        if let Some(timer) = self.stream_timer.take() {
            context.cancel(timer);
        }
        self.stream.opening();
        let (runtime, me) = (Arc::clone(&self.args.runtime), context.address().clone());
        let work = async move {
            let mut events = match runtime.container_events().await {
                Ok(events) => events,
                Err(error) => return error,
            };
            // Unheard, each relist would come as soon as without a stream, for as long as the stream lasts.
            let opened = || PlegMsg::Stream(StreamStep::StreamOpened);
            me.tell_at_last(&Cause::outside("event stream"), opened).await;
            loop {
                match events.next().await {
                    Some(Ok(event)) => {
                        let hint = PlegMsg::Stream(StreamStep::EventArrived(event));
                        if me.tell(Cause::outside("runtime event"), hint).is_err() {
                            // A relist finds what the hint named.
                            let due = || PlegMsg::Relist(RelistStep::RelistDue);
                            me.tell_at_last(&Cause::outside("runtime event"), due).await;
                        }
                    }
                    Some(Err(error)) => return error,
                    None => return CriError::Unavailable { message: "the runtime ended the event stream".to_owned() },
                }
            }
        };
        let ended = |why| PlegMsg::Stream(StreamStep::StreamEnded(why));
        context.start("event stream", "the container runtime", work, ended);
    }

    fn lose_stream(&mut self, why: Result<CriError, Lost>, context: &mut Context<PlegMsg>) {
        self.args.observer.observe(Observation::StreamFailed);
        let (unimplemented, why) = match why {
            Ok(error) => (matches!(error, CriError::Unimplemented { .. }), error.to_string()),
            Err(loss) => (false, loss.to_string()),
        };
        let lost = self.stream.lost(!unimplemented, context.clock().uptime());
        if unimplemented {
            tracing::info!("the container runtime has no event stream, relists alone find what changed");
        } else if lost.failures == 1 {
            tracing::warn!(why, "event stream lost, relists find what changed");
        } else {
            tracing::debug!(why, failures = lost.failures, "event stream lost again");
        }
        self.stream_timer = Some(context.after(lost.retry_after, PlegMsg::Stream(StreamStep::StreamDue)));
        if lost.was_open {
            self.relist(context);
        }
    }

    fn take_event(&mut self, event: ContainerEvent, context: &mut Context<PlegMsg>) {
        self.args.observer.observe(Observation::EventTaken { age: context.now().since(event.created_at) });
        let named = event.pod_uid.filter(|uid| !uid.is_empty()).map(PodUid::from);
        let Some(uid) = named.or_else(|| self.accounts.owner_of(event.container_id.as_str())) else {
            return self.relist(context); // An event that does not say whose, about what no known pod holds.
        };
        match event.kind {
            ContainerEventKind::Created | ContainerEventKind::Started => {
                self.inspect_soon(uid, LOOK_PAUSE, context).heard.insert(event.container_id);
            }
            ContainerEventKind::Stopped | ContainerEventKind::Deleted => self.inspect(uid, Basis::Nothing, context),
        }
    }

    fn repeat(&mut self, context: &mut Context<PlegMsg>) {
        // The accounts that are known may be old by now; a relist that takes all pods for changed tells each anew.
        self.last.clear();
        self.tell_problem(self.problem(context), context);
        self.relists.count_from(context.clock().stamp());
        self.relist(context);
    }

    /// For logs an old account will do: the next message has a container that ended since. A runtime that hangs must not
    /// keep logs from being rotated.
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
