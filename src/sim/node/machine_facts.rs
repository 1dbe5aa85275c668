//! The simulated machine as the agent reads it: CPUs and memory can be added to it while it runs, and taken away.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::Node;
use super::outlet::Outlet;
use crate::actors::kit::trace::lock;
use crate::logic::network::node_addresses::{AddressFacts, AddressSettings};
use crate::logic::node::node_status::HostFacts;
use crate::logic::resources::cpu_manager::{CpuInfo, MachineTopology, NumaNode};
use crate::platform::host::HostError;
use crate::platform::host::node_facts::{FixedNodeFacts, NodeFacts};

impl Node {
    /// The machine is such a one, unless it is known already.
    pub fn set_machine(&self, facts: FixedNodeFacts) {
        lock(&self.machine).get_or_insert(facts);
    }

    fn machine(&self) -> FixedNodeFacts {
        lock(&self.machine).clone().unwrap_or_else(FixedNodeFacts::of_a_small_node)
    }

    /// So many CPUs and so much memory are in the machine from now on: some were added, or taken away.
    pub fn resize_machine(&self, cpus: u32, memory_bytes: i64) {
        self.story.tell("machine", format!("{cpus} CPUs and {memory_bytes} bytes of memory from now on"));
        let memory = u64::try_from(memory_bytes).unwrap_or_default();
        let cpu = |cpu| CpuInfo { cpu, core: cpu, socket: 0, node: 0, uncore: 0 };
        let node = NumaNode { memory_bytes: memory, distances: vec![10], ..NumaNode::default() };
        let topology = MachineTopology { cpus: (0..cpus).map(cpu).collect(), nodes: BTreeMap::from([(0, node)]) };
        let resized = self.machine().with_topology(topology);
        *lock(&self.machine) = Some(resized);
    }
}

#[async_trait]
impl NodeFacts for Outlet {
    async fn read(&self, addresses: &AddressSettings) -> HostFacts {
        self.node().machine().read(addresses).await
    }

    async fn addresses(&self, settings: &AddressSettings) -> AddressFacts {
        self.node().machine().addresses(settings).await
    }

    async fn topology(&self) -> Result<MachineTopology, HostError> {
        self.node().machine().topology().await
    }
}
