//! A container runtime that is played: it gives the answers that it was made with and remembers the questions.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use podwright::cri::grpc::GrpcRuntime;
use podwright::cri::instrumented::CallObserver;
use podwright::cri::wire::image_service_server::{ImageService, ImageServiceServer};
use podwright::cri::wire::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use podwright::cri::wire::*;
use tokio::net::UnixListener;
use tokio::sync::broadcast;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

/// Makes an answer of a request.
type Compute = Arc<dyn Fn(&dyn Any) -> Box<dyn Any + Send> + Send + Sync>;

/// The answer of the server.
enum Behaviour {
    Answer(Box<dyn Any + Send>),
    Compute(Compute),
    Refuse(Status),
    Hang,
}

/// One request as it came.
struct Asked {
    request: Box<dyn Any + Send>,
    metadata: tonic::metadata::MetadataMap,
}

/// The runtime. Clones are the same runtime. An answer that nobody set has all fields empty.
#[derive(Clone)]
pub struct Fake(Arc<Inner>);

struct Inner {
    asked: Mutex<Vec<Asked>>,
    behaviours: Mutex<BTreeMap<TypeId, Behaviour>>,
    abandoned: AtomicUsize,
    connections: AtomicUsize,
    events: broadcast::Sender<ContainerEventResponse>,
    /// Whether the stream of events is answered only with the first event, as grpc-go's servers do.
    events_late: bool,
}

impl Fake {
    pub fn new() -> Self {
        Self::with_late_events(false)
    }

    pub fn with_late_events(events_late: bool) -> Self {
        Self(Arc::new(Inner {
            asked: Mutex::default(),
            behaviours: Mutex::default(),
            abandoned: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            events: broadcast::channel(64).0,
            events_late,
        }))
    }

    /// From now on, this is the answer to the call that has answers of this type.
    pub fn answer<A: Any + Clone + Send>(&self, answer: A) -> &Self {
        self.behave::<A>(Behaviour::Answer(Box::new(answer)))
    }

    /// From now on, the call that has requests of type `Q` is answered with what `of` makes of each.
    pub fn compute<Q: Any, A: Any + Send>(&self, of: impl Fn(&Q) -> A + Send + Sync + 'static) -> &Self {
        let of = move |request: &dyn Any| -> Box<dyn Any + Send> {
            Box::new(of(request.downcast_ref::<Q>().expect("of this type")))
        };
        self.behave::<A>(Behaviour::Compute(Arc::new(of)))
    }

    /// From now on, the call with answers of type `A` is refused.
    pub fn refuse<A: Any>(&self, status: Status) -> &Self {
        self.behave::<A>(Behaviour::Refuse(status))
    }

    /// From now on, the call with answers of type `A` is never answered.
    pub fn hang<A: Any>(&self) -> &Self {
        self.behave::<A>(Behaviour::Hang)
    }

    fn behave<A: Any>(&self, behaviour: Behaviour) -> &Self {
        self.0.behaviours.lock().unwrap().insert(TypeId::of::<A>(), behaviour);
        self
    }

    /// All requests of this type so far.
    pub fn asked<Q: Any + Clone>(&self) -> Vec<Q> {
        let asked = self.0.asked.lock().unwrap();
        asked.iter().filter_map(|asked| asked.request.downcast_ref::<Q>().cloned()).collect()
    }

    /// How long the asker of the last request of this type said it would wait; `None` for ever.
    pub fn last_timeout<Q: Any>(&self) -> Option<Duration> {
        self.last_header::<Q>("grpc-timeout").as_deref().map(read_timeout)
    }

    /// A header of the last request of this type.
    pub fn last_header<Q: Any>(&self, name: &str) -> Option<String> {
        let asked = self.0.asked.lock().unwrap();
        let last = asked.iter().rev().find(|asked| asked.request.is::<Q>()).expect("was asked");
        last.metadata.get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    /// How many calls were dropped by the asker, or by the end of the server, while they hung.
    pub fn abandoned(&self) -> usize {
        self.0.abandoned.load(Ordering::SeqCst)
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.0.connections.load(Ordering::SeqCst)
    }

    /// Tells an event to whoever listens.
    pub fn emit(&self, event: ContainerEventResponse) {
        self.0.events.send(event).expect("somebody listens");
    }

    /// How many listen to the events.
    pub fn listeners(&self) -> usize {
        self.0.events.receiver_count()
    }

    async fn serve<Q: Any + Send, A: Any + Clone + Default>(&self, request: Request<Q>) -> Result<Response<A>, Status> {
        let (metadata, _, request) = request.into_parts();
        let compute = match self.0.behaviours.lock().unwrap().get(&TypeId::of::<A>()) {
            Some(Behaviour::Compute(compute)) => Some(Arc::clone(compute)),
            _ => None,
        };
        let computed = compute.map(|compute| *compute(&request).downcast::<A>().expect("of this type"));
        self.0.asked.lock().unwrap().push(Asked { request: Box::new(request), metadata });
        if let Some(answer) = computed {
            return Ok(Response::new(answer));
        }
        match self.0.behaviours.lock().unwrap().get(&TypeId::of::<A>()) {
            None | Some(Behaviour::Compute(_)) => return Ok(Response::new(A::default())),
            Some(Behaviour::Answer(answer)) => {
                return Ok(Response::new(answer.downcast_ref::<A>().expect("of this type").clone()));
            }
            Some(Behaviour::Refuse(status)) => return Err(status.clone()),
            Some(Behaviour::Hang) => {}
        }
        let _counted = Abandoned(&self.0.abandoned);
        std::future::pending().await
    }
}

struct Abandoned<'a>(&'a AtomicUsize);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The header's form: up to eight digits and a unit.
fn read_timeout(header: &str) -> Duration {
    let (digits, unit) = header.split_at(header.len() - 1);
    let count: u64 = digits.parse().unwrap();
    match unit {
        "n" => Duration::from_nanos(count),
        "u" => Duration::from_micros(count),
        "m" => Duration::from_millis(count),
        "S" => Duration::from_secs(count),
        "M" => Duration::from_secs(count * 60),
        "H" => Duration::from_secs(count * 3600),
        other => panic!("no unit: {other}"),
    }
}

macro_rules! unary {
    ($($method:ident($request:ident) -> $answer:ident;)*) => {
        $(
            fn $method<'life0, 'async_trait>(
                &'life0 self,
                request: Request<$request>,
            ) -> std::pin::Pin<Box<dyn Future<Output = Result<Response<$answer>, Status>> + Send + 'async_trait>>
            where
                'life0: 'async_trait,
                Self: 'async_trait,
            {
                Box::pin(self.serve(request))
            }
        )*
    };
}

/// The answer of a call that streams: its parts, the last one maybe the status with which the stream fails.
#[derive(Clone)]
pub struct Parts<A> {
    pub parts: Vec<Result<A, Status>>,
    /// Whether nothing follows the parts, not even the end.
    pub stays_open: bool,
}

impl<A> Parts<A> {
    /// A stream that ends well.
    pub fn of(parts: impl IntoIterator<Item = A>) -> Self {
        Self { parts: parts.into_iter().map(Ok).collect(), stays_open: false }
    }

    /// Fails with this status after the parts.
    pub fn failing(mut self, status: Status) -> Self {
        self.parts.push(Err(status));
        self
    }
}

impl<A> Default for Parts<A> {
    /// A runtime without the call, as far as nothing else was said.
    fn default() -> Self {
        Self::of([]).failing(Status::unimplemented("unknown method"))
    }
}

macro_rules! streamed {
    ($($method:ident($request:ident) -> $answer:ident;)*) => {
        $(
            fn $method<'life0, 'async_trait>(
                &'life0 self,
                request: Request<$request>,
            ) -> std::pin::Pin<
                Box<dyn Future<Output = Result<Response<BoxStream<$answer>>, Status>> + Send + 'async_trait>,
            >
            where
                'life0: 'async_trait,
                Self: 'async_trait,
            {
                Box::pin(async move {
                    let answer = self.serve::<$request, Parts<$answer>>(request).await?.into_inner();
                    let parts = (answer.parts.into_iter(), answer.stays_open);
                    let parts = stream::unfold(parts, |(mut parts, stays_open)| async move {
                        match parts.next() {
                            None if stays_open => std::future::pending().await,
                            next => next.map(|part| (part, (parts, stays_open))),
                        }
                    });
                    let parts: BoxStream<$answer> = Box::pin(parts);
                    Ok(Response::new(parts))
                })
            }
        )*
    };
}

#[tonic::async_trait]
impl RuntimeService for Fake {
    unary! {
        version(VersionRequest) -> VersionResponse;
        run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse;
        stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse;
        remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse;
        pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse;
        list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse;
        create_container(CreateContainerRequest) -> CreateContainerResponse;
        start_container(StartContainerRequest) -> StartContainerResponse;
        stop_container(StopContainerRequest) -> StopContainerResponse;
        remove_container(RemoveContainerRequest) -> RemoveContainerResponse;
        list_containers(ListContainersRequest) -> ListContainersResponse;
        container_status(ContainerStatusRequest) -> ContainerStatusResponse;
        update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse;
        reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse;
        exec_sync(ExecSyncRequest) -> ExecSyncResponse;
        exec(ExecRequest) -> ExecResponse;
        attach(AttachRequest) -> AttachResponse;
        port_forward(PortForwardRequest) -> PortForwardResponse;
        container_stats(ContainerStatsRequest) -> ContainerStatsResponse;
        list_container_stats(ListContainerStatsRequest) -> ListContainerStatsResponse;
        pod_sandbox_stats(PodSandboxStatsRequest) -> PodSandboxStatsResponse;
        list_pod_sandbox_stats(ListPodSandboxStatsRequest) -> ListPodSandboxStatsResponse;
        update_runtime_config(UpdateRuntimeConfigRequest) -> UpdateRuntimeConfigResponse;
        status(StatusRequest) -> StatusResponse;
        checkpoint_container(CheckpointContainerRequest) -> CheckpointContainerResponse;
        list_metric_descriptors(ListMetricDescriptorsRequest) -> ListMetricDescriptorsResponse;
        list_pod_sandbox_metrics(ListPodSandboxMetricsRequest) -> ListPodSandboxMetricsResponse;
        runtime_config(RuntimeConfigRequest) -> RuntimeConfigResponse;
        update_pod_sandbox_resources(UpdatePodSandboxResourcesRequest) -> UpdatePodSandboxResourcesResponse;
    }
    streamed! {
        stream_pod_sandboxes(StreamPodSandboxesRequest) -> StreamPodSandboxesResponse;
        stream_containers(StreamContainersRequest) -> StreamContainersResponse;
        stream_container_stats(StreamContainerStatsRequest) -> StreamContainerStatsResponse;
        stream_pod_sandbox_stats(StreamPodSandboxStatsRequest) -> StreamPodSandboxStatsResponse;
        stream_pod_sandbox_metrics(StreamPodSandboxMetricsRequest) -> StreamPodSandboxMetricsResponse;
    }

    async fn get_container_events(
        &self,
        _: Request<GetEventsRequest>,
    ) -> Result<Response<BoxStream<ContainerEventResponse>>, Status> {
        let mut events = Box::pin(stream::unfold(self.0.events.subscribe(), |mut events| async move {
            let event = events.recv().await;
            Some((event.map_err(|error| Status::data_loss(error.to_string())), events))
        }));
        let first = if self.0.events_late { events.next().await } else { None };
        Ok(Response::new(Box::pin(stream::iter(first).chain(events))))
    }
}

#[tonic::async_trait]
impl ImageService for Fake {
    unary! {
        list_images(ListImagesRequest) -> ListImagesResponse;
        image_status(ImageStatusRequest) -> ImageStatusResponse;
        pull_image(PullImageRequest) -> PullImageResponse;
        remove_image(RemoveImageRequest) -> RemoveImageResponse;
        image_fs_info(ImageFsInfoRequest) -> ImageFsInfoResponse;
    }
    streamed! {
        stream_images(StreamImagesRequest) -> StreamImagesResponse;
    }
}

/// A place for a socket, and whoever serves there.
pub struct Host {
    folder: tempfile::TempDir,
    server: Option<tokio::runtime::Runtime>,
}

impl Host {
    /// A place where nobody serves.
    pub fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), server: None }
    }

    /// A place where `fake` serves.
    pub fn of(fake: &Fake) -> Self {
        let mut host = Self::empty();
        host.serve(fake);
        host
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("runtime.sock")
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Begins to serve.
    pub fn serve(&mut self, fake: &Fake) {
        let fake = fake.clone();
        self.run(move |listener| async move {
            let connections = fake.0.clone();
            let incoming = UnixListenerStream::new(listener).inspect(move |_| {
                connections.connections.fetch_add(1, Ordering::SeqCst);
            });
            let server = tonic::transport::Server::builder()
                .add_service(RuntimeServiceServer::new(fake.clone()))
                .add_service(ImageServiceServer::new(fake));
            server.serve_with_incoming(incoming).await.unwrap();
        });
    }

    /// Runs a server of any kind on the socket, with threads of its own, so that it can die with all its connections.
    pub fn run<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        server: impl FnOnce(UnixListener) -> F + Send + 'static,
    ) {
        let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let bound = std::os::unix::net::UnixListener::bind(self.socket()).unwrap();
        bound.set_nonblocking(true).unwrap();
        threads.spawn(async move { server(UnixListener::from_std(bound).unwrap()).await });
        self.server = Some(threads);
    }

    /// The server dies, its socket goes.
    pub fn die(&mut self) {
        if let Some(threads) = self.server.take() {
            threads.shutdown_background();
            std::fs::remove_file(self.socket()).unwrap();
        }
    }

    /// The agent's adapter for this place.
    pub fn connect(&self) -> GrpcRuntime {
        self.connect_with(Duration::from_secs(60))
    }

    /// The same with another request timeout.
    pub fn connect_with(&self, request_timeout: Duration) -> GrpcRuntime {
        GrpcRuntime::connect(&self.endpoint(), "", request_timeout, Arc::new(Seen::default())).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.die();
    }
}

/// An observer that remembers.
#[derive(Default)]
pub struct Seen(pub Mutex<Vec<(&'static str, bool)>>);

impl CallObserver for Seen {
    fn called(&self, operation: &'static str, _: Duration, failed: bool) {
        self.0.lock().unwrap().push((operation, failed));
    }
}

/// Waits until something holds that must come to hold; gives up, failing, after far longer than it can take.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}
