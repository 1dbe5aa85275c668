//! The kernel's own alarms about memory, so that nobody has to poll it (EVI-34, PAIN-27).
//!
//! cgroup v1: the use of a group crosses a level (`cgroup.event_control`, as upstream with `kernelMemcgNotification`). v2
//! knows no such levels: tasks wait for memory (a trigger in `memory.pressure`, and in `/proc` for the node as a whole), or
//! a group is at its limit (`memory.events`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use futures_util::future::select_all;
use nix::sys::eventfd::{EfdFlags, EventFd};
use rustix::fs::{Mode, OFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::files::Reader;
use super::groups::Hierarchies;
use crate::logic::eviction::alarm::WatchedGroup;
use crate::logic::resources::CgroupVersion;

/// Tasks waited for memory for 100 ms within a second. Windows of other lengths than 2 s need a privilege. The kernel takes
/// the last byte of an order for its end, whatever it is, so there is one to take.
const STALL: &str = "some 100000 1000000\0";
/// The same share, for a process without that privilege.
const STALL_UNPRIVILEGED: &str = "some 200000 2000000\0";

/// Why the kernel wakes nobody.
#[derive(Debug, thiserror::Error)]
pub enum AlarmError {
    /// No group can be watched: none is there, or the kernel has no means.
    #[error("the kernel tells of no group when its memory runs short")]
    Nothing,
    /// The files cannot be waited for.
    #[error("wait for the kernel's word about memory: {0}")]
    Wait(#[from] io::Error),
}

/// A file that becomes ready when memory may run short; with what must stay open for that.
struct Source {
    file: OwnedFd,
    interest: Interest,
    kept: Option<OwnedFd>,
}

/// The files of all watched groups.
pub(super) struct Armed {
    sources: Vec<Source>,
    /// A level was reached before it was watched.
    has_fired: bool,
}

impl Armed {
    /// Asks the kernel for an alarm about each group.
    ///
    /// # Errors
    /// When it gives none.
    pub(super) fn all(
        hierarchies: &Hierarchies,
        proc: Option<&OwnedFd>,
        watched: &[WatchedGroup],
    ) -> Result<Self, AlarmError> {
        let mut armed = Self { sources: vec![], has_fired: false };
        for group in watched {
            let Some((here, version)) = hierarchies.memory(&group.path) else { continue };
            match version {
                CgroupVersion::V1 => armed.level(&here, group.level),
                CgroupVersion::V2 => armed.stalls(&here, proc.filter(|_| group.path == "/")),
            }
        }
        if armed.sources.is_empty() { Err(AlarmError::Nothing) } else { Ok(armed) }
    }

    /// An event when the use of the group crosses the level.
    fn level(&mut self, here: &OwnedFd, level: u64) {
        let armed = || -> io::Result<Source> {
            let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
            let usage = open(here, "memory.usage_in_bytes", OFlags::RDONLY)?;
            let control = open(here, "cgroup.event_control", OFlags::WRONLY)?;
            let order = format!("{} {} {level}", event.as_fd().as_raw_fd(), usage.as_raw_fd());
            rustix::io::write(&control, order.as_bytes())?;
            Ok(Source { file: event.into(), interest: Interest::READABLE, kept: Some(usage) })
        };
        match armed() {
            Ok(source) => self.sources.push(source),
            Err(error) => tracing::debug!(%error, level, "no alarm about the use of memory"),
        }
        // The kernel tells of a crossing alone, and the use has changed since the level was calculated.
        self.has_fired |= Reader::new().number(here, "memory.usage_in_bytes").is_some_and(|usage| usage >= level);
    }

    /// Events when tasks of the group wait for memory, and when the group is at a limit.
    fn stalls(&mut self, here: &OwnedFd, proc: Option<&OwnedFd>) {
        let pressure = match proc {
            Some(proc) => open(proc, "pressure/memory", OFlags::RDWR | OFlags::NONBLOCK),
            None => open(here, "memory.pressure", OFlags::RDWR | OFlags::NONBLOCK),
        };
        match pressure.and_then(with_trigger) {
            Ok(file) => self.sources.push(Source { file, interest: Interest::PRIORITY, kept: None }),
            Err(error) => tracing::debug!(%error, "no alarm about tasks that wait for memory"),
        }
        // The root has no limit, and no such file. The kernel tells of changes since the file was last read.
        if let Ok(file) = open(here, "memory.events", OFlags::RDONLY)
            && rustix::io::read(&file, &mut [0_u8; 512]).is_ok()
        {
            self.sources.push(Source { file, interest: Interest::PRIORITY, kept: None });
        }
    }

    /// Ends when the first of them tells.
    ///
    /// # Errors
    /// When the files cannot be waited for.
    pub(super) async fn fired(self) -> Result<(), AlarmError> {
        if self.has_fired {
            return Ok(());
        }
        let mut files = vec![];
        for Source { file, interest, kept } in self.sources {
            files.push((register(file, interest)?, interest, kept));
        }
        let ready = files.iter().map(|(file, interest, _)| Box::pin(file.ready(*interest)));
        let (first, ..) = select_all(ready).await;
        // The file is closed: what it says is over.
        first.map(|mut guard| guard.retain_ready())?;
        Ok(())
    }
}

/// A file of pressure that becomes ready when tasks wait for long.
fn with_trigger(file: OwnedFd) -> io::Result<OwnedFd> {
    let set = |order: &str| rustix::io::write(&file, order.as_bytes());
    set(STALL).or_else(|_| set(STALL_UNPRIVILEGED))?;
    Ok(file)
}

#[expect(deprecated, reason = "it is for types that give away files they do not own; its successor is unsafe")]
fn register(file: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(file, interest)
}

fn open(folder: &OwnedFd, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(folder, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn watch(level: u64) -> WatchedGroup {
        WatchedGroup { path: "/".to_owned(), usage: 0, level }
    }

    /// EVI-34: where this machine has groups of the first generation, a level below the use fires at once, and one that
    /// nobody reaches does not.
    #[tokio::test]
    async fn live_evi_34_a_level_that_is_reached_wakes() {
        let mount = Path::new("/sys/fs/cgroup");
        if fs::metadata(mount.join("memory/cgroup.event_control")).is_err() {
            return crate::testing::skips::needs("a host with cgroup v1");
        }
        let hierarchies = Hierarchies::open(mount, CgroupVersion::V1);
        let fires = async |level| {
            let armed = Armed::all(&hierarchies, None, &[watch(level)]).expect("armed");
            tokio::time::timeout(Duration::from_millis(200), armed.fired()).await
        };
        assert!(matches!(fires(1).await, Ok(Ok(()))));
        assert!(fires(1 << 60).await.is_err(), "nobody uses so much");
    }

    /// EVI-34: the kernel takes the order, and an order without its last byte it does not.
    #[test]
    fn live_evi_34_the_kernel_watches_over_stalls() {
        let file =
            || OwnedFd::from(fs::File::options().read(true).write(true).open("/proc/pressure/memory").expect("it"));
        if fs::File::options().write(true).open("/proc/pressure/memory").is_err() {
            return crate::testing::skips::needs("a kernel that counts pressure, and root");
        }
        with_trigger(file()).expect("taken");
        let cut = STALL_UNPRIVILEGED.trim_end_matches('\0');
        rustix::io::write(file(), cut.as_bytes()).expect_err("its window lacks a digit");
    }

    #[test]
    fn a_group_that_is_not_there_gives_no_alarm() {
        let folder = tempfile::tempdir().expect("a folder");
        let hierarchies = Hierarchies::open(folder.path(), CgroupVersion::V1);
        assert!(matches!(Armed::all(&hierarchies, None, &[watch(1)]), Err(AlarmError::Nothing)));
    }
}
