//! Gives a volume's files to the pod's group (VOL-29): depth first, the volume's root last, so that an interrupted walk
//! shows. Everything is changed by descriptor, no link is followed, no mount below is entered. Keeps one open directory a
//! level and nothing else, however many files there are.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::layout::by_descriptor;
use super::progress::Progress;
use crate::logic::volumes::order::{ChangePolicy, Ownership};

/// Directories deeper than this are an error. Paths of upstream's walk end at 4096 bytes.
const DEPTH_MAX: usize = 1024;
/// The group's rights to a file.
const WRITE: u32 = 0o660;
/// The group's rights where it may only read.
const READ: u32 = 0o440;
/// The group's further rights to a directory: to enter it, and to own what is made there.
const ENTER: u32 = 0o110;
const SET_GID: u32 = 0o2000;

/// Changes what is to be changed; says how many entries were looked at, 0 when the root showed that nothing is to be.
///
/// # Errors
/// A directory that cannot be read. An entry that cannot be changed is logged and left.
pub(super) fn apply(volume: impl AsFd, ownership: Ownership, progress: &Progress) -> io::Result<u64> {
    let Some(group) = ownership.fs_group else { return Ok(0) };
    let access = if ownership.read_only { READ } else { WRITE };
    let found = rustix::fs::fstat(&volume)?;
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    if ownership.policy == ChangePolicy::OnRootMismatch && is_as_wanted(&found, group, access) {
        return Ok(0);
    }
    let walk = Walk { group: Gid::from_raw(group), access, device: found.st_dev };
    progress.walking(|| {
        if is_directory {
            walk.directory(volume.as_fd(), progress)?;
        }
        walk.change(volume.as_fd(), &found);
        progress.counts();
        Ok(progress.look().1)
    })
}

fn is_as_wanted(root: &Stat, group: u32, access: u32) -> bool {
    let is_directory = FileType::from_raw_mode(root.st_mode) == FileType::Directory;
    let wanted = if is_directory { access | ENTER | SET_GID } else { access };
    root.st_gid == group && root.st_mode & wanted == wanted
}

struct Walk {
    group: Gid,
    access: u32,
    device: u64,
}

/// One level of the walk: what is open there, and what is still to be read of it.
struct Level {
    directory: OwnedFd,
    found: Stat,
    entries: Dir,
}

impl Walk {
    fn directory(&self, root: impl AsFd, progress: &Progress) -> io::Result<()> {
        let mut levels: Vec<Level> = Vec::new();
        let mut entries = Dir::read_from(&root)?;
        loop {
            match entries.read() {
                Some(entry) => {
                    let entry = entry?;
                    let name = entry.file_name();
                    if name == c"." || name == c".." {
                        continue;
                    }
                    progress.counts();
                    let parent = levels.last().map_or(root.as_fd(), |level| level.directory.as_fd());
                    let Some((handle, found)) = look(parent, name, self.device)? else { continue };
                    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
                        self.change(&handle, &found);
                        continue;
                    }
                    if found.st_dev != self.device {
                        continue; // Another file system's: not this volume's.
                    }
                    if levels.len() >= DEPTH_MAX {
                        return Err(Errno::NAMETOOLONG.into());
                    }
                    let directory = enter(&handle)?;
                    let below = Dir::read_from(&directory)?;
                    levels.push(Level { directory, found, entries: std::mem::replace(&mut entries, below) });
                }
                None => match levels.pop() {
                    Some(level) => {
                        self.change(&level.directory, &level.found);
                        entries = level.entries;
                    }
                    None => return Ok(()),
                },
            }
        }
    }

    /// As upstream, an entry that cannot be changed does not fail the mount.
    fn change(&self, handle: impl AsFd, found: &Stat) {
        if let Err(error) = self.try_change(handle, found) {
            tracing::warn!(inode = found.st_ino, error = %io::Error::from(error), "ownership of a file stays as it is");
        }
    }

    fn try_change(&self, handle: impl AsFd, found: &Stat) -> rustix::io::Result<()> {
        let kind = FileType::from_raw_mode(found.st_mode);
        if found.st_gid != self.group.as_raw() {
            rustix::fs::chownat(&handle, "", None, Some(self.group), AtFlags::EMPTY_PATH)?;
        }
        if kind == FileType::Symlink {
            return Ok(());
        }
        let more = if kind == FileType::Directory { self.access | ENTER | SET_GID } else { self.access };
        // From the mode before the change of group: that takes set-user-ID away, which is to stay.
        let wanted = (found.st_mode & 0o7777) | more;
        rustix::fs::chmod(by_descriptor(&handle), Mode::from_raw_mode(wanted))
    }
}

/// Opens an entry as what it is now, link or not; `None` when it is gone, or something is mounted on it: that is not this
/// volume's. A mount of the same file system is told by its entry in the directory above alone.
fn look(parent: impl AsFd, name: &std::ffi::CStr, device: u64) -> io::Result<Option<(OwnedFd, Stat)>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat2(&parent, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
        Ok(handle) => {
            let found = rustix::fs::fstat(&handle)?;
            Ok(Some((handle, found)))
        }
        // Before Linux 5.6, or behind a filter of system calls that does not know it.
        Err(Errno::NOSYS | Errno::PERM) => look_at_device(parent, name, device),
        Err(Errno::NOENT | Errno::XDEV) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The work of `openat2`, for kernels without it: there a mount of the same file system is not noticed.
fn look_at_device(parent: impl AsFd, name: &std::ffi::CStr, device: u64) -> io::Result<Option<(OwnedFd, Stat)>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        other => other?,
    };
    let found = rustix::fs::fstat(&handle)?;
    Ok((found.st_dev == device).then_some((handle, found)))
}

/// Opens the directory behind a handle for reading.
fn enter(handle: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&handle, ".", flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::Path;

    use nix::mount::{MsFlags, mount};

    use super::*;
    use crate::platform::files::safe_path::Directory;
    use crate::platform::volumes::testing::{Root, may_mount};

    const GROUP: u32 = 4242;

    fn of(path: &Path) -> (u32, u32) {
        let found = fs::symlink_metadata(path).expect("there");
        (found.gid(), found.mode() & 0o7777)
    }

    fn write(path: &Path, mode: u32) {
        fs::write(path, "").expect("written");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
    }

    fn ownership(read_only: bool, policy: ChangePolicy) -> Ownership {
        Ownership { fs_group: Some(GROUP), policy, read_only }
    }

    /// VOL-29.
    #[test]
    fn files_directories_and_links_become_the_groups() {
        for (read_only, file, program, directory) in [(false, 0o660, 0o4775, 0o2770), (true, 0o640, 0o4755, 0o2750)] {
            let (volume, outside) = (tempfile::tempdir().expect("made"), tempfile::tempdir().expect("made"));
            let (root, victim) = (volume.path(), outside.path().join("victim"));
            fs::set_permissions(root, Permissions::from_mode(0o700)).expect("set");
            write(&victim, 0o600);
            fs::create_dir(root.join("deep")).expect("made");
            fs::set_permissions(root.join("deep"), Permissions::from_mode(0o700)).expect("set");
            write(&root.join("deep/file"), 0o600);
            write(&root.join("program"), 0o4755);
            symlink(&victim, root.join("link")).expect("linked");
            symlink(outside.path(), root.join("way")).expect("linked");
            let opened = Directory::open(root).expect("opened");
            let seen =
                apply(&opened, ownership(read_only, ChangePolicy::Always), &Progress::default()).expect("walked");
            assert_eq!(seen, 6);
            assert_eq!(of(&root.join("deep")), (GROUP, directory));
            assert_eq!(of(&root.join("deep/file")), (GROUP, file));
            assert_eq!(of(&root.join("program")), (GROUP, program));
            assert_eq!(of(root), (GROUP, directory));
            assert_eq!(of(&root.join("link")).0, GROUP);
            assert_eq!(of(&victim), (0, 0o600), "a link was followed");
            assert_ne!(of(outside.path()).0, GROUP, "a link was followed");
        }
    }

    /// VOL-29: what is mounted below is not the volume's, be it of the same file system, and be it a file.
    #[test]
    fn what_is_mounted_below_keeps_its_group() {
        let root = Root::new();
        let (volume, others) = (root.folder.path().join("volume"), root.folder.path().join("others"));
        for folder in [&volume, &others] {
            fs::create_dir_all(folder.join("directory")).expect("made");
            write(&folder.join("directory/inside"), 0o600);
            write(&folder.join("file"), 0o600);
        }
        let none = None::<&str>;
        let mounted = |name: &str| mount(Some(&others.join(name)), &volume.join(name), none, MsFlags::MS_BIND, none);
        if !may_mount() {
            return;
        }
        mounted("directory").and_then(|()| mounted("file")).expect("mounted");
        write(&volume.join("own"), 0o600);
        let opened = Directory::open(&volume).expect("opened");
        apply(&opened, ownership(false, ChangePolicy::Always), &Progress::default()).expect("walked");
        assert_eq!(of(&volume.join("own")).0, GROUP);
        for name in ["directory", "directory/inside", "file"] {
            assert_ne!(of(&others.join(name)).0, GROUP, "{name}");
        }
        let by_name = |name: &std::ffi::CStr| look_at_device(&opened, name, 0).expect("looked").is_some();
        assert!(!by_name(c"own"), "another file system's");
        assert!(look_at_device(&opened, c"own", of_device(&volume)).expect("looked").is_some());
    }

    fn of_device(path: &Path) -> u64 {
        fs::metadata(path).expect("there").dev()
    }

    /// VOL-29.
    #[test]
    fn a_root_that_matches_ends_the_walk_before_it_begins() {
        let volume = tempfile::tempdir().expect("made");
        let file = volume.path().join("file");
        write(&file, 0o600);
        let opened = Directory::open(volume.path()).expect("opened");
        let on_mismatch = ownership(false, ChangePolicy::OnRootMismatch);
        assert_eq!(apply(&opened, on_mismatch, &Progress::default()).expect("walked"), 2);
        write(&file, 0o600);
        assert_eq!(apply(&opened, on_mismatch, &Progress::default()).expect("walked"), 0);
        assert_eq!(of(&file).1, 0o600);
        assert_eq!(apply(&opened, ownership(false, ChangePolicy::Always), &Progress::default()).expect("walked"), 2);
        assert_eq!(of(&file).1, 0o660);
    }

    #[test]
    fn a_deep_tree_is_walked_and_one_too_deep_is_an_error() {
        for (depth, fits) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false)] {
            let volume = tempfile::tempdir().expect("made");
            let opened = Directory::open(volume.path()).expect("opened");
            let mut here: OwnedFd = rustix::io::dup(&opened).expect("dup");
            for _ in 0..depth {
                rustix::fs::mkdirat(&here, "d", Mode::from_raw_mode(0o755)).expect("made");
                here =
                    rustix::fs::openat(&here, "d", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("opened");
            }
            let walked = apply(&opened, ownership(false, ChangePolicy::Always), &Progress::default());
            assert_eq!(walked.is_ok(), fits, "{walked:?}");
            // The folder's own removal would go too deep.
            let parent = Directory::open(volume.path().parent().expect("below")).expect("opened");
            let name = volume.path().file_name().and_then(|name| name.to_str()).expect("text");
            parent.remove_tree(name).expect("removed");
        }
    }

    #[test]
    fn no_group_changes_nothing() {
        let volume = tempfile::tempdir().expect("made");
        let before = of(volume.path());
        assert_eq!(
            apply(Directory::open(volume.path()).expect("opened"), Ownership::default(), &Progress::default())
                .expect("walked"),
            0
        );
        assert_eq!(of(volume.path()), before);
    }
}
