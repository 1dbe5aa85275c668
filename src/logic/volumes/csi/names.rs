//! Names and paths that follow from a driver and its volume, as upstream has them: another agent finds what this one made.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::logic::model::ids::PodUid;

/// SHA-256 in lower hex, which an adapter computes.
pub type Digest = fn(&[u8]) -> String;

/// Where volumes of the whole node are, below `plugins` in the root directory.
pub const OF_NODE: [&str; 2] = ["kubernetes.io", "csi"];
/// The name of a volume's mount for the whole node.
pub const GLOBAL_MOUNT: &str = "globalmount";
/// The name of a pod's mount, in the volume's folder of the pod.
pub const POD_MOUNT: &str = "mount";
/// The file beside a mount that says which volume it is.
pub const DATA_FILE: &str = "vol_data.json";

/// The folder of volumes that are devices, among a plugin's and among a pod's.
pub const DEVICES: &str = "volumeDevices";
/// Where devices are staged, in that folder.
pub const STAGING: &str = "staging";
/// Where devices are published, in that folder.
pub const PUBLISH: &str = "publish";
/// Where the file of a device is, in the volume's folder.
pub const BLOCK_DATA: &str = "data";
/// Where a device is mapped for pods, in the volume's folder.
pub const BLOCK_MAP: &str = "dev";

/// A volume that a driver stages for the whole node: what is there once, however many pods use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DevicePlace {
    /// A file system.
    FileSystem {
        /// The driver's name.
        driver: String,
        /// The folder's name: the digest of the volume's handle.
        digest: String,
    },
    /// A device (`volumeMode: Block`).
    Block {
        /// The persistent volume's name.
        name: String,
    },
}

impl DevicePlace {
    /// The place of a driver's file system.
    pub fn of(driver: &str, handle: &str, digest: Digest) -> Self {
        Self::FileSystem { driver: driver.to_owned(), digest: digest(handle.as_bytes()) }
    }

    /// The place of the device of a persistent volume.
    pub fn block(name: &str) -> Self {
        Self::Block { name: name.to_owned() }
    }

    /// The folders below `plugins` that lead to the volume's folder.
    pub fn below_plugins(&self) -> [&str; 4] {
        match self {
            Self::FileSystem { driver, digest } => [OF_NODE[0], OF_NODE[1], driver, digest],
            Self::Block { name } => [OF_NODE[0], OF_NODE[1], DEVICES, name],
        }
    }

    /// The path that the driver stages at.
    pub fn staging_path(&self, root: &Path) -> PathBuf {
        match self {
            Self::FileSystem { .. } => below(root, &self.below_plugins()).join(GLOBAL_MOUNT),
            Self::Block { name } => below(root, &[OF_NODE[0], OF_NODE[1], DEVICES, STAGING, name]),
        }
    }
}

impl fmt::Display for DevicePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileSystem { driver, digest } => write!(f, "{driver}/{digest}"),
            Self::Block { name } => write!(f, "{DEVICES}/{name}"),
        }
    }
}

/// The path that the driver publishes the device of a persistent volume at, for a pod.
pub fn publish_path(root: &Path, name: &str, uid: &PodUid) -> PathBuf {
    below(root, &[OF_NODE[0], OF_NODE[1], DEVICES, PUBLISH, name, uid.as_str()])
}

/// The folder that the device of a persistent volume is mapped in, for all pods (upstream's global map path).
pub fn block_map_path(root: &Path, name: &str) -> PathBuf {
    below(root, &[OF_NODE[0], OF_NODE[1], DEVICES, name, BLOCK_MAP])
}

fn below(root: &Path, names: &[&str]) -> PathBuf {
    names.iter().fold(root.join("plugins"), |path, name| path.join(name))
}

/// The name of the VolumeAttachment of a volume and a node.
pub fn attachment_name(handle: &str, driver: &str, node: &str, digest: Digest) -> String {
    format!("csi-{}", digest(format!("{handle}{driver}{node}").as_bytes()))
}

/// The handle of a volume that a pod brings along itself.
pub fn ephemeral_handle(pod_uid: &str, volume: &str, digest: Digest) -> String {
    format!("csi-{}", digest(format!("{pod_uid}{volume}").as_bytes()))
}

/// The name that the Node's status has for an attached volume.
pub fn unique_name(driver: &str, handle: &str) -> String {
    format!("kubernetes.io/csi/{driver}^{handle}")
}

/// Whether a text may be one folder of a path.
pub fn is_segment(text: &str) -> bool {
    !text.is_empty() && text.len() <= 255 && text != "." && text != ".." && !text.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(bytes: &[u8]) -> String {
        format!("<{}>", String::from_utf8_lossy(bytes))
    }

    /// VOL-41.
    #[test]
    fn paths_and_names_are_upstreams() {
        let place = DevicePlace::of("drv", "h/1", plain);
        assert_eq!(place, DevicePlace::FileSystem { driver: "drv".to_owned(), digest: "<h/1>".to_owned() });
        let place = DevicePlace::FileSystem { driver: "drv".to_owned(), digest: "0a1b".to_owned() };
        let root = Path::new("/var/lib/kubelet");
        let path = place.staging_path(root);
        assert_eq!(path, Path::new("/var/lib/kubelet/plugins/kubernetes.io/csi/drv/0a1b/globalmount"));
        assert_eq!(attachment_name("h", "drv", "n", plain), "csi-<hdrvn>");
        assert_eq!(ephemeral_handle("uid", "vol", plain), "csi-<uidvol>");
        assert_eq!(unique_name("drv", "h"), "kubernetes.io/csi/drv^h");
        assert!(is_segment("pv-1") && !is_segment("..") && !is_segment("a/b") && !is_segment(""));
    }

    /// VOL-47.
    #[test]
    fn a_device_is_staged_published_and_mapped_by_the_name_of_its_volume() {
        let (root, place) = (Path::new("/r"), DevicePlace::block("pv-1"));
        let below = |rest: &str| PathBuf::from(format!("/r/plugins/kubernetes.io/csi/volumeDevices/{rest}"));
        assert_eq!(place.staging_path(root), below("staging/pv-1"));
        assert_eq!(publish_path(root, "pv-1", &PodUid::from("u")), below("publish/pv-1/u"));
        assert_eq!(block_map_path(root, "pv-1"), below("pv-1/dev"));
        assert_eq!(place.below_plugins(), ["kubernetes.io", "csi", "volumeDevices", "pv-1"]);
    }
}
