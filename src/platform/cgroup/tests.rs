//! The managers against this host's hierarchies (v1, as root), and against folders laid out like the unified one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use super::v1::CgroupsV1;
use super::v2::CgroupsV2;
use super::*;
use crate::logic::resources::{QosClass, best_effort_tier_settings};

fn pod_settings() -> CgroupSettings {
    CgroupSettings {
        cpu_shares: Some(512),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        memory_limit: Some(64 << 20),
        pids_max: Some(100),
        hugepages: Some(BTreeMap::new()),
        ..CgroupSettings::default()
    }
}

/// A tree of this test's own on the host, removed when dropped.
struct LiveTree {
    manager: CgroupsV1,
    tree: CgroupTree,
    root: CgroupName,
}

impl LiveTree {
    /// `None`, and the test skips itself, where the host or the user cannot do it.
    fn open(driver: CgroupDriver) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let skip = |reason: &str| {
            crate::testing::skips::skip(reason);
            None
        };
        if detect() != CgroupVersion::V1 {
            crate::testing::skips::needs("a host with cgroup v1");
            return None;
        }
        if !nix::unistd::geteuid().is_root() {
            return skip("only root can make cgroups");
        }
        let manager = match CgroupsV1::open(driver) {
            Ok(manager) => manager,
            Err(error) => return skip(&error.to_string()),
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = format!("/podwright-test-{}-{number}", std::process::id());
        let root = CgroupName::from_cgroupfs_path(&path).expect("a path");
        let live = Self { manager, tree: CgroupTree::new(&path, true).expect("a path"), root };
        match live.manager.create(&live.root, &CgroupSettings::default()) {
            Ok(()) => Some(live),
            Err(error) => skip(&error.to_string()),
        }
    }

    fn pod(&self, uid: &str, class: QosClass) -> CgroupName {
        self.tree.pod(&PodUid::from(uid), class).expect("a plain uid")
    }

    fn folder(&self, controller: &str, name: &CgroupName) -> PathBuf {
        PathBuf::from(format!("{CGROUP_MOUNT}/{controller}{}", name.path(self.manager.driver())))
    }

    fn read(&self, controller: &str, name: &CgroupName, file: &str) -> String {
        let path = self.folder(controller, name).join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")).trim().to_owned()
    }
}

impl Drop for LiveTree {
    fn drop(&mut self) {
        if let Err(error) = self.manager.destroy(&self.root) {
            eprintln!("left behind: {error}");
        }
    }
}

/// A process that sleeps in a cgroup of every given controller.
fn sleeper(folders: &[PathBuf]) -> Child {
    let child = Command::new("sleep").arg("1000").spawn().expect("a process");
    for folder in folders {
        fs::write(folder.join("cgroup.procs"), child.id().to_string()).expect("moved");
    }
    child
}

/// A cgroup above that somebody else made, and left without processors, is given them first: else the pod could have none.
#[test]
fn live_a_pod_has_processors_where_what_is_above_it_had_none() {
    let Some(live) = LiveTree::open(CgroupDriver::Cgroupfs) else { return };
    for class in [live.tree.pods().clone(), live.tree.tier(QosClass::Burstable)] {
        fs::create_dir_all(live.folder("cpuset", &class)).expect("made");
        assert_eq!(live.read("cpuset", &class, "cpuset.cpus"), "");
    }
    let pod = live.pod("1234-abcd", QosClass::Burstable);
    live.manager.create(&pod, &pod_settings()).expect("created");
    assert_ne!(live.read("cpuset", &pod, "cpuset.cpus"), "");
    assert_ne!(live.read("cpuset", &pod, "cpuset.mems"), "");
}

#[test]
fn live_a_pods_cgroup_is_made_set_read_and_removed() {
    let Some(live) = LiveTree::open(CgroupDriver::Cgroupfs) else { return };
    let pod = live.pod("1234-abcd", QosClass::Burstable);
    assert!(!live.manager.exists(&pod));
    let missing = live.manager.validate(&pod).expect_err("not there").to_string();
    assert!(missing.contains("has some missing paths: /sys/fs/cgroup/cpu"), "{missing}");

    live.manager.create(&pod, &pod_settings()).expect("created");
    assert!(live.manager.exists(&pod));
    assert_eq!(live.read("cpu", &pod, "cpu.shares"), "512");
    assert_eq!(live.read("cpu", &pod, "cpu.cfs_quota_us"), "50000");
    assert_eq!(live.read("memory", &pod, "memory.limit_in_bytes"), (64 << 20).to_string());
    assert_eq!(live.read("pids", &pod, "pids.max"), "100");
    let all_cpus = fs::read_to_string("/sys/fs/cgroup/cpuset/cpuset.cpus").expect("cpus");
    assert_eq!(live.read("cpuset", &pod, "cpuset.cpus"), all_cpus.trim());
    assert_ne!(live.read("cpuset", &pod, "cpuset.mems"), "");
    assert!(live.manager.memory_usage(&pod).expect("a figure") < 64 << 20);

    let expected = CgroupSettings { hugepages: None, ..pod_settings() };
    assert_eq!(live.manager.read(&pod).expect("settings"), expected);

    let smaller = CgroupSettings { cpu_shares: Some(2), cpu_quota: Some(-1), ..CgroupSettings::default() };
    live.manager.update(&pod, &smaller).expect("updated");
    assert_eq!(live.read("cpu", &pod, "cpu.shares"), "2");
    assert_eq!(live.read("cpu", &pod, "cpu.cfs_quota_us"), "-1");
    assert_eq!(live.read("cpu", &pod, "cpu.cfs_period_us"), "100000", "absent settings stay");
    assert_eq!(live.read("pids", &pod, "pids.max"), "100", "absent settings stay");

    let unlimited = CgroupSettings { memory_limit: Some(-1), pids_max: Some(-1), ..CgroupSettings::default() };
    live.manager.update(&pod, &unlimited).expect("updated");
    let found = live.manager.read(&pod).expect("settings");
    assert_eq!((found.memory_limit, found.pids_max, found.cpu_quota), (Some(-1), Some(-1), Some(-1)));

    live.manager.destroy(&pod).expect("removed");
    live.manager.destroy(&pod).expect("removed already");
    assert!(!live.manager.exists(&pod));
    assert!(!live.folder("devices", &pod).exists(), "nothing is left in hierarchies the agent does not set");
}

/// RES-08.
#[test]
fn live_processes_left_in_a_pod_are_killed_before_it_is_removed() {
    let Some(live) = LiveTree::open(CgroupDriver::Cgroupfs) else { return };
    let pod = live.pod("u", QosClass::Guaranteed);
    live.manager.create(&pod, &CgroupSettings::default()).expect("created");
    let container = pod.child("container").expect("plain");
    live.manager.create(&container, &CgroupSettings::default()).expect("created");
    let mut one = sleeper(&[live.folder("memory", &container), live.folder("pids", &pod)]);
    let mut two = sleeper(&[live.folder("cpu", &pod)]);
    let mut outside = sleeper(&[]);
    let expected: BTreeSet<i32> = [one.id(), two.id()].map(|pid| pid as i32).into();
    assert_eq!(live.manager.pids(&pod).expect("a list"), expected);
    live.manager.destroy(&pod).expect("removed");
    for child in [&mut one, &mut two] {
        assert_eq!(child.wait().expect("ended").signal(), Some(libc::SIGKILL));
    }
    assert_eq!(outside.try_wait().expect("a state"), None, "others live on");
    outside.kill().expect("killed");
    outside.wait().expect("ended");
    assert!(live.manager.pids(&pod).expect("a list").is_empty());
}

#[test]
fn live_orphans_are_found_in_every_tier_and_hierarchy() {
    for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
        let Some(live) = LiveTree::open(driver) else { return };
        let classes = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];
        for (number, class) in classes.into_iter().enumerate() {
            let pod = live.pod(&format!("uid-{number}"), class);
            live.manager.create(&pod, &CgroupSettings::default()).expect("created");
            live.manager.create(&pod.child("container").expect("plain"), &CgroupSettings::default()).expect("created");
        }
        // One that is left in a single hierarchy counts too; what is no pod does not.
        let half = live.pod("half", QosClass::Burstable);
        fs::create_dir(live.folder("devices", &half)).expect("made");
        let other = live.tree.pods().child("other").expect("plain");
        live.manager.create(&other, &best_effort_tier_settings()).expect("created");
        let found = live.manager.list_pods(&live.tree).expect("a list");
        let uids: BTreeSet<_> = found.iter().map(|(uid, _)| uid.as_str().to_owned()).collect();
        assert_eq!(uids, ["half", "uid-0", "uid-1", "uid-2"].map(str::to_owned).into(), "{driver}");
        assert!(!live.manager.exists(&half));
        for (_, name) in found {
            live.manager.destroy(&name).expect("removed");
        }
        assert_eq!(live.manager.list_pods(&live.tree).expect("a list"), vec![]);
    }
}

#[test]
fn live_a_limit_that_the_kernel_refuses_is_told_and_the_others_are_set() {
    let Some(live) = LiveTree::open(CgroupDriver::Cgroupfs) else { return };
    let pod = live.pod("u", QosClass::Burstable);
    let settings = CgroupSettings { cpuset_cpus: Some("4000".to_owned()), ..pod_settings() };
    let error = live.manager.create(&pod, &settings).expect_err("no such CPU");
    let text = error.to_string();
    assert!(text.starts_with("write \"4000\" to /sys/fs/cgroup/cpuset/podwright-test-"), "{text}");
    assert!(matches!(&error, CgroupError::Write { source, .. } if source.raw_os_error().is_some()), "{error:?}");
    assert_eq!(live.read("pids", &pod, "pids.max"), "100");

    let unified = BTreeMap::from([("memory.oom.group".to_owned(), "1".to_owned())]);
    let error = live.manager.update(&pod, &CgroupSettings { unified, ..CgroupSettings::default() });
    assert!(matches!(error, Err(CgroupError::Unsupported { .. })), "{error:?}");
}

/// The controller is optional: where the host has none, a pod with huge pages has its other limits and no error.
#[test]
fn live_huge_pages_are_limited_where_the_host_has_the_controller() {
    let Some(live) = LiveTree::open(CgroupDriver::Cgroupfs) else { return };
    let pod = live.pod("u", QosClass::Burstable);
    live.manager.create(&pod, &pod_settings()).expect("a cgroup");
    let has_controller = live.folder("hugetlb", &pod).join("hugetlb.2MB.limit_in_bytes").exists();
    let limit = |size: u64| CgroupSettings {
        hugepages: Some(BTreeMap::from([(size, 8 << 20)])),
        memory_limit: Some(32 << 20),
        ..CgroupSettings::default()
    };
    live.manager.update(&pod, &limit(2 << 20)).expect("a limit, or no such control");
    assert_eq!(live.read("memory", &pod, "memory.limit_in_bytes"), (32 << 20).to_string());
    let unknown = live.manager.update(&pod, &limit(4 << 20));
    if has_controller {
        assert!(unknown.expect_err("no such size").to_string().contains("hugetlb.4MB.limit_in_bytes"));
    } else {
        unknown.expect("nothing to write to");
    }
}

/// As on cgroup v1.
#[test]
fn a_unified_host_without_the_controller_limits_no_huge_pages() {
    let fake = FakeTree::new("cpu memory pids");
    fake.add("kubepods", "cpu memory pids", "");
    let settings = CgroupSettings {
        hugepages: Some(BTreeMap::from([(2 << 20, 8 << 20)])),
        pids_max: Some(7),
        ..CgroupSettings::default()
    };
    fake.manager(CgroupDriver::Cgroupfs).update(&name("/kubepods"), &settings).expect("no such control");
    assert_eq!(fake.read("kubepods/pids.max"), "7");
}

#[test]
fn live_the_agents_own_cgroup_is_never_destroyed() {
    let Some(live) = LiveTree::open(CgroupDriver::Cgroupfs) else { return };
    let error = live.manager.destroy(&CgroupName::root()).expect_err("everything");
    assert!(matches!(error, CgroupError::Own { .. }), "{error:?}");
}

/// A tree of this test's own in a unified hierarchy of the host: the main one, or the one beside v1 hierarchies.
struct LiveUnified {
    manager: CgroupsV2,
    mount: &'static str,
    tree: CgroupTree,
    root: CgroupName,
    handed_down_before: String,
}

impl LiveUnified {
    fn open() -> Option<Self> {
        let mount = match detect() {
            CgroupVersion::V2 => CGROUP_MOUNT,
            CgroupVersion::V1 => "/sys/fs/cgroup/unified",
        };
        let Ok(handed_down_before) = fs::read_to_string(format!("{mount}/cgroup.subtree_control")) else {
            crate::testing::skips::needs("a host with a unified hierarchy");
            return None;
        };
        let manager = CgroupsV2::open_at(mount, CgroupDriver::Cgroupfs).expect("a mount");
        let path = format!("/podwright-test-{}", std::process::id());
        let root = CgroupName::from_cgroupfs_path(&path).expect("a path");
        let tree = CgroupTree::new(&path, true).expect("a path");
        if let Err(error) = manager.create(&root, &CgroupSettings::default()) {
            crate::testing::skips::skip(&error.to_string());
            return None;
        }
        Some(Self { manager, mount, tree, root, handed_down_before })
    }

    fn file(&self, name: &CgroupName, file: &str) -> PathBuf {
        PathBuf::from(format!("{}{}/{file}", self.mount, name.path(CgroupDriver::Cgroupfs)))
    }

    /// RES-06: a pod that asks for no huge pages gets none, and the tier above it is not limited.
    fn check_huge_pages(&self, pod: &CgroupName) {
        let controllers = fs::read_to_string(format!("{}/cgroup.controllers", self.mount)).expect("told");
        if !controllers.split_whitespace().any(|one| one == "hugetlb") {
            return crate::testing::skips::needs("hugetlb in the unified hierarchy");
        }
        let limit = |name: &CgroupName| fs::read_to_string(self.file(name, "hugetlb.2MB.max")).expect("a limit");
        assert_eq!(limit(pod).trim(), "0");
        // The hierarchy beside v1 ones has no CPU controller.
        let tier = CgroupSettings { cpu_shares: None, ..best_effort_tier_settings() };
        self.manager.update(self.tree.pods(), &tier).expect("updated");
        assert_ne!(limit(self.tree.pods()).trim(), "0");
    }
}

impl Drop for LiveUnified {
    fn drop(&mut self) {
        if let Err(error) = self.manager.destroy(&self.root) {
            eprintln!("left behind: {error}");
        }
        let control = format!("{}/cgroup.subtree_control", self.mount);
        let now = fs::read_to_string(&control).unwrap_or_default();
        for controller in now.split_whitespace().filter(|name| !self.handed_down_before.contains(name)) {
            let _ = fs::write(&control, format!("-{controller}"));
        }
    }
}

/// RES-06.
#[test]
fn live_the_kernels_unified_hierarchy_is_made_set_listed_and_removed() {
    let Some(live) = LiveUnified::open() else { return };
    let uid = PodUid::from("1-2");
    let pod = live.tree.pod(&uid, QosClass::Burstable).expect("a plain uid");
    assert!(!live.manager.exists(&pod));
    let settings = CgroupSettings { hugepages: Some(BTreeMap::new()), ..CgroupSettings::default() };
    live.manager.create(&pod, &settings).expect("created");
    live.manager.validate(&pod).expect("has every controller of the host");
    live.check_huge_pages(&pod);
    let container = pod.child("container").expect("plain");
    fs::create_dir(live.file(&container, "")).expect("made");
    let mut child = sleeper(&[live.file(&container, "")]);
    assert_eq!(live.manager.pids(&pod).expect("a list"), BTreeSet::from([child.id() as i32]));
    assert_eq!(live.manager.list_pods(&live.tree).expect("a list"), vec![(uid, pod.clone())]);
    live.manager.destroy(&pod).expect("removed");
    assert_eq!(child.wait().expect("ended").signal(), Some(libc::SIGKILL));
    assert!(!live.file(&pod, "").exists());
    assert_eq!(live.manager.list_pods(&live.tree).expect("a list"), vec![]);
}

/// Folders and files like those of the unified hierarchy.
struct FakeTree {
    folder: tempfile::TempDir,
}

impl FakeTree {
    fn new(controllers: &str) -> Self {
        let fake = Self { folder: tempfile::tempdir().expect("a folder") };
        fake.add("", controllers, "");
        fake
    }

    /// Adds a cgroup with these controllers, of which it hands down the given ones.
    fn add(&self, path: &str, controllers: &str, handed_down: &str) {
        let folder = self.path(path);
        fs::create_dir_all(&folder).expect("a folder");
        let mut files = vec![
            ("cgroup.controllers", controllers),
            ("cgroup.subtree_control", handed_down),
            ("cgroup.procs", ""),
            ("memory.current", "4096\n"),
        ];
        for (controller, knobs) in [
            ("cpu", &["cpu.weight", "cpu.max"][..]),
            ("cpuset", &["cpuset.cpus"]),
            ("memory", &["memory.max", "memory.min", "memory.oom.group"]),
            ("pids", &["pids.max"]),
            ("hugetlb", &["hugetlb.2MB.max", "hugetlb.2MB.rsvd.max", "hugetlb.1GB.max", "hugetlb.2MB.current"]),
        ] {
            if controllers.split(' ').any(|name| name == controller) {
                files.extend(knobs.iter().map(|file| (*file, "unset")));
            }
        }
        for (file, text) in files {
            fs::write(folder.join(file), text).expect("a file");
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    fn manager(&self, driver: CgroupDriver) -> CgroupsV2 {
        CgroupsV2::open_at(self.folder.path().to_str().expect("text"), driver).expect("a folder")
    }
}

fn name(path: &str) -> CgroupName {
    CgroupName::from_cgroupfs_path(path).expect("a path")
}

const ALL: &str = "cpuset cpu io memory hugetlb pids rdma misc";

#[test]
fn the_unified_hierarchy_gets_the_settings_in_its_own_units() {
    let fake = FakeTree::new(ALL);
    fake.add("kubepods", ALL, "cpu cpuset memory hugetlb pids");
    fake.add("kubepods/podu", ALL, "");
    let manager = fake.manager(CgroupDriver::Cgroupfs);
    let settings = CgroupSettings {
        cpuset_cpus: Some("0-1".to_owned()),
        hugepages: Some(BTreeMap::from([(2 << 20, 4 << 20)])),
        unified: BTreeMap::from([("memory.min".to_owned(), "4096".to_owned())]),
        ..pod_settings()
    };
    manager.create(&name("/kubepods/podu"), &settings).expect("set");
    for (file, value) in [
        ("cpu.weight", "20"),
        ("cpu.max", "50000 100000"),
        ("cpuset.cpus", "0-1"),
        ("memory.max", "67108864"),
        ("memory.min", "4096"),
        ("pids.max", "100"),
        ("hugetlb.2MB.max", "4194304"),
        ("hugetlb.2MB.rsvd.max", "4194304"),
        ("hugetlb.1GB.max", "0"),
        ("memory.oom.group", "unset"),
    ] {
        assert_eq!(fake.read(&format!("kubepods/podu/{file}")), value, "{file}");
    }
    let unlimited =
        CgroupSettings { cpu_quota: Some(-1), memory_limit: Some(-1), pids_max: Some(-1), ..CgroupSettings::default() };
    manager.update(&name("/kubepods/podu"), &unlimited).expect("set");
    assert_eq!(fake.read("kubepods/podu/cpu.max"), "max 100000");
    assert_eq!(fake.read("kubepods/podu/memory.max"), "max");
    assert_eq!(fake.read("kubepods/podu/pids.max"), "max");
    assert_eq!(fake.read("kubepods/podu/cpu.weight"), "20", "absent settings stay");
    let found = manager.read(&name("/kubepods/podu")).expect("settings");
    assert_eq!((found.cpu_quota, found.memory_limit, found.pids_max), (Some(-1), Some(-1), Some(-1)));
    assert_eq!(manager.memory_usage(&name("/kubepods/podu")).expect("a figure"), 4096);
}

#[test]
fn controllers_are_handed_down_where_they_are_missing_and_nowhere_else() {
    let fake = FakeTree::new(ALL);
    fake.add("kubepods", ALL, "cpu memory pids");
    fake.add("kubepods/podu", ALL, "");
    fake.manager(CgroupDriver::Cgroupfs).create(&name("/kubepods/podu"), &CgroupSettings::default()).expect("made");
    assert_eq!(fake.read("cgroup.subtree_control"), "+cpu +cpuset +hugetlb +memory +pids");
    assert_eq!(fake.read("kubepods/cgroup.subtree_control"), "+cpuset +hugetlb");
    assert_eq!(fake.read("kubepods/podu/cgroup.subtree_control"), "", "the runtime's business");
}

#[test]
fn a_cgroup_exists_with_every_controller_that_the_host_has() {
    let fake = FakeTree::new("cpu memory pids io");
    fake.add("full", "cpu memory pids", "");
    fake.add("half", "memory", "");
    let manager = fake.manager(CgroupDriver::Cgroupfs);
    assert!(manager.exists(&name("/full")));
    assert!(!manager.exists(&name("/none")));
    let error = manager.validate(&name("/half")).expect_err("half");
    assert_eq!(error.to_string(), "cgroup [\"half\"] has some missing controllers: cpu, pids");
}

/// The kernel refuses a quota below the burst.
#[test]
fn a_burst_shrinks_before_the_quota_falls_below_it() {
    let fake = FakeTree::new(ALL);
    fake.add("podu", ALL, "");
    let manager = fake.manager(CgroupDriver::Cgroupfs);
    let quota = |quota| CgroupSettings { cpu_quota: Some(quota), ..CgroupSettings::default() };
    manager.update(&name("/podu"), &quota(50_000)).expect("a kernel without burst");
    fs::write(fake.path("podu/cpu.max.burst"), "40000").expect("written");
    manager.update(&name("/podu"), &quota(50_000)).expect("above the burst");
    assert_eq!(fake.read("podu/cpu.max.burst"), "40000");
    manager.update(&name("/podu"), &quota(20_000)).expect("below the burst");
    assert_eq!(
        (fake.read("podu/cpu.max.burst").as_str(), fake.read("podu/cpu.max").as_str()),
        ("20000", "20000 100000")
    );
}

#[test]
fn a_control_that_the_host_lacks_is_named_with_the_value() {
    let fake = FakeTree::new("memory hugetlb");
    fake.add("podu", "memory hugetlb", "");
    let manager = fake.manager(CgroupDriver::Cgroupfs);
    let error = manager.update(&name("/podu"), &pod_settings()).expect_err("no cpu controller");
    let CgroupError::Write { file, value, source } = &error else { panic!("{error:?}") };
    assert!(file.ends_with("/podu/cpu.weight"), "{file}");
    assert_eq!((value.as_str(), source.kind()), ("20", io::ErrorKind::NotFound));
    assert_eq!(fake.read("podu/memory.max"), "67108864", "the others are set");

    let hugepages = Some(BTreeMap::from([(4 << 20, 8 << 20)]));
    let error = manager.update(&name("/podu"), &CgroupSettings { hugepages, ..CgroupSettings::default() });
    assert!(matches!(error, Err(CgroupError::Unsupported { .. })), "{error:?}");
    for file in ["../memory.max", "memory/max", "cgroup.kill", ".x", "memory"] {
        let unified = BTreeMap::from([(file.to_owned(), "1".to_owned())]);
        let error = manager.update(&name("/podu"), &CgroupSettings { unified, ..CgroupSettings::default() });
        assert!(matches!(error, Err(CgroupError::Unsupported { .. })), "{file}: {error:?}");
    }
}

#[test]
fn pods_are_listed_and_trees_removed_under_both_drivers() {
    for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
        let fake = FakeTree::new("cpu");
        let tree = CgroupTree::new("/", true).expect("a path");
        let manager = fake.manager(driver);
        let mut expected = Vec::new();
        for (uid, class) in [("a-b", QosClass::Burstable), ("c", QosClass::BestEffort), ("d", QosClass::Guaranteed)] {
            let pod = tree.pod(&PodUid::from(uid), class).expect("a plain uid");
            let path = pod.path(driver);
            fs::create_dir_all(fake.path(path.trim_start_matches('/')).join("container/inner")).expect("made");
            expected.push((PodUid::from(uid), pod));
        }
        fs::create_dir(fake.path(tree.pods().path(driver).trim_start_matches('/')).join("not-a-pod")).expect("made");
        let mut found = manager.list_pods(&tree).expect("a list");
        found.sort();
        assert_eq!(found, expected, "{driver}");
        for (_, pod) in &found {
            manager.destroy(pod).expect("removed");
        }
        assert_eq!(manager.list_pods(&tree).expect("a list"), vec![]);
    }
}

#[test]
fn a_link_in_the_way_is_not_followed() {
    let fake = FakeTree::new("memory");
    let elsewhere = tempfile::tempdir().expect("a folder");
    fs::write(elsewhere.path().join("memory.max"), "theirs").expect("a file");
    symlink(elsewhere.path(), fake.path("podu")).expect("a link");
    let manager = fake.manager(CgroupDriver::Cgroupfs);
    let settings = CgroupSettings { memory_limit: Some(1), ..CgroupSettings::default() };
    assert!(manager.update(&name("/podu"), &settings).is_err());
    assert!(manager.destroy(&name("/podu")).is_err());
    assert_eq!(fs::read_to_string(elsewhere.path().join("memory.max")).expect("kept"), "theirs");
    assert!(Path::new(&fake.path("podu")).is_symlink());
}

#[test]
fn pids_of_a_cgroup_include_those_below_and_our_own_keeps_it_alive() {
    let fake = FakeTree::new("memory");
    fake.add("podu", "memory", "");
    fake.add("podu/container", "memory", "");
    let own = std::process::id();
    fs::write(fake.path("podu/container/cgroup.procs"), format!("{own}\n")).expect("a file");
    fs::write(fake.path("podu/cgroup.procs"), "0\n").expect("a file");
    let manager = fake.manager(CgroupDriver::Cgroupfs);
    assert_eq!(manager.pids(&name("/podu")).expect("a list"), BTreeSet::from([0, own as i32]));
    let error = manager.destroy(&name("/podu")).expect_err("holds this process");
    assert!(matches!(error, CgroupError::Own { .. }), "{error:?}");
    assert!(manager.pids(&name("/absent")).expect("a list").is_empty());
}

#[test]
fn what_a_runtime_made_in_a_hybrid_hosts_unified_hierarchy_goes_with_the_pod() {
    let Some(live) = LiveTree::open(CgroupDriver::Cgroupfs) else { return };
    if !is_unified("/sys/fs/cgroup/unified") {
        return crate::testing::skips::needs("a hybrid host");
    }
    let pod = live.pod("a", QosClass::BestEffort);
    live.manager.create(&pod, &pod_settings()).expect("create");
    let folder = live.folder("unified", &pod);
    fs::create_dir_all(folder.join("container")).expect("as a runtime would");
    live.manager.destroy(&pod).expect("destroy");
    assert!(!folder.exists());
}
