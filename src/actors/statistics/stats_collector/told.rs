//! Figures of pods as the runtime tells them (gate `PodAndContainerStatsFromCRI`): the question, and the answer in our
//! own forms.

use std::collections::BTreeMap;

use super::{Args, RUNTIME_LIMIT};
use crate::cri::{
    ContainerStats, CpuUsage, CriError, FilesystemUsage, IoUsage, MemoryUsage, NetworkInterfaceUsage, NetworkUsage,
    PodSandboxStats, PsiData, PsiStats, StatsFilter, SwapUsage,
};
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::statistics::sample::{Depth, PodSample, Wanted};
use crate::logic::statistics::summary::{
    self, CpuStats, Decimal, InterfaceStats, IoStats, MemoryStats, NetworkStats, SwapStats, Time,
};
use crate::logic::statistics::told::{LayerUse, ToldContainer, ToldPod};
use crate::messages::stats_collector::PodFigures;

/// Asks the runtime, where the gate is on and more than the node is wanted.
pub(super) async fn figures(args: &Args, wanted: Wanted, pods: &[PodSample]) -> PodFigures {
    if !args.from_runtime || wanted.depth == Depth::Memory {
        return PodFigures::NotAsked;
    }
    let all = StatsFilter::default();
    let problem = match tokio::time::timeout(RUNTIME_LIMIT, args.runtime.list_pod_sandbox_stats(&all)).await {
        Ok(Ok(told)) => return PodFigures::Told(by_sandbox(told, pods)),
        Ok(Err(error @ CriError::Unimplemented { .. })) => {
            tracing::debug!(%error, "the runtime does not tell figures of pods, control groups do");
            return PodFigures::NotTold;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", RUNTIME_LIMIT.as_secs()),
    };
    tracing::warn!(problem, "the runtime gives no figures of pods");
    PodFigures::Failed(format!("failed to list pod stats: {problem}"))
}

/// The figures of these pods and of their containers. Others are of no use, however many the runtime tells of.
fn by_sandbox(told: Vec<PodSandboxStats>, pods: &[PodSample]) -> BTreeMap<SandboxId, ToldPod> {
    let mut known: BTreeMap<&SandboxId, Vec<&ContainerId>> = BTreeMap::new();
    for pod in pods {
        known.entry(&pod.sandbox.id).or_default().extend(pod.containers.iter().map(|container| &container.id));
    }
    let told = told.into_iter().filter_map(|stats| {
        let id = SandboxId::from(stats.id.as_str());
        let containers = known.get(&id)?;
        Some((id, pod(stats, containers)))
    });
    told.collect()
}

fn pod(stats: PodSandboxStats, known: &[&ContainerId]) -> ToldPod {
    let containers = stats.containers.iter().filter_map(|stats| {
        let id = known.iter().find(|id| id.as_str() == stats.id)?;
        Some(((*id).clone(), container(stats)))
    });
    ToldPod {
        containers: containers.collect(),
        cpu: stats.cpu.as_ref().map(cpu),
        memory: stats.memory.as_ref().map(memory),
        io: stats.io.as_ref().map(io),
        network: stats.network.as_ref().map(network),
        processes: stats.process_count,
    }
}

fn container(stats: &ContainerStats) -> ToldContainer {
    ToldContainer {
        cpu: stats.cpu.as_ref().map(cpu),
        memory: stats.memory.as_ref().map(memory),
        swap: stats.swap.as_ref().map(swap),
        io: stats.io.as_ref().map(io),
        layer: stats.writable_layer.as_ref().map(layer),
    }
}

fn cpu(told: &CpuUsage) -> CpuStats {
    CpuStats {
        time: Time(told.timestamp),
        usage_nano_cores: told.usage_nano_cores,
        usage_core_nano_seconds: told.usage_core_nano_seconds,
        psi: told.psi.map(psi),
    }
}

fn memory(told: &MemoryUsage) -> MemoryStats {
    MemoryStats {
        time: Time(told.timestamp),
        available_bytes: told.available_bytes,
        usage_bytes: told.usage_bytes,
        working_set_bytes: told.working_set_bytes,
        rss_bytes: told.rss_bytes,
        page_faults: told.page_faults,
        major_page_faults: told.major_page_faults,
        psi: told.psi.map(psi),
    }
}

fn swap(told: &SwapUsage) -> SwapStats {
    SwapStats {
        time: Time(told.timestamp),
        swap_available_bytes: told.swap_available_bytes,
        swap_usage_bytes: told.swap_usage_bytes,
    }
}

fn io(told: &IoUsage) -> IoStats {
    IoStats { time: Time(told.timestamp), psi: told.psi.map(psi) }
}

/// Upstream shows the totals as the runtime tells them, whatever their unit.
fn psi(told: PsiStats) -> summary::PsiStats {
    let line = |told: PsiData| summary::PsiData {
        total: told.total,
        avg10: Decimal(told.avg10),
        avg60: Decimal(told.avg60),
        avg300: Decimal(told.avg300),
    };
    summary::PsiStats { full: line(told.full), some: line(told.some) }
}

fn network(told: &NetworkUsage) -> NetworkStats {
    NetworkStats {
        time: Time(told.timestamp),
        default: told.default_interface.as_ref().map(interface).unwrap_or_default(),
        interfaces: told.interfaces.iter().map(interface).collect(),
    }
}

fn interface(told: &NetworkInterfaceUsage) -> InterfaceStats {
    InterfaceStats {
        name: told.name.clone(),
        rx_bytes: told.rx_bytes,
        rx_errors: told.rx_errors,
        tx_bytes: told.tx_bytes,
        tx_errors: told.tx_errors,
    }
}

fn layer(told: &FilesystemUsage) -> LayerUse {
    LayerUse { at: told.timestamp, bytes: told.used_bytes, inodes: told.inodes_used }
}
