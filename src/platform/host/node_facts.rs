//! The host's facts for the status of the Node object: sizes, identities, versions, addresses.
//!
//! Read by `NodeStatus`. Keeps where to look, and the last answers: a disk that does not answer must not hold up a heartbeat.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::alone::Alone;
use super::blocking;
use crate::logic::formats::cpu_list::CpuList;
use crate::logic::network::node_addresses::{AddressFacts, AddressSettings};
use crate::logic::node::node_status::{HostFacts, Machine, Versions};
use crate::logic::resources::cpu_manager::{CpuInfo, MachineTopology, NumaNode};
use crate::platform::host::network_interfaces;
use crate::platform::host::{Host, HostError};

/// How long the node's name is looked up: a name server that is away must not hold up a heartbeat.
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// How long the size of the file system for pods is waited for.
const STORAGE_MAX: Duration = Duration::from_secs(2);
/// How long everything else is waited for, of which some is in files of the host's disk.
const HOST_MAX: Duration = Duration::from_secs(5);

/// See the module.
#[async_trait]
pub trait NodeFacts: Send + Sync {
    /// All facts as they are now; what `addresses` makes needless is not asked for. An unknown fact says so itself.
    async fn read(&self, addresses: &AddressSettings) -> HostFacts;
    /// Those about addresses alone.
    async fn addresses(&self, settings: &AddressSettings) -> AddressFacts;
    /// CPUs and NUMA nodes as they are now; asked once, at the start of the agent.
    ///
    /// # Errors
    /// When the kernel does not say which CPUs there are.
    async fn topology(&self) -> Result<MachineTopology, HostError>;
}

/// A host that always says the same: for tests, and for the simulated node.
#[derive(Clone, Debug)]
pub struct FixedNodeFacts {
    /// All facts.
    pub facts: HostFacts,
    /// CPUs and NUMA nodes.
    pub topology: MachineTopology,
}

impl FixedNodeFacts {
    /// A node of two processors, 8 GiB of memory and 100 GiB of disk, at 10.0.0.1.
    pub fn of_a_small_node() -> Self {
        let facts = HostFacts {
            machine: Ok(Machine {
                cpus: 2,
                cpu_list: "0-1".to_owned(),
                memory_bytes: 8 << 30,
                machine_id: "machine-1".to_owned(),
                system_uuid: "system-1".to_owned(),
                boot_id: "boot-1".to_owned(),
                ..Machine::default()
            }),
            versions: Ok(Versions { kernel: "6.1.0".to_owned(), os_image: "Linux".to_owned() }),
            storage_bytes: Some(100 << 30),
            addresses: AddressFacts {
                interfaces: vec![IpAddr::from([10, 0, 0, 1])],
                resolved: vec![],
                unresolved: false,
                default_routes: vec![IpAddr::from([10, 0, 0, 1])],
            },
        };
        let cpu = |cpu| CpuInfo { cpu, core: cpu, socket: 0, node: 0, uncore: 0 };
        let node = NumaNode { memory_bytes: 8 << 30, distances: vec![10], ..NumaNode::default() };
        let topology = MachineTopology { cpus: vec![cpu(0), cpu(1)], nodes: BTreeMap::from([(0, node)]) };
        Self { facts, topology }
    }

    /// The same host with these CPUs and NUMA nodes, and as much memory and as many huge pages as the nodes have.
    #[must_use]
    pub fn with_topology(mut self, topology: MachineTopology) -> Self {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        if let Ok(machine) = &mut self.facts.machine {
            machine.cpu_list = topology.cpus.iter().map(|cpu| u64::from(cpu.cpu)).collect::<CpuList>().to_string();
            machine.cpus = i64::try_from(topology.cpus.len()).unwrap_or(i64::MAX);
            machine.memory_bytes = topology.nodes.values().map(|node| number(node.memory_bytes)).sum();
            machine.hugepages.clear();
            for (kibibytes, pages) in topology.nodes.values().flat_map(|node| &node.huge_pages) {
                *machine.hugepages.entry(kibibytes.saturating_mul(1024)).or_default() += pages;
            }
        }
        self.topology = topology;
        self
    }
}

#[async_trait]
impl NodeFacts for FixedNodeFacts {
    async fn read(&self, _: &AddressSettings) -> HostFacts {
        self.facts.clone()
    }

    async fn addresses(&self, _: &AddressSettings) -> AddressFacts {
        self.facts.addresses.clone()
    }

    async fn topology(&self) -> Result<MachineTopology, HostError> {
        Ok(self.topology.clone())
    }
}

/// The host that the agent runs on.
#[derive(Clone, Debug)]
pub struct LinuxNodeFacts {
    host: Host,
    storage: PathBuf,
    /// Measures a file system; another function in tests.
    size_of: fn(&Path) -> Option<i64>,
    sizing: Alone,
    reading: Alone,
    last: Arc<Mutex<LastFacts>>,
}

/// The last answers.
#[derive(Debug, Default)]
struct LastFacts {
    host: Option<HostFacts>,
    storage_bytes: Option<i64>,
}

impl LinuxNodeFacts {
    /// Facts of `host`, whose space for pods is the file system that holds the folder `storage`.
    pub fn new(host: Host, storage: PathBuf) -> Self {
        let (sizing, reading, last) = (Alone::default(), Alone::default(), Arc::default());
        Self { host, storage, size_of, sizing, reading, last }
    }

    fn machine(&self) -> Result<Machine, HostError> {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        Ok(Machine {
            cpus: i64::from(self.host.processors()?),
            cpu_list: self.host.online_processors()?,
            memory_bytes: number(self.host.memory_bytes()?),
            hugepages: self.host.hugepages()?,
            swap_bytes: number(self.host.swap_bytes()?),
            machine_id: self.host.machine_id(),
            system_uuid: self.host.system_uuid(),
            boot_id: self.host.boot_id()?,
        })
    }

    fn versions(&self) -> Result<Versions, HostError> {
        Ok(Versions { kernel: self.host.kernel_version()?, os_image: self.host.os_image() })
    }

    /// The size of the file system for pods.
    pub fn storage_bytes(&self) -> Option<i64> {
        (self.size_of)(&self.storage)
    }

    /// The size as it is now; as it was where the file system does not answer.
    async fn known_storage_bytes(&self) -> Option<i64> {
        let facts = self.clone();
        let told = self.sizing.run(STORAGE_MAX, move || facts.storage_bytes()).await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Some(told) => last.storage_bytes = told,
            None => tracing::warn!(folder = %self.storage.display(), "the file system does not answer"),
        }
        last.storage_bytes
    }

    /// The facts but for the size of storage; the last ones where the host's files cannot be read in time.
    async fn known_host(&self, addresses: &AddressSettings, resolved: Option<Vec<IpAddr>>) -> HostFacts {
        let (facts, addresses) = (self.clone(), addresses.clone());
        let told = self.reading.run(HOST_MAX, move || facts.read_blocking(&addresses, resolved)).await;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            Some(told) => last.host.insert(told).clone(),
            None => {
                tracing::warn!(limit = ?HOST_MAX, "the host's facts cannot be read in time");
                last.host.clone().unwrap_or_else(unknown_host)
            }
        }
    }

    fn read_blocking(&self, addresses: &AddressSettings, resolved: Option<Vec<IpAddr>>) -> HostFacts {
        HostFacts {
            machine: self.machine().map_err(|error| error.to_string()),
            versions: self.versions().map_err(|error| error.to_string()),
            storage_bytes: None,
            addresses: Self::addresses_blocking(addresses, resolved),
        }
    }

    fn addresses_blocking(settings: &AddressSettings, resolved: Option<Vec<IpAddr>>) -> AddressFacts {
        let unresolved = resolved.is_none();
        let resolved = resolved.unwrap_or_default();
        let checked = !settings.node_ips.is_empty() || resolved.iter().any(|ip| !ip.is_loopback());
        let by_route = settings.needs_routes();
        if !(checked || by_route) {
            return AddressFacts { resolved, unresolved, ..AddressFacts::default() };
        }
        let told = network_interfaces::addresses();
        let interfaces = told.inspect_err(|error| tracing::warn!(%error, "network interfaces are not known"));
        let interfaces = interfaces.unwrap_or_default();
        let routed =
            if by_route { network_interfaces::default_addresses(&interfaces, settings.standalone) } else { Ok(vec![]) };
        let default_routes = routed.inspect_err(|error| tracing::warn!(%error, "default routes are not known"));
        AddressFacts {
            interfaces: interfaces.into_iter().map(|one| one.ip).collect(),
            resolved,
            unresolved,
            default_routes: default_routes.unwrap_or_default(),
        }
    }
}

#[async_trait]
impl NodeFacts for LinuxNodeFacts {
    async fn read(&self, addresses: &AddressSettings) -> HostFacts {
        let resolved = resolved(addresses).await;
        let both = futures_util::future::join(self.known_host(addresses, resolved), self.known_storage_bytes());
        let (host, storage_bytes) = both.await;
        HostFacts { storage_bytes, ..host }
    }

    async fn addresses(&self, settings: &AddressSettings) -> AddressFacts {
        let resolved = resolved(settings).await;
        let settings = settings.clone();
        blocking::run(move || Self::addresses_blocking(&settings, resolved)).await
    }

    async fn topology(&self) -> Result<MachineTopology, HostError> {
        let host = self.host.clone();
        blocking::run(move || host.topology()).await
    }
}

fn size_of(folder: &Path) -> Option<i64> {
    let told = match nix::sys::statvfs::statvfs(folder).map_err(std::io::Error::from) {
        Ok(told) => told,
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "the size of the file system is not known");
            return None;
        }
    };
    i64::try_from(told.blocks().saturating_mul(told.fragment_size())).ok()
}

/// A host whose files never answered.
fn unknown_host() -> HostFacts {
    let problem = || "the host's files do not answer".to_owned();
    let addresses = AddressFacts { unresolved: true, ..AddressFacts::default() };
    HostFacts { machine: Err(problem()), versions: Err(problem()), storage_bytes: None, addresses }
}

/// The addresses of the node's name, where that counts; `None` where nobody says so in time.
async fn resolved(settings: &AddressSettings) -> Option<Vec<IpAddr>> {
    if settings.needs_lookup() { lookup(&settings.hostname).await } else { Some(vec![]) }
}

async fn lookup(name: &str) -> Option<Vec<IpAddr>> {
    match tokio::time::timeout(LOOKUP_MAX, blocking::lookup::find(name, 0)).await {
        Ok(Ok(found)) => Some(found.into_iter().map(|address| address.ip()).collect()),
        Ok(Err(error)) => {
            tracing::debug!(name, %error, "the node's name has no address");
            Some(vec![])
        }
        Err(_) => {
            tracing::warn!(name, limit = ?LOOKUP_MAX, "the node's name was not looked up in time");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_hosts_facts_are_told() {
        let facts = LinuxNodeFacts::new(Host::default(), PathBuf::from("/"));
        let settings = AddressSettings { hostname: "10.0.0.9".to_owned(), ..AddressSettings::default() };
        let told = facts.read(&settings).await;
        let machine = told.machine.expect("told");
        assert!(machine.cpus >= 1 && machine.memory_bytes > 1 << 20 && machine.boot_id.len() == 36);
        assert!(!told.versions.expect("told").kernel.is_empty());
        assert!(told.storage_bytes.is_some_and(|bytes| bytes > 0));
        assert_eq!(told.addresses.interfaces, Vec::<IpAddr>::new(), "nothing is to be checked");
        let named = AddressSettings { node_ips: vec![IpAddr::from([127, 0, 0, 1])], ..settings };
        let told = facts.read(&named).await;
        assert!(told.addresses.interfaces.contains(&IpAddr::from([127, 0, 0, 1])), "{:?}", told.addresses.interfaces);
        assert_eq!(facts.addresses(&named).await, told.addresses);
        let topology = facts.topology().await.expect("told");
        assert_eq!(i64::try_from(topology.cpus.len()).expect("few"), machine.cpus);
        assert!(topology.cpu_topology().is_ok() && !topology.nodes.is_empty());
    }

    /// The first look gets an answer, the next ones never do. The test would not end if anybody waited for them.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_disk_that_does_not_answer_keeps_its_size_and_nothing_else_waits() {
        let mut facts = LinuxNodeFacts::new(Host::default(), PathBuf::from("/"));
        let settings = AddressSettings { hostname: "10.0.0.9".to_owned(), ..AddressSettings::default() };
        let before = facts.read(&settings).await;
        assert!(before.storage_bytes.is_some());
        facts.size_of = |_| loop {
            std::thread::park();
        };
        for _ in 0..2 {
            let told = facts.read(&settings).await;
            assert_eq!((told.storage_bytes, told.machine.is_ok()), (before.storage_bytes, true));
        }
    }

    #[tokio::test]
    async fn a_host_that_tells_nothing_says_so() {
        let folder = tempfile::tempdir().expect("a directory");
        let facts = LinuxNodeFacts::new(Host::at(folder.path().to_owned()), folder.path().join("missing"));
        let told = facts.read(&AddressSettings { hostname: "::1".to_owned(), ..AddressSettings::default() }).await;
        let problem = told.machine.expect_err("there is nothing");
        assert!(problem.contains("the online processors"), "{problem}");
        assert!(told.versions.is_err());
        assert_eq!(told.storage_bytes, None);
    }
}
