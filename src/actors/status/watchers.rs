//! Those who watch pods, for as long as they do (SRV-52).
//!
//! A part of `StatusManager`, which holds its pods anyway: a watch begins and gets its news in the actor's turns. So no
//! change is missed between the first list and the first change, and none comes twice. Without watchers nothing is compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use ractor::RpcReplyPort;

use crate::logic::model::ids::PodUid;
use crate::logic::status::pod_change::{Here, pod_change};
use crate::messages::status::pod_watch::{ChangedPod, PodWatcher, Told};
use crate::messages::status::status_manager::PodView;
use crate::platform::observer::{Observation, Observer};

/// The most watchers at once.
const WATCHERS_MAX: usize = 32;

/// See the module.
pub(super) struct Watchers {
    all: Vec<PodWatcher>,
    observer: Arc<dyn Observer>,
}

impl Watchers {
    pub(super) fn new(observer: Arc<dyn Observer>) -> Self {
        Self { all: vec![], observer }
    }

    /// Answers with the pods there are; changes from now on reach it.
    pub(super) fn begin(
        &mut self,
        watcher: PodWatcher,
        pods: &BTreeMap<PodUid, PodView>,
        reply: RpcReplyPort<Option<Vec<PodView>>>,
    ) {
        self.all.retain(|watcher| !watcher.is_left());
        let has_room = self.all.len() < WATCHERS_MAX;
        let _ = reply.send(has_room.then(|| pods.values().cloned().collect())); // The asker may have left.
        if has_room {
            self.all.push(watcher);
        }
    }

    /// Tells watchers how a pod changed. A watcher without room for it is dropped.
    pub(super) fn tell(&mut self, was: Option<&PodView>, is: Option<&PodView>) {
        if self.all.is_empty() {
            return;
        }
        let (Some(change), Some(view)) = (pod_change(was.and_then(here), is.and_then(here)), is.or(was)) else {
            return;
        };
        self.all.retain(|watcher| {
            let told = watcher.tell(ChangedPod { change, view: view.clone() });
            if told == Told::TooSlow {
                tracing::info!("a watcher of pods is too slow, its watch ends");
                self.observer.observe(Observation::WatchEventDropped);
            }
            told == Told::Waits
        });
    }
}

/// The pod as a watcher sees it.
fn here(view: &PodView) -> Option<Here<'_>> {
    (!view.is_over).then_some(Here { pod: &view.pod, status: &view.status })
}
