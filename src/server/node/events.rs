//! `/events`: the last events of the node, and with `watch` each one after them. `pod` asks for those of one pod.

use std::sync::Arc;

use axum::http::StatusCode;
use futures_util::{Stream, StreamExt, stream};

use crate::logic::model::time::Moment;
use crate::messages::event_recorder::{CountedEvent, EventRecorderMsg};
use crate::messages::status::pod_watch::{Changes, Watcher};
use crate::server::backend::Backend;
use crate::server::pods::pod_list::{ASK_LIMIT, REQUEST};
use crate::server::reply::{self, Reply};
use crate::server::sources::{Shared, static_pod_name};
use crate::server::views::changes::{Change, ChangeKind};
use crate::server::views::node_views::EventRow;

/// Answers `/events`.
pub(in crate::server) async fn answer(shared: &Shared, query: Option<&str>) -> Reply {
    let pod = match reply::query_value(query, "pod").map(|pod| OfPod::parse(shared, &pod)) {
        None => None,
        Some(Some(pod)) => Some(pod),
        Some(None) => return reply::text(StatusCode::BAD_REQUEST, "a pod is given as NAMESPACE/POD\n"),
    };
    let watches = reply::is_set(query, "watch");
    let (watcher, changes) = Watcher::new();
    let question = |reply| EventRecorderMsg::Last(watches.then_some(watcher), reply);
    let events = match shared.directory.event_recorder.ask(REQUEST, ASK_LIMIT, question).await {
        Ok(Some(events)) => events,
        Ok(None) => return reply::too_many_watch(),
        Err(error) => return reply::unanswered("EventRecorder", error),
    };
    let is_meant = move |counted: &CountedEvent| pod.as_ref().is_none_or(|pod| pod.is_of(counted));
    let now = shared.trace.clock().now();
    let rows = events.iter().filter(|counted| is_meant(counted)).map(|counted| row(counted, now));
    match watches {
        false => reply::json(&rows.collect::<Vec<EventRow>>()),
        true => {
            let first = rows.map(|row| Change::of(ChangeKind::Added, row)).chain([Change::synced()]);
            let first: Vec<_> = first.collect();
            reply::json_lines(stream::iter(first).chain(later(Arc::clone(shared), changes, is_meant)))
        }
    }
}

/// Each event after the first answer, until the watch is over.
fn later(
    shared: Shared,
    changes: Changes<CountedEvent>,
    is_meant: impl Fn(&CountedEvent) -> bool + Send + 'static,
) -> impl Stream<Item = Change<EventRow>> + Send {
    stream::unfold(Some((shared, changes, is_meant)), |state| async {
        let (shared, mut changes, is_meant) = state?;
        loop {
            match changes.next().await {
                Ok(counted) if is_meant(&counted) => {
                    let kind = if counted.count == 1 { ChangeKind::Added } else { ChangeKind::Modified };
                    let change = Change::of(kind, row(&counted, shared.trace.clock().now()));
                    return Some((change, Some((shared, changes, is_meant))));
                }
                Ok(_) => {}
                Err(ended) => return Some((Change::error(ended), None)),
            }
        }
    })
}

/// The pod whose events are asked for.
struct OfPod {
    namespace: String,
    /// As it was given, and the static pod of that name.
    names: [String; 2],
}

impl OfPod {
    fn parse(backend: &Backend, text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/').filter(|(namespace, _)| !namespace.is_empty())?;
        let is_name = !name.is_empty() && !name.contains('/');
        let names = [name.to_owned(), static_pod_name(backend, name)];
        is_name.then(|| Self { namespace: namespace.to_owned(), names })
    }

    fn is_of(&self, counted: &CountedEvent) -> bool {
        let full_name = &counted.event.full_name;
        counted.event.kind() == "Pod"
            && *full_name.namespace == *self.namespace
            && self.names.iter().any(|name| *full_name.name == **name)
    }
}

fn row(counted: &CountedEvent, now: Moment) -> EventRow {
    let event = &counted.event;
    EventRow {
        kind: if event.warning { "Warning" } else { "Normal" }.to_owned(),
        reason: event.reason.to_string(),
        object_kind: event.kind().to_owned(),
        namespace: event.full_name.namespace.to_string(),
        name: event.full_name.name.to_string(),
        uid: event.uid.to_string(),
        field_path: event.field_path.clone(),
        message: event.message.clone(),
        count: counted.count,
        first_seen: counted.first_seen.to_timestamp().to_string(),
        last_seen: counted.last_seen.to_timestamp().to_string(),
        first_seconds: now.since(counted.first_seen).as_secs_f64(),
        last_seconds: now.since(counted.last_seen).as_secs_f64(),
    }
}
