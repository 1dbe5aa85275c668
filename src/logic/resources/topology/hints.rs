//! Where a resource could come from: sets of NUMA nodes and the hints made of them.
//!
//! Pure. The CPU, memory and device managers make hints; the topology manager merges them (KEP-693).

use std::collections::BTreeMap;
use std::fmt;

/// NUMA nodes as bits, at most 64; upstream's `BitMask`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NumaMask(u64);

impl NumaMask {
    /// The set of these nodes. Nodes from 64 on cannot be in a set and are left out.
    pub fn of(nodes: impl IntoIterator<Item = u8>) -> Self {
        let bit = |node: u8| 1_u64.checked_shl(u32::from(node)).unwrap_or(0);
        Self(nodes.into_iter().fold(0, |bits, node| bits | bit(node)))
    }

    /// The set whose bit `n` says whether node `n` is in it.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Bit `n` says whether node `n` is in the set.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether this node is in the set.
    pub fn contains(self, node: u8) -> bool {
        self.0.checked_shr(u32::from(node)).unwrap_or(0) & 1 == 1
    }

    /// The nodes that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The nodes that are in either set.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// How many nodes there are.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether no node is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every node of this set is in the other.
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The nodes, in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0_u8..64).filter(move |node| self.contains(*node))
    }

    /// Upstream's `IsNarrowerThan`: fewer nodes, and among as many nodes those of lower numbers.
    pub const fn is_narrower_than(self, other: Self) -> bool {
        let (own, others) = (self.count(), other.count());
        if own == others { self.0 < other.0 } else { own < others }
    }
}

impl FromIterator<u8> for NumaMask {
    fn from_iter<T: IntoIterator<Item = u8>>(nodes: T) -> Self {
        Self::of(nodes)
    }
}

/// The form of `cpuset.mems`: `0-1,3`; nothing for the empty set.
impl fmt::Display for NumaMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut next = 0_u8;
        while let Some(first) = (next..64).find(|node| self.contains(*node)) {
            let last = (first..64).take_while(|node| self.contains(*node)).last().unwrap_or(first);
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
            next = last + 1;
        }
        Ok(())
    }
}

impl fmt::Debug for NumaMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// One place that a resource could come from; upstream's `TopologyHint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The nodes that would give the resource; `None`: any nodes will do.
    pub nodes: Option<NumaMask>,
    /// No place with fewer nodes could ever give it.
    pub preferred: bool,
}

impl Hint {
    /// Any nodes will do.
    pub const ANY: Self = Self { nodes: None, preferred: true };
}

/// Hints of one provider by resource name.
///
/// A resource of `None` has no preference; one with an empty list cannot be met. A provider without any resource has
/// no preference at all.
pub type Hints = BTreeMap<String, Option<Vec<Hint>>>;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fewer_nodes_are_narrower_and_then_lower_numbers() {
        // (nodes, others, narrower): upstream's `TestIsNarrowerThan` and its equal case.
        let cases: [(&[u8], &[u8], bool); 6] = [
            (&[0], &[0, 1], true),
            (&[0, 1], &[0], false),
            (&[0], &[1], true),
            (&[1], &[0], false),
            (&[3], &[0, 1], true),
            (&[0, 2], &[0, 2], false),
        ];
        for (nodes, others, narrower) in cases {
            let (own, other) = (NumaMask::of(nodes.iter().copied()), NumaMask::of(others.iter().copied()));
            assert_eq!(own.is_narrower_than(other), narrower, "{own:?} {other:?}");
        }
    }

    #[test]
    fn a_set_is_written_as_the_kernel_writes_it() {
        let cases: [(&[u8], &str); 6] = [
            (&[], ""),
            (&[0], "0"),
            (&[1, 0], "0-1"),
            (&[0, 1, 2, 4], "0-2,4"),
            (&[63], "63"),
            (&[62, 63, 64], "62-63"),
        ];
        for (nodes, text) in cases {
            assert_eq!(NumaMask::of(nodes.iter().copied()).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn a_set_gives_its_nodes_back(nodes in prop::collection::btree_set(0_u8..64, 0..64)) {
            let mask = NumaMask::of(nodes.iter().copied());
            prop_assert_eq!(mask.iter().collect::<Vec<_>>(), nodes.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(usize::try_from(mask.count()), Ok(nodes.len()));
            prop_assert_eq!(NumaMask::from_bits(mask.bits()), mask);
            prop_assert!((0..=255).all(|node| mask.contains(node) == nodes.contains(&node)));
        }

        #[test]
        fn two_different_sets_are_narrower_in_one_direction_alone(a in any::<u64>(), b in any::<u64>()) {
            let (a, b) = (NumaMask::from_bits(a), NumaMask::from_bits(b));
            prop_assert_eq!(a.is_narrower_than(b) != b.is_narrower_than(a), a != b);
            prop_assert!(a.and(b).is_within(a) && a.is_within(a.or(b)));
        }
    }
}
