//! The host as the kernel describes it: names, sizes, and what the agent refuses to run on.
//!
//! Read by `main` and the node's status. Keeps the root below which it reads and nothing that it read. Its files
//! comes from the kernel's memory or is small: the calls do not wait.
//!
//! The folder also holds the clock, chance, threads for blocking calls, programs, kernel parameters, the lock file and the
//! service manager.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use crate::logic::formats::cpu_list::CpuList;
use crate::logic::model::time::Moment;
use crate::logic::volumes::mounting::mount_label::FileLabel;

/// The most that is read of any of these files.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

const ONLINE_PROCESSORS: &str = "sys/devices/system/cpu/online";
/// Upstream's refusal of a host with cgroup v1, unless `failCgroupV1` is off.
pub const CGROUP_V1_REFUSED: &str = "kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is \
                                     unsupported and will be removed in a future release";
/// Upstream's refusal of a host with swap, unless `failSwapOn` is off (CFG-29).
pub const SWAP_REFUSED: &str =
    "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false";

/// Upstream's refusal of `LimitedSwap` on cgroup v1, which limits memory and swap as one (RES-68).
pub const LIMITED_SWAP_REFUSED: &str = "swap feature is enabled and LimitedSwap but it is only supported with cgroupv2";

/// Something about the host that could not be found out.
#[derive(Debug, thiserror::Error)]
#[error("read {what} from {path}: {problem}", path = path.display())]
pub struct HostError {
    /// The subject of the look.
    pub what: &'static str,
    /// Where.
    pub path: PathBuf,
    /// Why it is not known.
    pub problem: io::Error,
}

/// The host below a root: `/`, or a folder of a test.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self::at(PathBuf::from("/"))
    }
}

impl Host {
    /// The host whose `proc`, `sys` and `etc` are below `root`.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// The node's host name: the override if there is one, else the kernel's; trimmed, in lower case.
    ///
    /// # Errors
    /// When nothing is left of it.
    pub fn hostname(&self, name_override: &str) -> Result<String, HostError> {
        let path = "proc/sys/kernel/hostname";
        let name = if name_override.is_empty() { self.read("the host name", path)? } else { name_override.to_owned() };
        let name = name.trim().to_lowercase();
        if name.is_empty() {
            return Err(self.error("the host name", path, io::Error::other("empty hostname is invalid")));
        }
        Ok(name)
    }

    /// The label of containers' files by the node's SELinux policy, from where runtimes take it; `None` where none is named.
    pub fn file_label(&self) -> Option<FileLabel> {
        let read = |path: &str| std::fs::read_to_string(self.root.join(path)).ok();
        let of_policy = || {
            let config = read("etc/selinux/config")?;
            let policy = config.lines().find_map(|line| line.trim().strip_prefix("SELINUXTYPE="))?;
            read(&format!("etc/selinux/{}/contexts/lxc_contexts", policy.trim().trim_matches('"')))
        };
        FileLabel::of_policy(&read("usr/share/containers/selinux/contexts").or_else(of_policy)?)
    }

    /// Memory, in bytes.
    ///
    /// # Errors
    /// When `/proc/meminfo` does not tell.
    pub fn memory_bytes(&self) -> Result<u64, HostError> {
        self.memory_field("the memory's size", "MemTotal:")
    }

    /// All swap, in bytes; 0 where there is none.
    ///
    /// # Errors
    /// When `/proc/meminfo` does not tell.
    pub fn swap_bytes(&self) -> Result<u64, HostError> {
        self.memory_field("the swap's size", "SwapTotal:")
    }

    fn memory_field(&self, what: &'static str, field: &str) -> Result<u64, HostError> {
        let path = "proc/meminfo";
        let text = self.read(what, path)?;
        let kibibytes = text.lines().find_map(|line| {
            let rest = line.strip_prefix(field)?.trim().strip_suffix("kB")?;
            rest.trim().parse::<u64>().ok()
        });
        kibibytes.and_then(|number| number.checked_mul(1024)).ok_or_else(|| self.malformed(what, path))
    }

    /// How many huge pages there are, by their size in bytes. A kernel without them has none.
    ///
    /// # Errors
    /// When the kernel has them, but a number cannot be read.
    pub fn hugepages(&self) -> Result<BTreeMap<u64, u64>, HostError> {
        let (what, folder) = ("the huge pages", "sys/kernel/mm/hugepages");
        let entries = match std::fs::read_dir(self.root.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(self.error(what, folder, error)),
        };
        let mut pages = BTreeMap::new();
        for entry in entries {
            let name = entry.map_err(|error| self.error(what, folder, error))?.file_name();
            let size = name.to_str().and_then(|name| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok());
            let Some(bytes) = size.and_then(|kibibytes: u64| kibibytes.checked_mul(1024)) else { continue };
            let path = format!("{folder}/{}/nr_hugepages", name.to_string_lossy());
            let count = self.read(what, &path)?.trim().parse().map_err(|_| self.malformed(what, &path))?;
            pages.insert(bytes, count);
        }
        Ok(pages)
    }

    /// How many processors are online, at least one.
    ///
    /// # Errors
    /// When the kernel's list cannot be read.
    pub fn processors(&self) -> Result<u32, HostError> {
        let count = CpuList::parse(&self.online_processors()?).and_then(|all| u32::try_from(all.count()).ok());
        count.ok_or_else(|| self.malformed("the online processors", ONLINE_PROCESSORS))
    }

    /// The list of processors that are online, as the kernel writes it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn online_processors(&self) -> Result<String, HostError> {
        Ok(self.read("the online processors", ONLINE_PROCESSORS)?.trim().to_owned())
    }

    /// How many processes there can be: the smaller of the kernel's bounds on process numbers and on threads.
    ///
    /// # Errors
    /// When neither can be read.
    pub fn processes_max(&self) -> Result<u64, HostError> {
        let (what, path) = ("the process limit", "proc/sys/kernel/pid_max");
        let number = |path| self.read(what, path).map(|text| text.trim().parse::<u64>().ok());
        let bounds = [number(path)?, number("proc/sys/kernel/threads-max").unwrap_or(None)];
        bounds.into_iter().flatten().min().ok_or_else(|| self.malformed(what, path))
    }

    /// The identity of this boot.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn boot_id(&self) -> Result<String, HostError> {
        Ok(self.read("the boot's identity", "proc/sys/kernel/random/boot_id")?.trim().to_owned())
    }

    /// When the machine booted, to the second; `None` where the kernel does not say.
    pub fn booted(&self) -> Option<Moment> {
        let text = self.read("the boot's time", "proc/stat").ok()?;
        let seconds: i64 = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        seconds.checked_mul(1_000_000_000).map(Moment)
    }

    /// The machine's identity, as systemd keeps it; empty when there is none.
    pub fn machine_id(&self) -> String {
        let places = ["etc/machine-id", "var/lib/dbus/machine-id"];
        let found = places.iter().find_map(|path| self.read("the machine's identity", path).ok());
        found.unwrap_or_default().trim().to_owned()
    }

    /// The hardware's identity, from the firmware or the device tree; the machine's where there is none.
    pub fn system_uuid(&self) -> String {
        let places = ["sys/class/dmi/id/product_uuid", "proc/device-tree/system-id", "proc/device-tree/vm,uuid"];
        let found = places.iter().find_map(|path| self.read("the system's identity", path).ok());
        // A device tree ends its texts with a zero byte.
        found.map_or_else(|| self.machine_id(), |text| text.trim_end_matches('\0').trim().to_owned())
    }

    /// The kernel's version.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn kernel_version(&self) -> Result<String, HostError> {
        Ok(self.read("the kernel's version", "proc/sys/kernel/osrelease")?.trim().to_owned())
    }

    /// The operating system's name for itself; `Linux` where it does not say, `Unknown` where it cannot be asked.
    pub fn os_image(&self) -> String {
        let places = ["etc/os-release", "usr/lib/os-release"];
        let text = places.iter().find_map(|path| self.read("the operating system's name", path).ok());
        let Some(text) = text else { return "Unknown".to_owned() };
        let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        name.map_or_else(|| "Linux".to_owned(), |name| name.trim().trim_matches(['"', '\'']).to_owned())
    }

    /// Whether swap is on: more in `/proc/swaps` than the head of the table. A kernel without swap has no such file.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn swap_is_on(&self) -> Result<bool, HostError> {
        match self.read("the swaps", "proc/swaps") {
            Err(error) if error.problem.kind() == io::ErrorKind::NotFound => Ok(false),
            other => Ok(other?.trim().lines().count() > 1),
        }
    }

    fn read(&self, what: &'static str, path: &str) -> Result<String, HostError> {
        let read = || -> io::Result<String> {
            let mut bytes = Vec::new();
            File::open(self.root.join(path))?.take(BYTES_MAX).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().map_err(|problem| self.error(what, path, problem))
    }

    fn error(&self, what: &'static str, path: &str, problem: io::Error) -> HostError {
        HostError { what, path: self.root.join(path), problem }
    }

    fn malformed(&self, what: &'static str, path: &str) -> HostError {
        self.error(what, path, io::Error::new(io::ErrorKind::InvalidData, "not in the form that the kernel writes"))
    }
}

pub mod alone;
pub mod blocking;
pub mod chance;
pub mod clock;
pub mod kernel_log;
pub mod kernel_tunables;
pub mod lock_file;
pub mod logind;
pub mod network_interfaces;
pub mod node_facts;
pub mod process;
pub mod program;
pub mod systemd;
pub mod terminal;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod topology;

#[cfg(test)]
pub(crate) use testing::{played_bus, played_program};
