//! The answers of several plugins about one container, as one.
//!
//! Pure. Upstream: `deviceRunContainerOptions`. Of two that differ the first counts; upstream takes resources in any order,
//! here their names decide.

use std::collections::BTreeMap;
use std::fmt;

use super::devices::DeviceGrant;

/// A part of an answer that another one contradicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Of what kind it is.
    pub kind: ConflictKind,
    /// The variable, the annotation, or the path in the container.
    pub key: String,
    /// The value that counts.
    pub kept: String,
    /// The value that does not.
    pub dropped: String,
}

/// The part that answers contradict each other in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum ConflictKind {
    /// A variable of the environment.
    Variable,
    /// A device node.
    Device,
    /// A mount.
    Mount,
    /// An annotation.
    Annotation,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, key, kept, dropped } = self;
        write!(f, "plugins contradict each other in the {kind} {key:?}: {kept:?} counts, {dropped:?} does not")
    }
}

/// Merges answers, the first first.
pub fn merged<'a>(grants: impl IntoIterator<Item = &'a DeviceGrant>) -> (DeviceGrant, Vec<Conflict>) {
    let mut merging = Merging::default();
    grants.into_iter().for_each(|grant| merging.add(grant));
    (merging.all, merging.conflicts)
}

#[derive(Default)]
struct Merging {
    all: DeviceGrant,
    /// Paths on the host by path in the container.
    devices: BTreeMap<String, String>,
    mounts: BTreeMap<String, String>,
    conflicts: Vec<Conflict>,
}

impl Merging {
    fn add(&mut self, grant: &DeviceGrant) {
        let conflicts = &mut self.conflicts;
        for (key, value) in &grant.envs {
            note(&mut self.all.envs, key, value, ConflictKind::Variable, conflicts);
        }
        for device in &grant.devices {
            let (key, value) = (&device.container_path, &device.host_path);
            if note(&mut self.devices, key, value, ConflictKind::Device, conflicts) {
                self.all.devices.push(device.clone());
            }
        }
        for mount in &grant.mounts {
            let (key, value) = (&mount.container_path, &mount.host_path);
            if note(&mut self.mounts, key, value, ConflictKind::Mount, conflicts) {
                self.all.mounts.push(mount.clone());
            }
        }
        for (key, value) in &grant.annotations {
            note(&mut self.all.annotations, key, value, ConflictKind::Annotation, conflicts);
        }
        for name in &grant.cdi_devices {
            if !self.all.cdi_devices.contains(name) {
                self.all.cdi_devices.push(name.clone());
            }
        }
    }
}

/// Notes a value unless there is one. Returns whether it is new.
fn note(
    known: &mut BTreeMap<String, String>,
    key: &str,
    value: &str,
    kind: ConflictKind,
    conflicts: &mut Vec<Conflict>,
) -> bool {
    match known.get(key) {
        None => {
            known.insert(key.to_owned(), value.to_owned());
            return true;
        }
        Some(kept) if kept != value => {
            let (key, kept, dropped) = (key.to_owned(), kept.clone(), value.to_owned());
            conflicts.push(Conflict { kind, key, kept, dropped });
        }
        Some(_) => {}
    }
    false
}
