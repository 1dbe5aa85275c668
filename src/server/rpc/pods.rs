//! The Pods API `v1alpha1`: the pods of the node with their statuses, also those that no API server has (SRV-52; gate
//! `PodsAPI`, upstream's `pkg/kubelet/apis/pods`).

use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::call_gate::CallGate;
use super::connections::{OpenWatch, Watches};
use super::pod_bytes::{gone_pod_bytes, pod_bytes};
use super::wire::pods_v1alpha1::pods_server::Pods;
use super::wire::pods_v1alpha1::{
    EventType, GetPodRequest, GetPodResponse, ListPodsRequest, ListPodsResponse, WatchPodsEvent, WatchPodsRequest,
};
use crate::actors::kit::address::AskError;
use crate::logic::status::pod_change::PodChange;
use crate::messages::status::pod_watch::{ChangedPod, PodChanges, PodWatcher, WatchEnded, WatchOf};
use crate::messages::status::status_manager::{Patience, PodView, StatusManagerMsg};
use crate::server::backend::Backend;
use crate::server::pods::pod_list::{ASK_LIMIT, REQUEST, named, settled, views};

/// See the module.
pub(super) struct PodsApi {
    backend: Arc<Backend>,
    gate: CallGate,
}

impl PodsApi {
    pub(super) fn new(backend: Arc<Backend>) -> Self {
        let gate = CallGate::new(Arc::clone(backend.trace.clock()));
        Self { backend, gate }
    }
}

#[tonic::async_trait]
impl Pods for PodsApi {
    async fn watch_pods(
        &self,
        request: Request<WatchPodsRequest>,
    ) -> Result<Response<BoxStream<WatchPodsEvent>>, Status> {
        let open = request.extensions().get::<Watches>().map(Watches::open);
        settled(&self.backend, Patience::WhileNew).await;
        let (watcher, changes) = PodWatcher::new();
        let question = |reply| StatusManagerMsg::Watch(WatchOf::Pods(watcher), reply);
        let answer = self.backend.directory.status_manager.ask(REQUEST, ASK_LIMIT, question).await;
        let Some(views) = answer.map_err(unanswered)? else {
            return Err(Status::resource_exhausted("too many watch pods already"));
        };
        Ok(Response::new(Box::pin(events(here(views), changes, open))))
    }

    async fn list_pods(&self, _: Request<ListPodsRequest>) -> Result<Response<ListPodsResponse>, Status> {
        self.gate.enter()?;
        let views = here(views(&self.backend).await.map_err(unanswered)?);
        let pods = views.iter().map(bytes).collect::<Result<_, Status>>()?;
        Ok(Response::new(ListPodsResponse { pods }))
    }

    async fn get_pod(&self, request: Request<GetPodRequest>) -> Result<Response<GetPodResponse>, Status> {
        self.gate.enter()?;
        let GetPodRequest { pod_uid } = request.into_inner();
        let is_meant = |view: &PodView| !view.is_over && view.uid.as_str() == pod_uid;
        let found = named(&self.backend, is_meant).await.map_err(unanswered)?;
        match found.first() {
            Some(view) => Ok(Response::new(GetPodResponse { pod: bytes(view)? })),
            None => Err(Status::not_found(format!("pod with UID {pod_uid} not found"))),
        }
    }
}

/// The pods that are not over, by their UIDs.
fn here(mut views: Vec<PodView>) -> Vec<PodView> {
    views.retain(|view| !view.is_over);
    views.sort_by(|one, other| one.uid.cmp(&other.uid));
    views
}

/// The stream of a watcher: all pods, that these were all, and then each change. Bytes are made when they can be sent.
fn events(
    views: Vec<PodView>,
    changes: PodChanges,
    open: Option<OpenWatch>,
) -> impl Stream<Item = Result<WatchPodsEvent, Status>> + Send {
    let first = views.into_iter().map(|view| event(EventType::Added, bytes(&view)));
    let complete = event(EventType::InitialSyncComplete, Ok(vec![]));
    let then = stream::unfold(Some((changes, open)), |state| async {
        let (mut changes, open) = state?;
        match changes.next().await {
            Ok(changed) => Some((changed_event(&changed), Some((changes, open)))),
            Err(ended) => Some((Err(end(ended)), None)),
        }
    });
    stream::iter(first.chain([complete])).chain(then)
}

fn changed_event(ChangedPod { change, view }: &ChangedPod) -> Result<WatchPodsEvent, Status> {
    match change {
        PodChange::Added => event(EventType::Added, bytes(view)),
        PodChange::Modified => event(EventType::Modified, bytes(view)),
        PodChange::Deleted => event(EventType::Deleted, gone_pod_bytes(&view.pod).map_err(|error| no_form(&error))),
    }
}

fn event(kind: EventType, pod: Result<Vec<u8>, Status>) -> Result<WatchPodsEvent, Status> {
    Ok(WatchPodsEvent { r#type: kind.into(), pod: pod? })
}

fn end(ended: WatchEnded) -> Status {
    match ended {
        WatchEnded::TooSlow => Status::resource_exhausted(ended.to_string()),
        WatchEnded::Lost => Status::unavailable(ended.to_string()),
    }
}

fn bytes(view: &PodView) -> Result<Vec<u8>, Status> {
    pod_bytes(&view.pod, &view.status).map_err(|error| no_form(&error))
}

fn no_form(error: &serde_json::Error) -> Status {
    Status::internal(format!("failed to marshal pod: {error}"))
}

fn unanswered(error: AskError) -> Status {
    Status::unavailable(format!("StatusManager does not answer: {error}"))
}
