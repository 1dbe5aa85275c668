//! `vol_data.json` on the disk (VOL-41): written whole or not at all, in a folder that is open.

use std::io::{self, Read, Write};

use crate::logic::volumes::csi::names::DATA_FILE;
use crate::logic::volumes::csi::volume_data::VolumeData;
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
