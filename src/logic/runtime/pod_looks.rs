//! Which pods are being looked at, which are to be looked at again, and of which that fails.
//!
//! Pure; owned by `Pleg`. One look at a pod is under way at a time: a request during it leads to one more, because the
//! look may have missed what the request is about.

use std::collections::{BTreeMap, BTreeSet};

use crate::logic::model::ids::PodUid;
use crate::logic::model::time::Stamp;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct PodLooks {
    /// Since when.
    under_way: BTreeMap<PodUid, Stamp>,
    again: BTreeSet<PodUid>,
    /// Pods that could not be looked at, or told of, and wait for the next try.
    waiting: BTreeSet<PodUid>,
    /// Why pods could not be looked at, until they can.
    failing: BTreeMap<PodUid, String>,
}

impl PodLooks {
    /// Asks for a look; whether it begins now.
    pub fn begin(&mut self, uid: &PodUid, now: Stamp) -> bool {
        let begins = !self.under_way.contains_key(uid);
        match begins {
            true => drop(self.under_way.insert(uid.clone(), now)),
            false => drop(self.again.insert(uid.clone())),
        }
        begins
    }

    /// Whether the look under way began after this: it will show all that was there by then.
    pub fn began_after(&self, uid: &PodUid, taken: Stamp) -> bool {
        self.under_way.get(uid).is_some_and(|began| *began > taken)
    }

    /// The look under way ended, well or not.
    pub fn end(&mut self, uid: &PodUid) {
        let was_under_way = self.under_way.remove(uid).is_some();
        debug_assert!(was_under_way, "a look at {uid} ends that never began");
    }

    /// Whether there was a request during the look that ended; it is met now.
    pub fn take_again(&mut self, uid: &PodUid) -> bool {
        debug_assert!(!self.under_way.contains_key(uid), "the look at {uid} has not ended");
        self.again.remove(uid)
    }

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
    fn a_request_during_a_look_leads_to_one_more_look() {
        let (mut looks, one, other) = (PodLooks::default(), PodUid::from("one"), PodUid::from("other"));
        let at = Stamp;
        assert!(looks.begin(&one, at(1)) && looks.begin(&other, at(2)), "looks at two pods do not wait for each other");
        assert!(!looks.begin(&one, at(3)) && !looks.begin(&one, at(4)));
        let after = |looks: &PodLooks| [0, 1].map(|taken| looks.began_after(&one, at(taken)));
        assert_eq!(after(&looks), [true, false]);
        looks.end(&one);
        assert!(looks.take_again(&one));
        assert_eq!(after(&looks), [false, false]);
        assert!(looks.begin(&one, at(5)));
        looks.end(&one);
        looks.end(&other);
        assert!(!looks.take_again(&one) && !looks.take_again(&other));
    }

    #[test]
    fn a_reason_is_news_once_until_a_look_succeeds() {
        let (mut looks, uid) = (PodLooks::default(), PodUid::from("u"));
        for (why, is_news) in [("slow", true), ("slow", false), ("gone", true), ("slow", true)] {
            assert_eq!(looks.failed(&uid, why), is_news, "{why}");
        }
        looks.succeeded(&uid);
        assert!(looks.failed(&uid, "slow"));
    }

    #[test]
    fn one_wait_serves_all_requests() {
        let (mut looks, uid) = (PodLooks::default(), PodUid::from("u"));
        assert!(looks.wait(&uid));
        assert!(!looks.wait(&uid));
        looks.waited(&uid);
        assert!(looks.wait(&uid));
    }
}
