//! Tests of `build`: the summary of a node with two pods, field by field.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::logic::model::ids::{ContainerId, PodUid, SandboxId};
use crate::logic::statistics::figures::{
    CpuFigures, IoFigures, MemoryFigures, MemoryLimits, Pressure, PressureLine, ProcessFigures, Traffic, UNLIMITED,
};
use crate::logic::statistics::sample::{NodeSample, RawSample, SandboxSample};
use crate::logic::statistics::summary::ClaimReference;
use crate::logic::statistics::volumes::{Figures, Space, VolumeFigures};

/// 2026-01-02T03:04:05Z, a little later.
const AT: Moment = Moment(1_767_323_045_600_000_000);

pub(in crate::logic::statistics) fn group(path: &str, containers: u64) -> Group {
    let line = PressureLine { total_us: 500, avg10: 1.5, avg60: 0.0, avg300: 2.0 };
    let pressure = Some(Pressure { full: PressureLine::default(), some: line });
    let cpu = CpuFigures { total_ns: 1_000_000_000 * containers, pressure, ..CpuFigures::default() };
    let memory = MemoryFigures {
        usage: 1000 * containers,
        inactive_file: 100 * containers,
        rss: 600 * containers,
        swap: 10,
        page_faults: 7,
        major_page_faults: 1,
        ..MemoryFigures::default()
    };
    let figures = GroupFigures {
        at: AT,
        created: Some(Moment(1_767_000_000_000_000_000)),
        cpu: Some(cpu),
        memory: Some(memory),
        memory_limits: MemoryLimits { limit: UNLIMITED, swap_limit: 100, reservation: 0 },
        processes: Some(ProcessFigures { processes: 3, ..ProcessFigures::default() }),
        ..GroupFigures::default()
    };
    Group { path: path.to_owned(), figures }
}

fn container(id: &str, name: &str) -> ContainerSample {
    ContainerSample {
        id: ContainerId::from(id),
        name: name.to_owned(),
        image: "docker.io/library/app:1".to_owned(),
        created: Moment(1_767_323_000_250_000_000),
        group: Some(group(&format!("/kubepods/podu1/{id}"), 1)),
        logs: Some(Usage { at: AT, bytes: 8192, inodes: 2 }),
    }
}

pub(crate) fn snapshot() -> Snapshot {
    let traffic = |bytes| Traffic { bytes, packets: 1, errors: 2, dropped: 3 };
    let interface = |name: &str| Interface { name: name.to_owned(), received: traffic(11), sent: traffic(22) };
    let mut limited = container("c1", "web");
    limited.group.as_mut().expect("it has one").figures.memory_limits.limit = 5000;
    let pod = PodSample {
        uid: PodUid::from("u1"),
        name: "p".to_owned(),
        namespace: "ns".to_owned(),
        created: Moment(1_767_322_900_000_000_000),
        group: Some(group("/kubepods/podu1", 2)),
        sandbox: SandboxSample {
            id: SandboxId::from("s1"),
            host_network: false,
            group: Some(group("/kubepods/podu1/s1", 0)),
            interfaces: Some(vec![interface("eth0"), interface("net1")]),
        },
        containers: vec![limited, container("c2", "side")],
        logs: Some(Usage { at: AT, bytes: 4096, inodes: 1 }),
        hosts_file: Some(Usage { at: AT, bytes: 512, inodes: 1 }),
    };
    let empty = PodSample { uid: PodUid::from("u2"), containers: vec![], ..pod.clone() };
    let disk = FileSystem {
        device: 1,
        at: AT,
        capacity: 1_000_000,
        available: 400_000,
        free: 500_000,
        inodes: 1000,
        inodes_free: 900,
    };
    let mut root = group("/", 4);
    root.figures.memory_limits = MemoryLimits { limit: 100_000, swap_limit: 0, reservation: 0 };
    let images = RuntimeDisk { file_system: Some(disk), at: AT, used: Some(77_000), inodes_used: Some(70) };
    let sample = RawSample {
        at: AT,
        node: NodeSample {
            group: root,
            interfaces: vec![interface("ens3")],
            pids_max: Some(4_194_304),
            threads: Some(345),
            ..NodeSample::default()
        },
        systems: vec![
            (System::Kubelet, group("/system.slice/agent.service", 1)),
            (System::Pods, group("/kubepods", 3)),
            (System::Tier, group("/kubepods/burstable", 0)),
        ],
        pods: vec![pod, empty],
        disks: Some(DiskSample { node: disk, logs: None, images: Some(images), containers: None }),
        ..RawSample::default()
    };
    let volume = |name: &str, bytes, is_ephemeral, claim: Option<&str>| VolumeFigures {
        name: name.to_owned(),
        claim: claim.map(|name| ClaimReference { name: name.to_owned(), namespace: "ns".to_owned() }),
        is_ephemeral,
        figures: Figures::Seen(Space { file_system: disk, usage: Some(Usage { at: AT, bytes, inodes: 5 }) }),
    };
    let volumes = vec![volume("data", 30_000, false, Some("claim")), volume("cache", 20_000, true, None)];
    Snapshot {
        told: None,
        sample,
        nano_cores: [("/".to_owned(), 250_000_000), ("/kubepods/podu1/c1".to_owned(), 5)].into(),
        layers: [(ContainerId::from("c1"), Usage { at: AT, bytes: 12_288, inodes: 3 })].into(),
        volumes: [(PodUid::from("u1"), volumes)].into(),
        sandbox_image: "registry.k8s.io/pause:3.10".to_owned(),
    }
}

fn facts() -> Facts {
    Facts {
        node_name: "node-1".to_owned(),
        booted: Moment(1_767_000_000_000_000_000),
        agent_started: Moment(1_767_300_000_000_000_000),
        pressure: true,
    }
}

fn json_of(summary: &Summary) -> Value {
    serde_json::to_value(summary).expect("it has a JSON form")
}

/// The kernel's missing figures, as upstream shows them.
fn no_pressure() -> Value {
    let line = json!({"total": 0, "avg10": 0, "avg60": 0, "avg300": 0});
    json!({"full": line, "some": line})
}

/// OBS-22, SRV-24: the gate `KubeletPSI`, with and without figures of the kernel.
#[test]
fn pressure_is_shown_under_its_gate_and_is_zero_where_the_kernel_has_none() {
    let mut with = snapshot();
    let line = PressureLine { total_us: 7, avg10: 0.5, avg60: 0.0, avg300: 0.0 };
    let pressure = Some(Pressure { full: PressureLine::default(), some: line });
    let set = |figures: &mut GroupFigures| {
        figures.cpu.as_mut().expect("read").pressure = pressure;
        figures.memory.as_mut().expect("read").pressure = pressure;
        figures.io = Some(IoFigures { devices: vec![], pressure });
    };
    set(&mut with.sample.node.group.figures);
    with.sample.systems.iter_mut().for_each(|(_, group)| set(&mut group.figures));
    let pod = &mut with.sample.pods[0];
    set(&mut pod.group.as_mut().expect("it has one").figures);
    set(&mut pod.containers[0].group.as_mut().expect("it has one").figures);
    let mut without = with.clone();
    let clear = |figures: &mut GroupFigures| {
        figures.cpu.as_mut().expect("read").pressure = None;
        figures.memory.as_mut().expect("read").pressure = None;
        figures.io = None;
    };
    clear(&mut without.sample.node.group.figures);
    without.sample.systems.iter_mut().for_each(|(_, group)| clear(&mut group.figures));
    let pod = &mut without.sample.pods[0];
    clear(&mut pod.group.as_mut().expect("it has one").figures);
    clear(&mut pod.containers[0].group.as_mut().expect("it has one").figures);

    let figures = json!({
        "full": {"total": 0, "avg10": 0, "avg60": 0, "avg300": 0},
        "some": {"total": 7, "avg10": 0.5, "avg60": 0, "avg300": 0},
    });
    let off = Facts { pressure: false, ..facts() };
    for (snapshot, facts, expected) in [
        (&with, &facts(), Some(&figures)),
        (&without, &facts(), Some(&no_pressure())),
        (&with, &off, None),
        (&without, &off, None),
    ] {
        let told = json_of(&summary(snapshot, facts));
        let brief = json_of(&cpu_and_memory(snapshot, facts));
        for place in ["/node", "/node/systemContainers/0", "/pods/0", "/pods/0/containers/0"] {
            for resource in ["cpu", "memory", "io"] {
                let path = format!("{place}/{resource}/psi");
                assert_eq!(told.pointer(&path), expected, "{path}");
                let expected = expected.filter(|_| resource != "io");
                assert_eq!(brief.pointer(&path), expected, "{path} of processor time and memory alone");
            }
        }
    }
}

#[test]
fn a_container_shows_what_upstream_shows() {
    let told = json_of(&summary(&snapshot(), &facts()));
    assert_eq!(told["pods"].as_array().map(Vec::len), Some(1), "a pod without a running container is not told of");
    let no_psi = no_pressure();
    let psi = json!({
        "full": {"total": 0, "avg10": 0, "avg60": 0, "avg300": 0},
        "some": {"total": 500, "avg10": 1.5, "avg60": 0, "avg300": 2},
    });
    assert_eq!(
        told["pods"][0]["containers"][0],
        json!({
            "name": "web",
            "startTime": "2026-01-02T03:03:20Z",
            "cpu": {
                "time": "2026-01-02T03:04:05Z", "usageNanoCores": 5, "usageCoreNanoSeconds": 1_000_000_000, "psi": psi,
            },
            "memory": {
                "time": "2026-01-02T03:04:05Z", "availableBytes": 4100, "usageBytes": 1000, "workingSetBytes": 900,
                "rssBytes": 600, "pageFaults": 7, "majorPageFaults": 1, "psi": no_psi,
            },
            "io": {"time": "2026-01-02T03:04:05Z", "psi": no_psi},
            "rootfs": {
                "time": "2026-01-02T03:04:05Z", "availableBytes": 400_000, "capacityBytes": 1_000_000,
                "usedBytes": 12_288, "inodesFree": 900, "inodes": 1000, "inodesUsed": 3,
            },
            "logs": {
                "time": "2026-01-02T03:04:05Z", "availableBytes": 400_000, "capacityBytes": 1_000_000,
                "usedBytes": 8192, "inodesFree": 900, "inodes": 1000, "inodesUsed": 2,
            },
            "swap": {"time": "2026-01-02T03:04:05Z", "swapAvailableBytes": 90, "swapUsageBytes": 10},
        })
    );
    let other = &told["pods"][0]["containers"][1];
    assert_eq!(other["memory"].get("availableBytes"), None, "without a limit nothing is known to be left");
    assert_eq!(other["cpu"].get("usageNanoCores"), None, "one look tells no rate");
    assert_eq!(other["rootfs"].get("usedBytes"), None, "its layer was not walked yet");
}

#[test]
fn a_pod_sums_up_what_is_on_the_nodes_disk() {
    let told = json_of(&summary(&snapshot(), &facts()));
    let pod = &told["pods"][0];
    assert_eq!(pod["podRef"], json!({"name": "p", "namespace": "ns", "uid": "u1"}));
    assert_eq!(pod["startTime"], "2026-01-02T03:01:40Z");
    // One layer, the logs of two containers, the volume on the disk, the pod's own log files and its hosts file.
    assert_eq!(pod["ephemeral-storage"]["usedBytes"], 12_288 + 2 * 8192 + 20_000 + 4096 + 512);
    assert_eq!(pod["ephemeral-storage"]["inodesUsed"], 3 + 2 * 2 + 5 + 1 + 1);
    assert_eq!(pod["ephemeral-storage"]["capacityBytes"], 1_000_000);
    assert_eq!(pod["process_stats"], json!({"process_count": 6}));
    let names: Vec<_> = pod["volume"].as_array().expect("a list").iter().map(|volume| &volume["name"]).collect();
    assert_eq!(names, ["cache", "data"], "ephemeral ones first");
    assert_eq!(pod["volume"][1]["pvcRef"], json!({"name": "claim", "namespace": "ns"}));
    assert_eq!(pod["volume"][1]["usedBytes"], 30_000);
    assert_eq!(pod["network"]["name"], "eth0");
    assert_eq!(pod["network"]["rxBytes"], 11);
    assert_eq!(
        pod["network"]["interfaces"][1],
        json!({"name": "net1", "rxBytes": 11, "rxErrors": 2, "txBytes": 22, "txErrors": 2})
    );
    assert_eq!(pod["memory"]["workingSetBytes"], 1800, "the pod's own group, not the sum of its containers");
}

#[test]
fn the_node_shows_its_disks_daemons_and_process_ids() {
    let told = json_of(&summary(&snapshot(), &facts()));
    let node = &told["node"];
    assert_eq!(node["nodeName"], "node-1");
    assert_eq!(node["startTime"], "2025-12-29T09:20:00Z");
    assert_eq!(node["memory"]["availableBytes"], 100_000 - 3600);
    assert_eq!(node["cpu"]["usageNanoCores"], 250_000_000);
    assert_eq!(node["fs"]["usedBytes"], 500_000);
    assert_eq!(node["fs"]["inodesUsed"], 100);
    assert_eq!(node["runtime"]["imageFs"]["usedBytes"], 77_000);
    assert_eq!(node["runtime"]["containerFs"], node["runtime"]["imageFs"]);
    let rlimit = json!({"time": "2026-01-02T03:04:05Z", "maxpid": 4_194_304, "curproc": 345});
    assert_eq!(node["rlimit"], rlimit);
    assert_eq!(node["network"]["name"], "", "no interface of the node has the usual name");
    let systems = node["systemContainers"].as_array().expect("a list");
    let names: Vec<_> = systems.iter().map(|system| &system["name"]).collect();
    assert_eq!(names, ["kubelet", "pods"], "tiers are no daemons, and those not named are not known");
    assert_eq!(systems[0]["startTime"], "2026-01-01T20:40:00Z", "the agent knows its own start");
    assert_eq!(systems[0].get("rootfs"), None);
}

#[test]
fn processor_time_and_memory_alone_leave_all_else_out() {
    let told = json_of(&cpu_and_memory(&snapshot(), &facts()));
    let keys = |value: &Value| {
        let mut keys: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&told["node"]), ["cpu", "memory", "nodeName", "startTime", "swap", "systemContainers"]);
    assert_eq!(keys(&told["pods"][0]), ["containers", "cpu", "memory", "podRef", "startTime", "swap"]);
    assert_eq!(keys(&told["pods"][0]["containers"][0]), ["cpu", "memory", "name", "startTime", "swap"]);
    assert!(told["pods"][0]["cpu"]["psi"].is_object());
}

#[test]
fn a_pod_without_a_group_of_its_own_is_the_sum_of_its_containers() {
    let mut snapshot = snapshot();
    snapshot.sample.pods[0].group = None;
    let told = json_of(&summary(&snapshot, &facts()));
    assert_eq!(told["pods"][0]["memory"]["workingSetBytes"], 1800);
    assert_eq!(told["pods"][0]["cpu"]["usageCoreNanoSeconds"], 2_000_000_000_u64);
    assert_eq!(told["pods"][0]["cpu"].get("psi"), None);
}

#[test]
fn what_is_not_known_is_absent_and_a_time_that_is_not_known_is_null() {
    let mut bare = Snapshot::default();
    bare.sample.node.group.figures.cpu = None;
    let told = json_of(&summary(&bare, &Facts::default()));
    assert_eq!(told["node"]["startTime"], Value::Null);
    assert_eq!(told["node"].get("cpu"), None);
    assert_eq!(told["node"].get("fs"), None);
    assert_eq!(told["pods"], json!([]));
}

#[test]
fn disks_of_layers_may_be_others_than_those_of_images() {
    let mut snapshot = snapshot();
    let disks = snapshot.sample.disks.as_mut().expect("there are some");
    let other = FileSystem { capacity: 7, available: 3, ..disks.node };
    disks.containers = Some(RuntimeDisk { file_system: Some(other), used: Some(4), ..RuntimeDisk::default() });
    disks.logs = Some(FileSystem { capacity: 9, ..disks.node });
    let told = json_of(&summary(&snapshot, &facts()));
    assert_eq!(told["node"]["runtime"]["containerFs"]["capacityBytes"], 7);
    assert_eq!(told["node"]["runtime"]["imageFs"]["capacityBytes"], 1_000_000);
    assert_eq!(told["pods"][0]["containers"][0]["rootfs"]["capacityBytes"], 7);
    assert_eq!(told["pods"][0]["containers"][0]["logs"]["capacityBytes"], 9);
}

#[test]
fn times_are_told_to_the_second() {
    let told = serde_json::to_value(Time(AT.plus(Duration::from_millis(300)))).expect("it has a JSON form");
    assert_eq!(told, "2026-01-02T03:04:05Z");
}

/// CVE-2020-8557, SEC-10: what a container adds to its hosts file counts as what its pod has on the node's disk.
#[test]
fn cve_2020_8557_sec_10_a_hosts_file_that_grows_is_counted() {
    let used = |hosts_bytes| {
        let mut snapshot = snapshot();
        for pod in &mut snapshot.sample.pods {
            pod.hosts_file = Some(Usage { at: AT, bytes: hosts_bytes, inodes: 1 });
        }
        let told = json_of(&summary(&snapshot, &facts()));
        told["pods"][0]["ephemeral-storage"]["usedBytes"].as_u64().expect("a number")
    };
    assert_eq!(used(5 << 30) - used(512), (5 << 30) - 512);
}
