//! Lists in parts (CRI-38): they arrive whole, or the call fails; a runtime without such calls is asked for whole lists.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use podwright::cri::grpc::GrpcRuntime;
use podwright::cri::wire::*;
use podwright::cri::{
    ContainerFilter, CriError, ImageService, ImageSpec, PodSandboxFilter, RuntimeService, StatsFilter,
};
use prost::Message;
use tokio::net::UnixListener;
use tonic::Status;
use tonic::codegen::http;

use crate::answers::map;
use crate::fake::{Fake, Host, Parts, Seen, until};

const T: Duration = Duration::from_secs(60);
const MIB: usize = 1024 * 1024;

fn connect(host: &Host, limit: Duration, seen: &Arc<Seen>) -> GrpcRuntime {
    GrpcRuntime::connect(&host.endpoint(), "", limit, seen.clone()).unwrap().with_lists_in_parts(true)
}

fn containers(ids: &[&str]) -> Vec<Container> {
    ids.iter().map(|id| Container { id: (*id).into(), ..Default::default() }).collect()
}

fn part(ids: &[&str]) -> StreamContainersResponse {
    StreamContainersResponse { containers: containers(ids) }
}

/// A part with one container, which is a little larger than this.
fn large_part(bytes: usize) -> StreamContainersResponse {
    let container = Container { id: "large".into(), image_ref: "x".repeat(bytes), ..Default::default() };
    StreamContainersResponse { containers: vec![container] }
}

async fn ids(runtime: &GrpcRuntime) -> Result<Vec<String>, CriError> {
    let list = runtime.list_containers(&ContainerFilter::default()).await?;
    Ok(list.into_iter().map(|container| container.id.to_string()).collect())
}

/// CRI-38.
#[tokio::test]
async fn every_list_arrives_in_parts_and_in_order() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let seen = Arc::new(Seen::default());
    let runtime = connect(&host, T, &seen);

    let sandbox = |id: &str| PodSandbox { id: id.into(), ..Default::default() };
    let sandboxes =
        |ids: &[&str]| StreamPodSandboxesResponse { pod_sandboxes: ids.iter().map(|id| sandbox(id)).collect() };
    fake.answer(Parts::of([sandboxes(&["1", "2"]), sandboxes(&[]), sandboxes(&["3"])]));
    let filter = PodSandboxFilter { id: Some("s".into()), ..Default::default() };
    let list = runtime.list_pod_sandboxes(&filter).await.unwrap();
    assert_eq!(list.iter().map(|sandbox| sandbox.id.to_string()).collect::<Vec<_>>(), ["1", "2", "3"]);
    let asked = fake.asked::<StreamPodSandboxesRequest>();
    assert_eq!(asked.iter().map(|asked| asked.filter.as_ref().unwrap().id.as_str()).collect::<Vec<_>>(), ["s"]);

    fake.answer(Parts::of([part(&["1"]), part(&["2", "3"])]));
    let filter = ContainerFilter { id: Some("c".into()), label_selector: map("selector"), ..Default::default() };
    let list = runtime.list_containers(&filter).await.unwrap();
    assert_eq!(list.iter().map(|container| container.id.to_string()).collect::<Vec<_>>(), ["1", "2", "3"]);
    let asked = fake.asked::<StreamContainersRequest>();
    let told =
        podwright::cri::wire::ContainerFilter { id: "c".into(), label_selector: map("selector"), ..Default::default() };
    assert_eq!(asked.into_iter().map(|asked| asked.filter).collect::<Vec<_>>(), [Some(told)]);

    let attributes = |id: &str| Some(ContainerAttributes { id: id.into(), ..Default::default() });
    let stats = |id: &str| ContainerStats { attributes: attributes(id), ..Default::default() };
    let stats = |id: &str| StreamContainerStatsResponse { container_stats: vec![stats(id)] };
    fake.answer(Parts::of([stats("1"), stats("2")]));
    let filter = StatsFilter { id: Some("c".into()), ..Default::default() };
    let list = runtime.list_container_stats(&filter).await.unwrap();
    assert_eq!(list.iter().map(|stats| stats.id.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(fake.asked::<StreamContainerStatsRequest>()[0].filter.as_ref().unwrap().id, "c");

    let attributes = |id: &str| Some(PodSandboxAttributes { id: id.into(), ..Default::default() });
    let stats = |id: &str| PodSandboxStats { attributes: attributes(id), ..Default::default() };
    let stats = |id: &str| StreamPodSandboxStatsResponse { pod_sandbox_stats: vec![stats(id)] };
    fake.answer(Parts::of([stats("1"), stats("2")]));
    let filter = StatsFilter { id: Some("s".into()), ..Default::default() };
    let list = runtime.list_pod_sandbox_stats(&filter).await.unwrap();
    assert_eq!(list.iter().map(|stats| stats.id.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(fake.asked::<StreamPodSandboxStatsRequest>()[0].filter.as_ref().unwrap().id, "s");

    let metrics = |id: &str| PodSandboxMetrics { pod_sandbox_id: id.into(), ..Default::default() };
    let metrics = |id: &str| StreamPodSandboxMetricsResponse { pod_sandbox_metrics: vec![metrics(id)] };
    fake.answer(Parts::of([metrics("1"), metrics("2")]));
    let list = runtime.list_pod_sandbox_metrics().await.unwrap();
    assert_eq!(list.iter().map(|metrics| metrics.sandbox_id.as_str()).collect::<Vec<_>>(), ["1", "2"]);

    let images = |id: &str| StreamImagesResponse { images: vec![Image { id: id.into(), ..Default::default() }] };
    fake.answer(Parts::of([images("1"), images("2")]));
    let list = runtime.list_images(Some(&ImageSpec { image: "i".into(), ..Default::default() })).await.unwrap();
    assert_eq!(list.iter().map(|image| image.id.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    let asked = fake.asked::<StreamImagesRequest>();
    assert_eq!(asked[0].filter.as_ref().unwrap().image.as_ref().unwrap().image, "i");

    assert!(fake.asked::<ListPodSandboxRequest>().is_empty() && fake.asked::<ListContainersRequest>().is_empty());
    assert!(
        fake.asked::<ListContainerStatsRequest>().is_empty() && fake.asked::<ListPodSandboxStatsRequest>().is_empty()
    );
    assert!(fake.asked::<ListPodSandboxMetricsRequest>().is_empty() && fake.asked::<ListImagesRequest>().is_empty());
    assert_eq!(fake.last_timeout::<StreamContainersRequest>(), Some(T), "the deadline is that of the whole list");
    let told = [
        "list_podsandbox",
        "list_containers",
        "list_container_stats",
        "list_podsandbox_stats",
        "list_podsandbox_metrics",
        "list_images",
    ];
    assert_eq!(*seen.0.lock().unwrap(), told.map(|operation| (operation, false)), "counted as whole lists are");
}

/// CRI-38, SEC-49.
#[tokio::test]
async fn a_list_may_be_larger_than_one_answer_and_has_a_bound_of_its_own() {
    let fake = Fake::new();
    let host = Host::of(&fake);
    let runtime = connect(&host, T, &Arc::default());
    fake.answer(Parts::of([large_part(10 * MIB), large_part(10 * MIB)]));
    assert_eq!(ids(&runtime).await.unwrap(), ["large", "large"]);
    for parts in [vec![large_part(17 * MIB)], vec![large_part(15 * MIB); 5]] {
        fake.answer(Parts::of(parts));
        let error = ids(&runtime).await.unwrap_err();
        assert!(matches!(error, CriError::InvalidAnswer { call: "StreamContainers", .. }), "{error:?}");
        assert!(error.to_string().contains("too large"), "{error}");
    }
    fake.answer(Parts::of([part(&["1"])]));
    assert_eq!(ids(&runtime).await.unwrap(), ["1"], "and the connection lives on");
    assert!(fake.asked::<ListContainersRequest>().is_empty());
}

/// CRI-38.
#[tokio::test]
async fn a_service_that_streams_no_lists_is_asked_for_whole_ones_from_then_on() {
    let in_head: fn(&Fake) = |fake| {
        let unknown = || Status::unimplemented("unknown method");
        fake.refuse::<Parts<StreamContainersResponse>>(unknown()).refuse::<Parts<StreamImagesResponse>>(unknown());
    };
    let at_first_part: fn(&Fake) = |_| {};
    for refuse in [in_head, at_first_part] {
        let fake = Fake::new();
        refuse(&fake);
        fake.answer(ListContainersResponse { containers: containers(&["1", "2"]) });
        fake.answer(ListImagesResponse { images: vec![Image { id: "i".into(), ..Default::default() }] });
        let host = Host::of(&fake);
        let seen = Arc::new(Seen::default());
        let runtime = connect(&host, T, &seen);
        for _ in 0..2 {
            assert_eq!(ids(&runtime).await.unwrap(), ["1", "2"]);
            assert_eq!(runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await, Ok(vec![]));
            assert_eq!(runtime.list_images(None).await.unwrap().len(), 1);
        }
        assert_eq!(fake.asked::<StreamContainersRequest>().len(), 1);
        assert_eq!(fake.asked::<StreamPodSandboxesRequest>().len(), 0, "the service said it of all its lists");
        assert_eq!(fake.asked::<StreamImagesRequest>().len(), 1, "the image service is another one");
        assert_eq!(fake.asked::<ListContainersRequest>().len(), 2);
        let seen = seen.0.lock().unwrap();
        assert_eq!((seen.len(), seen.iter().any(|(_, failed)| *failed)), (6, false), "{seen:?}");
    }
}

/// CRI-38.
#[tokio::test]
async fn nothing_of_a_list_that_breaks_off_is_believed() {
    let fake = Fake::new();
    let mut host = Host::of(&fake);
    let runtime = connect(&host, T, &Arc::default());
    fake.answer(Parts::of([part(&["1"])]).failing(Status::internal("lost")));
    let message = "rpc error: code = Internal desc = lost".to_owned();
    assert_eq!(ids(&runtime).await, Err(CriError::Other { code: "Internal", message }));

    let stalls = Parts { stays_open: true, ..Parts::of([part(&["1"])]) };
    fake.answer(stalls);
    let error = ids(&connect(&host, Duration::from_millis(150), &Arc::default())).await.unwrap_err();
    assert!(matches!(error, CriError::Deadline { call: "StreamContainers", .. }), "{error:?}");

    let before = fake.asked::<StreamContainersRequest>().len();
    let (error, ()) = tokio::join!(ids(&runtime), async {
        until("the list is asked for", || fake.asked::<StreamContainersRequest>().len() > before).await;
        host.die();
    });
    assert!(matches!(error, Err(CriError::Unavailable { .. })), "{error:?}");
    assert!(fake.asked::<ListContainersRequest>().is_empty(), "no failure but a missing call asks for a whole list");
}

/// Answers each call with one part of a list of containers, and ends the stream without saying how the call went.
async fn ends_without_a_word(listener: UnixListener) {
    let mut message = part(&["1"]).encode_to_vec();
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.append(&mut message);
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(socket).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let head = http::Response::builder().header("content-type", "application/grpc").body(()).unwrap();
            let mut stream = respond.send_response(head, false).unwrap();
            stream.send_data(Bytes::from(frame.clone()), true).unwrap();
        }
    }
}

/// CRI-38.
#[tokio::test]
async fn a_list_whose_end_nobody_told_is_not_whole() {
    let mut host = Host::empty();
    host.run(ends_without_a_word);
    let error = ids(&connect(&host, T, &Arc::default())).await.unwrap_err();
    assert!(matches!(error, CriError::Other { code: "Unknown", .. }), "{error:?}");
}
