//! File systems on block devices (VOL-37, VOL-39): made where there is none, checked where there is one, and mounted. Keeps
//! nothing.

use std::path::Path;

use crate::platform::volumes::programs::{self, End, MountError, run};

/// The end of `blkid` for a device that holds nothing it knows.
const UNFORMATTED: End = End::Code(2);
/// The end of `fsck` when it found faults that it could not repair.
const NOT_REPAIRED: End = End::Code(4);

/// Why a device was not mounted; most texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceError {
    #[error("{0:?} is no name of a file system")]
    NoName(String),
    #[error("cannot mount unformatted disk {0} as we are manipulating it in read-only mode")]
    Unformatted(String),
    #[error("failed to get disk format of disk {device}: {end}: {output}")]
    Look { device: String, end: End, output: String },
    #[error("format of disk {device:?} failed: type:({kind:?}) errcode:({end}) output:({output})")]
    Format { device: String, kind: String, end: End, output: String },
    #[error("'fsck' found errors on device {device} but could not correct them: {output}.")]
    Broken { device: String, output: String },
    #[error(transparent)]
    Mount(#[from] MountError),
}

/// A device that was not mounted.
pub(super) struct NotMounted {
    /// The reason.
    pub(super) why: DeviceError,
    /// Whether it was tried although the device holds something else than it is to hold.
    pub(super) has_other: bool,
}

impl From<DeviceError> for NotMounted {
    fn from(why: DeviceError) -> Self {
        Self { why, has_other: false }
    }
}

/// A device, and the file system that is to be on it.
pub(super) struct Formatted<'a> {
    /// Its path.
    pub(super) device: &'a str,
    /// The name of the file system.
    pub(super) fs_type: &'a str,
    /// Whether nothing is to be written.
    pub(super) read_only: bool,
    /// Of the mount.
    pub(super) options: &'a [String],
}

impl Formatted<'_> {
    /// Makes a file system on a device that holds nothing, looks over one that has something, and mounts it.
    pub(super) fn mount(&self, target: &Path) -> Result<(), NotMounted> {
        let (device, wanted) = (self.device, self.fs_type);
        if !wanted.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(DeviceError::NoName(wanted.to_owned()).into());
        }
        // However it is said that nothing is to be written, nothing is made or mended.
        let read_only = self.read_only || self.options.iter().any(|option| option == "ro");
        let held = held_by(device)?;
        match &held {
            None if read_only => return Err(DeviceError::Unformatted(device.to_owned()).into()),
            None => make_file_system(device, wanted)?,
            Some(_) if !read_only => check_file_system(device)?,
            Some(_) => {}
        }
        let has_other = held.is_some_and(|held| held != wanted);
        if has_other {
            tracing::warn!(
                device,
                wanted,
                "the disk holds something else than the file system that it is to be mounted as"
            );
        }
        let mut options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        options.extend(self.read_only.then_some("ro"));
        options.push("defaults");
        programs::mount(wanted, &options, device, target).map_err(|why| NotMounted { why: why.into(), has_other })
    }
}

/// The content of a device: `None` for nothing. A partition table is something, and no name of a file system.
fn held_by(device: &str) -> Result<Option<String>, DeviceError> {
    let found = run("blkid", &["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device], None);
    if found.end == UNFORMATTED {
        return Ok(None);
    }
    if !found.is_ok() {
        let (device, output) = (device.to_owned(), found.output.trim().to_owned());
        return Err(DeviceError::Look { device, end: found.end, output });
    }
    let named = |name: &str| found.output.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
    Ok(match (named("PTTYPE="), named("TYPE=")) {
        (Some(table), _) => Some(format!("partition table {table}")),
        (None, kind) => kind.filter(|kind| !kind.is_empty()),
    })
}

fn make_file_system(device: &str, kind: &str) -> Result<(), DeviceError> {
    let options: &[&str] = match kind {
        "ext3" | "ext4" => &["-F", "-m0"],
        "xfs" => &["-f"],
        _ => &[],
    };
    tracing::info!(device, kind, "making a file system on a disk that has none");
    let made = run(&format!("mkfs.{kind}"), &[options, &[device]].concat(), None);
    if made.is_ok() {
        return Ok(());
    }
    let (device, kind) = (device.to_owned(), kind.to_owned());
    Err(DeviceError::Format { device, kind, end: made.end, output: made.output })
}

/// A missing program, or a file system that it does not know, is no reason not to mount.
fn check_file_system(device: &str) -> Result<(), DeviceError> {
    let checked = run("fsck", &["-a", device], None);
    match checked.end {
        NOT_REPAIRED => Err(DeviceError::Broken { device: device.to_owned(), output: checked.output }),
        End::Code(0 | 1) => Ok(()),
        end => {
            tracing::warn!(device, %end, output = checked.output, "`fsck` failed");
            Ok(())
        }
    }
}
