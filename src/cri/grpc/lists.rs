//! Lists that come in parts (`CRIListStreaming`, KEP-5825): a stream of messages in the place of one answer.
//!
//! A service that lacks such a call refuses it as unimplemented, and is asked for whole lists from then on, as upstream
//! asks. A stream that breaks off is a list that failed: the agent believes none of its parts.

use std::sync::atomic::{AtomicBool, Ordering};

use prost::Message;
use tonic::{Code, Status, Streaming};

use crate::cri::instrumented::Call;

/// The largest list that is read: the bytes of all its parts together.
const LIST_MAX: usize = 64 * 1024 * 1024;

/// Asks a service for a list, in parts where it has them, and gives the items in our words. The deadline holds for the
/// whole list. A macro for the reasons of `ask`.
macro_rules! list {
    (
        $this:ident.$service:ident, $call:expr, $limit:expr, $read:expr,
        $in_parts:literal $stream:ident($streamed:expr).$part:ident,
        $unary:ident($whole:expr).$items:ident
    ) => {{
        let limit: Option<Duration> = $limit;
        let service = &$this.$service;
        let call = if service.lists.in_parts() { Call { method: $in_parts, ..$call } } else { $call };
        let mut client = service.client.clone();
        let answer = async {
            if service.lists.in_parts() {
                let request = $crate::cri::grpc::request($streamed, limit, &*$this.observer);
                let listed = match client.$stream(request).await {
                    Ok(parts) => $crate::cri::grpc::lists::collect(parts.into_inner(), |part| part.$part).await,
                    Err(status) => Err(status),
                };
                match listed {
                    Err(status) if service.lists.lack_parts(&status, $call) => {}
                    listed => return listed.map(tonic::Response::new),
                }
            }
            let request = $crate::cri::grpc::request($whole, limit, &*$this.observer);
            client.$unary(request).await.map(|answer| answer.map(|answer| answer.$items))
        };
        $this
            .finish(call, &service.endpoint, limit, answer, |_, items| Ok(items.into_iter().map($read).collect()))
            .await
    }};
}
pub(super) use list;

/// How a service is asked for lists.
#[derive(Default)]
pub(super) struct Lists(AtomicBool);

impl Lists {
    /// Asks for parts from now on, or for whole lists.
    pub fn set(&self, in_parts: bool) {
        self.0.store(in_parts, Ordering::Relaxed);
    }

    /// Whether the next list is asked for in parts.
    pub fn in_parts(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether the service said that it has no such call. Then the next lists of every kind are asked for whole.
    pub fn lack_parts(&self, status: &Status, whole: Call) -> bool {
        let lack = status.code() == Code::Unimplemented;
        if lack && self.0.swap(false, Ordering::Relaxed) {
            tracing::info!(call = whole.method, "The runtime does not stream lists; asking for whole lists");
        }
        lack
    }
}

/// The items of all parts, in their order.
///
/// # Errors
/// The status with which the stream ends; parts that are too large, one alone or all together.
pub(super) async fn collect<A: Message, T>(
    mut parts: Streaming<A>,
    items: impl Fn(A) -> Vec<T>,
) -> Result<Vec<T>, Status> {
    let (mut list, mut bytes) = (Vec::new(), 0);
    while let Some(part) = parts.message().await? {
        bytes += part.encoded_len();
        if bytes > LIST_MAX {
            // The library's words about one message: `unreadable` knows both faults by them.
            let message = "decoded message length too large: all parts of the list, the limit is:";
            return Err(Status::out_of_range(format!("{message} {LIST_MAX} bytes")));
        }
        list.extend(items(part));
    }
    Ok(list)
}
