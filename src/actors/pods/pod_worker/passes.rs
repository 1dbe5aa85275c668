//! A pod worker's passes: from the message that finds it at rest to the end of the last job that this led to. Upstream's
//! metrics and spans of a pod's syncs mean the same: how long the worker is at it.

use std::time::Duration;

use tracing::Span;

use super::jobs::JobSite;
use crate::logic::pods::pod_lifecycle::Stage;
use crate::platform::observer::Occurrence;

/// The pass that is open.
struct Pass {
    stage: Stage,
    operation: &'static str,
    began: Duration,
    span: Span,
}

/// See the module.
#[derive(Default)]
pub(super) struct Passes {
    open: Option<Pass>,
    /// The first pass of a worker creates.
    created: bool,
}

impl Passes {
    /// The span of the pass in this stage: of the one that is open, or of a new one. `is_update` when a change of the pod
    /// led to it.
    pub(super) fn enter(&mut self, site: &JobSite, stage: Stage, is_update: bool, uptime: Duration) -> Span {
        if self.open.as_ref().is_some_and(|pass| pass.stage != stage) {
            self.end(site, uptime);
        }
        let created = &mut self.created;
        let pass = self.open.get_or_insert_with(|| {
            let operation = match stage {
                Stage::Syncing if !std::mem::replace(created, true) => "create",
                Stage::Syncing if is_update => "update",
                Stage::Syncing => "sync",
                Stage::Terminating => "kill",
                Stage::Terminated => "terminated",
            };
            Pass { stage, operation, began: uptime, span: span(site, stage, operation) }
        });
        pass.span.clone()
    }

    /// Ends the pass that is open.
    pub(super) fn end(&mut self, site: &JobSite, uptime: Duration) {
        if let Some(Pass { operation, began, .. }) = self.open.take() {
            site.agent.happened(Occurrence::PassEnded { operation, took: uptime.saturating_sub(began) });
        }
    }
}

/// A trace of its own, by upstream's names; operations and calls to the runtime are below it.
fn span(site: &JobSite, stage: Stage, operation: &'static str) -> Span {
    let name = match stage {
        Stage::Syncing => "syncPod",
        Stage::Terminating => "syncTerminatingPod",
        Stage::Terminated => "syncTerminatedPod",
    };
    let turn = Span::current();
    let span = tracing::info_span!(
        target: "podwright::turn", parent: None, "pass", otel.name = name,
        k8s.pod.uid = site.uid.as_str(),
        k8s.pod = %format_args!("{}/{}", site.full_name.namespace, site.full_name.name),
        k8s.pod.name = &*site.full_name.name,
        k8s.pod.update_type = operation,
        k8s.namespace.name = &*site.full_name.namespace,
    );
    span.follows_from(turn.id());
    span
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::logic::model::ids::{FullName, PodUid};
    use crate::server::tests::Node;

    /// POD-39.
    #[tokio::test]
    async fn a_pass_lasts_from_its_first_message_to_its_last_job_and_ends_with_its_stage() {
        let node = Node::plain();
        let site = JobSite {
            agent: Arc::clone(&node.agent),
            uid: PodUid::from("u"),
            full_name: FullName::new("web", "shop"),
            host: Default::default(),
            stops: Arc::default(),
        };
        let (mut passes, at) = (Passes::default(), Duration::from_secs);
        passes.enter(&site, Stage::Syncing, true, at(1));
        passes.enter(&site, Stage::Syncing, false, at(2));
        passes.end(&site, at(4));
        passes.end(&site, at(5));
        passes.enter(&site, Stage::Syncing, true, at(10));
        passes.end(&site, at(11));
        passes.enter(&site, Stage::Syncing, false, at(20));
        passes.enter(&site, Stage::Terminating, false, at(22));
        passes.enter(&site, Stage::Terminated, false, at(25));
        passes.end(&site, at(30));
        let text = node.metrics.all(&node.backend.sources).await.text();
        for (operation, seconds) in [("create", 3), ("update", 1), ("sync", 2), ("kill", 3), ("terminated", 5)] {
            for (what, value) in [("count", 1), ("sum", seconds)] {
                let series = "kubelet_pod_worker_duration_seconds";
                let line = format!("{series}_{what}{{operation_type=\"{operation}\"}} {value}");
                assert!(text.lines().any(|told| told == line), "{line} in\n{text}");
            }
        }
    }
}
