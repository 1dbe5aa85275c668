//! The way of Events to the API server: what the decisions say becomes calls, one at a time. Owned by `EventRecorder`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;

use crate::actors::kit::context::Context;
use crate::logic::events::outbox::{Action, Outbox, Outcome};
use crate::logic::events::{EventCorrelator, PodEvent, Report};
use crate::messages::Lost;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::platform::cluster::kube_api::{ApiError, ApiServer, Lane, PatchKind, Place};
use crate::platform::host::chance::Chance;

/// See the module.
pub(super) struct Outlet {
    api: ApiServer,
    node_name: Arc<str>,
    chance: Arc<dyn Chance>,
    correlator: EventCorrelator,
    outbox: Outbox,
}

impl Outlet {
    pub(super) fn new(api: &ApiServer, node_name: &str, chance: &Arc<dyn Chance>) -> Self {
        Self {
            api: api.on(Lane::Events),
            node_name: Arc::from(node_name),
            chance: Arc::clone(chance),
            correlator: EventCorrelator::new(),
            outbox: Outbox::default(),
        }
    }

    /// Something happened.
    pub(super) fn take(&mut self, event: PodEvent, context: &mut Context<EventRecorderMsg>) {
        let (now, uptime) = (context.now(), context.clock().uptime());
        if let Some(report) = self.correlator.correlate(event, now, uptime) {
            let actions = self.outbox.add(report);
            self.perform(actions, context);
        }
    }

    /// A call ended.
    pub(super) fn ended(&mut self, outcome: Result<Outcome, Lost>, context: &mut Context<EventRecorderMsg>) {
        // The cause of a call's panic would make it panic again.
        let outcome = outcome.unwrap_or(Outcome::Rejected);
        let actions = self.outbox.ended(outcome, self.chance.next());
        self.perform(actions, context);
    }

    /// The wait before the next try is over.
    pub(super) fn wait_over(&mut self, context: &mut Context<EventRecorderMsg>) {
        let actions = self.outbox.wait_over();
        self.perform(actions, context);
    }

    /// Sends what waits at once.
    pub(super) fn hurry(&mut self, context: &mut Context<EventRecorderMsg>) {
        let actions = self.outbox.hurry();
        self.perform(actions, context);
    }

    /// Whether nothing is on its way.
    pub(super) fn is_at_rest(&self) -> bool {
        self.outbox.is_at_rest()
    }

    fn perform(&self, actions: Vec<Action>, context: &mut Context<EventRecorderMsg>) {
        for action in actions {
            match action {
                Action::Create(report) => {
                    let (api, object) = (self.api.clone(), report.object(&self.node_name));
                    let about = report.name.clone();
                    let work = async move {
                        let made = api.create(&Place::namespace(report.namespace()), &object).await;
                        outcome(&report, made, false)
                    };
                    context.start("create event", about, work, EventRecorderMsg::SendEnded);
                }
                Action::Patch(report) => {
                    let api = self.api.clone();
                    let about = report.name.clone();
                    let work = async move {
                        let at = Place::namespace(report.namespace());
                        let kind = PatchKind::Strategic;
                        let changed = api.patch(&at, &report.name, None, kind, &report.patch()).await;
                        outcome(&report, changed, true)
                    };
                    context.start("patch event", about, work, EventRecorderMsg::SendEnded);
                }
                Action::Wait(wait) => {
                    context.after(wait, EventRecorderMsg::RetryDue);
                }
                Action::Lost { report, tries } => self.tell_lost(&report, tries),
            }
        }
    }

    fn tell_lost(&self, report: &Report, tries: u32) {
        let lost = self.outbox.lost();
        let (name, object, reason) = (&report.name, &report.event.full_name, report.event.reason.as_str());
        if tries == 0 {
            let text = "Unable to record event: too many queued events, dropped event";
            tracing::error!(event = name, %object, reason, lost, "{text}");
        } else {
            let text = "Unable to write event (retry limit exceeded!)";
            tracing::error!(event = name, %object, reason, tries, lost, "{text}");
        }
    }
}

/// The meaning of a call's end for the report. `patch`: whether there had to be an object.
fn outcome(report: &Report, answer: Result<Event, ApiError>, patch: bool) -> Outcome {
    let Err(error) = answer else { return Outcome::Stored };
    let (event, object, reason) = (&report.name, &report.event.full_name, report.event.reason.as_str());
    if patch && error.is_not_found() {
        return Outcome::Missing;
    }
    if may_succeed_later(&error) {
        tracing::error!(%error, event, %object, reason, "Unable to write event (may retry after sleeping)");
        return Outcome::Failed;
    }
    // An earlier try did reach the server, or the namespace goes, and its pods with it: both are as they should be.
    if error.is_already_exists() || is_namespace_ending(&error) {
        tracing::debug!(%error, event, %object, reason, "Server rejected event (will not retry!)");
    } else {
        tracing::error!(%error, event, %object, reason, "Server rejected event (will not retry!)");
    }
    Outcome::Rejected
}

/// Nobody answered, the answer was none, or who answered was too busy or not the server itself. As in upstream's client
/// a server that failed over one Event (500) is not asked again: it would hold up all others.
fn may_succeed_later(error: &ApiError) -> bool {
    let not_the_server = error.code().is_some_and(|code| matches!(code, 502..=504));
    error.is_unreachable() || error.is_too_many() || not_the_server || matches!(error, ApiError::Answer(_))
}

fn is_namespace_ending(error: &ApiError) -> bool {
    error.is_forbidden()
        && error.refusal().is_some_and(|refusal| refusal.message.contains("because it is being terminated"))
}
