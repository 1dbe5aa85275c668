//! The cgroups of pods, as the kernel has them.

use std::fs;
use std::path::{Path, PathBuf};

use podwright::testing::skips::needs;
use serde_json::json;

use crate::harness::Node;
use crate::pods::{forever, pod, with};

/// The folder of a cgroup in the hierarchy of a controller, whichever generation the host has.
fn folder(node: &Node, controller: &str, path: &str) -> PathBuf {
    let root = node.named("CGROUP_ROOT");
    match node.named("CGROUP_VERSION") {
        "1" => PathBuf::from(format!("/sys/fs/cgroup/{controller}{root}{path}")),
        _ => PathBuf::from(format!("/sys/fs/cgroup{root}{path}")),
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim().to_owned()
}

/// CPU shares, as a weight on version 2.
pub fn shares(node: &Node, path: &str) -> String {
    let file = if node.named("CGROUP_VERSION") == "1" { "cpu.shares" } else { "cpu.weight" };
    read(&folder(node, "cpu", path).join(file))
}

/// How these shares are written on this host (RES-09).
fn as_written(node: &Node, shares: u64) -> String {
    match node.named("CGROUP_VERSION") {
        "1" => shares.to_string(),
        _ => (1 + (shares - 2) * 9999 / 262_142).to_string(),
    }
}

/// Quota and period in µs; -1 without a quota.
pub fn quota(node: &Node, path: &str) -> (String, String) {
    let folder = folder(node, "cpu", path);
    if node.named("CGROUP_VERSION") == "1" {
        return (read(&folder.join("cpu.cfs_quota_us")), read(&folder.join("cpu.cfs_period_us")));
    }
    let both = read(&folder.join("cpu.max"));
    let (quota, period) = both.split_once(' ').unwrap();
    (quota.replace("max", "-1"), period.to_owned())
}

/// Bytes; `None` without a limit.
pub fn memory(node: &Node, path: &str) -> Option<u64> {
    let file = if node.named("CGROUP_VERSION") == "1" { "memory.limit_in_bytes" } else { "memory.max" };
    let bytes = read(&folder(node, "memory", path).join(file)).parse().ok();
    // Version 1 writes "no limit" as the largest multiple of a page.
    bytes.filter(|bytes| *bytes < i64::MAX as u64 - 65_536)
}

/// Bytes in use.
pub fn memory_used(node: &Node, path: &str) -> u64 {
    let file = if node.named("CGROUP_VERSION") == "1" { "memory.usage_in_bytes" } else { "memory.current" };
    read(&folder(node, "memory", path).join(file)).parse().unwrap()
}

/// RES-01, RES-03, RES-05, RES-07, RES-09, RES-10, RES-13, POD-30.
#[test]
fn a_pods_cgroup_limits_it_as_its_quality_of_service_says() {
    let Some(mut node) = Node::new() else { return };
    node.configure(json!({ "podPidsLimit": 77, "cpuCFSQuotaPeriod": "50ms" }));
    node.start_agent();
    let sized = |resources: serde_json::Value| with(forever("main"), json!({ "resources": resources }));
    let same = json!({ "cpu": "250m", "memory": "32Mi" });
    node.apply(&pod("guaranteed", &[sized(json!({ "limits": same, "requests": same }))]));
    node.apply(&pod(
        "burstable",
        &[
            sized(json!({ "requests": { "cpu": "100m", "memory": "16Mi" } })),
            with(sized(json!({ "limits": { "cpu": "1", "memory": "64Mi" } })), json!({ "name": "second" })),
        ],
    ));
    node.apply(&pod("besteffort", &[forever("main")]));
    let path = |name: &str, tier: &str| {
        let uid = node.wait_running(name, "main").labels["io.kubernetes.pod.uid"].clone();
        format!("/kubepods{tier}/pod{uid}")
    };
    let guaranteed = path("guaranteed", "");
    assert_eq!(shares(&node, &guaranteed), as_written(&node, 256));
    assert_eq!(quota(&node, &guaranteed), ("12500".into(), "50000".into()));
    assert_eq!(memory(&node, &guaranteed), Some(32 << 20));

    let burstable = path("burstable", "/burstable");
    // A limit without a request is its own request: 1100m of CPU.
    assert_eq!(shares(&node, &burstable), as_written(&node, 1126));
    assert_eq!(quota(&node, &burstable).0, "-1", "not every container has a limit");
    assert_eq!(memory(&node, &burstable), None, "not every container has a limit");
    node.eventually("the tier's shares follow its pods", || {
        (shares(&node, "/kubepods/burstable") == as_written(&node, 1126)).then_some(())
    });

    let besteffort = path("besteffort", "/besteffort");
    assert_eq!(shares(&node, &besteffort), as_written(&node, 2));
    assert_eq!(shares(&node, "/kubepods/besteffort"), as_written(&node, 2));
    assert_eq!(memory(&node, &besteffort), None);
    for pod in [&guaranteed, &burstable, &besteffort] {
        assert_eq!(read(&folder(&node, "pids", pod).join("pids.max")), "77");
    }
    assert!(memory(&node, "/kubepods").is_some_and(|bytes| bytes > 0), "the node's memory");

    node.wait_listed("burstable", "running", |pod| pod["status"]["phase"] == "Running");
    node.delete("burstable");
    node.eventually("the pod is gone, and its cgroup before it", || {
        // In this order: a pod that left the list has no cgroup from then on.
        let (is_listed, has_cgroup) = (node.is_listed("burstable")?, folder(&node, "cpu", &burstable).exists());
        assert!(is_listed || !has_cgroup, "the pod is not shown any more, and has a cgroup");
        (!is_listed && !has_cgroup).then_some(())
    });
    node.eventually("the tier's shares follow its pods down", || {
        (shares(&node, "/kubepods/burstable") == as_written(&node, 2)).then_some(())
    });
}

/// RES-01, RES-11, CRI-10: the kernel has what the agent sent to the runtime for a container.
#[test]
fn a_containers_cgroup_lies_below_its_pods_with_its_own_limits() {
    let Some(node) = Node::running() else { return };
    let limits = json!({ "cpu": "200m", "memory": "24Mi" });
    node.apply(&pod("web", &[with(forever("main"), json!({ "resources": { "limits": limits } }))]));
    let main = node.wait_running("web", "main");
    let uid = &main.labels["io.kubernetes.pod.uid"];
    let pid = node.pid_of(main.id.as_str());
    let path = format!("/kubepods/pod{uid}/{}", main.id);
    let own = read(Path::new(&format!("/proc/{pid}/cgroup")));
    let full = format!("{}{path}", node.named("CGROUP_ROOT"));
    assert!(own.lines().any(|line| line.ends_with(&full)), "{own}");
    assert_eq!(memory(&node, &path), Some(24 << 20));
    assert_eq!(quota(&node, &path), ("20000".into(), "100000".into()));
    let resources = main.resources.expect("the runtime tells");
    assert_eq!((resources.cpu_shares, resources.cpu_quota, resources.cpu_period), (204, 20_000, 100_000));
    assert_eq!(resources.memory_limit_in_bytes, 24 << 20);
}

/// RES-14: who is killed first when memory is short. A host that may not lower scores keeps them at its own.
#[test]
fn processes_have_the_oom_score_of_their_quality_of_service() {
    let Some(node) = Node::running() else { return };
    let sized = |resources: serde_json::Value| with(forever("main"), json!({ "resources": resources }));
    let same = json!({ "cpu": "50m", "memory": "32Mi" });
    node.apply(&pod("guaranteed", &[sized(json!({ "limits": same }))]));
    node.apply(&pod("burstable", &[sized(json!({ "requests": { "memory": "1Mi" } }))]));
    node.apply(&pod("besteffort", &[forever("main")]));
    let restricted =
        fs::read_to_string(node.dir.join("containerd.toml")).unwrap().contains("restrict_oom_score_adj = true");
    // The runtime's own score is the lowest that it can give then.
    let floor: i64 = if restricted { read(Path::new("/proc/self/oom_score_adj")).parse().unwrap() } else { -1000 };
    let total = i64::try_from(total_memory()).unwrap();
    let burstable = (1000 - 1000 * 1024 / total).clamp(3, 999);
    for (name, wanted) in [("guaranteed", -997), ("burstable", burstable), ("besteffort", 1000)] {
        let main = node.wait_running(name, "main");
        let score: i64 =
            read(Path::new(&format!("/proc/{}/oom_score_adj", node.pid_of(main.id.as_str())))).parse().unwrap();
        assert_eq!(score, wanted.max(floor), "{name}");
    }
}

/// The machine's memory, in KiB.
fn total_memory() -> u64 {
    let text = read(Path::new("/proc/meminfo"));
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    total.unwrap()
}

/// A cgroup of daemons of this test's own, in every hierarchy; removed with it.
struct Daemons(Vec<PathBuf>, String);

impl Daemons {
    fn new(node: &Node) -> Self {
        let name = format!("/{}-kube", node.named("CGROUP_ROOT").trim_matches('/').replace('/', "-"));
        let root = Path::new("/sys/fs/cgroup");
        let roots: Vec<PathBuf> = match node.named("CGROUP_VERSION") {
            "1" => {
                fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
            }
            _ => vec![root.to_owned()],
        };
        let folders: Vec<PathBuf> = roots.iter().map(|root| root.join(name.trim_start_matches('/'))).collect();
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        Self(folders, name)
    }

    fn read(&self, controller: &str, file: &str) -> String {
        let of =
            |folder: &&PathBuf| self.0.len() == 1 || folder.parent().is_some_and(|root| root.ends_with(controller));
        read(&self.0.iter().find(of).expect("a hierarchy").join(file))
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        self.0.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

/// RES-16: the cgroup of the daemons is limited to the reservation, and pods to what is left. A cgroup that is not there is
/// not made: the agent ends.
#[test]
fn res_16_reserved_cgroups_are_limited_or_end_the_start() {
    let Some(mut node) = Node::new() else { return };
    if node.named("CGROUP_DRIVER") == "systemd" {
        return needs("the driver cgroupfs: the cgroup is a folder");
    }
    let daemons = Daemons::new(&node);
    node.configure(json!({
        "enforceNodeAllocatable": ["pods", "kube-reserved"],
        "kubeReserved": { "cpu": "250m", "memory": "64Mi", "pid": "1000" },
        "kubeReservedCgroup": daemons.1,
    }));
    node.start_agent();
    let files = match node.named("CGROUP_VERSION") {
        "1" => [("cpu", "cpu.shares", "256"), ("memory", "memory.limit_in_bytes", "67108864")],
        _ => [("cpu", "cpu.weight", "10"), ("memory", "memory.max", "67108864")],
    };
    for (controller, file, wanted) in files.into_iter().chain([("pids", "pids.max", "1000")]) {
        node.eventually(file, || (daemons.read(controller, file) == wanted).then_some(()));
    }
    let online = read(Path::new("/sys/devices/system/cpu/online"));
    assert_eq!(daemons.read("cpuset", "cpuset.cpus"), online);
    assert_eq!(read(&folder(&node, "cpuset", "/kubepods").join("cpuset.cpus")), online);
    let total = total_memory() * 1024;
    let left = node.eventually("pods are limited", || memory(&node, "/kubepods"));
    assert!(left <= total - (64 << 20) && left > total - (65 << 20), "{left} of {total}");
    node.stop_agent();

    node.configure(
        json!({ "enforceNodeAllocatable": ["kube-reserved-compressible"], "kubeReservedCgroup": "/no-such" }),
    );
    let (status, said) = node.run_agent_to_its_end();
    assert_eq!(status.code(), Some(1), "{said}");
    for words in [
        "Failed to start ContainerManager",
        "Failed to enforce Kube Reserved Compressible Cgroup Limits on \\\"/no-such\\\": ",
        "[\\\"no-such\\\"]",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
}

/// RES-17: the threshold of eviction counts, too.
#[test]
fn res_17_too_large_reservations_end_the_start() {
    let Some(mut node) = Node::new() else { return };
    node.configure(
        json!({ "evictionHard": { "memory.available": "1Mi" }, "kubeReserved": { "memory": "100Ti" }, "systemReserved": { "memory": "100Ti", "cpu": "900" } }),
    );
    let (status, said) = node.run_agent_to_its_end();
    assert_eq!(status.code(), Some(1), "{said}");
    for words in
        ["invalid Node Allocatable configuration. ", "has a reservation of 900 ", "has a reservation of 209715201Mi "]
    {
        assert!(said.contains(words), "{words} in {said}");
    }
}

/// CRI-05, CFG-31: what the runtime says of its cgroup driver counts, whatever the configuration says.
#[test]
fn the_runtimes_cgroup_driver_counts() {
    let Some(mut node) = Node::new() else { return };
    if node.runtime_major() < 2 {
        return needs("CONTAINERD=<folder of version 2>");
    }
    let (right, wrong) = match node.named("CGROUP_DRIVER") {
        "systemd" => ("systemd", "cgroupfs"),
        _ => ("cgroupfs", "systemd"),
    };
    node.configure(json!({ "cgroupDriver": wrong }));
    node.start_agent();
    node.apply(&pod("web", &[forever("main")]));
    let main = node.wait_running("web", "main");
    let cgroups = read(Path::new(&format!("/proc/{}/cgroup", node.pid_of(main.id.as_str()))));
    assert_eq!(cgroups.contains(".slice/"), right == "systemd", "{cgroups}");
    assert!(cgroups.contains("kubepods"), "{cgroups}");
}
