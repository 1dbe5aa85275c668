//! The machine's storage networks, as `/sys` and `/dev` show them, and its programs for them. Keeps the places of these.
//!
//! Names that become parts of paths in `/sys` come from `/sys` itself, or are numbers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Ended, run};

/// A program for storage networks may take so long. A login is tried for two minutes by the program itself.
const PROGRAM_MAX: Duration = Duration::from_secs(150);
/// How long a device is waited for.
const DEVICE_WAIT: Duration = Duration::from_secs(30);
/// The same for a device that several others are ways to.
const MULTIPATH_WAIT: Duration = Duration::from_secs(10);
/// From one look for a device to the next.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// No file that is read here has more.
const BYTES_MAX: u64 = 4096;

/// See the module.
#[derive(Clone, Debug)]
pub(in crate::platform::volumes) struct Machine {
    /// `/sys`.
    pub(in crate::platform::volumes) sys: PathBuf,
    /// `/dev`.
    pub(in crate::platform::volumes) dev: PathBuf,
    /// Where programs are; else where the agent's path says.
    pub(in crate::platform::volumes) programs: Option<PathBuf>,
    /// The wait for a device, and for one with several ways to it.
    pub(in crate::platform::volumes) waits: [Duration; 2],
}

impl Default for Machine {
    fn default() -> Self {
        let (sys, dev) = (PathBuf::from("/sys"), PathBuf::from("/dev"));
        Self { sys, dev, programs: None, waits: [DEVICE_WAIT, MULTIPATH_WAIT] }
    }
}

impl Machine {
    /// Runs a program to its end or its deadline.
    pub(in crate::platform::volumes) fn call(&self, program: &str, arguments: &[String]) -> Ended {
        let found = self.programs.as_ref().map(|folder| folder.join(program).display().to_string());
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(found.as_deref().unwrap_or(program), &words, Some(PROGRAM_MAX))
    }

    /// The SCSI host of each portal that a session of the target goes through.
    pub(in crate::platform::volumes) fn hosts_of(&self, iqn: &str) -> io::Result<BTreeMap<String, u32>> {
        let mut found = BTreeMap::new();
        for session in self.sessions_of(iqn)? {
            let connections = names(&session.path)?.into_iter().filter(|name| name.starts_with("connection"));
            for connection in connections {
                let at = session.path.join(&connection).join("iscsi_connection").join(&connection);
                for (address, port) in [("address", "port"), ("persistent_address", "persistent_port")] {
                    // A session that ends meanwhile has none.
                    let (Ok(address), Ok(port)) = (read(&at.join(address)), read(&at.join(port))) else { continue };
                    let address = if address.contains(':') { format!("[{address}]") } else { address };
                    found.insert(format!("{address}:{port}"), session.host);
                }
            }
        }
        Ok(found)
    }

    /// The disks of a logical unit of a target, by the kernel's names.
    pub(in crate::platform::volumes) fn disks_of(&self, iqn: &str, lun: u32) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for Session { host, path } in self.sessions_of(iqn)? {
            let unit = path.join(format!("target{host}:0:0/{host}:0:0:{lun}/block"));
            found.extend(names(&unit)?.into_iter().next());
        }
        Ok(found)
    }

    /// Whether there is a session with the target.
    pub(in crate::platform::volumes) fn has_session(&self, iqn: &str) -> io::Result<bool> {
        Ok(!self.sessions_of(iqn)?.is_empty())
    }

    /// The sessions of a target.
    fn sessions_of(&self, iqn: &str) -> io::Result<Vec<Session>> {
        let all = self.sys.join("class/iscsi_host");
        let mut found = Vec::new();
        for name in names(&all)? {
            let Some(host) = name.strip_prefix("host").and_then(|number| number.parse().ok()) else { continue };
            let device = all.join(&name).join("device");
            for session in names(&device)?.into_iter().filter(|name| name.starts_with("session")) {
                let path = device.join(&session);
                let target = read(&path.join("iscsi_session").join(&session).join("targetname"));
                if target.is_ok_and(|target| target == iqn) {
                    found.push(Session { host, path });
                }
            }
        }
        Ok(found)
    }

    /// Has the kernel look for one logical unit, and for no others.
    pub(in crate::platform::volumes) fn scan_unit(&self, host: u32, lun: u32) -> io::Result<()> {
        write(&self.sys.join(format!("class/scsi_host/host{host}/scan")), &format!("0 0 {lun}"))
    }

    /// Has the kernel look for disks everywhere.
    pub(in crate::platform::volumes) fn scan_all(&self) -> io::Result<()> {
        let hosts = self.sys.join("class/scsi_host");
        for host in names(&hosts)? {
            if let Err(error) = write(&hosts.join(&host).join("scan"), "- - -") {
                tracing::warn!(host, %error, "a SCSI host could not be scanned");
            }
        }
        Ok(())
    }

    /// The links in a folder of `/dev/disk`, sorted.
    pub(in crate::platform::volumes) fn links(&self, folder: &str) -> io::Result<Vec<String>> {
        names(&self.dev.join("disk").join(folder))
    }

    /// The path of such a link.
    pub(in crate::platform::volumes) fn link(&self, folder: &str, name: &str) -> PathBuf {
        self.dev.join("disk").join(folder).join(name)
    }

    /// The device that several others are ways to, one of which this is or leads to; by the kernel's name.
    pub(in crate::platform::volumes) fn multipath_of(&self, device: &Path) -> Option<String> {
        let name = kernel_name(device)?;
        if name.starts_with("dm-") {
            return Some(name);
        }
        let all = self.sys.join("block");
        let maps = names(&all).ok()?.into_iter().filter(|name| name.starts_with("dm-"));
        maps.into_iter().find(|map| all.join(map).join("slaves").join(&name).symlink_metadata().is_ok())
    }

    /// The devices that are ways to this one.
    pub(in crate::platform::volumes) fn ways_of(&self, multipath: &str) -> io::Result<Vec<String>> {
        names(&self.sys.join("block").join(multipath).join("slaves"))
    }

    /// The path of a device of the kernel.
    pub(in crate::platform::volumes) fn device(&self, name: &str) -> PathBuf {
        self.dev.join(name)
    }

    /// Has the kernel forget a disk. One that is not there any more is passed over.
    pub(in crate::platform::volumes) fn delete_disk(&self, name: &str) -> io::Result<()> {
        match write(&self.sys.join("block").join(name).join("device/delete"), "1") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Looks for something until it is there or the time is up.
    pub(in crate::platform::volumes) fn wait_for<T>(
        &self,
        limit: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut waited = Duration::ZERO;
        loop {
            let found = look();
            if found.is_some() || waited >= limit {
                return found;
            }
            std::thread::sleep(LOOK_PERIOD);
            waited += LOOK_PERIOD;
        }
    }
}

/// A session with a target.
struct Session {
    host: u32,
    path: PathBuf,
}

/// The kernel's name of a device that a path leads to.
pub(in crate::platform::volumes) fn kernel_name(path: &Path) -> Option<String> {
    Some(fs::canonicalize(path).ok()?.file_name()?.to_str()?.to_owned())
}

/// The names in a folder, sorted; none where there is no such folder.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        other => other?,
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

/// Writes to a file of the kernel, which is there.
fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}
