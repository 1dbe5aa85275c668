//! Processor time of actors' turns, for `make bench-scale`: the one thing of a run that is real and not simulated.
//!
//! Turns of one agent run on one thread, one after the other. Virtual time does not pass meanwhile; so how late a turn is
//! follows from when it could begin and what those before it took.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::clock::VirtualTime;
use crate::actors::kit::trace::lock;

/// Turns of one kind of actor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCost {
    /// How many.
    pub turns: u64,
    /// The time that they took together.
    pub took: Duration,
}

/// The measurements.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// By kind of actor.
    pub kinds: BTreeMap<&'static str, TurnCost>,
    /// The longest turn, and whose it was.
    pub longest: (Duration, &'static str),
    /// The latest beginning of a turn of the one who probes.
    pub probes_late: Duration,
}

impl Measured {
    /// All kinds together.
    pub fn all(&self) -> TurnCost {
        let sum = |sum: TurnCost, one: &TurnCost| TurnCost { turns: sum.turns + one.turns, took: sum.took + one.took };
        self.kinds.values().fold(TurnCost::default(), sum)
    }
}

#[derive(Default)]
struct State {
    began: Duration,
    /// Until then the thread is busy, in virtual time and what turns took.
    busy_until: Duration,
    measured: Measured,
}

/// See the module.
pub struct TurnMeter {
    /// The thread's processor time.
    clock: fn() -> Duration,
    time: VirtualTime,
    state: Mutex<State>,
}

impl TurnMeter {
    /// Measures by this clock.
    pub fn new(clock: fn() -> Duration, time: VirtualTime) -> Self {
        Self { clock, time, state: Mutex::default() }
    }

    /// The measurements since the last time.
    pub fn take(&self) -> Measured {
        std::mem::take(&mut lock(&self.state).measured)
    }

    pub(super) fn begin(&self, kind: &'static str) {
        let mut state = lock(&self.state);
        if kind == "Prober" {
            let late = state.busy_until.saturating_sub(self.time.elapsed());
            state.measured.probes_late = state.measured.probes_late.max(late);
        }
        state.began = (self.clock)();
    }

    pub(super) fn end(&self, kind: &'static str) {
        let mut state = lock(&self.state);
        let took = (self.clock)().saturating_sub(state.began);
        state.busy_until = state.busy_until.max(self.time.elapsed()) + took;
        let cost = state.measured.kinds.entry(kind).or_default();
        (cost.turns, cost.took) = (cost.turns + 1, cost.took + took);
        if took > state.measured.longest.0 {
            state.measured.longest = (took, kind);
        }
    }
}
