//! Orders to the host for one volume: plain data, made by `plan` and carried out by the adapter.

use std::fmt;

use super::content::payload::Payload;
use super::scsi::orders::DiskOrder;
use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Moment;

/// Names of plugins as directories below `pods/<uid>/volumes`: upstream's plugin name with `/` written as `~`.
pub mod plugin {
    pub use crate::logic::volumes::scsi::{FC, ISCSI};

    /// emptyDir.
    pub const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
    /// hostPath; has no directory.
    pub const HOST_PATH: &str = "kubernetes.io~host-path";
    /// configMap.
    pub const CONFIG_MAP: &str = "kubernetes.io~configmap";
    /// secret.
    pub const SECRET: &str = "kubernetes.io~secret";
    /// downwardAPI.
    pub const DOWNWARD_API: &str = "kubernetes.io~downward-api";
    /// projected.
    pub const PROJECTED: &str = "kubernetes.io~projected";
    /// image; has no directory.
    pub const IMAGE: &str = "kubernetes.io~image";
    /// local persistent volumes.
    pub const LOCAL: &str = "kubernetes.io~local-volume";
    /// nfs.
    pub const NFS: &str = "kubernetes.io~nfs";
    /// CSI drivers.
    pub const CSI: &str = "kubernetes.io~csi";
}

/// Where a volume is on the node: `pods/<uid>/volumes/<plugin>/<name>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumePlace {
    /// The pod's UID.
    pub uid: PodUid,
    /// One of [`plugin`], or what was found on the disk.
    pub plugin: String,
    /// The volume's name in the pod; for one that comes through a claim the persistent volume's name.
    pub name: String,
    /// Whether it is a device, `pods/<uid>/volumeDevices/<plugin>/<name>`.
    pub is_device: bool,
}

impl VolumePlace {
    /// Whether what is in the volume is the agent's own, or the pod's alone: it goes with the pod. Of any other kind
    /// nothing is ever deleted, it is only unmounted.
    pub fn holds_own_data(&self) -> bool {
        let own = [plugin::EMPTY_DIR, plugin::CONFIG_MAP, plugin::SECRET, plugin::DOWNWARD_API, plugin::PROJECTED];
        !self.is_device && own.contains(&self.plugin.as_str())
    }

    /// Whether it is on a disk of a storage network, which is attached here and goes with its last pod.
    pub fn is_on_network_disk(&self) -> bool {
        [plugin::ISCSI, plugin::FC].contains(&self.plugin.as_str())
    }

    /// Whether the agent writes files there, over an empty directory of its own (upstream's wrapped emptyDir).
    pub fn is_written(&self) -> bool {
        self.holds_own_data() && self.plugin != plugin::EMPTY_DIR
    }
}

impl fmt::Display for VolumePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_device { "device " } else { "" };
        write!(f, "{kind}{}/{}/{}", self.uid, self.plugin, self.name)
    }
}

/// The medium of an empty directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The root directory's disk.
    Disk,
    /// Memory: a tmpfs.
    Memory {
        /// Its size in bytes; `None` leaves it to the kernel (half of memory).
        size_max: Option<u64>,
    },
    /// Huge pages.
    HugePages {
        /// Bytes of a page.
        page_size: u64,
    },
}

/// When ownership of a volume's files is changed to the pod's `fsGroup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChangePolicy {
    /// At each set-up.
    #[default]
    Always,
    /// Only when the volume's root is not as it should be. The root is changed last, so an interrupted change shows.
    OnRootMismatch,
}

/// The owner of a volume's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ownership {
    /// The group; `None` changes nothing.
    pub fs_group: Option<u32>,
    /// When.
    pub policy: ChangePolicy,
    /// Whether the group may only read.
    pub read_only: bool,
}

/// The required kind of a hostPath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPathKind {
    /// Not looked at.
    Unset,
    /// Made when missing, mode 0755.
    DirectoryOrCreate,
    /// There already.
    Directory,
    /// Made when missing, empty, mode 0644; its directory must be there.
    FileOrCreate,
    /// A regular file.
    File,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl HostPathKind {
    /// As the API writes it.
    ///
    /// # Errors
    /// Upstream's text for a word that is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "" => Self::Unset,
            "DirectoryOrCreate" => Self::DirectoryOrCreate,
            "Directory" => Self::Directory,
            "FileOrCreate" => Self::FileOrCreate,
            "File" => Self::File,
            "Socket" => Self::Socket,
            "CharDevice" => Self::CharDevice,
            "BlockDevice" => Self::BlockDevice,
            other => return Err(format!("{other} is an invalid volume type")),
        })
    }
}

/// Files to be written, all at once (VOL-17). No `Debug` of what is in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesOrder {
    /// The medium of the files.
    pub medium: Medium,
    /// The files.
    pub payload: Payload,
    /// Directories that other volumes are mounted on, made beforehand: the volume is read-only in containers (VOL-35).
    /// Relative to the volume.
    pub mount_points: Vec<String>,
    /// Their ownership; the policy is always `Always`.
    pub ownership: Ownership,
    /// Names the new version's directory.
    pub now: Moment,
}

/// The order by which a volume comes to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetUp {
    /// An empty directory, made once: what is in it survives restarts of containers and of the agent (VOL-18).
    EmptyDir {
        /// Of what.
        medium: Medium,
        /// The owner of its files.
        ownership: Ownership,
        /// Whether a project quota may count what it uses: nobody in a user namespace can take files out of a project.
        counted: bool,
    },
    /// Files.
    Files(FilesOrder),
    /// A look at a path of the host (VOL-22).
    HostPath {
        /// Absolute.
        path: String,
        /// The kind that it must be.
        kind: HostPathKind,
    },
    /// A directory of the host, or the file system on a block device of the host, mounted at the volume's place (local
    /// persistent volumes).
    Local(LocalOrder),
    /// A block device of the host, mapped for containers (VOL-47).
    Device {
        /// Absolute.
        source: String,
        /// Whether one pod at a time may have it.
        exclusive: bool,
    },
    /// A directory of a file server, mounted at the volume's place (VOL-38).
    Nfs {
        /// `server:path`.
        source: String,
        /// Of the mount, sorted.
        options: Vec<String>,
    },
    /// A disk of a storage network: attached, and mounted at the volume's place or mapped for containers (VOL-39).
    Disk(Box<DiskOrder>, Ownership),
    /// Nothing on this node: images are the runtime's business.
    Nothing,
}

/// A local persistent volume (VOL-37).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalOrder {
    /// A directory or a block device; absolute.
    pub source: String,
    /// The file system that is made on a device without one, and that it is mounted as.
    pub fs_type: String,
    /// Whether nobody may write.
    pub read_only: bool,
    /// Of the mount, as the persistent volume says.
    pub options: Vec<String>,
    /// The owner of its files.
    pub ownership: Ownership,
    /// Whether one pod at a time may have it (VOL-10).
    pub exclusive: bool,
}

/// A part of a volume that a container mounts (VOL-32).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubPathOrder {
    /// The pod.
    pub uid: PodUid,
    /// The volume's name in its place (see [`VolumePlace::name`]).
    pub volume: String,
    /// The volume's name in the pod, as its author knows it.
    pub mount: String,
    /// The volume's path on the host.
    pub volume_path: String,
    /// The container's name.
    pub container: String,
    /// The mount's place in the container's list.
    pub index: usize,
    /// Relative to the volume, without `..`.
    pub sub_path: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_the_agents_own_may_be_deleted() {
        let place =
            |plugin: &str| VolumePlace { uid: "u".into(), plugin: plugin.into(), name: "v".into(), is_device: false };
        let cases = [
            (plugin::EMPTY_DIR, true, false),
            (plugin::SECRET, true, true),
            (plugin::PROJECTED, true, true),
            (plugin::LOCAL, false, false),
            (plugin::NFS, false, false),
            (plugin::CSI, false, false),
            (plugin::ISCSI, false, false),
            (plugin::FC, false, false),
            ("vendor~driver", false, false),
        ];
        for (plugin, own, written) in cases {
            assert_eq!((place(plugin).holds_own_data(), place(plugin).is_written()), (own, written), "{plugin}");
        }
    }

    #[test]
    fn kinds_of_host_paths_are_the_apis_words() {
        assert_eq!(HostPathKind::parse(""), Ok(HostPathKind::Unset));
        assert_eq!(HostPathKind::parse("CharDevice"), Ok(HostPathKind::CharDevice));
        assert_eq!(HostPathKind::parse("Pipe"), Err("Pipe is an invalid volume type".to_owned()));
    }
}
