//! Which devices a container is given: a decision that may need the plugin's opinion, and goes on with it.
//!
//! Pure. Upstream: `devicesToAllocate` and `filterByAffinity`, which take devices of equal rank in any order; here the names
//! decide.

use std::collections::BTreeSet;

use super::calls::Preference;
use super::devices::{Device, Health, ResourceDevices};
use super::refusal::DeviceRefusal;
use crate::logic::resources::topology::hints::NumaMask;

/// The NUMA nodes near a device, as far as a set of them can have them.
pub(super) fn mask_of(device: &Device) -> NumaMask {
    device.nodes.iter().filter_map(|node| u8::try_from(*node).ok()).collect()
}

/// Whether some device says where it is: then the plugin wants devices to be aligned.
pub(super) fn has_topology(devices: &ResourceDevices) -> bool {
    devices.devices.values().any(|device| !device.nodes.is_empty())
}

/// The devices that may be given.
pub(super) fn healthy(devices: &ResourceDevices) -> BTreeSet<&str> {
    let healthy = devices.devices.iter().filter(|(_, device)| device.health == Health::Healthy);
    healthy.map(|(id, _)| id.as_str()).collect()
}

/// How far the decision has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// These are taken.
    Taken(BTreeSet<String>),
    /// The plugin has an opinion: the decision is to be made again with it.
    Ask(Preference),
}

/// A container's request that nothing is given for yet.
pub(super) struct Request<'a> {
    pub(super) resource: &'a str,
    /// How many it asks for; not zero.
    pub(super) count: usize,
    pub(super) devices: &'a ResourceDevices,
    /// Devices that containers own.
    pub(super) in_use: &'a BTreeSet<&'a str>,
    /// Those of them that earlier init containers of the pod leave to this one.
    pub(super) reusable: &'a BTreeSet<String>,
    /// The topology manager's answer; `None`: any nodes will do.
    pub(super) affinity: Option<NumaMask>,
}

/// Devices that are taken, one after the other.
struct Taking<'a> {
    taken: BTreeSet<&'a str>,
    needed: usize,
}

impl<'a> Taking<'a> {
    /// Takes of these until there are enough. Returns whether there are.
    fn take(&mut self, from: impl IntoIterator<Item = &'a str>) -> bool {
        for id in from {
            if self.needed == 0 {
                break;
            }
            self.needed -= usize::from(self.taken.insert(id));
        }
        self.needed == 0
    }

    fn end(&self) -> Choice {
        Choice::Taken(self.taken.iter().map(|id| (*id).to_owned()).collect())
    }
}

/// The free devices by the topology manager's answer.
#[derive(Default)]
struct ByAffinity<'a> {
    aligned: BTreeSet<&'a str>,
    unaligned: BTreeSet<&'a str>,
    without_topology: BTreeSet<&'a str>,
}

impl<'a> Request<'a> {
    /// Chooses; `opinion` is what the plugin answered to the [`Preference`] that this decision asked for.
    pub(super) fn choose(
        &'a self,
        opinion: impl Fn(&Preference) -> Option<&'a [String]>,
    ) -> Result<Choice, DeviceRefusal> {
        let mut taking = Taking { taken: BTreeSet::new(), needed: self.count };
        if taking.take(self.reusable.iter().map(String::as_str)) {
            return Ok(taking.end());
        }
        let mut available = healthy(self.devices);
        available.retain(|id| !self.in_use.contains(id));
        if available.len() < taking.needed {
            let (resource, requested) = (self.resource.to_owned(), taking.needed);
            return Err(DeviceRefusal::TooFew { resource, requested, available: available.len() });
        }
        let ByAffinity { aligned, unaligned, without_topology } = self.by_affinity(&available);
        // The plugin chooses among the aligned ones where they are enough, and else among those that are missing then.
        let is_enough = taking.needed < aligned.len();
        if !is_enough && taking.take(aligned.iter().copied()) {
            return Ok(taking.end());
        }
        let candidates = if is_enough { &aligned } else { &available };
        let mut preferred = vec![];
        if self.devices.options.preferred {
            let preference = self.preference(candidates, &taking.taken);
            let Some(ids) = opinion(&preference) else { return Ok(Choice::Ask(preference)) };
            preferred.extend(ids.iter().map(String::as_str).filter(|id| candidates.contains(id)));
        }
        let rest = [&aligned, &unaligned, &without_topology].into_iter().flatten().copied();
        taking.take(preferred.into_iter().chain(rest));
        Ok(taking.end())
    }

    fn preference(&self, candidates: &BTreeSet<&str>, taken: &BTreeSet<&str>) -> Preference {
        let names = |ids: &BTreeSet<&str>| ids.iter().map(|id| (*id).to_owned()).collect();
        let available = names(&candidates.union(taken).copied().collect());
        Preference { resource: self.resource.to_owned(), available, required: names(taken), count: self.count }
    }

    fn by_affinity(&self, available: &BTreeSet<&'a str>) -> ByAffinity<'a> {
        let affinity = self.affinity.filter(|_| has_topology(self.devices));
        let mut sorted = ByAffinity::default();
        for id in available {
            let device = self.devices.devices.get(*id);
            let of = match (affinity, device) {
                (Some(affinity), Some(device)) if !mask_of(device).and(affinity).is_empty() => &mut sorted.aligned,
                (Some(_), Some(device)) if !device.nodes.is_empty() => &mut sorted.unaligned,
                _ => &mut sorted.without_topology,
            };
            of.insert(id);
        }
        sorted
    }
}
