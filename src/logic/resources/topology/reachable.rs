//! Which sets of NUMA nodes can come out when one hint of every resource is taken and only common nodes are kept.
//!
//! Pure. Upstream tries every combination, which is a product of all lists' lengths. Here the resources are taken one
//! after the other, and of each only the different outcomes are kept: at most two to the power of the nodes.

use std::collections::BTreeSet;

use super::hints::NumaMask;

/// With more nodes than this, a table of all sets of nodes takes too much memory (8 bytes for each).
const TABLE_NODES_MAX: u32 = 20;

/// All outcomes, and how many elementary steps it took to find them.
#[derive(Debug, Default)]
pub(super) struct Reachable {
    pub(super) sets: BTreeSet<NumaMask>,
    pub(super) steps: u64,
}

/// The outcomes of taking one set out of every list, beginning with `all` nodes.
pub(super) fn reachable(all: NumaMask, lists: &[BTreeSet<NumaMask>]) -> Reachable {
    let mut found = Reachable { sets: BTreeSet::from([all]), steps: 0 };
    for list in lists {
        let list: BTreeSet<NumaMask> = list.iter().map(|set| set.and(all)).collect();
        let pairs = count(found.sets.len()).saturating_mul(count(list.len()));
        let sets = match table_steps(all) {
            Some(steps) if steps < pairs => {
                found.steps = found.steps.saturating_add(steps);
                by_table(all, &found.sets, &list)
            }
            _ => {
                found.steps = found.steps.saturating_add(pairs);
                let each = |set: &NumaMask| list.iter().map(|other| set.and(*other)).collect::<Vec<_>>();
                found.sets.iter().flat_map(each).collect()
            }
        };
        found.sets = sets;
    }
    found
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The cost of [`by_table`]: two sums and one difference over all sets for each node, and the product.
fn table_steps(all: NumaMask) -> Option<u64> {
    let nodes = all.count();
    (nodes <= TABLE_NODES_MAX).then(|| (3 * u64::from(nodes) + 1) << nodes)
}

/// The outcomes of two lists, in time that does not depend on their lengths.
///
/// For every set it counts the pairs whose common nodes include the set: the product of how many entries of either
/// list include it. Inclusion and exclusion turns this into the number of pairs whose common nodes are just the set.
/// All numbers are exact: at most two to the power of twice [`TABLE_NODES_MAX`].
fn by_table(all: NumaMask, sets: &BTreeSet<NumaMask>, list: &BTreeSet<NumaMask>) -> BTreeSet<NumaMask> {
    let nodes: Vec<u8> = all.iter().collect();
    let size = 1_usize << nodes.len();
    let place = |set: NumaMask| {
        nodes.iter().enumerate().fold(0, |place: usize, (bit, node)| place | usize::from(set.contains(*node)) << bit)
    };
    let including = |sets: &BTreeSet<NumaMask>| {
        let mut table = vec![0_u64; size];
        sets.iter().for_each(|set| table[place(*set)] = 1);
        for_each_half(&mut table, nodes.len(), |without, with| *without += with);
        table
    };
    let (mut table, other) = (including(sets), including(list));
    table.iter_mut().zip(other).for_each(|(pairs, others)| *pairs *= others);
    for_each_half(&mut table, nodes.len(), |without, with| *without -= with);
    let set = |place: usize| {
        nodes.iter().enumerate().filter(|(bit, _)| place >> bit & 1 == 1).map(|(_, node)| *node).collect::<NumaMask>()
    };
    table.iter().enumerate().filter(|(_, pairs)| **pairs > 0).map(|(place, _)| set(place)).collect()
}

/// Visits, bit after bit, every entry without the bit together with the entry that has it.
fn for_each_half(table: &mut [u64], bits: usize, visit: impl Fn(&mut u64, u64)) {
    for half in (0..bits).map(|bit| 1_usize << bit) {
        for block in table.chunks_mut(2 * half) {
            let (without, with) = block.split_at_mut(half);
            without.iter_mut().zip(with).for_each(|(without, with)| visit(without, *with));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sets(bits: &BTreeSet<u64>) -> BTreeSet<NumaMask> {
        bits.iter().map(|bits| NumaMask::from_bits(*bits)).collect()
    }

    proptest! {
        #[test]
        fn the_table_and_the_pairs_agree(
            all in 1_u64..1 << 12,
            one in prop::collection::btree_set(0_u64..1 << 12, 1..40),
            two in prop::collection::btree_set(0_u64..1 << 12, 1..40),
        ) {
            let all = NumaMask::from_bits(all);
            let within = |bits: &BTreeSet<u64>| sets(bits).into_iter().map(|set| set.and(all)).collect::<BTreeSet<_>>();
            let (one, two) = (within(&one), within(&two));
            let pairs: BTreeSet<_> = one.iter().flat_map(|a| two.iter().map(|b| a.and(*b))).collect();
            prop_assert_eq!(by_table(all, &one, &two), pairs);
        }
    }

    #[test]
    fn nodes_beyond_the_table_are_paired() {
        let all = NumaMask::of(0..64);
        let lists = [BTreeSet::from([NumaMask::of(0..40), NumaMask::of([63])]), BTreeSet::from([NumaMask::of(30..64)])];
        let found = reachable(all, &lists);
        assert_eq!(found.sets, BTreeSet::from([NumaMask::of(30..40), NumaMask::of([63])]));
        assert_eq!(found.steps, 2 + 2);
    }
}
