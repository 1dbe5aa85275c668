//! One hint of the hints of all providers; upstream's `HintMerger`.
//!
//! Pure. The result is the one of upstream's search through every combination of hints. Its order among candidates is
//! total, so neither the order of the providers nor that of their resources matters.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::hints::{Hint, Hints, NumaMask};
use super::machine::NumaNodes;
use super::reachable::reachable;

/// Which of two sets with as many nodes is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The one with lower numbers.
    Narrowest,
    /// The one whose nodes are closer to each other, then the one with lower numbers; `prefer-closest-numa-nodes`.
    Closest,
}

/// The merged hint and what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) hint: Hint,
    /// Elementary steps: what tests bound in the place of time.
    pub(super) steps: u64,
}

/// The hints of every resource of every provider, as the merge takes them; upstream's `filterProvidersHints`.
pub(super) fn lists(providers: &[Hints]) -> Vec<Vec<Hint>> {
    let of_resource = |hints: &Option<Vec<Hint>>| match hints.as_deref() {
        None => vec![Hint::ANY],
        Some([]) => vec![Hint { nodes: None, preferred: false }],
        Some(hints) => hints.to_vec(),
    };
    let of_provider = |hints: &Hints| match hints.is_empty() {
        true => vec![vec![Hint::ANY]],
        false => hints.values().map(of_resource).collect(),
    };
    providers.iter().flat_map(of_provider).collect()
}

/// The best hint that every list agrees to; all nodes, not preferred, where there is none.
pub(super) fn merge(machine: &NumaNodes, lists: &[Vec<Hint>], fit: Fit) -> Merged {
    let hints: usize = lists.iter().map(Vec::len).sum();
    let mut steps = u64::try_from(hints).unwrap_or(u64::MAX);
    let nothing = Hint { nodes: Some(machine.all()), preferred: false };
    if lists.iter().any(Vec::is_empty) {
        return Merged { hint: nothing, steps };
    }
    let score = |nodes: NumaMask| Score::of(machine, nodes, fit);
    if let Some(nodes) = preferred(machine.all(), lists).into_iter().min_by_key(|nodes| score(*nodes)) {
        return Merged { hint: Hint { nodes: Some(nodes), preferred: true }, steps };
    }
    let sets = |list: &Vec<Hint>| list.iter().map(|hint| hint.nodes.unwrap_or(machine.all())).collect();
    let found = reachable(machine.all(), &lists.iter().map(sets).collect::<Vec<BTreeSet<NumaMask>>>());
    steps = steps.saturating_add(found.steps);
    let wanted = largest_need(lists);
    let candidates = found.sets.into_iter().filter(|nodes| !nodes.is_empty());
    let best = candidates.min_by_key(|nodes| (Closeness::of(nodes.count(), wanted), score(*nodes)));
    Merged { hint: best.map_or(nothing, |nodes| Hint { nodes: Some(nodes), preferred: false }), steps }
}

/// Of two sets the one with the smaller score is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    count: u32,
    spread: u64,
    bits: u64,
}

impl Score {
    fn of(machine: &NumaNodes, nodes: NumaMask, fit: Fit) -> Self {
        let spread = if fit == Fit::Closest { machine.spread(nodes) } else { 0 };
        Self { count: nodes.count(), spread, bits: nodes.bits() }
    }
}

/// How near a number of nodes is to the one that the neediest resource wants; the smaller, the better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Closeness {
    /// As many.
    Same,
    /// Fewer: the more, the better.
    Fewer(Reverse<u32>),
    /// More: [`Score`] prefers few.
    More,
}

impl Closeness {
    fn of(count: u32, wanted: u32) -> Self {
        match count.cmp(&wanted) {
            std::cmp::Ordering::Equal => Self::Same,
            std::cmp::Ordering::Less => Self::Fewer(Reverse(count)),
            std::cmp::Ordering::Greater => Self::More,
        }
    }
}

/// How many nodes the resource wants that wants most, each at its narrowest hint.
fn largest_need(lists: &[Vec<Hint>]) -> u32 {
    let narrowest = |list: &Vec<Hint>| list.iter().filter_map(|hint| hint.nodes).map(NumaMask::count).min();
    lists.iter().filter_map(narrowest).max().unwrap_or(0)
}

/// The outcomes of combinations that are preferred: each hint is preferred, and all that name nodes name the same.
fn preferred(all: NumaMask, lists: &[Vec<Hint>]) -> BTreeSet<NumaMask> {
    let mut named = BTreeSet::new();
    let mut common: Option<BTreeSet<NumaMask>> = None;
    for list in lists {
        let preferred = || list.iter().filter(|hint| hint.preferred);
        let sets: BTreeSet<NumaMask> = preferred().filter_map(|hint| hint.nodes).collect();
        named.extend(sets.iter().copied());
        if preferred().any(|hint| hint.nodes.is_none()) {
            continue;
        }
        common = Some(match common {
            Some(common) => common.intersection(&sets).copied().collect(),
            None => sets,
        });
    }
    // Without a list that insists on nodes, one list alone may name them, or none.
    let sets = common.unwrap_or_else(|| named.into_iter().chain([all]).collect());
    sets.into_iter().map(|set| set.and(all)).filter(|set| !set.is_empty()).collect()
}

#[cfg(test)]
mod tests;
