//! CPUs and NUMA nodes from `/sys/devices/system`, as upstream's cAdvisor reads them.
//!
//! Read at the start. Missing files mean what they mean to cAdvisor: without `node` folders a socket counts as a node;
//! a CPU without a core or package id is left out; a node may lack memory, huge pages and distances; where caches cannot
//! be read, the CPUs of a socket count as sharing one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use super::{Host, HostError};
use crate::logic::formats::cpu_list::CpuList;
use crate::logic::resources::cpu_manager::{CpuInfo, MachineTopology, NumaNode};

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";
const WHAT: &str = "the topology of the CPUs";
/// The most CPUs and nodes that are looked at; the kernel's own bounds are 8192 and 1024.
const ENTRIES_MAX: usize = 8192;

/// One CPU, as the kernel names its core and socket.
struct Thread {
    cpu: u32,
    core: i64,
    package: u32,
}

/// A core's threads; the first is asked for its caches.
type Cores = BTreeMap<(u32, i64), Vec<u32>>;

impl Host {
    /// The CPUs that are online, and all NUMA nodes.
    ///
    /// # Errors
    /// When a file is there and is not what the kernel writes, or no CPU is found.
    pub fn topology(&self) -> Result<MachineTopology, HostError> {
        let online = self.optional(&format!("{CPUS}/online"))?.and_then(|text| CpuList::parse(text.trim()));
        let is_online = |cpu: u32| {
            let one: CpuList = [u64::from(cpu)].into_iter().collect();
            online.as_ref().is_none_or(|online| one.is_within(online))
        };
        let nodes = self.numbered(NODES, "node")?;
        let mut machine = MachineTopology::default();
        if nodes.is_empty() {
            let threads = self.threads(CPUS, &is_online)?;
            let packages: BTreeSet<u32> = threads.iter().map(|thread| thread.package).collect();
            for package in packages {
                let of_package = threads.iter().filter(|thread| thread.package == package);
                let node = self.node_number(package)?;
                machine.cpus.extend(self.cpus_of_node(node, of_package)?);
                machine.nodes.insert(node, NumaNode::default());
            }
        }
        for number in nodes {
            let folder = format!("{NODES}/node{number}");
            let node = self.node_number(number)?;
            let threads = self.threads(&folder, &is_online)?;
            machine.cpus.extend(self.cpus_of_node(node, threads.iter())?);
            machine.nodes.insert(node, self.numa_node(&folder)?);
        }
        machine.cpus.sort_unstable();
        if machine.cpus.is_empty() { Err(self.malformed(WHAT, CPUS)) } else { Ok(machine) }
    }

    fn node_number(&self, number: u32) -> Result<u8, HostError> {
        u8::try_from(number).ok().filter(|node| *node < 64).ok_or_else(|| self.malformed(WHAT, NODES))
    }

    /// The rest behind `prefix` in the names of a folder's entries, where it is a number; nothing without the folder.
    fn numbered(&self, folder: &str, prefix: &str) -> Result<BTreeSet<u32>, HostError> {
        let entries = match std::fs::read_dir(self.root.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(self.error(WHAT, folder, error)),
        };
        let mut numbers = BTreeSet::new();
        for entry in entries.take(ENTRIES_MAX) {
            let name = entry.map_err(|error| self.error(WHAT, folder, error))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse::<u32>().ok());
            numbers.extend(number);
        }
        Ok(numbers)
    }

    fn threads(&self, folder: &str, is_online: &impl Fn(u32) -> bool) -> Result<Vec<Thread>, HostError> {
        let mut threads = Vec::new();
        for cpu in self.numbered(folder, "cpu")?.into_iter().filter(|cpu| is_online(*cpu)) {
            let of_cpu = format!("{folder}/cpu{cpu}/topology");
            let core = self.optional_number(&format!("{of_cpu}/core_id"))?;
            let package = self.optional_number(&format!("{of_cpu}/physical_package_id"))?;
            if let (Some(core), Some(package)) = (core, package) {
                // Virtual machines without sockets say -1.
                threads.push(Thread { cpu, core, package: u32::try_from(package).unwrap_or(0) });
            }
        }
        Ok(threads)
    }

    fn cpus_of_node<'a>(&self, node: u8, threads: impl Iterator<Item = &'a Thread>) -> Result<Vec<CpuInfo>, HostError> {
        let mut cores = Cores::new();
        for thread in threads {
            cores.entry((thread.package, thread.core)).or_default().push(thread.cpu);
        }
        let uncores = self.uncores(&cores);
        let mut cpus = Vec::new();
        for ((socket, core), threads) in cores {
            let uncore = uncores.get(&(socket, core)).copied().unwrap_or(socket);
            let core = threads.iter().copied().min().ok_or_else(|| self.malformed(WHAT, CPUS))?;
            cpus.extend(threads.into_iter().map(|cpu| CpuInfo { cpu, core, socket, node, uncore }));
        }
        Ok(cpus)
    }

    /// The cache of each core that it shares with some others of its NUMA node, but not with all of them. The first cache
    /// that cannot be read ends the search.
    fn uncores(&self, cores: &Cores) -> BTreeMap<(u32, i64), u32> {
        let mut uncores = BTreeMap::new();
        for (core, threads) in cores {
            let of_node = cores.len() * threads.len();
            let Some(caches) = threads.first().and_then(|cpu| self.outer_caches(*cpu)) else { return uncores };
            // One cache is expected; upstream takes the first.
            if let Some((id, _)) = caches.into_iter().find(|(_, cpus)| *cpus != of_node) {
                uncores.insert(*core, id);
            }
        }
        uncores
    }

    /// Caches beyond the second level, with the number of CPUs that share each; `None` where they cannot be read.
    fn outer_caches(&self, cpu: u32) -> Option<Vec<(u32, usize)>> {
        let folder = format!("{CPUS}/cpu{cpu}/cache");
        let mut caches = Vec::new();
        for index in self.numbered(&folder, "index").ok().filter(|all| !all.is_empty())? {
            let file = |name: &str| self.read(WHAT, &format!("{folder}/index{index}/{name}")).ok();
            let id = file("id")?.trim().parse().ok()?;
            let level: u32 = file("level")?.trim().parse().ok()?;
            if level > 2 {
                caches.push((id, bits(&file("shared_cpu_map")?)?));
            }
        }
        Some(caches)
    }

    fn numa_node(&self, folder: &str) -> Result<NumaNode, HostError> {
        let mut node = NumaNode::default();
        let path = format!("{folder}/meminfo");
        if let Some(text) = self.optional(&path)? {
            let total = text.lines().find_map(|line| line.split_once("MemTotal:"));
            let kibibytes = total.and_then(|(_, rest)| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
            let bytes = kibibytes.and_then(|kibibytes| kibibytes.checked_mul(1024));
            node.memory_bytes = bytes.ok_or_else(|| self.malformed(WHAT, &path))?;
        }
        let path = format!("{folder}/distance");
        if let Some(text) = self.optional(&path)? {
            let distances: Result<Vec<u64>, _> = text.split_whitespace().take(ENTRIES_MAX).map(str::parse).collect();
            node.distances = distances.map_err(|_| self.malformed(WHAT, &path))?;
        }
        let pages = format!("{folder}/hugepages");
        for name in self.entries(&pages)? {
            let size = name.strip_prefix("hugepages-").and_then(|name| name.strip_suffix("kB")?.parse::<u64>().ok());
            let Some(kibibytes) = size else { continue };
            let path = format!("{pages}/{name}/nr_hugepages");
            let count = self.read(WHAT, &path)?.trim().parse().map_err(|_| self.malformed(WHAT, &path))?;
            node.huge_pages.insert(kibibytes, count);
        }
        Ok(node)
    }

    /// The names in a folder; none without it.
    fn entries(&self, folder: &str) -> Result<Vec<String>, HostError> {
        let entries = match std::fs::read_dir(self.root.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(self.error(WHAT, folder, error)),
        };
        let names = entries.take(ENTRIES_MAX).map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<std::io::Result<_>>().map_err(|error| self.error(WHAT, folder, error))
    }

    /// A file's text; `None` without the file.
    fn optional(&self, path: &str) -> Result<Option<String>, HostError> {
        match self.read(WHAT, path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.problem.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn optional_number(&self, path: &str) -> Result<Option<i64>, HostError> {
        let Some(text) = self.optional(path)? else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| self.malformed(WHAT, path))
    }
}

/// How many bits are set in a map as the kernel writes it: `ff,00ff00ff`.
fn bits(map: &str) -> Option<usize> {
    let words = map.trim().split(',').map(|word| u64::from_str_radix(word.trim(), 16).ok());
    words.map(|word| word.and_then(|word| usize::try_from(word.count_ones()).ok())).sum()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// A made-up host.
    struct Files(tempfile::TempDir);

    impl Files {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a directory"))
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join("sys/devices/system").join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, text).expect("written");
        }

        /// A CPU, in its node's folder as well.
        fn cpu(&self, cpu: u32, core: &str, package: &str, node: Option<u32>) {
            for folder in ["cpu".to_owned()].into_iter().chain(node.map(|node| format!("node/node{node}"))) {
                self.write(&format!("{folder}/cpu{cpu}/topology/core_id"), core);
                self.write(&format!("{folder}/cpu{cpu}/topology/physical_package_id"), package);
            }
        }

        fn cache(&self, cpu: u32, index: u32, level: u32, id: u32, map: &str) {
            let values = [("id", id.to_string()), ("level", level.to_string()), ("shared_cpu_map", map.to_owned())];
            for (name, value) in values {
                self.write(&format!("cpu/cpu{cpu}/cache/index{index}/{name}"), &format!("{value}\n"));
            }
        }

        fn host(&self) -> Host {
            Host::at(self.0.path().to_path_buf())
        }

        fn root(&self) -> &Path {
            self.0.path()
        }
    }

    fn info(cpu: u32, core: u32, socket: u32, node: u8, uncore: u32) -> CpuInfo {
        CpuInfo { cpu, core, socket, node, uncore }
    }

    /// Two sockets of two cores with two threads; the cores of the second socket have the numbers of the first's.
    fn two_sockets() -> Files {
        let files = Files::new();
        files.write("cpu/online", "0-7\n");
        for cpu in 0..8 {
            let socket = cpu / 2 % 2;
            files.cpu(cpu, &format!("{}\n", cpu % 2), &format!("{socket}\n"), Some(socket));
        }
        for node in 0..2 {
            let folder = format!("node/node{node}");
            files.write(&format!("{folder}/meminfo"), "\nNode 0 MemTotal:       1024 kB\nNode 0 MemFree: 1 kB\n");
            files.write(&format!("{folder}/distance"), if node == 0 { "10 21\n" } else { "21 10\n" });
            files.write(&format!("{folder}/hugepages/hugepages-2048kB/nr_hugepages"), "3\n");
        }
        files
    }

    #[test]
    fn nodes_sockets_and_cores_are_told_apart() {
        let files = two_sockets();
        let machine = files.host().topology().expect("read");
        let expected = [
            info(0, 0, 0, 0, 0),
            info(1, 1, 0, 0, 0),
            info(2, 2, 1, 1, 1),
            info(3, 3, 1, 1, 1),
            info(4, 0, 0, 0, 0),
            info(5, 1, 0, 0, 0),
            info(6, 2, 1, 1, 1),
            info(7, 3, 1, 1, 1),
        ];
        assert_eq!(machine.cpus, expected);
        let node = |distances: &[u64]| NumaNode {
            memory_bytes: 1024 * 1024,
            huge_pages: BTreeMap::from([(2048, 3)]),
            distances: distances.to_vec(),
        };
        assert_eq!(machine.nodes, BTreeMap::from([(0, node(&[10, 21])), (1, node(&[21, 10]))]));
        let topology = machine.cpu_topology().expect("CPUs");
        assert_eq!((topology.cpus_per_core(), topology.sockets().len()), (2, 2));
    }

    #[test]
    fn caches_count_where_a_node_has_several() {
        let files = two_sockets();
        for cpu in 0..8 {
            files.cache(cpu, 0, 1, 40, "1");
            // Node 0 has one for each core, node 1 one for all.
            let (id, map) = if cpu / 2 % 2 == 0 { (10 + cpu % 2, "11") } else { (12, "00000000,000000cc") };
            files.cache(cpu, 3, 3, id, map);
        }
        let machine = files.host().topology().expect("read");
        let uncores: Vec<_> = machine.cpus.iter().map(|info| info.uncore).collect();
        assert_eq!(uncores, [10, 11, 1, 1, 10, 11, 1, 1]);
    }

    #[test]
    fn cpus_that_are_offline_or_unknown_are_left_out() {
        let files = two_sockets();
        files.write("cpu/online", "0-5\n");
        fs::remove_file(files.root().join("sys/devices/system/node/node0/cpu5/topology/core_id")).expect("removed");
        // A node of memory alone.
        files.write("node/node2/meminfo", "Node 2 MemTotal: 4 kB");
        let machine = files.host().topology().expect("read");
        assert_eq!(machine.cpus.iter().map(|info| info.cpu).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        let bare = NumaNode { memory_bytes: 4096, ..NumaNode::default() };
        assert_eq!(machine.nodes.get(&2), Some(&bare));
    }

    #[test]
    fn without_numa_a_socket_is_a_node() {
        let files = Files::new();
        for cpu in 0..4 {
            files.cpu(cpu, &cpu.to_string(), if cpu < 2 { "-1" } else { "1" }, None);
        }
        let machine = files.host().topology().expect("read");
        let expected = [info(0, 0, 0, 0, 0), info(1, 1, 0, 0, 0), info(2, 2, 1, 1, 1), info(3, 3, 1, 1, 1)];
        assert_eq!(machine.cpus, expected);
        assert_eq!(machine.nodes, BTreeMap::from([(0, NumaNode::default()), (1, NumaNode::default())]));
    }

    #[test]
    fn files_in_another_form_are_errors_that_name_them() {
        for (path, text) in [
            ("node/node0/meminfo", "MemTotal: x kB"),
            ("node/node0/meminfo", ""),
            ("node/node0/distance", "10 x"),
            ("node/node0/hugepages/hugepages-2048kB/nr_hugepages", "many"),
            ("node/node0/cpu0/topology/core_id", "x"),
        ] {
            let files = two_sockets();
            files.write(path, text);
            let error = files.host().topology().expect_err(path).to_string();
            assert!(error.contains(path), "{error}");
        }
        assert!(Files::new().host().topology().is_err(), "no CPU");
        let files = two_sockets();
        files.write("node/node64/meminfo", "MemTotal: 4 kB");
        assert!(files.host().topology().is_err(), "more nodes than hints can name");
    }
}
