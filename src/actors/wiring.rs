//! The arguments of each actor, and the start of the tree: the only place among actors that knows the whole [`Agent`].
//!
//! A folder of files by domain, a function per actor. An actor imports nothing of this; the tree and tests call it.

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

use std::sync::Arc;

use ractor::ActorCell;

use super::agent::Agent;
use super::root::{self, Children, Root};
use super::tree::children;
use crate::actors;
use crate::actors::kit::actor::{Actor, spawn};
use crate::actors::kit::address::Address;
use crate::actors::kit::context::Context;
use crate::messages::root::{Child, RootMsg};

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
