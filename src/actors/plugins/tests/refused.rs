//! Drivers that the API server refuses, and those that wait behind them.

use super::*;

/// The label that the API server does not take from the node.
const RACK: &str = "example.com/rack";

/// VOL-40: whether the server refuses the driver's label or fails over it.
#[tokio::test]
async fn vol_40_a_driver_that_the_cluster_does_not_take_keeps_no_other_waiting() {
    for answer in [(422, "Invalid"), (403, "Forbidden"), (500, "InternalError")] {
        let Some(setup) = Setup::new() else { return };
        setup.server.refuse(RACK, Some(answer));
        setup.driver.switches().topology.insert(RACK.to_owned(), "7".to_owned());
        let _refused = setup.driver.serve(&setup.path("plugins_registry"));
        let patch = format!("PATCH /api/v1/nodes/{}/status", setup.node());
        let tried = || setup.server.bodies(&patch).iter().any(|sent| sent["metadata"]["labels"][RACK] == "7");
        setup.eventually("it is tried", tried).await;
        let folder = tempfile::tempdir().expect("a folder");
        let other = Driver::new("other.test", folder.path());
        let _serving = other.serve(&setup.path("plugins_registry"));
        setup.eventually("the other one is used", || !other.seen().verdicts.is_empty()).await;
        assert_eq!(other.seen().verdicts, [(true, String::new())], "{answer:?}");
    }
}

/// VOL-40: the plugin, the pods that wait for it and the node's Events say why.
#[tokio::test]
async fn vol_40_the_reason_of_a_refused_driver_is_told() {
    let Some(setup) = Setup::new() else { return };
    start_alone(Child::EventRecorder, &setup.played.agent);
    setup.server.refuse(RACK, Some((422, "Invalid")));
    setup.driver.switches().topology.insert(RACK.to_owned(), "7".to_owned());
    let _refused = setup.driver.serve(&setup.path("plugins_registry"));
    setup.eventually("it is told", || !setup.driver.seen().verdicts.is_empty()).await;
    let why = "RegisterPlugin error -- plugin registration failed with err: refused: Invalid";
    assert_eq!(setup.driver.seen().verdicts[0], (false, why.to_owned()));
    setup.put_volume(&json!({}));
    let failure = setup.ensure(&pod("one")).await.expect_err("there is no driver");
    let expected = format!("driver name drv.test not found in the list of registered CSI drivers: {why}");
    assert!(failure.message.contains(&expected), "{}", failure.message);
    let text = format!("CSI driver drv.test is not used and will be tried again: {why}");
    let is_it = |sent: &Value| sent["reason"] == "FailedCSIDriverRegistration" && sent["message"] == text;
    setup.eventually("the node's Event", || setup.server.bodies("/events").iter().any(is_it)).await;
    setup.server.refuse(RACK, None);
    let used = || setup.driver.seen().verdicts.last() == Some(&(true, String::new()));
    setup.eventually("it is used", used).await;
    // The newest failure stands until the next try.
    let mut tries = 0;
    while let Err(failure) = setup.ensure(&pod("one")).await {
        tries += 1;
        assert!(tries < 3000, "{}", failure.message);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    setup.release("one").await;
}

/// NODE-60: with the label the API server would refuse the whole patch.
#[tokio::test]
async fn node_60_a_driver_is_used_without_a_label_that_nodes_may_not_set() {
    let Some(setup) = Setup::new() else { return };
    let rack = "node-restriction.kubernetes.io/rack";
    setup.server.refuse(rack, Some((403, "Forbidden")));
    for (label, value) in [(rack, "7"), ("zone", "a")] {
        setup.driver.switches().topology.insert(label.to_owned(), value.to_owned());
    }
    let _serving = setup.serve().await;
    let csi_node = setup.server.object(&format!("/apis/storage.k8s.io/v1/csinodes/{}", setup.node()));
    assert_eq!(csi_node["spec"]["drivers"][0]["topologyKeys"], json!(["zone"]));
    let node = setup.server.object(&format!("/api/v1/nodes/{}", setup.node()));
    assert_eq!(node["metadata"]["labels"]["zone"], "a");
}
