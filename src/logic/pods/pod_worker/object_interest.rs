//! Which objects of the API server are kept at hand for a pod, from its start to the end of its volumes (VOL-50).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use crate::logic::objects::object_references::{ObjectKey, object_references};
use crate::logic::pods::pod_lifecycle::Stage;

/// Something to tell whoever keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// The pod refers to other objects than before.
    Keep,
    /// The pod has ended.
    LetGo,
}

/// See the module. Owned by a pod's worker.
#[derive(Clone, Debug, Default)]
pub struct ObjectInterest {
    kept: BTreeSet<ObjectKey>,
    let_go: bool,
}

impl ObjectInterest {
    /// The news that is due now; `is_repeated` when the keeper has forgotten its earlier news.
    pub fn due(&self, stage: Stage, pod: Option<&Pod>, is_repeated: bool) -> Option<Interest> {
        let references = pod.map(object_references).unwrap_or_default();
        match (stage, pod) {
            (Stage::Syncing, None) | (Stage::Terminating, _) => None,
            (Stage::Syncing, Some(_)) => {
                let is_known = self.kept == references && (references.is_empty() || !is_repeated);
                (!is_known).then_some(Interest::Keep)
            }
            // Told by a new worker, too: it cannot know what its predecessor had kept; or of what pod, if nobody wants it now.
            (Stage::Terminated, pod) => {
                let is_known = self.let_go || (pod.is_some() && references.is_empty() && self.kept.is_empty());
                (!is_known).then_some(Interest::LetGo)
            }
        }
    }

    /// The interest was sent.
    pub fn note(&mut self, interest: Interest, pod: Option<&Pod>) {
        match interest {
            Interest::Keep => self.kept = pod.map(object_references).unwrap_or_default(),
            Interest::LetGo => self.let_go = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(secret: Option<&str>) -> Pod {
        let volumes: Vec<_> = secret
            .map(|name| serde_json::json!({ "name": "v", "secret": { "secretName": name } }))
            .into_iter()
            .collect();
        let pod =
            serde_json::json!({ "metadata": { "namespace": "ns" }, "spec": { "containers": [], "volumes": volumes } });
        serde_json::from_value(pod).expect("a pod")
    }

    #[test]
    fn objects_are_kept_while_the_pod_refers_to_them() {
        let (mut interest, without, with) = (ObjectInterest::default(), pod(None), pod(Some("s")));
        assert_eq!(interest.due(Stage::Syncing, None, true), None);
        assert_eq!(interest.due(Stage::Syncing, Some(&without), true), None, "there is nothing to keep");
        assert_eq!(interest.due(Stage::Syncing, Some(&with), false), Some(Interest::Keep));
        interest.note(Interest::Keep, Some(&with));
        assert_eq!(interest.due(Stage::Syncing, Some(&with), false), None);
        assert_eq!(interest.due(Stage::Syncing, Some(&with), true), Some(Interest::Keep), "it was forgotten");
        assert_eq!(interest.due(Stage::Syncing, Some(&without), false), Some(Interest::Keep), "nothing any more");
        assert_eq!(interest.due(Stage::Terminating, Some(&with), true), None, "its volumes may still need them");
        assert_eq!(interest.due(Stage::Terminated, Some(&with), false), Some(Interest::LetGo));
        interest.note(Interest::LetGo, Some(&with));
        assert_eq!(interest.due(Stage::Terminated, Some(&with), true), None);
    }

    #[test]
    fn a_new_worker_lets_go_what_its_predecessor_may_have_kept() {
        let interest = ObjectInterest::default();
        assert_eq!(interest.due(Stage::Terminated, None, false), Some(Interest::LetGo));
        assert_eq!(interest.due(Stage::Terminated, Some(&pod(Some("s"))), false), Some(Interest::LetGo));
        assert_eq!(interest.due(Stage::Terminated, Some(&pod(None)), false), None, "it never had any");
    }
}
