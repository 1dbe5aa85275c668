//! Things that cannot be removed or unmounted for a while: calls about them fail, or do not answer, until they are free.

use std::time::Duration;

use super::Node;
use super::outlet::Outlet;
use crate::actors::kit::trace::lock;
use crate::cri::{CriError, CriResult};
use crate::platform::files::FileError;
use crate::sim::faults::Fault;

/// The share of things that are busy once somebody wants to be rid of them.
const SHARE: f64 = 0.25;
/// For how long.
const TIME: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));
/// From one look whether a thing is free to the next.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// How the kernel says it.
const PROBLEM: &str = "device or resource busy";

/// One such thing.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    /// Virtual time.
    until: Duration,
    /// Whether a call about it does not answer.
    hangs: bool,
}

/// Whether this is busy now, and calls about it hang. Drawn when it is first asked for.
fn is_busy(node: &Node, fault: Fault, what: &str) -> Option<bool> {
    if !node.faults.has(fault) {
        return None;
    }
    let now = node.time.elapsed();
    let known = lock(&node.disk).busy.get(what).copied();
    let busy = known.unwrap_or_else(|| {
        let busy = node.faults.strikes(fault, SHARE).then(|| {
            let dice = node.faults.dice();
            let busy = Busy { until: now + dice.between(TIME.0, TIME.1), hangs: dice.chance(0.5) };
            let how = if busy.hangs { "hangs" } else { "is busy" };
            node.story.tell("fault", format!("the removal of {what} {how} for {:?}", busy.until - now));
            busy
        });
        lock(&node.disk).busy.insert(what.to_owned(), busy);
        busy
    });
    busy.filter(|busy| busy.until > now).map(|busy| busy.hangs)
}

impl Outlet {
    /// Waits for as long as a call about this hangs, but no longer than `limit`; says whether it is busy then.
    async fn wait_if_busy(&self, fault: Fault, what: &str, limit: Option<Duration>) -> bool {
        let began = self.node().time.elapsed();
        loop {
            if !self.is_alive() {
                return std::future::pending().await;
            }
            match is_busy(self.node(), fault, what) {
                None => return false,
                Some(false) => return true,
                Some(true) if limit.is_some_and(|limit| self.node().time.elapsed() - began >= limit) => return true,
                Some(true) => tokio::time::sleep(LOOK_PERIOD).await,
            }
        }
    }

    /// Removing something from the runtime.
    pub(super) async fn removal_call(&self, method: &'static str, id: &str) -> CriResult<()> {
        if self.wait_if_busy(Fault::Removals, id, Some(super::outlet::LIMIT)).await {
            let message = format!("failed to remove {id:?} by {method}: {PROBLEM}");
            return Err(CriError::Other { code: "Unknown", message });
        }
        Ok(())
    }

    /// Removing files.
    pub(super) async fn removal(&self, path: &str) -> Result<(), FileError> {
        if self.wait_if_busy(Fault::Removals, path, None).await {
            return Err(FileError { attempt: "remove directory", path: path.to_owned(), problem: PROBLEM.to_owned() });
        }
        Ok(())
    }

    /// Unmounting; says how it fails.
    pub(super) async fn unmount(&self, path: &str) -> Option<String> {
        self.wait_if_busy(Fault::Unmounts, path, None).await.then(|| PROBLEM.to_owned())
    }
}
