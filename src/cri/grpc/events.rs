//! The runtime's event stream.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tonic::{Response, Status, Streaming};

use super::{GrpcRuntime, error_of, request};
use crate::cri::instrumented::{Call, TimedCall};
use crate::cri::{ContainerEvent, ContainerEvents, CriError, CriResult, convert, wire};

/// How long a refusal of the stream is waited for. Runtimes answer this call only with the first event, which may be
/// hours away, but they refuse it, or fail to be reached, at once.
const REFUSAL_WAIT: Duration = Duration::from_millis(200);

type Events = Streaming<wire::ContainerEventResponse>;
type Opening = Pin<Box<dyn Future<Output = Result<Response<Events>, Status>> + Send>>;

/// Where the stream is.
enum Stage {
    /// Asked for; the runtime has not said anything yet.
    Opening(Opening),
    /// Events arrive.
    Open(Box<Events>),
    /// It ended, or failed and told so.
    Ended,
}

impl GrpcRuntime {
    /// Opens the stream: see [`crate::cri::RuntimeService::container_events`]. A refusal that comes late is the
    /// stream's first and last item.
    pub(super) async fn open_events(&self) -> CriResult<ContainerEvents> {
        let timed = TimedCall::begin(&*self.observer, Call::GET_CONTAINER_EVENTS);
        let endpoint = self.runtime.endpoint.clone();
        let mut client = self.runtime.client.clone();
        let request = request(wire::GetEventsRequest {}, None, &*self.observer);
        let mut opening: Opening = Box::pin(async move { client.get_container_events(request).await });
        let opened = tokio::time::timeout(REFUSAL_WAIT, &mut opening).await;
        timed.end(matches!(opened, Ok(Err(_))));
        let stage = match opened {
            Ok(Ok(response)) => Stage::Open(Box::new(response.into_inner())),
            Ok(Err(status)) => return Err(failure(&endpoint, &status)),
            Err(_) => Stage::Opening(opening),
        };
        Ok(Box::pin(stream::unfold((stage, endpoint), |(stage, endpoint)| next(stage, endpoint))))
    }
}

type Item = CriResult<ContainerEvent>;

/// The next event and what comes after it.
async fn next(stage: Stage, endpoint: Arc<str>) -> Option<(Item, (Stage, Arc<str>))> {
    let mut events = match stage {
        Stage::Ended => return None,
        Stage::Open(events) => events,
        Stage::Opening(opening) => match opening.await {
            Ok(response) => Box::new(response.into_inner()),
            Err(status) => return Some((Err(failure(&endpoint, &status)), (Stage::Ended, endpoint))),
        },
    };
    match events.message().await {
        Ok(Some(event)) => Some((Ok(convert::container_event(event)), (Stage::Open(events), endpoint))),
        Ok(None) => None,
        Err(status) => Some((Err(failure(&endpoint, &status)), (Stage::Ended, endpoint))),
    }
}

fn failure(endpoint: &str, status: &Status) -> CriError {
    error_of(Call::GET_CONTAINER_EVENTS, endpoint, None, status)
}
