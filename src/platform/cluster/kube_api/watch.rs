//! A watch: the frames of one answer, one JSON object a line, as events. Owned by whoever reads it; dropping it ends it.

use std::marker::PhantomData;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::Stream;
use http_body_util::BodyExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status};
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Sleep;

use super::exchange::{ANSWER_BYTES_MAX, broken, decode};
use super::{ApiError, ApiObject, managed_fields};

/// The most bytes of one event. An object of etcd has 1.5 MiB by default.
const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How much later than it should a server may end a watch before we do.
const LATENESS_MAX: Duration = Duration::from_secs(30);
/// Marks the bookmark that ends the initial events of a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent<K> {
    /// The object is new, or newly selected.
    Added(K),
    /// The object changed.
    Modified(K),
    /// The object is gone, or no longer selected; as it was last.
    Deleted(K),
    /// Nothing else happened up to this version.
    Bookmark {
        /// Where a next watch may begin.
        resource_version: String,
        /// Whether this ends the initial events of a streaming list.
        initial_events_end: bool,
    },
}

/// Where a watch begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchFrom<'a> {
    /// After this version: only what happens later.
    Version(&'a str),
    /// With every object there is, as `Added`, then a bookmark that says so (`sendInitialEvents`).
    InitialEvents,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Marked {
    metadata: ObjectMeta,
}

struct Watching<K> {
    body: Body,
    /// Bytes that were read and not yet told.
    buffer: BytesMut,
    /// How much of the buffer is known to hold no end of a line.
    searched: usize,
    ends: std::pin::Pin<Box<Sleep>>,
    over: bool,
    /// How many bytes more the events may have that stand for a list; `None` once it is whole, or where there is none.
    list_room: Option<usize>,
    object: PhantomData<fn() -> K>,
}

/// The events of an answer's body, which the server should end after `timeout`. `listing`: they begin with a list, which
/// may be as large as one that is asked for as such.
pub(super) fn events<K: ApiObject>(
    body: Body,
    timeout: Duration,
    listing: bool,
) -> impl Stream<Item = Result<WatchEvent<K>, ApiError>> + Send + Unpin + use<K> {
    let watching = Watching {
        body,
        buffer: BytesMut::new(),
        searched: 0,
        ends: Box::pin(tokio::time::sleep(timeout + LATENESS_MAX)),
        over: false,
        list_room: listing.then_some(ANSWER_BYTES_MAX),
        object: PhantomData,
    };
    Box::pin(futures_util::stream::unfold(watching, |mut watching| async move {
        let event = watching.next().await?;
        // After an error there is nothing more to be had.
        watching.over |= event.is_err();
        Some((event, watching))
    }))
}

impl<K: ApiObject> Watching<K> {
    async fn next(&mut self) -> Option<Result<WatchEvent<K>, ApiError>> {
        loop {
            if let Some(line) = self.take_line() {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Some(self.account(line.len()).and_then(|()| event(&line)).inspect(|event| self.note(event)));
            }
            if self.over {
                return None;
            }
            if self.buffer.len() > EVENT_BYTES_MAX {
                return Some(Err(ApiError::Answer("watch: an event larger than 16 MiB".to_owned())));
            }
            let frame = tokio::select! {
                biased;
                frame = self.body.frame() => frame,
                () = &mut self.ends => None,
            };
            match frame {
                Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                Some(Err(error)) => return Some(Err(broken(&error))),
                None => {
                    self.over = true;
                    // The last line may lack its end; one cut off in the middle tells of no event.
                    if serde_json::from_slice::<serde::de::IgnoredAny>(&self.buffer).is_ok() {
                        self.buffer.extend_from_slice(b"\n");
                    }
                }
            }
        }
    }

    /// Counts an event of this size, as long as they stand for a list.
    fn account(&mut self, bytes: usize) -> Result<(), ApiError> {
        let Some(room) = &mut self.list_room else { return Ok(()) };
        let too_large = || ApiError::Answer("watch: initial events larger than 64 MiB".to_owned());
        *room = room.checked_sub(bytes).ok_or_else(too_large)?;
        Ok(())
    }

    fn note(&mut self, event: &WatchEvent<K>) {
        if matches!(event, WatchEvent::Bookmark { initial_events_end: true, .. }) {
            self.list_room = None;
        }
    }

    fn take_line(&mut self) -> Option<BytesMut> {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + end + 1);
        self.searched = 0;
        Some(line)
    }
}

fn event<K: ApiObject>(line: &[u8]) -> Result<WatchEvent<K>, ApiError> {
    let frame: Frame<'_> = decode("an event", line)?;
    let json = frame.object.get().as_bytes();
    match frame.kind.as_str() {
        "ADDED" => Ok(WatchEvent::Added(object(json)?)),
        "MODIFIED" => Ok(WatchEvent::Modified(object(json)?)),
        "DELETED" => Ok(WatchEvent::Deleted(object(json)?)),
        "BOOKMARK" => {
            let marked: Marked = decode("a bookmark", json)?;
            let annotations = marked.metadata.annotations.unwrap_or_default();
            Ok(WatchEvent::Bookmark {
                resource_version: marked.metadata.resource_version.unwrap_or_default(),
                initial_events_end: annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true"),
            })
        }
        "ERROR" => Err(ApiError::from_status(&decode::<Status>("the error of a watch", json)?, 500, None)),
        other => Err(ApiError::Answer(format!("watch: unknown event type {other:?}"))),
    }
}

/// An object as it is kept: without the bookkeeping of who set which field, which is often half of it.
pub(super) fn object<K: ApiObject>(json: &[u8]) -> Result<K, ApiError> {
    decode(&K::kind(&()), &managed_fields::left_out(json))
}
