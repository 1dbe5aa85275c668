//! `/ps?watch=true`: the list of pods, and then each change of a row. `StatusManager` pushes the changes; nothing is asked
//! while nothing changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::explain::{refused_rows, rows_of};
use super::pod_list::{ASK_LIMIT, REQUEST, settled};
use crate::logic::status::pod_change::PodChange;
use crate::messages::status::pod_watch::{Changes, RowNews, WatchOf, Watcher};
use crate::messages::status::status_manager::{Patience, PodView, StatusManagerMsg};
use crate::server::backend::Backend;
use crate::server::reply::{self, Reply};
use crate::server::sources::Shared;
use crate::server::views::PodRow;
use crate::server::views::changes::{Change, ChangeKind};

/// Answers with a stream of changes.
pub(in crate::server) async fn answer(shared: &Shared) -> Reply {
    settled(shared, Patience::WhileNew).await;
    let (watcher, changes) = Watcher::new();
    let question = |reply| StatusManagerMsg::Watch(WatchOf::Rows(watcher), reply);
    let mut views = match shared.directory.status_manager.ask(REQUEST, ASK_LIMIT, question).await {
        Ok(Some(views)) => views,
        Ok(None) => return reply::too_many_watch(),
        Err(error) => return reply::unanswered("StatusManager", error),
    };
    views.sort_by_cached_key(name_of);
    let refused = match refused_rows(shared).await {
        Ok(refused) => refused,
        Err(error) => return reply::unanswered("StatusManager", error),
    };
    let rows: Vec<PodRow> = rows_of(shared, &views).await.into_iter().chain(refused).collect();
    let first = rows.iter().cloned().map(|row| Change::of(ChangeKind::Added, row)).chain([Change::synced()]);
    let first: Vec<_> = first.collect();
    let rows = rows.into_iter().map(|row| (key(&row), row)).collect();
    let watch = Watch { shared: Arc::clone(shared), changes, rows, due: VecDeque::new() };
    let later = stream::unfold(Some(watch), |watch| async {
        let mut watch = watch?;
        match watch.next().await {
            Ok(change) => Some((change, Some(watch))),
            Err(last) => Some((last, None)),
        }
    });
    reply::json_lines(stream::iter(first).chain(later))
}

fn name_of(view: &PodView) -> (Option<String>, Option<String>) {
    (view.pod.metadata.namespace.clone(), view.pod.metadata.name.clone())
}

/// A row's identity. Manifests that give no pod have no UID.
fn key(row: &PodRow) -> [String; 3] {
    match row.uid.as_str() {
        "" => [row.namespace.clone(), row.name.clone(), row.waiting_for.concat()],
        uid => [String::new(), String::new(), uid.to_owned()],
    }
}

/// One watch.
struct Watch {
    shared: Shared,
    changes: Changes<RowNews>,
    /// The rows as the client has them.
    rows: BTreeMap<[String; 3], PodRow>,
    /// Changes that the client has yet to get.
    due: VecDeque<Change<PodRow>>,
}

impl Watch {
    /// The next change; in an error the last line of the watch.
    async fn next(&mut self) -> Result<Change<PodRow>, Change<PodRow>> {
        loop {
            if let Some(change) = self.due.pop_front() {
                return Ok(change);
            }
            match self.changes.next().await.map_err(Change::error)? {
                RowNews::Pod(changed) if changed.change == PodChange::Deleted => {
                    self.gone(&[String::new(), String::new(), changed.view.uid.to_string()]);
                }
                RowNews::Pod(changed) => {
                    for row in rows_of(&self.shared, &[changed.view]).await {
                        self.is(row);
                    }
                }
                RowNews::Refusals => self.refusals().await.map_err(Change::error)?,
            }
        }
    }

    async fn refusals(&mut self) -> Result<(), crate::actors::kit::address::AskError> {
        let backend: &Backend = &self.shared;
        let refused: BTreeMap<_, _> = refused_rows(backend).await?.into_iter().map(|row| (key(&row), row)).collect();
        let before: Vec<_> =
            self.rows.iter().filter(|(_, row)| row.uid.is_empty()).map(|(key, _)| key.clone()).collect();
        before.iter().filter(|key| !refused.contains_key(*key)).for_each(|key| self.gone(key));
        refused.into_values().for_each(|row| self.is(row));
        Ok(())
    }

    fn gone(&mut self, key: &[String; 3]) {
        self.due.extend(self.rows.remove(key).map(|row| Change::of(ChangeKind::Deleted, row)));
    }

    /// Sends a row, unless nothing but its age is new.
    fn is(&mut self, row: PodRow) {
        let kind = match self.rows.insert(key(&row), row.clone()) {
            None => ChangeKind::Added,
            Some(was) => {
                let aged = PodRow { age_seconds: row.age_seconds, ..was };
                if aged == row {
                    return;
                }
                ChangeKind::Modified
            }
        };
        self.due.push_back(Change::of(kind, row));
    }
}
