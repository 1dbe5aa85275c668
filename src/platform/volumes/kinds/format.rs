//! File systems on block devices (VOL-37, VOL-39, VOL-46): made where there is none, checked where there is one, mounted, and
//! grown with their device. Keeps nothing.

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
    #[error("ResizeFS.Resize - error checking format for device {device}: {why}")]
    GrowLook { device: String, why: Box<DeviceError> },
    #[error("ResizeFS.Resize - resize of format {kind} is not supported for device {device} mounted at {target}")]
    GrowKind { device: String, kind: String, target: String },
    #[error("resize of device {of} failed: {end}. {program} output: {output}")]
    Grow { of: String, program: &'static str, end: End, output: String },
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

/// Makes the file system of a device that is mounted there as large as the device. A device that holds nothing gets one of
/// its size when it is mounted.
pub(super) fn grow(device: &str, target: &Path) -> Result<(), DeviceError> {
    let looked = |why| DeviceError::GrowLook { device: device.to_owned(), why: Box::new(why) };
    let target = target.display().to_string();
    let (program, arguments): (_, &[&str]) = match held_by(device).map_err(looked)?.as_deref() {
        None => return Ok(()),
        Some("ext3" | "ext4") => ("resize2fs", &[device]),
        Some("xfs") => ("xfs_growfs", &["-d", &target]),
        Some("btrfs") => ("btrfs", &["filesystem", "resize", "max", &target]),
        Some(kind) => {
            let (device, kind) = (device.to_owned(), kind.to_owned());
            return Err(DeviceError::GrowKind { device, kind, target });
        }
    };
    let grown = run(program, arguments, None);
    if grown.is_ok() {
        return Ok(());
    }
    let of = arguments.last().map_or_else(String::new, |last| (*last).to_owned());
    Err(DeviceError::Grow { of, program, end: grown.end, output: grown.output })
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
