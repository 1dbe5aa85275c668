//! Directories of file servers (VOL-38). Not mounted by this process: the host's helper speaks with the server. Keeps
//! nothing.
//!
//! A server that does not answer makes each call hang that touches the mount. So mounts are read from the mount table, and
//! nothing here looks at the directory itself.

use std::io;
use std::time::Duration;

use crate::logic::volumes::order::VolumePlace;
use crate::platform::files::safe_path::Directory;
use crate::platform::volumes::VolumeError;
use crate::platform::volumes::layout::{Layout, PRIVATE, make_level, remove_empty};
use crate::platform::volumes::mounts::is_mounted;
use crate::platform::volumes::programs::{self, End};

/// How long an unmount may take before it is forced, and how long that may take.
const UNMOUNT_MAX: Duration = Duration::from_secs(60);

/// Mounts the server's directory. Mounted already, it is left as it is.
pub(in crate::platform::volumes) fn set_up(
    layout: &Layout,
    place: &VolumePlace,
    source: &str,
    options: &[String],
) -> Result<(), VolumeError> {
    let path = layout.path(place);
    let failed = |attempt| {
        let path = path.clone();
        move |error: io::Error| VolumeError::failed(attempt, &path, error)
    };
    let parent = layout.make_parent(place).map_err(failed("make directory of"))?;
    if is_mounted(&parent, &place.name).map_err(failed("look at"))? {
        return Ok(());
    }
    make_level(&parent, &place.name, PRIVATE).map_err(failed("make directory"))?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    programs::mount("nfs", &options, source, &path).map_err(|error| {
        // A helper may fail after it mounted. A mount that cannot be cleaned up now is taken down with the pod.
        let cleaned = unmount(layout, &parent, place).and_then(|()| remove_empty(&parent, &place.name));
        if let Err(problem) = cleaned {
            tracing::warn!(volume = %place, error = %problem, "what a failed mount left stays for now");
        }
        VolumeError::Refused(error.to_string())
    })
}

/// Unmounts it; by force when the server does not answer.
pub(in crate::platform::volumes) fn unmount(
    layout: &Layout,
    parent: &Directory,
    place: &VolumePlace,
) -> io::Result<()> {
    let path = layout.path(place);
    if !is_mounted(parent, &place.name)? {
        return Ok(());
    }
    let outcome = match programs::unmount(&path, false, Some(UNMOUNT_MAX)) {
        Err((End::TooLate, _)) => {
            tracing::warn!(volume = %place, "timed out waiting for unmount, trying with -f");
            programs::unmount(&path, true, Some(UNMOUNT_MAX))
        }
        other => other,
    };
    match outcome {
        Ok(()) if is_mounted(parent, &place.name)? => Err(io::Error::other("still mounted after unmount")),
        Ok(()) => Ok(()),
        Err((_, text)) => Err(io::Error::other(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::volumes::order::plugin;
    use crate::platform::volumes::locks::Locks;
    use crate::platform::volumes::tear_down;
    use crate::platform::volumes::testing::{Root, may_mount};

    /// VOL-38: no kernel here mounts an address that no server has, so what is left after a failure can be looked at
    /// everywhere.
    #[test]
    fn a_mount_that_fails_leaves_nothing_and_says_why() {
        if !may_mount() {
            return;
        }
        let root = Root::new();
        let place = root.place(plugin::NFS, "pv");
        // The host's helper, or the kernel without one, refuses a kind of option that there is not.
        let options = ["nfsvers=99".to_owned(), "ro".to_owned()];
        let error = set_up(&root.layout(), &place, "127.0.0.1:/x", &options).expect_err("no server").to_string();
        assert!(error.starts_with("mount failed: exit status "), "{error}");
        let path = root.layout().path(&place);
        let arguments = format!("Mounting arguments: -t nfs -o nfsvers=99,ro 127.0.0.1:/x {}\n", path.display());
        assert!(error.contains(&arguments), "{error}");
        assert!(!path.exists() && root.mounts().is_empty());
    }

    #[test]
    fn what_is_mounted_is_unmounted_and_what_is_in_it_stays() {
        if !may_mount() {
            return;
        }
        let (root, server) = (Root::new(), tempfile::tempdir().expect("a directory"));
        std::fs::write(server.path().join("data"), "kept").expect("written");
        let place = root.place(plugin::NFS, "share");
        let path = root.layout().path(&place);
        std::fs::create_dir_all(&path).expect("made");
        programs::mount("", &["bind"], &server.path().display().to_string(), &path).expect("mounted");
        // Mounted already: the server is not asked.
        set_up(&root.layout(), &place, "none:/", &[]).expect("there");
        tear_down::volume(&root.layout(), &Locks::default(), &place).expect("taken down");
        assert!(!path.exists() && root.mounts().is_empty());
        assert!(server.path().join("data").exists());
    }
}
