//! Names and paths that follow from a driver and its volume, as upstream has them: another agent finds what this one made.

use std::path::{Path, PathBuf};

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

/// A volume that a driver stages for the whole node: what is there once, however many pods use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DevicePlace {
    /// The driver's name.
    pub driver: String,
    /// The folder's name: the digest of the volume's handle.
    pub digest: String,
}

impl DevicePlace {
    /// The place of a driver's volume.
    pub fn of(driver: &str, handle: &str, digest: Digest) -> Self {
        Self { driver: driver.to_owned(), digest: digest(handle.as_bytes()) }
    }

    /// The folders below `plugins` that lead to the volume's folder.
    pub fn below_plugins(&self) -> [&str; 4] {
        [OF_NODE[0], OF_NODE[1], &self.driver, &self.digest]
    }

    /// The path that the driver stages at.
    pub fn staging_path(&self, root: &Path) -> PathBuf {
        self.below_plugins().iter().fold(root.join("plugins"), |path, name| path.join(name)).join(GLOBAL_MOUNT)
    }
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
        assert_eq!(place.digest, "<h/1>");
        let place = DevicePlace { digest: "0a1b".to_owned(), ..place };
        let path = place.staging_path(Path::new("/var/lib/kubelet"));
        assert_eq!(path, Path::new("/var/lib/kubelet/plugins/kubernetes.io/csi/drv/0a1b/globalmount"));
        assert_eq!(attachment_name("h", "drv", "n", plain), "csi-<hdrvn>");
        assert_eq!(ephemeral_handle("uid", "vol", plain), "csi-<uidvol>");
        assert_eq!(unique_name("drv", "h"), "kubernetes.io/csi/drv^h");
        assert!(is_segment("pv-1") && !is_segment("..") && !is_segment("a/b") && !is_segment(""));
    }
}
