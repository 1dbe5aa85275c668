//! The thresholds in force on the file systems that the node turns out to have (EVI-38, EVI-39).
//!
//! Owned by `EvictionManager`. The runtime may answer late where its images are; until then all counts as one file system,
//! and grace and transition periods that began meanwhile go on.

use std::time::Duration;

use super::layout::{Devices, DiskLayout, SplitRefused};
use super::monitor::Monitor;
use super::threshold::Threshold;

/// See the module.
#[derive(Clone, Debug)]
pub struct Watch {
    layout: DiskLayout,
    /// The runtime has told where images are. As upstream the layout is found once.
    is_known: bool,
    /// Compares what is observed with the thresholds.
    pub monitor: Monitor,
}

impl Watch {
    /// Nothing is known of the file systems yet. Periods as [`Monitor::new`] has them.
    pub fn new(configured: &[Threshold], transition: Duration) -> Self {
        let layout = DiskLayout::default();
        let monitor = Monitor::new(layout.thresholds(configured), transition);
        Self { layout, is_known: false, monitor }
    }

    /// Takes what a look found of the file systems. `refuses_split` where the gate
    /// `KubeletSeparateDiskGC` is off.
    ///
    /// # Errors
    /// When they are split although the gate is off; reported once, and they count as not split.
    pub fn learn(
        &mut self,
        devices: Devices,
        refuses_split: bool,
        configured: &[Threshold],
    ) -> Result<(), SplitRefused> {
        if self.is_known || devices.images.is_none() {
            return Ok(());
        }
        self.is_known = true;
        let (layout, refused) =
            if refuses_split { DiskLayout::without_split(devices) } else { (DiskLayout::of(devices), Ok(())) };
        self.layout = layout;
        self.monitor.follow(layout.thresholds(configured));
        refused
    }

    /// Other thresholds and periods from now on. Thresholds that stay keep their grace periods, and conditions go on.
    pub fn reconfigure(&mut self, configured: &[Threshold], transition: Duration) {
        self.monitor.follow(self.layout.thresholds(configured));
        self.monitor.outlast(transition);
    }

    /// The file systems, as far as they are known.
    pub fn layout(&self) -> DiskLayout {
        self.layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::eviction::signal::Signal;
    use crate::logic::eviction::testing::{observed, threshold};

    /// EVI-39.
    #[test]
    fn evi_39_the_layout_is_found_when_the_runtime_answers_and_once() {
        let configured = [threshold(Signal::NodeFsAvailable, 10), threshold(Signal::ImageFsAvailable, 20)];
        let mut watch = Watch::new(&configured, Duration::from_secs(300));
        let devices = |images| Devices { node: 1, images, containers: None };
        assert_eq!(watch.learn(devices(None), false, &configured), Ok(()));
        assert_eq!(watch.layout(), DiskLayout::Single);
        watch.monitor.look(&observed(&[(Signal::NodeFsAvailable, 5)]), Duration::from_secs(1));
        assert_eq!(watch.learn(devices(Some(2)), false, &configured), Ok(()));
        assert_eq!(watch.layout(), DiskLayout::ImagesApart);
        assert_eq!(watch.monitor.thresholds(), DiskLayout::ImagesApart.thresholds(&configured));
        assert!(watch.monitor.pressure(Duration::from_secs(200)).disk, "the transition period goes on");
        assert_eq!(watch.learn(devices(Some(1)), false, &configured), Ok(()));
        assert_eq!(watch.layout(), DiskLayout::ImagesApart, "as upstream it is found once");
    }

    /// EVI-39: the node keeps its other thresholds, and the log says once what is wrong.
    #[test]
    fn evi_39_a_split_without_its_gate_is_told_once_and_evicts_as_before() {
        let configured = [threshold(Signal::NodeFsAvailable, 10), threshold(Signal::ImageFsAvailable, 20)];
        let split = Devices { node: 1, images: Some(2), containers: Some(1) };
        let mut watch = Watch::new(&configured, Duration::from_secs(300));
        assert_eq!(watch.learn(split, true, &configured), Err(SplitRefused));
        assert_eq!(watch.layout(), DiskLayout::ImagesApart);
        assert_eq!(watch.monitor.thresholds(), DiskLayout::ImagesApart.thresholds(&configured));
        assert_eq!(watch.learn(split, true, &configured), Ok(()));
        assert!(watch.monitor.look(&observed(&[(Signal::NodeFsAvailable, 5)]), Duration::from_secs(1)).pressure.disk);
        let mut watch = Watch::new(&configured, Duration::from_secs(300));
        assert_eq!(watch.learn(split, false, &configured), Ok(()));
        assert_eq!(watch.layout(), DiskLayout::Split);
    }
}
