//! Secrets and the log of an agent at the highest verbosity, at which every library says all that it has to say.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::cluster::certificates::with_a_token;
use crate::cluster::csi::{DRIVER, registered};
use crate::harness::{NODE_NAME, Node};
use crate::images::of_image;
use crate::pods::{forever, pod, with};

/// Sets the highest verbosity. JSON, since its lines say at which verbosity they are written.
fn say_everything(cluster: &mut Cluster) {
    cluster.configure(json!({ "logging": { "verbosity": 10, "format": "json" } }));
}

/// Has the agent read another kubeconfig.
fn use_kubeconfig(cluster: &mut Cluster, path: &Path) {
    let place = cluster.flags.iter().position(|flag| flag == "--kubeconfig").expect("it is named");
    cluster.flags[place + 1] = path.display().to_string();
}

/// The forms that a secret may have in a log: the text, its base64, and its bytes as Rust prints them.
fn forms(secret: &str) -> [String; 3] {
    let script = "printf %s \"$1\" | base64 -w0";
    let output = Command::new("sh").args(["-c", script, "sh", secret]).output().unwrap();
    assert!(output.status.success() && secret.len() >= 12, "{output:?}");
    let base64 = String::from_utf8(output.stdout).unwrap().trim_end_matches('=').to_owned();
    let bytes = format!("{:?}", secret.as_bytes()).trim_matches(['[', ']']).to_owned();
    [secret.to_owned(), base64, bytes]
}

/// Fails where a line of the log has one of these secrets, each behind its name, in any form.
fn assert_unsaid(node: &Node, secrets: &[(&str, &str)]) {
    let log = node.log();
    assert!(log.contains("\"v\":10,") || log.contains("\"v\":10}"), "no library says what it can");
    for (name, secret) in secrets {
        for form in forms(secret) {
            let line = log.lines().find(|line| line.contains(&form));
            assert_eq!(line, None, "{name}");
        }
    }
}

fn secret(name: &str, kind: &str, data: Value) -> Value {
    let metadata = json!({ "name": name, "namespace": "default" });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "stringData": data })
}

/// CVE-2019-11250, CVE-2020-8565, SEC-40: a token is all that the node has, so each of its requests shows the token to the API
/// server. Callers show theirs to the node, which sends them on in reviews. None of them is in the log.
#[test]
fn cve_2019_11250_cve_2020_8565_sec_40_the_tokens_of_a_node_and_of_its_callers_are_in_no_line_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let (tokens, own) = (folder.path().join("tokens.csv"), "own-token-7d3f0c5b9a");
    fs::write(&tokens, format!("{own},system:node:{NODE_NAME},{NODE_NAME},\"system:nodes\"\n")).unwrap();
    let Some(mut cluster) = Cluster::with_api_flags(&format!("--token-auth-file={}", tokens.display())) else { return };
    let certified = fs::read_to_string(cluster.dir.join("cluster/pki/kubelet.conf")).unwrap();
    let (others, _) = certified.split_once("users:").expect("a kubeconfig has users");
    let path = cluster.dir.join("token.conf");
    fs::write(&path, format!("{others}users: [{{name: kubelet, user: {{token: {own}}}}}]\n")).unwrap();
    use_kubeconfig(&mut cluster, &path);
    say_everything(&mut cluster);
    cluster.start_agent();
    cluster.wait_ready();
    cluster.create_pod(pod("web", &[forever("main")]));
    cluster.wait_pod_ready("web");
    cluster.kubectl(&["create", "serviceaccount", "caller"]);
    let callers = cluster.kubectl(&["create", "token", "caller"]).trim().to_owned();
    let (known, unknown) = (format!("Authorization: Bearer {callers}"), "Authorization: Bearer token-of-a-stranger");
    cluster.eventually("the node knows the caller", || (cluster.curl(&["-H", &known], "/pods").0 == 403).then_some(()));
    assert_eq!(cluster.curl(&["-H", unknown], "/pods").0, 401);
    cluster.kubectl(&["delete", "pod", "web", "--timeout=240s"]);
    let secrets = [("its own", own), ("the caller's", callers.as_str()), ("the stranger's", "token-of-a-stranger")];
    assert_unsaid(&cluster, &secrets);
}

/// CVE-2019-11250, CVE-2020-8565, SEC-40: a node joins with a bootstrap token, and the log does not have it.
#[test]
fn cve_2019_11250_cve_2020_8565_sec_40_a_bootstrap_token_is_in_no_line_of_the_log() {
    let Some(mut cluster) = with_a_token() else { return };
    cluster.configure(json!({ "rotateCertificates": true }));
    say_everything(&mut cluster);
    cluster.start_agent();
    cluster.wait_ready();
    let bootstrap = fs::read_to_string(cluster.dir.join("cluster/pki/bootstrap.conf")).unwrap();
    let (_, token) = bootstrap.split_once("token: ").expect("a token");
    let token = token.split('}').next().expect("it ends");
    assert_unsaid(&cluster, &[("the bootstrap token", token)]);
}

/// CVE-2020-8564, CVE-2020-8566, CVE-2023-2878, CVE-2024-3744, SEC-40: the log has no secret that a pod mounts, has in its
/// environment or prints. It has none of the pod's driver or pull either, and no token for the pod or for the driver.
#[test]
fn cve_2020_8564_cve_2020_8566_cve_2023_2878_cve_2024_3744_secrets_and_tokens_of_pods_are_in_no_line_of_the_log() {
    let Some(mut cluster) = Cluster::new() else { return };
    say_everything(&mut cluster);
    cluster.start_agent();
    cluster.wait_ready();
    let (password, later, drivers, pulls) =
        ("password-31f7c2a8", "password-later-90be4", "secret-of-the-driver-5c", "no-base64-of-a-pull-secret!");
    let config = json!({ "auths": { "127.0.0.1:1": { "auth": pulls } } }).to_string();
    cluster.apply_object(&secret("login", "Opaque", json!({ "password": password })));
    cluster.apply_object(&secret("driver", "Opaque", json!({ "key": drivers })));
    cluster.apply_object(&secret("pull", "kubernetes.io/dockerconfigjson", json!({ ".dockerconfigjson": config })));
    let (driver, _serving) = registered(
        &cluster,
        json!({
            "attachRequired": false, "podInfoOnMount": true, "volumeLifecycleModes": ["Ephemeral"],
            "tokenRequests": [{ "audience": DRIVER }],
        }),
    );
    let key = json!({ "secretKeyRef": { "name": "login", "key": "password" } });
    let main = with(
        forever("main"),
        json!({
            "env": [{ "name": "PASSWORD", "valueFrom": key }],
            "envFrom": [{ "secretRef": { "name": "login" } }],
            "volumeMounts": [{ "name": "login", "mountPath": "/login" }, { "name": "data", "mountPath": "/data" }],
        }),
    );
    let volumes = json!([
        { "name": "login", "secret": { "secretName": "login" } },
        { "name": "data", "csi": { "driver": DRIVER, "nodePublishSecretRef": { "name": "driver" } } },
    ]);
    cluster.create_pod(with(pod("reader", &[main]), json!({ "spec": { "volumes": volumes } })));
    let puller = pod("puller", &[of_image("127.0.0.1:1/team/app:1", "Always")]);
    cluster.create_pod(with(puller, json!({ "spec": { "imagePullSecrets": [{ "name": "pull" }] } })));
    cluster.wait_pod_ready("reader");
    let script = ["exec", "reader", "--", "/bin/sh", "-c", "echo $PASSWORD; cat /login/password"];
    assert_eq!(cluster.kubectl(&script), format!("{password}\n{password}"));
    let asked = driver.seen().published.expect("the volume was published");
    assert_eq!(asked.secrets["key"], drivers);
    let tokens: Value =
        serde_json::from_str(&asked.volume_context["csi.storage.k8s.io/serviceAccount.tokens"]).unwrap();
    let of_driver = tokens[DRIVER]["token"].as_str().expect("a token for the driver");
    let path = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    let main = cluster.wait_container("reader", "main");
    let of_pod = cluster.run_in(&main, &format!("cat {path}"));
    // A change comes by a watch, and a pull fails.
    cluster.apply_object(&secret("login", "Opaque", json!({ "password": later })));
    cluster.eventually("the change", || (cluster.run_in(&main, "cat /login/password") == later).then_some(()));
    cluster.wait("pod", "puller", "without its image", |pod| {
        let reason = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
        *reason == "ErrImagePull" || *reason == "ImagePullBackOff"
    });
    cluster.kubectl(&["delete", "pod", "reader", "puller", "--timeout=240s"]);
    let of_pods = [("of the pod", &*of_pod), ("of the driver", of_driver)];
    let of_secrets = [("mounted", password), ("changed", later), ("the driver's", drivers), ("the pull's", pulls)];
    assert_unsaid(&cluster, &[&of_pods[..], &of_secrets, &[("all of the pull's", config.as_str())]].concat());
}
