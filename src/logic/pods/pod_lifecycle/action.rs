//! The actions of a pod's worker, as the pod's life decides.

use std::time::Duration;

use super::job::{Absent, Job, Remains};
use crate::logic::images::image_policy::ImageInUse;
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::model::runtime_pod::RuntimeSandbox;
use crate::logic::pods::container_actions::{ResetContainer, StartContainer};
use crate::logic::pods::pod_resize::ResizeWork;
use crate::logic::pods::wait::Awaited;

/// A sandbox to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopSandbox {
    /// Which one.
    pub id: SandboxId,
    /// Whether the pod goes on although the runtime cannot stop it: nothing of it runs, and its network went when the machine
    /// was started anew. Its removal is tried again by the collector of garbage.
    pub may_fail: bool,
}

/// An action of a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Begin [`Job::Prepare`].
    Prepare {
        /// Whether the cgroup is to be set although it may be there: nothing says that it was.
        anew: bool,
    },
    /// Begin [`Job::MountVolumes`].
    MountVolumes,
    /// Begin [`Job::PrepareClaims`].
    PrepareClaims {
        /// For which sandbox.
        attempt: u32,
    },
    /// Begin [`Job::ReleaseClaims`].
    ReleaseClaims,
    /// Begin [`Job::SetUpSandbox`].
    SetUpSandbox {
        /// Counts re-creations.
        attempt: u32,
    },
    /// Begin [`Job::EnsureImage`].
    EnsureImage {
        /// The container that needs the image.
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
        sandboxes: Vec<StopSandbox>,
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
    /// Have the start of this container end as soon as the runtime has answered: what is half started can be neither stopped
    /// nor told of. It says so as any job says its end.
    Leave(String),
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
    /// The pod's wait once this has begun; `None` for an action that takes no time.
    pub(super) fn waited_for(&self) -> Option<Awaited> {
        Some(match self {
            Self::Prepare { .. } => Awaited::Cgroup,
            Self::MountVolumes => Awaited::VolumesMounted,
            Self::PrepareClaims { .. } => Awaited::Claims,
            Self::ReleaseClaims => Awaited::ClaimsReleased,
            Self::SetUpSandbox { .. } => Awaited::Sandbox,
            Self::EnsureImage { container } => Awaited::Image(container.clone()),
            Self::StartContainer { start, .. } => Awaited::Start(start.name.clone()),
            Self::KillContainer { name, grace, .. } => Awaited::ContainerStopWithin(name.clone(), *grace),
            Self::KillPod { grace, .. } => Awaited::StopWithin(*grace),
            Self::Confirm(_) => Awaited::Absence,
            Self::CleanUp => Awaited::Release,
            Self::Remove(_) => Awaited::Remains,
            Self::ResetContainers(_) => Awaited::Reset,
            Self::Resize(_) => Awaited::Resize,
            Self::RemoveContainers(_) => Awaited::DeadContainers,
            Self::Cancel(_)
            | Self::Leave(_)
            | Self::Inspect
            | Self::InspectSoon
            | Self::NetworkNotReady(_)
            | Self::Over
            | Self::Finish => return None,
        })
    }

    /// The job that this begins.
    pub(super) fn job(&self) -> Option<Job> {
        Some(match self {
            Self::Prepare { .. } => Job::Prepare,
            Self::MountVolumes => Job::MountVolumes,
            Self::PrepareClaims { .. } => Job::PrepareClaims,
            Self::ReleaseClaims => Job::ReleaseClaims,
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
            | Self::Leave(_)
            | Self::Inspect
            | Self::InspectSoon
            | Self::NetworkNotReady(_)
            | Self::Over
            | Self::Finish => return None,
        })
    }
}
