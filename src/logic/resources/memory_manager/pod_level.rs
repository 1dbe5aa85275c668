//! Pods that are given memory as a whole, which their containers share (`PodLevelResourceManagers`).
//!
//! Pure. Upstream: `AllocatePod` and `validatePodScopeResources` of `policy_static.go`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::manager::{MemoryError, MemoryManager, containers};
use super::requests::Amounts;
use super::state::{Block, PodEntry, cells, occupy};
use crate::logic::resources::pod_sums::is_sidecar;
use crate::logic::resources::topology::hints::{Hint, NumaMask};
use crate::logic::resources::{QosClass, pod_qos};

impl MemoryManager {
    /// Whether containers that share are left something by those that get memory of their own.
    pub(super) fn check_shares(&self, pod: &Pod) -> Result<(), MemoryError> {
        let total = self.gates.of_pod(pod)?;
        let mut own = Amounts::new();
        let used_up =
            |own: &Amounts| total.iter().find(|(kind, all)| at(own, kind) >= **all).map(|(kind, _)| kind.clone());
        let mut some_share = false;
        let spec = pod.spec.iter();
        for init in spec.clone().flat_map(|spec| spec.init_containers.iter().flatten()) {
            let wanted = self.gates.of_container(pod, init)?;
            match (is_sidecar(init), wanted.is_empty()) {
                (false, true) => used_up(&own).map_or(Ok(()), |kind| Err(MemoryError::NothingForInit(kind)))?,
                (false, false) => {}
                (true, shares) => {
                    some_share |= shares;
                    add(&mut own, &wanted);
                }
            }
        }
        for container in spec.flat_map(|spec| &spec.containers) {
            let wanted = self.gates.of_container(pod, container)?;
            some_share |= wanted.is_empty();
            add(&mut own, &wanted);
        }
        match used_up(&own).filter(|_| some_share) {
            Some(kind) => Err(MemoryError::NothingForShared(kind)),
            None => Ok(()),
        }
    }

    /// Gives a pod its memory and shares it out among its containers. Unlike upstream, a pod that has its memory is
    /// not given it a second time after a restart of the agent.
    pub(super) fn give_pod(&mut self, pod: &Pod, affinity: &Hint) -> Result<(), MemoryError> {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let is_guaranteed = pod_qos(pod, self.gates.pod_level_resources) == QosClass::Guaranteed;
        if !is_guaranteed || self.state.pods.contains_key(uid) {
            return Ok(());
        }
        // As upstream, a request that cannot be counted gives nothing.
        let Ok(total) = self.gates.of_pod(pod) else { return Ok(()) };
        self.figures.pinning_requests += 1;
        let placed = self.check_shares(pod).and_then(|()| {
            let nodes = self.choose(pod, &total, affinity)?;
            Ok((nodes, self.share_out(pod, &total, nodes)?))
        });
        let (nodes, shares) = placed.inspect_err(|_| {
            self.figures.pinning_errors += 1;
            self.figures.errors_of_pod += 1;
        })?;
        self.figures.pinning_requests += shares.pinned;
        self.figures.pod_exclusive += shares.exclusive;
        self.figures.pod_shared += shares.shared;
        for (kind, bytes) in &total {
            occupy(&mut self.state.machine, &cells(nodes), kind, *bytes);
        }
        self.state.pods.insert(uid.to_owned(), PodEntry { memory_blocks: blocks(nodes, &total) });
        for (container, blocks) in shares.blocks {
            self.state.set_blocks(uid, &container, blocks);
            self.figures.allocations_of_pod += 1;
        }
        Ok(())
    }

    fn share_out(&self, pod: &Pod, total: &Amounts, nodes: NumaMask) -> Result<Shares, MemoryError> {
        let mut shares = Shares::default();
        let mut pool = total.clone();
        let mut sharing = Vec::new();
        let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).count();
        for (place, container) in containers(pod).enumerate() {
            let (is_init, keeps_running) = (place < inits, place >= inits || is_sidecar(container));
            let wanted = self.gates.of_container(pod, container)?;
            shares.pinned += u64::from(is_init || !wanted.is_empty());
            if wanted.is_empty() && keeps_running {
                sharing.push(container.name.clone());
                continue;
            }
            // An init container that shares has all that the sidecars before it leave.
            let own = if wanted.is_empty() { pool.clone() } else { wanted.clone() };
            shares.blocks.insert(container.name.clone(), blocks(nodes, &own));
            *(if wanted.is_empty() { &mut shares.shared } else { &mut shares.exclusive }) += 1;
            if keeps_running {
                pool.iter_mut().for_each(|(kind, left)| *left = left.saturating_sub(at(&wanted, kind)));
            }
        }
        for name in sharing {
            shares.blocks.insert(name, blocks(nodes, &pool));
            shares.shared += 1;
        }
        Ok(shares)
    }
}

/// How a pod's memory is shared out, and what that adds to the counters.
#[derive(Default)]
struct Shares {
    blocks: BTreeMap<String, Vec<Block>>,
    pinned: u64,
    exclusive: u64,
    shared: u64,
}

fn blocks(nodes: NumaMask, amounts: &Amounts) -> Vec<Block> {
    amounts.iter().filter(|(_, bytes)| **bytes > 0).map(|(kind, bytes)| Block::new(nodes, kind, *bytes)).collect()
}

fn at(amounts: &Amounts, kind: &str) -> u64 {
    amounts.get(kind).copied().unwrap_or(0)
}

fn add(sum: &mut Amounts, amounts: &Amounts) {
    for (kind, bytes) in amounts {
        let all = sum.entry(kind.clone()).or_default();
        *all = all.saturating_add(*bytes);
    }
}
