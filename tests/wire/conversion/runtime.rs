//! A runtime behind the socket that runs whatever it is asked to, and remembers how it was asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use podwright::cri::wire;

use crate::fake::Fake;

/// An image that every node has, by its name's end: the UID or name of its user.
const USERS: [(&str, Option<i64>, &str); 3] =
    [("/root:1", None, ""), ("/uid:1", Some(1000), ""), ("/named:1", None, "app")];

/// The objects that run.
#[derive(Default)]
struct Runs {
    sandboxes: Vec<wire::RunPodSandboxRequest>,
    containers: Vec<wire::CreateContainerRequest>,
}

/// Has `fake` run sandboxes and containers. Init containers end well at once, the others run for ever.
pub fn play(fake: &Fake) {
    let runs = Arc::new(Mutex::new(Runs::default()));
    let condition = |kind: &str| wire::RuntimeCondition { r#type: kind.into(), status: true, ..Default::default() };
    fake.answer(wire::StatusResponse {
        status: Some(wire::RuntimeStatus { conditions: ["RuntimeReady", "NetworkReady"].map(condition).to_vec() }),
        runtime_handlers: vec![wire::RuntimeHandler {
            name: String::new(),
            features: Some(wire::RuntimeHandlerFeatures { recursive_read_only_mounts: true, user_namespaces: true }),
        }],
        features: Some(wire::RuntimeFeatures { supplemental_groups_policy: true, ..Default::default() }),
        ..Default::default()
    });
    fake.answer(wire::VersionResponse {
        version: "0.1.0".into(),
        runtime_name: "containerd".into(),
        runtime_version: "2.0".into(),
        runtime_api_version: "v1".into(),
    });
    fake.compute(|request: &wire::ImageStatusRequest| {
        let name = request.image.clone().unwrap_or_default().image;
        let (_, uid, username) = USERS.into_iter().find(|(end, ..)| name.ends_with(end)).unwrap_or(USERS[0]);
        wire::ImageStatusResponse {
            image: Some(wire::Image {
                id: format!("sha256:{name}"),
                size: 1,
                uid: uid.map(|value| wire::Int64Value { value }),
                username: username.into(),
                ..Default::default()
            }),
            ..Default::default()
        }
    });
    fake.answer(wire::PullImageResponse { image_ref: "pulled".into() });
    let of = Arc::clone(&runs);
    fake.compute(move |request: &wire::RunPodSandboxRequest| {
        let mut runs = of.lock().unwrap();
        runs.sandboxes.push(request.clone());
        wire::RunPodSandboxResponse { pod_sandbox_id: format!("sandbox-{}", runs.sandboxes.len() - 1) }
    });
    let of = Arc::clone(&runs);
    fake.compute(move |request: &wire::CreateContainerRequest| {
        let mut runs = of.lock().unwrap();
        runs.containers.push(request.clone());
        wire::CreateContainerResponse { container_id: format!("container-{}", runs.containers.len() - 1) }
    });
    look_at_sandboxes(fake, &runs);
    look_at_containers(fake, runs);
}

fn look_at_sandboxes(fake: &Fake, runs: &Arc<Mutex<Runs>>) {
    let of = Arc::clone(runs);
    fake.compute(move |request: &wire::ListPodSandboxRequest| {
        let filter = request.filter.clone().unwrap_or_default();
        let all = of.lock().unwrap();
        let items = all.sandboxes.iter().enumerate().map(|(at, request)| {
            let config = request.config.clone().unwrap_or_default();
            wire::PodSandbox {
                id: format!("sandbox-{at}"),
                metadata: config.metadata,
                state: wire::PodSandboxState::SandboxReady.into(),
                created_at: 1,
                labels: config.labels,
                annotations: config.annotations,
                runtime_handler: request.runtime_handler.clone(),
            }
        });
        let items = items.filter(|item| matches(&filter.id, &filter.label_selector, &item.id, &item.labels));
        wire::ListPodSandboxResponse { items: items.collect() }
    });
    let of = Arc::clone(runs);
    fake.compute(move |request: &wire::PodSandboxStatusRequest| {
        let all = of.lock().unwrap();
        let asked = &all.sandboxes[number(&request.pod_sandbox_id)];
        let config = asked.config.clone().unwrap_or_default();
        let context = config.linux.unwrap_or_default().security_context.unwrap_or_default();
        let options = context.namespace_options.clone().unwrap_or_default();
        let on_host = options.network() == wire::NamespaceMode::Node;
        let network = wire::PodSandboxNetworkStatus { ip: "10.1.0.7".into(), ..Default::default() };
        wire::PodSandboxStatusResponse {
            status: Some(wire::PodSandboxStatus {
                id: request.pod_sandbox_id.clone(),
                metadata: config.metadata,
                state: wire::PodSandboxState::SandboxReady.into(),
                created_at: 1,
                network: (!on_host).then_some(network),
                linux: Some(wire::LinuxPodSandboxStatus {
                    namespaces: Some(wire::Namespace { options: Some(options) }),
                }),
                labels: config.labels,
                annotations: config.annotations,
                runtime_handler: asked.runtime_handler.clone(),
            }),
            ..Default::default()
        }
    });
}

fn look_at_containers(fake: &Fake, runs: Arc<Mutex<Runs>>) {
    let of = Arc::clone(&runs);
    fake.compute(move |request: &wire::ListContainersRequest| {
        let filter = request.filter.clone().unwrap_or_default();
        let all = of.lock().unwrap();
        let containers = all.containers.iter().enumerate().map(|(at, request)| {
            let config = request.config.clone().unwrap_or_default();
            wire::Container {
                id: format!("container-{at}"),
                pod_sandbox_id: request.pod_sandbox_id.clone(),
                state: state(&config.metadata).into(),
                metadata: config.metadata,
                image: config.image,
                image_ref: "ref".into(),
                created_at: 1,
                labels: config.labels,
                annotations: config.annotations,
                image_id: "id".into(),
            }
        });
        let containers = containers.filter(|one| matches(&filter.id, &filter.label_selector, &one.id, &one.labels));
        wire::ListContainersResponse { containers: containers.collect() }
    });
    fake.compute(move |request: &wire::ContainerStatusRequest| {
        let all = runs.lock().unwrap();
        let config = all.containers[number(&request.container_id)].config.clone().unwrap_or_default();
        let state = state(&config.metadata);
        wire::ContainerStatusResponse {
            status: Some(wire::ContainerStatus {
                id: request.container_id.clone(),
                metadata: config.metadata,
                state: state.into(),
                created_at: 1,
                started_at: 2,
                finished_at: if state == wire::ContainerState::ContainerExited { 3 } else { 0 },
                image: config.image,
                image_ref: "ref".into(),
                labels: config.labels,
                annotations: config.annotations,
                ..Default::default()
            }),
            ..Default::default()
        }
    });
}

fn state(metadata: &Option<wire::ContainerMetadata>) -> wire::ContainerState {
    let is_init = metadata.as_ref().is_some_and(|metadata| metadata.name.starts_with("init"));
    if is_init { wire::ContainerState::ContainerExited } else { wire::ContainerState::ContainerRunning }
}

fn number(id: &str) -> usize {
    id.rsplit('-').next().unwrap().parse().unwrap()
}

fn matches(wanted: &str, selector: &BTreeMap<String, String>, id: &str, labels: &BTreeMap<String, String>) -> bool {
    (wanted.is_empty() || wanted == id) && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}
