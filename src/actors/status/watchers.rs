//! Those who watch pods, or the list of them that `podwright ps` prints, for as long as they do (SRV-52, PAIN-37).
//!
//! A part of `StatusManager`, which holds its pods anyway: a watch begins and gets its news in the actor's turns. So no
//! change is missed between the first list and the first change, and none comes twice. Without watchers nothing is compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use ractor::RpcReplyPort;

use crate::logic::model::ids::PodUid;
use crate::logic::status::pod_change::{Here, PodChange, pod_change};
use crate::messages::status::pod_watch::{ChangedPod, PodWatcher, RowNews, RowWatcher, Told, WatchOf, Watcher};
use crate::messages::status::status_manager::PodView;
use crate::platform::observer::{Observation, Observer};

/// The most watchers at once.
const WATCHERS_MAX: usize = 32;

/// See the module.
pub(super) struct Watchers {
    pods: Vec<PodWatcher>,
    rows: Vec<RowWatcher>,
    observer: Arc<dyn Observer>,
}

impl Watchers {
    pub(super) fn new(observer: Arc<dyn Observer>) -> Self {
        Self { pods: vec![], rows: vec![], observer }
    }

    /// Answers with the pods there are; changes from now on reach it.
    pub(super) fn begin(
        &mut self,
        watcher: WatchOf,
        pods: &BTreeMap<PodUid, PodView>,
        reply: RpcReplyPort<Option<Vec<PodView>>>,
    ) {
        self.pods.retain(|watcher| !watcher.is_left());
        self.rows.retain(|watcher| !watcher.is_left());
        let has_room = self.pods.len() + self.rows.len() < WATCHERS_MAX;
        let _ = reply.send(has_room.then(|| pods.values().cloned().collect())); // The asker may have left.
        match watcher {
            _ if !has_room => {}
            WatchOf::Pods(watcher) => self.pods.push(watcher),
            WatchOf::Rows(watcher) => self.rows.push(watcher),
        }
    }

    /// Tells watchers how a pod changed. A watcher without room for it is dropped.
    pub(super) fn tell(&mut self, was: Option<&PodView>, is: Option<&PodView>) {
        let Some(view) = is.or(was).filter(|_| !self.pods.is_empty() || !self.rows.is_empty()) else { return };
        let news = |change| ChangedPod { change, view: view.clone() };
        if let Some(change) = pod_change(was.and_then(here), is.and_then(here)) {
            tell_each(&mut self.pods, &news(change), &*self.observer);
        }
        if let Some(change) = row_change(was, is) {
            tell_each(&mut self.rows, &RowNews::Pod(news(change)), &*self.observer);
        }
    }

    /// Tells watchers of the list that other manifests give no pod now.
    pub(super) fn tell_refusals(&mut self) {
        tell_each(&mut self.rows, &RowNews::Refusals, &*self.observer);
    }
}

fn tell_each<T: Clone>(watchers: &mut Vec<Watcher<T>>, news: &T, observer: &dyn Observer) {
    watchers.retain(|watcher| {
        let told = watcher.tell(news.clone());
        if told == Told::TooSlow {
            tracing::info!("a watcher of pods is too slow, its watch ends");
            observer.observe(Observation::WatchEventDropped);
        }
        told == Told::Waits
    });
}

/// The pod as a watcher of the Pods API sees it.
fn here(view: &PodView) -> Option<Here<'_>> {
    (!view.is_over).then_some(in_list(view))
}

/// The pod as it is in the list, also when it is over.
fn in_list(view: &PodView) -> Here<'_> {
    Here { pod: &view.pod, status: &view.status }
}

/// The change of the pod's row: of the pod, of its status or of its waits.
fn row_change(was: Option<&PodView>, is: Option<&PodView>) -> Option<PodChange> {
    let waits_change = was.zip(is).is_some_and(|(was, is)| was.waiting != is.waiting);
    pod_change(was.map(in_list), is.map(in_list)).or(waits_change.then_some(PodChange::Modified))
}
