//! Probes over HTTP against a real web server in a pod.

use serde_json::json;

use crate::harness::{Node, condition, container_status};
use crate::pods::{pod, web, with};
use crate::restarts::another;

/// PRB-01, PRB-05, PRB-06, PRB-12, PRB-15, PRB-16, PRB-19: a named port, the pod's own address, and back again.
#[test]
fn a_readiness_probe_decides_whether_a_pod_is_ready() {
    let Some(node) = Node::running() else { return };
    let server = with(
        web("server"),
        json!({
            "ports": [{ "name": "http", "containerPort": 80 }],
            "readinessProbe": { "httpGet": { "path": "/ready", "port": "http" }, "periodSeconds": 1, "failureThreshold": 2 },
        }),
    );
    node.apply(&pod("web", &[server]));
    let container = node.wait_running("web", "server");
    let shown = node.wait_shown("web", "running", |pod| pod["status"]["phase"] == "Running");
    assert_eq!(condition(&shown, "Ready"), "False");
    node.wait_for_words(&["Readiness probe failed: HTTP probe failed with statuscode: 404"]);
    for (script, ready) in
        [("echo ok >/www/ready", "True"), ("rm /www/ready", "False"), ("echo ok >/www/ready", "True")]
    {
        node.run_in(&container, script);
        let shown = node.wait_shown("web", ready, |pod| condition(pod, "Ready") == ready);
        assert_eq!(condition(&shown, "ContainersReady"), ready);
        assert_eq!(container_status(&shown, "server")["ready"], ready == "True");
        assert_eq!(container_status(&shown, "server")["restartCount"], 0);
    }
    assert_eq!(node.running_now("web", "server").map(|one| one.id), Some(container.id));
}

/// PRB-17: a liveness probe that fails has the container killed and started again.
#[test]
fn a_failing_liveness_probe_restarts_the_container() {
    let Some(node) = Node::running() else { return };
    let probe = json!({ "httpGet": { "path": "/healthz", "port": 80 }, "periodSeconds": 1, "failureThreshold": 2 });
    node.apply(&pod("web", &[with(web("server"), json!({ "livenessProbe": probe }))]));
    let container = node.wait_running("web", "server");
    node.run_in(&container, "rm /www/healthz");
    let back = another(&node, "web", &container);
    assert_eq!(back.metadata.attempt, 1);
    node.wait_for_words(&["Container server failed liveness probe, will be restarted"]);
    node.wait_shown("web", "restarted", |pod| container_status(pod, "server")["restartCount"] == 1);
}

/// PRB-10: until the startup probe succeeds, the container is not started and its liveness is not asked.
#[test]
fn a_startup_probe_holds_the_other_probes_back() {
    let Some(node) = Node::running() else { return };
    let get = |path: &str| json!({ "path": path, "port": 80 });
    let server = with(
        web("server"),
        json!({
            "startupProbe": { "httpGet": get("/started"), "periodSeconds": 1, "failureThreshold": 1000 },
            "livenessProbe": { "httpGet": get("/alive"), "periodSeconds": 1, "failureThreshold": 1 },
            "readinessProbe": { "httpGet": get("/healthz"), "periodSeconds": 1 },
        }),
    );
    node.apply(&pod("web", &[server]));
    let container = node.wait_running("web", "server");
    node.wait_for_words(&["Startup probe failed"]);
    let shown = node.shown("web").unwrap();
    assert_eq!(container_status(&shown, "server")["started"], false);
    assert_eq!(condition(&shown, "Ready"), "False");
    assert!(!node.log().contains("Liveness probe failed"));

    node.run_in(&container, "echo >/www/alive; echo >/www/started");
    let shown = node.wait_shown("web", "ready", |pod| condition(pod, "Ready") == "True");
    assert_eq!(container_status(&shown, "server")["started"], true);
    assert_eq!(container_status(&shown, "server")["restartCount"], 0);
}
