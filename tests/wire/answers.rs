//! The runtime's answers arrive whole.

use std::collections::BTreeMap;

use podwright::cri::{self as own, ImageService, RuntimeService, wire};
use podwright::logic::model::time::Moment;

use crate::fake::{Fake, Host};

/// A map with one entry of that name.
pub fn map(name: &str) -> BTreeMap<String, String> {
    [(format!("{name}-key"), format!("{name}-value"))].into()
}

/// Some texts of that name.
pub fn texts(name: &str) -> Vec<String> {
    vec![format!("{name}-1"), format!("{name}-2")]
}

/// The resources of `own_resources`, every field with a value of its own.
pub fn wire_resources(base: i64) -> wire::LinuxContainerResources {
    wire::LinuxContainerResources {
        cpu_period: base + 1,
        cpu_quota: base + 2,
        cpu_shares: base + 3,
        memory_limit_in_bytes: base + 4,
        oom_score_adj: base + 5,
        cpuset_cpus: format!("{base}-cpus"),
        cpuset_mems: format!("{base}-mems"),
        hugepage_limits: vec![wire::HugepageLimit { page_size: "2MB".into(), limit: 6 }],
        unified: map("unified"),
        memory_swap_limit_in_bytes: base + 7,
    }
}

/// The same in our words.
pub fn own_resources(base: i64) -> own::LinuxContainerResources {
    own::LinuxContainerResources {
        cpu_period: base + 1,
        cpu_quota: base + 2,
        cpu_shares: base + 3,
        memory_limit_in_bytes: base + 4,
        oom_score_adj: base + 5,
        cpuset_cpus: format!("{base}-cpus"),
        cpuset_mems: format!("{base}-mems"),
        hugepage_limits: vec![("2MB".into(), 6)],
        unified: map("unified"),
        memory_swap_limit_in_bytes: base + 7,
    }
}

/// An image of that name, every field set.
pub fn wire_image_spec(name: &str) -> wire::ImageSpec {
    wire::ImageSpec {
        image: name.into(),
        annotations: map(name),
        user_specified_image: format!("{name}-user"),
        runtime_handler: format!("{name}-handler"),
        image_ref: format!("{name}-ref"),
    }
}

/// The same in our words.
pub fn own_image_spec(name: &str) -> own::ImageSpec {
    own::ImageSpec {
        image: name.into(),
        annotations: map(name),
        user_specified_image: format!("{name}-user"),
        runtime_handler: format!("{name}-handler"),
        image_ref: format!("{name}-ref"),
    }
}

fn wire_ids(base: u32) -> Vec<wire::IdMapping> {
    vec![wire::IdMapping { host_id: base, container_id: base + 1, length: base + 2 }]
}

fn own_ids(base: u32) -> Vec<own::IdMapping> {
    vec![own::IdMapping { host_id: base, container_id: base + 1, length: base + 2 }]
}

/// A mount, every field set.
pub fn wire_mount() -> wire::Mount {
    wire::Mount {
        container_path: "/inside".into(),
        host_path: "/outside".into(),
        readonly: true,
        selinux_relabel: true,
        propagation: wire::MountPropagation::PropagationBidirectional.into(),
        uid_mappings: wire_ids(10),
        gid_mappings: wire_ids(20),
        recursive_read_only: true,
        image: Some(wire_image_spec("mounted")),
        image_sub_path: "sub".into(),
    }
}

/// The same in our words.
pub fn own_mount() -> own::Mount {
    own::Mount {
        container_path: "/inside".into(),
        host_path: "/outside".into(),
        readonly: true,
        selinux_relabel: true,
        propagation: own::MountPropagation::Bidirectional,
        uid_mappings: own_ids(10),
        gid_mappings: own_ids(20),
        recursive_read_only: true,
        image: Some(own_image_spec("mounted")),
        image_sub_path: "sub".into(),
    }
}

fn sandbox_metadata() -> (wire::PodSandboxMetadata, own::PodSandboxMetadata) {
    let (name, uid, namespace, attempt) = ("name".to_owned(), "uid".to_owned(), "namespace".to_owned(), 3);
    (
        wire::PodSandboxMetadata { name: name.clone(), uid: uid.clone(), namespace: namespace.clone(), attempt },
        own::PodSandboxMetadata { name, uid, namespace, attempt },
    )
}

fn container_metadata() -> (wire::ContainerMetadata, own::ContainerMetadata) {
    (
        wire::ContainerMetadata { name: "name".into(), attempt: 4 },
        own::ContainerMetadata { name: "name".into(), attempt: 4 },
    )
}

/// A good status of a sandbox, every field set.
pub fn sandbox_status() -> wire::PodSandboxStatus {
    let options = wire::NamespaceOption { network: wire::NamespaceMode::Node.into(), ..Default::default() };
    wire::PodSandboxStatus {
        id: "sandbox".into(),
        metadata: Some(sandbox_metadata().0),
        state: wire::PodSandboxState::SandboxReady.into(),
        created_at: 5,
        network: Some(wire::PodSandboxNetworkStatus {
            ip: "10.0.0.1".into(),
            additional_ips: vec![wire::PodIp { ip: "fd00::1".into() }],
        }),
        linux: Some(wire::LinuxPodSandboxStatus { namespaces: Some(wire::Namespace { options: Some(options) }) }),
        labels: map("label"),
        annotations: map("annotation"),
        runtime_handler: "handler".into(),
    }
}

/// A good status of a container, every field set.
pub fn container_status() -> wire::ContainerStatus {
    let user = wire::LinuxContainerUser { uid: 1, gid: 2, supplemental_groups: vec![3, 4] };
    wire::ContainerStatus {
        id: "container".into(),
        metadata: Some(container_metadata().0),
        state: wire::ContainerState::ContainerExited.into(),
        created_at: 5,
        started_at: 6,
        finished_at: 7,
        exit_code: -8,
        image: Some(wire_image_spec("image")),
        image_ref: "ref".into(),
        reason: "reason".into(),
        message: "message".into(),
        labels: map("label"),
        annotations: map("annotation"),
        mounts: vec![wire_mount()],
        log_path: "/log".into(),
        resources: Some(wire::ContainerResources { linux: Some(wire_resources(100)), windows: None }),
        image_id: "image-id".into(),
        user: Some(wire::ContainerUser { linux: Some(user) }),
        stop_signal: wire::Signal::Sigrtminplus1.into(),
    }
}

#[tokio::test]
async fn statuses_arrive_whole() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();

    fake.answer(wire::PodSandboxStatusResponse { status: Some(sandbox_status()), ..Default::default() });
    let told = own::PodSandboxStatus {
        id: "sandbox".into(),
        metadata: sandbox_metadata().1,
        state: own::SandboxState::Ready,
        created_at: Moment(5),
        ips: vec!["10.0.0.1".into(), "fd00::1".into()],
        lacks_address: false,
        network_mode: own::NamespaceMode::Node,
        labels: map("label"),
        annotations: map("annotation"),
        runtime_handler: "handler".into(),
    };
    assert_eq!(runtime.pod_sandbox_status(&"sandbox".into()).await, Ok(told));

    fake.answer(wire::ContainerStatusResponse { status: Some(container_status()), ..Default::default() });
    let told = own::ContainerStatus {
        id: "container".into(),
        metadata: container_metadata().1,
        state: own::ContainerState::Exited,
        created_at: Moment(5),
        started_at: Moment(6),
        finished_at: Moment(7),
        exit_code: -8,
        image: "image".into(),
        image_ref: "ref".into(),
        image_id: "image-id".into(),
        reason: "reason".into(),
        message: "message".into(),
        labels: map("label"),
        annotations: map("annotation"),
        mounts: vec![own_mount()],
        log_path: "/log".into(),
        resources: Some(own_resources(100)),
        user: Some(own::LinuxContainerUser { uid: 1, gid: 2, supplemental_groups: vec![3, 4] }),
        stop_signal: Some("SIGRTMIN+1".into()),
    };
    assert_eq!(runtime.container_status(&"container".into()).await, Ok(told));
}

/// CRI-17: a runtime that does not speak of the network is not one that says that there is no address.
#[tokio::test]
async fn a_sandbox_lacks_an_address_only_if_the_runtime_says_so() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    let with_others =
        wire::PodSandboxNetworkStatus { additional_ips: vec![wire::PodIp { ip: "fd00::1".into() }], ip: String::new() };
    let cases = [
        (None, false, 0),
        (Some(wire::PodSandboxNetworkStatus::default()), true, 0),
        (Some(with_others), true, 1),
        (sandbox_status().network, false, 2),
    ];
    for (network, lacks, addresses) in cases {
        let status = wire::PodSandboxStatus { network: network.clone(), ..sandbox_status() };
        fake.answer(wire::PodSandboxStatusResponse { status: Some(status), ..Default::default() });
        let told = runtime.pod_sandbox_status(&"sandbox".into()).await.unwrap();
        assert_eq!((told.lacks_address, told.ips.len()), (lacks, addresses), "{network:?}");
    }
}

#[tokio::test]
async fn lists_arrive_whole() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();

    let line = wire::PodSandbox {
        id: "sandbox".into(),
        metadata: Some(sandbox_metadata().0),
        state: wire::PodSandboxState::SandboxNotready.into(),
        created_at: 5,
        labels: map("label"),
        annotations: map("annotation"),
        runtime_handler: "handler".into(),
    };
    fake.answer(wire::ListPodSandboxResponse { items: vec![line] });
    let told = own::PodSandbox {
        id: "sandbox".into(),
        metadata: sandbox_metadata().1,
        state: own::SandboxState::NotReady,
        created_at: Moment(5),
        labels: map("label"),
        annotations: map("annotation"),
        runtime_handler: "handler".into(),
    };
    assert_eq!(runtime.list_pod_sandboxes(&Default::default()).await, Ok(vec![told]));

    let line = wire::Container {
        id: "container".into(),
        pod_sandbox_id: "sandbox".into(),
        metadata: Some(container_metadata().0),
        image: Some(wire_image_spec("image")),
        image_ref: "ref".into(),
        state: wire::ContainerState::ContainerRunning.into(),
        created_at: 5,
        labels: map("label"),
        annotations: map("annotation"),
        image_id: "image-id".into(),
    };
    fake.answer(wire::ListContainersResponse { containers: vec![line] });
    let told = own::Container {
        id: "container".into(),
        sandbox_id: "sandbox".into(),
        metadata: container_metadata().1,
        image: "image".into(),
        image_handler: "image-handler".into(),
        image_ref: "ref".into(),
        image_id: "image-id".into(),
        state: own::ContainerState::Running,
        created_at: Moment(5),
        labels: map("label"),
        annotations: map("annotation"),
    };
    assert_eq!(runtime.list_containers(&Default::default()).await, Ok(vec![told]));
}

#[tokio::test]
async fn images_arrive_whole() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    let image = wire::Image {
        id: "id".into(),
        repo_tags: texts("tag"),
        repo_digests: texts("digest"),
        size: u64::MAX,
        uid: Some(wire::Int64Value { value: 0 }),
        username: "user".into(),
        spec: Some(wire_image_spec("spec")),
        pinned: true,
    };
    let told = own::Image {
        id: "id".into(),
        repo_tags: texts("tag"),
        repo_digests: texts("digest"),
        size: u64::MAX,
        uid: Some(0),
        username: "user".into(),
        annotations: map("spec"),
        runtime_handler: "spec-handler".into(),
        pinned: true,
    };
    fake.answer(wire::ListImagesResponse { images: vec![image.clone()] });
    assert_eq!(runtime.list_images(None).await, Ok(vec![told.clone()]));
    fake.answer(wire::ImageStatusResponse { image: Some(image), ..Default::default() });
    assert_eq!(runtime.image_status(&own_image_spec("x")).await, Ok(Some(told)));
    fake.answer(wire::PullImageResponse { image_ref: "ref".into() });
    let config = own::PodSandboxConfig::default();
    assert_eq!(runtime.pull_image(&own_image_spec("x"), None, &config).await.as_deref(), Ok("ref"));
}

/// CRI-04, CRI-05, NODE-25, NODE-26.
#[tokio::test]
async fn the_runtimes_own_status_arrives_whole_and_sorted() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    let condition = |kind: &str, status| wire::RuntimeCondition {
        r#type: kind.into(),
        status,
        reason: format!("{kind}-reason"),
        message: format!("{kind}-message"),
    };
    let handler = |name: &str, features| wire::RuntimeHandler { name: name.into(), features };
    let features = |recursive_read_only_mounts, user_namespaces| {
        Some(wire::RuntimeHandlerFeatures { recursive_read_only_mounts, user_namespaces })
    };
    fake.answer(wire::StatusResponse {
        status: Some(wire::RuntimeStatus {
            conditions: vec![condition("RuntimeReady", true), condition("NetworkReady", false)],
        }),
        info: map("ignored"),
        runtime_handlers: vec![
            handler("z", features(true, false)),
            handler("", features(false, true)),
            handler("m", None),
        ],
        features: Some(wire::RuntimeFeatures { supplemental_groups_policy: true, user_namespaces_host_network: false }),
    });
    let told = runtime.status().await.unwrap();
    let network = own::RuntimeCondition {
        kind: "NetworkReady".into(),
        status: false,
        reason: "NetworkReady-reason".into(),
        message: "NetworkReady-message".into(),
    };
    assert_eq!(told.condition("NetworkReady"), Some(&network));
    assert!(told.condition("RuntimeReady").is_some_and(|condition| condition.status));
    let handler = |name: &str, recursive_read_only_mounts, user_namespaces| own::RuntimeHandler {
        name: name.into(),
        recursive_read_only_mounts,
        user_namespaces,
    };
    assert_eq!(told.handlers, [handler("", false, true), handler("m", false, false), handler("z", true, false)]);
    let features = own::RuntimeFeatures { supplemental_groups_policy: true, user_namespaces_host_network: false };
    assert_eq!(told.features, features);

    for (number, driver) in [(0, own::CgroupDriver::Systemd), (1, own::CgroupDriver::Cgroupfs)] {
        let linux = Some(wire::LinuxRuntimeConfiguration { cgroup_driver: number });
        fake.answer(wire::RuntimeConfigResponse { linux });
        assert_eq!(runtime.runtime_config().await, Ok(Some(driver)));
    }
    fake.answer(wire::RuntimeConfigResponse { linux: Some(wire::LinuxRuntimeConfiguration { cgroup_driver: 2 }) });
    let error = runtime.runtime_config().await.unwrap_err();
    assert_eq!(error.to_string(), "RuntimeConfig: linux.cgroup_driver 2 is not known");
}

#[tokio::test]
async fn numbers_that_are_newer_than_the_agent_are_taken_with_care() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    fake.answer(wire::ListPodSandboxResponse { items: vec![wire::PodSandbox { state: 9, ..Default::default() }] });
    let sandboxes = runtime.list_pod_sandboxes(&Default::default()).await.unwrap();
    assert_eq!(sandboxes[0].state, own::SandboxState::NotReady);
    let states = [
        (0, own::ContainerState::Created),
        (1, own::ContainerState::Running),
        (2, own::ContainerState::Exited),
        (3, own::ContainerState::Unknown),
        (4, own::ContainerState::Unknown),
        (-1, own::ContainerState::Unknown),
    ];
    for (number, state) in states {
        fake.answer(wire::ContainerStatusResponse {
            status: Some(wire::ContainerStatus { state: number, stop_signal: 999, ..container_status() }),
            ..Default::default()
        });
        let status = runtime.container_status(&"c".into()).await.unwrap();
        assert_eq!((status.state, status.stop_signal), (state, None), "{number}");
    }
    for (number, propagation) in [
        (0, own::MountPropagation::Private),
        (1, own::MountPropagation::HostToContainer),
        (2, own::MountPropagation::Bidirectional),
        (3, own::MountPropagation::Private),
    ] {
        let mounts = vec![wire::Mount { propagation: number, ..wire_mount() }];
        let status = Some(wire::ContainerStatus { mounts, ..container_status() });
        fake.answer(wire::ContainerStatusResponse { status, ..Default::default() });
        let status = runtime.container_status(&"c".into()).await.unwrap();
        assert_eq!(status.mounts[0].propagation, propagation, "{number}");
    }
}
