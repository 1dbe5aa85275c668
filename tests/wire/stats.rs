//! Figures arrive whole, and what the runtime does not tell never becomes a zero.

use podwright::cri::{self as own, ImageService, RuntimeService, wire};
use podwright::logic::model::time::Moment;

use crate::answers::{map, texts};
use crate::fake::{Fake, Host};

fn number(value: u64) -> Option<wire::UInt64Value> {
    Some(wire::UInt64Value { value })
}

fn wire_psi(base: f64) -> Option<wire::PsiStats> {
    let line = |base: f64| {
        Some(wire::PsiData { total: base as u64, avg10: base + 0.1, avg60: base + 0.2, avg300: base + 0.3 })
    };
    Some(wire::PsiStats { full: line(base), some: line(base + 50.0) })
}

fn own_psi(base: f64) -> Option<own::PsiStats> {
    let line =
        |base: f64| own::PsiData { total: base as u64, avg10: base + 0.1, avg60: base + 0.2, avg300: base + 0.3 };
    Some(own::PsiStats { full: line(base), some: line(base + 50.0) })
}

fn wire_cpu() -> Option<wire::CpuUsage> {
    Some(wire::CpuUsage {
        timestamp: 1,
        usage_core_nano_seconds: number(2),
        usage_nano_cores: number(0),
        psi: wire_psi(1.0),
    })
}

fn own_cpu() -> Option<own::CpuUsage> {
    Some(own::CpuUsage {
        timestamp: Moment(1),
        usage_core_nano_seconds: Some(2),
        usage_nano_cores: Some(0),
        psi: own_psi(1.0),
    })
}

fn wire_memory() -> Option<wire::MemoryUsage> {
    Some(wire::MemoryUsage {
        timestamp: 10,
        working_set_bytes: number(11),
        available_bytes: number(12),
        usage_bytes: number(13),
        rss_bytes: number(14),
        page_faults: number(15),
        major_page_faults: number(16),
        psi: wire_psi(2.0),
    })
}

fn own_memory() -> Option<own::MemoryUsage> {
    Some(own::MemoryUsage {
        timestamp: Moment(10),
        working_set_bytes: Some(11),
        available_bytes: Some(12),
        usage_bytes: Some(13),
        rss_bytes: Some(14),
        page_faults: Some(15),
        major_page_faults: Some(16),
        psi: own_psi(2.0),
    })
}

fn wire_filesystem(base: u64) -> wire::FilesystemUsage {
    wire::FilesystemUsage {
        timestamp: 20,
        fs_id: Some(wire::FilesystemIdentifier { mountpoint: format!("/{base}") }),
        used_bytes: number(base + 1),
        inodes_used: number(base + 2),
    }
}

fn own_filesystem(base: u64) -> own::FilesystemUsage {
    own::FilesystemUsage {
        timestamp: Moment(20),
        mountpoint: format!("/{base}"),
        used_bytes: Some(base + 1),
        inodes_used: Some(base + 2),
    }
}

fn wire_container() -> wire::ContainerStats {
    wire::ContainerStats {
        attributes: Some(wire::ContainerAttributes {
            id: "c".into(),
            metadata: Some(wire::ContainerMetadata { name: "name".into(), attempt: 1 }),
            labels: map("label"),
            annotations: map("annotation"),
        }),
        cpu: wire_cpu(),
        memory: wire_memory(),
        writable_layer: Some(wire_filesystem(30)),
        swap: Some(wire::SwapUsage { timestamp: 40, swap_available_bytes: number(41), swap_usage_bytes: number(42) }),
        io: Some(wire::IoUsage { timestamp: 50, psi: wire_psi(3.0) }),
    }
}

fn own_container() -> own::ContainerStats {
    own::ContainerStats {
        id: "c".into(),
        metadata: own::ContainerMetadata { name: "name".into(), attempt: 1 },
        labels: map("label"),
        annotations: map("annotation"),
        cpu: own_cpu(),
        memory: own_memory(),
        writable_layer: Some(own_filesystem(30)),
        swap: Some(own::SwapUsage {
            timestamp: Moment(40),
            swap_available_bytes: Some(41),
            swap_usage_bytes: Some(42),
        }),
        io: Some(own::IoUsage { timestamp: Moment(50), psi: own_psi(3.0) }),
    }
}

fn wire_interface(name: &str, base: u64) -> wire::NetworkInterfaceUsage {
    wire::NetworkInterfaceUsage {
        name: name.into(),
        rx_bytes: number(base + 1),
        rx_errors: number(base + 2),
        tx_bytes: number(base + 3),
        tx_errors: number(base + 4),
    }
}

fn own_interface(name: &str, base: u64) -> own::NetworkInterfaceUsage {
    own::NetworkInterfaceUsage {
        name: name.into(),
        rx_bytes: Some(base + 1),
        rx_errors: Some(base + 2),
        tx_bytes: Some(base + 3),
        tx_errors: Some(base + 4),
    }
}

fn wire_sandbox() -> wire::PodSandboxStats {
    let metadata = wire::PodSandboxMetadata { name: "n".into(), uid: "u".into(), namespace: "ns".into(), attempt: 2 };
    wire::PodSandboxStats {
        attributes: Some(wire::PodSandboxAttributes {
            id: "s".into(),
            metadata: Some(metadata),
            labels: map("label"),
            annotations: map("annotation"),
        }),
        linux: Some(wire::LinuxPodSandboxStats {
            cpu: wire_cpu(),
            memory: wire_memory(),
            network: Some(wire::NetworkUsage {
                timestamp: 60,
                default_interface: Some(wire_interface("eth0", 60)),
                interfaces: vec![wire_interface("eth1", 70)],
            }),
            process: Some(wire::ProcessUsage { timestamp: 80, process_count: number(81) }),
            containers: vec![wire_container()],
            io: Some(wire::IoUsage { timestamp: 90, psi: wire_psi(4.0) }),
        }),
        windows: None,
    }
}

fn own_sandbox() -> own::PodSandboxStats {
    own::PodSandboxStats {
        id: "s".into(),
        metadata: own::PodSandboxMetadata { name: "n".into(), uid: "u".into(), namespace: "ns".into(), attempt: 2 },
        labels: map("label"),
        annotations: map("annotation"),
        cpu: own_cpu(),
        memory: own_memory(),
        network: Some(own::NetworkUsage {
            timestamp: Moment(60),
            default_interface: Some(own_interface("eth0", 60)),
            interfaces: vec![own_interface("eth1", 70)],
        }),
        process_count: Some(81),
        io: Some(own::IoUsage { timestamp: Moment(90), psi: own_psi(4.0) }),
        containers: vec![own_container()],
    }
}

/// CRI-34.
#[tokio::test]
async fn figures_arrive_whole() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    fake.answer(wire::ContainerStatsResponse { stats: Some(wire_container()) });
    assert_eq!(runtime.container_stats(&"c".into()).await, Ok(own_container()));
    fake.answer(wire::ListContainerStatsResponse { stats: vec![wire_container(), wire_container()] });
    let told = runtime.list_container_stats(&Default::default()).await;
    assert_eq!(told, Ok(vec![own_container(), own_container()]));
    fake.answer(wire::PodSandboxStatsResponse { stats: Some(wire_sandbox()) });
    assert_eq!(runtime.pod_sandbox_stats(&"s".into()).await, Ok(own_sandbox()));
    fake.answer(wire::ListPodSandboxStatsResponse { stats: vec![wire_sandbox()] });
    assert_eq!(runtime.list_pod_sandbox_stats(&Default::default()).await, Ok(vec![own_sandbox()]));
    fake.answer(wire::ImageFsInfoResponse {
        image_filesystems: vec![wire_filesystem(100)],
        container_filesystems: vec![wire_filesystem(200), wire_filesystem(300)],
    });
    let told = own::ImageFsInfo {
        image_filesystems: vec![own_filesystem(100)],
        container_filesystems: vec![own_filesystem(200), own_filesystem(300)],
    };
    assert_eq!(runtime.image_fs_info().await, Ok(told));
}

/// CRI-34.
#[tokio::test]
async fn metrics_arrive_whole() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    let descriptor = wire::MetricDescriptor { name: "metric".into(), help: "helps".into(), label_keys: texts("key") };
    fake.answer(wire::ListMetricDescriptorsResponse { descriptors: vec![descriptor] });
    let told = own::MetricDescriptor { name: "metric".into(), help: "helps".into(), label_keys: texts("key") };
    assert_eq!(runtime.list_metric_descriptors().await, Ok(vec![told]));

    let sample = |name: &str, metric_type: wire::MetricType, value| wire::Metric {
        name: name.into(),
        timestamp: 7,
        metric_type: metric_type.into(),
        label_values: texts(name),
        value,
    };
    fake.answer(wire::ListPodSandboxMetricsResponse {
        pod_metrics: vec![wire::PodSandboxMetrics {
            pod_sandbox_id: "s".into(),
            metrics: vec![sample("pod", wire::MetricType::Gauge, number(0))],
            container_metrics: vec![wire::ContainerMetrics {
                container_id: "c".into(),
                metrics: vec![sample("container", wire::MetricType::Counter, None)],
            }],
        }],
    });
    let sample = |name: &str, gauge, value| own::Metric {
        name: name.into(),
        timestamp: Moment(7),
        gauge,
        label_values: texts(name),
        value,
    };
    let told = own::PodSandboxMetrics {
        sandbox_id: "s".into(),
        metrics: vec![sample("pod", true, Some(0))],
        containers: vec![("c".into(), vec![sample("container", false, None)])],
    };
    assert_eq!(runtime.list_pod_sandbox_metrics().await, Ok(vec![told]));
}

#[tokio::test]
async fn what_is_not_told_stays_untold() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    let empty = wire::ContainerStats { cpu: Some(Default::default()), ..Default::default() };
    fake.answer(wire::ContainerStatsResponse { stats: Some(empty) });
    let told = runtime.container_stats(&"c".into()).await.unwrap();
    assert_eq!(told, own::ContainerStats { cpu: Some(own::CpuUsage::default()), ..Default::default() });
    assert_eq!(told.cpu.unwrap().usage_core_nano_seconds, None);
    fake.answer(wire::PodSandboxStatsResponse { stats: Some(wire::PodSandboxStats::default()) });
    assert_eq!(runtime.pod_sandbox_stats(&"s".into()).await, Ok(own::PodSandboxStats::default()));
}
