//! Pods of the API server, from their creation to their end, as kubectl shows them.

use std::time::Duration;

use podwright::cri::{PodSandboxFilter, RuntimeService};
use podwright::testing::skips::needs;
use serde_json::{Value, json};

use super::Cluster;
use crate::harness::{NODE_NAME, condition, container_status, send_signal};
use crate::pods::{CLIENT, forever, pod, shell, then_forever, web, with};
use crate::serving::metrics::scrape;

/// POD-34, POD-36, POD-37, POD-03.
#[test]
fn a_pod_runs_and_goes_as_kubectl_wants_it() {
    let Some(cluster) = Cluster::joined() else { return };
    let overrides = json!({ "spec": { "nodeName": NODE_NAME, "terminationGracePeriodSeconds": 2 } }).to_string();
    cluster.kubectl(&[
        "run",
        "one",
        "--image",
        CLIENT,
        "--image-pull-policy=IfNotPresent",
        "--overrides",
        &overrides,
        "--command",
        "--",
        "/bin/sh",
        "-c",
        &then_forever("echo started"),
    ]);
    cluster.kubectl(&["wait", "pod/one", "--for=condition=Ready", "--timeout=180s"]);
    let shown = cluster.find("pod", "one").expect("it is there");
    let status = &shown["status"];
    assert_eq!((&status["phase"], &status["qosClass"]), (&json!("Running"), &json!("BestEffort")));
    assert_eq!(status["observedGeneration"], shown["metadata"]["generation"]);
    assert_eq!(status["hostIP"].as_str(), Some(cluster.named("NODE_IP")));
    let running = cluster.wait_container("one", "one");
    let told = container_status(&shown, "one");
    assert_eq!(told["containerID"], format!("containerd://{}", running.id));
    assert!(told["state"]["running"]["startedAt"].is_string() && told["started"] == true);
    for reason in ["Pulled", "Created", "Started"] {
        cluster.wait_event("one", reason);
    }
    let described = cluster.kubectl(&["describe", "pod", "one"]);
    assert!(described.contains("Started") && described.contains("kubelet"), "{described}");
    let events = cluster.kubectl(&["events", "--for", "pod/one"]);
    assert!(["Pulled", "Created", "Started"].iter().all(|reason| events.contains(reason)), "{events}");
    cluster.kubectl(&["delete", "pod", "one", "--timeout=180s"]);
    // Its remains go beside its deletion.
    cluster.eventually_none("containers", || cluster.containers_of("one"));
    cluster.wait_event("one", "Killing");
}

/// POD-07, POD-15: the status has the exit code of each end, and a pod that is over stays over.
#[test]
fn a_pod_that_ends_is_told_how_and_is_not_run_again() {
    let Some(mut cluster) = Cluster::joined() else { return };
    for (name, script) in [("good", "exit 0"), ("bad", "exit 7")] {
        cluster.create_pod(with(pod(name, &[shell("main", script)]), json!({ "spec": { "restartPolicy": "Never" } })));
    }
    let good = cluster.wait("pod", "good", "over", |pod| pod["status"]["phase"] == "Succeeded");
    assert_eq!(container_status(&good, "main")["state"]["terminated"]["reason"], "Completed");
    let bad = cluster.wait("pod", "bad", "over", |pod| pod["status"]["phase"] == "Failed");
    assert_eq!(container_status(&bad, "main")["state"]["terminated"]["exitCode"], 7);
    let patches = cluster.count("patch", "pods/status");
    cluster.stop_agent();
    cluster.start_agent();
    cluster.create_pod(pod("later", &[forever("main")]));
    cluster.wait_pod_ready("later");
    assert_eq!(cluster.find("pod", "bad").unwrap()["status"], bad["status"]);
    let later = cluster.requests().iter().filter(|(verb, what, _)| verb == "patch" && what == "pods/status").count();
    assert!(later > patches, "the later pod was told of");
    for name in ["good", "bad"] {
        cluster.kubectl(&["delete", "pod", name, "--timeout=180s"]);
    }
}

/// POD-08, POD-36: a later deletion may leave less time, and counts at once.
#[test]
fn a_deletion_waits_for_the_grace_period_unless_a_later_one_shortens_it() {
    let Some(cluster) = Cluster::joined() else { return };
    let stubborn = shell("main", "trap '' TERM; while :; do sleep 1; done");
    let patient = json!({ "spec": { "terminationGracePeriodSeconds": 3600 } });
    cluster.create_pod(with(pod("stubborn", &[stubborn]), patient));
    cluster.wait_pod_ready("stubborn");
    cluster.kubectl(&["delete", "pod", "stubborn", "--wait=false"]);
    let ending = cluster.wait("pod", "stubborn", "ending", |pod| pod["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 3600);
    cluster.wait_event("stubborn", "Killing");
    assert_eq!(cluster.containers_of("stubborn").len(), 1);
    cluster.kubectl(&["delete", "pod", "stubborn", "--grace-period=1", "--timeout=180s"]);
    cluster.eventually_none("no container", || cluster.containers_of("stubborn"));
}

/// POD-36: finalizers keep the object, not the containers.
#[test]
fn a_pod_with_a_finalizer_ends_and_its_object_stays_until_it_may_go() {
    let Some(cluster) = Cluster::joined() else { return };
    let held = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    cluster.create_pod(with(pod("held", &[forever("main")]), held));
    cluster.wait_pod_ready("held");
    cluster.kubectl(&["delete", "pod", "held", "--wait=false"]);
    cluster.eventually_none("no container", || cluster.containers_of("held"));
    let shown = cluster.wait("pod", "held", "over", |pod| condition(pod, "Ready") == "False");
    assert!(shown["metadata"]["deletionTimestamp"].is_string());
    cluster.eventually("the finalizer is named", || {
        cluster.explained("default/held").contains("example.com/hold").then_some(())
    });
    cluster.kubectl(&["patch", "pod", "held", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    cluster.wait_no("pod", "held");
}

/// POD-36, RES-55: the status shows other resources of a whole pod before the pod runs than later. That holds up no deletion,
/// whichever resources they are.
#[test]
fn pods_of_every_kind_of_resource_go() {
    let Some(cluster) = Cluster::joined() else { return };
    let extended = r#"{"status":{"capacity":{"example.com/foo":"8"},"allocatable":{"example.com/foo":"8"}}}"#;
    cluster.kubectl(&["patch", "node", NODE_NAME, "--subresource=status", "-p", extended]);
    let all = json!({ "cpu": "100m", "memory": "32Mi", "ephemeral-storage": "64Mi", "example.com/foo": "1" });
    let mut kinds = vec![
        ("cpu", json!({ "cpu": "100m" })),
        ("memory", json!({ "memory": "32Mi" })),
        ("disk", json!({ "ephemeral-storage": "64Mi" })),
        ("extended", json!({ "example.com/foo": "1" })),
        ("all", all),
    ];
    let node = cluster
        .wait("node", NODE_NAME, "with the resource", |node| node["status"]["allocatable"]["example.com/foo"] == "8");
    if node["status"]["allocatable"]["hugepages-2Mi"].as_str().is_some_and(|amount| amount != "0") {
        kinds.push(("huge", json!({ "hugepages-2Mi": "2Mi", "memory": "32Mi" })));
    } else {
        needs("huge pages of 2 MiB");
    }
    for (kind, amounts) in &kinds {
        let resources = json!({ "resources": { "limits": amounts, "requests": amounts } });
        cluster.create_pod(pod(kind, &[with(forever("main"), resources)]));
    }
    for (kind, _) in &kinds {
        cluster.wait_pod_ready(kind);
    }
    // One of them ends by itself first.
    let short = json!({ "resources": { "limits": { "ephemeral-storage": "64Mi", "cpu": "100m" } } });
    let never = json!({ "spec": { "restartPolicy": "Never" } });
    cluster.create_pod(with(pod("short", &[with(shell("main", "exit 0"), short)]), never));
    cluster.wait("pod", "short", "over", |pod| pod["status"]["phase"] == "Succeeded");
    cluster.kubectl(&["delete", "pod", "--all", "--timeout=180s"]);
    let metrics = scrape(&cluster, "/metrics");
    assert!(!metrics.contains("podwright_pod_status_not_taken_total{"), "the API server took every status over");
}

/// POD-36: an API server that does not take a status over, here by an admission policy, holds up no deletion, and the pod
/// says so.
#[test]
fn a_status_that_the_api_server_refuses_holds_up_no_deletion() {
    let Some(cluster) = Cluster::joined() else { return };
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "no-end" },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/status"],
            }] },
            "validations": [{ "expression": "object.status.phase != 'Succeeded'", "message": "nothing may succeed here" }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "no-end" },
        "spec": { "policyName": "no-end", "validationActions": ["Deny"] },
    });
    cluster.apply_object(&policy);
    cluster.apply_object(&binding);
    // The API server holds to a policy some time after it has taken it.
    cluster.create_pod(pod("tried", &[forever("main")]));
    let success = r#"{"status":{"phase":"Succeeded"}}"#;
    let attempt = ["patch", "pod", "tried", "--subresource=status", "--dry-run=server", "-p", success];
    cluster.eventually("the policy counts", || {
        cluster.try_kubectl(&attempt).is_err_and(|said| said.contains("nothing may succeed here")).then_some(())
    });
    let ends = with(pod("refused", &[shell("main", "exit 0")]), json!({ "spec": { "restartPolicy": "Never" } }));
    cluster.create_pod(ends);
    cluster.eventually("the refusal is told", || {
        cluster.explained("default/refused").contains("nothing may succeed here").then_some(())
    });
    cluster.kubectl(&["delete", "pod", "refused", "--timeout=180s"]);
}

/// POD-16: readiness gates are others' to set, and hold Ready back.
#[test]
fn a_readiness_gate_holds_a_pod_back_until_its_condition_is_set() {
    let Some(cluster) = Cluster::joined() else { return };
    let gate = json!({ "spec": { "readinessGates": [{ "conditionType": "example.com/open" }] } });
    cluster.create_pod(with(pod("gated", &[forever("main")]), gate));
    let shown = cluster.wait("pod", "gated", "running", |pod| condition(pod, "ContainersReady") == "True");
    assert_eq!(condition(&shown, "Ready"), "False");
    let open = r#"{"status":{"conditions":[{"type":"example.com/open","status":"True"}]}}"#;
    cluster.kubectl(&["patch", "pod", "gated", "--subresource=status", "-p", open]);
    let shown = cluster.wait_pod_ready("gated");
    assert_eq!(condition(&shown, "example.com/open"), "True", "what others said was kept");
}

/// POD-31: a pod that does not fit, does not match, or asks for what cannot be done gets that as its reason and never runs.
#[test]
fn what_cannot_run_here_is_refused_with_its_reason() {
    let Some(cluster) = Cluster::joined() else { return };
    let too_large = with(forever("main"), json!({ "resources": { "requests": { "cpu": "9999" } } }));
    cluster.create_pod(pod("large", &[too_large]));
    cluster
        .create_pod(with(pod("choosy", &[forever("main")]), json!({ "spec": { "nodeSelector": { "no": "where" } } })));
    let disk = json!({ "volumes": [{ "name": "disk", "flexVolume": { "driver": "d/d" } }] });
    cluster.create_pod(with(pod("old", &[forever("main")]), json!({ "spec": disk })));
    for (name, reason) in [("large", "OutOfcpu"), ("choosy", "NodeAffinity"), ("old", "PodFeatureUnsupported")] {
        let shown = cluster.wait("pod", name, "refused", |pod| pod["status"]["phase"] == "Failed");
        assert_eq!(shown["status"]["reason"], reason);
        cluster.wait_event(name, reason);
        assert_eq!(cluster.containers_of(name).len(), 0);
    }
}

/// POD-06, SEC-51: mirrors are made, made again, and go with their manifest.
#[test]
fn static_pods_show_as_mirrors() {
    let Some(cluster) = Cluster::joined() else { return };
    cluster.apply(&pod("static", &[forever("main")]));
    let name = format!("static-{NODE_NAME}");
    let mirror = cluster.wait_pod_ready(&name);
    let annotations = &mirror["metadata"]["annotations"];
    assert_eq!(annotations["kubernetes.io/config.mirror"], annotations["kubernetes.io/config.hash"]);
    assert_eq!(mirror["metadata"]["ownerReferences"][0]["kind"], "Node");
    let before = cluster.wait_running("static", "main").id;
    cluster.kubectl(&["delete", "pod", &name, "--timeout=180s"]);
    let again = cluster.wait_pod_ready(&name);
    assert_ne!(again["metadata"]["uid"], mirror["metadata"]["uid"]);
    assert_eq!(cluster.wait_running("static", "main").id, before, "the pod itself was not touched");
    let other = with(forever("main"), json!({ "env": [{ "name": "NEW", "value": "1" }] }));
    cluster.apply(&pod("static", &[other]));
    cluster.wait("pod", &name, "the new one", |pod| pod["spec"]["containers"][0]["env"][0]["name"] == "NEW");
    cluster.delete("static");
    cluster.wait_no("pod", &name);
    cluster.wait_gone("static");
}

fn generation(number: u32, version: u32) -> Value {
    let container = with(
        web("main"),
        json!({ "env": [{ "name": "VERSION", "value": version.to_string() }],
                "readinessProbe": { "httpGet": { "path": "/", "port": 80 }, "periodSeconds": 1,
                                    "timeoutSeconds": 10, "failureThreshold": 60 } }),
    );
    let labels = json!({ "metadata": { "labels": { "version": version.to_string() } } });
    with(pod(&format!("v{version}-{number}"), &[container]), labels)
}

/// Twenty pods are replaced one after the other, as a controller does it, with no more than two away at a time.
#[test]
fn twenty_pods_are_replaced_one_after_the_other() {
    const PODS: u32 = 20;
    let Some(cluster) = Cluster::joined() else { return };
    for number in 0..PODS {
        cluster.create_pod(generation(number, 1));
    }
    cluster.kubectl(&["wait", "pod", "-l", "version=1", "--for=condition=Ready", "--timeout=400s"]);
    for number in 0..PODS {
        cluster.create_pod(generation(number, 2));
        cluster.wait_pod_ready(&format!("v2-{number}"));
        cluster.kubectl(&["delete", "pod", &format!("v1-{number}"), "--wait=false"]);
    }
    cluster.kubectl(&["wait", "pod", "-l", "version=1", "--for=delete", "--timeout=400s"]);
    let pods = cluster.list("pod");
    assert_eq!(pods.len(), PODS as usize);
    assert!(pods.iter().all(|pod| condition(pod, "Ready") == "True"));
    cluster.eventually_none("containers", || cluster.containers_of("v1-0"));
    // No change, no word: the status of a pod that the server has does not go out again.
    let patches = cluster.count("patch", "pods/status");
    std::thread::sleep(Duration::from_secs(15));
    assert_eq!(cluster.count("patch", "pods/status"), patches);
    cluster.kubectl(&["delete", "pod", "--all", "--timeout=400s"]);
}

/// POD-20, POD-34: a pod that is restarted on failure loses its sandbox, and its init container, which had ended well, runs
/// again. The API server lets nobody tell that of it: it hears of all else, and has nothing to refuse.
#[test]
fn an_init_container_that_runs_again_holds_up_no_status() {
    let Some(cluster) = Cluster::joined() else { return };
    let init = shell("setup", "sleep 8");
    let spec = json!({ "spec": { "restartPolicy": "OnFailure", "initContainers": [init] } });
    // It fails when it is stopped: one that ends well is not started again, and its pod is over.
    let main = shell("main", "trap 'exit 3' TERM; while :; do sleep 1000 & wait $!; done");
    cluster.create_pod(with(pod("web", &[main]), spec));
    cluster.wait_pod_ready("web");
    let before = cluster.wait_container("web", "main");
    let uid = &before.labels["io.kubernetes.pod.uid"];
    let sandboxes = cluster.cri(async |cri| cri.list_pod_sandboxes(&PodSandboxFilter::default()).await);
    let sandbox = sandboxes.iter().find(|one| one.metadata.uid == *uid).expect("its sandbox is there");
    send_signal(cluster.pid_of(sandbox.id.as_str()), "KILL");
    let shown = cluster.wait("pod", "web", "ready with another instance", |pod| {
        container_status(pod, "main")["restartCount"] == 1 && condition(pod, "Ready") == "True"
    });
    assert_ne!(cluster.wait_container("web", "main").id, before.id);
    let setup = container_status(&shown, "setup");
    assert_eq!((&setup["state"]["terminated"]["exitCode"], &setup["restartCount"]), (&json!(0), &json!(1)));
    let refused: Vec<_> = cluster.requests().into_iter().filter(|(_, _, code)| *code == 422).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
