//! Groups of the second generation: one hierarchy. Its root lacks some files, which `/proc` stands in for.

use std::os::fd::BorrowedFd;

use super::tools::{Tools, created};
use super::v1::threads;
use crate::logic::resources::weight_to_shares;
use crate::logic::statistics::figures::{
    CpuFigures, CpuLimits, GroupFigures, IoFigures, MemoryFigures, MemoryLimits, UNLIMITED,
};
use crate::logic::statistics::parse;
use crate::logic::statistics::sample::Depth;

/// Hardly ever written, so it tells when the group was made.
const OLD_FILE: &str = "cgroup.events";

/// A group; `None` when neither its processor time nor its memory can be read.
pub(super) fn read(here: BorrowedFd<'_>, tools: &mut Tools<'_>) -> Option<GroupFigures> {
    let mut figures = GroupFigures { at: tools.clock.now(), ..GroupFigures::default() };
    if let Some((memory, limits)) = memory(here, tools) {
        (figures.memory, figures.memory_limits) = (Some(memory), limits);
    }
    if tools.depth == Depth::Memory && figures.memory.is_some() {
        return Some(figures);
    }
    figures.cpu = tools.reader.record(here, "cpu.stat").map(parse::cpu_stat);
    if figures.cpu.is_none() && figures.memory.is_none() {
        return None;
    }
    if tools.depth <= Depth::Resources {
        return Some(figures);
    }
    figures.created = created(here, OLD_FILE);
    pressure(here, &mut figures, tools);
    if let Some(pids) = tools.reader.read(here, "cgroup.procs") {
        figures.processes = Some(tools.processes.count(pids, tools.depth));
    }
    if tools.depth == Depth::Everything {
        everything(here, &mut figures, tools);
    }
    Some(figures)
}

fn memory(here: BorrowedFd<'_>, tools: &mut Tools<'_>) -> Option<(MemoryFigures, MemoryLimits)> {
    let reader = &mut tools.reader;
    let mut memory: MemoryFigures = parse::memory_stat(reader.record(here, "memory.stat")?);
    // The root has no such file; what upstream puts in its place.
    memory.usage = reader.number(here, "memory.current").unwrap_or(memory.rss.saturating_add(memory.cache));
    memory.swap = reader.number(here, "memory.swap.current").unwrap_or(0);
    let limits = MemoryLimits {
        limit: reader.number(here, "memory.max").unwrap_or(UNLIMITED),
        swap_limit: reader.number(here, "memory.swap.max").unwrap_or(0),
        reservation: 0,
    };
    Some((memory, limits))
}

fn pressure(here: BorrowedFd<'_>, figures: &mut GroupFigures, tools: &mut Tools<'_>) {
    let mut read = |name| tools.reader.record(here, name).and_then(parse::pressure);
    if let Some(cpu) = &mut figures.cpu {
        cpu.pressure = read("cpu.pressure");
    }
    if let Some(memory) = &mut figures.memory {
        memory.pressure = read("memory.pressure");
    }
    if let Some(pressure) = read("io.pressure") {
        figures.io = Some(IoFigures { devices: vec![], pressure: Some(pressure) });
    }
}

fn everything(here: BorrowedFd<'_>, figures: &mut GroupFigures, tools: &mut Tools<'_>) {
    let reader = &mut tools.reader;
    let (quota_us, period_us) = reader.record(here, "cpu.max").and_then(parse::cpu_max).unwrap_or((0, 0));
    let shares = reader.number(here, "cpu.weight").map_or(0, weight_to_shares);
    figures.cpu_limits = figures.cpu.map(|_: CpuFigures| CpuLimits { shares, period_us, quota_us });
    if let Some(memory) = &mut figures.memory {
        memory.usage_max = reader.number(here, "memory.peak").unwrap_or(0);
        figures.memory_limits.reservation = reader.number(here, "memory.min").unwrap_or(0);
        if let Some(events) = reader.record(here, "memory.events") {
            memory.limit_hits = parse::value_of(events, "max").unwrap_or(0);
            figures.oom_kills = parse::value_of(events, "oom_kill").unwrap_or(0);
        }
    }
    threads(here, reader, figures.processes.get_or_insert_default());
    if let Some(devices) = reader.record(here, "io.stat").map(parse::io_stat) {
        figures.io.get_or_insert_default().devices = devices;
    }
}
