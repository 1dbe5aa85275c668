//! Probes over HTTP against a real web server in a pod.

use serde_json::json;

use crate::harness::{Node, condition, container_status};
use crate::pods::{pod, web, with};

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
