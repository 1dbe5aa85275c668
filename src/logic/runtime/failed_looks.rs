//! Pods that could not be looked at: why, and which of them wait for the next try.
//!
//! Pure; owned by `Pleg`.

use std::collections::{BTreeMap, BTreeSet};

use crate::logic::model::ids::PodUid;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct FailedLooks {
    /// Pods that could not be looked at, or told of, and wait for the next try.
    waiting: BTreeSet<PodUid>,
    /// Why pods could not be looked at, until they can.
    failing: BTreeMap<PodUid, String>,
}

impl FailedLooks {
    /// The pod could be looked at.
    pub fn succeeded(&mut self, uid: &PodUid) {
        self.failing.remove(uid);
    }

    /// The pod could not be looked at; whether the reason is news.
    pub fn failed(&mut self, uid: &PodUid, why: &str) -> bool {
        self.failing.insert(uid.clone(), why.to_owned()).as_deref() != Some(why)
    }

    /// The pod is to be tried again after a wait; whether that wait begins now, because none is running.
    pub fn wait(&mut self, uid: &PodUid) -> bool {
        self.waiting.insert(uid.clone())
    }

    /// The wait for the next try is over.
    pub fn waited(&mut self, uid: &PodUid) {
        self.waiting.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_news_once_until_a_look_succeeds() {
        let (mut looks, uid) = (FailedLooks::default(), PodUid::from("u"));
        for (why, is_news) in [("slow", true), ("slow", false), ("gone", true), ("slow", true)] {
            assert_eq!(looks.failed(&uid, why), is_news, "{why}");
        }
        looks.succeeded(&uid);
        assert!(looks.failed(&uid, "slow"));
    }

    #[test]
    fn one_wait_serves_all_requests() {
        let (mut looks, uid) = (FailedLooks::default(), PodUid::from("u"));
        assert!(looks.wait(&uid));
        assert!(!looks.wait(&uid));
        looks.waited(&uid);
        assert!(looks.wait(&uid));
    }
}
