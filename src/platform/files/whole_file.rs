//! Files that are there whole or not at all: written beside their place, then moved there.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
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
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = Path::new(&beside);
    // One left over by a run that was killed here is in the way of the exclusive creation.
    match fs::remove_file(beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(beside)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(beside, path)
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
