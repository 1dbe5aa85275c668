//! A pod worker's job that has all containers of a pod gone, so that it starts over in place (POD-18).

use std::time::Duration;

use super::jobs::{JobSite, field_path};
use super::stopping::failed;
use crate::actors::kit::trace::Cause;
use crate::logic::events::reasons::EventReason;
use crate::logic::pods::container_actions::ResetContainer;
use crate::logic::pods::pod_lifecycle::JobEnd;

/// What the runtime gives a container to end that gets no time: the least that it is ever given (POD-08).
const NO_GRACE: Duration = Duration::from_secs(2);

impl JobSite {
    /// Stops and removes containers, one after the other in this order. Their logs stay, and no hook runs.
    pub(super) async fn reset_containers(self, containers: Vec<ResetContainer>, cause: Cause) -> JobEnd {
        let runtime = &self.agent.adapters.runtime;
        for ResetContainer { id, name, kind, runs } in containers {
            if runs {
                self.tell(&cause, self.subject(field_path(kind, &name)).normal(EventReason::Killing, "killing"));
                if let Err(error) = runtime.stop_container(&id, NO_GRACE).await {
                    return JobEnd::Reset(Err(failed("RemoveContainer", &name, "KillContainerError", &error)));
                }
            }
            if let Err(error) = runtime.remove_container(&id).await {
                return JobEnd::Reset(Err(failed("RemoveContainer", &name, "RemoveContainerError", &error)));
            }
        }
        JobEnd::Reset(Ok(()))
    }
}
