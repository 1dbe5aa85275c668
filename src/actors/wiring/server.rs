//! The arguments of the actor that keeps the listening sockets open.

use crate::actors::agent::Agent;
use crate::actors::server;

/// Of `Server`.
pub fn server_args(agent: &Agent) -> server::Args {
    server::Args { listeners: agent.listeners.clone() }
}
