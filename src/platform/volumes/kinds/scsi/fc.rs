//! Finding disks of Fibre Channel networks (VOL-39), which the network itself attaches, and having the kernel forget them.
//! Keeps nothing.

use std::io;
use std::path::PathBuf;

use super::errors::AttachError;
use crate::logic::volumes::scsi::fc::FcDisk;
use crate::platform::volumes::programs::machine::{Machine, kernel_name};

/// The links that lead to the disk.
fn links(machine: &Machine, disk: &FcDisk) -> Vec<PathBuf> {
    let folder = disk.links();
    let names = machine.links(folder).unwrap_or_default().into_iter().filter(|name| disk.is_link(name));
    names.map(|name| machine.link(folder, &name)).filter(|link| link.exists()).collect()
}

/// Finds the device: that with several ways to it, where there is one. The kernel looks for disks anew if there is none.
///
/// # Errors
/// There is no such disk, in upstream's words.
pub(super) fn find(machine: &Machine, disk: &FcDisk) -> Result<PathBuf, AttachError> {
    let look = || {
        let found = links(machine, disk);
        let map = found.iter().find_map(|link| machine.multipath_of(link)).map(|name| machine.device(&name));
        (map, found.into_iter().next())
    };
    if let (Some(map), _) = look() {
        return Ok(map);
    }
    machine.scan_all().map_err(AttachError::kernel("look for SCSI hosts"))?;
    let (map, first) = look();
    map.or(first).ok_or(AttachError::NoFcDisk)
}

/// Has the kernel forget the disk and all ways to it. Not there any more, it is passed over.
///
/// # Errors
/// The device with several ways is in use.
pub(super) fn detach(machine: &Machine, disk: &FcDisk) -> io::Result<()> {
    let mut names = Vec::new();
    for link in links(machine, disk) {
        let Some(map) = machine.multipath_of(&link) else {
            names.extend(kernel_name(&link));
            continue;
        };
        // The ways are read before the map goes.
        let ways = machine.ways_of(&map)?;
        let device = machine.device(&map).display().to_string();
        let flushed = machine.call("multipath", &["-f".to_owned(), device.clone()]);
        if !flushed.is_ok() {
            let (output, end) = (flushed.output.trim(), flushed.end);
            return Err(io::Error::other(format!("failed to flush multipath device {device}: {end}\n{output}")));
        }
        names.extend(ways);
    }
    names.sort_unstable();
    names.dedup();
    for name in names {
        let device = machine.device(&name).display().to_string();
        let flushed = machine.call("blockdev", &["--flushbufs".to_owned(), device]);
        if !flushed.is_ok() {
            tracing::warn!(name, end = %flushed.end, output = flushed.output.trim(), "a disk could not be flushed");
        }
        machine.delete_disk(&name)?;
    }
    Ok(())
}
