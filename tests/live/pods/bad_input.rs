//! Bad manifests, bad images, a full disk: each is named in the log and costs nobody but itself.

use std::fs;
use std::process::Command;

use podwright::cri::{ContainerState, ContainerStatus};
use serde_json::{Value, json};

use crate::harness::{NODE_NAME, Node, container_status};
use crate::images::of_image;
use crate::images::registry::Registry;
use crate::pods::{forever, pod, shell, then_forever, with};

/// A pod that must not notice anything.
struct Neighbour(ContainerStatus);

impl Neighbour {
    fn start(node: &Node) -> Self {
        node.apply(&pod("neighbour", &[forever("main")]));
        Self(node.wait_running("neighbour", "main"))
    }

    /// Another pod still comes and goes, and the neighbour is the same container as before.
    fn did_not_notice(&self, node: &mut Node) {
        node.see_a_round();
        assert!(node.agent_lives());
        let found = node.all_containers("neighbour");
        assert_eq!(found.iter().map(|one| &one.id).collect::<Vec<_>>(), [&self.0.id]);
        assert_eq!(found[0].state, ContainerState::Running);
        assert!(!node.log().contains("panicked"), "{}", node.log());
    }
}

/// POD-01: what is no manifest is skipped, with its name and, where it has one, its line.
#[test]
fn a_file_that_is_no_manifest_is_named_and_skipped() {
    let Some(mut node) = Node::running() else { return };
    let neighbour = Neighbour::start(&node);
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    let deep = "[".repeat(100_000);
    for (file, content, words) in [
        ("binary.yaml", b"apiVersion: v1\n\0\xff\xfe\x01".as_slice(), "line 2"),
        ("bomb.yaml", bomb.as_bytes(), "line "),
        ("deep.yaml", deep.as_bytes(), "err="),
        ("empty.yaml", b"", "err="),
        ("half.yaml", b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: half\nspec: {containers: [{name: ", "line 5"),
        ("json.json", br#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "#, "err="),
        ("kind.yaml", b"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n", "err="),
        ("list.yaml", b"apiVersion: v1\nkind: PodList\nitems: []\n", "err="),
        ("type.yaml", b"apiVersion: v1\nkind: Pod\nmetadata: {name: type}\nspec: {containers: {}}\n", "err="),
    ] {
        node.write_manifest(file, content);
        node.wait_for_words(&[&format!("manifests/{file}"), words]);
    }
    let large = [b"# ".as_slice(), &vec![b'x'; 11 << 20], b"\n"].concat();
    node.write_manifest("large.yaml", &large);
    node.wait_for_words(&["manifests/large.yaml", "is larger than 10485760 bytes"]);
    neighbour.did_not_notice(&mut node);
}

/// POD-01: only regular files are read; nothing else holds the others up.
#[test]
fn what_is_no_regular_file_holds_nobody_up() {
    let Some(mut node) = Node::running() else { return };
    let neighbour = Neighbour::start(&node);
    let place = |name: &str| node.manifest_path(name);
    assert!(Command::new("mkfifo").arg(place("a-pipe.yaml")).status().unwrap().success());
    fs::create_dir(place("b-folder.yaml")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place("c-socket.yaml")).unwrap();
    std::os::unix::fs::symlink("nowhere", place("d-dangling.yaml")).unwrap();
    std::os::unix::fs::symlink("e-loop.yaml", place("e-loop.yaml")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", place("f-device.yaml")).unwrap();
    fs::write(place(".hidden.yaml"), pod("hidden", &[forever("main")]).to_string()).unwrap();
    let outside = node.dir.join("outside.yaml");
    fs::write(&outside, pod("linked", &[forever("main")]).to_string()).unwrap();
    std::os::unix::fs::symlink(&outside, place("g-link.yaml")).unwrap();
    node.wait_running("linked", "main");
    assert!(node.all_containers("hidden").is_empty(), "a name that begins with a dot is no manifest's");
    neighbour.did_not_notice(&mut node);
}

/// POD-01: an editor that writes a bit at a time.
#[test]
fn a_manifest_that_is_written_slowly_runs_once_it_is_whole() {
    let Some(mut node) = Node::running() else { return };
    let neighbour = Neighbour::start(&node);
    let text = pod("slow", &[forever("main")]).to_string();
    let (first, rest) = text.split_at(text.len() / 2);
    let path = node.manifest_path("slow.yaml");
    fs::write(&path, first).unwrap();
    node.wait_for_words(&["manifests/slow.yaml", "err="]);
    assert!(node.all_containers("slow").is_empty());
    fs::write(&path, format!("{first}{rest}")).unwrap();
    let running = node.wait_running("slow", "main");
    // Spoiled again: what runs goes, as upstream drops a pod whose file no longer is one, or stays; never a second one.
    fs::write(&path, first).unwrap();
    neighbour.did_not_notice(&mut node);
    assert!(node.all_containers("slow").iter().all(|one| one.id == running.id));
}

/// POD-04: of two manifests of one name, one pod runs: the last by file name.
#[test]
fn two_manifests_of_one_name_make_one_pod() {
    let Some(mut node) = Node::running() else { return };
    let neighbour = Neighbour::start(&node);
    let saying = |words: &str| pod("twice", &[shell("main", &then_forever(words))]).to_string();
    node.write_manifest("a.yaml", saying("echo first").as_bytes());
    node.write_manifest("b.yaml", saying("echo second").as_bytes());
    node.eventually("the last one alone runs", || {
        let running: Vec<_> =
            node.containers("twice", "main").into_iter().filter(|one| one.state == ContainerState::Running).collect();
        (running.len() == 1 && node.output(&running[0]) == "second\n").then_some(())
    });
    neighbour.did_not_notice(&mut node);
    let running = node.all_containers("twice");
    assert_eq!(running.iter().filter(|one| one.state == ContainerState::Running).count(), 1);
}

/// POD-05: all that is wrong at once, each with the path of its field.
#[test]
fn an_invalid_pod_is_refused_with_the_path_of_every_wrong_field() {
    let Some(mut node) = Node::running() else { return };
    let neighbour = Neighbour::start(&node);
    let wrong = with(
        forever("Main!"),
        json!({
            "ports": [{ "containerPort": 80_000 }],
            "imagePullPolicy": "Sometimes",
            "env": [{ "name": "9=", "value": "x" }],
        }),
    );
    node.apply(&pod("wrong", &[wrong, json!({ "name": "second" })]));
    let line = node.wait_for_words(&["manifests/wrong.yaml"]);
    for path in [
        "spec.containers[0].name: Invalid value",
        "spec.containers[0].ports[0].containerPort: Invalid value",
        "spec.containers[0].imagePullPolicy: Unsupported value",
        "spec.containers[0].env[0].name: Invalid value",
        "spec.containers[1].image: Required value",
    ] {
        assert!(line.contains(path), "{path} in {line}");
    }
    neighbour.did_not_notice(&mut node);
}

/// POD-05: a field that this version cannot honour is refused by its path, not ignored.
#[test]
fn a_pod_that_asks_for_what_this_version_cannot_do_is_refused_by_field() {
    let Some(mut node) = Node::running() else { return };
    let neighbour = Neighbour::start(&node);
    let main = with(forever("main"), json!({ "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }));
    let volumes = [
        json!({ "name": "data", "gitRepo": { "repository": "r" } }),
        json!({ "name": "disk", "flexVolume": { "driver": "d/d" } }),
    ];
    let spec = json!({ "volumes": volumes });
    node.apply(&with(pod("wants", &[main]), json!({ "spec": spec })));
    let line = node.wait_for_words(&["manifests/wants.yaml", "unsupported pod"]);
    for path in ["spec.volumes[0].gitRepo", "spec.volumes[1].flexVolume"] {
        assert!(line.contains(path), "{path} in {line}");
    }
    assert!(node.sandboxes("wants").is_empty());
    let rows = node.answer(&["ps"]);
    let row =
        rows.as_array().into_iter().flatten().find(|row| row["phase"] == "Refused").expect("the refused one is listed");
    assert_eq!(row["name"], format!("wants-{NODE_NAME}").as_str());
    assert!(row["waiting"][0].as_str().is_some_and(|why| why.contains("spec.volumes")), "{row}");
    node.apply(&pod("wants", &[forever("main")]));
    node.wait_running("wants", "main");
    node.eventually("nothing is refused any more", || {
        let rows = node.ask(&["ps"])?;
        rows.as_array().into_iter().flatten().all(|row| row["phase"] != "Refused").then_some(())
    });
    neighbour.did_not_notice(&mut node);
}

/// POD-05, SEC-51: a static pod that needs the API server is refused.
#[test]
fn a_static_pod_that_refers_to_api_objects_is_refused() {
    let Some(mut node) = Node::running() else { return };
    let neighbour = Neighbour::start(&node);
    let env = json!([{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }]);
    node.apply(&pod("secretive", &[with(forever("main"), json!({ "env": env }))]));
    node.wait_for_words(&["manifests/secretive.yaml", "static pods may not reference secrets"]);
    assert!(node.sandboxes("secretive").is_empty());
    neighbour.did_not_notice(&mut node);
}

/// CRI-21, CRI-22, CRI-25, POD-40: an image that nobody has; its siblings run.
#[test]
fn an_image_that_cannot_be_had_is_told_and_tried_again() {
    let Some(mut node) = Node::running() else { return };
    let neighbour = Neighbour::start(&node);
    // Nobody listens there.
    let image = format!("127.0.0.1:{}/none:1", node.free_port(2));
    let missing = with(forever("missing"), json!({ "image": image }));
    let never = with(forever("never"), json!({ "image": image, "imagePullPolicy": "Never" }));
    node.apply(&pod("web", &[forever("main"), missing, never]));
    node.wait_running("web", "main");
    let reason = |pod: &Value, name: &str| container_status(pod, name)["state"]["waiting"]["reason"].clone();
    node.wait_listed("web", "with a failed pull", |pod| reason(pod, "missing") == "ErrImagePull");
    let shown = node.wait_listed("web", "in a pull's back-off", |pod| reason(pod, "missing") == "ImagePullBackOff");
    let message = container_status(&shown, "missing")["state"]["waiting"]["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("Back-off pulling image \"{image}\"")), "{message}");
    assert_eq!(reason(&shown, "never"), "ErrImageNeverPull");
    assert_eq!(shown["status"]["phase"], "Pending");
    node.wait_for_words(&["Failed to pull image", &image]);
    node.delete("web");
    node.wait_gone("web");
    neighbour.did_not_notice(&mut node);
}

/// A command that is not in the image: told by the runtime, shown, and tried again.
#[test]
fn a_command_that_does_not_exist_is_told() {
    let Some(mut node) = Node::running() else { return };
    let neighbour = Neighbour::start(&node);
    node.apply(&pod("web", &[with(forever("main"), json!({ "command": ["/no/such/program"] })), forever("second")]));
    let shown = node.wait_listed("web", "with its failure", |pod| {
        let status = container_status(pod, "main");
        ["state", "lastState"].iter().any(|state| status[state]["terminated"]["reason"] == "StartError")
            || status["state"]["waiting"]["reason"] == "RunContainerError"
    });
    assert!(container_status(&shown, "main").to_string().contains("/no/such/program"), "{shown:#}");
    node.wait_running("web", "second");
    node.delete("web");
    node.wait_gone("web");
    neighbour.did_not_notice(&mut node);
}

/// CRI-25: an error names the step of a start that the runtime refuses: a user that the image does not know, a mount that
/// cannot be made, a hook's command that is not there; the pod's other container and other pods run.
#[test]
fn a_bad_user_a_bad_mount_and_a_bad_hook_are_told() {
    let Some(mut node) = Node::running() else { return };
    let neighbour = Neighbour::start(&node);
    let registry = Registry::of_user(&node.dir, "nobody-knows");
    let stranger = with(of_image(&registry.image("app:1"), "IfNotPresent"), json!({ "name": "stranger" }));
    let file = node.dir.join("a-file");
    fs::write(&file, "").unwrap();
    let mounts = json!([{ "name": "file", "mountPath": "/bin" }]);
    let over_a_folder = with(forever("mounted"), json!({ "volumeMounts": mounts }));
    let hook = json!({ "postStart": { "exec": { "command": ["/no/such/hook"] } } });
    let hooked = with(forever("hooked"), json!({ "lifecycle": hook }));
    let volumes = json!([{ "name": "file", "hostPath": { "path": file } }]);
    let web = pod("web", &[stranger, over_a_folder, hooked, forever("fine")]);
    node.apply(&with(web, json!({ "spec": { "volumes": volumes } })));
    let shows = |name: &str, reasons: &[&str], words: &str| {
        node.wait_listed("web", &format!("{name} with {reasons:?}"), |pod| {
            let status = container_status(pod, name);
            let states =
                [&status["state"]["waiting"], &status["state"]["terminated"], &status["lastState"]["terminated"]];
            states.iter().any(|state| {
                let says = state["message"].as_str().is_some_and(|message| message.contains(words));
                says && reasons.iter().any(|reason| state["reason"] == *reason)
            })
        })
    };
    shows("stranger", &["CreateContainerError"], "user");
    shows("mounted", &["RunContainerError", "StartError"], "not a directory");
    shows("hooked", &["PostStartHookError"], "/no/such/hook");
    for words in [["reason=\"Failed\"", "user"], ["reason=\"Failed\"", "not a directory"]] {
        node.wait_for_words(&words);
    }
    node.wait_for_words(&["FailedPostStartHook", "PostStartHook failed"]);
    node.wait_running("web", "fine");
    node.delete("web");
    node.wait_gone("web");
    neighbour.did_not_notice(&mut node);
}

/// The agent's disk is full: the pod that needs room says so; it runs as soon as there is some.
#[test]
fn a_full_disk_is_told_and_gets_better() {
    let Some(mut node) = Node::new() else { return };
    let root = node.dir.join("kubelet");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "podwright-live"]).arg(&root).status();
    assert!(mounted.unwrap().success());
    node.start_agent();
    let neighbour = Neighbour::start(&node);
    let filler = root.join("filler");
    let _ = fs::write(&filler, vec![0; 1 << 20]);
    assert!(fs::write(root.join("more"), [0; 8192]).is_err(), "it is full");
    node.apply(&pod("needy", &[forever("main")]));
    node.wait_for_words(&["needy", "No space left on device"]);
    assert!(node.running_now("needy", "main").is_none());
    assert!(node.agent_lives());
    fs::remove_file(&filler).unwrap();
    let _ = fs::remove_file(root.join("more"));
    node.wait_running("needy", "main");
    neighbour.did_not_notice(&mut node);
}
