//! The Node that the agent writes, as the API server recorded it.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::cluster::csi::driver;
use crate::harness::NODE_NAME;

/// CVE-2025-5187, SEC-50: the node's requests about its own Node, from the first one on, as the API server recorded them. No
/// body names an owner, and none has labels but those of the host, of the configuration and of a driver's topology.
#[test]
fn cve_2025_5187_sec_50_no_request_gives_the_node_an_owner_or_a_strange_label() {
    let Some(mut cluster) = Cluster::new() else { return };
    cluster.flags.extend(["--node-labels", "zone=here"].map(str::to_owned));
    cluster.configure(json!({ "nodeStatusUpdateFrequency": "1s", "nodeStatusReportFrequency": "2s" }));
    cluster.start_agent();
    cluster.wait_ready();
    let ours = ["team=blue", "kubernetes.io/arch=wrong", "node-role.kubernetes.io/control-plane="];
    cluster.kubectl(&[&["label", "--overwrite", "node", NODE_NAME][..], &ours].concat());
    let is_repaired = |node: &Value| node["metadata"]["labels"]["kubernetes.io/arch"] != "wrong";
    cluster.wait("node", NODE_NAME, "as its machine is", is_repaired);
    let driver = driver(&cluster, json!({ "attachRequired": false }));
    driver.switches().topology.insert("topology.drv.test/zone".to_owned(), "a".to_owned());
    let _serving = driver.serve(&cluster.dir.join("kubelet/plugins_registry"));
    cluster.wait("node", NODE_NAME, "at the driver's place", |node| {
        node["metadata"]["labels"]["topology.drv.test/zone"] == "a"
    });
    cluster.stop_agent();
    cluster.start_agent();
    let before = cluster.node_writes().len();
    cluster.eventually("reports of the new agent", || (cluster.node_writes().len() > before + 2).then_some(()));
    let may = ["hostname", "os", "arch"].map(|name| format!("kubernetes.io/{name}"));
    let old = ["os", "arch"].map(|name| format!("beta.kubernetes.io/{name}"));
    let own = ["zone", "topology.drv.test/zone"].map(str::to_owned);
    let may = [&may[..], &old, &own].concat();
    let writes = cluster.node_writes();
    for body in &writes {
        assert!(body.is_object() && !body.to_string().contains("ownerReferences"), "{body}");
        let labels = body["metadata"]["labels"].as_object();
        let strange: Vec<_> = labels.into_iter().flatten().filter(|(label, _)| !may.contains(label)).collect();
        assert!(strange.is_empty(), "{strange:?} in {body}");
    }
    let with_label = |label: &str| writes.iter().filter(|body| body["metadata"]["labels"][label].is_string()).count();
    assert!(with_label("kubernetes.io/arch") >= 2, "the first request, and the repair");
    assert!(with_label("topology.drv.test/zone") >= 1, "the driver's place");
    let node = cluster.find("node", NODE_NAME).expect("it is there");
    assert_eq!(
        (&node["metadata"]["labels"]["team"], &node["metadata"]["ownerReferences"]),
        (&json!("blue"), &Value::Null)
    );
}
