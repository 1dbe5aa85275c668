//! Probes of real containers: by HTTP, by connection, by gRPC and by command.

use serde_json::json;

use crate::harness::{Node, condition, container_status};
use crate::pods::{pod, shell, then_forever, web, with};

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

/// PRB-01, PRB-09, PRB-11, PRB-17, PRB-24: a command says that the container is not alive, and it is started again.
#[test]
fn a_liveness_probe_by_a_command_restarts_its_container() {
    let Some(node) = Node::running() else { return };
    let main = with(
        shell("main", &then_forever("touch /tmp/alive")),
        json!({
            "livenessProbe": {
                "exec": { "command": ["sh", "-c", "test -e $(MARK) || { echo it is dead; exit 3; }"] },
                "initialDelaySeconds": 1, "periodSeconds": 1, "failureThreshold": 2, "timeoutSeconds": 10,
            },
            "env": [{ "name": "MARK", "value": "/tmp/alive" }],
        }),
    );
    node.apply(&pod("web", &[main]));
    let first = node.wait_running("web", "main");
    node.run_in(&first, "rm /tmp/alive");
    node.wait_for_words(&["Liveness probe failed: it is dead"]);
    node.wait_for_words(&["Container main failed liveness probe, will be restarted"]);
    let second = node.eventually("the container is started again", || {
        node.running_now("web", "main").filter(|one| one.metadata.attempt == 1)
    });
    assert_ne!(first.id, second.id);
    let shown = node.wait_shown("web", "ready", |pod| condition(pod, "Ready") == "True");
    assert_eq!(container_status(&shown, "main")["restartCount"], 1);
}

/// PRB-10, PRB-13, PRB-14, PRB-16, PRB-20: by connection and by gRPC; a server that speaks no gRPC is started again.
#[test]
fn probes_connect_and_ask_for_health() {
    let Some(node) = Node::running() else { return };
    let open = with(
        web("server"),
        json!({
            "ports": [{ "name": "http", "containerPort": 80 }],
            "startupProbe": { "tcpSocket": { "port": 80 }, "periodSeconds": 1, "failureThreshold": 60 },
            "readinessProbe": { "tcpSocket": { "port": "http" }, "periodSeconds": 3600 },
        }),
    );
    let deaf = with(
        web("server"),
        json!({ "livenessProbe": {
            "grpc": { "port": 80 }, "initialDelaySeconds": 1, "periodSeconds": 1, "failureThreshold": 1,
            "terminationGracePeriodSeconds": 1,
        } }),
    );
    node.apply(&pod("open", &[open]));
    node.apply(&pod("deaf", &[deaf]));
    // Its period is an hour: it is ready because it has just started.
    let shown = node.wait_shown("open", "ready", |pod| condition(pod, "Ready") == "True");
    assert_eq!(container_status(&shown, "server")["started"], true);
    node.wait_for_words(&["Liveness probe failed: ", "failed to connect service"]);
    node.eventually("the container is started again", || {
        node.running_now("deaf", "server").filter(|one| one.metadata.attempt > 0)
    });
}

/// PRB-10, PRB-14, PRB-15: a server that speaks gRPC is asked for its health, and what it says counts.
#[test]
fn a_grpc_server_is_asked_for_its_health() {
    let Some(node) = Node::running() else { return };
    let grpc = |more: serde_json::Value| with(json!({ "grpc": { "port": 5000 }, "periodSeconds": 1 }), more);
    let server = with(
        shell("server", "exec /bin/grpc-health 5000 /tmp/status"),
        json!({
            "startupProbe": grpc(json!({ "failureThreshold": 600 })),
            "readinessProbe": grpc(json!({ "grpc": { "service": "readiness" }, "failureThreshold": 1 })),
        }),
    );
    node.apply(&pod("health", &[server]));
    let container = node.wait_running("health", "server");
    node.wait_for_words(&["Startup probe failed: error: this server does not implement the grpc health protocol"]);
    let mut shown = node.shown("health").expect("is there");
    assert_eq!(container_status(&shown, "server")["started"], false);
    for (status, ready) in [("1", "True"), ("2", "False"), ("1", "True")] {
        node.run_in(&container, &format!("echo {status} >/tmp/status"));
        shown = node.wait_shown("health", ready, |pod| condition(pod, "Ready") == ready);
        assert_eq!(container_status(&shown, "server")["started"], true);
    }
    node.wait_for_words(&["Readiness probe failed: service unhealthy (responded with \\\"NOT_SERVING\\\")"]);
    assert_eq!(container_status(&shown, "server")["restartCount"], 0);
    assert_eq!(node.running_now("health", "server").map(|one| one.id), Some(container.id));
}

/// SEC-45: whom the agent's environment names as a proxy is asked by no probe: here there is none, and the probe succeeds.
#[test]
fn a_proxy_of_the_environment_is_not_for_probes() {
    let Some(mut node) = Node::new() else { return };
    // Nobody listens there.
    let nobody = "http://127.0.0.1:9".to_owned();
    let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    node.variables.extend(names.map(|name| (name, nobody.clone())));
    node.start_agent();
    let probe = json!({ "httpGet": { "path": "/healthz", "port": 80 }, "periodSeconds": 1 });
    node.apply(&pod("web", &[with(web("server"), json!({ "readinessProbe": probe }))]));
    node.wait_shown("web", "ready", |pod| condition(pod, "Ready") == "True");
}
