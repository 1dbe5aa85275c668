//! Credentials for pulls: those that a program gives for a token of the pod's service account, and those of pull secrets.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::Cluster;
use crate::images::registry::Registry;
use crate::images::{BASIC, of_image};
use crate::pods::{pod, with};

/// The audience of the tokens.
const AUDIENCE: &str = "registry.test";

/// A program that notes what it is asked, and how it is set up; the flags for the agent.
fn set_up_program(cluster: &Cluster, host: &str) -> [String; 4] {
    let folder = cluster.dir.join("plugins");
    fs::create_dir(&folder).unwrap();
    let answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "auth": { host: { "username": "user", "password": "secret" } },
    });
    let asked = cluster.dir.join("asked");
    let script = format!("#!/bin/sh\n{{ cat; echo; }} >>{}\necho '{answer}'\n", asked.display());
    fs::write(folder.join("helper"), script).unwrap();
    fs::set_permissions(folder.join("helper"), fs::Permissions::from_mode(0o755)).unwrap();
    let config = json!({
        "kind": "CredentialProviderConfig",
        "apiVersion": "kubelet.config.k8s.io/v1",
        "providers": [{
            "name": "helper",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [host],
            "defaultCacheDuration": "1h",
            "tokenAttributes": {
                "serviceAccountTokenAudience": AUDIENCE,
                "requireServiceAccount": true,
                "cacheType": "ServiceAccount",
                "requiredServiceAccountAnnotationKeys": ["registry.test/role"],
            },
        }],
    });
    let path = cluster.dir.join("providers.json");
    fs::write(&path, config.to_string()).unwrap();
    [
        "--image-credential-provider-config".to_owned(),
        path.display().to_string(),
        "--image-credential-provider-bin-dir".to_owned(),
        folder.display().to_string(),
    ]
}

/// The claims of a token, which nobody checks here: the API server made it.
fn claims(token: &str) -> Value {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bits, mut held, mut bytes) = (0_u32, 0, vec![]);
    for letter in token.split('.').nth(1).expect("a token has three parts").bytes() {
        let value = ALPHABET.iter().position(|one| *one == letter).expect("base64 for URLs");
        bits = (bits << 6) | u32::try_from(value).unwrap();
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 0xff).unwrap());
        }
    }
    serde_json::from_slice(&bytes).expect("claims are JSON")
}

/// CFG-50. SEC-42, CRI-23, SEC-40, SEC-52: a program gets a token of the pod's account, made for it alone. No pod of an
/// account that lacks what the program asks for reaches it.
#[test]
fn a_program_is_given_a_token_of_the_pods_account() {
    let Some(mut cluster) = Cluster::new() else { return };
    let registry = Registry::start(&cluster.dir);
    registry.only(BASIC);
    let flags = set_up_program(&cluster, &registry.host());
    cluster.flags.extend(flags);
    // The node may ask for tokens of this audience, and of this account, as an administrator has to say.
    let rule = json!({
        "apiGroups": [""], "resources": [AUDIENCE], "resourceNames": ["puller"],
        "verbs": ["request-serviceaccounts-token-audience"],
    });
    let role = |kind: &str, more: Value| {
        let object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": "node-audience" },
        });
        with(object, more)
    };
    cluster.apply_object(&role("ClusterRole", json!({ "rules": [rule] })));
    let nodes = json!({
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "node-audience" },
        "subjects": [{ "kind": "Group", "name": "system:nodes", "apiGroup": "rbac.authorization.k8s.io" }],
    });
    cluster.apply_object(&role("ClusterRoleBinding", nodes));
    let account = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": name, "namespace": "default", "annotations": annotations },
        })
    };
    cluster.apply_object(&account("puller", json!({ "registry.test/role": "reader", "other": "1" })));
    cluster.apply_object(&account("stranger", json!({ "other": "1" })));
    cluster.start_agent();
    cluster.wait_ready();
    let of_account = |name: &str, account: &str| {
        let container = of_image(&registry.image(&format!("{name}/app:1")), "Always");
        with(pod(name, &[container]), json!({ "spec": { "serviceAccountName": account } }))
    };
    cluster.create_pod(of_account("web", "puller"));
    cluster.wait_pod_ready("web");
    let asked = fs::read_to_string(cluster.dir.join("asked")).unwrap();
    let asked: Value = serde_json::from_str(asked.lines().next().expect("it was asked")).unwrap();
    assert_eq!(asked["serviceAccountAnnotations"], json!({ "registry.test/role": "reader" }));
    let token = asked["serviceAccountToken"].as_str().expect("a token");
    let claims = claims(token);
    assert_eq!(claims["aud"], json!([AUDIENCE]));
    let bound = &claims["kubernetes.io"];
    let uid = |kind: &str, name: &str| cluster.find(kind, name).expect("it is there")["metadata"]["uid"].clone();
    assert_eq!(bound["pod"], json!({ "name": "web", "uid": uid("pod", "web") }));
    assert_eq!(bound["serviceaccount"], json!({ "name": "puller", "uid": uid("serviceaccount", "puller") }));
    assert!(!cluster.log().contains(token), "a token is not for logs");
    // An answer that counts for the account is not asked for again; an account without the annotation gets nothing.
    cluster.create_pod(of_account("second", "puller"));
    cluster.wait_pod_ready("second");
    cluster.create_pod(of_account("refused", "stranger"));
    cluster.wait("pod", "refused", "without its image", |pod| {
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ErrImagePull"
    });
    let asked = fs::read_to_string(cluster.dir.join("asked")).unwrap();
    assert_eq!(asked.lines().filter(|line| !line.is_empty()).count(), 1, "{asked}");
}

/// CRI-23, SEC-40: a pod pulls with its own secret, and one without it gets nothing; an Event names a secret that is not
/// there.
#[test]
fn a_pod_pulls_with_its_pull_secret() {
    let Some(mut cluster) = Cluster::new() else { return };
    let registry = Registry::start(&cluster.dir);
    registry.only(BASIC);
    let config = json!({ "auths": { registry.host(): { "username": "user", "password": "secret" } } });
    cluster.apply_object(&json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": { "name": "pull", "namespace": "default" },
        "stringData": { ".dockerconfigjson": config.to_string() },
    }));
    cluster.start_agent();
    cluster.wait_ready();
    let with_secret = |name: &str, secrets: Value| {
        let container = of_image(&registry.image(&format!("{name}/app:1")), "Always");
        with(pod(name, &[container]), json!({ "spec": { "imagePullSecrets": secrets } }))
    };
    cluster.create_pod(with_secret("good", json!([{ "name": "pull" }])));
    cluster.create_pod(with_secret("bare", json!([])));
    cluster.create_pod(with_secret("missing", json!([{ "name": "nowhere" }])));
    cluster.wait_pod_ready("good");
    for name in ["bare", "missing"] {
        cluster.wait("pod", name, "without its image", |pod| {
            let reason = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
            *reason == "ErrImagePull" || *reason == "ImagePullBackOff"
        });
    }
    let told = cluster.wait_event("missing", "FailedToRetrieveImagePullSecret");
    assert!(told.contains("(nowhere)"), "{told}");
    assert!(!cluster.log().contains(BASIC), "a password is not for logs");
}
