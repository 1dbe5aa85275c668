//! The agent's own directories, made before anything uses them (CFG-42).
//!
//! Called by `main` once. Keeps nothing.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use crate::platform::files::mount_table;

/// Where links to containers' logs are, which log collectors know.
pub const CONTAINER_LOG_LINKS: &str = "/var/log/containers";

/// A directory and its mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Absolute.
    pub path: PathBuf,
    /// Given to it when it is made, whatever the umask.
    pub mode: u32,
}

/// A directory that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("make directory {path}: {problem}", path = path.display())]
pub struct MakeError {
    /// Which.
    pub path: PathBuf,
    /// The kernel's error.
    pub problem: io::Error,
}

/// The set below a root directory and a pod logs directory, and that of device plugins; parents first (CFG-42).
pub fn wanted(root_dir: &Path, pod_logs_dir: &Path, device_plugin_dir: &Path) -> Vec<Wanted> {
    let below = |name: &str| root_dir.join(name);
    let set = [
        (root_dir.to_path_buf(), 0o750),
        (below("pods"), 0o750),
        (below("plugins"), 0o750),
        (below("plugins_registry"), 0o750),
        (below("pod-resources"), 0o750),
        (below("checkpoints"), 0o700),
        (device_plugin_dir.to_path_buf(), 0o750),
        (pod_logs_dir.to_path_buf(), 0o750),
        (PathBuf::from(CONTAINER_LOG_LINKS), 0o755),
    ];
    set.into_iter().map(|(path, mode)| Wanted { path, mode }).collect()
}

/// Makes directories that are not there, with their modes; parents that are not there get 0755. One that is there keeps
/// its mode: an administrator may have meant it.
///
/// # Errors
/// The first that could not be made; those before it were.
pub fn make(wanted: &[Wanted]) -> Result<(), MakeError> {
    for Wanted { path, mode } in wanted {
        make_one(path, *mode).map_err(|problem| MakeError { path: path.clone(), problem })?;
    }
    Ok(())
}

/// Makes the folder of certificates, with upstream's mode: others may read certificates there, and keys have modes of
/// their own.
///
/// # Errors
/// When it cannot be made.
pub fn make_certificate_folder(path: &Path) -> io::Result<()> {
    make_one(path, 0o755)
}

/// Sees to it that mounts below the root directory are shared with the runtime and with what its containers mount there:
/// on a mount that is not shared, the directory is mounted onto itself and that mount is shared. Says whether it did.
///
/// # Errors
/// When the directory is not there, or the process may not mount.
pub fn share_mounts(root_dir: &Path) -> Result<bool, ShareError> {
    const NONE: Option<&str> = None;
    let share = || -> io::Result<bool> {
        let real = std::fs::canonicalize(root_dir)?;
        let held = mount_table::holding(&real)?;
        if held.as_ref().is_some_and(|mount| mount.shared) {
            return Ok(false);
        }
        if held.is_none_or(|mount| mount.point != real) {
            mount(Some(&real), &real, NONE, MsFlags::MS_BIND, NONE)?;
        }
        mount(NONE, &real, NONE, MsFlags::MS_SHARED | MsFlags::MS_REC, NONE)?;
        Ok(true)
    };
    share().map_err(|problem| ShareError { path: root_dir.to_path_buf(), problem })
}

/// The root directory's mounts could not be shared.
#[derive(Debug, thiserror::Error)]
#[error("share mounts of {path}: {problem}", path = path.display())]
pub struct ShareError {
    /// The root directory.
    pub path: PathBuf,
    /// The kernel's error.
    pub problem: io::Error,
}

fn make_one(path: &Path, mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        for parent in parent.ancestors().collect::<Vec<_>>().into_iter().rev().filter(|it| !it.as_os_str().is_empty()) {
            make_level(parent, 0o755)?;
        }
    }
    make_level(path, mode)
}

fn make_level(path: &Path, mode: u32) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)),
        // A link to a directory is one too: the administrator's choice.
        Err(error) => {
            if path.is_dir() {
                Ok(())
            } else {
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("there").permissions().mode() & 0o7777
    }

    /// VOL-14, CFG-42.
    #[test]
    fn the_set_is_made_with_its_modes() {
        let folder = tempfile::tempdir().expect("a directory");
        let (root, logs) = (folder.path().join("lib/kubelet"), folder.path().join("log/pods"));
        let devices = folder.path().join("lib/kubelet/device-plugins");
        let set = wanted(&root, &logs, &devices).into_iter();
        let set: Vec<Wanted> = set.filter(|wanted| wanted.path.starts_with(folder.path())).collect();
        make(&set).expect("made");
        make(&set).expect("there already");
        let modes = [
            ("lib", 0o755),
            ("lib/kubelet", 0o750),
            ("lib/kubelet/pods", 0o750),
            ("lib/kubelet/plugins", 0o750),
            ("lib/kubelet/plugins_registry", 0o750),
            ("lib/kubelet/device-plugins", 0o750),
            ("lib/kubelet/pod-resources", 0o750),
            ("lib/kubelet/checkpoints", 0o700),
            ("log/pods", 0o750),
        ];
        for (below, expected) in modes {
            assert_eq!(mode(&folder.path().join(below)), expected, "{below}");
        }
    }

    #[test]
    fn what_is_there_keeps_its_mode_and_may_be_a_link() {
        let folder = tempfile::tempdir().expect("a directory");
        let there = folder.path().join("there");
        make_one(&there, 0o711).expect("made");
        std::os::unix::fs::symlink(&there, folder.path().join("link")).expect("linked");
        make(&[Wanted { path: folder.path().join("link"), mode: 0o750 }]).expect("there");
        assert_eq!(mode(&there), 0o711);
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("file");
        std::fs::write(&path, "").expect("written");
        let text = make(&[Wanted { path: path.clone(), mode: 0o750 }]).expect_err("a file").to_string();
        assert!(text.starts_with(&format!("make directory {}: ", path.display())), "{text}");
    }

    /// VOL-16.
    #[test]
    fn mounts_of_the_root_directory_become_shared_once() {
        let folder = tempfile::tempdir().expect("a directory");
        let outer = folder.path().join("outer");
        let root = outer.join("kubelet");
        std::fs::create_dir(&outer).expect("made");
        let run = |tool: &str, arguments: &[&str]| {
            let status = std::process::Command::new(tool).args(arguments).arg(&outer).status();
            status.is_ok_and(|status| status.success())
        };
        if !run("mount", &["-t", "tmpfs", "none"]) {
            return; // not allowed to mount
        }
        let private = run("mount", &["--make-private"]);
        std::fs::create_dir(&root).expect("made");
        std::fs::write(root.join("file"), "kept").expect("written");
        let outcome = (share_mounts(&root), share_mounts(&root));
        let held = mount_table::holding(&root);
        let kept = root.join("file").exists();
        assert!(run("umount", &["--recursive"]) && private && kept);
        assert!(matches!(outcome, (Ok(true), Ok(false))), "{outcome:?}");
        let held = held.expect("told").expect("mounted");
        assert_eq!((held.point, held.shared), (root, true));
    }

    #[test]
    fn a_root_directory_that_is_missing_is_named() {
        let text = share_mounts(Path::new("/no/such/root")).expect_err("missing").to_string();
        assert!(text.starts_with("share mounts of /no/such/root: "), "{text}");
    }
}
