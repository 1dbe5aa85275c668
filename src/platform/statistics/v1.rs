//! Groups of the first generation: a hierarchy for each controller.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use super::files::{Reader, Trail};
use super::tools::{Tools, created, open_root};

use crate::logic::statistics::figures::{
    CpuFigures, CpuLimits, GroupFigures, IoFigures, MemoryFigures, MemoryLimits, ProcessFigures, is_limit,
};
use crate::logic::statistics::parse;
use crate::logic::statistics::sample::Depth;

/// A file of bytes, and the one of requests beside it.
type IoFiles = (&'static str, &'static str);
/// The first of these that tells of any device tells input and output.
const IO_FILES: [IoFiles; 3] = [
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

    pub(super) fn memory(&self) -> Option<&OwnedFd> {
        self.memory.as_ref()
    }
}

/// The hierarchies, as one look goes through them.
pub(super) struct Trails<'a> {
    accounting: Option<Trail<'a>>,
    cpu: Option<Trail<'a>>,
    memory: Option<Trail<'a>>,
    pids: Option<Trail<'a>>,
    io: Option<Trail<'a>>,
    /// Found in the first group that is asked for all of its figures.
    io_files: Option<&'static [IoFiles]>,
}

impl<'a> Trails<'a> {
    pub(super) fn new(roots: &'a Roots) -> Self {
        let trail = |root: &'a Option<OwnedFd>| root.as_ref().map(Trail::new);
        Self {
            accounting: trail(&roots.accounting),
            cpu: trail(&roots.cpu),
            memory: trail(&roots.memory),
            pids: trail(&roots.pids),
            io: trail(&roots.io),
            io_files: None,
        }
    }

    /// The hierarchy in which groups are looked for.
    pub(super) fn listed(&mut self) -> Option<&mut Trail<'a>> {
        self.memory.as_mut().or(self.accounting.as_mut())
    }

    /// Which files tell input and output. Those that tell of nothing in the root, where all are counted, tell of nothing
    /// anywhere.
    fn io_files(&mut self, reader: &mut Reader) -> &'static [IoFiles] {
        if let Some(files) = self.io_files {
            return files;
        }
        let mut tells = |here: BorrowedFd<'_>, (bytes, _): &IoFiles| {
            let mut devices = vec![];
            if let Some(text) = reader.record(here, bytes) {
                parse::blkio(text, &mut devices, |device| &mut device.bytes);
            }
            !devices.is_empty()
        };
        let root = self.io.as_mut().and_then(|trail| trail.folder("/"));
        let first = root.and_then(|root| IO_FILES.iter().position(|files| tells(root, files)));
        self.io_files.insert(first.map_or(&[], |first| &IO_FILES[first..]))
    }
}

/// A group; `None` when neither its processor time nor its memory can be read.
pub(super) fn read(trails: &mut Trails<'_>, path: &str, tools: &mut Tools<'_>) -> Option<GroupFigures> {
    let io_files = if tools.depth == Depth::Everything { trails.io_files(&mut tools.reader) } else { &[] };
    let Trails { accounting, cpu, memory, pids, io, .. } = trails;
    let memory = memory.as_mut().and_then(|trail| trail.folder(path));
    let mut figures = GroupFigures { at: tools.clock.now(), ..GroupFigures::default() };
    if let Some((memory, limits)) = memory.and_then(|here| memory_of(here, tools)) {
        (figures.memory, figures.memory_limits) = (Some(memory), limits);
    }
    if tools.depth == Depth::Memory && figures.memory.is_some() {
        return Some(figures);
    }
    let accounting = accounting.as_mut().and_then(|trail| trail.folder(path));
    if let Some(here) = accounting {
        figures.cpu = cpu_of(here, tools);
    }
    if figures.cpu.is_none() && figures.memory.is_none() {
        return None;
    }
    if tools.depth <= Depth::Resources {
        return Some(figures);
    }
    let listed = memory.or(accounting);
    figures.created = listed.and_then(|here| created(here, OLD_FILE));
    figures.processes = listed.and_then(|here| {
        let pids = tools.reader.read(here, "cgroup.procs")?;
        Some(tools.processes.count(pids, tools.depth))
    });
    if tools.depth < Depth::Everything {
        return Some(figures);
    }
    let mut find = |trail: &mut Option<Trail<'_>>, read: &mut dyn FnMut(BorrowedFd<'_>, &mut Reader)| {
        if let Some(here) = trail.as_mut().and_then(|trail| trail.folder(path)) {
            read(here, &mut tools.reader);
        }
    };
    find(cpu, &mut |here, reader| limits_of_cpu(here, &mut figures, reader));
    find(pids, &mut |here, reader| threads(here, reader, figures.processes.get_or_insert_default()));
    find(io, &mut |here, reader| figures.io = Some(io_of(here, io_files, reader)));
    if let Some(here) = memory {
        more_of_memory(here, &mut figures, &mut tools.reader);
    }
    Some(figures)
}

fn cpu_of(here: BorrowedFd<'_>, tools: &mut Tools<'_>) -> Option<CpuFigures> {
    let total_ns = tools.reader.number(here, "cpuacct.usage")?;
    let mut cpu = CpuFigures { total_ns, ..CpuFigures::default() };
    if tools.depth == Depth::Everything
        && let Some(text) = tools.reader.record(here, "cpuacct.stat")
    {
        parse::cpuacct_stat(text, &mut cpu);
    }
    Some(cpu)
}

fn memory_of(here: BorrowedFd<'_>, tools: &mut Tools<'_>) -> Option<(MemoryFigures, MemoryLimits)> {
    let reader = &mut tools.reader;
    let (mut memory, nearest) = parse::memory_stat_v1(reader.record(here, "memory.stat")?);
    memory.usage = reader.number(here, "memory.usage_in_bytes")?;
    // Where nothing above has a limit and nothing here has, its file need not be asked.
    let mut limit_of = |nearest: Option<u64>, file| {
        let none = nearest.filter(|nearest| !is_limit(*nearest));
        none.or_else(|| reader.number(here, file)).unwrap_or(0)
    };
    let limits = MemoryLimits {
        limit: limit_of(nearest.memory, "memory.limit_in_bytes"),
        swap_limit: limit_of(nearest.with_swap, "memory.memsw.limit_in_bytes"),
        reservation: 0,
    };
    Some((memory, limits))
}

fn limits_of_cpu(here: BorrowedFd<'_>, figures: &mut GroupFigures, reader: &mut Reader) {
    if let (Some(text), Some(cpu)) = (reader.record(here, "cpu.stat"), &mut figures.cpu) {
        parse::cpu_stat_v1(text, cpu);
    }
    figures.cpu_limits = Some(CpuLimits {
        shares: reader.number(here, "cpu.shares").unwrap_or(0),
        period_us: reader.number(here, "cpu.cfs_period_us").unwrap_or(0),
        // Without a quota the file has −1, which is no number here.
        quota_us: reader.number(here, "cpu.cfs_quota_us").unwrap_or(0),
    });
}

fn more_of_memory(here: BorrowedFd<'_>, figures: &mut GroupFigures, reader: &mut Reader) {
    let Some(memory) = &mut figures.memory else { return };
    memory.usage_max = reader.number(here, "memory.max_usage_in_bytes").unwrap_or(0);
    memory.limit_hits = reader.number(here, "memory.failcnt").unwrap_or(0);
    memory.kernel = reader.number(here, "memory.kmem.usage_in_bytes").unwrap_or(0);
    figures.memory_limits.reservation = reader.number(here, "memory.soft_limit_in_bytes").unwrap_or(0);
    let kills = reader.record(here, "memory.oom_control").and_then(|text| parse::value_of(text, "oom_kill"));
    figures.oom_kills = kills.unwrap_or(0);
}

/// Threads of a group; the file's "no limit" is 0 here.
pub(super) fn threads(here: BorrowedFd<'_>, reader: &mut Reader, processes: &mut ProcessFigures) {
    processes.threads = reader.number(here, "pids.current");
    processes.threads_max = reader.number(here, "pids.max").filter(|max| *max != u64::MAX).unwrap_or(0);
}

fn io_of(here: BorrowedFd<'_>, files: &[IoFiles], reader: &mut Reader) -> IoFigures {
    for (bytes, requests) in files {
        let mut devices = vec![];
        let Some(text) = reader.record(here, bytes) else { continue };
        parse::blkio(text, &mut devices, |device| &mut device.bytes);
        if devices.is_empty() {
            // A count with all groups below tells of nothing: neither does the count without.
            break;
        }
        if let Some(text) = reader.record(here, requests) {
            parse::blkio(text, &mut devices, |device| &mut device.requests);
        }
        return IoFigures { devices, pressure: None };
    }
    IoFigures::default()
}
