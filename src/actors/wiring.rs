//! The arguments of each actor, and the start of the tree: the only place among actors that knows the whole [`Agent`].
//!
//! A folder of files by domain, a function per actor. An actor imports nothing of this; the tree and tests call it. Settings
//! that change while the agent runs go from here to the actors that they concern, by a message each.

pub mod events;
pub mod eviction;
pub mod images;
pub mod node;
pub mod objects;
pub mod plugins;
pub mod pods;
pub mod probes;
pub mod resources;
pub mod runtime;
pub mod server;
pub mod sources;
pub mod statistics;
pub mod status;
pub mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use ractor::ActorCell;

use super::agent::Agent;
use super::root::{self, Children, LAST_WORDS_MAX, Root};
use super::tree::children;
use crate::actors;
use crate::actors::kit::actor::{Actor, spawn};
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::actors::kit::trace::Cause;
use crate::messages::event_recorder::EventRecorderMsg;
use crate::messages::eviction_manager::EvictionManagerMsg;
use crate::messages::images::image_gc::ImageGcMsg;
use crate::messages::images::image_manager::ImageManagerMsg;
use crate::messages::node::node_lease::NodeLeaseMsg;
use crate::messages::node::node_status::NodeStatusMsg;
use crate::messages::root::{Child, LiveSettings, RootMsg};
use crate::messages::runtime::log_rotator::LogRotatorMsg;

/// Messages that may wait for Root: a restart for each child, and a few.
const ROOT_MAILBOX: usize = 64;

/// Starts the tree; gives Root's address and its cell, whose end is the agent's.
pub fn start(agent: Arc<Agent>) -> (Address<RootMsg>, ActorCell) {
    let address = Address::new(&agent.trace, Root::KIND, Root::KIND, "", ROOT_MAILBOX);
    let args = root::Args {
        trace: Arc::clone(&agent.trace),
        service_manager: Arc::clone(&agent.adapters.service_manager),
        watchdog_period: agent.settings.watchdog_period,
        children: Box::new(agent),
    };
    let cell = spawn::<Root>(&address, args, None);
    (address, cell)
}

/// The children that act on settings which differ.
fn changed(before: &LiveSettings, now: &LiveSettings) -> BTreeSet<Child> {
    let periods = |settings: &LiveSettings| (settings.update_period, settings.report_period);
    let parts = [
        (Child::ImageGc, before.image_gc != now.image_gc),
        (Child::ImageManager, before.image_gc != now.image_gc || before.pulls != now.pulls),
        (Child::EvictionManager, before.eviction != now.eviction),
        (Child::LogRotator, before.log_rotation != now.log_rotation),
        (Child::NodeStatus, periods(before) != periods(now)),
        (Child::NodeLease, before.update_period != now.update_period),
    ];
    parts.into_iter().filter(|(_, changed)| *changed).map(|(child, _)| child).collect()
}

/// Tells a child its part of the agent's settings; false when it has no room for them.
fn tell_part(agent: &Agent, child: Child, context: &Context<RootMsg>) -> bool {
    let (to, settings) = (&agent.directory, &agent.settings);
    match child {
        Child::ImageGc => context.try_tell(&to.image_gc, ImageGcMsg::PolicyChanged(settings.images.gc)),
        Child::ImageManager => {
            let (pulls, gc) = (settings.images.pulls, settings.images.gc);
            context.try_tell(&to.image_manager, ImageManagerMsg::LimitsChanged(pulls, gc))
        }
        Child::EvictionManager => {
            let eviction = Box::new(settings.resources.eviction.clone());
            context.try_tell(&to.eviction_manager, EvictionManagerMsg::SettingsChanged(eviction))
        }
        Child::LogRotator => {
            let is_told = context.try_tell(&to.log_rotator, LogRotatorMsg::PolicyChanged(settings.logs.rotation));
            if is_told {
                // Pods that it did not hear of while nothing was rotated.
                to.ask_to_repeat(Child::Pleg, Child::LogRotator, context);
            }
            is_told
        }
        Child::NodeStatus => {
            let (update, report) = (settings.node.update_period, settings.node.report_period);
            context.try_tell(&to.node_status, NodeStatusMsg::PeriodsChanged { update, report })
        }
        Child::NodeLease => {
            let limit = settings.node.heartbeat_limit();
            context.try_tell(&to.node_lease, NodeLeaseMsg::LimitChanged(limit))
        }
        _ => true,
    }
}

macro_rules! starts {
    ($(
        $(#[$doc:meta])+
        $child:ident {
            actor: $actor:ty,
            address: $address:ident: Address<$message:ty>,
            args: $args:path,
            $($others:tt)*
        }
    )+) => {
        impl Children for Arc<Agent> {
            fn start(&self, child: Child, context: &mut Context<RootMsg>) -> ActorCell {
                match child {
                    $(Child::$child => context.spawn_child::<$actor>(&self.directory.$address, $args(self)),)+
                }
            }

            fn vacate(&self, child: Child, why: String, context: &Context<RootMsg>) {
                self.directory.vacate(child, why, context);
            }

            fn ask_to_repeat(&self, teacher: Child, learner: Child, context: &Context<RootMsg>) {
                self.directory.ask_to_repeat(teacher, learner, context);
            }

            fn follow(&mut self, settings: &LiveSettings) -> BTreeSet<Child> {
                let changed = changed(&self.settings.live(), settings);
                let settings = self.settings.clone().with(settings);
                *self = Arc::new(Agent { settings, ..Agent::clone(self) });
                changed
            }

            fn tell_settings(&self, child: Child, context: &Context<RootMsg>) -> bool {
                tell_part(self, child, context)
            }

            fn last_words(&self, cause: Cause) -> BoxFuture<'static, ()> {
                let recorder = self.directory.event_recorder.clone();
                async move {
                    // Events are no reason to stay for long.
                    let _ = recorder.ask(cause, LAST_WORDS_MAX, EventRecorderMsg::Flush).await;
                }
                .boxed()
            }
        }

        /// Starts one child in a test, without the others and without Root.
        #[cfg(test)]
        pub(crate) fn start_alone(child: Child, agent: &Arc<Agent>) -> ActorCell {
            match child {
                $(Child::$child => spawn::<$actor>(&agent.directory.$address, $args(agent), None),)+
            }
        }
    };
}

children!(starts);
