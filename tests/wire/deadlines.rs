//! How long each call may take (CRI-02): which times the runtime gets, and what happens when it does not answer.

use std::any::Any;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use podwright::cri::wire::*;
use podwright::cri::{
    ContainerConfig, ContainerFilter, CriError, CriResult, ImageService, ImageSpec, Labels, LinuxContainerResources,
    PodSandboxConfig, PodSandboxFilter, REOPEN_LIMIT, RuntimeService, StatsFilter, Streams,
};
use podwright::logic::model::ids::{ContainerId, SandboxId};
use tonic::Status;

use crate::fake::{Fake, Host, until};

const T: Duration = Duration::from_secs(120);

macro_rules! told {
    ($fake:ident, $request:ty, $call:expr, $limit:expr) => {
        let _ = $call.await; // an empty answer may well be an invalid one: the request is what counts here
        assert_eq!($fake.last_timeout::<$request>(), $limit, stringify!($request));
    };
}

/// CRI-02.
#[tokio::test]
async fn the_runtime_is_told_each_calls_deadline() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect_with(T);
    let (id, sandbox) = (ContainerId::from("c"), SandboxId::from("s"));
    let (config, container) = (PodSandboxConfig::default(), ContainerConfig::default());
    let (image, grace) = (ImageSpec::default(), Duration::from_secs(30));
    let second = Duration::from_secs(1);

    told!(fake, RunPodSandboxRequest, runtime.run_pod_sandbox(&config, ""), Some(2 * T));
    told!(fake, StopContainerRequest, runtime.stop_container(&id, grace), Some(T + grace));
    told!(fake, ExecSyncRequest, runtime.exec_sync(&id, &[], grace), Some(T + grace));
    told!(fake, ExecSyncRequest, runtime.exec_sync(&id, &[], Duration::ZERO), None);
    told!(fake, PullImageRequest, runtime.pull_image(&image, None, &config), None);
    told!(fake, CheckpointContainerRequest, runtime.checkpoint_container(&id, "/x", second), Some(T));
    told!(fake, CheckpointContainerRequest, runtime.checkpoint_container(&id, "/x", T + second), Some(T + second));

    told!(fake, VersionRequest, runtime.version(), Some(T));
    told!(fake, StatusRequest, runtime.status(), Some(T));
    told!(fake, RuntimeConfigRequest, runtime.runtime_config(), Some(T));
    told!(fake, UpdateRuntimeConfigRequest, runtime.update_runtime_config("10.0.0.0/24"), Some(T));
    told!(fake, StopPodSandboxRequest, runtime.stop_pod_sandbox(&sandbox), Some(T));
    told!(fake, RemovePodSandboxRequest, runtime.remove_pod_sandbox(&sandbox), Some(T));
    told!(fake, PodSandboxStatusRequest, runtime.pod_sandbox_status(&sandbox), Some(T));
    told!(fake, ListPodSandboxRequest, runtime.list_pod_sandboxes(&PodSandboxFilter::default()), Some(T));
    told!(fake, CreateContainerRequest, runtime.create_container(&sandbox, &container, &config), Some(T));
    told!(fake, StartContainerRequest, runtime.start_container(&id), Some(T));
    told!(fake, RemoveContainerRequest, runtime.remove_container(&id), Some(T));
    told!(fake, ListContainersRequest, runtime.list_containers(&ContainerFilter::default()), Some(T));
    told!(fake, ContainerStatusRequest, runtime.container_status(&id), Some(T));
    told!(fake, ReopenContainerLogRequest, runtime.reopen_container_log(&id), Some(REOPEN_LIMIT));
    told!(fake, ExecRequest, runtime.exec(&id, &[], Streams::default()), Some(T));
    told!(fake, AttachRequest, runtime.attach(&id, Streams::default()), Some(T));
    told!(fake, PortForwardRequest, runtime.port_forward(&sandbox, &[]), Some(T));
    told!(fake, ContainerStatsRequest, runtime.container_stats(&id), Some(T));
    told!(fake, ListContainerStatsRequest, runtime.list_container_stats(&StatsFilter::default()), Some(T));
    told!(fake, PodSandboxStatsRequest, runtime.pod_sandbox_stats(&sandbox), Some(T));
    told!(fake, ListPodSandboxStatsRequest, runtime.list_pod_sandbox_stats(&StatsFilter::default()), Some(T));
    told!(fake, ListMetricDescriptorsRequest, runtime.list_metric_descriptors(), Some(T));
    told!(fake, ListPodSandboxMetricsRequest, runtime.list_pod_sandbox_metrics(), Some(T));
    let (resources, annotations) = (LinuxContainerResources::default(), Labels::new());
    let call = runtime.update_container_resources(&id, &resources, &annotations);
    told!(fake, UpdateContainerResourcesRequest, call, Some(T));
    let call = runtime.update_pod_sandbox_resources(&sandbox, &resources, &resources);
    told!(fake, UpdatePodSandboxResourcesRequest, call, Some(T));
    told!(fake, ListImagesRequest, runtime.list_images(None), Some(T));
    told!(fake, ImageStatusRequest, runtime.image_status(&image), Some(T));
    told!(fake, RemoveImageRequest, runtime.remove_image(&image), Some(T));
    told!(fake, ImageFsInfoRequest, runtime.image_fs_info(), Some(T));
}

#[tokio::test]
async fn a_limit_beyond_all_reason_is_still_a_limit() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect_with(Duration::MAX);
    runtime.stop_container(&"c".into(), Duration::MAX).await.unwrap();
    assert!(fake.last_timeout::<StopContainerRequest>() >= Some(Duration::from_secs(300 * 24 * 3600)));
    assert_eq!(fake.asked::<StopContainerRequest>()[0].timeout, i64::MAX);
}

/// How a call that is never answered ends, and after how long. On a busy machine its time may be over before the runtime was
/// asked. Or the runtime, which counts it too, may be the first to end it: then it is made again.
async fn ended<Q: Any + Clone, T: Debug>(fake: &Fake, call: impl AsyncFn() -> CriResult<T>) -> (Duration, CriError) {
    let mut tries = 0;
    loop {
        let (before, begun) = (fake.asked::<Q>().len(), Instant::now());
        let error = call().await.expect_err("it hangs");
        tries += 1;
        let by_the_runtime = matches!(error, CriError::Other { code: "Canceled", .. });
        if tries == 50 || fake.asked::<Q>().len() > before && !by_the_runtime {
            return (begun.elapsed(), error);
        }
    }
}

#[tokio::test]
async fn a_call_that_hangs_ends_with_its_deadline_and_is_abandoned() {
    let fake = Fake::new();
    fake.hang::<StatusResponse>().hang::<StopContainerResponse>();
    let host = Host::of(&fake);
    let limit = Duration::from_millis(200);
    let runtime = host.connect_with(limit);
    let (took, error) = ended::<StatusRequest, _>(&fake, async || runtime.status().await).await;
    assert_eq!(error, CriError::Deadline { call: "Status", limit });
    assert!(took >= limit);
    let grace = Duration::from_millis(300);
    let call = async || runtime.stop_container(&"c".into(), grace).await;
    let (took, error) = ended::<StopContainerRequest, _>(&fake, call).await;
    assert_eq!(error, CriError::Deadline { call: "StopContainer", limit: limit + grace });
    assert!(took >= limit + grace);
    assert_eq!(error.to_string(), "StopContainer: no answer within 0.5s");
    until("the runtime hears that nobody waits", || {
        fake.abandoned() == fake.asked::<StatusRequest>().len() + fake.asked::<StopContainerRequest>().len()
    })
    .await;
    let mut after = runtime.start_container(&"c".into()).await;
    for _ in 0..50 {
        if after.is_err() {
            after = runtime.start_container(&"c".into()).await; // a busy machine may need more than one deadline
        }
    }
    after.unwrap();
    assert_eq!(fake.connections(), 1, "the connection lives on");
}

#[tokio::test]
async fn a_pull_has_no_deadline_and_is_cancelled_by_dropping_it() {
    let fake = Fake::new();
    fake.hang::<PullImageResponse>();
    let host = Host::of(&fake);
    let runtime = host.connect_with(Duration::from_millis(20));
    let (image, config) = (ImageSpec::default(), PodSandboxConfig::default());
    let mut pull = Box::pin(runtime.pull_image(&image, None, &config));
    tokio::time::timeout(Duration::from_millis(300), &mut pull).await.expect_err("still pulling");
    tokio::select! {
        outcome = &mut pull => panic!("still pulling: {outcome:?}"),
        () = until("the runtime is asked", || !fake.asked::<PullImageRequest>().is_empty()) => {}
    }
    drop(pull);
    until("the runtime hears of the cancellation", || fake.abandoned() == 1).await;
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_told_by_its_own_time() {
    let fake = Fake::new();
    fake.refuse::<ExecSyncResponse>(Status::deadline_exceeded("timeout 1s exceeded"));
    let host = Host::of(&fake);
    let timeout = Duration::from_millis(1500);
    let outcome = host.connect().exec_sync(&"c".into(), &["sleep".into()], timeout).await;
    assert_eq!(outcome, Err(CriError::Deadline { call: "ExecSync", limit: timeout }));
    assert_eq!(fake.asked::<ExecSyncRequest>()[0].timeout, 2, "part of a second counts as one");
}
