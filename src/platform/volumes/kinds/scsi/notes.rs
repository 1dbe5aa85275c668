//! Which disk a pod's volume is on, as a file beside the pod tells it. The file is written before the disk is attached and
//! removed after it is detached. So an agent that comes after a crash finds what is to be taken down.

use std::io::{self, Read, Write};

use crate::logic::model::ids::PodUid;
use crate::logic::volumes::order::VolumePlace;
use crate::logic::volumes::scsi::Disk;
use crate::platform::files::safe_path::{Directory, Mounts};
use crate::platform::volumes::layout::Layout;

/// The file, in the folder of the pod that is about the volume.
const NOTE: &str = "disk.json";
/// More than that is in no such file.
const BYTES_MAX: u64 = 64 << 10;

/// Writes a file, whole or not at all.
pub(super) fn write_whole(folder: &Directory, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = format!("{name}.new");
    folder.remove_file(&new)?;
    let mut file = folder.make_file(&new, 0o640)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(rustix::fs::renameat(folder, &*new, folder, name)?)
}

/// Reads a file; `None` where there is none.
pub(super) fn read_whole(folder: &Directory, name: &str) -> io::Result<Option<Vec<u8>>> {
    let file = match folder.read_regular(&[name], Mounts::Refuse) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?.ok_or_else(|| io::Error::other(format!("{name} is not a regular file")))?,
    };
    let mut bytes = vec![];
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Notes which disk the volume is on.
pub(super) fn note(layout: &Layout, place: &VolumePlace, disk: &Disk) -> io::Result<()> {
    let folder = layout.make(&place.uid, &["plugins", &place.plugin, &place.name])?;
    write_whole(&folder, NOTE, &disk.to_json())
}

/// The disk that the volume is on, as noted.
pub(super) fn noted(layout: &Layout, place: &VolumePlace) -> io::Result<Option<Disk>> {
    let Some(folder) = layout.find(&place.uid, &["plugins", &place.plugin, &place.name])? else { return Ok(None) };
    let Some(bytes) = read_whole(&folder, NOTE)? else { return Ok(None) };
    Disk::parse(&bytes).map(Some).map_err(|why| io::Error::other(format!("{place}: {why}")))
}

/// All notes of one plugin, with the pods that they are about. One that cannot be read may be about any disk: nothing is
/// detached on half knowledge.
pub(super) fn all(layout: &Layout, plugin: &str) -> io::Result<Vec<(PodUid, Disk)>> {
    let mut found = vec![];
    for uid in layout.pods()? {
        let uid = PodUid::from(uid.as_str());
        let Some(folder) = layout.find(&uid, &["plugins", plugin])? else { continue };
        for (name, _) in folder.names()? {
            let (plugin, is_device) = (plugin.to_owned(), false);
            let place = VolumePlace { uid: uid.clone(), plugin, name, is_device };
            found.extend(noted(layout, &place)?.map(|disk| (uid.clone(), disk)));
        }
    }
    Ok(found)
}
