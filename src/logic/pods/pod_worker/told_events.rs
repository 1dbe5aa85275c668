//! Events of a pod that go out once for a time, as long as their cause goes on.

use std::collections::{BTreeMap, BTreeSet};

use crate::logic::model::start_reason::StartReason;
use crate::logic::pods::pod_lifecycle::StartError;

/// See the module. Owned by a pod's worker.
#[derive(Clone, Debug, Default)]
pub struct ToldEvents {
    /// Containers of whose back-off an Event tells already.
    back_offs: BTreeSet<String>,
    network: bool,
}

impl ToldEvents {
    /// The containers that have begun to rest between crashes: one Event for each back-off (POD-37).
    pub fn new_back_offs(&mut self, errors: &BTreeMap<String, StartError>) -> Vec<String> {
        let resting = errors.iter().filter(|(_, error)| error.reason == StartReason::CrashLoopBackOff);
        let now: BTreeSet<String> = resting.map(|(name, _)| name.clone()).collect();
        let before = std::mem::replace(&mut self.back_offs, now);
        self.back_offs.difference(&before).cloned().collect()
    }

    /// Whether it is news that the network is missing.
    pub fn misses_network(&mut self) -> bool {
        !std::mem::replace(&mut self.network, true)
    }

    /// The network is there.
    pub fn has_network(&mut self) {
        self.network = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_back_off_is_told_once() {
        let errors = |names: &[(&str, StartReason)]| {
            let error = |reason| StartError { reason, message: String::new() };
            names.iter().map(|(name, reason)| ((*name).to_owned(), error(*reason))).collect::<BTreeMap<_, _>>()
        };
        use StartReason::{CrashLoopBackOff, ErrImagePull};
        let mut told = ToldEvents::default();
        for (now, new) in [
            (&[("a", CrashLoopBackOff), ("b", ErrImagePull)][..], &["a"][..]),
            (&[("a", CrashLoopBackOff), ("b", CrashLoopBackOff)], &["b"]),
            (&[("b", CrashLoopBackOff)], &[]),
            (&[("a", CrashLoopBackOff), ("b", CrashLoopBackOff)], &["a"]),
        ] {
            assert_eq!(told.new_back_offs(&errors(now)), new, "{now:?}");
        }
    }

    #[test]
    fn a_missing_network_is_told_until_it_is_there() {
        let mut told = ToldEvents::default();
        assert!(told.misses_network() && !told.misses_network());
        told.has_network();
        assert!(told.misses_network());
    }
}
