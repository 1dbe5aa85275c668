//! The metrics of a running agent: what `promtool` thinks of every endpoint, and that a pod's life is counted (POD-39).

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use podwright::testing::skips::needs;
use serde_json::json;

use crate::harness::{Node, http_get};
use crate::pods::{forever, pod, with};

/// Lint findings that upstream's own names cause, as `promtool check metrics` words them; reviewed one by one.
const UPSTREAMS: &[&str] = &[
    "cadvisor_version_info label names should be written in 'snake_case' not 'camelCase'",
    "container_fs_inodes_total non-counter metrics should not have \"_total\" suffix",
    "container_memory_failcnt counter metrics should have \"_total\" suffix",
    "kubelet_certificate_manager_client_expiration_renew_errors counter metrics should have \"_total\" suffix",
    "kubelet_cpu_manager_exclusive_cpu_allocation_count non-histogram and non-summary metrics should not have \"_count\" suffix",
    "kubelet_evented_pleg_connection_error_count counter metrics should have \"_total\" suffix",
    "kubelet_evented_pleg_connection_error_count non-histogram and non-summary metrics should not have \"_count\" suffix",
    "kubelet_evented_pleg_connection_success_count counter metrics should have \"_total\" suffix",
    "kubelet_evented_pleg_connection_success_count non-histogram and non-summary metrics should not have \"_count\" suffix",
    "kubelet_evictions counter metrics should have \"_total\" suffix",
    "kubelet_pleg_discard_events counter metrics should have \"_total\" suffix",
    "kubelet_pod_resize_duration_milliseconds use base unit \"seconds\" instead of \"milliseconds\"",
    "kubelet_preemptions counter metrics should have \"_total\" suffix",
    "kubelet_server_expiration_renew_errors counter metrics should have \"_total\" suffix",
    "kubelet_topology_manager_admission_duration_ms metric names should not contain abbreviated units",
];

/// The answer of an endpoint, once the agent is not too busy to; `None` where there is no such one.
fn try_scrape(node: &Node, path: &str) -> Option<String> {
    let address = format!("127.0.0.1:{}", node.named("READ_ONLY_PORT"));
    node.eventually(&format!("{path} is answered"), || match http_get(&address, path)? {
        (200, text) => Some(Some(text)),
        (404, _) => Some(None),
        (503, _) => None,
        (status, text) => panic!("{path}: {status}: {text}"),
    })
}

/// The answer of an endpoint that every agent has.
pub fn scrape(node: &Node, path: &str) -> String {
    try_scrape(node, path).unwrap_or_else(|| panic!("there is no {path}"))
}

/// OBS-01, OBS-02, SRV-26.
#[test]
fn promtool_finds_nothing_but_upstreams_own_names() {
    if Command::new("promtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        return needs("promtool");
    }
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main")]));
    node.wait_running("web", "main");
    let mut checked = 0;
    for path in ["/metrics", "/metrics/probes", "/metrics/slis", "/metrics/resource", "/metrics/cadvisor"] {
        let Some(text) = try_scrape(&node, path) else { continue }; // Not served by this version.
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it was there");
        promtool.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        let said = promtool.wait_with_output().expect("it ends");
        let words = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
        // Status 3 is for lint; anything else but success means that the text cannot be read.
        assert!(matches!(said.status.code(), Some(0 | 3)), "{path}: {words}");
        let own: BTreeSet<&str> = words.lines().filter(|line| !line.is_empty() && !UPSTREAMS.contains(line)).collect();
        assert!(own.is_empty(), "{path}: {own:#?}");
        checked += 1;
    }
    assert!(checked >= 3);
}

/// The value of a series, all its labels given in order of their names.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// POD-39.
#[test]
fn a_pods_life_is_counted_from_its_worker_to_its_end() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main")]));
    node.wait_running("web", "main");
    let wanted = [
        ("kubelet_desired_pods{static=\"true\"}", 1.0),
        ("kubelet_active_pods{static=\"true\"}", 1.0),
        ("kubelet_working_pods{config=\"desired\",lifecycle=\"sync\",static=\"true\"}", 1.0),
        ("kubelet_working_pods{config=\"runtime_only\",lifecycle=\"sync\",static=\"unknown\"}", 0.0),
        ("kubelet_running_pods", 1.0),
        ("kubelet_running_containers{container_state=\"running\"}", 1.0),
        ("kubelet_started_pods_total", 1.0),
        ("kubelet_started_pods_errors_total", 0.0),
        ("kubelet_started_containers_total{container_type=\"container\"}", 1.0),
        ("kubelet_containers_per_pod_count_count", 1.0),
        ("kubelet_pod_worker_start_duration_seconds_count", 1.0),
        ("kubelet_pod_start_duration_seconds_count", 1.0),
        ("kubelet_pod_worker_duration_seconds_count{operation_type=\"create\"}", 1.0),
        ("kubelet_run_podsandbox_duration_seconds_count{runtime_handler=\"\"}", 1.0),
        ("kubelet_orphaned_runtime_pods_total", 0.0),
    ];
    node.eventually("the metrics of a pod that runs", || {
        let text = scrape(&node, "/metrics");
        let wrong: Vec<_> = wanted.iter().filter(|(series, count)| value(&text, series) != Some(*count)).collect();
        if wrong.is_empty() { Some(()) } else { None }
    });
    let text = scrape(&node, "/metrics");
    assert!(value(&text, "kubelet_pod_start_duration_seconds_sum").is_some_and(|sum| sum > 0.0));
    assert!(value(&text, "kubelet_cgroup_manager_duration_seconds_count{operation_type=\"create\"}").is_some());
    node.delete("web");
    node.wait_gone("web");
    let gone = [
        ("kubelet_desired_pods{static=\"true\"}", 0.0),
        ("kubelet_working_pods{config=\"desired\",lifecycle=\"sync\",static=\"true\"}", 0.0),
        ("kubelet_running_pods", 0.0),
    ];
    node.eventually("the metrics of a pod that is gone", || {
        let text = scrape(&node, "/metrics");
        let all = gone.iter().all(|(series, count)| value(&text, series) == Some(*count));
        let ends = ["kill", "terminated"].map(|operation| {
            let series = format!("kubelet_pod_worker_duration_seconds_count{{operation_type=\"{operation}\"}}");
            value(&text, &series).is_some_and(|count| count >= 1.0)
        });
        (all && ends == [true, true]).then_some(())
    });
}

/// OBS-35, SEC-40: no log line, metric, Event, explanation or trace has what a pod is given in confidence, however verbose
/// the agent is.
#[test]
fn sec_40_nothing_secret_is_told_at_the_highest_verbosity() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({"logging": {"verbosity": 10}}));
    node.flags.push("--manifest-url-header=Authorization:Bearer marked-header-4711".to_owned());
    node.start_agent();
    let environment = json!({"env": [{"name": "TOKEN", "value": "marked-environment-4711"}]});
    node.apply(&pod("web", &[with(forever("main"), environment)]));
    let container = node.wait_running("web", "main");
    assert_eq!(node.run_in(&container, "echo $TOKEN").trim(), "marked-environment-4711", "the pod has it");
    let explained = node.eventually("the agent explains", || crate::node::agent::explain(&node, "default/web-node1"));
    let metrics = scrape(&node, "/metrics");
    let actors = node.answer(&["actors"]).to_string();
    node.delete("web");
    node.wait_gone("web");
    let trace = node.answer(&["trace"]).to_string();
    assert!(trace.contains("PodWorker"), "{trace}");
    let log = node.log();
    assert!(log.contains("FLAG: --manifest-url-header"), "flags are shown from verbosity 1 on");
    let explained = explained.to_string();
    for (what, text) in
        [("log", log), ("metrics", metrics), ("explanation", explained), ("actors", actors), ("trace", trace)]
    {
        assert!(!text.contains("marked-"), "in the {what}: {:?}", text.lines().find(|line| line.contains("marked-")));
    }
}
