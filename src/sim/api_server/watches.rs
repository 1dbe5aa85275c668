//! One open watch: its events as lines of a body, bookmarks in between, and how it ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::refusal::Refused;
use super::{ApiServer, instant};

/// Wait between bookmarks.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// How a watch ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// As if its time were over.
    Ends,
    /// The connection breaks.
    Breaks,
    /// Nothing comes any more, until the connection is found dead.
    Silent,
    /// The version is said to be too old.
    Expired,
}

/// How long a dead connection goes unnoticed.
const SILENCE: Duration = Duration::from_secs(40);

/// See the module. Dropping it ends it.
pub struct Watching {
    pub(super) server: Weak<ApiServer>,
    pub(super) api_version: String,
    pub(super) kind: &'static str,
    pub(super) events: UnboundedReceiver<Value>,
    /// The initial events are over here, and this is said.
    pub(super) initial_end: Option<u64>,
    pub(super) bookmarks: bool,
    pub(super) ends: Instant,
    pub(super) next_bookmark: Instant,
    pub(super) cut: Option<(Instant, Cut)>,
    pub(super) over: bool,
}

enum Next {
    Event(Option<Value>),
    Bookmark,
    Cut(Cut),
    End,
}

impl Watching {
    pub(super) fn bookmark_from_now() -> Instant {
        instant() + BOOKMARK_PERIOD
    }

    /// A watch that has nothing to tell but this.
    pub(super) fn refused(refused: &Refused) -> Self {
        let (teller, events) = tokio::sync::mpsc::unbounded_channel();
        let _ = teller.send(json!({ "type": "ERROR", "object": refused.status() }));
        Self {
            server: Weak::new(),
            api_version: String::new(),
            kind: "",
            events,
            initial_end: None,
            bookmarks: false,
            ends: instant() + BOOKMARK_PERIOD,
            next_bookmark: Self::bookmark_from_now(),
            cut: None,
            over: false,
        }
    }

    fn bookmark(&self, version: u64, initial_end: bool) -> Value {
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if initial_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = json!({ "apiVersion": self.api_version, "kind": self.kind, "metadata": metadata });
        json!({ "type": "BOOKMARK", "object": object })
    }

    /// The next line. `None` when the watch is over; an error when the connection broke.
    pub async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        if self.over {
            return None;
        }
        // The objects known when the watch began come first, and then the news that these are all.
        if let Some(version) = self.initial_end {
            let is_initial = |event: &Value| version_of(event) <= version;
            match self.events.try_recv() {
                Ok(event) if is_initial(&event) => return line(&event),
                Ok(event) => {
                    self.initial_end = None;
                    let both = [line_of(&self.bookmark(version, true)), line_of(&event)].concat();
                    return Some(Ok(Bytes::from(both)));
                }
                Err(_) => {
                    self.initial_end = None;
                    return line(&self.bookmark(version, true));
                }
            }
        }
        match self.wait().await {
            Next::Event(Some(event)) => line(&event),
            Next::End | Next::Cut(Cut::Ends) => {
                self.over = true;
                None
            }
            Next::Bookmark => {
                self.next_bookmark = Self::bookmark_from_now();
                let version = self.server.upgrade().map_or(0, |server: Arc<ApiServer>| server.version());
                line(&self.bookmark(version, false))
            }
            Next::Cut(Cut::Expired) => {
                self.over = true;
                line(&json!({ "type": "ERROR", "object": Refused::expired(1, 2).status() }))
            }
            Next::Cut(Cut::Silent) => {
                tokio::time::sleep(SILENCE).await;
                self.over = true;
                Some(Err(Broken))
            }
            // The server went away.
            Next::Event(None) | Next::Cut(Cut::Breaks) => {
                self.over = true;
                Some(Err(Broken))
            }
        }
    }

    async fn wait(&mut self) -> Next {
        let (cut, kind) = self.cut.map_or((self.ends, Cut::Ends), |(at, kind)| (at, kind));
        let bookmark = if self.bookmarks { self.next_bookmark } else { self.ends };
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(cut), if self.cut.is_some() => Next::Cut(kind),
            event = self.events.recv() => Next::Event(event),
            () = tokio::time::sleep_until(self.ends) => Next::End,
            () = tokio::time::sleep_until(bookmark) => Next::Bookmark,
        }
    }
}

/// The connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected EOF")]
pub struct Broken;

fn version_of(event: &Value) -> u64 {
    let version = event["object"]["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn line_of(event: &Value) -> Vec<u8> {
    format!("{event}\n").into_bytes()
}

fn line(event: &Value) -> Option<Result<Bytes, Broken>> {
    Some(Ok(Bytes::from(line_of(event))))
}
