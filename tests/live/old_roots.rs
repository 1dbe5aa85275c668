//! Root directories that other agents left (`tests/fixtures/old-roots`): taken over, and given back to upstream's kubelet.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use podwright::logic::model::ids::ContainerId;
use podwright::logic::pods::pod_resize::parse_checkpoint;
use podwright::testing::old_roots::OldRoot;
use podwright::testing::skips::{needs, skip};
use serde_json::{Value, json};

use crate::harness::{NODE_NAME, Node, http_get};
use crate::pods::{forever, pod, with};

/// The UID in the manifest of the pod `own`: every agent knows the pod by it.
const UID: &str = "5d2c7f0e-0000-4000-8000-000000000001";
/// The socket of upstream's kubelet for device plugins, wherever its root directory is.
const DEVICE_SOCKET: &str = "/var/lib/kubelet/device-plugins/kubelet.sock";
/// Words of log lines about files of state, in the text of either agent.
const STATE_WORDS: [&str; 7] =
    ["checkpoint", "_manager_state", "pods_state", "image_manager", "probe_results", "rphaned", "set aside"];

/// RES-29, RES-34, RES-55: the agent goes on from the root directory of upstream's kubelet, and upstream's from ours.
#[test]
fn a_root_directory_of_upstreams_kubelet_is_taken_over_and_given_back() {
    OldRoot::made_by("upstream").iter().for_each(taken_over_and_given_back);
}

/// RES-29, RES-34, RES-55: the same with the root directory of an older version of the agent.
#[test]
fn a_root_directory_of_an_older_version_is_taken_over_and_given_back() {
    OldRoot::made_by("podwright").iter().for_each(taken_over_and_given_back);
}

/// All pods of the old root directory are gone, as after a reboot during which they were deleted. The pod `own` gets the CPU
/// and the memory that one of them had, and keeps both under the agents that follow.
fn taken_over_and_given_back(old: &OldRoot) {
    let Some(mut node) = Node::new() else { return };
    let count = std::thread::available_parallelism().expect("CPUs").get();
    if count < 2 {
        return skip("a machine with one CPU has none to give away");
    }
    old.lay_out(&node.dir);
    remove_misfits(&node, old, count);
    node.configure(json!({
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "Static",
        "kubeReserved": { "cpu": format!("{}m", count * 1000 - 1500), "memory": "50Mi" },
        "reservedMemory": [{ "numaNode": 0, "limits": { "memory": "100Mi" } }],
    }));
    node.start_agent();
    node.apply(&own());
    let own = node.wait_running("own", "main");
    wait_healthy(&node);
    let pods = old.pods();
    assert!(!pods.is_empty(), "{}: the fixture has pods", old.name);
    node.eventually_none("no folder of a pod that is gone", || {
        pods.iter().filter(|uid| node.dir.join("kubelet/pods").join(uid).exists()).collect()
    });
    node.eventually_none("no file of state names a pod that is gone", || others(&node));
    let had = share(&node);
    assert_eq!(had["memory"]["main"][0]["size"], 64 << 20, "{had}");
    assert_eq!(complaints(&node.log(), old), [""; 0]);
    assert_eq!(set_aside(&node), [""; 0]);
    node.stop_agent();
    given_back(&mut node, old, &own.id, &had);
}

/// Upstream's kubelet goes on from the root directory that the agent wrote, and the agent from upstream's.
fn given_back(node: &mut Node, old: &OldRoot, own: &ContainerId, had: &Value) {
    let Some(upstream) = Upstream::start(node) else {
        return needs("KUBEBUILDER_ASSETS with kubelet, and no other kubelet");
    };
    wait_healthy(node);
    node.apply(&pod("later", &[forever("main")]));
    node.wait_running("later", "main");
    assert_eq!(&node.wait_running("own", "main").id, own, "{}: upstream keeps the container", old.name);
    assert_eq!(&share(node), had, "{}: upstream keeps the CPU and the memory", old.name);
    assert_eq!(complaints(&upstream.log(), old), [""; 0]);
    drop(upstream);

    node.start_agent();
    wait_healthy(node);
    // A manifest without a UID is another pod to each agent.
    node.wait_running("later", "main");
    node.delete("later");
    node.wait_gone("later");
    assert_eq!(&node.wait_running("own", "main").id, own, "{}: the agent keeps the container", old.name);
    assert_eq!(&share(node), had, "{}: the agent keeps the CPU and the memory", old.name);
    assert_eq!(complaints(&node.log(), old), [""; 0]);
    assert_eq!(set_aside(node), [""; 0]);
}

fn own() -> Value {
    let amounts = json!({ "cpu": "1", "memory": "64Mi" });
    let main = with(forever("main"), json!({ "resources": { "requests": amounts, "limits": amounts } }));
    with(pod("own", &[main]), json!({ "metadata": { "uid": UID } }))
}

fn wait_healthy(node: &Node) {
    let address = format!("127.0.0.1:{}", node.named("HEALTHZ_PORT"));
    node.eventually("/healthz says ok", || {
        http_get(&address, "/healthz").filter(|said| *said == (200, "ok".to_owned()))
    });
}

/// Removes the files of state that tell the CPUs or the memory of another machine: every agent refuses to start with them.
fn remove_misfits(node: &Node, old: &OldRoot, count: usize) {
    let memory: Value = serde_json::from_str(old.text("kubelet/memory_manager_state").expect("there")).expect("JSON");
    let nodes = memory["machineState"].as_object().expect("NUMA nodes");
    let total: u64 = nodes.values().filter_map(|one| one["memoryMap"]["memory"]["total"].as_u64()).sum();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let own = meminfo.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).expect("MemTotal");
    let fits = [
        ("cpu_manager_state", usize::try_from(old.maker.cpus) == Ok(count)),
        ("memory_manager_state", total == own << 10),
    ];
    for (name, _) in fits.into_iter().filter(|(_, fits)| !fits) {
        fs::remove_file(node.dir.join("kubelet").join(name)).unwrap();
        needs(&format!("the machine of the fixture {}, or a fixture of this one ({name})", old.name));
    }
}

fn read(node: &Node, name: &str) -> Vec<u8> {
    fs::read(node.dir.join("kubelet").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn entries(node: &Node, name: &str) -> Value {
    let state: Value = serde_json::from_slice(&read(node, name)).expect("JSON");
    state["entries"].clone()
}

/// The CPUs and the memory that the files say the pod `own` has.
fn share(node: &Node) -> Value {
    let of = |name: &str| entries(node, name)[UID].clone();
    let share = json!({ "cpus": of("cpu_manager_state"), "memory": of("memory_manager_state") });
    assert!(share["cpus"]["main"].is_string(), "{share}");
    share
}

/// The pods that files of state name beside `own`.
fn others(node: &Node) -> Vec<String> {
    let mut found = vec![];
    for name in ["cpu_manager_state", "memory_manager_state"] {
        found.extend(entries(node, name).as_object().into_iter().flat_map(|pods| pods.keys().cloned()));
    }
    for name in ["allocated_pods_state", "actuated_pods_state"] {
        let pods = parse_checkpoint(&read(node, name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        found.extend(pods.keys().map(|uid| uid.as_str().to_owned()));
    }
    found.retain(|uid| uid != UID);
    found
}

/// The warnings and errors about files of state or pods of the old root directory, in klog's form.
fn complaints(log: &str, old: &OldRoot) -> Vec<String> {
    let words: Vec<&str> = STATE_WORDS.into_iter().chain(old.pods()).collect();
    let loud = log.lines().filter(|line| is_loud(line) && !is_of_first_start(line));
    loud.filter(|line| words.iter().any(|word| line.contains(word))).map(str::to_owned).collect()
}

fn is_loud(line: &str) -> bool {
    line.starts_with(['W', 'E', 'F']) && line[1..].starts_with(|next: char| next.is_ascii_digit())
}

/// Upstream's kubelet reports so that no device plugin was ever there.
fn is_of_first_start(line: &str) -> bool {
    line.contains("checkpoint is not found") && line.contains("kubelet_internal_checkpoint")
}

/// The files that the agent could not believe.
fn set_aside(node: &Node) -> Vec<String> {
    let folders = ["kubelet", "kubelet/image_manager/pulled", "device-plugins"];
    let files = folders.iter().filter_map(|folder| fs::read_dir(node.dir.join(folder)).ok()).flatten();
    let names = files.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".corrupt") || name.ends_with(".unfit")).collect()
}

/// Upstream's kubelet on the root directory and with the configuration of a node; one at a time, because of its socket.
struct Upstream {
    child: Child,
    log: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Upstream {
    /// `None` where there is no such executable, or another kubelet.
    fn start(node: &Node) -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let kubelet = Path::new(&std::env::var_os("KUBEBUILDER_ASSETS")?).join("kubelet");
        if !kubelet.exists() || Path::new(DEVICE_SOCKET).exists() {
            return None;
        }
        let log = node.dir.join("upstream.log");
        let file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let child = Command::new(kubelet)
            .arg("--config")
            .arg(node.dir.join("kubelet.yaml"))
            .arg("--root-dir")
            .arg(node.dir.join("kubelet"))
            .arg("--cert-dir")
            .arg(node.dir.join("pki"))
            .args(["--hostname-override", NODE_NAME, "--node-ip", node.named("NODE_IP")])
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Some(Self { child, log, _alone: alone })
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(DEVICE_SOCKET);
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("upstream's last words:\n{}", lines[lines.len().saturating_sub(60)..].join("\n"));
        }
    }
}
