//! Control groups of the first generation: one hierarchy per controller.
//!
//! Owned by the resource manager through [`CgroupManager`]. Keeps the root of every mounted hierarchy open. Controllers
//! are set through `cgroups-rs`; folders are made, walked and removed from their descriptors, because that crate takes
//! a missing folder for an empty one.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use cgroups_rs::fs::MaxValue;
use cgroups_rs::fs::cpu::CpuController;
use cgroups_rs::fs::cpuset::CpuSetController;
use cgroups_rs::fs::error::{Error as LibraryError, ErrorKind};
use cgroups_rs::fs::hierarchies::mountinfo_self;
use cgroups_rs::fs::hugetlb::HugeTlbController;
use cgroups_rs::fs::memory::MemController;
use cgroups_rs::fs::pid::PidController;

use super::directory::Directory;
use super::kill::{self, ATTEMPTS};
use super::v2::list_pods_below;
use super::{
    CgroupEntry, CgroupError, CgroupManager, FirstError, HugepageValues, hugepage_values, is_unified,
    tell_unlimited_hugepages,
};
use crate::logic::model::ids::PodUid;
use crate::logic::resources::cgroup_name::{CgroupDriver, CgroupName, CgroupTree};
use crate::logic::resources::{CgroupSettings, CgroupVersion};

/// Hierarchies that a cgroup must be in, where they are mounted; upstream's list.
const REQUIRED_WHERE_MOUNTED: [&str; 7] = ["cpu", "cpuacct", "cpuset", "memory", "systemd", "pids", "hugetlb"];
/// Controllers without which the agent does not start; upstream's list.
const REQUIRED: [&str; 4] = ["cpu", "cpuacct", "cpuset", "memory"];

/// Where a hybrid host has the second generation's hierarchy; the place that runtimes know.
const UNIFIED_MOUNT: &str = "/sys/fs/cgroup/unified";

/// The hierarchies of this host.
pub struct CgroupsV1 {
    /// Root of each hierarchy by where it is mounted. Several controllers may share one.
    hierarchies: BTreeMap<String, Directory>,
    /// Where each controller is mounted; systemd's own hierarchy has the name `systemd`.
    mounts: BTreeMap<String, String>,
    /// The second generation's hierarchy of a hybrid host. It has no controllers and is never written, but runtimes put
    /// their containers there too, below the folders that they got: those are removed with the others.
    unified: Option<Directory>,
    driver: CgroupDriver,
}

impl CgroupsV1 {
    /// Opens the host's hierarchies, whose folders are named as `driver` names them.
    ///
    /// # Errors
    /// A hierarchy that cannot be opened, or a missing one that the agent needs.
    pub fn open(driver: CgroupDriver) -> Result<Self, CgroupError> {
        let mut mounts: BTreeMap<String, String> = BTreeMap::new();
        for mount in mountinfo_self() {
            let point = mount.mount_point.to_string_lossy().into_owned();
            for option in &mount.super_opts {
                let controller = option.strip_prefix("name=").unwrap_or(option);
                let known = mounts.entry(controller.to_owned()).or_insert_with(|| point.clone());
                // As upstream: of several mounts of one hierarchy, the shortest path.
                if point.len() < known.len() {
                    known.clone_from(&point);
                }
            }
        }
        // Other options of a mount are no controllers.
        mounts.retain(|option, _| !matches!(option.as_str(), "rw" | "ro" | "noprefix" | "xattr" | "clone_children"));
        mounts.retain(|option, _| !option.contains('='));
        let missing: Vec<_> =
            REQUIRED.iter().filter(|name| !mounts.contains_key(**name)).map(|name| (*name).to_owned()).collect();
        if !missing.is_empty() {
            return Err(CgroupError::NotMounted { missing });
        }
        let points: BTreeSet<_> = mounts.values().cloned().collect();
        let opened = points.into_iter().map(|point| Ok((point.clone(), Directory::open(&point)?)));
        let hierarchies = opened.collect::<Result<_, CgroupError>>()?;
        let unified = is_unified(UNIFIED_MOUNT).then(|| Directory::open(UNIFIED_MOUNT)).transpose()?;
        Ok(Self { hierarchies, mounts, unified, driver })
    }

    fn root(&self, controller: &str) -> Option<&Directory> {
        self.mounts.get(controller).and_then(|point| self.hierarchies.get(point))
    }

    /// The folder of a cgroup in a controller's hierarchy, and the hierarchy's root, for the library.
    fn paths(&self, controller: &str, name: &CgroupName) -> Option<(PathBuf, PathBuf)> {
        let root = PathBuf::from(self.mounts.get(controller)?);
        // Joined folder by folder: a leading slash would replace the root.
        Some((name.folders(self.driver).iter().fold(root.clone(), |path, folder| path.join(folder)), root))
    }

    /// Every hierarchy in which a cgroup may have a folder.
    fn everywhere(&self) -> impl Iterator<Item = &Directory> {
        self.hierarchies.values().chain(&self.unified)
    }

    fn find(&self, controller: &str, name: &CgroupName) -> Result<Option<Directory>, CgroupError> {
        self.root(controller).map_or(Ok(None), |root| root.below(&name.folders(self.driver)))
    }

    fn must_find(&self, controller: &str, name: &CgroupName) -> Result<Directory, CgroupError> {
        self.find(controller, name)?.ok_or_else(|| CgroupError::Read {
            file: format!("{}{}", self.mounts.get(controller).map_or("", String::as_str), name.path(self.driver)),
            source: io::ErrorKind::NotFound.into(),
        })
    }

    fn make(&self, name: &CgroupName) -> Result<(), CgroupError> {
        for (point, root) in &self.hierarchies {
            let seeded = self.mounts.get("cpuset") == Some(point);
            let folders = name.folders(self.driver);
            // The folders above are nearly always there: then all of it is one step. A seeded hierarchy is looked at all the
            // way: folders above may have been left without processors, and then nothing below can have any.
            let mut depth = if seeded { 0 } else { folders.len().saturating_sub(1) };
            let mut current = match root.below(&folders[..depth])? {
                Some(parent) => parent,
                None => {
                    depth = 0;
                    root.below(&[])?.expect("the root is open")
                }
            };
            for folder in &folders[depth..] {
                let next = current.make_child(folder)?.0;
                if seeded {
                    seed_cpuset(&current, &next)?;
                }
                current = next;
            }
        }
        Ok(())
    }

    fn apply(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        let mut first = FirstError::default();
        first.note(self.apply_cpu(name, settings));
        if let Some(cpus) = &settings.cpuset_cpus {
            first.note(self.set("cpuset", name, ("cpuset.cpus", cpus), |path, root| {
                CpuSetController::new(path, root, false).set_cpus(cpus)
            }));
        }
        if let Some(limit) = settings.memory_limit.filter(|limit| *limit != 0) {
            first.note(self.set("memory", name, ("memory.limit_in_bytes", &limit.to_string()), |path, root| {
                MemController::new(path, root, false).set_limit(limit)
            }));
        }
        if let Some(limit) = settings.pids_max {
            let limit = if limit < 0 { MaxValue::Max } else { MaxValue::Value(limit) };
            first.note(self.set("pids", name, ("pids.max", &limit.to_string()), |path, root| {
                PidController::new(path, root, false).set_pid_max(limit)
            }));
        }
        if settings.hugepages.is_some() {
            first.note(self.apply_hugepages(name, settings));
        }
        for (file, value) in &settings.unified {
            let (name, file, value) = (name.clone(), file.clone(), value.clone());
            first.note(Err(CgroupError::Unsupported { name, file, value }));
        }
        first.finish()
    }

    fn apply_cpu(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        let mut first = FirstError::default();
        if let Some(shares) = settings.cpu_shares {
            first.note(self.set("cpu", name, ("cpu.shares", &shares.to_string()), |path, root| {
                CpuController::new(path, root, false).set_shares(shares)
            }));
        }
        let set_period = |period: u64| {
            self.set("cpu", name, ("cpu.cfs_period_us", &period.to_string()), |path, root| {
                CpuController::new(path, root, false).set_cfs_period(period)
            })
        };
        let period = settings.cpu_period.filter(|period| *period != 0);
        let early = period.map_or(Ok(()), set_period);
        if let Some(quota) = settings.cpu_quota.filter(|quota| *quota != 0) {
            first.note(self.set("cpu", name, ("cpu.cfs_quota_us", &quota.to_string()), |path, root| {
                CpuController::new(path, root, false).set_cfs_quota(quota)
            }));
        }
        // A shorter period with the old quota may exceed the parent's share; with the new quota it is tried again.
        first.note(if early.is_err() { period.map_or(Ok(()), set_period) } else { early });
        first.finish()
    }

    fn apply_hugepages(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        if self.root("hugetlb").is_none() {
            tell_unlimited_hugepages(settings);
            return Ok(());
        }
        let files = self.find("hugetlb", name)?.map_or_else(|| Ok(BTreeSet::new()), |found| found.files())?;
        let size_of = |file: &String| file.strip_prefix("hugetlb.")?.strip_suffix(".limit_in_bytes").map(str::to_owned);
        let sizes: BTreeSet<_> = files.iter().filter_map(size_of).filter(|size| !size.contains('.')).collect();
        let HugepageValues { known, unknown } = hugepage_values(settings, &sizes);
        let mut first = FirstError::default();
        for (size, limit) in known {
            let file = format!("hugetlb.{size}.limit_in_bytes");
            first.note(self.set("hugetlb", name, (&file, &limit.to_string()), |path, root| {
                HugeTlbController::new(path, root, false).set_limit_in_bytes(&size, limit)
            }));
        }
        for (size, limit) in unknown {
            let file = format!("hugetlb.{size}.limit_in_bytes");
            first.note(Err(CgroupError::Unsupported { name: name.clone(), file, value: limit.to_string() }));
        }
        first.finish()
    }

    /// Sets one file through the library; an error has the file's path and the value.
    fn set(
        &self,
        controller: &str,
        name: &CgroupName,
        (file, value): (&str, &str),
        write: impl FnOnce(PathBuf, PathBuf) -> Result<(), LibraryError>,
    ) -> Result<(), CgroupError> {
        let unsupported =
            || CgroupError::Unsupported { name: name.clone(), file: file.to_owned(), value: value.to_owned() };
        let (path, root) = self.paths(controller, name).ok_or_else(unsupported)?;
        let directory = self.must_find(controller, name)?;
        // Asked first: the library creates what is missing, and the kernel's refusal of that would mislead.
        if !directory.has(file) {
            return Err(unsupported());
        }
        write(path, root).map_err(|error| CgroupError::Write {
            file: directory.file_path(file),
            value: value.to_owned(),
            source: kernel_answer(&error),
        })
    }
}

impl CgroupEntry for CgroupsV1 {
    fn enter(&self, name: &CgroupName, pid: i32) -> Result<(), CgroupError> {
        self.make(name)?;
        let mut first = FirstError::default();
        for root in self.hierarchies.values() {
            first.note(match root.below(&name.folders(self.driver)) {
                Ok(Some(directory)) => directory.take_in(pid),
                // Removed meanwhile; the next look makes it again.
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            });
        }
        first.finish()
    }

    fn root_pids(&self) -> Result<BTreeSet<i32>, CgroupError> {
        self.root("memory").map_or_else(|| Ok(BTreeSet::new()), Directory::own_pids)
    }
}

impl CgroupManager for CgroupsV1 {
    fn version(&self) -> CgroupVersion {
        CgroupVersion::V1
    }

    fn driver(&self) -> CgroupDriver {
        self.driver
    }

    fn validate(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let mut missing = BTreeSet::new();
        for controller in REQUIRED_WHERE_MOUNTED.iter().filter(|name| self.mounts.contains_key(**name)) {
            if self.find(controller, name)?.is_none() {
                missing.insert(format!("{}{}", self.mounts[*controller], name.path(self.driver)));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(CgroupError::MissingPaths { name: name.clone(), missing: missing.into_iter().collect() })
    }

    fn create(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        self.make(name)?;
        self.apply(name, settings)
    }

    fn update(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        self.apply(name, settings)
    }

    fn destroy(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let (folders, last) = kill::parent_and_folder(name, self.driver)?;
        // Nearly always nothing is left in it: then each hierarchy is one step, and nobody has to be looked for.
        let mut is_gone = true;
        for root in self.everywhere() {
            is_gone &= root.below(&folders)?.is_none_or(|parent| parent.remove_if_idle(&last));
        }
        if is_gone {
            return Ok(());
        }
        kill::refuse_own(name, &self.pids(name)?)?;
        kill::kill_all(name, || self.pids(name))?;
        let mut outcome = Ok(());
        for attempt in 0..ATTEMPTS {
            kill::wait_before(attempt);
            let mut first = FirstError::default();
            for root in self.everywhere() {
                first.note(root.below(&folders)?.map_or(Ok(()), |parent| parent.remove_tree(&last)));
            }
            outcome = first.finish();
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn pids(&self, name: &CgroupName) -> Result<BTreeSet<i32>, CgroupError> {
        let mut pids = BTreeSet::new();
        for root in self.everywhere() {
            if let Some(directory) = root.below(&name.folders(self.driver))? {
                pids.extend(directory.pids()?);
            }
        }
        Ok(pids)
    }

    fn list_pods(&self, tree: &CgroupTree) -> Result<Vec<(PodUid, CgroupName)>, CgroupError> {
        let mut found = BTreeMap::new();
        for root in self.everywhere() {
            list_pods_below(root, tree, self.driver, &mut found)?;
        }
        Ok(found.into_iter().map(|(name, uid)| (uid, name)).collect())
    }

    fn read(&self, name: &CgroupName) -> Result<CgroupSettings, CgroupError> {
        let cpu = self.must_find("cpu", name)?;
        let pids = self.find("pids", name)?;
        Ok(CgroupSettings {
            cpu_shares: Some(cpu.read_number("cpu.shares")?),
            cpu_quota: cpu.read_limit("cpu.cfs_quota_us")?,
            cpu_period: Some(cpu.read_number("cpu.cfs_period_us")?),
            memory_limit: self.must_find("memory", name)?.read_limit("memory.limit_in_bytes")?,
            pids_max: pids.map_or(Ok(None), |pids| pids.read_limit("pids.max"))?,
            ..CgroupSettings::default()
        })
    }

    fn memory_usage(&self, name: &CgroupName) -> Result<u64, CgroupError> {
        self.must_find("memory", name)?.read_number("memory.usage_in_bytes")
    }
}

/// Gives a new cgroup the CPUs and memory nodes of the one above: without any the kernel lets no process in.
fn seed_cpuset(parent: &Directory, child: &Directory) -> Result<(), CgroupError> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if child.read(file)?.is_empty() {
            child.write(file, &parent.read(file)?)?;
        }
    }
    Ok(())
}

/// The kernel's error, out of the library's wrapping.
fn kernel_answer(error: &LibraryError) -> io::Error {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    match (cause.and_then(io::Error::raw_os_error), error.kind()) {
        (Some(code), _) => io::Error::from_raw_os_error(code),
        (None, ErrorKind::InvalidPath) => io::ErrorKind::InvalidInput.into(),
        (None, _) => io::Error::other(error.to_string()),
    }
}
