//! A node gets its certificates from the cluster.

use std::fs;

use podwright::testing::skips::needs;
use serde_json::{Value, json};

use super::Cluster;
use crate::harness::{NODE_NAME, condition};
use crate::pods::{forever, pod, with};

/// A control plane that signs, and a node that knows nothing but a token.
pub fn with_a_token() -> Option<Cluster> {
    let mut cluster = Cluster::alone()?;
    if !cluster.kubectl.with_file_name("kube-controller-manager").exists() {
        needs("kube-controller-manager in KUBEBUILDER_ASSETS");
        return None;
    }
    let path = |name: &str| cluster.dir.join(name).to_str().unwrap().to_owned();
    let (own, bootstrap) = (path("kubelet.conf"), path("cluster/pki/bootstrap.conf"));
    let place = cluster.flags.iter().position(|flag| flag == "--kubeconfig").expect("it is named");
    cluster.flags[place + 1] = own;
    cluster.flags.extend(["--bootstrap-kubeconfig".to_owned(), bootstrap]);
    Some(cluster)
}

/// The requests for this signer.
fn requests(cluster: &Cluster, signer: &str) -> Vec<Value> {
    let all = cluster.list("certificatesigningrequest");
    all.into_iter().filter(|request| request["spec"]["signerName"] == signer).collect()
}

fn name(request: &Value) -> String {
    request["metadata"]["name"].as_str().unwrap().to_owned()
}

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";

/// NODE-50, NODE-52, SRV-13, SRV-14: a token is all that a node needs, and needs once.
#[test]
fn a_node_with_a_token_gets_certificates_of_its_own() {
    let Some(mut cluster) = with_a_token() else { return };
    // A certificate that is given as files is not asked for.
    let files = json!({ "tlsCertFile": "", "tlsPrivateKeyFile": "" });
    cluster.configure(with(files, json!({ "rotateCertificates": true, "serverTLSBootstrap": true })));
    cluster.start_agent();
    cluster.wait_ready();
    let asked = requests(&cluster, CLIENT);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["spec"]["username"], "system:bootstrap:abcdef");
    assert!(name(&asked[0]).starts_with("csr-"));
    let written = fs::read_to_string(cluster.dir.join("kubelet.conf")).unwrap();
    assert_eq!(written.matches("pki/kubelet-client-current.pem").count(), 2, "{written}");
    let serving = cluster.eventually("a serving certificate is asked for", || requests(&cluster, SERVING).pop());
    assert_eq!(serving["spec"]["username"], format!("system:node:{NODE_NAME}"));
    assert_eq!(serving["spec"]["usages"], json!(["digital signature", "server auth"]));
    cluster.kubectl(&["certificate", "approve", &name(&serving)]);
    let stored = cluster.dir.join("pki/kubelet-server-current.pem");
    cluster.eventually("the serving certificate is stored", || stored.exists().then_some(()));
    // Its certificate is enough from now on.
    cluster.kubectl(&["-n", "kube-system", "delete", "secret", "bootstrap-token-abcdef"]);
    fs::remove_file(cluster.dir.join("cluster/pki/bootstrap.conf")).unwrap();
    cluster.stop_agent();
    cluster.kubectl(&["delete", "node", NODE_NAME]);
    cluster.start_agent();
    cluster.wait_ready();
    assert_eq!((requests(&cluster, CLIENT).len(), requests(&cluster, SERVING).len()), (1, 1));
}

/// NODE-49, NODE-56, PAIN-09: while nobody has approved the node, static pods run, and a restart asks for nothing else.
#[test]
fn a_node_that_nobody_approved_yet_runs_its_static_pods() {
    let Some(mut cluster) = with_a_token() else { return };
    cluster.kubectl(&["delete", "clusterrolebinding", "bootstrap-approval"]);
    let approved =
        ["auth", "can-i", "create", "certificatesigningrequests.certificates.k8s.io", "--subresource=nodeclient"];
    let whose = ["--as=system:bootstrap:abcdef", "--as-group=system:bootstrappers"];
    cluster.eventually("the API server knows that it is gone", || {
        let said = cluster.command(&[&approved[..], &whose[..]].concat()).output().unwrap();
        said.stdout.starts_with(b"no").then_some(())
    });
    cluster.apply(&pod("static", &[forever("main")]));
    cluster.start_agent();
    let container = cluster.wait_running("static", "main").id;
    let asked = cluster.eventually("a certificate is asked for", || requests(&cluster, CLIENT).pop());
    assert!(name(&asked).starts_with("node-csr-"), "{asked}");
    cluster.kill_agent();
    cluster.start_agent();
    cluster.see_a_round();
    assert_eq!(requests(&cluster, CLIENT).len(), 1);
    assert!(!cluster.dir.join("kubelet.conf").exists() && cluster.find("node", NODE_NAME).is_none());
    cluster.kubectl(&["certificate", "approve", &name(&asked)]);
    cluster.wait("node", NODE_NAME, "Ready", |node| condition(node, "Ready") == "True");
    assert!(cluster.dir.join("kubelet.conf").exists());
    assert!(!cluster.dir.join("pki/kubelet-client.key.tmp").exists());
    assert_eq!(cluster.wait_running("static", "main").id, container);
    cluster.wait_pod_ready(&format!("static-{NODE_NAME}"));
}
