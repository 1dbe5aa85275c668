//! The lock file: one agent at a time on a node, and a way to have the old one leave (CFG-33).
//!
//! Taken by `main` before anything starts. Keeps the open file; the lock ends with it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use inotify::{EventMask, Inotify, WatchMask};

/// How long to wait before the lock is tried again. A waiting call of the kernel would hold a thread that nothing can
/// stop, and with it the end of the process.
const RETRY: Duration = Duration::from_millis(200);

/// The lock, for as long as this is kept.
#[derive(Debug)]
pub struct LockFile {
    _file: File,
}

impl LockFile {
    /// Opens the file, making it (0600) when it is not there, and waits until nobody else holds its lock. Opening it
    /// tells a holder that watches with [`watch_contention`].
    ///
    /// # Errors
    /// When the file cannot be opened or locked at all.
    pub async fn acquire(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(RETRY).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

/// A watch on a lock file that is held; set up when this returns.
///
/// # Errors
/// When the file cannot be watched.
pub fn watch_contention(path: &Path) -> io::Result<Contention> {
    let inotify = Inotify::init()?;
    inotify.watches().add(path, WatchMask::OPEN | WatchMask::DELETE_SELF)?;
    Ok(Contention { events: inotify.into_event_stream([0; 1024])? })
}

/// Tells when someone else wants the lock.
#[derive(Debug)]
pub struct Contention {
    events: inotify::EventStream<[u8; 1024]>,
}

impl Contention {
    /// Ends when someone opened the file or removed it, or when the watch broke: then the holder is to leave.
    pub async fn seen(mut self) {
        while let Some(Ok(event)) = self.events.next().await {
            let ends = EventMask::OPEN | EventMask::DELETE_SELF | EventMask::Q_OVERFLOW | EventMask::IGNORED;
            if event.mask.intersects(ends) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Far more than a change takes to be seen.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn the_second_waits_for_the_first() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("lock");
        let first = LockFile::acquire(&path).await.expect("free");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let mut second = std::pin::pin!(LockFile::acquire(&path));
        let early = tokio::time::timeout(RETRY * 2, second.as_mut()).await;
        assert!(early.is_err(), "locked twice");
        drop(first);
        tokio::time::timeout(PATIENCE, second).await.expect("in time").expect("free");
    }

    #[tokio::test]
    async fn the_holder_sees_another_come() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("lock");
        let _held = LockFile::acquire(&path).await.expect("free");
        let watch = watch_contention(&path).expect("watched");
        let other = async { LockFile::acquire(&path).await };
        tokio::select! {
            () = watch.seen() => {}
            _ = other => panic!("locked twice"),
            () = tokio::time::sleep(PATIENCE) => panic!("not seen"),
        }
    }

    #[tokio::test]
    async fn the_holder_sees_the_file_go() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("lock");
        drop(LockFile::acquire(&path).await.expect("free"));
        let watch = watch_contention(&path).expect("watched");
        std::fs::remove_file(&path).expect("removed");
        tokio::time::timeout(PATIENCE, watch.seen()).await.expect("in time");
    }

    #[tokio::test]
    async fn a_path_that_cannot_be_a_file_is_an_error() {
        let folder = tempfile::tempdir().expect("a directory");
        LockFile::acquire(folder.path()).await.expect_err("a directory");
        LockFile::acquire(&folder.path().join("a/b")).await.expect_err("no directory");
        assert!(watch_contention(&folder.path().join("missing")).is_err());
    }
}
