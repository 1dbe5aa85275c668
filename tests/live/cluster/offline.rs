//! A boot without the API server, where `--offline-store` is set.

use std::process::Command;
use std::time::Duration;

use podwright::cri::RuntimeService;
use serde_json::{Value, json};

use super::Cluster;
use crate::harness::container_status;
use crate::pods::{forever, pod, shell, with};

const MOUNTED: &str = "cat /all/password; echo; cut -d. -f1 /all/token | wc -c; echo $COLOUR";

fn object(kind: &str, name: &str, key: &str, value: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "namespace": "default" }, key: value })
}

impl Cluster {
    /// Waits until the API server's wishes and its knowledge are on the disk: nothing is being written, and nothing begins
    /// to be.
    fn wait_kept(&self) {
        let at_rest = || {
            let actors = self.ask(&["actors"])?;
            let keeper = actors["actors"].as_array()?.iter().find(|actor| actor["name"] == "OfflinePods")?.clone();
            (keeper["state"] == "idle" && keeper["mailbox"]["depth"] == 0).then(|| keeper["turns"].clone())
        };
        self.eventually("what is wanted is on the disk", || {
            let before = at_rest()?;
            std::thread::sleep(Duration::from_secs(1));
            at_rest().filter(|turns| *turns == before)
        });
    }

    /// The remains of pods after a boot: the disk, and nothing that ran or was mounted.
    fn lose_all_that_runs(&self) {
        for sandbox in self.cri(async |cri| cri.list_pod_sandboxes(&Default::default()).await) {
            self.cri(async |cri| cri.stop_pod_sandbox(&sandbox.id).await);
            self.cri(async |cri| cri.remove_pod_sandbox(&sandbox.id).await);
        }
        let pods = self.dir.join("kubelet/pods");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        for point in points.filter(|point| point.starts_with(pods.to_str().unwrap())) {
            assert!(Command::new("umount").arg(point).status().unwrap().success(), "{point}");
        }
    }
}

/// PAIN-10: the last known pods run again, with their objects, and nothing is rebuilt once the API server is back.
#[test]
fn the_last_known_pods_run_again_without_the_api_server() {
    let Some(mut cluster) = Cluster::alone() else { return };
    cluster.flags.push("--offline-store".to_owned());
    cluster.start_agent();
    cluster.wait_ready();
    cluster.apply_object(&object("Secret", "login", "stringData", json!({ "password": "geheim" })));
    cluster.apply_object(&object("ConfigMap", "settings", "data", json!({ "colour": "red" })));
    let container = with(
        forever("main"),
        json!({
            "env": [{ "name": "COLOUR", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "colour" } } }],
            "volumeMounts": [{ "name": "all", "mountPath": "/all" }],
        }),
    );
    let volumes = json!([{ "name": "all", "projected": { "sources": [
        { "serviceAccountToken": { "path": "token" } },
        { "secret": { "name": "login" } },
    ] } }]);
    cluster.create_pod(with(pod("reader", &[container]), json!({ "spec": { "volumes": volumes } })));
    cluster.create_pod(with(pod("job", &[shell("main", "true")]), json!({ "spec": { "restartPolicy": "Never" } })));
    cluster.wait_pod_ready("reader");
    cluster.wait("pod", "job", "over", |pod| pod["status"]["phase"] == "Succeeded");
    let before = cluster.run_in(&cluster.wait_container("reader", "main"), MOUNTED);
    assert!(before.starts_with("geheim\n") && before.ends_with("red\n"), "{before}");
    cluster.wait_kept();

    cluster.stop_agent();
    cluster.stop_api();
    cluster.lose_all_that_runs();
    cluster.start_agent();
    let again = cluster.wait_container("reader", "main");
    assert_eq!(cluster.run_in(&again, MOUNTED), before);
    assert_eq!(cluster.containers_of("job").len(), 0, "what has ended is not run again");

    cluster.start_api();
    let shown = cluster.wait("pod", "reader", "as it is now", |pod| {
        container_status(pod, "main")["containerID"] == format!("containerd://{}", again.id)
    });
    assert_eq!(shown["status"]["phase"], "Running");
    cluster.see_a_round();
    assert_eq!(cluster.wait_container("reader", "main").id, again.id, "nothing is rebuilt");
    // A pod that the API server wants no more is ended as ever.
    cluster.kubectl(&["delete", "pod", "reader", "--timeout=180s"]);
    cluster.eventually_none("containers", || cluster.containers_of("reader"));
    assert!(!cluster.log().contains("geheim"), "a secret is not for logs");
}
