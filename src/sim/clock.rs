//! The simulated node's time: tokio's paused clock, a wall clock on top of it that may be set, and the order of everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::logic::model::time::{Moment, Stamp};
use crate::platform::host::clock::Clock;

/// 2030-01-01T00:00:00Z: the wall clock of a run's beginning.
const BEGINNING: Moment = Moment(1_893_456_000 * 1_000_000_000);

/// Virtual time, counted from the beginning of the run. Lives on the thread of the run's own tokio runtime.
#[derive(Clone, Debug)]
pub struct VirtualTime {
    began: Instant,
    /// How far the node's wall clock was set off, in nanoseconds. Copies of the time share it.
    set_off: Arc<AtomicI64>,
}

/// The date of an event of the node.
#[derive(Clone, Copy, Debug)]
pub struct Date {
    /// The node's wall clock, which tells it to others.
    pub shown: Moment,
    /// A clock that nobody sets, for the simulator's own sums.
    pub truly: Moment,
}

impl VirtualTime {
    /// Begins now.
    pub fn begin() -> Self {
        Self { began: instant(), set_off: Arc::default() }
    }

    /// Since the beginning.
    pub fn elapsed(&self) -> Duration {
        instant().saturating_duration_since(self.began)
    }

    /// The node's wall clock: the runtime's and the agent's.
    pub fn now(&self) -> Moment {
        Moment(self.truly().0.saturating_add(self.set_off.load(Ordering::Relaxed)))
    }

    /// A wall clock that is right: that of other machines.
    pub fn truly(&self) -> Moment {
        BEGINNING.plus(self.elapsed())
    }

    /// Both.
    pub fn date(&self) -> Date {
        Date { shown: self.now(), truly: self.truly() }
    }

    /// The node's wall clock jumps so many nanoseconds ahead, or back.
    pub fn step(&self, nanoseconds: i64) {
        self.set_off.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// The node's wall clock is set right; says whether it was wrong.
    pub fn set_right(&self) -> bool {
        self.set_off.swap(0, Ordering::Relaxed) != 0
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the simulated clock itself")]
fn instant() -> Instant {
    Instant::now()
}

/// One incarnation of the agent's clock: the node's wall clock, its own uptime and order.
#[derive(Debug)]
pub struct AgentClock {
    time: VirtualTime,
    started: Duration,
    stamps: AtomicU64,
}

impl AgentClock {
    /// A clock of an agent that starts now.
    pub fn start(time: &VirtualTime) -> Arc<Self> {
        Arc::new(Self { time: time.clone(), started: time.elapsed(), stamps: AtomicU64::new(0) })
    }
}

impl Clock for AgentClock {
    fn now(&self) -> Moment {
        self.time.now()
    }

    fn uptime(&self) -> Duration {
        self.time.elapsed().saturating_sub(self.started)
    }

    fn stamp(&self) -> Stamp {
        Stamp(self.stamps.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
