//! Processes of the machine and the cgroups that they are in, as the kernel shows and changes them.
//!
//! Used by the actor `ProcessPlacement`. Keeps where `/proc` is and the cgroups' open roots. All calls block: run them
//! through [`crate::platform::host::blocking`].

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use crate::logic::resources::CgroupVersion;
use crate::logic::resources::cgroup_name::CgroupName;
use crate::logic::resources::node_cgroups::process_placement::RootProcess;
use crate::platform::cgroup::{CgroupEntry, CgroupError};
use crate::platform::host::process;

/// The most that is read of a process's list of cgroups.
const BYTES_MAX: u64 = 64 * 1024;

/// See the module.
pub trait ProcessPlacement: Send + Sync {
    /// The generation of cgroups.
    fn version(&self) -> CgroupVersion;

    /// Whether the agent is in the same PID namespace as the machine's first process, and not in a container.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn is_in_host(&self) -> io::Result<bool>;

    /// The text of the agent's own `/proc/<pid>/cgroup`.
    ///
    /// # Errors
    /// When it cannot be read.
    fn own_cgroups(&self) -> io::Result<String>;

    /// Puts a process into a cgroup, which is made if it is not there; the agent itself is `None`. One that has ended is
    /// well placed.
    ///
    /// # Errors
    /// The kernel's refusal.
    fn enter(&self, name: &CgroupName, pid: Option<i32>) -> Result<(), CgroupError>;

    /// The processes in the root cgroup itself.
    ///
    /// # Errors
    /// When the list cannot be read.
    fn root_processes(&self) -> Result<Vec<RootProcess>, CgroupError>;

    /// Sets how likely the kernel kills the agent.
    ///
    /// # Errors
    /// The kernel's refusal.
    fn set_oom_score_adj(&self, value: i32) -> Result<(), process::SettingError>;
}

/// A container of the agent's own, in which nobody is moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPlacement;

impl ProcessPlacement for NoPlacement {
    fn version(&self) -> CgroupVersion {
        CgroupVersion::V2
    }

    fn is_in_host(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn own_cgroups(&self) -> io::Result<String> {
        Ok("0::/\n".to_owned())
    }

    fn enter(&self, _: &CgroupName, _: Option<i32>) -> Result<(), CgroupError> {
        Ok(())
    }

    fn root_processes(&self) -> Result<Vec<RootProcess>, CgroupError> {
        Ok(vec![])
    }

    fn set_oom_score_adj(&self, _: i32) -> Result<(), process::SettingError> {
        Ok(())
    }
}

/// This machine.
pub struct LinuxPlacement {
    proc: PathBuf,
    version: CgroupVersion,
    cgroups: Box<dyn CgroupEntry>,
}

impl LinuxPlacement {
    /// A machine whose processes are in the folder `proc`.
    pub fn new(proc: PathBuf, version: CgroupVersion, cgroups: Box<dyn CgroupEntry>) -> Self {
        Self { proc, version, cgroups }
    }
}

impl ProcessPlacement for LinuxPlacement {
    fn version(&self) -> CgroupVersion {
        self.version
    }

    fn is_in_host(&self) -> io::Result<bool> {
        let namespace = |process: &str| std::fs::read_link(self.proc.join(process).join("ns/pid"));
        Ok(namespace("1")? == namespace("self")?)
    }

    fn own_cgroups(&self) -> io::Result<String> {
        let mut text = String::new();
        File::open(self.proc.join("self/cgroup"))?.take(BYTES_MAX).read_to_string(&mut text)?;
        Ok(text)
    }

    fn enter(&self, name: &CgroupName, pid: Option<i32>) -> Result<(), CgroupError> {
        let own = || i32::try_from(std::process::id()).expect("the kernel's process IDs are smaller");
        self.cgroups.enter(name, pid.unwrap_or_else(own))
    }

    fn root_processes(&self) -> Result<Vec<RootProcess>, CgroupError> {
        // A process that ends meanwhile has no executable either, and needs none.
        let is_kernel = |pid: i32| {
            let link = std::fs::read_link(self.proc.join(pid.to_string()).join("exe"));
            link.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let pids = self.cgroups.root_pids()?;
        Ok(pids.into_iter().map(|pid| RootProcess { pid, is_kernel: is_kernel(pid) }).collect())
    }

    fn set_oom_score_adj(&self, value: i32) -> Result<(), process::SettingError> {
        process::set_oom_score_adj(value)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::logic::resources::cgroup_name::CgroupDriver;
    use crate::platform::cgroup::v2::CgroupsV2;

    /// RES-19: the files of a kernel, played by a folder.
    #[test]
    fn processes_of_the_root_are_told_apart_and_moved() {
        let folder = tempfile::tempdir().expect("a directory");
        let (proc, cgroups) = (folder.path().join("proc"), folder.path().join("cgroup"));
        for (process, is_kernel) in [("1", false), ("2", true), ("70", false)] {
            fs::create_dir_all(proc.join(process).join("ns")).expect("made");
            symlink("pid:[1]", proc.join(process).join("ns/pid")).expect("linked");
            if !is_kernel {
                symlink("/sbin/daemon", proc.join(process).join("exe")).expect("linked");
            }
        }
        symlink("70", proc.join("self")).expect("linked");
        fs::write(proc.join("70/cgroup"), "0::/\n").expect("written");
        fs::create_dir_all(cgroups.join("daemons/inner")).expect("made");
        for (file, text) in [
            ("cgroup.controllers", "cpu memory\n"),
            ("cgroup.subtree_control", "cpu memory\n"),
            ("cgroup.procs", "1\n2\n70\n"),
            ("daemons/cgroup.procs", ""),
            ("daemons/inner/cgroup.procs", "99\n"),
        ] {
            fs::write(cgroups.join(file), text).expect("written");
        }
        let entry = CgroupsV2::open_at(&cgroups.to_string_lossy(), CgroupDriver::Cgroupfs).expect("opened");
        let placement = LinuxPlacement::new(proc.clone(), CgroupVersion::V2, Box::new(entry));

        assert!(placement.is_in_host().expect("told"));
        assert_eq!(placement.own_cgroups().expect("told"), "0::/\n");
        let seen: Vec<_> =
            placement.root_processes().expect("read").into_iter().map(|one| (one.pid, one.is_kernel)).collect();
        assert_eq!(seen, [(1, false), (2, true), (70, false)], "those below the root are somebody's already");
        let daemons = CgroupName::from_cgroupfs_path("/daemons").expect("a path");
        placement.enter(&daemons, Some(70)).expect("moved");
        assert_eq!(fs::read_to_string(cgroups.join("daemons/cgroup.procs")).expect("there"), "70");

        fs::remove_file(proc.join("70/ns/pid")).expect("removed");
        symlink("pid:[2]", proc.join("70/ns/pid")).expect("linked");
        assert!(!placement.is_in_host().expect("told"), "in a container");
    }
}
