//! Empty directories (VOL-18, VOL-19, VOL-20), alone or under files. One that is alone is made once: the marker `ready` says
//! so, here and upstream, and what is in it survives restarts. Files are written over one whenever they change, and have no
//! marker: making the directory again changes nothing, here and upstream, and their writer gives all of it its owner.

use std::io;

use rustix::fs::Mode;

use crate::logic::volumes::order::{Medium, Ownership, VolumePlace};
use crate::platform::files::safe_path::Directory;
use crate::platform::volumes::VolumeError;
use crate::platform::volumes::layout::{Layout, make_level, open_through};
use crate::platform::volumes::mounts::{is_mounted, mount_huge_pages, mount_tmpfs};
use crate::platform::volumes::ownership;
use crate::platform::volumes::progress::Progress;

/// A container under any user may write there.
const OPEN_TO_ALL: u32 = 0o777;

/// Has the directory there, mounted if it is to be; gives it open.
pub(in crate::platform::volumes) fn set_up(
    layout: &Layout,
    place: &VolumePlace,
    medium: Medium,
    ownership: Ownership,
    progress: &Progress,
) -> Result<Directory, VolumeError> {
    let path = layout.path(place);
    let failed = |attempt| {
        let path = path.clone();
        move |error: io::Error| VolumeError::failed(attempt, &path, error)
    };
    let parent = layout.make_parent(place).map_err(failed("make directory of"))?;
    // The mount table is long on a node of many pods: it is not read for what is new.
    let is_new = parent.kind(&place.name).is_ok_and(|kind| kind.is_none());
    let mounted = !is_new && is_mounted(&parent, &place.name).map_err(failed("look at"))?;
    let ready = !is_new && layout.is_ready(place).map_err(failed("look at marker of"))?;
    let is_there = ready && (mounted || (medium == Medium::Disk && is_directory(&parent, &place.name)));
    if is_there {
        return open_through(&parent, &place.name).map_err(failed("open"));
    }
    if !mounted {
        make_level(&parent, &place.name, OPEN_TO_ALL).map_err(failed("make directory"))?;
    }
    let made = match medium {
        _ if mounted => Ok(()),
        Medium::Disk => Ok(()),
        Medium::Memory { size_max } => mount_tmpfs(&parent, &place.name, size_max),
        Medium::HugePages { page_size } => mount_huge_pages(&parent, &place.name, page_size),
    };
    made.map_err(failed("mount"))?;
    let directory = open_through(&parent, &place.name).map_err(failed("open"))?;
    if medium == Medium::Disk {
        open_to_all(&directory).map_err(|errno| failed("set mode of")(errno.into()))?;
    }
    if place.is_written() {
        return Ok(directory);
    }
    // As upstream, a failure here does not keep the pod from starting.
    if let Err(error) = ownership::apply(&directory, ownership, progress) {
        tracing::warn!(volume = %place, %error, "ownership of a volume could not be changed");
    }
    layout.set_ready(place).map_err(failed("mark"))?;
    Ok(directory)
}

/// All else of its mode stays: a volume that is written anew is the pod's group's already, and only a change of its files
/// would make it so again.
fn open_to_all(directory: &Directory) -> rustix::io::Result<()> {
    let mode = rustix::fs::fstat(directory)?.st_mode & 0o7777;
    rustix::fs::fchmod(directory, Mode::from_raw_mode(mode | OPEN_TO_ALL))
}

fn is_directory(parent: &Directory, name: &str) -> bool {
    matches!(parent.kind(name), Ok(Some(rustix::fs::FileType::Directory)))
}
