//! The agent comes and goes; its pods do not notice. Changes meanwhile are made good at the next start.

use std::time::Duration;

use podwright::cri::{
    ContainerConfig, ContainerMetadata, ContainerState, ImageSpec, Labels, LinuxPodSandboxConfig, PodSandboxConfig,
    PodSandboxMetadata, RuntimeService,
};
use serde_json::{Value, json};

use crate::harness::{Node, condition, container_status, send_signal};
use crate::pods::restarts::another;
use crate::pods::{CLIENT, forever, pod, shell, then_forever, web, with};

/// The facts that must be the same before and after.
fn identity(node: &Node, pod: &str) -> Vec<String> {
    let containers = node.all_containers(pod);
    let instances = containers.iter().filter(|one| one.state == ContainerState::Running);
    let sandboxes = node.sandboxes(pod);
    instances.map(|one| one.id.to_string()).chain(sandboxes.iter().map(|one| one.id.to_string())).collect()
}

/// POD-10, POD-28, PRB-23, CFG-56: asked to end, and killed.
#[test]
fn running_pods_do_not_notice_that_the_agent_is_replaced() {
    let Some(mut node) = Node::running() else { return };
    let probe = json!({ "httpGet": { "path": "/healthz", "port": 80 }, "periodSeconds": 1 });
    node.apply(&pod("web", &[with(web("server"), json!({ "readinessProbe": probe })), forever("other")]));
    let first = node.wait_running("web", "other");
    send_signal(node.pid_of(first.id.as_str()), "KILL");
    another(&node, "web", &first);
    node.wait_listed("web", "ready", |pod| condition(pod, "Ready") == "True");
    let before = identity(&node, "web");
    assert_eq!(before.len(), 3, "two containers and a sandbox: {before:?}");

    let status = node.stop_agent();
    assert_eq!(status.code(), Some(0), "asked to end, it ends well");
    assert_eq!(identity(&node, "web"), before, "while no agent runs");
    for ending in ["asked", "killed"] {
        node.start_agent();
        node.see_a_round();
        let shown = node.wait_listed("web", "ready again", |pod| condition(pod, "Ready") == "True");
        assert_eq!(identity(&node, "web"), before, "after an agent that was {ending}");
        assert_eq!(container_status(&shown, "other")["restartCount"], 1, "after an agent that was {ending}");
        assert_eq!(container_status(&shown, "server")["restartCount"], 0, "after an agent that was {ending}");
        node.kill_agent();
    }
    assert!(!node.log().contains("panicked"));
}

/// POD-10: what changed while no agent ran.
#[test]
fn what_changed_while_no_agent_ran_is_made_good() {
    let Some(mut node) = Node::running() else { return };
    for name in ["stays", "goes", "changes", "dies"] {
        node.apply(&pod(name, &[shell("main", &then_forever("echo one"))]));
    }
    let [stays, goes, changes, dies] = ["stays", "goes", "changes", "dies"].map(|name| node.wait_running(name, "main"));
    let goes_uid = goes.labels["io.kubernetes.pod.uid"].clone();
    node.kill_agent();
    node.delete("goes");
    node.apply(&pod("changes", &[shell("main", &then_forever("echo two"))]));
    node.apply(&pod("comes", &[forever("main")]));
    send_signal(node.pid_of(dies.id.as_str()), "KILL");
    node.start_agent();
    node.wait_gone("goes");
    node.eventually_none("nothing of the removed pod", || {
        [crate::pods::lifecycle::cgroups_of(&node, &goes_uid), crate::pods::lifecycle::places_of(&node, &goes_uid)]
            .concat()
    });
    node.wait_running("comes", "main");
    let changed = another(&node, "changes", &changes);
    assert_ne!(changed.labels["io.kubernetes.pod.uid"], changes.labels["io.kubernetes.pod.uid"]);
    node.eventually("the new words", || (node.output(&changed) == "two\n").then_some(()));
    let revived = another(&node, "dies", &dies);
    assert_eq!(revived.metadata.attempt, 1);
    assert_eq!(node.running_now("stays", "main").map(|one| one.id), Some(stays.id));
}

/// POD-19: the back-off is found again from the instances that the runtime remembers.
#[test]
fn a_back_off_goes_on_where_it_was_when_the_agent_is_replaced() {
    let Some(mut node) = Node::running() else { return };
    node.apply(&pod("crash", &[shell("main", "exit 5")]));
    let ended = |node: &Node, attempt: u32| {
        node.eventually(&format!("instance {attempt} ended"), || {
            let found = node.containers("crash", "main");
            found.into_iter().find(|one| one.metadata.attempt == attempt && one.state == ContainerState::Exited)
        })
    };
    let before = ended(&node, 2);
    node.kill_agent();
    node.start_agent();
    let after = ended(&node, 3);
    let waited = after.started_at.since(before.finished_at);
    // The third wait; how long the first two were is not written down anywhere, but that there were some is.
    assert!(waited >= Duration::from_secs(10), "{waited:?}");
    node.wait_listed("crash", "with all its restarts", |pod| container_status(pod, "main")["restartCount"] == 3);
}

/// POD-10, POD-33: pods that no source wants are killed: made by another agent, or by hand.
#[test]
fn pods_that_nobody_wants_are_killed() {
    let Some(mut node) = Node::new() else { return };
    let metadata = |name: &str| PodSandboxMetadata {
        name: format!("{name}-node1"),
        uid: format!("0000-{name}"),
        namespace: "default".into(),
        attempt: 0,
    };
    let labels = |name: &str| -> Labels {
        [("name", format!("{name}-node1")), ("namespace", "default".into()), ("uid", format!("0000-{name}"))]
            .map(|(key, value)| (format!("io.kubernetes.pod.{key}"), value))
            .into()
    };
    let make = |node: &Node, name: &str| {
        let config = PodSandboxConfig {
            metadata: metadata(name),
            hostname: name.into(),
            log_directory: node.dir.join(format!("logs/default_{name}-node1_0000-{name}")).to_str().unwrap().into(),
            labels: labels(name),
            linux: LinuxPodSandboxConfig {
                cgroup_parent: format!("{}/kubepods/besteffort/pod0000-{name}", node.named("CGROUP_ROOT")),
                ..LinuxPodSandboxConfig::default()
            },
            ..PodSandboxConfig::default()
        };
        std::fs::create_dir_all(&config.log_directory).unwrap();
        let container = ContainerConfig {
            metadata: ContainerMetadata { name: "main".into(), attempt: 0 },
            image: ImageSpec { image: CLIENT.into(), ..ImageSpec::default() },
            command: ["/bin/sh", "-c", &then_forever("")].map(str::to_owned).to_vec(),
            labels: labels(name).into_iter().chain([("io.kubernetes.container.name".into(), "main".into())]).collect(),
            log_path: "main.log".into(),
            ..ContainerConfig::default()
        };
        node.try_cri(async |cri| {
            let sandbox = cri.run_pod_sandbox(&config, "").await?;
            let id = cri.create_container(&sandbox, &container, &config).await?;
            cri.start_container(&id).await
        })
    };
    // One that has just started may not answer yet.
    node.cri(async |cri| cri.status().await);
    make(&node, "before").expect("nobody is there to mind");
    node.start_agent();
    node.wait_gone("before");
    node.apply(&pod("wanted", &[forever("main")]));
    let wanted = node.wait_running("wanted", "main");
    // The agent may be so quick that the sandbox is gone before it is there whole, or before its container is.
    let _ = make(&node, "meanwhile");
    node.wait_gone("meanwhile");
    for name in ["before", "meanwhile"] {
        node.eventually_none("no log directory", || {
            crate::pods::lifecycle::logs_of(&node, &format!("0000-{name}"))
                .into_iter()
                .chain(crate::pods::lifecycle::cgroups_of(&node, &format!("0000-{name}")))
                .collect()
        });
    }
    assert_eq!(node.running_now("wanted", "main").map(|one| one.id), Some(wanted.id));
}

/// POD-12, CRI-01: the runtime goes and comes; pods stay, and the agent goes on.
#[test]
fn pods_stay_while_the_runtime_is_replaced() {
    let Some(mut node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main")]));
    node.apply(&pod("goes", &[forever("main")]));
    node.wait_running("web", "main");
    node.wait_running("goes", "main");
    let before = identity(&node, "web");
    node.stop_containerd();
    node.delete("goes");
    node.apply(&pod("comes", &[forever("main")]));
    node.wait_for_words(&["container runtime cannot be used", "container runtime is down: "]);
    node.eventually("the pod says what it waits for", || {
        let why = explain(&node, "default/web-node1")?["why"].to_string();
        why.contains("waits for the container runtime: container runtime is down: ").then_some(())
    });
    assert!(node.agent_lives(), "it waits");
    node.start_containerd();
    node.wait_running("comes", "main");
    node.wait_gone("goes");
    node.see_a_round();
    assert_eq!(identity(&node, "web"), before);
    let shown = node.wait_listed("web", "running", |pod| pod["status"]["phase"] == "Running");
    assert_eq!(container_status(&shown, "main")["restartCount"], 0);
    assert!(node.agent_lives());
}

/// OBS, POD-28, PAIN-37: what `podwright ps` and `explain` say is what is, on a node that no API server knows.
#[test]
fn the_command_line_tells_what_is() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main"), forever("second")]));
    node.apply(&with(pod("crash", &[shell("main", "exit 5")]), json!({})));
    node.wait_running("web", "main");
    node.wait_running("web", "second");
    let listed = node.eventually("both are listed as they are", || {
        let listed = node.ask(&["ps"])?;
        let one = |name: &str| listed.as_array().unwrap().iter().find(|pod| pod["name"] == name).cloned();
        let (web, crash) = (one("web-node1")?, one("crash-node1")?);
        (web["ready_containers"] == 2
            && crash["restarts"].as_u64()? >= 1
            && crash["waiting"] != json!([])
            && web["waiting"] == json!([]))
        .then_some((web, crash))
    });
    assert_eq!(listed.0["phase"], "Running");
    let explained = node.eventually("the crash is explained", || {
        // Status 3 says that the pod is not ready; what is printed is the same.
        let why = explain(&node, "default/crash-node1")?;
        why["why"].to_string().contains("CrashLoopBackOff").then_some(why)
    });
    assert_eq!(explained["healthy"], false);
    node.eventually("the other is well", || explain(&node, "default/web-node1").filter(|fine| fine["healthy"] == true));
    let trace = node.answer(&["trace", "--pod", "default/web-node1"]);
    assert!(trace.to_string().contains("PodWorker"), "{trace:#}");
    assert!(node.answer(&["actors"]).to_string().contains("Pleg"));
}

/// The answer of `podwright explain` about a pod.
pub fn explain(node: &Node, pod: &str) -> Option<Value> {
    let output = std::process::Command::new(crate::harness::AGENT)
        .args(["explain", pod, "-o", "json", "--socket"])
        .arg(node.socket())
        .output()
        .unwrap();
    let answers: Vec<Value> = serde_json::from_slice(&output.stdout).ok()?;
    answers.into_iter().next()
}
