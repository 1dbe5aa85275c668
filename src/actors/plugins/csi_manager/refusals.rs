//! Drivers whose registration failed, and why: for pods that wait for them, and for the node's Events.

use std::collections::{BTreeMap, BTreeSet};

use crate::logic::plugins::plugin::{Plugin, Refusal};

/// The newest failure of each socket of the registry.
#[derive(Default)]
pub(super) struct Refusals {
    of_socket: BTreeMap<String, FailedDriver>,
}

/// A driver that cannot be used.
#[derive(PartialEq, Eq)]
struct FailedDriver {
    name: String,
    why: String,
}

impl Refusals {
    /// Takes a verdict. Gives the text of the node's Event, where a failure is another one than before: drivers are tried again
    /// and again.
    pub(super) fn note(&mut self, plugin: &Plugin, outcome: &Result<(), Refusal>) -> Option<String> {
        let Err(refusal) = outcome else {
            self.forget(&plugin.socket);
            return None;
        };
        let failed = FailedDriver { name: plugin.name.clone(), why: refusal.to_string() };
        let text = format!("CSI driver {} is not used and will be tried again: {refusal}", plugin.name);
        let is_known = self.of_socket.get(&plugin.socket) == Some(&failed);
        self.of_socket.insert(plugin.socket.clone(), failed);
        (!is_known).then_some(text)
    }

    /// Why the registration of a driver of this name failed.
    pub(super) fn of(&self, name: &str) -> Option<String> {
        self.of_socket.values().find(|failed| failed.name == name).map(|failed| failed.why.clone())
    }

    /// The socket is gone, or its driver is used.
    pub(super) fn forget(&mut self, socket: &str) {
        self.of_socket.remove(socket);
    }

    /// There are no other sockets.
    pub(super) fn keep_only(&mut self, sockets: &BTreeSet<String>) {
        self.of_socket.retain(|socket, _| sockets.contains(socket));
    }
}
