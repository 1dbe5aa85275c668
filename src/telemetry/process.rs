//! `process_*` of this process, by the names every dashboard knows, and `go_goroutines` as the number of live tasks.

use procfs::WithCurrentSystemInfo;
use procfs::process::{LimitValue, Process};
use prometheus::proto::MetricFamily;

use super::families::Family;

/// Reads `/proc`. What cannot be read is left out.
pub(super) fn families(families: &mut Vec<MetricFamily>) {
    let mut gauge = |name: &str, help: &str, value: f64| {
        let mut family = Family::gauge(name, help);
        family.sample(&[], value);
        family.finish(families);
    };
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let tasks = runtime.metrics().num_alive_tasks();
        gauge("go_goroutines", "Number of asynchronous tasks that currently exist.", tasks as f64);
    }
    let Ok(process) = Process::myself() else { return };
    if let Ok(open) = process.fd_count() {
        gauge("process_open_fds", "Number of open file descriptors.", open as f64);
    }
    if let Ok(limits) = process.limits()
        && let LimitValue::Value(max) = limits.max_open_files.soft_limit
    {
        gauge("process_max_fds", "Maximum number of open file descriptors.", max as f64);
    }
    let Ok(stat) = process.stat() else { return };
    gauge("process_resident_memory_bytes", "Resident memory size in bytes.", stat.rss_bytes().get() as f64);
    gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", stat.vsize as f64);
    let ticks = procfs::ticks_per_second() as f64;
    if let Ok(booted) = procfs::boot_time_secs() {
        let started = booted as f64 + stat.starttime as f64 / ticks;
        gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", started);
    }
    let help = "Total user and system CPU time spent in seconds.";
    let mut family = Family::counter("process_cpu_seconds_total", help);
    family.sample(&[], (stat.utime + stat.stime) as f64 / ticks);
    family.finish(families);
}
