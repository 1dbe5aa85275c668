//! Whether the pod's cgroup is set, and what may be put in it before.

use crate::logic::resources::cgroup_name::CgroupDriver;

/// See the module.
#[derive(Clone, Debug)]
pub struct PodCgroup {
    is_set: bool,
    driver: CgroupDriver,
}

impl Default for PodCgroup {
    fn default() -> Self {
        Self { is_set: false, driver: CgroupDriver::Cgroupfs }
    }
}

impl PodCgroup {
    /// Takes who makes cgroups.
    pub fn set_driver(&mut self, driver: CgroupDriver) {
        self.driver = driver;
    }

    /// Whether the cgroup is there with the pod's limits.
    pub fn is_set(&self) -> bool {
        self.is_set
    }

    /// The cgroup is there with the pod's limits.
    pub fn note_set(&mut self) {
        self.is_set = true;
    }

    /// The cgroup may be gone.
    pub fn doubt(&mut self) {
        self.is_set = false;
    }

    /// Whether a sandbox may be made. A sandbox uses nothing that a limit is for, so it is made while the cgroup is being
    /// set. A systemd slice must be there before: a slice that systemd makes by itself is stopped with the first ones when
    /// the node shuts down.
    pub fn admits_sandbox(&self, is_being_set: bool) -> bool {
        match self.driver {
            CgroupDriver::Cgroupfs => self.is_set || is_being_set,
            CgroupDriver::Systemd => self.is_set,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_waits_for_a_slice_and_not_for_a_folder() {
        for (driver, is_being_set, admits) in [
            (CgroupDriver::Cgroupfs, false, false),
            (CgroupDriver::Cgroupfs, true, true),
            (CgroupDriver::Systemd, false, false),
            (CgroupDriver::Systemd, true, false),
        ] {
            let mut cgroup = PodCgroup::default();
            cgroup.set_driver(driver);
            assert_eq!(cgroup.admits_sandbox(is_being_set), admits, "{driver:?}, being set: {is_being_set}");
            cgroup.note_set();
            assert!(cgroup.admits_sandbox(is_being_set), "{driver:?}, set");
        }
    }
}
