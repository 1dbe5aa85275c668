//! Volumes of static pods: containers see them, restarts keep them, and nothing of them is left behind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use podwright::cri::RuntimeService;
use serde_json::{Value, json};

use crate::harness::{Node, send_signal};
use crate::node::agent::explain;
use crate::pods::{WEB, forever, pod, shell, then_forever, with};

/// Mount points below the node's root directory.
fn mounts(node: &Node) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let below = node.dir.join("kubelet/pods").display().to_string();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).filter(|point| point.starts_with(&below));
    points.map(str::to_owned).collect()
}

/// Waits until nothing of any pod is left on the disk and in the mount table.
pub fn wait_released(node: &Node) {
    node.eventually_none("no mounts of pods", || mounts(node));
    let pods = node.dir.join("kubelet/pods");
    node.eventually_none("no directories of pods", || entries(&pods));
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn mounting(container: Value, mounts: Value) -> Value {
    with(container, json!({ "volumeMounts": mounts }))
}

/// VOL-02, VOL-04, VOL-14, VOL-18, VOL-19, VOL-25, VOL-26, VOL-32, VOL-33, VOL-34, CRI-11, VOL-21, SEC-06, SEC-07.
#[test]
fn containers_see_their_pods_volumes_and_nothing_is_left_after() {
    let Some(node) = Node::running() else { return };
    let writer = mounting(
        shell("writer", &then_forever("echo part > /part/file; echo hello > /shared/greeting")),
        json!([
            { "name": "shared", "mountPath": "/shared" },
            { "name": "shared", "mountPath": "/part", "subPathExpr": "deep/$(POD)" },
            { "name": "fast", "mountPath": "/fast" },
        ]),
    );
    let writer = with(
        writer,
        json!({ "env": [{ "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }] }),
    );
    let reader = mounting(
        forever("reader"),
        json!([
            { "name": "shared", "mountPath": "/shared", "readOnly": true },
            { "name": "about", "mountPath": "/about" },
            { "name": "merged", "mountPath": "/merged" },
            { "name": "merged", "mountPath": "/single", "subPath": "deep/name" },
        ]),
    );
    let labels = json!([{ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }]);
    let resources = json!([{
        "path": "deep/name", "mode": 256,
        "fieldRef": { "fieldPath": "metadata.name" },
    }, {
        "path": "cpu", "resourceFieldRef": { "containerName": "reader", "resource": "requests.cpu", "divisor": "1m" },
    }]);
    let reader = with(reader, json!({ "resources": { "requests": { "cpu": "15m" } } }));
    node.apply(&with(
        pod("web", &[writer, reader]),
        json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "volumes": [
            { "name": "shared", "emptyDir": {} },
            { "name": "fast", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } },
            { "name": "about", "downwardAPI": { "items": labels } },
            { "name": "merged", "projected": { "sources": [{ "downwardAPI": { "items": resources } }] } },
            { "name": "unused", "emptyDir": {} },
        ] } }),
    ));
    let (writer, reader) = (node.wait_running("web", "writer"), node.wait_running("web", "reader"));

    let seen = |container, script: &str| node.run_in(container, script).trim().to_owned();
    node.eventually("the greeting is there", || {
        (seen(&reader, "cat /shared/greeting 2>/dev/null || true") == "hello").then_some(())
    });
    assert_eq!(seen(&reader, "touch /shared/x 2>/dev/null && echo written || echo refused"), "refused");
    assert_eq!(seen(&reader, "cat /shared/deep/web-node1/file"), "part");
    assert_eq!(seen(&writer, "stat -c %a /shared /part | tr '\\n' ' '"), "777 777");
    assert_eq!(seen(&reader, "cat /about/labels"), "app=\"web\"");
    assert_eq!(seen(&reader, "cat /merged/cpu /merged/deep/name /single"), "15web-node1web-node1");
    assert_eq!(seen(&reader, "stat -Lc %a /merged/deep/name"), "400");
    assert_eq!(seen(&reader, "touch /about/x 2>/dev/null && echo written || echo refused"), "refused");
    let filled = seen(&writer, "dd if=/dev/zero of=/fast/big bs=1024 count=2048 2>&1 | grep -c 'No space' || true");
    assert_eq!(filled, "1", "a volume in memory is as large as its limit");
    assert_eq!(seen(&writer, "grep ' /fast ' /proc/mounts | cut -d' ' -f3"), "tmpfs");

    let of_pod = entries(&node.dir.join("kubelet/pods"));
    let volumes = of_pod[0].join("volumes");
    assert_eq!(fs::metadata(volumes.join("kubernetes.io~empty-dir/shared")).unwrap().mode() & 0o7777, 0o777);
    assert!(!volumes.join("kubernetes.io~empty-dir/unused").exists(), "a volume that nobody mounts is not made");
    // Memory, two volumes of files, two parts of volumes.
    assert_eq!(mounts(&node).len(), 5, "{:?}", mounts(&node));

    node.delete("web");
    node.wait_gone("web");
    wait_released(&node);
}

/// VOL-22, SEC-09: every kind of path, and a pod that waits for one says so.
#[test]
fn host_paths_are_what_the_pod_says_they_are() {
    let Some(node) = Node::running() else { return };
    let host = node.dir.join("host");
    fs::create_dir(&host).unwrap();
    let path = |name: &str| host.join(name).display().to_string();
    fs::create_dir(path("there")).unwrap();
    fs::write(path("file"), "from the host\n").unwrap();
    let _listener = UnixListener::bind(path("socket")).unwrap();
    let kinds = [
        ("unset", path("there"), ""),
        ("directory", path("there"), "Directory"),
        ("made", path("made/deep"), "DirectoryOrCreate"),
        ("file", path("file"), "File"),
        ("new", path("new"), "FileOrCreate"),
        ("socket", path("socket"), "Socket"),
        ("device", "/dev/null".to_owned(), "CharDevice"),
        ("late", path("late"), "Directory"),
    ];
    let volumes: Vec<Value> = kinds
        .iter()
        .map(|(name, path, kind)| json!({ "name": name, "hostPath": { "path": path, "type": kind } }))
        .collect();
    let mounts: Vec<Value> = kinds
        .iter()
        .map(|(name, ..)| json!({ "name": name, "mountPath": format!("/mnt/{name}"), "readOnly": *name == "file" }))
        .collect();
    node.apply(&with(
        pod("web", &[mounting(forever("main"), json!(mounts))]),
        json!({ "spec": { "volumes": volumes } }),
    ));
    let problem = format!("hostPath type check failed: {} is not a directory", path("late"));
    node.eventually("the wait is explained", || {
        let told = explain(&node, "default/web-node1")?["why"].to_string();
        told.contains(&format!("MountVolume.SetUp failed for volume \\\"late\\\" : {problem}")).then_some(())
    });
    assert!(node.all_containers("web").is_empty(), "no container without its volumes");
    let shown = node.wait_listed("web", "at all", |_| true);
    assert_eq!(shown["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");

    fs::create_dir(path("late")).unwrap();
    let main = node.wait_running("web", "main");
    assert_eq!(
        node.run_in(&main, "cat /mnt/file; echo inside > /mnt/made/note; echo more > /mnt/new"),
        "from the host\n"
    );
    assert_eq!(fs::read_to_string(path("made/deep/note")).unwrap(), "inside\n");
    assert_eq!(fs::read_to_string(path("new")).unwrap(), "more\n");
    assert_eq!(fs::metadata(path("new")).unwrap().mode() & 0o7777, 0o644);
    assert_eq!(node.run_in(&main, "test -S /mnt/socket && test -c /mnt/device && echo yes"), "yes\n");

    node.delete("web");
    node.wait_gone("web");
    wait_released(&node);
    assert_eq!(fs::read_to_string(path("made/deep/note")).unwrap(), "inside\n", "what is the host's stays");
}

/// VOL-05, VOL-06, VOL-18: killed and started again, the agent keeps what is mounted, and takes down what is not wanted
/// any more.
#[test]
fn a_restart_of_the_agent_keeps_mounts_and_a_deletion_meanwhile_is_caught_up_with() {
    let Some(mut node) = Node::running() else { return };
    let volumes = json!({ "spec": { "volumes": [
        { "name": "disk", "emptyDir": {} },
        { "name": "fast", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } },
        { "name": "about", "downwardAPI": { "items": [{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }] } },
    ] } });
    let mounted = || {
        json!([
            { "name": "disk", "mountPath": "/disk" },
            { "name": "fast", "mountPath": "/fast", "subPath": "part" },
            { "name": "about", "mountPath": "/about" },
        ])
    };
    for name in ["stays", "goes"] {
        node.apply(&with(pod(name, &[mounting(forever("main"), mounted())]), volumes.clone()));
    }
    let before = node.wait_running("stays", "main");
    node.wait_running("goes", "main");
    node.run_in(&before, "echo kept > /disk/note; echo quick > /fast/note");
    let table = mounts(&node);
    assert_eq!(table.len(), 6, "{table:?}");

    node.kill_agent();
    node.delete("goes");
    node.start_agent();
    node.see_a_round();
    node.wait_gone("goes");
    let stays = || mounts(&node).into_iter().filter(|point| table.contains(point)).count();
    node.eventually("the mounts of the deleted pod are gone", || (stays() == 3).then_some(()));
    let after = node.wait_running("stays", "main");
    assert_eq!(after.id, before.id, "the container was not touched");
    assert_eq!(node.run_in(&after, "cat /disk/note /fast/note; cat /about/name"), "kept\nquick\nstays-node1");

    // A container that starts anew finds the same volumes.
    send_signal(node.pid_of(after.id.as_str()), "KILL");
    let again = node.eventually("it runs again", || {
        node.running_now("stays", "main").filter(|container| container.id != before.id)
    });
    assert_eq!(node.run_in(&again, "cat /disk/note /fast/note"), "kept\nquick\n");
    node.delete("stays");
    node.wait_gone("stays");
    wait_released(&node);
}

/// Whether the runtime knows volumes that are images, and mounts that are read-only with all that is below.
fn is_new_runtime(node: &Node) -> bool {
    is_runtime_since(node, (2, 1))
}

fn is_runtime_since(node: &Node, wanted: (u32, u32)) -> bool {
    let version = node.cri(async |runtime| runtime.version().await);
    let mut numbers = version.runtime_version.trim_start_matches('v').split('.').map(|part| part.parse().unwrap_or(0));
    let (major, minor): (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (major, minor) >= wanted
}

/// VOL-36: an image is a volume; one that cannot be had keeps those waiting that mount it, and nobody else.
#[test]
fn an_image_is_a_volume_and_a_missing_one_concerns_who_mounts_it() {
    let Some(node) = Node::running() else { return };
    let image = |name: &str, reference: &str| json!({ "name": name, "image": { "reference": reference, "pullPolicy": "Never" } });
    let mounted = |name: &str, path: &str| json!({ "name": name, "mountPath": path });
    let volumes = json!({ "spec": { "volumes": [
        image("web", WEB), image("missing", "localhost/podwright/none:1"), image("unused", "localhost/podwright/no:1"),
    ] } });
    let part = json!({ "name": "web", "mountPath": "/part", "subPath": "www" });
    let reader = mounting(forever("reader"), json!([mounted("web", "/web"), part]));
    let waiter = mounting(forever("waiter"), json!([mounted("missing", "/missing")]));
    if !is_new_runtime(&node) {
        node.apply(&with(pod("images", &[waiter, forever("other")]), volumes));
    } else {
        node.apply(&with(pod("images", &[waiter, reader, forever("other")]), volumes));
    }
    node.wait_running("images", "other");
    let shown = node.wait_listed("images", "waiting for an image", |shown| {
        let statuses = shown["status"]["containerStatuses"].as_array();
        statuses.into_iter().flatten().any(|one| one["state"]["waiting"]["reason"] == "ErrImageNeverPull")
    });
    let message = shown["status"]["containerStatuses"].as_array().into_iter().flatten();
    let message: Vec<_> = message.filter(|one| one["name"] == "waiter").map(|one| &one["state"]["waiting"]).collect();
    assert_eq!(
        message[0]["message"],
        "Container image \"localhost/podwright/none:1\" is not present with pull policy of Never"
    );
    if is_new_runtime(&node) {
        let reader = node.wait_running("images", "reader");
        let run = |script: &str| node.run_in(&reader, script);
        assert_eq!(run("cat /web/www/index.html"), "hello from podwright\n");
        // Before that, containerd gives the whole image in place of a part of it.
        if is_runtime_since(&node, (2, 2)) {
            assert_eq!(run("ls /part"), "healthz\nindex.html\n");
        }
        assert_eq!(run("touch /web/x 2>/dev/null && echo written || echo refused"), "refused\n");
    }
    node.delete("images");
    node.wait_gone("images");
    wait_released(&node);
}

/// A file system of its own on the host whose mounts spread; gone with all that is on it when dropped.
pub struct Shared(pub PathBuf);

impl Shared {
    /// Makes the directory and mounts a file system of memory on it.
    pub fn new(path: PathBuf) -> Self {
        fs::create_dir(&path).unwrap();
        mount(&path);
        let shared = Self(path);
        let made = Command::new("mount").arg("--make-shared").arg(&shared.0).status().unwrap();
        assert!(made.success());
        shared
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--recursive", "--lazy"]).arg(&self.0).status();
    }
}

fn mount(path: &Path) {
    assert!(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(path).status().unwrap().success());
}

/// VOL-34: what is mounted on the host later is seen by who asks for it, and what a container mounts by the host.
#[test]
fn later_mounts_are_seen_by_who_asks_for_them() {
    let Some(node) = Node::running() else { return };
    let shared = Shared::new(node.dir.join("shared"));
    let sees = |name: &str, mode: &str| {
        mounting(forever(name), json!([{ "name": "v", "mountPath": "/v", "mountPropagation": mode }]))
    };
    let both = with(sees("both", "Bidirectional"), json!({ "securityContext": { "privileged": true } }));
    let volumes = json!({ "spec": { "volumes": [{ "name": "v", "hostPath": { "path": shared.0 } }] } });
    node.apply(&with(pod("web", &[sees("none", "None"), sees("host", "HostToContainer"), both]), volumes));
    let [none, host, both] = ["none", "host", "both"].map(|name| node.wait_running("web", name));
    let has = |container, file: &str| node.run_in(container, &format!("test -e {file} && echo yes || echo no"));
    let seen = |file: &str| [&none, &host, &both].map(|container| has(container, file) == "yes\n");

    fs::create_dir(shared.0.join("later")).unwrap();
    mount(&shared.0.join("later"));
    fs::write(shared.0.join("later/file"), "").unwrap();
    assert_eq!(seen("/v/later/file"), [false, true, true]);
    node.run_in(&both, "mkdir /v/own && mount -t tmpfs none /v/own && touch /v/own/file");
    assert!(shared.0.join("own/file").exists(), "the host sees it");
    assert_eq!(seen("/v/own/file"), [false, true, true]);
    node.delete("web");
    node.wait_gone("web");
}

/// VOL-34, CRI-11: `recursiveReadOnly` is kept where the runtime can, and a container that insists is not made where
/// it cannot.
#[test]
fn mounts_are_read_only_to_the_depth_that_the_runtime_can() {
    let Some(node) = Node::running() else { return };
    let volumes = json!({ "spec": { "volumes": [{ "name": "v", "emptyDir": {} }] } });
    let mount = |mode: &str| json!([{ "name": "v", "mountPath": "/v", "readOnly": true, "recursiveReadOnly": mode }]);
    let insists = mounting(forever("insists"), mount("Enabled"));
    let hopes = mounting(forever("hopes"), mount("IfPossible"));
    node.apply(&with(pod("rro", &[insists, hopes]), volumes));
    node.wait_running("rro", "hopes");
    let able = is_new_runtime(&node);
    let status = |shown: &Value, name: &str| {
        let all = shown["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["name"] == name).unwrap_or_default()
    };
    let settled = |shown: &Value| match able {
        true => status(shown, "insists")["state"]["running"].is_object(),
        false => status(shown, "insists")["state"]["waiting"]["reason"] == "CreateContainerConfigError",
    };
    let shown = node.wait_listed("rro", "settled", settled);
    let expected = if able { "Enabled" } else { "Disabled" };
    assert_eq!(status(&shown, "hopes")["volumeMounts"][0]["recursiveReadOnly"], expected);
    if !able {
        let told = "failed to resolve recursive read-only mode: volume \"v\" requested recursive read-only mode, but it is \
                    not supported by the runtime";
        assert_eq!(status(&shown, "insists")["state"]["waiting"]["message"], told);
    }
}

/// VOL-15: `--root-dir` may be a link, as where an administrator moved it to a larger disk. Volumes are found again by the
/// next agent, none is mounted twice, and all of them go with their pod.
#[test]
fn volumes_are_below_a_root_directory_that_is_a_link() {
    let Some(mut node) = Node::new() else { return };
    node.link_root_directory();
    node.start_agent();
    let container = mounting(
        shell("main", &then_forever("echo part > /part/file")),
        json!([
            { "name": "fast", "mountPath": "/fast" },
            { "name": "fast", "mountPath": "/part", "subPath": "deep/part" },
            { "name": "about", "mountPath": "/about" },
        ]),
    );
    let name = json!([{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }]);
    node.apply(&with(
        pod("web", &[container]),
        json!({ "spec": { "volumes": [
            { "name": "fast", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } },
            { "name": "about", "downwardAPI": { "items": name } },
        ] } }),
    ));
    let main = node.wait_running("web", "main");
    node.eventually("the part is written", || {
        (node.run_in(&main, "cat /fast/deep/part/file 2>/dev/null || true") == "part\n").then_some(())
    });
    assert_eq!(node.run_in(&main, "cat /about/name"), "web-node1");
    let before = mounts(&node);
    assert_eq!(before.len(), 3, "{before:?}");

    node.kill_agent();
    node.start_agent();
    node.see_a_round();
    assert_eq!(mounts(&node), before, "nothing is mounted a second time");
    assert_eq!(node.running_now("web", "main").map(|one| one.id), Some(main.id));
    node.delete("web");
    node.wait_gone("web");
    wait_released(&node);
}
