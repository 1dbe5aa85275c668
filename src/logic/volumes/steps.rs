//! Upstream's steps on the way to a volume that containers can use. Its Events name the one that failed.

use crate::logic::events::reasons::EventReason;

/// A step. The texts are those of upstream's Events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum VolumeStep {
    /// Whether the volume is this node's.
    #[strum(to_string = "MountVolume.NodeAffinity check failed")]
    MountAffinity,
    /// Whether its kind takes mount options.
    #[strum(to_string = "MountVolume.MountOptionSupport check failed")]
    MountOptions,
    /// The choice of a mounter.
    #[strum(to_string = "MountVolume.NewMounter initialization failed")]
    NewMounter,
    /// Whether the Node says that it is attached.
    #[strum(to_string = "VerifyControllerAttachedVolume failed")]
    VerifyAttached,
    /// Whether it is attached.
    #[strum(to_string = "MountVolume.WaitForAttach failed")]
    WaitForAttach,
    /// The device behind it.
    #[strum(to_string = "MountVolume.MountDevice failed")]
    MountDevice,
    /// All the rest of a file system.
    #[strum(to_string = "MountVolume.SetUp failed")]
    SetUp,
    /// The growth of a file system while it is mounted for a pod.
    #[strum(to_string = "MountVolume.Setup failed while expanding volume")]
    Expand,
    /// The growth of a volume that a pod has already.
    #[strum(to_string = "NodeExpandVolume.NodeExpandVolume failed")]
    NodeExpand,
    /// Whether a device is this node's.
    #[strum(to_string = "MapVolume.NodeAffinity check failed")]
    MapAffinity,
    /// Whether its kind is one of devices.
    #[strum(
        to_string = "MapVolume.FindMapperPluginBySpec failed to find BlockVolumeMapper plugin. Volume plugin is nil."
    )]
    FindMapper,
    /// The choice of a mapper.
    #[strum(to_string = "MapVolume.NewBlockVolumeMapper initialization failed")]
    NewMapper,
    /// Whether a device is attached.
    #[strum(to_string = "MapVolume.WaitForAttach failed")]
    MapWaitForAttach,
    /// Whether it is free, and staged.
    #[strum(to_string = "MapVolume.SetUpDevice failed")]
    SetUpDevice,
    /// The driver's part of mapping a device for a pod.
    #[strum(to_string = "MapVolume.MapPodDevice failed")]
    MapPodDevice,
    /// The growth of a device while it is mapped for a pod.
    #[strum(to_string = "MapVolume.MarkVolumeAsMounted failed while expanding volume")]
    MapExpand,
    /// All the rest of a device.
    #[strum(to_string = "MapVolume.MapBlockVolume failed")]
    MapBlockVolume,
}

impl VolumeStep {
    /// The reason of the Event. A fault of a device has one of its own, as upstream, but for a volume of other nodes.
    pub fn reason(self) -> EventReason {
        match self {
            Self::FindMapper
            | Self::NewMapper
            | Self::MapWaitForAttach
            | Self::SetUpDevice
            | Self::MapPodDevice
            | Self::MapExpand
            | Self::MapBlockVolume => EventReason::FailedMapVolume,
            Self::NodeExpand => EventReason::VolumeResizeFailed,
            _ => EventReason::FailedMount,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_with_a_device_is_a_failed_map() {
        for (step, text, reason) in [
            (VolumeStep::SetUp, "MountVolume.SetUp failed", EventReason::FailedMount),
            (VolumeStep::MapAffinity, "MapVolume.NodeAffinity check failed", EventReason::FailedMount),
            (VolumeStep::SetUpDevice, "MapVolume.SetUpDevice failed", EventReason::FailedMapVolume),
            (VolumeStep::NodeExpand, "NodeExpandVolume.NodeExpandVolume failed", EventReason::VolumeResizeFailed),
        ] {
            assert_eq!((step.to_string().as_str(), step.reason()), (text, reason));
        }
    }
}
