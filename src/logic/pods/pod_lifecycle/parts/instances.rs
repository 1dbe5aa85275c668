//! Facts about single instances of containers beside those of the runtime: results of probes, and the agent that started
//! them.

use std::collections::BTreeSet;

use crate::logic::model::ids::ContainerId;
use crate::logic::model::runtime_pod::ProbeResults;
use crate::logic::probes::probe_kind::ProbeKind;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Instances {
    adopted: BTreeSet<ContainerId>,
    probes: ProbeResults,
}

impl Instances {
    /// Takes the results that probes had before this machine was made (PAIN-16).
    pub fn recall_probes(&mut self, probes: ProbeResults) {
        self.probes = probes;
    }

    /// The newest results of probes.
    pub fn probes(&self) -> &ProbeResults {
        &self.probes
    }

    /// A probe's threshold was reached.
    pub fn note_probe(&mut self, container: ContainerId, kind: ProbeKind, healthy: bool) {
        let results = match kind {
            ProbeKind::Readiness => &mut self.probes.readiness,
            ProbeKind::Liveness => &mut self.probes.liveness,
            ProbeKind::Startup => &mut self.probes.startup,
        };
        results.insert(container, healthy);
    }

    /// Instances that an earlier agent started.
    pub fn adopted(&self) -> &BTreeSet<ContainerId> {
        &self.adopted
    }

    /// The pod was looked at first: an earlier agent started these.
    pub fn adopt(&mut self, adopted: BTreeSet<ContainerId>) {
        self.adopted = adopted;
    }

    /// Forgets instances that the runtime no longer holds.
    pub fn keep_only(&mut self, held: &BTreeSet<ContainerId>) {
        for results in [&mut self.probes.readiness, &mut self.probes.liveness, &mut self.probes.startup] {
            results.retain(|id, _| held.contains(id));
        }
        self.adopted.retain(|id| held.contains(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_an_instance_goes_with_it() {
        let [old, new] = ["old", "new"].map(ContainerId::from);
        let mut instances = Instances::default();
        instances.adopt([old.clone()].into());
        for kind in [ProbeKind::Readiness, ProbeKind::Liveness, ProbeKind::Startup] {
            instances.note_probe(old.clone(), kind, true);
            instances.note_probe(new.clone(), kind, false);
        }
        instances.keep_only(&[new.clone()].into());
        assert!(instances.adopted().is_empty());
        let probes = instances.probes();
        for results in [&probes.readiness, &probes.liveness, &probes.startup] {
            assert_eq!(results.iter().collect::<Vec<_>>(), [(&new, &false)]);
        }
    }
}
