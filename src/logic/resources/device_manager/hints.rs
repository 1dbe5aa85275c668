//! From which NUMA nodes a request for devices could be met: hints for the topology manager.
//!
//! Pure. Upstream: `generateDeviceTopologyHints`. Only nodes that have devices of the resource are looked at, so that a
//! machine of many nodes costs nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::choice::mask_of;
use super::devices::ResourceDevices;
use crate::logic::resources::cpu_manager::each_combination;
use crate::logic::resources::topology::hints::{Hint, NumaMask};

/// Devices that are near the same nodes, counted.
#[derive(Default)]
struct Group {
    all: usize,
    /// Those that can be given: free ones, and reusable ones.
    free: usize,
}

/// Every set of nodes that has enough devices. All of the `reusable` ones that have a place are in each of them.
pub(super) fn hints(
    devices: &ResourceDevices,
    available: &BTreeSet<&str>,
    reusable: &BTreeSet<&str>,
    known: NumaMask,
    request: usize,
) -> Vec<Hint> {
    let mut groups: BTreeMap<NumaMask, Group> = BTreeMap::new();
    let mut must_have: BTreeSet<NumaMask> = BTreeSet::new();
    for (id, device) in &devices.devices {
        let (mask, id) = (mask_of(device), id.as_str());
        let group = groups.entry(mask).or_default();
        group.all += 1;
        group.free += usize::from(available.contains(id)) + usize::from(reusable.contains(id));
        if reusable.contains(id) && !mask.is_empty() {
            must_have.insert(mask);
        }
    }
    let with_devices = groups.keys().fold(NumaMask::default(), |all, mask| all.or(*mask)).and(known);
    let nodes: Vec<u8> = if with_devices.is_empty() { known } else { with_devices }.iter().collect();
    let mut fewest = nodes.len();
    let mut fitting = vec![];
    let mut consider = |chosen: &[usize]| {
        let mask: NumaMask = chosen.iter().map(|at| nodes[*at]).collect();
        let near = groups.iter().filter(|(of, _)| !of.and(mask).is_empty());
        let (all, free) = near.fold((0, 0), |(all, free), (_, group)| (all + group.all, free + group.free));
        if all >= request {
            fewest = fewest.min(chosen.len());
        }
        if must_have.iter().all(|of| !of.and(mask).is_empty()) && free >= request {
            fitting.push((mask, chosen.len()));
        }
        true
    };
    (1..=nodes.len()).for_each(|size| each_combination(nodes.len(), size, &mut consider));
    let hint = |(mask, count): (NumaMask, usize)| Hint { nodes: Some(mask), preferred: count == fewest };
    fitting.into_iter().map(hint).collect()
}
