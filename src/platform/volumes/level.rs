//! Directories made in places where containers may rename and link all the while: a part of a volume, a path of the host.
//! Keeps nothing.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

/// Makes a directory, unless there is one, and gives it the mode, whatever the umask, if it was made here. Opens it: whatever
/// has its name by then, a link is refused, and what cannot be what was just made keeps its mode.
pub(super) fn make_level(parent: impl AsFd, name: &OsStr, mode: Mode) -> io::Result<OwnedFd> {
    let made = match rustix::fs::mkdirat(&parent, name, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false, // Somebody else was quicker.
        Err(errno) => return Err(errno.into()),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let level = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    if made && looks_new(&level)? {
        rustix::fs::fchmod(&level, mode)?;
    }
    Ok(level)
}

/// Whether this may be a directory that was just made: the agent's own, and empty.
fn looks_new(level: &OwnedFd) -> io::Result<bool> {
    if rustix::fs::fstat(level)?.st_uid != nix::unistd::geteuid().as_raw() {
        return Ok(false);
    }
    for entry in Dir::read_from(level)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_has_content_was_not_just_made() {
        let folder = tempfile::tempdir().expect("a directory");
        let parent = fs::File::open(folder.path()).expect("there");
        let level = make_level(&parent, OsStr::new("a"), Mode::from_raw_mode(0o1777)).expect("made");
        assert!(looks_new(&level).expect("read"));
        assert_eq!(fs::metadata(folder.path().join("a")).expect("there").permissions().mode() & 0o7777, 0o1777);
        fs::write(folder.path().join("a/x"), "").expect("written");
        assert!(!looks_new(&level).expect("read"));
        fs::set_permissions(folder.path().join("a"), fs::Permissions::from_mode(0o700)).expect("set");
        make_level(&parent, OsStr::new("a"), Mode::from_raw_mode(0o1777)).expect("there");
        assert_eq!(fs::metadata(folder.path().join("a")).expect("there").permissions().mode() & 0o7777, 0o700);
        std::os::unix::fs::symlink("a", folder.path().join("link")).expect("linked");
        assert!(make_level(&parent, OsStr::new("link"), Mode::from_raw_mode(0o755)).is_err());
    }
}
