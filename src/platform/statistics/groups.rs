//! Control groups of either generation: where they are, and which of them are pods' and containers'.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::FileType;

use super::files::{Reader, Trail};
use super::tools::{Tools, open_root};
use super::{v1, v2};
use crate::logic::model::ids::PodUid;
use crate::logic::resources::cgroup_name::{CgroupDriver, CgroupName, CgroupTree};
use crate::logic::resources::{CgroupVersion, QosClass};
use crate::logic::statistics::figures::GroupFigures;
use crate::logic::statistics::sample::Group;

/// The most groups right below one that are looked at: far more than a node has pods, or a pod containers.
const CHILDREN_MAX: usize = 10_000;

/// The most groups of a node that are searched for containers, and how deep below the root.
const SEARCHED_MAX: usize = 10_000;
const DEPTH_MAX: usize = 8;

const CLASSES: [QosClass; 3] = [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort];

/// The roots of the hierarchies, open.
pub(super) enum Hierarchies {
    V1(v1::Roots),
    V2(OwnedFd),
}

impl Hierarchies {
    pub(super) fn open(mount: &Path, version: CgroupVersion) -> Self {
        match version {
            CgroupVersion::V1 => Self::V1(v1::Roots::open(mount)),
            CgroupVersion::V2 => match open_root(mount) {
                Some(root) => Self::V2(root),
                // Nothing is there to be read; each look says so.
                None => Self::V1(v1::Roots::default()),
            },
        }
    }

    /// For one look, in which groups that are near each other are best read one after another.
    pub(super) fn groups(&self) -> Groups<'_> {
        match self {
            Self::V1(roots) => Groups::V1(v1::Trails::new(roots)),
            Self::V2(root) => Groups::V2(Trail::new(root)),
        }
    }

    /// A group in the hierarchy of memory, and whether that is of the first generation; `None` when it is not there.
    pub(super) fn memory(&self, path: &str) -> Option<(OwnedFd, CgroupVersion)> {
        let (root, version) = match self {
            Self::V1(roots) => (roots.memory()?, CgroupVersion::V1),
            Self::V2(root) => (root, CgroupVersion::V2),
        };
        let here = Trail::new(root).folder(path)?.try_clone_to_owned().ok()?;
        Some((here, version))
    }

    /// The tiers that are apart from the group of all pods.
    pub(super) fn tiers(tree: &CgroupTree, driver: CgroupDriver) -> Vec<String> {
        let tiers = CLASSES.iter().map(|class| tree.tier(*class)).filter(|tier| tier != tree.pods());
        tiers.map(|tier| tier.path(driver)).collect()
    }
}

/// Groups, as one look goes through them.
pub(super) enum Groups<'a> {
    V1(v1::Trails<'a>),
    V2(Trail<'a>),
}

impl Groups<'_> {
    /// Reads a group; `None` when it is not there.
    pub(super) fn read(&mut self, path: &str, tools: &mut Tools<'_>) -> Option<Group> {
        let figures: GroupFigures = match self {
            Self::V1(trails) => v1::read(trails, path, tools)?,
            Self::V2(trail) => v2::read(trail.folder(path)?, tools)?,
        };
        Some(Group { path: path.to_owned(), figures })
    }

    /// The processes of a group, one a line; `None` when it is not there.
    pub(super) fn pids<'r>(&mut self, path: &str, reader: &'r mut Reader) -> Option<&'r [u8]> {
        reader.read(self.listed(path)?, "cgroup.procs")
    }

    /// A group in the hierarchy in which groups are looked for.
    fn listed(&mut self, path: &str) -> Option<BorrowedFd<'_>> {
        match self {
            Self::V1(trails) => trails.listed()?.folder(path),
            Self::V2(trail) => trail.folder(path),
        }
    }

    /// The groups right below one, by name, at most [`CHILDREN_MAX`]; none when it is not there.
    fn children(&mut self, path: &str) -> Vec<String> {
        let Some(here) = self.listed(path) else { return vec![] };
        let Ok(entries) = rustix::fs::Dir::read_from(here) else { return vec![] };
        let names = entries.filter_map(|entry| {
            let entry = entry.ok().filter(|entry| entry.file_type() == FileType::Directory)?;
            entry.file_name().to_str().ok().filter(|name| !matches!(*name, "." | "..")).map(str::to_owned)
        });
        names.take(CHILDREN_MAX).collect()
    }

    /// Every pod's group, by UID.
    pub(super) fn pods(&mut self, tree: &CgroupTree, driver: CgroupDriver) -> BTreeMap<PodUid, String> {
        let mut found = BTreeMap::new();
        if !tree.per_qos() {
            return found;
        }
        for class in CLASSES {
            let tier = tree.tier(class).path(driver);
            for name in self.children(&tier) {
                let path = format!("{}/{name}", tier.trim_end_matches('/'));
                let uid = CgroupName::from_path(&path, driver).ok().and_then(|name| tree.pod_uid(&name));
                if let Some(uid) = uid {
                    found.insert(uid, path);
                }
            }
        }
        found
    }

    /// The processes of a container, one a line. Some runtimes keep them in a group of this name below the container's.
    pub(super) fn pids_of_container<'r>(&mut self, path: &str, reader: &'r mut Reader) -> Option<&'r [u8]> {
        let below = match self.pids(path, reader)?.is_empty() {
            true => format!("{path}/container"),
            false => path.to_owned(),
        };
        self.pids(&below, reader)
    }

    /// The groups of containers and of the sandbox in a pod's group, by the ID that their names end with.
    pub(super) fn containers(&mut self, pod: &str) -> BTreeMap<String, String> {
        let names = self.children(pod).into_iter();
        names.filter_map(|name| Some((container_id(&name)?.to_owned(), format!("{pod}/{name}")))).collect()
    }

    /// The groups of these containers and sandboxes, wherever the runtime put them. Nobody looks below them: a pod may make
    /// groups with any names in its own.
    pub(super) fn find(&mut self, ids: &BTreeSet<String>) -> BTreeMap<String, String> {
        let (mut found, mut level, mut searched) = (BTreeMap::new(), vec![String::new()], 0);
        for _ in 0..DEPTH_MAX {
            let mut below = vec![];
            for path in level {
                for name in self.children(if path.is_empty() { "/" } else { &path }) {
                    searched += 1;
                    if found.len() == ids.len() || searched > SEARCHED_MAX {
                        return found;
                    }
                    let here = format!("{path}/{name}");
                    match container_id(&name).filter(|id| ids.contains(*id)) {
                        Some(id) => drop(found.entry(id.to_owned()).or_insert(here)),
                        None => below.push(here),
                    }
                }
            }
            level = below;
        }
        found
    }
}

/// The ID in the name of a container's group: the part of a systemd scope's after its last dash, or else the whole name,
/// which CRI-O begins with its own. The watcher of a container is none.
fn container_id(name: &str) -> Option<&str> {
    if name.contains("conmon") || name.ends_with(".mount") {
        return None;
    }
    match name.strip_suffix(".scope") {
        Some(scope) => scope.rsplit('-').next(),
        None => Some(name.strip_prefix("crio-").unwrap_or(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::container_id;

    #[test]
    fn ids_are_found_in_names_of_every_runtime() {
        let cases = [
            ("4f0a", Some("4f0a")),
            ("cri-containerd-4f0a.scope", Some("4f0a")),
            ("crio-4f0a.scope", Some("4f0a")),
            ("crio-4f0a", Some("4f0a")),
            ("crio-conmon-4f0a.scope", None),
            ("crio-conmon-4f0a", None),
            ("run-x.mount", None),
        ];
        for (name, expected) in cases {
            assert_eq!(container_id(name), expected, "{name}");
        }
    }
}
