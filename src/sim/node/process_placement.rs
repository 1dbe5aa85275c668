//! Processes of the simulated node that are no containers: the agent, the kernel's threads, daemons.

use std::collections::BTreeMap;
use std::io;

use super::outlet::Outlet;
use crate::actors::kit::trace::lock;
use crate::logic::resources::CgroupVersion;
use crate::logic::resources::cgroup_name::CgroupName;
use crate::logic::resources::node_cgroups::process_placement::RootProcess;
use crate::platform::cgroup::CgroupError;
use crate::platform::cgroup::process_placement::ProcessPlacement;
use crate::platform::host::process::SettingError;

/// The agent's process ID.
pub const AGENT: i32 = 500;

/// See the module.
#[derive(Debug)]
pub struct Processes {
    /// Where each is, by process ID.
    pub placed: BTreeMap<i32, CgroupName>,
    /// Those that are threads of the kernel.
    pub of_kernel: Vec<i32>,
    /// The agent's `oom_score_adj`.
    pub oom_score_adj: i32,
    /// Whether the kernel forbids a lower score, as it does to whoever lacks the right.
    pub score_is_fixed: bool,
}

impl Default for Processes {
    fn default() -> Self {
        let placed = [1, 2, 3, 100, 101, AGENT].map(|pid| (pid, CgroupName::root())).into();
        Self { placed, of_kernel: vec![2, 3], oom_score_adj: 0, score_is_fixed: false }
    }
}

impl ProcessPlacement for Outlet {
    fn version(&self) -> CgroupVersion {
        CgroupVersion::V2
    }

    fn is_in_host(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn own_cgroups(&self) -> io::Result<String> {
        let processes = lock(&self.node().processes);
        processes.placed.get(&AGENT).map(|name| format!("0::{name}\n")).ok_or(io::ErrorKind::NotFound.into())
    }

    fn enter(&self, name: &CgroupName, pid: Option<i32>) -> Result<(), CgroupError> {
        if self.is_alive() {
            lock(&self.node().processes).placed.insert(pid.unwrap_or(AGENT), name.clone());
        }
        Ok(())
    }

    fn root_processes(&self) -> Result<Vec<RootProcess>, CgroupError> {
        let processes = lock(&self.node().processes);
        let of_root = processes.placed.iter().filter(|(_, name)| name.components().is_empty());
        let process = |pid: i32| RootProcess { pid, is_kernel: processes.of_kernel.contains(&pid) };
        Ok(of_root.map(|(pid, _)| process(*pid)).collect())
    }

    fn set_oom_score_adj(&self, value: i32) -> Result<(), SettingError> {
        let mut processes = lock(&self.node().processes);
        if processes.score_is_fixed {
            let problem = io::ErrorKind::PermissionDenied.into();
            return Err(SettingError { setting: "oom_score_adj", value: value.to_string(), problem });
        }
        processes.oom_score_adj = value;
        Ok(())
    }
}
