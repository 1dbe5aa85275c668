//! Images: pulled from a registry with and without credentials, slow and broken ones, records of pulls, and collection
//! of what nobody uses.

pub(super) mod debian_registry;
pub(super) mod registry;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use podwright::cri::{ImageService, ImageSpec};
use serde_json::{Value, json};

use crate::harness::{Node, container_status};
use crate::images::registry::Registry;
use crate::pods::{CLIENT, WEB, forever, pod, shell, then_forever, with};

/// `user:secret`, in base64.
pub const BASIC: &str = "dXNlcjpzZWNyZXQ=";

/// A container of this image that runs until it is asked to end.
pub fn of_image(image: &str, policy: &str) -> Value {
    with(shell("main", &then_forever("")), json!({ "image": image, "imagePullPolicy": policy }))
}

/// Reason and message of what a container waits for.
pub fn waiting(pod: &Value) -> (String, String) {
    let waiting = &container_status(pod, "main")["state"]["waiting"];
    let text = |field: &str| waiting[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

pub fn wait_reason(node: &Node, pod: &str, reason: &str) -> String {
    let shown = node.wait_listed(pod, &format!("waiting with {reason}"), |shown| waiting(shown).0 == reason);
    waiting(&shown).1
}

fn has_image(node: &Node, image: &str) -> bool {
    let spec = ImageSpec { image: image.to_owned(), ..ImageSpec::default() };
    node.cri(async |cri| cri.image_status(&spec).await).is_some()
}

fn records(node: &Node, folder: &str) -> Vec<Value> {
    let entries = fs::read_dir(node.dir.join("kubelet/image_manager").join(folder)).into_iter().flatten().flatten();
    // One that was removed since it was listed is none any more.
    let contents = entries.filter_map(|entry| fs::read(entry.path()).ok());
    contents.map(|content| serde_json::from_slice(&content).expect("a record is JSON")).collect()
}

/// CRI-21, CRI-24, CRI-25: what is there is pulled, told and recorded; what is not gives upstream's reasons.
#[test]
fn images_come_from_a_registry() {
    let Some(node) = Node::running() else { return };
    let registry = Registry::start(&node.dir);
    let image = registry.image("team/app:1");
    node.apply(&pod("there", &[of_image(&image, "Always")]));
    node.apply(&pod("missing", &[of_image(&registry.image("missing/app:1"), "IfNotPresent")]));
    node.apply(&pod("never", &[of_image(&registry.image("other/app:1"), "Never")]));
    node.apply(&pod("nameless", &[of_image("Not A Name", "IfNotPresent")]));
    node.wait_running("there", "main");
    node.wait_for_words(&[&format!("Pulling image \\\"{image}\\\""), "there-node1"]);
    node.wait_for_words(&[
        &format!("Successfully pulled image \\\"{image}\\\" in "),
        "including waiting). Image size: ",
    ]);
    let record = node.eventually("the pull is recorded", || records(&node, "pulled").pop());
    let name = registry.image("team/app");
    assert_eq!(record["credentialMapping"][&name]["nodePodsAccessible"], true, "{record}");
    assert_eq!(record["kind"], "ImagePulledRecord");

    let message = wait_reason(&node, "missing", "ErrImagePull");
    assert!(message.contains("not found"), "{message}");
    let message = wait_reason(&node, "missing", "ImagePullBackOff");
    let expected = format!("Back-off pulling image \"{}\": ErrImagePull: ", registry.image("missing/app:1"));
    assert!(message.starts_with(&expected), "{message}");
    let message = wait_reason(&node, "never", "ErrImageNeverPull");
    let expected =
        format!("Container image \"{}\" is not present with pull policy of Never", registry.image("other/app:1"));
    assert_eq!(message, expected);
    wait_reason(&node, "nameless", "InvalidImageName");
    node.eventually_none("no pull is under way", || records(&node, "pulling"));
}

/// CRI-23: credentials of the node's file: wrong ones, then right ones, without a restart of the agent.
#[test]
fn the_nodes_own_credentials_are_tried() {
    let Some(node) = Node::running() else { return };
    let registry = Registry::start(&node.dir);
    registry.only(BASIC);
    let write = |basic: &str| {
        let config = json!({ "auths": { registry.host(): { "auth": basic } } });
        fs::write(node.dir.join("kubelet/config.json"), config.to_string()).unwrap();
    };
    write("dXNlcjp3cm9uZw==");
    node.apply(&pod("locked", &[of_image(&registry.image("team/app:1"), "IfNotPresent")]));
    let message = wait_reason(&node, "locked", "ErrImagePull");
    assert!(message.contains("401") || message.contains("authorization"), "{message}");
    write(BASIC);
    node.wait_running("locked", "main");
    assert!(!node.log().contains("secret\""), "no password is logged");
    assert!(!node.log().contains(BASIC));
}

/// CRI-23, SEC-42: a program gets the image, gives the credentials, and runs once while its answer counts.
#[test]
fn a_program_gives_credentials() {
    let Some(mut node) = Node::new() else { return };
    let registry = Registry::start(&node.dir);
    registry.only(BASIC);
    let folder = node.dir.join("plugins");
    fs::create_dir(&folder).unwrap();
    let asked = node.dir.join("asked");
    let answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "cacheDuration": "1h",
        "auth": { registry.host(): { "username": "user", "password": "secret" } },
    });
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = give ] && [ \"$WORD\" = please ] || exit 1\n{{ cat; echo; }} >>{}\necho '{answer}'\n",
        asked.display()
    );
    fs::write(folder.join("helper"), script).unwrap();
    fs::set_permissions(folder.join("helper"), fs::Permissions::from_mode(0o755)).unwrap();
    let config = json!({
        "kind": "CredentialProviderConfig",
        "apiVersion": "kubelet.config.k8s.io/v1",
        "providers": [{
            "name": "helper",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [registry.host()],
            "defaultCacheDuration": "0s",
            "args": ["give"],
            "env": [{ "name": "WORD", "value": "please" }],
        }],
    });
    let path = node.dir.join("providers.json");
    fs::write(&path, config.to_string()).unwrap();
    let flags = [
        "--image-credential-provider-config".to_owned(),
        path.display().to_string(),
        "--image-credential-provider-bin-dir".to_owned(),
        folder.display().to_string(),
    ];
    node.flags.extend(flags);
    node.start_agent();
    for name in ["one", "two"] {
        node.apply(&pod(name, &[of_image(&registry.image(&format!("{name}/app:1")), "Always")]));
        node.wait_running(name, "main");
    }
    let asked = fs::read_to_string(asked).unwrap();
    let questions: Vec<Value> =
        asked.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(questions.len(), 1, "{asked}");
    assert_eq!(questions[0]["image"], registry.image("one/app"));
    assert_eq!(questions[0]["kind"], "CredentialProviderRequest");
    node.stop_agent();

    fs::remove_file(folder.join("helper")).unwrap();
    let (status, said) = node.run_agent_to_its_end();
    assert!(
        !status.success() && said.contains("failed to register CRI auth plugins: plugin binary executable"),
        "{said}"
    );
}

/// PAIN-22, CRI-22: the pod that waits for a slow registry says so, and so does one that waits for the pull before it.
#[test]
fn pulls_tell_how_far_they_are() {
    let Some(node) = Node::running() else { return };
    let registry = Registry::start(&node.dir);
    registry.manner().delay = Duration::from_secs(6);
    for name in ["first", "second"] {
        node.apply(&pod(name, &[of_image(&registry.image(&format!("{name}/app:1")), "IfNotPresent")]));
    }
    let told = |words: &str| {
        node.eventually(&format!("ps says {words:?}"), || {
            let rows = node.ask(&["ps"])?;
            let rows = rows.as_array().or_else(|| rows["pods"].as_array())?.clone();
            let waits = rows.iter().flat_map(|row| row["waiting"].as_array().cloned().unwrap_or_default());
            waits.filter_map(|wait| wait.as_str().map(str::to_owned)).find(|wait| wait.contains(words))
        })
    };
    let pulled = told("has been pulled for");
    assert!(pulled.contains("the image of container main: 127.0.0.1:"), "{pulled}");
    let queued = told("in the queue of pulls");
    assert!(queued.ends_with("with 1 before it"), "{queued}");
    registry.manner().delay = Duration::ZERO;
    node.wait_running("second", "main");
}

/// CRI-22: a layer that breaks off is a failed pull, which is tried again after its back-off.
#[test]
fn a_broken_layer_is_tried_again() {
    let Some(node) = Node::running() else { return };
    let registry = Registry::start(&node.dir);
    registry.manner().broken = true;
    node.apply(&pod("broken", &[of_image(&registry.image("team/app:1"), "IfNotPresent")]));
    node.wait_for_words(&["Failed to pull image", "broken-node1"]);
    let message = wait_reason(&node, "broken", "ImagePullBackOff");
    assert!(message.starts_with("Back-off pulling image \"127.0.0.1:"), "{message}");
    registry.manner().broken = false;
    node.wait_running("broken", "main");
}

/// CRI-24, SEC-43, SEC-44: what may not be used without proof looks like what is not there.
#[test]
fn sec_43_sec_44_an_image_that_must_be_verified_is_not_given_away() {
    let Some(mut node) = Node::new() else { return };
    let registry = Registry::start(&node.dir);
    registry.only(BASIC);
    node.configure(json!({
        "imagePullCredentialsVerificationPolicy": "NeverVerifyAllowlistedImages",
        "preloadedImagesVerificationAllowlist": ["localhost/podwright/client"],
    }));
    node.start_agent();
    node.apply(&pod("listed", &[forever("main")]));
    node.wait_running("listed", "main");
    node.apply(&pod("hidden", &[of_image(WEB, "Never")]));
    node.apply(&pod("absent", &[of_image("localhost/podwright/none:1", "Never")]));
    let hidden = wait_reason(&node, "hidden", "ErrImageNeverPull");
    let absent = wait_reason(&node, "absent", "ErrImageNeverPull");
    assert_eq!(hidden.replace("web:1", "none:1"), absent);

    // An image that one pod has pulled as the node is open to others; with no credentials any more it would not be.
    let config = json!({ "auths": { registry.host(): { "auth": BASIC } } });
    fs::write(node.dir.join("kubelet/config.json"), config.to_string()).unwrap();
    let image = registry.image("team/app:1");
    node.apply(&pod("puller", &[of_image(&image, "IfNotPresent")]));
    node.wait_running("puller", "main");
    fs::remove_file(node.dir.join("kubelet/config.json")).unwrap();
    let asked = registry.asked_for("team/app");
    node.apply(&pod("other", &[of_image(&image, "IfNotPresent")]));
    node.wait_running("other", "main");
    assert_eq!(registry.asked_for("team/app"), asked, "the record is enough");
    for entry in fs::read_dir(node.dir.join("kubelet/image_manager/pulled")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    node.apply(&pod("later", &[of_image(&image, "IfNotPresent")]));
    let message = wait_reason(&node, "later", "ErrImagePull");
    assert!(message.contains("401") || message.contains("authorization"), "{message}");
}

/// CRI-26, EVI-41: what nobody has used for too long goes; what containers have, and what sandboxes need, stays.
#[test]
fn images_that_nobody_uses_go() {
    let Some(mut node) = Node::new() else { return };
    // Long enough for the pod to have its container before the images are old: their age counts from the agent's start.
    node.configure(json!({ "imageMinimumGCAge": "1s", "imageMaximumGCAge": "20s" }));
    assert!(has_image(&node, WEB));
    node.start_agent();
    node.apply(&pod("user", &[forever("main")]));
    node.wait_running("user", "main");
    node.eventually("the unused image is gone", || (!has_image(&node, WEB)).then_some(()));
    node.wait_for_words(&["image removed", "web", "nobody used it for too long"]);
    assert!(has_image(&node, CLIENT) && has_image(&node, "localhost/podwright/pause:1"));
    assert!(node.running_now("user", "main").is_some());
    node.see_a_round();
}

/// EVI-40, EVI-43.
/// PAIN-23: a disk that is full of other things loses its unused images, says who holds it, and says so once.
#[test]
fn a_disk_full_of_other_things_is_told_of_once() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({
        "imageMinimumGCAge": "15s", "imageGCHighThresholdPercent": 1, "imageGCLowThresholdPercent": 0,
    }));
    node.start_agent();
    node.apply(&pod("user", &[forever("main")]));
    node.wait_running("user", "main");
    node.eventually("the unused image is gone", || (!has_image(&node, WEB)).then_some(()));
    node.wait_for_words(&[
        "FreeDiskSpaceFailed",
        "Insufficient free disk space",
        "Images in use: ",
        "everything else: ",
    ]);
    node.see_a_round();
    let said = node.log().lines().filter(|line| line.contains("reason=\"FreeDiskSpaceFailed\"")).count();
    assert!(said <= 2, "once as a log line, once as an Event: {said}");
    assert!(has_image(&node, CLIENT) && node.running_now("user", "main").is_some());
}
