//! `kubelet_volume_stats_*` of volumes that come from claims, logs of containers, and what statistics cost the node
//! (PAIN-05, PAIN-40).

use std::time::Duration;

use prometheus::proto::MetricFamily;

use crate::actors::kit::trace::Cause;
use crate::logic::statistics::sample::{Snapshot, Wanted};
use crate::logic::statistics::summary::{ClaimReference, FsStats, VolumeStats};
use crate::messages::stats_collector::{Cost, StatsCollectorMsg};
use crate::telemetry::registry::families::Family;
use crate::telemetry::sources::Sources;

/// The age up to which another asker's figures of logs will do: eviction has looked by then.
const AGE_MAX: Duration = Duration::from_secs(10);
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
    let get = |reply| StatsCollectorMsg::Get { wanted: Wanted::NODE, age_max: AGE_MAX, reply };
    if let Ok(Ok(snapshot)) = sources.directory.stats_collector.ask(cause.clone(), ASK_LIMIT, get).await {
        of_logs(&snapshot, into);
    }
    let asked = sources.directory.stats_collector.ask(cause, ASK_LIMIT, StatsCollectorMsg::Report).await;
    let Ok(report) = asked else { return };
    of_claims(&report.claims, into);
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
    let help = "Running containers without a control group, of which there are no statistics, at the last look.";
    let mut family = Family::gauge("podwright_containers_without_cgroup", help);
    family.sample(&[], report.groupless as f64);
    family.finish(into);
}

fn of_logs(snapshot: &Snapshot, into: &mut Vec<MetricFamily>) {
    let help = "[ALPHA] Bytes used by the container's logs on the filesystem.";
    let mut family = Family::gauge("kubelet_container_log_filesystem_used_bytes", help);
    for pod in &snapshot.sample.pods {
        for container in &pod.containers {
            let Some(logs) = &container.logs else { continue };
            let labels = [
                ("uid", pod.uid.as_str()),
                ("namespace", pod.namespace.as_str()),
                ("pod", pod.name.as_str()),
                ("container", container.name.as_str()),
            ];
            family.sample(&labels, logs.bytes as f64);
        }
    }
    family.finish(into);
}

fn of_claims(claims: &[(ClaimReference, VolumeStats)], into: &mut Vec<MetricFamily>) {
    let mut family_of = |name, help, value: &dyn Fn(&VolumeStats) -> Option<f64>| {
        let mut family = Family::gauge(name, help);
        for (claim, stats) in claims {
            let labels = [("namespace", claim.namespace.as_str()), ("persistentvolumeclaim", &claim.name)];
            if let Some(value) = value(stats) {
                family.sample(&labels, value);
            }
        }
        family.finish(into);
    };
    for (name, help, value) in VOLUMES {
        family_of(name, help, &|stats| value(&stats.space).map(|value| value as f64));
    }
    let help = "[ALPHA] Abnormal volume health status. The count is either 1 or 0. 1 indicates the volume is unhealthy, 0 \
                indicates volume is healthy";
    let abnormal = |stats: &VolumeStats| stats.health.map(|health| if health.abnormal { 1.0 } else { 0.0 });
    family_of("kubelet_volume_stats_health_status_abnormal", help, &abnormal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::statistics::summary::VolumeHealth;

    /// VOL-49: a volume whose driver tells its condition has one, 0 where all is well.
    #[test]
    fn claims_have_upstreams_gauges() {
        let claim = |name: &str, abnormal: Option<bool>| {
            let space = FsStats { capacity_bytes: Some(100), used_bytes: Some(40), ..FsStats::default() };
            let health = abnormal.map(|abnormal| VolumeHealth { abnormal });
            let reference = ClaimReference { name: name.to_owned(), namespace: "ns".to_owned() };
            (reference, VolumeStats { space, health, ..VolumeStats::default() })
        };
        let mut families = vec![];
        of_claims(&[claim("bad", Some(true)), claim("good", Some(false)), claim("plain", None)], &mut families);
        let text = prometheus::TextEncoder::new().encode_to_string(&families).expect("families");
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let of = |name: &str, claim: &str, value: u64| {
            format!("kubelet_volume_stats_{name}{{namespace=\"ns\",persistentvolumeclaim=\"{claim}\"}} {value}")
        };
        let all = ["bad", "good", "plain"];
        let mut expected: Vec<String> = all.iter().map(|claim| of("capacity_bytes", claim, 100)).collect();
        expected.extend(all.iter().map(|claim| of("used_bytes", claim, 40)));
        expected.extend([of("health_status_abnormal", "bad", 1), of("health_status_abnormal", "good", 0)]);
        assert_eq!(samples, expected);
    }

    /// Upstream's gauge of each container whose log files were looked at.
    #[test]
    fn logs_of_containers_have_upstreams_gauge() {
        let snapshot = crate::logic::statistics::build::tests::snapshot();
        let mut families = vec![];
        of_logs(&snapshot, &mut families);
        let text = prometheus::TextEncoder::new().encode_to_string(&families).expect("families");
        let line =
            r#"kubelet_container_log_filesystem_used_bytes{uid="u1",namespace="ns",pod="p",container="web"} 8192"#;
        assert!(text.lines().any(|told| told == line), "{text}");
    }
}
