//! Looks at a path of the host that a pod names (VOL-22, SEC-09). Links are followed: the path is the administrator's
//! and the runtime's to resolve. Keeps nothing.

use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::VolumeError;
use crate::logic::volumes::order::HostPathKind;

/// Checks the path, and makes what may be made.
pub(super) fn check(path: &str, kind: HostPathKind) -> Result<(), VolumeError> {
    let (place, wanted, is_wanted): (_, _, fn(&FileType) -> bool) = match kind {
        HostPathKind::Unset => return Ok(()),
        HostPathKind::DirectoryOrCreate | HostPathKind::Directory => (Path::new(path), "directory", FileType::is_dir),
        HostPathKind::FileOrCreate | HostPathKind::File => (Path::new(path), "file", FileType::is_file),
        HostPathKind::Socket => (Path::new(path), "socket file", FileTypeExt::is_socket),
        HostPathKind::CharDevice => (Path::new(path), "character device", FileTypeExt::is_char_device),
        HostPathKind::BlockDevice => (Path::new(path), "block device", FileTypeExt::is_block_device),
    };
    let failed = |attempt| move |error: io::Error| VolumeError::failed(attempt, place, error);
    let found = match std::fs::metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        other => Some(other.map_err(failed("look at"))?),
    };
    match (found.as_ref().map(Metadata::file_type), kind) {
        (None, HostPathKind::DirectoryOrCreate) => make_directory(place).map_err(failed("make directory")),
        (None, HostPathKind::FileOrCreate) => make_file(place).map_err(failed("make file")),
        (Some(found), _) if is_wanted(&found) => Ok(()),
        _ => Err(VolumeError::Refused(format!("hostPath type check failed: {path} is not a {wanted}"))),
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

/// Never through a dangling link: that would make a file wherever it points.
fn make_file(path: &Path) -> io::Result<()> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// VOL-22, SEC-09.
    #[test]
    fn each_kind_is_checked_in_upstreams_words() {
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
}
