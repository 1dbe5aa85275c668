//! What a pod's worker is to do, as its life decides.

use std::time::Duration;

use super::job::Job;
use super::parts::absent::{ABSENCE, Absent};
use super::parts::ending::{RELEASE, REMAINS, Remains};
use crate::logic::images::image_policy::ImageInUse;
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::model::runtime_pod::RuntimeSandbox;
use crate::logic::pods::container_actions::{ResetContainer, StartContainer};
use crate::logic::pods::pod_resize::ResizeWork;

/// What a worker is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Begin [`Job::Prepare`].
    Prepare {
        /// Whether the cgroup is to be set although it may be there: nothing says that it was.
        anew: bool,
    },
    /// Begin [`Job::MountVolumes`].
    MountVolumes,
    /// Begin [`Job::SetUpSandbox`].
    SetUpSandbox {
        /// Counts re-creations.
        attempt: u32,
    },
    /// Begin [`Job::EnsureImage`].
    EnsureImage {
        /// Whose image.
        container: String,
    },
    /// Begin [`Job::StartContainer`].
    StartContainer {
        /// Which.
        start: StartContainer,
        /// In which sandbox.
        sandbox: RuntimeSandbox,
        /// From which image.
        image: ImageInUse,
    },
    /// Begin [`Job::KillContainer`].
    KillContainer {
        /// Which.
        id: ContainerId,
        /// Its name.
        name: String,
        /// Why, for the Event.
        message: String,
        /// Time to end.
        grace: Duration,
    },
    /// Begin [`Job::RemoveContainers`].
    RemoveContainers(Vec<ContainerId>),
    /// Begin [`Job::ResetContainers`].
    ResetContainers(Vec<ResetContainer>),
    /// Begin [`Job::Resize`].
    Resize(ResizeWork),
    /// Begin [`Job::KillPod`].
    KillPod {
        /// Containers that run, by ID and name.
        containers: Vec<(ContainerId, String)>,
        /// All sandboxes.
        sandboxes: Vec<SandboxId>,
        /// Time to end.
        grace: Duration,
        /// Whether a new sandbox is to follow.
        replace: bool,
    },
    /// Begin [`Job::Confirm`].
    Confirm(Absent),
    /// Begin [`Job::CleanUp`].
    CleanUp,
    /// Begin [`Job::Remove`].
    Remove(Remains),
    /// The pod is over: nothing of it runs, and its volumes and its cgroup are gone. Its name is free.
    Over,
    /// End this job early.
    Cancel(Job),
    /// Ask for a fresh observation.
    Inspect,
    /// Have it looked at once its own doing has settled: what it knows by now is enough to go on.
    InspectSoon,
    /// The network is missing; worth an Event.
    NetworkNotReady(String),
    /// Nothing is left of the pod: the worker may go.
    Finish,
}

impl Action {
    /// What the pod waits for once this has begun; `None` for what takes no time.
    pub(super) fn waited_for(&self) -> Option<String> {
        match self {
            Self::Prepare { .. } => Some("the pod's cgroup".to_owned()),
            Self::MountVolumes => Some("its volumes to be mounted".to_owned()),
            Self::SetUpSandbox { .. } => Some("the pod's sandbox and network".to_owned()),
            Self::EnsureImage { container } => Some(format!("the image of container {container}")),
            Self::StartContainer { start, .. } => Some(format!("container {} to start", start.name)),
            Self::KillContainer { name, grace, .. } => {
                Some(format!("container {name} to stop, within {}s", grace.as_secs()))
            }
            Self::KillPod { grace, .. } => Some(format!("its containers to stop, within {}s", grace.as_secs())),
            Self::Confirm(_) => Some(ABSENCE.to_owned()),
            Self::CleanUp => Some(RELEASE.to_owned()),
            Self::Remove(_) => Some(REMAINS.to_owned()),
            Self::ResetContainers(_) => Some("its containers to be removed, to start over".to_owned()),
            Self::Resize(_) => Some("its resources to be changed".to_owned()),
            Self::RemoveContainers(_) => Some("dead containers to be removed".to_owned()),
            Self::Cancel(_)
            | Self::Inspect
            | Self::InspectSoon
            | Self::NetworkNotReady(_)
            | Self::Over
            | Self::Finish => None,
        }
    }

    /// The job that this begins.
    pub(super) fn job(&self) -> Option<Job> {
        Some(match self {
            Self::Prepare { .. } => Job::Prepare,
            Self::MountVolumes => Job::MountVolumes,
            Self::SetUpSandbox { .. } => Job::SetUpSandbox,
            Self::EnsureImage { container } => Job::EnsureImage(container.clone()),
            Self::StartContainer { start, .. } => Job::StartContainer(start.name.clone()),
            Self::KillContainer { id, .. } => Job::KillContainer(id.clone()),
            Self::RemoveContainers(_) => Job::RemoveContainers,
            Self::ResetContainers(_) => Job::ResetContainers,
            Self::Resize(_) => Job::Resize,
            Self::KillPod { .. } => Job::KillPod,
            Self::Confirm(_) => Job::Confirm,
            Self::CleanUp => Job::CleanUp,
            Self::Remove(_) => Job::Remove,
            Self::Cancel(_)
            | Self::Inspect
            | Self::InspectSoon
            | Self::NetworkNotReady(_)
            | Self::Over
            | Self::Finish => return None,
        })
    }
}
