//! Even shares of the fewest NUMA nodes that have room (KEP-2902); upstream's `takeByTopologyNUMADistributed`.

use super::order::Free;
use super::{NotEnough, Taken, accumulator};
use crate::logic::resources::cpu_manager::combinations::each_combination;
use crate::logic::resources::cpu_manager::cpu_set::CpuSet;
use crate::logic::resources::cpu_manager::topology::CpuTopology;

/// See [`super::take`].
pub(super) fn take(
    topology: &CpuTopology,
    available: &CpuSet,
    count: usize,
    group: usize,
    spread: bool,
) -> Result<Taken, NotEnough> {
    let packed = || accumulator::take(topology, available, count, spread, false);
    let cpus = available.intersection(topology.all());
    if count == 0 || !count.is_multiple_of(group) || count > cpus.len() {
        return packed();
    }
    let free = Free { topology, cpus };
    let nodes = free.nodes();
    let request = Request { count, group, free: nodes.iter().map(|node| free.of_node(*node).len()).collect() };
    let groups_needed = (count - 1) / group + 1;
    let groups_of_machine = (topology.all().len() - 1) / group + 1;
    let groups_of_node = (groups_of_machine - 1) / topology.nodes().len() + 1;
    let fewest = (groups_needed - 1) / groups_of_node + 1;
    let best = (fewest..=groups_needed.min(nodes.len())).find_map(|size| request.best(size));
    let Some(best) = best else { return packed() };
    let mut taken = Taken::default();
    for (node, amount) in best.shares {
        let left = free.of_node(nodes[node]).difference(&taken.cpus);
        taken.extend(accumulator::take(topology, &left, amount, spread, false)?);
    }
    Ok(taken)
}

/// A request and the free CPUs of each node, in the order of the nodes.
struct Request {
    count: usize,
    group: usize,
    free: Vec<usize>,
}

/// How a request can be shared out.
struct Sharing {
    /// How unequal the free CPUs of all nodes are afterwards, in thousandths.
    imbalance: u64,
    /// The takes, one after the other: a place in the order of the nodes, and CPUs.
    shares: Vec<(usize, usize)>,
}

impl Request {
    /// The most even sharing among `size` nodes; of equal ones the first.
    fn best(&self, size: usize) -> Option<Sharing> {
        let mut best: Option<Sharing> = None;
        each_combination(self.free.len(), size, &mut |combination| {
            if let Some(sharing) = self.sharing(combination)
                && best.as_ref().is_none_or(|best| sharing.imbalance < best.imbalance)
            {
                best = Some(sharing);
            }
            best.as_ref().is_none_or(|best| best.imbalance > 0)
        });
        best
    }

    /// The most even sharing among these nodes; `None` where they have no room.
    fn sharing(&self, nodes: &[usize]) -> Option<Sharing> {
        let groups: usize = nodes.iter().map(|node| self.free[*node] / self.group).sum();
        let share = self.count / nodes.len() / self.group * self.group;
        if groups * self.group < self.count || nodes.iter().any(|node| self.free[*node] < share) {
            return None;
        }
        let mut left = self.free.clone();
        nodes.iter().for_each(|node| left[*node] -= share);
        let shares: Vec<_> = nodes.iter().map(|node| (*node, share)).collect();
        let rest = self.count - share * nodes.len();
        if rest == 0 {
            return Some(Sharing { imbalance: imbalance(&left), shares });
        }
        let with_room: Vec<_> = nodes.iter().copied().filter(|node| left[*node] >= self.group).collect();
        let mut best: Option<(u64, Vec<usize>)> = None;
        for size in (1..=with_room.len()).rev() {
            each_combination(with_room.len(), size, &mut |chosen| {
                let subset: Vec<_> = chosen.iter().map(|at| with_room[*at]).collect();
                if let Some((imbalance, striped)) = self.striped(&left, rest, &subset)
                    && best.as_ref().is_none_or(|(best, _)| imbalance < *best)
                {
                    best = Some((imbalance, striped));
                }
                true
            });
        }
        let (imbalance, striped) = best?;
        let rest = striped.into_iter().map(|node| (node, self.group));
        Some(Sharing { imbalance, shares: shares.into_iter().chain(rest).collect() })
    }

    /// Takes the rest group by group from each of these nodes in turn; `None` where they have no room for it.
    fn striped(&self, left: &[usize], rest: usize, nodes: &[usize]) -> Option<(u64, Vec<usize>)> {
        let mut left = left.to_vec();
        let mut striped = Vec::new();
        while striped.len() * self.group < rest {
            let before = striped.len();
            for &node in nodes {
                if left[node] >= self.group && striped.len() * self.group < rest {
                    left[node] -= self.group;
                    striped.push(node);
                }
            }
            if striped.len() == before {
                return None;
            }
        }
        Some((imbalance(&left), striped))
    }
}

/// The standard deviation in thousandths, with the mean rounded to thousandths too, as upstream compares them.
fn imbalance(values: &[usize]) -> u64 {
    let thousandths = |number: f64| (number * 1000.0).round();
    let values: Vec<f64> = values.iter().map(|value| f64::from(u32::try_from(*value).unwrap_or(u32::MAX))).collect();
    let count = f64::from(u32::try_from(values.len()).unwrap_or(u32::MAX));
    let mean = thousandths(values.iter().sum::<f64>() / count) / 1000.0;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    // Far below 2^53 thousandths: the bits of such numbers are in their order.
    thousandths((squares / count).sqrt()).to_bits()
}
