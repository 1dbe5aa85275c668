//! The fate of patches that the API server answered: whether the status is there now, and what a pod waits for that is
//! gone from the node and not from the API.
//!
//! An API server may answer a patch and keep a field as it was: a patch that did not name what goes, an admission webhook, a
//! field that an older server does not know. Without this look such a pod would wait for ever.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::patch::not_taken;
use super::{Answer, Call, Entry, StatusSync, uid_of};
use crate::logic::model::ids::{FullName, PodUid};
use crate::logic::pods::pod_roster::full_name;
use crate::logic::pods::wait::ApiWait;

/// A repair that is not taken over is tried after twice the last pause, and so on, up to 2⁵ times the first pause.
const DOUBLINGS_MAX: u32 = 5;

/// The last patch of a pod's status.
#[derive(Debug, Default)]
pub(super) struct Tried {
    /// The patch that is under way, or was answered just now.
    sent: Option<Arc<Value>>,
    is_answered: bool,
    /// The server answered the last status that the pod will ever have: nothing better can be sent.
    is_last: bool,
    trouble: Option<ApiWait>,
    /// How often the server did not take over the same field after the first time.
    repeats: u32,
    /// The wait that the last look found.
    told: Option<ApiWait>,
}

impl Tried {
    pub(super) fn begin(&mut self, call: &Call) {
        self.is_answered = false;
        self.sent = match call {
            Call::Patch { body } => Some(Arc::clone(body)),
            Call::Delete => None,
        };
    }

    /// A call ended. `is_last`: the pod is finished, and its status has not changed since.
    pub(super) fn answered(&mut self, answer: &Answer, is_last: bool) {
        if self.sent.is_none() {
            return; // Of a deletion.
        }
        match answer {
            Answer::Done(_) => (self.is_answered, self.is_last) = (true, is_last),
            Answer::Refused(why) => {
                (self.sent, self.is_last) = (None, is_last);
                self.trouble = Some(ApiWait::Refused { why: why.clone() });
            }
            Answer::Gone | Answer::Away | Answer::Failed(_) => self.sent = None,
        }
    }

    /// Another status is to be sent.
    pub(super) fn begin_anew(&mut self) {
        self.is_last = false;
    }

    /// Whether the server has answered the last status of the pod.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// How many times the usual pause a repair waits.
    pub(super) fn pauses(&self) -> u32 {
        1 << self.repeats.min(DOUBLINGS_MAX)
    }

    fn judge(&mut self, differs: bool, api: &Pod) {
        if !differs {
            (self.sent, self.trouble, self.repeats) = (None, None, 0);
        }
        let Some(sent) = self.sent.take_if(|_| self.is_answered) else { return };
        let field = api.status.as_ref().and_then(|status| not_taken(&sent, status));
        let trouble = field.map(|field| ApiWait::NotTaken { field });
        let is_same = trouble.is_some() && self.trouble == trouble;
        self.repeats = if is_same { self.repeats.saturating_add(1) } else { 0 };
        self.trouble = trouble;
    }
}

impl Entry {
    fn api_wait(&self, api: &Pod) -> Option<ApiWait> {
        let finalizers = api.metadata.finalizers.as_ref().filter(|names| !names.is_empty());
        match finalizers.filter(|_| self.deleted.as_ref() == Some(&uid_of(api))) {
            Some(names) => Some(ApiWait::Finalizers(names.clone())),
            None => self.tried.trouble.clone(),
        }
    }
}

impl StatusSync {
    /// Looks whether the last patch of the pod was taken over; `differs`: the API server still has another status.
    pub(super) fn judge(&mut self, uid: &PodUid, differs: bool) {
        let api = self.pods.get(uid).filter(|entry| entry.calling.is_none()).and_then(|entry| self.api_of(entry));
        let Some(api) = api.cloned() else { return };
        let entry = self.pods.get_mut(uid).expect("just found");
        entry.tried.judge(differs, &api);
        let wait = entry.api_wait(&api);
        if entry.tried.told != wait {
            entry.tried.told = wait;
            self.waits_changed.insert(uid.clone());
        }
    }

    /// The pod's obstacle in the API server, if it has one.
    pub fn api_wait(&self, uid: &PodUid) -> Option<&ApiWait> {
        self.pods.get(uid).and_then(|entry| entry.tried.told.as_ref())
    }

    /// The pods whose wait for the API server is another one than at the last call, with their names.
    pub fn changed_waits(&mut self) -> Vec<(PodUid, FullName)> {
        let changed = std::mem::take(&mut self.waits_changed);
        let named = changed.into_iter().filter_map(|uid| {
            let entry = self.pods.get(&uid)?;
            let name = full_name(self.api_of(entry)?);
            Some((uid, name))
        });
        named.collect()
    }

    /// Whether the API server has an object of this very pod.
    pub fn is_in_api(&self, uid: &PodUid) -> bool {
        self.pods.get(uid).is_some_and(|entry| entry.api.is_some())
    }
}
