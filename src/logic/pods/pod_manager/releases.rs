//! Releases of the volumes and the cgroup of pods that are over in the API and that the runtime does not hold.

use std::collections::{BTreeMap, BTreeSet};

use crate::logic::model::ids::PodUid;
use crate::logic::model::log_level::LogLevel;

/// See the module. Owned by `PodManager`.
#[derive(Clone, Debug, Default)]
pub struct Releases {
    under_way: BTreeSet<PodUid>,
    /// How the last try failed.
    problems: BTreeMap<PodUid, String>,
}

impl Releases {
    /// Whether a release may begin: none of this pod is under way.
    pub fn begin(&mut self, uid: &PodUid) -> bool {
        self.under_way.insert(uid.clone())
    }

    /// The release has ended well.
    pub fn succeed(&mut self, uid: &PodUid) {
        self.under_way.remove(uid);
        self.problems.remove(uid);
    }

    /// The release has failed; says at which level the log has it: once for each reason, as for other volumes that stay
    /// (VOL-13).
    pub fn fail(&mut self, uid: &PodUid, why: String) -> LogLevel {
        self.under_way.remove(uid);
        let level = LogLevel::of_reason(self.problems.get(uid).map(String::as_str), &why);
        self.problems.insert(uid.clone(), why);
        level
    }

    /// The API has let the pod go.
    pub fn forget(&mut self, uid: &PodUid) {
        self.problems.remove(uid);
    }

    /// A pod whose last release failed, and why.
    pub fn first_problem(&self) -> Option<(&PodUid, &str)> {
        self.problems.first_key_value().map(|(uid, why)| (uid, why.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_for_each_reason() {
        let (mut releases, uid) = (Releases::default(), PodUid::from("a"));
        for (why, level) in [("busy", LogLevel::Normal), ("busy", LogLevel::Debug), ("gone", LogLevel::Normal)] {
            assert!(releases.begin(&uid) && !releases.begin(&uid), "one at a time");
            assert_eq!(releases.fail(&uid, why.to_owned()), level, "{why}");
            assert_eq!(releases.first_problem(), Some((&uid, why)));
        }
        assert!(releases.begin(&uid));
        releases.succeed(&uid);
        assert_eq!(releases.first_problem(), None);
    }
}
