//! Runtimes that misbehave: every fault becomes an error that says what is wrong, where, and in which call (CRI-03,
//! SEC-49).

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use podwright::cri::wire::*;
use podwright::cri::{
    ContainerConfig, CriError, CriResult, ImageService, ImageSpec, PodSandboxConfig, RuntimeService, Streams,
};
use podwright::logic::model::ids::{ContainerId, SandboxId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::codegen::http;
use tonic::{Code, Status};

use crate::fake::{Fake, Host};

/// A server that talks, but not our language.
async fn chatter(listener: tokio::net::UnixListener, words: &'static [u8], keeps_open: bool) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let _ = stream.write_all(words).await;
            let mut unheard = vec![0; 1024];
            while keeps_open && stream.read(&mut unheard).await.is_ok_and(|count| count > 0) {}
        });
    }
}

#[tokio::test]
async fn garbage_is_told_as_a_broken_connection_to_that_endpoint() {
    let table: [(&[u8], bool); 4] = [
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", true),
        (b"no frame at all, and much of it, and more of it still, and on and on", true),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", false),
        (b"", false),
    ];
    for (words, keeps_open) in table {
        let mut host = Host::empty();
        host.run(move |listener| chatter(listener, words, keeps_open));
        let runtime = host.connect_with(Duration::from_secs(20));
        for _ in 0..3 {
            let error = runtime.version().await.unwrap_err();
            assert!(matches!(error, CriError::Unavailable { .. }), "{words:?}: {error:?}");
            let text = error.to_string();
            assert!(text.starts_with(&format!("{}: Version: ", host.endpoint())), "{text}");
        }
    }
}

#[tokio::test]
async fn a_server_that_never_says_anything_costs_no_more_than_the_deadline() {
    let mut host = Host::empty();
    host.run(|listener| chatter(listener, b"", true));
    let runtime = host.connect_with(Duration::from_millis(150));
    for _ in 0..2 {
        let error = runtime.version().await.unwrap_err();
        assert!(matches!(error, CriError::Deadline { call: "Version", .. }), "{error:?}");
    }
    assert!(runtime.check_runtime().await.unwrap_err().to_string().contains(&host.endpoint()));
}

/// Answers every call of the runtime service with another message than the protocol's.
#[derive(Clone)]
struct Garbled;

impl tonic::server::NamedService for Garbled {
    const NAME: &'static str = "runtime.v1.RuntimeService";
}

type HttpFuture = Pin<Box<dyn Future<Output = Result<http::Response<tonic::body::Body>, Infallible>> + Send>>;

impl tower::Service<http::Request<tonic::body::Body>> for Garbled {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = HttpFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> HttpFuture {
        Box::pin(async move {
            let codec = tonic_prost::ProstCodec::<ExecSyncResponse, VersionRequest>::default();
            let service = tower::service_fn(|_: tonic::Request<VersionRequest>| async {
                // The first field is bytes here and a text in the protocol: these bytes are no text.
                let answer = ExecSyncResponse { stdout: vec![0xff, 0xfe], ..Default::default() };
                Ok::<_, Status>(tonic::Response::new(answer))
            });
            Ok(tonic::server::Grpc::new(codec).unary(service, request).await)
        })
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_an_invalid_answer() {
    let mut host = Host::empty();
    host.run(|listener| async move {
        let incoming = tokio_stream::wrappers::UnixListenerStream::new(listener);
        tonic::transport::Server::builder().add_service(Garbled).serve_with_incoming(incoming).await.unwrap();
    });
    let error = host.connect().version().await.unwrap_err();
    assert!(matches!(error, CriError::InvalidAnswer { call: "Version", .. }), "{error:?}");
    assert!(error.to_string().contains(&host.endpoint()), "{error}");
}

/// SEC-46, SEC-49.
#[tokio::test]
async fn sec_49_answers_up_to_16_mib_are_read_and_no_larger_ones() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    let id = ContainerId::from("c");
    let mib = 1024 * 1024;
    fake.answer(ExecSyncResponse { stdout: vec![b'x'; 15 * mib], ..Default::default() });
    assert_eq!(runtime.exec_sync(&id, &[], Duration::ZERO).await.unwrap().stdout.len(), 15 * mib);
    fake.answer(ExecSyncResponse { stdout: vec![b'x'; 17 * mib], ..Default::default() });
    let error = runtime.exec_sync(&id, &[], Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, CriError::InvalidAnswer { call: "ExecSync", .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("too large") && text.contains(&(16 * mib).to_string()), "{text}");
    runtime.start_container(&id).await.unwrap(); // and the connection lives on
}

#[tokio::test]
async fn a_missing_socket_fails_each_call_at_once_and_is_found_when_it_comes() {
    let mut host = Host::empty();
    let runtime = host.connect();
    for _ in 0..5 {
        let error = runtime.start_container(&"c".into()).await.unwrap_err();
        assert!(matches!(&error, CriError::Unavailable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&host.endpoint()) && text.contains("No such file"), "{text}");
    }
    let fake = Fake::new();
    host.serve(&fake);
    let mut outcome = runtime.start_container(&"c".into()).await;
    for _ in 0..600 {
        if outcome.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        outcome = runtime.start_container(&"c".into()).await;
    }
    outcome.unwrap();
}

#[tokio::test]
async fn what_the_runtime_says_reaches_the_user_as_upstream_words_it() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    let id = ContainerId::from("c");
    let table = [
        (Code::Unknown, "Unknown"),
        (Code::Internal, "Internal"),
        (Code::InvalidArgument, "InvalidArgument"),
        (Code::AlreadyExists, "AlreadyExists"),
        (Code::FailedPrecondition, "FailedPrecondition"),
        (Code::ResourceExhausted, "ResourceExhausted"),
        (Code::PermissionDenied, "PermissionDenied"),
        (Code::Cancelled, "Canceled"),
        (Code::Aborted, "Aborted"),
        (Code::OutOfRange, "OutOfRange"),
        (Code::DataLoss, "DataLoss"),
        (Code::Unauthenticated, "Unauthenticated"),
    ];
    for (code, name) in table {
        fake.refuse::<StartContainerResponse>(Status::new(code, "no: \"because\""));
        let message = format!("rpc error: code = {name} desc = no: \"because\"");
        let error = runtime.start_container(&id).await.unwrap_err();
        assert_eq!(error.words(), "no: \"because\"");
        assert_eq!(error, CriError::Other { code: name, message });
    }
    fake.refuse::<StartContainerResponse>(Status::not_found("no such container"));
    let message = "rpc error: code = NotFound desc = no such container".to_owned();
    let error = runtime.start_container(&id).await.unwrap_err();
    assert_eq!(error.words(), "no such container");
    assert_eq!(error, CriError::NotFound { message });
    fake.refuse::<StartContainerResponse>(Status::unavailable("shutting down"));
    let message = "rpc error: code = Unavailable desc = shutting down".to_owned();
    let error = runtime.start_container(&id).await.unwrap_err();
    assert_eq!(error.words(), "shutting down");
    assert_eq!(error, CriError::Unavailable { message });
    fake.refuse::<RuntimeConfigResponse>(Status::unimplemented("unknown method"));
    let message = "rpc error: code = Unimplemented desc = unknown method".to_owned();
    assert_eq!(runtime.runtime_config().await, Err(CriError::Unimplemented { message }));
    fake.refuse::<StartContainerResponse>(Status::deadline_exceeded("too slow"));
    let error = runtime.start_container(&id).await.unwrap_err();
    assert_eq!(error.words(), "context deadline exceeded");
    assert!(matches!(error, CriError::Deadline { call: "StartContainer", .. }));
}

#[tokio::test]
async fn a_long_story_is_told_to_the_end() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let story = "why: \"because\"; ".repeat(10_000);
    fake.refuse::<StartContainerResponse>(Status::internal(&story));
    let error = host.connect().start_container(&"c".into()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("rpc error: code = Internal desc = {story}"));
}

#[tokio::test]
async fn a_pull_that_fails_for_an_unknown_reason_is_told_in_the_runtimes_words_alone() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    let (image, config) = (ImageSpec::default(), PodSandboxConfig::default());
    fake.refuse::<PullImageResponse>(Status::unknown("RegistryUnavailable: down"));
    let error = runtime.pull_image(&image, None, &config).await.unwrap_err();
    assert_eq!(error, CriError::Other { code: "Unknown", message: "RegistryUnavailable: down".into() });
    fake.refuse::<PullImageResponse>(Status::not_found("no such image"));
    let error = runtime.pull_image(&image, None, &config).await.unwrap_err();
    assert_eq!(error.to_string(), "rpc error: code = NotFound desc = no such image");
}

#[tokio::test]
async fn what_is_already_gone_counts_as_stopped_and_removed() {
    let fake = Fake::new();
    let gone = || Status::not_found("gone");
    fake.refuse::<StopPodSandboxResponse>(gone()).refuse::<RemovePodSandboxResponse>(gone());
    fake.refuse::<StopContainerResponse>(gone()).refuse::<RemoveContainerResponse>(gone());
    fake.refuse::<ImageStatusResponse>(gone()).refuse::<ContainerStatusResponse>(gone());
    fake.refuse::<PodSandboxStatusResponse>(gone());
    let host = Host::of(&fake);
    let runtime = host.connect();
    let (id, sandbox) = (ContainerId::from("c"), SandboxId::from("s"));
    runtime.stop_pod_sandbox(&sandbox).await.unwrap();
    runtime.remove_pod_sandbox(&sandbox).await.unwrap();
    runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    runtime.remove_container(&id).await.unwrap();
    assert_eq!(runtime.image_status(&ImageSpec::default()).await, Ok(None));
    assert!(runtime.container_status(&id).await.unwrap_err().is_not_found());
    assert!(runtime.pod_sandbox_status(&sandbox).await.unwrap_err().is_not_found());
}

/// A field, and how to take it away.
type Spoilt<S> = (&'static str, fn(&mut S));

fn assert_lacks<T>(outcome: CriResult<T>, method: &str, field: &str) {
    match outcome {
        Err(CriError::InvalidAnswer { call, problem }) => {
            assert_eq!((call, problem), (method, format!("{field} is not set")));
        }
        Err(other) => panic!("{method} without {field}: {other:?}"),
        Ok(_) => panic!("{method} without {field} passes"),
    }
}

/// CRI-03.
#[tokio::test]
async fn empty_answers_are_refused_where_a_field_is_mandatory() {
    let fake = Fake::new(); // answers everything with nothing
    let host = Host::of(&fake);
    let runtime = host.connect();
    let (id, sandbox) = (ContainerId::from("c"), SandboxId::from("s"));
    let (config, container) = (PodSandboxConfig::default(), ContainerConfig::default());
    assert_lacks(runtime.run_pod_sandbox(&config, "").await, "RunPodSandbox", "pod_sandbox_id");
    assert_lacks(runtime.create_container(&sandbox, &container, &config).await, "CreateContainer", "container_id");
    assert_lacks(runtime.pull_image(&ImageSpec::default(), None, &config).await, "PullImage", "image_ref");
    assert_lacks(runtime.pod_sandbox_status(&sandbox).await, "PodSandboxStatus", "status");
    assert_lacks(runtime.container_status(&id).await, "ContainerStatus", "status");
    assert_lacks(runtime.exec(&id, &[], Streams::default()).await, "Exec", "url");
    assert_lacks(runtime.attach(&id, Streams::default()).await, "Attach", "url");
    assert_lacks(runtime.port_forward(&sandbox, &[]).await, "PortForward", "url");
    assert_lacks(runtime.container_stats(&id).await, "ContainerStats", "stats");
    assert_lacks(runtime.pod_sandbox_stats(&sandbox).await, "PodSandboxStats", "stats");
    let error = runtime.status().await.unwrap_err();
    assert!(matches!(error, CriError::InvalidAnswer { call: "Status", .. }), "{error:?}");
    // Nothing is mandatory here, so nothing is what these say.
    assert_eq!(runtime.runtime_config().await, Ok(None));
    assert_eq!(runtime.image_status(&ImageSpec::default()).await, Ok(None));
    assert_eq!(runtime.list_containers(&Default::default()).await, Ok(vec![]));
    assert_eq!(runtime.list_pod_sandboxes(&Default::default()).await, Ok(vec![]));
}

/// CRI-03.
#[tokio::test]
async fn each_mandatory_field_of_a_status_is_missed() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = host.connect();
    let sandbox = crate::answers::sandbox_status();
    let spoilt: [Spoilt<PodSandboxStatus>; 6] = [
        ("status.id", |status| status.id.clear()),
        ("status.metadata", |status| status.metadata = None),
        ("status.metadata.name", |status| status.metadata.as_mut().unwrap().name.clear()),
        ("status.metadata.namespace", |status| status.metadata.as_mut().unwrap().namespace.clear()),
        ("status.metadata.uid", |status| status.metadata.as_mut().unwrap().uid.clear()),
        ("status.created_at", |status| status.created_at = 0),
    ];
    for (field, spoil) in spoilt {
        let mut status = sandbox.clone();
        spoil(&mut status);
        fake.answer(PodSandboxStatusResponse { status: Some(status), ..Default::default() });
        assert_lacks(runtime.pod_sandbox_status(&"s".into()).await, "PodSandboxStatus", field);
    }
    let container = crate::answers::container_status();
    let spoilt: [Spoilt<ContainerStatus>; 7] = [
        ("status.id", |status| status.id.clear()),
        ("status.metadata", |status| status.metadata = None),
        ("status.metadata.name", |status| status.metadata.as_mut().unwrap().name.clear()),
        ("status.created_at", |status| status.created_at = 0),
        ("status.image.image", |status| status.image = None),
        ("status.image.image", |status| status.image.as_mut().unwrap().image.clear()),
        ("status.image_ref", |status| status.image_ref.clear()),
    ];
    for (field, spoil) in spoilt {
        let mut status = container.clone();
        spoil(&mut status);
        fake.answer(ContainerStatusResponse { status: Some(status), ..Default::default() });
        assert_lacks(runtime.container_status(&"c".into()).await, "ContainerStatus", field);
    }
    for (field, image) in [
        ("image.id", Image { size: 1, ..Default::default() }),
        ("image.size", Image { id: "i".into(), ..Default::default() }),
    ] {
        fake.answer(ImageStatusResponse { image: Some(image), ..Default::default() });
        assert_lacks(runtime.image_status(&ImageSpec::default()).await, "ImageStatus", field);
    }
}

#[test]
fn secrets_are_not_in_what_is_printed_of_a_message() {
    let auth = AuthConfig {
        username: "hush".into(),
        password: "hush".into(),
        auth: "hush".into(),
        server_address: "registry".into(),
        identity_token: "hush".into(),
        registry_token: "hush".into(),
    };
    let variable = KeyValue { key: "NAME".into(), value: b"hush".to_vec() };
    let request = PullImageRequest { auth: Some(auth), ..Default::default() };
    let config = podwright::cri::wire::ContainerConfig { envs: vec![variable], ..Default::default() };
    let printed = format!("{request:?} {config:?}");
    assert!(printed.contains("registry") && printed.contains("NAME"), "{printed}");
    assert!(!printed.contains("hush") && !printed.contains(&format!("{:?}", b"hush")), "{printed}");
}
