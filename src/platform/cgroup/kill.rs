//! Ends whatever still runs in a cgroup, so that it can be removed.
//!
//! Keeps nothing. A process is signalled through a descriptor taken before it was last seen in the cgroup: a process id
//! that was given to another process meanwhile is never hit.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::CgroupError;
use crate::logic::resources::cgroup_name::{CgroupDriver, CgroupName};

/// How often processes are killed, and folders removed, before it is given up; upstream's number.
pub(super) const ATTEMPTS: u32 = 5;
/// The first wait between two attempts; each next is twice as long (upstream's library does so for folders).
const FIRST_WAIT: Duration = Duration::from_millis(10);

/// Waits before another attempt, numbered from 0.
pub(super) fn wait_before(attempt: u32) {
    if attempt > 0 {
        thread::sleep(FIRST_WAIT * 2_u32.pow(attempt - 1));
    }
}

/// Kills the processes that `list` finds until it finds none.
pub(super) fn kill_all(
    name: &CgroupName,
    list: impl Fn() -> Result<BTreeSet<i32>, CgroupError>,
) -> Result<(), CgroupError> {
    let mut pids = list()?;
    for attempt in 0..=ATTEMPTS {
        if pids.is_empty() {
            return Ok(());
        }
        if attempt == ATTEMPTS {
            break;
        }
        refuse_own(name, &pids)?;
        let handles: BTreeMap<i32, _> = pids.iter().filter_map(|pid| Some((*pid, open(*pid)?))).collect();
        let still_there = list()?;
        for (pid, handle) in handles.iter().filter(|(pid, _)| still_there.contains(pid)) {
            // A process that is gone already, or may not be signalled, shows in the next list.
            let outcome = match handle {
                Some(descriptor) => pidfd_send_signal(descriptor, Signal::KILL),
                None => Pid::from_raw(*pid).map_or(Ok(()), |pid| kill_process(pid, Signal::KILL)),
            };
            if let Err(error) = outcome {
                tracing::debug!(%name, pid, %error, "kill a process of a cgroup");
            }
        }
        wait_before(attempt + 1);
        pids = list()?;
    }
    Err(CgroupError::Alive { name: name.clone(), pids })
}

/// The folders above the cgroup's own, and its own; refuses the root, which holds everything.
pub(super) fn parent_and_folder(name: &CgroupName, driver: CgroupDriver) -> Result<(Vec<String>, String), CgroupError> {
    let mut folders = name.folders(driver);
    let last = folders.pop().ok_or_else(|| CgroupError::Own { name: name.clone() })?;
    Ok((folders, last))
}

/// Refuses when this process is among them: the agent must not end itself by cleaning up.
pub(super) fn refuse_own(name: &CgroupName, pids: &BTreeSet<i32>) -> Result<(), CgroupError> {
    let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    if pids.contains(&own) {
        return Err(CgroupError::Own { name: name.clone() });
    }
    Ok(())
}

/// A descriptor of the process; `Some(None)` where the kernel has none (before 5.3), `None` when it is gone.
fn open(pid: i32) -> Option<Option<std::os::fd::OwnedFd>> {
    match pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()) {
        Ok(descriptor) => Some(Some(descriptor)),
        Err(rustix::io::Errno::NOSYS) => Some(None),
        Err(_) => None,
    }
}
