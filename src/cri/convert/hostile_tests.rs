//! Messages that no sound runtime sends: whole ones with bytes changed or cut off, and with numbers at their limits.

use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::cri::wire;

const CALL: &str = "Call";

fn metadata(attempt: u32) -> wire::ContainerMetadata {
    wire::ContainerMetadata { name: "main".into(), attempt }
}

fn sandbox_metadata(attempt: u32) -> wire::PodSandboxMetadata {
    wire::PodSandboxMetadata { name: "web".into(), uid: "uid".into(), namespace: "default".into(), attempt }
}

fn image_spec() -> wire::ImageSpec {
    wire::ImageSpec { image: "app:1".into(), ..Default::default() }
}

/// Every conversion of what the bytes may be read as.
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
    if let Ok(answer) = wire::PodSandboxStatusResponse::decode(bytes) {
        let _ = pod_sandbox_status(CALL, answer);
    }
    if let Ok(answer) = wire::ContainerStatusResponse::decode(bytes) {
        let _ = container_status(CALL, answer);
    }
    if let Ok(answer) = wire::ImageStatusResponse::decode(bytes) {
        let _ = image_status(CALL, answer);
    }
    wire::PodSandbox::decode(bytes).map(pod_sandbox).ok();
    wire::Container::decode(bytes).map(container).ok();
    wire::ContainerEventResponse::decode(bytes).map(container_event).ok();
    wire::ContainerStats::decode(bytes).map(container_stats).ok();
    wire::PodSandboxStats::decode(bytes).map(pod_sandbox_stats).ok();
    wire::ImageFsInfoResponse::decode(bytes).map(image_fs_info).ok();
    wire::MetricDescriptor::decode(bytes).map(metric_descriptor).ok();
    wire::PodSandboxMetrics::decode(bytes).map(pod_sandbox_metrics).ok();
}

prop_compose! {
    /// A whole message of one of these kinds, with any numbers.
    fn any_message()(
        kind in 0..4,
        number in prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(-1), Just(0), any::<i64>()],
        state in prop_oneof![Just(i32::MIN), Just(i32::MAX), 0..9, any::<i32>()],
        attempt in any::<u32>(),
    ) -> Vec<u8> {
        let status = wire::ContainerStatus {
            id: "c".into(),
            metadata: Some(metadata(attempt)),
            state,
            created_at: number,
            started_at: number,
            finished_at: number,
            exit_code: state,
            image: Some(image_spec()),
            image_ref: "sha256:1".into(),
            stop_signal: state,
            mounts: vec![wire::Mount { propagation: state, ..Default::default() }],
            ..Default::default()
        };
        let sandbox = wire::PodSandboxStatus {
            id: "s".into(),
            metadata: Some(sandbox_metadata(attempt)),
            state,
            created_at: number,
            ..Default::default()
        };
        match kind {
            0 => wire::ContainerStatusResponse { status: Some(status), ..Default::default() }.encode_to_vec(),
            1 => wire::PodSandboxStatusResponse { status: Some(sandbox), ..Default::default() }.encode_to_vec(),
            2 => wire::Container {
                metadata: Some(metadata(attempt)), state, created_at: number, ..Default::default()
            }.encode_to_vec(),
            _ => wire::ContainerEventResponse {
                container_event_type: state, created_at: number, pod_sandbox_status: Some(sandbox), ..Default::default()
            }.encode_to_vec(),
        }
    }
}

proptest! {
    /// SEC-59.
    #[test]
    fn no_message_of_a_runtime_is_too_strange(
        mut bytes in any_message(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        convert_all(&bytes);
    }

    /// SEC-59.
    #[test]
    fn no_bytes_of_a_runtime_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        convert_all(&bytes);
    }
}
