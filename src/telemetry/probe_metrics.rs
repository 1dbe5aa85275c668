//! `prober_*`: how rounds of probes went, read from `Prober` at a scrape of `/metrics/probes` (PRB-25, PAIN-29).

use std::time::Duration;

use prometheus::proto::MetricFamily;

use super::families::Family;
use crate::actors::ledger::Cause;
use crate::actors::settings::Agent;
use crate::messages::prober::{ProberMsg, ROUND_BUCKETS};

/// How long `Prober` may be waited for; a scrape without its figures is better than none.
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// A series for each container and kind of probe that there is.
pub(super) async fn families(agent: &Agent, families: &mut Vec<MetricFamily>) {
    let asked = agent.directory.prober.ask(Cause::outside("request"), ASK_LIMIT, ProberMsg::Counts).await;
    let help = "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.";
    let mut totals = Family::counter("prober_probe_total", help);
    let help = "[ALPHA] Duration in seconds for a probe response.";
    let mut lengths = Family::histogram("prober_probe_duration_seconds", help);
    for (key, counts) in asked.unwrap_or_default() {
        let kind = key.kind.to_string();
        let (name, namespace) = (&counts.full_name.name, &counts.full_name.namespace);
        let labels = |result: &'static str| {
            [
                ("container", key.container.as_str()),
                ("namespace", &**namespace),
                ("pod", &**name),
                ("pod_uid", key.uid.as_str()),
                ("probe_type", kind.as_str()),
                ("result", result),
            ]
        };
        for (result, count) in [("failed", counts.failed), ("successful", counts.successful)] {
            // As upstream, a series begins with its first round.
            if count > 0 {
                totals.sample(&labels(result), count as f64);
            }
        }
        if counts.successful > 0 {
            let [container, namespace, pod, _, kind, _] = labels("");
            let labels = [container, namespace, pod, kind];
            lengths.distribution(&labels, &ROUND_BUCKETS, &counts.lengths, counts.length.as_secs_f64());
        }
    }
    totals.finish(families);
    lengths.finish(families);
}
