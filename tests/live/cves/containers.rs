//! Containers that leave traps in their volumes, on the disk and for their own next start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use podwright::cri::ContainerStatus;
use serde_json::{Value, json};

use crate::harness::{NODE_NAME, Node, http_get, send_signal};
use crate::images::of_image;
use crate::images::registry::Registry;
use crate::pods::restarts::another;
use crate::pods::volumes::{Shared, wait_released};
use crate::pods::{forever, pod, shell, then_forever, with};

const MIB: u64 = 1 << 20;

/// Puts links to a directory of the host wherever the container can write. `$1` is the directory.
const TRAPS: &str = r#"set -e
for place in /disk /fast; do
    ln -s "$1" $place/folder
    ln -s "$1/file" $place/file
    mkdir $place/own
    ln -s "$1/deep" $place/own/deep
done
rm -r /disk/sub
ln -s "$1" /disk/sub
for place in /about /merged; do
    mount -o remount,bind,rw none $place
    version=$(readlink $place/..data)
    rm -r $place/$version $place/..data $place/name
    for name in $version ..data ..data_tmp ..2020_01_01_00_00_00.1 more; do ln -s "$1" $place/$name; done
    ln -s "$1/deep" $place/name
done
for link in /disk/sub /about/..data /merged/..data; do readlink $link; done
"#;

/// All that is in a directory of the host: paths, kinds, modes, owners, sizes and times of change.
fn listing(folder: &Path) -> Vec<String> {
    let output = Command::new("find").arg(folder).args(["-printf", "%P %y %m %U %G %s %T@\\n"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// A pod that may write to volumes of each kind, to read-only ones by its privilege.
fn trapper(name: &str) -> Value {
    let mounts = json!([
        { "name": "disk", "mountPath": "/disk" },
        { "name": "disk", "mountPath": "/part", "subPath": "sub/part" },
        { "name": "fast", "mountPath": "/fast" },
        { "name": "about", "mountPath": "/about" },
        { "name": "merged", "mountPath": "/merged" },
    ]);
    let main = with(forever("main"), json!({ "volumeMounts": mounts, "securityContext": { "privileged": true } }));
    let items = json!([{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }]);
    let volumes = json!([
        { "name": "disk", "emptyDir": {} },
        { "name": "fast", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } },
        { "name": "about", "downwardAPI": { "items": items } },
        { "name": "merged", "projected": { "sources": [{ "downwardAPI": { "items": items } }] } },
    ]);
    with(pod(name, &[main]), json!({ "spec": { "volumes": volumes } }))
}

/// CVE-2017-1002102, SEC-05: unmount and removal of volumes follow no link that a container made. One pod is deleted while the
/// agent runs, the other one while no agent does. The links lead to a mount of the host with files and folders.
#[test]
fn cve_2017_1002102_sec_05_unmount_and_removal_follow_no_link_of_a_container() {
    let Some(mut node) = Node::running() else { return };
    let victim = Shared::new(node.dir.join("victim"));
    fs::create_dir(victim.0.join("deep")).unwrap();
    for file in ["file", "name", "deep/file"] {
        fs::write(victim.0.join(file), "kept\n").unwrap();
    }
    let before = listing(&victim.0);
    assert_eq!(before.len(), 5, "{before:?}");
    for name in ["known", "orphan"] {
        node.apply(&trapper(name));
        let main = node.wait_running(name, "main");
        let traps = TRAPS.replace("$1", &victim.0.display().to_string());
        let led = node.run_in(&main, &traps);
        assert_eq!(led, format!("{}\n", victim.0.display()).repeat(3));
    }
    node.delete("known");
    node.wait_gone("known");
    node.kill_agent();
    node.delete("orphan");
    node.start_agent();
    node.wait_gone("orphan");
    wait_released(&node);
    assert_eq!(listing(&victim.0), before);
}

/// The user of a container's first process, as the host's kernel knows it: real, effective, saved, of file systems.
fn user(node: &Node, container: &ContainerStatus) -> [u32; 4] {
    let pid = node.pid_of(container.id.as_str());
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("a process has a user");
    let users: Vec<u32> = line.split_whitespace().map(|user| user.parse().unwrap()).collect();
    users.try_into().expect("four numbers")
}

/// CVE-2019-11245, SEC-20: the image is there when a container starts again. The second instance still has the user of the
/// image, and so has the next one, of an agent that never pulled the image.
#[test]
fn cve_2019_11245_sec_20_a_container_that_starts_again_has_the_same_user() {
    let Some(mut node) = Node::running() else { return };
    let registry = Registry::of_user(&node.dir, "1500:1500");
    let image = registry.image("team/app:1");
    let of_context = |name: &str, context: Value| {
        with(of_image(&image, "IfNotPresent"), json!({ "name": name, "securityContext": context }))
    };
    let containers = [
        of_context("plain", json!({})),
        of_context("checked", json!({ "runAsNonRoot": true })),
        of_context("own", json!({ "runAsUser": 1234 })),
    ];
    node.apply(&pod("again", &containers));
    let users = [("plain", 1500), ("checked", 1500), ("own", 1234)];
    let first = users.map(|(name, expected)| {
        let first = node.wait_running("again", name);
        assert_eq!(user(&node, &first), [expected; 4], "the first {name}");
        first
    });
    let pulled = registry.asked_for("team/app");
    let mut before = Vec::from(first);
    for instance in ["second", "third"] {
        for (container, (name, expected)) in before.iter_mut().zip(users) {
            send_signal(node.pid_of(container.id.as_str()), "KILL");
            let next = another(&node, "again", container);
            assert_eq!(user(&node, &next), [expected; 4], "the {instance} {name}");
            *container = next;
        }
        node.kill_agent();
        node.start_agent();
        node.see_a_round();
    }
    assert_eq!(registry.asked_for("team/app"), pulled, "the image was there");
}

/// CVE-2020-8557, SEC-10: a hosts file that a container lets grow is in the figures of its pod's disk use.
#[test]
fn cve_2020_8557_sec_10_a_hosts_file_that_grows_is_measured() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "volumeStatsAggPeriod": "1s" }));
    node.start_agent();
    let fill = "dd if=/dev/zero bs=1024 count=8192 >>/etc/hosts";
    node.apply(&pod("large", &[shell("main", &then_forever(fill))]));
    node.apply(&pod("small", &[forever("main")]));
    let address = format!("127.0.0.1:{}", node.named("READ_ONLY_PORT"));
    node.eventually("the hosts file is measured", || {
        let (_, body) = http_get(&address, "/stats/summary").filter(|(status, _)| *status == 200)?;
        let summary: Value = serde_json::from_str(&body).expect("JSON");
        let used = |name: &str| {
            let name = format!("{name}-{NODE_NAME}");
            let pod = summary["pods"].as_array()?.iter().find(|pod| pod["podRef"]["name"] == name.as_str())?;
            pod["ephemeral-storage"]["usedBytes"].as_u64()
        };
        (used("large")? >= 8 * MIB && used("small")? < MIB).then_some(())
    });
}

/// CVE-2024-21626: a mount helper gets three descriptors and the root directory. No socket, folder or file of the running
/// agent is among them.
#[test]
fn cve_2024_21626_a_mount_helper_gets_nothing_of_the_running_agent() {
    let Some(mut node) = Node::new() else { return };
    let (tools, said) = (node.dir.join("tools"), node.dir.join("said"));
    fs::create_dir(&tools).unwrap();
    // The shell itself expands the pattern: its descriptor of the folder is closed again when `readlink` runs.
    let list = "for one in /proc/$$/fd/*; do readlink $one && echo ${one##*/}; done; pwd; echo end; exit 1";
    let helper = format!("#!/bin/sh\nexec /bin/sh -c '{list}' >>{}\n", said.display());
    fs::write(tools.join("mount.nfs"), helper).unwrap();
    fs::set_permissions(tools.join("mount.nfs"), fs::Permissions::from_mode(0o755)).unwrap();
    // `mount` looks for helpers in `/sbin` alone. Descriptors that the test has of its own parents are none of the agent's.
    let script = format!(
        "mount --bind {} /sbin; for one in /proc/$$/fd/*; do one=${{one##*/}}; if [ $one -gt 2 ]; then eval \"exec $one>&-\"; \
         fi; done; exec \"$@\"",
        tools.display()
    );
    node.wrapper = ["unshare", "--mount", "bash", "-ec", &script, "agent"].map(str::to_owned).into();
    node.start_agent();
    let main = with(forever("main"), json!({ "volumeMounts": [{ "name": "far", "mountPath": "/far" }] }));
    let volumes = json!([{ "name": "far", "nfs": { "server": "192.0.2.1", "path": "/exported" } }]);
    node.apply(&with(pod("user", &[main]), json!({ "spec": { "volumes": volumes } })));
    let told = node.eventually("the helper ran", || {
        let text = fs::read_to_string(&said).ok()?;
        text.split_once("end\n").map(|(first, _)| first.to_owned())
    });
    let printed = "/memfd:printed (deleted)";
    assert_eq!(told, format!("/dev/null\n0\n{}\n1\n{printed}\n2\n/\n", said.display()));
}
