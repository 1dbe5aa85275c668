//! Disks of storage networks: iscsi and fc volumes (VOL-39). Reads them out of pods and persistent volumes, checks every
//! text that becomes part of a path or an argument, and names what upstream names.
//!
//! Nothing here keeps state. [`iscsiadm`] has the calls of the program as data.

pub mod fc;
pub mod iscsi;
pub mod iscsiadm;
pub mod orders;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use self::fc::FcDisk;
use self::iscsi::IscsiDisk;

/// The plugin of iscsi, as directories of pods are named.
pub const ISCSI: &str = "kubernetes.io~iscsi";
/// That of fc.
pub const FC: &str = "kubernetes.io~fc";
/// More portals or targets than that belong to no volume.
pub const PATHS_MAX: usize = 32;
/// The first folder below `plugins` of kinds that are part of Kubernetes.
const VENDOR: &str = "kubernetes.io";
/// The folder of volumes that are devices, among a plugin's.
const DEVICES: &str = "volumeDevices";
/// The longest name of a folder.
const FOLDER_BYTES_MAX: usize = 255;

/// Why a volume is no disk that could be attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// A text that would not stay one argument or one part of a path.
    #[error("invalid {what} of the volume: {text:?}")]
    Text {
        /// The field.
        what: &'static str,
        /// Its text.
        text: String,
    },
    /// More ways to the disk than are tried.
    #[error("the volume names {0} portals or targets, and at most {PATHS_MAX} are tried")]
    Paths(usize),
    /// Upstream's text for an fc volume that names no disk.
    #[error("fc: no fc disk information found. failed to make a new mounter")]
    NoFcDisk,
}

/// A disk, whoever uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Disk {
    /// Reached over TCP/IP, or by a card that does.
    Iscsi(IscsiDisk),
    /// Reached over Fibre Channel.
    Fc(FcDisk),
}

impl Disk {
    /// The plugin's name, as directories of pods have it.
    pub fn plugin(&self) -> &'static str {
        match self {
            Self::Iscsi(_) => ISCSI,
            Self::Fc(_) => FC,
        }
    }

    /// The name that the Node's status has for the volume.
    pub fn unique_name(&self) -> String {
        match self {
            Self::Iscsi(disk) => disk.unique_name(),
            Self::Fc(disk) => disk.unique_name(),
        }
    }

    /// The folders below `plugins` that lead to where the disk is mounted, or mapped as a device, once for the node.
    pub fn folders(&self, is_device: bool) -> Vec<String> {
        let (kind, own) = match self {
            Self::Iscsi(disk) => ("iscsi", disk.folders()),
            Self::Fc(disk) => ("fc", vec![disk.folder()]),
        };
        let devices = is_device.then(|| DEVICES.to_owned());
        [VENDOR.to_owned(), kind.to_owned()].into_iter().chain(devices).chain(own).collect()
    }

    /// Reads the disk off where it is mounted: the folders below `plugins`. Another agent may have mounted it.
    pub fn of_folders(folders: &[&str]) -> Option<Self> {
        let [VENDOR, kind, own @ ..] = folders else { return None };
        let own = own.strip_prefix(&[DEVICES]).unwrap_or(own);
        let disk = match (*kind, own) {
            ("iscsi", [interface, name]) => Self::Iscsi(IscsiDisk::of_folders(interface, name)?),
            ("fc", [name]) => Self::Fc(FcDisk::of_folder(name)?),
            _ => return None,
        };
        disk.checked().ok()
    }

    /// Checks every text that becomes part of a path or an argument.
    ///
    /// # Errors
    /// The first that must not.
    pub fn checked(self) -> Result<Self, DiskError> {
        match &self {
            Self::Iscsi(disk) => disk.check()?,
            Self::Fc(disk) => disk.check()?,
        }
        // The letters were checked; a whole name may be too long, or one that leads elsewhere.
        let is_wrong = |name: &&String| name.len() > FOLDER_BYTES_MAX || name.starts_with('.');
        match self.folders(true).iter().find(is_wrong) {
            Some(name) => Err(DiskError::Text { what: "name", text: name.clone() }),
            None => Ok(self),
        }
    }

    /// The file about a pod's use of the disk.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("invariant: texts and numbers are JSON")
    }

    /// Reads that file.
    ///
    /// # Errors
    /// It is no such file, or has texts that must not be used.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        read.checked().map_err(|error| error.to_string())
    }
}

/// Keys and texts of a Secret for CHAP. Nothing prints them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ChapTexts(pub BTreeMap<String, String>);

impl fmt::Debug for ChapTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} texts", self.0.len())
    }
}

/// Checks one text: not empty, no more than `bytes_max`, no option, and of `allowed` characters alone.
fn check_text(
    what: &'static str,
    text: &str,
    bytes_max: usize,
    allowed: impl Fn(char) -> bool,
) -> Result<(), DiskError> {
    let is_good = !text.is_empty() && text.len() <= bytes_max && !text.starts_with('-') && text.chars().all(allowed);
    if is_good { Ok(()) } else { Err(DiskError::Text { what, text: text.chars().take(255).collect() }) }
}
