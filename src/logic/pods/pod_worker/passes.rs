//! A pod worker's passes: from the message that finds it at rest to the end of the last job that this led to. Upstream's
//! metrics and spans of a pod's syncs mean the same: how long the worker is at it.

use std::time::Duration;

use crate::logic::pods::pod_lifecycle::Stage;

/// The pass that is open.
#[derive(Clone, Debug)]
struct Pass {
    stage: Stage,
    operation: &'static str,
    began: Duration,
}

/// A pass that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassEnd {
    /// Upstream's label `operation_type`.
    pub operation: &'static str,
    /// How long it took.
    pub took: Duration,
}

/// The effect of entering a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The pass of another stage that ended.
    pub ended: Option<PassEnd>,
    /// The operation of a pass that began; `None` when one goes on.
    pub began: Option<&'static str>,
}

/// See the module. Owned by a pod's worker.
#[derive(Clone, Debug, Default)]
pub struct Passes {
    open: Option<Pass>,
    /// The first pass of a worker creates.
    created: bool,
}

impl Passes {
    /// The worker is at it in this stage: the open pass goes on, or a new one begins. `is_update` when a change of the pod led
    /// to it.
    pub fn enter(&mut self, stage: Stage, is_update: bool, uptime: Duration) -> Entered {
        let ended = match &self.open {
            Some(pass) if pass.stage == stage => return Entered { ended: None, began: None },
            Some(_) => self.end(uptime),
            None => None,
        };
        let operation = match stage {
            Stage::Syncing if !std::mem::replace(&mut self.created, true) => "create",
            Stage::Syncing if is_update => "update",
            Stage::Syncing => "sync",
            Stage::Terminating => "kill",
            Stage::Terminated => "terminated",
        };
        self.open = Some(Pass { stage, operation, began: uptime });
        Entered { ended, began: Some(operation) }
    }

    /// The worker is at rest: ends the pass that is open.
    pub fn end(&mut self, uptime: Duration) -> Option<PassEnd> {
        let Pass { operation, began, .. } = self.open.take()?;
        Some(PassEnd { operation, took: uptime.saturating_sub(began) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// POD-39.
    #[test]
    fn a_pass_lasts_from_its_first_message_to_its_last_job_and_ends_with_its_stage() {
        let (mut passes, at) = (Passes::default(), Duration::from_secs);
        let end = |operation, seconds| Some(PassEnd { operation, took: at(seconds) });
        let begins = |operation| Entered { ended: None, began: Some(operation) };
        assert_eq!(passes.enter(Stage::Syncing, true, at(1)), begins("create"));
        assert_eq!(passes.enter(Stage::Syncing, false, at(2)), Entered { ended: None, began: None });
        assert_eq!(passes.end(at(4)), end("create", 3));
        assert_eq!(passes.end(at(5)), None);
        assert_eq!(passes.enter(Stage::Syncing, true, at(10)), begins("update"));
        assert_eq!(passes.end(at(11)), end("update", 1));
        assert_eq!(passes.enter(Stage::Syncing, false, at(20)), begins("sync"));
        let kill = passes.enter(Stage::Terminating, false, at(22));
        assert_eq!(kill, Entered { ended: end("sync", 2), began: Some("kill") });
        let last = passes.enter(Stage::Terminated, false, at(25));
        assert_eq!(last, Entered { ended: end("kill", 3), began: Some("terminated") });
        assert_eq!(passes.end(at(30)), end("terminated", 5));
    }
}
