//! The rate at which one endpoint's calls are answered (RES-54; upstream's `WithRateLimiter`).

use std::sync::{Arc, Mutex, PoisonError};

use tonic::Status;

use crate::logic::serving::call_rate::CallRate;
use crate::platform::host::clock::Clock;

/// Calls a second, and at once after a pause: upstream's figures for both endpoints.
const RATE: (u32, u32) = (100, 10);

/// See the module.
pub(super) struct CallGate {
    rate: Mutex<CallRate>,
    clock: Arc<dyn Clock>,
}

impl CallGate {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { rate: Mutex::new(CallRate::new(RATE.0, RATE.1)), clock }
    }

    /// Lets a call in; what is over the rate is refused with upstream's text. As upstream, watches do not count.
    pub(super) fn enter(&self) -> Result<(), Status> {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        match rate.take(self.clock.uptime()) {
            true => Ok(()),
            false => Err(Status::resource_exhausted("rejected by rate limit")),
        }
    }
}
