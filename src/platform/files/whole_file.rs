//! Files of the agent's own that are there whole or not at all: written beside their place, then moved there.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Writes `bytes` to `path` with `mode`, whatever the umask, replacing what is there in one step; missing folders are made.
/// The file is on the disk when this returns. For the agent's own folders alone: links on the way are followed.
///
/// # Errors
/// When it cannot be written; what was at `path` is as it was then.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    replace(path, bytes, mode, fs::File::sync_all)
}

/// As [`write_whole`], in a folder that is there; the file need not outlive the machine.
///
/// # Errors
/// As [`write_whole`].
pub fn write_for_this_boot(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace(path, bytes, mode, |_| Ok(()))
}

/// The exclusive creation follows no link and opens nothing that somebody put at the name beside.
fn replace(path: &Path, bytes: &[u8], mode: u32, sync: fn(&fs::File) -> io::Result<()>) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = Path::new(&beside);
    // One left over by a run that was killed here is in the way of the exclusive creation.
    match fs::remove_file(beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(beside)?;
    let written = file.set_permissions(fs::Permissions::from_mode(mode)).and_then(|()| file.write_all(bytes));
    let done = written.and_then(|()| sync(&file)).and_then(|()| fs::rename(beside, path));
    if done.is_err() {
        let _ = fs::remove_file(beside); // Best effort: the next write removes it.
    }
    done
}

/// The end of the name of what was set aside.
pub const ASIDE: &str = ".corrupt";

/// Reads a file, at most so many bytes of it; `None` where there is none. A link, FIFO, socket or device in its place is not
/// the agent's: it is neither followed nor waited for, but set aside as `<name>.corrupt` with a warning, and counts as none.
///
/// # Errors
/// When the file cannot be read, or what is in its place cannot be set aside.
pub fn read_whole(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => return set_aside(path),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    // Somebody may have exchanged it since.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return set_aside(path);
    }
    let mut bytes = vec![];
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn set_aside(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(ASIDE);
    fs::rename(path, &aside)?;
    let aside = Path::new(&aside).display();
    tracing::warn!(path = %path.display(), %aside, "not a regular file where the agent keeps one; it is set aside");
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_left_overs_are_no_obstacle() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/er/file");
        write_whole(&path, b"one", 0o600).expect("written");
        fs::write(folder.path().join("deep/er/file.tmp"), "half").expect("written");
        write_whole(&path, b"two", 0o600).expect("written");
        assert_eq!(fs::read(&path).expect("there"), b"two");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        // No umask leaves these all.
        write_whole(&path, b"three", 0o666).expect("written");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o666);
        assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("there").count(), 1);
    }

    /// A link at the name beside would have root write where it leads, and a FIFO would have it wait for a reader.
    #[test]
    fn a_write_follows_nothing_that_lies_beside() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&other, "kept").expect("written");
        let beside = folder.path().join("file.tmp");
        std::os::unix::fs::symlink(&other, &beside).expect("linked");
        write_for_this_boot(&path, b"one", 0o600).expect("written");
        nix::unistd::mkfifo(&beside, nix::sys::stat::Mode::S_IRWXU).expect("made");
        write_for_this_boot(&path, b"two", 0o600).expect("written");
        assert_eq!(
            (fs::read(&path).expect("there"), fs::read(&other).expect("there")),
            (b"two".to_vec(), b"kept".to_vec())
        );
        assert!(fs::symlink_metadata(&beside).is_err(), "nothing is left beside it");
    }

    #[test]
    fn only_a_regular_file_is_read_and_all_else_is_set_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let aside = folder.path().join("file.corrupt");
        assert_eq!(read_whole(&path, 9).expect("none is no fault"), None);
        fs::write(&path, "text").expect("written");
        assert_eq!(read_whole(&path, 3).expect("read"), Some(b"tex".to_vec()));
        fs::rename(&path, folder.path().join("other")).expect("moved");
        for make in [
            (|path: &Path| std::os::unix::fs::symlink("other", path).expect("linked")) as fn(&Path),
            |path: &Path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("made"),
            |path: &Path| drop(std::os::unix::net::UnixListener::bind(path).expect("bound")),
        ] {
            make(&path);
            let kind = fs::symlink_metadata(&path).expect("there").file_type();
            assert_eq!(read_whole(&path, 9).expect("set aside"), None);
            assert!(fs::symlink_metadata(&path).is_err());
            assert_eq!(fs::symlink_metadata(&aside).expect("set aside").file_type(), kind);
        }
    }

    #[test]
    fn what_was_there_stays_when_it_cannot_be_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "one").expect("written");
        fs::create_dir(folder.path().join("file.tmp")).expect("made");
        assert!(write_whole(&path, b"two", 0o600).is_err());
        assert_eq!(fs::read(&path).expect("there"), b"one");
    }
}
