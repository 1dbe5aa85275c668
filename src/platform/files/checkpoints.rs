//! Small files below the agent's root directory that say what it decided, so that a later run knows (CFG state files).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::error::FileError;
use super::whole_file::{ASIDE, read_whole, write_whole};
use crate::logic::node::shutdown::times;
use crate::platform::host::blocking;

/// The most that is read of one: a thousand pods take less than a tenth of it.
const BYTES_MAX: u64 = 16 << 20;

/// Only the agent may read them; the times of a shutdown are for everyone, as upstream's (NODE-48).
fn mode_of(name: &str) -> u32 {
    if name == times::FILE_NAME { 0o644 } else { 0o600 }
}

/// The content of a file, read in place; `None` where there is none. For the start, before there are actors.
///
/// # Errors
/// As [`read_whole`].
pub fn read_now(path: &Path) -> io::Result<Option<Vec<u8>>> {
    read_whole(path, BYTES_MAX)
}

/// Files by name.
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// The content of the file; `None` where there is none.
    async fn read(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError>;
    /// Writes the file, whole or not at all.
    async fn write(&self, name: &'static str, bytes: Vec<u8>) -> Result<(), FileError>;
    /// Keeps the file for people to look at, where no agent reads it: as `<name>.corrupt`. An older one gives way.
    async fn set_aside(&self, name: &'static str) -> Result<(), FileError>;
}

/// The real ones.
pub struct FileCheckpoints {
    folder: PathBuf,
}

impl FileCheckpoints {
    /// Below the agent's root directory.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }
}

#[async_trait]
impl Checkpoints for FileCheckpoints {
    async fn read(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        let path = self.folder.join(name);
        let read = move || read_now(&path).map_err(|error| FileError::new("read", &path, &error));
        blocking::run(read).await
    }

    async fn write(&self, name: &'static str, bytes: Vec<u8>) -> Result<(), FileError> {
        let path = self.folder.join(name);
        let write =
            move || write_whole(&path, &bytes, mode_of(name)).map_err(|error| FileError::new("write", &path, &error));
        blocking::run(write).await
    }

    async fn set_aside(&self, name: &'static str) -> Result<(), FileError> {
        let path = self.folder.join(name);
        let aside = self.folder.join(format!("{name}{ASIDE}"));
        blocking::run(move || fs::rename(&path, &aside).map_err(|error| FileError::new("rename", &path, &error))).await
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn a_file_is_read_as_it_was_written_and_none_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = FileCheckpoints::new(folder.path());
        assert_eq!(files.read("state").await, Ok(None));
        files.write("state", b"one".to_vec()).await.expect("written");
        files.write("state", b"two".to_vec()).await.expect("written");
        assert_eq!(files.read("state").await, Ok(Some(b"two".to_vec())));
    }

    /// SEC-58: a pipe without a writer would be waited for, and a link would be followed.
    #[tokio::test]
    async fn sec_58_a_pipe_in_the_place_of_a_file_holds_up_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = FileCheckpoints::new(folder.path());
        nix::unistd::mkfifo(&folder.path().join("state"), nix::sys::stat::Mode::S_IRWXU).expect("made");
        assert_eq!(files.read("state").await, Ok(None));
        files.write("state", b"one".to_vec()).await.expect("written");
        assert_eq!(files.read("state").await, Ok(Some(b"one".to_vec())));
        assert!(fs::symlink_metadata(folder.path().join("state.corrupt")).is_ok(), "it is set aside");
    }

    /// NODE-48.
    #[tokio::test]
    async fn node_48_only_the_times_of_a_shutdown_are_for_everyone() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = FileCheckpoints::new(folder.path());
        for (name, mode) in [("state", 0o600), (times::FILE_NAME, 0o644)] {
            files.write(name, b"{}".to_vec()).await.expect("written");
            let told = fs::metadata(folder.path().join(name)).expect("there").permissions();
            assert_eq!(told.mode() & 0o777, mode, "{name}");
        }
    }

    /// SEC-58.
    #[tokio::test]
    async fn sec_58_a_file_that_is_set_aside_is_kept_and_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = FileCheckpoints::new(folder.path());
        for text in ["one", "two"] {
            files.write("state", text.into()).await.expect("written");
            files.set_aside("state").await.expect("set aside");
            assert_eq!(files.read("state").await, Ok(None));
            assert_eq!(fs::read_to_string(folder.path().join("state.corrupt")).expect("kept"), text);
        }
        let why = files.set_aside("state").await.expect_err("it is not there");
        assert!(why.path.ends_with("state"), "{why}");
    }
}
