//! Time as decisions see it: handed in, never read.

use std::time::Duration;

/// A point on the wall clock, in nanoseconds since 1970-01-01T00:00:00Z. The runtime's timestamps are of this kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, serde::Serialize)]
#[serde(transparent)]
pub struct Moment(pub i64);

impl Moment {
    /// The beginning of 1970; also what the runtime says for "never".
    pub const EPOCH: Self = Self(0);

    /// How long before `self` the moment `earlier` was; zero when it was not before.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The moment `duration` later, at most the last one that fits.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// As the API writes times: RFC 3339, whole seconds, UTC.
    pub fn to_timestamp(self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(self.0.div_euclid(1_000_000_000)).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }

    /// From a time of the API.
    pub fn from_timestamp(timestamp: jiff::Timestamp) -> Self {
        Self(i64::try_from(timestamp.as_nanosecond()).unwrap_or(i64::MAX))
    }
}

/// A point on the agent's own clock: nanoseconds of its uptime, below zero for what happened before its start. Nobody can set
/// this clock, so waits are measured on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, serde::Serialize)]
#[serde(transparent)]
pub struct Steady(pub i64);

impl Steady {
    /// The point at this uptime.
    pub fn at(uptime: Duration) -> Self {
        Self(0).plus(uptime)
    }

    /// How long before `self` the point `earlier` was; zero when it was not before.
    pub fn since(self, earlier: Self) -> Duration {
        Moment(self.0).since(Moment(earlier.0))
    }

    /// The point `duration` later.
    pub fn plus(self, duration: Duration) -> Self {
        Self(Moment(self.0).plus(duration).0)
    }
}

/// Both clocks, read at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The wall clock. It may jump.
    pub wall: Moment,
    /// The agent's own.
    pub steady: Steady,
}

impl Clocks {
    /// Where on the agent's own clock an event lies that others date by the wall clock. An event in the future was dated
    /// before somebody set the clock back: it counts as having just happened.
    pub fn steady_of(self, event: Moment) -> Steady {
        let age = i64::try_from(self.wall.since(event).as_nanos()).unwrap_or(i64::MAX);
        Steady(self.steady.0.saturating_sub(age))
    }
}

/// A place in the one order of everything that happens in the agent. Two events never share a stamp; a later event has
/// the larger one. Used where "newer than" must be exact and a clock would be too coarse or might jump.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, serde::Serialize)]
#[serde(transparent)]
pub struct Stamp(pub u64);
