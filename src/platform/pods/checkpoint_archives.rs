//! Where archives of checkpoints lie: a folder for root alone, and names that tell which container and when.
//!
//! Keeps nothing. Nobody but an administrator deletes archives, as upstream.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

use crate::logic::model::time::Moment;

/// Why there is no place for an archive, or why it stays open to others.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The folder can be neither made nor read.
    #[error("checkpoints in {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The folder holds as many archives as are allowed.
    #[error("{} holds {count} checkpoints, and more are not allowed", folder.display())]
    Full {
        /// The folder.
        folder: PathBuf,
        /// The archives in it, not counted beyond the bound.
        count: usize,
    },
    /// The archive keeps its mode.
    #[error("mode of {}: {source}", archive.display())]
    Mode {
        /// The archive.
        archive: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Where an archive is to be written: `<folder>/<name>-<local time>.tar`. Makes the folder if it is not there.
///
/// # Errors
/// The folder cannot be made or read, or there are `most` archives already.
pub fn place(folder: &Path, name: &str, now: Moment, most: Option<usize>) -> Result<PathBuf, ArchiveError> {
    let failed = |source: io::Error| ArchiveError::Folder { folder: folder.to_owned(), source };
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    if let Some(most) = most {
        let count = fs::read_dir(folder).map_err(failed)?.take(most).count();
        if count >= most {
            return Err(ArchiveError::Full { folder: folder.to_owned(), count });
        }
    }
    Ok(folder.join(format!("{name}-{}.tar", stamp(now, TimeZone::system()))))
}

/// Takes an archive from everyone but root. One that is not there is none of our business.
///
/// # Errors
/// It stays open to others.
pub fn close(archive: &Path) -> Result<(), ArchiveError> {
    match fs::symlink_metadata(archive) {
        Ok(found) if found.is_file() => fs::set_permissions(archive, Permissions::from_mode(0o600))
            .map_err(|source| ArchiveError::Mode { archive: archive.to_owned(), source }),
        _ => Ok(()),
    }
}

/// As Go's `time.RFC3339`.
fn stamp(now: Moment, zone: TimeZone) -> String {
    let local = now.to_timestamp().to_zoned(zone);
    let form = if local.offset().seconds() == 0 { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
    local.strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn archives_are_named_as_upstream_names_them() {
        let now = Moment::EPOCH.plus(Duration::from_secs(1_780_000_000));
        assert_eq!(stamp(now, TimeZone::UTC), "2026-05-28T20:26:40Z");
        assert_eq!(stamp(now, TimeZone::fixed(jiff::tz::offset(2))), "2026-05-28T22:26:40+02:00");
    }

    /// SEC-39: nobody else reads them, and there are no more than is allowed.
    #[test]
    fn sec_39_archives_are_for_root_alone_and_bounded() {
        let above = tempfile::tempdir().expect("a folder");
        let folder = above.path().join("checkpoints");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let first = place(&folder, "a", Moment::EPOCH, Some(1)).expect("room");
        assert_eq!(mode(&folder), 0o700);
        close(&first).expect("nothing was written");
        fs::write(&first, "memory").expect("written");
        fs::set_permissions(&first, Permissions::from_mode(0o644)).expect("set");
        close(&first).expect("closed");
        assert_eq!(mode(&first), 0o600);
        let error = place(&folder, "b", Moment::EPOCH, Some(1)).expect_err("no room").to_string();
        assert_eq!(error, format!("{} holds 1 checkpoints, and more are not allowed", folder.display()));
        place(&folder, "b", Moment::EPOCH, None).expect("no bound");
    }
}
