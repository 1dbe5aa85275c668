//! The runtime's clock, for what is measured between two moments of one process: it stands still with the simulator's.

use tokio::time::Instant;

/// Now, as timers see it.
#[expect(clippy::disallowed_methods, reason = "paused with the runtime: a simulated run sees simulated time")]
pub(super) fn now() -> Instant {
    Instant::now()
}
