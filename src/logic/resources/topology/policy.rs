//! The policies of the topology manager and their options (RES-35, RES-38).
//!
//! Pure. Upstream: `policy*.go`, `policy_options.go` and `NewManager`.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::hints::{Hint, Hints, NumaMask};
use super::machine::{NoDistances, NumaNodes};
use super::merge::{Fit, lists, merge};
use crate::logic::formats::go_number::{NumberError, atoi, parse_bool};
use crate::logic::formats::go_text::quoted;

/// How many NUMA nodes a machine may have without `max-allowable-numa-nodes`.
pub const NODES_MAX_DEFAULT: i64 = 8;
/// The option to prefer nodes that are close to each other.
pub const PREFER_CLOSEST: &str = "prefer-closest-numa-nodes";
/// The option for machines of more than [`NODES_MAX_DEFAULT`] nodes.
pub const NODES_MAX: &str = "max-allowable-numa-nodes";

/// The use of the hints; upstream's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// No alignment: providers are not asked.
    None,
    /// Aligned where possible; always admitted.
    BestEffort,
    /// Admitted only with a preferred hint.
    Restricted,
    /// Admitted only where one node gives everything.
    SingleNumaNode,
}

/// For what unit all resources are aligned; upstream's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each container by itself.
    Container,
    /// All containers of a pod together.
    Pod,
}

/// The options of `topologyManagerPolicyOptions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Among sets of as many nodes, take those that are close to each other.
    pub prefer_closest: bool,
    /// The largest number of NUMA nodes that is accepted.
    pub nodes_max: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self { prefer_closest: false, nodes_max: NODES_MAX_DEFAULT }
    }
}

/// Why the topology manager cannot start; the texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// No such policy.
    #[error("unknown policy: \"{0}\"")]
    UnknownPolicy(String),
    /// No such scope.
    #[error("unknown scope: \"{0}\"")]
    UnknownScope(String),
    /// No such option.
    #[error("unknown Topology Manager Policy option: {}", quoted(.0))]
    UnknownOption(String),
    /// The value is neither true nor false.
    #[error("bad value for option {}: {error}", quoted(.name))]
    NoBool {
        /// The option.
        name: &'static str,
        /// The fault in its value.
        error: NumberError,
    },
    /// The value is no whole number.
    #[error("unable to convert policy option to integer {}: {error}", quoted(.name))]
    NoInteger {
        /// The option.
        name: &'static str,
        /// The fault in its value.
        error: NumberError,
    },
    /// Fewer nodes than are always accepted.
    #[error("the minimum value of {} should not be less than {NODES_MAX_DEFAULT}", quoted(NODES_MAX))]
    TooFewNodes,
    /// The machine has more nodes than are accepted.
    #[error("unsupported on machines with more than {0} NUMA Nodes")]
    TooManyNodes(i64),
    /// The machine says no distances.
    #[error("cannot discover NUMA topology: {0}")]
    NoDistances(#[from] NoDistances),
}

impl FromStr for PolicyKind {
    type Err = TopologyError;

    fn from_str(name: &str) -> Result<Self, TopologyError> {
        match name {
            "none" => Ok(Self::None),
            "best-effort" => Ok(Self::BestEffort),
            "restricted" => Ok(Self::Restricted),
            "single-numa-node" => Ok(Self::SingleNumaNode),
            _ => Err(TopologyError::UnknownPolicy(name.to_owned())),
        }
    }
}

impl FromStr for Scope {
    type Err = TopologyError;

    fn from_str(name: &str) -> Result<Self, TopologyError> {
        match name {
            "container" => Ok(Self::Container),
            "pod" => Ok(Self::Pod),
            _ => Err(TopologyError::UnknownScope(name.to_owned())),
        }
    }
}

impl Options {
    /// Reads the options. Both are stable in 1.36, so `TopologyManagerPolicyAlphaOptions` and
    /// `TopologyManagerPolicyBetaOptions` hold none back.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of names.
    pub fn parse(written: &BTreeMap<String, String>) -> Result<Self, Vec<TopologyError>> {
        let mut options = Self::default();
        let mut errors = Vec::new();
        for (name, value) in written {
            let result = match name.as_str() {
                PREFER_CLOSEST => prefer_closest(value).map(|value| options.prefer_closest = value),
                NODES_MAX => nodes_max(value).map(|value| options.nodes_max = value),
                _ => Err(TopologyError::UnknownOption(name.clone())),
            };
            errors.extend(result.err());
        }
        if errors.is_empty() { Ok(options) } else { Err(errors) }
    }
}

fn prefer_closest(value: &str) -> Result<bool, TopologyError> {
    parse_bool(value).map_err(|error| TopologyError::NoBool { name: PREFER_CLOSEST, error })
}

fn nodes_max(value: &str) -> Result<i64, TopologyError> {
    let number = atoi(value).map_err(|error| TopologyError::NoInteger { name: NODES_MAX, error })?;
    if number < NODES_MAX_DEFAULT { Err(TopologyError::TooFewNodes) } else { Ok(number) }
}

/// A policy for one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    kind: PolicyKind,
    machine: NumaNodes,
    fit: Fit,
}

/// The result of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Where the resources are to come from.
    pub hint: Hint,
    /// Whether the policy admits this.
    pub admit: bool,
}

impl Policy {
    /// A policy for this machine.
    ///
    /// # Errors
    /// [`TopologyError::TooManyNodes`] and [`TopologyError::NoDistances`]; never for the policy `none`.
    pub fn new(kind: PolicyKind, options: Options, machine: NumaNodes) -> Result<Self, TopologyError> {
        if kind == PolicyKind::None {
            return Ok(Self { kind, machine, fit: Fit::Narrowest });
        }
        if options.prefer_closest {
            machine.check_distances()?;
        }
        if i64::from(machine.all().count()) > options.nodes_max {
            return Err(TopologyError::TooManyNodes(options.nodes_max));
        }
        // As upstream, nodes of a single-node hint are never far from each other.
        let closest = options.prefer_closest && kind != PolicyKind::SingleNumaNode;
        Ok(Self { kind, machine, fit: if closest { Fit::Closest } else { Fit::Narrowest } })
    }

    /// Which policy it is.
    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// Whether an admitted container is surely aligned; upstream's `IsAlignmentGuaranteed`.
    pub fn guarantees_alignment(&self) -> bool {
        self.kind == PolicyKind::SingleNumaNode
    }

    /// All NUMA nodes of the machine.
    pub fn nodes(&self) -> NumaMask {
        self.machine.all()
    }

    /// Merges what all providers hinted, in any order.
    pub fn merge(&self, providers: &[Hints]) -> Verdict {
        match self.kind {
            PolicyKind::None => Verdict { hint: Hint { nodes: None, preferred: false }, admit: true },
            PolicyKind::BestEffort => Verdict { hint: self.best(&lists(providers)), admit: true },
            PolicyKind::Restricted => {
                let hint = self.best(&lists(providers));
                Verdict { admit: hint.preferred, hint }
            }
            PolicyKind::SingleNumaNode => {
                let mut lists = lists(providers);
                let is_single = |hint: &Hint| hint.preferred && hint.nodes.is_none_or(|nodes| nodes.count() == 1);
                lists.iter_mut().for_each(|list| list.retain(is_single));
                let mut hint = self.best(&lists);
                // All nodes mean that nobody named one. As upstream, this includes the one node of a small machine.
                hint.nodes = hint.nodes.filter(|nodes| *nodes != self.machine.all());
                Verdict { admit: hint.preferred, hint }
            }
        }
    }

    fn best(&self, lists: &[Vec<Hint>]) -> Hint {
        merge(&self.machine, lists, self.fit).hint
    }
}

#[cfg(test)]
mod tests;
