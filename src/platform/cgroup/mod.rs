//! The kernel's control groups: made, set, read and removed for the agent.
//!
//! [`CgroupManager`] is what the resource manager holds; its forms are the file system of either generation ([`v1`],
//! [`v2`]) and [`systemd`], which asks the service manager first. They keep open directories and nothing else: the tree
//! itself is the state. All calls block: run them through [`crate::platform::host::blocking`].

use std::collections::BTreeSet;
use std::io;
use std::sync::Once;

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};

use crate::logic::model::ids::PodUid;
use crate::logic::resources::cgroup_name::{CgroupDriver, CgroupName, CgroupTree, InvalidComponent};
use crate::logic::resources::node_cgroups::NotConfigured;
use crate::logic::resources::{CgroupSettings, CgroupVersion, hugepage_unit_name};

mod directory;
mod kill;
pub mod process_placement;
pub mod systemd;
pub mod v1;
pub mod v2;

/// Where control groups are mounted on Linux.
pub const CGROUP_MOUNT: &str = "/sys/fs/cgroup";
/// Controllers that a cgroup of the agent must have where the host has them; upstream's list.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "memory", "hugetlb", "pids"];

/// An error of a cgroup, and its place.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A file or folder could not be read.
    #[error("read {file}: {source}")]
    Read {
        /// Its path.
        file: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A value could not be written: the limit is not in force.
    #[error("write {value:?} to {file}: {source}")]
    Write {
        /// The file's path.
        file: String,
        /// The value to write.
        value: String,
        /// The kernel's answer; `NotFound` when the controller is not there.
        source: io::Error,
    },
    /// The host has no such control at all.
    #[error("write {value:?} to {file} of cgroup {name}: this host has no such control")]
    Unsupported {
        /// The cgroup.
        name: CgroupName,
        /// The file that is missing.
        file: String,
        /// The value to write.
        value: String,
    },
    /// A folder could not be made.
    #[error("create {folder}: {source}")]
    Create {
        /// Its path.
        folder: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A folder could not be removed.
    #[error("remove {folder}: {source}")]
    Remove {
        /// Its path.
        folder: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Upstream's text for a v2 cgroup whose controllers cannot be read: nearly always it is not there.
    #[error("could not read controllers for cgroup {}: {source}", name.quoted())]
    UnknownControllers {
        /// The cgroup.
        name: CgroupName,
        /// Why.
        source: Box<CgroupError>,
    },
    /// Upstream's text for a v2 cgroup that lacks controllers.
    #[error("cgroup {} has some missing controllers: {}", name.quoted(), missing.join(", "))]
    MissingControllers {
        /// The cgroup.
        name: CgroupName,
        /// The controllers that it lacks.
        missing: Vec<String>,
    },
    /// Upstream's text for a v1 cgroup that some hierarchies lack.
    #[error("cgroup {} has some missing paths: {}", name.quoted(), missing.join(", "))]
    MissingPaths {
        /// The cgroup.
        name: CgroupName,
        /// The folders that are not there.
        missing: Vec<String>,
    },
    /// Processes outlived every attempt to kill them.
    #[error("kill the processes of cgroup {name}: {} left: {pids:?}", pids.len())]
    Alive {
        /// The cgroup.
        name: CgroupName,
        /// The processes that are left.
        pids: BTreeSet<i32>,
    },
    /// The cgroup holds this agent, or everything.
    #[error("refuse to destroy cgroup {name}: it holds this process")]
    Own {
        /// The cgroup.
        name: CgroupName,
    },
    /// A required v1 controller is not mounted; upstream's text.
    #[error("system validation failed - Following Cgroup subsystem not mounted: [{}]", missing.join(" "))]
    NotMounted {
        /// The controllers.
        missing: Vec<String>,
    },
    /// A text that is no cgroup's name.
    #[error(transparent)]
    Name(#[from] InvalidComponent),
    /// A cgroup that is to be limited to a reservation of nothing.
    #[error(transparent)]
    NotConfigured(#[from] NotConfigured),
    /// systemd refused or did not answer.
    #[error("{action} unit {unit}: {reason}")]
    Systemd {
        /// The request.
        action: &'static str,
        /// The unit.
        unit: String,
        /// The answer.
        reason: String,
    },
}

impl CgroupError {
    /// Whether the same call may work a little later: something is busy, or has just changed.
    pub fn is_transient(&self) -> bool {
        let busy = |source: &io::Error| {
            matches!(
                source.kind(),
                io::ErrorKind::ResourceBusy | io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
            )
        };
        match self {
            Self::Read { source, .. }
            | Self::Write { source, .. }
            | Self::Create { source, .. }
            | Self::Remove { source, .. } => busy(source),
            Self::Alive { .. } | Self::Systemd { .. } => true,
            Self::Unsupported { .. }
            | Self::MissingControllers { .. }
            | Self::MissingPaths { .. }
            | Self::Own { .. }
            | Self::UnknownControllers { .. }
            | Self::NotMounted { .. }
            | Self::NotConfigured(_)
            | Self::Name(_) => false,
        }
    }
}

/// Makes, sets, reads and removes cgroups. All calls block.
pub trait CgroupManager: Send + Sync {
    /// The host's generation of control groups.
    fn version(&self) -> CgroupVersion;

    /// The creator of cgroups.
    fn driver(&self) -> CgroupDriver;

    /// Checks that a cgroup is there with every controller of the host that the agent uses; upstream's `Validate`.
    ///
    /// # Errors
    /// The missing part, in upstream's words.
    fn validate(&self, name: &CgroupName) -> Result<(), CgroupError>;

    /// Whether [`Self::validate`] finds nothing missing; upstream's `Exists`.
    fn exists(&self, name: &CgroupName) -> bool {
        self.validate(name).is_ok()
    }

    /// Makes a cgroup, and what is missing above it, and sets it. One that exists is only set.
    ///
    /// # Errors
    /// The first thing that failed. A setting that failed does not keep the others from being tried.
    fn create(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError>;

    /// Sets an existing cgroup; what is absent in the settings stays as it is.
    ///
    /// # Errors
    /// The first setting that failed; the others have been tried.
    fn update(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError>;

    /// Kills what runs in a cgroup and below, then removes it. One that is not there is well removed.
    ///
    /// # Errors
    /// Processes that stay, or folders that cannot be removed.
    fn destroy(&self, name: &CgroupName) -> Result<(), CgroupError>;

    /// The processes in a cgroup and below; none when it is not there.
    ///
    /// # Errors
    /// A list that cannot be read.
    fn pids(&self, name: &CgroupName) -> Result<BTreeSet<i32>, CgroupError>;

    /// Every pod that has a cgroup in any hierarchy, sorted: what no source wants among them is an orphan.
    ///
    /// # Errors
    /// A tier that cannot be read.
    fn list_pods(&self, tree: &CgroupTree) -> Result<Vec<(PodUid, CgroupName)>, CgroupError>;

    /// The values of a cgroup now: CPU, memory, process ids. No limit is −1; a value that the host cannot control is
    /// absent.
    ///
    /// # Errors
    /// A file that cannot be read.
    fn read(&self, name: &CgroupName) -> Result<CgroupSettings, CgroupError>;

    /// The memory in use by a cgroup, in bytes.
    ///
    /// # Errors
    /// A figure that cannot be read.
    fn memory_usage(&self, name: &CgroupName) -> Result<u64, CgroupError>;
}

/// Puts processes that are no pod's into cgroups. All calls block.
pub trait CgroupEntry: Send + Sync {
    /// Puts a process into a cgroup of every hierarchy; the cgroup is made if it is not there. A process that has ended is
    /// well placed.
    ///
    /// # Errors
    /// The first thing that failed; other hierarchies were tried all the same.
    fn enter(&self, name: &CgroupName, pid: i32) -> Result<(), CgroupError>;

    /// The processes in the root itself, not in what is below.
    ///
    /// # Errors
    /// A list that cannot be read.
    fn root_pids(&self) -> Result<BTreeSet<i32>, CgroupError>;
}

/// The host's generation of control groups: v2 if, and only if, [`CGROUP_MOUNT`] is the unified hierarchy. A hybrid
/// host, whose v2 tree lies beside the v1 ones without controllers, counts as v1.
pub fn detect() -> CgroupVersion {
    if is_unified(CGROUP_MOUNT) { CgroupVersion::V2 } else { CgroupVersion::V1 }
}

/// Whether a hierarchy of the second generation is mounted here.
fn is_unified(mount: &str) -> bool {
    statfs(mount).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

/// Opens the host's control groups as files, with folders named as `driver` names them.
///
/// # Errors
/// Mounts that cannot be read or opened, or lack what the agent needs.
pub fn open_file_system(driver: CgroupDriver) -> Result<Box<dyn CgroupManager>, CgroupError> {
    Ok(match detect() {
        CgroupVersion::V1 => Box::new(v1::CgroupsV1::open(driver)?),
        CgroupVersion::V2 => Box::new(v2::CgroupsV2::open(driver)?),
    })
}

/// Opens the host's control groups for processes that are no pod's.
///
/// # Errors
/// As [`open_file_system`].
pub fn open_entry() -> Result<Box<dyn CgroupEntry>, CgroupError> {
    Ok(match detect() {
        CgroupVersion::V1 => Box::new(v1::CgroupsV1::open(CgroupDriver::Cgroupfs)?),
        CgroupVersion::V2 => Box::new(v2::CgroupsV2::open(CgroupDriver::Cgroupfs)?),
    })
}

/// Keeps the first failure while the rest is still tried.
#[derive(Default)]
struct FirstError(Option<CgroupError>);

impl FirstError {
    fn note(&mut self, outcome: Result<(), CgroupError>) {
        if let Err(error) = outcome {
            self.0.get_or_insert(error);
        }
    }

    fn finish(self) -> Result<(), CgroupError> {
        self.0.map_or(Ok(()), Err)
    }
}

/// Huge page limits to write, in bytes by the kernel's name of the size.
struct HugepageValues {
    /// Sizes the host has: the given limits, and for those not given the settings' other value.
    known: Vec<(String, u64)>,
    /// Sizes the host lacks, with limits above nothing: they cannot be kept.
    unknown: Vec<(String, u64)>,
}

/// Says once that nothing limits the huge pages of pods: as upstream has it, the controller `hugetlb` is optional, and a pod
/// with huge pages starts without it.
fn tell_unlimited_hugepages(settings: &CgroupSettings) {
    static TOLD: Once = Once::new();
    if settings.hugepages.iter().flatten().any(|(_, limit)| *limit > 0) {
        TOLD.call_once(|| {
            tracing::warn!("the host has no cgroup controller hugetlb: huge pages of pods are not limited")
        });
    }
}

fn hugepage_values(settings: &CgroupSettings, host_sizes: &BTreeSet<String>) -> HugepageValues {
    let given = settings.hugepages.iter().flatten();
    let named: Vec<_> = given.filter_map(|(size, limit)| Some((hugepage_unit_name(*size)?, *limit))).collect();
    let others = host_sizes.iter().filter(|size| !named.iter().any(|(name, _)| name == *size));
    let others: Vec<_> = others.map(|size| (size.clone(), settings.hugepages_otherwise)).collect();
    let (mut known, mut unknown): (Vec<_>, Vec<_>) = named.into_iter().partition(|(size, _)| host_sizes.contains(size));
    known.extend(others);
    unknown.retain(|(_, limit)| *limit > 0);
    HugepageValues { known, unknown }
}

#[cfg(test)]
mod tests;
