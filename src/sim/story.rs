//! The story of a run, in order: virtual times, who, what. Names and times only, so that one seed tells one story.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use super::clock::VirtualTime;
use crate::actors::kit::trace::lock;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Virtual time.
    pub at: Duration,
    /// The source: `runtime`, `agent`, `user`, `fault`, …
    pub who: &'static str,
    /// The event.
    pub what: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3}s  {:<9} {}", self.at.as_secs_f64(), self.who, self.what)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Story {
    time: VirtualTime,
    lines: Mutex<Vec<Line>>,
}

impl Story {
    /// Empty.
    pub fn new(time: VirtualTime) -> Self {
        Self { time, lines: Mutex::default() }
    }

    /// Adds a line.
    pub fn tell(&self, who: &'static str, what: impl Into<String>) {
        lock(&self.lines).push(Line { at: self.time.elapsed(), who, what: what.into() });
    }

    /// Forgets all so far.
    pub fn forget(&self) {
        *lock(&self.lines) = Vec::new();
    }

    /// All so far, since it was forgotten.
    pub fn lines(&self) -> Vec<Line> {
        lock(&self.lines).clone()
    }
}
