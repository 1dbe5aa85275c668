//! The only place where the agent reads a clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::logic::model::time::{Moment, Stamp};

/// Time and order, handed to everything that needs them.
pub trait Clock: Send + Sync {
    /// The wall clock. It may jump.
    fn now(&self) -> Moment;
    /// How long the agent has run. It never goes back.
    fn uptime(&self) -> Duration;
    /// How long the machine has run, suspended or not. One that is played has always run.
    fn machine_uptime(&self) -> Duration {
        Duration::MAX
    }
    /// The next place in the order of everything that happens here.
    fn stamp(&self) -> Stamp;
}

/// The machine's clocks.
pub struct SystemClock {
    started: std::time::Instant,
    stamps: AtomicU64,
}

impl SystemClock {
    /// A clock whose uptime begins now.
    #[expect(clippy::disallowed_methods, reason = "this is the adapter")]
    pub fn start() -> Self {
        Self { started: std::time::Instant::now(), stamps: AtomicU64::new(0) }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter")]
    fn now(&self) -> Moment {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Moment::EPOCH.plus(since_epoch)
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Where the kernel does not tell, the machine has always run.
    fn machine_uptime(&self) -> Duration {
        let told = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME);
        told.map_or(Duration::MAX, Duration::from)
    }

    fn stamp(&self) -> Stamp {
        Stamp(self.stamps.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
