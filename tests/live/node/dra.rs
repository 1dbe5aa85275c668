//! Claims of resources: a driver of our own, registered as drivers are, and claims that the test allocates.

use std::fs;

use podwright::testing::dra_driver::DraDriver;
use podwright::testing::skips::needs;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::pods::{forever, pod, with};
use crate::wire::dra_health_v1alpha1::HealthStatus;

const DRIVER: &str = "drv.test";

/// A driver with a folder of its own, and the runtime's description of the device `data`.
fn driver(cluster: &Cluster) -> DraDriver {
    let (folder, described) = (cluster.dir.join("driver"), cluster.dir.join("cdi"));
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(&described).unwrap();
    let device = json!({ "name": "data", "containerEdits": { "env": ["CLAIMED=by-a-claim"] } });
    let spec = json!({ "cdiVersion": "0.6.0", "kind": format!("{DRIVER}/device"), "devices": [device] });
    fs::write(described.join("drv.json"), spec.to_string()).unwrap();
    DraDriver::new(DRIVER, &folder)
}

/// A pod whose container has the claim `data`.
fn user(name: &str) -> Value {
    let container = with(forever("main"), json!({ "resources": { "claims": [{ "name": "gpu" }] } }));
    let claims = json!({ "spec": { "resourceClaims": [{ "name": "gpu", "resourceClaimName": "data" }] } });
    with(pod(name, &[container]), claims)
}

/// Plays the scheduler: a device for the claim, and the pod that may use it.
fn allocate(cluster: &Cluster, user: &str) {
    let uid = cluster.find("pod", user).expect("the pod is there")["metadata"]["uid"].clone();
    let result = json!({ "request": "r", "driver": DRIVER, "pool": "pool", "device": "data" });
    let reserved = json!([{ "resource": "pods", "name": user, "uid": uid }]);
    let allocation = json!({ "devices": { "results": [result] } });
    let status = json!({ "status": { "allocation": allocation, "reservedFor": reserved } }).to_string();
    cluster.kubectl(&["patch", "resourceclaim", "data", "--subresource=status", "--type=merge", "-p", &status]);
}

fn state(cluster: &Cluster) -> String {
    fs::read_to_string(cluster.dir.join("kubelet/dra_manager_state")).unwrap_or_default()
}

/// RES-48, RES-49, RES-50, RES-51.
#[test]
fn res_48_a_claim_is_prepared_before_its_pod_and_released_after_it() {
    let Some(mut cluster) = Cluster::joined() else { return };
    let driver = driver(&cluster);
    let _serving = driver.serve(&cluster.dir.join("kubelet/plugins_registry"));
    cluster.eventually("the driver is registered", || (!driver.verdicts().is_empty()).then_some(()));
    assert_eq!(driver.verdicts(), [(true, String::new())]);
    cluster
        .eventually("slices are deleted", || (cluster.count("deletecollection", "resourceslices") > 0).then_some(()));
    let request = json!({ "name": "r", "exactly": { "deviceClassName": DRIVER } });
    cluster.apply_object(&json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "name": "data", "namespace": "default" }, "spec": { "devices": { "requests": [request] } } }));

    cluster.create_pod(user("one"));
    cluster.wait_event_like("one", "FailedPrepareDynamicResources", |told| {
        told.starts_with("Failed to prepare dynamic resources: prepare dynamic resources: pod one (")
            && told.contains("is not allowed to use ResourceClaim data (")
    });
    assert_eq!(cluster.containers_of("one").len(), 0, "nothing runs without what it asked for");
    allocate(&cluster, "one");
    cluster.wait_pod_ready("one");
    assert_eq!(driver.calls(), ["v1 NodePrepareResources data"]);
    assert!(state(&cluster).contains("drv.test/device=data"), "{}", state(&cluster));
    let before = cluster.wait_container("one", "main");
    if cluster.named("RUNTIME_VERSION").trim_start_matches('v').starts_with("1.6") {
        needs("CONTAINERD that knows CDI devices in requests");
    } else {
        assert_eq!(cluster.run_in(&before, "echo $CLAIMED").trim(), "by-a-claim");
    }

    driver.say("data", HealthStatus::Unhealthy, "too hot");
    cluster.wait("pod", "one", "told that its device is not well", |pod| {
        let told = &pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0];
        let hot = json!({ "resourceID": "drv.test/device=data", "health": "Unhealthy", "message": "too hot" });
        told["name"] == "claim:gpu" && told["resources"] == json!([hot])
    });

    // The agent is away while the pod goes on, and knows again from its file what the pod has.
    cluster.kill_agent();
    cluster.start_agent();
    cluster.wait_ready();
    cluster.eventually("the driver is registered again", || (driver.verdicts().len() >= 2).then_some(()));
    assert_eq!(cluster.wait_container("one", "main").id, before.id, "nothing is touched");
    cluster.kubectl(&["delete", "pod", "one", "--timeout=240s"]);
    assert_eq!(driver.calls(), ["v1 NodePrepareResources data", "v1 NodeUnprepareResources data"]);
    assert!(!state(&cluster).contains("device=data"), "{}", state(&cluster));

    // A pod that is deleted by force while the agent is away.
    cluster.create_pod(user("two"));
    cluster.eventually("the pod is there", || cluster.find("pod", "two").map(drop));
    allocate(&cluster, "two");
    cluster.wait_pod_ready("two");
    cluster.kill_agent();
    cluster.kubectl(&["delete", "pod", "two", "--force", "--grace-period=0"]);
    cluster.start_agent();
    cluster.eventually("it is released", || (driver.calls().len() == 4).then_some(()));
    assert_eq!(driver.calls()[3], "v1 NodeUnprepareResources data");
}
