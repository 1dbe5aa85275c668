//! Claims: the questions of workers, and the actions of the machine that decides about them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::operations::{read_claims, read_files};
use super::{ClaimManager, FILES_RETRY};
use crate::actors::kit::context::Context;
use crate::logic::model::ids::PodUid;
use crate::logic::plugins::call_error::{CallError, Code};
use crate::logic::plugins::claims::ClaimId;
use crate::logic::plugins::claims::book::ClaimBook;
use crate::logic::plugins::claims::check::{ClaimCall, ClaimError};
use crate::logic::plugins::claims::checkpoint::{self, Unrestorable};
use crate::logic::plugins::claims::drivers::Instance;
use crate::logic::plugins::claims::states::{Action, Answer, ClaimStates};
use crate::messages::plugins::claim_manager::{ClaimFiles, ClaimManagerMsg, ClaimReply, ClaimStep, operation};
use crate::messages::pods::pod_manager::{EvictionMsg, PodManagerMsg};
use crate::messages::{Ended, Lost};
use crate::platform::observer::Observation;

/// From one look for claims of pods that are no more to the next, as upstream's.
const RECONCILE_PERIOD: Duration = Duration::from_secs(60);
/// The same, while nobody can say which pods there are.
const RECONCILE_RETRY: Duration = Duration::from_secs(5);
/// Patience with `PodManager`.
const ASK_LIMIT: Duration = Duration::from_secs(10);

/// The outcome of an operation that fails in words of claims.
fn ended<T>(outcome: Result<Result<T, ClaimError>, Lost>) -> Ended<T, ClaimError> {
    match outcome {
        Ok(Ok(done)) => Ended::Done(done),
        Ok(Err(error)) => Ended::Failed(error),
        Err(loss) => Ended::Lost(loss),
    }
}

fn result<T>(outcome: Ended<T, ClaimError>) -> Result<T, ClaimError> {
    match outcome {
        Ended::Done(done) => Ok(done),
        Ended::Failed(error) => Err(error),
        Ended::Lost(loss) => Err(ClaimError::Lost(loss.to_string())),
    }
}

impl ClaimManager {
    pub(super) fn read_files(&self, context: &mut Context<ClaimManagerMsg>) {
        let files = Arc::clone(&self.args.files);
        let ended = |read: Result<_, _>| ClaimManagerMsg::Claim(ClaimStep::FilesRead(read.into()));
        context.start("read claims", checkpoint::FILE_NAME, async move { read_files(&*files).await }, ended);
    }

    /// Nothing goes on without the file: a claim that it names may be a driver's work still.
    pub(super) fn take_files(&mut self, read: Ended<ClaimFiles>, context: &mut Context<ClaimManagerMsg>) {
        let book = read.into_result().and_then(|files| {
            self.devices.restore(files.health.as_deref());
            match files.claims.as_deref().map(checkpoint::parse) {
                None => Ok(ClaimBook::default()),
                Some(book) => book.map_err(|error| Unrestorable(error).to_string()),
            }
        });
        match book {
            Err(why) => {
                // The agent's start checks the file. Someone has changed it since, and has to put it right.
                tracing::error!(why, "no claim is prepared");
                context.address().record().set_note(Some(format!("waits for its file: {why}")));
                self.files_due(context);
            }
            Ok(book) => {
                context.address().record().set_note(None);
                let is_empty = book.all().next().is_none();
                self.states = Some(ClaimStates::new(book, self.args.gates));
                if !is_empty {
                    self.reconcile_in(RECONCILE_RETRY, context);
                }
                for message in self.held.take() {
                    crate::actors::kit::actor::Actor::receive(self, message, context);
                }
                self.tell_devices(context);
            }
        }
    }

    fn files_due(&mut self, context: &mut Context<ClaimManagerMsg>) {
        if self.files_timer.is_none() {
            self.files_timer = Some(context.after(FILES_RETRY, ClaimManagerMsg::Claim(ClaimStep::FilesDue)));
        }
    }

    pub(super) fn tend_files(&mut self, context: &mut Context<ClaimManagerMsg>) {
        match &mut self.states {
            None => self.read_files(context),
            Some(states) => {
                let actions = states.store();
                self.perform_all(actions, context);
            }
        }
    }

    pub(super) fn prepare(&mut self, pod: &Arc<Pod>, reply: ClaimReply, context: &mut Context<ClaimManagerMsg>) {
        let uid = PodUid::from(pod.metadata.uid.clone().unwrap_or_default());
        let waiting = self.waiting.entry(uid.clone()).or_default();
        if let Some(error) = waiting.unheard.take() {
            let _ = reply.send(Err(error)); // The asker may have left, and hears of the next try.
            return;
        }
        waiting.prepare.push(reply);
        let states = self.states.as_mut().expect("invariant: what needs the book is held until it was read");
        if states.progress(&uid).is_none() {
            waiting.since = context.clock().uptime();
        }
        let actions = states.prepare(&uid, pod);
        self.perform_all(actions, context);
    }

    pub(super) fn release(&mut self, uid: &PodUid, reply: ClaimReply, context: &mut Context<ClaimManagerMsg>) {
        let waiting = self.waiting.entry(uid.clone()).or_default();
        waiting.unheard = None;
        waiting.release.push(reply);
        let states = self.states.as_mut().expect("invariant: what needs the book is held until it was read");
        if states.progress(uid).is_none() {
            waiting.since = context.clock().uptime();
        }
        let actions = states.release(uid);
        self.perform_all(actions, context);
    }

    pub(super) fn claim_step(&mut self, step: ClaimStep, context: &mut Context<ClaimManagerMsg>) {
        let states = self.states.as_mut().expect("invariant: what needs the book is held until it was read");
        let actions = match step {
            ClaimStep::ClaimsRead { pod, attempt, outcome } => {
                states.read_ended(&pod, attempt, result(outcome), &self.drivers)
            }
            ClaimStep::CallEnded { pod, attempt, driver, outcome } => {
                states.call_ended(&pod, attempt, &driver, result(outcome))
            }
            ClaimStep::BookWritten(outcome) => {
                let outcome = outcome.into_result();
                if let Err(why) = &outcome {
                    tracing::error!(why, file = checkpoint::FILE_NAME, "claims of pods are not kept");
                }
                states.store_ended(outcome)
            }
            ClaimStep::ReconcileDue => {
                self.reconcile_timer.came();
                return self.ask_for_pods(context);
            }
            ClaimStep::PodsKnown(known) => {
                let known = known.into_result().ok().flatten();
                let wait = if known.is_some() { RECONCILE_PERIOD } else { RECONCILE_RETRY };
                let actions = known.map(|known| states.reconcile(&known)).unwrap_or_default();
                if states.book().all().next().is_some() {
                    self.reconcile_in(wait, context);
                }
                actions
            }
            ClaimStep::FilesRead(_) | ClaimStep::FilesDue => return, // They come before.
        };
        self.perform_all(actions, context);
    }

    /// Looks after a while for claims of pods that are no more; the earliest look that anybody wants.
    fn reconcile_in(&mut self, delay: Duration, context: &mut Context<ClaimManagerMsg>) {
        self.reconcile_timer.within(delay, ClaimManagerMsg::Claim(ClaimStep::ReconcileDue), context);
    }

    fn ask_for_pods(&self, context: &mut Context<ClaimManagerMsg>) {
        let (to, cause) = (self.args.pod_manager.clone(), context.cause());
        let question = |reply| PodManagerMsg::Eviction(EvictionMsg::Unfinished(reply));
        let work = async move { to.ask(cause, ASK_LIMIT, question).await.map_err(|error| error.to_string()) };
        let ended = |known: Result<_, _>| ClaimManagerMsg::Claim(ClaimStep::PodsKnown(known.into()));
        context.start("ask for pods", "claims", work, ended);
    }

    fn perform_all(&mut self, actions: Vec<Action>, context: &mut Context<ClaimManagerMsg>) {
        actions.into_iter().for_each(|action| self.perform(action, context));
        let Some(states) = &self.states else { return };
        let (is_behind, is_used) = (states.is_behind(), states.book().all().next().is_some());
        if is_behind {
            self.files_due(context);
        }
        if is_used {
            self.reconcile_in(RECONCILE_PERIOD, context);
        }
    }

    fn perform(&mut self, action: Action, context: &mut Context<ClaimManagerMsg>) {
        match action {
            Action::Read { pod, attempt, claims } => {
                let (api, about) = (self.args.api.clone(), pod.to_string());
                let read = move |outcome| {
                    ClaimManagerMsg::Claim(ClaimStep::ClaimsRead { pod, attempt, outcome: ended(outcome) })
                };
                context.start("read claims", about, read_claims(api, claims), read);
            }
            Action::Store => {
                let Some(states) = &self.states else { return };
                let (files, bytes) = (Arc::clone(&self.args.files), checkpoint::print(states.book()));
                let work =
                    async move { files.write(checkpoint::FILE_NAME, bytes).await.map_err(|error| error.to_string()) };
                let written = |outcome: Result<_, _>| ClaimManagerMsg::Claim(ClaimStep::BookWritten(outcome.into()));
                context.start("keep claims", checkpoint::FILE_NAME, work, written);
            }
            Action::Call { pod, attempt, call, driver, claims } => {
                let now = context.now();
                if let Some(states) = &mut self.states {
                    states.note_called(&pod, &driver, now);
                }
                let (about, work) = (driver.clone(), self.call(call, driver.clone(), claims, context));
                let called = move |outcome| {
                    ClaimManagerMsg::Claim(ClaimStep::CallEnded { pod, attempt, driver, outcome: ended(outcome) })
                };
                context.start(call.into(), about, work, called);
            }
            Action::Ended { pod, call, outcome } => self.answer(&pod, call, outcome, context),
        }
    }

    /// Calls the instance of a driver that is used now.
    fn call(
        &self,
        call: ClaimCall,
        driver: String,
        claims: Vec<ClaimId>,
        context: &Context<ClaimManagerMsg>,
    ) -> impl Future<Output = Result<Answer, ClaimError>> + Send + use<> {
        let (instance, calls) = (self.drivers.get(&driver).cloned(), Arc::clone(&self.args.calls));
        let (observer, clock) = (Arc::clone(&self.args.observer), Arc::clone(context.clock()));
        async move {
            let Some(Instance { plugin, service, .. }) = instance else { return Err(ClaimError::NoDriver(driver)) };
            let began = clock.uptime();
            let answer = match call {
                ClaimCall::Prepare => calls.prepare(&plugin.endpoint, service, claims).await,
                ClaimCall::Unprepare => calls.unprepare(&plugin.endpoint, service, claims).await,
            };
            let code = answer.as_ref().err().map_or(Code::Ok, CallError::code);
            let (package, took) = (service.package(), clock.uptime().saturating_sub(began));
            let method = format!("/{package}.DRAPlugin/{call}");
            observer.observe(Observation::ClaimDriverCalled {
                driver: &driver,
                method: &method,
                code: code.into(),
                took,
            });
            answer.map_err(|error| ClaimError::Call { call, error })
        }
    }

    /// Tells whoever waits how the work for a pod ended.
    fn answer(
        &mut self,
        pod: &PodUid,
        call: ClaimCall,
        outcome: Result<(), ClaimError>,
        context: &mut Context<ClaimManagerMsg>,
    ) {
        let mut waiting = self.waiting.remove(pod).unwrap_or_default();
        let took = context.clock().uptime().saturating_sub(waiting.since);
        let (operation, failed) = (operation(call), outcome.is_err());
        self.args.observer.observe(Observation::ClaimsHandled { operation, failed, took });
        let replies = match call {
            ClaimCall::Prepare => std::mem::take(&mut waiting.prepare),
            ClaimCall::Unprepare => std::mem::take(&mut waiting.release),
        };
        if let Err(error) = &outcome {
            tracing::warn!(pod = %pod, operation, %error, "claims of a pod");
        }
        let mut heard = false;
        for reply in replies {
            heard |= !reply.is_closed() && reply.send(outcome.clone()).is_ok();
        }
        match (call, outcome) {
            (ClaimCall::Prepare, Err(error)) if !heard => waiting.unheard = Some(error),
            (ClaimCall::Prepare, Ok(())) => self.tell_devices_of(pod, context),
            (ClaimCall::Unprepare, Ok(())) => {
                waiting.unheard = None;
                self.unfollow(pod);
            }
            _ => {}
        }
        if !waiting.release.is_empty() || !waiting.prepare.is_empty() || waiting.unheard.is_some() {
            self.waiting.insert(pod.clone(), waiting);
        }
    }
}
