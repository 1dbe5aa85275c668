//! Tests of looks: made-up trees of either generation, read as real ones are.

use std::fs;
use std::os::fd::AsFd;

use super::*;
use crate::logic::model::ids::{ContainerId, PodUid, SandboxId};
use crate::logic::model::time::Moment;
use crate::logic::statistics::sample::{ContainerSample, RuntimeDisk, SandboxSample};
use crate::platform::files::project_quotas::testing::PlayedQuotas;
use crate::platform::host::clock::SystemClock;
use crate::platform::statistics::RuntimeDiskAt;

struct Node {
    folder: tempfile::TempDir,
    driver: CgroupDriver,
    version: CgroupVersion,
    per_qos: bool,
}

impl Node {
    fn new(version: CgroupVersion, driver: CgroupDriver) -> Self {
        let node = Self { folder: tempfile::tempdir().expect("a folder"), driver, version, per_qos: true };
        node.write("proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 100 kB\nSwapFree: 60 kB\n");
        node.write("proc/loadavg", "0.1 0.1 0.1 1/234 5\n");
        node.write("proc/sys/kernel/pid_max", "4194304\n");
        node.write("proc/sys/kernel/threads-max", "1000\n");
        node.write("proc/self/cgroup", "5:memory:/agent\n0::/agent\n");
        node.write("sys/devices/system/cpu/online", "0-1\n");
        let heads = "Inter-|\n face |\n";
        node.write("proc/1/net/dev", &format!("{heads} ens3: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n"));
        node.write("proc/71/net/dev", &format!("{heads} eth0: 7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n"));
        node.write("proc/72/limits", "Max open files            1024   4096   files\n");
        node
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("it is below a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn statistics(&self) -> LinuxStatistics {
        let root = self.folder.path().to_owned();
        let places = Places {
            version: self.version,
            driver: self.driver,
            tree: CgroupTree::new("/", self.per_qos).expect("a path"),
            daemons: vec![(System::Kubelet, String::new()), (System::Runtime, String::new())],
            root_dir: root.join("kubelet"),
            pod_logs: root.join("logs"),
            root,
        };
        fs::create_dir_all(&places.root_dir).expect("made");
        fs::create_dir_all(&places.pod_logs).expect("made");
        LinuxStatistics::new(places, Arc::new(SystemClock::start()))
    }

    fn look(&self, wanted: Wanted) -> RawSample {
        let order = LookOrder { wanted, pods: vec![pod()], images: None, containers: None };
        asked(&self.statistics(), order).expect("looked")
    }
}

/// A look, on a runtime of one thread, where calls run in place.
fn asked(statistics: &LinuxStatistics, order: LookOrder) -> Result<RawSample, SampleError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(statistics.look(order))
}

fn pod() -> PodSample {
    let container = |id: &str, name: &str| ContainerSample {
        id: ContainerId::from(id),
        name: name.to_owned(),
        image: String::new(),
        created: Moment(5),
        group: None,
        logs: None,
    };
    PodSample {
        uid: PodUid::from("u-1"),
        name: "p".to_owned(),
        namespace: "ns".to_owned(),
        created: Moment(4),
        group: None,
        sandbox: SandboxSample { id: SandboxId::from("5a"), host_network: false, group: None, interfaces: None },
        containers: vec![container("c1", "web"), container("c9", "gone")],
        logs: None,
        hosts_file: None,
    }
}

fn first(node: &Node, group: &str, pids: &str) {
    let file = |controller: &str, name: &str, text: &str| {
        node.write(&format!("sys/fs/cgroup/{controller}{group}/{name}"), text);
    };
    file("cpuacct", "cpuacct.usage", "3000000000\n");
    file("cpuacct", "cpuacct.stat", "user 200\nsystem 100\n");
    file("cpu", "cpu.stat", "nr_periods 4\nnr_throttled 1\nthrottled_time 9\n");
    file("cpu", "cpu.shares", "512\n");
    file("cpu", "cpu.cfs_period_us", "100000\n");
    file("cpu", "cpu.cfs_quota_us", "-1\n");
    let stat = "total_cache 40\ntotal_rss 60\ntotal_swap 2\ntotal_inactive_file 10\npgfault 3\n\
                hierarchical_memory_limit 9223372036854771712\nhierarchical_memsw_limit 4096\n";
    file("memory", "memory.stat", stat);
    file("memory", "memory.usage_in_bytes", "100\n");
    file("memory", "memory.max_usage_in_bytes", "150\n");
    // Not asked, since nothing has a limit.
    file("memory", "memory.limit_in_bytes", "1\n");
    file("memory", "memory.memsw.limit_in_bytes", "4096\n");
    file("memory", "memory.soft_limit_in_bytes", "9223372036854771712\n");
    file("memory", "memory.failcnt", "6\n");
    file("memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    file("memory", "cgroup.procs", pids);
    file("pids", "pids.current", "8\n");
    file("pids", "pids.max", "max\n");
    file("blkio", "blkio.throttle.io_service_bytes_recursive", "254:0 Read 10\n254:0 Write 20\nTotal 30\n");
    file("blkio", "blkio.throttle.io_serviced_recursive", "254:0 Read 1\n254:0 Write 2\nTotal 3\n");
}

fn second(node: &Node, group: &str, pids: &str) {
    let file = |name: &str, text: &str| node.write(&format!("sys/fs/cgroup{group}/{name}"), text);
    file("cpu.stat", "usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\nnr_periods 4\n");
    file("cpu.weight", "100\n");
    file("cpu.max", "50000 100000\n");
    file("cpu.pressure", "some avg10=1.00 avg60=0.00 avg300=0.00 total=11\n");
    file("memory.stat", "anon 60\nfile 40\ninactive_file 10\npgfault 3\nkernel 5\n");
    file("memory.current", "100\n");
    file("memory.peak", "150\n");
    file("memory.max", "max\n");
    file("memory.swap.current", "2\n");
    file("memory.swap.max", "max\n");
    file("memory.min", "0\n");
    file("memory.events", "low 0\nhigh 0\nmax 6\noom 3\noom_kill 2\n");
    file("memory.pressure", "full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n");
    file("io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=13\n");
    file("io.stat", "254:0 rbytes=10 wbytes=20 rios=1 wios=2\n");
    file("pids.current", "8\n");
    file("pids.max", "100\n");
    file("cgroup.procs", pids);
}

#[test]
fn the_first_generation_is_read() {
    let node = Node::new(CgroupVersion::V1, CgroupDriver::Cgroupfs);
    let pod = "/kubepods/burstable/podu-1";
    for (group, pids) in [("", "1\n"), ("/agent", "9\n"), ("/kubepods", ""), (pod, "")] {
        first(&node, group, pids);
    }
    first(&node, &format!("{pod}/5a"), "71\n");
    first(&node, &format!("{pod}/c1"), "72\n73\n");
    fs::create_dir_all(node.folder.path().join("sys/fs/cgroup/memory/kubepods/burstable")).expect("made");
    let sample = node.look(Wanted::EVERYTHING);
    let root = &sample.node.group.figures;
    assert_eq!(root.memory_limits.limit, 1000 << 10, "the node's limit is what the machine has");
    assert_eq!((sample.node.threads, sample.node.pids_max), (Some(234), Some(1000)));
    assert_eq!(sample.node.interfaces[0].name, "ens3");
    let pod = &sample.pods[0];
    let names: Vec<_> = pod.containers.iter().map(|container| container.name.as_str()).collect();
    assert_eq!(names, ["web"], "one without a group has ended");
    let group = pod.containers[0].group.as_ref().expect("read");
    assert_eq!(group.path, "/kubepods/burstable/podu-1/c1");
    let figures = &group.figures;
    assert_eq!(figures.created, Some(Moment(5)), "the runtime knows best when it made a container");
    let cpu = figures.cpu.expect("read");
    assert_eq!((cpu.total_ns, cpu.user_ns, cpu.throttled_ns), (3_000_000_000, 2_000_000_000, 9));
    let limits = figures.cpu_limits.expect("read");
    assert_eq!((limits.shares, limits.period_us, limits.quota_us), (512, 100_000, 0));
    let memory = figures.memory.expect("read");
    assert_eq!((memory.usage, memory.working_set(), memory.usage_max, memory.limit_hits), (100, 90, 150, 6));
    assert_eq!((memory.swap, figures.oom_kills, figures.memory_limits.swap_limit), (2, 2, 4096));
    let processes = figures.processes.expect("read");
    assert_eq!((processes.processes, processes.threads, processes.threads_max), (2, Some(8), 0));
    assert_eq!(processes.open_files_max, Some(1024));
    let io = figures.io.as_ref().expect("read");
    assert_eq!((io.devices.len(), io.devices[0].bytes.write, io.devices[0].requests.read), (1, 20, 1));
    let interfaces = pod.sandbox.interfaces.as_ref().expect("read");
    assert_eq!((interfaces[0].name.as_str(), interfaces[0].received.bytes), ("eth0", 7));
    let systems: Vec<_> = sample.systems.iter().map(|(kind, group)| (*kind, group.path.as_str())).collect();
    assert_eq!(systems, [(System::Kubelet, "/agent"), (System::Pods, "/kubepods")], "a tier that is empty is left out");
}

/// OBS-22.
#[test]
fn the_second_generation_is_read_under_systemd() {
    let node = Node::new(CgroupVersion::V2, CgroupDriver::Systemd);
    let pod = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu_1.slice";
    for (group, pids) in [("", "1\n"), ("/kubepods.slice", ""), (pod, "")] {
        second(&node, group, pids);
    }
    fs::remove_file(node.folder.path().join("sys/fs/cgroup/memory.current")).expect("the root has none");
    fs::remove_file(node.folder.path().join("sys/fs/cgroup/memory.swap.current")).expect("the root has none");
    node.write("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=99\n");
    second(&node, &format!("{pod}/cri-containerd-5a.scope"), "71\n");
    second(&node, &format!("{pod}/cri-containerd-c1.scope"), "72\n");
    let sample = node.look(Wanted::EVERYTHING);
    let root = sample.node.group.figures.memory.expect("read");
    assert_eq!((root.usage, root.swap), (100, 40 << 10), "what the root does not say is made up from elsewhere");
    let pressure = sample.node.group.figures.cpu.expect("read").pressure.expect("read");
    assert_eq!(pressure.some.total_us, 99, "the node's pressure is told by /proc");
    let group = sample.pods[0].containers[0].group.as_ref().expect("read");
    assert!(group.path.ends_with("/cri-containerd-c1.scope"), "{}", group.path);
    let figures = &group.figures;
    assert_eq!(figures.cpu.expect("read").pressure.expect("read").some.total_us, 11);
    assert_eq!(figures.memory.expect("read").pressure.expect("read").full.total_us, 12);
    assert_eq!(figures.io.as_ref().expect("read").pressure.expect("read").some.total_us, 13);
    let limits = figures.cpu_limits.expect("read");
    assert_eq!((limits.shares, limits.quota_us), (2597, 50_000));
    let memory = figures.memory.expect("read");
    assert_eq!((memory.usage, memory.kernel, memory.limit_hits, figures.oom_kills), (100, 5, 6, 2));
    assert_eq!(figures.processes.expect("read").threads_max, 100);
    assert_eq!(figures.io.as_ref().expect("read").devices[0].requests.write, 2);
}

/// CRI-O begins names of groups with its own, and keeps no process for a sandbox.
#[test]
fn groups_of_cri_o_are_read_and_the_network_is_that_of_a_container() {
    let node = Node::new(CgroupVersion::V1, CgroupDriver::Cgroupfs);
    let pod = "/kubepods/burstable/podu-1";
    for (group, pids) in [("", "1\n"), ("/kubepods", ""), (pod, "")] {
        first(&node, group, pids);
    }
    first(&node, &format!("{pod}/crio-c1"), "71\n72\n");
    first(&node, &format!("{pod}/crio-conmon-c9"), "74\n");
    let sample = node.look(Wanted::SUMMARY);
    let group = sample.pods[0].containers[0].group.as_ref().expect("read");
    assert_eq!(group.path, format!("{pod}/crio-c1"));
    let interfaces = sample.pods[0].sandbox.interfaces.as_ref().expect("read");
    assert_eq!((interfaces[0].name.as_str(), interfaces[0].received.bytes), ("eth0", 7));
    let missed: Vec<_> = sample.groupless.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(missed, ["ns/p/gone"]);
}

/// The runtime crun puts a container's processes into a group below the one that systemd made.
#[test]
fn the_network_is_found_in_a_group_below_the_containers() {
    let node = Node::new(CgroupVersion::V2, CgroupDriver::Systemd);
    let pod = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu_1.slice";
    for group in ["", "/kubepods.slice", pod] {
        second(&node, group, "");
    }
    second(&node, &format!("{pod}/crio-c1.scope"), "");
    second(&node, &format!("{pod}/crio-c1.scope/container"), "71\n");
    let sample = node.look(Wanted::SUMMARY);
    assert_eq!(sample.pods[0].sandbox.interfaces.as_ref().map(|all| all[0].received.bytes), Some(7));
}

/// Without groups of pods, the first group of a container's name counts, and none that a container made.
#[test]
fn containers_are_found_where_the_runtime_put_them() {
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let node = Node { per_qos: false, ..Node::new(version, CgroupDriver::Cgroupfs) };
        for (group, pids) in
            [("", "1\n"), ("/system/runtime/5a", "70\n"), ("/system/runtime/5a/c1", ""), ("/system/runtime/c1", "71\n")]
        {
            match version {
                CgroupVersion::V1 => first(&node, group, pids),
                CgroupVersion::V2 => second(&node, group, pids),
            }
        }
        let sample = node.look(Wanted::SUMMARY);
        let pod = &sample.pods[0];
        assert!(pod.group.is_none() && sample.groupless.is_empty(), "{version:?}");
        let names: Vec<_> = pod.containers.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["web"], "{version:?}: who has ended is left out");
        assert_eq!(pod.containers[0].group.as_ref().expect("read").path, "/system/runtime/c1", "{version:?}");
        assert_eq!(pod.sandbox.group.as_ref().expect("read").path, "/system/runtime/5a", "{version:?}");
    }
}

#[test]
fn less_is_read_when_less_is_wanted() {
    let node = Node::new(CgroupVersion::V2, CgroupDriver::Cgroupfs);
    for group in ["", "/kubepods", "/kubepods/podu-1", "/kubepods/podu-1/c1", "/kubepods/podu-1/5a"] {
        second(&node, group, "71\n");
    }
    let sample = node.look(Wanted::RESOURCES);
    let figures = &sample.pods[0].containers[0].group.as_ref().expect("read").figures;
    assert!(figures.cpu.expect("read").pressure.is_none() && figures.processes.is_none());
    assert!(sample.pods[0].sandbox.group.is_none() && sample.disks.is_none());
    let sample = node.look(Wanted::SUMMARY);
    let figures = &sample.pods[0].containers[0].group.as_ref().expect("read").figures;
    assert!(figures.processes.is_some() && figures.cpu_limits.is_none());
    assert!(sample.disks.expect("looked at").node.capacity > 0);
}

/// EVI-06: memory of the node and of all pods, and nothing else. Without memory's controller a group is still there.
#[test]
fn evi_06_what_is_left_on_the_node_is_read_alone() {
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let node = Node::new(version, CgroupDriver::Cgroupfs);
        let (write, memory): (fn(&Node, &str, &str), _) = match version {
            CgroupVersion::V1 => (first, "sys/fs/cgroup/memory"),
            CgroupVersion::V2 => (second, "sys/fs/cgroup"),
        };
        for group in ["", "/agent", "/kubepods"] {
            write(&node, group, "");
        }
        let order = LookOrder { wanted: Wanted::NODE, pods: vec![], images: None, containers: None };
        let look = || asked(&node.statistics(), order.clone()).expect("looked");
        let sample = look();
        let systems: Vec<_> = sample.systems.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(systems, [System::Pods], "{version:?}: the agent's own group is not asked");
        for figures in [&sample.node.group.figures, &sample.systems[0].1.figures] {
            let working_set = figures.memory.map(|memory| memory.working_set());
            assert_eq!((working_set, figures.cpu), (Some(90), None), "{version:?}");
        }
        assert!(sample.disks.expect("looked at").node.capacity > 0);
        fs::remove_file(node.folder.path().join(memory).join("memory.stat")).expect("it was there");
        let sample = look();
        assert!(sample.node.group.figures.memory.is_none() && sample.disks.is_some(), "{version:?}");
    }
}

#[test]
fn logs_and_the_hosts_file_are_counted() {
    let node = Node::new(CgroupVersion::V2, CgroupDriver::Cgroupfs);
    for group in ["", "/kubepods", "/kubepods/podu-1", "/kubepods/podu-1/c1"] {
        second(&node, group, "");
    }
    node.write("logs/ns_p_u-1/web/0.log", &"x".repeat(10_000));
    node.write("logs/ns_p_u-1/web/0.log.1.gz", &"x".repeat(5000));
    node.write("logs/ns_p_u-1/own.log", "x");
    node.write("kubelet/pods/u-1/etc-hosts", "127.0.0.1 localhost\n");
    let sample = node.look(Wanted::SUMMARY);
    let pod = &sample.pods[0];
    let logs = pod.containers[0].logs.expect("counted");
    assert!(logs.bytes >= 15_000 && logs.inodes == 2, "{logs:?}");
    assert_eq!(pod.logs.expect("counted").inodes, 1, "folders of containers count for the containers");
    assert_eq!(pod.hosts_file.expect("counted").inodes, 1);
}

#[test]
fn names_that_lead_elsewhere_are_not_followed() {
    let node = Node::new(CgroupVersion::V2, CgroupDriver::Cgroupfs);
    second(&node, "", "");
    node.write("logs/ns_p_u-1/web/0.log", "x");
    let mut hostile = pod();
    hostile.name = "p_u-1/../ns_p".to_owned();
    hostile.containers[0].name = "../../..".to_owned();
    let order = LookOrder { wanted: Wanted::SUMMARY, pods: vec![hostile], images: None, containers: None };
    let sample = asked(&node.statistics(), order).expect("looked");
    assert_eq!((sample.pods[0].logs, sample.pods[0].containers[0].logs), (None, None));
}

#[test]
fn without_control_groups_there_is_an_error() {
    let node = Node::new(CgroupVersion::V1, CgroupDriver::Cgroupfs);
    let order = LookOrder { wanted: Wanted::RESOURCES, pods: vec![], images: None, containers: None };
    let outcome = asked(&node.statistics(), order);
    assert_eq!(outcome, Err(SampleError::NoRootGroup));
}

#[tokio::test]
async fn walks_end_with_their_time_and_tell_what_is_not_there() {
    let node = Node::new(CgroupVersion::V2, CgroupDriver::Cgroupfs);
    let statistics = node.statistics();
    let volume = node.folder.path().join("logs").display().to_string();
    let key = |name: &str| WalkKey::Volume(PodUid::from("u"), name.to_owned());
    let places = vec![
        (key("there"), WalkPlace::Volume(volume.clone(), Measure::Walk)),
        (key("own"), WalkPlace::Volume(volume, Measure::FileSystem)),
        (key("gone"), WalkPlace::Volume("/no/such/volume".to_owned(), Measure::Walk)),
        (WalkKey::Layer(ContainerId::from("c")), WalkPlace::Layer(ContainerId::from("c"))),
    ];
    let walked = statistics.walk(places.clone(), Haste::Beside(Duration::from_secs(60))).await;
    assert_eq!(walked.len(), 4);
    assert!(matches!(&walked[0].outcome, WalkOutcome::Volume(space) if space.usage.is_some()), "{walked:?}");
    assert!(matches!(&walked[1].outcome, WalkOutcome::Volume(space) if space.usage.is_none()), "{walked:?}");
    assert_eq!((&walked[2].outcome, &walked[3].outcome), (&WalkOutcome::NotHere, &WalkOutcome::NotHere));
    assert_eq!(statistics.walk(places, Haste::AtOnce(Duration::ZERO)).await, []);
}

/// EVI-26: a quota says what a counted volume uses; all others are walked through.
#[tokio::test]
async fn evi_26_counted_volumes_are_not_walked_through() {
    let node = Node::new(CgroupVersion::V2, CgroupDriver::Cgroupfs);
    let (pods, calls) = (node.folder.path().join("kubelet/pods"), Arc::new(PlayedQuotas::default()));
    for name in ["counted", "walked"] {
        node.write(&format!("kubelet/pods/{name}/file"), "three");
    }
    node.write("etc/projects", &format!("7:{0}/counted\n8:{0}/walked\n", pods.display()));
    calls.set_project(disks::open(&pods.join("counted")).expect("there").as_fd(), 7);
    calls.set_use(7, 5 << 30, 1000);
    let etc = node.folder.path().join("etc");
    let statistics = |calls: Arc<PlayedQuotas>| {
        let quotas = ProjectQuotas::new(calls, &etc, &node.folder.path().join("kubelet"));
        node.statistics().with_quotas(Some(quotas))
    };
    let key = |name: &str| WalkKey::Volume(PodUid::from("u"), name.to_owned());
    let place = |name: &str| WalkPlace::Volume(pods.join(name).display().to_string(), Measure::Walk);
    let inodes = |walked: &[Walked]| -> Vec<u64> {
        let usage = |one: &Walked| match &one.outcome {
            WalkOutcome::Volume(space) => space.usage.expect("used").inodes,
            other => panic!("{other:?}"),
        };
        walked.iter().map(usage).collect()
    };
    let places = || ["counted", "walked"].map(|name| (key(name), place(name))).to_vec();
    let haste = Haste::Beside(Duration::from_secs(60));
    assert_eq!(inodes(&statistics(calls).walk(places(), haste).await), [1000, 2]);
    let off = Arc::new(PlayedQuotas::off(true));
    off.set_project(disks::open(&pods.join("counted")).expect("there").as_fd(), 7);
    assert_eq!(inodes(&statistics(off).walk(places(), haste).await), [2, 2]);
    assert_eq!(inodes(&node.statistics().walk(places(), haste).await), [2, 2]);
}

/// A disk that does not answer costs its own figures. The test would not end if anybody waited for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_disk_that_does_not_answer_is_named_and_the_rest_is_told() {
    let node = Node::new(CgroupVersion::V2, CgroupDriver::Cgroupfs);
    second(&node, "", "");
    node.write("images/blob", "x");
    let mut statistics = node.statistics();
    statistics.ask_disk = |path, clock| match path.ends_with("images") {
        true => loop {
            std::thread::park();
        },
        false => disks::file_system(path, clock),
    };
    let images = RuntimeDiskAt { path: "/images".to_owned(), told: RuntimeDisk::default() };
    let order = LookOrder { wanted: Wanted::NODE, pods: vec![], images: Some(images), containers: None };
    for _ in 0..2 {
        let sample = statistics.look(order.clone()).await.expect("looked");
        assert_eq!(sample.silent, [node.folder.path().join("images").display().to_string()]);
        let disks = sample.disks.expect("looked at");
        assert!(disks.node.capacity > 0 && disks.images.is_some_and(|images| images.file_system.is_none()));
        assert!(sample.node.group.figures.memory.is_some());
    }
}
