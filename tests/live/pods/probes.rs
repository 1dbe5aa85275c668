//! Probes of real containers: by HTTP, by connection, by gRPC and by command.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{AGENT, NODE_NAME, Node, condition, container_status, http_get};
use crate::pods::{forever, pod, shell, then_forever, web, with};

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
    let shown = node.wait_listed("web", "running", |pod| pod["status"]["phase"] == "Running");
    assert_eq!(condition(&shown, "Ready"), "False");
    node.wait_for_words(&["Readiness probe failed: HTTP probe failed with statuscode: 404"]);
    for (script, ready) in
        [("echo ok >/www/ready", "True"), ("rm /www/ready", "False"), ("echo ok >/www/ready", "True")]
    {
        node.run_in(&container, script);
        let shown = node.wait_listed("web", ready, |pod| condition(pod, "Ready") == ready);
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
    let shown = node.wait_listed("web", "ready", |pod| condition(pod, "Ready") == "True");
    assert_eq!(container_status(&shown, "main")["restartCount"], 1);
}

/// PRB-03, PRB-10, PRB-13, PRB-14, PRB-16, PRB-20: by connection and by gRPC; a server that speaks no gRPC is started again.
#[test]
fn probes_connect_and_ask_for_health() {
    let Some(node) = Node::running() else { return };
    let open = with(
        web("server"),
        json!({
            "ports": [{ "name": "http", "containerPort": 80 }],
            "startupProbe": { "tcpSocket": { "port": 80 }, "periodSeconds": 1, "failureThreshold": 60 },
            "readinessProbe": { "tcpSocket": { "port": "http" }, "periodSeconds": 3600, "timeoutSeconds": 30 },
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
    let shown = node.wait_listed("open", "ready", |pod| condition(pod, "Ready") == "True");
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
    let grpc = |more: serde_json::Value| {
        with(json!({ "grpc": { "port": 5000 }, "periodSeconds": 1, "timeoutSeconds": 30 }), more)
    };
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
    let mut shown = node.wait_listed("health", "at all", |_| true);
    assert_eq!(container_status(&shown, "server")["started"], false);
    for (status, ready) in [("1", "True"), ("2", "False"), ("1", "True")] {
        node.run_in(&container, &format!("echo {status} >/tmp/status"));
        shown = node.wait_listed("health", ready, |pod| condition(pod, "Ready") == ready);
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
    node.wait_listed("web", "ready", |pod| condition(pod, "Ready") == "True");
}

/// The agent's metrics of probes, once it answers.
fn probe_metrics(node: &Node) -> Option<String> {
    let address = format!("127.0.0.1:{}", node.named("READ_ONLY_PORT"));
    http_get(&address, "/metrics/probes").filter(|(status, _)| *status == 200).map(|(_, metrics)| metrics)
}

/// How many rounds there were of this kind of probe of the pod with this result.
fn rounds(node: &Node, pod: &str, kind: &str, result: &str) -> u32 {
    let pod = format!("pod=\"{pod}-{NODE_NAME}\"");
    let wanted = [pod, format!("probe_type=\"{kind}\""), format!("result=\"{result}\"")];
    let metrics = probe_metrics(node).unwrap_or_default();
    let mut lines = metrics.lines().filter(|line| line.starts_with("prober_probe_total{"));
    let line = lines.find(|line| wanted.iter().all(|label| line.contains(label.as_str())));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}

/// PRB-02, PRB-04, PRB-22, PRB-25: what a manifest leaves out has the API's defaults; a delay counts from the container's
/// start; a pod that is over is asked nothing and told of no more.
#[test]
fn probes_have_their_defaults_their_delay_and_their_end() {
    let Some(node) = Node::running() else { return };
    let plain = with(web("server"), json!({ "readinessProbe": { "httpGet": { "port": 80 } } }));
    node.apply(&pod("plain", &[plain]));
    let ready = json!({ "exec": { "command": ["true"] }, "periodSeconds": 1, "timeoutSeconds": 30 });
    let late =
        with(forever("main"), json!({ "readinessProbe": with(ready.clone(), json!({ "initialDelaySeconds": 5 })) }));
    node.apply(&pod("late", &[late]));
    let brief = with(shell("main", "sleep 20"), json!({ "readinessProbe": ready }));
    node.apply(&with(pod("brief", &[brief]), json!({ "spec": { "restartPolicy": "Never" } })));

    node.eventually("the probe of the brief pod is told", || {
        (rounds(&node, "brief", "Readiness", "successful") > 0).then_some(())
    });
    let metrics = node.eventually("the agent answers", || probe_metrics(&node));
    assert!(metrics.contains("prober_probe_duration_seconds_count{"));
    let shown = node.wait_listed("plain", "ready", |pod| condition(pod, "Ready") == "True");
    let expected = json!({
        "httpGet": { "path": "/", "port": 80, "scheme": "HTTP" },
        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
    });
    assert_eq!(shown["spec"]["containers"][0]["readinessProbe"], expected);

    let shown = node.wait_listed("late", "ready", |pod| condition(pod, "Ready") == "True");
    let moment = |text: &Value| text.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok()).expect("a time");
    let started = moment(&container_status(&shown, "main")["state"]["running"]["startedAt"]);
    let conditions = shown["status"]["conditions"].as_array().expect("a list");
    let became = conditions.iter().find(|one| one["type"] == "Ready").map(|one| moment(&one["lastTransitionTime"]));
    assert!(became.expect("it is ready").duration_since(started).as_secs() >= 5, "{shown}");

    node.wait_listed("brief", "over", |pod| pod["status"]["phase"] == "Succeeded");
    node.eventually("nothing is told of the brief pod's probes", || {
        let metrics = probe_metrics(&node)?;
        (!metrics.contains(&format!("pod=\"brief-{NODE_NAME}\""))).then_some(())
    });
}

/// PRB-06, PRB-07: only failures in a row count, and a probe that cannot be made is none.
#[test]
fn what_fails_now_and_then_or_cannot_be_asked_is_left_alone() {
    let Some(node) = Node::running() else { return };
    let every_other = "if [ -e /tmp/odd ]; then rm /tmp/odd; exit 1; fi; touch /tmp/odd";
    let fickle = with(
        forever("main"),
        json!({ "livenessProbe": {
            "exec": { "command": ["sh", "-c", every_other] },
            "periodSeconds": 1, "timeoutSeconds": 30, "failureThreshold": 2,
        } }),
    );
    node.apply(&pod("fickle", &[fickle]));
    let nowhere = json!({ "httpGet": { "port": "nowhere" }, "periodSeconds": 1, "failureThreshold": 1 });
    node.apply(&pod("nowhere", &[with(web("server"), json!({ "livenessProbe": nowhere }))]));
    node.eventually("the one fails now and then", || {
        let counts = ["failed", "successful"].map(|result| rounds(&node, "fickle", "Liveness", result));
        counts.iter().all(|count| *count >= 4).then_some(())
    });
    let errors = || node.log().matches("Liveness probe errored and resulted in unknown state").count();
    node.eventually("the other cannot be asked", || (errors() >= 3).then_some(()));
    for (name, container) in [("fickle", "main"), ("nowhere", "server")] {
        let shown = node.wait_listed(name, "ready", |pod| condition(pod, "Ready") == "True");
        assert_eq!(container_status(&shown, container)["restartCount"], 0);
    }
}

/// PRB-09: a container that is to end for its probe is asked nothing more, and neither is one that has started whether it has.
#[test]
fn a_probe_that_has_decided_rests() {
    let Some(node) = Node::running() else { return };
    let asked = |name: &str, code: u8| {
        json!({
            "exec": { "command": ["sh", "-c", format!("echo x >>/kept/{name}; exit {code}")] },
            "periodSeconds": 1, "timeoutSeconds": 30, "failureThreshold": 1,
        })
    };
    // Goes on for some seconds after it was asked to end; its next instance tells how often each was asked by then.
    let script = "wc -l /kept/* 2>/dev/null; trap 'sleep 4; exit 0' TERM; while :; do sleep 0.2; done";
    let liveness = with(asked("liveness", 1), json!({ "initialDelaySeconds": 4 }));
    // Not before the next instance has told.
    let startup = with(asked("startup", 0), json!({ "initialDelaySeconds": 3 }));
    let main = with(
        shell("main", script),
        json!({
            "startupProbe": startup, "livenessProbe": liveness,
            "volumeMounts": [{ "name": "kept", "mountPath": "/kept" }],
        }),
    );
    let kept = json!({ "spec": { "volumes": [{ "name": "kept", "emptyDir": {} }] } });
    node.apply(&with(pod("web", &[main]), kept));
    let second = node.eventually("the container is started again", || {
        node.running_now("web", "main").filter(|one| one.metadata.attempt == 1)
    });
    let told = node.eventually("it tells", || {
        let told = node.output(&second);
        told.contains("startup").then_some(told)
    });
    for name in ["liveness", "startup"] {
        let line = told.lines().find(|line| line.ends_with(&format!("/kept/{name}"))).expect("it was asked");
        assert_eq!(line.split_whitespace().next(), Some("1"), "{told}");
    }
}

/// SEC-46: a command that prints megabytes costs its own container alone, and little of it reaches an Event.
#[test]
fn sec_46_a_probe_that_floods_is_cut_short() {
    let Some(node) = Node::running() else { return };
    let flood = |kind: &str, script: &str| {
        let probe = json!({ "exec": { "command": ["sh", "-c", script] }, "periodSeconds": 1, "timeoutSeconds": 10 });
        with(forever("main"), json!({ kind: probe }))
    };
    node.apply(&pod("much", &[flood("readinessProbe", "yes flood | head -c 3000000; exit 1")]));
    node.apply(&pod("web", &[web("server")]));
    node.wait_for_words(&["Readiness probe failed: ", "flood"]);
    let longest = node.log().lines().map(str::len).max().unwrap_or_default();
    assert!(longest < 64 << 10, "a line of {longest} bytes");
    node.wait_listed("web", "ready", |pod| condition(pod, "Ready") == "True");
    let much = node.wait_listed("much", "at all", |_| true);
    assert_eq!(condition(&much, "Ready"), "False");
}

/// PRB-26: no connection of a probe stays once it has its answer.
#[test]
fn connections_of_probes_do_not_add_up() {
    let Some(node) = Node::running() else { return };
    let server = with(
        web("server"),
        json!({
            "readinessProbe": { "httpGet": { "path": "/healthz", "port": 80 }, "periodSeconds": 1 },
            "livenessProbe": { "tcpSocket": { "port": 80 }, "periodSeconds": 1, "initialDelaySeconds": 1 },
        }),
    );
    node.apply(&pod("web", &[server]));
    node.eventually("there were some rounds", || {
        let counts = ["Readiness", "Liveness"].map(|kind| rounds(&node, "web", kind, "successful"));
        counts.iter().all(|count| *count >= 8).then_some(())
    });
    let shown = node.wait_listed("web", "at all", |_| true);
    let address: Ipv4Addr = shown["status"]["podIP"].as_str().and_then(|text| text.parse().ok()).expect("an address");
    let remote = format!("{:08X}:0050", u32::from_le_bytes(address.octets()));
    // A socket that the kernel keeps a while after it was closed is held by no process any more, and has no inode.
    let nobodys = "0";
    let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", node.agent_pid())).unwrap();
    let open = table.lines().filter(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns.get(2) == Some(&remote.as_str()) && columns.get(9) != Some(&nobodys)
    });
    assert!(open.count() <= 2, "{table}");
}

/// Has the agent ask a name server that never answers, from a mount namespace of its own.
fn with_silent_name_server(node: &mut Node) -> UdpSocket {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 77, high, low);
    let server = UdpSocket::bind((address, 53)).expect("an address of this test's own");
    let file = node.dir.join("resolv.conf");
    std::fs::write(&file, format!("nameserver {address}\n")).unwrap();
    let script = format!("mount --bind {} /etc/resolv.conf; exec \"$@\"", file.display());
    let words = ["unshare", "--mount", "--propagation", "slave", "sh", "-ec", &script, "agent"];
    node.wrapper = words.map(str::to_owned).into();
    server
}

/// SEC-48: forty probes of names whose server is silent fail, each in its time, and hold up nothing else: neither
/// statistics nor a new pod, a command in it and its end. With their pod the lookups end.
#[test]
fn a_silent_name_server_holds_up_nobody() {
    let Some(mut node) = Node::new() else { return };
    let server = with_silent_name_server(&mut node);
    node.start_agent();
    let named = |number: u32| {
        let probe = |kind: &str| {
            let host = format!("{kind}-{number}.silent.example");
            json!({ "tcpSocket": { "host": host, "port": 80 }, "periodSeconds": 1, "failureThreshold": 1000 })
        };
        let probes = json!({ "readinessProbe": probe("ready"), "livenessProbe": probe("alive") });
        with(forever(&format!("main-{number}")), probes)
    };
    node.apply(&pod("named", &(0..20).map(named).collect::<Vec<_>>()));
    node.eventually("probes have failed again and again", || {
        let failed = ["Readiness", "Liveness"].map(|kind| rounds(&node, "named", kind, "failed"));
        failed.iter().all(|count| *count >= 10).then_some(())
    });
    node.wait_for_words(&["Readiness probe failed: dial tcp ready-0.silent.example:80: i/o timeout"]);

    let port = format!("127.0.0.1:{}", node.named("READ_ONLY_PORT"));
    node.apply(&pod("web", &[forever("main")]));
    node.wait_listed("web", "ready", |pod| condition(pod, "Ready") == "True");
    node.eventually("statistics have the new pod", || {
        http_get(&port, "/stats/summary").filter(|(status, body)| *status == 200 && body.contains("\"web-node1\""))
    });
    // The agent's socket answers in its own mount namespace alone.
    let agent = node.agent_pid().to_string();
    let mut exec = Command::new("nsenter");
    exec.args(["--mount", "--target", &agent, AGENT, "exec", "--socket"]).arg(node.socket());
    let output = exec.args(["default/web", "--", "echo", "well"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "well\n", "{output:?}");
    node.delete("web");
    node.wait_gone("web");

    node.delete("named");
    node.wait_gone("named");
    server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    node.eventually("the lookups end", || server.recv(&mut [0; 512]).err());
}
