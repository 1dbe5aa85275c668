//! Which processes of the machine belong into which cgroup: the agent itself (`kubeletCgroups`) and daemons that nobody
//! else placed (`systemCgroups`) (RES-19).
//!
//! Pure. Nothing is moved unless a setting asks for it. The runtime is never moved: `--runtime-cgroups` only says where
//! it is measured.

use crate::logic::resources::CgroupVersion;
use crate::logic::resources::cgroup_name::{CgroupName, InvalidComponent};

/// The wishes of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementSettings {
    /// Where the agent moves itself.
    pub agent: Option<CgroupName>,
    /// Where daemons are moved that are in no cgroup.
    pub system: Option<CgroupName>,
    /// The agent's `oom_score_adj`.
    pub oom_score_adj: i32,
}

/// A setting that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Upstream's text.
    #[error("system container cannot be root (\"/\")")]
    SystemIsRoot,
    /// No path of a cgroup.
    #[error("{field}: {error}")]
    NoPath {
        /// The field of the configuration.
        field: &'static str,
        /// The fault in it.
        error: InvalidComponent,
    },
}

impl PlacementSettings {
    /// Reads `kubeletCgroups`, `systemCgroups` and `oomScoreAdj`; an empty path asks for nothing.
    ///
    /// # Errors
    /// A text that is no path, or the root for the system's processes: they are there already.
    pub fn from_config(kubelet: &str, system: &str, oom_score_adj: i32) -> Result<Self, PlacementError> {
        let read = |field, path: &str| match path {
            "" => Ok(None),
            path => {
                CgroupName::from_cgroupfs_path(path).map(Some).map_err(|error| PlacementError::NoPath { field, error })
            }
        };
        let (agent, system) = (read("kubeletCgroups", kubelet)?, read("systemCgroups", system)?);
        if system.as_ref().is_some_and(|system| system.components().is_empty()) {
            return Err(PlacementError::SystemIsRoot);
        }
        Ok(Self { agent, system, oom_score_adj })
    }
}

/// A process that is in the root cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RootProcess {
    /// Its ID.
    pub pid: i32,
    /// Whether it is a thread of the kernel: those have no executable.
    pub is_kernel: bool,
}

/// The processes that are moved out of the root. The kernel's threads stay, for a share of the system's would slow down
/// all others, and so does the first process.
pub fn to_move(processes: &[RootProcess]) -> Vec<i32> {
    processes.iter().filter(|one| one.pid > 1 && !one.is_kernel).map(|one| one.pid).collect()
}

/// The cgroup of a process by the text of its `/proc/<pid>/cgroup`, as upstream finds it: with several hierarchies those
/// of processor time and memory must agree, and that of systemd counts where there is one.
///
/// # Errors
/// Upstream's texts.
pub fn cgroup_of(text: &str, version: CgroupVersion) -> Result<String, String> {
    let find = |wanted: &str| {
        text.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|controller| controller == wanted).then_some(path)
        })
    };
    let must_find = |wanted: &str, shown: &str| find(wanted).ok_or(format!("mountpoint for {shown} not found"));
    if version == CgroupVersion::V2 {
        return must_find("", "unified").map(str::to_owned);
    }
    let (cpu, memory) = (must_find("cpu", "cpu")?, must_find("memory", "memory")?);
    if cpu != memory {
        return Err(format!("cpu and memory cgroup hierarchy not unified.  cpu: {cpu}, memory: {memory}"));
    }
    Ok(find("name=systemd").unwrap_or(cpu).to_owned())
}

/// Whether a process in the cgroup of this path has to be moved to the one that is asked for.
pub fn is_elsewhere(path: &str, wanted: &CgroupName) -> bool {
    CgroupName::from_cgroupfs_path(path).map_or(true, |here| here != *wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RES-19.
    #[test]
    fn settings_ask_for_cgroups_and_the_root_is_refused_for_daemons() {
        let read = PlacementSettings::from_config;
        assert_eq!(read("", "", -999), Ok(PlacementSettings { oom_score_adj: -999, ..PlacementSettings::default() }));
        let both = read("/kubelet.slice", "/system/daemons", 0).expect("paths");
        assert_eq!(both.agent.map(|name| name.to_string()), Some("/kubelet.slice".to_owned()));
        assert_eq!(both.system.map(|name| name.to_string()), Some("/system/daemons".to_owned()));
        // The agent may be wanted in the root; daemons are moved out of it.
        assert!(read("/", "", 0).is_ok());
        let text = read("", "/", 0).expect_err("the root").to_string();
        assert_eq!(text, "system container cannot be root (\"/\")");
        let text = read("/a/../b", "", 0).expect_err("it leads elsewhere").to_string();
        assert!(text.starts_with("kubeletCgroups: "), "{text}");
    }

    #[test]
    fn the_first_process_and_the_kernels_threads_stay_in_the_root() {
        let seen = [(1, false), (2, true), (40, true), (41, false), (0, false), (42, false)];
        let seen = seen.map(|(pid, is_kernel)| RootProcess { pid, is_kernel });
        // A zero stands for a process outside of this view of process IDs.
        assert_eq!(to_move(&seen), [41, 42]);
    }

    #[test]
    fn a_process_is_found_in_every_generation_of_cgroups() {
        let unified = "0::/system.slice/podwright.service\n";
        let several = "4:memory:/a\n3:cpuset:/\n2:cpu,cpuacct:/a\n";
        let with_systemd = "4:memory:/\n2:cpu,cpuacct:/\n1:name=systemd:/system.slice/kubelet.service\n0::/x\n";
        let apart = "4:memory:/a\n2:cpu,cpuacct:/b\n";
        let cases = [
            (unified, CgroupVersion::V2, Ok("/system.slice/podwright.service")),
            (several, CgroupVersion::V1, Ok("/a")),
            (with_systemd, CgroupVersion::V1, Ok("/system.slice/kubelet.service")),
            (apart, CgroupVersion::V1, Err("cpu and memory cgroup hierarchy not unified.  cpu: /b, memory: /a")),
            (several, CgroupVersion::V2, Err("mountpoint for unified not found")),
            (unified, CgroupVersion::V1, Err("mountpoint for cpu not found")),
        ];
        for (text, version, expected) in cases {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(cgroup_of(text, version), expected, "{text}");
        }
    }

    #[test]
    fn a_process_that_is_there_is_not_moved() {
        let wanted = CgroupName::from_cgroupfs_path("/kubelet.slice").expect("a path");
        for (path, expected) in [("/kubelet.slice", false), ("/kubelet.slice/", false), ("/", true), ("/x/..", true)] {
            assert_eq!(is_elsewhere(path, &wanted), expected, "{path}");
        }
    }
}
