//! The families of groups, in the order of their names: what each is called and where its values come from.

use super::{Lines, One};
use crate::logic::model::time::Moment;
use crate::logic::statistics::exposition::{Kind, Value, seconds};
use crate::logic::statistics::figures::{
    CpuFigures, DeviceFigures, DiskFigures, FileSystem, GroupFigures, Interface, MemoryFigures, ProcessFigures,
    is_limit,
};

/// A group's activity on a device.
pub(super) type OfGroup = fn(&DeviceFigures) -> u64;
/// The activity of a disk of the node.
pub(super) type OfDisk = fn(&DiskFigures) -> Value;

/// Where a family's values come from.
pub(super) enum Source {
    Cpu(fn(&CpuFigures) -> Value),
    /// Told only of groups with a quota.
    Quota(fn(&CpuFigures) -> Value),
    Memory(fn(&MemoryFigures) -> u64),
    Processes(fn(&ProcessFigures) -> Option<Value>),
    /// Microseconds.
    Pressure(fn(&GroupFigures) -> Option<u64>),
    Network(fn(&Interface) -> u64),
    Device(Option<OfGroup>, Option<OfDisk>),
    /// Of the node alone.
    FileSystem(fn(&FileSystem) -> u64),
    Settings(fn(&GroupFigures) -> Option<Value>),
    Own(fn(&One<'_>, &mut Lines<'_>)),
}

/// One family.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
    pub(super) source: Source,
}

const fn counter(name: &'static str, help: &'static str, source: Source) -> Family {
    Family { name, help, kind: Kind::Counter, source }
}

const fn gauge(name: &'static str, help: &'static str, source: Source) -> Family {
    Family { name, help, kind: Kind::Gauge, source }
}

/// Milliseconds as seconds.
fn milliseconds(value: u64) -> Value {
    Value::Real(value as f64 / 1e3)
}

fn limit(bytes: u64) -> Option<Value> {
    Some(Value::Whole(if is_limit(bytes) { bytes } else { 0 }))
}

fn whole_seconds(moment: Moment) -> Value {
    Value::Whole(u64::try_from(moment.0.div_euclid(1_000_000_000)).unwrap_or(0))
}

fn device_usage(one: &One<'_>, lines: &mut Lines<'_>) {
    for device in one.group.figures.io.iter().flat_map(|io| &io.devices) {
        let Some(name) = one.device_name(device.major, device.minor) else { continue };
        let (major, minor) = (device.major.to_string(), device.minor.to_string());
        for (operation, bytes) in device.bytes.named() {
            let labels = [("device", name.as_str()), ("major", &major), ("minor", &minor), ("operation", operation)];
            lines.add_with(&labels, bytes);
        }
    }
}

fn memory_failures(one: &One<'_>, lines: &mut Lines<'_>) {
    let Some(memory) = &one.group.figures.memory else { return };
    for (kind, count) in [("pgfault", memory.page_faults), ("pgmajfault", memory.major_page_faults)] {
        for scope in ["container", "hierarchy"] {
            lines.add_with(&[("failure_type", kind), ("scope", scope)], count);
        }
    }
}

fn cpu_usage(one: &One<'_>, lines: &mut Lines<'_>) {
    if let Some(cpu) = &one.group.figures.cpu {
        lines.add_with(&[("cpu", "total")], seconds(cpu.total_ns));
    }
}

fn open_files(one: &One<'_>, lines: &mut Lines<'_>) {
    if let Some(soft) = one.group.figures.processes.and_then(|processes| processes.open_files_max) {
        lines.add_with(&[("ulimit", "max_open_files")], soft as f64);
    }
}

/// A group without a health check has none.
fn health(_: &One<'_>, lines: &mut Lines<'_>) {
    lines.add(-1.0);
}

/// It was seen when it was read.
fn last_seen(one: &One<'_>, lines: &mut Lines<'_>) {
    lines.add(whole_seconds(one.group.figures.at));
}

/// All families, by name.
pub(super) const FAMILIES: &[Family] = &[
    counter("container_blkio_device_usage_total", "Blkio Device bytes usage", Source::Own(device_usage)),
    counter(
        "container_cpu_cfs_burst_periods_total",
        "Number of periods when burst occurs.",
        Source::Quota(|cpu| cpu.bursts.into()),
    ),
    counter(
        "container_cpu_cfs_burst_seconds_total",
        "Total time duration the container has been bursted.",
        Source::Quota(|cpu| seconds(cpu.burst_ns)),
    ),
    counter(
        "container_cpu_cfs_periods_total",
        "Number of elapsed enforcement period intervals.",
        Source::Quota(|cpu| cpu.periods.into()),
    ),
    counter(
        "container_cpu_cfs_throttled_periods_total",
        "Number of throttled period intervals.",
        Source::Quota(|cpu| cpu.throttled_periods.into()),
    ),
    counter(
        "container_cpu_cfs_throttled_seconds_total",
        "Total time duration the container has been throttled.",
        Source::Quota(|cpu| seconds(cpu.throttled_ns)),
    ),
    counter(
        "container_cpu_system_seconds_total",
        "Cumulative system cpu time consumed in seconds.",
        Source::Cpu(|cpu| seconds(cpu.system_ns)),
    ),
    counter("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", Source::Own(cpu_usage)),
    counter(
        "container_cpu_user_seconds_total",
        "Cumulative user cpu time consumed in seconds.",
        Source::Cpu(|cpu| seconds(cpu.user_ns)),
    ),
    gauge(
        "container_file_descriptors",
        "Number of open file descriptors for the container.",
        Source::Processes(|processes| processes.descriptors.map(Into::into)),
    ),
    gauge("container_fs_inodes_free", "Number of available Inodes", Source::FileSystem(|system| system.inodes_free)),
    gauge("container_fs_inodes_total", "Number of Inodes", Source::FileSystem(|system| system.inodes)),
    gauge(
        "container_fs_io_current",
        "Number of I/Os currently in progress",
        Source::Device(None, Some(|disk| disk.in_progress.into())),
    ),
    counter(
        "container_fs_io_time_seconds_total",
        "Cumulative count of seconds spent doing I/Os",
        Source::Device(None, Some(|disk| milliseconds(disk.io_ms))),
    ),
    counter(
        "container_fs_io_time_weighted_seconds_total",
        "Cumulative weighted I/O time in seconds",
        Source::Device(None, Some(|disk| milliseconds(disk.weighted_io_ms))),
    ),
    gauge(
        "container_fs_limit_bytes",
        "Number of bytes that can be consumed by the container on this filesystem.",
        Source::FileSystem(|system| system.capacity),
    ),
    counter(
        "container_fs_read_seconds_total",
        "Cumulative count of seconds spent reading",
        Source::Device(None, Some(|disk| milliseconds(disk.read_ms))),
    ),
    counter(
        "container_fs_reads_bytes_total",
        "Cumulative count of bytes read",
        Source::Device(Some(|device| device.bytes.read), None),
    ),
    counter(
        "container_fs_reads_merged_total",
        "Cumulative count of reads merged",
        Source::Device(None, Some(|disk| disk.reads_merged.into())),
    ),
    counter(
        "container_fs_reads_total",
        "Cumulative count of reads completed",
        Source::Device(Some(|device| device.requests.read), Some(|disk| disk.reads.into())),
    ),
    counter(
        "container_fs_sector_reads_total",
        "Cumulative count of sector reads completed",
        Source::Device(None, Some(|disk| disk.sectors_read.into())),
    ),
    counter(
        "container_fs_sector_writes_total",
        "Cumulative count of sector writes completed",
        Source::Device(None, Some(|disk| disk.sectors_written.into())),
    ),
    gauge(
        "container_fs_usage_bytes",
        "Number of bytes that are consumed by the container on this filesystem.",
        Source::FileSystem(FileSystem::used),
    ),
    counter(
        "container_fs_write_seconds_total",
        "Cumulative count of seconds spent writing",
        Source::Device(None, Some(|disk| milliseconds(disk.write_ms))),
    ),
    counter(
        "container_fs_writes_bytes_total",
        "Cumulative count of bytes written",
        Source::Device(Some(|device| device.bytes.write), None),
    ),
    counter(
        "container_fs_writes_merged_total",
        "Cumulative count of writes merged",
        Source::Device(None, Some(|disk| disk.writes_merged.into())),
    ),
    counter(
        "container_fs_writes_total",
        "Cumulative count of writes completed",
        Source::Device(Some(|device| device.requests.write), Some(|disk| disk.writes.into())),
    ),
    gauge("container_health_state", "The result of the container's health check", Source::Own(health)),
    gauge("container_last_seen", "Last time a container was seen by the exporter", Source::Own(last_seen)),
    gauge("container_memory_cache", "Number of bytes of page cache memory.", Source::Memory(|memory| memory.cache)),
    counter(
        "container_memory_failcnt",
        "Number of memory usage hits limits",
        Source::Memory(|memory| memory.limit_hits),
    ),
    counter(
        "container_memory_failures_total",
        "Cumulative count of memory allocation failures.",
        Source::Own(memory_failures),
    ),
    gauge(
        "container_memory_kernel_usage",
        "Size of kernel memory allocated in bytes.",
        Source::Memory(|memory| memory.kernel),
    ),
    gauge(
        "container_memory_mapped_file",
        "Size of memory mapped files in bytes.",
        Source::Memory(|memory| memory.mapped_file),
    ),
    gauge(
        "container_memory_max_usage_bytes",
        "Maximum memory usage recorded in bytes",
        Source::Memory(|memory| memory.usage_max),
    ),
    gauge("container_memory_rss", "Size of RSS in bytes.", Source::Memory(|memory| memory.rss)),
    gauge("container_memory_swap", "Container swap usage in bytes.", Source::Memory(|memory| memory.swap)),
    gauge(
        "container_memory_total_active_file_bytes",
        "Current total active file in bytes.",
        Source::Memory(|memory| memory.active_file),
    ),
    gauge(
        "container_memory_total_inactive_file_bytes",
        "Current total inactive file in bytes.",
        Source::Memory(|memory| memory.inactive_file),
    ),
    gauge(
        "container_memory_usage_bytes",
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
        Source::Memory(|memory| memory.usage),
    ),
    gauge(
        "container_memory_working_set_bytes",
        "Current working set in bytes.",
        Source::Memory(MemoryFigures::working_set),
    ),
    counter(
        "container_network_receive_bytes_total",
        "Cumulative count of bytes received",
        Source::Network(|interface| interface.received.bytes),
    ),
    counter(
        "container_network_receive_errors_total",
        "Cumulative count of errors encountered while receiving",
        Source::Network(|interface| interface.received.errors),
    ),
    counter(
        "container_network_receive_packets_dropped_total",
        "Cumulative count of packets dropped while receiving",
        Source::Network(|interface| interface.received.dropped),
    ),
    counter(
        "container_network_receive_packets_total",
        "Cumulative count of packets received",
        Source::Network(|interface| interface.received.packets),
    ),
    counter(
        "container_network_transmit_bytes_total",
        "Cumulative count of bytes transmitted",
        Source::Network(|interface| interface.sent.bytes),
    ),
    counter(
        "container_network_transmit_errors_total",
        "Cumulative count of errors encountered while transmitting",
        Source::Network(|interface| interface.sent.errors),
    ),
    counter(
        "container_network_transmit_packets_dropped_total",
        "Cumulative count of packets dropped while transmitting",
        Source::Network(|interface| interface.sent.dropped),
    ),
    counter(
        "container_network_transmit_packets_total",
        "Cumulative count of packets transmitted",
        Source::Network(|interface| interface.sent.packets),
    ),
    counter(
        "container_oom_events_total",
        "Count of out of memory events observed for the container",
        Source::Own(|one, lines| lines.add(one.group.figures.oom_kills)),
    ),
    counter(
        "container_pressure_cpu_stalled_seconds_total",
        "Total time duration no tasks in the container could make progress due to CPU congestion.",
        Source::Pressure(|group| Some(group.cpu?.pressure?.full.total_us)),
    ),
    counter(
        "container_pressure_cpu_waiting_seconds_total",
        "Total time duration tasks in the container have waited due to CPU congestion.",
        Source::Pressure(|group| Some(group.cpu?.pressure?.some.total_us)),
    ),
    counter(
        "container_pressure_io_stalled_seconds_total",
        "Total time duration no tasks in the container could make progress due to IO congestion.",
        Source::Pressure(|group| Some(group.io.as_ref()?.pressure?.full.total_us)),
    ),
    counter(
        "container_pressure_io_waiting_seconds_total",
        "Total time duration tasks in the container have waited due to IO congestion.",
        Source::Pressure(|group| Some(group.io.as_ref()?.pressure?.some.total_us)),
    ),
    counter(
        "container_pressure_memory_stalled_seconds_total",
        "Total time duration no tasks in the container could make progress due to memory congestion.",
        Source::Pressure(|group| Some(group.memory?.pressure?.full.total_us)),
    ),
    counter(
        "container_pressure_memory_waiting_seconds_total",
        "Total time duration tasks in the container have waited due to memory congestion.",
        Source::Pressure(|group| Some(group.memory?.pressure?.some.total_us)),
    ),
    gauge(
        "container_processes",
        "Number of processes running inside the container.",
        Source::Processes(|processes| Some(processes.processes.into())),
    ),
    gauge(
        "container_sockets",
        "Number of open sockets for the container.",
        Source::Processes(|processes| processes.sockets.map(Into::into)),
    ),
    gauge(
        "container_spec_cpu_period",
        "CPU period of the container.",
        Source::Settings(|group| Some(group.cpu_limits?.period_us.into())),
    ),
    gauge(
        "container_spec_cpu_quota",
        "CPU quota of the container.",
        Source::Settings(|group| group.cpu_limits.filter(|limits| limits.quota_us != 0).map(|it| it.quota_us.into())),
    ),
    gauge(
        "container_spec_cpu_shares",
        "CPU share of the container.",
        Source::Settings(|group| Some(group.cpu_limits?.shares.into())),
    ),
    gauge(
        "container_spec_memory_limit_bytes",
        "Memory limit for the container.",
        Source::Settings(|group| group.memory.and_then(|_| limit(group.memory_limits.limit))),
    ),
    gauge(
        "container_spec_memory_reservation_limit_bytes",
        "Memory reservation limit for the container.",
        Source::Settings(|group| group.memory.and_then(|_| limit(group.memory_limits.reservation))),
    ),
    gauge(
        "container_spec_memory_swap_limit_bytes",
        "Memory swap limit for the container.",
        Source::Settings(|group| group.memory.and_then(|_| limit(group.memory_limits.swap_limit))),
    ),
    gauge(
        "container_start_time_seconds",
        "Start time of the container since unix epoch in seconds.",
        Source::Settings(|group| group.created.map(whole_seconds)),
    ),
    gauge(
        "container_threads",
        "Number of threads running inside the container",
        Source::Processes(|processes| processes.threads.map(Into::into)),
    ),
    gauge(
        "container_threads_max",
        "Maximum number of threads allowed inside the container, infinity if value is zero",
        Source::Processes(|processes| Some(processes.threads_max.into())),
    ),
    gauge(
        "container_ulimits_soft",
        "Soft ulimit values for the container root process. Unlimited if -1, except priority and nice",
        Source::Own(open_files),
    ),
];
