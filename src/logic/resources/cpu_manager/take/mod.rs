//! Which CPUs to take of those that are free; upstream's `cpu_assignment.go`.
//!
//! Pure and the same for the same input. Free CPUs are taken in the largest whole parts that fit, from the fullest places
//! first, so that large parts stay whole for later. Differences from upstream are in docs/differences.md: a part counts as
//! free only when all of its own CPUs are free. The best combination of NUMA nodes is kept as it was found.

mod accumulator;
mod distributed;
mod order;

use std::fmt;

use super::cpu_set::CpuSet;
use super::topology::CpuTopology;

/// How CPUs are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Take single CPUs in the order of their numbers in place of whole cores (`distribute-cpus-across-cores`).
    pub spread: bool,
    /// Fill shared caches before cores (`prefer-align-cpus-by-uncorecache`).
    pub by_uncore: bool,
    /// Even shares of the NUMA nodes, in groups of this many CPUs (`distribute-cpus-across-numa`); never 0.
    pub group: Option<usize>,
}

/// A part of the machine that was taken whole, or single CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// All of a NUMA node.
    Node(u8),
    /// All of a socket.
    Socket(u32),
    /// All of a shared cache.
    Uncore(u32),
    /// Cores within one shared cache that has room for the rest of the request.
    PartOfUncore(u32),
    /// All threads of a core.
    Core(u32),
    /// The rest, for which no whole part was free.
    Single,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(id) => write!(f, "NUMA node {id}"),
            Self::Socket(id) => write!(f, "socket {id}"),
            Self::Uncore(id) => write!(f, "cache {id}"),
            Self::PartOfUncore(id) => write!(f, "part of cache {id}"),
            Self::Core(id) => write!(f, "core {id}"),
            Self::Single => f.write_str("single CPUs"),
        }
    }
}

/// CPUs that were taken, and as which parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// All of them.
    pub cpus: CpuSet,
    /// In the order of the decisions.
    pub steps: Vec<(Level, CpuSet)>,
}

impl Taken {
    fn add(&mut self, level: Level, cpus: &CpuSet) {
        self.cpus = self.cpus.union(cpus);
        self.steps.push((level, cpus.clone()));
    }

    /// Adds what was taken afterwards.
    pub(super) fn extend(&mut self, more: Self) {
        self.cpus = self.cpus.union(&more.cpus);
        self.steps.extend(more.steps);
    }
}

/// For `podwright explain`: `socket 0: 0-7; core 8: 8,24`.
impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (level, cpus)) in self.steps.iter().enumerate() {
            write!(f, "{}{level}: {cpus}", if at == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// Fewer CPUs are free than were asked for; upstream's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not enough cpus available to satisfy request: requested={requested}, available={available}")]
pub struct NotEnough {
    /// As many were asked for.
    pub requested: usize,
    /// As many are free.
    pub available: usize,
}

/// Takes `count` of the `available` CPUs.
///
/// # Errors
/// When there are not as many.
pub fn take(topology: &CpuTopology, available: &CpuSet, count: usize, manner: Manner) -> Result<Taken, NotEnough> {
    match manner.group {
        Some(group) => distributed::take(topology, available, count, group.max(1), manner.spread),
        None => accumulator::take(topology, available, count, manner.spread, manner.by_uncore),
    }
}
