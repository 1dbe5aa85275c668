//! Upstream's steps and words for the parts of mounting a driver's volume; they differ between file systems and devices.

use crate::logic::volumes::csi::source::CsiSource;
use crate::logic::volumes::steps::VolumeStep;

/// A step, and how the text about its failure begins.
type Begins = (VolumeStep, &'static str);

/// See the module.
pub(super) struct Words {
    /// The driver's rules.
    pub(super) rules: Begins,
    /// The wait until it is attached.
    pub(super) wait: VolumeStep,
    /// Where the driver serves.
    pub(super) client: Begins,
    /// The driver's capabilities.
    pub(super) can: Begins,
    /// Staging.
    pub(super) stage: VolumeStep,
    /// Notes about the pod's use, and whether the pod may have it.
    pub(super) note: VolumeStep,
    /// Publishing.
    pub(super) publish: VolumeStep,
    /// The absence of what a driver should have published.
    pub(super) nothing: &'static str,
}

impl Words {
    /// Those for a volume.
    pub(super) fn of(source: &CsiSource) -> Self {
        if source.is_block { Self::of_device() } else { Self::of_file_system(source.is_ephemeral) }
    }

    fn of_file_system(is_ephemeral: bool) -> Self {
        let (client, can) = if is_ephemeral {
            let text = "kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: ";
            ((VolumeStep::SetUp, text), VolumeStep::SetUp)
        } else {
            let text = "kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: ";
            ((VolumeStep::MountDevice, text), VolumeStep::MountDevice)
        };
        let rules = "kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: ";
        Self {
            rules: (VolumeStep::SetUp, rules),
            wait: VolumeStep::WaitForAttach,
            client,
            can: (can, ""),
            stage: VolumeStep::MountDevice,
            note: VolumeStep::SetUp,
            publish: VolumeStep::SetUp,
            nothing: "nothing is mounted",
        }
    }

    fn of_device() -> Self {
        let step = VolumeStep::SetUpDevice;
        let can =
            "kubernetes.io/csi: blockMapper.stageVolumeForBlock failed to check STAGE_UNSTAGE_VOLUME capability: ";
        Self {
            rules: (step, "kubernetes.io/csi: blockMapper.SetupDevice failed to check CSIDriver: "),
            wait: VolumeStep::MapWaitForAttach,
            client: (step, "kubernetes.io/csi: blockMapper.SetUpDevice failed to get CSI client: "),
            can: (step, can),
            stage: step,
            note: step,
            publish: VolumeStep::MapPodDevice,
            nothing: "there is no block device",
        }
    }
}
