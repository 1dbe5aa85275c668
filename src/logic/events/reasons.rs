//! The reasons of Events: the one place that names them. Users write alerts and scripts by these words, so each is upstream's
//! where upstream has one.

use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident,)*) => {
        /// Why there is an Event, in one word. The names are the words.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum EventReason {
            $($(#[$doc])* $reason,)*
            /// The node refuses the pod: the reason that the pod's status has, too, such as `OutOfcpu` and `NodeAffinity`.
            NotAdmitted(String),
        }

        impl EventReason {
            /// All but [`Self::NotAdmitted`].
            pub const ALL: &[Self] = &[$(Self::$reason),*];

            /// The word.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$reason => stringify!($reason),)*
                    Self::NotAdmitted(reason) => reason,
                }
            }
        }
    };
}

reasons! {
    // Containers.
    /// A container was made.
    Created,
    /// A container was started.
    Started,
    /// An image, a container or a certificate could not be had.
    Failed,
    /// A container is being stopped.
    Killing,
    /// The pod has to make room for a critical one.
    Preempting,
    /// A container or a pull is not tried again yet.
    BackOff,
    /// A pod that makes room has not ended in time.
    ExceededGracePeriod,
    /// A probe failed.
    Unhealthy,
    /// A probe succeeded, or is put off, with a remark.
    ProbeWarning,
    /// A postStart hook failed.
    FailedPostStartHook,
    /// A pod's claims of resources could not be prepared.
    FailedPrepareDynamicResources,
    /// A preStop hook failed.
    FailedPreStopHook,
    /// An HTTPS hook was answered by HTTP.
    LifecycleHTTPFallback,
    /// Somebody on the node asked for a restart.
    RestartRequested,
    /// Somebody on the node ended a back-off.
    BackOffReset,
    /// The pod may not save up as much CPU time as it asks for.
    CPUBurstLimited,
    // Images.
    /// A pull begins.
    Pulling,
    /// The image is there.
    Pulled,
    /// The runtime cannot say whether it has the image.
    InspectFailed,
    /// The image is not there and must not be pulled.
    ErrImageNeverPull,
    /// A pull secret cannot be read.
    FailedToRetrieveImagePullSecret,
    // Pods.
    /// The pod's containers could not be stopped.
    FailedKillPod,
    /// The pod's cgroup could not be made.
    FailedCreatePodContainer,
    /// The sandbox could not be made.
    FailedCreatePodSandBox,
    /// The sandbox was made and cannot be looked at.
    FailedPodSandBoxStatus,
    /// The sandbox is replaced.
    SandboxChanged,
    /// The pod cannot be brought up to date.
    FailedSync,
    /// A manifest gives no pod.
    FailedValidation,
    /// The node's network is not there yet.
    NetworkNotReady,
    /// The pod's time is over.
    DeadlineExceeded,
    /// The host has addresses of another family than before.
    HostIPsIPFamilyMismatch,
    /// The resolver configuration is longer than is allowed.
    DNSConfigForming,
    /// The pod wants the cluster's DNS, and none is configured.
    MissingClusterDNS,
    /// A resize waits for room.
    ResizeDeferred,
    /// A resize can never be.
    ResizeInfeasible,
    /// A resize begins.
    ResizeStarted,
    /// A resize is in force.
    ResizeCompleted,
    /// A resize failed.
    ResizeError,
    /// The changed pod needs a feature that the node has not declared.
    FailedNodeDeclaredFeaturesCheck,
    // Volumes.
    /// A volume could not be mounted.
    FailedMount,
    /// A device could not be given to containers.
    FailedMapVolume,
    /// A volume is mounted.
    SuccessfulMountVolume,
    /// A volume was mounted already, with other options.
    AlreadyMountedVolume,
    /// A change of the owner of a volume's files takes long.
    VolumePermissionChangeInProgress,
    /// A driver says that a volume is in a bad condition.
    VolumeConditionAbnormal,
    /// A volume has grown on the node.
    FileSystemResizeSuccessful,
    /// A volume cannot be grown, because its pod must not write to it.
    FileSystemResizeFailed,
    /// A volume that a pod has cannot be grown.
    VolumeResizeFailed,
    /// A disk has another file system than its volume says.
    FailedMountOnFilesystemMismatch,
    /// A request for a certificate was denied.
    Denied,
    /// A certificate should have been replaced.
    CertificateOverdueForRefresh,
    /// A certificate is no longer valid.
    CertificateExpired,
    // The node.
    /// A CSI driver that came could not be registered.
    FailedCSIDriverRegistration,
    /// The agent starts.
    Starting,
    /// The node has booted since its status was last set.
    Rebooted,
    /// The node is ready.
    NodeReady,
    /// It is not.
    NodeNotReady,
    /// Pods may be scheduled to it.
    NodeSchedulable,
    /// They may not.
    NodeNotSchedulable,
    /// Memory is not short.
    NodeHasSufficientMemory,
    /// It is.
    NodeHasInsufficientMemory,
    /// The disk is not short.
    NodeHasNoDiskPressure,
    /// It is.
    NodeHasDiskPressure,
    /// Process ids are not short.
    NodeHasSufficientPID,
    /// They are.
    NodeHasInsufficientPID,
    /// Limits of the node's pods are set.
    NodeAllocatableEnforced,
    /// They could not be set.
    FailedNodeAllocatableEnforcement,
    /// The host has cgroup v1.
    CgroupV1,
    /// CPUs or memory were added to the machine, or taken away.
    MachineSizeChanged,
    /// The host may swap what is to be in memory alone.
    PossibleMemoryBackedVolumesOnDisk,
    /// The host's resolver configuration is longer than is allowed.
    CheckLimitsForResolvConf,
    /// Dead containers could not be removed.
    ContainerGCFailed,
    /// Unused images could not be looked at or removed.
    ImageGCFailed,
    /// The disk of images is said to have no size.
    InvalidDiskCapacity,
    /// The machine goes down, or does not after all.
    Shutdown,
    /// Too little of the disk could be freed.
    FreeDiskSpaceFailed,

    // Eviction.
    /// The node has less left than a threshold says, and reclaims.
    EvictionThresholdMet,
    /// The machine ran out of memory, and the kernel killed a process.
    SystemOOM,
    /// The pod ends because the node runs short, or because the pod uses more storage than it may.
    Evicted,
}

impl fmt::Display for EventReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl serde::Serialize for EventReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
