//! Facts of the node as a whole in `/proc` and `/sys`.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::files::Reader;
use super::groups::Groups;
use super::{SampleError, disks};
use crate::logic::statistics::figures::{IoFigures, MountedDevice};
use crate::logic::statistics::parse;
use crate::logic::statistics::sample::{Depth, Machine, NodeSample};
use crate::platform::host::Host;
use crate::platform::statistics::tools::Tools;

/// File systems on block devices; others are not asked for their space, since they may not answer.
const ON_DISKS: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "f2fs"];
/// The most mounted devices in a look.
const DEVICES_MAX: usize = 64;

/// The node; an error when its root group cannot be read.
pub(super) fn node(
    groups: &mut Groups<'_>,
    proc: &OwnedFd,
    machine: &Machine,
    tools: &mut Tools<'_>,
) -> Result<NodeSample, SampleError> {
    let mut group = groups.read("/", tools).ok_or(SampleError::NoRootGroup)?;
    let reader = &mut tools.reader;
    let figures = &mut group.figures;
    figures.memory_limits.limit = machine.memory;
    figures.memory_limits.swap_limit = machine.swap;
    let mut node = NodeSample { group, machine: machine.clone(), ..NodeSample::default() };
    memory(&mut node, proc, reader);
    node.threads = reader.read(proc, "loadavg").and_then(parse::threads);
    let bounds = ["sys/kernel/pid_max", "sys/kernel/threads-max"].map(|name| reader.number(proc, name));
    node.pids_max = bounds.into_iter().flatten().min();
    if tools.depth <= Depth::Resources {
        return Ok(node);
    }
    node.interfaces = reader.read(proc, "1/net/dev").map(parse::interfaces).unwrap_or_default();
    pressure(&mut node, proc, reader);
    if tools.depth == Depth::Everything {
        node.disks = reader.read(proc, "diskstats").map(parse::disks).unwrap_or_default();
        let mounts = reader.read(proc, "self/mountinfo").map(mounted_devices).unwrap_or_default();
        node.devices = mounts
            .into_iter()
            .filter_map(|(device, point)| {
                let file_system = disks::file_system(Path::new(&point), tools.clock)?;
                let name = device.trim_start_matches("/dev/");
                let disk = node.disks.iter().find(|disk| disk.name == name).cloned();
                Some(MountedDevice { device, file_system, disk })
            })
            .collect();
    }
    Ok(node)
}

/// Figures that the root group does not have: how much memory is available, and, of v2, how much is swapped out.
fn memory(node: &mut NodeSample, proc: &OwnedFd, reader: &mut Reader) {
    let Some(text) = reader.read(proc, "meminfo") else { return };
    node.memory_available = parse::memory_field(text, "MemAvailable");
    if let Some(memory) = node.group.figures.memory.as_mut().filter(|memory| memory.swap == 0) {
        let (all, free) = (parse::memory_field(text, "SwapTotal"), parse::memory_field(text, "SwapFree"));
        memory.swap = all.unwrap_or(0).saturating_sub(free.unwrap_or(0));
    }
}

/// Pressure of the node as a whole is read here alone, whichever the generation of control groups.
fn pressure(node: &mut NodeSample, proc: &OwnedFd, reader: &mut Reader) {
    let mut read = |name| reader.read(proc, name).and_then(parse::pressure);
    let figures = &mut node.group.figures;
    if let Some(cpu) = &mut figures.cpu {
        cpu.pressure = read("pressure/cpu");
    }
    if let Some(memory) = &mut figures.memory {
        memory.pressure = read("pressure/memory");
    }
    if let Some(pressure) = read("pressure/io") {
        figures.io.get_or_insert_with(IoFigures::default).pressure = Some(pressure);
    }
}

/// Mounted block devices with one place of each.
fn mounted_devices(table: &[u8]) -> Vec<(String, String)> {
    let mut told = BTreeSet::new();
    let mut found = vec![];
    for line in String::from_utf8_lossy(table).lines() {
        let Some((mount, system)) = line.split_once(" - ") else { continue };
        let mut system = system.split(' ');
        let (Some(kind), Some(device)) = (system.next(), system.next()) else { continue };
        // A place with a blank is written in another way; the device is mounted elsewhere, too, or is left out.
        let point = mount.split(' ').nth(4).filter(|point| !point.contains('\\'));
        let Some(point) = point.filter(|_| ON_DISKS.contains(&kind) && device.starts_with("/dev/")) else { continue };
        if found.len() < DEVICES_MAX && told.insert(device.to_owned()) {
            found.push((device.to_owned(), point.to_owned()));
        }
    }
    found
}

/// Facts that do not change while the agent runs.
pub(super) fn machine(host: &Host, sys: &Path) -> Machine {
    let cpus = host.processors().map(u64::from).unwrap_or(0);
    let (cores, sockets) = topology(sys).unwrap_or((cpus, 1));
    Machine {
        cpus,
        cores,
        sockets,
        memory: host.memory_bytes().unwrap_or(0),
        swap: host.swap_bytes().unwrap_or(0),
        boot_id: host.boot_id().unwrap_or_default(),
        machine_id: host.machine_id(),
        system_uuid: host.system_uuid(),
        kernel_version: host.kernel_version().unwrap_or_default(),
        os_version: host.os_image(),
    }
}

/// Cores and sockets; `None` where the kernel does not tell.
fn topology(sys: &Path) -> Option<(u64, u64)> {
    let (mut cores, mut sockets) = (BTreeSet::new(), BTreeSet::new());
    for entry in std::fs::read_dir(sys.join("devices/system/cpu")).ok()?.flatten() {
        let folder = entry.path().join("topology");
        let number = |file: &str| std::fs::read_to_string(folder.join(file)).ok()?.trim().parse::<i64>().ok();
        if let (Some(core), Some(socket)) = (number("core_id"), number("physical_package_id")) {
            cores.insert((socket, core));
            sockets.insert(socket);
        }
    }
    let count = |length: usize| u64::try_from(length).unwrap_or(0);
    (!cores.is_empty()).then(|| (count(cores.len()), count(sockets.len())))
}

#[cfg(test)]
mod tests {
    use super::mounted_devices;

    #[test]
    fn a_device_is_told_once_and_only_disks_are() {
        let table = b"22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n\
                      23 22 254:0 /x /mnt/x rw - ext4 /dev/vda rw\n\
                      24 22 0:5 / /proc rw - proc proc rw\n\
                      25 22 0:9 / /net rw - nfs /dev/odd rw\n\
                      26 22 254:16 / /mnt/a\\040b rw - xfs /dev/vdb rw\n";
        assert_eq!(mounted_devices(table), [("/dev/vda".to_owned(), "/".to_owned())]);
    }
}
