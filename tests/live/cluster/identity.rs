//! Trust anchors and certificates of a pod's own, which the API server has only when it is asked to.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::Cluster;
use crate::pods::{forever, pod, with};

/// The flags of such an API server.
const FLAGS: &str = "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,PodCertificateRequest=true \
     --runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true,certificates.k8s.io/v1beta1/podcertificaterequests=true";

/// Signs a request with the cluster's key, and prints the status that says so.
const SIGN: &str = r#"set -eu
openssl base64 -d -A >pod.csr
openssl x509 -req -inform DER -in pod.csr -CA ca.crt -CAkey ca.key -set_serial 4711 -days 1 -out pod.crt 2>/dev/null
day() { openssl x509 -in pod.crt -noout "$1" -dateopt iso_8601 | sed 's/^[^=]*=//; s/ /T/'; }
begins=$(day -startdate) ends=$(day -enddate)
refresh=$(date -u -d "$begins + 12 hours" +%FT%TZ)
chain=$(sed 's/$/\\n/' pod.crt | tr -d '\n')
cat <<JSON
{"status":{"certificateChain":"$chain","notBefore":"$begins","notAfter":"$ends","beginRefreshAt":"$refresh",
"conditions":[{"type":"Issued","status":"True","reason":"Signed","message":"by the test","lastTransitionTime":"$begins"}]}}
JSON
"#;

/// Plays the signer of the pod's request.
fn sign(cluster: &Cluster, pod: &str) {
    let request = cluster.eventually("a request of the pod for a certificate", || {
        cluster.list("podcertificaterequest").into_iter().find(|request| request["spec"]["podName"] == pod)
    });
    let spec = &request["spec"];
    assert_eq!(spec["signerName"], "example.com/signer");
    assert_eq!(spec["unverifiedUserAnnotations"], json!({ "example.com/for": "tests" }));
    let pki = cluster.dir.join("cluster/pki");
    let input = pki.join("pod.base64");
    fs::write(&input, spec["stubPKCS10Request"].as_str().expect("a request of PKCS#10")).unwrap();
    let input = fs::File::open(input).unwrap();
    let signed = Command::new("bash").args(["-c", SIGN]).current_dir(&pki).stdin(input).output().unwrap();
    assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
    let status = String::from_utf8(signed.stdout).unwrap();
    let name = request["metadata"]["name"].as_str().unwrap();
    cluster.kubectl(&["patch", "podcertificaterequest", name, "--subresource=status", "--type=merge", "-p", &status]);
}

fn bundle(name: &str, signer: Option<&str>, text: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
        "metadata": { "name": name, "labels": { "of": "tests" } },
        "spec": { "signerName": signer, "trustBundle": text },
    })
}

/// VOL-28: anchors by name and by signer, and a certificate for a key that never left the node, stand in a pod's volume.
#[test]
fn a_pod_has_trust_anchors_and_a_certificate_of_its_own() {
    let Some(mut cluster) = Cluster::with_api_flags(FLAGS) else { return };
    cluster.start_agent();
    cluster.wait_ready();
    let authority = fs::read_to_string(cluster.dir.join("cluster/pki/ca.crt")).unwrap();
    cluster.apply_object(&bundle("everybody", None, &authority));
    cluster.apply_object(&bundle("example.com:signer:one", Some("example.com/signer"), &authority));
    let sources = json!([
        { "clusterTrustBundle": { "name": "everybody", "path": "named.pem" } },
        { "clusterTrustBundle": { "signerName": "example.com/signer", "labelSelector": { "matchLabels": { "of": "tests" } }, "path": "signed.pem" } },
        { "clusterTrustBundle": { "name": "nobody", "path": "absent.pem", "optional": true } },
        { "podCertificate": { "signerName": "example.com/signer", "keyType": "ECDSAP256", "credentialBundlePath": "bundle.pem", "userAnnotations": { "example.com/for": "tests" } } },
    ]);
    let container = with(forever("main"), json!({ "volumeMounts": [{ "name": "own", "mountPath": "/own" }] }));
    let volumes = json!([{ "name": "own", "projected": { "sources": sources } }]);
    cluster.create_pod(with(pod("trusted", &[container]), json!({ "spec": { "volumes": volumes } })));
    sign(&cluster, "trusted");
    cluster.wait_pod_ready("trusted");
    let main = cluster.wait_container("trusted", "main");
    let read = |script: &str| cluster.run_in(&main, script);
    let body = |text: &str| text.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    assert_eq!(body(&read("cat /own/named.pem")), body(&authority));
    assert_eq!(body(&read("cat /own/signed.pem")), body(&authority));
    assert_eq!(read("cat /own/absent.pem"), "", "an optional bundle that is not there is an empty file");
    let bundle = read("cat /own/bundle.pem");
    assert!(bundle.starts_with("-----BEGIN PRIVATE KEY-----"), "the key comes first");
    let signed = fs::read_to_string(cluster.dir.join("cluster/pki/pod.crt")).unwrap();
    assert!(body(&bundle).ends_with(&body(&signed)), "the chain comes after it");
    assert!(!cluster.log().contains("PRIVATE KEY"), "a key is not for logs");
}
