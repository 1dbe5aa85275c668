//! The kinds of containers, and what decides when each starts and comes back.

use std::process::Command;

use podwright::cri::ContainerState;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::harness::{AGENT, Node, condition, container_status};
use crate::pods::{CLIENT, forever, pod, shell, then_forever, with};

/// A container with a policy of its own.
fn restarting(container: Value, policy: &str) -> Value {
    with(container, json!({ "restartPolicy": policy }))
}

/// POD-15, POD-20, POD-21: by the runtime's own times.
#[test]
fn a_sidecar_starts_in_its_turn_and_runs_beside_the_others() {
    let Some(node) = Node::running() else { return };
    let init = [restarting(forever("proxy"), "Always"), shell("setup", "sleep 1")];
    node.apply(&with(pod("web", &[forever("main")]), json!({ "spec": { "initContainers": init } })));
    node.wait_running("web", "main");
    let one = |name: &str| node.containers("web", name).into_iter().next().unwrap_or_else(|| panic!("no {name}"));
    let (proxy, setup, main) = (one("proxy"), one("setup"), one("main"));
    assert_eq!(proxy.state, ContainerState::Running);
    assert!(proxy.started_at <= setup.created_at, "{proxy:?} {setup:?}");
    assert!(setup.finished_at <= main.created_at, "{setup:?} {main:?}");
    let shown = node.wait_listed("web", "ready", |pod| condition(pod, "Ready") == "True");
    assert_eq!(shown["status"]["phase"], "Running");
    assert_eq!(condition(&shown, "Initialized"), "True");
    let status = container_status(&shown, "proxy");
    assert_eq!((&status["started"], &status["ready"]), (&json!(true), &json!(true)));
    assert_eq!(container_status(&shown, "setup")["state"]["terminated"]["reason"], "Completed");
}

/// POD-21: whatever the pod's policy, and the pod's phase does not mind.
#[test]
fn a_sidecar_that_ends_is_started_again_although_the_pod_never_restarts() {
    let Some(node) = Node::running() else { return };
    let init = [restarting(shell("proxy", "sleep 1; exit 3"), "Always")];
    let spec = json!({ "spec": { "initContainers": init, "restartPolicy": "Never" } });
    node.apply(&with(pod("web", &[forever("main")]), spec));
    let main = node.wait_running("web", "main");
    node.eventually("the sidecar was started again", || {
        node.containers("web", "proxy").into_iter().find(|one| one.metadata.attempt >= 1)
    });
    let shown = node.wait_listed("web", "counted", |pod| {
        let proxy = container_status(pod, "proxy");
        proxy["restartCount"].as_u64() >= Some(1)
            && proxy["lastState"]["terminated"]["exitCode"] == 3
            && pod["status"]["phase"] == "Running"
    });
    assert_eq!(condition(&shown, "Initialized"), "True");
    assert_eq!(node.wait_running("web", "main").id, main.id, "the others are left alone");
}

/// POD-15, POD-21: a sidecar ends with its pod, and its exit code counts for nothing.
#[test]
fn a_pod_is_over_when_its_regular_containers_are() {
    let Some(node) = Node::running() else { return };
    let sidecar = shell("proxy", "trap 'exit 9' TERM; while :; do sleep 1000 & wait $!; done");
    let spec = json!({ "spec": {
        "initContainers": [restarting(sidecar, "Always")], "restartPolicy": "Never", "terminationGracePeriodSeconds": 30,
    } });
    node.apply(&with(pod("job", &[shell("main", "sleep 3")]), spec));
    let shown = node.wait_listed("job", "over", |pod| pod["status"]["phase"] == "Succeeded");
    assert_eq!(container_status(&shown, "main")["state"]["terminated"]["exitCode"], 0);
    let proxy = node.eventually("the sidecar was stopped", || {
        node.containers("job", "proxy").into_iter().find(|one| one.state == ContainerState::Exited)
    });
    assert_eq!((proxy.exit_code, proxy.metadata.attempt), (9, 0));
    node.see_a_round();
    assert_eq!(node.containers("job", "proxy").len(), 1, "it is not started again");
}

/// POD-17: a container's own rules, in a pod that never restarts.
#[test]
fn a_container_is_restarted_by_its_own_rules() {
    let Some(node) = Node::running() else { return };
    // Its log goes on from instance to instance, so that it knows which one it is.
    let script = "n=$(cat /data/n 2>/dev/null || echo 0); echo $((n + 1)) >/data/n; [ $n = 0 ] && exit 42; exit 7";
    let rules = json!([{ "action": "Restart", "exitCodes": { "operator": "In", "values": [42] } }]);
    let ruled = with(
        shell("ruled", script),
        json!({
            "restartPolicy": "Never", "restartPolicyRules": rules,
            "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
        }),
    );
    let volumes = json!([{ "name": "data", "emptyDir": {} }]);
    node.apply(&with(
        pod("web", &[forever("main"), ruled]),
        json!({ "spec": { "restartPolicy": "Never", "volumes": volumes } }),
    ));
    let shown = node.wait_listed("web", "with both ends", |pod| {
        container_status(pod, "ruled")["state"]["terminated"]["exitCode"] == 7
    });
    let status = container_status(&shown, "ruled");
    assert_eq!((&status["restartCount"], &status["lastState"]["terminated"]["exitCode"]), (&json!(1), &json!(42)));
    assert_eq!(shown["status"]["phase"], "Running");
}

/// POD-18: all containers start over in the same sandbox; volumes, addresses and logs stay.
#[test]
fn a_rule_has_all_containers_start_over_in_place() {
    let Some(node) = Node::running() else { return };
    let mount = json!({ "volumeMounts": [{ "name": "data", "mountPath": "/data" }] });
    let script = "echo again; test -e /data/been && exec sleep 1000; touch /data/been; sleep 1; exit 42";
    let rules = json!([{ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [42] } }]);
    let source =
        with(with(shell("source", script), mount), json!({ "restartPolicy": "Never", "restartPolicyRules": rules }));
    let spec = json!({
        "restartPolicy": "Never", "initContainers": [shell("setup", "true")],
        "volumes": [{ "name": "data", "emptyDir": {} }],
    });
    node.apply(&with(pod("web", &[forever("main"), source]), json!({ "spec": spec })));
    let before = node.wait_running("web", "main");
    let sandbox = node.sandboxes("web")[0].id.clone();
    let shown = node.wait_listed("web", "running again", |pod| {
        ["main", "source"].iter().all(|name| {
            let status = container_status(pod, name);
            status["restartCount"] == 1 && status["state"]["running"].is_object()
        })
    });
    let condition = condition(&shown, "AllContainersRestarting");
    assert_eq!((condition, &shown["status"]["phase"]), ("False", &json!("Running")));
    for name in ["setup", "main", "source"] {
        let status = container_status(&shown, name);
        let last = &status["lastState"]["terminated"];
        assert_eq!(
            (&status["restartCount"], &last["reason"]),
            (&json!(1), &json!("RestartingAllContainers")),
            "{name}"
        );
        let left = node.containers("web", name);
        assert_eq!((left.len(), left[0].metadata.attempt), (1, 1), "{name}: all before it is removed");
    }
    assert_eq!(node.sandboxes("web").iter().map(|one| &one.id).collect::<Vec<_>>(), [&sandbox]);
    let log = std::path::Path::new(&before.log_path);
    assert!(log.exists(), "{log:?} of the removed container is kept");
}

/// POD-25: the pod fails once its time is over, and says why.
#[test]
fn a_pod_fails_when_its_time_is_over() {
    let Some(mut node) = Node::running() else { return };
    let spec = json!({ "spec": { "activeDeadlineSeconds": 20 } });
    node.apply(&with(pod("web", &[forever("main")]), spec));
    node.wait_running("web", "main");
    // It is counted on while the agent is away.
    node.kill_agent();
    node.start_agent();
    let shown = node.wait_listed("web", "failed", |pod| pod["status"]["phase"] == "Failed");
    let status = &shown["status"];
    let message = "Pod was active on the node longer than the specified deadline";
    assert_eq!((&status["reason"], &status["message"]), (&json!("DeadlineExceeded"), &json!(message)));
    node.eventually("it was stopped", || {
        node.containers("web", "main").into_iter().find(|one| one.state == ContainerState::Exited)
    });
    assert_eq!(node.containers("web", "main").len(), 1, "and not started again");
}

/// The output of a command of the agent's own, which must succeed.
fn command(node: &Node, words: &[&str]) -> String {
    let output = Command::new(AGENT).args(words).arg("--socket").arg(node.socket()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// PAIN-34, PAIN-36: by commands on the node; each is an Event.
#[test]
fn a_container_is_restarted_and_a_back_off_ended_on_demand() {
    let Some(node) = Node::running() else { return };
    let spec = json!({ "spec": { "restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 30 } });
    let main = shell("main", &then_forever("echo up"));
    node.apply(&with(pod("web", &[main, shell("crash", "exit 1")]), spec));
    let before = node.wait_running("web", "main");
    node.eventually("it heeds the request to end", || (node.output(&before) == "up\n").then_some(()));
    node.wait_listed("web", "running", |pod| container_status(pod, "main")["state"]["running"].is_object());
    assert_eq!(command(&node, &["restart", "default/web", "main"]), "main of default/web is restarted\n");
    let after =
        node.eventually("another instance runs", || node.running_now("web", "main").filter(|now| now.id != before.id));
    assert_eq!(after.metadata.attempt, 1);
    let old = node.containers("web", "main").into_iter().find(|one| one.id == before.id).unwrap();
    assert_eq!(old.exit_code, 0, "it was asked to end, and its success does not count");
    let shown = node.wait_listed("web", "in its back-off", |pod| {
        container_status(pod, "crash")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    });
    assert_eq!(shown["status"]["phase"], "Running");
    assert_eq!(command(&node, &["reset-back-off", "default/web", "crash"]), "crash of default/web waits no longer\n");
    for reason in ["RestartRequested", "BackOffReset"] {
        node.eventually(&format!("the Event {reason} is told"), || {
            let explained = crate::node::agent::explain(&node, "default/web")?;
            explained["events"].to_string().contains(reason).then_some(())
        });
    }
    let mut unknown = Command::new(AGENT);
    let refused = unknown.args(["restart", "default/none", "--socket"]).arg(node.socket()).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
}

/// POD-22: added by kubectl to a pod that runs, in the process namespace of one of its containers.
#[test]
fn an_ephemeral_container_joins_a_running_container_and_runs_once() {
    let Some(cluster) = Cluster::joined() else { return };
    cluster.create_pod(pod("web", &[shell("main", "exec sleep 12345")]));
    cluster.wait_pod_ready("web");
    let main = cluster.wait_container("web", "main");
    let script = "tr '\\0' ' ' </proc/1/cmdline; exit 3";
    let options = ["--image-pull-policy=IfNotPresent", "--target=main", "--attach=false", "--quiet"];
    let debug = ["debug", "web", "--image", CLIENT, "-c", "probe"].into_iter().chain(options);
    cluster.kubectl(&debug.chain(["--", "/bin/sh", "-c", script]).collect::<Vec<_>>());
    let shown = cluster.wait("pod", "web", "with an ephemeral container that has ended", |pod| {
        pod["status"]["ephemeralContainerStatuses"][0]["state"]["terminated"].is_object()
    });
    let status = &shown["status"]["ephemeralContainerStatuses"][0];
    assert_eq!((&status["name"], &status["state"]["terminated"]["exitCode"]), (&json!("probe"), &json!(3)));
    assert_eq!((&status["restartCount"], condition(&shown, "Ready")), (&json!(0), "True"));
    // Events are sent beside the status, and may come after it.
    cluster.eventually("an Event of the ephemeral container", || {
        let said = cluster.try_kubectl(&["get", "events", "-o", "json"]).ok()?;
        said.contains("spec.ephemeralContainers{probe}").then_some(())
    });
    let probe = cluster.containers_of("web").into_iter().find(|one| one.metadata.name == "probe").unwrap();
    assert!(cluster.output(&probe).contains("sleep 12345"), "{:?}", cluster.output(&probe));
    cluster.see_a_round();
    let instances = cluster.containers_of("web").into_iter().filter(|one| one.metadata.name == "probe").count();
    assert_eq!((instances, cluster.wait_container("web", "main").id), (1, main.id));
    cluster.kubectl(&["delete", "pod", "web", "--timeout=180s"]);
}

/// POD-17, POD-21, POD-25: what of a running pod may change, changes.
#[test]
fn an_image_and_a_deadline_change_while_a_pod_runs() {
    let Some(cluster) = Cluster::joined() else { return };
    let init = [restarting(forever("proxy"), "Always")];
    let spec = json!({ "spec": { "restartPolicy": "Never", "initContainers": init, "activeDeadlineSeconds": 3600 } });
    cluster.create_pod(with(pod("web", &[forever("main"), forever("other")]), spec));
    cluster.wait_pod_ready("web");
    let before = ["proxy", "main", "other"].map(|name| cluster.wait_container("web", name).id);
    // The same image by another name: the definition changes all the same.
    let other = CLIENT.replace(":1", ":two");
    cluster.tag(CLIENT, &other);
    cluster.kubectl(&["set", "image", "pod/web", &format!("proxy={other}"), &format!("main={other}")]);
    let shown = cluster.wait("pod", "web", "ready with two new instances", |pod| {
        let counts = ["proxy", "main"].map(|name| container_status(pod, name)["restartCount"] == 1);
        counts == [true, true] && condition(pod, "Ready") == "True"
    });
    assert_eq!(shown["status"]["phase"], "Running");
    let after = ["proxy", "main", "other"].map(|name| cluster.wait_container("web", name).id);
    assert!(before[0] != after[0] && before[1] != after[1] && before[2] == after[2], "{before:?} {after:?}");
    cluster.kubectl(&["patch", "pod", "web", "--type=merge", "-p", r#"{"spec":{"activeDeadlineSeconds":1}}"#]);
    let shown = cluster.wait("pod", "web", "over", |pod| pod["status"]["phase"] == "Failed");
    assert_eq!(shown["status"]["reason"], "DeadlineExceeded");
    assert_eq!(
        cluster.wait_event("web", "DeadlineExceeded"),
        "Pod was active on the node longer than the specified deadline"
    );
    cluster.kubectl(&["delete", "pod", "web", "--timeout=180s"]);
}

/// POD-18: the API server gets it, and takes it, init containers and all.
#[test]
fn a_pod_of_a_cluster_starts_over_in_place() {
    let Some(cluster) = Cluster::joined() else { return };
    let mount = json!({ "volumeMounts": [{ "name": "data", "mountPath": "/data" }] });
    let script = "test -e /data/been && exec sleep 1000; touch /data/been; sleep 2; exit 42";
    let rules = json!([{ "action": "RestartAllContainers", "exitCodes": { "operator": "In", "values": [42] } }]);
    let ruled = json!({ "restartPolicy": "Never", "restartPolicyRules": rules });
    let source = with(with(shell("source", script), mount), ruled);
    let spec = json!({
        "restartPolicy": "Never", "initContainers": [shell("setup", "true")],
        "volumes": [{ "name": "data", "emptyDir": {} }],
    });
    cluster.create_pod(with(pod("web", &[forever("main"), source]), json!({ "spec": spec })));
    let shown = cluster.wait("pod", "web", "ready again", |pod| {
        let again = ["main", "source"].map(|name| container_status(pod, name)["restartCount"] == 1);
        again == [true, true] && condition(pod, "Ready") == "True"
    });
    assert_eq!((&shown["status"]["phase"], condition(&shown, "AllContainersRestarting")), (&json!("Running"), "False"));
    // Nobody answered, or others wrote the same object: it is sent again. A status that is refused for its content
    // would be for ever.
    let refused: Vec<_> = cluster.requests().into_iter().filter(|(_, _, code)| *code == 422).collect();
    assert!(refused.is_empty(), "{refused:?}");
    cluster.kubectl(&["delete", "pod", "web", "--timeout=180s"]);
}
