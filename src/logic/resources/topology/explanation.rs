//! Which NUMA nodes were chosen and why not others, for people.
//!
//! Pure. `podwright explain` prints it; nothing reads the text back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::hints::{Hints, NumaMask};
use super::policy::{Policy, Verdict};

/// For what nodes were chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// All containers together.
    Pod,
    /// The container of this name.
    Container(String),
}

/// Why a node is not among the chosen ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhyNot {
    /// No place of the size that was chosen, or of one node, has the node and gives these resources.
    Lacks(BTreeSet<String>),
    /// It would have done as well; others have lower numbers, are closer or give all with fewer nodes.
    Behind,
}

/// Which NUMA nodes were chosen for a container or pod, and why not others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// For what.
    pub unit: Unit,
    /// The chosen nodes; `None`: the resources have no place.
    pub chosen: Option<NumaMask>,
    /// No fewer nodes could ever give all resources.
    pub preferred: bool,
    /// The policy admits the choice.
    pub admitted: bool,
    /// The other nodes by reason.
    pub others: BTreeMap<WhyNot, NumaMask>,
}

impl Explanation {
    /// Of a verdict on these hints.
    pub(super) fn of(policy: &Policy, unit: Unit, providers: &[Hints], verdict: &Verdict) -> Self {
        let (chosen, preferred, admitted) = (verdict.hint.nodes, verdict.hint.preferred, verdict.admit);
        let mut others: BTreeMap<WhyNot, NumaMask> = BTreeMap::new();
        // A refused choice explains nothing: then each node is looked at by itself.
        let taken = chosen.filter(|_| admitted);
        let size = taken.map_or(1, NumaMask::count);
        if taken.is_some() || !admitted {
            for node in policy.nodes().iter().filter(|node| !taken.is_some_and(|taken| taken.contains(*node))) {
                let nodes = others.entry(why_not(node, size, providers)).or_default();
                *nodes = nodes.or(NumaMask::of([node]));
            }
        }
        Self { unit, chosen, preferred, admitted, others }
    }
}

fn why_not(node: u8, size: u32, providers: &[Hints]) -> WhyNot {
    let named = providers.iter().flatten().filter_map(|(name, hints)| Some((name, hints.as_ref()?)));
    let lacking = named.filter(|(_, hints)| {
        let gives = |nodes: NumaMask| nodes.contains(node) && nodes.count() <= size;
        !hints.iter().any(|hint| hint.nodes.is_none_or(gives))
    });
    let lacking: BTreeSet<String> = lacking.map(|(name, _)| name.clone()).collect();
    if lacking.is_empty() { WhyNot::Behind } else { WhyNot::Lacks(lacking) }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod => f.write_str("the pod"),
            Self::Container(name) => write!(f, "container {name}"),
        }
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacks(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                write!(f, "no {} there", names.join(" and no "))
            }
            Self::Behind => f.write_str("able, but ranked behind"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.unit)?;
        match (self.admitted, self.chosen) {
            (false, _) => f.write_str("no NUMA nodes that the policy admits")?,
            (true, None) => f.write_str("any NUMA nodes")?,
            (true, Some(nodes)) if self.preferred => write!(f, "NUMA nodes {nodes} (preferred)")?,
            (true, Some(nodes)) => write!(f, "NUMA nodes {nodes} (not preferred)")?,
        }
        for (why, nodes) in &self.others {
            write!(f, "; not {nodes}: {why}")?;
        }
        Ok(())
    }
}
