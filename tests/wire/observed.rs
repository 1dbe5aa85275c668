//! Every call is counted under upstream's name, and takes along what the observer gives it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use podwright::cri::grpc::GrpcRuntime;
use podwright::cri::instrumented::CallObserver;
use podwright::cri::{
    ContainerConfig, ImageService, ImageSpec, Labels, LinuxContainerResources, PodSandboxConfig, RuntimeService,
    Streams, wire,
};
use podwright::logic::model::ids::{ContainerId, SandboxId};
use tonic::Status;

use crate::fake::{Fake, Host, Seen};

const LIMIT: Duration = Duration::from_secs(60);
/// The names by which upstream counts calls (`operation_type`), in the order of the test's calls.
const OPERATIONS: &[&str] = &[
    "version",
    "status",
    "runtime_config",
    "update_runtime_config",
    "run_podsandbox",
    "stop_podsandbox",
    "remove_podsandbox",
    "podsandbox_status",
    "list_podsandbox",
    "update_podsandbox_resources",
    "create_container",
    "start_container",
    "stop_container",
    "remove_container",
    "list_containers",
    "container_status",
    "update_container",
    "reopen_container_log",
    "checkpoint_container",
    "exec_sync",
    "exec",
    "attach",
    "port_forward",
    "container_stats",
    "list_container_stats",
    "podsandbox_stats",
    "list_podsandbox_stats",
    "list_metric_descriptors",
    "list_podsandbox_metrics",
    "get_container_events",
    "list_images",
    "image_status",
    "pull_image",
    "remove_image",
    "image_fs_info",
];

#[tokio::test]
async fn each_call_is_counted_once_under_its_own_name() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let seen = Arc::new(Seen::default());
    let runtime = GrpcRuntime::connect(&host.endpoint(), "", LIMIT, seen.clone()).unwrap();
    let (id, sandbox, none) = (ContainerId::from("c"), SandboxId::from("s"), Duration::ZERO);
    let (config, container, image) = (PodSandboxConfig::default(), ContainerConfig::default(), ImageSpec::default());
    let (resources, streams) = (LinuxContainerResources::default(), Streams::default());
    // The empty answers make some of them fail.
    let _ = runtime.version().await;
    let _ = runtime.status().await;
    let _ = runtime.runtime_config().await;
    let _ = runtime.update_runtime_config("").await;
    let _ = runtime.run_pod_sandbox(&config, "").await;
    let _ = runtime.stop_pod_sandbox(&sandbox).await;
    let _ = runtime.remove_pod_sandbox(&sandbox).await;
    let _ = runtime.pod_sandbox_status(&sandbox).await;
    let _ = runtime.list_pod_sandboxes(&Default::default()).await;
    let _ = runtime.update_pod_sandbox_resources(&sandbox, &resources, &resources).await;
    let _ = runtime.create_container(&sandbox, &container, &config).await;
    let _ = runtime.start_container(&id).await;
    let _ = runtime.stop_container(&id, none).await;
    let _ = runtime.remove_container(&id).await;
    let _ = runtime.list_containers(&Default::default()).await;
    let _ = runtime.container_status(&id).await;
    let _ = runtime.update_container_resources(&id, &resources, &Labels::new()).await;
    let _ = runtime.reopen_container_log(&id).await;
    let _ = runtime.checkpoint_container(&id, "", none).await;
    let _ = runtime.exec_sync(&id, &[], none).await;
    let _ = runtime.exec(&id, &[], streams).await;
    let _ = runtime.attach(&id, streams).await;
    let _ = runtime.port_forward(&sandbox, &[]).await;
    let _ = runtime.container_stats(&id).await;
    let _ = runtime.list_container_stats(&Default::default()).await;
    let _ = runtime.pod_sandbox_stats(&sandbox).await;
    let _ = runtime.list_pod_sandbox_stats(&Default::default()).await;
    let _ = runtime.list_metric_descriptors().await;
    let _ = runtime.list_pod_sandbox_metrics().await;
    let _ = runtime.container_events().await;
    let _ = runtime.list_images(None).await;
    let _ = runtime.image_status(&image).await;
    let _ = runtime.pull_image(&image, None, &config).await;
    let _ = runtime.remove_image(&image).await;
    let _ = runtime.image_fs_info().await;
    let told = seen.0.lock().unwrap().clone();
    let names: Vec<_> = told.iter().map(|(operation, _)| *operation).collect();
    assert_eq!(names, OPERATIONS);
    let failed: Vec<_> = told.iter().filter(|(_, failed)| *failed).map(|(operation, _)| *operation).collect();
    let invalid = [
        "version",
        "status",
        "run_podsandbox",
        "podsandbox_status",
        "create_container",
        "container_status",
        "exec",
        "attach",
        "port_forward",
        "container_stats",
        "podsandbox_stats",
        "pull_image",
    ];
    assert_eq!(failed, invalid, "an invalid answer is a failure");
}

#[tokio::test]
async fn absence_that_the_agent_takes_for_success_still_counts_as_the_runtimes_error() {
    let fake = Fake::new();
    fake.refuse::<wire::StopContainerResponse>(Status::not_found("gone"));
    let host = Host::of(&fake);
    let seen = Arc::new(Seen::default());
    let runtime = GrpcRuntime::connect(&host.endpoint(), "", LIMIT, seen.clone()).unwrap();
    runtime.stop_container(&"c".into(), Duration::ZERO).await.unwrap();
    assert_eq!(*seen.0.lock().unwrap(), [("stop_container", true)]);
}

#[tokio::test]
async fn a_command_that_fails_counts_as_a_failed_call_as_upstream() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let seen = Arc::new(Seen::default());
    let runtime = GrpcRuntime::connect(&host.endpoint(), "", LIMIT, seen.clone()).unwrap();
    for exit_code in [0, 1] {
        fake.answer(wire::ExecSyncResponse { stderr: b"why".to_vec(), exit_code, ..Default::default() });
        let outcome = runtime.exec_sync(&"c".into(), &[], Duration::ZERO).await.unwrap();
        assert_eq!((outcome.exit_code, outcome.stderr), (exit_code, b"why".to_vec()));
    }
    assert_eq!(*seen.0.lock().unwrap(), [("exec_sync", false), ("exec_sync", true)]);
}

/// Gives the answers that it was made with.
struct Parent(Mutex<Vec<(&'static str, String)>>);

impl CallObserver for Parent {
    fn called(&self, _: &'static str, _: Duration, _: bool) {}

    fn context(&self) -> Vec<(&'static str, String)> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn the_callers_trace_context_travels_with_the_call() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let pairs = vec![("traceparent", parent.to_owned()), ("not a name", "x".into()), ("broken", "line\nfeed".into())];
    let observer = Arc::new(Parent(Mutex::new(pairs)));
    let runtime = GrpcRuntime::connect(&host.endpoint(), "", LIMIT, observer).unwrap();
    runtime.start_container(&"c".into()).await.unwrap();
    assert_eq!(fake.last_header::<wire::StartContainerRequest>("traceparent").as_deref(), Some(parent));
    assert_eq!(fake.last_header::<wire::StartContainerRequest>("broken"), None);
}
