//! The thresholds in force on the file systems that the node turns out to have (EVI-38, EVI-39).
//!
//! Owned by `EvictionManager`. The runtime may answer late where its images are; until then all counts as one file system,
//! and grace and transition periods that began meanwhile go on.

use std::time::Duration;

use super::layout::{Devices, DiskLayout};
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

    /// Takes what a look found of the file systems.
    pub fn learn(&mut self, devices: Devices, configured: &[Threshold]) {
        if self.is_known || devices.images.is_none() {
            return;
        }
        self.is_known = true;
        self.layout = DiskLayout::of(devices);
        self.monitor.follow(self.layout.thresholds(configured));
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
        watch.learn(devices(None), &configured);
        assert_eq!(watch.layout(), DiskLayout::Single);
        watch.monitor.look(&observed(&[(Signal::NodeFsAvailable, 5)]), Duration::from_secs(1));
        watch.learn(devices(Some(2)), &configured);
        assert_eq!(watch.layout(), DiskLayout::ImagesApart);
        assert_eq!(watch.monitor.thresholds(), DiskLayout::ImagesApart.thresholds(&configured));
        assert!(watch.monitor.pressure(Duration::from_secs(200)).disk, "the transition period goes on");
        watch.learn(devices(Some(1)), &configured);
        assert_eq!(watch.layout(), DiskLayout::ImagesApart, "as upstream it is found once");
    }
}
