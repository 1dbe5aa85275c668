//! How the kernel writes its figures. Each function takes a file's bytes; a line that cannot be read is left out.

use super::figures::{
    CpuFigures, DeviceFigures, DiskFigures, Interface, MemoryFigures, Operations, Pressure, PressureLine, Traffic,
    UNLIMITED,
};

/// Interfaces whose traffic is the machine's own business, or is counted elsewhere.
const IGNORED_INTERFACES: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];
/// Nanoseconds of the kernel's clock tick, as user space sees it.
const TICK_NS: u64 = 10_000_000;

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|field| !field.is_empty())
}

fn digits(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn decimal(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn small(field: &[u8]) -> Option<u32> {
    u32::try_from(digits(field)?).ok()
}

/// A file of one number, or of `max`.
pub fn number(text: &[u8]) -> Option<u64> {
    match text.trim_ascii() {
        b"max" => Some(UNLIMITED),
        text => digits(text),
    }
}

/// Lines of a key and a number.
pub fn pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    lines(text).filter_map(|line| {
        let mut fields = fields(line);
        Some((fields.next()?, digits(fields.next()?)?))
    })
}

/// v2's `cpu.stat`.
pub fn cpu_stat(text: &[u8]) -> CpuFigures {
    let mut cpu = CpuFigures::default();
    for (key, value) in pairs(text) {
        match key {
            b"usage_usec" => cpu.total_ns = value.saturating_mul(1000),
            b"user_usec" => cpu.user_ns = value.saturating_mul(1000),
            b"system_usec" => cpu.system_ns = value.saturating_mul(1000),
            b"throttled_usec" => cpu.throttled_ns = value.saturating_mul(1000),
            b"burst_usec" => cpu.burst_ns = value.saturating_mul(1000),
            _ => enforcement(&mut cpu, key, value),
        }
    }
    cpu
}

/// v1's `cpu.stat`, into what `cpuacct` said.
pub fn cpu_stat_v1(text: &[u8], cpu: &mut CpuFigures) {
    for (key, value) in pairs(text) {
        match key {
            b"throttled_time" => cpu.throttled_ns = value,
            b"burst_time" => cpu.burst_ns = value,
            _ => enforcement(cpu, key, value),
        }
    }
}

fn enforcement(cpu: &mut CpuFigures, key: &[u8], value: u64) {
    match key {
        b"nr_periods" => cpu.periods = value,
        b"nr_throttled" => cpu.throttled_periods = value,
        b"nr_bursts" => cpu.bursts = value,
        _ => {}
    }
}

/// v1's `cpuacct.stat`, which counts in ticks.
pub fn cpuacct_stat(text: &[u8], cpu: &mut CpuFigures) {
    for (key, value) in pairs(text) {
        match key {
            b"user" => cpu.user_ns = value.saturating_mul(TICK_NS),
            b"system" => cpu.system_ns = value.saturating_mul(TICK_NS),
            _ => {}
        }
    }
}

/// v2's `memory.stat`; `usage` and `swap` are in other files.
pub fn memory_stat(text: &[u8]) -> MemoryFigures {
    let mut memory = MemoryFigures::default();
    for (key, value) in pairs(text) {
        match key {
            b"anon" => memory.rss = value,
            b"file" => memory.cache = value,
            b"kernel" => memory.kernel = value,
            b"file_mapped" => memory.mapped_file = value,
            b"active_file" => memory.active_file = value,
            b"inactive_file" => memory.inactive_file = value,
            b"pgfault" => memory.page_faults = value,
            b"pgmajfault" => memory.major_page_faults = value,
            _ => {}
        }
    }
    memory
}

/// The nearest limits that hold for a group, its own or of a group above, in bytes; `None` where the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NearestLimits {
    /// Of memory.
    pub memory: Option<u64>,
    /// Of memory and swap together.
    pub with_swap: Option<u64>,
}

/// v1's `memory.stat`; sums with the groups below where the kernel has them. Page faults are the group's own, as
/// upstream takes them.
pub fn memory_stat_v1(text: &[u8]) -> (MemoryFigures, NearestLimits) {
    let (mut memory, mut nearest) = (MemoryFigures::default(), NearestLimits::default());
    for (key, value) in pairs(text) {
        match key {
            b"total_cache" => memory.cache = value,
            b"total_rss" => memory.rss = value,
            b"total_swap" => memory.swap = value,
            b"total_mapped_file" => memory.mapped_file = value,
            b"total_active_file" => memory.active_file = value,
            b"total_inactive_file" => memory.inactive_file = value,
            b"pgfault" => memory.page_faults = value,
            b"pgmajfault" => memory.major_page_faults = value,
            b"hierarchical_memory_limit" => nearest.memory = Some(value),
            b"hierarchical_memsw_limit" => nearest.with_swap = Some(value),
            _ => {}
        }
    }
    (memory, nearest)
}

/// The value of one key in a file of keys and numbers.
pub fn value_of(text: &[u8], wanted: &str) -> Option<u64> {
    pairs(text).find(|(key, _)| *key == wanted.as_bytes()).map(|(_, value)| value)
}

/// v2's `cpu.max`: quota and period, in µs; a quota of 0 is none.
pub fn cpu_max(text: &[u8]) -> Option<(u64, u64)> {
    let mut fields = fields(text.trim_ascii());
    let quota = match fields.next()? {
        b"max" => 0,
        field => digits(field)?,
    };
    Some((quota, digits(fields.next()?)?))
}

/// A pressure file; `None` when it has no line of that kind.
pub fn pressure(text: &[u8]) -> Option<Pressure> {
    let mut pressure = Pressure::default();
    let mut found = false;
    for line in lines(text) {
        let mut parts = fields(line);
        let into = match parts.next() {
            Some(b"some") => &mut pressure.some,
            Some(b"full") => &mut pressure.full,
            _ => continue,
        };
        found = true;
        for part in parts {
            pressure_part(part, into);
        }
    }
    found.then_some(pressure)
}

fn pressure_part(part: &[u8], into: &mut PressureLine) {
    let Some(equals) = part.iter().position(|byte| *byte == b'=') else { return };
    let (key, value) = (&part[..equals], &part[equals + 1..]);
    match key {
        b"avg10" => into.avg10 = decimal(value).unwrap_or(0.0),
        b"avg60" => into.avg60 = decimal(value).unwrap_or(0.0),
        b"avg300" => into.avg300 = decimal(value).unwrap_or(0.0),
        b"total" => into.total_us = digits(value).unwrap_or(0),
        _ => {}
    }
}

fn device(field: &[u8]) -> Option<(u32, u32)> {
    let colon = field.iter().position(|byte| *byte == b':')?;
    Some((small(&field[..colon])?, small(&field[colon + 1..])?))
}

/// v2's `io.stat`.
pub fn io_stat(text: &[u8]) -> Vec<DeviceFigures> {
    let mut devices = vec![];
    for line in lines(text) {
        let mut parts = fields(line);
        let Some((major, minor)) = parts.next().and_then(device) else { continue };
        let mut figures = DeviceFigures { major, minor, ..DeviceFigures::default() };
        for part in parts {
            let Some(equals) = part.iter().position(|byte| *byte == b'=') else { continue };
            let Some(value) = digits(&part[equals + 1..]) else { continue };
            match &part[..equals] {
                b"rbytes" => figures.bytes.read = value,
                b"wbytes" => figures.bytes.write = value,
                b"rios" => figures.requests.read = value,
                b"wios" => figures.requests.write = value,
                _ => {}
            }
        }
        devices.push(figures);
    }
    devices
}

/// A file of v1's `blkio`: lines of device, operation and count; into the devices known so far.
pub fn blkio(text: &[u8], devices: &mut Vec<DeviceFigures>, part: fn(&mut DeviceFigures) -> &mut Operations) {
    for line in lines(text) {
        let mut parts = fields(line);
        let (Some(name), Some(operation), Some(value)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (Some((major, minor)), Some(value)) = (device(name), digits(value)) else { continue };
        let known = devices.iter().position(|one| (one.major, one.minor) == (major, minor));
        let index = known.unwrap_or_else(|| {
            devices.push(DeviceFigures { major, minor, ..DeviceFigures::default() });
            devices.len() - 1
        });
        let into = part(&mut devices[index]);
        match operation {
            b"Read" => into.read = value,
            b"Write" => into.write = value,
            b"Sync" => into.synchronous = Some(value),
            b"Async" => into.asynchronous = Some(value),
            b"Discard" => into.discard = Some(value),
            b"Total" => into.total = Some(value),
            _ => {}
        }
    }
}

/// `/proc/<pid>/net/dev`, without interfaces that upstream ignores.
pub fn interfaces(text: &[u8]) -> Vec<Interface> {
    let mut found = vec![];
    for line in lines(text).skip(2) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = String::from_utf8_lossy(line[..colon].trim_ascii()).into_owned();
        let lower = name.to_ascii_lowercase();
        if IGNORED_INTERFACES.iter().any(|prefix| lower.starts_with(prefix)) {
            continue;
        }
        let mut numbers = [0_u64; 16];
        let told = numbers.iter_mut().zip(fields(&line[colon + 1..])).filter_map(|(number, field)| {
            *number = digits(field)?;
            Some(())
        });
        if told.count() != 16 {
            continue;
        }
        let traffic = |from: usize| Traffic {
            bytes: numbers[from],
            packets: numbers[from + 1],
            errors: numbers[from + 2],
            dropped: numbers[from + 3],
        };
        found.push(Interface { name, received: traffic(0), sent: traffic(8) });
    }
    found
}

/// A field of `/proc/meminfo`, in bytes.
pub fn memory_field(text: &[u8], name: &str) -> Option<u64> {
    let line = lines(text).find(|line| line.starts_with(name.as_bytes()) && line.get(name.len()) == Some(&b':'))?;
    fields(&line[name.len() + 1..]).next().and_then(digits).map(|kibibytes| kibibytes.saturating_mul(1024))
}

/// `/proc/loadavg`: how many threads there are, the number behind the fourth field's stroke.
pub fn threads(text: &[u8]) -> Option<u64> {
    let field = fields(text).nth(3)?;
    let stroke = field.iter().position(|byte| *byte == b'/')?;
    digits(&field[stroke + 1..])
}

/// `/proc/diskstats`.
pub fn disks(text: &[u8]) -> Vec<DiskFigures> {
    let one = |line: &[u8]| {
        let mut parts = fields(line);
        let (major, minor) = (small(parts.next()?)?, small(parts.next()?)?);
        let name = String::from_utf8_lossy(parts.next()?).into_owned();
        let mut numbers = [0_u64; 11];
        for number in &mut numbers {
            *number = digits(parts.next()?)?;
        }
        let [reads, reads_merged, sectors_read, read_ms, writes, writes_merged, sectors_written, write_ms, rest @ ..] =
            numbers;
        let [in_progress, io_ms, weighted_io_ms] = rest;
        Some(DiskFigures {
            major,
            minor,
            name,
            reads,
            reads_merged,
            sectors_read,
            read_ms,
            writes,
            writes_merged,
            sectors_written,
            write_ms,
            in_progress,
            io_ms,
            weighted_io_ms,
        })
    };
    lines(text).filter_map(one).collect()
}

/// `/proc/<pid>/limits`: the soft limit of open files; −1 for none.
pub fn open_files_max(text: &[u8]) -> Option<i64> {
    let name = b"Max open files";
    let line = lines(text).find(|line| line.starts_with(name))?;
    match fields(&line[name.len()..]).next()? {
        b"unlimited" => Some(-1),
        field => i64::try_from(digits(field)?).ok(),
    }
}

#[cfg(test)]
mod tests;
