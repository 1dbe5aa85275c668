//! CPUs that containers own: given at admission, seen in the container, taken back at the pod's end.

use std::fs;

use podwright::cri::ContainerStatus;
use podwright::logic::resources::cpu_manager::CpuSet;
use serde_json::{Value, json};

use super::cgroups::quota;
use crate::harness::Node;
use crate::pods::{forever, pod, with};
use crate::serving::rpc::Client;

/// The CPUs that a container may run on, as the kernel says inside of it.
fn allowed(node: &Node, container: &ContainerStatus) -> CpuSet {
    let line = node.run_in(container, "grep Cpus_allowed_list: /proc/self/status");
    let list = line.trim().rsplit(char::is_whitespace).next().unwrap_or_default().to_owned();
    CpuSet::parse(&list).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

fn state(node: &Node) -> Value {
    let text = fs::read(node.dir.join("kubelet/cpu_manager_state")).expect("the file is there");
    serde_json::from_slice(&text).expect("JSON")
}

fn guaranteed(name: &str) -> Value {
    let amounts = json!({ "cpu": "1", "memory": "32Mi" });
    pod(name, &[with(forever("main"), json!({ "resources": { "requests": amounts, "limits": amounts } }))])
}

/// RES-24, RES-25, RES-26, RES-29, RES-30, RES-31, RES-53, RES-67: all but one CPU are reserved; the first Guaranteed pod gets
/// that one, the next is refused until the first has gone, and a restart of the agent changes nothing.
#[test]
fn a_container_owns_its_cpu_until_its_pod_is_over() {
    let Some(mut node) = Node::new() else { return };
    let count = std::thread::available_parallelism().expect("CPUs").get();
    if count < 2 {
        return podwright::testing::skips::skip("a machine with one CPU has none to give away");
    }
    node.configure(json!({
        "cpuManagerPolicy": "static",
        "cpuManagerReconcilePeriod": "1s",
        "kubeReserved": { "cpu": (count - 1).to_string() },
    }));
    node.start_agent();
    node.apply(&pod("shared", &[forever("main")]));
    let shared = node.wait_running("shared", "main");
    let all = allowed(&node, &shared);
    assert_eq!(all.len(), count);
    assert_eq!(state(&node)["defaultCpuSet"], all.to_string());

    node.apply(&guaranteed("own"));
    let own = node.wait_running("own", "main");
    let cpus = allowed(&node, &own);
    assert_eq!(cpus.len(), 1);
    let rest = all.difference(&cpus);
    node.eventually("the others leave its CPU", || (allowed(&node, &shared) == rest).then_some(()));
    let uid = own.labels["io.kubernetes.pod.uid"].clone();
    let kept = state(&node);
    assert_eq!(kept["entries"], json!({ (uid.as_str()): { "main": cpus.to_string() } }));
    assert_eq!(kept["defaultCpuSet"], rest.to_string());
    assert_eq!(quota(&node, &format!("/kubepods/pod{uid}")).0, "-1", "a CPU of its own needs no quota");
    let client = Client::of(&node, "pod-resources/kubelet.sock");
    let listed = client.list().expect("somebody listens").expect("answered");
    let listed = listed.iter().find(|pod| pod.name == "own-node1").expect("listed");
    assert_eq!(listed.containers[0].cpu_ids, cpus.iter().map(i64::from).collect::<Vec<_>>());
    let explained = node.explained("default/own");
    assert!(explained.contains(&format!("container main: CPUs {cpus} (")), "{explained}");

    node.apply(&guaranteed("next"));
    let refused = node.wait_listed("next", "refused", |pod| pod["status"]["phase"] == "Failed");
    assert_eq!(refused["status"]["reason"], "UnexpectedAdmissionError");
    assert_eq!(
        refused["status"]["message"],
        "Pod was rejected: Allocate failed due to not enough cpus available to satisfy request: requested=1, \
         available=0, which is unexpected"
    );

    node.kill_agent();
    node.start_agent();
    node.see_a_round();
    assert_eq!(state(&node), kept);
    assert_eq!(allowed(&node, &node.wait_running("own", "main")), cpus);
    assert_eq!(node.wait_running("own", "main").id, own.id);

    node.delete("own");
    let next = node.wait_running("next", "main");
    assert_eq!(allowed(&node, &next), cpus, "a static pod is judged anew once there is room");
    node.delete("next");
    node.eventually("all CPUs are shared again", || (state(&node)["defaultCpuSet"] == all.to_string()).then_some(()));
    node.eventually("containers may use all CPUs", || (allowed(&node, &shared) == all).then_some(()));

    node.stop_agent();
    node.configure(json!({ "cpuManagerPolicy": "none" }));
    let (status, words) = node.run_agent_to_its_end();
    assert!(!status.success());
    assert!(words.contains(r#"configured policy \"none\" differs from state checkpoint policy \"static\""#), "{words}");
    assert!(words.contains("please drain this node and delete the CPU manager checkpoint file"), "{words}");
}
