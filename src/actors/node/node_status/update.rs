//! Registration and update of `NodeStatus`, step by step: each operation's end says what is next.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::{Facts, NodeStatus, TRIES_MAX, Work};
use crate::actors::kit::context::Context;
use crate::logic::node::node_object;
use crate::logic::node::node_registration::{Action, Input, Refusal};
use crate::logic::node::node_status::{Outcome, RuntimeAnswers, has_changed, set_status, status_patch};
use crate::messages::Lost;
use crate::messages::node::node_status::{Gathered, NodeStatusMsg, NodeWait};
use crate::platform::cluster::kube_api::ApiError;

impl NodeStatus {
    pub(super) fn gathered(&mut self, outcome: Result<Box<Gathered>, Lost>, context: &mut Context<NodeStatusMsg>) {
        debug_assert!(matches!(self.work, Work::Gathering), "nothing else begins while the facts are read");
        self.again = false; // The update contains all news that others told meanwhile.
        let gathered = match outcome {
            Ok(mut gathered) => {
                self.take_size(&mut gathered.host, context);
                *gathered
            }
            Err(loss) => {
                tracing::error!(error = %loss, "the node's facts cannot be read");
                return self.rest_or_register_later(context);
            }
        };
        let facts = Facts { host: gathered.host, runtime: self.newest_answers(gathered.runtime, context) };
        if self.registration.is_done() {
            return self.update(0, self.node.stored().cloned(), facts, context);
        }
        let identity = &self.args.settings.identity;
        for (label, default) in node_object::overridden_labels(identity) {
            tracing::info!(label, default, "the node label will overwrite default setting");
        }
        let mut initial = node_object::initial(identity);
        let outcome = self.set(&mut initial, &facts, context);
        self.node.prepare(initial.clone());
        self.tell_known(context);
        self.work = Work::Registering { initial: Box::new(initial), events: outcome.events, existing: None, facts };
        let action = self.registration.step(Input::WaitOver);
        self.register(action, context);
    }

    /// The runtime's answers of now, or the last ones.
    fn newest_answers(&mut self, new: Option<RuntimeAnswers>, context: &Context<NodeStatusMsg>) -> RuntimeAnswers {
        if let Some(mut new) = new {
            // An answer that lacks something is asked for again at the next occasion.
            let asked = (new.version.is_some() && new.images.is_ok()).then(|| context.clock().uptime());
            if let Err(problem) = &new.images
                && let Some((_, known)) = &self.answers
            {
                tracing::error!(problem, "Failed to update image list");
                new.images.clone_from(&known.images);
            }
            self.answers = Some((asked, new));
        }
        let known = self.answers.as_ref().map(|(_, known)| known.clone());
        known.unwrap_or_else(|| RuntimeAnswers { version: None, images: Ok(vec![]) })
    }

    fn set(&self, node: &mut Node, facts: &Facts, context: &Context<NodeStatusMsg>) -> Outcome {
        let settings = &self.args.settings.status;
        let outcome = set_status(node, settings, &facts.host, &facts.runtime, &self.told, context.now());
        for problem in &outcome.problems {
            tracing::error!(problem, "Failed to set some node status fields");
        }
        outcome
    }

    /// Carries out what the registration wants next.
    pub(super) fn register(&mut self, action: Action, context: &mut Context<NodeStatusMsg>) {
        match action {
            Action::Wait(wait) => {
                self.work = Work::Idle;
                self.wait(wait, NodeWait::RegisterDue, context);
            }
            Action::Create => {
                if let Work::Registering { initial, .. } = &self.work {
                    tracing::info!(node = self.args.node_name, "Attempting to register node");
                    self.startup.trying(context.now());
                    self.create((**initial).clone(), context);
                }
            }
            Action::Read => self.fetch(context),
            Action::Patch => self.reconcile(context),
            Action::Done => self.end_registration(context),
            Action::Ignore => {}
        }
    }

    fn rest_or_register_later(&mut self, context: &mut Context<NodeStatusMsg>) {
        if self.registration.is_done() {
            return self.rest(context);
        }
        self.registration.step(Input::WaitOver);
        let action = self.registration.step(Input::Failed);
        self.register(action, context);
    }

    pub(super) fn created(&mut self, answer: Result<Box<Node>, ApiError>, context: &mut Context<NodeStatusMsg>) {
        let input = match answer {
            Ok(node) => {
                // The new object has a whole status: the next report is due a period from now.
                self.report.sending(true, self.args.chance.next());
                self.report.arrived(context.clock().uptime());
                self.startup.created(context.now());
                self.adopt(*node, context);
                Input::Created
            }
            Err(error) => {
                let refusal = refusal(&error);
                if refusal != Refusal::AlreadyExists {
                    tracing::error!(%error, "Unable to register node with API server");
                }
                Input::Refused(refusal)
            }
        };
        let action = self.registration.step(input);
        self.register(action, context);
    }

    pub(super) fn fetched(&mut self, answer: Result<Box<Node>, ApiError>, context: &mut Context<NodeStatusMsg>) {
        match std::mem::replace(&mut self.work, Work::Idle) {
            Work::Registering { initial, events, facts, .. } => {
                let (input, existing) = match answer {
                    Ok(node) => {
                        tracing::info!(node = self.args.node_name, "Node was previously registered");
                        let differs = node_object::reconcile(&initial, &mut node.clone(), self.told.devices_lost);
                        (Input::Read { differs }, Some(node))
                    }
                    Err(error) => {
                        tracing::error!(%error, "Unable to register node with API server, error getting existing node");
                        (Input::Failed, None)
                    }
                };
                self.work = Work::Registering { initial, events, existing, facts };
                let action = self.registration.step(input);
                self.register(action, context);
            }
            Work::Reading { tried, facts } => match answer {
                Ok(node) => {
                    self.adopt((*node).clone(), context);
                    self.update(tried, Some(Arc::from(node)), facts, context);
                }
                Err(error) => self.try_again(tried, &error, facts, context),
            },
            other => self.work = other,
        }
    }

    fn reconcile(&mut self, context: &mut Context<NodeStatusMsg>) {
        let Work::Registering { initial, existing: Some(existing), .. } = &self.work else { return };
        let mut wanted = (**existing).clone();
        node_object::reconcile(initial, &mut wanted, self.told.devices_lost);
        self.patch(status_patch(existing, &wanted), context);
    }

    fn end_registration(&mut self, context: &mut Context<NodeStatusMsg>) {
        match std::mem::replace(&mut self.work, Work::Idle) {
            Work::Registering { events, existing, facts, .. } => {
                self.record(events, context);
                tracing::info!(node = self.args.node_name, "Successfully registered node");
                match existing {
                    // A Node that was there before gets the rest of its status now.
                    Some(existing) => {
                        self.adopt((*existing).clone(), context);
                        if self.is_early(context) {
                            return self.rest_soon(context);
                        }
                        self.update(0, self.node.stored().cloned(), facts, context);
                    }
                    None => self.rest(context),
                }
            }
            // Somebody else registers the node.
            _ => self.rest_soon(context),
        }
    }

    /// The status is brought up to date as soon as it may be.
    fn rest_soon(&mut self, context: &mut Context<NodeStatusMsg>) {
        self.work = Work::Idle;
        self.wait(std::time::Duration::ZERO, NodeWait::UpdateDue, context);
    }

    /// One try: sends the status if it says anything new, or if it is time.
    fn update(&mut self, tried: u32, base: Option<Arc<Node>>, facts: Facts, context: &mut Context<NodeStatusMsg>) {
        let Some(base) = base else {
            self.work = Work::Reading { tried: tried + 1, facts };
            return self.fetch(context);
        };
        let mut node = (*base).clone();
        let repaired = node_object::repair_labels(&mut node, &self.args.settings.status.architecture);
        let outcome = self.set(&mut node, &facts, context);
        let none = Default::default();
        let statuses = (base.status.as_ref().unwrap_or(&none), node.status.as_ref().unwrap_or(&none));
        let changed = repaired || has_changed(statuses.0, statuses.1);
        if !changed && !self.report.is_due(context.clock().uptime()) {
            return self.rest(context);
        }
        self.report.sending(changed, self.args.chance.next());
        self.work = Work::Patching { tried, events: outcome.events, facts };
        self.patch(status_patch(&base, &node), context);
    }

    pub(super) fn patched(&mut self, answer: Result<Box<Node>, ApiError>, context: &mut Context<NodeStatusMsg>) {
        match (std::mem::replace(&mut self.work, Work::Idle), answer) {
            (Work::Registering { initial, events, facts, .. }, answer) => {
                let answer = answer.inspect_err(|error| {
                    tracing::error!(%error, "Unable to reconcile node with API server,error updating node");
                });
                let input = if answer.is_ok() { Input::Patched } else { Input::Failed };
                self.work = Work::Registering { initial, events, existing: answer.ok(), facts };
                let action = self.registration.step(input);
                self.register(action, context);
            }
            (Work::Patching { events, .. }, Ok(node)) => {
                self.report.arrived(context.clock().uptime());
                self.record(events, context);
                self.adopt(*node, context);
                self.rest(context);
            }
            (Work::Patching { tried, facts, .. }, Err(error)) => self.try_again(tried, &error, facts, context),
            (other, _) => self.work = other,
        }
    }

    fn try_again(&mut self, tried: u32, error: &ApiError, facts: Facts, context: &mut Context<NodeStatusMsg>) {
        if tried > 0 {
            (self.args.doubt_connections)();
        }
        if tried + 1 >= TRIES_MAX || error.is_not_found() {
            // A node that is not there will not be there a moment later.
            tracing::error!(%error, tries = tried + 1, "Unable to update node status");
            return self.rest(context);
        }
        tracing::error!(%error, "Error updating node status, will retry");
        self.work = Work::Reading { tried: tried + 1, facts };
        self.fetch(context);
    }
}

fn refusal(error: &ApiError) -> Refusal {
    if error.is_already_exists() {
        Refusal::AlreadyExists
    } else if error.is_forbidden() {
        Refusal::Forbidden
    } else {
        Refusal::Other
    }
}
