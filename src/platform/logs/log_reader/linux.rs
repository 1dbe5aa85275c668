//! Logs of containers on a Linux file system.
//!
//! Owned by the server. Keeps the directory's path, what waits for changes, and how many readers there are. Files are
//! read beside the actors' threads, a few at a time: a reader that waits costs no thread.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::reading::{Reading, Step};
use super::watch::{Listening, Watch};
use super::{Admission, Change, LogReadError, LogReader, LogWanted, OpenLog, Part, READERS_MAX};
use crate::platform::host::blocking;

/// Files that are read at once: more would keep more threads, and make no disk faster.
const READS_MAX: usize = 4;
/// How long what was rotated may still be written to, after the next log is there: the runtime finishes what it has
/// begun.
const LATE: Duration = Duration::from_millis(250);

/// How long, and how often, a log that is missing is waited for.
const MISSING: Duration = Duration::from_millis(50);
const MISSING_MAX: u32 = 10;

/// [`LogReader`] on a real file system.
pub struct LinuxLogReader {
    shared: Arc<Shared>,
}

struct Shared {
    pod_logs: PathBuf,
    readers: Arc<Semaphore>,
    reads: Semaphore,
    watch: Arc<Watch>,
}

impl LinuxLogReader {
    /// Logs below `pod_logs`, absolute. Needs a runtime.
    pub fn new(pod_logs: PathBuf) -> Self {
        Self::with_room(pod_logs, READERS_MAX)
    }

    /// As [`Self::new`], for fewer readers.
    pub fn with_room(pod_logs: PathBuf, readers_max: usize) -> Self {
        let readers = Arc::new(Semaphore::new(readers_max));
        let reads = Semaphore::new(READS_MAX);
        Self { shared: Arc::new(Shared { pod_logs, readers, reads, watch: Arc::new(Watch::new()) }) }
    }
}

#[async_trait]
impl LogReader for LinuxLogReader {
    fn admit(&self) -> Option<Admission> {
        Arc::clone(&self.shared.readers).try_acquire_owned().ok()
    }

    async fn open(&self, wanted: LogWanted) -> Result<Box<dyn OpenLog>, LogReadError> {
        let ended = Ended::default();
        let shared = Arc::clone(&self.shared);
        let mut tries = 0;
        let reading = loop {
            let (wanted, seen) = (wanted.clone(), Arc::clone(&ended.0));
            match shared.run(move |shared| Reading::open(&shared.pod_logs, wanted, seen)).await {
                // It may be missing for a moment while it is rotated.
                Err(LogReadError::Open { problem, .. })
                    if problem.kind() == io::ErrorKind::NotFound && tries < MISSING_MAX =>
                {
                    tries += 1;
                    tokio::time::sleep(MISSING).await;
                }
                opened => break opened?,
            }
        };
        Ok(Box::new(LinuxLog { shared, reading: Some(reading), listening: None, _ended: ended }))
    }
}

impl Shared {
    async fn run<T: Send + 'static>(self: &Arc<Self>, call: impl FnOnce(&Self) -> T + Send + 'static) -> T {
        // Never closed, so there is always a permit in the end.
        let _permit = self.reads.acquire().await;
        let shared = Arc::clone(self);
        blocking::run(move || call(&shared)).await
    }
}

/// Tells work that has begun that nobody waits for it any more.
#[derive(Default)]
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct LinuxLog {
    shared: Arc<Shared>,
    /// `None` while it is read, and after a read that was given up.
    reading: Option<Reading>,
    listening: Option<Listening>,
    _ended: Ended,
}

impl LinuxLog {
    async fn step(&mut self) -> Result<Step, LogReadError> {
        let Some(mut reading) = self.reading.take() else { return Ok(Step::Done) };
        let (reading, step) = self
            .shared
            .run(move |_| {
                let step = reading.step();
                (reading, step)
            })
            .await;
        self.reading = Some(reading);
        step
    }
}

#[async_trait]
impl OpenLog for LinuxLog {
    async fn read(&mut self) -> Result<Part, LogReadError> {
        loop {
            return Ok(match self.step().await? {
                Step::Shown(bytes) => Part::Shown(bytes),
                Step::AtEnd => Part::AtEnd,
                Step::Done => Part::Done,
                Step::NothingYet => continue,
                Step::Replaced => {
                    tokio::time::sleep(LATE).await;
                    self.reading.iter_mut().for_each(Reading::settle);
                    continue;
                }
            });
        }
    }

    async fn changed(&mut self) -> Change {
        self.listen();
        match &self.listening {
            Some(listening) => listening.changed().await,
            None => std::future::pending().await,
        }
    }

    fn listen(&mut self) {
        if self.listening.is_none()
            && let Some(reading) = &self.reading
        {
            self.listening = Some(self.shared.watch.listen(reading.folder()));
        }
    }
}

#[cfg(test)]
mod tests;
