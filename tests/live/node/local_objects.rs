//! ConfigMaps and Secrets of a standalone node, from a directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use crate::harness::Node;
use crate::pods::{pod, shell, then_forever, with};

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(format!(".{name}"));
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(path, folder.join(name)).unwrap();
}

fn secret(password: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: db}}\nstringData: {{password: {password}}}\n")
}

/// PAIN-38.
#[test]
fn a_static_pod_has_a_secret_that_changes_while_it_runs() {
    let Some(mut node) = Node::new() else { return };
    let folder = node.dir.join("objects");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    node.flags.extend(["--local-objects".to_owned(), folder.display().to_string()]);
    node.configure(json!({ "syncFrequency": "1s" }));
    write(&folder, "broken.yaml", "kind: [\n");
    node.start_agent();

    let from = json!({ "secretKeyRef": { "name": "db", "key": "password" } });
    let main = with(
        shell("main", &then_forever("echo $PASSWORD")),
        json!({
            "env": [{ "name": "PASSWORD", "valueFrom": from }],
            "volumeMounts": [{ "name": "db", "mountPath": "/db" }, { "name": "all", "mountPath": "/all" }],
        }),
    );
    let mut wanted = pod("web", &[main]);
    let sources = json!([{ "secret": { "name": "db" } }, { "configMap": { "name": "web" } }]);
    wanted["spec"]["volumes"] = json!([
        { "name": "db", "secret": { "secretName": "db" } },
        { "name": "all", "projected": { "sources": sources } },
    ]);
    node.apply(&wanted);
    node.eventually("the missing object is named", || {
        node.explained("default/web").contains("\"db\" not found").then_some(())
    });

    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {colour: blue}\n";
    write(&folder, "db.yaml", &format!("{}---\n{map}", secret("marked-one")));
    let container = node.wait_running("web", "main");
    node.eventually("the variable", || (node.output(&container) == "marked-one\n").then_some(()));
    assert_eq!(node.run_in(&container, "cat /db/password /all/password /all/colour"), "marked-onemarked-oneblue");

    write(&folder, "db.yaml", &format!("{}---\n{map}", secret("marked-two")));
    node.eventually("the file changes", || (node.run_in(&container, "cat /db/password") == "marked-two").then_some(()));
    node.wait_for_words(&["local objects of this file are refused", "broken.yaml"]);
    assert!(!node.log().contains("marked-"), "a Secret is in the log");
}

#[test]
fn local_objects_and_an_api_server_exclude_each_other() {
    let Some(mut node) = Node::new() else { return };
    node.flags.extend(["--local-objects=/x", "--kubeconfig=/x"].map(str::to_owned));
    let (status, said) = node.run_agent_to_its_end();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("--local-objects is for a node without an API server"), "{said}");
}
