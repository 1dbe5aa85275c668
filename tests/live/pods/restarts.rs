//! A container that ends is started again as its policy says: init containers in order, back-off in between, all of it
//! counted.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use podwright::cri::{ContainerState, ContainerStatus};
use podwright::logic::model::time::Moment;
use serde_json::json;

use crate::harness::{Node, container_status, send_signal};
use crate::pods::{forever, pod, shell, with};

/// POD-20, POD-28: by the runtime's own times.
#[test]
fn init_containers_run_one_after_another_before_the_others() {
    let Some(node) = Node::running() else { return };
    let init = [shell("first", "echo first; sleep 1"), shell("second", "echo second; sleep 1")];
    node.apply(&with(pod("web", &[forever("main")]), json!({ "spec": { "initContainers": init } })));
    node.wait_running("web", "main");
    let one = |name: &str| node.containers("web", name).into_iter().next().unwrap_or_else(|| panic!("no {name}"));
    let (first, second, main) = (one("first"), one("second"), one("main"));
    assert_eq!((first.exit_code, second.exit_code), (0, 0));
    assert!(first.finished_at <= second.created_at, "{first:?} {second:?}");
    assert!(second.finished_at <= main.created_at, "{second:?} {main:?}");
    let shown = node.wait_listed("web", "running", |pod| pod["status"]["phase"] == "Running");
    assert_eq!(container_status(&shown, "first")["state"]["terminated"]["reason"], "Completed");
    assert_eq!(container_status(&shown, "first")["ready"], true);
}

/// POD-19, POD-20: the others wait until it succeeds.
#[test]
fn a_failing_init_container_is_tried_again_and_holds_the_others_back() {
    let Some(node) = Node::running() else { return };
    let port = node.free_port(0);
    let ask = format!("timeout 5 wget -qO- http://{}:{port}/ || exit 7", node.gateway());
    let init = [shell("gate", &ask)];
    node.apply(&with(pod("web", &[forever("main")]), json!({ "spec": { "initContainers": init } })));
    let again = node.eventually("the init container was tried again", || {
        node.containers("web", "gate").into_iter().find(|one| one.metadata.attempt >= 1)
    });
    assert!(node.containers("web", "main").is_empty(), "the others wait");
    let shown = node.wait_listed("web", "with its failure", |pod| {
        container_status(pod, "gate")["lastState"]["terminated"]["exitCode"] == 7
            || container_status(pod, "gate")["state"]["terminated"]["exitCode"] == 7
    });
    assert_eq!(shown["status"]["phase"], "Pending");

    let listener = TcpListener::bind(("0.0.0.0", port)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nopen\n");
        }
    });
    node.wait_running("web", "main");
    let last = node.containers("web", "gate").into_iter().next().unwrap();
    assert_eq!(last.exit_code, 0);
    assert!(last.metadata.attempt >= again.metadata.attempt);
    node.wait_listed("web", "with its restarts counted", |pod| {
        container_status(pod, "gate")["restartCount"] == last.metadata.attempt
    });
}

/// POD-15, POD-17.
#[test]
fn what_ends_is_started_again_as_the_restart_policy_says() {
    let Some(node) = Node::running() else { return };
    for (name, policy, exit) in [
        ("never-bad", "Never", 3),
        ("never-good", "Never", 0),
        ("failure-bad", "OnFailure", 3),
        ("failure-good", "OnFailure", 0),
        ("always-good", "Always", 0),
    ] {
        let spec = json!({ "spec": { "restartPolicy": policy } });
        node.apply(&with(pod(name, &[shell("main", &format!("sleep 0.5; exit {exit}"))]), spec));
    }
    for (name, phase) in [("never-bad", "Failed"), ("never-good", "Succeeded"), ("failure-good", "Succeeded")] {
        node.wait_listed(name, phase, |pod| pod["status"]["phase"] == phase);
    }
    for name in ["failure-bad", "always-good"] {
        let shown = node.wait_listed(name, "restarted", |pod| {
            container_status(pod, "main")["restartCount"].as_u64().is_some_and(|count| count >= 1)
        });
        assert_eq!(shown["status"]["phase"], "Running", "{name}");
    }
    // The others had as long as those that did restart.
    for name in ["never-bad", "never-good", "failure-good"] {
        let shown = node.wait_listed(name, "at all", |_| true);
        assert_eq!(container_status(&shown, "main")["restartCount"], 0, "{name}");
        assert!(node.running_now(name, "main").is_none(), "{name}");
    }
}

/// POD-19, POD-28, POD-40: no wait, then 10 s, then 20 s; from below.
#[test]
fn a_crash_loop_waits_longer_each_time() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("crash", &[shell("main", "exit 5")]));
    let mut ended: BTreeMap<u32, (Moment, Moment)> = BTreeMap::new();
    node.eventually("three restarts", || {
        for one in node.containers("crash", "main") {
            if one.state == ContainerState::Exited {
                ended.insert(one.metadata.attempt, (one.started_at, one.finished_at));
            }
        }
        ended.contains_key(&3).then_some(())
    });
    let waited = |attempt: u32| ended[&attempt].0.since(ended[&(attempt - 1)].1);
    assert!(waited(2) >= Duration::from_secs(10), "{:?}", waited(2));
    assert!(waited(3) >= Duration::from_secs(20), "{:?}", waited(3));
    node.wait_for_words(&["Back-off restarting failed container main in pod crash-node1_default(", "BackOff"]);

    // The status may be of the run before for a moment.
    let back_off = "back-off 40s restarting failed container=main pod=crash-node1_default(";
    let shown = node.wait_listed("crash", "in its third back-off", |pod| {
        let status = container_status(pod, "main");
        let waiting = &status["state"]["waiting"];
        status["restartCount"] == 3
            && waiting["reason"] == "CrashLoopBackOff"
            && waiting["message"].as_str().is_some_and(|message| message.starts_with(back_off))
    });
    let status = container_status(&shown, "main");
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 5);
    assert_eq!(status["lastState"]["terminated"]["reason"], "Error");
}

/// POD-28, CRI-20: a container that was killed comes back, its pod's sandbox and neighbours stay.
#[test]
fn a_killed_container_comes_back_alone() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main"), forever("second")]));
    let (main, second) = (node.wait_running("web", "main"), node.wait_running("web", "second"));
    let sandbox = node.sandboxes("web").remove(0);
    send_signal(node.pid_of(main.id.as_str()), "KILL");
    let back = another(&node, "web", &main);
    assert_eq!(back.metadata.attempt, 1);
    assert_eq!(back.annotations["io.kubernetes.container.restartCount"], "1");
    assert!(back.log_path.ends_with("/main/1.log"), "{}", back.log_path);
    assert_eq!(node.running_now("web", "second").map(|one| one.id), Some(second.id));
    assert_eq!(node.sandboxes("web").iter().map(|one| &one.id).collect::<Vec<_>>(), [&sandbox.id]);
    let shown = node.wait_listed("web", "restarted", |pod| container_status(pod, "main")["restartCount"] == 1);
    assert_eq!(container_status(&shown, "main")["lastState"]["terminated"]["exitCode"], 137);
    assert_eq!(container_status(&shown, "second")["restartCount"], 0);
    assert!(!node.log().contains("Back-off restarting"), "the first time it does not wait: {}", node.log());
}

/// CRI-17: a new sandbox with the next attempt, and the containers in it anew.
#[test]
fn a_killed_sandbox_is_replaced_with_its_containers() {
    let Some(node) = Node::running() else { return };
    node.apply(&pod("web", &[forever("main")]));
    let main = node.wait_running("web", "main");
    let sandbox = node.sandboxes("web").remove(0);
    send_signal(node.pid_of(sandbox.id.as_str()), "KILL");
    let back = another(&node, "web", &main);
    let new = node.sandboxes("web").remove(0);
    assert_ne!(new.id, sandbox.id);
    assert_eq!(new.metadata.attempt, 1);
    assert_eq!(new.metadata.uid, sandbox.metadata.uid, "the same pod");
    assert_eq!(back.metadata.attempt, 1);
    node.wait_for_words(&["SandboxChanged", "Pod sandbox changed, it will be killed and re-created."]);
    node.wait_listed("web", "with the new address", |pod| pod["status"]["podIP"] == new.ips[0].as_str());
}

/// POD-08: the container is asked first; its own exit code shows.
#[test]
fn a_container_that_heeds_the_request_to_end_is_not_killed() {
    let Some(node) = Node::running() else { return };
    // Says on its way out that it was asked, where the host can still read it.
    let polite = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 1000 & wait $!; done";
    node.apply(&with(
        pod("web", &[shell("main", polite)]),
        json!({ "spec": { "terminationGracePeriodSeconds": 100 } }),
    ));
    let main = node.wait_running("web", "main");
    node.eventually("it is ready", || node.output(&main).contains("ready").then_some(()));
    let log = std::fs::File::open(&main.log_path).unwrap();
    node.delete("web");
    // Far sooner than the grace period: who heeds is not waited for.
    node.wait_gone("web");
    let mut text = String::new();
    { log }.read_to_string(&mut text).unwrap();
    assert!(text.contains("asked"), "{text}");
}

/// POD-08: who does not heed is killed when the grace period is over, not before.
#[test]
fn a_container_that_ignores_the_request_to_end_gets_its_grace_period() {
    let Some(node) = Node::running() else { return };
    let stubborn = "trap 'echo asked $(date +%s)' TERM; echo ready; while :; do date +%s; sleep 0.2; done";
    node.apply(&with(
        pod("web", &[shell("main", stubborn)]),
        json!({ "spec": { "terminationGracePeriodSeconds": 12 } }),
    ));
    let main = node.wait_running("web", "main");
    node.eventually("it is ready", || node.output(&main).contains("ready").then_some(()));
    let log = std::fs::File::open(&main.log_path).unwrap();
    node.delete("web");
    node.wait_gone("web");
    let mut text = String::new();
    { log }.read_to_string(&mut text).unwrap();
    let asked =
        text.lines().find_map(|line| line.split("asked ").nth(1)).unwrap_or_else(|| panic!("not asked: {text}"));
    let last = text.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).next_back().unwrap();
    let lived_on = last - asked.parse::<u64>().unwrap();
    // The seconds are whole ones, and what is written last may be some while before the end on a busy machine.
    assert!(lived_on >= 8, "killed after {lived_on} s of 12: {text}");
}

/// The container that took another's place, once it runs.
pub fn another(node: &Node, pod: &str, old: &ContainerStatus) -> ContainerStatus {
    let name = &old.metadata.name;
    node.eventually(&format!("another {name} of {pod} runs"), || {
        node.running_now(pod, name).filter(|one| one.id != old.id)
    })
}
