//! Looks at a path of the host that a pod names (VOL-22, SEC-09). Links are followed: the path is the administrator's
//! and the runtime's to resolve. Missing directories are made by descriptors, for another pod may write in the same
//! directory and put a link where something was just made. Keeps nothing.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::logic::volumes::order::HostPathKind;
use crate::platform::volumes::VolumeError;
use crate::platform::volumes::layout::open_path;
use crate::platform::volumes::level::make_level;

/// Mode of a directory that is made.
const DIRECTORY: u32 = 0o755;
/// Mode of a file that is made.
const FILE: u32 = 0o644;

/// Checks the path, and makes what may be made.
pub(in crate::platform::volumes) fn check(path: &str, kind: HostPathKind) -> Result<(), VolumeError> {
    let (name, wanted) = match kind {
        HostPathKind::Unset => return Ok(()),
        HostPathKind::DirectoryOrCreate | HostPathKind::Directory => ("directory", FileType::Directory),
        HostPathKind::FileOrCreate | HostPathKind::File => ("file", FileType::RegularFile),
        HostPathKind::Socket => ("socket file", FileType::Socket),
        HostPathKind::CharDevice => ("character device", FileType::CharacterDevice),
        HostPathKind::BlockDevice => ("block device", FileType::BlockDevice),
    };
    let place = Path::new(path);
    let failed = |attempt| move |error: io::Error| VolumeError::failed(attempt, place, error);
    let mut found = look(place).map_err(failed("look at"))?;
    match (found, kind) {
        (None, HostPathKind::DirectoryOrCreate) => return make_directory(place).map_err(failed("make directory")),
        (None, HostPathKind::FileOrCreate) => match make_file(place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                found = look(place).map_err(failed("look at"))?; // Somebody else was quicker.
                if found.is_none() {
                    return Err(failed("make file")(error)); // A link to nothing.
                }
            }
            made => return made.map_err(failed("make file")),
        },
        _ => {}
    }
    match found {
        Some(found) if found == wanted => Ok(()),
        _ => Err(VolumeError::Refused(format!("hostPath type check failed: {path} is not a {name}"))),
    }
}

fn look(path: &Path) -> io::Result<Option<FileType>> {
    match open_path(path) {
        Ok(found) => Ok(Some(FileType::from_raw_mode(rustix::fs::fstat(found)?.st_mode))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes what is missing, level by level from the last one that is there.
fn make_directory(path: &Path) -> io::Result<()> {
    let mut missing: Vec<&OsStr> = Vec::new();
    for level in path.ancestors() {
        match open_directory(level) {
            Ok(mut here) => {
                for name in missing.into_iter().rev() {
                    here = make_level(&here, name, Mode::from_raw_mode(DIRECTORY))?;
                }
                return Ok(());
            }
            Err(Errno::NOENT) => missing.extend(level.file_name()),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno::NOENT.into())
}

/// Never through a dangling link: that would make a file wherever it points.
fn make_file(path: &Path) -> io::Result<()> {
    let (parent, name) = path.parent().zip(path.file_name()).ok_or(Errno::ISDIR)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(FILE);
    let file = rustix::fs::openat(open_directory(parent)?, name, flags, mode)?;
    Ok(rustix::fs::fchmod(file, mode)?)
}

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// VOL-22, SEC-09.
    #[test]
    fn sec_09_each_kind_is_checked_in_upstreams_words() {
        use HostPathKind::*;
        let folder = tempfile::tempdir().expect("a directory");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (directory, file, socket) = (path("directory"), path("file"), path("socket"));
        std::fs::create_dir(&directory).expect("made");
        std::fs::write(&file, "").expect("written");
        let _listener = UnixListener::bind(&socket).expect("bound");
        let missing = path("missing");
        std::os::unix::fs::symlink(&directory, path("link")).expect("linked");
        let cases = [
            (&missing, Unset, None),
            (&directory, Directory, None),
            (&path("link"), Directory, None),
            (&directory, DirectoryOrCreate, None),
            (&file, DirectoryOrCreate, Some("directory")),
            (&missing, Directory, Some("directory")),
            (&file, File, None),
            (&file, FileOrCreate, None),
            (&directory, FileOrCreate, Some("file")),
            (&missing, File, Some("file")),
            (&socket, Socket, None),
            (&file, Socket, Some("socket file")),
            (&"/dev/null".to_owned(), CharDevice, None),
            (&file, CharDevice, Some("character device")),
            (&"/dev/null".to_owned(), BlockDevice, Some("block device")),
        ];
        for (path, kind, wanted) in cases {
            let expected = wanted.map(|wanted| format!("hostPath type check failed: {path} is not a {wanted}"));
            let found = check(path, kind).err().map(|error| error.to_string());
            assert_eq!(found, expected, "{path} {kind:?}");
        }
    }

    /// SEC-09.
    #[test]
    fn what_may_be_made_is_made_with_its_mode() {
        let folder = tempfile::tempdir().expect("a directory");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o7777;
        let deep = folder.path().join("a/b");
        check(&deep.display().to_string(), HostPathKind::DirectoryOrCreate).expect("made");
        assert_eq!(mode(&deep), 0o755);
        let file = deep.join("file");
        check(&file.display().to_string(), HostPathKind::FileOrCreate).expect("made");
        assert_eq!(mode(&file), 0o644);
        let nowhere = folder.path().join("none/file").display().to_string();
        check(&nowhere, HostPathKind::FileOrCreate).expect_err("its directory must be there");
    }

    /// SEC-09.
    #[test]
    fn a_file_is_not_made_through_a_dangling_link() {
        let folder = tempfile::tempdir().expect("a directory");
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        check(&link.display().to_string(), HostPathKind::FileOrCreate).expect_err("a link to nothing");
        assert!(!target.exists());
    }

    /// SEC-09.
    #[test]
    fn each_level_that_is_made_has_the_mode_and_no_other() {
        let folder = tempfile::tempdir().expect("a directory");
        let mode =
            |name: &str| std::fs::metadata(folder.path().join(name)).expect("there").permissions().mode() & 0o7777;
        std::fs::create_dir(folder.path().join("private")).expect("made");
        std::fs::set_permissions(folder.path().join("private"), std::fs::Permissions::from_mode(0o700)).expect("set");
        let mut here = open_directory(folder.path()).expect("opened");
        for name in ["private", "made", "below"] {
            here = make_level(&here, OsStr::new(name), Mode::from_raw_mode(0o777)).expect("made");
        }
        assert_eq!(["private", "private/made", "private/made/below"].map(mode), [0o700, 0o777, 0o777]);
    }

    /// SEC-09: another pod puts a link where a level was just made.
    #[test]
    fn a_link_in_the_place_of_what_was_made_is_refused() {
        let folder = tempfile::tempdir().expect("a directory");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::create_dir(&target).expect("made");
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o700)).expect("set");
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        let parent = open_directory(folder.path()).expect("opened");
        make_level(&parent, OsStr::new("link"), Mode::from_raw_mode(DIRECTORY)).expect_err("a link");
        std::os::unix::fs::symlink("nowhere", folder.path().join("dangling")).expect("linked");
        let below = folder.path().join("dangling/below").display().to_string();
        check(&below, HostPathKind::DirectoryOrCreate).expect_err("a link to nothing");
        assert_eq!(std::fs::metadata(&target).expect("there").permissions().mode() & 0o7777, 0o700);
        assert!(!folder.path().join("nowhere").exists());
    }

    /// VOL-22: whoever asks at the same time gets no error that the file exists.
    #[test]
    fn a_file_that_somebody_else_makes_meanwhile_is_as_good() {
        for round in 0..50 {
            let folder = tempfile::tempdir().expect("a directory");
            let path = folder.path().join("file").display().to_string();
            let start = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                let ask = || {
                    start.wait();
                    check(&path, HostPathKind::FileOrCreate)
                };
                let all: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
                for one in all {
                    one.join().expect("ended").unwrap_or_else(|error| panic!("round {round}: {error}"));
                }
            });
        }
    }
}
