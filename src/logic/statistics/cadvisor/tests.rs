//! Tests of the page: classes of series, labels, times, and that each series is there once.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::families::FAMILIES;
use super::*;
use crate::logic::statistics::build::tests::snapshot;
use crate::logic::statistics::figures::{
    CpuLimits, DeviceFigures, FileSystem, IoFigures, Operations, Pressure, PressureLine, ProcessFigures,
};
use crate::testing::upstream_metrics::differences;

fn everything() -> Snapshot {
    let mut snapshot = snapshot();
    let operations = Operations { read: 10, write: 20, ..Operations::default() };
    let device = |minor| DeviceFigures { major: 254, minor, bytes: operations, requests: operations };
    let io = Some(IoFigures { devices: vec![device(0), device(99)], pressure: None });
    let sample = &mut snapshot.sample;
    let disk =
        DiskFigures { major: 254, minor: 0, name: "vda".to_owned(), reads: 77, io_ms: 1500, ..DiskFigures::default() };
    sample.node.disks = vec![disk.clone()];
    let file_system = FileSystem { capacity: 100, free: 40, inodes: 9, inodes_free: 4, ..FileSystem::default() };
    sample.node.devices = vec![MountedDevice { device: "/dev/vda".to_owned(), file_system, disk: Some(disk) }];
    sample.node.group.figures.io = io.clone();
    let container = sample.pods[0].containers[0].group.as_mut().expect("it has one");
    container.figures.io = io;
    container.figures.cpu_limits = Some(CpuLimits { shares: 102, period_us: 100_000, quota_us: 10_000 });
    snapshot
}

fn text(snapshot: Snapshot) -> String {
    Page::new(Arc::new(snapshot), true).collect()
}

fn has(told: &str, line: &str) {
    assert!(told.lines().any(|told| told == line), "{line}\nis not in\n{told}");
}

/// OBS-20: as a scrape of upstream's kubelet has it.
#[test]
fn the_set_is_upstreams() {
    let mut snapshot = everything();
    let container = snapshot.sample.pods[0].containers[0].group.as_mut().expect("it has one");
    let (descriptors, sockets, threads, open_files_max) = (Some(3), Some(1), Some(2), Some(1024));
    container.figures.processes =
        Some(ProcessFigures { processes: 1, descriptors, sockets, threads, threads_max: 9, open_files_max });
    assert_eq!(differences("/metrics/cadvisor", &text(snapshot), &[]), [""; 0]);
}

#[test]
fn each_class_of_series_has_its_labels() {
    let told = text(everything());
    let usage = |labels: &str, value: u64| {
        has(&told, &format!("container_memory_usage_bytes{{{labels}}} {value} 1767323045600"));
    };
    let (id, image) = ("/kubepods/podu1/c1", "docker.io/library/app:1");
    usage(&format!("container=\"web\",id=\"{id}\",image=\"{image}\",name=\"c1\",namespace=\"ns\",pod=\"p\""), 1000);
    let pause = "registry.k8s.io/pause:3.10";
    let sandbox =
        format!("container=\"\",id=\"/kubepods/podu1/s1\",image=\"{pause}\",name=\"s1\",namespace=\"ns\",pod=\"p\"");
    usage(&sandbox, 0);
    usage("container=\"\",id=\"/kubepods/podu1\",image=\"\",name=\"\",namespace=\"ns\",pod=\"p\"", 2000);
    for (id, value) in [("/", 4000), ("/kubepods", 3000), ("/kubepods/burstable", 0)] {
        usage(&format!("container=\"\",id=\"{id}\",image=\"\",name=\"\",namespace=\"\",pod=\"\""), value);
    }
    has(&told, &format!("container_network_receive_bytes_total{{{sandbox},interface=\"net1\"}} 11 1767323045600"));
    let of_network = told.lines().filter(|line| line.starts_with("container_network_receive_bytes_total{"));
    // Of two pods in the sample, two interfaces each, and the node's one.
    assert_eq!(of_network.count(), 5, "traffic hangs on sandboxes and on the node alone");
}

#[test]
fn a_sandbox_has_an_image_even_if_nobody_knows_it() {
    let mut snapshot = everything();
    snapshot.sandbox_image.clear();
    assert!(text(snapshot).contains("id=\"/kubepods/podu1/s1\",image=\"pause\""));
}

#[test]
fn quotas_make_their_series() {
    let told = text(everything());
    let limited = "container=\"web\",id=\"/kubepods/podu1/c1\",image=\"docker.io/library/app:1\",name=\"c1\",\
                   namespace=\"ns\",pod=\"p\"";
    has(&told, &format!("container_spec_cpu_quota{{{limited}}} 10000"));
    has(&told, &format!("container_spec_cpu_shares{{{limited}}} 102"));
    has(&told, &format!("container_cpu_cfs_periods_total{{{limited}}} 0 1767323045600"));
    let told_of = told.lines().filter(|line| line.starts_with("container_cpu_cfs_throttled_periods_total{")).count();
    assert_eq!(told_of, 1, "groups without a quota have no such series");
    has(&told, &format!("container_spec_memory_limit_bytes{{{limited}}} 5000"));
    let unlimited = limited.replace("web", "side").replace("c1", "c2");
    has(&told, &format!("container_spec_memory_limit_bytes{{{unlimited}}} 0"));
}

#[test]
fn devices_are_named_and_the_nodes_disks_are_told_once() {
    let told = text(everything());
    let node = "container=\"\",id=\"/\",image=\"\",name=\"\",namespace=\"\",pod=\"\"";
    has(&told, &format!("container_fs_reads_total{{{node},device=\"/dev/vda\"}} 77 1767323045600"));
    has(&told, &format!("container_fs_usage_bytes{{{node},device=\"/dev/vda\"}} 60 1767323045600"));
    has(&told, &format!("container_fs_io_time_seconds_total{{{node},device=\"/dev/vda\"}} 1.5 1767323045600"));
    let of_container = told.lines().filter(|line| line.starts_with("container_fs_writes_bytes_total{"));
    let of_container: Vec<&str> = of_container.filter(|line| line.contains("container=\"web\"")).collect();
    assert_eq!(of_container.len(), 1, "a device that the kernel knows no more has no name: {of_container:?}");
    assert!(told.contains("device=\"/dev/vda\",major=\"254\",minor=\"0\",operation=\"Write\"} 20 "));
}

#[test]
fn each_series_and_each_family_is_there_once() {
    let mut snapshot = everything();
    // A daemon in a group that the list has already.
    snapshot.sample.systems[0].1.path = "/kubepods".to_owned();
    let told = text(snapshot);
    let mut series = BTreeSet::new();
    for line in told.lines().filter(|line| !line.starts_with('#')) {
        let end = line.rfind('}').map_or_else(|| line.find(' ').expect("a value"), |end| end + 1);
        let of_second_pod = line.contains("/kubepods/podu1"); // The sample has it twice, which a node has not.
        assert!(series.insert(&line[..end]) || of_second_pod, "{line}");
    }
    let families: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(families.iter().collect::<BTreeSet<_>>().len(), families.len());
}

#[test]
fn the_table_is_in_order_and_names_what_dashboards_ask_for() {
    let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(names, sorted);
    for wanted in [
        "container_cpu_usage_seconds_total",
        "container_memory_working_set_bytes",
        "container_cpu_cfs_throttled_periods_total",
        "container_network_transmit_packets_dropped_total",
        "container_fs_reads_bytes_total",
        "container_pressure_memory_waiting_seconds_total",
        "container_oom_events_total",
        "container_start_time_seconds",
    ] {
        assert!(names.contains(&wanted), "{wanted}");
    }
}

/// OBS-22: under the gate, and where the kernel has figures for groups.
#[test]
fn pressure_has_its_series_where_the_kernel_tells_it() {
    let count = |told: &str| told.lines().filter(|line| line.starts_with("container_pressure_")).count();
    let mut with = everything();
    let line = |total_us| PressureLine { total_us, ..PressureLine::default() };
    let all = with.sample.systems.iter_mut().map(|(_, group)| group);
    let all = all.chain(with.sample.pods.iter_mut().flat_map(|pod| pod.group.iter_mut()));
    for group in all {
        let cpu = group.figures.cpu.as_mut().expect("read");
        cpu.pressure = Some(Pressure { full: line(1_500_000), some: line(2_000_000) });
    }
    let told = text(with.clone());
    let pod = "container=\"\",id=\"/kubepods/podu1\",image=\"\",name=\"\",namespace=\"ns\",pod=\"p\"";
    has(&told, &format!("container_pressure_cpu_stalled_seconds_total{{{pod}}} 1.5 1767323045600"));
    has(&told, &format!("container_pressure_cpu_waiting_seconds_total{{{pod}}} 2 1767323045600"));
    // Turned off for this resource: zero, as upstream.
    has(&told, &format!("container_pressure_io_waiting_seconds_total{{{pod}}} 0 1767323045600"));
    assert_eq!(told.lines().filter(|line| line.starts_with("# TYPE container_pressure_")).count(), 6);

    let off: String = Page::new(Arc::new(with.clone()), false).collect();
    assert_eq!(count(&off), 0, "the gate is off");
    with.sample.systems.iter_mut().for_each(|(_, group)| group.figures.cpu.as_mut().expect("read").pressure = None);
    let told = text(with);
    assert_eq!(count(&told), 0, "what the node has of /proc alone makes no series");
    assert!(!told.contains("container_pressure_"));
}

#[test]
fn the_machine_is_told_of() {
    let mut snapshot = everything();
    let machine = &mut snapshot.sample.node.machine;
    (machine.cpus, machine.cores, machine.sockets, machine.memory) = (4, 2, 1, 1 << 30);
    machine.boot_id = "boot".to_owned();
    let told = text(snapshot);
    has(&told, "machine_cpu_cores{boot_id=\"boot\",machine_id=\"\",system_uuid=\"\"} 4 1767323045600");
    has(&told, "machine_memory_bytes{boot_id=\"boot\",machine_id=\"\",system_uuid=\"\"} 1073741824 1767323045600");
    assert!(told.contains("\nmachine_scrape_error 0\n") && told.contains("\ncontainer_scrape_error 0\n"));
    assert!(told.contains("\ncadvisor_version_info{cadvisorRevision=\"\","));
}
