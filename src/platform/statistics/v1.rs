//! Groups of the first generation: a hierarchy for each controller.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::files::{Reader, folder};
use super::groups::{Tools, created, open_root};
use crate::logic::statistics::figures::{
    CpuFigures, CpuLimits, GroupFigures, IoFigures, MemoryFigures, MemoryLimits, ProcessFigures,
};
use crate::logic::statistics::parse;
use crate::logic::statistics::sample::Depth;

/// The first of these that is there tells input and output.
const IO_FILES: [(&str, &str); 3] = [
    ("blkio.bfq.io_service_bytes_recursive", "blkio.bfq.io_serviced_recursive"),
    ("blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_serviced_recursive"),
    ("blkio.throttle.io_service_bytes", "blkio.throttle.io_serviced"),
];
/// Hardly ever written, so it tells when the group was made.
const OLD_FILE: &str = "cgroup.clone_children";

/// The roots of the hierarchies that figures are in; absent ones are not mounted.
#[derive(Default)]
pub(super) struct Roots {
    accounting: Option<OwnedFd>,
    cpu: Option<OwnedFd>,
    memory: Option<OwnedFd>,
    pids: Option<OwnedFd>,
    io: Option<OwnedFd>,
}

impl Roots {
    pub(super) fn open(mount: &Path) -> Self {
        let root = |controller: &str| open_root(&mount.join(controller));
        Self {
            accounting: root("cpuacct"),
            cpu: root("cpu"),
            memory: root("memory"),
            pids: root("pids"),
            io: root("blkio"),
        }
    }

    /// The hierarchy in which groups are looked for.
    pub(super) fn listed(&self) -> Option<&OwnedFd> {
        self.memory.as_ref().or(self.accounting.as_ref())
    }
}

/// A group; `None` when neither its processor time nor its memory can be read.
pub(super) fn read(roots: &Roots, path: &str, tools: &mut Tools<'_>) -> Option<GroupFigures> {
    let find = |root: &Option<OwnedFd>| root.as_ref().and_then(|root| folder(root, path));
    let (accounting, memory) = (find(&roots.accounting), find(&roots.memory));
    let mut figures = GroupFigures { at: tools.clock.now(), ..GroupFigures::default() };
    if let Some(here) = &accounting {
        figures.cpu = cpu(here, tools);
    }
    if let Some((memory, limits)) = memory.as_ref().and_then(|here| memory_of(here, tools)) {
        (figures.memory, figures.memory_limits) = (Some(memory), limits);
    }
    if figures.cpu.is_none() && figures.memory.is_none() {
        return None;
    }
    if tools.depth == Depth::Resources {
        return Some(figures);
    }
    let listed = memory.as_ref().or(accounting.as_ref());
    figures.created = listed.and_then(|here| created(here, OLD_FILE));
    figures.processes = listed.and_then(|here| {
        let pids = tools.reader.read(here, "cgroup.procs")?;
        Some(tools.processes.count(pids, tools.depth))
    });
    if tools.depth == Depth::Everything {
        everything(roots, path, memory.as_ref(), &mut figures, tools);
    }
    Some(figures)
}

fn cpu(here: &OwnedFd, tools: &mut Tools<'_>) -> Option<CpuFigures> {
    let total_ns = tools.reader.number(here, "cpuacct.usage")?;
    let mut cpu = CpuFigures { total_ns, ..CpuFigures::default() };
    if tools.depth == Depth::Everything
        && let Some(text) = tools.reader.record(here, "cpuacct.stat")
    {
        parse::cpuacct_stat(text, &mut cpu);
    }
    Some(cpu)
}

fn memory_of(here: &OwnedFd, tools: &mut Tools<'_>) -> Option<(MemoryFigures, MemoryLimits)> {
    let reader = &mut tools.reader;
    let mut memory = parse::memory_stat_v1(reader.record(here, "memory.stat")?);
    memory.usage = reader.number(here, "memory.usage_in_bytes")?;
    let limits = MemoryLimits {
        limit: reader.number(here, "memory.limit_in_bytes").unwrap_or(0),
        swap_limit: reader.number(here, "memory.memsw.limit_in_bytes").unwrap_or(0),
        reservation: 0,
    };
    Some((memory, limits))
}

fn everything(roots: &Roots, path: &str, memory: Option<&OwnedFd>, figures: &mut GroupFigures, tools: &mut Tools<'_>) {
    let find = |root: &Option<OwnedFd>| root.as_ref().and_then(|root| folder(root, path));
    let reader = &mut tools.reader;
    if let Some(here) = find(&roots.cpu) {
        if let (Some(text), Some(cpu)) = (reader.record(&here, "cpu.stat"), &mut figures.cpu) {
            parse::cpu_stat_v1(text, cpu);
        }
        figures.cpu_limits = Some(CpuLimits {
            shares: reader.number(&here, "cpu.shares").unwrap_or(0),
            period_us: reader.number(&here, "cpu.cfs_period_us").unwrap_or(0),
            // Without a quota the file has −1, which is no number here.
            quota_us: reader.number(&here, "cpu.cfs_quota_us").unwrap_or(0),
        });
    }
    if let (Some(here), Some(memory)) = (memory, &mut figures.memory) {
        memory.usage_max = reader.number(here, "memory.max_usage_in_bytes").unwrap_or(0);
        memory.limit_hits = reader.number(here, "memory.failcnt").unwrap_or(0);
        memory.kernel = reader.number(here, "memory.kmem.usage_in_bytes").unwrap_or(0);
        figures.memory_limits.reservation = reader.number(here, "memory.soft_limit_in_bytes").unwrap_or(0);
        let kills = reader.record(here, "memory.oom_control").and_then(|text| parse::value_of(text, "oom_kill"));
        figures.oom_kills = kills.unwrap_or(0);
    }
    if let Some(here) = find(&roots.pids) {
        threads(here.as_fd(), reader, figures.processes.get_or_insert_default());
    }
    if let Some(here) = find(&roots.io) {
        figures.io = io(here, reader);
    }
}

/// Threads of a group; the file's "no limit" is 0 here.
pub(super) fn threads(here: impl AsFd + Copy, reader: &mut Reader, processes: &mut ProcessFigures) {
    processes.threads = reader.number(here, "pids.current");
    processes.threads_max = reader.number(here, "pids.max").filter(|max| *max != u64::MAX).unwrap_or(0);
}

fn io(here: OwnedFd, reader: &mut Reader) -> Option<IoFigures> {
    for (bytes, requests) in IO_FILES {
        let mut devices = vec![];
        let Some(text) = reader.record(&here, bytes) else { continue };
        parse::blkio(text, &mut devices, |device| &mut device.bytes);
        if devices.is_empty() {
            continue;
        }
        if let Some(text) = reader.record(&here, requests) {
            parse::blkio(text, &mut devices, |device| &mut device.requests);
        }
        return Some(IoFigures { devices, pressure: None });
    }
    Some(IoFigures::default())
}
