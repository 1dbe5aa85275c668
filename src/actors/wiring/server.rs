//! What the actor that keeps the listening sockets open is given.

use crate::actors::agent::Agent;
use crate::actors::server;

/// Of `Server`.
pub fn server_args(agent: &Agent) -> server::Args {
    server::Args { listeners: agent.listeners.clone() }
}
