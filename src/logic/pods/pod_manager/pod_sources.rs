//! The pods that each source wants, as it told them last; what was decided about them is kept elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::model::ids::PodUid;

/// Pods by their UID.
pub type Pods = BTreeMap<PodUid, Arc<Pod>>;

/// The name of the API server among the sources.
const API: &str = "api";

/// See the module. Owned by `PodManager`.
#[derive(Clone, Debug, Default)]
pub struct PodSources {
    /// The pods that the API server wants; `None` until it was heard.
    api: Option<Pods>,
    /// The pods that it wanted when it was last heard, until that is in force.
    recalled: Option<Pods>,
    /// By source name, what the sources of static pods want.
    statics: BTreeMap<&'static str, Pods>,
}

impl PodSources {
    /// The pods that the API server wants; `None` until it was heard.
    pub fn api(&self) -> Option<&Pods> {
        self.api.as_ref()
    }

    /// A pod that the API server wants.
    pub fn api_pod(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.api.as_ref()?.get(uid)
    }

    /// The API server told everything that it wants; gives what it wanted before.
    pub fn set_api(&mut self, pods: Pods) -> Pods {
        self.api.replace(pods).unwrap_or_default()
    }

    /// The API server told of one pod, `None` when it wants it no more; gives how it wanted it before. Says nothing before
    /// the complete set has come, which will hold this pod.
    pub fn set_api_pod(&mut self, uid: &PodUid, pod: Option<&Arc<Pod>>) -> Option<Option<Arc<Pod>>> {
        let pods = self.api.as_mut()?;
        Some(match pod {
            Some(pod) => pods.insert(uid.clone(), Arc::clone(pod)),
            None => pods.remove(uid),
        })
    }

    /// The API server cannot be heard; it wanted these last.
    pub fn recall(&mut self, pods: Pods) {
        self.recalled = Some(pods);
    }

    /// Gives the pods that are to be wanted until the API server is heard, once.
    pub fn take_recalled(&mut self) -> Option<Pods> {
        self.recalled.take().filter(|_| self.api.is_none())
    }

    /// A source of static pods told what it wants; gives what it wanted before.
    pub fn set_statics(&mut self, source: &'static str, pods: Pods) -> Pods {
        debug_assert_ne!(source, API, "the API server's pods are not static");
        self.statics.insert(source, pods).unwrap_or_default()
    }

    /// The pods that one source of static pods wants.
    pub fn statics_of(&self, source: &str) -> Pods {
        self.statics.get(source).cloned().unwrap_or_default()
    }

    /// By source name, what sources of static pods want.
    pub fn statics(&self) -> &BTreeMap<&'static str, Pods> {
        &self.statics
    }

    /// Everything that is wanted, whichever source wants it.
    pub fn all(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        self.api.iter().chain(self.statics.values()).flatten()
    }

    /// A pod as its source wants it.
    pub fn pod(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.api.iter().chain(self.statics.values()).find_map(|pods| pods.get(uid))
    }

    /// The name of the source that wants the pod.
    pub fn source_of(&self, uid: &PodUid) -> Option<&'static str> {
        if self.api_pod(uid).is_some() {
            return Some(API);
        }
        self.statics.iter().find(|(_, pods)| pods.contains_key(uid)).map(|(source, _)| *source)
    }
}

#[cfg(test)]
mod tests;
