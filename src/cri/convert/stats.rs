//! Figures of the wire. A message that is missing stays "not told"; it never becomes zero.

use super::answers::{container_metadata, sandbox_metadata};
use super::moment;
use crate::cri::{self as own, wire};

fn number_of(value: Option<wire::UInt64Value>) -> Option<u64> {
    value.map(|value| value.value)
}

impl From<&own::StatsFilter> for wire::ContainerStatsFilter {
    fn from(filter: &own::StatsFilter) -> Self {
        Self {
            id: filter.id.clone().unwrap_or_default(),
            pod_sandbox_id: filter.sandbox_id.clone().unwrap_or_default(),
            label_selector: filter.label_selector.clone(),
        }
    }
}

impl From<&own::StatsFilter> for wire::PodSandboxStatsFilter {
    fn from(filter: &own::StatsFilter) -> Self {
        // Of a sandbox, both fields mean the same thing.
        Self {
            id: filter.id.clone().or_else(|| filter.sandbox_id.clone()).unwrap_or_default(),
            label_selector: filter.label_selector.clone(),
        }
    }
}

/// Figures of a container.
pub(in crate::cri) fn container_stats(stats: wire::ContainerStats) -> own::ContainerStats {
    let attributes = stats.attributes.unwrap_or_default();
    own::ContainerStats {
        id: attributes.id,
        metadata: container_metadata(attributes.metadata.unwrap_or_default()),
        labels: attributes.labels,
        annotations: attributes.annotations,
        cpu: stats.cpu.map(cpu),
        memory: stats.memory.map(memory),
        writable_layer: stats.writable_layer.map(filesystem),
        swap: stats.swap.map(|swap| own::SwapUsage {
            timestamp: moment(swap.timestamp),
            swap_available_bytes: number_of(swap.swap_available_bytes),
            swap_usage_bytes: number_of(swap.swap_usage_bytes),
        }),
        io: stats.io.map(io),
    }
}

/// Figures of a sandbox.
pub(in crate::cri) fn pod_sandbox_stats(stats: wire::PodSandboxStats) -> own::PodSandboxStats {
    let attributes = stats.attributes.unwrap_or_default();
    let linux = stats.linux.unwrap_or_default();
    own::PodSandboxStats {
        id: attributes.id,
        metadata: sandbox_metadata(attributes.metadata.unwrap_or_default()),
        labels: attributes.labels,
        annotations: attributes.annotations,
        cpu: linux.cpu.map(cpu),
        memory: linux.memory.map(memory),
        network: linux.network.map(|network| own::NetworkUsage {
            timestamp: moment(network.timestamp),
            default_interface: network.default_interface.map(interface),
            interfaces: network.interfaces.into_iter().map(interface).collect(),
        }),
        process_count: linux.process.and_then(|process| number_of(process.process_count)),
        io: linux.io.map(io),
        containers: linux.containers.into_iter().map(container_stats).collect(),
    }
}

fn psi(stats: wire::PsiStats) -> own::PsiStats {
    let line = |data: Option<wire::PsiData>| {
        let data = data.unwrap_or_default();
        own::PsiData { total: data.total, avg10: data.avg10, avg60: data.avg60, avg300: data.avg300 }
    };
    own::PsiStats { full: line(stats.full), some: line(stats.some) }
}

fn cpu(usage: wire::CpuUsage) -> own::CpuUsage {
    own::CpuUsage {
        timestamp: moment(usage.timestamp),
        usage_core_nano_seconds: number_of(usage.usage_core_nano_seconds),
        usage_nano_cores: number_of(usage.usage_nano_cores),
        psi: usage.psi.map(psi),
    }
}

fn memory(usage: wire::MemoryUsage) -> own::MemoryUsage {
    own::MemoryUsage {
        timestamp: moment(usage.timestamp),
        working_set_bytes: number_of(usage.working_set_bytes),
        available_bytes: number_of(usage.available_bytes),
        usage_bytes: number_of(usage.usage_bytes),
        rss_bytes: number_of(usage.rss_bytes),
        page_faults: number_of(usage.page_faults),
        major_page_faults: number_of(usage.major_page_faults),
        psi: usage.psi.map(psi),
    }
}

fn io(usage: wire::IoUsage) -> own::IoUsage {
    own::IoUsage { timestamp: moment(usage.timestamp), psi: usage.psi.map(psi) }
}

fn interface(usage: wire::NetworkInterfaceUsage) -> own::NetworkInterfaceUsage {
    own::NetworkInterfaceUsage {
        name: usage.name,
        rx_bytes: number_of(usage.rx_bytes),
        rx_errors: number_of(usage.rx_errors),
        tx_bytes: number_of(usage.tx_bytes),
        tx_errors: number_of(usage.tx_errors),
    }
}

fn filesystem(usage: wire::FilesystemUsage) -> own::FilesystemUsage {
    own::FilesystemUsage {
        timestamp: moment(usage.timestamp),
        mountpoint: usage.fs_id.unwrap_or_default().mountpoint,
        used_bytes: number_of(usage.used_bytes),
        inodes_used: number_of(usage.inodes_used),
    }
}

/// Answer of `ImageFsInfo`.
pub(in crate::cri) fn image_fs_info(answer: wire::ImageFsInfoResponse) -> own::ImageFsInfo {
    own::ImageFsInfo {
        image_filesystems: answer.image_filesystems.into_iter().map(filesystem).collect(),
        container_filesystems: answer.container_filesystems.into_iter().map(filesystem).collect(),
    }
}

/// A line of `ListMetricDescriptors`.
pub(in crate::cri) fn metric_descriptor(descriptor: wire::MetricDescriptor) -> own::MetricDescriptor {
    own::MetricDescriptor { name: descriptor.name, help: descriptor.help, label_keys: descriptor.label_keys }
}

/// A line of `ListPodSandboxMetrics`.
pub(in crate::cri) fn pod_sandbox_metrics(metrics: wire::PodSandboxMetrics) -> own::PodSandboxMetrics {
    let container = |container: wire::ContainerMetrics| {
        (container.container_id, container.metrics.into_iter().map(metric).collect())
    };
    own::PodSandboxMetrics {
        sandbox_id: metrics.pod_sandbox_id,
        metrics: metrics.metrics.into_iter().map(metric).collect(),
        containers: metrics.container_metrics.into_iter().map(container).collect(),
    }
}

fn metric(metric: wire::Metric) -> own::Metric {
    own::Metric {
        name: metric.name,
        timestamp: moment(metric.timestamp),
        gauge: metric.metric_type == i32::from(wire::MetricType::Gauge),
        label_values: metric.label_values,
        value: number_of(metric.value),
    }
}
