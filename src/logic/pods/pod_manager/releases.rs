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

    #[test]
    fn pods_are_released_side_by_side() {
        let (mut releases, [a, b]) = (Releases::default(), ["a", "b"].map(PodUid::from));
        assert!(releases.begin(&a) && releases.begin(&b), "each pod for itself");
        releases.succeed(&a);
        assert!(!releases.begin(&b), "b's release goes on");
        assert!(releases.begin(&a), "a's has ended");
    }

    /// VOL-13.
    #[test]
    fn a_reason_is_told_again_after_a_success_and_after_the_pod_was_gone() {
        for end in [Releases::succeed, Releases::forget] {
            let (mut releases, uid) = (Releases::default(), PodUid::from("a"));
            releases.begin(&uid);
            assert_eq!(releases.fail(&uid, "busy".to_owned()), LogLevel::Normal);
            end(&mut releases, &uid);
            assert_eq!(releases.first_problem(), None, "it is over");
            assert!(releases.begin(&uid));
            assert_eq!(releases.fail(&uid, "busy".to_owned()), LogLevel::Normal, "a new pod, and a new problem");
        }
    }

    #[test]
    fn problems_are_of_one_pod_each_and_the_first_pods_is_given() {
        let (mut releases, [a, b]) = (Releases::default(), ["a", "b"].map(PodUid::from));
        assert_eq!(releases.first_problem(), None);
        assert_eq!(releases.fail(&b, "busy".to_owned()), LogLevel::Normal);
        assert_eq!(releases.first_problem(), Some((&b, "busy")));
        assert_eq!(releases.fail(&a, "busy".to_owned()), LogLevel::Normal, "the same reason, of another pod");
        assert_eq!(releases.first_problem(), Some((&a, "busy")));
        releases.forget(&a);
        assert_eq!(releases.first_problem(), Some((&b, "busy")), "b stays in the API");
    }

    /// The API server lets a pod go while its release hangs.
    #[test]
    fn a_pod_that_is_forgotten_still_has_its_release_under_way() {
        let (mut releases, uid) = (Releases::default(), PodUid::from("a"));
        assert!(releases.begin(&uid));
        releases.forget(&uid);
        assert!(!releases.begin(&uid), "a second one would unmount the same volumes");
        releases.succeed(&uid);
        assert!(releases.begin(&uid));
    }
}
