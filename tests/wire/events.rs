//! The runtime's event stream: arrives, ends with the runtime, can be opened again.

use std::time::Duration;

use futures_util::StreamExt;
use podwright::cri::grpc::GrpcRuntime;
use podwright::cri::wire::{
    ContainerEventResponse, ContainerEventType, PodSandboxMetadata, PodSandboxStatus, RunPodSandboxResponse,
};
use podwright::cri::{
    ContainerEvent, ContainerEventKind, ContainerEvents, CriError, CriResult, PodSandboxConfig, RuntimeService,
};
use podwright::logic::model::time::Moment;

use crate::fake::{Fake, Host, until};

fn event(number: i64) -> ContainerEventResponse {
    ContainerEventResponse {
        container_id: format!("container-{number}"),
        container_event_type: ContainerEventType::ContainerStoppedEvent.into(),
        created_at: number,
        pod_sandbox_status: Some(PodSandboxStatus {
            metadata: Some(PodSandboxMetadata { uid: "uid-1".into(), ..Default::default() }),
            ..Default::default()
        }),
        containers_statuses: vec![],
    }
}

fn stopped(number: i64) -> ContainerEvent {
    ContainerEvent {
        container_id: format!("container-{number}").into(),
        kind: ContainerEventKind::Stopped,
        created_at: Moment(number),
        pod_uid: Some("uid-1".into()),
    }
}

async fn next(events: &mut ContainerEvents) -> Option<podwright::cri::CriResult<ContainerEvent>> {
    tokio::time::timeout(Duration::from_secs(60), events.next()).await.expect("something comes")
}

/// Opens the stream; it is there once the runtime has it. A refusal may come with the first event that is waited for.
async fn open(runtime: &GrpcRuntime, fake: &Fake) -> CriResult<ContainerEvents> {
    let mut events = runtime.container_events().await?;
    tokio::select! {
        told = next(&mut events) => Err(told.expect("a reason").expect_err("nothing has happened yet")),
        () = until("the stream is open", || fake.listeners() == 1) => Ok(events),
    }
}

/// Why there is no stream.
async fn refusal(runtime: &GrpcRuntime) -> CriError {
    match runtime.container_events().await {
        Err(error) => error,
        Ok(mut events) => next(&mut events).await.expect("a reason").expect_err("nothing can have happened"),
    }
}

#[tokio::test]
async fn events_arrive_in_order_whenever_the_runtime_accepts_the_stream() {
    for late in [false, true] {
        let fake = Fake::with_late_events(late);
        let host = Host::of(&fake);
        let runtime = host.connect_with(Duration::from_millis(50));
        let mut events = open(&runtime, &fake).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await; // longer than any other call may take
        for number in 1..=5 {
            fake.emit(event(number));
        }
        for number in 1..=5 {
            assert_eq!(next(&mut events).await, Some(Ok(stopped(number))), "late: {late}");
        }
        drop(events);
        until("the runtime hears that nobody listens", || fake.listeners() == 0).await;
    }
}

#[tokio::test]
async fn every_kind_is_known_and_a_new_one_is_a_reason_to_look() {
    use ContainerEventKind::{Created, Deleted, Started, Stopped};
    let fake = Fake::new();
    let host = Host::of(&fake);
    let mut events = open(&host.connect(), &fake).await.unwrap();
    for (number, kind) in [(0, Created), (1, Started), (2, Stopped), (3, Deleted), (77, Created)] {
        fake.emit(ContainerEventResponse { container_event_type: number, pod_sandbox_status: None, ..event(1) });
        let seen = next(&mut events).await.unwrap().unwrap();
        assert_eq!((seen.kind, seen.pod_uid), (kind, None), "{number}");
    }
}

/// CRI-29.
#[tokio::test]
async fn a_stream_ends_with_its_runtime_and_opens_again_with_the_next() {
    for late in [false, true] {
        let fake = Fake::with_late_events(late);
        let mut host = Host::of(&fake);
        let runtime = host.connect();
        let mut events = open(&runtime, &fake).await.unwrap();

        host.die();
        let error = next(&mut events).await.expect("a reason").unwrap_err();
        assert!(error.is_transient(), "{error:?}");
        assert!(error.to_string().contains(&host.endpoint()), "{error}");
        assert_eq!(next(&mut events).await, None, "the reason is the last that is told");
        assert!(refusal(&runtime).await.is_transient(), "nobody is there");

        let reborn = Fake::with_late_events(late);
        reborn.answer(RunPodSandboxResponse { pod_sandbox_id: "s".into() });
        host.serve(&reborn);
        let mut events = loop {
            match open(&runtime, &reborn).await {
                Ok(events) => break events,
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        reborn.emit(event(6));
        assert_eq!(next(&mut events).await, Some(Ok(stopped(6))));
        let id = runtime.run_pod_sandbox(&PodSandboxConfig::default(), "").await.unwrap();
        assert_eq!(id.as_str(), "s", "all calls find the new runtime");
    }
}

#[tokio::test]
async fn a_runtime_without_events_says_so_at_once() {
    use podwright::cri::wire::image_service_server::ImageServiceServer;
    let mut host = Host::empty();
    host.run(|listener| async move {
        let incoming = tokio_stream::wrappers::UnixListenerStream::new(listener);
        let images = ImageServiceServer::new(Fake::new());
        tonic::transport::Server::builder().add_service(images).serve_with_incoming(incoming).await.unwrap();
    });
    let error = refusal(&host.connect()).await;
    assert!(matches!(error, CriError::Unimplemented { .. }), "{error:?}");
}
