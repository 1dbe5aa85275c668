//! Control groups of the unified hierarchy, as files.
//!
//! Owned by the resource manager through [`CgroupManager`]. Keeps the hierarchy's root open, and nothing else.
//!
//! cgroups-rs serves the first generation alone. Here a setting is one text in one file, written below a descriptor that is
//! open anyway; that crate would open each file by its path, creates folders with every controller on every level, and takes
//! a missing file for 0. It lacks `memory.high`, `hugetlb.*.rsvd.max` and whatever else `unified` may name.

use std::collections::{BTreeMap, BTreeSet};

use super::directory::Directory;
use super::kill::{self, ATTEMPTS};
use super::{
    CGROUP_MOUNT, CONTROLLERS, CgroupEntry, CgroupError, CgroupManager, FirstError, HugepageValues, hugepage_values,
    tell_unlimited_hugepages,
};
use crate::logic::model::ids::PodUid;
use crate::logic::resources::cgroup_name::{CgroupDriver, CgroupName, CgroupTree};
use crate::logic::resources::{
    CPU_PERIOD_DEFAULT_US, CgroupSettings, CgroupVersion, QosClass, shares_to_weight, weight_to_shares,
};

/// The unified hierarchy of this host.
pub struct CgroupsV2 {
    root: Directory,
    driver: CgroupDriver,
}

impl CgroupsV2 {
    /// Opens the host's hierarchy, whose folders are named as `driver` names them.
    ///
    /// # Errors
    /// A mount that cannot be opened.
    pub fn open(driver: CgroupDriver) -> Result<Self, CgroupError> {
        Self::open_at(CGROUP_MOUNT, driver)
    }

    /// Opens the hierarchy mounted at `mount`.
    ///
    /// # Errors
    /// A mount that cannot be opened.
    pub fn open_at(mount: &str, driver: CgroupDriver) -> Result<Self, CgroupError> {
        Ok(Self { root: Directory::open(mount)?, driver })
    }

    fn find(&self, name: &CgroupName) -> Result<Option<Directory>, CgroupError> {
        self.root.below(&name.folders(self.driver))
    }

    fn must_find(&self, name: &CgroupName) -> Result<Directory, CgroupError> {
        self.find(name)?.ok_or_else(|| CgroupError::Read {
            file: format!("{}{}", self.root.path(), name.path(self.driver)),
            source: std::io::ErrorKind::NotFound.into(),
        })
    }

    /// The controllers the agent uses of those that the host has.
    fn wanted(&self) -> Result<BTreeSet<String>, CgroupError> {
        let available = words(&self.root.read("cgroup.controllers")?);
        Ok(CONTROLLERS.iter().map(|name| (*name).to_owned()).filter(|name| available.contains(name)).collect())
    }

    /// Makes the folders to a cgroup, each with the controllers handed down from the one above.
    fn make(&self, name: &CgroupName) -> Result<Directory, CgroupError> {
        let wanted = self.wanted()?;
        let mut current = self.root.below(&[])?.expect("the root is open");
        for folder in name.folders(self.driver) {
            hand_down(&current, &wanted)?;
            current = current.make_child(&folder)?.0;
        }
        Ok(current)
    }
}

impl CgroupEntry for CgroupsV2 {
    fn enter(&self, name: &CgroupName, pid: i32) -> Result<(), CgroupError> {
        self.make(name)?.take_in(pid)
    }

    fn root_pids(&self) -> Result<BTreeSet<i32>, CgroupError> {
        self.root.own_pids()
    }
}

impl CgroupManager for CgroupsV2 {
    fn version(&self) -> CgroupVersion {
        CgroupVersion::V2
    }

    fn driver(&self) -> CgroupDriver {
        self.driver
    }

    fn validate(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let wanted = self.wanted()?;
        let unknown = |source| CgroupError::UnknownControllers { name: name.clone(), source: Box::new(source) };
        let controllers = self.must_find(name).and_then(|found| found.read("cgroup.controllers")).map_err(unknown)?;
        let found = words(&controllers);
        let missing: Vec<_> = wanted.difference(&found).cloned().collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(CgroupError::MissingControllers { name: name.clone(), missing })
    }

    fn create(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        apply(&self.make(name)?, name, settings)
    }

    fn update(&self, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
        apply(&self.must_find(name)?, name, settings)
    }

    fn destroy(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let (folders, last) = kill::parent_and_folder(name, self.driver)?;
        let Some(parent) = self.root.below(&folders)? else { return Ok(()) };
        // Nearly always nothing is left in it: then nobody has to be looked for.
        if parent.remove_if_idle(&last) {
            return Ok(());
        }
        let Some(directory) = self.find(name)? else { return Ok(()) };
        let pids = directory.pids()?;
        kill::refuse_own(name, &pids)?;
        if !pids.is_empty() && directory.has("cgroup.kill") {
            // Takes all at once, also those being forked; where it fails, one by one does the work.
            if let Err(error) = directory.write("cgroup.kill", "1") {
                tracing::debug!(%name, %error, "kill a cgroup at once");
            }
            kill::wait_before(1);
        }
        kill::kill_all(name, || directory.pids())?;
        let mut outcome = Ok(());
        for attempt in 0..ATTEMPTS {
            kill::wait_before(attempt);
            outcome = parent.remove_tree(&last);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn pids(&self, name: &CgroupName) -> Result<BTreeSet<i32>, CgroupError> {
        self.find(name)?.map_or_else(|| Ok(BTreeSet::new()), |directory| directory.pids())
    }

    fn list_pods(&self, tree: &CgroupTree) -> Result<Vec<(PodUid, CgroupName)>, CgroupError> {
        let mut found = BTreeMap::new();
        list_pods_below(&self.root, tree, self.driver, &mut found)?;
        Ok(found.into_iter().map(|(name, uid)| (uid, name)).collect())
    }

    fn read(&self, name: &CgroupName) -> Result<CgroupSettings, CgroupError> {
        let directory = self.must_find(name)?;
        let mut settings = CgroupSettings {
            memory_limit: directory.read_limit("memory.max")?,
            pids_max: directory.read_limit("pids.max")?,
            ..CgroupSettings::default()
        };
        if directory.has("cpu.weight") {
            settings.cpu_shares = Some(weight_to_shares(directory.read_number("cpu.weight")?));
        }
        if let Some(text) = directory.read_if_there("cpu.max")? {
            let (quota, period) = text.split_once(' ').unwrap_or((&text, ""));
            settings.cpu_quota = Some(directory.parse_limit("cpu.max", quota)?);
            settings.cpu_period = period.parse().ok();
        }
        Ok(settings)
    }

    fn memory_usage(&self, name: &CgroupName) -> Result<u64, CgroupError> {
        self.must_find(name)?.read_number("memory.current")
    }
}

/// Adds the pods that have a folder in a tier below this root.
pub(super) fn list_pods_below(
    root: &Directory,
    tree: &CgroupTree,
    driver: CgroupDriver,
    found: &mut BTreeMap<CgroupName, PodUid>,
) -> Result<(), CgroupError> {
    for class in [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort] {
        let tier = tree.tier(class);
        let Some(directory) = root.below(&tier.folders(driver))? else { continue };
        for folder in directory.folders()? {
            // Folders of others, whose names are none of ours, are not pods.
            let path = format!("{}/{folder}", tier.path(driver));
            let Ok(name) = CgroupName::from_path(&path, driver) else { continue };
            if let Some(uid) = tree.pod_uid(&name) {
                found.insert(name, uid);
            }
        }
    }
    Ok(())
}

fn words(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Lets a cgroup's children have these controllers; only what they do not have yet is written.
fn hand_down(directory: &Directory, wanted: &BTreeSet<String>) -> Result<(), CgroupError> {
    let enabled = words(&directory.read("cgroup.subtree_control")?);
    let missing: Vec<_> = wanted.difference(&enabled).map(|name| format!("+{name}")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // The kernel takes all or none; when it refuses, one by one shows which.
    if directory.write("cgroup.subtree_control", &missing.join(" ")).is_ok() {
        return Ok(());
    }
    let mut first = FirstError::default();
    for controller in missing {
        first.note(directory.write("cgroup.subtree_control", &controller));
    }
    first.finish()
}

/// Writes the settings, each one tried.
fn apply(directory: &Directory, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
    let mut first = FirstError::default();
    if let Some(quota) = settings.cpu_quota.filter(|quota| *quota > 0) {
        first.note(fit_burst(directory, quota));
    }
    for (file, value) in values(settings) {
        first.note(directory.write(&file, &value));
    }
    if settings.hugepages.is_some() {
        first.note(apply_hugepages(directory, name, settings));
    }
    for (file, value) in &settings.unified {
        first.note(write_unified(directory, name, file, value));
    }
    first.finish()
}

/// The kernel refuses a quota below the burst that a cgroup has: such a burst shrinks first.
fn fit_burst(directory: &Directory, quota: i64) -> Result<(), CgroupError> {
    const FILE: &str = "cpu.max.burst";
    match directory.read_if_there(FILE)? {
        Some(text) if directory.parse_limit(FILE, &text)? > quota => directory.write(FILE, &quota.to_string()),
        _ => Ok(()),
    }
}

/// The values that are written for the common settings, in order.
fn values(settings: &CgroupSettings) -> Vec<(String, String)> {
    let mut values = Vec::new();
    let mut add = |file: &str, value: String| values.push((file.to_owned(), value));
    if let Some(cpus) = &settings.cpuset_cpus {
        add("cpuset.cpus", cpus.clone());
    }
    if let Some(shares) = settings.cpu_shares {
        add("cpu.weight", shares_to_weight(shares).to_string());
    }
    let quota = settings.cpu_quota.unwrap_or(0);
    if quota != 0 || settings.cpu_period.is_some_and(|period| period != 0) {
        let period = settings.cpu_period.filter(|period| *period != 0).unwrap_or(CPU_PERIOD_DEFAULT_US);
        let quota = if quota > 0 { quota.to_string() } else { "max".to_owned() };
        add("cpu.max", format!("{quota} {period}"));
    }
    if let Some(limit) = settings.memory_limit.filter(|limit| *limit != 0) {
        add("memory.max", number_or_max(limit));
    }
    if let Some(limit) = settings.pids_max {
        add("pids.max", number_or_max(limit));
    }
    values
}

/// A limit as the kernel takes it: below nothing is none.
pub(super) fn number_or_max(limit: i64) -> String {
    if limit < 0 { "max".to_owned() } else { limit.to_string() }
}

fn apply_hugepages(directory: &Directory, name: &CgroupName, settings: &CgroupSettings) -> Result<(), CgroupError> {
    if !words(&directory.read("cgroup.controllers")?).contains("hugetlb") {
        tell_unlimited_hugepages(settings);
        return Ok(());
    }
    let files = directory.files()?;
    let size_of = |file: &String| file.strip_prefix("hugetlb.")?.strip_suffix(".max").map(str::to_owned);
    let sizes: BTreeSet<_> = files.iter().filter_map(size_of).filter(|size| !size.contains('.')).collect();
    let HugepageValues { known, unknown } = hugepage_values(settings, &sizes);
    let mut first = FirstError::default();
    for (size, limit) in known {
        first.note(directory.write(&format!("hugetlb.{size}.max"), &limit.to_string()));
        let reserved = format!("hugetlb.{size}.rsvd.max");
        // Reservations are limited since 5.7 only.
        if files.contains(&reserved) {
            first.note(directory.write(&reserved, &limit.to_string()));
        }
    }
    for (size, limit) in unknown {
        let file = format!("hugetlb.{size}.max");
        first.note(Err(CgroupError::Unsupported { name: name.clone(), file, value: limit.to_string() }));
    }
    first.finish()
}

/// Writes a file named by the settings: a plain name with a dot, never a path.
fn write_unified(directory: &Directory, name: &CgroupName, file: &str, value: &str) -> Result<(), CgroupError> {
    let plain = file.contains('.') && file.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'));
    if !plain || file.starts_with('.') || file.starts_with("cgroup.") {
        return Err(CgroupError::Unsupported { name: name.clone(), file: file.to_owned(), value: value.to_owned() });
    }
    directory.write(file, value)
}
