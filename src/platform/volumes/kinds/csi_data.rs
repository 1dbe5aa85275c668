//! `vol_data.json` on the disk (VOL-41): written whole or not at all, in a folder that is open.

use std::io::{self, Read, Write};

use rustix::fs::FileType;

use crate::logic::volumes::csi::names::DATA_FILE;
use crate::logic::volumes::csi::users::VolumeUser;
use crate::logic::volumes::csi::volume_data::VolumeData;
use crate::logic::volumes::order::VolumePlace;
use crate::platform::files::safe_path::{Directory, Mounts};

/// More than that is in no such file.
const DATA_BYTES_MAX: u64 = 64 << 10;
/// The file before it has its name.
const DATA_NEW: &str = "vol_data.json.new";

/// Removes it, and what was cut off on the way to it.
pub(in crate::platform::volumes) fn forget_data(folder: &Directory) -> io::Result<()> {
    folder.remove_file(DATA_NEW)?;
    folder.remove_file(DATA_FILE).map(drop)
}

/// Writes the file, whole or not at all.
pub(in crate::platform::volumes) fn write_data(folder: &Directory, data: &VolumeData) -> io::Result<()> {
    if read_data(folder).is_ok_and(|found| found.as_ref() == Some(data)) {
        return Ok(());
    }
    folder.remove_file(DATA_NEW)?;
    let mut file = folder.make_file(DATA_NEW, 0o640)?;
    file.write_all(&data.to_json())?;
    file.sync_all()?;
    Ok(rustix::fs::renameat(folder, DATA_NEW, folder, DATA_FILE)?)
}

/// Reads it; `None` where there is none.
pub(in crate::platform::volumes) fn read_data(folder: &Directory) -> io::Result<Option<VolumeData>> {
    let file = match folder.read_regular(&[DATA_FILE], Mounts::Refuse) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?.ok_or_else(|| io::Error::other(format!("{DATA_FILE} is not a regular file")))?,
    };
    let mut bytes = vec![];
    file.take(DATA_BYTES_MAX).read_to_end(&mut bytes)?;
    let path = folder.path().join(DATA_FILE);
    VolumeData::parse(&bytes).map(Some).map_err(|why| io::Error::other(format!("{}: {why}", path.display())))
}

/// A folder directly below, read after its name was listed; `None` where it is gone by now.
pub(in crate::platform::volumes) fn found_below(
    parent: &Directory,
    name: &str,
    mounts: Mounts,
) -> io::Result<Option<Directory>> {
    match parent.directory(&[name], mounts) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Names in a folder that was opened; none where it is gone by now.
pub(in crate::platform::volumes) fn names_in(folder: &Directory) -> io::Result<Vec<(String, FileType)>> {
    match folder.names() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        other => other,
    }
}

/// Reads the file in a folder directly below; `None` without the file, or without the folder.
pub(in crate::platform::volumes) fn data_below(parent: &Directory, name: &str) -> io::Result<Option<VolumeData>> {
    found_below(parent, name, Mounts::Refuse)?.map_or(Ok(None), |folder| read_data(&folder))
}

/// A pod's use of a volume, as its file says; `None` without a file. A file that cannot be read still shows the use.
pub(in crate::platform::volumes) fn user_of(
    place: VolumePlace,
    read: io::Result<Option<VolumeData>>,
) -> Option<VolumeUser> {
    match read {
        Ok(None) => None,
        Ok(Some(data)) => Some(VolumeUser { place, data: Some(data) }),
        Err(error) => {
            tracing::warn!(%place, %error, "the file of a pod's volume cannot be read; the volume counts as used");
            Some(VolumeUser { place, data: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// VOL-45: pods end while others look.
    #[test]
    fn a_folder_that_goes_between_two_reads_is_none() {
        let root = tempfile::tempdir().expect("a folder");
        for below in ["gone", "kept", "broken"] {
            fs::create_dir(root.path().join(below)).expect("made");
        }
        fs::write(root.path().join("kept").join(DATA_FILE), r#"{"driverName":"d","volumeHandle":"h"}"#)
            .expect("written");
        fs::write(root.path().join("broken").join(DATA_FILE), "").expect("written");
        let parent = Directory::open(root.path()).expect("opened");
        let gone = parent.directory(&["gone"], Mounts::Refuse).expect("opened");
        fs::remove_dir(root.path().join("gone")).expect("removed");
        assert_eq!(names_in(&gone).expect("none"), []);
        assert!(found_below(&parent, "gone", Mounts::Refuse).expect("none").is_none());
        assert_eq!(data_below(&parent, "gone").expect("none"), None);
        assert!(data_below(&parent, "kept").expect("read").is_some());
        data_below(&parent, "broken").expect_err("it is empty");
    }
}
