//! `kubelet_volume_stats_*` of volumes that come from claims, and what statistics cost the node (PAIN-05, PAIN-40).

use std::time::Duration;

use prometheus::proto::MetricFamily;

use crate::actors::kit::trace::Cause;
use crate::logic::statistics::summary::FsStats;
use crate::messages::stats_collector::{Cost, StatsCollectorMsg};
use crate::telemetry::registry::families::Family;
use crate::telemetry::sources::Sources;

/// How long the figures may be waited for; a scrape without them is better than none.
const ASK_LIMIT: Duration = Duration::from_secs(2);

type OfCost = fn(&Cost) -> f64;
type OfVolume = fn(&FsStats) -> Option<u64>;

/// Each gauge of a claim's volume.
const VOLUMES: [(&str, &str, OfVolume); 6] = [
    ("kubelet_volume_stats_available_bytes", "[ALPHA] Number of available bytes in the volume", |space| {
        space.available_bytes
    }),
    ("kubelet_volume_stats_capacity_bytes", "[ALPHA] Capacity in bytes of the volume", |space| space.capacity_bytes),
    ("kubelet_volume_stats_inodes", "[ALPHA] Maximum number of inodes in the volume", |space| space.inodes),
    ("kubelet_volume_stats_inodes_free", "[ALPHA] Number of free inodes in the volume", |space| space.inodes_free),
    ("kubelet_volume_stats_inodes_used", "[ALPHA] Number of used inodes in the volume", |space| space.inodes_used),
    ("kubelet_volume_stats_used_bytes", "[ALPHA] Number of used bytes in the volume", |space| space.used_bytes),
];

/// All families, as `StatsCollector` knows them; none when it does not answer.
pub(in crate::telemetry) async fn families(sources: &Sources, into: &mut Vec<MetricFamily>) {
    let cause = Cause::outside("request");
    let asked = sources.directory.stats_collector.ask(cause, ASK_LIMIT, StatsCollectorMsg::Report).await;
    let Ok(report) = asked else { return };
    for (name, help, value) in VOLUMES {
        let mut family = Family::gauge(name, help);
        for (claim, space) in &report.claims {
            let labels = [("namespace", claim.namespace.as_str()), ("persistentvolumeclaim", &claim.name)];
            if let Some(value) = value(space) {
                family.sample(&labels, value as f64);
            }
        }
        family.finish(into);
    }
    let mut costs: Vec<(&str, Cost)> = report.looks.into_iter().collect();
    costs.push(("walks", report.walks));
    let families: [(&str, &str, OfCost); 3] = [
        (
            "podwright_statistics_total",
            "Looks at statistics and walks through directories, by what they were for.",
            |cost| cost.count as f64,
        ),
        ("podwright_statistics_seconds_total", "How long they took, in seconds.", |cost| cost.took.as_secs_f64()),
        (
            "podwright_statistics_cpu_seconds_total",
            "Processor time that reading took, in seconds; of walks it is not told apart.",
            |cost| cost.cpu.as_secs_f64(),
        ),
    ];
    for (name, help, value) in families {
        let mut family = Family::counter(name, help);
        for (what, cost) in &costs {
            family.sample(&[("for", what)], value(cost));
        }
        family.finish(into);
    }
}
