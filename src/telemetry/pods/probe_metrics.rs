//! `prober_*`: how rounds of probes went, read from `Prober` at a scrape of `/metrics/probes` (PRB-25, PAIN-29).

use std::time::Duration;

use prometheus::proto::MetricFamily;

use crate::actors::kit::trace::Cause;
use crate::messages::prober::{ProbeCounts, ProbeKey, ProberMsg};
use crate::telemetry::registry::families::{Family, SECOND};
use crate::telemetry::sources::Sources;

/// How long `Prober` may be waited for; a scrape without its figures is better than none.
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// A series for each container and kind of probe that there is.
pub(in crate::telemetry) async fn families(sources: &Sources, families: &mut Vec<MetricFamily>) {
    let asked = sources.directory.prober.ask(Cause::outside("request"), ASK_LIMIT, ProberMsg::Counts).await;
    add_families(asked.unwrap_or_default(), families);
}

fn add_families(all: Vec<(ProbeKey, ProbeCounts)>, families: &mut Vec<MetricFamily>) {
    let help = "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.";
    let mut totals = Family::counter("prober_probe_total", help);
    let help = "[ALPHA] Duration in seconds for a probe response.";
    let mut lengths = Family::histogram("prober_probe_duration_seconds", help);
    for (key, counts) in all {
        let kind = key.kind.to_string();
        let (name, namespace) = (&counts.full_name.name, &counts.full_name.namespace);
        let labels = |result: &'static str| {
            [
                ("container", &*key.container),
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
            lengths.distribution(&labels, &counts.lengths, SECOND);
        }
    }
    totals.finish(families);
    lengths.finish(families);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::ids::{FullName, PodUid};
    use crate::logic::probes::probe_kind::ProbeKind;
    use crate::logic::probes::probe_schedule::ProbeOutcome;

    /// PRB-25, OBS-18: a round that could not be made is none, and only those that went well have a length.
    #[test]
    fn rounds_are_counted_by_result() {
        let key = ProbeKey { uid: PodUid::from("u"), container: "main".into(), kind: ProbeKind::Liveness };
        let mut counts = ProbeCounts::of(FullName::new("web", "ns"));
        for (outcome, milliseconds) in [
            (ProbeOutcome::Success, 5),
            (ProbeOutcome::Success, 60_000),
            (ProbeOutcome::Failure, 1),
            (ProbeOutcome::Errored, 1),
        ] {
            counts.note(outcome, Duration::from_millis(milliseconds));
        }
        let mut families = vec![];
        add_families(vec![(key, counts)], &mut families);
        let text = crate::telemetry::registry::exposition::Exposition::new(families).text();
        let all = "container=\"main\",namespace=\"ns\",pod=\"web\"";
        for line in [
            format!("prober_probe_total{{{all},pod_uid=\"u\",probe_type=\"Liveness\",result=\"failed\"}} 1"),
            format!("prober_probe_total{{{all},pod_uid=\"u\",probe_type=\"Liveness\",result=\"successful\"}} 2"),
            format!("prober_probe_duration_seconds_bucket{{{all},probe_type=\"Liveness\",le=\"0.005\"}} 1"),
            format!("prober_probe_duration_seconds_bucket{{{all},probe_type=\"Liveness\",le=\"10\"}} 1"),
            format!("prober_probe_duration_seconds_count{{{all},probe_type=\"Liveness\"}} 2"),
            format!("prober_probe_duration_seconds_sum{{{all},probe_type=\"Liveness\"}} 60.005"),
        ] {
            assert!(text.lines().any(|told| told == line), "{line} in\n{text}");
        }
        assert!(!text.contains("unknown"));
    }
}
