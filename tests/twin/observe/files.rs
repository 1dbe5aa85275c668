//! A pod's files on its node: its directory, its logs, its cgroups, and facts of its first processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::nodes::Node;

/// Entries of one folder that are looked at, at any depth.
const ENTRIES_MAX: usize = 500;
/// Longer files are told by their size and a sum.
const TEXT_MAX: usize = 2000;
/// The log of a container's first run, and that of all others.
const FIRST_LOG: &str = "/0.log";
const RESTART_LOG: &str = "/<restart>.log";
/// The files of a cgroup that agents and runtimes write: of version 1, then of version 2.
const CGROUP_FILES: [&str; 20] = [
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.soft_limit_in_bytes",
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpuset.cpus",
    "cpuset.mems",
    "pids.max",
    "hugetlb.2MB.limit_in_bytes",
    "hugetlb.1GB.limit_in_bytes",
    "memory.max",
    "memory.min",
    "memory.low",
    "memory.high",
    "memory.swap.max",
    "memory.oom.group",
    "cpu.weight",
    "cpu.max",
    "hugetlb.2MB.max",
];
/// Lines of `/proc/PID/status` that a security context decides.
const PROCESS_LINES: [&str; 10] =
    ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"];

/// All files of a pod, as the API server shows the pod now.
pub fn of_pod(node: &Node, pod: &Value) -> Value {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    // A mirror has a UID of its own; its node knows the pod by the sum of its manifest.
    let of_manifest = pod["metadata"]["annotations"]["kubernetes.io/config.hash"].as_str();
    let (namespace, name, uid) = (text("namespace"), text("name"), of_manifest.unwrap_or(text("uid")));
    let containers = container_names(pod);
    json!({
        "root": tree(&node.dir.join("kubelet/pods").join(uid), true),
        "logs": tree(&node.dir.join("logs").join(format!("{namespace}_{name}_{uid}")), false),
        "links": links(&format!("{name}_{namespace}_")),
        "mounts": mounts(&node.dir.join("kubelet/pods").join(uid)),
        "cgroups": cgroups(&node.env["CGROUP_ROOT"], uid, &containers),
    })
}

/// The names of containers by their IDs.
fn container_names(pod: &Value) -> Vec<(String, String)> {
    let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
    let statuses = lists.iter().filter_map(|list| pod["status"][list].as_array()).flatten();
    let pair = |status: &Value| {
        let id = status["containerID"].as_str()?.rsplit('/').next()?.to_owned();
        Some((id, status["name"].as_str()?.to_owned()))
    };
    statuses.filter_map(pair).collect()
}

/// The entries below a folder by their paths in it.
fn tree(folder: &Path, with_contents: bool) -> Value {
    let mut found = Map::new();
    walk(folder, "", with_contents, &mut found);
    let restarted: BTreeSet<String> =
        found.keys().filter_map(|path| path.strip_suffix(RESTART_LOG)).map(str::to_owned).collect();
    found.retain(|path, _| path.strip_suffix(FIRST_LOG).is_none_or(|folder| !restarted.contains(folder)));
    found.into()
}

fn walk(folder: &Path, below: &str, with_contents: bool, found: &mut Map<String, Value>) {
    let Ok(listed) = fs::read_dir(folder) else { return };
    let mut entries: Vec<_> = listed.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Each run of a container has a termination log of a random name.
        let is_random =
            below.starts_with("containers/") && name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let shown = if is_random { "<random>".to_owned() } else { folded(name) };
        let path = if below.is_empty() { shown } else { format!("{below}/{shown}") };
        if found.len() >= ENTRIES_MAX {
            return;
        }
        let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
        found.insert(path.clone(), entry_facts(&entry.path(), &metadata, with_contents));
        if metadata.is_dir() && is_entered(&path) {
            walk(&entry.path(), &path, with_contents, found);
        }
    }
}

/// The logs of all restarts have one name, beside which the first one is left out: how many there are by a moment is a matter
/// of time.
fn folded(name: String) -> String {
    let number = name.strip_suffix(".log").and_then(|number| number.parse::<u32>().ok());
    if number.is_some_and(|number| number > 0) { RESTART_LOG.trim_start_matches('/').to_owned() } else { name }
}

/// Volumes that agents fill are entered, those that only are mounted here are not.
fn is_entered(path: &str) -> bool {
    const FILLED: [&str; 6] = ["empty-dir", "configmap", "secret", "projected", "downward-api", "csi"];
    let kind = path.strip_prefix("volumes/kubernetes.io~").map(|rest| rest.split('/').next().unwrap_or_default());
    kind.is_none_or(|kind| FILLED.contains(&kind)) && !path.starts_with("volume-subpaths/")
}

fn entry_facts(path: &Path, metadata: &fs::Metadata, with_contents: bool) -> Value {
    let kind = metadata.file_type();
    let (mode, owner) = (metadata.mode() & 0o7777, format!("{}:{}", metadata.uid(), metadata.gid()));
    if kind.is_symlink() {
        let target = fs::read_link(path).map(|target| target.display().to_string()).unwrap_or_default();
        return json!({ "type": "link", "target": target, "owner": owner });
    }
    let word = match () {
        () if kind.is_dir() => "folder",
        () if kind.is_socket() => "socket",
        () if kind.is_fifo() => "pipe",
        () if kind.is_file() => "file",
        () => "device",
    };
    let mut facts = json!({ "type": word, "mode": format!("{mode:04o}"), "owner": owner });
    if kind.is_file() && with_contents {
        facts["content"] = content(path);
    }
    facts
}

fn content(path: &Path) -> Value {
    let Ok(bytes) = fs::read(path) else { return json!("cannot be read") };
    match String::from_utf8(bytes) {
        Ok(text) if text.len() <= TEXT_MAX => text.into(),
        Ok(text) => json!(format!("{} bytes, sum {:016x}", text.len(), sum(text.as_bytes()))),
        Err(error) => json!(format!("{} bytes, sum {:016x}", error.as_bytes().len(), sum(error.as_bytes()))),
    }
}

/// FNV-1a: enough to tell two files apart.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The links of `/var/log/containers` whose names begin so: their targets, by their names without the container's ID.
fn links(beginning: &str) -> Value {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in fs::read_dir("/var/log/containers").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((name, _id)) = name.rsplit_once('-').filter(|(name, _)| name.starts_with(beginning)) {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            let file = folded(target.file_name().unwrap_or_default().to_string_lossy().into_owned());
            found.entry(name.to_owned()).or_default().insert(target.with_file_name(file).display().to_string());
        }
    }
    let of_restarts = |mut targets: BTreeSet<String>| -> Value {
        if targets.iter().any(|target| target.ends_with(RESTART_LOG)) {
            targets.retain(|target| !target.ends_with(FIRST_LOG));
        }
        targets.into_iter().collect()
    };
    found.into_iter().map(|(name, targets)| (name, of_restarts(targets))).collect::<Map<_, _>>().into()
}

/// The mounts below a folder: the type of the file system and its options.
fn mounts(folder: &Path) -> Value {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let beginning = format!("{}/", folder.display());
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let words: Vec<&str> = left.split(' ').collect();
        let path = words.get(4)?.strip_prefix(&beginning)?.to_owned();
        let mut right = right.split(' ');
        let (kind, _, options) = (right.next()?, right.next()?, right.next()?);
        Some((path, json!({ "type": kind, "mount options": words.get(5)?, "options": options })))
    };
    table.lines().filter_map(mount).collect::<Map<_, _>>().into()
}

/// The files of the pod's cgroup and of its containers' ones, in every hierarchy.
fn cgroups(root: &str, uid: &str, containers: &[(String, String)]) -> Value {
    let mut found = Map::new();
    for hierarchy in hierarchies() {
        let top = hierarchy.join(root.trim_start_matches('/'));
        let mut folders = vec![];
        folders_of(&top, uid, 0, &mut folders);
        for folder in folders {
            let below = folder.strip_prefix(&top).unwrap_or(&folder).to_string_lossy().into_owned();
            let name = object_name(&below, containers);
            let of_object = found.entry(name).or_insert_with(|| json!({}));
            for file in CGROUP_FILES {
                if let Ok(text) = fs::read_to_string(folder.join(file)) {
                    of_object[file] = text.trim().into();
                }
            }
            if let Some(facts) = first_process(&folder) {
                of_object["first process"] = facts;
            }
        }
    }
    found.into()
}

/// Every hierarchy once: the one of version 2, or those of the controllers.
fn hierarchies() -> Vec<PathBuf> {
    let top = Path::new("/sys/fs/cgroup");
    let below = fs::read_dir(top).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = std::iter::once(top.to_owned()).chain(below).filter_map(|path| fs::canonicalize(path).ok());
    let is_one = |path: &PathBuf| path.join("cgroup.procs").exists();
    let unique: BTreeSet<PathBuf> = all.filter(is_one).collect();
    unique.into_iter().collect()
}

/// The folders whose path has the pod's UID.
fn folders_of(folder: &Path, uid: &str, depth: usize, found: &mut Vec<PathBuf>) {
    if folder.to_string_lossy().contains(uid) {
        found.push(folder.to_owned());
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if depth < 5 && entry.path().is_dir() {
            folders_of(&entry.path(), uid, depth + 1, found);
        }
    }
}

/// A cgroup's path with the container's name in the place of its ID.
fn object_name(below: &str, containers: &[(String, String)]) -> String {
    let (parent, last) = below.rsplit_once('/').unwrap_or(("", below));
    if last.len() != 64 {
        return below.to_owned();
    }
    let known = containers.iter().find(|(id, _)| id == last).map(|(_, name)| format!("container {name}"));
    format!("{parent}/{}", known.unwrap_or_else(|| "sandbox".to_owned()))
}

/// Facts of the first process of a cgroup.
fn first_process(folder: &Path) -> Option<Value> {
    let processes = fs::read_to_string(folder.join("cgroup.procs")).ok()?;
    let process = Path::new("/proc").join(processes.lines().next()?);
    let score = fs::read_to_string(process.join("oom_score_adj")).ok()?;
    let status = fs::read_to_string(process.join("status")).ok()?;
    let mut facts = json!({ "oom_score_adj": score.trim() });
    for line in status.lines() {
        if let Some((key, value)) = line.split_once(':').filter(|(key, _)| PROCESS_LINES.contains(key)) {
            facts[key] = value.split_whitespace().collect::<Vec<_>>().join(" ").into();
        }
    }
    Some(facts)
}
