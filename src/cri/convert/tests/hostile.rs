//! Messages that no sound runtime sends: whole ones with bytes changed or cut off, and with numbers at their limits.

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::cri::pod_mapping::*;
use crate::cri::wire;

const CALL: &str = "Call";

/// Every conversion of what the bytes may be read as, up to a pod as decisions see it.
fn convert_all(bytes: &[u8]) {
    if let Ok(answer) = wire::VersionResponse::decode(bytes) {
        let _ = version(CALL, answer);
    }
    if let Ok(answer) = wire::StatusResponse::decode(bytes) {
        let _ = runtime_status(CALL, answer);
    }
    if let Ok(answer) = wire::RuntimeConfigResponse::decode(bytes) {
        let _ = cgroup_driver(CALL, answer);
    }
    if let Ok(Ok(told)) = wire::PodSandboxStatusResponse::decode(bytes).map(|answer| pod_sandbox_status(CALL, answer)) {
        let _ = (pod_identity(&told.labels), runtime_sandbox(&told));
    }
    if let Ok(Ok(told)) = wire::ContainerStatusResponse::decode(bytes).map(|answer| container_status(CALL, answer)) {
        let _ = runtime_container(&told, &"s".into(), true);
        let _ = (pod_identity(&told.labels), termination_message_file(&told));
    }
    if let Ok(answer) = wire::ImageStatusResponse::decode(bytes) {
        let _ = image_status(CALL, answer);
    }
    wire::Image::decode(bytes).map(image).ok();
    if let Ok(told) = wire::PodSandbox::decode(bytes).map(pod_sandbox) {
        let _ = sandbox_generation(&told);
    }
    if let Ok(told) = wire::Container::decode(bytes).map(container) {
        let _ = generation(&told);
    }
    wire::ContainerEventResponse::decode(bytes).map(container_event).ok();
    wire::ContainerStats::decode(bytes).map(container_stats).ok();
    wire::PodSandboxStats::decode(bytes).map(pod_sandbox_stats).ok();
    wire::ImageFsInfoResponse::decode(bytes).map(image_fs_info).ok();
    wire::MetricDescriptor::decode(bytes).map(metric_descriptor).ok();
    wire::PodSandboxMetrics::decode(bytes).map(pod_sandbox_metrics).ok();
}

/// Numbers that no sound runtime sends. The messages made of them have every field: none is left to a default, so that a
/// field that the protocol gains is missed here by the compiler.
#[derive(Clone, Copy, Debug)]
struct Odd {
    /// Times and amounts.
    number: i64,
    /// Enumerations and codes.
    state: i32,
    /// Counts, and users' numbers.
    count: u32,
}

prop_compose! {
    fn any_odd()(
        number in prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(-1), Just(0), any::<i64>()],
        state in prop_oneof![Just(i32::MIN), Just(i32::MAX), -1..70, any::<i32>()],
        count in prop_oneof![Just(0), Just(u32::MAX), any::<u32>()],
    ) -> Odd {
        Odd { number, state, count }
    }
}

fn texts() -> BTreeMap<String, String> {
    let both = [("restartCount", "-1"), ("hash", "+f"), ("terminationMessagePath", "/../data"), ("x", "")];
    let mut texts: BTreeMap<String, String> =
        both.map(|(key, value)| (format!("io.kubernetes.container.{key}"), value.to_owned())).into();
    texts.extend(["name", "namespace", "uid"].map(|key| (format!("io.kubernetes.pod.{key}"), "/".to_owned())));
    texts
}

/// The answers of a runtime about sandboxes, containers, images and itself.
impl Odd {
    fn amount(self) -> u64 {
        self.number.cast_unsigned()
    }

    fn metadata(self) -> wire::ContainerMetadata {
        wire::ContainerMetadata { name: "main".into(), attempt: self.count }
    }

    fn sandbox_metadata(self) -> wire::PodSandboxMetadata {
        let (name, uid, namespace) = ("web".into(), "uid".into(), "default".into());
        wire::PodSandboxMetadata { name, uid, namespace, attempt: self.count }
    }

    fn image_spec(self) -> wire::ImageSpec {
        wire::ImageSpec {
            image: "app:1".into(),
            annotations: texts(),
            user_specified_image: "app".into(),
            runtime_handler: "runc".into(),
            image_ref: "sha256:1".into(),
        }
    }

    fn mappings(self) -> Vec<wire::IdMapping> {
        vec![wire::IdMapping { host_id: self.count, container_id: self.count, length: self.count }]
    }

    fn mount(self) -> wire::Mount {
        wire::Mount {
            container_path: "/data".into(),
            host_path: "../..".into(),
            readonly: true,
            selinux_relabel: true,
            propagation: self.state,
            uid_mappings: self.mappings(),
            gid_mappings: self.mappings(),
            recursive_read_only: true,
            image: Some(self.image_spec()),
            image_sub_path: "..".into(),
        }
    }

    fn resources(self) -> wire::LinuxContainerResources {
        wire::LinuxContainerResources {
            cpu_period: self.number,
            cpu_quota: self.number,
            cpu_shares: self.number,
            memory_limit_in_bytes: self.number,
            oom_score_adj: self.number,
            cpuset_cpus: "0-".into(),
            cpuset_mems: "-1".into(),
            hugepage_limits: vec![wire::HugepageLimit { page_size: "2MB".into(), limit: self.amount() }],
            unified: texts(),
            memory_swap_limit_in_bytes: self.number,
        }
    }

    fn container_status(self) -> wire::ContainerStatus {
        let groups = vec![self.number, self.number];
        let user = wire::LinuxContainerUser { uid: self.number, gid: self.number, supplemental_groups: groups };
        wire::ContainerStatus {
            id: "c".into(),
            metadata: Some(self.metadata()),
            state: self.state,
            created_at: self.number,
            started_at: self.number,
            finished_at: self.number,
            exit_code: self.state,
            image: Some(self.image_spec()),
            image_ref: "sha256:1".into(),
            reason: "Error".into(),
            message: "ended".into(),
            labels: texts(),
            annotations: texts(),
            mounts: vec![self.mount()],
            log_path: "../0.log".into(),
            resources: Some(wire::ContainerResources { linux: Some(self.resources()), windows: None }),
            image_id: "sha256:1".into(),
            user: Some(wire::ContainerUser { linux: Some(user) }),
            stop_signal: self.state,
        }
    }

    fn namespaces(self) -> wire::NamespaceOption {
        let (uids, gids) = (self.mappings(), self.mappings());
        wire::NamespaceOption {
            network: self.state,
            pid: self.state,
            ipc: self.state,
            target_id: "c".into(),
            userns_options: Some(wire::UserNamespace { mode: self.state, uids, gids }),
        }
    }

    fn sandbox_status(self) -> wire::PodSandboxStatus {
        let additional_ips = vec![wire::PodIp { ip: String::new() }, wire::PodIp { ip: "::1::".into() }];
        let namespaces = Some(wire::Namespace { options: Some(self.namespaces()) });
        wire::PodSandboxStatus {
            id: "s".into(),
            metadata: Some(self.sandbox_metadata()),
            state: self.state,
            created_at: self.number,
            network: Some(wire::PodSandboxNetworkStatus { ip: "256.0.0.1".into(), additional_ips }),
            linux: Some(wire::LinuxPodSandboxStatus { namespaces }),
            labels: texts(),
            annotations: texts(),
            runtime_handler: "runc".into(),
        }
    }

    fn sandbox(self) -> wire::PodSandbox {
        wire::PodSandbox {
            id: "s".into(),
            metadata: Some(self.sandbox_metadata()),
            state: self.state,
            created_at: self.number,
            labels: texts(),
            annotations: texts(),
            runtime_handler: "runc".into(),
        }
    }

    fn container(self) -> wire::Container {
        wire::Container {
            id: "c".into(),
            pod_sandbox_id: "s".into(),
            metadata: Some(self.metadata()),
            image: Some(self.image_spec()),
            image_ref: "sha256:1".into(),
            state: self.state,
            created_at: self.number,
            labels: texts(),
            annotations: texts(),
            image_id: "sha256:1".into(),
        }
    }

    fn event(self) -> wire::ContainerEventResponse {
        wire::ContainerEventResponse {
            container_id: "c".into(),
            container_event_type: self.state,
            created_at: self.number,
            pod_sandbox_status: Some(self.sandbox_status()),
            containers_statuses: vec![self.container_status()],
        }
    }

    fn image(self) -> wire::Image {
        wire::Image {
            id: "sha256:1".into(),
            repo_tags: vec![":".into()],
            repo_digests: vec!["@".into()],
            size: self.amount(),
            uid: Some(wire::Int64Value { value: self.number }),
            username: "0x".into(),
            spec: Some(self.image_spec()),
            pinned: true,
        }
    }

    fn runtime_status(self) -> wire::StatusResponse {
        let condition = |kind: &str| wire::RuntimeCondition {
            r#type: kind.into(),
            status: false,
            reason: "None".into(),
            message: String::new(),
        };
        let features = wire::RuntimeHandlerFeatures { recursive_read_only_mounts: true, user_namespaces: true };
        let conditions = vec![condition("RuntimeReady"), condition("NetworkReady")];
        wire::StatusResponse {
            status: Some(wire::RuntimeStatus { conditions }),
            info: texts(),
            runtime_handlers: vec![wire::RuntimeHandler { name: "runc".into(), features: Some(features) }],
            features: Some(wire::RuntimeFeatures {
                supplemental_groups_policy: true,
                user_namespaces_host_network: true,
            }),
        }
    }
}

/// Figures.
impl Odd {
    fn figure(self) -> Option<wire::UInt64Value> {
        Some(wire::UInt64Value { value: self.amount() })
    }

    fn psi(self) -> Option<wire::PsiStats> {
        let average = f64::from_bits(self.amount());
        let line = wire::PsiData { total: self.amount(), avg10: average, avg60: average, avg300: average };
        Some(wire::PsiStats { full: Some(line), some: Some(line) })
    }

    fn cpu(self) -> wire::CpuUsage {
        wire::CpuUsage {
            timestamp: self.number,
            usage_core_nano_seconds: self.figure(),
            usage_nano_cores: self.figure(),
            psi: self.psi(),
        }
    }

    fn memory(self) -> wire::MemoryUsage {
        wire::MemoryUsage {
            timestamp: self.number,
            working_set_bytes: self.figure(),
            available_bytes: self.figure(),
            usage_bytes: self.figure(),
            rss_bytes: self.figure(),
            page_faults: self.figure(),
            major_page_faults: self.figure(),
            psi: self.psi(),
        }
    }

    fn io(self) -> wire::IoUsage {
        wire::IoUsage { timestamp: self.number, psi: self.psi() }
    }

    fn filesystem(self) -> wire::FilesystemUsage {
        wire::FilesystemUsage {
            timestamp: self.number,
            fs_id: Some(wire::FilesystemIdentifier { mountpoint: "..".into() }),
            used_bytes: self.figure(),
            inodes_used: self.figure(),
        }
    }

    fn container_stats(self) -> wire::ContainerStats {
        let attributes = wire::ContainerAttributes {
            id: "c".into(),
            metadata: Some(self.metadata()),
            labels: texts(),
            annotations: texts(),
        };
        let swap = wire::SwapUsage {
            timestamp: self.number,
            swap_available_bytes: self.figure(),
            swap_usage_bytes: self.figure(),
        };
        wire::ContainerStats {
            attributes: Some(attributes),
            cpu: Some(self.cpu()),
            memory: Some(self.memory()),
            writable_layer: Some(self.filesystem()),
            swap: Some(swap),
            io: Some(self.io()),
        }
    }

    fn interface(self) -> wire::NetworkInterfaceUsage {
        wire::NetworkInterfaceUsage {
            name: "eth0".into(),
            rx_bytes: self.figure(),
            rx_errors: self.figure(),
            tx_bytes: self.figure(),
            tx_errors: self.figure(),
        }
    }

    fn sandbox_stats(self) -> wire::PodSandboxStats {
        let attributes = wire::PodSandboxAttributes {
            id: "s".into(),
            metadata: Some(self.sandbox_metadata()),
            labels: texts(),
            annotations: texts(),
        };
        let network = wire::NetworkUsage {
            timestamp: self.number,
            default_interface: Some(self.interface()),
            interfaces: vec![self.interface()],
        };
        let linux = wire::LinuxPodSandboxStats {
            cpu: Some(self.cpu()),
            memory: Some(self.memory()),
            network: Some(network),
            process: Some(wire::ProcessUsage { timestamp: self.number, process_count: self.figure() }),
            containers: vec![self.container_stats()],
            io: Some(self.io()),
        };
        wire::PodSandboxStats { attributes: Some(attributes), linux: Some(linux), windows: None }
    }

    fn metrics(self) -> wire::PodSandboxMetrics {
        let metric = || wire::Metric {
            name: "container_cpu".into(),
            timestamp: self.number,
            metric_type: self.state,
            label_values: vec![String::new()],
            value: self.figure(),
        };
        wire::PodSandboxMetrics {
            pod_sandbox_id: "s".into(),
            metrics: vec![metric()],
            container_metrics: vec![wire::ContainerMetrics { container_id: "c".into(), metrics: vec![metric()] }],
        }
    }

    /// One message of each kind.
    fn messages(self) -> Vec<Vec<u8>> {
        let version = wire::VersionResponse {
            version: API_VERSION.into(),
            runtime_name: "r".into(),
            runtime_version: "1".into(),
            runtime_api_version: "v1".into(),
        };
        let driver = wire::LinuxRuntimeConfiguration { cgroup_driver: self.state };
        let sandbox = wire::PodSandboxStatusResponse {
            status: Some(self.sandbox_status()),
            info: texts(),
            containers_statuses: vec![self.container_status()],
            timestamp: self.number,
        };
        let (image_filesystems, container_filesystems) = (vec![self.filesystem()], vec![self.filesystem()]);
        let (name, help) = ("container_cpu".into(), String::new());
        vec![
            version.encode_to_vec(),
            self.runtime_status().encode_to_vec(),
            wire::RuntimeConfigResponse { linux: Some(driver) }.encode_to_vec(),
            sandbox.encode_to_vec(),
            wire::ContainerStatusResponse { status: Some(self.container_status()), info: texts() }.encode_to_vec(),
            wire::ImageStatusResponse { image: Some(self.image()), info: texts() }.encode_to_vec(),
            self.image().encode_to_vec(),
            self.sandbox().encode_to_vec(),
            self.container().encode_to_vec(),
            self.event().encode_to_vec(),
            self.container_stats().encode_to_vec(),
            self.sandbox_stats().encode_to_vec(),
            wire::ImageFsInfoResponse { image_filesystems, container_filesystems }.encode_to_vec(),
            wire::MetricDescriptor { name, help, label_keys: vec![String::new()] }.encode_to_vec(),
            self.metrics().encode_to_vec(),
        ]
    }
}

proptest! {
    /// SEC-59: whole messages, and the same with bytes changed or cut off.
    #[test]
    fn no_message_of_a_runtime_is_too_strange(
        odd in any_odd(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        for mut bytes in odd.messages() {
            convert_all(&bytes);
            for (place, byte) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            convert_all(&bytes);
        }
    }

    /// SEC-59.
    #[test]
    fn no_bytes_of_a_runtime_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        convert_all(&bytes);
    }
}
