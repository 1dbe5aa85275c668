//! A pod's jobs and how they end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::logic::images::image_policy::{ImageFailure, ImageInUse};
use crate::logic::model::ids::{ContainerId, SandboxId};
use crate::logic::model::runtime_pod::{RuntimeContainer, RuntimeSandbox};
use crate::logic::model::start_reason::StartReason;
use crate::logic::pods::pod_resize::ResizeReport;
use crate::logic::volumes::volume_states::{MountedVolumes, VolumeFailure};

/// Work on a pod that takes time. At most one of each is under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// The pod's cgroup.
    Prepare,
    /// The pod's volumes.
    MountVolumes,
    /// The pod's claims of resources, before its sandbox.
    PrepareClaims,
    /// A sandbox.
    SetUpSandbox,
    /// A container's image.
    EnsureImage(String),
    /// Creating and starting a container.
    StartContainer(String),
    /// Stopping one container.
    KillContainer(ContainerId),
    /// Removing dead init containers.
    RemoveContainers,
    /// Stopping and removing all containers, to start over.
    ResetContainers,
    /// Giving running containers, and the pod's cgroup, other resources.
    Resize,
    /// Stopping all containers, then the sandboxes.
    KillPod,
    /// Having the pod's claims of resources released.
    ReleaseClaims,
    /// Asking the runtime, by ID, about what its list no longer shows.
    Confirm,
    /// Having the pod's volumes unmounted and its cgroup removed.
    CleanUp,
    /// Removing what is left of the pod on the node.
    Remove,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub enum JobEnd {
    /// Whether the pod's cgroup had to be made, or to be set as if it had.
    Prepared(Result<bool, String>),
    /// Where the pod's volumes are, all of them.
    VolumesMounted(Result<Arc<MountedVolumes>, VolumeFailure>),
    /// The pod's claims of resources were prepared.
    ClaimsPrepared(Result<(), ClaimFailure>),
    /// They were released.
    ClaimsReleased(Result<(), ClaimFailure>),
    /// The sandbox, ready and with its addresses.
    SandboxUp(Result<RuntimeSandbox, SandboxFailure>),
    /// The image that the container is to use.
    ImageEnsured(String, Result<ImageInUse, ImageFailure>),
    /// The container that was started.
    Started(String, Result<Started, StartFailure>),
    /// The pod is to end: the container was started, or was not, and nothing more is done for it.
    Left(String),
    /// One container was stopped.
    Killed(ContainerId, Result<(), String>),
    /// Dead init containers were removed.
    Removed(Result<(), String>),
    /// All containers were stopped and removed.
    Reset(Result<(), String>),
    /// The result of changing resources.
    Resized(ResizeReport),
    /// All containers were stopped, then all sandboxes.
    PodKilled(Result<(), String>),
    /// The objects that the runtime still has although its list lacked them.
    Confirmed(Absent, Result<Found, String>),
    /// The pod's volumes are unmounted and its cgroup is gone.
    CleanedUp(Result<(), CleanUpFailure>),
    /// The remains that were to be removed; with an error some of them are there still.
    RemainsRemoved(Remains, Result<(), String>),
}

/// Why a pod's volumes are mounted still, or its cgroup is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanUpFailure {
    /// For people.
    pub message: String,
    /// The wait until the volumes are tried again, whoever asks; `None` where nobody does so by himself.
    pub retry_after: Option<Duration>,
}

impl CleanUpFailure {
    /// The next question is due when the volumes are tried again. Something else may have them tried sooner, so the usual
    /// wait is the longest.
    pub fn retry(&self) -> Retry {
        self.retry_after.map_or(Retry::Usual, |wait| Retry::After(wait.min(ERROR_RETRY)))
    }

    /// The same as a wait, before jitter.
    pub fn wait(&self) -> Duration {
        self.retry_after.map_or(ERROR_RETRY, |wait| wait.min(ERROR_RETRY))
    }
}

impl From<String> for CleanUpFailure {
    fn from(message: String) -> Self {
        Self { message, retry_after: None }
    }
}

impl From<VolumeFailure> for CleanUpFailure {
    fn from(VolumeFailure { message, retry_after, .. }: VolumeFailure) -> Self {
        Self { message, retry_after: Some(retry_after) }
    }
}

/// Wait after an error, before jitter (upstream's back-off period of a pod worker).
pub const ERROR_RETRY: Duration = Duration::from_secs(10);

/// When a job that has ended may begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// As soon as there is a reason.
    AtOnce,
    /// After the wait that follows an error.
    Usual,
    /// After this wait.
    After(Duration),
}

/// The remains of a pod that has ended, to be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Sandboxes.
    pub sandboxes: Vec<SandboxId>,
    /// Containers.
    pub containers: Vec<ContainerId>,
    /// Whether the pod's directory is.
    pub directory: bool,
}

impl Remains {
    /// Whether nothing is to be removed.
    pub fn is_nothing(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty() && !self.directory
    }
}

/// Why a pod's claims are not prepared, or not released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFailure {
    /// It is still being done, and nothing has failed.
    pub in_processing: bool,
    /// A sentence; what keeps it, while it is being done.
    pub message: String,
}

impl ClaimFailure {
    /// When to ask again.
    pub fn retry(&self) -> Retry {
        if self.in_processing { Retry::After(CLAIMS_RETRY) } else { Retry::Usual }
    }
}

/// Wait before claims are asked for again that are still being prepared or released.
const CLAIMS_RETRY: Duration = Duration::from_secs(1);

/// Why a pod has no sandbox to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxFailure {
    /// Whether it was made, and the runtime then did not say how it is.
    pub made: bool,
    /// A sentence.
    pub message: String,
}

/// A container that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The runtime's name for it.
    pub id: ContainerId,
    /// With which count it was made: the log directory may know of more instances than the pod's worker (CRI-16).
    pub restart_count: u32,
    /// How the runtime showed it right after, running. Without it the worker would report the status twice: first what is
    /// known of a container that was started, then what only the runtime knows.
    pub seen: Option<Box<RuntimeContainer>>,
}

/// Why a container did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    /// The waiting reason (CRI-25), such as `CreateContainerError`.
    pub reason: StartReason,
    /// A sentence.
    pub message: String,
}

/// Sandboxes and containers that a look lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absent {
    /// Sandboxes.
    pub sandboxes: BTreeSet<SandboxId>,
    /// Containers, each with its sandbox, which a container's status does not tell.
    pub containers: BTreeMap<ContainerId, SandboxId>,
}

/// The objects that the runtime has after all, as its answers show them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Sandboxes.
    pub sandboxes: Vec<RuntimeSandbox>,
    /// Containers.
    pub containers: Vec<RuntimeContainer>,
}

impl Absent {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }
}

impl JobEnd {
    /// Which job it was.
    pub fn job(&self) -> Job {
        match self {
            Self::Prepared(_) => Job::Prepare,
            Self::VolumesMounted(_) => Job::MountVolumes,
            Self::ClaimsPrepared(_) => Job::PrepareClaims,
            Self::ClaimsReleased(_) => Job::ReleaseClaims,
            Self::SandboxUp(_) => Job::SetUpSandbox,
            Self::ImageEnsured(container, _) => Job::EnsureImage(container.clone()),
            Self::Started(container, _) | Self::Left(container) => Job::StartContainer(container.clone()),
            Self::Killed(id, _) => Job::KillContainer(id.clone()),
            Self::Removed(_) => Job::RemoveContainers,
            Self::Reset(_) => Job::ResetContainers,
            Self::Resized(_) => Job::Resize,
            Self::PodKilled(_) => Job::KillPod,
            Self::Confirmed(..) => Job::Confirm,
            Self::CleanedUp(_) => Job::CleanUp,
            Self::RemainsRemoved(..) => Job::Remove,
        }
    }

    /// How it failed, where the pod's waits are to say so. Images and starts of containers have reasons of their own.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Prepared(Err(problem))
            | Self::PodKilled(Err(problem))
            | Self::Killed(_, Err(problem))
            | Self::Removed(Err(problem))
            | Self::Confirmed(_, Err(problem))
            | Self::RemainsRemoved(_, Err(problem)) => Some(problem),
            Self::ClaimsPrepared(Err(failure)) | Self::ClaimsReleased(Err(failure)) => Some(&failure.message),
            Self::SandboxUp(Err(failure)) => Some(&failure.message),
            Self::VolumesMounted(Err(failure)) => Some(&failure.message),
            Self::CleanedUp(Err(failure)) => Some(&failure.message),
            _ => None,
        }
    }

    /// The end of a job whose own code failed.
    pub fn lost(job: Job, why: String) -> Self {
        match job {
            Job::Prepare => Self::Prepared(Err(why)),
            Job::MountVolumes => Self::VolumesMounted(Err(VolumeFailure::lost(why))),
            Job::PrepareClaims => Self::ClaimsPrepared(Err(ClaimFailure { in_processing: false, message: why })),
            Job::ReleaseClaims => Self::ClaimsReleased(Err(ClaimFailure { in_processing: false, message: why })),
            Job::SetUpSandbox => Self::SandboxUp(Err(SandboxFailure { made: false, message: why })),
            Job::EnsureImage(container) => Self::ImageEnsured(container, Err(ImageFailure::lost(why))),
            Job::StartContainer(container) => {
                Self::Started(container, Err(StartFailure { reason: StartReason::RunContainerError, message: why }))
            }
            Job::KillContainer(id) => Self::Killed(id, Err(why)),
            Job::RemoveContainers => Self::Removed(Err(why)),
            Job::ResetContainers => Self::Reset(Err(why)),
            Job::Resize => Self::Resized(ResizeReport { changed: true, problem: Some(why), ..ResizeReport::default() }),
            Job::KillPod => Self::PodKilled(Err(why)),
            Job::Confirm => Self::Confirmed(Absent::default(), Err(why)),
            Job::CleanUp => Self::CleanedUp(Err(why.into())),
            Job::Remove => Self::RemainsRemoved(Remains::default(), Err(why)),
        }
    }
}
