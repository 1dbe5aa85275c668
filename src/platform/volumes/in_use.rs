//! Volumes that the cluster attaches to this node and that are mounted here (NODE-24), as the mount table and CSI's own
//! files tell it: also those that another node agent mounted before this one. Reads; keeps nothing.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use serde::Deserialize;

use super::kinds::csi_data::{found_below, names_in};
use crate::logic::volumes::csi::names::{BLOCK_DATA, DEVICES};
use crate::platform::files::mount_table;
use crate::platform::files::safe_path::{Directory, Mounts};

/// Where CSI's volumes of the whole node are, below the root directory.
const OF_NODE: [&str; 3] = ["plugins", "kubernetes.io", "csi"];
/// The name of a volume's global mount.
const GLOBAL_MOUNT: &str = "globalmount";
/// The name of a pod's mount.
const POD_MOUNT: &str = "mount";
/// The plugin's folder among a pod's volumes.
const OF_POD: &str = "kubernetes.io~csi";
/// The file that says which volume a mount is.
const DATA_FILE: &str = "vol_data.json";
/// More than that is in no such file.
const DATA_BYTES_MAX: u64 = 64 << 10;

/// The fields of that file that are read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeData {
    driver_name: String,
    volume_handle: String,
    volume_lifecycle_mode: String,
}

/// The names of all such volumes, as the Node's status has them, sorted.
pub(super) fn attached(root: &Path) -> io::Result<BTreeSet<String>> {
    let places: BTreeSet<PathBuf> =
        mount_table::read()?.iter().filter_map(|mount| data_folder(mount.point.strip_prefix(root).ok()?)).collect();
    // A volume that is staged, or may be, is in use whether or not it is mounted: a driver may still be at work on it.
    let places: BTreeSet<PathBuf> = places.into_iter().chain(staged(root)?).collect();
    let mut names = BTreeSet::new();
    for place in places {
        match name_of(root, &place) {
            Ok(name) => names.extend(name),
            // The pod of the mount cannot be known any more.
            Err(error) => {
                tracing::warn!(place = %place.display(), %error, "a volume of CSI is mounted and has no name")
            }
        }
    }
    Ok(names)
}

/// The folders of volumes that have a file of the whole node.
fn staged(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![];
    let all = match Directory::open(root)?.directory(&OF_NODE, Mounts::Cross) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        other => other?,
    };
    for (driver, kind) in names_in(&all)? {
        if kind != FileType::Directory {
            continue;
        }
        // Of devices the file has a folder of its own.
        let data = (driver == DEVICES).then_some(BLOCK_DATA);
        let Some(below) = found_below(&all, &driver, Mounts::Cross)? else { continue };
        for (volume, _) in names_in(&below)?.into_iter().filter(|(_, kind)| *kind == FileType::Directory) {
            let folders: Vec<&str> = std::iter::once(&*volume).chain(data).collect();
            let folder = match below.directory(&folders, Mounts::Cross) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            if folder.kind(DATA_FILE)?.is_some() {
                found.push(OF_NODE.iter().copied().chain([&*driver]).chain(folders).collect());
            }
        }
    }
    Ok(found)
}

/// Where the file is that names what is mounted here, if CSI mounted it. Both paths are below the root directory.
fn data_folder(point: &Path) -> Option<PathBuf> {
    let parts: Vec<&str> = point.components().map(|part| part.as_os_str().to_str()).collect::<Option<_>>()?;
    match parts[..] {
        ["plugins", "kubernetes.io", "csi", DEVICES, "staging" | "publish", volume, ..] => {
            Some(OF_NODE.iter().copied().chain([DEVICES, volume, "data"]).collect())
        }
        ["plugins", "kubernetes.io", "csi", .., GLOBAL_MOUNT] | ["pods", _, "volumes", OF_POD, _, POD_MOUNT] => {
            point.parent().map(Path::to_path_buf)
        }
        _ => None,
    }
}

fn name_of(root: &Path, place: &Path) -> io::Result<Option<String>> {
    let mut segments: Vec<&str> = place.iter().filter_map(|part| part.to_str()).collect();
    segments.push(DATA_FILE);
    let file = Directory::open(root)?.read_regular(&segments, Mounts::Cross)?;
    let file = file.ok_or_else(|| io::Error::other("it is not a regular file"))?;
    let mut bytes = vec![];
    file.take(DATA_BYTES_MAX).read_to_end(&mut bytes)?;
    let data: VolumeData = serde_json::from_slice(&bytes)?;
    if data.driver_name.is_empty() || data.volume_handle.is_empty() {
        return Err(io::Error::other("it names no volume"));
    }
    // A volume that a pod brings along itself is attached by nobody.
    let is_attached = data.volume_lifecycle_mode != "Ephemeral";
    Ok(is_attached.then(|| format!("kubernetes.io/csi/{}^{}", data.driver_name, data.volume_handle)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NODE-24.
    #[test]
    fn mounts_of_csi_are_told_from_others() {
        for (point, folder) in [
            ("pods/u/volumes/kubernetes.io~csi/pv-1/mount", Some("pods/u/volumes/kubernetes.io~csi/pv-1")),
            ("plugins/kubernetes.io/csi/drv/0a1b/globalmount", Some("plugins/kubernetes.io/csi/drv/0a1b")),
            ("plugins/kubernetes.io/csi/pv/pv-1/globalmount", Some("plugins/kubernetes.io/csi/pv/pv-1")),
            (
                "plugins/kubernetes.io/csi/volumeDevices/publish/pv-1/u",
                Some("plugins/kubernetes.io/csi/volumeDevices/pv-1/data"),
            ),
            (
                "plugins/kubernetes.io/csi/volumeDevices/staging/pv-1",
                Some("plugins/kubernetes.io/csi/volumeDevices/pv-1/data"),
            ),
            ("pods/u/volumes/kubernetes.io~empty-dir/a/mount", None),
            ("pods/u/volumes/kubernetes.io~csi/pv-1", None),
            ("pods/u/volume-subpaths/pv-1/c/0", None),
            ("plugins/kubernetes.io/csi", None),
        ] {
            assert_eq!(data_folder(Path::new(point)).as_deref(), folder.map(Path::new), "{point}");
        }
    }

    #[test]
    fn a_volume_is_named_as_its_driver_names_it() {
        let root = tempfile::tempdir().expect("a folder");
        let place = Path::new("pods/u/volumes/kubernetes.io~csi/pv-1");
        std::fs::create_dir_all(root.path().join(place)).expect("made");
        for (data, name) in [
            (
                r#"{"driverName":"drv","volumeHandle":"h/1","volumeLifecycleMode":"Persistent","nodeName":"n"}"#,
                Some("kubernetes.io/csi/drv^h/1"),
            ),
            (r#"{"driverName":"drv","volumeHandle":"h","volumeLifecycleMode":"Ephemeral"}"#, None),
        ] {
            std::fs::write(root.path().join(place).join(DATA_FILE), data).expect("written");
            assert_eq!(name_of(root.path(), place).expect("read").as_deref(), name);
        }
        for broken in ["", "{}", "[]", r#"{"driverName":"drv"}"#] {
            std::fs::write(root.path().join(place).join(DATA_FILE), broken).expect("written");
            assert!(name_of(root.path(), place).is_err(), "{broken}");
        }
        std::fs::remove_file(root.path().join(place).join(DATA_FILE)).expect("there");
        std::os::unix::fs::symlink("/etc/passwd", root.path().join(place).join(DATA_FILE)).expect("linked");
        assert!(name_of(root.path(), place).is_err(), "a link");
    }
}
