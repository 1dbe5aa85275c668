//! `process_*` of this process, by the names every dashboard knows, and `go_goroutines` as the number of live tasks.

use procfs::WithCurrentSystemInfo;
use procfs::process::{LimitValue, Process};
use prometheus::proto::MetricFamily;
use tokio::runtime::Handle;

use crate::telemetry::registry::families::Family;

/// Reads `/proc`, and counts the tasks of these runtimes, or of this one. A figure that cannot be read is left out.
pub(in crate::telemetry) fn families(threads: &[Handle], families: &mut Vec<MetricFamily>) {
    let mut gauge = |name: &str, help: &str, value: f64| {
        let mut family = Family::gauge(name, help);
        family.sample(&[], value);
        family.finish(families);
    };
    let own: Vec<Handle> = Handle::try_current().into_iter().collect();
    let threads = if threads.is_empty() { own.as_slice() } else { threads };
    let tasks: usize = threads.iter().map(|threads| threads.metrics().num_alive_tasks()).sum();
    gauge("go_goroutines", "Number of asynchronous tasks that currently exist.", tasks as f64);
    let Ok(process) = Process::myself() else { return };
    if let Ok(open) = process.fd_count() {
        gauge("process_open_fds", "Number of open file descriptors.", open as f64);
    }
    if let Ok(limits) = process.limits() {
        let value = |limit: LimitValue| match limit {
            LimitValue::Value(max) => max as f64,
            LimitValue::Unlimited => u64::MAX as f64,
        };
        let (files, memory) = (limits.max_open_files.soft_limit, limits.max_address_space.soft_limit);
        gauge("process_max_fds", "Maximum number of open file descriptors.", value(files));
        let help = "Maximum amount of virtual memory available in bytes.";
        gauge("process_virtual_memory_max_bytes", help, value(memory));
    }
    let Ok(stat) = process.stat() else { return };
    gauge("process_resident_memory_bytes", "Resident memory size in bytes.", stat.rss_bytes().get() as f64);
    gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", stat.vsize as f64);
    let ticks = procfs::ticks_per_second() as f64;
    let help = "Total user and system CPU time spent in seconds.";
    let mut family = Family::counter("process_cpu_seconds_total", help);
    family.sample(&[], (stat.utime + stat.stime) as f64 / ticks);
    family.finish(families);
    network(&process, families);
    start_time(families);
}

/// Bytes that the process' network has seen, of all its interfaces but the loopback's.
fn network(process: &Process, families: &mut Vec<MetricFamily>) {
    let Ok(devices) = process.dev_status() else { return };
    let sum = |bytes: fn(&procfs::net::DeviceStatus) -> u64| {
        devices.values().filter(|device| device.name != "lo").map(bytes).sum::<u64>() as f64
    };
    for (name, help, bytes) in [
        (
            "process_network_receive_bytes_total",
            "Number of bytes received by the process over the network.",
            sum(|device| device.recv_bytes),
        ),
        (
            "process_network_transmit_bytes_total",
            "Number of bytes sent by the process over the network.",
            sum(|device| device.sent_bytes),
        ),
    ] {
        let mut family = Family::counter(name, help);
        family.sample(&[], bytes);
        family.finish(families);
    }
}

/// When the process began; on most endpoints.
pub(in crate::telemetry) fn start_time(families: &mut Vec<MetricFamily>) {
    let stat = Process::myself().and_then(|process| process.stat());
    let (Ok(stat), Ok(booted)) = (stat, procfs::boot_time_secs()) else { return };
    let started = booted as f64 + stat.starttime as f64 / procfs::ticks_per_second() as f64;
    let mut family =
        Family::gauge("process_start_time_seconds", "[ALPHA] Start time of the process since unix epoch in seconds.");
    family.sample(&[], started);
    family.finish(families);
}
