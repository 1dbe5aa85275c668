//! The directory where device plugins register: sockets of an earlier run go, all else stays (RES-39).

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{FileType, XattrFlags};

use crate::platform::files::safe_path::Directory;

/// Of the directory, where it has to be made.
const MODE: u32 = 0o750;
/// The label with which containers may use it, as upstream's.
const SELINUX_LABEL: &[u8] = b"system_u:object_r:container_file_t:s0";

/// Makes the directory if it is not there, and removes every socket directly in it: a plugin sees by that that the agent was
/// started, and registers again. Links are not followed.
///
/// # Errors
/// The directory cannot be made or read, or a socket cannot be removed.
pub fn clear(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(MODE).create(path)?;
    let folder = Directory::open(path)?;
    // As libselinux finds out whether it is on.
    if Path::new("/sys/fs/selinux/enforce").exists()
        && let Err(error) = rustix::fs::fsetxattr(&folder, "security.selinux", SELINUX_LABEL, XattrFlags::empty())
    {
        tracing::warn!(
            path = %path.display(),
            %error,
            "Unprivileged containerized plugins might not work. Could not set selinux context on socket dir"
        );
    }
    let sockets = folder.names()?.into_iter().filter(|(_, kind)| *kind == FileType::Socket);
    for (name, _) in sockets {
        folder.remove_file(&name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// RES-39.
    #[test]
    fn sockets_go_and_all_else_stays() {
        let top = tempfile::tempdir().expect("a folder");
        let folder = top.path().join("device-plugins");
        clear(&folder).expect("made");
        let mode = std::fs::metadata(&folder).expect("there").permissions().mode();
        assert_eq!(mode & 0o027, 0, "nobody else may look in: {mode:o}");
        let elsewhere = top.path().join("elsewhere.sock");
        let _sockets = ["kubelet.sock", "gpu.sock", "../elsewhere.sock"]
            .map(|name| UnixListener::bind(folder.join(name)).expect("bound"));
        std::fs::write(folder.join("kubelet_internal_checkpoint"), "{}").expect("written");
        std::fs::create_dir(folder.join("below")).expect("made");
        let _below = UnixListener::bind(folder.join("below/a.sock")).expect("bound");
        symlink(&elsewhere, folder.join("link.sock")).expect("linked");
        clear(&folder).expect("cleared");
        let mut left: Vec<String> = std::fs::read_dir(&folder)
            .expect("read")
            .map(|entry| entry.expect("read").file_name().into_string().expect("UTF-8"))
            .collect();
        left.sort();
        assert_eq!(left, ["below", "kubelet_internal_checkpoint", "link.sock"]);
        assert!(folder.join("below/a.sock").exists() && elsewhere.exists());
    }
}
