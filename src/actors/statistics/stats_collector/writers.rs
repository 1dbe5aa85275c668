//! Processor time of those who can write to layers and volumes, as of a look: who had none since has written nothing.

use std::collections::BTreeMap;

use crate::logic::model::ids::{ContainerId, PodUid};
use crate::logic::statistics::sample::{Group, RawSample};
use crate::logic::statistics::walks::WalkKey;

/// Times are in ns, `None` where they are not known.
#[derive(Debug, Default)]
pub(super) struct Writers {
    /// Of containers, each of which writes its own layer.
    pub(super) containers: BTreeMap<ContainerId, Option<u64>>,
    /// Of pods, whose containers write their volumes.
    pods: BTreeMap<PodUid, u64>,
}

impl Writers {
    /// As a look found them.
    pub(super) fn of(sample: &RawSample) -> Self {
        let time = |group: &Option<Group>| Some(group.as_ref()?.figures.cpu?.total_ns);
        let containers = sample.pods.iter().flat_map(|pod| &pod.containers);
        Self {
            containers: containers.map(|one| (one.id.clone(), time(&one.group))).collect(),
            pods: sample.pods.iter().filter_map(|pod| Some((pod.uid.clone(), time(&pod.group)?))).collect(),
        }
    }

    /// Of these containers, of which nothing is known.
    pub(super) fn unknown<'a>(containers: impl Iterator<Item = &'a ContainerId>) -> Self {
        Self { containers: containers.map(|id| (id.clone(), None)).collect(), pods: BTreeMap::new() }
    }

    /// Of those who write to a volume of a pod.
    pub(super) fn of_volume(&self, key: &WalkKey) -> Option<u64> {
        match key {
            WalkKey::Volume(uid, _) => self.pods.get(uid).copied(),
            WalkKey::Layer(_) => None,
        }
    }
}
