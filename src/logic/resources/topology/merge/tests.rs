//! The merge against a search through all combinations, and its cost.

use proptest::prelude::*;

use super::*;

fn hint(bits: u64, preferred: bool) -> Hint {
    Hint { nodes: Some(NumaMask::from_bits(bits)), preferred }
}

fn machine(distances: &[&[u64]]) -> NumaNodes {
    NumaNodes::new((0_u8..).zip(distances.iter().map(|row| row.to_vec())))
}

/// Nodes whose distances grow with the difference of their numbers.
fn row_of(nodes: u8) -> NumaNodes {
    let row = |from: u8| (0..nodes).map(|to| 10 + 5 * u64::from(from.abs_diff(to))).collect();
    NumaNodes::new((0..nodes).map(|from| (from, row(from))))
}

/// Every combination, one after the other, with upstream's cases.
mod search {
    use super::*;

    pub fn merge(machine: &NumaNodes, lists: &[Vec<Hint>], fit: Fit) -> Hint {
        let wanted = largest_need(lists);
        let mut best: Option<Hint> = None;
        let mut combinations: Vec<Vec<Hint>> = vec![vec![]];
        for list in lists {
            let with = |chosen: &Vec<Hint>| {
                let longer = |hint: &Hint| chosen.iter().chain([hint]).cloned().collect::<Vec<_>>();
                list.iter().map(longer).collect::<Vec<_>>()
            };
            combinations = combinations.iter().flat_map(with).collect();
        }
        for combination in combinations {
            let named: Vec<NumaMask> = combination.iter().filter_map(|hint| hint.nodes).collect();
            let preferred =
                combination.iter().all(|hint| hint.preferred) && named.iter().all(|nodes| *nodes == named[0]);
            let nodes = named.iter().fold(machine.all(), |common, nodes| common.and(*nodes));
            if !nodes.is_empty() {
                let better = best.as_ref().is_none_or(|best| is_better(machine, best, nodes, preferred, wanted, fit));
                best = if better { Some(Hint { nodes: Some(nodes), preferred }) } else { best };
            }
        }
        best.unwrap_or(Hint { nodes: Some(machine.all()), preferred: false })
    }

    fn is_better(machine: &NumaNodes, best: &Hint, nodes: NumaMask, preferred: bool, wanted: u32, fit: Fit) -> bool {
        let current = best.nodes.expect("candidates have nodes");
        let fitter = || match fit {
            Fit::Closest if nodes.count() == current.count() && machine.spread(nodes) != machine.spread(current) => {
                machine.spread(nodes) < machine.spread(current)
            }
            _ => nodes.is_narrower_than(current),
        };
        match (best.preferred, preferred) {
            (false, true) => return true,
            (true, false) => return false,
            (true, true) => return fitter(),
            (false, false) => {}
        }
        let (count, now) = (nodes.count(), current.count());
        if now > wanted {
            return fitter();
        }
        if now == wanted {
            return count == wanted && fitter();
        }
        if count > wanted {
            return false;
        }
        count == wanted || count > now || (count == now && fitter())
    }
}

fn hints(nodes: u8) -> impl Strategy<Value = Vec<Hint>> {
    let one = (prop::option::weighted(0.9, 1_u64..1 << (nodes + 1)), any::<bool>())
        .prop_map(|(bits, preferred)| Hint { nodes: bits.map(NumaMask::from_bits), preferred });
    prop::collection::vec(one, 0..6)
}

fn situations() -> impl Strategy<Value = (NumaNodes, Vec<Vec<Hint>>, Fit)> {
    (1_u8..=8).prop_flat_map(|nodes| {
        let row = prop::collection::vec(10_u64..14, usize::from(nodes));
        let rows = prop::collection::vec(row, usize::from(nodes));
        let machine = rows.prop_map(|rows| NumaNodes::new((0_u8..).zip(rows)));
        let fit = prop_oneof![Just(Fit::Narrowest), Just(Fit::Closest)];
        (machine, prop::collection::vec(hints(nodes), 0..5), fit)
    })
}

proptest! {
    #[test]
    fn the_merge_is_the_best_of_all_combinations((machine, lists, fit) in situations()) {
        prop_assert_eq!(merge(&machine, &lists, fit).hint, search::merge(&machine, &lists, fit));
    }

    #[test]
    fn the_order_of_resources_and_hints_does_not_matter((machine, lists, fit) in situations()) {
        let backwards: Vec<Vec<Hint>> =
            lists.iter().rev().map(|list| list.iter().rev().cloned().collect()).collect();
        prop_assert_eq!(merge(&machine, &backwards, fit).hint, merge(&machine, &lists, fit).hint);
    }
}

/// RES-35: 8 nodes and 12 providers with every set of nodes as a hint are 255 ^ 12 combinations. A million elementary
/// steps take about a millisecond.
#[test]
fn the_worst_merge_of_eight_nodes_and_twelve_providers_takes_few_steps() {
    let every_set = |preferred: u64| (1_u64..256).map(|bits| hint(bits, bits == preferred)).collect::<Vec<_>>();
    for fit in [Fit::Narrowest, Fit::Closest] {
        // Each resource prefers another set, so nothing is preferred in the end and all outcomes count.
        let lists: Vec<Vec<Hint>> = (1..=12).map(every_set).collect();
        let merged = merge(&row_of(8), &lists, fit);
        assert_eq!(merged.hint, hint(1, false));
        assert!(merged.steps < 100_000, "{}", merged.steps);
        // Short lists that do not repeat themselves: pairs are cheaper than a table.
        let lists: Vec<Vec<Hint>> =
            (0..12).map(|list| (1..9).map(|n| hint(255 - list * n % 200, false)).collect()).collect();
        let merged = merge(&row_of(8), &lists, fit);
        assert!(merged.steps < 100_000, "{}", merged.steps);
    }
}

/// RES-38: with `max-allowable-numa-nodes` a machine may have more; upstream's search would take 65535 ^ 3 steps.
#[test]
fn the_worst_merge_of_sixteen_nodes_is_bounded_too() {
    let lists: Vec<Vec<Hint>> = (0..3).map(|_| (1_u64..1 << 16).map(|bits| hint(bits, false)).collect()).collect();
    let merged = merge(&row_of(16), &lists, Fit::Narrowest);
    assert_eq!(merged.hint, hint(1, false));
    assert!(merged.steps < 20_000_000, "{}", merged.steps);
}

/// RES-35. Among sets of as many nodes the close ones win, and fewer nodes win over close ones.
#[test]
fn close_nodes_are_preferred_among_sets_of_one_size() {
    let square = machine(&[&[10, 20, 11, 20], &[20, 10, 20, 12], &[11, 20, 10, 20], &[20, 12, 20, 10]]);
    let pairs = || vec![hint(0b0011, true), hint(0b0101, true), hint(0b1010, true)];
    let cases = [
        (vec![pairs(), pairs()], Fit::Narrowest, hint(0b0011, true)),
        (vec![pairs(), pairs()], Fit::Closest, hint(0b0101, true)),
        (vec![vec![hint(0b1000, true), hint(0b0101, true)]], Fit::Closest, hint(0b1000, true)),
        // Not preferred: as many nodes as the neediest resource wants, of those the closest.
        (vec![vec![hint(0b0011, false), hint(0b0101, false), hint(0b0111, false)]], Fit::Closest, hint(0b0101, false)),
    ];
    for (lists, fit, expected) in cases {
        assert_eq!(merge(&square, &lists, fit).hint, expected, "{lists:?} {fit:?}");
    }
}

/// A hint of several providers that cannot all be met is as near as possible to the size that the neediest wants.
#[test]
fn of_hints_that_are_not_preferred_the_one_of_the_wanted_size_is_taken() {
    let cases = [
        // All want two nodes: two are kept, though one would be narrower.
        (vec![vec![hint(0b011, false), hint(0b110, false)], vec![hint(0b011, false), hint(0b110, false)]], 0b011),
        // Two cannot be had: one, of the lowest number.
        (vec![vec![hint(0b011, false)], vec![hint(0b110, false), hint(0b101, false)]], 0b001),
        // Nothing in common: all nodes.
        (vec![vec![hint(0b001, true)], vec![hint(0b110, true)]], 0b111),
    ];
    for (lists, expected) in cases {
        assert_eq!(merge(&row_of(3), &lists, Fit::Narrowest).hint, hint(expected, false), "{lists:?}");
    }
}
