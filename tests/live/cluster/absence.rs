//! The API server is away, and comes back.

use serde_json::{Value, json};

use super::Cluster;
use crate::harness::{NODE_NAME, container_status};
use crate::pods::{forever, pod};

/// POD-10, POD-34, NODE-56, NODE-57, PAIN-08: pods go on, containers are started again, and on return the API server
/// learns what is.
#[test]
fn pods_go_on_while_the_api_server_is_away() {
    let Some(mut cluster) = Cluster::joined_alone() else { return };
    cluster.create_pod(pod("steady", &[forever("main")]));
    cluster.create_pod(pod("doomed", &[forever("main")]));
    cluster.create_pod(pod("killed", &[forever("main")]));
    for name in ["steady", "doomed", "killed"] {
        cluster.wait_pod_ready(name);
    }
    let steady = cluster.wait_container("steady", "main").id;
    let killed = cluster.wait_container("killed", "main").id;
    cluster.stop_api();
    let pid = cluster.pid_of(killed.as_str());
    crate::harness::send_signal(pid, "KILL");
    let again = cluster.eventually("it runs again", || {
        Some(cluster.wait_container("killed", "main")).filter(|container| container.id != killed)
    });
    cluster.apply(&pod("static", &[forever("main")]));
    cluster.wait_running("static", "main");
    // The agent starts again, and nobody is there to say what pods there are: what runs stays.
    cluster.stop_agent();
    cluster.start_agent();
    cluster.see_a_round();
    assert_eq!(cluster.wait_container("steady", "main").id, steady);
    assert_eq!(cluster.wait_container("killed", "main").id, again.id);
    cluster.start_api();
    let shown = cluster.wait("pod", "killed", "as it is now", |pod| {
        container_status(pod, "main")["containerID"] == format!("containerd://{}", again.id)
    });
    assert_eq!(container_status(&shown, "main")["restartCount"], 1);
    cluster.wait_pod_ready(&format!("static-{NODE_NAME}"));
    cluster.kubectl(&["delete", "pod", "doomed", "--timeout=180s"]);
    // Its remains go beside its deletion.
    cluster.eventually_none("containers", || cluster.containers_of("doomed"));
    assert_eq!(cluster.wait_container("steady", "main").id, steady);
}

/// POD-34, PAIN-16: an agent that starts again finds that everything was said.
#[test]
fn an_agent_that_starts_again_tells_nothing_twice() {
    let Some(mut cluster) = Cluster::joined_alone() else { return };
    for number in 0..4 {
        cluster.create_pod(pod(&format!("pod-{number}"), &[forever("main")]));
    }
    for number in 0..4 {
        cluster.wait_pod_ready(&format!("pod-{number}"));
    }
    let told = cluster.find("pod", "pod-0").unwrap();
    let node_patches = cluster.count("patch", "nodes/status");
    let patches = |cluster: &Cluster| {
        let of_pod = |line: &&Value| {
            let about = &line["objectRef"];
            line["verb"] == "patch"
                && (&about["resource"], &about["subresource"]) == (&json!("pods"), &json!("status"))
                && about["name"].as_str().is_some_and(|name| name.starts_with("pod-"))
                && line["responseStatus"]["code"].as_u64().is_some_and(|code| code / 100 == 2)
        };
        cluster.audit().iter().filter(of_pod).count()
    };
    let before = patches(&cluster);
    cluster.stop_agent();
    cluster.start_agent();
    // It knows all its pods again: a change of one is acted on.
    cluster.create_pod(pod("new", &[forever("main")]));
    cluster.wait_pod_ready("new");
    cluster.kubectl(&["delete", "pod", "new", "--timeout=180s"]);
    assert!(before >= 4, "each was told of");
    assert_eq!(patches(&cluster), before, "patches of pods that did not change");
    assert!(cluster.count("patch", "nodes/status") <= node_patches + 1);
    assert_eq!(cluster.find("pod", "pod-0").unwrap()["status"], told["status"]);
    assert_eq!(told["status"]["phase"], json!("Running"));
}
