//! When a just started agent knows the pods of its node: every source and the runtime were heard, and each pod that is to
//! run has a status.
//!
//! Owned by `StatusManager`, which answers then whoever asked too early. Pure.

use std::collections::BTreeSet;

use crate::logic::model::ids::PodUid;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settling {
    /// Pods that have a worker and no status yet; `None` until all sources and the runtime were heard.
    owed: Option<BTreeSet<PodUid>>,
}

impl Settling {
    /// All sources and the runtime were heard: these pods have workers, and those of `told` have statuses already.
    pub fn heard_all(&mut self, pods: &BTreeSet<PodUid>, told: impl Fn(&PodUid) -> bool) {
        self.owed = Some(pods.iter().filter(|uid| !told(uid)).cloned().collect());
    }

    /// A pod has a status, or is over.
    pub fn told(&mut self, uid: &PodUid) {
        if let Some(owed) = &mut self.owed {
            owed.remove(uid);
        }
    }

    /// Only these pods are left.
    pub fn keep_only(&mut self, pods: &BTreeSet<PodUid>) {
        if let Some(owed) = &mut self.owed {
            owed.retain(|uid| pods.contains(uid));
        }
    }

    /// Whether all is known.
    pub fn is_settled(&self) -> bool {
        self.owed.as_ref().is_some_and(BTreeSet::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(uids: &[&str]) -> BTreeSet<PodUid> {
        uids.iter().map(|uid| PodUid::from(*uid)).collect()
    }

    #[test]
    fn all_is_known_when_the_last_pod_has_its_status() {
        let mut settling = Settling::default();
        settling.told(&"early".into());
        assert!(!settling.is_settled(), "nobody was heard");
        settling.heard_all(&pods(&["early", "one", "two"]), |uid| uid.as_str() == "early");
        assert!(!settling.is_settled());
        settling.told(&"one".into());
        assert!(!settling.is_settled());
        settling.told(&"two".into());
        assert!(settling.is_settled());
        settling.told(&"new".into());
        assert!(settling.is_settled(), "a pod of later on keeps nobody waiting");
    }

    #[test]
    fn a_node_without_pods_is_known_at_once_and_pods_that_went_are_not_waited_for() {
        let mut settling = Settling::default();
        settling.heard_all(&pods(&[]), |_| false);
        assert!(settling.is_settled());
        settling.heard_all(&pods(&["gone", "here"]), |_| false);
        settling.keep_only(&pods(&["here"]));
        settling.told(&"here".into());
        assert!(settling.is_settled());
    }
}
