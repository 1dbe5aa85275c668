//! Packs a request into as few parts of the machine as possible; upstream's `takeByTopologyNUMAPacked`.

use super::order::Free;
use super::{Level, NotEnough, Taken};
use crate::logic::resources::cpu_manager::cpu_set::CpuSet;
use crate::logic::resources::cpu_manager::topology::CpuTopology;

/// See [`super::take`].
pub(super) fn take(
    topology: &CpuTopology,
    available: &CpuSet,
    count: usize,
    spread: bool,
    by_uncore: bool,
) -> Result<Taken, NotEnough> {
    let cpus = available.intersection(topology.all());
    if count > cpus.len() {
        return Err(NotEnough { requested: count, available: available.len() });
    }
    let mut all = Accumulator { free: Free { topology, cpus }, needed: count, taken: Taken::default() };
    if topology.nodes_contain_sockets() {
        all.take_nodes();
        all.take_sockets();
    } else {
        all.take_sockets();
        all.take_nodes();
    }
    if by_uncore {
        all.take_uncores();
    }
    if !spread {
        all.take_cores();
    }
    all.take_single(spread);
    Ok(all.taken)
}

struct Accumulator<'a> {
    free: Free<'a>,
    needed: usize,
    taken: Taken,
}

impl Accumulator<'_> {
    /// Takes a part, if all of it is free and it is not more than is needed. `usual` is what parts of its kind have;
    /// upstream takes no others whole.
    fn take_whole(&mut self, level: Level, part: &CpuSet, usual: usize) {
        let is_free = part.len() == usual && part.is_subset(&self.free.cpus);
        if self.needed > 0 && is_free && part.len() <= self.needed {
            self.take(level, part);
        }
    }

    fn take(&mut self, level: Level, cpus: &CpuSet) {
        self.taken.add(level, cpus);
        self.free.cpus = self.free.cpus.difference(cpus);
        self.needed = self.needed.saturating_sub(cpus.len());
    }

    fn take_nodes(&mut self) {
        let topology = self.free.topology;
        for node in self.free.nodes() {
            let part = &topology.nodes()[&node];
            self.take_whole(Level::Node(node), part, part.len());
        }
    }

    fn take_sockets(&mut self) {
        let topology = self.free.topology;
        for socket in self.free.sockets() {
            self.take_whole(Level::Socket(socket), &topology.sockets()[&socket], topology.cpus_per_socket());
        }
    }

    fn take_cores(&mut self) {
        // One look at the smallest core saves the order of all of them.
        let topology = self.free.topology;
        if self.needed < topology.cpus_per_core() {
            return;
        }
        for core in self.free.cores() {
            self.take_whole(Level::Core(core), &topology.cores()[&core], topology.cpus_per_core());
        }
    }

    /// Whole caches first, then the first cache that has room for the rest.
    fn take_uncores(&mut self) {
        let topology = self.free.topology;
        let order = self.free.uncores();
        if self.needed >= topology.cpus_per_uncore() {
            for uncore in &order {
                let part = &topology.uncores()[uncore];
                self.take_whole(Level::Uncore(*uncore), part, part.len());
            }
        }
        for uncore in order {
            if self.needed == 0 {
                return;
            }
            let part = self.part_of_uncore(&topology.uncores()[&uncore]);
            if part.len() == self.needed {
                self.take(Level::PartOfUncore(uncore), &part);
            }
        }
    }

    /// The free CPUs of as many cores of a cache as the rest of the request needs, by the cores' numbers.
    fn part_of_uncore(&self, uncore: &CpuSet) -> CpuSet {
        let topology = self.free.topology;
        let threads = topology.cpus_per_core();
        let cores = self.free.within(uncore, |info| info.core);
        let chosen = cores.into_iter().take(self.needed.div_ceil(threads));
        let whole = chosen.fold(CpuSet::default(), |cpus, core| cpus.union(&topology.cores()[&core]));
        let cpus = whole.intersection(&self.free.cpus);
        // Of the last core an odd request needs one thread alone.
        if !self.needed.is_multiple_of(2) && threads > 1 && cpus.len() > self.needed {
            return cpus.iter().take(cpus.len() - 1).collect();
        }
        cpus
    }

    fn take_single(&mut self, spread: bool) {
        if self.needed == 0 {
            return;
        }
        let order = if spread { self.free.cpus_spread() } else { self.free.cpus_packed() };
        let cpus = order.into_iter().take(self.needed).collect();
        self.take(Level::Single, &cpus);
    }
}
