//! The change that a watcher of pods hears of when a pod's entry becomes another (SRV-52; upstream's `OnPodUpdated` and
//! `OnPodRemoved`).
//!
//! Pure; `StatusManager` asks it, and only while somebody watches.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};

/// How a pod changed, for one who sees the pods that are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodChange {
    /// It was not here.
    Added,
    /// It is another, or its status is.
    Modified,
    /// It is here no more.
    Deleted,
}

/// A pod that is here: one that is over is not.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    /// The pod as it is wanted.
    pub pod: &'a Arc<Pod>,
    /// Its newest status.
    pub status: &'a Arc<PodStatus>,
}

/// The change from what was to what is; `None` when there is nothing to tell.
pub fn pod_change(was: Option<Here<'_>>, is: Option<Here<'_>>) -> Option<PodChange> {
    match (was, is) {
        (None, None) => None,
        (None, Some(_)) => Some(PodChange::Added),
        (Some(_), None) => Some(PodChange::Deleted),
        (Some(was), Some(is)) => {
            let same_pod = Arc::ptr_eq(was.pod, is.pod) || was.pod == is.pod;
            let same_status = Arc::ptr_eq(was.status, is.status) || was.status == is.status;
            (!same_pod || !same_status).then_some(PodChange::Modified)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SRV-52.
    #[test]
    fn a_watcher_hears_of_what_became_another() {
        let pod = |node: &str| {
            let spec = k8s_openapi::api::core::v1::PodSpec { node_name: Some(node.to_owned()), ..Default::default() };
            Arc::new(Pod { spec: Some(spec), ..Pod::default() })
        };
        let status = |phase: &str| Arc::new(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() });
        let (one, again, other) = (pod("a"), pod("a"), pod("b"));
        let (waits, waits_still, runs) = (status("Pending"), status("Pending"), status("Running"));
        fn here<'a>(pod: &'a Arc<Pod>, status: &'a Arc<PodStatus>) -> Option<Here<'a>> {
            Some(Here { pod, status })
        }
        let cases = [
            (None, None, None),
            (None, here(&one, &waits), Some(PodChange::Added)),
            (here(&one, &waits), None, Some(PodChange::Deleted)),
            (here(&one, &waits), here(&one, &waits), None),
            (here(&one, &waits), here(&again, &waits_still), None),
            (here(&one, &waits), here(&one, &runs), Some(PodChange::Modified)),
            (here(&one, &waits), here(&other, &waits), Some(PodChange::Modified)),
        ];
        for (was, is, expected) in cases {
            assert_eq!(pod_change(was, is), expected, "{was:?} {is:?}");
        }
    }
}
