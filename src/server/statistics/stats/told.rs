//! `/metrics/cadvisor` where the runtime tells of pods (gate `PodAndContainerStatsFromCRI`).

use std::time::Duration;

use futures_util::future::join;

use super::snapshot;
use crate::cri::{CriResult, Metric, MetricDescriptor, PodSandboxMetrics, RuntimeService};
use crate::logic::statistics::cadvisor::told::{Description, Descriptions, ToldSample, told_page};
use crate::logic::statistics::exposition::Kind;
use crate::logic::statistics::sample::Wanted;
use crate::server::backend::Backend;

/// How long the runtime may take to tell its metrics.
const RUNTIME_LIMIT: Duration = Duration::from_secs(10);

/// The families of the page. As upstream, a runtime that fails costs its own metrics alone. It is asked for their
/// descriptions each time, because it may be another one by now.
pub(super) async fn families(backend: &Backend) -> Result<Box<dyn Iterator<Item = String> + Send>, String> {
    let snapshot = snapshot(backend, Wanted::MACHINE).await?;
    let (described, told) = match tokio::time::timeout(RUNTIME_LIMIT, metrics(&*backend.runtime)).await {
        Ok(Ok((described, told))) => (descriptions(described), samples(told)),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the runtime does not tell its metrics");
            Default::default()
        }
        Err(_) => {
            tracing::warn!(limit = ?RUNTIME_LIMIT, "the runtime does not tell its metrics in time");
            Default::default()
        }
    };
    Ok(told_page(described, told, &snapshot))
}

async fn metrics(runtime: &dyn RuntimeService) -> CriResult<(Vec<MetricDescriptor>, Vec<PodSandboxMetrics>)> {
    let (described, told) = join(runtime.list_metric_descriptors(), runtime.list_pod_sandbox_metrics()).await;
    Ok((described?, told?))
}

fn descriptions(told: Vec<MetricDescriptor>) -> Descriptions {
    let described = told.into_iter().map(|one| (one.name, Description { help: one.help, labels: one.label_keys }));
    described.collect()
}

/// Of sandboxes and of their containers.
fn samples(told: Vec<PodSandboxMetrics>) -> Vec<ToldSample> {
    let all = told.into_iter().flat_map(|pod| {
        let of_containers = pod.containers.into_iter().flat_map(|(_, metrics)| metrics);
        pod.metrics.into_iter().chain(of_containers)
    });
    all.map(sample).collect()
}

fn sample(told: Metric) -> ToldSample {
    let kind = if told.gauge { Kind::Gauge } else { Kind::Counter };
    let value = told.value.unwrap_or(0);
    ToldSample { name: told.name, kind, labels: told.label_values, value, at: told.timestamp }
}
