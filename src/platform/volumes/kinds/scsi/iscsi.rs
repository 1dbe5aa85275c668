//! Attaching disks of iSCSI targets (VOL-39): `iscsiadm` logs in, the kernel finds the disk, and both forget it when nobody
//! uses it. Keeps nothing.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::errors::AttachError;
use crate::logic::volumes::csi::names::DEVICES;
use crate::logic::volumes::scsi::iscsi::IscsiDisk;
use crate::logic::volumes::scsi::iscsiadm::{self, Call, EXISTS, Failure, NOTHING_THERE};
use crate::logic::volumes::scsi::{ChapTexts, Disk};
use crate::platform::volumes::layout::Layout;
use crate::platform::volumes::locks::Locks;
use crate::platform::volumes::programs::machine::Machine;
use crate::platform::volumes::programs::{End, Ended};
use crate::platform::volumes::progress::Progress;

/// The program.
const ISCSIADM: &str = "iscsiadm";
/// The folder of links to disks by how they are reached.
const BY_PATH: &str = "by-path";
/// How often all portals are tried.
const ROUNDS_MAX: u32 = 5;
/// With at least so many ways to the disk, and after so many rounds, missing ways do not matter.
const ENOUGH: (usize, u32) = (2, 2);
/// How long all of it may take.
const ATTACH_MAX: Duration = Duration::from_secs(600);

/// The lock of a target: nobody logs out while somebody logs in.
fn target_key(disk: &IscsiDisk) -> String {
    format!("target {}", disk.iqn)
}

/// A disk to be attached.
pub(super) struct Attaching<'a> {
    pub(super) machine: &'a Machine,
    pub(super) disk: &'a IscsiDisk,
    pub(super) chap: &'a ChapTexts,
    pub(super) progress: &'a Progress,
}

impl Attaching<'_> {
    /// Attaches the disk; gives the device. Attached already, it is only looked for.
    ///
    /// # Errors
    /// Why not; most texts are upstream's.
    pub(super) fn run(&self, locks: &Locks) -> Result<PathBuf, AttachError> {
        let shown = self.call(&iscsiadm::show_interface(&self.disk.init_iface));
        if !shown.is_ok() {
            return Err(AttachError::Interface { end: shown.end, output: shown.output.trim().to_owned() });
        }
        let unknown = || AttachError::NoTransport(self.disk.iface.clone());
        let transport = iscsiadm::transport(&shown.output).ok_or_else(unknown)?;
        if !self.disk.initiator_name.is_empty() {
            self.copy_interface(&shown.output)?;
        }
        locks.with(&target_key(self.disk), || self.all_ways(transport))
    }

    fn call(&self, arguments: &[String]) -> Ended {
        self.machine.call(ISCSIADM, arguments)
    }

    /// Makes the interface that is this volume's own.
    fn copy_interface(&self, shown: &str) -> Result<(), AttachError> {
        let name = &self.disk.iface;
        if *name == self.disk.init_iface {
            return Err(AttachError::SameName(name.clone()));
        }
        let made = self.call(&iscsiadm::new_interface(name));
        if !made.is_ok() && made.end != End::Code(EXISTS) {
            return Err(AttachError::call("iscsi: failed to create new iface: ", made));
        }
        for (key, value) in iscsiadm::copied_settings(shown, &self.disk.initiator_name) {
            let updated = self.call(&iscsiadm::update_interface(name, &key, &value));
            if !updated.is_ok() {
                self.call(&iscsiadm::delete_interface(name));
                return Err(AttachError::call("iscsi: failed to update iface records: ", updated));
            }
        }
        Ok(())
    }

    /// Tries each portal until there are ways enough; gives the device that they lead to.
    fn all_ways(&self, transport: &str) -> Result<PathBuf, AttachError> {
        let began = self.progress.uptime();
        let (mut ways, mut last): (Vec<(&String, PathBuf)>, _) = (vec![], String::new());
        for round in 1..=ROUNDS_MAX {
            for portal in &self.disk.portals {
                if ways.iter().any(|(known, _)| *known == portal) {
                    continue;
                }
                if self.progress.uptime().saturating_sub(began) > ATTACH_MAX {
                    return Err(AttachError::TooLate(last));
                }
                match self.way(portal, transport) {
                    Ok(way) => ways.push((portal, way)),
                    Err(why) => last = why.to_string(),
                }
            }
            if ways.is_empty() {
                if self.disk.has_own_interface() {
                    self.call(&iscsiadm::delete_interface(&self.disk.iface));
                }
                return Err(AttachError::NoWay(last));
            }
            let is_enough = ways.len() >= ENOUGH.0 && round >= ENOUGH.1;
            if is_enough || ways.len() == self.disk.portals.len() {
                break;
            }
        }
        if !last.is_empty() {
            tracing::warn!(iqn = self.disk.iqn, problem = last, "not every way to a disk could be had");
        }
        let several = self.disk.portals.len() > 1;
        let limit = if several { self.machine.waits[1] } else { Duration::ZERO };
        let look = || ways.iter().find_map(|(_, way)| self.machine.multipath_of(way));
        match self.machine.wait_for(limit, look) {
            Some(name) => Ok(self.machine.device(&name)),
            None => Ok(ways.swap_remove(0).1),
        }
    }

    /// One portal's way to the disk.
    fn way(&self, portal: &str, transport: &str) -> Result<PathBuf, AttachError> {
        let host = || {
            let hosts = self.machine.hosts_of(&self.disk.iqn).map_err(AttachError::kernel("look for sessions"));
            hosts.map(|hosts| hosts.get(portal).copied())
        };
        let known = match host()? {
            Some(known) => known,
            None => {
                self.log_in(portal)?;
                host()?.ok_or_else(|| AttachError::NoHost(portal.to_owned()))?
            }
        };
        let scanned = self.machine.scan_unit(known, self.disk.unit());
        scanned.map_err(AttachError::kernel("scan the SCSI host"))?;
        let (begin, end) = iscsiadm::link_name(self.disk, portal, transport);
        let look = || {
            let is_it = |name: &String| match begin {
                None => *name == end,
                Some(begin) => name.starts_with(begin) && name.ends_with(&end),
            };
            let name = self.machine.links(BY_PATH).ok()?.into_iter().find(is_it)?;
            let link = self.machine.link(BY_PATH, &name);
            link.exists().then_some(link)
        };
        let wait = self.machine.waits[0];
        self.machine.wait_for(wait, look).ok_or_else(|| {
            let name = format!("{}{end}", begin.map(|begin| format!("{begin}*")).unwrap_or_default());
            AttachError::NoDevice { path: self.machine.link(BY_PATH, &name), seconds: wait.as_secs() }
        })
    }

    fn log_in(&self, portal: &str) -> Result<(), AttachError> {
        for Call { arguments, is_secret, failure } in iscsiadm::login(self.disk, portal, self.chap) {
            let ended = self.call(&arguments);
            if ended.is_ok() {
                continue;
            }
            // The program may repeat a secret that it was given.
            let output = if is_secret { "" } else { ended.output.trim() };
            match failure {
                Failure::Ignored => {}
                Failure::Warned => tracing::warn!(portal, end = %ended.end, output, "a setting was not taken"),
                Failure::Ends { text, undo } => {
                    if let Some(undo) = undo {
                        self.call(&undo);
                    }
                    let output = output.to_owned();
                    return Err(AttachError::Call { text, output, end: ended.end });
                }
            }
        }
        Ok(())
    }
}

/// Has the kernel forget the disk, and logs out of its target unless another disk of the target is in use. Not there any
/// more, it is passed over.
///
/// # Errors
/// The logout failed.
pub(super) fn detach(layout: &Layout, locks: &Locks, disk: &IscsiDisk, own: &[String]) -> io::Result<()> {
    let machine = layout.machine();
    let names = machine.disks_of(&disk.iqn, disk.unit())?;
    let mut maps: Vec<String> = names.iter().filter_map(|name| machine.multipath_of(&machine.device(name))).collect();
    maps.dedup();
    for map in maps {
        let flushed = machine.call("multipath", &["-f".to_owned(), machine.device(&map).display().to_string()]);
        if !flushed.is_ok() {
            tracing::warn!(map, end = %flushed.end, output = flushed.output.trim(), "a multipath map stays");
        }
    }
    for name in names {
        if let Err(error) = machine.delete_disk(&name) {
            tracing::warn!(name, %error, "the kernel keeps a disk that nobody uses");
        }
    }
    locks.with(&target_key(disk), || {
        if is_target_used(layout, disk, own)? {
            return Ok(());
        }
        // Without a session there is nothing to log out of, and a failure, as without the program, holds nobody up.
        let has_session = machine.has_session(&disk.iqn)?;
        for arguments in iscsiadm::log_out(disk) {
            let ended = machine.call(ISCSIADM, &arguments);
            let is_gone = NOTHING_THERE.iter().any(|code| ended.end == End::Code(*code));
            if !ended.is_ok() && !is_gone {
                let (call, output, end) = (arguments.join(" "), ended.output.trim(), ended.end);
                if !has_session {
                    tracing::warn!(call, output, %end, "a target that nobody uses is not forgotten");
                    continue;
                }
                return Err(io::Error::other(format!("iscsiadm {call}: {output} ({end})")));
            }
        }
        Ok(())
    })
}

/// Whether another disk of the target has a folder, by whichever interface. `own` is this disk's.
fn is_target_used(layout: &Layout, disk: &IscsiDisk, own: &[String]) -> io::Result<bool> {
    let kind = ["kubernetes.io", "iscsi"];
    for above in [&kind[..], &[kind[0], kind[1], DEVICES]] {
        let Some(interfaces) = layout.find_shared(above)? else { continue };
        for (interface, _) in interfaces.names()?.into_iter().filter(|(name, _)| name != DEVICES) {
            let folder: Vec<&str> = above.iter().copied().chain([&*interface]).collect();
            let Some(disks) = layout.find_shared(&folder)? else { continue };
            let others = disks.names()?.into_iter().filter(|(name, _)| {
                let path = folder.iter().copied().chain([&**name]);
                disk.shares_target(name) && !path.eq(own.iter().map(String::as_str))
            });
            if others.count() > 0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The disk in a folder with upstream's file, which knows more than the folder's name.
pub(super) fn of_record(bytes: &[u8], found: Disk) -> Disk {
    let Disk::Iscsi(folder) = &found else { return found };
    let read = IscsiDisk::of_record(bytes, folder.clone());
    let checked = read.and_then(|disk| Disk::Iscsi(disk).checked().map_err(|error| error.to_string()));
    match checked {
        Ok(disk) => disk,
        Err(problem) => {
            let iqn = &folder.iqn;
            tracing::warn!(iqn, problem, "the record of a disk is not readable; its folder's name counts");
            found
        }
    }
}
