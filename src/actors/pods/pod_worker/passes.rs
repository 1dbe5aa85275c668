//! The passes of a pod worker as spans and figures: `logic` says when one begins and ends.

use std::time::Duration;

use tracing::Span;

use super::jobs::JobSite;
use crate::logic::pods::pod_lifecycle::Stage;
use crate::logic::pods::pod_worker::passes::{self, PassEnd};
use crate::platform::observer::Observation;

/// See the module.
pub(super) struct Passes {
    passes: passes::Passes,
    /// The span of the pass that is open.
    span: Span,
}

impl Default for Passes {
    fn default() -> Self {
        Self { passes: passes::Passes::default(), span: Span::none() }
    }
}

impl Passes {
    /// The span of the pass in this stage: of the one that is open, or of a new one. `is_update` when a change of the pod
    /// led to it.
    pub(super) fn enter(&mut self, site: &JobSite, stage: Stage, is_update: bool, uptime: Duration) -> Span {
        let entered = self.passes.enter(stage, is_update, uptime);
        self.tell(site, entered.ended);
        if let Some(operation) = entered.began {
            self.span = span(site, stage, operation);
        }
        self.span.clone()
    }

    /// Ends the pass that is open.
    pub(super) fn end(&mut self, site: &JobSite, uptime: Duration) {
        let ended = self.passes.end(uptime);
        self.tell(site, ended);
    }

    fn tell(&mut self, site: &JobSite, ended: Option<PassEnd>) {
        if let Some(PassEnd { operation, took }) = ended {
            self.span = Span::none();
            site.tools.observe(Observation::PassEnded { operation, took });
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
    use crate::actors::wiring::pods::worker_tools;
    use crate::logic::model::ids::{FullName, PodUid};
    use crate::server::tests::Node;

    /// POD-39.
    #[tokio::test]
    async fn each_pass_is_a_figure_by_its_operation() {
        let node = Node::plain();
        let site = JobSite {
            tools: Arc::new(worker_tools(&node.agent)),
            uid: PodUid::from("u"),
            full_name: FullName::new("web", "shop"),
            host: Default::default(),
            machine: None,
            user_namespaces: Arc::default(),
            stops: Arc::default(),
            sandbox_dns: Arc::default(),
        };
        let (mut passes, at) = (Passes::default(), Duration::from_secs);
        passes.enter(&site, Stage::Syncing, true, at(1));
        passes.enter(&site, Stage::Terminating, false, at(4));
        passes.end(&site, at(7));
        passes.end(&site, at(8));
        let text = node.metrics.all(&node.backend.sources).await.text();
        for operation in ["create", "kill"] {
            for (what, value) in [("count", 1), ("sum", 3)] {
                let series = "kubelet_pod_worker_duration_seconds";
                let line = format!("{series}_{what}{{operation_type=\"{operation}\"}} {value}");
                assert!(text.lines().any(|told| told == line), "{line} in\n{text}");
            }
        }
    }
}
