//! The Events that ends of a pod's jobs are worth. Ends of image pulls and of containers tell theirs where they happen.

use crate::logic::events::reasons::EventReason;
use crate::logic::pods::pod_lifecycle::{ClaimFailure, JobEnd, SandboxFailure};

/// The reason and the message of the warning that the end of a job is worth; `None` for one that is worth none.
pub fn warning_of(end: &JobEnd) -> Option<(EventReason, String)> {
    match end {
        JobEnd::Prepared(Err(why)) => {
            Some((EventReason::FailedCreatePodContainer, format!("unable to ensure pod container exists: {why}")))
        }
        JobEnd::ClaimsPrepared(Err(ClaimFailure { in_processing: false, message })) => Some((
            EventReason::FailedPrepareDynamicResources,
            format!("Failed to prepare dynamic resources: {message}"),
        )),
        JobEnd::SandboxUp(Err(SandboxFailure { made: false, message })) => {
            Some((EventReason::FailedCreatePodSandBox, format!("Failed to create pod sandbox: {message}")))
        }
        JobEnd::SandboxUp(Err(SandboxFailure { made: true, message })) => {
            Some((EventReason::FailedPodSandBoxStatus, format!("Unable to get pod sandbox status: {message}")))
        }
        JobEnd::Reset(Err(why)) => Some((EventReason::FailedSync, format!("error restarting pod: {why}"))),
        JobEnd::PodKilled(Err(why)) => Some((EventReason::FailedKillPod, format!("error killing pod: {why}"))),
        _ => None,
    }
}

/// Why something of an ended pod stays for now, in the log; `None` when the end says nothing of that.
pub fn stay_of(end: &JobEnd) -> Option<(&'static str, &str)> {
    match end {
        JobEnd::ClaimsReleased(Err(failure)) => Some(("the pod's claims cannot be released yet", &failure.message)),
        JobEnd::CleanedUp(Err(failure)) => {
            Some(("the pod's volumes or its cgroup cannot be released yet", &failure.message))
        }
        JobEnd::RemainsRemoved(_, Err(why)) => Some(("what is left of the pod cannot be removed yet", why)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::model::start_reason::StartReason;
    use crate::logic::pods::pod_lifecycle::{Job, StartFailure};

    /// The reasons are upstream's.
    #[test]
    fn a_job_that_fails_as_a_whole_is_worth_an_event() {
        for (job, reason) in [
            (Job::Prepare, Some(EventReason::FailedCreatePodContainer)),
            (Job::PrepareClaims, Some(EventReason::FailedPrepareDynamicResources)),
            (Job::ReleaseClaims, None),
            (Job::SetUpSandbox, Some(EventReason::FailedCreatePodSandBox)),
            (Job::ResetContainers, Some(EventReason::FailedSync)),
            (Job::KillPod, Some(EventReason::FailedKillPod)),
            (Job::MountVolumes, None),
            (Job::EnsureImage("web".to_owned()), None),
            (Job::RemoveContainers, None),
            (Job::CleanUp, None),
        ] {
            let end = JobEnd::lost(job, "no".to_owned());
            assert_eq!(warning_of(&end).map(|(reason, _)| reason), reason, "{end:?}");
        }
        let made = JobEnd::SandboxUp(Err(SandboxFailure { made: true, message: "no".to_owned() }));
        let message = "Unable to get pod sandbox status: no".to_owned();
        assert_eq!(warning_of(&made), Some((EventReason::FailedPodSandBoxStatus, message)));
        let failure = StartFailure { reason: StartReason::RunContainerError, message: "no".to_owned() };
        assert_eq!(warning_of(&JobEnd::Started("web".to_owned(), Err(failure))), None);
        assert_eq!(warning_of(&JobEnd::PodKilled(Ok(()))), None);
    }
}
