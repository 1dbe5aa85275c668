//! Tests of `resource_metrics`: the whole text.

use super::text;
use crate::logic::statistics::build::tests::snapshot;
use crate::testing::upstream_metrics::differences;

/// OBS-17.
#[test]
fn the_whole_set_with_the_times_of_measurement() {
    let told = text(Some(&snapshot()));
    let expected = [
        "# TYPE container_cpu_usage_seconds_total counter",
        "container_cpu_usage_seconds_total{container=\"web\",namespace=\"ns\",pod=\"p\"} 1 1767323045600",
        "container_memory_working_set_bytes{container=\"side\",namespace=\"ns\",pod=\"p\"} 900 1767323045600",
        "container_start_time_seconds{container=\"web\",namespace=\"ns\",pod=\"p\"} 1767323000.2499998",
        "container_swap_limit_bytes{container=\"web\",namespace=\"ns\",pod=\"p\"} 100 1767323045600",
        "container_swap_usage_bytes{container=\"web\",namespace=\"ns\",pod=\"p\"} 10 1767323045600",
        "node_cpu_usage_seconds_total 4 1767323045600",
        "node_memory_working_set_bytes 3600 1767323045600",
        "node_swap_usage_bytes 10 1767323045600",
        "pod_cpu_usage_seconds_total{namespace=\"ns\",pod=\"p\"} 2 1767323045600",
        "pod_memory_working_set_bytes{namespace=\"ns\",pod=\"p\"} 1800 1767323045600",
        "pod_swap_usage_bytes{namespace=\"ns\",pod=\"p\"} 10 1767323045600",
        "resource_scrape_error 0",
    ];
    for line in expected {
        assert!(told.lines().any(|told| told == line), "{line}\nis not in\n{told}");
    }
    let families = told.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next());
    let families: Vec<&str> = families.collect();
    let mut sorted = families.clone();
    sorted.sort_unstable();
    assert_eq!(families, sorted);
    assert_eq!(families.len(), 12);
    for level in told.lines().filter(|line| line.starts_with("# HELP")) {
        assert!(level.contains("[STABLE]") || level.contains("[ALPHA]"), "{level}");
    }
}

/// OBS-17: as a scrape of upstream's kubelet has it.
#[test]
fn the_set_is_upstreams() {
    assert_eq!(differences("/metrics/resource", &text(Some(&snapshot())), &[]), [""; 0]);
}

#[test]
fn an_error_is_told_as_such() {
    let told = text(None);
    let samples: Vec<&str> = told.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(samples, ["resource_scrape_error 1"]);
}
