//! The task that carries a stream on once its client was answered.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;

use super::audit::Audit;
use super::relay::Traffic;
use crate::server::backend::open_streams::Permit;
use crate::server::listening::room::Room;

/// The task that carries a stream on once its client was answered.
pub(super) struct Carried {
    /// The client's connection, as soon as it has the answer.
    pub(super) client: OnUpgrade,
    /// How many bytes went which way.
    pub(super) traffic: Arc<Traffic>,
    /// How long nothing may move.
    pub(super) idle_max: std::time::Duration,
    pub(super) audit: Audit,
    /// The memory for large messages of all clients.
    pub(super) room: Room,
    pub(super) _permit: Permit,
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.audit.ended(&self.traffic);
    }
}
