//! Hooks of real containers: commands after the start and before the end.

use serde_json::json;

use crate::harness::{Node, condition, container_status, http_get};
use crate::pods::{forever, pod, shell, with};

/// A container that writes into a folder of the host when it is asked to end.
fn writer(folder: &str, hooks: serde_json::Value) -> (serde_json::Value, serde_json::Value) {
    let script = "trap 'echo term >>/out/log; exit 0' TERM; while :; do sleep 1000 & wait $!; done";
    let mounts = json!({ "volumeMounts": [{ "name": "out", "mountPath": "/out" }], "lifecycle": hooks });
    (with(shell("main", script), mounts), json!([{ "name": "out", "hostPath": { "path": folder } }]))
}

/// POD-23, POD-14, CRI-19: after the start, before the signal; the pod is ready only once its hook is through.
#[test]
fn hooks_run_after_the_start_and_before_the_signal() {
    let Some(node) = Node::running() else { return };
    let folder = node.dir.join("out");
    std::fs::create_dir(&folder).unwrap();
    let hook = |script: &str| json!({ "exec": { "command": ["/bin/sh", "-c", script] } });
    let (main, volumes) = writer(
        folder.to_str().unwrap(),
        json!({
            "postStart": hook("until test -e /out/go; do sleep 0.2; done; echo post >>/out/log"),
            "preStop": hook("echo pre >>/out/log; sleep 1"),
        }),
    );
    let manifest =
        with(pod("web", &[main]), json!({ "spec": { "volumes": volumes, "terminationGracePeriodSeconds": 60 } }));
    node.apply(&manifest);
    let first = node.wait_running("web", "main");
    node.see_a_round();
    let shown = node.wait_listed("web", "at all", |_| true);
    assert_eq!(condition(&shown, "Ready"), "False");
    assert!(container_status(&shown, "main")["state"]["running"].is_null(), "{shown}");
    std::fs::write(folder.join("go"), "").unwrap();
    node.wait_listed("web", "ready", |pod| condition(pod, "Ready") == "True");
    node.delete("web");
    node.wait_gone("web");
    assert_eq!(std::fs::read_to_string(folder.join("log")).unwrap(), "post\npre\nterm\n");
    assert_eq!(first.metadata.attempt, 0);
}

/// POD-23: a hook that fails ends its container; what it printed is in the pod's status and in no Event.
#[test]
fn a_container_whose_start_hook_fails_is_ended() {
    let Some(node) = Node::running() else { return };
    // The status keeps the first instance's hook until that of the second, which is tried at once, has failed, too.
    let hook = json!({ "exec": { "command": ["/bin/sh", "-c", "sleep 3; echo a secret; exit 4"] } });
    let (main, _) = writer("/", json!({ "postStart": hook }));
    let main = with(main, json!({ "volumeMounts": [] }));
    node.apply(&pod("web", &[main]));
    node.wait_for_words(&["FailedPostStartHook", "PostStartHook failed"]);
    let reason = |pod: &serde_json::Value| container_status(pod, "main")["state"]["waiting"]["reason"].clone();
    let shown = node.wait_listed("web", "why", |pod| reason(pod) == "PostStartHookError");
    let message = container_status(&shown, "main")["state"]["waiting"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("exited with 4") && message.contains("message: \"a secret\\n\""), "{message}");
    // The next one, which has no back-off to wait for, may run by now; the one whose hook failed does not.
    assert!(node.running_now("web", "main").is_none_or(|next| next.metadata.attempt > 0));
    assert!(!node.log().lines().any(|line| line.contains("PostStartHook failed") && line.contains("secret")));
    node.eventually("it is tried again", || {
        node.containers("web", "main").into_iter().find(|one| one.metadata.attempt > 0)
    });
}

/// POD-23, POD-08: a hook has the grace period, of two seconds here, and the least that a container gets to stop: it makes
/// a mark each second for as long as it lives.
#[test]
fn a_hook_that_hangs_ends_with_its_time() {
    let Some(node) = Node::running() else { return };
    let folder = node.dir.join("out");
    std::fs::create_dir(&folder).unwrap();
    let marks = "while :; do echo mark >>/out/log; sleep 1; done";
    let hook = json!({ "exec": { "command": ["/bin/sh", "-c", marks] } });
    let (main, volumes) = writer(folder.to_str().unwrap(), json!({ "preStop": hook }));
    let given = json!({ "spec": { "volumes": volumes, "terminationGracePeriodSeconds": 2 } });
    node.apply(&with(pod("web", &[main]), given));
    node.wait_running("web", "main");
    node.delete("web");
    node.wait_gone("web");
    let log = std::fs::read_to_string(folder.join("log")).unwrap();
    let lived = log.lines().filter(|line| *line == "mark").count();
    // Far less than the 30 s that a pod has which names no grace period.
    assert!((1..=15).contains(&lived), "{lived} s: {log}");
}

/// PRB-28: a hook by HTTP is content with any answer, and is no probe: none is counted.
#[test]
fn a_hook_by_http_takes_any_answer_and_is_no_probe() {
    let Some(node) = Node::running() else { return };
    let port = node.named("READ_ONLY_PORT").parse::<u16>().unwrap();
    let hook = json!({ "httpGet": { "host": "127.0.0.1", "port": port, "path": "/nothing/is/here" } });
    node.apply(&pod("web", &[with(forever("main"), json!({ "lifecycle": { "postStart": hook } }))]));
    node.wait_listed("web", "ready", |pod| condition(pod, "Ready") == "True");
    let metrics = |path: &str| {
        let address = format!("127.0.0.1:{port}");
        node.eventually("the agent answers", || http_get(&address, path).filter(|(status, _)| *status == 200)).1
    };
    let asked =
        "kubelet_http_requests_total{long_running=\"false\",method=\"GET\",path=\"other\",server_type=\"readonly\"} 1";
    assert!(metrics("/metrics").lines().any(|line| line == asked), "the agent was asked for what it does not have");
    assert!(!metrics("/metrics/probes").contains("prober_probe_total{"));
}
