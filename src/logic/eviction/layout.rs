//! Which file systems the node has, and what follows for its disk signals (EVI-09, EVI-38, EVI-39).

use std::time::Duration;

use super::signal::{Resource, Signal};
use super::threshold::Threshold;

/// Where images and writable layers lie, beside the agent's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DiskLayout {
    /// Everything on one file system.
    #[default]
    Single,
    /// Images and writable layers together on a file system of their own.
    ImagesApart,
    /// Images on a file system of their own, writable layers with the agent's directory.
    Split,
}

/// Identities of file systems; `None` where the runtime does not tell one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Devices {
    /// Of the agent's directory.
    pub node: u64,
    /// Of images.
    pub images: Option<u64>,
    /// Of writable layers; `None` when the runtime keeps them with images.
    pub containers: Option<u64>,
}

/// The part of a pod's files that counts for a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Measured {
    /// Writable layers.
    pub rootfs: bool,
    /// Logs.
    pub logs: bool,
    /// Volumes on the node's disk.
    pub volumes: bool,
}

/// Resources that the node itself can free before a pod has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reclaim {
    /// Containers that have ended.
    DeadContainers,
    /// Images that nobody uses.
    UnusedImages,
}

/// Layers lie apart from images although gate `KubeletSeparateDiskGC` is off; upstream's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("KubeletSeparateDiskGC is turned off but we still have a split filesystem")]
pub struct SplitRefused;

impl DiskLayout {
    /// The layout where the gate `KubeletSeparateDiskGC` is off: a disk of layers does not count. Says whether there is one.
    pub fn without_split(devices: Devices) -> (Self, Result<(), SplitRefused>) {
        let refused = if Self::of(devices) == Self::Split { Err(SplitRefused) } else { Ok(()) };
        (Self::of(Devices { containers: None, ..devices }), refused)
    }

    /// The layout of these file systems. Upstream looks once; so may who calls this.
    pub fn of(devices: Devices) -> Self {
        let Some(images) = devices.images else { return Self::Single };
        let is_split = devices.containers.is_some_and(|containers| containers != images);
        match (images != devices.node, is_split) {
            // Images with the agent and layers elsewhere counts as split, too, as upstream has it.
            (_, true) => Self::Split,
            (true, false) => Self::ImagesApart,
            (false, false) => Self::Single,
        }
    }

    /// The thresholds in force: those of `containerfs` are copies of those of the file system that writable layers are
    /// on, whatever the configuration says of them.
    pub fn thresholds(self, configured: &[Threshold]) -> Vec<Threshold> {
        let is_own = |one: &&Threshold| !is_containerfs(one.signal);
        let mut thresholds: Vec<_> = configured.iter().filter(is_own).copied().collect();
        let copies: Vec<_> =
            thresholds.iter().filter_map(|one| Some(Threshold { signal: self.copy(one.signal)?, ..*one })).collect();
        thresholds.extend(copies);
        thresholds
    }

    /// The signal of writable layers that has the thresholds of `signal`.
    fn copy(self, signal: Signal) -> Option<Signal> {
        match (self, signal) {
            (Self::Single | Self::Split, Signal::NodeFsAvailable) | (Self::ImagesApart, Signal::ImageFsAvailable) => {
                Some(Signal::ContainerFsAvailable)
            }
            (Self::Single | Self::Split, Signal::NodeFsInodesFree) | (Self::ImagesApart, Signal::ImageFsInodesFree) => {
                Some(Signal::ContainerFsInodesFree)
            }
            _ => None,
        }
    }

    /// The part of a pod's files that counts for a disk signal.
    pub fn measured(self, signal: Signal) -> Measured {
        let (rootfs, logs, volumes) = match (self, place(signal)) {
            (Self::Single, _) => (true, true, true),
            (Self::ImagesApart, Place::Node) => (false, true, true),
            (Self::ImagesApart, Place::Images | Place::Containers) => (true, false, false),
            (Self::Split, Place::Node | Place::Containers) => (true, true, true),
            (Self::Split, Place::Images) => (false, false, false),
        };
        Measured { rootfs, logs, volumes }
    }

    /// The reclaims of the node, in order, before a pod has to go. Memory and processes have none.
    pub fn reclaims(self, signal: Signal) -> &'static [Reclaim] {
        if !matches!(signal.resource(), Resource::EphemeralStorage | Resource::Inodes) {
            return &[];
        }
        match (self, place(signal)) {
            (Self::Single, _) | (Self::ImagesApart, Place::Images | Place::Containers) => {
                &[Reclaim::DeadContainers, Reclaim::UnusedImages]
            }
            (Self::ImagesApart, Place::Node) => &[],
            (Self::Split, Place::Node | Place::Containers) => &[Reclaim::DeadContainers],
            (Self::Split, Place::Images) => &[Reclaim::UnusedImages],
        }
    }
}

#[derive(Clone, Copy)]
enum Place {
    Node,
    Images,
    Containers,
}

fn place(signal: Signal) -> Place {
    match signal {
        Signal::ImageFsAvailable | Signal::ImageFsInodesFree => Place::Images,
        Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree => Place::Containers,
        _ => Place::Node,
    }
}

fn is_containerfs(signal: Signal) -> bool {
    matches!(signal, Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree)
}

/// Upstream's warning at the start about a threshold that [`DiskLayout::thresholds`] replaces.
pub fn ignored(configured: &[Threshold]) -> Vec<String> {
    let replaced = configured.iter().filter(|one| is_containerfs(one.signal));
    let kind = |grace: Duration| if grace.is_zero() { "hard" } else { "soft" };
    replaced.map(|one| format!("found {} for {} eviction. ignoring", one.signal, kind(one.grace))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::resources::portion::Portion;

    /// EVI-09, EVI-39.
    #[test]
    fn evi_39_the_layout_follows_from_the_file_systems() {
        for (images, containers, layout) in [
            (None, None, DiskLayout::Single),
            (Some(1), None, DiskLayout::Single),
            (Some(1), Some(1), DiskLayout::Single),
            (Some(2), None, DiskLayout::ImagesApart),
            (Some(2), Some(2), DiskLayout::ImagesApart),
            (Some(2), Some(1), DiskLayout::Split),
        ] {
            assert_eq!(DiskLayout::of(Devices { node: 1, images, containers }), layout, "{images:?} {containers:?}");
        }
    }

    /// EVI-39: without its gate no layout is split.
    #[test]
    fn evi_39_a_split_is_refused_where_its_gate_is_off() {
        for (images, containers, layout, refused) in [
            (None, None, DiskLayout::Single, Ok(())),
            (Some(1), Some(1), DiskLayout::Single, Ok(())),
            (Some(2), Some(2), DiskLayout::ImagesApart, Ok(())),
            (Some(2), Some(1), DiskLayout::ImagesApart, Err(SplitRefused)),
            (Some(1), Some(2), DiskLayout::Single, Err(SplitRefused)),
        ] {
            let devices = Devices { node: 1, images, containers };
            assert_eq!(DiskLayout::without_split(devices), (layout, refused), "{images:?} {containers:?}");
        }
        let text = "KubeletSeparateDiskGC is turned off but we still have a split filesystem";
        assert_eq!(SplitRefused.to_string(), text);
    }

    /// EVI-38.
    #[test]
    fn evi_38_thresholds_of_containerfs_are_copies() {
        let of = |signal, share, secs| Threshold {
            signal,
            value: Portion::Share(share),
            grace: Duration::from_secs(secs),
            reclaim_min: None,
        };
        let configured = [
            of(Signal::NodeFsAvailable, 0.1, 0),
            of(Signal::ImageFsAvailable, 0.15, 0),
            of(Signal::ImageFsInodesFree, 0.05, 60),
            of(Signal::ContainerFsAvailable, 0.5, 0),
        ];
        assert_eq!(ignored(&configured), ["found containerfs.available for hard eviction. ignoring"]);
        let copies = |layout: DiskLayout| {
            let all = layout.thresholds(&configured);
            assert_eq!(all[..3], configured[..3], "{layout:?}");
            all[3..].to_vec()
        };
        assert_eq!(copies(DiskLayout::Single), [of(Signal::ContainerFsAvailable, 0.1, 0)]);
        assert_eq!(copies(DiskLayout::Split), [of(Signal::ContainerFsAvailable, 0.1, 0)]);
        let apart = [of(Signal::ContainerFsAvailable, 0.15, 0), of(Signal::ContainerFsInodesFree, 0.05, 60)];
        assert_eq!(copies(DiskLayout::ImagesApart), apart);
    }

    /// EVI-39.
    #[test]
    fn evi_39_what_is_measured_and_given_up_follows_from_the_layout() {
        use Reclaim::{DeadContainers, UnusedImages};
        let measured = |rootfs, logs, volumes| Measured { rootfs, logs, volumes };
        let both: &[Reclaim] = &[DeadContainers, UnusedImages];
        for (layout, signal, counts, given_up) in [
            (DiskLayout::Single, Signal::NodeFsAvailable, measured(true, true, true), both),
            (DiskLayout::Single, Signal::ImageFsInodesFree, measured(true, true, true), both),
            (DiskLayout::ImagesApart, Signal::NodeFsInodesFree, measured(false, true, true), &[]),
            (DiskLayout::ImagesApart, Signal::ImageFsAvailable, measured(true, false, false), both),
            (DiskLayout::ImagesApart, Signal::ContainerFsAvailable, measured(true, false, false), both),
            (DiskLayout::Split, Signal::NodeFsAvailable, measured(true, true, true), &[DeadContainers]),
            (DiskLayout::Split, Signal::ContainerFsInodesFree, measured(true, true, true), &[DeadContainers]),
            (DiskLayout::Split, Signal::ImageFsAvailable, measured(false, false, false), &[UnusedImages]),
        ] {
            assert_eq!(layout.measured(signal), counts, "{layout:?} {signal}");
            assert_eq!(layout.reclaims(signal), given_up, "{layout:?} {signal}");
        }
        assert_eq!(DiskLayout::Single.reclaims(Signal::MemoryAvailable), []);
        assert_eq!(DiskLayout::Single.reclaims(Signal::PidAvailable), []);
    }
}
