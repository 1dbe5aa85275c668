//! The body of an answer with a log: its parts as they are read, and, if it is followed, as they are written.
//!
//! Ends with the container, with what was asked for, or with the client: hyper then drops the body, and with it the log.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::stream::{self, Stream};

use crate::cri::{ContainerState, CriError};
use crate::logic::logs::container_log::query::LogQuery;
use crate::logic::logs::container_log::selection::runtime_id;
use crate::logic::model::ids::ContainerId;
use crate::platform::logs::log_reader::{Admission, Change, LogWanted, OpenLog, Part};
use crate::server::backend::Backend;

/// How soon the runtime is asked again whether a container runs whose log was closed. Doubled each time.
const CLOSED_CHECK: Duration = Duration::from_millis(50);
/// How often it is asked about one whose log rests.
const REST_CHECK: Duration = Duration::from_secs(10);

/// Which log, and what of it.
pub(super) struct Wanted {
    /// The instance, as the API names it.
    pub id: String,
    /// The part of its log.
    pub query: LogQuery,
    /// The room that it takes.
    pub _admission: Admission,
}

/// The parts of a log.
pub(super) fn read(backend: Arc<Backend>, wanted: Wanted) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let reader = Reader { backend, wanted, stage: Stage::Begins };
    stream::unfold(reader, |mut reader| async { reader.next().await.map(|bytes| (Ok(bytes), reader)) })
}

enum Stage {
    Begins,
    /// Being read; with the time after which the runtime is asked whether the container runs.
    Open(Box<dyn OpenLog>, Duration),
    /// The container has ended: what is there now is the rest.
    Ending(Box<dyn OpenLog>),
    Over,
}

struct Reader {
    backend: Arc<Backend>,
    wanted: Wanted,
    stage: Stage,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let stepped = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Begins => self.open().await.map(|log| Next::Stage(Stage::Open(log, Duration::ZERO))),
                Stage::Open(log, patience) => self.go_on(log, patience).await,
                Stage::Ending(mut log) => match log.read().await {
                    Ok(Part::Shown(bytes)) => Ok(Next::Shown(bytes, Stage::Ending(log))),
                    Ok(Part::AtEnd | Part::Done) => Ok(Next::Stage(Stage::Over)),
                    Err(error) => Err(error.to_string()),
                },
                Stage::Over => {
                    // The last bytes go out before the end does. In one TLS record with it they would be lost over WebSocket:
                    // the API server drops what it reads together with the end.
                    tokio::task::yield_now().await;
                    return None;
                }
            };
            match stepped {
                Ok(Next::Shown(bytes, stage)) => {
                    self.stage = stage;
                    return Some(bytes);
                }
                Ok(Next::Stage(stage)) => self.stage = stage,
                // The status is sent already; upstream, too, tells it here.
                Err(text) => return Some(Bytes::from(text)),
            }
        }
    }

    async fn open(&mut self) -> Result<Box<dyn OpenLog>, String> {
        let id = runtime_id(&self.wanted.id);
        let status = self.backend.runtime.container_status(&ContainerId::from(id)).await;
        let status = status.map_err(|error| {
            tracing::debug!(container = id, %error, "log is wanted of a container that the runtime does not tell of");
            format!("unable to retrieve container logs for {}", self.wanted.id)
        })?;
        let query = &self.wanted.query;
        let wanted = LogWanted {
            path: status.log_path,
            container: id.to_owned(),
            print: query.print_options(self.backend.trace.clock().now()),
            tail_lines: query.tail_lines,
            follow: query.follow,
        };
        self.backend.log_reader.open(wanted).await.map_err(|error| error.to_string())
    }

    /// Reads on; at the end of what is there, waits for more, or finds that the container has ended.
    async fn go_on(&mut self, mut log: Box<dyn OpenLog>, patience: Duration) -> Result<Next, String> {
        match log.read().await {
            Ok(Part::Shown(bytes)) => return Ok(Next::Shown(bytes, Stage::Open(log, patience))),
            Ok(Part::Done) => return Ok(Next::Stage(Stage::Over)),
            Ok(Part::AtEnd) => {}
            Err(error) => return Err(error.to_string()),
        }
        if patience.is_zero() {
            // The first end: nothing that happens from here on may be missed, so it is read once more.
            log.listen();
            let stage = if self.runs().await? { Stage::Open(log, REST_CHECK) } else { Stage::Ending(log) };
            return Ok(Next::Stage(stage));
        }
        let patience = match tokio::time::timeout(patience, log.changed()).await {
            Ok(Change::Written) => patience.max(REST_CHECK),
            Ok(Change::Closed) => CLOSED_CHECK,
            Err(_) if self.runs().await? => (patience * 2).min(REST_CHECK),
            Err(_) => return Ok(Next::Stage(Stage::Ending(log))),
        };
        Ok(Next::Stage(Stage::Open(log, patience)))
    }

    /// Whether the instance still runs. A runtime that cannot be asked says nothing about it.
    async fn runs(&mut self) -> Result<bool, String> {
        let id = ContainerId::from(runtime_id(&self.wanted.id));
        match self.backend.runtime.container_status(&id).await {
            Ok(status) => Ok(status.state == ContainerState::Running),
            // Removed meanwhile; upstream ends with the runtime's words in the middle of the log.
            Err(CriError::NotFound { .. }) => Ok(false),
            Err(error) if error.is_transient() => Ok(true),
            Err(error) => Err(error.to_string()),
        }
    }
}

enum Next {
    Shown(Bytes, Stage),
    Stage(Stage),
}
