//! The kernel's figures of one control group, one network interface, one file system. Units are in the names or docs.

use crate::logic::model::time::Moment;

/// The kernel's "no limit", and what stands for it here.
pub const UNLIMITED: u64 = u64::MAX;
/// A limit beyond this many bytes is none: the kernel rounds its infinity down to whole pages.
const UNLIMITED_FROM: u64 = 1 << 62;

/// Whether a memory limit is one.
pub fn is_limit(bytes: u64) -> bool {
    bytes <= UNLIMITED_FROM
}

/// One line of a pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PressureLine {
    /// Microseconds since the group was made. Upstream's API calls them nanoseconds, and shows these.
    pub total_us: u64,
    /// Percent of the last 10 s.
    pub avg10: f64,
    /// Percent of the last 60 s.
    pub avg60: f64,
    /// Percent of the last 300 s.
    pub avg300: f64,
}

/// How long tasks had to wait for a resource (PSI).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// All tasks at once.
    pub full: PressureLine,
    /// At least one.
    pub some: PressureLine,
}

/// Processor time of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuFigures {
    /// All, in ns.
    pub total_ns: u64,
    /// In user mode, in ns; the kernel's figure is coarser than the total.
    pub user_ns: u64,
    /// In the kernel, in ns.
    pub system_ns: u64,
    /// Periods in which a quota was enforced.
    pub periods: u64,
    /// Those in which tasks had to wait for the next one.
    pub throttled_periods: u64,
    /// How long they waited, in ns.
    pub throttled_ns: u64,
    /// Periods with a burst.
    pub bursts: u64,
    /// Time beyond the quota in bursts, in ns.
    pub burst_ns: u64,
    /// Pressure, where the kernel tells it.
    pub pressure: Option<Pressure>,
}

/// Limits of processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuLimits {
    /// Relative weight, in v1's scale.
    pub shares: u64,
    /// µs; 0 where not told.
    pub period_us: u64,
    /// µs in each period; 0 for no quota.
    pub quota_us: u64,
}

/// Memory of a group, in bytes unless said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryFigures {
    /// All that is charged.
    pub usage: u64,
    /// The most it ever was; 0 where not told.
    pub usage_max: u64,
    /// How often the limit was hit.
    pub limit_hits: u64,
    /// Of the kernel.
    pub kernel: u64,
    /// Page cache.
    pub cache: u64,
    /// Anonymous memory.
    pub rss: u64,
    /// Swapped out.
    pub swap: u64,
    /// Files mapped.
    pub mapped_file: u64,
    /// Page cache in use.
    pub active_file: u64,
    /// Page cache that may go.
    pub inactive_file: u64,
    /// Page faults, a count.
    pub page_faults: u64,
    /// Page faults that read from a disk, a count.
    pub major_page_faults: u64,
    /// Pressure, where the kernel tells it.
    pub pressure: Option<Pressure>,
}

impl MemoryFigures {
    /// Memory that cannot simply be given back: all but the page cache that nobody used lately.
    pub fn working_set(&self) -> u64 {
        self.usage.saturating_sub(self.inactive_file)
    }
}

/// Limits of memory, in bytes; [`UNLIMITED`] for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    /// All.
    pub limit: u64,
    /// v1: memory and swap together; v2: swap alone. 0 where swap is not accounted.
    pub swap_limit: u64,
    /// v1: the soft limit; v2: what is protected.
    pub reservation: u64,
}

/// Counts of a device, by operation. `None` where the kernel does not tell them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Read.
    pub read: u64,
    /// Written.
    pub write: u64,
    /// v1: synchronous ones.
    pub synchronous: Option<u64>,
    /// v1: others.
    pub asynchronous: Option<u64>,
    /// v1: discards.
    pub discard: Option<u64>,
    /// v1: the sum.
    pub total: Option<u64>,
}

impl Operations {
    /// By the names that metrics have for them.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let told = [
            ("Async", self.asynchronous),
            ("Discard", self.discard),
            ("Read", Some(self.read)),
            ("Sync", self.synchronous),
            ("Total", self.total),
            ("Write", Some(self.write)),
        ];
        told.into_iter().filter_map(|(name, count)| Some((name, count?)))
    }
}

/// A group's activity on one block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFigures {
    /// The device's number.
    pub major: u32,
    /// The device's number, second part.
    pub minor: u32,
    /// Bytes.
    pub bytes: Operations,
    /// Requests.
    pub requests: Operations,
}

/// Input and output of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoFigures {
    /// By device.
    pub devices: Vec<DeviceFigures>,
    /// Pressure, where the kernel tells it.
    pub pressure: Option<Pressure>,
}

/// Processes of a group itself, without those of groups below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFigures {
    /// Processes.
    pub processes: u64,
    /// Their open files; `None` when too many were open to count.
    pub descriptors: Option<u64>,
    /// Those of them that are sockets.
    pub sockets: Option<u64>,
    /// Threads, of groups below, too.
    pub threads: Option<u64>,
    /// The most threads; 0 for no limit.
    pub threads_max: u64,
    /// The first process' soft limit of open files; −1 for none.
    pub open_files_max: Option<i64>,
}

/// One control group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupFigures {
    /// When it was read.
    pub at: Moment,
    /// When it was made, where that was looked for.
    pub created: Option<Moment>,
    /// Processor time.
    pub cpu: Option<CpuFigures>,
    /// Its limits, where they were looked for.
    pub cpu_limits: Option<CpuLimits>,
    /// Memory.
    pub memory: Option<MemoryFigures>,
    /// Its limits.
    pub memory_limits: MemoryLimits,
    /// Input and output, where it was looked for.
    pub io: Option<IoFigures>,
    /// Processes, where they were looked for.
    pub processes: Option<ProcessFigures>,
    /// Processes that were killed because memory was short.
    pub oom_kills: u64,
}

/// A network interface. Counts since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Incoming traffic.
    pub received: Traffic,
    /// Outgoing traffic.
    pub sent: Traffic,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Errors.
    pub errors: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// A file system as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSystem {
    /// Its identity on this host, as `stat` tells it; 0 where not known.
    pub device: u64,
    /// When it was looked at.
    pub at: Moment,
    /// Bytes.
    pub capacity: u64,
    /// Bytes that anybody may still write.
    pub available: u64,
    /// Bytes that are free, those for root alone, too.
    pub free: u64,
    /// Files that there can be; 0 where the file system has no bound.
    pub inodes: u64,
    /// Files that there can be more.
    pub inodes_free: u64,
}

impl FileSystem {
    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.capacity.saturating_sub(self.free)
    }

    /// Files in use.
    pub fn inodes_used(&self) -> u64 {
        self.inodes.saturating_sub(self.inodes_free)
    }
}

/// A mounted block device, and what its disk did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MountedDevice {
    /// Such as `/dev/vda1`.
    pub device: String,
    /// The file system on it.
    pub file_system: FileSystem,
    /// Its disk, where the kernel tells.
    pub disk: Option<DiskFigures>,
}

/// A line of `/proc/diskstats`. A sector has 512 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFigures {
    /// The device's number.
    pub major: u32,
    /// The device's number, second part.
    pub minor: u32,
    /// Such as `vda1`.
    pub name: String,
    /// Reads.
    pub reads: u64,
    /// Reads merged with others.
    pub reads_merged: u64,
    /// Sectors read.
    pub sectors_read: u64,
    /// Time of reads, in ms.
    pub read_ms: u64,
    /// Writes.
    pub writes: u64,
    /// Writes merged with others.
    pub writes_merged: u64,
    /// Sectors written.
    pub sectors_written: u64,
    /// Time of writes, in ms.
    pub write_ms: u64,
    /// Requests under way.
    pub in_progress: u64,
    /// Time with requests under way, in ms.
    pub io_ms: u64,
    /// The same, counted for each request.
    pub weighted_io_ms: u64,
}

/// The counts of a walk through a directory: blocks in use, files counted once however many names they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// When the walk ended.
    pub at: Moment,
    /// Bytes of blocks.
    pub bytes: u64,
    /// Files, directories and links.
    pub inodes: u64,
}

impl Usage {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            at: self.at.max(other.at),
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}
